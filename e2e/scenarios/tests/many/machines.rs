//! Machines of the clouds: made, joined, destroyed, and what becomes of their nodes.

use bowline_scenarios::objects::{addresses, is_uninitialized, known, labels, node_info, text};
use bowline_simulator::KubeletSpec;
use bowline_simulator_cloudscale::MachineSpec as Server;
use bowline_simulator_exoscale::InstanceSpec;
use bowline_simulator_talos::{MachineSpec as TalosMachine, OS_IMAGE, PlatformSpec};
use bowline_simulator_triton::MachineSpec as TritonMachine;
use bowline_simulator_xenorchestra::VmSpec;
use serde_json::Value;

use crate::many::harness::{
    CLOUDS, EAST, EXOSCALE, Harness, POOL, TALOS, TRITON, WEST, XEN, XEN_HOST, XEN_POOL, registered,
};

const GIB: u64 = 1 << 30;
const TYPE: &str = "node.kubernetes.io/instance-type";
const REGION: &str = "topology.kubernetes.io/region";
const ZONE: &str = "topology.kubernetes.io/zone";
const PLATFORM: &str = "node.cloudprovider.kubernetes.io/platform";
/// The label of machines that may be taken away.
const LIFECYCLE: &str = "node.cloudprovider.kubernetes.io/lifecycle";
/// Labels that only one kind of cloud writes, by the clouds that may.
const OWN_LABELS: [(&str, &[&str]); 4] = [
    ("described-by", &[TALOS]),
    (PLATFORM, &[TALOS]),
    ("topology.k8s.xenorchestra/pool_id", &[XEN]),
    ("cloud.tritoncompute/brand", &[TRITON]),
];

/// A machine, and what its Node has to become.
#[derive(Clone, Debug)]
pub(crate) struct Machine {
    /// Whose it is.
    pub(crate) owner: &'static str,
    /// Who says what it is.
    pub(crate) describer: &'static str,
    /// The name of its Node.
    pub(crate) name: String,
    /// Its id in the cloud.
    pub(crate) id: String,
    /// The provider id of its Node.
    pub(crate) provider_id: String,
    addresses: Vec<String>,
    labels: Vec<(&'static str, String)>,
    kubelet: KubeletSpec,
}

impl Machine {
    /// Its address inside.
    pub(crate) fn inside(&self) -> String {
        let mut all = self.addresses.iter();
        let address = all.find_map(|it| it.strip_prefix("InternalIP:"));
        address.unwrap_or_default().to_owned()
    }

    /// Its Node as the kubelet registers it.
    pub(crate) fn node(&self) -> Value {
        registered(&self.kubelet, self.owner)
    }

    /// Its Node as it was initialised long ago, with that status of Ready.
    pub(crate) fn old_node(&self, readiness: &str) -> Value {
        let addresses: Vec<&str> = self.addresses.iter().map(String::as_str).collect();
        let mut node = known(&self.name, &self.provider_id, readiness, &addresses);
        node["metadata"]["labels"] = self.node()["metadata"]["labels"].clone();
        for (key, value) in &self.labels {
            node["metadata"]["labels"][*key] = value.as_str().into();
        }
        node["status"]["nodeInfo"] = self.node()["status"]["nodeInfo"].clone();
        node
    }
}

/// The number of a machine, as part of an id.
fn id(number: u8) -> String {
    format!("5b1e2d3c-0000-4000-8000-{number:012}")
}

impl Harness {
    /// Makes a machine in that cloud. Its number is its own among all machines.
    pub(crate) fn machine(&self, cloud: &str, number: u8) -> Machine {
        match cloud {
            EAST => self.server(EAST, number),
            WEST => self.server(WEST, number),
            EXOSCALE => self.instance(number),
            TALOS => self.metal(number),
            XEN => self.vm(number),
            TRITON => self.container(number),
            _ => panic!("{cloud} is no cloud"),
        }
    }

