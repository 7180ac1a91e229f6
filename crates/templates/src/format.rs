//! `printf`.

use std::fmt::Write as _;
use std::sync::LazyLock;

use regex::Regex;

use crate::buffer::Buffer;
use crate::number::{exponential, general};
use crate::{Record, Value};

/// How one verb is to be shown.
#[expect(
    clippy::struct_excessive_bools,
    reason = "the five flags of the language"
)]
#[derive(Clone, Copy, Default)]
struct Style {
    minus: bool,
    plus: bool,
    sharp: bool,
    zero: bool,
    space: bool,
    width: usize,
    precision: Option<usize>,
}

type Written = Result<(), String>;

/// Fills in a format. A wrong verb, a missing or an extra argument is shown, not an error. Argument
/// numbers (`%[1]d`) and widths from arguments (`%*d`) are not known: their verbs are shown as wrong.
pub(crate) fn printf(layout: &str, values: &[Value]) -> Result<String, String> {
    let mut out = Buffer::default();
    let mut values = values.iter();
    let mut rest = layout;
    while let Some(at) = rest.find('%') {
        out.push(&rest[..at])?;
        let (style, verb, after) = style(&rest[at + 1..]);
        rest = after;
        match verb {
            None => out.push("%!(NOVERB)")?,
            Some('%') => out.push("%")?,
            Some(verb) => match values.next() {
                None => out.push(&format!("%!{verb}(MISSING)"))?,
                Some(value) => show(&mut out, style, verb, value)?,
            },
        }
    }
    out.push(rest)?;
    extra(&mut out, values.as_slice())?;
    Ok(out.finish())
}

fn extra(out: &mut Buffer, left: &[Value]) -> Written {
    for (at, value) in left.iter().enumerate() {
        out.push(if at == 0 { "%!(EXTRA " } else { ", " })?;
        named(out, Style::default(), value)?;
    }
    if left.is_empty() {
        Ok(())
    } else {
        out.push(")")
    }
}

/// `int=1`.
fn named(out: &mut Buffer, style: Style, value: &Value) -> Written {
    if *value == Value::Nothing {
        return out.push("<nil>");
    }
    out.push(value.type_name())?;
    out.push("=")?;
    show(out, style, 'v', value)
}

/// The flags, width and precision before a verb, the verb, and what follows.
fn style(text: &str) -> (Style, Option<char>, &str) {
    let mut style = Style::default();
    let mut rest = text;
    loop {
        match rest.bytes().next() {
            Some(b'-') => style.minus = true,
            Some(b'+') => style.plus = true,
            Some(b'#') => style.sharp = true,
            Some(b'0') => style.zero = true,
            Some(b' ') => style.space = true,
            _ => break,
        }
        rest = &rest[1..];
    }
    style.zero &= !style.minus;
    let (width, after) = number(rest);
    style.width = width;
    rest = after;
    if let Some(after) = rest.strip_prefix('.') {
        let (precision, after) = number(after);
        style.precision = Some(precision);
        rest = after;
    }
    let mut chars = rest.chars();
    let verb = chars.next();
    (style, verb, chars.as_str())
}

/// A number of as many digits as there are. A huge one is caught by the limit of the text.
fn number(text: &str) -> (usize, &str) {
    let rest = text.trim_start_matches(|c: char| c.is_ascii_digit());
    let digits = &text[..text.len() - rest.len()];
    let number = if digits.is_empty() {
        0
    } else {
        digits.parse().unwrap_or(usize::MAX)
    };
    (number, rest)
}

