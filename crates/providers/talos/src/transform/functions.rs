//! The functions that rules may call, beside those of the language.

use std::sync::{Arc, LazyLock};

use base64::Engine as _;
use base64::alphabet::STANDARD as ALPHABET;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use bowline_templates::{Function, Functions, GoRegex, Kind, LONGEST_TEXT, Value};

const TEXT: &[Kind] = &[Kind::Text];
const TWO_TEXTS: &[Kind] = &[Kind::Text, Kind::Text];
const THREE_TEXTS: &[Kind] = &[Kind::Text, Kind::Text, Kind::Text];

pub(super) static FUNCTIONS: LazyLock<Arc<Functions>> =
    LazyLock::new(|| Arc::new(Functions::builtin().with(OWN)));

/// As Go decodes: padding is a must, stray bits at the end are not looked at.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &ALPHABET,
    GeneralPurposeConfig::new()
        .with_decode_allow_trailing_bits(true)
        .with_decode_padding_mode(DecodePaddingMode::RequireCanonical),
);

type Answer = Result<Value, String>;

const fn row(
    name: &'static str,
    parameters: &'static [Kind],
    call: fn(&[Value]) -> Answer,
) -> (&'static str, Function) {
    (name, Function::new(parameters, call))
}

const OWN: &[(&str, Function)] = &[
    row("default", &[Kind::Anything, Kind::Anything], default),
    row("empty", &[Kind::Anything], |args| {
        Ok(Value::Bool(args[0].is_zero()))
    }),
    (
        "coalesce",
        Function::with_rest(&[], Kind::Anything, coalesce),
    ),
    row(
        "ternary",
        &[Kind::Anything, Kind::Anything, Kind::Boolean],
        ternary,
    ),
    row("upper", TEXT, |args| text(args, 0).map(upper).map(own)),
    row("lower", TEXT, |args| text(args, 0).map(lower).map(own)),
    row("trim", TEXT, |args| Ok(Value::text(text(args, 0)?.trim()))),
    row("trimSuffix", TWO_TEXTS, trim_suffix),
    row("trimPrefix", TWO_TEXTS, trim_prefix),
    row("replace", THREE_TEXTS, replace),
    row("regexFind", TWO_TEXTS, regex_find),
    row(
        "regexFindString",
        &[Kind::Text, Kind::Text, Kind::Integer],
        regex_find_string,
    ),
    row("regexReplaceAll", THREE_TEXTS, regex_replace_all),
    row("contains", TWO_TEXTS, |args| {
        asks(args, |part, whole| whole.contains(part))
    }),
    row("hasPrefix", TWO_TEXTS, |args| {
        asks(args, |part, whole| whole.starts_with(part))
    }),
    row("hasSuffix", TWO_TEXTS, |args| {
        asks(args, |part, whole| whole.ends_with(part))
    }),
    row("b64enc", TEXT, |args| {
        Ok(own(BASE64.encode(text(args, 0)?)))
    }),
    row("b64dec", TEXT, decode),
    row("getValue", TWO_TEXTS, get_value),
];

/// The text argument at an index; the engine has checked that there is one.
fn text(args: &[Value], index: usize) -> Result<&str, String> {
    match args.get(index) {
        Some(Value::Text(text)) => Ok(text),
        _ => Err("expected a text".to_owned()),
    }
}

fn own(text: String) -> Value {
    Value::Text(text.into())
}

fn asks(args: &[Value], question: fn(&str, &str) -> bool) -> Answer {
    Ok(Value::Bool(question(text(args, 0)?, text(args, 1)?)))
}

fn default(args: &[Value]) -> Answer {
    let [fallback, value] = args else {
        return Err("expected two values".to_owned());
    };
    Ok(if value.is_zero() { fallback } else { value }.clone())
}

#[expect(clippy::unnecessary_wraps, reason = "the form that all functions have")]
fn coalesce(args: &[Value]) -> Answer {
    let first = args.iter().find(|value| !value.is_zero());
    Ok(first.cloned().unwrap_or(Value::Nothing))
}

fn ternary(args: &[Value]) -> Answer {
    match args {
        [yes, _, Value::Bool(true)] => Ok(yes.clone()),
        [_, no, Value::Bool(false)] => Ok(no.clone()),
        _ => Err("expected a condition".to_owned()),
    }
}

