//! Which machines have metrics that are the cluster's, and where they are. Pure.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use bowline_core::Node;
use bowline_http::BaseUrl;
use serde_json::{Value, json};
use uuid::Uuid;

use super::exposition::Source;
use crate::api::{Machine, MachineState};
use crate::id::machine_id;
use crate::tags::{BALANCER, GROUPS_RECORD, NODE, Role, SERVICES_RECORD, Tags};

/// The default port of the metrics service.
const PORT: u16 = 9163;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Endpoint {
    scheme: String,
    /// Its name, which machines' names are below of.
    pub(crate) host: String,
    pub(crate) port: u16,
}

impl Endpoint {
    /// From CloudAPI or the configuration; none if it has no name.
    pub(crate) fn of(url: &BaseUrl) -> Option<Self> {
        let url = url.url();
        Some(Self {
            scheme: url.scheme().to_owned(),
            host: url.host_str()?.to_owned(),
            port: url.port().unwrap_or(PORT),
        })
    }

    /// `<host>:<port>` of a machine's metrics.
    pub(crate) fn target(&self, machine: Uuid) -> String {
        format!("{machine}.{}:{}", self.host, self.port)
    }

    pub(crate) fn url(&self, machine: Uuid) -> String {
        format!("{}://{}", self.scheme, self.target(machine))
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{}:{}", self.scheme, self.host, self.port)
    }
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Target {
    pub(crate) machine: Machine,
    pub(crate) role: Role,
    /// Its node, if it is one's.
    pub(crate) node: Option<Arc<Node>>,
}

impl Target {
    /// Whether there is something to measure.
    pub(crate) fn runs(&self) -> bool {
        self.machine.state == MachineState::Running
    }

    /// What it is called: its node's name, or its own.
    pub(crate) fn name(&self) -> &str {
        let node = self.node.as_deref();
        node.map_or(self.machine.name.as_str(), |node| node.name.as_str())
    }

    fn compute_node(&self) -> String {
        let id = self.machine.compute_node;
        id.map(|id| id.to_string()).unwrap_or_default()
    }

    pub(crate) fn source(&self) -> Source {
        Source {
            node: self.name().to_owned(),
            machine: self.machine.id.to_string(),
            brand: self.machine.brand.clone(),
            compute_node: self.compute_node(),
        }
    }

