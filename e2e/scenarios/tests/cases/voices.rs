//! Who describes a node and who looks after it, where that is not the same cloud: `east` is a cloud with
//! machines, `self` asks machines themselves and looks after what nobody else does.

use bowline_core::{DescribePolicy, Instance, NodeMetadata};

use bowline_scenarios::cloud::{Script, ScriptedCloud, machine};
use bowline_scenarios::objects::{addresses, fresh, known, labels};
use bowline_scenarios::{Setup, TestCluster, is_real, scenario};

const INTERNAL: &str = "InternalIP:10.0.0.5";

/// A running manager with both.
async fn both() -> TestCluster {
    let frequency = if is_real() { 5 } else { 300 };
    let frequency = format!("--node-status-update-frequency={frequency}s");
    let mut bench = TestCluster::set_up(Setup {
        clouds: &[("east", "east"), ("self", "self")],
        flags: &[&frequency],
        ..Setup::default()
    })
    .await;
    itself(&bench).take_leftovers();
    bench.start();
    bench
}

fn east(bench: &TestCluster) -> &ScriptedCloud {
    &bench.clouds[0]
}

fn itself(bench: &TestCluster) -> &ScriptedCloud {
    &bench.clouds[1]
}

/// The machine with the label `tier`.
fn described(id: &str, tier: &str, addresses: &[&str]) -> Script {
    Script::Machine(Instance {
        marks: NodeMetadata {
            labels: [("tier".to_owned(), tier.to_owned())].into(),
            ..NodeMetadata::default()
        },
        ..machine(id, addresses)
    })
}

#[scenario]
async fn one_cloud_describes_a_node_and_another_looks_after_it() {
    let bench = both().await;
    itself(&bench).speak("n1", DescribePolicy::Always);
    itself(&bench).say("n1", described("east://m-1", "a", &[INTERNAL]));
    // Who owns it is not asked what it is, and an outage of it does not matter yet.
    east(&bench).say("n1", Script::Error("east is down"));
    bench.create(fresh("n1")).await;
    bench.until_initialized("n1").await;
    assert_eq!(bench.node("n1")["spec"]["providerID"], "east://m-1");
    let moved = "InternalIP:10.0.0.9";
    itself(&bench).say("n1", described("east://m-1", "b", &[moved]));
    bench
        .until("addresses and marks follow", |it| {
            let node = it.node("n1");
            labels(&node)["tier"] == "b" && addresses(&node)[0] == moved
        })
        .await;
    assert_eq!(east(&bench).calls(), 0);
    let series = |cloud: &str| format!("bowline_nodes_owned{{cloud=\"{cloud}\"}}");
    assert_eq!(bench.metric(&series("east")), Some(1.0));
    assert_eq!(bench.metric(&series("self")), Some(0.0));

    // Its owner says whether it is there, however it describes itself.
    east(&bench).say_presence("n1", Script::Gone);
    bench.set_ready("n1", "Unknown").await;
    bench.until_deleted("n1").await;
    assert!(east(&bench).presence_asked("n1") >= 2);
    assert_eq!(itself(&bench).presence_asked("n1"), 0);
    assert_eq!(itself(&bench).canaries(), 0);
}

#[scenario]
async fn what_nobody_else_has_is_looked_after_by_who_takes_it() {
    let bench = both().await;
    itself(&bench).say_presence("n1", Script::Gone);
    itself(&bench).say_presence("n2", Script::Gone);
    east(&bench).say("n2", Script::None);
    bench
        .put(known("n1", "other://m-1", "Unknown", &[INTERNAL]))
        .await;
    bench
        .put(known("n2", "east://m-2", "Unknown", &[INTERNAL]))
        .await;
    bench.until_deleted("n1").await;
    bench.long(600).await;
    assert!(bench.find("n2").is_some());
    assert_eq!(itself(&bench).presence_asked("n2"), 0);
}

#[scenario]
async fn a_node_that_two_clouds_always_describe_is_nobodys() {
    let bench = both().await;
    for cloud in &bench.clouds {
        for node in ["n1", "n2"] {
            cloud.speak(node, DescribePolicy::Always);
            cloud.say(node, described("east://m-1", "a", &[INTERNAL]));
        }
    }
    bench.create(fresh("n1")).await;
    bench
        .put(known("n2", "east://m-2", "True", &["InternalIP:10.0.0.6"]))
        .await;
    bench.until_event("n1", "NodeContested").await;
    bench.until_event("n2", "NodeContested").await;
    bench.long(600).await;
    assert_eq!(bench.calls("n1"), []);
    assert_eq!(bench.calls("n2"), []);
    assert_eq!(bench.event_count("n1", "NodeContested"), 1);
    assert_eq!(bench.event_count("n2", "NodeContested"), 1);
    east(&bench).speak("n1", DescribePolicy::Owner);
    bench.until_initialized("n1").await;
}

#[scenario]
async fn a_cloud_that_never_describes_a_node_has_no_say_in_whose_it_is() {
    let bench = both().await;
    itself(&bench).speak("n1", DescribePolicy::Never);
    itself(&bench).say("n1", Script::Error("no such machine answers"));
    east(&bench).say("n1", described("east://m-1", "a", &[INTERNAL]));
    bench.create(fresh("n1")).await;
    bench.until_initialized("n1").await;
    assert_eq!(itself(&bench).calls(), 0);
}

#[scenario]
async fn a_node_whose_owner_never_describes_it_waits() {
    let bench = both().await;
    east(&bench).speak("n1", DescribePolicy::Never);
    east(&bench).say("n1", described("east://m-1", "a", &[INTERNAL]));
    let mut node = fresh("n1");
    node["spec"]["providerID"] = "east://m-1".into();
    bench.create(node).await;
    bench.long(600).await;
    assert!(!bench.is_initialized("n1"));
    assert_eq!(bench.calls("n1"), []);
    assert_eq!(bench.events("n1"), [""; 0]);
}

#[scenario]
async fn what_a_machine_waits_for_is_told_in_its_clouds_words() {
    let bench = both().await;
    let text = "the machine of node n1 does not know its own id yet";
    itself(&bench).speak("n1", DescribePolicy::Always);
    itself(&bench).say("n1", Script::Error(text));
    bench.create(fresh("n1")).await;
    bench.until_event("n1", "NodeInitializationFailed").await;
    let reported = bench.events("n1");
    assert!(reported[0].contains(text), "{reported:?}");
    assert!(!bench.is_initialized("n1"));
}
