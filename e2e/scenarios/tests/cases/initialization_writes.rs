//! Section A of the cases: how a fresh node is written, in the face of conflicts, failures and
//! crowds.

use std::collections::BTreeSet;
use std::time::Duration;

use bowline_simulator::faults::{Action, Rule};
use bowline_simulator_kubernetes::fleet::{Network, Settings};
use serde_json::json;

use bowline_scenarios::cloud::{Script, machine};
use bowline_scenarios::objects::{UNINITIALIZED, addresses, fresh, is_uninitialized, known};
use bowline_scenarios::{Setup, Sharing, TestCluster, is_real, refuse, scenario, slow};

const INTERNAL: &str = "InternalIP:10.0.0.5";

fn found(id: &str) -> Script {
    Script::Machine(machine(id, &[INTERNAL]))
}

/// Waits until that many patches of the node itself were refused as conflicts.
async fn until_conflicts(bench: &TestCluster, name: &str, count: u64) {
    let refused = format!("PATCH {name} -> 409");
    let count_of = |it: &TestCluster| {
        it.written(name)
            .iter()
            .filter(|line| **line == refused)
            .count()
    };
    bench
        .until("a conflict", |it| count_of(it) as u64 == count)
        .await;
}

#[scenario]
async fn framework_case_018_heartbeats_in_between_cost_a_try_and_are_kept() {
    let bench = TestCluster::new().await;
    bench.cloud().say("n1", found("demo://m-1"));
    let slow = bench.fault(slow("PATCH", "/api/v1/nodes/n1").times(2));
    bench.create(fresh("n1")).await;
    for conflicts in 1..=2 {
        slow.struck(conflicts).await;
        bench.heartbeat("n1").await;
        until_conflicts(&bench, "n1", conflicts).await;
    }
    let heartbeat = bench.node("n1")["status"]["conditions"].clone();
    assert_ne!(heartbeat[0]["lastHeartbeatTime"], "2026-10-26T00:00:00Z");
    bench.until_initialized("n1").await;
    assert_eq!(bench.node("n1")["status"]["conditions"], heartbeat);
    assert_eq!(addresses(&bench.node("n1")), [INTERNAL, "Hostname:n1"]);
    let written = bench.written("n1");
    let wanted = [
        "PATCH n1/status -> 200",
        "PATCH n1 -> 409",
        "PATCH n1 -> 409",
        "PATCH n1 -> 200",
    ];
    assert_eq!(written, wanted);
    assert_eq!(bench.event_count("n1", "Synced"), 1);
}

#[scenario]
async fn framework_case_019_addresses_are_there_before_the_taint_goes() {
    let bench = TestCluster::new().await;
    bench.cloud().say("n1", found("demo://m-1"));
    bench.fault(refuse(500, "PATCH", "/api/v1/nodes/n1/status").times(1));
    let begun = bench.world.clock.now();
    bench.create(fresh("n1")).await;
    bench.until_initialized("n1").await;
    assert!(bench.since(begun) < Duration::from_secs(5) + bench.slack());
    let wanted = [
        "PATCH n1/status -> 500",
        "PATCH n1/status -> 200",
        "PATCH n1 -> 200",
    ];
    assert_eq!(bench.written("n1"), wanted);
    for version in bench.versions("n1") {
        let has_address = addresses(&version).contains(&INTERNAL.to_owned());
        assert!(
            is_uninitialized(&version) || has_address,
            "schedulable too early: {version}"
        );
    }
}

#[scenario]
async fn framework_case_020_a_node_deleted_meanwhile_is_quietly_forgotten() {
    let bench = TestCluster::new().await;
    bench.cloud().say("n1", found("demo://m-1"));
    bench.cloud().take(Duration::from_secs(1));
    bench.create(fresh("n1")).await;
    bench
        .until("the cloud is asked", |it| it.cloud().calls() == 1)
        .await;
    bench.delete("n1").await;
    bench.long(600).await;
    assert_eq!(bench.written("n1"), ["PATCH n1/status -> 404"]);
    assert_eq!(bench.cloud().calls(), 1);
    assert_eq!(bench.events("n1"), [""; 0]);
}

/// Lets 100 fresh nodes appear, with 100 ms for each call to the cloud; says how long it took
/// until all were initialised, how much longer it may, and how often the cloud was asked.
async fn crowd(flags: &[&str]) -> (Duration, Duration, usize) {
    let mut bench = TestCluster::idle(flags).await;
    bench.cloud().take(Duration::from_millis(100));
    for number in 0..100 {
        let name = format!("n{number}");
        bench
            .cloud()
            .say(&name, found(&format!("demo://m-{number}")));
        bench.create(fresh(&name)).await;
    }
    let begun = bench.world.clock.now();
    bench.start();
    let initialized = |it: &TestCluster| {
        let nodes = it.cluster.nodes();
        nodes.iter().all(|node| !is_uninitialized(node))
    };
    bench.until("all nodes are initialised", initialized).await;
    (bench.since(begun), bench.slack(), bench.cloud().calls())
}

