//! What the manager does to the API server: all of it under the role of the original's chart, which allows
//! everything but the deletion of nodes.

use std::collections::BTreeSet;

use bowline_scenarios::certificates::Ask;
use bowline_scenarios::cloud_harness::OPTIONAL_READS;
use bowline_scenarios::objects::{addresses, labels, node_info, silent, taint_list, taints};
use bowline_scenarios::rights::used::{Right, is_granted, right};
use bowline_scenarios::talos::Beginning;
use bowline_scenarios::{Sharing, TestCluster, refuse, scenario};
use bowline_simulator::journal::{Entry, Filter};
use bowline_simulator_talos::{OS_IMAGE, PlatformSpec};

use crate::talos::harness::{Harness, LIFECYCLE, OFTEN, PLATFORM, talos_node};

const EVERYTHING: &[&str] = &[
    "--controllers=cloud-node,cloud-node-lifecycle,node-csr-approval,node-ipam-controller",
    "--allocate-node-cidrs",
    OFTEN,
];
/// The rights that the whole of it needs.
const NEEDED: &[(&str, &str)] = &[
    ("create", "events"),
    ("create", "leases.coordination.k8s.io"),
    ("delete", "nodes"),
    ("get", "/healthz"),
    ("get", "leases.coordination.k8s.io"),
    ("get", "nodes"),
    ("patch", "events"),
    ("patch", "nodes"),
    ("patch", "nodes/status"),
    (
        "update",
        "certificatesigningrequests/approval.certificates.k8s.io",
    ),
    ("update", "leases.coordination.k8s.io"),
    ("watch", "certificatesigningrequests.certificates.k8s.io"),
    ("watch", "nodes"),
];
const RULES: &str = "
transformations:
- labels: {x.example/tier: web}
  annotations: {x.example/note: hello}
  taints: {x.example/rack: 'r1:NoSchedule'}
";

/// A node from its first sight on: marks, a conflict, pod ranges, a certificate, another address.
async fn a_life(harness: &Harness) {
    harness.fault(refuse(409, "PATCH", "/api/v1/nodes/w1").times(1));
    harness.join_metal("w1", &["eth0/10.8.0.11/24"]);
    let node = harness.ready("w1").await;
    assert_eq!(labels(&node)["x.example/tier"], "web");
    assert!(taints(&node).contains(&"x.example/rack=r1:NoSchedule".to_owned()));
    let has_ranges = |it: &TestCluster| it.node("w1")["spec"]["podCIDRs"].is_array();
    harness.until("it has pod ranges", has_ranges).await;
    let path = "/apis/certificates.k8s.io/v1/certificatesigningrequests/c/approval";
    harness.fault(refuse(409, "PUT", path).times(1));
    harness
        .put_request(&Ask::new("c", "w1", &["10.8.0.11"]))
        .await;
    harness.until_decided("c").await;
    harness.until_event("c", "CertificateApproved").await;
    harness
        .cloud
        .add_address("w1", "eth0/198.51.100.7/24")
        .unwrap();
    let wanted = "ExternalIP:198.51.100.7".to_owned();
    let is_there = |it: &TestCluster| addresses(&it.node("w1")).contains(&wanted);
    harness.until("the address appears", is_there).await;
}

/// The file lets rules own what they set, and then names less: what was theirs goes.
async fn other_rules(harness: &Harness) {
    let own = "global: {enforceTransformations: true}";
    let later = format!("{own}\ntransformations: [{{labels: {{x.example/later: 'yes'}}}}]");
    harness.cloud.configure(&later);
    let has_it = |it: &TestCluster| labels(&it.node("w1")).contains_key("x.example/later");
    harness.until("the label is there", has_it).await;
    harness.cloud.configure(own);
    let is_gone = |it: &TestCluster| !has_it(it);
    harness.until("the label is gone", is_gone).await;
}

