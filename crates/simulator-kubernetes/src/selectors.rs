//! Label and field selectors: which objects a list or a watch is about.

mod labels;

use serde_json::Value;

use super::kinds::Kind;
use super::object::text;
use super::status::Refusal;
use labels::LabelRule;

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Selector {
    labels: Vec<LabelRule>,
    fields: Vec<FieldRule>,
}

#[derive(Clone, Debug, PartialEq)]
struct FieldRule {
    field: String,
    value: String,
    equal: bool,
}

impl Selector {
    /// Reads both selectors; refuses what the kind cannot be selected by.
    pub fn parse(kind: &Kind, labels: &str, fields: &str) -> Result<Self, Refusal> {
        Ok(Self {
            labels: labels::parse(labels)?,
            fields: parse_fields(kind, fields)?,
        })
    }

    /// Whether everything is selected.
    pub fn is_empty(&self) -> bool {
        self.labels.is_empty() && self.fields.is_empty()
    }

    /// The name that is asked for with `metadata.name=…`, if one is.
    pub fn name(&self) -> Option<&str> {
        self.fields
            .iter()
            .find(|rule| rule.equal && rule.field == "metadata.name")
            .map(|rule| rule.value.as_str())
    }

    /// Narrows to one name: the old way of watching a single object.
    pub fn only(&mut self, name: &str) {
        self.fields.push(FieldRule {
            field: "metadata.name".into(),
            value: name.into(),
            equal: true,
        });
    }

    pub fn matches(&self, object: &Value) -> bool {
        let labels = &object["metadata"]["labels"];
        self.labels.iter().all(|rule| rule.matches(labels))
            && self
                .fields
                .iter()
                .all(|rule| (field(object, &rule.field) == rule.value) == rule.equal)
    }
}

/// The value of a selectable field, as text.
fn field(object: &Value, name: &str) -> String {
    if name == "source" {
        // Old name of the component that reports an event.
        let component = text(object, "/source/component");
        let reporter = text(object, "/reportingComponent");
        let found = if component.is_empty() {
            reporter
        } else {
            component
        };
        return found.to_owned();
    }
    let pointer = format!("/{}", name.replace('.', "/"));
    match object.pointer(&pointer) {
        Some(Value::String(text)) => text.clone(),
        Some(Value::Bool(flag)) => flag.to_string(),
        Some(Value::Number(number)) => number.to_string(),
        _ if is_flag(name) => "false".to_owned(),
        _ => String::new(),
    }
}

fn is_flag(field: &str) -> bool {
    matches!(field, "spec.unschedulable" | "spec.hostNetwork")
}

/// The fields a kind can be selected by, beside name and namespace; none for kinds that have
/// only these two.
fn selectable(kind: &Kind) -> Option<&'static [&'static str]> {
    Some(match (kind.group, kind.kind) {
        ("", "Pod") => &[
            "spec.nodeName",
            "spec.restartPolicy",
            "spec.schedulerName",
            "spec.serviceAccountName",
            "spec.hostNetwork",
            "status.phase",
            "status.podIP",
            "status.nominatedNodeName",
        ],
        ("", "Node") => &["spec.unschedulable"],
        ("", "Event") => &[
            "involvedObject.kind",
            "involvedObject.namespace",
            "involvedObject.name",
            "involvedObject.uid",
            "involvedObject.apiVersion",
            "involvedObject.resourceVersion",
            "involvedObject.fieldPath",
            "reason",
            "reportingComponent",
            "source",
            "type",
        ],
        ("events.k8s.io", "Event") => &[
            "regarding.kind",
            "regarding.namespace",
            "regarding.name",
            "regarding.uid",
            "regarding.apiVersion",
            "regarding.resourceVersion",
            "regarding.fieldPath",
            "reason",
            "reportingController",
            "type",
        ],
        ("", "Namespace") => &["status.phase"],
        ("", "Secret") => &["type"],
        ("", "Service") => &["spec.clusterIP", "spec.type"],
        ("certificates.k8s.io", "CertificateSigningRequest") => &["spec.signerName"],
        _ => return None,
    })
}

fn check_field(kind: &Kind, name: &str) -> Result<(), Refusal> {
    let everywhere =
        name == "metadata.name" || (name == "metadata.namespace" && kind.namespaced_fields());
    match selectable(kind) {
        _ if everywhere => Ok(()),
        Some(fields) if fields.contains(&name) => Ok(()),
        Some(_) => Err(Refusal::bad_request(format!(
            "field label not supported: {name}"
        ))),
        None => Err(Refusal::bad_request(format!(
            "{name:?} is not a known field selector: only \"metadata.name\", \"metadata.namespace\""
        ))),
    }
}

trait NamespacedFields {
    fn namespaced_fields(&self) -> bool;
}

impl NamespacedFields for Kind {
    /// Kinds without fields of their own accept `metadata.namespace` even if they have none.
    fn namespaced_fields(&self) -> bool {
        self.namespaced || selectable(self).is_none()
    }
}

fn parse_fields(kind: &Kind, selector: &str) -> Result<Vec<FieldRule>, Refusal> {
    let mut rules = Vec::new();
    for term in split_terms(selector) {
        if term.is_empty() {
            continue;
        }
        let wrong = || {
            Refusal::bad_request(format!(
                "invalid selector: '{selector}'; can't understand '{term}'"
            ))
        };
        let (name, value, equal) = split_once_any(&term).ok_or_else(wrong)?;
        check_field(kind, name)?;
        rules.push(FieldRule {
            field: name.to_owned(),
            value: unescape(value).ok_or_else(wrong)?,
            equal,
        });
    }
    Ok(rules)
}

/// Splits at commas that are not escaped.
fn split_terms(selector: &str) -> Vec<String> {
    let mut terms = vec![String::new()];
    let mut escaped = false;
    for letter in selector.chars() {
        if letter == ',' && !escaped {
            terms.push(String::new());
            continue;
        }
        escaped = letter == '\\' && !escaped;
        if let Some(last) = terms.last_mut() {
            last.push(letter);
        }
    }
    terms
}

fn split_once_any(term: &str) -> Option<(&str, &str, bool)> {
    let at = term.find(['=', '!'])?;
    let (name, rest) = term.split_at(at);
    for (sign, equal) in [("!=", false), ("==", true), ("=", true)] {
        if let Some(value) = rest.strip_prefix(sign) {
            return Some((name, value, equal));
        }
    }
    None
}

fn unescape(value: &str) -> Option<String> {
    let mut plain = String::new();
    let mut letters = value.chars();
    while let Some(letter) = letters.next() {
        match letter {
            '\\' => match letters.next() {
                Some(next @ ('\\' | ',' | '=')) => plain.push(next),
                _ => return None,
            },
            '=' => return None,
            other => plain.push(other),
        }
    }
    Some(plain)
}

#[cfg(test)]
mod tests;
