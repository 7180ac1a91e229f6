//! The provider before a simulated cloud: the servers and networks of the specification's cases.

use std::collections::BTreeMap;
use std::sync::Arc;

use bowline_cloudscale::{Config, Seams, build};
use bowline_core::{AddressKind, Node, NodeAddress};
use bowline_http::{CallMetrics, Connector};
use bowline_simulator::World;
use bowline_simulator_cloudscale::{Cloudscale, DEFAULT_TOKEN, Fixture, MachineSpec};
use bowline_test_kit::{self as kit, Simulation, fresh, wraps};
pub(crate) use bowline_test_kit::{cannot_tell, found, gone};

pub(crate) const AUTHORITY: &str = "cloudscale.sim:80";
/// Server `worker-a` of the cases.
pub(crate) const A: &str = "3f9b1c52-6a7d-4e08-9c41-d2f0a8b7e613";
/// Server `worker-b` of the cases.
pub(crate) const B: &str = "b7e4d0a1-95c3-4f62-8a17-0c6e2d9f4b58";
pub(crate) const NOBODY: &str = "00000000-0000-0000-0000-000000000000";

const FIXTURE: &str = "
tokens:
- value: simulated-token
- {value: other-token-of-the-project}
- {value: token-of-another-project, project: elsewhere}
networks:
- name: k8s
  subnets:
  - {cidr: 10.20.0.0/24, uuid: 7d1f0c9a-2b34-4c56-8d78-9e0f1a2b3c4d}
- name: storage
  subnets:
  - {cidr: 10.30.0.0/24, uuid: c0a80101-77aa-4b1e-9f10-2d3e4f5a6b7c}
- name: far
  zone: lpg1
  subnets:
  - {cidr: 10.40.0.0/24, uuid: d1b20101-77aa-4b1e-9f10-2d3e4f5a6b7c}
machines:
- name: worker-a
  uuid: 3f9b1c52-6a7d-4e08-9c41-d2f0a8b7e613
  flavor: flex-8-4
  interfaces:
  - {network: public, addresses: [203.0.113.11, '2001:db8:1:1101::11']}
  - {network: k8s, addresses: [10.20.0.11]}
- name: worker-b
  uuid: b7e4d0a1-95c3-4f62-8a17-0c6e2d9f4b58
  flavor: flex-8-4
  interfaces:
  - {network: public, addresses: [203.0.113.12, '2001:db8:1:1101::12']}
  - {network: k8s, addresses: [10.20.0.12]}
floating_ips:
- {address: 203.0.113.77, region: rma}
- {address: '2001:db8:f::77', region: rma}
";

pub(crate) struct Harness(pub(crate) kit::Harness<Cloudscale>);

wraps!(Harness => 0: kit::Harness<Cloudscale>);

impl Harness {
    /// Over pipes, with servers A and B.
    pub(crate) fn new() -> Self {
        Self::with(&[])
    }

    pub(crate) fn with(environment: &[(&str, &str)]) -> Self {
        Self::measured(environment, None)
    }

    pub(crate) fn measured(environment: &[(&str, &str)], metrics: Option<CallMetrics>) -> Self {
        Self::seeded(7, environment, metrics)
    }

    pub(crate) fn seeded(
        seed: u64,
        environment: &[(&str, &str)],
        metrics: Option<CallMetrics>,
    ) -> Self {
        let simulation = Simulation::new(seed, AUTHORITY, simulated);
        let config = config(&format!("http://{AUTHORITY}/v1/"), environment);
        let seams = Seams {
            metrics,
            ..simulation.seams("cloudscale")
        };
        Self(simulation.with(build(&config, seams).unwrap()))
    }

    /// Over a real socket, in real time.
    pub(crate) async fn on_a_socket() -> Self {
        let (simulation, address) = Simulation::on_a_socket(simulated).await;
        let tls = bowline_http::Tls::new().build().unwrap();
        let seams = Seams {
            connector: Connector::real(tls, bowline_http::ProxyRules::default()),
            ..simulation.seams("cloudscale")
        };
        let config = config(&format!("http://{address}/v1/"), &[]);
        Self(simulation.with(build(&config, seams).unwrap()))
    }

    /// Adds servers `<name>-1` to `<name>-<count>` and returns their nodes.
    pub(crate) fn fleet(&self, name: &str, count: u32) -> Vec<Node> {
        let mut spec = MachineSpec::named(name);
        spec.count = Some(count);
        let uuids = self.sim.add_servers(&spec).unwrap();
        let named = uuids.iter().zip(1..);
        named
            .map(|(uuid, n)| node(&format!("{name}-{n}"), Some(uuid)))
            .collect()
    }
}

fn simulated(world: &World) -> Arc<Cloudscale> {
    let fixture: Fixture = bowline_simulator::fixture::parse("cases", FIXTURE).unwrap();
    Cloudscale::from_fixture(world, fixture).unwrap()
}

pub(crate) fn config(url: &str, environment: &[(&str, &str)]) -> Config {
    let mut map: BTreeMap<&str, &str> = BTreeMap::new();
    map.insert("CLOUDSCALE_ACCESS_TOKEN", DEFAULT_TOKEN);
    map.insert("CLOUDSCALE_API_URL", url);
    map.extend(environment.iter().copied());
    Config::read(|name| map.get(name).map(|value| (*value).to_owned())).unwrap()
}

/// A node as its kubelet registers it; with the uuid of a server it has its provider id.
pub(crate) fn node(name: &str, uuid: Option<&str>) -> Node {
    Node {
        created: "2026-01-01T00:00:00Z".parse().unwrap(),
        provider_id: uuid.map(|uuid| format!("cloudscale://{uuid}")),
        addresses: vec![NodeAddress::new(AddressKind::Hostname, name)],
        ..fresh(name, "")
    }
}

/// `Type:value`, in order.
pub(crate) fn addresses(list: &[NodeAddress]) -> Vec<String> {
    list.iter().map(ToString::to_string).collect()
}
