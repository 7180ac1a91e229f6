//! What a kubelet with `--cloud-provider=external` writes, as plain functions.

use std::collections::BTreeMap;
use std::net::IpAddr;

use bowline_simulator::KubeletSpec;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node;
use serde_json::{Value, json};

use super::caller::microseconds;
use crate::object::seconds;

/// The taint that waits for the cloud controller manager.
pub const UNINITIALIZED: &str = "node.cloudprovider.kubernetes.io/uninitialized";
/// Where the `--node-ip` value is reported.
pub const PROVIDED_NODE_IP: &str = "alpha.kubernetes.io/provided-node-ip";
/// Where node leases are.
pub(crate) const LEASE_NAMESPACE: &str = "kube-node-lease";
/// A lease is good for this long.
const LEASE_SECONDS: u32 = 40;
/// Versions that the simulated machines tell.
const KUBELET_VERSION: &str = "v1.36.3";
/// The label keys that a kubelet sets itself and re-applies when it restarts.
const DEFAULT_LABELS: [(&str, &str); 4] = [
    ("beta.kubernetes.io/arch", "amd64"),
    ("beta.kubernetes.io/os", "linux"),
    ("kubernetes.io/arch", "amd64"),
    ("kubernetes.io/os", "linux"),
];
/// Further labels that are re-applied at a restart if they come from `--node-labels`.
const REAPPLIED: [&str; 7] = [
    "kubernetes.io/hostname",
    "beta.kubernetes.io/instance-type",
    "failure-domain.beta.kubernetes.io/region",
    "failure-domain.beta.kubernetes.io/zone",
    "node.kubernetes.io/instance-type",
    "topology.kubernetes.io/region",
    "topology.kubernetes.io/zone",
];
/// What a kubelet without a network says.
const NO_NETWORK: &str = "container runtime network not ready: NetworkReady=false \
    reason:NetworkPluginNotReady message:Network plugin returns error: cni plugin not initialized";

/// A kubelet of the fleet.
#[derive(Clone, Debug)]
pub(super) struct Kubelet(pub(super) KubeletSpec);

impl std::ops::Deref for Kubelet {
    type Target = KubeletSpec;

    fn deref(&self) -> &KubeletSpec {
        &self.0
    }
}

/// Why a kubelet cannot start.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KubeletError {
    #[error("kubelet {node}: --node-ip \"{value}\" is neither one address nor a dual-stack pair")]
    NodeIp {
        node: String,
        /// The flag's value.
        value: String,
    },
    #[error("kubelet {0} is in the fleet already")]
    Joined(String),
}

/// What `--node-ip` means.
#[derive(Clone, Debug, PartialEq, Eq)]
enum NodeIp {
    Unset,
    Unspecified(IpAddr),
    Specific(Vec<IpAddr>),
}

/// What a kubelet remembers of its Node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Seen {
    pub(super) uid: String,
    pub(super) uninitialized: bool,
    pub(super) has_addresses: bool,
    pub(super) annotation: Option<String>,
    pub(super) labels: BTreeMap<String, String>,
    /// Type → status and time of the last transition.
    pub(super) conditions: BTreeMap<String, (String, String)>,
}

impl Seen {
    pub(super) fn of(node: &Node) -> Self {
        let status = node.status.as_ref();
        let taints = node.spec.as_ref().and_then(|spec| spec.taints.as_ref());
        let conditions = status.and_then(|status| status.conditions.as_ref());
        let annotations = node.metadata.annotations.as_ref();
        Self {
            uid: node.metadata.uid.clone().unwrap_or_default(),
            uninitialized: taints.is_some_and(|all| all.iter().any(|one| one.key == UNINITIALIZED)),
            has_addresses: status
                .and_then(|status| status.addresses.as_ref())
                .is_some_and(|all| !all.is_empty()),
            annotation: annotations
                .and_then(|all| all.get(PROVIDED_NODE_IP))
                .cloned(),
            labels: node.metadata.labels.clone().unwrap_or_default(),
            conditions: conditions
                .into_iter()
                .flatten()
                .map(|one| {
                    let since = one.last_transition_time.as_ref();
                    let since = since.map(|time| seconds(time.0)).unwrap_or_default();
                    (one.type_.clone(), (one.status.clone(), since))
                })
                .collect(),
        }
    }
}

