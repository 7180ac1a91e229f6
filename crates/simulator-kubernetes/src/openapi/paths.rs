//! `paths`: every operation with its kind and parameters.

use serde_json::{Map, Value, json};

use super::schemas::{name_of, patch_name, reference};
use crate::{
    discovery::subresource,
    kinds::{KINDS, Kind, Role},
};

/// One way to call a path: HTTP method, action, names of parameters.
struct Operation {
    method: &'static str,
    action: &'static str,
    parameters: &'static str,
}

/// Query parameters, one a line: name, type, description.
const PARAMETERS: &str = "\
allowWatchBookmarks boolean Send bookmarks while watching.
continue string Where the list goes on.
dryRun string All: check, but store nothing.
fieldManager string Who owns the fields that change.
fieldSelector string Only objects with these fields.
fieldValidation string Ignore, Warn or Strict: what to do about unknown fields.
force boolean Take fields that others own; for apply only.
gracePeriodSeconds integer Time that the object gets.
labelSelector string Only objects with these labels.
limit integer Objects in one answer.
orphanDependents boolean Keep dependents; older form.
propagationPolicy string What becomes of dependents.
resourceVersion string How fresh the answer has to be.
resourceVersionMatch string How that version is meant.
sendInitialEvents boolean Begin a watch with what is there.
timeoutSeconds integer End the call after that.
watch boolean Stay and send changes.";

const LIST: &str = "allowWatchBookmarks continue fieldSelector labelSelector limit resourceVersion \
    resourceVersionMatch sendInitialEvents timeoutSeconds watch";
const DELETE: &str = "dryRun gracePeriodSeconds orphanDependents propagationPolicy";
const WRITE: &str = "dryRun fieldManager fieldValidation";
const PATCH: &str = "dryRun fieldManager fieldValidation force";

const fn operation(
    method: &'static str,
    action: &'static str,
    parameters: &'static str,
) -> Operation {
    Operation {
        method,
        action,
        parameters,
    }
}

const POST: Operation = operation("post", "post", WRITE);
const UPDATE: Operation = operation("put", "put", WRITE);

const COLLECTION: &[Operation] = &[
    operation("get", "list", LIST),
    POST,
    operation("delete", "deletecollection", DELETE),
];

const SINGLE: &[Operation] = &[
    operation("get", "get", ""),
    UPDATE,
    operation("patch", "patch", PATCH),
    operation("delete", "delete", DELETE),
];

pub(super) fn paths(group: &str, version: &str) -> Map<String, Value> {
    let root = super::root(group, version);
    let mut paths = Map::new();
    for kind in KINDS {
        if (kind.group, kind.version) != (group, version) {
            continue;
        }
        let mut home = Place {
            kind,
            path: format!("/{root}/{}", kind.plural),
            across: kind.namespaced,
            named: false,
            sub: "",
        };
        if kind.namespaced {
            if kind.role == Role::Stored {
                home.write(&mut paths, &COLLECTION[..1]);
            }
            home.across = false;
            home.path = format!("/{root}/namespaces/{{namespace}}/{}", kind.plural);
        }
        if kind.role == Role::Review {
            home.write(&mut paths, &[POST]);
            continue;
        }
        home.write(&mut paths, COLLECTION);
        let single = Place {
            path: format!("{}/{{name}}", home.path),
            named: true,
            ..home
        };
        single.write(&mut paths, SINGLE);
        for sub in kind.subresources {
            let operations = match subresource(kind, sub).verbs {
                ["create"] => &[POST][..],
                ["update"] => &[UPDATE],
                _ => &SINGLE[..3],
            };
            let place = Place {
                path: format!("{}/{sub}", single.path),
                sub,
                ..single
            };
            place.write(&mut paths, operations);
        }
    }
    paths
}

/// A path of a kind.
struct Place {
    kind: &'static Kind,
    path: String,
    /// Across all namespaces.
    across: bool,
    /// Of one object.
    named: bool,
    /// Of this sub-resource, or empty.
    sub: &'static str,
}

