//! What the chart gives the account that works with Triton, as there is no original.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bowline_simulator::rbac;
use serde_json::{Value, json};

use crate::{DEFAULT_ACCOUNT, DEFAULT_PRIVATE_KEY};

/// The account and its rights.
const RIGHTS: &str = include_str!("../../../../deploy/rbac-triton.yaml");

/// The account, its rights, and the Secret that `bowline triton credentials` would make.
pub fn manifest() -> Vec<Value> {
    let mut objects = rbac::shipped(RIGHTS);
    objects.push(json!({
        "apiVersion": "v1", "kind": "Secret", "type": "Opaque",
        "metadata": {"name": "triton-credentials", "namespace": "kube-system"},
        "data": {
            "SDC_ACCOUNT": STANDARD.encode(DEFAULT_ACCOUNT),
            "SDC_PRIVATE_KEY": STANDARD.encode(DEFAULT_PRIVATE_KEY),
        },
    }));
    objects
}
