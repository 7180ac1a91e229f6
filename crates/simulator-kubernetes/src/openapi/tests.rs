use serde_json::Value;

use super::*;
use crate::kinds::KINDS;

fn core() -> Value {
    document("", "v1").unwrap()
}

/// Every `$ref` below a value.
fn references(value: &Value, found: &mut Vec<String>) {
    match value {
        Value::Object(map) => {
            if let Some(Value::String(target)) = map.get("$ref") {
                found.push(target.clone());
            }
            map.values().for_each(|value| references(value, found));
        }
        Value::Array(items) => items.iter().for_each(|value| references(value, found)),
        _ => {}
    }
}

#[test]
fn the_index_names_every_group_version_and_each_has_a_document() {
    let index = index();
    let paths = index["paths"].as_object().unwrap();
    assert_eq!(paths.len(), group_versions().len());
    for (root, entry) in paths {
        let url = entry["serverRelativeURL"].as_str().unwrap();
        let (path, hash) = url.split_once("?hash=").unwrap();
        assert_eq!(path, format!("/openapi/v3/{root}"));
        assert_eq!(hash.len(), 64);
    }
    for kind in KINDS {
        assert!(
            document(kind.group, kind.version).is_some(),
            "{}",
            kind.kind
        );
    }
    assert!(document("apps", "v1").is_none());
}

#[test]
fn every_reference_leads_somewhere() {
    for (_, document) in documents().values() {
        let mut found = Vec::new();
        references(document, &mut found);
        assert!(found.len() > 10);
        for target in found {
            let pointer = target.strip_prefix('#').unwrap();
            assert!(document.pointer(pointer).is_some(), "{target}");
        }
    }
}

#[test]
fn schemas_carry_kinds_list_types_and_patch_strategies() {
    let schemas = &core()["components"]["schemas"];
    let node = &schemas["io.k8s.api.core.v1.Node"];
    assert_eq!(
        node["x-kubernetes-group-version-kind"],
        json!([{ "group": "", "version": "v1", "kind": "Node" }])
    );
    let addresses = &schemas["io.k8s.api.core.v1.NodeStatus"]["properties"]["addresses"];
    assert_eq!(addresses["x-kubernetes-list-type"], "map");
    assert_eq!(addresses["x-kubernetes-list-map-keys"], json!(["type"]));
    assert_eq!(addresses["x-kubernetes-patch-strategy"], "merge");
    assert_eq!(addresses["x-kubernetes-patch-merge-key"], "type");
    let taint = &schemas["io.k8s.api.core.v1.Taint"];
    assert_eq!(taint["required"], json!(["key", "effect"]));
    let port = &schemas["io.k8s.api.core.v1.ServicePort"]["properties"]["protocol"];
    assert_eq!(port["default"], "TCP");
    let volumes = &schemas["io.k8s.api.core.v1.PodSpec"]["properties"]["volumes"];
    assert_eq!(volumes["x-kubernetes-patch-strategy"], "merge,retainKeys");
}

#[test]
fn patch_operations_take_field_validation_for_every_stored_kind() {
    for kind in KINDS {
        let document = document(kind.group, kind.version).unwrap();
        let paths = document["paths"].as_object().unwrap();
        let patches = || {
            paths
                .values()
                .map(|path| &path["patch"])
                .filter(|patch| patch["x-kubernetes-group-version-kind"]["kind"] == kind.kind)
        };
        let stored = kind.role == crate::kinds::Role::Stored;
        assert_eq!(patches().count() > 0, stored, "{}", kind.kind);
        for patch in patches() {
            let parameters = patch["parameters"].as_array().unwrap();
            for name in ["fieldValidation", "dryRun", "fieldManager", "force"] {
                assert!(
                    parameters
                        .iter()
                        .any(|p| p["name"] == name && p["in"] == "query")
                );
            }
            let content = &patch["requestBody"]["content"];
            assert!(
                content
                    .get("application/strategic-merge-patch+json")
                    .is_some()
            );
        }
    }
}

#[test]
fn paths_have_their_parameters_and_unique_operations() {
    let core = core();
    let status = &core["paths"]["/api/v1/namespaces/{namespace}/services/{name}/status"];
    assert_eq!(status["parameters"].as_array().unwrap().len(), 2);
    assert!(status.get("delete").is_none());
    let token = &core["paths"]["/api/v1/namespaces/{namespace}/serviceaccounts/{name}/token"];
    assert_eq!(
        token["post"]["x-kubernetes-group-version-kind"],
        json!({ "group": "authentication.k8s.io", "version": "v1", "kind": "TokenRequest" })
    );
    for (_, document) in documents().values() {
        let mut ids = Vec::new();
        for path in document["paths"].as_object().unwrap().values() {
            let operations = path.as_object().unwrap().values();
            ids.extend(operations.filter_map(|o| o.get("operationId")?.as_str()));
        }
        let count = ids.len();
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), count);
    }
}

#[test]
fn descriptions_are_of_things_that_exist() {
    let catalogue = crate::schema::catalogue();
    for line in include_str!("words.txt").lines() {
        let (key, _) = line.split_once(' ').unwrap();
        let (name, field) = key
            .split_once('.')
            .map_or((key, None), |(n, f)| (n, Some(f)));
        let known = catalogue.structs().iter().any(|structure| {
            (name == "*" || structure.name == name)
                && field.is_none_or(|field| structure.field(field).is_some())
        });
        assert!(known, "{key}");
    }
}
