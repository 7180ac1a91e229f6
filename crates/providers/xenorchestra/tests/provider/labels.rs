//! What follows into the labels of a node.

use std::time::Duration;

use bowline_core::{LabelChange, LabelSync, Node, follow_labels};

use crate::harness::{H1, H2, H3, Harness, PA, PB, VM1, found, status, w1, wait};

/// The node of VM1 as it was initialised.
fn labelled() -> Node {
    let mut node = w1();
    for (key, value) in [
        ("topology.kubernetes.io/zone", H1),
        ("failure-domain.beta.kubernetes.io/zone", H1),
        ("topology.kubernetes.io/region", PA),
        ("failure-domain.beta.kubernetes.io/region", PA),
        ("node.kubernetes.io/instance-type", "4vCPU-4GB"),
        ("beta.kubernetes.io/instance-type", "4vCPU-4GB"),
        ("topology.k8s.xenorchestra/host_id", H1),
        ("topology.k8s.xenorchestra/host_name_label", "xcp-1"),
        ("topology.k8s.xenorchestra/pool_id", PA),
        ("topology.k8s.xenorchestra/pool_name_label", "lab-pool"),
        ("vm.k8s.xenorchestra/name_label", "worker-1"),
        ("example.com/mine", "mine"),
    ] {
        node.labels.insert(key.into(), value.into());
    }
    node
}

fn sync(test: &Harness) -> &dyn LabelSync {
    test.cloud.label_sync().unwrap()
}

async fn follow(test: &Harness, node: &mut Node) -> LabelChange {
    let instance = found(test.ask_one(node).await);
    let change = follow_labels(sync(test), node, &instance);
    assert_eq!(change.skipped, []);
    for (key, value) in &change.labels {
        match value {
            Some(value) => node.labels.insert(key.clone(), value.clone()),
            None => node.labels.remove(key),
        }
    }
    change
}

fn events(change: &LabelChange) -> Vec<String> {
    let events = change.events.iter();
    events
        .map(|it| format!("{} {} {}", it.is_warning, it.reason, it.message))
        .collect()
}

const ORIGINAL_HOST: &str = "topology.k8s.xenorchestra/original_host_id";
const ORIGINAL_POOL: &str = "topology.k8s.xenorchestra/original_pool_id";
const ZONE: &str = "topology.kubernetes.io/zone";
const HOST_NAME: &str = "topology.k8s.xenorchestra/host_name_label";

#[tokio::test(start_paused = true)]
async fn a_vm_that_moves_and_comes_back_takes_its_node_along() {
    let test = Harness::new().await;
    let mut node = labelled();
    assert_eq!(follow(&test, &mut node).await, LabelChange::default());
    test.sim.migrate(VM1, H2).unwrap();
    let change = follow(&test, &mut node).await;
    let words = "Node w1 zone changed (node VM host changed)";
    assert_eq!(
        events(&change),
        [format!("true NodeZoneChanged {words}: old={H1}, new={H2}")]
    );
    assert_eq!(
        (
            node.labels.get(ZONE).unwrap(),
            node.labels.get(HOST_NAME).unwrap()
        ),
        (H2, "xcp-2")
    );
    assert_eq!(node.labels.get(ORIGINAL_HOST).unwrap(), H1);
    test.sim.migrate(VM1, H1).unwrap();
    assert_eq!(follow(&test, &mut node).await.events.len(), 1);
    assert_eq!(
        (
            node.labels.get(ZONE).unwrap(),
            node.labels.get(ORIGINAL_HOST).unwrap()
        ),
        (H1, H1)
    );
    assert_eq!(node.labels.get("example.com/mine").unwrap(), "mine");
}

#[tokio::test(start_paused = true)]
async fn a_vm_in_another_pool_has_another_region() {
    let test = Harness::new().await;
    let mut node = labelled();
    test.sim.migrate(VM1, H3).unwrap();
    let change = follow(&test, &mut node).await;
    let words = "Node w1 region changed (node VM pool changed)";
    assert_eq!(
        events(&change)[1],
        format!("true NodeRegionChanged {words}: old={PA}, new={PB}")
    );
    assert_eq!(
        node.labels
            .get("topology.k8s.xenorchestra/pool_id")
            .unwrap(),
        PB
    );
    assert_eq!(
        node.labels
            .get("topology.k8s.xenorchestra/pool_name_label")
            .unwrap(),
        "dr-pool"
    );
    assert_eq!(
        (
            node.labels.get(ORIGINAL_POOL).unwrap(),
            node.labels.get(ZONE).unwrap()
        ),
        (PA, H3)
    );
}

#[tokio::test(start_paused = true)]
async fn a_vm_that_grows_is_reported_without_worry() {
    let test = Harness::new().await;
    let mut node = labelled();
    test.sim.resize(VM1, 4, 8 << 30).unwrap();
    let change = follow(&test, &mut node).await;
    let words = "Node w1 instance type has changed (node VM memory and/or CPUs changed)";
    assert_eq!(
        events(&change),
        [format!(
            "false NodeInstanceTypeHasChanged {words}: old=4vCPU-4GB, new=4vCPU-8GB"
        )]
    );
    assert_eq!(
        node.labels.get("beta.kubernetes.io/instance-type").unwrap(),
        "4vCPU-8GB"
    );
}

#[tokio::test(start_paused = true)]
async fn what_is_not_known_stays_as_it_is() {
    let test = Harness::new().await;
    let mut node = labelled();
    let before = node.clone();
    test.fault("/rest/v0/hosts/*", status(500, "because"));
    assert_eq!(follow(&test, &mut node).await, LabelChange::default());
    test.world.faults.clear();
    test.sim.halt(VM1).unwrap();
    assert_eq!(follow(&test, &mut node).await, LabelChange::default());
    test.sim.start(VM1).unwrap();
    wait(Duration::from_secs(60)).await;
    test.sim.migrate(VM1, H1).unwrap();
    test.sim.hide_container(VM1, true).unwrap();
    assert_eq!(follow(&test, &mut node).await, LabelChange::default());
    assert_eq!(node, before);
}

#[tokio::test(start_paused = true)]
async fn a_label_that_somebody_took_away_does_not_come_back() {
    let test = Harness::new().await;
    let mut node = labelled();
    node.labels.remove(ZONE);
    test.sim.migrate(VM1, H2).unwrap();
    assert_eq!(follow(&test, &mut node).await.events, []);
    assert_eq!(
        node.labels
            .get("topology.k8s.xenorchestra/host_id")
            .unwrap(),
        H2
    );
    assert!(!node.labels.contains_key(ZONE));
}

#[tokio::test(start_paused = true)]
async fn a_move_is_heard_of_within_seconds() {
    let test = Harness::configured("").await;
    found(test.ask_one(&w1()).await);
    wait(Duration::from_secs(5)).await;
    // The first list is news too.
    sync(&test).changed().await;
    let start = tokio::time::Instant::now();
    let hearing = tokio::time::timeout(Duration::from_secs(300), sync(&test).changed());
    let (heard, ()) = tokio::join!(hearing, async {
        wait(Duration::from_secs(120)).await;
        test.sim.migrate(VM1, H2).unwrap();
    });
    heard.unwrap();
    assert!(start.elapsed() < Duration::from_secs(123));
    let moved = found(test.ask_one(&w1()).await);
    assert_eq!(moved.zone, H2);
}
