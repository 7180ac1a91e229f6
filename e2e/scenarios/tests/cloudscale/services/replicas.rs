//! Two managers and one lease: who leads makes load balancers, and who comes after goes on where the
//! other one ended, however it ended.

use std::time::Duration;

use bowline_controllers::manager::ManagerError;
use bowline_scenarios::objects::{finalizers, service};
use bowline_scenarios::{LEASE, Replica, TestCluster, is_real, scenario};
use bowline_simulator::faults::{Action, Rule};
use bowline_simulator::journal::{Entry, Filter};
use futures::future::join_all;

use super::crashes::{STEPS, assert_settled};
use super::service_harness::{FINALIZER, ServiceHarness};
use crate::cloudscale::harness::Harness;

/// The original's arguments, and terms that are short, but long enough for a busy machine.
const FLAGS: &[&str] = &[
    "--allow-untagged-cloud",
    "--concurrent-service-syncs=2",
    "--leader-elect-lease-duration=8s",
    "--leader-elect-renew-deadline=6s",
    "--leader-elect-retry-period=1s",
];
/// Longer than all terms.
const FROZEN: Duration = Duration::from_secs(27);
/// In this time what a dead process had sent has arrived; far less than until another one leads.
const ON_ITS_WAY: Duration = Duration::from_millis(100);
/// As long as a new Service takes in a cloud that takes its time.
const LIFE: u64 = 9000;

/// One that leads, and one that waits for its turn.
struct Pair {
    test: ServiceHarness,
    leader: Replica,
    standby: Replica,
    /// Who the leader is in the lease.
    first: String,
}

impl Pair {
    async fn new(seed: u64) -> Self {
        let test = ServiceHarness::on(Harness::seeded(seed, &[], &[]).await).await;
        let leader = test.replica("a", FLAGS).await;
        let first = test.until_held(LEASE, "").await;
        let standby = test.replica("b", FLAGS).await;
        let looks = Filter::any().caller("b").path("*/leases/*");
        test.until_called("the other one looks at the lease", &looks)
            .await;
        Self {
            test,
            leader,
            standby,
            first,
        }
    }

    /// The same while `web` is being made, after so many changes in the cloud.
    async fn in_the_middle(seed: u64, steps: usize) -> Self {
        let pair = Self::new(seed).await;
        pair.test.create_service(service("web")).await;
        pair.until_steps(steps).await;
        pair
    }

    async fn until_steps(&self, steps: usize) {
        let changes = Filter::any().server("cloudscale").mutating();
        let done = |it: &TestCluster| it.count(&changes) >= steps;
        self.test.until("so many changes", done).await;
    }

    /// The leader dies; what it had sent arrives all the same.
    async fn kill(self) -> Successor {
        self.leader.kill().await;
        self.test.pass(ON_ITS_WAY).await;
        self.test.catch_up().await;
        Successor(self.test, self.standby, self.first)
    }

    /// The leader is asked to stop, and does.
    async fn stop(self) -> Successor {
        end(&self.test, self.leader).await;
        Successor(self.test, self.standby, self.first)
    }
}

/// Who comes after, and after whom.
struct Successor(ServiceHarness, Replica, String);

impl Successor {
    async fn take_over(self) -> (ServiceHarness, Replica) {
        let Self(test, replica, first) = self;
        test.until_held(LEASE, &first).await;
        (test, replica)
    }
}

async fn end(test: &ServiceHarness, replica: Replica) {
    let (ended, _) = replica.stop().await;
    ended.unwrap();
    test.catch_up().await;
}

/// So many seeds; on the real clock one, since no two runs are alike.
fn seeds(count: u64) -> std::ops::RangeInclusive<u64> {
    1..=if is_real() { 1 } else { count }
}

/// A cloud that answers slowly, so that something often happens while a call is under way.
fn take_time(test: &ServiceHarness) {
    let slow = Action::Delay {
        least: Duration::from_millis(200),
        most: Duration::from_millis(900),
    };
    test.fault(Rule::new(slow).server("cloudscale").named("slow"));
}

/// What managers wrote to Services and their status, from that entry of the journal on.
fn service_writes_from(test: &ServiceHarness, mark: usize) -> Vec<Entry> {
    let all = test.entries().into_iter().skip(mark);
    all.filter(|it| it.server == "kubernetes" && it.caller != "kubernetes-admin")
        .filter(|it| it.is_mutating() && it.path.contains("/services/"))
        .collect()
}

