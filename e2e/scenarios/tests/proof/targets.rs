//! When a node stops being a target, and what follows a cloud that is called otherwise.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bowline_controllers::manager::CloudRules;
use bowline_controllers::{InstanceAnswer, Testimony, explain_node};
use bowline_core::owner_annotation::OWNER;
use bowline_core::{Cloud, CloudName, EXCLUSION_LABEL, Ownership, Selector};
use bowline_http::Random;
use bowline_scenarios::cloud::{Script, ScriptedCloud, machine};
use bowline_scenarios::objects::{fresh, is_uninitialized, known, service};
use bowline_scenarios::{Setup, TestCluster, is_real, refuse, scenario};
use serde_json::{Value, json};

const ALONE: &str = "--controllers=service";
/// What a node keeps its targets for.
const HELD: &str = "TargetsHeld";

/// Two accounts of one kind, or one, with load balancers, and these nodes of machines of that kind; no manager yet.
async fn idle(clouds: &[(&str, &str)], nodes: u8) -> TestCluster {
    let bench = TestCluster::set_up(Setup {
        clouds,
        flags: &[ALONE],
        ..Setup::default()
    })
    .await;
    for cloud in &bench.clouds {
        cloud.offer_balancers();
    }
    for number in 1..=nodes {
        bench.put(node(number)).await;
    }
    bench
}

fn node(number: u8) -> Value {
    let address = format!("InternalIP:10.0.0.{number}");
    known(&format!("n{number}"), &id(number), "True", &[&address])
}

fn id(number: u8) -> String {
    format!("demo://n{number}")
}

/// That account has the machines of those nodes.
fn has(cloud: &ScriptedCloud, nodes: impl IntoIterator<Item = u8>) {
    for number in nodes {
        cloud.say(&format!("n{number}"), found(number));
    }
}

fn found(number: u8) -> Script {
    Script::Machine(machine(
        &id(number),
        &[&format!("InternalIP:10.0.0.{number}")],
    ))
}

fn only(cloud: &Arc<ScriptedCloud>) -> Vec<Arc<dyn Cloud>> {
    vec![Arc::clone(cloud) as Arc<dyn Cloud>]
}

fn classed(name: &str, cloud: &str) -> Value {
    let mut it = service(name);
    it["spec"]["loadBalancerClass"] = format!("bowline.dev/{cloud}").into();
    it
}

fn held(bench: &TestCluster, cloud: &str) -> String {
    let text = bench.metrics.text();
    let begin = format!("bowline_targets_held{{cloud=\"{cloud}\"}} ");
    let line = text.lines().find_map(|it| it.strip_prefix(&*begin));
    line.unwrap_or("none").to_owned()
}

/// How many Services: each is created and looked at one by one.
fn many() -> usize {
    if is_real() { 8 } else { 50 }
}

#[scenario]
async fn proof_case_05_a_renamed_cloud_whose_machines_are_slow_to_be_found_loses_no_target() {
    let mut bench = idle(&[("prod", "demo")], 3).await;
    has(&bench.clouds[0], 1..=3);
    bench.start();
    let names: Vec<String> = (0..many()).map(|it| format!("web-{it}")).collect();
    for name in &names {
        bench.create_service(service(name)).await;
    }
    for name in &names {
        bench.until_event(name, "EnsuredLoadBalancer").await;
    }
    let zurich = bench.clouds[0].renamed("zurich", &bench.world);
    let slow = Duration::from_secs(30);
    zurich.take(slow);
    for number in 1..=3 {
        let name = format!("n{number}");
        zurich.say_in_turn(&name, [Script::Error("503"), found(number)]);
    }
    bench.balancers().clear();
    bench.reload(only(&zurich), CloudRules::default(), &[]);
    // Case 49.
    bench.assert_visible(&names[0], HELD, &names[0]).await;
    bench
        .until("targets are held", |it| held(it, "zurich") == "3")
        .await;
    let all = |it: &TestCluster| {
        let looks = |name: &String| it.balancers().count(&format!("shop/{name} (n1 n2 n3)"));
        names.iter().all(|name| looks(name) > 0)
    };
    bench.until("all have their nodes again", all).await;
    assert_eq!(bench.balancers().writes(), [""; 0], "no target is touched");
    let answered = *zurich.asked_about("n1").last().unwrap() + slow;
    for name in &names {
        let looks = bench.balancers().times(&format!("shop/{name} (n1 n2 n3)"));
        let after = looks[0].duration_since(answered);
        let limit = Duration::from_secs(1) + bench.slack();
        assert!(after <= limit.try_into().unwrap(), "{name} after {after}");
    }
    bench
        .until("nothing is held", |it| held(it, "zurich") == "0")
        .await;
    bench.put(node(4)).await;
    zurich.say("n4", found(4));
    let new = |it: &TestCluster| it.balancers().count("(n1 n2 n3 n4)") > 0;
    bench.until("a new node is a target", new).await;
    bench.stop().await;
}

