//! Section A of the cases: what a fresh node becomes.

use std::time::Duration;

use serde_json::{Value, json};

use bowline_scenarios::cloud::{Script, machine};
use bowline_scenarios::objects::{
    NOT_READY, PROVIDED_NODE_IP, UNINITIALIZED, addresses, fresh, is_uninitialized, labels,
    taint_list, taints,
};
use bowline_scenarios::{TestCluster, is_real, scenario};

const INTERNAL: &str = "InternalIP:10.0.0.5";
const EXTERNAL: &str = "ExternalIP:198.51.100.7";
const SYNCED: &str = "Normal Synced cloud-node-controller: Node synced successfully (1)";
/// What the API server's admission leaves on every new node.
const ADMISSION: &str = "node.kubernetes.io/not-ready:NoSchedule";

fn found(id: &str, list: &[&str]) -> Script {
    Script::Machine(machine(id, list))
}

fn with_taints(name: &str, texts: &[&str]) -> Value {
    let mut node = fresh(name);
    node["spec"]["taints"] = taint_list(texts);
    node
}

fn with_provider_id(name: &str, id: &str) -> Value {
    let mut node = fresh(name);
    node["spec"]["providerID"] = id.into();
    node
}

fn with_node_ip(name: &str, value: &str) -> Value {
    let mut node = fresh(name);
    node["metadata"]["annotations"] = json!({ PROVIDED_NODE_IP: value });
    node
}

#[scenario]
async fn framework_case_001_a_fresh_node_gets_id_labels_addresses_and_an_event() {
    let bench = TestCluster::new().await;
    bench
        .cloud()
        .say("n1", found("demo://m-1", &[INTERNAL, EXTERNAL]));
    bench.create(fresh("n1")).await;
    bench.until_initialized("n1").await;
    let node = bench.node("n1");
    assert_eq!(node["spec"]["providerID"], "demo://m-1");
    assert_eq!(taints(&node), [ADMISSION]);
    assert_eq!(addresses(&node), [INTERNAL, EXTERNAL, "Hostname:n1"]);
    let wanted = [
        ("beta.kubernetes.io/instance-type", "c2"),
        ("failure-domain.beta.kubernetes.io/region", "r1"),
        ("failure-domain.beta.kubernetes.io/zone", "z1"),
        ("kubernetes.io/hostname", "n1"),
        ("node.kubernetes.io/instance-type", "c2"),
        ("topology.kubernetes.io/region", "r1"),
        ("topology.kubernetes.io/zone", "z1"),
    ];
    assert_eq!(
        labels(&node),
        wanted.map(|(k, v)| (k.to_owned(), v.to_owned())).into()
    );
    assert_eq!(bench.events("n1"), [SYNCED]);
}

#[scenario]
async fn framework_case_002_a_host_name_of_the_cloud_replaces_the_kubelets() {
    let bench = TestCluster::new().await;
    let host = "Hostname:n1.cloud.test";
    bench
        .cloud()
        .say("n1", found("demo://m-1", &[host, INTERNAL, EXTERNAL]));
    bench.create(fresh("n1")).await;
    bench.until_initialized("n1").await;
    assert_eq!(addresses(&bench.node("n1")), [host, INTERNAL, EXTERNAL]);
}

#[scenario]
async fn framework_case_003_a_node_without_the_taint_is_not_initialised() {
    let bench = TestCluster::new().await;
    bench.cloud().say("n1", found("demo://m-1", &[INTERNAL]));
    bench.seconds(1).await;
    let mut node = with_provider_id("n1", "demo://m-1");
    node["spec"]["taints"] = json!([]);
    bench.create(node).await;
    let before = bench.node("n1");
    bench.seconds(60).await;
    assert_eq!(bench.cloud().asked_about("n1"), []);
    assert_eq!(bench.written("n1"), [""; 0]);
    assert_eq!(bench.events("n1"), [""; 0]);
    assert_eq!(bench.node("n1"), before);
}

#[scenario]
async fn framework_case_004_other_taints_stay_in_order() {
    let bench = TestCluster::new().await;
    bench.cloud().say("n1", found("demo://m-1", &[INTERNAL]));
    let uninitialized = format!("{UNINITIALIZED}=true:NoSchedule");
    let not_ready = format!("{NOT_READY}:NoSchedule");
    let dedicated = "dedicated=db:NoSchedule";
    bench
        .create(with_taints("n1", &[dedicated, &uninitialized, &not_ready]))
        .await;
    bench.until_initialized("n1").await;
    assert_eq!(taints(&bench.node("n1")), [dedicated, &not_ready]);
}

