//! What a cloud says about a machine follows into the labels of its Node: the generic part of the cases of
//! Xen Orchestra's label synchronisation (55 to 65, 82, 83), with a scripted cloud's words.

use std::collections::BTreeMap;
use std::time::Duration;

use bowline_core::Instance;
use serde_json::{Value, json};

use bowline_scenarios::cloud::{Script, machine};
use bowline_scenarios::objects::{fresh, known, labels};
use bowline_scenarios::{TestCluster, is_real, refuse, scenario};

const INTERNAL: &str = "InternalIP:10.0.0.5";
const BETA_ZONE: &str = "failure-domain.beta.kubernetes.io/zone";
const ZONE: &str = "topology.kubernetes.io/zone";
const REGION: &str = "topology.kubernetes.io/region";
const TYPE: &str = "node.kubernetes.io/instance-type";
const HOST: &str = "topology.k8s.demo/host_id";
const NAME: &str = "vm.k8s.demo/name_label";
const TAG: &str = "tag.k8s.demo/team";
const FIRST_HOST: &str = "topology.k8s.demo/original_host_id";
const FIRST_POOL: &str = "topology.k8s.demo/original_pool_id";

fn period() -> Duration {
    Duration::from_secs(if is_real() { 5 } else { 300 })
}

fn map(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs
        .iter()
        .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
        .collect()
}

/// The machine of n1 on that host.
fn on(host: &str) -> Instance {
    Instance {
        zone: host.to_owned(),
        extra_labels: map(&[(HOST, host), (NAME, "worker-1")]),
        ..machine("demo://m-1", &[INTERNAL])
    }
}

/// The flags of a manager that synchronises labels in such periods.
fn flags(period: Duration) -> [String; 1] {
    [format!(
        "--node-status-update-frequency={}s",
        period.as_secs()
    )]
}

/// A running manager and the node n1, initialised on host h1.
async fn settled() -> TestCluster {
    following(period()).await
}

async fn following(period: Duration) -> TestCluster {
    let flags = flags(period);
    let mut bench = TestCluster::idle(&flags.each_ref().map(String::as_str)).await;
    bench.cloud().offer_label_sync();
    bench.cloud().say("n1", Script::Machine(on("h1")));
    bench.create(fresh("n1")).await;
    bench.start();
    bench.until_initialized("n1").await;
    bench.settle().await;
    bench
}

/// Waits until the machine of n1 was asked for so many more times, and a little longer.
async fn rounds(bench: &TestCluster, more: usize) {
    let wanted = bench.cloud().asked_about("n1").len() + more;
    bench
        .until("the rounds", |it| {
            it.cloud().asked_about("n1").len() >= wanted
        })
        .await;
    bench.settle().await;
}

async fn until_label(bench: &TestCluster, key: &str, value: &str) {
    let what = format!("{key} is {value}");
    bench
        .until(&what, |it| {
            labels(&it.node("n1")).get(key).map(String::as_str) == Some(value)
        })
        .await;
}

/// What was told about n1 by this controller.
fn reported(bench: &TestCluster) -> Vec<String> {
    let ours = |it: &String| it.contains(" cloud-node-label-sync-controller: ");
    bench.events("n1").into_iter().filter(ours).collect()
}

fn zone_changed(old: &str, new: &str) -> String {
    format!(
        "Warning NodeZoneChanged cloud-node-label-sync-controller: Node n1 zone changed (node VM \
         host changed): old={old}, new={new} (1)"
    )
}

#[scenario]
async fn a_machine_that_moves_takes_its_labels_along_and_people_are_told() {
    let bench = settled().await;
    let writes = bench.written("n1").len();
    let uid = bench.node("n1")["metadata"]["uid"].clone();
    bench.cloud().say("n1", Script::Machine(on("h2")));
    let begun = bench.world.clock.now();
    until_label(&bench, ZONE, "h2").await;
    assert!(bench.since(begun) <= period() + bench.slack());
    let all = labels(&bench.node("n1"));
    assert_eq!((&*all[BETA_ZONE], &*all[HOST]), ("h2", "h2"));
    assert_eq!((&*all[FIRST_HOST], &*all[NAME]), ("h1", "worker-1"));
    assert_eq!(all[REGION], "r1");
    rounds(&bench, 2).await;
    assert_eq!(reported(&bench), [zone_changed("h1", "h2")]);
    let wrote = &bench.writes("n1")[writes..];
    assert_eq!(wrote.len(), 1);
    let changed = json!({ ZONE: "h2", BETA_ZONE: "h2", HOST: "h2", FIRST_HOST: "h1" });
    assert_eq!(
        wrote[0].body,
        json!({ "metadata": { "uid": uid, "labels": changed } })
    );
    assert_eq!(bench.node("n1")["spec"]["providerID"], "demo://m-1");

    // Back again: what was first stays.
    bench.cloud().say("n1", Script::Machine(on("h1")));
    until_label(&bench, ZONE, "h1").await;
    assert_eq!(labels(&bench.node("n1"))[FIRST_HOST], "h1");
    bench
        .until("it is reported", |it| reported(it).len() == 2)
        .await;
    assert_eq!(reported(&bench)[1], zone_changed("h2", "h1"));
}

