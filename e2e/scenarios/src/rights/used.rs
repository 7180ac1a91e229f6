//! Which right a call needs, and whether a role grants it.

use bowline_simulator::journal::Entry;
use serde_json::Value;

/// Verb and resource, as a role has them.
pub type Right = (String, String);

/// The right that a call needs.
pub fn right(call: &Entry) -> Right {
    let pieces: Vec<&str> = call.path.trim_matches('/').split('/').collect();
    let (group, rest) = match &pieces[..] {
        ["api", _, rest @ ..] => ("", rest),
        ["apis", group, _, rest @ ..] => (*group, rest),
        _ => return (call.method.to_lowercase(), call.path.clone()),
    };
    let rest = match rest {
        ["namespaces", _, rest @ ..] if !rest.is_empty() => rest,
        rest => rest,
    };
    let (resource, named) = match rest {
        [resource] => ((*resource).to_owned(), false),
        [resource, _] => ((*resource).to_owned(), true),
        [resource, _, sub] => (format!("{resource}/{sub}"), true),
        other => panic!("{other:?}"),
    };
    let verb = match (call.method.as_str(), named) {
        ("GET", _) if call.query.contains("watch=true") => "watch",
        ("GET", true) => "get",
        ("GET", false) => "list",
        ("POST", _) => "create",
        ("PUT", _) => "update",
        ("PATCH", _) => "patch",
        ("DELETE", true) => "delete",
        other => panic!("{other:?}"),
    };
    (verb.to_owned(), with_group(&resource, group))
}

fn with_group(resource: &str, group: &str) -> String {
    if group.is_empty() {
        resource.to_owned()
    } else {
        format!("{resource}.{group}")
    }
}

/// Whether one of the roles among these objects grants it.
pub fn is_granted(objects: &[Value], (verb, resource): &Right) -> bool {
    let texts = |value: &Value| -> Vec<String> {
        let list = value.as_array().cloned().unwrap_or_default();
        list.iter()
            .filter_map(|text| text.as_str().map(str::to_owned))
            .collect()
    };
    let rules = objects
        .iter()
        .filter_map(|object| object["rules"].as_array())
        .flatten();
    let mut rules = rules.map(|rule| {
        let groups = texts(&rule["apiGroups"]);
        let resources = texts(&rule["resources"]);
        let names: Vec<String> = groups
            .iter()
            .flat_map(|group| resources.iter().map(|resource| with_group(resource, group)))
            .collect();
        (texts(&rule["verbs"]), names)
    });
    // Everybody who is signed in may ask whether the server is well, and which version it has.
    ["/healthz", "/version"].contains(&resource.as_str())
        || rules.any(|(verbs, names)| {
            names.contains(resource) && (verbs.contains(verb) || verbs.contains(&"*".to_owned()))
        })
}
