//! `bowline plan` on typical changes of Triton's load balancer machines: recorded in
//! `plans/triton-machines/*.txt`.

use super::Recording;
use super::triton::compare;

/// The recorded command lines, by name.
const RECORDED: &[(&str, &str)] = &[
    ("new-service", "-f new-service.yaml"),
    ("selected-nodes", "-f selected-nodes.yaml"),
    ("no-change", "-f no-change.yaml"),
    ("port-number", "-f port-number.yaml"),
    ("replicas", "-f replicas.yaml"),
    ("package", "-f package.yaml"),
    ("source-ranges", "-f source-ranges.yaml"),
    ("udp-port", "-f udp-port.yaml"),
    ("shared", "-f shared.yaml"),
    ("all", "--all"),
    // Both Services are on their way out.
    ("deletion", "shop/web"),
    ("deletion-shared", "shop/billing"),
];

/// What happens in the cluster before a recorded plan.
fn prepare(test: &Recording, name: &str) {
    if name == "deletion" {
        test.delete_service("web");
        test.delete_service("billing");
    }
}

#[tokio::test]
async fn typical_changes_of_load_balancer_machines_are_told_as_recorded_and_nothing_is_written() {
    compare("triton-machines", RECORDED, prepare).await;
}
