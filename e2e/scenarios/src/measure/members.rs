//! Nodes are replaced: how often the members of each load balancer are updated.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::time::Duration;

use bowline_simulator::journal::{Entry, Filter};
use tokio::time::Instant;

use super::{SETTLED, Worker, add, idle_site, workers};
use crate::cloudscale::CloudHarness;

/// What is promised: so many updates of the members of one load balancer.
pub const MOST_ROUNDS: usize = 3;
/// Between two nodes that are replaced, as a rolling update of machines would do it in a hurry.
const PAUSE: Duration = Duration::from_millis(300);

/// So many Services, and nodes of which some are replaced one after the other.
#[derive(Clone, Copy, Debug)]
pub struct Members {
    /// Each with one port.
    pub services: usize,
    /// All of them members of every load balancer.
    pub nodes: usize,
    /// Not more than there are.
    pub replaced: usize,
}

impl Default for Members {
    fn default() -> Self {
        Self {
            services: 50,
            nodes: 200,
            replaced: 20,
        }
    }
}

/// What it cost until all members were replaced.
#[derive(Debug)]
pub struct Replacement {
    /// For each load balancer: how often its members were read and compared.
    pub rounds: Vec<usize>,
    /// Calls that change the cloud.
    pub writes: usize,
    /// Other calls about load balancers.
    pub reads: usize,
    /// Simulated time from the first change of a node to the last call that changed the cloud.
    pub time: Duration,
}

impl Replacement {
    /// Of the load balancer with the most.
    pub fn most_rounds(&self) -> usize {
        self.rounds.iter().copied().max().unwrap_or_default()
    }
}

impl Members {
    /// One call for each member that comes and one for each that goes.
    pub fn least_writes(&self) -> usize {
        self.services * self.replaced * 2
    }

    /// Measures it, on a simulated API server.
    pub async fn measure(&self) -> Replacement {
        let mut harness = idle_site(&[("CLOUDSCALE_DRIFT_CHECK_PERIOD", "0")]).await;
        let old = workers(&harness, "old", self.nodes);
        for worker in &old {
            add(&harness, worker).await;
        }
        let hosts: Vec<IpAddr> = old.iter().map(|it| it.address).collect();
        for number in 0..self.services {
            harness.leave(&format!("web-{number}"), &hosts).await;
        }
        self.take_over(&mut harness).await;
        let (mark, begun) = (harness.mark(), Instant::now());
        let new = workers(&harness, "new", self.replaced);
        for (come, go) in new.iter().zip(&old) {
            add(&harness, come).await;
            harness.delete(&go.name).await;
            harness.pass(PAUSE).await;
        }
        self.until_written(&harness, self.services + self.least_writes())
            .await;
        harness.seconds(SETTLED).await;
        assert_members(&harness, old[self.replaced..].iter().chain(&new));
        let calls = calls_from(&harness, mark);
        let last = calls.iter().rfind(|it| it.is_mutating()).unwrap().time;
        let reads = calls.iter().filter(|it| !it.is_mutating()).count();
        let measured = Replacement {
            rounds: rounds(&calls, self.services),
            writes: calls.len() - reads,
            reads,
            time: begun.elapsed().saturating_sub(harness.since(last)),
        };
        harness.stop().await;
        measured
    }

    /// Lets the manager look at everything once. But for a tag all is right.
    async fn take_over(&self, harness: &mut CloudHarness) {
        harness.start().await;
        self.until_written(harness, self.services).await;
        harness.seconds(SETTLED).await;
        let written = calls_from(harness, 0);
        let written = written.iter().filter(|it| it.is_mutating());
        assert!(written.clone().all(|it| it.method == "PATCH"));
        assert_eq!(written.count(), self.services);
    }

    async fn until_written(&self, harness: &CloudHarness, count: usize) {
        // The entries themselves are not asked for: there are thousands, and this is asked often.
        let written = Filter::any().server("cloudscale").mutating();
        harness
            .until("the cloud is changed", |it| {
                it.world.journal.count(&written) >= count
            })
            .await;
    }
}

/// The calls about load balancers, from that entry of the journal on.
fn calls_from(harness: &CloudHarness, mark: usize) -> Vec<Entry> {
    assert_eq!(
        harness.world.journal.dropped(),
        0,
        "the journal is too short"
    );
    let about = Filter::any()
        .server("cloudscale")
        .path("/v1/load-balancers*");
    let entries = harness.entries().into_iter().skip(mark);
    entries.filter(|it| about.matches(it)).collect()
}

/// Reads of the members of each load balancer's only pool: there is one for each plan.
fn rounds(calls: &[Entry], balancers: usize) -> Vec<usize> {
    let mut reads: BTreeMap<&str, usize> = BTreeMap::new();
    for call in calls {
        if call.method == "GET" && call.path.ends_with("/members") {
            *reads.entry(&call.path).or_default() += 1;
        }
    }
    assert_eq!(reads.len(), balancers, "every load balancer was looked at");
    reads.into_values().collect()
}

/// Every load balancer has these members, each once.
fn assert_members<'a>(harness: &CloudHarness, wanted: impl Iterator<Item = &'a Worker>) {
    let wanted: BTreeSet<IpAddr> = wanted.map(|it| it.address).collect();
    for balancer in harness.cloud.balancers() {
        let members = &balancer.pools[0].members;
        let found: BTreeSet<IpAddr> = members.iter().map(|it| it.address).collect();
        assert_eq!(members.len(), wanted.len(), "{}", balancer.name);
        assert_eq!(found, wanted, "{}", balancer.name);
    }
}