#[scenario]
async fn when_the_leader_dies_after_any_step_the_other_one_makes_the_rest_and_nothing_twice() {
    let story = async |(seed, steps): (u64, usize)| {
        let what = format!("seed {seed}, died after {steps}");
        let pair = Pair::in_the_middle(seed, steps).await;
        let (test, next) = pair.kill().await.take_over().await;
        assert_settled(&test, &what).await;
        assert_eq!(test.changes().len(), STEPS, "{what}: {:?}", test.changes());
        end(&test, next).await;
    };
    for seed in seeds(4) {
        join_all((1..=STEPS).map(|steps| story((seed, steps)))).await;
    }
}

#[scenario]
async fn when_the_leader_dies_during_a_call_there_is_one_load_balancer_in_the_end() {
    for seed in seeds(40) {
        let what = format!("seed {seed}");
        let pair = Pair::new(seed).await;
        take_time(&pair.test);
        pair.test.create_service(service("web")).await;
        let pause = pair.test.world.random.below(LIFE);
        pair.test.pass(Duration::from_millis(pause)).await;
        let (test, next) = pair.kill().await.take_over().await;
        test.world.faults.clear();
        assert_settled(&test, &what).await;
        end(&test, next).await;
    }
}

#[scenario]
async fn when_the_leader_is_stopped_after_any_step_the_other_one_makes_the_rest_and_nothing_twice()
{
    let story = async |(seed, steps): (u64, usize)| {
        let what = format!("seed {seed}, stopped after {steps}");
        let pair = Pair::in_the_middle(seed, steps).await;
        let (test, next) = pair.stop().await.take_over().await;
        assert_settled(&test, &what).await;
        assert_eq!(test.changes().len(), STEPS, "{what}: {:?}", test.changes());
        end(&test, next).await;
    };
    for seed in seeds(4) {
        join_all((1..=STEPS).map(|steps| story((seed, steps)))).await;
    }
}

#[scenario]
async fn a_leader_that_is_stopped_during_a_call_waits_for_the_answer_and_lets_go_of_the_lease_then()
{
    let pair = Pair::new(1).await;
    let slow = Action::Delay {
        least: Duration::from_secs(3),
        most: Duration::from_secs(3),
    };
    let slow = Rule::new(slow).server("cloudscale");
    let slow = pair.test.fault(slow.on("POST", "/v1/load-balancers"));
    pair.test.create_service(service("web")).await;
    slow.struck(1).await;
    drop(slow);
    let (test, next) = pair.stop().await.take_over().await;
    let made = Filter::any().method("POST").path("/v1/load-balancers");
    let made = test.matching(&made);
    assert_eq!(made.len(), 1);
    assert_eq!(made[0].status, 201);
    let lease = Filter::any().caller("a").path("*/leases/*").method("PUT");
    let released = test.matching(&lease).pop().unwrap();
    assert_eq!(released.body["spec"]["holderIdentity"], "");
    assert!(released.arrived >= made[0].time);
    assert_settled(&test, "stopped during a call").await;
    assert_eq!(test.changes().len(), STEPS);
    end(&test, next).await;
}

#[scenario(only_in_memory = "a jump of the paused clock is what a frozen process sees")]
async fn framework_case_149_a_leader_that_wakes_in_the_middle_of_a_plan_calls_no_cloud() {
    // The pauses put the freeze into different calls and between them.
    for seed in 1..=60 {
        let test = ServiceHarness::on(Harness::seeded(seed, &[], &[]).await).await;
        let frozen = test.replica("frozen", FLAGS).await;
        test.until_held(LEASE, "").await;
        take_time(&test);
        test.create_service(service("web")).await;
        test.pass(Duration::from_millis(seed * LIFE / 60)).await;
        tokio::time::advance(FROZEN).await;
        test.give_lease(LEASE, "another").await;
        let (mark, woken) = (test.mark(), test.world.clock.now());
        let ended = frozen.ended().await;
        let lost = matches!(ended, Err(ManagerError::Lost(_)));
        assert!(lost, "seed {seed}: {ended:?}");
        test.seconds(300).await;
        let entries = test.entries().into_iter().skip(mark);
        // What arrived before the freeze is only answered after it.
        let later: Vec<Entry> = entries
            .filter(|it| it.arrived >= woken && it.server == "cloudscale")
            .collect();
        assert!(later.is_empty(), "seed {seed}: {later:?}");
        assert_eq!(service_writes_from(&test, mark), [], "seed {seed}");
        // And whoever leads next finds what was made, and makes the rest.
        test.world.faults.clear();
        let next = test.replica("next", FLAGS).await;
        assert_settled(&test, &format!("seed {seed}")).await;
        end(&test, next).await;
    }
}

