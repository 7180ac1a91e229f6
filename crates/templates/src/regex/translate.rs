//! Reads a pattern as Go does and writes it as Rust's engine wants it.

use super::class;
use super::literal::{Count, character, count, escaped};

/// The largest count in braces.
const LARGEST_COUNT: u32 = 1000;
/// How deep groups may be nested; the engine's own limit is higher.
const DEEPEST: usize = 200;

/// A pattern in Rust's syntax, and what it does not say.
#[derive(Debug)]
pub(super) struct Translated {
    pub(super) pattern: String,
    pub(super) names: Vec<Option<String>>,
}

/// Translates a pattern; the error is a sentence.
pub(super) fn translate(pattern: &str) -> Result<Translated, String> {
    let mut reader = Reader {
        rest: pattern,
        out: String::with_capacity(pattern.len() + 16),
        names: Vec::new(),
        groups: Vec::new(),
        previous: Previous::Nothing,
        start: 0,
        pending: String::new(),
        largest: 1,
    };
    while let Some(first) = reader.rest.chars().next() {
        reader.piece(first)?;
    }
    reader.flush();
    if !reader.groups.is_empty() {
        return Err(format!("missing closing ): `{pattern}`"));
    }
    Ok(Translated {
        pattern: reader.out,
        names: reader.names,
    })
}

/// What a repetition would repeat.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Previous {
    /// The beginning of a pattern, group or alternative.
    Nothing,
    /// Something, which itself holds repetitions that often.
    Something(u32),
    /// A repetition: another one is an error.
    Repetition,
}

struct Reader<'a> {
    rest: &'a str,
    out: String,
    names: Vec<Option<String>>,
    /// For every open group where it begins, and how often the parts outside of it, as far as read,
    /// are repeated at most.
    groups: Vec<(usize, u32)>,
    previous: Previous,
    /// Where the last atom begins in what is written.
    start: usize,
    /// Flags that came after an atom: Go lets a repetition look through them.
    pending: String,
    /// The largest product of nested counts in the group that is being read.
    largest: u32,
}

impl<'a> Reader<'a> {
    fn skip(&mut self, bytes: usize) {
        self.rest = &self.rest[bytes..];
    }

    fn flush(&mut self) {
        let pending = std::mem::take(&mut self.pending);
        self.out.push_str(&pending);
    }

    fn atom(&mut self, written: &str, length: usize) {
        self.flush();
        self.start = self.out.len();
        self.out.push_str(written);
        self.skip(length);
        self.previous = Previous::Something(1);
    }

    fn literal(&mut self, c: char, length: usize) {
        let written = escaped(c);
        self.atom(&written, length);
    }

    fn piece(&mut self, first: char) -> Result<(), String> {
        match first {
            '(' => return self.open(),
            ')' => return self.close(),
            '|' => {
                self.flush();
                self.out.push('|');
                self.skip(1);
                self.previous = Previous::Nothing;
            }
            '^' | '$' | '.' => self.atom(first.encode_utf8(&mut [0; 4]), 1),
            '[' => return self.class(),
            '*' | '+' | '?' => return self.repeat(1, 1),
            '{' => match count(self.rest) {
                None => self.literal('{', 1),
                Some(Count {
                    length,
                    least,
                    most,
                }) => {
                    let shown = &self.rest[..length];
                    let largest = most.unwrap_or(least).max(least);
                    if largest > LARGEST_COUNT || most.is_some_and(|most| most < least) {
                        return Err(format!("invalid repeat count: `{shown}`"));
                    }
                    return self.repeat(length, largest.max(1));
                }
            },
            '\\' => return self.escape(),
            c => self.literal(c, c.len_utf8()),
        }
        Ok(())
    }

