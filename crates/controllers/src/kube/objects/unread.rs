//! What is never used and most of a Node is: its list of images.
//!
//! A decoder that ignores it still looks at each of its bytes. Here it is passed over as a whole.

use memchr::{memchr, memchr_iter, memmem};
use serde::de::DeserializeOwned;

/// How the list begins, as the API server writes it. Nothing that is used is a list of that name: labels and annotations
/// are texts, and a quote within a text has a backslash before it.
const IMAGES: &[u8] = br#""images":["#;

/// An object, or an event about one, as the API server sends it.
pub(crate) fn decode<T: DeserializeOwned>(json: &[u8]) -> serde_json::Result<T> {
    if let Some(begin) = memmem::find(json, IMAGES).map(|at| at + IMAGES.len())
        && let Some(length) = list_length(&json[begin..])
        && let Ok(object) =
            serde_json::from_slice(&[&json[..begin], &json[begin + length..]].concat())
    {
        return Ok(object);
    }
    serde_json::from_slice(json)
}

/// The bytes of a list of objects behind its opening bracket, without the closing one. None where that takes more than
/// to count. What ends too early leaves a bracket over, and is no JSON.
fn list_length(text: &[u8]) -> Option<usize> {
    match text.first()? {
        b']' => return Some(0),
        b'{' => {}
        _ => return None,
    }
    let length = memmem::find(text, b"}]")? + 1;
    let list = &text[..length];
    let is_in_text = memchr_iter(b'"', list).count() % 2 == 1;
    (!is_in_text && memchr(b'\\', list).is_none()).then_some(length)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde::Deserialize;
    use serde_json::{Value, json};

    /// What is read of a Node in these tests; the images show whether they were passed over.
    #[derive(Debug, Deserialize, PartialEq)]
    struct Read {
        metadata: Value,
        images: Vec<Value>,
        status: Value,
    }

    fn node(images: &Value) -> Value {
        json!({
            "metadata": {
                "annotations": { "last": json!({ "images": ["a"] }).to_string() },
                "labels": { "images": "no" },
                "name": "n",
            },
            "images": images,
            "status": { "addresses": [{ "address": "10.0.0.1" }], "nodeInfo": {} },
        })
    }

    /// Lists of objects of anything, with quotes, brackets and backslashes in their texts.
    fn lists() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            any::<i32>().prop_map(Value::from),
            r#"["\\\[\]{}:,a-cé\n]{0,4}"#.prop_map(Value::from),
        ];
        let value = leaf.prop_recursive(3, 24, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::btree_map(r#"["\[\]a]{0,3}"#, inner, 0..4)
                    .prop_map(|map| Value::Object(map.into_iter().collect())),
            ]
        });
        let image = prop::collection::btree_map(r#"["\[\]a]{0,3}"#, value, 0..4);
        let image = image.prop_map(|map| Value::Object(map.into_iter().collect()));
        prop::collection::vec(image, 0..4).prop_map(Value::from)
    }

    proptest! {
        #[test]
        fn everything_else_is_as_it_was(images in lists()) {
            let node = node(&images);
            let read: Read = decode(node.to_string().as_bytes()).unwrap();
            prop_assert_eq!(&read.metadata, &node["metadata"]);
            prop_assert_eq!(&read.status, &node["status"]);
            prop_assert!(read.images.is_empty() || Value::from(read.images) == images);
        }

        #[test]
        fn what_was_cut_cannot_be_read(images in lists(), at in 0..100_usize) {
            let whole = node(&images).to_string();
            let cut = &whole.as_bytes()[..whole.len() * at / 100];
            prop_assert!(decode::<Read>(cut).is_err());
        }
    }

    #[test]
    fn images_are_passed_over_where_counting_is_enough() {
        let images = |text: &str| {
            let json = format!(r#"{{"images":[{text}],"metadata":[],"status":[{{}}]}}"#);
            decode::<Read>(json.as_bytes()).unwrap().images.len()
        };
        assert_eq!(images(""), 0);
        let two = r#"{"names":["a@b","[::1]:5000/a"],"sizeBytes":1},{"names":["}"]}"#;
        assert_eq!(images(two), 0);
        assert_eq!(images(r#"{"names":["}]"]}"#), 1, "ends within a text");
        assert_eq!(images(r#"{"names":["\""]}"#), 1, "escaped");
        assert_eq!(images(r#"{"names":[{}]}"#), 1, "a list within");
        assert_eq!(images(r#""a""#), 1, "no objects");
    }
}
