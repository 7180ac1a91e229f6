//! The pools, hosts and VMs of the specification's cases, and nodes.

pub(crate) use bowline_test_kit::{fresh, node as known};

use crate::api::Vm;

pub(crate) const PA: &str = "0b2f7c0e-3c1d-4f55-9d0a-6f1f6c3b7a10";
pub(crate) const PB: &str = "7e5a1d34-90bc-4d2e-8f61-3a2b1c0d9e8f";
pub(crate) const H1: &str = "6d6f4f6e-7f2b-4e0c-8a86-2f3b8c0f9e21";
pub(crate) const VM1: &str = "c1a9d5b2-4e7f-4a63-9b1d-0f2e3d4c5b6a";

pub(crate) fn vm1() -> Vm {
    serde_json::from_value(serde_json::json!({
        "type": "VM", "id": VM1, "uuid": VM1, "name_label": "worker 1",
        "power_state": "Running", "CPUs": {"max": 4, "number": 2},
        "memory": {
            "dynamic": [4_294_967_296_u64, 4_294_967_296_u64],
            "static": [2_147_483_648_u64, 4_294_967_296_u64],
            "size": 4_294_967_296_u64
        },
        "addresses": {"0/ipv4/0": "10.20.0.11"}, "mainIpAddress": "10.20.0.11",
        "tags": ["k8s"], "$container": H1, "$pool": PA, "$poolId": PA,
        "_xapiRef": "OpaqueRef:6f0e8f1c-5f5c-4c53-8d2b-1b8a3f9f5a01"
    }))
    .unwrap()
}
