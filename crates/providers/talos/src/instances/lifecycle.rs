//! Whether a machine still exists, decided from its Node alone.

use std::time::Duration;

use bowline_core::{Node, UNINITIALIZED_TAINT};
use jiff::Timestamp;

use crate::instances::labels::{LIFECYCLE, PLATFORM, SPOT};

/// A node younger than this has not settled.
const SETTLING: Duration = Duration::from_secs(30);
const NOT_READY_TAINT: &str = "node.kubernetes.io/not-ready";

/// Whether a node's machine exists. False for one kind alone: a spot machine of GCP that was taken
/// away returns with new addresses, and only if its Node is deleted does the kubelet register it
/// anew.
pub fn exists(node: &Node, now: Timestamp) -> bool {
    let has_taint = |key: &str, effect: &str| {
        node.taints
            .iter()
            .any(|taint| taint.key == key && taint.effect == effect)
    };
    let has_label = |key: &str, value: &str| node.labels.get(key).is_some_and(|it| it == value);
    let age = now.duration_since(node.created);
    let settled = jiff::SignedDuration::try_from(SETTLING).is_ok_and(|settling| age >= settling);
    let taken_away = node.provider_id.is_some()
        && !has_taint(UNINITIALIZED_TAINT, "NoSchedule")
        && settled
        && has_taint(NOT_READY_TAINT, "NoExecute")
        && has_label(PLATFORM, "gcp")
        && has_label(LIFECYCLE, SPOT);
    !taken_away
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::node;
    use bowline_core::Taint;

    fn taken_away() -> Node {
        let mut node = node("n1", "10.0.0.5");
        node.provider_id = Some("gce://p/z/n1".into());
        node.taints = vec![Taint::new(NOT_READY_TAINT, "", "NoExecute")];
        node.labels.insert(PLATFORM.into(), "gcp".into());
        node.labels.insert(LIFECYCLE.into(), SPOT.into());
        node
    }

    fn after(node: &Node, seconds: i64) -> Timestamp {
        node.created + jiff::SignedDuration::from_secs(seconds)
    }

    #[test]
    fn talos_case_59_a_spot_machine_of_gcp_that_was_taken_away_is_gone() {
        let node = taken_away();
        assert!(!exists(&node, after(&node, 300)));
        assert!(!exists(&node, after(&node, 30)));
    }

    #[test]
    fn talos_case_60_anything_missing_and_it_exists() {
        let gone = taken_away();
        assert!(exists(&gone, after(&gone, 10)));
        let changes: [fn(&mut Node); 6] = [
            |node| node.provider_id = None,
            |node| {
                let uninitialized = Taint::new(UNINITIALIZED_TAINT, "true", "NoSchedule");
                node.taints.push(uninitialized);
            },
            |node| node.labels.insert(PLATFORM.into(), "aws".into()),
            |node| node.labels.remove(LIFECYCLE),
            |node| node.taints[0].key = "node.kubernetes.io/unreachable".into(),
            |node| node.taints[0].effect = "NoSchedule".into(),
        ];
        for (number, change) in changes.iter().enumerate() {
            let mut node = taken_away();
            change(&mut node);
            assert!(exists(&node, after(&node, 300)), "change {number}");
        }
    }

    #[test]
    fn talos_case_61_machines_of_other_platforms_exist() {
        let mut node = taken_away();
        for platform in ["hcloud", "metal", "aws", ""] {
            node.labels.insert(PLATFORM.into(), platform.into());
            assert!(exists(&node, after(&node, 3000)), "{platform}");
        }
    }
}