fn show(out: &mut Buffer, style: Style, verb: char, value: &Value) -> Written {
    if verb == 'T' {
        let name = match value {
            Value::Nothing => "<nil>",
            other => other.type_name(),
        };
        return pad(out, style, name);
    }
    match value {
        Value::Nothing if verb == 'v' => pad(out, style, "<nil>"),
        Value::Bool(truth) if matches!(verb, 't' | 'v') => pad(out, style, &truth.to_string()),
        Value::Int(number) => integer(out, style, verb, *number, value),
        Value::Byte(byte) => integer(out, style, verb, i64::from(*byte), value),
        Value::Float(number) => float(out, style, verb, *number, value),
        Value::Text(text) => string(out, style, verb, text, value),
        Value::Map(map) => {
            out.push("map[")?;
            for (at, (key, value)) in map.iter().enumerate() {
                out.push(if at == 0 { "" } else { " " })?;
                show(out, style, verb, &Value::text(key))?;
                out.push(":")?;
                show(out, style, verb, &Value::text(value))?;
            }
            out.push("]")
        }
        Value::Record(fields) => record(out, style, verb, fields),
        Value::Nothing | Value::Bool(_) => wrong(out, style, verb, value),
    }
}

fn record(out: &mut Buffer, style: Style, verb: char, record: &Record) -> Written {
    out.push("{")?;
    for (at, (name, value)) in record.fields.iter().enumerate() {
        out.push(if at == 0 { "" } else { " " })?;
        if verb == 'v' && style.plus {
            out.push(name)?;
            out.push(":")?;
        }
        show(out, style, verb, value)?;
    }
    out.push("}")
}

/// `%!d(string=x)`.
fn wrong(out: &mut Buffer, style: Style, verb: char, value: &Value) -> Written {
    out.push(&format!("%!{verb}("))?;
    named(out, style, value)?;
    out.push(")")
}

fn pad(out: &mut Buffer, style: Style, text: &str) -> Written {
    let missing = style.width.saturating_sub(text.chars().count());
    if style.minus {
        out.push(text)?;
        out.repeat(' ', missing)
    } else {
        out.repeat(if style.zero { '0' } else { ' ' }, missing)?;
        out.push(text)
    }
}

fn integer(out: &mut Buffer, style: Style, verb: char, number: i64, value: &Value) -> Written {
    let magnitude = number.unsigned_abs();
    let (digits, prefix) = match verb {
        'd' | 'v' => (magnitude.to_string(), ""),
        'b' => (format!("{magnitude:b}"), "0b"),
        'o' => (format!("{magnitude:o}"), "0"),
        'O' => (format!("{magnitude:o}"), "0o"),
        'x' => (format!("{magnitude:x}"), "0x"),
        'X' => (format!("{magnitude:X}"), "0X"),
        'c' | 'q' | 'U' => return code_point(out, style, verb, number),
        _ => return wrong(out, style, verb, value),
    };
    let sign = if number < 0 {
        "-"
    } else if style.plus {
        "+"
    } else if style.space {
        " "
    } else {
        ""
    };
    if style.precision == Some(0) && number == 0 {
        return out.repeat(' ', style.width);
    }
    let prefix = match verb {
        'O' => prefix,
        'o' if style.sharp && !digits.starts_with('0') => prefix,
        'b' | 'x' | 'X' if style.sharp => prefix,
        _ => "",
    };
    let zeros = match style.precision {
        Some(precision) => precision.saturating_sub(digits.len()),
        None if style.zero => style.width.saturating_sub(sign.len() + digits.len()),
        None => 0,
    };
    let mut shown = Buffer::default();
    shown.push(sign)?;
    shown.push(prefix)?;
    shown.repeat('0', zeros)?;
    shown.push(&digits)?;
    let style = Style {
        zero: false,
        ..style
    };
    pad(out, style, &shown.finish())
}

fn code_point(out: &mut Buffer, style: Style, verb: char, number: i64) -> Written {
    let point = u32::try_from(number).ok().and_then(char::from_u32);
    let character = point.unwrap_or('\u{fffd}');
    let shown = match verb {
        'c' => character.to_string(),
        'q' => quote(character.encode_utf8(&mut [0; 4]), '\'', style.plus),
        _ if style.sharp => format!("U+{number:04X} '{character}'"),
        _ => format!("U+{number:04X}"),
    };
    let zero = style.zero && verb != 'U';
    pad(out, Style { zero, ..style }, &shown)
}