#[scenario]
async fn framework_case_021_a_hundred_nodes_take_as_long_as_the_limits_say() {
    let wide = ["--kube-api-qps=1000", "--kube-api-burst=2000"];
    for workers in ["--concurrent-node-syncs=5", "--concurrent-node-syncs=1"] {
        let (took, slack, _) = crowd(&[wide[0], wide[1], workers]).await;
        // Ours: machines are looked up together, so that one worker is as fast as five.
        assert!(took < Duration::from_secs(2) + slack, "{workers}: {took:?}");
    }
    let originals = [
        "--kube-api-qps=20",
        "--kube-api-burst=30",
        "--concurrent-node-syncs=1",
    ];
    let (took, slack, _) = crowd(&originals).await;
    let seconds = Duration::from_secs;
    assert!(
        took > seconds(5) && took < seconds(14) + slack,
        "the originals' limits: {took:?}"
    );
    // Ours: there is no limit unless one is given.
    let (took, slack, _) = crowd(&[]).await;
    assert!(took < seconds(2) + slack, "no limits: {took:?}");
}

#[scenario]
async fn a_hundred_nodes_at_once_cost_few_questions() {
    let (_, _, calls) = crowd(&[]).await;
    assert!((1..=3).contains(&calls), "{calls} calls");
}

#[scenario]
async fn framework_case_022_both_delays_are_observed() {
    let mut bench = TestCluster::idle(&[]).await;
    bench.cloud().say("n1", found("demo://m-1"));
    bench.create(fresh("n1")).await;
    bench.seconds(10).await;
    bench.start();
    bench.until_initialized("n1").await;
    for name in [
        "node_controller_cloud_provider_taint_removal_delay_seconds",
        "node_controller_initial_node_sync_delay_seconds",
    ] {
        for (bound, count) in [("4", 0.0), ("16", 1.0), ("+Inf", 1.0)] {
            let series = format!("{name}_bucket{{le=\"{bound}\"}}");
            assert_eq!(bench.metric(&series), Some(count), "{series}");
        }
        assert_eq!(bench.metric(&format!("{name}_count")), Some(1.0));
    }
}

#[scenario]
async fn a_node_costs_two_writes_and_one_event() {
    let bench = TestCluster::new().await;
    bench.cloud().say("n1", found("demo://m-1"));
    bench.create(fresh("n1")).await;
    let uid = bench.node("n1")["metadata"]["uid"].clone();
    bench.until_initialized("n1").await;
    bench.long(240).await;
    let calls = [
        "PATCH /api/v1/nodes/n1/status",
        "PATCH /api/v1/nodes/n1",
        "POST /api/v1/namespaces/default/events",
    ];
    assert_eq!(bench.all_calls(), calls);
    assert_eq!(bench.cloud().calls(), 1);
    let writes = bench.writes("n1");
    let list = json!([{ "type": "InternalIP", "address": "10.0.0.5" },
                      { "type": "Hostname", "address": "n1" }]);
    let addresses = json!({ "metadata": { "uid": uid }, "status": { "addresses": list } });
    assert_eq!(writes[0].body, addresses);
    let between = bench.versions("n1")[1]["metadata"]["resourceVersion"].clone();
    assert_eq!(
        writes[1].body,
        json!({
            "metadata": {
                "resourceVersion": between,
                "labels": {
                    "beta.kubernetes.io/instance-type": "c2",
                    "failure-domain.beta.kubernetes.io/region": "r1",
                    "failure-domain.beta.kubernetes.io/zone": "z1",
                    "node.kubernetes.io/instance-type": "c2",
                    "topology.kubernetes.io/region": "r1",
                    "topology.kubernetes.io/zone": "z1",
                },
            },
            "spec": {
                "providerID": "demo://m-1",
                "taints": [{ "key": "node.kubernetes.io/not-ready", "effect": "NoSchedule" }],
            },
        })
    );
}

#[scenario]
async fn heartbeats_of_initialised_nodes_cause_no_work() {
    // The queue has one count for all nodes of the server.
    let mut bench = TestCluster::set_up(Setup {
        sharing: Sharing::Alone,
        ..Setup::default()
    })
    .await;
    let names: Vec<String> = (0..20).map(|number| format!("n{number}")).collect();
    for name in &names {
        bench.cloud().say(name, found(&format!("demo://{name}")));
        let list = [INTERNAL, &format!("Hostname:{name}")];
        bench
            .put(known(name, &format!("demo://{name}"), "True", &list))
            .await;
    }
    bench.start();
    bench.seconds(1).await;
    let adds = "workqueue_adds_total{name=\"Nodes\"}";
    let (before, calls) = (bench.metric(adds).unwrap(), bench.cloud().calls());
    // All within the time to the next address round.
    for _ in 0..if is_real() { 6 } else { 27 } {
        bench.seconds(10).await;
        for name in &names {
            bench.heartbeat(name).await;
        }
    }
    assert_eq!(bench.metric(adds), Some(before));
    assert_eq!(bench.cloud().calls(), calls);
    assert_eq!(bench.all_calls(), [""; 0]);
}