/// Waits until `web` is gone, which it may only be when the cloud is empty.
async fn until_gone(test: &ServiceHarness, what: &str) {
    let emptied = |it: &TestCluster| {
        let there = it.find_service("web");
        if let Some(there) = &there
            && !test.cloud.balancers().is_empty()
        {
            assert_eq!(finalizers(there), [FINALIZER], "{what}");
        }
        there.is_none()
    };
    test.until("web is gone", emptied).await;
    assert_eq!(test.cloud.balancers(), [], "{what}");
}

#[scenario]
async fn a_service_that_is_deleted_while_nobody_leads_goes_when_its_load_balancer_has_gone() {
    let story = async |(seed, steps): (u64, usize)| {
        let what = format!("seed {seed}, died after {steps}");
        let pair = Pair::in_the_middle(seed, steps).await;
        let successor = pair.kill().await;
        let mark = successor.0.mark();
        successor.0.delete_service("web").await;
        let (test, next) = successor.take_over().await;
        until_gone(&test, &what).await;
        let changes = test.changes_from(mark);
        assert_eq!(changes, ["DELETE load-balancers"], "{what}");
        end(&test, next).await;
    };
    for seed in seeds(4) {
        join_all((1..=STEPS).map(|steps| story((seed, steps)))).await;
    }
}

#[scenario]
async fn when_the_leader_ends_during_a_removal_the_other_one_lets_the_service_go_when_all_is_gone()
{
    let story = async |(seed, dies): (u64, bool)| {
        let what = format!("seed {seed}, dies: {dies}");
        let pair = Pair::new(seed).await;
        pair.test.create_service(service("web")).await;
        pair.test.until_ensured("web").await;
        let mark = pair.test.mark();
        take_time(&pair.test);
        pair.test.delete_service("web").await;
        if !is_real() {
            let pause = pair.test.world.random.below(3000);
            pair.test.pass(Duration::from_millis(pause)).await;
        }
        let successor = if dies {
            pair.kill().await
        } else {
            pair.stop().await
        };
        let (test, next) = successor.take_over().await;
        until_gone(&test, &what).await;
        let deleted = |it: &String| it.starts_with("DELETE load-balancers");
        let changes = test.changes_from(mark);
        assert!(changes.iter().all(deleted), "{what}: {changes:?}");
        end(&test, next).await;
    };
    for seed in seeds(20) {
        join_all([true, false].map(|dies| story((seed, dies)))).await;
    }
}

#[scenario]
async fn a_take_over_with_nothing_to_do_writes_neither_to_the_cloud_nor_to_services() {
    let story = async |(seed, dies): (u64, bool)| {
        let what = format!("seed {seed}, dies: {dies}");
        let pair = Pair::new(seed).await;
        for name in ["web", "other", "third"] {
            pair.test.create_service(service(name)).await;
        }
        for name in ["web", "other", "third"] {
            pair.test.until_ensured(name).await;
        }
        let before = pair.test.cloud.balancers();
        assert_eq!(before.len(), 3);
        let mark = pair.test.mark();
        let successor = if dies {
            pair.kill().await
        } else {
            pair.stop().await
        };
        let (test, next) = successor.take_over().await;
        // It looks at each, and leaves each as it is.
        let looks = Filter::any().server("cloudscale").path("*/members");
        let looked = |it: &TestCluster| {
            let entries = it.entries().into_iter().skip(mark);
            entries.filter(|it| looks.matches(it)).count() >= 3
        };
        test.until("all are compared", looked).await;
        test.seconds(if is_real() { 10 } else { 120 }).await;
        assert_eq!(test.changes_from(mark), [""; 0], "{what}");
        assert_eq!(service_writes_from(&test, mark), [], "{what}");
        assert_eq!(test.cloud.balancers(), before, "{what}");
        end(&test, next).await;
    };
    for seed in seeds(4) {
        join_all([true, false].map(|dies| story((seed, dies)))).await;
    }
}
