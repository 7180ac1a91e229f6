//! What a request's body asks for: read field by field, with every mistake noted.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use bytes::Bytes;
use serde_json::{Map, Value};

use super::refusals::{OrRefusal, Refusal};

/// The fields of a body. What is wrong with them is gathered until [`Fields::finish`].
#[derive(Debug, Default)]
pub(super) struct Fields {
    given: Map<String, Value>,
    /// Where these fields are, for messages: empty, or `healthcheck.`
    place: &'static str,
    wrong: RefCell<Vec<String>>,
}

impl Fields {
    /// The fields of a body, of which there may be only the `known` words. No body has no fields.
    pub(super) fn parse(body: &Bytes, known: &str) -> OrRefusal<Self> {
        if body.is_empty() {
            return Ok(Self::default());
        }
        let fields = match serde_json::from_slice(body) {
            Ok(Value::Object(given)) => Self {
                given,
                ..Self::default()
            },
            Ok(_) => return Err(Refusal::invalid(vec!["the body is no object".to_owned()])),
            Err(error) => {
                return Err(Refusal::invalid(vec![format!(
                    "the body is no JSON: {error}"
                )]));
            }
        };
        fields.only(known);
        Ok(fields)
    }

    fn only(&self, known: &str) {
        for name in self.given.keys() {
            if !known.split(' ').any(|known| known == name) {
                self.complain(name, "is not known");
            }
        }
    }

    fn complain(&self, name: &str, what: &str) {
        let text = format!("{}{name} {what}", self.place);
        self.wrong.borrow_mut().push(text);
    }

    fn value(&self, name: &str) -> Option<&Value> {
        self.given.get(name).filter(|value| !value.is_null())
    }

    pub(super) fn has(&self, name: &str) -> bool {
        self.value(name).is_some()
    }

    /// Notes that a field must be there.
    pub(super) fn need(&self, names: &str) {
        for name in names.split(' ') {
            if !self.has(name) {
                self.complain(name, "is missing");
            }
        }
    }

    /// A text of so many characters.
    pub(super) fn text(&self, name: &str, length: RangeInclusive<usize>) -> Option<String> {
        let Some(text) = self.value(name)?.as_str() else {
            self.complain(name, "is no text");
            return None;
        };
        if length.contains(&text.chars().count()) {
            return Some(text.to_owned());
        }
        let (least, most) = (length.start(), length.end());
        self.complain(name, &format!("must have {least} to {most} characters"));
        None
    }

