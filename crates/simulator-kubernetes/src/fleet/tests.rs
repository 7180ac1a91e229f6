//! Kubelets, by what they write.

use bowline_simulator::machines::Power;
use serde_json::{Value, json};

use super::*;
use crate::cluster::Cluster;
use crate::cluster::testing::{HOUR, kubelet, until};

fn settings(network: Network) -> Settings {
    Settings {
        network,
        ..Settings::default()
    }
}

fn ready(cluster: &Cluster, name: &str) -> Option<String> {
    let node = cluster.node(name)?;
    let conditions = node["status"]["conditions"].as_array()?;
    let ready = conditions.iter().find(|one| one["type"] == "Ready")?;
    Some(ready["status"].as_str()?.to_owned())
}

/// What the cloud controller manager does to a new Node.
fn initialize(cluster: &Cluster, name: &str) {
    cluster.change_node(name, |node| {
        node["spec"]["taints"] = json!([]);
        node["status"]["addresses"] = json!([{ "type": "ExternalIP", "address": "203.0.113.9" }]);
    });
}

fn world_with(names: &[&str]) -> World {
    let world = World::simulated(7);
    for name in names {
        world
            .machines
            .set(&format!("demo://{name}"), Power::Running);
    }
    world
}

#[test]
fn the_first_addresses_follow_the_node_ip_flag() {
    let own = ["2001:db8::7", "10.0.0.7"];
    let rows: [(Option<&str>, &[&str], Option<&str>); 8] = [
        (None, &[], None),
        (Some(""), &[], None),
        (Some("0.0.0.0"), &["10.0.0.7"], None),
        (Some("::"), &["2001:db8::7"], None),
        (Some("10.0.0.9"), &["10.0.0.9"], Some("10.0.0.9")),
        (Some("2001:db8::9"), &["2001:db8::9"], Some("2001:db8::9")),
        (
            Some("10.0.0.9,2001:db8::9"),
            &["10.0.0.9", "2001:db8::9"],
            Some("10.0.0.9,2001:db8::9"),
        ),
        (
            Some("2001:db8::9,10.0.0.9"),
            &["2001:db8::9", "10.0.0.9"],
            Some("2001:db8::9,10.0.0.9"),
        ),
    ];
    for (flag, internal, annotation) in rows {
        let kubelet = KubeletSpec {
            provided_node_ip: flag.map(str::to_owned),
            own_addresses: own.iter().map(|one| one.parse().unwrap()).collect(),
            ..kubelet("n1")
        };
        let node = Kubelet(kubelet).node("boot", false, jiff::Timestamp::UNIX_EPOCH);
        let mut expected: Vec<Value> = internal
            .iter()
            .map(|one| json!({ "type": "InternalIP", "address": one }))
            .collect();
        expected.push(json!({ "type": "Hostname", "address": "n1" }));
        assert_eq!(node["status"]["addresses"], json!(expected), "{flag:?}");
        let reported = &node["metadata"]["annotations"][PROVIDED_NODE_IP];
        assert_eq!(reported.as_str(), annotation, "{flag:?}");
    }
}

#[test]
fn a_wrong_node_ip_keeps_the_kubelet_from_starting() {
    for value in [
        "nonsense",
        "10.0.0.1, ::1",
        "10.0.0.1,10.0.0.2",
        "0.0.0.0,::",
        "::1,1.2.3.4,::2",
    ] {
        let kubelet = KubeletSpec {
            provided_node_ip: Some(value.to_owned()),
            ..kubelet("n1")
        };
        let error = Kubelet(kubelet).check().unwrap_err();
        assert!(error.to_string().contains(value), "{error}");
    }
}

