//! What is served, in every form.

use super::*;

/// What `kubectl` sends.
const KUBECTL: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,\
     application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList,application/json";

fn body(path: &str) -> Value {
    answer(path, JSON).unwrap_or_else(|| panic!("{path}")).1
}

#[test]
fn the_accepted_form_of_best_quality_is_chosen() {
    let beta = "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList";
    for (accept, form) in [
        (KUBECTL, Form::Aggregated("v2")),
        (beta, Form::Aggregated("v2beta1")),
        ("application/json", Form::Plain),
        ("*/*", Form::Plain),
        ("", Form::Plain),
        ("application/vnd.kubernetes.protobuf", Form::Plain),
        (&format!("{beta};q=0.5,application/json;q=0.9"), Form::Plain),
        (
            &format!("application/json;q=0.5, {beta};q=0.9"),
            Form::Aggregated("v2beta1"),
        ),
        (&format!("{beta};q=0,application/json;q=0.1"), Form::Plain),
        (
            "application/json;g=x;v=v9;as=Y,application/json",
            Form::Plain,
        ),
    ] {
        assert_eq!(negotiate(accept), form, "{accept}");
    }
}

#[test]
fn aggregated_discovery_lists_everything_with_its_content_type() {
    for version in ["v2", "v2beta1"] {
        let wanted =
            format!("application/json;g=apidiscovery.k8s.io;v={version};as=APIGroupDiscoveryList");
        let mut count = 0;
        for path in ["/api", "/apis"] {
            let (content, list) = answer(path, &wanted).unwrap();
            assert_eq!(content, wanted);
            assert_eq!(list["apiVersion"], format!("apidiscovery.k8s.io/{version}"));
            for group in list["items"].as_array().unwrap() {
                count += group["versions"][0]["resources"].as_array().unwrap().len();
            }
        }
        assert_eq!(count, KINDS.len());
    }
    let (_, core) = answer("/api", KUBECTL).unwrap();
    let nodes = core["items"][0]["versions"][0]["resources"]
        .as_array()
        .unwrap();
    let nodes = nodes.iter().find(|r| r["resource"] == "nodes").unwrap();
    assert_eq!(
        *nodes,
        json!({
            "resource": "nodes", "singularResource": "node", "scope": "Cluster", "shortNames": ["no"],
            "responseKind": { "group": "", "version": "", "kind": "Node" },
            "verbs": ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"],
            "subresources": [{ "subresource": "status", "verbs": ["get", "patch", "update"],
                               "responseKind": { "group": "", "version": "", "kind": "Node" } }],
        })
    );
}

#[test]
fn old_discovery_names_groups_then_resources() {
    assert_eq!(body("/api")["versions"], json!(["v1"]));
    let groups = body("/apis");
    for group in groups["groups"].as_array().unwrap() {
        let name = group["name"].as_str().unwrap();
        let document = body(&format!("/apis/{name}"));
        assert_eq!(document["kind"], "APIGroup");
        assert_eq!(document["preferredVersion"], group["preferredVersion"]);
        let version = group["preferredVersion"]["groupVersion"].as_str().unwrap();
        assert_eq!(body(&format!("/apis/{version}"))["groupVersion"], version);
    }
}

#[test]
fn paths_that_are_not_discovery_have_no_answer() {
    for path in [
        "/api/v2",
        "/apis/apps",
        "/apis/apps/v1",
        "/api/v1/nodes",
        "/openapi/v2",
        "/openapi/v3/apis/apps/v1",
        "/apis/coordination.k8s.io/v2",
        "/healthz",
    ] {
        assert!(answer(path, JSON).is_none(), "{path}");
    }
    let paths = body("/")["paths"].clone();
    assert!(
        paths
            .as_array()
            .unwrap()
            .contains(&json!("/apis/discovery.k8s.io/v1"))
    );
    assert_eq!(body("/api/v1/"), body("/api/v1?timeout=32s"));
}
