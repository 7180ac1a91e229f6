//! Nodes as the story sees them, and what changed about one, in words.

use bowline_core::{SHUTDOWN_TAINT, UNINITIALIZED_TAINT};
use k8s_openapi::api::core::v1::Node;
use kube::ResourceExt;

use crate::sandbox::display::Mark;

/// A node as the story sees it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::sandbox) struct NodeView {
    /// Whether it still waits for its cloud.
    pub uninitialized: bool,
    /// Whether it carries the shutdown taint.
    pub shut_down: bool,
    /// The status of its Ready condition.
    pub ready: String,
    pub provider_id: String,
    /// Its type, zone and addresses, for people.
    pub facts: String,
    /// Everything a controller could have written: spec, labels, annotations, addresses.
    pub content: String,
}

/// A node as it is now.
pub(super) fn view(node: &Node) -> NodeView {
    let spec = node.spec.clone().unwrap_or_default();
    let status = node.status.clone().unwrap_or_default();
    let has = |key: &str| spec.taints.iter().flatten().any(|taint| taint.key == key);
    let label = |key: &str| node.labels().get(key).cloned().unwrap_or_default();
    let addresses: Vec<String> = status
        .addresses
        .iter()
        .flatten()
        .filter(|address| address.type_.ends_with("IP"))
        .map(|address| format!("{} {}", address.type_, address.address))
        .collect();
    let ready = status
        .conditions
        .iter()
        .flatten()
        .find(|condition| condition.type_ == "Ready");
    NodeView {
        uninitialized: has(UNINITIALIZED_TAINT),
        shut_down: has(SHUTDOWN_TAINT),
        ready: ready
            .map(|condition| condition.status.clone())
            .unwrap_or_default(),
        provider_id: spec.provider_id.clone().unwrap_or_default(),
        facts: format!(
            "{}, {}, {}",
            label("node.kubernetes.io/instance-type"),
            label("topology.kubernetes.io/zone"),
            addresses.join(", ")
        ),
        content: format!(
            "{:?} {:?} {:?}",
            spec.provider_id,
            node.labels(),
            status.addresses.unwrap_or_default()
        ),
    }
}

/// What changed, in words.
pub(super) fn differences(
    name: &str,
    before: Option<&NodeView>,
    after: Option<&NodeView>,
) -> Vec<(Mark, String)> {
    let mut lines = Vec::new();
    let mut tell = |mark, text: String| lines.push((mark, format!("{name} {text}")));
    match (before, after) {
        (None, Some(new)) if new.uninitialized => {
            tell(
                Mark::Happened,
                "registered, tainted as uninitialized".into(),
            );
        }
        (None, Some(_)) => tell(Mark::Happened, "registered".into()),
        (Some(old), Some(new)) => {
            if old.uninitialized && !new.uninitialized {
                tell(
                    Mark::Good,
                    format!("initialised: {} ({})", new.provider_id, new.facts),
                );
            }
            if old.ready != new.ready {
                let state = if new.ready == "True" {
                    "Ready"
                } else {
                    "NotReady"
                };
                let was = if old.ready == "True" {
                    "Ready"
                } else {
                    "NotReady"
                };
                if state != was {
                    tell(Mark::Happened, format!("is {state}"));
                }
            }
            if old.shut_down != new.shut_down {
                let change = if new.shut_down { "got" } else { "lost" };
                tell(Mark::Good, format!("{change} the shutdown taint"));
            }
        }
        (Some(_), None) => tell(Mark::Happened, "is gone".into()),
        (None, None) => {}
    }
    lines
}

/// What matters of that: not that a node comes, but what became of it.
pub(super) fn main_differences(
    name: &str,
    before: Option<&NodeView>,
    after: Option<&NodeView>,
) -> Vec<(Mark, String)> {
    match (before, after) {
        (None, _) => Vec::new(),
        (Some(old), Some(new)) if new.ready == "True" => {
            // Ready is what a node is that nobody talks about.
            let old = NodeView {
                ready: new.ready.clone(),
                ..old.clone()
            };
            differences(name, Some(&old), after)
        }
        _ => differences(name, before, after),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_read_as_sentences() {
        let fresh = NodeView {
            uninitialized: true,
            ready: "False".into(),
            ..NodeView::default()
        };
        let done = NodeView {
            provider_id: "demo://1".into(),
            facts: "c2, z1, InternalIP 10.0.0.1".into(),
            ready: "True".into(),
            ..NodeView::default()
        };
        let off = NodeView {
            shut_down: true,
            ready: "Unknown".into(),
            ..done.clone()
        };
        let lines = |before, after| -> Vec<String> {
            differences("w", before, after)
                .into_iter()
                .map(|(_, text)| text)
                .collect()
        };
        assert_eq!(
            lines(None, Some(&fresh)),
            ["w registered, tainted as uninitialized"]
        );
        assert_eq!(
            lines(Some(&fresh), Some(&done)),
            [
                "w initialised: demo://1 (c2, z1, InternalIP 10.0.0.1)",
                "w is Ready"
            ]
        );
        assert_eq!(
            lines(Some(&done), Some(&off)),
            ["w is NotReady", "w got the shutdown taint"]
        );
        assert_eq!(lines(Some(&off), None), ["w is gone"]);
        assert_eq!(lines(Some(&done), Some(&done)), [""; 0]);
        for (before, after, wanted) in [
            (None, Some(&fresh), &[][..]),
            (
                Some(&fresh),
                Some(&done),
                &["w initialised: demo://1 (c2, z1, InternalIP 10.0.0.1)"],
            ),
            (
                Some(&done),
                Some(&off),
                &["w is NotReady", "w got the shutdown taint"],
            ),
            (Some(&off), Some(&done), &["w lost the shutdown taint"]),
            (Some(&off), None, &["w is gone"]),
        ] {
            let lines = main_differences("w", before, after).into_iter();
            let lines: Vec<String> = lines.map(|(_, text)| text).collect();
            assert_eq!(lines, wanted);
        }
    }
}