#[test]
fn a_node_registers_with_the_taint_last_and_the_command_lines_labels() {
    let taint = ["dedicated", "", "NoExecute"].map(str::to_owned);
    let labels = [("kubernetes.io/arch", "riscv64"), ("pool", "a")];
    let kubelet = KubeletSpec {
        provider_id: Some("demo://n1".to_owned()),
        os_image: "Toy Linux 1".to_owned(),
        taints: vec![taint.into()],
        labels: labels
            .map(|(key, value)| (key.to_owned(), value.to_owned()))
            .into(),
        ..kubelet("n1")
    };
    let node = Kubelet(kubelet.clone()).node("boot", false, jiff::Timestamp::UNIX_EPOCH);
    assert_eq!(
        node["spec"],
        json!({
            "providerID": "demo://n1",
            "taints": [
                { "key": "dedicated", "effect": "NoExecute" },
                { "key": UNINITIALIZED, "value": "true", "effect": "NoSchedule" },
            ],
        })
    );
    assert_eq!(
        node["metadata"]["labels"],
        json!({
            "beta.kubernetes.io/arch": "amd64", "beta.kubernetes.io/os": "linux",
            "kubernetes.io/arch": "riscv64", "kubernetes.io/os": "linux",
            "kubernetes.io/hostname": "n1", "pool": "a",
        })
    );
    assert_eq!(
        node["status"]["nodeInfo"]["systemUUID"],
        kubelet.system_uuid.as_str()
    );
    assert_eq!(node["status"]["nodeInfo"]["osImage"], "Toy Linux 1");
    let typed: Node = serde_json::from_value(node).unwrap();
    let conditions = typed.status.unwrap().conditions.unwrap();
    let reported: Vec<(&str, &str)> = conditions
        .iter()
        .map(|one| (one.type_.as_str(), one.status.as_str()))
        .collect();
    let expected = [
        ("MemoryPressure", "False"),
        ("DiskPressure", "False"),
        ("PIDPressure", "False"),
        ("Ready", "False"),
    ];
    assert_eq!(reported, expected);
}

#[tokio::test(start_paused = true)]
async fn a_kubelet_is_ready_after_initialisation_and_leaves_addresses_alone() {
    let world = world_with(&["n1"]);
    let cluster = Cluster::on_pipe(&world).unwrap();
    let network = Network::AfterInitialization(Duration::from_secs(3));
    let fleet = Fleet::new(&world, cluster.admin().unwrap(), settings(network));
    let kubelet = KubeletSpec {
        provided_node_ip: Some("10.0.0.9".to_owned()),
        ..kubelet("n1")
    };
    fleet.join(kubelet.clone()).unwrap();
    assert_eq!(
        fleet.join(kubelet),
        Err(KubeletError::Joined("n1".to_owned()))
    );
    until("registration", || cluster.lease("n1").is_some()).await;
    tokio::time::sleep(HOUR).await;
    assert_eq!(ready(&cluster, "n1").as_deref(), Some("False"));
    initialize(&cluster, "n1");
    let before = tokio::time::Instant::now();
    until("ready", || ready(&cluster, "n1").as_deref() == Some("True")).await;
    let took = before.elapsed();
    assert!(
        took >= Duration::from_secs(3) && took < Duration::from_secs(5),
        "{took:?}"
    );
    cluster.change_node("n1", |node| {
        let annotations = node["metadata"]["annotations"].as_object_mut().unwrap();
        annotations.remove(PROVIDED_NODE_IP).unwrap();
    });
    until("the annotation", || {
        let node = cluster.node("n1").unwrap();
        node["metadata"]["annotations"][PROVIDED_NODE_IP] == "10.0.0.9"
    })
    .await;
    let node = cluster.node("n1").unwrap();
    let addresses = json!([{ "type": "ExternalIP", "address": "203.0.113.9" }]);
    assert_eq!(node["status"]["addresses"], addresses);
    assert_eq!(node["spec"]["taints"].as_array().map_or(0, Vec::len), 0);
    let calls = cluster.calls().into_iter();
    let (own, others): (Vec<_>, Vec<_>) =
        calls.partition(|(_, _, _, caller)| caller == "system:node:n1");
    assert_eq!(others.len(), 1, "only the fleet's list: {others:?}");
    assert!(own.iter().all(|(_, _, status, _)| *status < 300), "{own:?}");
}

#[tokio::test(start_paused = true)]
async fn heartbeats_are_leases_every_ten_seconds_and_reports_every_five_minutes() {
    let world = world_with(&["n1"]);
    let cluster = Cluster::on_pipe(&world).unwrap();
    let fleet = Fleet::new(&world, cluster.admin().unwrap(), settings(Network::AtOnce));
    fleet.join(kubelet("n1")).unwrap();
    until("registration", || cluster.lease("n1").is_some()).await;
    let before = cluster.calls().len();
    tokio::time::sleep(HOUR).await;
    let calls = cluster.calls().split_off(before);
    let count = |method: &str| calls.iter().filter(|(one, ..)| one == method).count();
    let (renewals, reports) = (count("PUT"), count("PATCH"));
    assert!((345..=360).contains(&renewals), "{renewals}");
    assert!((11..=12).contains(&reports), "{reports}");
    assert_eq!(calls.len(), renewals + reports);
    let lease = cluster.lease("n1").unwrap();
    assert_eq!(lease["spec"]["leaseDurationSeconds"], 40);
    assert_eq!(lease["spec"]["holderIdentity"], "n1");
    let time = lease["spec"]["renewTime"].as_str().unwrap();
    assert_eq!(time.len(), "2026-10-25T00:00:00.000000Z".len(), "{time}");
    assert_eq!(lease["metadata"]["ownerReferences"][0]["kind"], "Node");
}