#[scenario]
async fn all_that_changed_is_one_write_and_an_event_for_each_fact() {
    let bench = settled().await;
    let writes = bench.written("n1").len();
    let all = Instance {
        region: "r2".into(),
        instance_type: "c4".into(),
        extra_labels: map(&[(HOST, "h3"), (NAME, "worker-one")]),
        ..on("h3")
    };
    bench.cloud().say("n1", Script::Machine(all));
    until_label(&bench, NAME, "worker-one").await;
    let all = labels(&bench.node("n1"));
    assert_eq!(
        [ZONE, REGION, TYPE, FIRST_HOST, FIRST_POOL].map(|key| &*all[key]),
        ["h3", "r2", "c4", "h1", "r1"]
    );
    assert_eq!(all["beta.kubernetes.io/instance-type"], "c4");
    bench
        .until("all is reported", |it| reported(it).len() == 3)
        .await;
    let reasons = |bench: &TestCluster| -> Vec<String> {
        let words = |event: String| event.split(' ').take(2).collect::<Vec<_>>().join(" ");
        let mut all: Vec<String> = reported(bench).into_iter().map(words).collect();
        all.sort();
        all
    };
    let wanted = [
        "Normal NodeInstanceTypeHasChanged",
        "Warning NodeRegionChanged",
        "Warning NodeZoneChanged",
    ];
    assert_eq!(reasons(&bench), wanted);
    rounds(&bench, 1).await;
    assert_eq!(bench.written("n1").len(), writes + 1);
    let (cloud, series) = ("demo", "bowline_label_sync_patches_total");
    let written = format!("{series}{{cloud=\"{cloud}\",result=\"written\"}}");
    assert_eq!(bench.metric(&written), Some(1.0));
}

#[scenario]
async fn nothing_changed_costs_no_request() {
    let bench = settled().await;
    let calls = bench.all_calls().len();
    rounds(&bench, 4).await;
    assert_eq!(bench.all_calls().len(), calls);
    assert_eq!(reported(&bench), [""; 0]);
}

#[scenario]
async fn own_labels_come_and_go_and_others_are_never_touched() {
    let bench = settled().await;
    bench
        .change("n1", |node| {
            let all = &mut node["metadata"]["labels"];
            all["vendor.test/mine"] = "1".into();
            all[NAME] = "by-hand".into();
        })
        .await;
    until_label(&bench, NAME, "worker-1").await;
    let tagged = Instance {
        extra_labels: map(&[
            (HOST, "h1"),
            (NAME, "worker-1"),
            (TAG, "core"),
            ("vendor.test/mine", "theirs"),
            ("vendor.test/new", "1"),
        ]),
        ..on("h1")
    };
    bench.cloud().say("n1", Script::Machine(tagged));
    until_label(&bench, TAG, "core").await;
    // What the cloud does not say for now stays; what it holds whole goes.
    let silent = Instance {
        zone: String::new(),
        extra_labels: map(&[(NAME, "worker-1")]),
        ..on("h1")
    };
    bench.cloud().say("n1", Script::Machine(silent));
    bench
        .until("the tag goes", |it| {
            !labels(&it.node("n1")).contains_key(TAG)
        })
        .await;
    rounds(&bench, 1).await;
    let all = labels(&bench.node("n1"));
    assert_eq!(
        (&*all[HOST], &*all[ZONE], &*all["vendor.test/mine"]),
        ("h1", "h1", "1")
    );
    assert!(!all.contains_key("vendor.test/new") && !all.contains_key(FIRST_HOST));
    assert_eq!(reported(&bench), [""; 0]);
}

#[scenario]
async fn a_label_that_was_taken_away_is_not_made_again() {
    let bench = settled().await;
    bench
        .change("n1", |node| {
            let all = node["metadata"]["labels"].as_object_mut().unwrap();
            all.remove(ZONE);
            all.remove(BETA_ZONE);
        })
        .await;
    bench.cloud().say("n1", Script::Machine(on("h2")));
    until_label(&bench, HOST, "h2").await;
    rounds(&bench, 1).await;
    assert!(!labels(&bench.node("n1")).contains_key(ZONE));
    assert_eq!(reported(&bench), [""; 0]);
}

#[scenario]
async fn a_node_that_waits_for_its_cloud_and_a_foreign_one_are_left_alone() {
    let flags = flags(period());
    let mut bench = TestCluster::idle(&[&flags[0], "--controllers=cloud-node-label-sync"]).await;
    bench.cloud().offer_label_sync();
    for node in ["n1", "n2", "n3"] {
        bench.cloud().say(node, Script::Machine(on("h2")));
    }
    let labelled = |name: &str, id: &str| {
        let mut node = known(name, id, "True", &[INTERNAL]);
        node["metadata"]["labels"][ZONE] = "h1".into();
        node
    };
    let mut waiting = labelled("n2", "demo://m-2");
    waiting["spec"]["taints"] = fresh("n2")["spec"]["taints"].clone();
    bench.put(labelled("n1", "demo://m-1")).await;
    bench.put(waiting).await;
    bench.put(labelled("n3", "other://m-3")).await;
    bench.start();
    until_label(&bench, ZONE, "h2").await;
    rounds(&bench, 1).await;
    assert_eq!(bench.calls("n2"), []);
    assert_eq!(bench.calls("n3"), []);
    assert_eq!(bench.cloud().asked_about("n2"), []);
}