    fn server(&self, account: &'static str, number: u8) -> Machine {
        let name = format!("{account}-{number}");
        let outside = format!("203.0.113.{number}");
        let inside = format!("10.20.0.{number}");
        let spec = Server::named(&self.cluster.names().own(&name))
            .uuid(&id(number))
            .flavor("flex-8-4")
            .interface("public", Some(vec![outside.parse().unwrap()]))
            .interface("k8s", Some(vec![inside.parse().unwrap()]));
        self.account(account).add_server(&spec).unwrap();
        Machine {
            owner: account,
            describer: account,
            provider_id: format!("cloudscale://{}", id(number)),
            addresses: vec![
                format!("Hostname:{name}"),
                format!("ExternalIP:{outside}"),
                format!("InternalIP:{inside}"),
            ],
            labels: vec![
                (TYPE, "flex-8-4".into()),
                (REGION, "rma".into()),
                (ZONE, "rma1".into()),
            ],
            kubelet: KubeletSpec {
                node_name: name.clone(),
                system_uuid: id(number),
                ..KubeletSpec::default()
            },
            id: id(number),
            name,
        }
    }

    fn instance(&self, number: u8) -> Machine {
        let (name, address) = (format!("exoscale-{number}"), format!("198.51.100.{number}"));
        let spec = InstanceSpec::named(&name)
            .id(&id(number))
            .pool(POOL)
            .public_ip(address.parse().unwrap());
        self.exoscale.add_instance(&spec).unwrap();
        Machine {
            owner: EXOSCALE,
            describer: EXOSCALE,
            provider_id: format!("exoscale://{}", id(number)),
            addresses: vec![
                format!("Hostname:{name}"),
                format!("ExternalIP:{address}"),
                format!("InternalIP:{address}"),
            ],
            labels: vec![
                (TYPE, "standard.medium".into()),
                (REGION, "ch-gva-2".into()),
                (ZONE, "ch-gva-2".into()),
            ],
            kubelet: self.exoscale.kubelet(&id(number)).unwrap(),
            id: id(number),
            name,
        }
    }

    fn metal(&self, number: u8) -> Machine {
        let (name, address) = (format!("talos-{number}"), format!("10.8.0.{number}"));
        let own = format!("eth0/{address}/24");
        self.talos.add(&name, &[&own], PlatformSpec::default());
        Machine {
            owner: TALOS,
            describer: TALOS,
            provider_id: format!("talos://metal/{address}"),
            addresses: vec![format!("InternalIP:{address}"), format!("Hostname:{name}")],
            labels: vec![(PLATFORM, "metal".into()), ("described-by", "talos".into())],
            kubelet: self.talos.kubelet(&name).unwrap(),
            id: address,
            name,
        }
    }

    /// A Talos machine at Exoscale: it describes itself, and Exoscale looks after it.
    pub(crate) fn talos_instance(&self, number: u8) -> Machine {
        let instance = self.instance(number);
        let (name, place) = (&instance.name, "ch-gva-2");
        let platform = PlatformSpec {
            platform: "exoscale".into(),
            zone: place.into(),
            region: place.into(),
            instance_type: "standard.huge".into(),
            instance_id: instance.id.clone(),
            provider_id: instance.provider_id.clone(),
            ..PlatformSpec::default()
        };
        let outside = format!("198.51.100.{number}");
        let inside = format!("10.9.0.{number}");
        let own = [
            format!("eth0/{inside}/24"),
            format!("external/{outside}/32"),
        ];
        let machine = TalosMachine::named(name, &[&own[0], &own[1]]).platform(platform);
        let machine = machine.machine_id(&instance.kubelet.machine_id);
        self.talos.add_machine(&machine).unwrap();
        Machine {
            describer: TALOS,
            addresses: vec![
                format!("InternalIP:{inside}"),
                format!("ExternalIP:{outside}"),
                format!("Hostname:{name}"),
            ],
            labels: vec![
                (TYPE, "standard.huge".into()),
                (REGION, place.into()),
                (ZONE, place.into()),
                (PLATFORM, "exoscale".into()),
                ("described-by", "talos".into()),
            ],
            kubelet: self.talos.kubelet(name).unwrap(),
            ..instance
        }
    }

    fn vm(&self, number: u8) -> Machine {
        let (name, address) = (format!("xen-{number}"), format!("10.30.0.{number}"));
        let spec = VmSpec::named(&name)
            .id(&id(number))
            .host(XEN_HOST)
            .size(4, 4 * GIB)
            .ip(&address);
        self.xen.add_vm(&spec).unwrap();
        let kubelet = KubeletSpec {
            provided_node_ip: Some(address.clone()),
            ..self.xen.kubelet(&id(number)).unwrap()
        };
        Machine {
            owner: XEN,
            describer: XEN,
            provider_id: format!("xenorchestra://{XEN_POOL}/{}", id(number)),
            addresses: vec![
                format!("InternalIP:{address}"),
                format!("ExternalIP:{address}"),
                format!("Hostname:{name}"),
            ],
            labels: vec![
                (TYPE, "4vCPU-4GB".into()),
                (REGION, XEN_POOL.into()),
                (ZONE, XEN_HOST.into()),
                ("topology.k8s.xenorchestra/pool_id", XEN_POOL.into()),
            ],
            kubelet,
            id: id(number),
            name,
        }
    }

