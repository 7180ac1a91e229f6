//! Leases of other controller managers, held while this one stands in for them (`--hold-leases`).

use bowline_controllers::manager::ManagerError;
use bowline_scenarios::{LEASE, Replica, TestCluster, refuse, scenario};
use bowline_simulator::journal::{Entry, Filter};
use serde_json::Value;
use tokio::time::Instant;

use crate::process::{check, join, seeds, stop};

/// The leases of two originals, out of order.
const TALOS: &str = "cloud-controller-manager-talos";
const EXOSCALE: &str = "cloud-controller-manager-exoscale";

/// A manager that holds the leases of both originals.
async fn bowline(bench: &TestCluster, name: &str) -> Replica {
    let names = bench.cluster.names();
    let (talos, exoscale) = (names.own(TALOS), names.own(EXOSCALE));
    let hold = format!("--hold-leases={talos},kube-system/{exoscale}");
    bench.replica(name, &[&hold]).await
}

/// An original: a manager that knows of its own lease alone.
async fn original(bench: &TestCluster, name: &str, lease: &str) -> Replica {
    let own = bench.cluster.names().own(lease);
    let lease = format!("--leader-elect-resource-name={own}");
    bench.replica(name, &[&lease]).await
}

/// What that manager wrote from there on that is no lease and no event about one.
fn works(bench: &TestCluster, name: &str, from: usize) -> Vec<Entry> {
    let writes = bench.calls_of(name, from).into_iter();
    // Events are named after what they are about, and so are the leases of managers.
    let is_election = |it: &Entry| {
        let about = it.path.contains("/events/cloud-controller-manager");
        it.path.contains("/leases") || about || it.body["involvedObject"]["kind"] == "Lease"
    };
    writes
        .filter(|it| it.is_mutating() && !is_election(it))
        .collect()
}

/// The events of that reason about that lease, by their messages.
fn reported(bench: &TestCluster, reason: &str, lease: &str) -> Vec<String> {
    let about = |event: &Value| event["involvedObject"]["name"] == lease;
    let events = bench.events_of(reason).into_iter().filter(about);
    let message = |event: Value| event["message"].as_str().unwrap_or_default().to_owned();
    events.map(message).collect()
}

async fn initialized_by(bench: &TestCluster, node: &str, name: &str) {
    let from = bench.mark();
    join(bench, node).await;
    bench.until_initialized(node).await;
    assert!(!works(bench, name, from).is_empty(), "{name} did it");
}

#[scenario]
async fn a_manager_waits_for_an_original_takes_over_keeps_it_out_and_lets_it_back() {
    let bench = TestCluster::for_replicas(1).await;
    let first = original(&bench, "original-1", TALOS).await;
    let holder = bench.until_held(TALOS, "").await;
    initialized_by(&bench, "n1", "original-1").await;

    // The original works; ours leads its own replicas, does nothing, and says for whom it waits.
    let ours = bowline(&bench, "ours").await;
    let leader = bench.until_held(LEASE, "").await;
    let what = "it tells whom it waits for";
    let waiting = |it: &TestCluster| !reported(it, "WaitingForLease", TALOS).is_empty();
    bench.until(what, waiting).await;
    initialized_by(&bench, "n2", "original-1").await;
    bench.long(1500).await;
    assert_eq!(works(&bench, "ours", 0), []);
    assert_eq!(bench.holder(TALOS), holder);
    // Who waits for long keeps nothing from others: case 41 of proof.
    for lease in [LEASE, EXOSCALE] {
        assert_eq!(bench.holder(lease), "", "{lease}");
    }
    let words = format!("{leader} does nothing before it has this lease: it is held by {holder}");
    let said = reported(&bench, "WaitingForLease", TALOS);
    assert!(
        !said.is_empty() && said.iter().all(|it| *it == words),
        "{said:?}"
    );

    // The original ends as originals do, without a word.
    first.kill().await;
    let killed = Instant::now();
    assert_eq!(bench.until_held(TALOS, &holder).await, leader);
    check(&bench, killed.elapsed(), 11..=20);
    initialized_by(&bench, "n3", "ours").await;

    // Somebody starts it again: it stands by.
    let (from, second) = (bench.mark(), original(&bench, "original-2", TALOS).await);
    initialized_by(&bench, "n4", "ours").await;
    bench.long(300).await;
    let calls = bench.calls_of("original-2", from);
    assert!(!calls.is_empty() && calls.iter().all(|call| call.method == "GET"));

    // The way back.
    stop(&bench, ours).await;
    for lease in [LEASE, EXOSCALE] {
        assert_eq!(bench.holder(lease), "", "{lease} is given back");
    }
    let back = bench.until_held(TALOS, &leader).await;
    assert_ne!(back, leader);
    initialized_by(&bench, "n5", "original-2").await;
    stop(&bench, second).await;
}

#[scenario]
async fn all_leases_are_given_back_the_own_one_last() {
    let bench = TestCluster::for_replicas(2).await;
    let ours = bowline(&bench, "ours").await;
    bench.until_held(TALOS, "").await;
    initialized_by(&bench, "n1", "ours").await;
    let from = bench.mark();
    stop(&bench, ours).await;
    let calls = bench.calls_of("ours", from).into_iter();
    let released = calls.filter(|it| it.body["spec"]["holderIdentity"] == "");
    let released: Vec<String> = released
        .map(|it| it.path.rsplit('/').next().unwrap_or_default().to_owned())
        .collect();
    assert_eq!(released, [TALOS, EXOSCALE, LEASE]);
    for lease in [TALOS, EXOSCALE, LEASE] {
        assert_eq!(bench.holder(lease), "");
        let events = reported(&bench, "LeaderElection", lease);
        assert_eq!(events.len(), 2, "won and given back: {events:?}");
    }
}