    fn discovered(&self, endpoint: &Endpoint) -> Value {
        let role = match self.role {
            Role::Node => "node",
            Role::Balancer => "clb",
        };
        json!({
            "targets": [endpoint.target(self.machine.id)],
            "labels": {
                "__meta_triton_machine_id": self.machine.id,
                "__meta_triton_machine_alias": self.machine.name,
                "__meta_triton_machine_brand": self.machine.brand,
                "__meta_triton_server_id": self.compute_node(),
                "node": self.name(),
                "role": role,
            },
        })
    }
}

/// The machines of the cluster among those of a data center, by id: its nodes' and its load
/// balancers.
pub(crate) fn targets(
    nodes: &[Arc<Node>],
    machines: &BTreeMap<Uuid, Machine>,
    cluster_uid: &str,
) -> Vec<Target> {
    let by_machine: BTreeMap<Uuid, &Arc<Node>> = nodes
        .iter()
        .filter_map(|node| Some((machine_id(node.provider_id.as_deref()?)?, node)))
        .collect();
    let target = |machine: &Machine| {
        let node = by_machine.get(&machine.id).map(|node| Arc::clone(node));
        let role = match &node {
            Some(_) => Role::Node,
            None if has(&machine.tags, BALANCER, cluster_uid) => Role::Balancer,
            None => return None,
        };
        let machine = machine.clone();
        Some(Target {
            machine,
            role,
            node,
        })
    };
    machines.values().filter_map(target).collect()
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stray {
    pub(crate) machine: Uuid,
    /// Whether it has nothing of ours but groups, so that the mark can go with them.
    pub(crate) groups_alone: bool,
}

/// Machines that bear our mark and groups of ours, but are not the cluster's any more.
pub(crate) fn strays(
    targets: &[Target],
    machines: &BTreeMap<Uuid, Machine>,
    cluster_uid: &str,
) -> Vec<Stray> {
    let known: BTreeSet<Uuid> = targets.iter().map(|it| it.machine.id).collect();
    let stray = |machine: &&Machine| {
        !known.contains(&machine.id)
            && machine.tags.contains_key(GROUPS_RECORD)
            && has(&machine.tags, NODE, cluster_uid)
    };
    let all = machines.values().filter(stray);
    all.map(|machine| Stray {
        machine: machine.id,
        groups_alone: !machine.tags.contains_key(SERVICES_RECORD),
    })
    .collect()
}

fn has(tags: &Tags, key: &str, value: &str) -> bool {
    tags.get(key).is_some_and(|it| it.to_string() == value)
}

/// What Prometheus' HTTP service discovery is answered with: the machines that run.
pub(crate) fn discovery(endpoint: &Endpoint, targets: &[Target]) -> String {
    let running = targets.iter().filter(|it| it.runs());
    let all = running.map(|it| it.discovered(endpoint)).collect();
    Value::Array(all).to_string()
}

pub(crate) fn group(cluster_name: &str) -> String {
    format!("k8s-{cluster_name}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{machine, node};

    const UID: &str = "cccccccc-0000-4000-8000-00000000000c";

    fn id(number: u128) -> Uuid {
        Uuid::from_u128(number)
    }

    fn endpoint(url: &str) -> Endpoint {
        Endpoint::of(&BaseUrl::parse(url).unwrap()).unwrap()
    }

    fn tagged(number: u128, tags: &[(&str, &str)]) -> Machine {
        let mut machine = machine(id(number), &format!("m{number}"));
        machine.tags = tags
            .iter()
            .map(|(key, value)| ((*key).to_owned(), (*value).into()))
            .collect();
        machine
    }

    fn all(machines: impl IntoIterator<Item = Machine>) -> BTreeMap<Uuid, Machine> {
        machines.into_iter().map(|it| (it.id, it)).collect()
    }

    #[test]
    fn nodes_and_load_balancers_of_this_cluster_are_targets_and_nobody_else() {
        let machines = all([
            tagged(1, &[]),
            tagged(2, &[(BALANCER, UID)]),
            tagged(3, &[(BALANCER, "another")]),
            tagged(4, &[]),
            tagged(5, &[(BALANCER, UID)]),
        ]);
        let node = |name: &str, number| Arc::new(node(name, &format!("triton://{}", id(number))));
        let nodes = [node("a", 1), node("b", 5), node("gone", 9)];
        let found = targets(&nodes, &machines, UID);
        let found = found.iter();
        let found = found.map(|it| (it.machine.id.as_u128(), it.role, it.name()));
        let balancer = (2, Role::Balancer, "m2");
        assert!(found.eq([(1, Role::Node, "a"), balancer, (5, Role::Node, "b")]));
    }

    #[test]
    fn who_has_our_groups_and_is_no_member_has_strayed() {
        let (ours, groups) = ((NODE, UID), (GROUPS_RECORD, "k8s-a"));
        let machines = all([
            tagged(1, &[ours, groups]),
            tagged(2, &[ours, groups]),
            tagged(3, &[(NODE, "another"), groups]),
            tagged(4, &[groups]),
            tagged(5, &[ours]),
            tagged(6, &[ours, groups, (SERVICES_RECORD, "web")]),
        ]);
        let nodes = [Arc::new(node("a", &format!("triton://{}", id(1))))];
        let strayed = strays(&targets(&nodes, &machines, UID), &machines, UID);
        let expected = [(2, true), (6, false)].map(|(number, groups_alone)| Stray {
            machine: id(number),
            groups_alone,
        });
        assert_eq!(strayed, expected);
    }

    #[test]
    fn prometheus_is_reported_machines_that_run() {
        let mut stopped = machine(id(2), "m2");
        stopped.state = MachineState::Stopped;
        let mut running = machine(id(1), "m1");
        running.compute_node = Some(id(7));
        let nodes = [1, 2].map(|number| {
            let name = format!("n{number}");
            Arc::new(node(&name, &format!("triton://{}", id(number))))
        });
        let targets = targets(&nodes, &all([running, stopped]), UID);
        let endpoint = endpoint("https://cmon.eg-1.cns.example.com:9163");
        let reported = discovery(&endpoint, &targets);
        let reported: Value = serde_json::from_str(&reported).unwrap();
        assert_eq!(
            reported,
            json!([{
                "targets": [format!("{}.cmon.eg-1.cns.example.com:9163", id(1))],
                "labels": {
                    "__meta_triton_machine_id": id(1), "__meta_triton_machine_alias": "m1",
                    "__meta_triton_machine_brand": "bhyve", "__meta_triton_server_id": id(7),
                    "node": "n1", "role": "node",
                },
            }])
        );
    }

    #[test]
    fn an_endpoint_without_a_port_has_the_usual_one() {
        for (url, shown) in [
            ("https://cmon.a", "https://cmon.a:9163"),
            ("https://cmon.a:1/", "https://cmon.a:1"),
        ] {
            assert_eq!(endpoint(url).to_string(), shown);
        }
    }
}
