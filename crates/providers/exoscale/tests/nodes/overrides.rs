//! Overrides of nodes.

use bowline_core::{Claim, Instance, Lookup, Node, NodeAddress, initialize};

use crate::harness::{Harness, I1, addresses, found, fresh, known, with_node_ip};

const OVERRIDES: &str = "
instances:
  overrides:
    - {name: '/^(edge|gpu)-.*/', external: true, type: by-expression}
    - {name: edge-1, external: true}
    - name: edge-2
      external: true
      externalID: rack7-u12
      type: baremetal-a
      region: onprem-zrh
      addresses:
        - {type: InternalIP, address: 10.20.0.11}
        - {type: ExternalIP, address: 203.0.113.11}
    - {name: n1, type: big, region: nowhere}
    - {name: '/^gpu-.*/', external: true}
    - name: n2
      externalID: inside
      addresses: [{type: InternalIP, address: 10.1.1.1}]
";

fn id(instance: &Instance) -> &str {
    instance.provider_id.as_ref().unwrap().as_str()
}

/// What the node's addresses become, as `Type:value`; none if they stay.
fn written(node: &Node, instance: &Instance) -> Option<Vec<String>> {
    let change = initialize(node, instance).unwrap();
    let list = change.addresses?;
    Some(list.iter().map(ToString::to_string).collect())
}

fn with_addresses(node: Node, list: &[&str]) -> Node {
    let mut node = node;
    let parts = list.iter().filter_map(|text| text.split_once(':'));
    node.addresses = parts
        .map(|(kind, address)| NodeAddress::new(kind.into(), address))
        .collect();
    node
}

#[tokio::test(start_paused = true)]
async fn exoscale_case_31_an_external_node_gets_a_derived_id_and_keeps_its_addresses() {
    let test = Harness::configured(OVERRIDES).await;
    let node = fresh("edge-1", "not even a uuid");
    let node = with_addresses(node, &["InternalIP:10.9.0.31", "Hostname:edge-1"]);
    let instance = found(test.ask_one(&node).await);
    assert_eq!(
        id(&instance),
        "exoscale://external-df594d71a145abdc3d2b8d6c6fa910dd4bb21f63de731ecd11fe97b6ff6ce691"
    );
    let place = [&instance.instance_type, &instance.zone, &instance.region];
    assert_eq!(place, ["external"; 3]);
    assert_eq!(written(&node, &instance), None);
    assert_eq!(test.calls(), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn exoscale_case_32_an_external_node_gets_exactly_what_is_said() {
    let test = Harness::configured(OVERRIDES).await;
    let node = with_addresses(fresh("edge-2", ""), &["InternalIP:10.9.0.1", "Hostname:e2"]);
    let instance = found(test.ask_one(&node).await);
    assert_eq!(id(&instance), "exoscale://rack7-u12");
    assert_eq!(instance.instance_type, "baremetal-a");
    assert_eq!(
        (&*instance.zone, &*instance.region),
        ("onprem-zrh", "onprem-zrh")
    );
    let wanted = [
        "InternalIP:10.20.0.11",
        "ExternalIP:203.0.113.11",
        "Hostname:e2",
    ];
    assert_eq!(written(&node, &instance).unwrap(), wanted);
    // Found by its id, whatever the node is called.
    let instance = found(
        test.ask_one(&known("renamed", "exoscale://rack7-u12"))
            .await,
    );
    assert_eq!(instance.instance_type, "baremetal-a");
    assert_eq!(test.calls(), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn exoscale_case_33_an_expression_is_part_of_the_id_with_its_slashes() {
    let test =
        Harness::configured("instances: {overrides: [{name: '/^gpu-.*/', external: true}]}").await;
    let instance = found(test.ask_one(&fresh("gpu-7", "")).await);
    assert_eq!(
        id(&instance),
        "exoscale://external-e98c73596beb9092d8ce21ea20b982c5e66f480aaab6160792fd4b9ff5045fbb"
    );
    assert_eq!(test.calls(), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn exoscale_case_34_an_exact_name_goes_before_an_expression() {
    let test = Harness::configured(OVERRIDES).await;
    let exact = found(test.ask_one(&fresh("edge-1", "")).await);
    assert_eq!(exact.instance_type, "external");
    let other = found(test.ask_one(&fresh("edge-9", "")).await);
    assert_eq!(other.instance_type, "by-expression");
}

#[tokio::test(start_paused = true)]
async fn exoscale_case_35_an_override_of_an_instance_replaces_only_what_it_says() {
    let test = Harness::configured(OVERRIDES).await;
    let instance = found(test.ask_one(&fresh("n1", I1)).await);
    assert_eq!(id(&instance), format!("exoscale://{I1}"));
    assert_eq!(instance.instance_type, "big");
    assert_eq!(
        (&*instance.zone, &*instance.region),
        ("ch-gva-2", "ch-gva-2")
    );
    assert_eq!(addresses(&instance).len(), 3);
    assert_eq!(test.calls().len(), 1, "the type is not asked for");
    let instance = found(test.ask_one(&fresh("n2", I1)).await);
    assert_eq!(instance.instance_type, "standard.medium");
    assert_eq!(addresses(&instance), ["InternalIP:10.1.1.1"]);
}

#[tokio::test(start_paused = true)]
async fn exoscale_case_36_an_external_node_is_there_for_ever() {
    let test = Harness::configured(OVERRIDES).await;
    let node = known("edge-1", "");
    let derived = found(test.ask_one(&node).await).provider_id.unwrap();
    for node in [node, known("edge-1", derived.as_str())] {
        let instance = found(test.ask_one(&node).await);
        assert_ne!(instance.power, bowline_core::Power::Off);
    }
    assert_eq!(test.calls(), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn exoscale_case_90_an_external_node_with_a_node_ip_is_initialised_as_it_is() {
    let file = "instances: {overrides: [{name: '/^edge-/', external: true}]}";
    let test = Harness::configured(file).await;
    let node = with_node_ip(fresh("edge-3", ""), "10.9.0.33");
    let node = with_addresses(node, &["InternalIP:10.9.0.33", "Hostname:edge-3"]);
    let instance = found(test.ask_one(&node).await);
    assert_eq!(written(&node, &instance), None);
    let change = initialize(&node, &instance).unwrap();
    assert_eq!(change.taints, []);
    assert!(
        change
            .provider_id
            .unwrap()
            .starts_with("exoscale://external-")
    );
}

#[tokio::test(start_paused = true)]
async fn where_only_external_nodes_count_the_api_is_never_asked() {
    let file = "instances: {externalOnly: true, overrides: [{name: edge-1, external: true}]}";
    let test = Harness::configured(file).await;
    found(test.ask_one(&fresh("edge-1", "")).await);
    for node in [fresh("w", I1), known("w", &format!("exoscale://{I1}"))] {
        assert_eq!(test.cloud.match_node(&node).claim, Claim::Foreign);
        let answer = test.ask_one(&node).await;
        assert!(matches!(answer, Lookup::NotMine), "{answer:?}");
    }
    test.canary().await.unwrap();
    assert_eq!(test.calls(), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn exoscale_case_07_with_instances_disabled_there_are_none() {
    let test = Harness::configured("instances: {disabled: true}").await;
    assert!(test.cloud.instances().is_none());
}
