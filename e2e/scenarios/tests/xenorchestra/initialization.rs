//! New nodes: which VM they are, and what they get.

use bowline_scenarios::objects::{
    PROVIDED_NODE_IP, SHUTDOWN, addresses, fresh, has_taint, is_uninitialized, node_info, text,
};
use bowline_scenarios::{TestCluster, scenario};
use bowline_simulator::KubeletSpec;
use serde_json::{Value, json};

use super::harness::{
    A_WHILE, BETA_REGION, BETA_TYPE, BETA_ZONE, FIRST_HOST, FIRST_POOL, HOST_ID, HOST_NAME,
    Harness, NOBODY, NODE, POOL_ID, POOL_NAME, REGION, TYPE, VM_NAME, VM1, ZONE, assert_labels,
    assert_without, id1, wanted_labels,
};

const INTERNAL: &str = "InternalIP:10.20.0.11";
const EXTERNAL: &str = "ExternalIP:10.20.0.11";
const HOST: &str = "Hostname:w1";

/// Everything that the node of VM1 gets, as its kubelet is told its address.
#[track_caller]
fn assert_whole(node: &Value) {
    assert_eq!(node["spec"]["providerID"], id1());
    assert_labels(node, &wanted_labels());
    assert_without(node, &[FIRST_HOST, FIRST_POOL]);
    assert_eq!(addresses(node), [INTERNAL, EXTERNAL, HOST]);
    assert!(!is_uninitialized(node));
}

#[scenario]
async fn xenorchestra_case_80_a_new_node_is_told_of_once(test: Harness) {
    test.joined().await;
    let events = test.events(NODE);
    let wanted = "Normal Synced cloud-node-controller: Node synced successfully (1)";
    assert!(events.iter().any(|it| it == wanted), "{events:?}");
    test.rounds().await;
    assert_eq!(test.event_count(NODE, "Synced"), 1);
}

#[scenario]
async fn xenorchestra_case_21_a_new_node_gets_id_labels_and_addresses_and_loses_the_taint() {
    let story = async |settings: &str| {
        let test = Harness::configured(settings).await;
        assert_whole(&test.joined().await);
        test.rounds().await;
        assert_whole(&test.node(NODE));
        assert_eq!(test.writes_to("*").len(), 2, "nothing changed since");
        test.end().await;
    };
    futures::join!(story(""), story("events: no\n"));
}

#[scenario]
async fn xenorchestra_case_22_a_machine_that_tells_its_id_in_the_other_order_is_found(
    test: Harness,
) {
    let swapped = test.cloud.swapped_kubelet(VM1).unwrap().system_uuid;
    assert_eq!(swapped, "b2d5a9c1-7f4e-634a-9b1d-0f2e3d4c5b6a");
    test.join_as(KubeletSpec {
        system_uuid: swapped,
        ..test.kubelet()
    });
    test.initialized(NODE).await;
    assert_whole(&test.node(NODE));
}

#[scenario]
async fn xenorchestra_case_25_the_addresses_of_the_kubelet_come_first_in_its_order(test: Harness) {
    test.join_as(KubeletSpec {
        provided_node_ip: Some("10.20.0.11,2001:db8::11".into()),
        ..test.kubelet()
    });
    let list = addresses(&test.initialized(NODE).await);
    let wanted = [INTERNAL, EXTERNAL, "InternalIP:2001:db8::11", HOST];
    assert_eq!(list, wanted);
}

#[scenario]
async fn xenorchestra_case_26_without_an_address_of_the_kubelet_only_the_main_one_is_told(
    test: Harness,
) {
    test.join_as(KubeletSpec {
        provided_node_ip: None,
        own_addresses: Vec::new(),
        ..test.kubelet()
    });
    let list = addresses(&test.initialized(NODE).await);
    assert_eq!(list, [EXTERNAL, HOST]);
}

#[scenario]
async fn xenorchestra_case_27_a_vm_without_guest_tools_has_the_address_of_its_kubelet(
    test: Harness,
) {
    let kubelet = test.kubelet();
    test.cloud.set_guest(VM1, &[]).unwrap();
    test.join_as(kubelet);
    let list = addresses(&test.initialized(NODE).await);
    assert_eq!(list, [INTERNAL, HOST]);
}

#[scenario]
async fn xenorchestra_case_29_an_id_that_the_kubelet_gives_wins(test: Harness) {
    test.join_as(KubeletSpec {
        provider_id: Some(id1()),
        system_uuid: NOBODY.to_owned(),
        ..test.kubelet()
    });
    test.initialized(NODE).await;
    assert_whole(&test.node(NODE));
}

#[scenario]
async fn xenorchestra_case_30_a_node_that_tells_nothing_waits_and_costs_no_request() {
    let test = Harness::polling().await;
    let mut node = fresh(NODE);
    node["status"]["nodeInfo"] = node_info("", "");
    test.create(node).await;
    test.long(A_WHILE).await;
    assert!(is_uninitialized(&test.node(NODE)));
    assert_eq!(test.reads(), []);
    assert_eq!(test.writes_to("*"), []);
    test.end().await;
}