    /// One of several words.
    pub(super) fn word(&self, name: &str, allowed: &[&'static str]) -> Option<&'static str> {
        let value = self.value(name)?;
        let found = allowed.iter().find(|word| value.as_str() == Some(word));
        if found.is_none() {
            self.complain(name, &format!("must be one of {}", allowed.join(", ")));
        }
        found.copied()
    }

    /// A whole number within bounds.
    pub(super) fn number(&self, name: &str, bounds: RangeInclusive<u64>) -> Option<u64> {
        let number = self.value(name)?.as_u64();
        let number = number.filter(|number| bounds.contains(number));
        if number.is_none() {
            let (least, most) = (bounds.start(), bounds.end());
            self.complain(name, &format!("must be between {least} and {most}"));
        }
        number
    }

    pub(super) fn flag(&self, name: &str) -> Option<bool> {
        let flag = self.value(name)?.as_bool();
        if flag.is_none() {
            self.complain(name, "must be true or false");
        }
        flag
    }

    /// Labels: a map of texts.
    pub(super) fn labels(&self, name: &str) -> Option<BTreeMap<String, String>> {
        let labels = self.value(name)?.as_object().and_then(|labels| {
            let texts = labels.iter().map(|(key, value)| {
                let value = value.as_str()?;
                Some((key.clone(), value.to_owned()))
            });
            texts.collect::<Option<BTreeMap<_, _>>>()
        });
        if labels.is_none() {
            self.complain(name, "must be an object of texts");
        }
        labels
    }

    /// The id in a reference such as `{"id": …}`.
    pub(super) fn reference(&self, name: &str) -> Option<String> {
        let id = self.value(name)?["id"].as_str();
        if id.is_none() {
            self.complain(name, "must be an object with an id");
        }
        id.map(str::to_owned)
    }

    /// The ids in a list of references.
    pub(super) fn references(&self, name: &str) -> Option<Vec<String>> {
        let list = self.value(name)?.as_array();
        let ids = list.and_then(|list| {
            let ids = list.iter().map(|one| one["id"].as_str().map(str::to_owned));
            ids.collect::<Option<Vec<_>>>()
        });
        if ids.is_none() {
            self.complain(name, "must be a list of objects with an id");
        }
        ids
    }

    /// A list of texts.
    pub(super) fn texts(&self, name: &str) -> Option<Vec<String>> {
        let list = self.value(name)?.as_array();
        let texts = list.and_then(|list| {
            let texts = list.iter().map(|one| one.as_str().map(str::to_owned));
            texts.collect::<Option<Vec<_>>>()
        });
        if texts.is_none() {
            self.complain(name, "must be a list of texts");
        }
        texts
    }

    /// The fields of an object in it.
    pub(super) fn inner(&self, name: &str, place: &'static str, known: &str) -> Option<Self> {
        let Some(given) = self.value(name)?.as_object() else {
            self.complain(name, "must be an object");
            return None;
        };
        let inner = Self {
            given: given.clone(),
            place,
            wrong: RefCell::default(),
        };
        inner.only(known);
        Some(inner)
    }

    /// Notes a mistake that is about more than one field.
    pub(super) fn wrong(&self, what: impl Into<String>) {
        let text = format!("{}{}", self.place, what.into());
        self.wrong.borrow_mut().push(text);
    }

    /// Takes over the mistakes of an object in it.
    pub(super) fn include(&self, inner: &Self) {
        self.wrong
            .borrow_mut()
            .append(&mut inner.wrong.borrow_mut());
    }

    /// An error if anything was wrong.
    pub(super) fn finish(&self) -> OrRefusal {
        let wrong = self.wrong.borrow();
        if wrong.is_empty() {
            Ok(())
        } else {
            Err(Refusal::invalid(wrong.clone()))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_mistake_of_a_body_is_told_at_once() {
        let body = r#"{"name":"","port":0,"protocol":"sctp","labels":{"a":1},"extra":1,
            "instance-pool":"x","healthcheck":{"mode":"tcp","color":"red"}}"#;
        let known = "name port protocol labels instance-pool healthcheck size";
        let fields = Fields::parse(&Bytes::from(body), known).unwrap();
        assert_eq!(fields.text("name", 1..=255), None);
        assert_eq!(fields.number("port", 1..=65535), None);
        assert_eq!(fields.word("protocol", &["tcp", "udp"]), None);
        assert_eq!(fields.labels("labels"), None);
        assert_eq!(fields.reference("instance-pool"), None);
        let inner = fields.inner("healthcheck", "healthcheck.", "mode").unwrap();
        assert_eq!(inner.word("mode", &["tcp"]), Some("tcp"));
        fields.include(&inner);
        fields.need("size");
        let refusal = fields.finish().unwrap_err();
        assert_eq!(
            refusal.errors,
            [
                "extra is not known",
                "name must have 1 to 255 characters",
                "port must be between 1 and 65535",
                "protocol must be one of tcp, udp",
                "labels must be an object of texts",
                "instance-pool must be an object with an id",
                "healthcheck.color is not known",
                "size is missing",
            ]
        );
        assert_eq!(refusal.status, 400);
    }

    #[test]
    fn a_body_must_be_an_object() {
        for body in ["[]", "{", "7"] {
            assert!(Fields::parse(&Bytes::from(body), "").is_err(), "{body}");
        }
        assert!(Fields::parse(&Bytes::new(), "").unwrap().finish().is_ok());
    }
}