#[scenario]
async fn framework_case_005_only_the_key_of_the_taint_counts() {
    let bench = TestCluster::new().await;
    bench.cloud().say("n1", found("demo://m-1", &[INTERNAL]));
    bench
        .create(with_taints(
            "n1",
            &[&format!("{UNINITIALIZED}=yes:NoExecute")],
        ))
        .await;
    bench.until_initialized("n1").await;
    assert_eq!(taints(&bench.node("n1")), [ADMISSION]);
}

#[scenario]
async fn framework_case_006_both_taints_of_that_key_go() {
    let bench = TestCluster::new().await;
    bench.cloud().say("n1", found("demo://m-1", &[INTERNAL]));
    let both = ["NoSchedule", "NoExecute"].map(|it| format!("{UNINITIALIZED}=true:{it}"));
    bench.create(with_taints("n1", &[&both[0], &both[1]])).await;
    bench.until_initialized("n1").await;
    assert_eq!(taints(&bench.node("n1")), [ADMISSION]);
}

#[scenario]
async fn framework_case_007_a_node_nobody_knows_stays_as_it_is_until_it_is_seen_again() {
    let bench = TestCluster::new().await;
    bench.cloud().say("n1", Script::None);
    bench.create(fresh("n1")).await;
    let before = bench.node("n1");
    // Less than the minute after which it is asked about again anyway.
    bench.seconds(if is_real() { 20 } else { 50 }).await;
    assert_eq!(bench.cloud().asked_about("n1").len(), 1);
    assert_eq!(bench.node("n1"), before);
    assert_eq!(bench.written("n1"), [""; 0]);
    assert_eq!(bench.events("n1"), [""; 0]);
    bench.heartbeat("n1").await;
    let asked = |it: &TestCluster, times| it.cloud().asked_about("n1").len() == times;
    let begun = bench.world.clock.now();
    bench.until("a second question", |it| asked(it, 2)).await;
    assert!(bench.since(begun) <= Duration::from_secs(1) + bench.slack());
    // Ours: without any event at least every minute.
    let begun = bench.world.clock.now();
    bench.until("a third question", |it| asked(it, 3)).await;
    assert!(bench.since(begun) <= Duration::from_secs(61) + bench.slack());
    bench.cloud().say("n1", found("demo://m-1", &[INTERNAL]));
    bench.until_initialized("n1").await;
}

#[scenario]
async fn framework_case_008_an_error_is_tried_again_with_doubling_pauses() {
    let bench = TestCluster::new().await;
    let boom = Script::Error("boom");
    let answers = [
        boom.clone(),
        boom.clone(),
        boom,
        found("demo://m-1", &[INTERNAL]),
    ];
    bench.cloud().say_in_turn("n1", answers);
    bench.create(fresh("n1")).await;
    bench.until_initialized("n1").await;
    let asked = bench.cloud().asked_about("n1");
    let pauses: Vec<i128> = asked
        .windows(2)
        .map(|pair| pair[1].duration_since(pair[0]).as_millis())
        .collect();
    // Each question waits 20 ms for company; timers are good to a millisecond.
    // (On a shared server it may join a question about another scenario's node.)
    let company = if is_real() { 0 } else { 20 };
    let late = 24 + i128::try_from(bench.slack().as_millis()).unwrap();
    assert_eq!(pauses.len(), 3);
    for (pause, wanted) in pauses.iter().zip([5, 10, 20]) {
        assert!(
            (wanted + company..wanted + late).contains(pause),
            "pauses {pauses:?}"
        );
    }
    assert_eq!(bench.events("n1"), [SYNCED]);
}