impl Place {
    fn write(&self, paths: &mut Map<String, Value>, operations: &[Operation]) {
        let mut item: Map<String, Value> = operations
            .iter()
            .map(|operation| (operation.method.to_owned(), self.operation(operation)))
            .collect();
        let given = [
            ("namespace", self.kind.namespaced && !self.across),
            ("name", self.named),
        ];
        let parameters: Vec<Value> = given
            .iter()
            .filter(|(_, given)| *given)
            .map(|(name, _)| {
                json!({
                    "name": name, "in": "path", "required": true, "schema": { "type": "string" },
                })
            })
            .collect();
        item.insert("parameters".to_owned(), parameters.into());
        paths.insert(self.path.clone(), item.into());
    }

    /// Group and kind of the body.
    fn body(&self) -> (&'static str, &'static str) {
        if self.sub.is_empty() {
            return (self.kind.group, self.kind.kind);
        }
        let sub = subresource(self.kind, self.sub);
        let own = sub.group.is_empty();
        (if own { self.kind.group } else { sub.group }, sub.kind)
    }

    fn operation(&self, operation: &Operation) -> Value {
        let (group, body) = self.body();
        let schema = match operation.action {
            "list" => format!("{}List", name_of(group, body)),
            "delete" | "deletecollection" => {
                "io.k8s.apimachinery.pkg.apis.meta.v1.Status".to_owned()
            }
            _ => name_of(group, body),
        };
        let parameters: Vec<Value> = operation
            .parameters
            .split_whitespace()
            .filter_map(|name| {
                let mut lines = PARAMETERS.lines().map(|line| line.splitn(3, ' '));
                let mut row = lines.find_map(|mut row| (row.next()? == name).then_some(row))?;
                let (kind, words) = (row.next()?, row.next()?);
                Some(json!({
                    "name": name, "in": "query", "description": words, "schema": { "type": kind },
                }))
            })
            .collect();
        let mut entry = json!({
            "operationId": self.operation_id(operation.action),
            "parameters": parameters,
            "responses": {
                "200": {
                    "description": "OK",
                    "content": { "application/json": { "schema": reference(&schema) } },
                },
                "401": { "description": "Unauthorized" },
            },
            "x-kubernetes-action": operation.action,
            "x-kubernetes-group-version-kind": {
                "group": group, "version": self.kind.version, "kind": body,
            },
        });
        if let Some(content) = request(operation.action, &schema) {
            entry["requestBody"] = json!({ "content": content, "required": true });
        }
        entry
    }

    /// `patchCoreV1NamespacedServiceStatus`.
    fn operation_id(&self, action: &str) -> String {
        let verb = match action {
            "get" => "read",
            "put" => "replace",
            "post" => "create",
            "deletecollection" => "deleteCollection",
            other => other,
        };
        let group = match self.kind.group {
            "" => "core",
            group => group.split('.').next().unwrap_or(group),
        };
        let (before, after) = match (self.kind.namespaced, self.across) {
            (true, true) => ("", "ForAllNamespaces"),
            (true, false) => ("Namespaced", ""),
            (false, _) => ("", ""),
        };
        format!(
            "{verb}{}{}{before}{}{}{after}",
            capital(group),
            capital(self.kind.version),
            self.kind.kind,
            capital(self.sub)
        )
    }
}

fn capital(text: &str) -> String {
    let mut letters = text.chars();
    let first = letters.next().map(|letter| letter.to_ascii_uppercase());
    first.into_iter().chain(letters).collect()
}

fn request(action: &str, schema: &str) -> Option<Value> {
    match action {
        "post" | "put" => Some(json!({ "*/*": { "schema": reference(schema) } })),
        "patch" => {
            let media = [
                "application/json-patch+json",
                "application/merge-patch+json",
                "application/strategic-merge-patch+json",
                "application/apply-patch+yaml",
            ];
            let body = json!({ "schema": reference(&patch_name()) });
            let content = media
                .iter()
                .map(|media| ((*media).to_owned(), body.clone()));
            Some(Value::Object(content.collect()))
        }
        _ => None,
    }
}
