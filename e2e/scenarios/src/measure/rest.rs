//! VMs of Xen Orchestra at rest: what it is asked although nothing happens.

use std::collections::BTreeMap;

use bowline_simulator::journal::{Entry, Filter};
use bowline_simulator_xenorchestra::{Fixture, HostSpec, PoolSpec, VmSpec};

use crate::Setup;
use crate::objects::known;
use crate::xenorchestra::CloudHarness;

/// The period of the rounds over all nodes, in seconds.
const PERIOD: u64 = 300;
/// How many of them are watched: an hour, in which also what is seldom done is done.
const PERIODS: u16 = 12;
/// Long enough for every node to have got its labels and addresses, in seconds.
const BEGINNING: u64 = 1200;
const HOSTS_OF_A_POOL: usize = 4;

/// So many VMs, each with a Ready node, spread over so many pools.
#[derive(Clone, Copy, Debug)]
pub struct Resting {
    /// All together.
    pub vms: usize,
    /// Each with four hosts.
    pub pools: usize,
}

impl Default for Resting {
    fn default() -> Self {
        Self {
            vms: 1000,
            pools: 3,
        }
    }
}

/// What Xen Orchestra was asked in an hour at rest, in twelve rounds over all nodes.
#[derive(Debug, Default)]
pub struct Asked {
    /// How often, by what was asked for: `GET vms`, `GET pools/*`.
    pub requests: BTreeMap<String, usize>,
    /// Writes to nodes: there is nothing to write.
    pub writes: usize,
}

impl Asked {
    /// Requests in five minutes, in the mean.
    pub fn each_period(&self) -> f64 {
        per_period(self.requests.values().sum())
    }

    /// Lists of VMs in five minutes, in the mean.
    pub fn lists_each_period(&self) -> f64 {
        per_period(self.requests.get("GET vms").copied().unwrap_or_default())
    }
}

/// So many in an hour, in five minutes.
pub fn per_period(count: usize) -> f64 {
    f64::from(u32::try_from(count).unwrap()) / f64::from(PERIODS)
}

impl Resting {
    /// Measures it, with the server's events or without.
    pub async fn measure(self, events: bool) -> Asked {
        let settings = if events { "" } else { "events: no\n" };
        let seed = Setup::default().seed;
        let mut harness = CloudHarness::set_up(seed, self.fixture(), settings, &[]).await;
        for vm in harness.cloud.vms() {
            let id = format!("xenorchestra://{}/{}", vm.pool, vm.id);
            let host = format!("Hostname:{}", vm.name);
            harness.put(known(&vm.name, &id, "True", &[&host])).await;
        }
        harness.start().await;
        harness.seconds(BEGINNING).await;
        let mark = harness.mark();
        harness.seconds(PERIOD * u64::from(PERIODS)).await;
        let mut asked = Asked::default();
        let all = harness.entries().split_off(mark);
        let ours = Filter::any().server("xenorchestra");
        for entry in all.iter().filter(|it| ours.matches(it)) {
            *asked.requests.entry(what(entry)).or_default() += 1;
        }
        let writes = Filter::any().server("kubernetes").mutating();
        let writes = writes.path("/api/v1/nodes*");
        asked.writes = all.iter().filter(|it| writes.matches(it)).count();
        harness.stop().await;
        asked
    }

    fn fixture(self) -> Fixture {
        let mut fixture = Fixture::default();
        for number in 0..self.pools {
            let pool = format!("pool-{number}");
            fixture.pools.push(PoolSpec::named(&pool));
            for host in 0..HOSTS_OF_A_POOL {
                let name = format!("host-{number}-{host}");
                fixture.hosts.push(HostSpec::named(&name, &pool));
            }
            // Those that cannot be shared evenly are in the first pools.
            let count = self.vms / self.pools + usize::from(number < self.vms % self.pools);
            let vms = VmSpec::named(&format!("worker-{number}")).pool(&pool);
            fixture.vms.push(vms.count(u32::try_from(count).unwrap()));
        }
        fixture
    }
}

/// What a call asks for, whichever it is: `GET vms/*`.
fn what(entry: &Entry) -> String {
    let path = entry.path.trim_start_matches("/rest/v0/");
    let path = match path.split_once('/') {
        Some((kind, _)) => format!("{kind}/*"),
        None => path.to_owned(),
    };
    format!("{} {path}", entry.method)
}