    fn repeat(&mut self, length: usize, count: u32) -> Result<(), String> {
        let lazy = usize::from(self.rest[length..].starts_with('?'));
        let shown = &self.rest[..length + lazy];
        let inner = match self.previous {
            Previous::Nothing => {
                return Err(format!(
                    "missing argument to repetition operator: `{shown}`"
                ));
            }
            Previous::Repetition => {
                return Err(format!("invalid nested repetition operator: `{shown}`"));
            }
            Previous::Something(inner) => inner,
        };
        let product = inner.saturating_mul(count);
        if product > LARGEST_COUNT {
            return Err(format!("invalid repeat count: `{shown}`"));
        }
        self.largest = self.largest.max(product);
        if !self.pending.is_empty() {
            // What is repeated may be a repetition itself: a question mark would mean another thing.
            self.out.insert_str(self.start, "(?:");
            self.out.push(')');
        }
        self.out.push_str(shown);
        self.skip(length + lazy);
        self.previous = Previous::Repetition;
        Ok(())
    }

    fn open(&mut self) -> Result<(), String> {
        if self.groups.len() == DEEPEST {
            return Err(format!("expression nests more than {DEEPEST} levels deep"));
        }
        let Some(flags) = self.rest.strip_prefix("(?") else {
            self.names.push(None);
            self.enter("(", 1);
            return Ok(());
        };
        for prefix in ["P<", "<"] {
            if let Some(named) = flags.strip_prefix(prefix)
                && !named.starts_with(['=', '!'])
            {
                return self.open_named(named, 2 + prefix.len());
            }
        }
        self.flags(flags)
    }

    fn enter(&mut self, written: &str, length: usize) {
        self.flush();
        self.groups.push((self.out.len(), self.largest));
        self.out.push_str(written);
        self.skip(length);
        self.largest = 1;
        self.previous = Previous::Nothing;
    }

    fn open_named(&mut self, named: &'a str, prefix: usize) -> Result<(), String> {
        let end = named.find('>');
        let name = end.map_or("", |end| &named[..end]);
        let well_formed =
            !name.is_empty() && name.bytes().all(|b| b == b'_' || b.is_ascii_alphanumeric());
        if !well_formed {
            return Err(format!("invalid named capture: `{}`", self.rest));
        }
        self.names.push(Some(name.to_owned()));
        self.enter("(", prefix + name.len() + 1);
        Ok(())
    }

    /// `(?i)`, `(?s-m:`; only the flags i, m, s and U exist.
    fn flags(&mut self, flags: &'a str) -> Result<(), String> {
        let invalid = || format!("invalid or unsupported Perl syntax: `(?{flags}`");
        let end = flags.find([':', ')']).ok_or_else(invalid)?;
        let letters = &flags[..end];
        let (on, off) = match letters.split_once('-') {
            Some((on, off)) if !off.is_empty() => (on, off),
            Some(_) => return Err(invalid()),
            None => (letters, ""),
        };
        let known = |c: char| matches!(c, 'i' | 'm' | 's' | 'U');
        if !on.chars().all(known) || !off.chars().all(known) {
            return Err(invalid());
        }
        // The engine refuses a flag that is given twice.
        let written = written_flags(on, off);
        let length = 2 + end + 1;
        if flags[end..].starts_with(':') {
            self.enter(&format!("(?{written}:"), length);
            return Ok(());
        }
        if !written.is_empty() {
            self.pending.extend(["(?", &written, ")"]);
        }
        if self.previous == Previous::Nothing {
            self.flush();
        }
        self.skip(length);
        // A repetition after flags is not a second one in a row.
        if self.previous == Previous::Repetition {
            self.previous = Previous::Something(1);
        }
        Ok(())
    }

    fn close(&mut self) -> Result<(), String> {
        let Some((start, outside)) = self.groups.pop() else {
            return Err(format!("unexpected ): `{}`", self.rest));
        };
        let inside = self.largest;
        self.largest = outside.max(inside);
        // Flags end with their group.
        self.pending.clear();
        self.out.push(')');
        self.start = start;
        self.skip(1);
        self.previous = Previous::Something(inside);
        Ok(())
    }

