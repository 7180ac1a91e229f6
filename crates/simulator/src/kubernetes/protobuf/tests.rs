use super::*;

/// A field of bytes.
fn bytes(number: u8, content: &[u8]) -> Vec<u8> {
    let mut encoded = vec![number << 3 | 2];
    let mut length = content.len();
    while length > 0x7f {
        encoded.push(u8::try_from(length & 0x7f).unwrap() | 0x80);
        length >>= 7;
    }
    encoded.push(u8::try_from(length).unwrap());
    encoded.extend_from_slice(content);
    encoded
}

/// A field of a small number.
fn number(number: u8, value: u8) -> Vec<u8> {
    vec![number << 3, value]
}

fn body(version: &str, kind: &str, message: &[u8]) -> Vec<u8> {
    let types = [bytes(1, version.as_bytes()), bytes(2, kind.as_bytes())].concat();
    [MAGIC.to_vec(), bytes(1, &types), bytes(2, message)].concat()
}

#[test]
fn every_type_in_the_table_is_known() {
    let plain = ["string", "int32", "int64", "bool", "bytes"];
    let special = [
        "@time",
        "@microtime",
        "@quantity",
        "@strings",
        "@fields",
        "@intorstring",
    ];
    assert!(MESSAGES.len() > 200);
    for (message, fields) in MESSAGES.iter() {
        assert!(!fields.contains_key(&0), "{message}");
        for field in fields.values() {
            let known = plain.contains(&field.kind)
                || special.contains(&field.kind)
                || MESSAGES.contains_key(field.kind);
            assert!(known, "{message}.{}: {}", field.name, field.kind);
        }
    }
}

#[test]
fn every_served_kind_can_be_read() {
    for kind in crate::kubernetes::kinds::KINDS {
        let read = decode(&body(&kind.api_version(), kind.kind, &[])).unwrap();
        assert_eq!(read["kind"], kind.kind);
    }
}

#[test]
fn unset_values_are_left_out_and_set_zeros_stay() {
    let metadata = [bytes(1, b"s"), bytes(2, b""), number(7, 0), bytes(8, b"")].concat();
    let metadata = [
        metadata,
        bytes(11, &[bytes(1, b"k"), bytes(2, b"v")].concat()),
    ]
    .concat();
    let target = [number(1, 1), number(2, 0), bytes(3, b"http")].concat();
    let port = [
        bytes(1, b""),
        number(3, 80),
        bytes(4, &target),
        number(5, 0),
    ]
    .concat();
    // Field 20 needs a tag of two bytes.
    let spec = [
        bytes(1, &port),
        bytes(4, b"LoadBalancer"),
        vec![0xa0, 0x01, 0],
    ]
    .concat();
    let message = [bytes(1, &metadata), bytes(2, &spec)].concat();
    let read = decode(&body("v1", "Service", &message)).unwrap();
    assert_eq!(
        read,
        json!({
            "apiVersion": "v1", "kind": "Service",
            "metadata": { "name": "s", "labels": { "k": "v" } },
            "spec": {
                "type": "LoadBalancer", "ports": [{ "port": 80, "targetPort": "http" }],
                "allocateLoadBalancerNodePorts": false,
            },
        })
    );
}

#[test]
fn times_bytes_and_quantities_have_forms_of_their_own() {
    let renewed = [number(1, 5), vec![0x10, 0xc0, 0x84, 0x3d]].concat();
    let spec = [bytes(1, b"me"), number(2, 15), bytes(4, &renewed)].concat();
    let read = decode(&body("coordination.k8s.io/v1", "Lease", &bytes(2, &spec))).unwrap();
    assert_eq!(
        read["spec"],
        json!({
            "holderIdentity": "me", "leaseDurationSeconds": 15,
            "renewTime": "1970-01-01T00:00:05.001000Z",
        })
    );
    let data = [bytes(1, b"k"), bytes(2, b"v")].concat();
    let read = decode(&body("v1", "Secret", &bytes(2, &data))).unwrap();
    assert_eq!(read["data"]["k"], "dg==");
    let cpu = [bytes(1, b"cpu"), bytes(2, &bytes(1, b"4"))].concat();
    let read = decode(&body("v1", "Node", &bytes(3, &bytes(1, &cpu)))).unwrap();
    assert_eq!(read["status"]["capacity"]["cpu"], "4");
}

#[test]
fn what_cannot_be_read_is_an_error_and_no_panic() {
    let good = body("v1", "ConfigMap", &bytes(1, &bytes(1, b"name")));
    assert!(decode(b"{}").is_err());
    assert!(decode(&body("v1", "Unknown", &[])).is_err());
    for length in 0..good.len() {
        let _ = decode(&good[..length]);
    }
    assert!(decode(&good[..good.len() - 1]).is_err());
    assert!(decode(&body("v1", "ConfigMap", &[0xff; 12])).is_err());
    assert!(
        decode(&body("v1", "ConfigMap", &[0x0b])).is_err(),
        "groups are not used"
    );
}

proptest::proptest! {
    #[test]
    fn any_bytes_are_read_or_refused(content: Vec<u8>) {
        let _ = decode(&body("v1", "Pod", &content));
    }
}