#[scenario]
async fn framework_case_009_without_any_provider_id_a_node_waits() {
    let bench = TestCluster::new().await;
    bench.cloud().say("n1", found("", &[INTERNAL]));
    bench.create(fresh("n1")).await;
    bench
        .until("five tries", |it| it.cloud().asked_about("n1").len() >= 5)
        .await;
    assert!(!bench.is_initialized("n1"));
    assert_eq!(bench.written("n1"), [""; 0]);
    bench.cloud().say("n1", found("demo://m-9", &[INTERNAL]));
    bench.until_initialized("n1").await;
    assert_eq!(bench.node("n1")["spec"]["providerID"], "demo://m-9");
    let failed = "bowline_node_initialization_failures_total\
                  {cloud=\"unknown\",reason=\"NoProviderID\"}";
    assert!(bench.metric(failed).unwrap() >= 4.0);
}

#[scenario]
async fn framework_case_010_the_nodes_own_provider_id_is_enough() {
    let bench = TestCluster::new().await;
    bench.cloud().say("n1", found("", &[INTERNAL]));
    bench.create(with_provider_id("n1", "demo://m-2")).await;
    bench.until_initialized("n1").await;
    assert_eq!(bench.node("n1")["spec"]["providerID"], "demo://m-2");
}

#[scenario]
async fn framework_case_011_a_differing_provider_id_is_left_as_it_is() {
    let bench = TestCluster::new().await;
    bench.cloud().say("n1", found("demo://new", &[INTERNAL]));
    bench.create(with_provider_id("n1", "demo://old")).await;
    bench.until_initialized("n1").await;
    assert_eq!(bench.node("n1")["spec"]["providerID"], "demo://old");
    assert_eq!(bench.writes("n1")[1].body["spec"].get("providerID"), None);
}

#[scenario]
async fn framework_case_012_empty_facts_set_and_remove_no_labels() {
    let bench = TestCluster::new().await;
    let mut blank = machine("demo://m-1", &[INTERNAL]);
    (blank.instance_type, blank.zone, blank.region) = Default::default();
    bench.cloud().say("n1", Script::Machine(blank));
    let mut node = fresh("n1");
    node["metadata"]["labels"]["topology.kubernetes.io/zone"] = "x".into();
    bench.create(node.clone()).await;
    bench.until_initialized("n1").await;
    assert_eq!(labels(&bench.node("n1")), labels(&node));
}

#[scenario]
async fn framework_case_013_the_clouds_zone_wins_over_a_label_set_by_hand() {
    let bench = TestCluster::new().await;
    bench.cloud().say("n1", found("demo://m-1", &[INTERNAL]));
    let mut node = fresh("n1");
    node["metadata"]["labels"]["topology.kubernetes.io/zone"] = "hand".into();
    bench.create(node).await;
    bench.until_initialized("n1").await;
    let labels = labels(&bench.node("n1"));
    assert_eq!(labels["topology.kubernetes.io/zone"], "z1");
    assert_eq!(labels["failure-domain.beta.kubernetes.io/zone"], "z1");
}

#[scenario]
async fn framework_case_014_further_labels_only_add_and_never_in_kubernetes_own_space() {
    let bench = TestCluster::new().await;
    let mut rich = machine("demo://m-1", &[INTERNAL]);
    (rich.instance_type, rich.zone, rich.region) = Default::default();
    rich.extra_labels = [
        ("topology.kubernetes.io/rack", "a"),
        ("kubernetes.io/x", "a"),
        ("k8s.io/y", "a"),
        ("sub.k8s.io/z", "a"),
        ("app.k8snio/q", "b"),
        ("vendor.test/rack", "r7"),
        ("vendor.test/host", "h1"),
    ]
    .map(|(key, value)| (key.to_owned(), value.to_owned()))
    .into();
    bench.cloud().say("n1", Script::Machine(rich));
    let mut node = fresh("n1");
    node["metadata"]["labels"]["vendor.test/host"] = "h0".into();
    bench.create(node).await;
    bench.until_initialized("n1").await;
    let wanted = [
        ("app.k8snio/q", "b"),
        ("kubernetes.io/hostname", "n1"),
        ("vendor.test/host", "h0"),
        ("vendor.test/rack", "r7"),
    ];
    let labels = labels(&bench.node("n1"));
    assert_eq!(
        labels,
        wanted.map(|(k, v)| (k.to_owned(), v.to_owned())).into()
    );
}

