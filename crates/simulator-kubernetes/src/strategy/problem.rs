//! What is wrong with a field, in the words of a Kubernetes API server.

use std::fmt::Display;

use serde_json::{Value, json};

use crate::kinds::Kind;
use crate::status::Refusal;
use crate::store::resource;

/// One thing wrong with one field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Path of the field: `spec.ports[0].port`.
    pub field: String,
    /// Machine-readable reason: `FieldValueInvalid`, …
    pub reason: &'static str,
    /// What a person reads.
    pub message: String,
}

fn problem(field: &str, reason: &'static str, head: String, detail: &str) -> Problem {
    let message = if detail.is_empty() {
        head
    } else {
        format!("{head}: {detail}")
    };
    Problem {
        field: field.to_owned(),
        reason,
        message,
    }
}

impl Problem {
    pub fn required(field: &str, detail: &str) -> Self {
        problem(field, "FieldValueRequired", "Required value".into(), detail)
    }

    /// The field must not be there, or not be changed.
    pub fn forbidden(field: &str, detail: &str) -> Self {
        problem(field, "FieldValueForbidden", "Forbidden".into(), detail)
    }

    pub fn invalid(field: &str, value: &(impl Display + ?Sized), detail: &str) -> Self {
        let head = format!("Invalid value: {value}");
        problem(field, "FieldValueInvalid", head, detail)
    }

    pub fn duplicate(field: &str, value: &(impl Display + ?Sized), detail: &str) -> Self {
        let head = format!("Duplicate value: {value}");
        problem(field, "FieldValueDuplicate", head, detail)
    }

    /// The value is none of the known ones.
    pub fn unsupported(field: &str, value: &(impl Display + ?Sized), known: &[&str]) -> Self {
        let known: Vec<String> = known.iter().map(|known| format!("{known:?}")).collect();
        let detail = format!("supported values: {}", known.join(", "));
        let head = format!("Unsupported value: {value}");
        problem(field, "FieldValueNotSupported", head, &detail)
    }

    /// Everything that is wrong with a text.
    pub fn faults(field: &str, value: &str, faults: Vec<String>) -> impl Iterator<Item = Self> {
        let faults = faults.into_iter();
        faults.map(move |fault| Self::invalid(field, &json!(value), &fault))
    }

    /// Unless the value is one of the known ones.
    pub fn unless_known(field: &str, value: &Value, known: &[&str]) -> Option<Self> {
        let is_known = known.iter().any(|known| value == known);
        (!is_known).then(|| Self::unsupported(field, value, known))
    }

    /// Unless there is a text.
    pub fn unless_given(field: &str, value: &str) -> Option<Self> {
        value.is_empty().then(|| Self::required(field, ""))
    }

    /// Unless the text is an address.
    pub fn unless_address(field: &str, value: &str) -> Option<Self> {
        let is_address = value.parse::<std::net::IpAddr>().is_ok();
        let detail = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)";
        (!is_address).then(|| Self::invalid(field, &json!(value), detail))
    }

    /// Unless the text is an address with the length of a prefix.
    pub fn unless_range(field: &str, value: &str) -> Option<Self> {
        let is_range = value.parse::<ipnet::IpNet>().is_ok();
        let detail = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)";
        (!is_range).then(|| Self::invalid(field, &json!(value), detail))
    }

    /// Unless the number is that of a port.
    pub fn unless_port(field: &str, number: i64) -> Option<Self> {
        let detail = "must be between 1 and 65535, inclusive";
        let is_port = (1..=65535).contains(&number);
        (!is_port).then(|| Self::invalid(field, &number, detail))
    }

    pub fn immutable(field: &str, value: &Value) -> Self {
        Self::invalid(field, value, "field is immutable")
    }

    pub fn too_long(field: &str, most: usize) -> Self {
        let detail = format!("may not be more than {most} bytes");
        problem(field, "FieldValueTooLong", "Too long".into(), &detail)
    }
}

/// 422 with one cause per problem, about an object of a served kind.
pub fn invalid(kind: &Kind, name: &str, problems: &[Problem]) -> Refusal {
    // By the form in which it is kept.
    let (group, _) = resource(kind);
    invalid_of(group, kind.kind, name, problems)
}

/// Refuses the options of a request, if anything is wrong with them.
pub fn check_options(kind: &str, problems: &[Problem]) -> Result<(), Refusal> {
    match problems {
        [] => Ok(()),
        problems => Err(invalid_of("meta.k8s.io", kind, "", problems)),
    }
}

/// 422 about anything that has a group and a kind: an object or the options of a request.
pub fn invalid_of(group: &str, kind: &str, name: &str, problems: &[Problem]) -> Refusal {
    let qualified = match group {
        "" => kind.to_owned(),
        group => format!("{kind}.{group}"),
    };
    let mut texts: Vec<String> = Vec::new();
    for problem in problems {
        let text = format!("{}: {}", problem.field, problem.message);
        // The server prints equal messages once.
        if !texts.contains(&text) {
            texts.push(text);
        }
    }
    let text = match texts.as_slice() {
        [one] => one.clone(),
        many => format!("[{}]", many.join(", ")),
    };
    let mut details = serde_json::Map::new();
    for (key, value) in [("name", name), ("group", group), ("kind", kind)] {
        if !value.is_empty() {
            details.insert(key.to_owned(), value.into());
        }
    }
    details.insert(
        "causes".to_owned(),
        problems
            .iter()
            .map(|problem| {
                json!({
                    "reason": problem.reason, "message": problem.message, "field": problem.field,
                })
            })
            .collect(),
    );
    let mut refusal = Refusal::new(
        422,
        "Invalid",
        format!("{qualified} {name:?} is invalid: {text}"),
    );
    refusal.details = details.into();
    refusal
}
