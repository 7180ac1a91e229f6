//! The cloud's own words in an error body. Several generations of services answer, each in its own
//! form; all of their text is kept.

use serde_json::{Map, Value};

/// The whole text of an error body. A body that is no JSON object is shown as it is, cut, by the
/// client.
pub(crate) fn error_text(body: &[u8]) -> Option<String> {
    let body: Map<String, Value> = serde_json::from_slice(body).ok()?;
    let text = |key: &str| body.get(key)?.as_str().filter(|text| !text.is_empty());
    let main = text("message").or_else(|| text("error"));
    let titled = [text("title"), text("detail")];
    let titled: Vec<&str> = titled.into_iter().flatten().collect();
    let main = match main {
        Some(main) => main.to_owned(),
        None => titled.join(": "),
    };
    let list = body.get("errors").and_then(Value::as_array);
    let parts: Vec<String> = list.into_iter().flatten().filter_map(part).collect();
    match (main.is_empty(), parts.is_empty()) {
        (true, true) => text("type").map(str::to_owned),
        (false, true) => Some(main),
        (true, false) => Some(parts.join("; ")),
        (false, false) => Some(format!("{main} ({})", parts.join("; "))),
    }
}

/// One entry of `errors`: a text, or an object with `detail` and `location`, or with `message`.
fn part(value: &Value) -> Option<String> {
    let text = |key: &str| value.get(key)?.as_str().filter(|text| !text.is_empty());
    match value {
        Value::String(text) => (!text.is_empty()).then(|| text.clone()),
        Value::Object(_) => {
            let what = text("detail").or_else(|| text("message"));
            Some(match (text("location"), what) {
                (Some(field), Some(what)) => format!("{field}: {what}"),
                (None, Some(what)) => what.to_owned(),
                (Some(_) | None, None) => value.to_string(),
            })
        }
        Value::Null => None,
        other => Some(other.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bowline_test_kit::rows;

    #[test]
    fn every_form_of_an_error_is_read() {
        for [body, wanted] in rows(
            r#"{"message": "Invalid request signature"} | Invalid request signature
               {"error": "no"}                          | no
               {"message": "", "error": "no"}           | no
               {"message": "yes", "error": "no"}        | yes
               {"type": "about:blank", "title": "Bad", "detail": "too long"} | Bad: too long
               {"title": "Bad Request"}                 | Bad Request
               {"type": "urn:x"}                        | urn:x
               {"message": "m", "errors": ["a", "b", "", null]} | m (a; b)
               {"errors": [{"detail": "too small", "location": "$.port"}]} | $.port: too small
               {"message": "m", "errors": [{"message": "e"}, {"code": 7}, 3]} | m (e; {"code":7}; 3)
               {"message": 7, "errors": "x"}            | none
               {}                                       | none
               []                                       | none
               upstream is down                         | none
                                                        | none"#,
        ) {
            let wanted = Some(wanted).filter(|wanted| *wanted != "none");
            assert_eq!(error_text(body.as_bytes()).as_deref(), wanted, "{body}");
        }
    }
}