#[scenario]
async fn framework_case_015_a_node_waits_for_the_address_its_kubelet_was_told() {
    let bench = TestCluster::new().await;
    bench.cloud().say("n1", found("demo://m-1", &[INTERNAL]));
    bench.create(with_node_ip("n1", "10.0.0.9")).await;
    let before = bench.node("n1");
    bench
        .until("five tries", |it| it.cloud().asked_about("n1").len() >= 5)
        .await;
    assert_eq!(bench.node("n1"), before);
    let both = found("demo://m-1", &[INTERNAL, "InternalIP:10.0.0.9", EXTERNAL]);
    bench.cloud().say("n1", both);
    bench.until_initialized("n1").await;
    let wanted = ["InternalIP:10.0.0.9", EXTERNAL, "Hostname:n1"];
    assert_eq!(addresses(&bench.node("n1")), wanted);
}

#[scenario]
async fn framework_case_016_an_annotation_that_is_no_address_keeps_the_taint() {
    let bench = TestCluster::new().await;
    bench.cloud().say("n1", found("demo://m-1", &[INTERNAL]));
    bench.create(with_node_ip("n1", "not-an-ip")).await;
    let before = bench.node("n1");
    bench.long(3600).await;
    assert_eq!(bench.node("n1"), before);
    assert_eq!(bench.written("n1"), [""; 0]);
    // Ours: people are told why.
    let events = bench.events("n1");
    assert_eq!(events.len(), 1);
    let reported = "Warning NodeInitializationFailed cloud-node-controller: Initialising keeps \
                failing: failed to get node modifiers from cloud provider: provided node ip for \
                node \"n1\" is not valid: failed to parse node IP \"not-an-ip\": ";
    assert!(events[0].starts_with(reported), "{events:?}");
}

#[scenario]
async fn framework_case_017_without_addresses_only_a_node_without_a_wish_is_initialised() {
    let bench = TestCluster::new().await;
    bench.cloud().say("n1", found("demo://m-1", &[]));
    bench.cloud().say("n2", found("demo://m-2", &[]));
    bench.create(with_node_ip("n1", "10.0.0.5")).await;
    bench.create(fresh("n2")).await;
    bench.until_initialized("n2").await;
    assert_eq!(addresses(&bench.node("n2")), ["Hostname:n2"]);
    assert_eq!(bench.written("n2"), ["PATCH n2 -> 200"]);
    bench.long(3600).await;
    assert!(is_uninitialized(&bench.node("n1")));
    assert_eq!(bench.written("n1"), [""; 0]);
}

#[scenario]
async fn framework_case_023_a_fresh_node_of_nobody_here_is_untouched_for_ever() {
    let bench = TestCluster::new().await;
    bench.cloud().say("n1", found("demo://m-1", &[INTERNAL]));
    bench.create(with_provider_id("n1", "other://m-1")).await;
    bench.set_ready("n1", "Unknown").await;
    let before = bench.node("n1");
    bench.live("n1", 12).await;
    assert_eq!(bench.cloud().calls(), 0);
    assert_eq!(bench.cloud().canaries(), 0);
    assert_eq!(bench.calls("n1"), []);
    assert_eq!(bench.events("n1"), [""; 0]);
    let after = bench.node("n1");
    assert_eq!(
        (&after["spec"], &after["metadata"]["labels"]),
        (&before["spec"], &before["metadata"]["labels"])
    );
}

#[scenario]
async fn framework_case_024_a_node_that_registers_again_is_initialised_again() {
    let bench = TestCluster::new().await;
    bench.cloud().say("n1", found("demo://m-1", &[INTERNAL]));
    bench.create(fresh("n1")).await;
    bench.until_initialized("n1").await;
    let first = bench.node("n1");
    bench.delete("n1").await;
    bench.pass(Duration::from_secs(1)).await;
    bench
        .cloud()
        .say("n1", found("demo://m-2", &["InternalIP:10.0.0.6"]));
    bench.create(fresh("n1")).await;
    bench
        .until("both are told", |it| it.events("n1").len() == 2)
        .await;
    let second = bench.node("n1");
    assert_ne!(first["metadata"]["uid"], second["metadata"]["uid"]);
    assert!(!is_uninitialized(&second));
    assert_eq!(second["spec"]["providerID"], "demo://m-2");
    assert_eq!(addresses(&second), ["InternalIP:10.0.0.6", "Hostname:n1"]);
    assert_eq!(bench.events("n1"), [SYNCED, SYNCED]);
}
