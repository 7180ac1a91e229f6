//! Bodies as Go's clients write them.

use proptest::prelude::*;

use super::*;

/// A field with bytes.
fn bytes(number: u8, content: &[u8]) -> Vec<u8> {
    assert!(content.len() < 128, "one byte of length is enough here");
    let length = u8::try_from(content.len()).unwrap();
    [&[number << 3 | 2, length], content].concat()
}

/// A field with a number below 128.
fn number(field: u8, content: u8) -> Vec<u8> {
    vec![field << 3, content]
}

fn body(version: &str, kind: &str, raw: &[u8]) -> Vec<u8> {
    let types = [bytes(1, version.as_bytes()), bytes(2, kind.as_bytes())].concat();
    [
        MAGIC,
        &bytes(1, &types),
        &bytes(2, raw),
        &bytes(3, b""),
        &bytes(4, b""),
    ]
    .concat()
}

#[test]
fn a_token_request_reads_like_its_json() {
    let spec = [
        bytes(1, b"vault"),
        bytes(1, b"api"),
        vec![4 << 3, 0xd8, 0x04],
    ]
    .concat();
    // An unset metadata is still written, field by field.
    let metadata = [bytes(1, b""), bytes(2, b""), number(7, 0), bytes(8, b"")].concat();
    let status = [bytes(1, b""), bytes(2, b"")].concat();
    let raw = [bytes(1, &metadata), bytes(2, &spec), bytes(3, &status)].concat();
    let read = decode(&body("authentication.k8s.io/v1", "TokenRequest", &raw)).unwrap();
    assert_eq!(read["kind"], "TokenRequest");
    assert_eq!(read["apiVersion"], "authentication.k8s.io/v1");
    let expected = json!({ "audiences": ["vault", "api"], "expirationSeconds": 600 });
    assert_eq!(read["spec"], expected);
    assert_eq!(read["metadata"].get("generation"), None);
    assert_eq!(read["metadata"].get("name"), None);
}

#[test]
fn a_lease_keeps_its_microseconds() {
    let time = [
        vec![1 << 3, 0x80, 0xcc, 0x80, 0xd7, 0x06],
        vec![2 << 3, 0xc0, 0x84, 0x3d],
    ]
    .concat();
    let spec = [
        bytes(1, b"me"),
        number(2, 15),
        bytes(4, &time),
        number(5, 0),
    ]
    .concat();
    let raw = [bytes(1, &bytes(1, b"lock")), bytes(2, &spec)].concat();
    let read = decode(&body("coordination.k8s.io/v1", "Lease", &raw)).unwrap();
    assert_eq!(read["metadata"], json!({ "name": "lock" }));
    let spec = &read["spec"];
    assert_eq!(spec["holderIdentity"], "me");
    assert_eq!(spec["leaseDurationSeconds"], 15);
    // Zero is reported apart from unset here.
    assert_eq!(spec["leaseTransitions"], 0);
    let renewed = spec["renewTime"].as_str().unwrap();
    assert!(renewed.ends_with(".001000Z"), "{renewed}");
}

#[test]
fn maps_hidden_messages_and_wrapped_lists_are_unfolded() {
    let entry = |key: &[u8], value: &[u8]| [bytes(1, key), bytes(2, value)].concat();
    let metadata = bytes(11, &entry(b"app", b"web"));
    let volume = [bytes(1, b"tmp"), bytes(2, &bytes(2, b""))].concat();
    let raw = [bytes(1, &metadata), bytes(2, &bytes(1, &volume))].concat();
    let read = decode(&body("v1", "Pod", &raw)).unwrap();
    assert_eq!(read["metadata"]["labels"], json!({ "app": "web" }));
    assert_eq!(
        read["spec"]["volumes"],
        json!([{ "name": "tmp", "emptyDir": {} }])
    );
    let extra = entry(b"scopes", &[bytes(1, b"a"), bytes(1, b"b")].concat());
    let raw = bytes(2, &[bytes(3, b"ann"), bytes(5, &extra)].concat());
    let read = decode(&body(
        "authorization.k8s.io/v1",
        "SubjectAccessReview",
        &raw,
    ))
    .unwrap();
    assert_eq!(
        read["spec"],
        json!({ "user": "ann", "extra": { "scopes": ["a", "b"] } })
    );
}

#[test]
fn every_field_of_every_served_type_has_its_number() {
    for structure in catalogue().structs() {
        let name = structure.full_name();
        let numbers = numbers().get(&name).unwrap_or_else(|| panic!("{name}"));
        for field in &structure.fields {
            let known = numbers.values().any(|one| *one == field.name);
            let of_type = field.name == "kind" || field.name == "apiVersion";
            assert!(known || of_type, "{name}.{}", field.name);
        }
    }
}

#[test]
fn what_is_no_object_is_refused() {
    assert_eq!(decode(b"{}"), Err(Unreadable::NoPrefix));
    assert_eq!(decode(b"k8s\0\x0a\x05a"), Err(Unreadable::Broken));
    assert_eq!(
        decode(&body("v1", "Nonsense", b"")),
        Err(Unreadable::UnknownKind)
    );
    assert_eq!(
        decode(&body("v1", "Node", b"\x0a\x7f")),
        Err(Unreadable::Broken)
    );
}

#[test]
fn what_is_written_reads_the_same() {
    let node = json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": {
            "name": "n1", "resourceVersion": "7", "creationTimestamp": "2026-01-02T03:04:05Z",
            "labels": { "a": "b", "c": "" }, "finalizers": ["x"],
            "managedFields": [{ "manager": "kubelet", "fieldsV1": { "f:status": {} } }],
        },
        "spec": { "podCIDRs": ["10.0.0.0/24"], "taints": [{ "key": "k", "effect": "NoExecute" }] },
        "status": {
            "capacity": { "cpu": "4", "memory": "16Gi" },
            "daemonEndpoints": { "kubeletEndpoint": { "Port": 10250 } },
            "images": [{ "names": ["a", "b"], "sizeBytes": 5_000_000_000_u64 }],
        },
    });
    let service = json!({
        "apiVersion": "v1", "kind": "Service", "metadata": { "name": "web", "namespace": "default" },
        "spec": { "ports": [{ "port": 80, "targetPort": "http" }, { "port": 81, "targetPort": 8081 }],
                  "allocateLoadBalancerNodePorts": false },
    });
    let status = json!({
        "apiVersion": "v1", "kind": "Status", "metadata": {}, "status": "Failure", "code": 410,
    });
    for object in [node, service, status] {
        let read = decode(&encode(&object).unwrap()).unwrap();
        for (key, value) in object.as_object().unwrap() {
            let read = &read[key];
            let same = value
                .as_object()
                .is_none_or(|fields| fields.iter().all(|(key, value)| read[key] == *value));
            assert!(
                same && (value.is_object() || read == value),
                "{key}: {read}"
            );
        }
    }
    assert_eq!(
        encode(&json!({ "apiVersion": "v1", "kind": "Nonsense" })),
        None
    );
}

proptest! {
    #[test]
    fn any_bytes_end_in_an_object_or_an_error(raw in proptest::collection::vec(any::<u8>(), 0..100)) {
        let _ = decode(&body("v1", "Pod", &raw));
        let _ = decode(&[MAGIC, &raw].concat());
    }
}