impl Kubelet {
    fn node_ip(&self) -> Result<NodeIp, KubeletError> {
        let Some(value) = self
            .provided_node_ip
            .as_deref()
            .filter(|one| !one.is_empty())
        else {
            return Ok(NodeIp::Unset);
        };
        let wrong = || KubeletError::NodeIp {
            node: self.node_name.clone(),
            value: value.to_owned(),
        };
        let parts: Result<Vec<IpAddr>, _> = value.split(',').map(str::parse).collect();
        let parts = parts.map_err(|_| wrong())?;
        match parts.as_slice() {
            [one] if one.is_unspecified() => Ok(NodeIp::Unspecified(*one)),
            [_] => Ok(NodeIp::Specific(parts)),
            [one, two]
                if one.is_ipv4() != two.is_ipv4()
                    && !one.is_unspecified()
                    && !two.is_unspecified() =>
            {
                Ok(NodeIp::Specific(parts))
            }
            _ => Err(wrong()),
        }
    }

    /// Whether the command line makes sense.
    pub(super) fn check(&self) -> Result<(), KubeletError> {
        self.node_ip().map(|_| ())
    }

    /// The annotation's value; none if the flag names no address.
    pub(super) fn annotation(&self) -> Option<String> {
        match self.node_ip() {
            Ok(NodeIp::Specific(_)) => self.provided_node_ip.clone(),
            _ => None,
        }
    }

    /// The addresses it registers with: addresses first, the name last.
    fn addresses(&self) -> Value {
        let internal = match self.node_ip() {
            Ok(NodeIp::Specific(all)) => all,
            Ok(NodeIp::Unspecified(wish)) => {
                let own = &self.own_addresses;
                let preferred = own.iter().find(|one| one.is_ipv4() == wish.is_ipv4());
                preferred.or(own.first()).copied().into_iter().collect()
            }
            _ => Vec::new(),
        };
        internal
            .iter()
            .map(|one| json!({ "type": "InternalIP", "address": one.to_string() }))
            .chain([json!({ "type": "Hostname", "address": self.node_name })])
            .collect()
    }

    /// The labels it registers with; its command line wins.
    fn all_labels(&self) -> BTreeMap<String, String> {
        let own = DEFAULT_LABELS
            .iter()
            .map(|&(key, value)| (key.to_owned(), value.to_owned()));
        let name = ("kubernetes.io/hostname".to_owned(), self.node_name.clone());
        own.chain([name]).chain(self.labels.clone()).collect()
    }

    /// The Node it creates.
    pub(super) fn node(&self, boot_id: &str, ready: bool, now: Timestamp) -> Value {
        let mut annotations = json!({
            "volumes.kubernetes.io/controller-managed-attach-detach": "true"
        });
        if let Some(value) = self.annotation() {
            annotations[PROVIDED_NODE_IP] = json!(value);
        }
        let own = self.taints.iter();
        let own = own.map(|(key, value, effect)| match value.as_str() {
            "" => json!({ "key": key, "effect": effect }),
            value => json!({ "key": key, "value": value, "effect": effect }),
        });
        let mut taints: Vec<Value> = own.collect();
        taints.push(json!({ "key": UNINITIALIZED, "value": "true", "effect": "NoSchedule" }));
        let mut spec = json!({ "taints": taints });
        if let Some(id) = &self.provider_id {
            spec["providerID"] = json!(id);
        }
        json!({
            "kind": "Node",
            "apiVersion": "v1",
            "metadata": {
                "name": self.node_name,
                "labels": self.all_labels(),
                "annotations": annotations,
            },
            "spec": spec,
            "status": {
                "addresses": self.addresses(),
                "capacity": resources("8146016Ki", "41152736Ki"),
                "allocatable": resources("8043616Ki", "37926361436"),
                "conditions": conditions(&BTreeMap::new(), ready, now),
                "daemonEndpoints": { "kubeletEndpoint": { "Port": 10250 } },
                "nodeInfo": self.node_info(boot_id),
            },
        })
    }

    fn node_info(&self, boot_id: &str) -> Value {
        let os_image = match self.os_image.as_str() {
            "" => "Debian GNU/Linux 13 (trixie)",
            said => said,
        };
        json!({
            "architecture": "amd64",
            "bootID": boot_id,
            "containerRuntimeVersion": "containerd://2.2.1",
            "kernelVersion": "6.12.57+deb13-amd64",
            "kubeProxyVersion": "",
            "kubeletVersion": KUBELET_VERSION,
            "machineID": self.system_uuid.replace('-', ""),
            "operatingSystem": "linux",
            "osImage": os_image,
            "systemUUID": self.system_uuid,
        })
    }

