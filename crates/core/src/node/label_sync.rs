//! What a cloud says about a machine follows into the labels of its Node, for as long as both live.
//!
//! A cloud asks for it ([`LabelSync`]) and says which keys are its own; all others are never touched. Type,
//! zone and region follow only where the node has them: whoever took the label away meant it.

use std::collections::BTreeMap;

use crate::node::labels::{
    INSTANCE_TYPE, LabelPair, REGION, ZONE, is_label_value, is_reserved, skip_extra,
};
use crate::{BoxFuture, Instance, Node, SkipReason, SkippedLabel};

/// A cloud whose words about machines follow into their Nodes.
///
/// What follows is in the answers of [`Instances::lookup`](crate::Instances::lookup): type, zone and region, where
/// an empty one changes nothing, and [`Instance::extra_labels`], where a missing key changes nothing unless the cloud
/// holds it whole, and an empty value is a value.
pub trait LabelSync: Send + Sync {
    /// Whether a key of extra labels is the cloud's own.
    fn holds(&self, key: &str) -> LabelHold;

    /// How that fact follows, and the event; none if it does not follow.
    fn follows(&self, fact: InstanceProperty) -> Option<LabelRule>;

    /// Ends when something about machines may have changed since it last ended, or since the beginning; what
    /// changes while nobody waits is not lost. Every node is then looked at within seconds. A cloud that does not
    /// hear of changes never ends, and its nodes are looked at once in a period.
    fn changed(&self) -> BoxFuture<'_, ()> {
        Box::pin(std::future::pending())
    }
}

/// Whether a label is a cloud's own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LabelHold {
    /// It is not, and is never touched.
    Not,
    /// It is: it is added and changed, and stays as it is while the cloud does not say it.
    Value,
    /// It is, whole: it goes when the cloud no longer says it.
    Whole,
}

/// A fact about a machine that two labels carry, an older and a newer one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum InstanceProperty {
    /// Its zone.
    Zone,
    /// Its region.
    Region,
    /// Its type.
    InstanceType,
}

impl InstanceProperty {
    /// All of them, in the order in which their changes are reported.
    pub const ALL: [Self; 3] = [Self::Zone, Self::Region, Self::InstanceType];

    const fn pair(self) -> &'static LabelPair {
        match self {
            Self::Zone => &ZONE,
            Self::Region => &REGION,
            Self::InstanceType => &INSTANCE_TYPE,
        }
    }

    fn of(self, instance: &Instance) -> &str {
        match self {
            Self::Zone => &instance.zone,
            Self::Region => &instance.region,
            Self::InstanceType => &instance.instance_type,
        }
    }
}

/// How a fact follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LabelRule {
    /// The label that keeps the value from before the first change, for good.
    pub first: Option<&'static str>,
    /// Whether the change is one to worry about.
    pub is_warning: bool,
    /// The reason of the event.
    pub reason: &'static str,
    /// What changed, in words: `zone changed (…)`.
    pub words: &'static str,
}

/// What has to change in the labels of a node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LabelChange {
    /// Values to set, and keys to remove.
    pub labels: BTreeMap<String, Option<String>>,
    /// What to report once that is written.
    pub events: Vec<LabelEvent>,
    /// Labels that the API server would refuse.
    pub skipped: Vec<SkippedLabel>,
}

/// A change to report.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LabelEvent {
    /// Whether it is one to worry about.
    pub is_warning: bool,
    /// The reason of the event.
    pub reason: &'static str,
    /// Its message.
    pub message: String,
}

/// Decides which labels of a node follow its machine. What marks name is theirs.
pub fn follow_labels(sync: &dyn LabelSync, node: &Node, instance: &Instance) -> LabelChange {
    let mut change = LabelChange::default();
    for (key, value) in &instance.extra_labels {
        if sync.holds(key) == LabelHold::Not || is_marked(instance, key) {
            continue;
        }
        if let Some(why) = skip_extra(key, value) {
            change.skip(key, value, why);
        } else if node.labels.get(key) != Some(value) {
            change.labels.insert(key.clone(), Some(value.clone()));
        }
    }
    for key in node.labels.keys() {
        let said = instance.extra_labels.contains_key(key) || is_marked(instance, key);
        if !said && sync.holds(key) == LabelHold::Whole && !is_for_good(sync, key) {
            change.labels.insert(key.to_owned(), None);
        }
    }
    for fact in InstanceProperty::ALL {
        if let Some(following) = sync.follows(fact) {
            change.follow(fact, &following, node, instance);
        }
    }
    change
}

impl LabelChange {
    fn follow(
        &mut self,
        fact: InstanceProperty,
        following: &LabelRule,
        node: &Node,
        instance: &Instance,
    ) {
        let (pair, new) = (fact.pair(), fact.of(instance));
        let marked = [pair.beta, pair.stable].map(|key| is_marked(instance, key));
        let Some(old) = node.labels.get(pair.stable) else {
            return;
        };
        if new.is_empty() || old == new || marked != [false, false] {
            return;
        }
        if !is_label_value(new) {
            self.skip(pair.stable, new, SkipReason::Malformed);
            return;
        }
        // Both, because the older one is the truth to others and would be copied back.
        for key in [pair.beta, pair.stable] {
            self.labels.insert(key.to_owned(), Some(new.to_owned()));
        }
        if let Some(first) = following.first
            && !node.labels.contains_key(first)
        {
            self.labels.insert(first.to_owned(), Some(old.to_owned()));
        }
        let (name, words) = (&node.name, following.words);
        self.events.push(LabelEvent {
            is_warning: following.is_warning,
            reason: following.reason,
            message: format!("Node {name} {words}: old={old}, new={new}"),
        });
    }

    fn skip(&mut self, key: &str, value: &str, why: SkipReason) {
        self.skipped.push(SkippedLabel {
            key: key.to_owned(),
            value: value.to_owned(),
            why,
        });
    }
}

/// Whether a label is Kubernetes' own, or keeps a first value: neither is a cloud's to take away.
fn is_for_good(sync: &dyn LabelSync, key: &str) -> bool {
    let keeps_first = |fact| sync.follows(fact).is_some_and(|it| it.first == Some(key));
    is_reserved(key) || InstanceProperty::ALL.into_iter().any(keeps_first)
}

fn is_marked(instance: &Instance, key: &str) -> bool {
    instance.marks.labels.contains_key(key)
}

#[cfg(test)]
mod tests;
