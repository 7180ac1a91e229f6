//! Cloud configs in YAML.

use serde::de::DeserializeOwned;
use serde_saphyr::granit_parser::{Event, Parser, ScalarStyle};

/// The first document of a text; none: there is none, or it is empty. Errors come without an excerpt,
/// which might hold a secret.
pub fn first_document<T: DeserializeOwned>(text: &str) -> Result<Option<T>, serde_saphyr::Error> {
    let options = serde_saphyr::options! { with_snippet: false };
    let documents = serde_saphyr::from_multiple_with_options(first_alone(text), options)?;
    Ok(documents.into_iter().next())
}

/// The text without what follows its first document: that may be wrong. Reading documents from a stream, one by one,
/// would do the same, but brings tables of all encodings along. A plain value may be `null`, which is no document.
fn first_alone(text: &str) -> &str {
    let mut events = Parser::new_from_str(text);
    let mut begun = false;
    while let Some(Ok((event, span))) = events.next_event() {
        match event {
            Event::MappingStart(..) | Event::SequenceStart(..) => begun = true,
            Event::Scalar(_, style, ..) => begun |= style != ScalarStyle::Plain,
            Event::DocumentEnd if begun => {
                let end = span.start.byte_offset();
                return end.and_then(|end| text.get(..end)).unwrap_or(text);
            }
            _ => {}
        }
    }
    text
}

/// The error in one line.
pub fn first_line(error: &serde_saphyr::Error) -> String {
    let text = error.to_string();
    text.lines().next().unwrap_or_default().trim().to_owned()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn what_follows_the_first_document_is_not_read() {
        let read = |text| first_document::<BTreeMap<String, String>>(text);
        let expected = BTreeMap::from([("ä".to_owned(), "b".to_owned())]);
        for text in [
            "ä: b",
            "ä: b\n---\n- : [",
            "---\nä: b\n...\n}",
            "# nothing\n---\nnull\n---\nä: b\n---\nä: {",
            "~\n--- # x\nä: b\n--- {\n",
            "{ä: b}\n---\n\t",
        ] {
            assert_eq!(read(text).unwrap(), Some(expected.clone()), "{text}");
        }
        for text in ["", "# nothing", "---\n---\n", "null", "~\n---\nnull"] {
            assert_eq!(read(text).unwrap(), None, "{text}");
        }
        for text in ["a", "- a", "{", "a: b\nc", "null\n---\na\n---\nb: c"] {
            assert!(read(text).is_err(), "{text}");
        }
    }
}
