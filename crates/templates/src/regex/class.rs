//! Sets of characters: `[…]`, `\d`, `[:alpha:]`, `\pL`.

/// `\d`, `\s`, `\w` and their negations, as a class of Rust's; ASCII alone.
pub(super) fn perl(letter: char) -> Option<&'static str> {
    Some(match letter {
        'd' => "[0-9]",
        'D' => "[^0-9]",
        's' => "[\\t\\n\\x0C\\r ]",
        'S' => "[^\\t\\n\\x0C\\r ]",
        'w' => "[0-9A-Za-z_]",
        'W' => "[^0-9A-Za-z_]",
        _ => return None,
    })
}

/// `[:alpha:]` and its kind; both engines have the same fourteen, ASCII alone.
pub(super) fn is_posix(name: &str) -> bool {
    matches!(
        name.strip_prefix('^').unwrap_or(name),
        "alnum"
            | "alpha"
            | "ascii"
            | "blank"
            | "cntrl"
            | "digit"
            | "graph"
            | "lower"
            | "print"
            | "punct"
            | "space"
            | "upper"
            | "word"
            | "xdigit"
    )
}

/// `\p` and what follows it: the class in Rust's spelling, and its length in the pattern.
pub(super) fn unicode(text: &str) -> Result<(String, usize), String> {
    let invalid = |shown: &str| format!("invalid character class range: `{shown}`");
    let mut chars = text.chars();
    let _backslash = chars.next();
    let mut negated = chars.next() == Some('P');
    let rest = chars.as_str();
    let (name, length) = if let Some(inner) = rest.strip_prefix('{') {
        let end = inner.find('}').ok_or_else(|| invalid(text))?;
        (&inner[..end], end + 4)
    } else {
        let first = rest.chars().next().ok_or_else(|| invalid(text))?;
        (&rest[..first.len_utf8()], 2 + first.len_utf8())
    };
    let shown = &text[..length];
    let plain = match name.strip_prefix('^') {
        Some(plain) => {
            negated = !negated;
            plain
        }
        None => name,
    };
    // Neither engine minds how a name is spelled, but this one also knows `name=value`.
    let well_formed = !plain.is_empty()
        && plain
            .chars()
            .all(|c| c.is_ascii_alphabetic() || matches!(c, '_' | '-' | ' '));
    if !well_formed {
        return Err(invalid(shown));
    }
    let letter = if negated { 'P' } else { 'p' };
    Ok((format!("\\{letter}{{{plain}}}"), length))
}
