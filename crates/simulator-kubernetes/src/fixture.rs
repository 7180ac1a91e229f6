//! What a simulated cluster contains at the beginning: a stream of YAML documents, one object each,
//! or a `List` of them, the way `kubectl get -o yaml` writes it.

use std::collections::BTreeSet;
use std::path::Path;

use bowline_simulator::fixture::{self, FixtureError};
use serde_json::Value;

use super::kinds;
use super::object::text;
use super::schema::{self, FieldValidation};
use super::server::NAMESPACES;
use super::status::Refusal;

/// Reads a fixture file.
pub fn read(path: &Path) -> Result<Vec<Value>, FixtureError> {
    parse(&path.display().to_string(), &fixture::text(path)?)
}

/// Checks the text of a fixture; `name` is for messages. Kinds, fields and namespaces must exist.
pub fn parse(name: &str, text: &str) -> Result<Vec<Value>, FixtureError> {
    let wrong = |message: String| FixtureError::Parse {
        name: name.to_owned(),
        message,
    };
    let options = serde_saphyr::options! { strict_booleans: true };
    let documents: Vec<Value> = serde_saphyr::from_multiple_with_options(text, options)
        .map_err(|error| wrong(error.without_snippet().to_string().trim_end().to_owned()))?;
    let mut objects = Vec::new();
    for document in documents.into_iter().flat_map(unfold) {
        let number = objects.len() + 1;
        let object = check(document).map_err(|why| wrong(format!("object {number}: {why}")))?;
        objects.push(object);
    }
    check_namespaces(&objects).map_err(wrong)?;
    Ok(objects)
}

/// The objects of a `List`; nothing for an empty document.
fn unfold(document: Value) -> Vec<Value> {
    match document {
        Value::Null => Vec::new(),
        Value::Object(mut map) if map.get("kind").is_some_and(|kind| kind == "List") => {
            match map.remove("items") {
                Some(Value::Array(items)) => items,
                _ => Vec::new(),
            }
        }
        other => vec![other],
    }
}

fn check(document: Value) -> Result<Value, String> {
    let kind = kinds::of_document(&document)?;
    let name = text(&document, "/metadata/name").to_owned();
    let (mut object, _) = schema::check_fields(kind, document, FieldValidation::Strict)
        .map_err(|Refusal { message, .. }| format!("{} {name:?}: {message}", kind.kind))?;
    match (
        kind.namespaced,
        text(&object, "/metadata/namespace").is_empty(),
    ) {
        (true, true) => object["metadata"]["namespace"] = "default".into(),
        (false, false) => return Err(format!("a {} has no namespace", kind.kind)),
        _ => {}
    }
    Ok(object)
}

fn check_namespaces(objects: &[Value]) -> Result<(), String> {
    let mut known: BTreeSet<&str> = NAMESPACES.into();
    known.extend(
        objects
            .iter()
            .filter(|object| object["kind"] == "Namespace")
            .map(|object| text(object, "/metadata/name")),
    );
    for object in objects {
        let namespace = text(object, "/metadata/namespace");
        if !namespace.is_empty() && !known.contains(namespace) {
            let (kind, name) = (text(object, "/kind"), text(object, "/metadata/name"));
            return Err(format!(
                "{kind} {name:?} is in the namespace {namespace:?}, which the fixture does not have"
            ));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_of_objects_and_lists_is_read() {
        let text = "
apiVersion: v1
kind: Namespace
metadata: {name: shop}
---
# nothing here
---
apiVersion: v1
kind: List
items:
- {apiVersion: v1, kind: Node, metadata: {name: n1}}
- {apiVersion: v1, kind: ConfigMap, metadata: {name: c, namespace: shop}, data: {a: y}}
- {apiVersion: v1, kind: ServiceAccount, metadata: {name: robot}}
";
        let objects = parse("here", text).unwrap();
        let seen: Vec<(&str, &str)> = objects
            .iter()
            .map(|one| {
                (
                    super::text(one, "/kind"),
                    super::text(one, "/metadata/namespace"),
                )
            })
            .collect();
        let expected = [
            ("Namespace", ""),
            ("Node", ""),
            ("ConfigMap", "shop"),
            ("ServiceAccount", "default"),
        ];
        assert_eq!(seen, expected);
        assert_eq!(objects[2]["data"]["a"], "y", "a letter, not a switch");
    }

    #[test]
    fn what_the_server_would_not_keep_is_refused() {
        for (text, expected) in [
            (
                "{apiVersion: apps/v1, kind: Deployment, metadata: {name: d}}",
                "object 1: there is no stored kind \"Deployment\" in version \"apps/v1\"",
            ),
            (
                "{apiVersion: v1, kind: Node, metadata: {}}",
                "object 1: a Node without metadata.name",
            ),
            (
                "{apiVersion: v1, kind: Node, metadata: {name: n}, spek: {}}",
                "object 1: Node \"n\": Node in version \"v1\" cannot be handled as a Node: strict decoding error: unknown field \"spek\"",
            ),
            (
                "{apiVersion: v1, kind: Node, metadata: {name: n, namespace: x}}",
                "object 1: a Node has no namespace",
            ),
            (
                "{apiVersion: v1, kind: Pod, metadata: {name: p, namespace: x}}",
                "Pod \"p\" is in the namespace \"x\", which the fixture does not have",
            ),
        ] {
            let error = parse("here", text).unwrap_err().to_string();
            assert_eq!(error, format!("the fixture here is wrong: {expected}"));
        }
    }
}
