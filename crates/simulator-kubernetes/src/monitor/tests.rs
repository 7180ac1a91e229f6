//! Silence, taints, and coming back.

use bowline_simulator::faults::{Action, Rule};
use bowline_simulator::machines::Power;
use serde_json::json;

use super::*;
use crate::cluster::Cluster;
use crate::cluster::testing::{kubelet, until};
use crate::fleet::{Fleet, Network, UNINITIALIZED};

/// Key and effect of each taint.
fn taints(cluster: &Cluster, name: &str) -> Vec<String> {
    let node = cluster.node(name).unwrap_or_default();
    let taints = node["spec"]["taints"]
        .as_array()
        .cloned()
        .unwrap_or_default();
    let text = |taint: &Value| {
        let key = taint["key"].as_str().unwrap_or_default();
        let key = key.strip_prefix("node.kubernetes.io/").unwrap_or(key);
        format!("{key}:{}", taint["effect"].as_str().unwrap_or_default())
    };
    taints.iter().map(text).collect()
}

fn conditions(cluster: &Cluster, name: &str) -> Vec<(String, String)> {
    let node = cluster.node(name).unwrap_or_default();
    let conditions = node["status"]["conditions"]
        .as_array()
        .cloned()
        .unwrap_or_default();
    let text = |one: &Value, key: &str| one[key].as_str().unwrap_or_default().to_owned();
    conditions
        .iter()
        .map(|one| (text(one, "status"), text(one, "reason")))
        .collect()
}

#[tokio::test(start_paused = true)]
async fn a_silent_node_is_unreachable_after_the_grace_period_and_recovers() {
    let world = World::simulated(1);
    let cluster = Cluster::on_pipe(&world).unwrap();
    world.machines.set("demo://n1", Power::Running);
    let _monitor = Monitor::start(&world, cluster.admin().unwrap(), Settings::default());
    let fleet = Fleet::new(
        &world,
        cluster.admin().unwrap(),
        crate::fleet::Settings {
            network: Network::AtOnce,
            ..crate::fleet::Settings::default()
        },
    );
    fleet.join(kubelet("n1")).unwrap();
    until("registration", || cluster.lease("n1").is_some()).await;
    tokio::time::sleep(Duration::from_secs(3600)).await;
    let own = format!("{UNINITIALIZED}:NoSchedule");
    assert_eq!(taints(&cluster, "n1"), [own.as_str()]);

    let last = cluster.lease("n1").unwrap()["spec"]["renewTime"].clone();
    world.machines.set("demo://n1", Power::Off);
    let off = tokio::time::Instant::now();
    until("unreachable", || taints(&cluster, "n1").len() == 3).await;
    let took = off.elapsed();
    assert!(
        took > Duration::from_secs(39) && took < Duration::from_secs(52),
        "{took:?}"
    );
    assert_eq!(cluster.lease("n1").unwrap()["spec"]["renewTime"], last);
    assert_eq!(
        taints(&cluster, "n1"),
        [
            own.as_str(),
            "unreachable:NoSchedule",
            "unreachable:NoExecute"
        ]
    );
    let unknown = ("Unknown".to_owned(), "NodeStatusUnknown".to_owned());
    assert_eq!(conditions(&cluster, "n1"), vec![unknown; 4]);

    let quiet = cluster.calls().len();
    tokio::time::sleep(Duration::from_secs(3600)).await;
    assert_eq!(cluster.calls().len(), quiet, "nothing more to say about it");

    world.machines.set("demo://n1", Power::Running);
    until("recovery", || taints(&cluster, "n1") == [own.as_str()]).await;
    assert_eq!(conditions(&cluster, "n1")[3].0, "True");
}

#[tokio::test(start_paused = true)]
async fn a_node_that_never_reports_becomes_unknown_after_the_startup_grace() {
    let world = World::simulated(1);
    let cluster = Cluster::on_pipe(&world).unwrap();
    let _monitor = Monitor::start(&world, cluster.admin().unwrap(), Settings::default());
    let caller = Caller::new(cluster.admin().unwrap());
    let node = json!({ "kind": "Node", "apiVersion": "v1", "metadata": { "name": "bare" } });
    caller
        .make(Call::create("/api/v1/nodes", node), None)
        .await
        .unwrap();
    let start = tokio::time::Instant::now();
    until("unreachable", || taints(&cluster, "bare").len() == 2).await;
    assert!(start.elapsed() >= Duration::from_secs(60));
    let never = ("Unknown".to_owned(), "NodeStatusNeverUpdated".to_owned());
    assert_eq!(conditions(&cluster, "bare"), vec![never; 4]);
}