#[scenario]
async fn what_is_not_written_is_not_told() {
    let bench = settled().await;
    let writes = bench.written("n1").len();
    let fault = bench.fault(refuse(500, "PATCH", "/api/v1/nodes/n1").times(2));
    bench.cloud().say("n1", Script::Machine(on("h2")));
    fault.struck(1).await;
    bench.settle().await;
    assert_eq!(reported(&bench), [""; 0]);
    until_label(&bench, ZONE, "h2").await;
    bench
        .until("it is reported", |it| !reported(it).is_empty())
        .await;
    assert_eq!(reported(&bench), [zone_changed("h1", "h2")]);
    assert_eq!(bench.written("n1").len(), writes + 3);
    // A conflict is no failure: it is tried again at once.
    bench.fault(refuse(409, "PATCH", "/api/v1/nodes/n1").times(2));
    bench.cloud().say("n1", Script::Machine(on("h3")));
    until_label(&bench, ZONE, "h3").await;
    bench
        .until("it is reported", |it| reported(it).len() == 2)
        .await;
    assert_eq!(reported(&bench)[1], zone_changed("h2", "h3"));
}

#[scenario]
async fn a_change_that_the_cloud_hears_of_follows_within_seconds_and_many_are_one_look() {
    let bench = following(Duration::from_secs(3600)).await;
    let asked = || bench.cloud().asked_about("n1").len();
    let before = asked();
    bench.cloud().say("n1", Script::Machine(on("h2")));
    let begun = bench.world.clock.now();
    for _ in 0..10 {
        bench.cloud().hear();
        // The window may be over before the last one, where many share the real clock.
        if !is_real() {
            bench.pass(Duration::from_millis(100)).await;
        }
    }
    until_label(&bench, ZONE, "h2").await;
    assert!(bench.since(begun) <= Duration::from_secs(3) + bench.slack());
    bench.seconds(10).await;
    assert_eq!(asked(), before + 1);
    assert_eq!(reported(&bench).len(), 1);
    let causes = |cause: &str| {
        let series = "bowline_label_sync_rounds_total";
        bench.metric(&format!("{series}{{cause=\"{cause}\",cloud=\"demo\"}}"))
    };
    assert_eq!((causes("start"), causes("change")), (Some(1.0), Some(1.0)));
}

#[scenario]
async fn one_question_about_all_nodes() {
    let flags = flags(period());
    let only = "--controllers=cloud-node-label-sync";
    let mut bench = TestCluster::idle(&[&flags[0], only, "--concurrent-node-syncs=5"]).await;
    bench.cloud().offer_label_sync();
    for number in 0..50 {
        let (name, id) = (format!("n{number}"), format!("demo://m-{number}"));
        bench.cloud().say(&name, Script::Machine(on("h2")));
        let mut node = known(&name, &id, "True", &[INTERNAL]);
        node["metadata"]["labels"][ZONE] = "h1".into();
        bench.put(node).await;
    }
    bench.start();
    bench
        .until("all have followed", |it| {
            (0..50).all(|number| labels(&it.node(&format!("n{number}")))[ZONE] == "h2")
        })
        .await;
    assert_eq!(bench.cloud().calls(), 1);
}

#[scenario]
async fn without_a_cloud_that_asks_for_it_nothing_follows() {
    let flags = flags(period());
    let mut bench = TestCluster::idle(&[&flags[0]]).await;
    bench.cloud().say("n1", Script::Machine(on("h2")));
    let mut node = known("n1", "demo://m-1", "True", &[INTERNAL, "Hostname:n1"]);
    node["metadata"]["labels"][ZONE] = "h1".into();
    bench.put(node).await;
    bench.start();
    rounds(&bench, 2).await;
    assert_eq!(bench.all_calls(), [""; 0]);
}

#[scenario]
async fn an_observer_lets_nothing_follow() {
    let flags = flags(period());
    let mut bench = TestCluster::idle(&[&flags[0], "--mode=observe"]).await;
    bench.cloud().offer_label_sync();
    bench.cloud().say("n1", Script::Machine(on("h2")));
    let mut node: Value = known("n1", "demo://m-1", "True", &[INTERNAL, "Hostname:n1"]);
    node["metadata"]["labels"][ZONE] = "h1".into();
    bench.put(node).await;
    bench.start();
    rounds(&bench, 3).await;
    assert_eq!(bench.calls("n1"), []);
    assert_eq!(reported(&bench), [""; 0]);
}
