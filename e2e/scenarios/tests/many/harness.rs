//! One cluster with six clouds: five kinds, and two accounts of cloudscale.ch.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bowline_controllers::manager::{CloudRules, DefaultCloud};
use bowline_core::{CloudName, Selector};
use bowline_scenarios::cloud_harness::Several;
use bowline_scenarios::objects::{fresh, node_info};
use bowline_scenarios::talos::{ENDPOINT, Machines, Need};
use bowline_scenarios::{
    Setup, TestCluster, cloudscale, exoscale, is_real, talos, triton, xenorchestra,
};
use bowline_simulator::KubeletSpec;
use bowline_simulator::journal::Entry;
use bowline_simulator_cloudscale::{BalancerTimings, Cloudscale};
use bowline_simulator_exoscale::Exoscale;
use bowline_simulator_kubernetes::fleet::PROVIDED_NODE_IP;
use bowline_simulator_triton::{Fixture as TritonScene, Triton};
use bowline_simulator_xenorchestra::{Fixture as XenScene, HostSpec, PoolSpec, XenOrchestra};
use serde_json::{Value, json};

/// All clouds: their names, which are also those of their servers in the journal.
pub(crate) const CLOUDS: [&str; 6] = [EAST, WEST, EXOSCALE, TALOS, XEN, TRITON];
/// Those with load balancers.
pub(crate) const BALANCING: [&str; 4] = [EAST, WEST, EXOSCALE, TRITON];
/// One account of cloudscale.ch, and another.
pub(crate) const EAST: &str = "cloudscale-a";
pub(crate) const WEST: &str = "cloudscale-b";
pub(crate) const EXOSCALE: &str = "exoscale";
pub(crate) const TALOS: &str = "talos";
pub(crate) const XEN: &str = "xenorchestra";
pub(crate) const TRITON: &str = "triton";
/// Which cloud serves Services without a class: not the first.
pub(crate) const DEFAULT: &str = WEST;

/// The label that node selectors look at.
pub(crate) const HOST: &str = "example.org/place";
/// The pool of Exoscale's instances.
pub(crate) const POOL: &str = "0f0e0d0c-0b0a-4908-8706-050403020100";
/// The pool and the host of Xen Orchestra's VMs.
pub(crate) const XEN_POOL: &str = "0b2f7c0e-3c1d-4f55-9d0a-6f1f6c3b7a10";
pub(crate) const XEN_HOST: &str = "6d6f4f6e-7f2b-4e0c-8a86-2f3b8c0f9e21";

/// Both accounts use the same range inside.
const CLOUDSCALE_NETWORK: &str = "
networks:
- name: k8s
  subnets:
  - {cidr: 10.20.0.0/24}
";
const EXOSCALE_POOL: &str = "
instance_pools:
- {name: workers, id: 0f0e0d0c-0b0a-4908-8706-050403020100}
";

/// How the manager finds out whose a node is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Telling {
    /// Each cloud has a node selector.
    Selectors,
    /// Nothing is configured about nodes: what they carry, and which cloud alone has the machine.
    Claims,
}

/// Everything that is up.
pub(crate) struct Harness {
    several: Several,
    pub(crate) east: Arc<Cloudscale>,
    pub(crate) west: Arc<Cloudscale>,
    pub(crate) exoscale: Arc<Exoscale>,
    pub(crate) talos: Arc<Machines>,
    pub(crate) xen: Arc<XenOrchestra>,
    pub(crate) triton: Arc<Triton>,
}

bowline_scenarios::wrapper!(Harness, several: Several);

impl Harness {
    /// Six clouds without machines, and no manager yet.
    pub(crate) async fn idle(telling: Telling) -> Self {
        let often = ["--node-status-update-frequency=5s"];
        let setup = Setup {
            clouds: &[],
            flags: if is_real() { &often } else { &[] },
            ..Setup::default()
        };
        let mut bench = TestCluster::set_up(setup).await;
        bench.use_rules(rules(telling));
        let mut several = Several::on(bench);
        let account =
            |it: &TestCluster, name| cloudscale::serve(it, Some(name), CLOUDSCALE_NETWORK, &[]);
        let (east, west) = (account(&several, EAST), account(&several, WEST));
        let exoscale = exoscale::serve(&several, Some(EXOSCALE), EXOSCALE_POOL, "", &[]);
        let rule = "transformations: [{labels: {described-by: talos}}]";
        let talos = talos::serve(&several, Some(TALOS), "", rule, Need::Machines);
        let xen = xenorchestra::serve(&several, Some(XEN), xen_scene(), "");
        let fixture = TritonScene::default();
        let triton = triton::serve(&several, Some(TRITON), fixture, "", "kubernetes");
        let test = Self {
            east: several.add(east),
            west: several.add(west),
            exoscale: several.add(exoscale),
            talos: several.add(talos),
            xen: several.add(xen),
            triton: several.add(triton),
            several,
        };
        test.talos.serve("cp1", ENDPOINT);
        let soon = Duration::from_millis(500);
        for account in [&test.east, &test.west] {
            account.set_balancer_timings(BalancerTimings::each(soon));
        }
        test.exoscale.set_timings(|it| it.operation = soon);
        test
    }

    /// One of the two accounts.
    pub(crate) fn account(&self, name: &str) -> &Cloudscale {
        match name {
            EAST => &self.east,
            WEST => &self.west,
            _ => panic!("{name} is no account of cloudscale.ch"),
        }
    }

    /// The calls to a cloud from that entry of the journal on.
    pub(crate) fn asked(&self, cloud: &str, mark: usize) -> Vec<Entry> {
        let all = self.entries().into_iter().skip(mark);
        all.filter(|it| it.server == cloud).collect()
    }
}

/// What is configured about the clouds.
fn rules(telling: Telling) -> CloudRules {
    let name = |name: &str| CloudName::parse(name).unwrap();
    let selector = |cloud: &str| Selector::parse(&format!("{HOST}={cloud}")).unwrap();
    let selectors: BTreeMap<CloudName, Selector> = match telling {
        Telling::Claims => BTreeMap::new(),
        Telling::Selectors => CLOUDS.iter().map(|it| (name(it), selector(it))).collect(),
    };
    CloudRules {
        default_cloud: DefaultCloud::Named(name(DEFAULT)),
        selectors,
        ..CloudRules::default()
    }
}

fn xen_scene() -> XenScene {
    XenScene {
        pools: vec![PoolSpec::named("lab").id(XEN_POOL)],
        hosts: vec![HostSpec::named("xcp-1", XEN_POOL).id(XEN_HOST)],
        ..XenScene::default()
    }
}

/// The Node that a kubelet registers, in that place.
pub(crate) fn registered(kubelet: &KubeletSpec, place: &str) -> Value {
    let mut node = fresh(&kubelet.node_name);
    node["metadata"]["labels"][HOST] = place.into();
    if let Some(address) = &kubelet.provided_node_ip {
        node["metadata"]["annotations"][PROVIDED_NODE_IP] = address.as_str().into();
        let own = json!({ "type": "InternalIP", "address": address });
        let addresses = node["status"]["addresses"].as_array_mut().unwrap();
        addresses.insert(0, own);
    }
    let os_image = match kubelet.os_image.as_str() {
        "" => "Debian GNU/Linux 13 (trixie)",
        said => said,
    };
    node["status"]["nodeInfo"] = node_info(&kubelet.system_uuid, os_image);
    node
}
