//! Twenty nodes that belong to nobody here: other clouds' machines, and machines of no cloud.

use std::collections::BTreeMap;

use bowline_scenarios::objects::{known, node_info, taint};
use serde_json::{Value, json};

use crate::many::harness::Harness;

/// Name, provider id, status of Ready, taints.
type Row = (
    &'static str,
    Option<&'static str>,
    &'static str,
    &'static [&'static str],
);

const WAITING: &str = "node.cloudprovider.kubernetes.io/uninitialized=true:NoSchedule";
const OFF: &str = "node.cloudprovider.kubernetes.io/shutdown:NoSchedule";
const GPU: &str = "example.org/gpu=true:NoSchedule";

const ROWS: [Row; 20] = [
    ("aws-1", Some("aws:///eu-central-1a/i-0a1"), "True", &[]),
    ("aws-2", Some("aws:///eu-central-1a/i-0a2"), "Unknown", &[]),
    ("aws-3", Some("aws:///eu-central-1b/i-0a3"), "False", &[OFF]),
    (
        "aws-4",
        Some("aws:///eu-central-1b/i-0a4"),
        "True",
        &[WAITING],
    ),
    (
        "azure-1",
        Some("azure:///subscriptions/s/vm-1"),
        "True",
        &[GPU],
    ),
    ("gce-1", Some("gce://project/zone/vm-1"), "Unknown", &[OFF]),
    ("hcloud-1", Some("hcloud://4711"), "True", &[]),
    (
        "openstack-1",
        Some("openstack:///5b1e2d3c-0000-4000-8000-000000000011"),
        "False",
        &[],
    ),
    (
        "kind-1",
        Some("kind://docker/kind/kind-worker"),
        "True",
        &[],
    ),
    (
        "kind-2",
        Some("kind://docker/kind/kind-worker2"),
        "Unknown",
        &[],
    ),
    ("k3s-1", Some("k3s://k3s-1"), "True", &[]),
    ("rke-1", Some("rke2://rke-1"), "False", &[WAITING]),
    ("bare-1", None, "True", &[]),
    ("bare-2", None, "True", &[GPU]),
    ("bare-3", None, "Unknown", &[]),
    ("bare-4", None, "False", &[]),
    ("waiting-1", None, "True", &[WAITING]),
    ("waiting-2", None, "True", &[WAITING, GPU]),
    ("waiting-3", None, "Unknown", &[WAITING]),
    ("waiting-4", None, "False", &[WAITING]),
];

/// The nodes of nobody, as they were when they came.
pub(crate) struct Foreign(BTreeMap<&'static str, Value>);

impl Harness {
    /// Puts them there.
    pub(crate) async fn put_foreign(&self) -> Foreign {
        for (number, row) in (1..).zip(&ROWS) {
            self.put(node(number, row)).await;
        }
        self.catch_up().await;
        let as_it_is = |(name, ..): &Row| (*name, self.cluster.node(name));
        Foreign(ROWS.iter().map(as_it_is).collect())
    }

    /// Checks that nobody has written anything about them.
    #[track_caller]
    pub(crate) fn assert_untouched(&self, foreign: &Foreign) {
        assert_eq!(foreign.0.len(), 20);
        for (name, before) in &foreign.0 {
            let now = self.find(name);
            assert_eq!(now.as_ref(), Some(before), "{name} is as it was");
            let calls = self.writes(name);
            assert!(calls.is_empty(), "{calls:?}");
            assert_eq!(self.events(name), [""; 0], "{name}");
        }
    }
}

fn node(number: u8, (name, id, readiness, taints): &Row) -> Value {
    let host = format!("Hostname:{name}");
    let inside = format!("InternalIP:172.16.0.{number}");
    let mut node = known(name, id.unwrap_or_default(), readiness, &[&inside, &host]);
    if id.is_none() {
        node["spec"] = json!({});
    }
    node["spec"]["taints"] = taints.iter().map(|it| taint(it)).collect();
    let uuid = format!("0ddba11f-0000-4000-8000-{number:012}");
    // Virtual kubelets do not say what they run on.
    let os_image = if number.is_multiple_of(2) {
        ""
    } else {
        "Ubuntu 24.04.3 LTS"
    };
    node["status"]["nodeInfo"] = node_info(&uuid, os_image);
    node
}
