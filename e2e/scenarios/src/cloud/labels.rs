//! What follows into the labels of nodes, and hearing of changes.

use bowline_core::{BoxFuture, Fact, Following, Hold, LabelSync};

use super::ScriptedCloud;

impl ScriptedCloud {
    /// From the next start of a manager on, labels under `k8s.demo` are its own, those under `tag.k8s.demo` whole,
    /// and zone, region and type follow.
    pub fn offer_label_sync(&self) {
        self.state().has_label_sync = true;
    }

    /// Something about its machines may have changed.
    pub fn hear(&self) {
        self.heard.notify_one();
    }
}

impl LabelSync for ScriptedCloud {
    fn holds(&self, key: &str) -> Hold {
        match key.split_once('/') {
            Some(("tag.k8s.demo", _)) => Hold::Whole,
            Some((domain, _)) if domain.ends_with("k8s.demo") => Hold::Value,
            _ => Hold::Not,
        }
    }

    fn follows(&self, fact: Fact) -> Option<Following> {
        let (first, reason, words) = match fact {
            Fact::Zone => (
                Some("topology.k8s.demo/original_host_id"),
                "NodeZoneChanged",
                "zone changed (node VM host changed)",
            ),
            Fact::Region => (
                Some("topology.k8s.demo/original_pool_id"),
                "NodeRegionChanged",
                "region changed (node VM pool changed)",
            ),
            Fact::InstanceType => (
                None,
                "NodeInstanceTypeHasChanged",
                "instance type has changed (node VM memory and/or CPUs changed)",
            ),
        };
        Some(Following {
            first,
            is_warning: fact != Fact::InstanceType,
            reason,
            words,
        })
    }

    fn changed(&self) -> BoxFuture<'_, ()> {
        Box::pin(self.heard.notified())
    }
}