    fn escape(&mut self) -> Result<(), String> {
        let mut chars = self.rest.chars();
        chars.next();
        let Some(letter) = chars.next() else {
            return Err("trailing backslash at end of expression: ``".to_owned());
        };
        match letter {
            'A' => self.atom("\\A", 2),
            'z' => self.atom("\\z", 2),
            'b' => self.atom("(?-u:\\b)", 2),
            'B' => self.atom("(?-u:\\B)", 2),
            'Q' => self.quoted(),
            'p' | 'P' => {
                let (written, length) = class::unicode(self.rest)?;
                self.atom(&written, length);
            }
            _ => {
                if let Some(class) = class::perl(letter) {
                    self.atom(class, 2);
                } else {
                    let (c, length) = character(self.rest)?;
                    self.literal(c, length);
                }
            }
        }
        Ok(())
    }

    /// `\Q…\E`, or to the end of the pattern.
    fn quoted(&mut self) {
        self.skip(2);
        let (inner, length) = match self.rest.find("\\E") {
            Some(end) => (&self.rest[..end], end + 2),
            None => (self.rest, self.rest.len()),
        };
        self.flush();
        for c in inner.chars() {
            self.start = self.out.len();
            self.out.push_str(&escaped(c));
            self.previous = Previous::Something(1);
        }
        self.skip(length);
    }

    fn class(&mut self) -> Result<(), String> {
        let whole = self.rest;
        let unclosed = || format!("missing closing ]: `{whole}`");
        let mut out = String::from("[");
        self.skip(1);
        if self.rest.starts_with('^') {
            out.push('^');
            self.skip(1);
        }
        let mut first = true;
        while first || !self.rest.starts_with(']') {
            first = false;
            if self.rest.is_empty() {
                return Err(unclosed());
            }
            if let Some(named) = self.rest.strip_prefix("[:")
                && let Some(end) = named.find(":]")
            {
                let name = &named[..end];
                if !class::is_posix(name) {
                    return Err(format!("invalid character class range: `[:{name}:]`"));
                }
                out.extend(["[:", name, ":]"]);
                self.skip(end + 4);
                continue;
            }
            if self.class_escape(&mut out)? {
                continue;
            }
            self.class_range(&mut out, whole)?;
        }
        out.push(']');
        self.skip(1);
        self.atom(&out, 0);
        Ok(())
    }

    /// A class inside of a class.
    fn class_escape(&mut self, out: &mut String) -> Result<bool, String> {
        let mut chars = self.rest.chars();
        if chars.next() != Some('\\') {
            return Ok(false);
        }
        let Some(letter) = chars.next() else {
            return Ok(false);
        };
        if matches!(letter, 'p' | 'P') {
            let (written, length) = class::unicode(self.rest)?;
            out.push_str(&written);
            self.skip(length);
            return Ok(true);
        }
        match class::perl(letter) {
            Some(class) => {
                out.push_str(class);
                self.skip(2);
                Ok(true)
            }
            None => Ok(false),
        }
    }

    fn class_range(&mut self, out: &mut String, whole: &str) -> Result<(), String> {
        let start = self.rest;
        let low = self.class_character(whole)?;
        out.push_str(&escaped(low));
        let after = self.rest.strip_prefix('-');
        if let Some(after) = after
            && !after.is_empty()
            && !after.starts_with(']')
        {
            self.skip(1);
            let high = self.class_character(whole)?;
            if high < low {
                let shown = &start[..start.len() - self.rest.len()];
                return Err(format!("invalid character class range: `{shown}`"));
            }
            out.push('-');
            out.push_str(&escaped(high));
        }
        Ok(())
    }

    fn class_character(&mut self, whole: &str) -> Result<char, String> {
        let Some(first) = self.rest.chars().next() else {
            return Err(format!("missing closing ]: `{whole}`"));
        };
        let (c, length) = if first == '\\' {
            character(self.rest)?
        } else {
            (first, first.len_utf8())
        };
        self.skip(length);
        Ok(c)
    }
}

fn written_flags(on: &str, off: &str) -> String {
    let mut written = String::new();
    for (letters, sign) in [(on, ""), (off, "-")] {
        let mut any = false;
        for flag in "imsU".chars() {
            // What is switched off again is off.
            if letters.contains(flag) && (sign == "-" || !off.contains(flag)) {
                if !any {
                    written.push_str(sign);
                }
                any = true;
                written.push(flag);
            }
        }
    }
    written
}
