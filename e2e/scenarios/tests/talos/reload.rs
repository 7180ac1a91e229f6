//! A cloud config that changes while the manager works, and rules that own what they set.

use bowline_scenarios::objects::{labels, taints};
use bowline_scenarios::{TestCluster, scenario};

use crate::stage::{PLATFORM, Stage};

const REFUSED: &str = "talosccm_config_reloads_total{result=\"refused\"}";
const TAKEN: &str = "talosccm_config_reloads_total{result=\"taken\"}";

fn tier(tier: &str) -> String {
    format!("transformations: [{{name: tier, labels: {{tier: {tier}}}}}]")
}

#[scenario]
async fn talos_case_87_a_file_that_is_refused_leaves_the_old_rules_in_force() {
    let stage = Stage::configured(&tier("a")).await;
    stage.join_metal("w1", &["eth0/10.8.0.11/24"]);
    assert_eq!(labels(&stage.ready("w1").await)["tier"], "a");
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
        stage.cloud.configure(bad);
        let count = u64::try_from(number + 1).unwrap();
        let is_refused =
            |it: &TestCluster| it.metric(REFUSED) == Some(f64::from(u32::try_from(count).unwrap()));
        stage.until("the file is refused", is_refused).await;
        stage.assert_said("is refused, and the old one stays in force");
        let address = format!("eth0/10.8.1.{count}/24");
        stage.join_metal(name, &[&address]);
        assert_eq!(labels(&stage.ready(name).await)["tier"], "a", "{bad}");
    }
    assert!(stage.is_running());
    assert_eq!(stage.counted(TAKEN), 0);
    stage.cloud.configure(&tier("b"));
    let is_new = |it: &TestCluster| labels(&it.node("w1"))["tier"] == "b";
    stage.until("the good file is used", is_new).await;
    assert_eq!((stage.counted(REFUSED), stage.counted(TAKEN)), (2, 1));
    stage.end().await;
}

#[scenario]
async fn labels_of_a_rule_that_is_gone_stay() {
    let stage = Stage::configured(&tier("a")).await;
    stage.join_metal("w1", &["eth0/10.8.0.11/24"]);
    stage.ready("w1").await;
    stage.cloud.configure("");
    let is_taken = |it: &TestCluster| it.metric(TAKEN) == Some(1.0);
    stage.until("the file is taken", is_taken).await;
    stage.rounds("10.8.0.11", 2).await;
    assert_eq!(labels(&stage.node("w1"))["tier"], "a");
    stage.end().await;
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
    let stage = Stage::configured(OWNING).await;
    stage.join_metal("w1", &["eth0/10.8.0.11/24"]);
    let node = stage.ready("w1").await;
    assert_eq!(labels(&node)["x.example/tier"], "web");
    assert_eq!(node["metadata"]["annotations"]["x.example/note"], "hello");
    let rack = "x.example/rack=r1:NoSchedule".to_owned();
    assert!(taints(&node).contains(&rack));
    stage
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
    stage.until("what the rules own is back", is_back).await;
    let before = stage.node_changes("w1").len();
    stage.rounds("10.8.0.11", 3).await;
    assert_eq!(
        stage.node_changes("w1").len(),
        before,
        "and then nothing is written"
    );
    stage.cloud.configure(LESS);
    let is_gone = |it: &TestCluster| {
        let node = it.node("w1");
        !labels(&node).contains_key("x.example/tier") && !taints(&node).contains(&rack)
    };
    stage
        .until("what no rule names any more is gone", is_gone)
        .await;
    let node = stage.node("w1");
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
    stage.end().await;
}

#[scenario]
async fn what_was_added_before_rules_own_anything_stays() {
    let stage = Stage::configured(&tier("a")).await;
    stage.join_metal("w1", &["eth0/10.8.0.11/24"]);
    stage.ready("w1").await;
    let own = "global: {enforceTransformations: true}";
    let both = "transformations: [{labels: {tier: a, x.example/new: 'yes'}}]";
    stage.cloud.configure(&format!("{own}\n{both}"));
    let has_new = |it: &TestCluster| labels(&it.node("w1")).contains_key("x.example/new");
    stage.until("the new label is there", has_new).await;
    stage.cloud.configure(own);
    stage
        .until("the new label is gone", |it| !has_new(it))
        .await;
    // To the API server it is not the rules' alone.
    assert_eq!(labels(&stage.node("w1"))["tier"], "a");
    stage.end().await;
}
