//! The attributes of a request's body, taken out one by one and checked.

use std::collections::BTreeMap;
use std::net::IpAddr;

use serde_json::{Map, Value};

use super::catalog;
use super::refusals::{OrRefusal, Refusal};
use super::servers::check_name;

/// Characters of a tag's value.
const TAG_VALUE: usize = 256;

/// The attributes of one request.
pub(super) struct Fields(Map<String, Value>);

impl Fields {
    /// A body must be an object; none at all is an empty one.
    pub(super) fn parse(body: &[u8]) -> OrRefusal<Self> {
        if body.iter().all(u8::is_ascii_whitespace) {
            return Ok(Self(Map::new()));
        }
        match serde_json::from_slice(body) {
            Ok(Value::Object(fields)) => Ok(Self(fields)),
            Ok(_) => Err(Refusal::state("Invalid data. Expected a dictionary.")),
            Err(error) => Err(Refusal::state(format!("JSON parse error - {error}"))),
        }
    }

    /// Given attributes.
    pub(super) fn of(attributes: Map<String, Value>) -> Self {
        Self(attributes)
    }

    /// Whether there are none.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The names of the attributes.
    pub(super) fn keys(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }

    /// An object inside a body.
    pub(super) fn within(key: &str, value: &Value) -> OrRefusal<Self> {
        let object = value.as_object().cloned();
        object
            .map(Self)
            .ok_or_else(|| Refusal::field(key, "Expected a dictionary."))
    }

    /// The attribute as it is; none if it is missing or null.
    pub(super) fn value(&self, key: &str) -> Option<&Value> {
        self.0.get(key).filter(|value| !value.is_null())
    }

    /// A string.
    pub(super) fn text(&self, key: &str) -> OrRefusal<Option<&str>> {
        match self.value(key) {
            None => Ok(None),
            Some(Value::String(value)) => Ok(Some(value)),
            Some(_) => Err(Refusal::field(key, "Not a valid string.")),
        }
    }

    /// A string that must be there and not be blank.
    pub(super) fn required(&self, key: &str) -> OrRefusal<&str> {
        let text = self.text(key)?.ok_or_else(|| Refusal::required(key))?;
        if text.trim().is_empty() {
            return Err(Refusal::field(key, "This field may not be blank."));
        }
        Ok(text)
    }

    /// A name, which must be there.
    pub(super) fn name(&self) -> OrRefusal<String> {
        let name = self.required("name")?;
        check_name(name)?;
        Ok(name.to_owned())
    }

    pub(super) fn flag(&self, key: &str, default: bool) -> OrRefusal<bool> {
        match self.value(key) {
            None => Ok(default),
            Some(value) => {
                let flag = value.as_bool();
                flag.ok_or_else(|| Refusal::field(key, "Must be a valid boolean."))
            }
        }
    }

    /// A whole number within a range.
    pub(super) fn number(
        &self,
        key: &str,
        range: std::ops::RangeInclusive<u64>,
    ) -> OrRefusal<Option<u64>> {
        let Some(value) = self.value(key) else {
            return Ok(None);
        };
        let number = value.as_u64();
        let number = number.ok_or_else(|| Refusal::field(key, "A valid integer is required."))?;
        if range.contains(&number) {
            return Ok(Some(number));
        }
        let (least, most) = range.into_inner();
        Err(Refusal::field(
            key,
            format!("Must be between {least} and {most}."),
        ))
    }

    /// A zone; the default one if none is named.
    pub(super) fn zone(&self) -> OrRefusal<String> {
        let zone = self.text("zone")?.unwrap_or(catalog::DEFAULT_ZONE);
        check_zone("zone", zone)?;
        Ok(zone.to_owned())
    }

    /// A list; none if it is missing.
    pub(super) fn list(&self, key: &str) -> OrRefusal<Option<&Vec<Value>>> {
        match self.value(key) {
            None => Ok(None),
            Some(value) => {
                let list = value.as_array();
                list.map(Some)
                    .ok_or_else(|| Refusal::field(key, "Expected a list of items."))
            }
        }
    }

    /// A list of strings; none if it is missing.
    pub(super) fn texts(&self, key: &str) -> OrRefusal<Option<Vec<String>>> {
        let Some(list) = self.list(key)? else {
            return Ok(None);
        };
        let text = |value: &Value| value.as_str().map(str::to_owned);
        let texts: Option<Vec<_>> = list.iter().map(text).collect();
        texts
            .map(Some)
            .ok_or_else(|| Refusal::field(key, "Not a valid string."))
    }

    pub(super) fn address(&self, key: &str) -> OrRefusal<Option<IpAddr>> {
        let Some(text) = self.text(key)? else {
            return Ok(None);
        };
        let address = text.parse();
        address
            .map(Some)
            .map_err(|_| Refusal::field(key, "Enter a valid IPv4 or IPv6 address."))
    }

    /// The tags; none if they are not mentioned.
    pub(super) fn tags(&self) -> OrRefusal<BTreeMap<String, String>> {
        let Some(value) = self.value("tags") else {
            return Ok(BTreeMap::new());
        };
        let wrong = || Refusal::field("tags", "Tags must be an object of strings.");
        let mut tags = BTreeMap::new();
        for (key, value) in value.as_object().ok_or_else(wrong)? {
            let value = value.as_str().ok_or_else(wrong)?;
            check_tag(key, value)?;
            tags.insert(key.clone(), value.to_owned());
        }
        Ok(tags)
    }

    /// The one attribute that a PATCH may carry; none if it carries nothing.
    pub(super) fn only<'a>(&self, allowed: &[&'a str]) -> OrRefusal<Option<&'a str>> {
        // An official client sends an empty `http` next to another attribute.
        let empty = |key: &str, value: &Value| {
            key == "http" && value.as_object().is_some_and(Map::is_empty)
        };
        let mut given = self.0.iter().filter(|(key, value)| !empty(key, value));
        let Some((key, _)) = given.next() else {
            return Ok(None);
        };
        if given.next().is_some() {
            // Official clients look for the beginning of either sentence.
            return Err(Refusal::state(
                "Only one attribute can be changed at a time. To keep changes atomic, send one \
                 request for each.",
            ));
        }
        let known = allowed.iter().find(|allowed| *allowed == key);
        let refused = || {
            let list = allowed.join(", ");
            Refusal::field(
                key,
                format!("This attribute cannot be changed; only {list} can."),
            )
        };
        known.map(|key| Some(*key)).ok_or_else(refused)
    }
}

/// A zone must be one that exists.
pub(super) fn check_zone(key: &str, zone: &str) -> OrRefusal {
    if catalog::region_of(zone).is_some() {
        return Ok(());
    }
    let choices = catalog::zone_slugs();
    let message = format!("\"{zone}\" is not a valid choice. Choose one of: {choices}");
    Err(Refusal::field(key, message))
}

/// A tag's key has few characters, its value at most 256.
fn check_tag(key: &str, value: &str) -> OrRefusal {
    let allowed = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    if key.is_empty() || !key.chars().all(allowed) {
        let message = format!("\"{key}\" is not a valid tag key.");
        return Err(Refusal::field("tags", message));
    }
    if value.chars().count() > TAG_VALUE {
        let message = format!("The value of \"{key}\" is longer than {TAG_VALUE} characters.");
        return Err(Refusal::field("tags", message));
    }
    Ok(())
}