/// Greek letters whose upper case has the iota beside them in full and below them in short: the
/// first of a row of eight, or one alone, and how far its simple upper case is.
const IOTA_ROWS: [(u32, u32, u32); 6] = [
    (0x1F80, 0x1F87, 8),
    (0x1F90, 0x1F97, 8),
    (0x1FA0, 0x1FA7, 8),
    (0x1FB3, 0x1FB3, 9),
    (0x1FC3, 0x1FC3, 9),
    (0x1FF3, 0x1FF3, 9),
];

/// One character for one, as Unicode's simple mapping has it.
fn upper(text: &str) -> String {
    let simple = |c: char| {
        let mut full = c.to_uppercase();
        if let (Some(upper), None) = (full.next(), full.next()) {
            return upper;
        }
        let code = u32::from(c);
        let row = IOTA_ROWS
            .iter()
            .find(|(from, to, _)| (*from..=*to).contains(&code));
        let upper = row.and_then(|(_, _, step)| char::from_u32(code + step));
        upper.unwrap_or(c)
    };
    text.chars().map(simple).collect()
}

/// The first character of the full mapping is the simple one; only `İ` has more.
fn lower(text: &str) -> String {
    text.chars()
        .map(|c| c.to_lowercase().next().unwrap_or(c))
        .collect()
}

fn trim_suffix(args: &[Value]) -> Answer {
    let (suffix, whole) = (text(args, 0)?, text(args, 1)?);
    Ok(Value::text(whole.strip_suffix(suffix).unwrap_or(whole)))
}

fn trim_prefix(args: &[Value]) -> Answer {
    let (prefix, whole) = (text(args, 0)?, text(args, 1)?);
    Ok(Value::text(whole.strip_prefix(prefix).unwrap_or(whole)))
}

fn replace(args: &[Value]) -> Answer {
    let (old, new, whole) = (text(args, 0)?, text(args, 1)?, text(args, 2)?);
    let longest = whole.len() + whole.matches(old).count().saturating_mul(new.len());
    if longest > LONGEST_TEXT {
        return Err(format!(
            "the text would be longer than {LONGEST_TEXT} bytes"
        ));
    }
    if !old.is_empty() {
        return Ok(own(whole.replace(old, new)));
    }
    // Go puts the new text before every character and at the end, which is what Rust does.
    Ok(own(whole.replace("", new)))
}

fn expression(pattern: &str) -> Result<GoRegex, String> {
    GoRegex::new(pattern).map_err(|error| error.to_string())
}

fn regex_find(args: &[Value]) -> Answer {
    let found = expression(text(args, 0)?)?;
    Ok(Value::text(found.find(text(args, 1)?).unwrap_or("")))
}

fn regex_find_string(args: &[Value]) -> Answer {
    let pattern = expression(text(args, 0)?)?;
    let Some(Value::Int(group)) = args.get(2) else {
        return Err("expected the number of a group".to_owned());
    };
    let group = usize::try_from(*group).map_err(|_| format!("there is no group {group}"))?;
    Ok(Value::text(
        pattern.group(text(args, 1)?, group).unwrap_or(""),
    ))
}

fn regex_replace_all(args: &[Value]) -> Answer {
    let pattern = expression(text(args, 0)?)?;
    pattern.replace_all(text(args, 1)?, text(args, 2)?).map(own)
}

fn decode(args: &[Value]) -> Answer {
    // Go does not mind line breaks inside.
    let encoded: String = text(args, 0)?
        .chars()
        .filter(|c| !matches!(c, '\r' | '\n'))
        .collect();
    let bytes = BASE64
        .decode(encoded)
        .map_err(|error| format!("illegal base64 data: {error}"))?;
    let decoded = String::from_utf8(bytes).map_err(|_| "what is decoded is no text".to_owned())?;
    Ok(own(decoded))
}

/// `key=value;key=value`: the value of the first part of that very name, up to a second `=`.
fn get_value(args: &[Value]) -> Answer {
    let (source, key) = (text(args, 0)?, text(args, 1)?);
    let value = source.split(';').find_map(|part| {
        let mut pieces = part.split('=');
        (pieces.next() == Some(key)).then(|| pieces.next().unwrap_or(""))
    });
    Ok(Value::text(value.unwrap_or("")))
}
