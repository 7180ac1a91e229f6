//! The provider before a simulated cloud: the instance and the keys of the specification's cases.

use std::collections::BTreeMap;

use bowline_core::{Instance, Node};
use bowline_exoscale::{Config, build};
use bowline_simulator::faults::Action;
use bowline_simulator_exoscale::{
    DEFAULT_KEY, DEFAULT_SECRET, Exoscale, Fixture, InstanceSpec, NetworkSpec,
};
use bowline_test_kit::{self as kit, Simulation, wraps};
pub(crate) use bowline_test_kit::{
    answer, cannot_tell, found, fresh, gone, node as known, with_node_ip,
};
use serde_json::{Value, json};

const AUTHORITY: &str = "exoscale.localhost:80";
/// The instance of the cases.
pub(crate) const I1: &str = "6f1d2c3b-7a55-4e0c-9b61-2d3e4f5a6b7c";
pub(crate) const NOBODY: &str = "00000000-0000-4000-8000-000000000000";

pub(crate) struct Harness(kit::Harness<Exoscale>);

wraps!(Harness => 0: kit::Harness<Exoscale>);

impl Harness {
    /// With instance I1 in zone ch-gva-2.
    pub(crate) async fn new() -> Self {
        Self::with(&[], "").await
    }

    pub(crate) async fn configured(file: &str) -> Self {
        Self::with(&[], file).await
    }

    pub(crate) async fn with(environment: &[(&str, &str)], file: &str) -> Self {
        let simulation = Simulation::new(7, AUTHORITY, |world| {
            Exoscale::from_fixture(world, Fixture::default()).unwrap()
        });
        let sim = &simulation.sim;
        let network = NetworkSpec {
            name: "inside".to_owned(),
            ..NetworkSpec::default()
        };
        sim.add_private_network(&network).unwrap();
        let i1 = InstanceSpec::named("Pool-a1b2c-xyz").id(I1);
        sim.add_instance(&i1.public_ip("198.51.100.21".parse().unwrap()))
            .unwrap();
        let config = config(environment, file);
        let cloud = build(&config, simulation.seams("exoscale")).await;
        simulation.world.journal.clear();
        Self(simulation.with(cloud.unwrap()))
    }

    /// Changes members of an instance's JSON.
    pub(crate) fn deform(&self, id: &str, members: &Value) {
        self.sim.deform(id, members.as_object().cloned().unwrap());
    }

    /// Makes instances of that type, and returns their nodes, initialised long ago.
    pub(crate) fn fleet(&self, name: &str, count: u32, kind: &str) -> Vec<Node> {
        let mut spec = InstanceSpec::named(name).kind(kind);
        spec.count = Some(count);
        let ids = self.sim.add_instances(&spec).unwrap();
        let named = ids.iter().enumerate();
        named
            .map(|(at, id)| known(&format!("{name}-{at}"), &format!("exoscale://{id}")))
            .collect()
    }
}

/// The provider's input: the default key and zone, and these variables and file.
pub(crate) fn config(environment: &[(&str, &str)], file: &str) -> Config {
    let endpoint = format!("http://{AUTHORITY}/v2");
    let mut variables = BTreeMap::from([
        ("EXOSCALE_API_ENDPOINT", endpoint.as_str()),
        ("EXOSCALE_API_ZONE", "ch-gva-2"),
        ("EXOSCALE_API_KEY", DEFAULT_KEY),
        ("EXOSCALE_API_SECRET", DEFAULT_SECRET),
    ]);
    variables.extend(environment.iter().copied());
    let environment = |name: &str| variables.get(name).map(ToString::to_string);
    Config::read(environment, Some(file)).unwrap()
}

/// Addresses as `Type:value`.
pub(crate) fn addresses(instance: &Instance) -> Vec<String> {
    let all = instance.addresses.iter();
    all.map(ToString::to_string).collect()
}

pub(crate) fn status(code: u16) -> Action {
    answer(code, json!({ "message": "because" }))
}