#[tokio::test(start_paused = true)]
async fn a_kubelet_is_silent_while_its_machine_is_off_and_takes_its_node_back_untainted() {
    let world = world_with(&["n1"]);
    let cluster = Cluster::on_pipe(&world).unwrap();
    let fleet = Fleet::new(&world, cluster.admin().unwrap(), settings(Network::AtOnce));
    fleet.join(kubelet("n1")).unwrap();
    until("registration", || cluster.lease("n1").is_some()).await;
    initialize(&cluster, "n1");
    world.machines.set("demo://n1", Power::Off);
    tokio::time::sleep(Duration::from_secs(1)).await;
    let before = cluster.calls().len();
    tokio::time::sleep(HOUR).await;
    assert_eq!(cluster.calls().len(), before);
    cluster.change_node("n1", |node| {
        node["status"]["conditions"][3]["status"] = json!("Unknown");
        node["metadata"]["labels"]["kubernetes.io/os"] = json!("plan9");
        node["metadata"]["labels"]["pool"] = json!("mine");
    });
    world.machines.set("demo://n1", Power::Running);
    until("ready", || ready(&cluster, "n1").as_deref() == Some("True")).await;
    let node = cluster.node("n1").unwrap();
    assert_eq!(node["spec"]["taints"].as_array().map_or(0, Vec::len), 0);
    assert_eq!(node["metadata"]["labels"]["kubernetes.io/os"], "linux");
    assert_eq!(node["metadata"]["labels"]["pool"], "mine");
    world.machines.destroy("demo://n1");
    tokio::time::sleep(Duration::from_secs(1)).await;
    let before = cluster.calls().len();
    tokio::time::sleep(HOUR).await;
    assert_eq!(cluster.calls().len(), before);
}

#[tokio::test(start_paused = true)]
async fn a_deleted_node_comes_back_only_when_its_kubelet_restarts() {
    let world = world_with(&["n1"]);
    let cluster = Cluster::on_pipe(&world).unwrap();
    let fleet = Fleet::new(&world, cluster.admin().unwrap(), settings(Network::AtOnce));
    fleet.join(kubelet("n1")).unwrap();
    until("registration", || cluster.lease("n1").is_some()).await;
    cluster.delete_node("n1");
    tokio::time::sleep(HOUR).await;
    assert_eq!(cluster.node("n1"), None);
    assert!(fleet.restart("n1"));
    until("registration", || cluster.node("n1").is_some()).await;
    let taints = &cluster.node("n1").unwrap()["spec"]["taints"];
    assert_eq!(taints[0]["key"], UNINITIALIZED);
    assert!(!fleet.restart("nobody"));
    assert!(fleet.leave("n1"));
    assert!(!fleet.leave("n1"));
    let before = cluster.calls().len();
    tokio::time::sleep(HOUR).await;
    assert_eq!(cluster.calls().len(), before);
}

/// Lets so many kubelets join at once; returns the calls made and the simulated time it took.
async fn join_many(count: usize) -> (Vec<(String, String, u16, String)>, Duration) {
    let names: Vec<String> = (0..count).map(|number| format!("n{number:04}")).collect();
    let world = world_with(&names.iter().map(String::as_str).collect::<Vec<_>>());
    let cluster = Cluster::on_pipe(&world).unwrap();
    let fleet = Fleet::new(&world, cluster.admin().unwrap(), settings(Network::AtOnce));
    let before = tokio::time::Instant::now();
    for name in &names {
        fleet.join(kubelet(name)).unwrap();
    }
    until("the last lease", || {
        names.iter().all(|name| cluster.lease(name).is_some())
    })
    .await;
    (cluster.calls(), before.elapsed())
}

#[tokio::test(start_paused = true)]
async fn two_thousand_kubelets_join_at_once_with_two_calls_each() {
    let (calls, took) = join_many(2000).await;
    assert!(took < Duration::from_secs(2), "{took:?}");
    assert_eq!(calls.len(), 2 * 2000 + 1);
    assert!(calls.iter().all(|(_, _, status, _)| *status < 300));
}

#[tokio::test(start_paused = true)]
async fn one_seed_gives_one_transcript() {
    let (first, second) = (join_many(100).await, join_many(100).await);
    assert_eq!(first, second);
}
