//! A new Service: how long it waits for its address, and what that costs.

use std::time::Duration;

use bowline_simulator::journal::{Entry, Filter};
use tokio::time::Instant;

use super::{SETTLED, add, idle_site, workers};
use crate::cloudscale::CloudHarness;
use crate::objects::service;

/// What is promised: an address in less than this.
pub const MOST_TIME: Duration = Duration::from_secs(4);
/// Long enough for the manager to have looked at everything.
const IDLE: u64 = 60;
const NODES: usize = 2;

/// What the first address of a Service cost.
#[derive(Debug)]
pub struct Address {
    /// Simulated time from the Service to its address.
    pub time: Duration,
    /// The calls to the cloud until then, each with the time of its answer.
    pub calls: Vec<(Duration, Entry)>,
    /// Calls that change the cloud after that.
    pub later_writes: usize,
    /// Members of its load balancer.
    pub members: usize,
}

/// Measures it for a Service with one port of TCP, on a simulated API server with two nodes.
pub async fn first_address() -> Address {
    let mut harness = idle_site(&[]).await;
    for worker in workers(&harness, "worker", NODES) {
        add(&harness, &worker).await;
    }
    harness.start().await;
    harness.seconds(IDLE).await;
    let (mark, begun) = (harness.mark(), Instant::now());
    let date = harness.world.clock.now();
    harness.create_service(service("web")).await;
    harness.until_published("web").await;
    let time = begun.elapsed();
    let calls = calls_from(&harness, mark);
    let since = |it: &Entry| Duration::try_from(it.time.duration_since(date)).unwrap();
    let calls = calls.into_iter().map(|it| (since(&it), it)).collect();
    let mark = harness.mark();
    harness.seconds(SETTLED).await;
    let later = calls_from(&harness, mark);
    let balancers = harness.cloud.balancers();
    let pools = balancers.iter().flat_map(|it| &it.pools);
    let measured = Address {
        time,
        calls,
        later_writes: later.iter().filter(|it| it.is_mutating()).count(),
        members: pools.map(|it| it.members.len()).sum(),
    };
    harness.stop().await;
    measured
}

/// The calls to the cloud, from that entry of the journal on.
fn calls_from(harness: &CloudHarness, mark: usize) -> Vec<Entry> {
    let asked = Filter::any().server("cloudscale");
    let entries = harness.entries().into_iter().skip(mark);
    entries.filter(|it| asked.matches(it)).collect()
}