fn float(out: &mut Buffer, style: Style, verb: char, number: f64, value: &Value) -> Written {
    // More digits than this are zeros; the limit of the text comes much earlier.
    const MOST_DIGITS: usize = 4096;
    let precision = style.precision.map(|digits| digits.min(MOST_DIGITS));
    let shown = match verb {
        'v' | 'g' => general(number, precision),
        'G' => general(number, precision).to_uppercase(),
        'e' => exponential(number, Some(precision.unwrap_or(6))),
        'E' => exponential(number, Some(precision.unwrap_or(6))).to_uppercase(),
        'f' | 'F' => format!("{number:.*}", precision.unwrap_or(6)),
        _ => return wrong(out, style, verb, value),
    };
    let (sign, digits) = match shown.strip_prefix('-') {
        Some(digits) => ("-", digits),
        None if style.plus => ("+", shown.as_str()),
        None if style.space => (" ", shown.as_str()),
        None => ("", shown.as_str()),
    };
    if style.zero && !sign.is_empty() {
        out.push(sign)?;
        let width = style.width.saturating_sub(1);
        return pad(out, Style { width, ..style }, digits);
    }
    pad(out, style, &format!("{sign}{digits}"))
}

fn string(out: &mut Buffer, style: Style, verb: char, text: &str, value: &Value) -> Written {
    let cut = |text: &str| -> String {
        let most = style.precision.unwrap_or(usize::MAX);
        text.chars().take(most).collect()
    };
    match verb {
        'v' if style.sharp => pad(out, style, &quote(&cut(text), '"', false)),
        'v' | 's' => pad(out, style, &cut(text)),
        'q' => {
            let text = cut(text);
            let plain = !text
                .chars()
                .any(|c| c == '`' || (c.is_control() && c != '\t'));
            if style.sharp && plain {
                pad(out, style, &format!("`{text}`"))
            } else {
                pad(out, style, &quote(&text, '"', style.plus))
            }
        }
        'x' | 'X' => {
            let most = style.precision.unwrap_or(usize::MAX);
            let bytes: Vec<String> = text
                .bytes()
                .take(most)
                .map(|byte| match verb {
                    'x' => format!("{byte:02x}"),
                    _ => format!("{byte:02X}"),
                })
                .collect();
            let prefix = if style.sharp { &format!("0{verb}") } else { "" };
            let shown = match (style.space, bytes.is_empty()) {
                (_, true) => String::new(),
                (true, _) => format!("{prefix}{}", bytes.join(&format!(" {prefix}"))),
                (false, _) => format!("{prefix}{}", bytes.concat()),
            };
            pad(out, style, &shown)
        }
        _ => wrong(out, style, verb, value),
    }
}

/// Whether Unicode counts a character among the controls, separators, or what is not assigned.
fn is_unseen(c: char) -> bool {
    static UNSEEN: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(r"[\p{C}\p{Z}]").ok());
    let unseen = UNSEEN.as_ref();
    unseen.is_some_and(|unseen| unseen.is_match(c.encode_utf8(&mut [0; 4])))
}

/// In quotes, with Go's escapes.
fn quote(text: &str, quote: char, ascii: bool) -> String {
    let mut out = String::from(quote);
    for c in text.chars() {
        match c {
            '\u{7}' => out.push_str("\\a"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{b}' => out.push_str("\\v"),
            '\\' => out.push_str("\\\\"),
            c if c == quote => out.extend(['\\', c]),
            c if c.is_ascii_control() => {
                // Writing to a string cannot fail.
                let _ = write!(out, "\\x{:02x}", u32::from(c));
            }
            c if c.is_ascii() => out.push(c),
            c if ascii || is_unseen(c) => {
                let code = u32::from(c);
                let escaped = if code < 0x1_0000 {
                    format!("\\u{code:04x}")
                } else {
                    format!("\\U{code:08x}")
                };
                out.push_str(&escaped);
            }
            c => out.push(c),
        }
    }
    out.push(quote);
    out
}
