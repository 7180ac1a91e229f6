//! What follows into the labels of nodes, and hearing of changes.

use std::sync::atomic::{AtomicBool, Ordering};

use bowline_core::{BoxFuture, InstanceProperty, LabelHold, LabelSync};
use tokio::sync::Notify;

use super::ScriptedCloud;

/// Whether labels follow, and what was heard of.
#[derive(Default)]
pub(super) struct LabelRule {
    is_offered: AtomicBool,
    heard: Notify,
}

impl LabelRule {
    pub(super) fn is_offered(&self) -> bool {
        self.is_offered.load(Ordering::Relaxed)
    }
}

impl ScriptedCloud {
    /// From the next start of a manager on, labels under `k8s.demo` are its own, those under `tag.k8s.demo` whole,
    /// and zone, region and type follow.
    pub fn offer_label_sync(&self) {
        self.following.is_offered.store(true, Ordering::Relaxed);
    }

    /// Something about its machines may have changed.
    pub fn hear(&self) {
        self.following.heard.notify_one();
    }
}

impl LabelSync for ScriptedCloud {
    fn holds(&self, key: &str) -> LabelHold {
        match key.split_once('/') {
            Some(("tag.k8s.demo", _)) => LabelHold::Whole,
            Some((domain, _)) if domain.ends_with("k8s.demo") => LabelHold::Value,
            _ => LabelHold::Not,
        }
    }

    fn follows(&self, fact: InstanceProperty) -> Option<bowline_core::LabelRule> {
        let (first, reason, words) = match fact {
            InstanceProperty::Zone => (
                Some("topology.k8s.demo/original_host_id"),
                "NodeZoneChanged",
                "zone changed (node VM host changed)",
            ),
            InstanceProperty::Region => (
                Some("topology.k8s.demo/original_pool_id"),
                "NodeRegionChanged",
                "region changed (node VM pool changed)",
            ),
            InstanceProperty::InstanceType => (
                None,
                "NodeInstanceTypeHasChanged",
                "instance type has changed (node VM memory and/or CPUs changed)",
            ),
        };
        Some(bowline_core::LabelRule {
            first,
            is_warning: fact != InstanceProperty::InstanceType,
            reason,
            words,
        })
    }

    fn changed(&self) -> BoxFuture<'_, ()> {
        Box::pin(self.following.heard.notified())
    }
}