    /// What a restarted kubelet changes on a Node that exists: its default labels. None if they
    /// are right.
    pub(super) fn relabel(&self, seen: &Seen) -> Option<Value> {
        let kept = |key: &str| {
            REAPPLIED.contains(&key) || DEFAULT_LABELS.iter().any(|(one, _)| *one == key)
        };
        let wrong: BTreeMap<String, String> = self
            .all_labels()
            .into_iter()
            .filter(|(key, value)| kept(key) && seen.labels.get(key) != Some(value))
            .collect();
        (!wrong.is_empty()).then(|| json!({ "metadata": { "labels": wrong } }))
    }

    /// Whether the Node says something else than this kubelet would.
    pub(super) fn differs(&self, seen: &Seen, ready: bool) -> bool {
        let own = wanted(ready);
        seen.annotation != self.annotation()
            || !seen.has_addresses
            || own.iter().any(|(kind, status, ..)| {
                seen.conditions
                    .get(*kind)
                    .map(|(reported, _)| reported.as_str())
                    != Some(status)
            })
    }

    /// The status it posts. Addresses are only told while the Node has none: once it has, they
    /// belong to the cloud controller manager.
    pub(super) fn status(&self, seen: &Seen, boot_id: &str, ready: bool, now: Timestamp) -> Value {
        let conditions = conditions(&seen.conditions, ready, now);
        let order: Vec<Value> = wanted(ready)
            .iter()
            .map(|(kind, ..)| json!({ "type": kind }))
            .collect();
        let mut patch = json!({
            "status": {
                "$setElementOrder/conditions": order,
                "conditions": conditions,
                "nodeInfo": self.node_info(boot_id),
            },
        });
        if !seen.has_addresses {
            patch["status"]["addresses"] = self.addresses();
        }
        if seen.annotation != self.annotation() {
            patch["metadata"]["annotations"][PROVIDED_NODE_IP] = json!(self.annotation());
        }
        patch
    }

    /// A new lease, owned by the Node.
    pub(super) fn lease(&self, seen: &Seen, now: Timestamp) -> Value {
        json!({
            "kind": "Lease",
            "apiVersion": "coordination.k8s.io/v1",
            "metadata": {
                "name": self.node_name,
                "namespace": LEASE_NAMESPACE,
                "ownerReferences": [{
                    "apiVersion": "v1", "kind": "Node", "name": self.node_name, "uid": seen.uid,
                }],
            },
            "spec": {
                "holderIdentity": self.node_name,
                "leaseDurationSeconds": LEASE_SECONDS,
                "renewTime": microseconds(now),
            },
        })
    }
}

/// The same lease with a new time.
pub(super) fn renewed(mut lease: Value, now: Timestamp) -> Value {
    lease["spec"]["renewTime"] = json!(microseconds(now));
    lease
}

fn resources(memory: &str, storage: &str) -> Value {
    json!({
        "cpu": "4", "memory": memory, "pods": "110", "ephemeral-storage": storage,
        "hugepages-1Gi": "0", "hugepages-2Mi": "0",
    })
}

/// Type, status, reason, message.
type Condition = (&'static str, &'static str, &'static str, &'static str);

fn wanted(ready: bool) -> [Condition; 4] {
    let last = if ready {
        (
            "Ready",
            "True",
            "KubeletReady",
            "kubelet is posting ready status",
        )
    } else {
        ("Ready", "False", "KubeletNotReady", NO_NETWORK)
    };
    [
        (
            "MemoryPressure",
            "False",
            "KubeletHasSufficientMemory",
            "kubelet has sufficient memory available",
        ),
        (
            "DiskPressure",
            "False",
            "KubeletHasNoDiskPressure",
            "kubelet has no disk pressure",
        ),
        (
            "PIDPressure",
            "False",
            "KubeletHasSufficientPID",
            "kubelet has sufficient PID available",
        ),
        last,
    ]
}

/// The conditions it tells now; the time of transition stays where the status does.
fn conditions(before: &BTreeMap<String, (String, String)>, ready: bool, now: Timestamp) -> Value {
    let now = seconds(now);
    wanted(ready)
        .iter()
        .map(|(kind, status, reason, message)| {
            let since = match before.get(*kind) {
                Some((reported, since)) if reported == status && !since.is_empty() => since,
                _ => &now,
            };
            json!({
                "type": kind, "status": status, "reason": reason, "message": message,
                "lastHeartbeatTime": now, "lastTransitionTime": since,
            })
        })
        .collect()
}