#[scenario(only_in_memory = "a real server neither takes nor serves an object that it cannot read")]
async fn a_broken_node_object_concerns_only_itself() {
    let mut bench = TestCluster::idle(&[]).await;
    bench.cloud().say("n1", found("demo://m-1"));
    bench.cloud().say("n2", found("demo://m-2"));
    let mut broken = fresh("broken");
    broken["spec"]["taints"] = "oops".into();
    bench.put(broken.clone()).await;
    bench.create(fresh("n1")).await;
    bench.start();
    // One that is there at the list, one that breaks later.
    bench.until_initialized("n1").await;
    bench.cloud().say("late", Script::Gone);
    bench
        .put(known("late", "demo://late", "Unknown", &[INTERNAL]))
        .await;
    bench.seconds(1).await;
    bench
        .change("late", |node| node["spec"]["taints"] = "oops".into())
        .await;
    bench.create(fresh("n2")).await;
    bench.until_initialized("n2").await;
    let looks = bench.cloud().asked_about("late").len();
    bench.long(600).await;
    assert_eq!(
        bench.cloud().asked_about("late").len(),
        looks,
        "acted on what it was before"
    );
    assert_eq!(bench.calls("broken"), []);
    assert_eq!(bench.calls("late"), []);
    // Mended, it is a node like any other.
    bench.cloud().say("broken", found("demo://m-3"));
    let taint = json!({ "key": UNINITIALIZED, "value": "true", "effect": "NoSchedule" });
    bench
        .change("broken", |node| node["spec"]["taints"] = json!([taint]))
        .await;
    bench.until_initialized("broken").await;
}

#[scenario]
async fn a_fleet_of_real_kubelets_is_initialised_and_becomes_ready() {
    let bench = TestCluster::new().await;
    bench.cloud().follow(&bench.world.machines);
    let settings = Settings {
        network: Network::AfterInitialization(Duration::from_secs(2)),
        ..Settings::default()
    };
    let fleet = bench.cluster.fleet(settings);
    let names: BTreeSet<String> = (0..12).map(|number| format!("worker-{number}")).collect();
    for name in &names {
        bench.cluster.join(&fleet, name, &format!("demo://{name}"));
    }
    let is_up = |it: &TestCluster, name: &String| {
        let node = it.find(name).unwrap_or_default();
        let conditions = node["status"]["conditions"]
            .as_array()
            .cloned()
            .unwrap_or_default();
        let ready = conditions
            .iter()
            .any(|c| c["type"] == "Ready" && c["status"] == "True");
        ready && it.event_count(name, "Synced") == 1
    };
    bench
        .until("all are Ready", |it| {
            names.iter().all(|name| is_up(it, name))
        })
        .await;
    assert_eq!(bench.cloud().canaries(), 0);
    for name in &names {
        let written = [
            format!("PATCH {name}/status -> 200"),
            format!("PATCH {name} -> 200"),
        ];
        assert_eq!(bench.written(name), written);
    }
}

#[scenario]
async fn a_manager_that_never_saw_its_nodes_stops_at_once() {
    let mut bench = TestCluster::idle(&[]).await;
    bench.fault(Rule::new(Action::Hang).on("GET", "/api/v1/nodes"));
    bench.start();
    bench.seconds(30).await;
    let begun = bench.world.clock.now();
    bench.stop().await;
    assert!(bench.since(begun) < Duration::from_secs(1) + bench.slack());
}

#[scenario]
async fn a_write_under_way_is_finished_before_the_manager_stops() {
    let mut bench = TestCluster::new().await;
    bench.cloud().say("n1", found("demo://m-1"));
    let slow = bench.fault(slow("PATCH", "/api/v1/nodes/n1/status").times(1));
    bench.create(fresh("n1")).await;
    slow.struck(1).await;
    bench.stop().await;
    assert!(bench.is_initialized("n1"));
    assert_eq!(bench.event_count("n1", "Synced"), 1);
    let calls = bench.all_calls().len();
    bench.long(600).await;
    assert_eq!(bench.all_calls().len(), calls);
}

#[scenario]
async fn a_watch_that_falls_silent_is_opened_again() {
    let mut bench = TestCluster::idle(&[]).await;
    bench.cloud().say("n1", found("demo://m-1"));
    bench.fault(Rule::new(Action::Hang).on("GET", "/api/v1/nodes").times(1));
    bench.create(fresh("n1")).await;
    let begun = bench.world.clock.now();
    bench.start();
    bench.until_initialized("n1").await;
    assert!(bench.since(begun) < Duration::from_secs(35) + bench.slack());
}
