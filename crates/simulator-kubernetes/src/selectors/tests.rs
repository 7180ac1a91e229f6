use super::*;
use crate::kinds::by_path;
use serde_json::json;

#[test]
fn a_field_selector_may_escape_its_signs() {
    let kind = by_path("certificates.k8s.io", "v1", "certificatesigningrequests").unwrap();
    let parsed = Selector::parse(kind, "", "spec.signerName=a\\,b").unwrap();
    assert!(parsed.matches(&json!({ "spec": { "signerName": "a,b" } })));
}