#[scenario]
async fn a_node_whose_vm_is_not_known_is_told_once_with_what_to_check() {
    let test = Harness::polling().await;
    let mut node = fresh(NODE);
    node["status"]["nodeInfo"] = node_info(NOBODY, "");
    test.create(node).await;
    test.until_event(NODE, "MachineNotFound").await;
    let reported = test.message(NODE, "MachineNotFound").await;
    for words in [NOBODY, "by its UUID", "pool is connected"] {
        assert!(reported.contains(words), "{reported}");
    }
    let explained = test.explained(NODE).await;
    let advice = explained.split("What to do").nth(1).unwrap();
    assert!(advice.contains("by its UUID"), "{explained}");
    assert!(!advice.contains("the Node's name there"), "{explained}");
    test.long(A_WHILE).await;
    assert_eq!(test.event_count(NODE, "MachineNotFound"), 1);
    assert!(is_uninitialized(&test.node(NODE)));
    test.end().await;
}

#[scenario]
async fn xenorchestra_case_41_a_foreign_node_keeps_its_taint_and_is_not_touched() {
    let test = Harness::polling().await;
    let mut node = fresh(NODE);
    node["spec"]["providerID"] = "exoscale://6f1d2c3b-7a55-4e0c-9b61-2d3e4f5a6b7c".into();
    // Not even its machine's id makes it ours.
    node["status"]["nodeInfo"] = node_info(VM1, "");
    test.create(node).await;
    let before = test.content(NODE);
    test.long(A_WHILE).await;
    assert_eq!(test.content(NODE), before);
    assert!(is_uninitialized(&test.node(NODE)));
    assert_eq!((test.reads(), test.writes_to("*")), (vec![], vec![]));
    test.end().await;
}

#[scenario]
async fn xenorchestra_case_78_an_old_node_without_an_id_is_told_about_and_never_deleted() {
    let test = Harness::polling().await;
    let mut node = fresh(NODE);
    node["spec"] = json!({});
    node["status"]["nodeInfo"] = node_info(VM1, "");
    test.create(node).await;
    test.until_label(VM_NAME, "worker-1").await;
    let published = |it: &TestCluster| addresses(&it.node(NODE)) == [EXTERNAL, HOST];
    test.until("its addresses", published).await;
    let node = test.node(NODE);
    let owned = |key: &str| key.contains("k8s.xenorchestra");
    let wanted: Vec<_> = wanted_labels()
        .into_iter()
        .filter(|(key, _)| owned(key))
        .collect();
    assert_eq!(wanted.len(), 5);
    assert_labels(&node, &wanted);
    let standard = [ZONE, BETA_ZONE, REGION, BETA_REGION, TYPE, BETA_TYPE];
    assert_without(&node, &standard);
    assert_eq!(text(&node["spec"]["providerID"]), "");
    assert_eq!(test.synced(), [""; 0]);
    // Whatever becomes of the machine, nobody knows that this node was it.
    test.set_ready(NODE, "False").await;
    test.cloud.halt(VM1).unwrap();
    test.long(A_WHILE).await;
    assert!(!has_taint(&test.node(NODE), SHUTDOWN));
    test.cloud.destroy(VM1).unwrap();
    test.long(A_WHILE).await;
    assert!(test.find(NODE).is_some());
    assert_eq!(test.event_count(NODE, "DeletingNode"), 0);
    test.end().await;
}

#[scenario]
async fn xenorchestra_case_79_addresses_that_are_none_keep_a_node_waiting_and_are_named() {
    let story = async |annotation: &str| {
        let test = Harness::polling().await;
        let mut node = fresh(NODE);
        node["metadata"]["annotations"] = json!({ PROVIDED_NODE_IP: annotation });
        node["status"]["nodeInfo"] = node_info(VM1, "");
        test.create(node).await;
        let message = test.message(NODE, "NodeInitializationFailed").await;
        let named = format!("node IP \"{annotation}\"");
        assert!(message.contains("provided node ip"), "{message}");
        assert!(message.contains(&named), "{message}");
        test.until_read(2).await;
        let node = test.node(NODE);
        assert!(is_uninitialized(&node));
        assert_eq!(text(&node["spec"]["providerID"]), "");
        // Once it is right, all is well.
        let right = |node: &mut Value| {
            node["metadata"]["annotations"][PROVIDED_NODE_IP] = "10.20.0.11".into();
        };
        test.change(NODE, right).await;
        test.initialized(NODE).await;
        assert_whole(&test.node(NODE));
        test.end().await;
    };
    futures::join!(
        story("10.20.0.11,10.20.0.12"),
        story("10.20.0.11, 2001:db8::11"),
        story("")
    );
}

#[scenario]
async fn xenorchestra_case_82_a_vm_that_is_nowhere_makes_a_node_without_a_place_until_it_is_somewhere(
    test: Harness,
) {
    test.cloud.hide_container(VM1, true).unwrap();
    let node = test.joined().await;
    assert_without(&node, &[ZONE, BETA_ZONE, HOST_ID, HOST_NAME]);
    assert_labels(
        &node,
        &[(REGION, super::harness::PA), (POOL_NAME, "lab-pool")],
    );
    assert_labels(&node, &[(TYPE, "4vCPU-4GB"), (VM_NAME, "worker-1")]);
    assert_labels(&node, &[(POOL_ID, super::harness::PA)]);
    test.cloud.hide_container(VM1, false).unwrap();
    test.until_label(HOST_NAME, "xcp-1").await;
    // And when that is lost again, nothing is.
    let before = test.content(NODE);
    test.cloud.hide_container(VM1, true).unwrap();
    test.rounds().await;
    assert_eq!(test.content(NODE), before);
    assert_eq!(test.synced(), [""; 0]);
}
