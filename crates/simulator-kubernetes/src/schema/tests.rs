use serde_json::{Value, json};

use super::*;
use crate::kinds::{KINDS, by_kind, named as kind};

#[test]
fn the_text_reads_and_every_served_kind_has_its_type() {
    let catalogue = load::read(TEXT).unwrap();
    assert!(catalogue.structs().len() > 200);
    for kind in KINDS {
        let Type::Struct(place) = type_of(kind) else {
            panic!("{} has no type", kind.kind);
        };
        let structure = catalogue.at(place).unwrap();
        assert_eq!(structure.name, kind.kind);
        assert!(structure.field("metadata").is_some(), "{}", kind.kind);
    }
    for (group, name) in [
        ("", "Binding"),
        ("policy", "Eviction"),
        ("authentication.k8s.io", "TokenRequest"),
    ] {
        assert_ne!(type_named(group, name), Type::Raw, "{name}");
    }
}

#[test]
fn broken_text_is_refused_with_its_line() {
    for (text, part) in [
        ("package a x\nT\n f nothing", "line 3: no such type"),
        ("package a x\nT\n f b.T", "line 3: no such package"),
        ("package a x\nT\nT", "line 3: T is there twice"),
        ("package a x\nT\n f", "line 3: a field needs a type"),
        ("package a x\n f string", "line 2: a field without a type"),
        (
            "package a x\nT\n f string colour=red",
            "line 3: unknown word",
        ),
        ("package a", "line 1: a package needs two names"),
    ] {
        let error = load::read(text).unwrap_err();
        assert!(error.starts_with(part), "{text:?}: {error}");
    }
}

#[test]
fn list_semantics_and_patch_strategies_are_those_of_the_api() {
    for (path, list, merge) in [
        ("Node.status.addresses", "map type", "merge by type"),
        ("Node.status.conditions", "map type", "merge by type"),
        ("Node.status.images", "atomic", "replace"),
        ("Node.spec.taints", "atomic", "replace"),
        ("Node.spec.podCIDRs", "set", "merge"),
        ("Node.metadata.finalizers", "set", "merge"),
        ("Node.metadata.ownerReferences", "map uid", "merge by uid"),
        ("Service.spec.ports", "map port protocol", "merge by port"),
        ("Service.status.loadBalancer.ingress", "atomic", "replace"),
        ("Service.status.conditions", "map type", "merge by type"),
        ("EndpointSlice.endpoints", "atomic", "replace"),
        (
            "CertificateSigningRequest.status.conditions",
            "map type",
            "replace",
        ),
        ("Secret.metadata.managedFields", "atomic", "replace"),
    ] {
        let mut names = path.split('.');
        let mut structure = catalogue().structure(&type_of(kind(names.next().unwrap())));
        let mut found = None;
        for name in names {
            found = structure.and_then(|s| s.field(name));
            structure = found.and_then(|f| catalogue().structure(&f.kind));
        }
        let field = found.unwrap_or_else(|| panic!("{path}"));
        let shape = match &field.list {
            ListShape::Atomic => "atomic".to_owned(),
            ListShape::Set => "set".to_owned(),
            ListShape::Map(keys) => format!("map {}", keys.join(" ")),
        };
        let patched = match (field.patch.merge, field.patch.key) {
            (true, Some(key)) => format!("merge by {key}"),
            (true, None) => "merge".to_owned(),
            (false, None) => "replace".to_owned(),
            (false, Some(key)) => format!("replace by {key}"),
        };
        assert_eq!((shape.as_str(), patched.as_str()), (list, merge), "{path}");
    }
}

#[test]
fn decoding_what_was_kept_changes_nothing() {
    for kind in KINDS {
        let (once, _) = check_fields(kind, json!({}), FieldValidation::Strict).unwrap();
        let twice = check_fields(kind, once.clone(), FieldValidation::Strict).unwrap();
        assert_eq!(twice, (once, Vec::new()), "{}", kind.kind);
    }
}

#[test]
fn sub_resource_bodies_are_decoded_by_name() {
    let kind = type_named("authentication.k8s.io", "TokenRequest");
    let (request, unknown) = decode(
        &kind,
        json!({ "spec": { "audiences": ["a"], "expirationSeconds": 600, "x": 1 } }),
    )
    .unwrap();
    assert_eq!(request["spec"]["expirationSeconds"], 600);
    assert_eq!(unknown, ["spec.x"]);
    assert!(by_kind("", "v1", "Binding").is_none());
}

/// One case per line: `kind`, `object`, and the `result` that Kubernetes keeps of it
/// (`e2e/control-plane/facts` asks it).
const VECTORS: &str = include_str!("vectors.jsonl");

#[test]
fn objects_of_every_kind_are_kept_as_the_reference_implementation_keeps_them() {
    let mut seen = std::collections::BTreeSet::new();
    for line in VECTORS.lines() {
        let case: Value = serde_json::from_str(line).unwrap();
        let kind = kind(case["kind"].as_str().unwrap());
        let (kept, unknown) = decode(&type_of(kind), case["object"].clone()).unwrap();
        assert_eq!((&kept, unknown), (&case["result"], Vec::new()), "{line}");
        seen.insert(kind.kind);
    }
    // The newer form of events has no vector here: the conformance suite holds it against a real server.
    let rows = KINDS.iter().filter(|row| row.group != "events.k8s.io");
    assert_eq!(seen.len(), rows.count());
}
