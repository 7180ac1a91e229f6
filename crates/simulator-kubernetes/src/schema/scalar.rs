//! Decoding of scalars: each type's accepted JSON, and its form when written.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde_json::Value;

use super::{Type, quantity::canonical};

/// What is wrong with a scalar.
pub(super) enum Problem {
    /// The JSON is of another kind: its name.
    Kind(String),
    /// The type has its own words.
    Text(String),
}

/// A scalar as it is kept.
pub(super) fn scalar(kind: &Type, value: Value) -> Result<Value, Problem> {
    match (kind, &value) {
        (Type::Text | Type::IntOrString, Value::String(_)) | (Type::Boolean, Value::Bool(_)) => {
            Ok(value)
        }
        (Type::Integer32 | Type::IntOrString, Value::Number(number)) => number
            .as_i64()
            .and_then(|number| i32::try_from(number).ok())
            .map(Value::from)
            .ok_or_else(|| Problem::Kind(format!("number {number}"))),
        (Type::Integer64, Value::Number(number)) => number
            .as_i64()
            .map(Value::from)
            .ok_or_else(|| Problem::Kind(format!("number {number}"))),
        (Type::Quantity, Value::Number(_) | Value::String(_)) => {
            let number = value.to_string();
            let text = value.as_str().unwrap_or(&number);
            canonical(text).map(Value::from).ok_or_else(|| {
                Problem::Text(
                    "quantities must match the regular expression \
             '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
                        .to_owned(),
                )
            })
        }
        (Type::Time, Value::String(text)) => moment(text, 0),
        (Type::MicroTime, Value::String(text)) => moment(text, 6),
        (Type::Bytes, Value::String(text)) => match STANDARD.decode(text) {
            Ok(_) => Ok(value),
            Err(_) => Err(Problem::Text(format!(
                "illegal base64 data at input byte {}",
                text.bytes()
                    .position(|b| !b.is_ascii_alphanumeric() && b != b'+' && b != b'/')
                    .unwrap_or(text.len())
            ))),
        },
        (_, value) => Err(Problem::Kind(json_kind(value).to_owned())),
    }
}

fn json_kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

/// What follows the seconds must be exactly six digits; what is there instead, if anything is wrong.
fn unfit_fraction(text: &str) -> Option<&str> {
    let rest = text.get(19..)?;
    let digits = rest.strip_prefix('.').map_or(0, |fraction| {
        fraction.bytes().take_while(u8::is_ascii_digit).count()
    });
    (digits != 6).then_some(rest)
}

fn moment(text: &str, digits: u8) -> Result<Value, Problem> {
    let moment: jiff::Timestamp = text.parse().map_err(|_| {
        let layout = if digits == 0 {
            "2006-01-02T15:04:05Z07:00"
        } else {
            "2006-01-02T15:04:05.000000Z07:00"
        };
        Problem::Text(format!(
            "parsing time \"{text}\" as \"{layout}\": cannot parse \"{text}\" as \"2006\""
        ))
    })?;
    if digits == 6
        && let Some(rest) = unfit_fraction(text)
    {
        return Err(Problem::Text(format!(
            "parsing time \"{text}\" as \"2006-01-02T15:04:05.000000Z07:00\": cannot parse \"{rest}\" as \".000000\""
        )));
    }
    let printer = jiff::fmt::temporal::DateTimePrinter::new().precision(Some(digits));
    Ok(printer.timestamp_to_string(&moment).into())
}