#[scenario]
async fn proof_case_05_a_cloud_that_is_known_by_its_settings_follows_its_name_at_once() {
    let mut bench = idle(&[("prod", "demo")], 3).await;
    has(&bench.clouds[0], 1..=3);
    bench.start();
    bench.create_service(classed("web", "prod")).await;
    bench.until_event("web", "EnsuredLoadBalancer").await;
    let zurich = bench.clouds[0].renamed("zurich", &bench.world);
    for number in 1..=3 {
        zurich.say(&format!("n{number}"), Script::Error("503"));
    }
    bench.balancers().clear();
    let renamed = [("prod", "zurich")];
    bench.reload(only(&zurich), CloudRules::default(), &renamed);
    let looks = |it: &TestCluster| it.balancers().count("shop/web (n1 n2 n3)") > 0;
    bench.until("its class names the same cloud", looks).await;
    bench.put(node(4)).await;
    let new = |it: &TestCluster| it.balancers().members().contains(&"n4".to_owned());
    bench.until("its new nodes are targets", new).await;
    assert_eq!(bench.balancers().count("delete"), 0);
    assert_eq!(bench.event_count("web", HELD), 0);
    bench.stop().await;
}

#[scenario]
async fn proof_case_06_an_account_that_leaves_takes_no_target_with_it() {
    let mut bench = idle(&[("east", "demo"), ("west", "demo")], 3).await;
    let [east, west] = [0, 1].map(|it| Arc::clone(&bench.clouds[it]));
    has(&east, 1..=2);
    has(&west, [3]);
    bench.start();
    bench.create_service(classed("of-east", "east")).await;
    bench.create_service(classed("of-west", "west")).await;
    let are_there = |_: &TestCluster| {
        let members = |it: &ScriptedCloud| it.balancers().all().len() == 1;
        members(&east)
            && members(&west)
            && east.balancers().members() == ["n1", "n2"]
            && west.balancers().members() == ["n3"]
    };
    bench.until("each has its nodes", are_there).await;
    west.balancers().clear();
    bench.reload(only(&west), CloudRules::default(), &[]);
    bench.until_event("of-east", "UnknownCloud").await;
    bench.long(300).await;
    assert_eq!(east.balancers().members(), ["n1", "n2"], "kept");
    assert_eq!(west.balancers().members(), ["n3"], "unchanged");
    assert_eq!(west.balancers().writes(), [""; 0]);
    let departed = "bowline_nodes_left_alone{why=\"departed\"} 2";
    let text = bench.metrics.text();
    assert!(text.contains(departed), "{text}");
    bench.stop().await;
}

#[scenario]
async fn proof_case_07_excluded_nodes_go_at_once_and_those_nobody_owns_after_a_second_look() {
    let mut bench = idle(&[("demo", "demo")], 10).await;
    has(&bench.clouds[0], 1..=10);
    bench.start();
    bench.create_service(service("web")).await;
    let count = |wanted: usize| {
        move |it: &TestCluster| {
            it.balancers().all().len() == 1 && it.balancers().members().len() == wanted
        }
    };
    bench.until("all are targets", count(10)).await;
    for number in 1..=6 {
        let label = |it: &mut Value| it["metadata"]["labels"][EXCLUSION_LABEL] = "".into();
        bench.change(&format!("n{number}"), label).await;
    }
    bench.until("those with the label are none", count(4)).await;
    assert_eq!(bench.event_count("web", HELD), 0, "nobody doubts that");
    // The cloud is configured to have other nodes than these.
    let name = CloudName::parse("demo").unwrap();
    let elsewhere = Selector::parse("site=elsewhere").unwrap();
    let rules = CloudRules {
        selectors: BTreeMap::from([(name, elsewhere)]),
        ..CloudRules::default()
    };
    let begun = bench.world.clock.now();
    bench.reload(only(&bench.clouds[0]), rules, &[]);
    bench.until_event("web", HELD).await;
    assert_eq!(bench.balancers().members().len(), 4, "held");
    bench.until("a second look says the same", count(0)).await;
    let first = bench.balancers().times("delete member shop/web");
    let waited = first.last().unwrap().duration_since(begun);
    assert!(
        waited >= Duration::from_secs(10).try_into().unwrap(),
        "{waited}"
    );
    bench.stop().await;
}

