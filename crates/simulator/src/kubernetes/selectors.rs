//! Label and field selectors: which objects a list or a watch is about.

use std::collections::BTreeSet;

use serde_json::Value;

use super::kinds::Kind;
use super::status::Refusal;
use super::store::text;

/// Both selectors of a request.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Selector {
    labels: Vec<LabelRule>,
    fields: Vec<FieldRule>,
}

#[derive(Clone, Debug, PartialEq)]
enum LabelRule {
    Exists(String),
    Missing(String),
    In(String, BTreeSet<String>),
    NotIn(String, BTreeSet<String>),
    Greater(String, i64),
    Less(String, i64),
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
            labels: parse_labels(labels)?,
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

    /// Whether an object is selected.
    pub fn matches(&self, object: &Value) -> bool {
        let labels = &object["metadata"]["labels"];
        self.labels.iter().all(|rule| rule.matches(labels))
            && self
                .fields
                .iter()
                .all(|rule| (field(object, &rule.field) == rule.value) == rule.equal)
    }
}

impl LabelRule {
    fn matches(&self, labels: &Value) -> bool {
        let value = |key: &str| labels.get(key).and_then(Value::as_str);
        let number = |key: &str| value(key).and_then(|text| text.parse::<i64>().ok());
        match self {
            Self::Exists(key) => value(key).is_some(),
            Self::Missing(key) => value(key).is_none(),
            Self::In(key, set) => value(key).is_some_and(|value| set.contains(value)),
            Self::NotIn(key, set) => value(key).is_none_or(|value| !set.contains(value)),
            Self::Greater(key, bound) => number(key).is_some_and(|value| value > *bound),
            Self::Less(key, bound) => number(key).is_some_and(|value| value < *bound),
        }
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

/// A piece of a label selector.
#[derive(Clone, Debug, PartialEq)]
enum Token {
    Word(String),
    Sign(&'static str),
}

const SIGNS: [&str; 9] = ["!=", "==", "=", "!", "<", ">", ",", "(", ")"];

fn tokens(selector: &str) -> Vec<Token> {
    let mut rest = selector.trim_start();
    let mut found = Vec::new();
    while !rest.is_empty() {
        if let Some(sign) = SIGNS.iter().find(|sign| rest.starts_with(**sign)) {
            found.push(Token::Sign(sign));
            rest = rest[sign.len()..].trim_start();
        } else {
            let end = rest
                .find(|letter: char| letter.is_whitespace() || "!=<>,()".contains(letter))
                .unwrap_or(rest.len());
            found.push(Token::Word(rest[..end].to_owned()));
            rest = rest[end..].trim_start();
        }
    }
    found
}

struct LabelParser {
    tokens: Vec<Token>,
    at: usize,
}

fn parse_labels(selector: &str) -> Result<Vec<LabelRule>, Refusal> {
    let mut parser = LabelParser {
        tokens: tokens(selector),
        at: 0,
    };
    let mut rules = Vec::new();
    while parser.at < parser.tokens.len() {
        rules.push(parser.rule()?);
        match parser.next() {
            None => break,
            Some(Token::Sign(",")) if parser.at < parser.tokens.len() => {}
            other => return Err(unexpected(other.as_ref(), "',' or 'end of string'")),
        }
    }
    Ok(rules)
}

fn unexpected(token: Option<&Token>, expected: &str) -> Refusal {
    let found = match token {
        Some(Token::Word(word)) => word.as_str(),
        Some(Token::Sign(sign)) => sign,
        None => "",
    };
    Refusal::bad_request(format!(
        "unable to parse requirement: found '{found}', expected: {expected}"
    ))
}

impl LabelParser {
    fn next(&mut self) -> Option<Token> {
        let token = self.tokens.get(self.at).cloned();
        self.at += 1;
        token
    }

    fn key(&mut self) -> Result<String, Refusal> {
        match self.next() {
            Some(Token::Word(word)) => {
                if let Some(fault) = super::strategy::names::qualified_name(&word).first() {
                    return Err(Refusal::bad_request(format!(
                        "unable to parse requirement: <nil>: Invalid value: {word:?}: {fault}"
                    )));
                }
                Ok(word)
            }
            other => Err(unexpected(other.as_ref(), "identifier")),
        }
    }

    fn rule(&mut self) -> Result<LabelRule, Refusal> {
        if self.tokens.get(self.at) == Some(&Token::Sign("!")) {
            self.at += 1;
            return Ok(LabelRule::Missing(self.key()?));
        }
        let key = self.key()?;
        match self.tokens.get(self.at).cloned() {
            None | Some(Token::Sign(",")) => Ok(LabelRule::Exists(key)),
            Some(Token::Sign("=" | "==")) => self.single().map(|set| LabelRule::In(key, set)),
            Some(Token::Sign("!=")) => self.single().map(|set| LabelRule::NotIn(key, set)),
            Some(Token::Sign(">")) => self.bound().map(|bound| LabelRule::Greater(key, bound)),
            Some(Token::Sign("<")) => self.bound().map(|bound| LabelRule::Less(key, bound)),
            Some(Token::Word(word)) if word == "in" => {
                self.set().map(|set| LabelRule::In(key, set))
            }
            Some(Token::Word(word)) if word == "notin" => {
                self.set().map(|set| LabelRule::NotIn(key, set))
            }
            other => Err(unexpected(other.as_ref(), "in, notin, =, ==, !=, gt, lt")),
        }
    }

    /// The value after `=`; it may be missing, which means the empty text.
    fn single(&mut self) -> Result<BTreeSet<String>, Refusal> {
        self.at += 1;
        let value = match self.tokens.get(self.at) {
            Some(Token::Word(word)) => {
                self.at += 1;
                word.clone()
            }
            None | Some(Token::Sign(",")) => String::new(),
            other => return Err(unexpected(other, "identifier")),
        };
        Ok([value].into())
    }

    fn bound(&mut self) -> Result<i64, Refusal> {
        self.at += 1;
        match self.next() {
            Some(Token::Word(word)) => word.parse().map_err(|_| {
                Refusal::bad_request(format!(
                    "unable to parse requirement: values[0]: Invalid value: {word:?}: for 'Gt', 'Lt' operators, the value must be an integer"
                ))
            }),
            other => Err(unexpected(other.as_ref(), "identifier")),
        }
    }

    fn set(&mut self) -> Result<BTreeSet<String>, Refusal> {
        self.at += 1;
        match self.next() {
            Some(Token::Sign("(")) => {}
            other => return Err(unexpected(other.as_ref(), "'('")),
        }
        let mut values = BTreeSet::new();
        let mut last_was_word = false;
        loop {
            match self.next() {
                Some(Token::Word(word)) if !last_was_word => {
                    values.insert(word);
                    last_was_word = true;
                }
                Some(Token::Sign(",")) => {
                    if !last_was_word {
                        values.insert(String::new());
                    }
                    last_was_word = false;
                }
                Some(Token::Sign(")")) => {
                    if !last_was_word {
                        values.insert(String::new());
                    }
                    return Ok(values);
                }
                other => return Err(unexpected(other.as_ref(), "',', or ')'")),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kubernetes::kinds::by_path;
    use serde_json::json;

    #[test]
    fn label_selectors_select_what_they_say() {
        let node = json!({ "metadata": { "labels": {
            "zone": "a", "role": "", "n": "5", "kubernetes.io/os": "linux",
        } } });
        let rows = [
            ("", true),
            ("zone", true),
            ("!zone", false),
            ("!other", true),
            ("zone=a", true),
            ("zone==a", true),
            ("zone = a , role=", true),
            ("zone!=a", false),
            ("other!=a", true),
            ("zone in (a, b)", true),
            ("zone in (b)", false),
            ("zone notin (a,b)", false),
            ("other notin (a)", true),
            ("role in (,x)", true),
            ("n>4", true),
            ("n > 5", false),
            ("n<6", true),
            ("zone>1", false),
            ("kubernetes.io/os=linux,zone in (a),!gone", true),
            ("zone=a,n=6", false),
        ];
        let nodes = by_path("", "v1", "nodes").unwrap();
        for (selector, expected) in rows {
            let parsed = Selector::parse(nodes, selector, "").unwrap();
            assert_eq!(parsed.matches(&node), expected, "{selector}");
        }
    }

    #[test]
    fn bad_label_selectors_are_refused() {
        let nodes = by_path("", "v1", "nodes").unwrap();
        for selector in [
            "=a", "a in b", "a in (b", "a>x", "a b", "a,", "a=b=c", "(a)",
        ] {
            let refusal = Selector::parse(nodes, selector, "").unwrap_err();
            assert_eq!(refusal.code, 400, "{selector}");
            assert!(refusal.message.starts_with("unable to parse requirement"));
        }
    }

    #[test]
    fn field_selectors_know_the_fields_of_each_kind() {
        let rows: [(&str, &str, &str, Value, bool); 9] = [
            (
                "",
                "nodes",
                "metadata.name=a",
                json!({"metadata":{"name":"a"}}),
                true,
            ),
            ("", "nodes", "spec.unschedulable=false", json!({}), true),
            (
                "",
                "nodes",
                "spec.unschedulable=true",
                json!({"spec":{"unschedulable":true}}),
                true,
            ),
            (
                "",
                "pods",
                "spec.nodeName=n,status.phase!=Failed",
                json!({"spec":{"nodeName":"n"}}),
                true,
            ),
            (
                "",
                "events",
                "source=kubelet",
                json!({"source":{"component":"kubelet"}}),
                true,
            ),
            (
                "",
                "events",
                "involvedObject.kind==Node",
                json!({"involvedObject":{"kind":"Pod"}}),
                false,
            ),
            ("", "secrets", "type=Opaque", json!({"type":"Opaque"}), true),
            (
                "",
                "configmaps",
                "metadata.namespace=x",
                json!({"metadata":{"namespace":"y"}}),
                false,
            ),
            (
                "certificates.k8s.io",
                "certificatesigningrequests",
                "spec.signerName=a\\,b",
                json!({"spec":{"signerName":"a,b"}}),
                true,
            ),
        ];
        for (group, plural, selector, object, expected) in rows {
            let kind = by_path(group, "v1", plural).unwrap();
            let parsed = Selector::parse(kind, "", selector).unwrap();
            assert_eq!(parsed.matches(&object), expected, "{plural} {selector}");
        }
    }

    #[test]
    fn unknown_fields_are_refused_in_the_servers_words() {
        let nodes = by_path("", "v1", "nodes").unwrap();
        let refusal = Selector::parse(nodes, "", "spec.x=1").unwrap_err();
        assert_eq!(refusal.message, "field label not supported: spec.x");
        let maps = by_path("", "v1", "configmaps").unwrap();
        let refusal = Selector::parse(maps, "", "data=1").unwrap_err();
        assert_eq!(
            refusal.message,
            "\"data\" is not a known field selector: only \"metadata.name\", \"metadata.namespace\""
        );
        let refusal = Selector::parse(nodes, "", "metadata.name").unwrap_err();
        assert_eq!(
            refusal.message,
            "invalid selector: 'metadata.name'; can't understand 'metadata.name'"
        );
    }
}