/// Conditions, whether cordoned, taints before, and taints after if they change.
type Row<'a> = (
    &'a [(&'a str, &'a str)],
    bool,
    &'a [&'a str],
    Option<&'a [&'a str]>,
);

#[test]
fn taints_follow_the_conditions_and_foreign_ones_stay() {
    use k8s_openapi::api::core::v1::Taint;
    let taint = |text: &str| {
        let (key, effect) = text.split_once(':').unwrap();
        let key = match key {
            "foreign" => key.to_owned(),
            key => format!("node.kubernetes.io/{key}"),
        };
        Taint {
            key,
            effect: effect.to_owned(),
            ..Taint::default()
        }
    };
    let rows: [Row; 9] = [
        (&[("Ready", "True")], false, &[], None),
        (&[("Ready", "True")], false, &["foreign:NoSchedule"], None),
        (
            &[("Ready", "True")],
            false,
            &["not-ready:NoSchedule"],
            Some(&[]),
        ),
        (
            &[("Ready", "False")],
            false,
            &["foreign:NoExecute"],
            Some(&[
                "foreign:NoExecute",
                "not-ready:NoSchedule",
                "not-ready:NoExecute",
            ]),
        ),
        (
            &[("Ready", "False")],
            false,
            &["not-ready:NoSchedule", "not-ready:NoExecute"],
            None,
        ),
        (
            &[("Ready", "Unknown")],
            false,
            &["not-ready:NoSchedule", "not-ready:NoExecute"],
            Some(&["unreachable:NoSchedule", "unreachable:NoExecute"]),
        ),
        (
            &[("Ready", "True"), ("DiskPressure", "True")],
            false,
            &[],
            Some(&["disk-pressure:NoSchedule"]),
        ),
        (
            &[("Ready", "True")],
            true,
            &[],
            Some(&["unschedulable:NoSchedule"]),
        ),
        (
            &[("Ready", "True")],
            false,
            &["unschedulable:NoSchedule", "not-ready:NoExecute"],
            Some(&[]),
        ),
    ];
    for (conditions, unschedulable, before, after) in rows {
        let facts = Facts {
            version: "7".to_owned(),
            conditions: conditions
                .iter()
                .map(|(kind, status)| ((*kind).to_owned(), ((*status).to_owned(), String::new())))
                .collect(),
            taints: before.iter().map(|text| taint(text)).collect(),
            unschedulable,
            ..Facts::default()
        };
        let call = decide("n1", &facts, false, jiff::Timestamp::UNIX_EPOCH);
        let reported = call.map(|call| {
            assert_eq!(call.body["metadata"]["resourceVersion"], "7");
            let mut list = call.body["spec"]["taints"]
                .as_array()
                .cloned()
                .unwrap_or_default();
            for one in &mut list {
                one.as_object_mut().unwrap().remove("timeAdded");
            }
            list
        });
        let wanted = after.map(|list| {
            list.iter()
                .map(|text| json!(taint(text)))
                .collect::<Vec<_>>()
        });
        assert_eq!(reported, wanted, "{conditions:?} {before:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn failing_calls_and_broken_watches_do_not_make_a_living_node_unreachable() {
    let world = World::simulated(1);
    let cluster = Cluster::on_pipe(&world).unwrap();
    world.machines.set("demo://n1", Power::Running);
    let refuse = Action::Status {
        code: 503,
        headers: BTreeMap::new(),
        body: None,
    };
    let rules = [
        Rule::new(refuse).on("POST", "*/nodes").times(3),
        Rule::new(Action::LostAnswer)
            .on("PUT", "*")
            .probability(0.3),
        Rule::new(Action::Reset).on("PATCH", "*").probability(0.3),
    ];
    for rule in rules {
        world.faults.add(rule).unwrap();
    }
    let _monitor = Monitor::start(&world, cluster.admin().unwrap(), Settings::default());
    let network = Network::AfterInitialization(Duration::from_secs(1));
    let settings = crate::fleet::Settings {
        network,
        ..crate::fleet::Settings::default()
    };
    let fleet = Fleet::new(&world, cluster.admin().unwrap(), settings);
    fleet.join(kubelet("n1")).unwrap();
    until("registration", || cluster.lease("n1").is_some()).await;
    cluster.change_node("n1", |node| {
        let taints = node["spec"]["taints"].as_array_mut().unwrap();
        taints.retain(|taint| taint["key"] != UNINITIALIZED);
    });
    until("ready", || taints(&cluster, "n1").is_empty()).await;
    for second in 0..3600 {
        tokio::time::sleep(Duration::from_secs(1)).await;
        if second % 20 == 0 {
            cluster.api().compact();
            cluster.api().break_watches();
        }
        assert_eq!(taints(&cluster, "n1"), [""; 0], "after {second} s");
    }
}
