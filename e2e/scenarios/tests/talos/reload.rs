//! A cloud config that changes while the manager works, and rules that own what they set.

use bowline_scenarios::objects::{labels, taints};
use bowline_scenarios::{TestCluster, scenario};

use crate::talos::harness::{Harness, PLATFORM};

const REFUSED: &str = "talosccm_config_reloads_total{result=\"refused\"}";
const TAKEN: &str = "talosccm_config_reloads_total{result=\"taken\"}";

fn tier(tier: &str) -> String {
    format!("transformations: [{{name: tier, labels: {{tier: {tier}}}}}]")
}

#[scenario]
async fn talos_case_87_a_file_that_is_refused_leaves_the_old_rules_in_force() {
    let harness = Harness::configured(&tier("a")).await;
    harness.join_metal("w1", &["eth0/10.8.0.11/24"]);
    assert_eq!(labels(&harness.ready("w1").await)["tier"], "a");
    for (number, (name, bad)) in [
        ("w2", "transformations: {"),
        (
            "w3",
            "transformations: [{name: t, labels: {tier: '{{ nofunc }}'}}]",
        ),
    ]
    .into_iter()
    .enumerate()
    {
        harness.cloud.configure(bad);
        let count = u64::try_from(number + 1).unwrap();
        let is_refused =
            |it: &TestCluster| it.metric(REFUSED) == Some(f64::from(u32::try_from(count).unwrap()));
        harness.until("the file is refused", is_refused).await;
        harness.assert_said("is refused, and the old one stays in force");
        let address = format!("eth0/10.8.1.{count}/24");
        harness.join_metal(name, &[&address]);
        assert_eq!(labels(&harness.ready(name).await)["tier"], "a", "{bad}");
    }
    assert!(harness.is_running());
    assert_eq!(harness.counted(TAKEN), 0);
    harness.cloud.configure(&tier("b"));
    let is_new = |it: &TestCluster| labels(&it.node("w1"))["tier"] == "b";
    harness.until("the good file is used", is_new).await;
    assert_eq!((harness.counted(REFUSED), harness.counted(TAKEN)), (2, 1));
    harness.end().await;
}

#[scenario]
async fn labels_of_a_rule_that_is_gone_stay() {
    let harness = Harness::configured(&tier("a")).await;
    harness.join_metal("w1", &["eth0/10.8.0.11/24"]);
    harness.ready("w1").await;
    harness.cloud.configure("");
    let is_taken = |it: &TestCluster| it.metric(TAKEN) == Some(1.0);
    harness.until("the file is taken", is_taken).await;
    harness.rounds("10.8.0.11", 2).await;
    assert_eq!(labels(&harness.node("w1"))["tier"], "a");
    harness.end().await;
}

const OWNING: &str = "
global: {enforceTransformations: true}
transformations:
- name: all
  labels: {x.example/tier: web, x.example/keep: 'yes'}
  annotations: {x.example/note: hello}
  taints: {x.example/rack: 'r1:NoSchedule'}
";
const LESS: &str = "
global: {enforceTransformations: true}
transformations: [{name: all, labels: {x.example/keep: 'yes'}}]
";

#[scenario]
async fn rules_that_own_what_they_set_keep_it_and_take_it_with_them() {
    let harness = Harness::configured(OWNING).await;
    harness.join_metal("w1", &["eth0/10.8.0.11/24"]);
    let node = harness.ready("w1").await;
    assert_eq!(labels(&node)["x.example/tier"], "web");
    assert_eq!(node["metadata"]["annotations"]["x.example/note"], "hello");
    let rack = "x.example/rack=r1:NoSchedule".to_owned();
    assert!(taints(&node).contains(&rack));
    harness
        .change("w1", |node| {
            node["metadata"]["labels"]["x.example/tier"] = "mine".into();
            node["metadata"]["labels"]["y.example/other"] = "theirs".into();
            let all = node["spec"]["taints"].as_array_mut().unwrap();
            all.retain(|it| it["key"] != "x.example/rack");
        })
        .await;
    let is_back = |it: &TestCluster| {
        let node = it.node("w1");
        labels(&node)["x.example/tier"] == "web" && taints(&node).contains(&rack)
    };
    harness.until("what the rules own is back", is_back).await;
    let before = harness.node_changes("w1").len();
    harness.rounds("10.8.0.11", 3).await;
    assert_eq!(
        harness.node_changes("w1").len(),
        before,
        "and then nothing is written"
    );
    harness.cloud.configure(LESS);
    let is_gone = |it: &TestCluster| {
        let node = it.node("w1");
        !labels(&node).contains_key("x.example/tier") && !taints(&node).contains(&rack)
    };
    harness
        .until("what no rule names any more is gone", is_gone)
        .await;
    let node = harness.node("w1");
    assert!(
        node["metadata"]["annotations"]
            .get("x.example/note")
            .is_none()
    );
    let all = labels(&node);
    for (key, value) in [
        ("x.example/keep", "yes"),
        ("y.example/other", "theirs"),
        (PLATFORM, "metal"),
    ] {
        assert_eq!(all[key], value, "{key}");
    }
    harness.end().await;
}

#[scenario]
async fn what_was_added_before_rules_own_anything_stays() {
    let harness = Harness::configured(&tier("a")).await;
    harness.join_metal("w1", &["eth0/10.8.0.11/24"]);
    harness.ready("w1").await;
    let own = "global: {enforceTransformations: true}";
    let both = "transformations: [{labels: {tier: a, x.example/new: 'yes'}}]";
    harness.cloud.configure(&format!("{own}\n{both}"));
    let has_new = |it: &TestCluster| labels(&it.node("w1")).contains_key("x.example/new");
    harness.until("the new label is there", has_new).await;
    harness.cloud.configure(own);
    harness
        .until("the new label is gone", |it| !has_new(it))
        .await;
    // To the API server it is not the rules' alone.
    assert_eq!(labels(&harness.node("w1"))["tier"], "a");
    harness.end().await;
}