#[scenario]
async fn proof_case_08_clouds_that_are_down_at_the_start_cost_no_target_and_the_last_node_takes_its_own()
 {
    let mut bench = idle(&[("east", "demo"), ("west", "demo")], 2).await;
    has(&bench.clouds[0], 1..=2);
    bench.start();
    bench.create_service(service("web")).await;
    let members = |wanted: &'static [&'static str]| {
        move |it: &TestCluster| {
            it.balancers().all().len() == 1 && it.balancers().members() == wanted
        }
    };
    bench
        .until("both are targets", members(&["n1", "n2"]))
        .await;
    bench.stop().await;
    for cloud in &bench.clouds {
        for number in 1..=2 {
            cloud.say(&format!("n{number}"), Script::Error("503"));
        }
    }
    bench.balancers().clear();
    bench.start();
    bench.until_event("web", HELD).await;
    bench.long(300).await;
    assert_eq!(bench.balancers().writes(), [""; 0]);
    // A node that is deleted is unwanted, whoever had it.
    bench.delete("n1").await;
    bench.until("its target goes", members(&["n2"])).await;
    has(&bench.clouds[0], [2]);
    bench.clouds[1].say("n2", Script::None);
    bench
        .until("nothing is held", |it| held(it, "east") == "0")
        .await;
    bench.delete("n2").await;
    bench.until("the last one goes, too", members(&[])).await;
    bench.stop().await;
}

#[scenario]
async fn adding_an_account_is_no_dispute_while_the_clouds_are_being_asked() {
    let mut bench = TestCluster::set_up(Setup {
        clouds: &[("east", "demo")],
        ..Setup::default()
    })
    .await;
    bench.put(node(1)).await;
    has(&bench.clouds[0], [1]);
    bench.start();
    bench.settle().await;
    let names = bench.cluster.names().clone();
    let west = ScriptedCloud::new("west", "demo", &names, &bench.world);
    let both = vec![
        Arc::clone(&bench.clouds[0]) as Arc<dyn Cloud>,
        Arc::clone(&west) as Arc<dyn Cloud>,
    ];
    bench.reload(both, CloudRules::default(), &[]);
    bench
        .until("it is asked", |_| !west.asked_about("n1").is_empty())
        .await;
    bench.settle().await;
    assert_eq!(bench.event_count("n1", "NodeContested"), 0);
    let text = bench.metrics.text();
    let contested = "bowline_nodes_left_alone{why=\"contested\"} 1";
    assert!(!text.contains(contested), "{text}");
    bench.stop().await;
}

#[scenario]
async fn proof_case_48_the_newer_node_of_a_machine_is_left_alone_until_the_older_is_gone() {
    let mut bench = TestCluster::idle(&[]).await;
    let cloud = Arc::clone(&bench.clouds[0]);
    let mut thief = fresh("w9");
    thief["spec"]["providerID"] = id(1).into();
    has(&cloud, [1]);
    cloud.say("w9", found(1));
    // The older does not show its machine yet.
    bench.create(fresh("n1")).await;
    bench.seconds(2).await;
    bench.create(thief).await;
    bench.start();
    bench.until_initialized("n1").await;
    for name in ["n1", "w9"] {
        let twice = "ProviderIDClaimedTwice";
        // Case 49.
        bench.assert_visible(name, twice, name).await;
    }
    bench.settle().await;
    assert!(bench.writes("w9").is_empty(), "{:?}", bench.writes("w9"));
    assert!(is_uninitialized(&bench.node("w9")));
    assert_eq!(bench.event_count("w9", "ProviderIDClaimedTwice"), 1);
    bench.delete("n1").await;
    bench.until_initialized("w9").await;
    assert_eq!(bench.node("w9")["spec"]["providerID"], json!(id(1)));
    bench.stop().await;
}

/// What a cloud says about a machine, or that it is asked in vain.
fn said(random: &Random, number: u8, scheme: &str) -> Script {
    match below(random, 5) {
        0 | 1 => Script::Machine(machine(
            &format!("{scheme}://n{number}"),
            &[&format!("InternalIP:10.0.0.{number}")],
        )),
        2 => Script::None,
        3 => Script::Gone,
        _ => Script::Error("503"),
    }
}

fn below(random: &Random, limit: u8) -> u8 {
    let drawn = random.unit() * f64::from(limit);
    (0..limit)
        .rev()
        .find(|it| drawn >= f64::from(*it))
        .unwrap_or(0)
}

