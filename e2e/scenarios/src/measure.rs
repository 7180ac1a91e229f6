//! What load balancers at cloudscale.ch cost: `bench/` prints it, scenarios hold it to its bounds.
//! What Xen Orchestra is asked about VMs at rest ([`Resting`]). And what pod ranges cost ([`Cidrs`]), on
//! the real clock.
//!
//! The cloud takes 100 ms for a call, and a second for what goes on after its answer. Time is that of
//! the paused clock, so the numbers are the same in every run and on every machine.

mod cidrs;
mod members;
mod rest;
mod service;

use std::net::IpAddr;
use std::time::Duration;

use bowline_simulator::faults::{Action, Rule};
use bowline_simulator_cloudscale::{BalancerTimings, MachineSpec};

use crate::Setup;
use crate::cloudscale::CloudHarness;
use crate::objects::known;

/// The cloud at which nodes are measured.
pub use bowline_simulator_cloudscale::KIND as CLOUD;
pub use cidrs::Cidrs;
pub use members::{MOST_ROUNDS, Members, Replacement};
pub use rest::{Asked, Resting, per_period};
pub use service::{Address, MOST_TIME, first_address};

/// How long the cloud takes to answer.
const CALL: Duration = Duration::from_millis(100);
/// How long it takes for what goes on after an answer.
const CHANGE: Duration = Duration::from_secs(1);
/// Longer than any step that is still to come.
const SETTLED: u64 = 30;
/// Room for 65,000 nodes.
const FIXTURE: &str = "
networks:
- name: k8s
  subnets:
  - {cidr: 10.20.0.0/16}
";

/// A node and where it is.
struct Worker {
    name: String,
    server: String,
    address: IpAddr,
}

/// An idle cloud, and a manager that is not started.
async fn idle_site(environment: &[(&str, &str)]) -> CloudHarness {
    let harness = CloudHarness::set_up(Setup::default().seed, FIXTURE, environment, &[]).await;
    let slow = Action::Delay {
        least: CALL,
        most: CALL,
    };
    harness.fault(Rule::new(slow).server("cloudscale"));
    harness
        .cloud
        .set_balancer_timings(BalancerTimings::each(CHANGE));
    harness
}

/// Servers of that name, for nodes.
fn workers(harness: &CloudHarness, name: &str, count: usize) -> Vec<Worker> {
    let mut spec = MachineSpec::named(name).interface("k8s", None);
    spec.count = Some(u32::try_from(count).unwrap());
    let made = harness.cloud.add_servers(&spec).unwrap();
    let all = harness.cloud.servers();
    let worker = |(server, number): (String, usize)| {
        let info = all.iter().find(|it| it.uuid == server).unwrap();
        let address = *info.addresses.iter().find(|it| it.is_ipv4()).unwrap();
        Worker {
            name: format!("{name}-{number}"),
            server,
            address,
        }
    };
    made.into_iter().zip(1..).map(worker).collect()
}

/// Puts an initialised node there.
async fn add(harness: &CloudHarness, worker: &Worker) {
    let id = format!("cloudscale://{}", worker.server);
    let host = format!("Hostname:{}", worker.name);
    let address = format!("InternalIP:{}", worker.address);
    harness
        .put(known(&worker.name, &id, "True", &[&host, &address]))
        .await;
}
