//! The provider before a simulated Xen Orchestra: the pools, hosts and VMs of the specification's
//! cases.

use std::sync::Arc;
use std::time::Duration;

use bowline_core::{Cloud, Node};
use bowline_simulator::World;
use bowline_simulator::faults::Action;
use bowline_simulator_xenorchestra::{
    DEFAULT_TOKEN, Fixture, HostSpec, PoolSpec, Quirks, VmSpec, XenOrchestra,
};
use bowline_test_kit::{self as kit, Simulation, seams, wraps};
pub(crate) use bowline_test_kit::{
    answer, cannot_tell, found, fresh, gone, node as known, with_node_ip,
};
use bowline_xenorchestra::{Config, Gauges, build};
use serde_json::json;

pub(crate) const AUTHORITY: &str = "xo.sim:80";
pub(crate) const PA: &str = "0b2f7c0e-3c1d-4f55-9d0a-6f1f6c3b7a10";
pub(crate) const PB: &str = "7e5a1d34-90bc-4d2e-8f61-3a2b1c0d9e8f";
pub(crate) const H1: &str = "6d6f4f6e-7f2b-4e0c-8a86-2f3b8c0f9e21";
pub(crate) const H2: &str = "2c8b7a90-5e4d-4b3c-9a1f-7d6e5f4c3b2a";
pub(crate) const H3: &str = "94d0c2e1-6b5a-4f7e-8c3d-1a0b9c8d7e6f";
pub(crate) const VM1: &str = "c1a9d5b2-4e7f-4a63-9b1d-0f2e3d4c5b6a";
pub(crate) const VM2: &str = "9f0e4c6d-1b2a-4f3e-8d7c-5a6b7c8d9e0f";
/// VM1 in the other byte order.
pub(crate) const SWAPPED: &str = "b2d5a9c1-7f4e-634a-9b1d-0f2e3d4c5b6a";
pub(crate) const NOBODY: &str = "00000000-0000-4000-8000-000000000000";
const GIB: u64 = 1 << 30;

/// A simulated Xen Orchestra with the fixture of the cases.
pub(crate) fn orchestra(world: &World, quirks: Quirks) -> Arc<XenOrchestra> {
    let scene = Fixture {
        quirks,
        pools: vec![
            PoolSpec::named("lab pool").id(PA),
            PoolSpec::named("dr pool").id(PB),
        ],
        hosts: vec![
            HostSpec::named("xcp 1", PA).id(H1),
            HostSpec::named("xcp-2", PA).id(H2),
            HostSpec::named("dr-host", PB).id(H3),
        ],
        vms: vec![
            VmSpec::named("worker 1")
                .id(VM1)
                .host(H1)
                .size(4, 4 * GIB)
                .ip("10.20.0.11"),
            VmSpec::named("worker-2")
                .id(VM2)
                .host(H2)
                .size(2, 8 * GIB)
                .ip("10.20.0.12"),
        ],
        ..Fixture::default()
    };
    XenOrchestra::from_fixture(world, scene).unwrap()
}

pub(crate) struct Harness(kit::Harness<XenOrchestra>);

wraps!(Harness => 0: kit::Harness<XenOrchestra>);

impl Harness {
    /// With a token, without events.
    pub(crate) async fn new() -> Self {
        Self::configured("events: no\n").await
    }

    pub(crate) async fn configured(settings: &str) -> Self {
        let file = format!("url: http://xo.sim\ntoken: {DEFAULT_TOKEN}\n{settings}");
        Self::of(&file, Quirks::default()).await
    }

    /// With this file, before a server of that kind; ready, and nothing noted yet.
    pub(crate) async fn of(file: &str, quirks: Quirks) -> Self {
        let test = Self::raw(&Config::of_file(file).unwrap(), quirks, AUTHORITY);
        test.settle().await;
        test.world.journal.clear();
        test
    }

    /// As it is in the moment it was built.
    pub(crate) fn raw(config: &Config, quirks: Quirks, authority: &str) -> Self {
        let simulation = Simulation::new(7, authority, |world| orchestra(world, quirks));
        let cloud = cloud(&simulation.world, config);
        Self(simulation.with(cloud))
    }

    /// Waits until the server was checked.
    pub(crate) async fn settle(&self) {
        for _ in 0..100 {
            wait(Duration::from_secs(1)).await;
            if self.cloud.ready().is_ok() {
                return;
            }
        }
        panic!("{:?}", self.cloud.ready());
    }
}

pub(crate) fn cloud(world: &World, config: &Config) -> Arc<dyn Cloud> {
    let seams = seams(world, "xenorchestra");
    build(config, &seams, &Gauges::default()).unwrap()
}

pub(crate) async fn wait(time: Duration) {
    tokio::time::sleep(time).await;
}

pub(crate) fn w1() -> Node {
    known("w1", &id1())
}

pub(crate) fn id1() -> String {
    format!("xenorchestra://{PA}/{VM1}")
}

pub(crate) fn status(code: u16, error: &str) -> Action {
    answer(code, json!({ "error": error }))
}
