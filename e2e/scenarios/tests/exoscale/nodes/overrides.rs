//! Nodes that the operator describes.

use bowline_scenarios::objects::{SHUTDOWN, addresses, annotated, has_taint, text};
use bowline_scenarios::{is_real, scenario};
use bowline_simulator::machines::Power;

use super::harness::{A_WHILE, Harness, I1, NODE};

const OVERRIDES: &str = "
instances:
  overrides:
    - {name: '@edge-1', external: true}
    - name: '@edge-2'
      external: true
      externalID: rack7-u12
      type: baremetal-a
      region: onprem-zrh
      addresses:
        - {type: InternalIP, address: 10.20.0.11}
        - {type: ExternalIP, address: 203.0.113.11}
    - {name: '@pool-a1b2c-xyz', type: big, region: nowhere}
    - {name: '/^@edge-/', external: true}
";

/// Instance type, zone and region.
fn labels(node: &serde_json::Value) -> [&str; 3] {
    let of = |key: &str| text(&node["metadata"]["labels"][key]);
    [
        of("node.kubernetes.io/instance-type"),
        of("topology.kubernetes.io/zone"),
        of("topology.kubernetes.io/region"),
    ]
}

#[scenario]
async fn exoscale_case_31_an_external_node_is_initialised_without_a_call() {
    let test = Harness::configured(OVERRIDES).await;
    test.join_outside("edge-1", None);
    let node = test.initialized("edge-1").await;
    let id = text(&node["spec"]["providerID"]);
    let hash = "df594d71a145abdc3d2b8d6c6fa910dd4bb21f63de731ecd11fe97b6ff6ce691";
    // The hash is that of the name, which is longer where the server is shared.
    if is_real() {
        assert!(id.starts_with("exoscale://external-"), "{id}");
    } else {
        assert_eq!(id, format!("exoscale://external-{hash}"));
    }
    assert_eq!(labels(&node), ["external"; 3]);
    assert_eq!(addresses(&node), ["Hostname:edge-1"]);
    assert_eq!(test.cloud_calls("*").len(), 0);
    test.end().await;
}

#[scenario]
async fn exoscale_case_32_an_external_node_gets_exactly_what_is_said() {
    let test = Harness::configured(OVERRIDES).await;
    test.join_outside("edge-2", None);
    let node = test.initialized("edge-2").await;
    assert_eq!(node["spec"]["providerID"], "exoscale://rack7-u12");
    assert_eq!(labels(&node), ["baremetal-a", "onprem-zrh", "onprem-zrh"]);
    let wanted = [
        "InternalIP:10.20.0.11",
        "ExternalIP:203.0.113.11",
        "Hostname:edge-2",
    ];
    assert_eq!(addresses(&node), wanted);
    test.end().await;
}

#[scenario]
async fn exoscale_case_35_an_override_of_an_instance_replaces_only_its_type() {
    let test = Harness::configured(OVERRIDES).await;
    test.join(I1);
    let node = test.initialized(NODE).await;
    assert_eq!(node["spec"]["providerID"], format!("exoscale://{I1}"));
    assert_eq!(labels(&node), ["big", "ch-gva-2", "ch-gva-2"]);
    assert_eq!(addresses(&node).len(), 3);
    test.end().await;
}

#[scenario]
async fn exoscale_case_36_an_external_node_that_falls_silent_is_kept_as_it_is() {
    let test = Harness::configured(OVERRIDES).await;
    test.join_outside("edge-1", None);
    test.initialized("edge-1").await;
    test.until_ready("edge-1", "True").await;
    let before = test.content("edge-1");
    test.world.machines.set("rack://edge-1", Power::Off);
    test.until_ready("edge-1", "Unknown").await;
    test.long(A_WHILE).await;
    assert_eq!(test.content("edge-1"), before);
    assert!(!has_taint(&test.node("edge-1"), SHUTDOWN));
    assert_eq!(test.cloud_calls("*").len(), 0);
    test.end().await;
}

#[scenario]
async fn exoscale_case_90_an_external_node_with_an_address_of_its_own_keeps_it() {
    let test = Harness::configured(OVERRIDES).await;
    test.join_outside("edge-3", Some("10.9.0.33"));
    let node = test.initialized("edge-3").await;
    let mut list = addresses(&node);
    list.sort();
    assert_eq!(list, ["Hostname:edge-3", "InternalIP:10.9.0.33"]);
    let writes = test.writes_to("edge-3/status");
    assert_eq!(writes.len(), 0, "addresses unchanged: {writes:?}");
    test.end().await;
}

#[scenario]
async fn exoscale_case_07_with_instances_disabled_services_are_served_and_nodes_not_touched() {
    let test = Harness::configured("instances: {disabled: true}").await;
    test.join(I1);
    let key = "service.beta.kubernetes.io/exoscale-loadbalancer-service-instancepool-id";
    let pool = "0f0e0d0c-0b0a-4908-8706-050403020100";
    test.create_service(annotated("web", &[(key, pool)])).await;
    test.until_published("web").await;
    assert_eq!(test.cloud.balancers().len(), 1);
    assert_eq!(test.writes_to("*").len(), 0);
    test.end().await;
}
