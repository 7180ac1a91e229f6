//! Errors of reading, in the words of the libraries that a real server is built with. Clients show
//! them to people, and some look for them.

use std::fmt::Write as _;

use serde_json::Value;

/// Why bytes are no JSON.
pub fn json_error(bytes: &[u8], error: &serde_json::Error) -> String {
    if error.is_eof() {
        return "unexpected end of JSON input".to_owned();
    }
    // One letter is one byte to that library.
    let text: String = bytes.iter().copied().map(char::from).collect();
    let start = text.trim_start();
    for literal in ["true", "false", "null"] {
        if start.starts_with(&literal[..1])
            && let Some((found, wanted)) = start
                .chars()
                .zip(literal.chars())
                .find(|(found, wanted)| found != wanted)
        {
            return format!(
                "invalid character {} in literal {literal} (expecting '{wanted}')",
                quoted(found)
            );
        }
    }
    let first = start.chars().next().unwrap_or_default();
    format!(
        "invalid character {} looking for beginning of value",
        quoted(first)
    )
}

/// A letter in single quotes, escaped.
fn quoted(letter: char) -> String {
    match letter {
        '\'' => "'\\''".to_owned(),
        '"' => "'\"'".to_owned(),
        letter if letter.is_control() => format!("'\\u{:04x}'", u32::from(letter)),
        letter => format!("'{letter}'"),
    }
}

pub fn json_kind(value: &Value) -> &'static str {
    match value {
        Value::Array(_) => "array",
        Value::Object(_) => "object",
        Value::String(_) => "string",
        Value::Number(_) => "number",
        Value::Bool(_) => "bool",
        Value::Null => "null",
    }
}

/// A text in double quotes, escaped the way that names bells and the like.
pub fn quote(text: &str) -> String {
    let mut result = String::from("\"");
    for letter in text.chars() {
        match letter {
            '\u{7}' => result.push_str("\\a"),
            '\u{8}' => result.push_str("\\b"),
            '\u{b}' => result.push_str("\\v"),
            '\u{c}' => result.push_str("\\f"),
            '\n' => result.push_str("\\n"),
            '\r' => result.push_str("\\r"),
            '\t' => result.push_str("\\t"),
            '"' => result.push_str("\\\""),
            '\\' => result.push_str("\\\\"),
            letter if letter.is_control() => {
                let _ = write!(result, "\\x{:02x}", u32::from(letter));
            }
            letter => result.push(letter),
        }
    }
    result.push('"');
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn broken_json_is_described() {
        let rows = [
            ("", "unexpected end of JSON input"),
            ("{\"a\":", "unexpected end of JSON input"),
            (
                "hello",
                "invalid character 'h' looking for beginning of value",
            ),
            (
                "nonsense",
                "invalid character 'o' in literal null (expecting 'u')",
            ),
            (
                "\u{9e}",
                "invalid character 'Â' looking for beginning of value",
            ),
        ];
        for (text, expected) in rows {
            let error = serde_json::from_str::<Value>(text).unwrap_err();
            assert_eq!(json_error(text.as_bytes(), &error), expected, "{text}");
        }
    }

    #[test]
    fn texts_are_quoted() {
        assert_eq!(quote("a\u{7}\"b\"\u{1}"), r#""a\a\"b\"\x01""#);
    }
}
