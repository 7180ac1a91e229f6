//! `bowline plan` on typical changes at Triton: recorded in `plans/triton/*.txt`.

use bowline_simulator::fixture;
use bowline_simulator_triton::{DEFAULT_PRIVATE_KEY, Fixture, Triton};
use serde_json::json;

use super::{Recording, folder};

/// The recorded command lines, by name.
const RECORDED: &[(&str, &str)] = &[
    ("new-service", "-f new-service.yaml"),
    ("no-change", "-f no-change.yaml"),
    ("port-number", "-f port-number.yaml"),
    ("label", "-f label.yaml"),
    ("direct", "-f direct.yaml"),
    ("internal", "-f internal.yaml"),
    ("reserved-port", "-f reserved-port.yaml"),
    ("bad-annotation", "-f bad-annotation.yaml"),
    ("source-ranges", "-f source-ranges.yaml"),
    ("all", "--all"),
    // What is done to the cluster before these is in `prepare`.
    ("nodes", "shop/web"),
    ("deletion", "shop/web"),
];

/// What happens in the cluster before a recorded plan.
fn prepare(test: &Recording, name: &str) {
    match name {
        "nodes" => {
            test.delete_node("worker-b");
            test.edit("Node", ("", "worker-c"), |node| {
                node["status"]["conditions"] = json!([{"type": "Ready", "status": "True"}]);
            });
        }
        "deletion" => test.delete_service("web"),
        _ => {}
    }
}

#[tokio::test]
async fn typical_changes_at_triton_are_told_as_recorded_and_nothing_is_written() {
    compare("triton", RECORDED, prepare).await;
}

/// Asks for the plans of a folder, each after what happens in the cluster before it.
pub(super) async fn compare(
    name: &str,
    recorded: &[(&str, &str)],
    prepare: impl Fn(&Recording, &str),
) {
    let test = Recording::new(folder().join(name), Vec::new()).await;
    test.edit("Namespace", ("", "kube-system"), |namespace| {
        namespace["metadata"]["uid"] = json!("cccccccc-0000-4000-8000-00000000000c");
    });
    let fixture: Fixture = fixture::read(&test.folder.join("cloud.yaml")).unwrap();
    let cloud = Triton::from_fixture(&test.world, fixture).unwrap();
    let server = test.serve(cloud).await;
    let url = format!("http://{}", server.local_addr().unwrap());
    let environment = [
        ("SDC_ENDPOINT", url.as_str()),
        ("SDC_ACCOUNT", "acme"),
        ("SDC_PRIVATE_KEY", DEFAULT_PRIVATE_KEY),
        ("TRITON_LB_PACKAGE", "lb1.small"),
        ("TRITON_LB_ALLOWED_PACKAGES", "g4-highcpu-1G"),
    ];
    let program = ("triton", &environment[..]);
    test.compare(program, recorded, "", |name| prepare(&test, name))
        .await;
}
