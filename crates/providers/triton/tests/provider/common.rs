//! The data center, nodes and settings that all these tests begin with.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use bowline_core::{
    AddressKind, Cloud as _, ClusterMarks, Node, NodeAddress, Ready, TaggedBalancer,
};
use bowline_simulator_triton::{DEFAULT_PRIVATE_KEY, Fixture, MachineSpec, Triton as Simulated};
use bowline_test_kit::Simulation;
use bowline_triton::{Sources, Triton};

pub(crate) const ENDPOINT: &str = "http://cloudapi.sim";
pub(crate) const CLUSTER: &str = "cccccccc-0000-4000-8000-00000000000c";

pub(crate) fn id(number: u32) -> String {
    format!("5b1e2d3c-0000-4000-8000-{number:012}")
}

/// With machines `k8s-1` to `k8s-<count>`.
pub(crate) fn simulation(fixture: Fixture, count: u32) -> Simulation<Simulated> {
    Simulation::new(7, "cloudapi.sim:80", |world| {
        let sim = Simulated::from_fixture(world, fixture).unwrap();
        sim.set_throttle(None);
        for number in 1..=count {
            let machine = MachineSpec::named(&format!("k8s-{number}")).id(&id(number));
            sim.add_machine(&machine).unwrap();
        }
        sim
    })
}

/// What the provider is reported, with further variables.
pub(crate) fn sources(further: &[(&str, &str)], file: Option<PathBuf>) -> Sources {
    let variables: BTreeMap<String, String> = [
        ("SDC_ENDPOINT", ENDPOINT),
        ("SDC_ACCOUNT", "acme"),
        ("SDC_PRIVATE_KEY", DEFAULT_PRIVATE_KEY),
    ]
    .into_iter()
    .chain(further.iter().copied())
    .map(|(name, value)| (name.to_owned(), value.to_owned()))
    .collect();
    Sources {
        flags: BTreeMap::new(),
        environment: Arc::new(move |name| variables.get(name).cloned()),
        file,
        text: None,
        secret: None,
        cluster_name: "kubernetes".to_owned(),
    }
}

/// A node of that name with that provider id; empty for none.
pub(crate) fn named(name: &str, provider_id: &str) -> Node {
    Node {
        addresses: vec![NodeAddress::new(AddressKind::Hostname, name)],
        ..bowline_test_kit::node(name, provider_id)
    }
}

/// The node of the machine with that number, by provider id.
pub(crate) fn known(number: u32) -> Node {
    let provider_id = format!("triton://{}", id(number));
    named(&format!("k8s-{number}"), &provider_id)
}

/// The same, while it works.
pub(crate) fn node(number: u32) -> Node {
    Node {
        ready: Ready::True,
        ..known(number)
    }
}

/// The load balancers that bear a mark.
pub(crate) async fn marked(cloud: &Triton) -> Vec<TaggedBalancer> {
    let marks = ClusterMarks::default();
    cloud.balancers().unwrap().marked(marks).await.unwrap()
}
