use super::*;
use crate::kinds::by_path;
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
    let rows = [
        (
            "unable to parse requirement: ",
            ["=a", "a in b", "a in (b", "a>x", "a b", "(a)"].as_slice(),
        ),
        ("found '", &["a,", "a=b=c"]),
    ];
    for (start, selectors) in rows {
        for selector in selectors {
            let refusal = Selector::parse(nodes, selector, "").unwrap_err();
            assert_eq!(refusal.code, 400, "{selector}");
            let message = &refusal.message;
            assert!(message.starts_with(start), "{selector}: {message}");
        }
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