    fn container(&self, number: u8) -> Machine {
        let (name, outside, inside) = (
            format!("triton-{number}"),
            format!("203.0.113.{number}"),
            format!("10.20.0.{number}"),
        );
        let spec = TritonMachine::named(&name)
            .id(&id(number))
            .addresses(&[&outside, &inside]);
        self.triton.add_machine(&spec).unwrap();
        Machine {
            owner: TRITON,
            describer: TRITON,
            provider_id: format!("triton://{}", id(number)),
            addresses: vec![
                format!("InternalIP:{inside}"),
                format!("ExternalIP:{outside}"),
                format!("Hostname:{name}"),
            ],
            labels: vec![
                (TYPE, "g4-highcpu-1G".into()),
                (REGION, "eg-1".into()),
                (ZONE, "eg-1".into()),
                ("cloud.tritoncompute/brand", "bhyve".into()),
            ],
            kubelet: self.triton.kubelet(&name).unwrap(),
            id: id(number),
            name,
        }
    }

    /// Two machines of each cloud with kubelets that register, and a Talos machine at Exoscale.
    pub(crate) async fn populate(&self) -> Vec<Machine> {
        let mut all = Vec::new();
        for (cloud, tens) in CLOUDS.into_iter().zip(1..) {
            for number in [10 * tens + 1, 10 * tens + 2] {
                all.push(self.machine(cloud, number));
            }
        }
        all.push(self.talos_instance(39));
        for machine in &all {
            self.create(machine.node()).await;
        }
        all
    }

    /// The Node of a machine that was taken away long ago, so that its owner can tell that it is gone. Talos only
    /// knows that of machines of one platform.
    pub(crate) async fn lost(&self, cloud: &str, number: u8) -> String {
        if cloud == TALOS {
            let name = format!("talos-{number}");
            let id = format!("gce://p/z/{name}");
            let mut node = known(&name, &id, "False", &["InternalIP:10.8.0.99"]);
            node["metadata"]["labels"][PLATFORM] = "gcp".into();
            node["metadata"]["labels"][LIFECYCLE] = "spot".into();
            let taint = bowline_scenarios::objects::taint("node.kubernetes.io/not-ready:NoExecute");
            node["spec"]["taints"] = vec![taint].into();
            node["status"]["nodeInfo"] = node_info("", OS_IMAGE);
            node["metadata"]["labels"][crate::many::harness::HOST] = TALOS.into();
            self.put(node).await;
            return name;
        }
        let machine = self.machine(cloud, number);
        self.destroy(&machine);
        self.put(machine.old_node("Unknown")).await;
        machine.name
    }

    /// Takes a machine away.
    pub(crate) fn destroy(&self, machine: &Machine) {
        let id = &machine.id;
        match machine.owner {
            EXOSCALE => self.exoscale.destroy(id).unwrap(),
            XEN => self.xen.destroy(id).unwrap(),
            TRITON => self.triton.destroy(id).unwrap(),
            account => self.account(account).destroy(id).unwrap(),
        }
    }

    /// Checks that a Node is what its machine makes it.
    #[track_caller]
    pub(crate) fn assert_right(&self, machine: &Machine) {
        let node = self.cluster.node(&machine.name);
        assert!(!is_uninitialized(&node), "{}", machine.name);
        assert_eq!(text(&node["spec"]["providerID"]), machine.provider_id);
        let reported = addresses(&node);
        let plain = |it: &&String| !it.starts_with("InternalDNS") && !it.starts_with("ExternalDNS");
        let reported: Vec<&String> = reported.iter().filter(plain).collect();
        assert_eq!(reported, machine.addresses.iter().collect::<Vec<_>>());
        let all = labels(&node);
        for (key, value) in &machine.labels {
            assert_eq!(all.get(*key), Some(value), "{}: {key}", machine.name);
        }
        for (key, clouds) in OWN_LABELS {
            let may = clouds.contains(&machine.describer);
            assert_eq!(all.contains_key(key), may, "{}: {key}", machine.name);
        }
    }
}
