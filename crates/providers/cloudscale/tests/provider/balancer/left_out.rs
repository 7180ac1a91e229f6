//! Nodes that are no targets, and the notices about them.

use bowline_core::{ExcludedNodes, Exclusion};
use bowline_simulator_cloudscale::MachineSpec;
use bowline_test_kit::{begins, rows};
use serde_json::json;

use super::harness::{Harness, S2, members, open};
use crate::harness::node;

fn public_only(test: &Harness, name: &str) -> bowline_core::Node {
    let spec = json!({"name": name, "interfaces": [{"network": "public"}]});
    let spec: MachineSpec = serde_json::from_value(spec).unwrap();
    let uuid = test.sim.add_server(&spec).unwrap();
    node(name, Some(&uuid))
}

#[tokio::test(start_paused = true)]
async fn a_service_that_no_node_serves_is_reported_what_keeps_each_of_them_out() {
    let mut test = open().await;
    let excluded = ExcludedNodes {
        left_out: [(Exclusion::Foreign, 3), (Exclusion::Label, 1)].into(),
        ..ExcludedNodes::default()
    };
    let label = "node.kubernetes.io/exclude-from-external-load-balancers";
    let counted = format!("3 of another cloud or of none, 1 excluded by label {label}");
    let key = "k8s.cloudscale.ch/loadbalancer-node-selector";
    let selected = format!("2 that annotation {key} \"env=prod\" leaves out");
    let nodes = test.nodes.clone();
    let gone = node("gone", Some("00000000-0000-4000-8000-000000000009"));
    for [selector, there, others, answer] in rows(
        "         | none |      | the cluster has none
                  | none | some | there are COUNTED
         env=prod | two  | some | there are COUNTED, SELECTED
         env=prod | two  |      | there are SELECTED
                  | gone |      | there are 1 without a server",
    ) {
        let nodes = match there {
            "two" => nodes.clone(),
            "gone" => vec![gone.clone()],
            _ => Vec::new(),
        };
        let excluded = match others {
            "some" => excluded.clone(),
            _ => ExcludedNodes::default(),
        };
        let answer = answer
            .replace("COUNTED", &counted)
            .replace("SELECTED", &selected);
        test.set("node-selector", selector);
        (test.nodes, test.excluded) = (nodes, excluded);
        let outcome = test.ensure().await;
        let mut notices = outcome.good().notices.iter();
        let notice = notices.find(|it| it.reason == "NoValidNodes").unwrap();
        let answer = format!("no node can be a target: {answer}");
        assert_eq!(notice.message, answer, "{selector:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn many_nodes_without_a_server_are_few_events() {
    let mut test = open().await;
    for number in 100..160 {
        let uuid = format!("00000000-0000-4000-8000-000000000{number}");
        test.nodes
            .push(node(&format!("gone-{number}"), Some(&uuid)));
    }
    let outcome = test.ensure().await;
    assert_eq!(outcome.good().reasons(), ["NodeSkipped"; 11]);
    let texts: Vec<&str> = outcome.notices.iter().map(|it| &*it.message).collect();
    begins(texts[9], "node gone-109 is no member: ");
    begins(texts[10], "nor are nodes [gone-110 ");
    assert!(texts[10].ends_with(" <30 more>] members"), "{texts:?}");
    assert_eq!(members(&test.pool()).len(), 2);
}

#[tokio::test(start_paused = true)]
async fn nodes_without_a_private_address_are_named_with_the_way_out() {
    let mut test = Harness::new();
    let node = public_only(&test, "outside");
    test.nodes.push(node);
    let outcome = test.ensure().await;
    assert_eq!(outcome.good().reasons(), ["NodeSkipped"]);
    let text = "nodes [outside] have no private address, and load balancers reach servers by those \
                alone: attach the servers to a private network";
    assert_eq!(outcome.notices[0].message, text);
    assert_eq!(members(&test.pool()).len(), 2);
    // No other node is left: the pool is empty.
    test.nodes.drain(..2);
    let outcome = test.ensure().await;
    assert_eq!(outcome.good().reasons(), ["NoValidNodes"]);
    let text = format!("all pools stay empty: {text}");
    assert_eq!(outcome.notices[0].message, text);
    assert_eq!(members(&test.pool()), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn nodes_without_an_address_in_a_wanted_subnet_are_named_and_the_list_is_bounded() {
    let mut test = Harness::new();
    test.set("listener-allowed-subnets", &format!("[{S2:?}]"));
    for number in 10..32 {
        let name = format!("outside-{number}");
        let node = public_only(&test, &name);
        test.nodes.push(node);
    }
    let outcome = test.ensure().await;
    assert_eq!(outcome.good().reasons(), ["NoValidNodes"]);
    let text = &outcome.notices[0].message;
    let start = "all pools stay empty: nodes [outside-10 ";
    let end = "worker-a worker-b <4 more>] have no address in the subnets of annotation \
               k8s.cloudscale.ch/loadbalancer-listener-allowed-subnets: attach the servers to one \
               of these, or change the annotation";
    assert!(text.starts_with(start) && text.ends_with(end), "{text}");
}