#[scenario]
async fn losing_one_of_the_held_leases_ends_everything_at_once() {
    for lease in [TALOS, EXOSCALE] {
        let bench = TestCluster::for_replicas(3).await;
        let ours = bowline(&bench, "ours").await;
        initialized_by(&bench, "n1", "ours").await;
        bench.give_lease(lease, "thief").await;
        let ended = ours.ended().await;
        let Err(ManagerError::Lost(lost)) = ended else {
            panic!("{ended:?}");
        };
        assert_eq!(lost.lease.name, bench.cluster.names().own(lease));
        assert!(lost.to_string().contains("it is held by thief"), "{lost}");
        // A renewal of another lease may have been on its way.
        bench.settle().await;
        let mark = bench.mark();
        join(&bench, "n2").await;
        bench.long(600).await;
        assert_eq!(bench.transcript_from(mark), "");
        assert_ne!(bench.holder(LEASE), "", "who has lost one gives none back");
    }
}

#[scenario]
async fn of_two_replicas_that_hold_the_same_leases_one_works_and_the_other_follows_it() {
    for seed in seeds(5) {
        let bench = TestCluster::for_replicas(seed).await;
        let leader = bowline(&bench, "a").await;
        let first = bench.until_held(TALOS, "").await;
        let standby = bowline(&bench, "b").await;
        initialized_by(&bench, "n1", "a").await;
        bench.seconds(31 + seed).await;
        let calls = bench.calls_of("b", 0);
        let own = format!("/leases/{LEASE}");
        let only_looks = |it: &Entry| it.method == "GET" && it.path.ends_with(&own);
        assert!(!calls.is_empty() && calls.iter().all(only_looks));

        // Killed: what it left behind is taken with its own lease, without another wait for each.
        leader.kill().await;
        let killed = Instant::now();
        let second = bench.until_held(TALOS, &first).await;
        check(&bench, killed.elapsed(), 13..=25);
        for lease in [LEASE, EXOSCALE] {
            assert_eq!(bench.holder(lease), second);
        }
        initialized_by(&bench, "n2", "b").await;

        // Asked to stop: the next one leads within seconds.
        let third = bowline(&bench, "c").await;
        bench.seconds(10).await;
        let asked = Instant::now();
        stop(&bench, standby).await;
        bench.until_held(TALOS, &second).await;
        check(&bench, asked.elapsed(), 0..=6);
        initialized_by(&bench, "n3", "c").await;
        stop(&bench, third).await;
    }
}

#[scenario]
async fn a_lease_of_any_namespace_is_held_with_one_renewal_in_a_retry_period() {
    let bench = TestCluster::for_replicas(5).await;
    let own = bench.cluster.names().own("elsewhere");
    let hold = format!("--hold-leases=default/{own}");
    let ours = bench.replica("ours", &[&hold]).await;
    initialized_by(&bench, "n1", "ours").await;
    let from = bench.mark();
    bench.seconds(20).await;
    let path = "/apis/coordination.k8s.io/v1/namespaces/default/leases/elsewhere";
    let calls = bench.calls_of("ours", from).into_iter();
    let renewals = calls.filter(|it| it.path == path);
    let renewals: Vec<String> = renewals.map(|it| it.method).collect();
    assert!((5..=11).contains(&renewals.len()), "{}", renewals.len());
    assert!(renewals.iter().all(|method| method == "PUT"));
    let series = "leader_election_master_status{name=\"default/elsewhere\"}";
    assert_eq!(ours.metric(series), Some(1.0));
    assert!(ours.leads());
    stop(&bench, ours).await;
    let last = bench.matching(&Filter::any().path(path)).pop().unwrap();
    assert_eq!(last.body["spec"]["holderIdentity"], "");
}

#[scenario]
async fn a_lease_without_the_rights_for_it_is_waited_for_and_a_stop_gives_the_own_one_back() {
    let bench = TestCluster::for_replicas(6).await;
    join(&bench, "n1").await;
    let own = bench.cluster.names().own(EXOSCALE);
    let path = format!("/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/{own}");
    bench.fault(refuse(403, "GET", &path));
    let ours = bowline(&bench, "ours").await;
    bench.until_held(LEASE, "").await;
    bench.long(120).await;
    assert!(ours.is_running() && works(&bench, "ours", 0).is_empty());
    assert_eq!(bench.cloud().calls(), 0);
    assert_eq!(bench.holder(TALOS), "", "its turn has not come");
    let took = stop(&bench, ours).await;
    check(&bench, took, 0..=4);
    assert_eq!(bench.holder(LEASE), "");
}

#[scenario]
async fn the_lease_of_a_migration_cannot_be_held_besides() {
    let bench = TestCluster::for_replicas(7).await;
    let flags = [
        "--enable-leader-migration",
        "--hold-leases=cloud-provider-extraction-migration",
    ];
    let ended = bench.replica("ours", &flags).await.ended().await;
    let error = ended.unwrap_err().to_string();
    let lease = "kube-system/cloud-provider-extraction-migration";
    assert!(
        error.contains("--hold-leases") && error.contains(lease),
        "{error}"
    );
    assert_eq!(bench.mark(), 0, "nothing was called");
}
