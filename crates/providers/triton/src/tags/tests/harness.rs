//! A simulated data center, a reconciler, and callers.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use bowline_core::CloudError;
use bowline_simulator::journal::Entry;
use bowline_simulator_triton::{DEFAULT_PRIVATE_KEY, Fixture, MachineSpec, Triton as Simulated};
use bowline_test_kit::{Simulation, wraps};
use prometheus_client::metrics::counter::Counter;
use serde_json::Value;
use uuid::Uuid;

use super::super::{About, Ports, TagOutcome, TagReconciler, Tags};
use crate::api::{Api, Client, Setting};
use crate::data_center::DataCenter;
use crate::testing::{AUTHORITY, config};

pub(super) const CLUSTER: &str = "cccccccc-0000-4000-8000-00000000000c";
pub(super) const OTHER: &str = "dddddddd-0000-4000-8000-00000000000d";

pub(super) struct Harness {
    simulation: Simulation<Simulated>,
    pub(super) repairs: Counter,
}

wraps!(Harness => simulation: Simulation<Simulated>);

pub(super) fn id(number: u32) -> Uuid {
    Uuid::from_u128(0x5b1e_2d3c_0000_4000_8000_0000_0000_0000 + u128::from(number))
}

pub(super) fn ids(numbers: impl IntoIterator<Item = u32>) -> BTreeSet<Uuid> {
    numbers.into_iter().map(id).collect()
}

#[expect(
    clippy::unnecessary_wraps,
    reason = "a label without ports is wanted nowhere"
)]
pub(super) fn port(port: u16) -> Option<Ports> {
    Some(Ports::from([Some(port)]))
}

impl Harness {
    pub(super) fn new(count: u32, seed: u64) -> Self {
        let simulation = Simulation::new(seed, AUTHORITY, |world| {
            let sim = Simulated::from_fixture(world, Fixture::default()).unwrap();
            sim.set_throttle(None);
            for number in 1..=count {
                let name = format!("k8s-{number}");
                let machine = MachineSpec::named(&name).id(&id(number).to_string());
                sim.add_machine(&machine).unwrap();
            }
            sim
        });
        Self {
            simulation,
            repairs: Counter::default(),
        }
    }

    /// Somebody's way to the API, with so many calls a second.
    pub(super) fn api(&self, qps: u32) -> Arc<Api> {
        let file = format!("[Global]\nqps = {qps}\nburst = {}\n", (qps * 3).min(1000));
        let config = config(&[("SDC_PRIVATE_KEY", DEFAULT_PRIVATE_KEY)], Some(&file));
        let seams = self.seams("triton");
        let metrics = crate::TritonMetrics::default();
        let setting = Setting::new(&seams, config.calls.clone(), &metrics);
        let client = Client::new(&config.connection, &setting).unwrap();
        Arc::new(Api::new(client))
    }

    pub(super) fn reconciler_at(&self, qps: u32) -> Arc<TagReconciler> {
        let config = config(&[("SDC_PRIVATE_KEY", DEFAULT_PRIVATE_KEY)], None);
        let data_center = DataCenter::new(&config, self.api(qps));
        Arc::new(TagReconciler::new(
            Arc::new(data_center),
            self.repairs.clone(),
        ))
    }

    pub(super) fn reconciler(&self) -> Arc<TagReconciler> {
        self.reconciler_at(5)
    }

    pub(super) fn tag(&self, number: u32, key: &str) -> Option<String> {
        let machine = self.sim.machine(&id(number).to_string()).unwrap();
        machine.tag(key).map(ToOwned::to_owned)
    }

    pub(super) fn tags(&self, number: u32) -> Tags {
        let machine = self.sim.machine(&id(number).to_string()).unwrap();
        serde_json::from_value(Value::Object(machine.tags)).unwrap()
    }

    pub(super) fn set_tag(&self, number: u32, key: &str, value: impl Into<Value>) {
        let machine = id(number).to_string();
        self.sim.set_tag(&machine, key, Some(value.into())).unwrap();
    }

    pub(super) fn writes(&self) -> Vec<Entry> {
        let entries = self.world.journal.entries();
        entries
            .into_iter()
            .filter(|it| it.method != "GET")
            .collect()
    }

    /// `METHOD last-part-of-path` of the writes to a machine.
    pub(super) fn writes_to(&self, number: u32) -> Vec<String> {
        let part = id(number).to_string();
        let writes = self.writes();
        let line = |it: &Entry| {
            let last = it.path.rsplit('/').next().unwrap_or_default();
            format!("{} {last}", it.method)
        };
        let to = writes.iter().filter(|it| it.path.contains(&part));
        to.map(line).collect()
    }
}

/// What came of settling, when nothing is on its way any more.
pub(super) type Outcomes = BTreeMap<Uuid, Result<TagOutcome, CloudError>>;

/// Calls again for as long as something is on its way, as a controller does.
pub(super) async fn reconcile(
    reconciler: &TagReconciler,
    machines: &BTreeSet<Uuid>,
    about: About<'_>,
) -> Outcomes {
    for _ in 0..10_000 {
        let outcomes = reconciler.reconcile_all(CLUSTER, machines, about).await;
        let waits = outcomes.values().filter_map(|it| match it {
            Ok(TagOutcome::Working { after }) => Some(*after),
            _ => None,
        });
        let Some(wait) = waits.min() else {
            return outcomes;
        };
        tokio::time::sleep(wait.max(Duration::from_millis(100))).await;
    }
    panic!("it does not end");
}

#[track_caller]
pub(super) fn all_done(outcomes: &Outcomes) {
    for (id, outcome) in outcomes {
        assert!(matches!(outcome, Ok(TagOutcome::Done)), "{id}: {outcome:?}");
    }
}

/// Wants a label on machines, and reconciles them.
pub(super) async fn put(
    reconciler: &TagReconciler,
    machines: &BTreeSet<Uuid>,
    label: &str,
    ports: Option<Ports>,
) -> Outcomes {
    for machine in machines {
        reconciler.want(*machine, label, ports.clone());
    }
    reconcile(reconciler, machines, About::Label(label)).await
}

pub(super) async fn put_done(
    reconciler: &TagReconciler,
    machines: &BTreeSet<Uuid>,
    label: &str,
    ports: Option<Ports>,
) {
    all_done(&put(reconciler, machines, label, ports).await);
}
