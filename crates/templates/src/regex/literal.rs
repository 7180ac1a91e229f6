//! Characters that stand for themselves, escapes, and counts in braces.

/// A character that stands for itself.
pub(super) fn escaped(c: char) -> String {
    if c.is_alphanumeric() || c == '_' || c == ' ' {
        c.to_string()
    } else {
        format!("\\x{{{:X}}}", u32::from(c))
    }
}

/// How often something is repeated.
pub(super) struct Count {
    pub(super) length: usize,
    pub(super) least: u32,
    pub(super) most: Option<u32>,
}

/// `{n}`, `{n,}` or `{n,m}`; anything else is no count.
pub(super) fn count(text: &str) -> Option<Count> {
    let inner = text.strip_prefix('{')?;
    let end = inner.find('}')?;
    let body = &inner[..end];
    let (least, most) = match body.split_once(',') {
        None => (number(body)?, Some(number(body)?)),
        Some((least, "")) => (number(least)?, None),
        Some((least, most)) => (number(least)?, Some(number(most)?)),
    };
    Some(Count {
        length: end + 2,
        least,
        most,
    })
}

/// A number without leading zeros; one that is too large is larger than any limit.
fn number(text: &str) -> Option<u32> {
    let digits = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    let canonical = digits && (text == "0" || !text.starts_with('0'));
    canonical.then(|| text.parse().unwrap_or(u32::MAX))
}

/// An escape that stands for one character, and its length.
pub(super) fn character(text: &str) -> Result<(char, usize), String> {
    let mut chars = text.chars();
    chars.next();
    let Some(letter) = chars.next() else {
        return Err("trailing backslash at end of expression: ``".to_owned());
    };
    let shown = &text[..=letter.len_utf8()];
    let invalid = || format!("invalid escape sequence: `{shown}`");
    let simple = |c: char| Ok((c, 2));
    match letter {
        'a' => simple('\u{7}'),
        'f' => simple('\u{c}'),
        'n' => simple('\n'),
        'r' => simple('\r'),
        't' => simple('\t'),
        'v' => simple('\u{b}'),
        '0'..='7' => octal(&text[1..]).ok_or_else(invalid),
        'x' => hexadecimal(&text[2..]).ok_or_else(invalid),
        c if c.is_ascii() && !c.is_ascii_alphanumeric() => simple(c),
        _ => Err(invalid()),
    }
}

/// Up to three octal digits; a single one but zero would be a back-reference.
fn octal(text: &str) -> Option<(char, usize)> {
    let digits: String = text.chars().take(3).take_while(|c| c.is_digit(8)).collect();
    if digits.len() == 1 && digits != "0" {
        return None;
    }
    let code = u32::from_str_radix(&digits, 8).ok()?;
    Some((char::from_u32(code)?, 1 + digits.len()))
}

/// Two hexadecimal digits, or any number of them in braces.
fn hexadecimal(text: &str) -> Option<(char, usize)> {
    let (digits, length) = match text.strip_prefix('{') {
        Some(inner) => {
            let end = inner.find('}')?;
            (&inner[..end], end + 4)
        }
        None => (text.get(..2)?, 4),
    };
    if !digits.bytes().all(|b| b.is_ascii_hexdigit()) {
        return None;
    }
    let code = u32::from_str_radix(digits, 16).ok()?;
    Some((char::from_u32(code)?, length))
}