#[scenario]
async fn proof_case_47_explain_and_the_manager_agree_about_random_nodes() {
    let clouds = [("east", "demo"), ("west", "demo"), ("north", "north")];
    let mut bench = TestCluster::set_up(Setup {
        clouds: &clouds,
        flags: &["--controllers=cloud-node", "--show-owners=annotation"],
        ..Setup::default()
    })
    .await;
    let random = Random::seeded(47);
    let count = if is_real() { 40 } else { 200 };
    for number in 1..=count {
        let name = format!("n{number}");
        for (cloud, (_, scheme)) in bench.clouds.iter().zip(clouds) {
            cloud.say(&name, said(&random, number, scheme));
        }
        let id = match below(&random, 8) {
            0..=2 => Some(format!("demo://{name}")),
            3 => Some(format!("north://{name}")),
            4 => Some(format!("elsewhere://{name}")),
            // Another Node's, which may be older.
            5 => Some(format!("demo://n{}", number.max(2) - 1)),
            _ => None,
        };
        let mut node = if below(&random, 2) == 0 {
            fresh(&name)
        } else {
            let address = format!("InternalIP:10.0.0.{number}");
            known(&name, "demo://x", "True", &[&address])
        };
        match id {
            Some(id) => node["spec"]["providerID"] = id.into(),
            None => drop(node["spec"].as_object_mut().unwrap().remove("providerID")),
        }
        bench.put(node).await;
    }
    bench.start();
    bench.seconds(if is_real() { 60 } else { 600 }).await;
    let client = bench.cluster.client(bench.cluster.manager("explain").await);
    let clouds: Vec<Arc<dyn Cloud>> = bench
        .clouds
        .iter()
        .map(|it| Arc::clone(it) as Arc<dyn Cloud>)
        .collect();
    let lease = bench.managers_lease();
    let mut owned = 0;
    for number in 1..=count {
        let name = format!("n{number}");
        let full = bench.cluster.names().own(&name);
        let said = explain_node(&client, &clouds, Arc::default(), &full, &lease).await;
        let said = said.unwrap();
        let shown = &bench.node(&name)["metadata"]["annotations"][OWNER];
        let is_fresh = is_uninitialized(&bench.node(&name));
        let by = |it: &Ownership| match it {
            Ownership::Owned { by, .. } => Some(by.to_string()),
            _ => None,
        };
        // A fresh node shows nothing: only who is initialised has an owner to be seen.
        let expected = by(&said.owner).filter(|_| !is_fresh);
        assert_eq!(shown.as_str(), expected.as_deref(), "{name}: {said}");
        if is_fresh {
            let has = |it: &Testimony| it.answer == Some(InstanceAnswer::Has);
            let described = by(&said.describer).filter(|cloud| {
                said.clouds
                    .iter()
                    .any(|it| it.candidate.name.as_str() == cloud && has(it))
            });
            assert_eq!(described, None, "{name} would be initialised: {said}");
        }
        owned += usize::from(expected.is_some());
    }
    assert!(owned > usize::from(count) / 10, "{owned} of {count}");
    bench.stop().await;
}

#[scenario]
async fn proof_case_44_a_controller_that_cannot_sign_in_during_a_reload_does_not_end_the_leader() {
    let mut bench = TestCluster::idle(&["--use-service-account-credentials"]).await;
    bench.start();
    bench.clouds[0].say("n1", found(1));
    bench.create(fresh("n1")).await;
    bench.until_initialized("n1").await;
    let accounts = "/api/v1/namespaces/kube-system/serviceaccounts/*";
    let refused = bench.fault(refuse(500, "*", accounts).times(9));
    bench.reload(only(&bench.clouds[0]), CloudRules::default(), &[]);
    refused.struck(9).await;
    assert!(bench.is_running());
    bench.clouds[0].say("n2", found(2));
    bench.create(fresh("n2")).await;
    bench.until_initialized("n2").await;
    bench.stop().await;
}

#[scenario]
async fn a_node_that_cannot_be_initialised_is_reported_once_a_minute_whatever_its_heartbeats() {
    let mut bench = TestCluster::new().await;
    bench.clouds[0].say("n1", Script::Error("503"));
    bench.create(fresh("n1")).await;
    let failed = "NodeInitializationFailed";
    bench.until_event("n1", failed).await;
    for _ in 0..10 {
        bench.heartbeat("n1").await;
        bench.seconds(2).await;
    }
    assert_eq!(bench.event_count("n1", failed), 1);
    bench.stop().await;
}
