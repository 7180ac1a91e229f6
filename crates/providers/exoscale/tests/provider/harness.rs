//! The instances and pools of the specification's cases, and the provider before them.

use std::sync::Arc;

use bowline_core::{Cloud, Node, Ready};
use bowline_exoscale::{Config, build};
use bowline_simulator::World;
use bowline_simulator_exoscale::{
    ClusterSpec, DEFAULT_KEY, DEFAULT_SECRET, DEFAULT_ZONE, Exoscale, InstanceSpec, PoolSpec,
};
use bowline_test_kit::{self as kit, Simulation, seams};

const AUTHORITY: &str = "exoscale.localhost:80";
/// Pool `workers`.
pub(crate) const P1: &str = "0f0e0d0c-0b0a-4908-8706-050403020100";
/// Pool `others`.
pub(crate) const P2: &str = "aa0e0d0c-0b0a-4908-8706-050403020101";
/// An instance of pool `workers`.
pub(crate) const I1: &str = "6f1d2c3b-7a55-4e0c-9b61-2d3e4f5a6b7c";
/// Another instance of pool `workers`.
pub(crate) const I2: &str = "6f1d2c3b-7a55-4e0c-9b61-2d3e4f5a6b7d";
/// An instance of pool `others`.
pub(crate) const I3: &str = "6f1d2c3b-7a55-4e0c-9b61-2d3e4f5a6b7e";
/// An instance of no pool.
pub(crate) const I4: &str = "6f1d2c3b-7a55-4e0c-9b61-2d3e4f5a6b7f";

pub(crate) async fn test(seed: u64, file: &str) -> kit::Harness<Exoscale> {
    let simulation = Simulation::new(seed, AUTHORITY, simulated);
    let cloud = provider(&simulation.world, file).await;
    simulation.world.journal.clear();
    simulation.with(cloud)
}

fn simulated(world: &World) -> Arc<Exoscale> {
    let sim = Exoscale::new(world, bowline_simulator_exoscale::Config::default());
    for (name, id) in [("workers", P1), ("others", P2)] {
        sim.add_pool(&PoolSpec::named(name, 0).id(id)).unwrap();
    }
    for (name, id, pool) in [
        ("Pool-a1b2c-xyz", I1, Some("workers")),
        ("pool-a1b2c-abc", I2, Some("workers")),
        ("pool-ffff0-abc", I3, Some("others")),
        ("alone", I4, None),
    ] {
        let mut spec = InstanceSpec::named(name).id(id);
        if let Some(pool) = pool {
            spec = spec.pool(pool);
        }
        sim.add_instance(&spec).unwrap();
    }
    sim.add_cluster(&ClusterSpec::named("prod").nodepool("web", "others"))
        .unwrap();
    sim
}

pub(crate) async fn provider(world: &World, file: &str) -> Arc<dyn Cloud> {
    let environment = |name: &str| {
        let value = match name {
            "EXOSCALE_API_KEY" => DEFAULT_KEY,
            "EXOSCALE_API_SECRET" => DEFAULT_SECRET,
            "EXOSCALE_API_ZONE" => DEFAULT_ZONE,
            "EXOSCALE_API_ENDPOINT" => "http://exoscale.localhost/v2",
            _ => return None,
        };
        Some(value.to_owned())
    };
    let config = Config::read(environment, Some(file)).unwrap();
    let seams = seams(world, "exoscale");
    build(&config, seams).await.unwrap()
}

/// A node as it is after its initialisation.
pub(crate) fn node(name: &str, provider_id: &str) -> Node {
    Node {
        ready: Ready::True,
        ..bowline_test_kit::node(name, provider_id)
    }
}

pub(crate) fn of(instance: &str) -> Node {
    let name = format!("node-{}", &instance[instance.len() - 2..]);
    node(&name, &format!("exoscale://{instance}"))
}