/// A spot machine that was taken away: its node is to be deleted.
async fn the_end(harness: &Harness) {
    let mut node = silent("g1", Some("gce://p/z/g1"));
    node["metadata"]["labels"][PLATFORM] = "gcp".into();
    node["metadata"]["labels"][LIFECYCLE] = "spot".into();
    let not_ready = "node.kubernetes.io/not-ready:NoExecute";
    node["spec"]["taints"] = taint_list(&[not_ready]);
    node["status"]["nodeInfo"] = node_info("", OS_IMAGE);
    harness.put_aged(node, 300).await;
}

#[scenario]
async fn the_whole_story_fits_into_the_role_of_the_chart_but_for_deletions() {
    let mut harness = Harness::with(Beginning {
        config: RULES,
        flags: EVERYTHING,
        ..Beginning::default()
    })
    .await;
    a_life(&harness).await;
    // A trouble that is reported again and again: the event is counted up.
    harness.create(talos_node("w2", Some("10.8.0.12"))).await;
    let is_told = |it: &TestCluster| it.event_count("w2", "NodeInitializationFailed") >= 2;
    harness.until("a trouble is reported twice", is_told).await;
    harness
        .cloud
        .add("w2", &["eth0/10.8.0.12/24"], PlatformSpec::default());
    harness.ready("w2").await;
    other_rules(&harness).await;
    the_end(&harness).await;
    harness.until_event("g1", "DeletingNodeFailed").await;
    assert!(harness.find("g1").is_some());
    harness.stop().await;

    let mut own: Vec<Entry> = harness.matching(&Filter::any().caller(&harness.user));
    // What is the cluster's own is read where the role allows it.
    own.retain(|it| !OPTIONAL_READS.contains(&it.path.as_str()));
    let used: BTreeSet<Right> = own.iter().map(right).collect();
    let needed: BTreeSet<Right> = NEEDED
        .iter()
        .map(|(verb, what)| ((*verb).to_owned(), (*what).to_owned()))
        .collect();
    assert_eq!(used, needed);
    let delete: Right = ("delete".into(), "nodes".into());
    let objects = bowline_simulator_talos::manifest();
    for right in &used {
        assert_eq!(is_granted(&objects, right), *right != delete, "{right:?}");
    }
    let refused: Vec<&Entry> = own.iter().filter(|it| it.status == 403).collect();
    assert!(!refused.is_empty());
    for call in refused {
        assert_eq!(right(call), delete);
    }
    assert!(own.iter().all(|it| it.status != 401));
}

/// What the controllers of nodes are to the API server, with the chart's flag for it.
const NODE_CONTROLLER: &str = "system:serviceaccount:kube-system:node-controller";

#[scenario]
async fn with_the_charts_accounts_for_controllers_nothing_at_all_is_refused() {
    let accounts = ["--use-service-account-credentials"];
    let harness = Harness::with(Beginning {
        config: RULES,
        flags: &[EVERYTHING, &accounts].concat(),
        // The accounts have fixed names.
        sharing: Sharing::Alone,
        ..Beginning::default()
    })
    .await;
    a_life(&harness).await;
    other_rules(&harness).await;
    the_end(&harness).await;
    harness.until_deleted("g1").await;
    let of_nodes = Filter::any().server("kubernetes").caller(NODE_CONTROLLER);
    let written: BTreeSet<Right> = harness
        .matching(&of_nodes.mutating())
        .iter()
        .map(right)
        .collect();
    for (verb, what) in [
        ("patch", "nodes"),
        ("patch", "nodes/status"),
        ("delete", "nodes"),
    ] {
        assert!(
            written.contains(&(verb.to_owned(), what.to_owned())),
            "{verb} {what}"
        );
    }
    for status in [401, 403] {
        let refused = Filter::any().server("kubernetes").status(status);
        let mut refused = harness.matching(&refused);
        refused.retain(|it| !OPTIONAL_READS.contains(&it.path.as_str()));
        assert_eq!(refused, []);
    }
    harness.end().await;
}
