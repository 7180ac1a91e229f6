//! Computes the write that brings a machine's tags to what is wanted, without touching other
//! people's. Pure.

use std::collections::{BTreeMap, BTreeSet};

use super::grammar::{self, Bad, Item};
use super::{BALANCER, GROUPS, GROUPS_RECORD, NODE, Ports, SERVICES, SERVICES_RECORD, Tags};
use crate::api::TagValue;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Role {
    /// A node, marked as one of the cluster when something of ours is put on it.
    #[default]
    Node,
    /// A load balancer that the cluster has made, and marked when it was made.
    Balancer,
}

/// What is wanted on a machine. Everything else stays as it is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wanted {
    /// The ports of labels for the name service; none: the label is to go.
    pub labels: BTreeMap<String, Option<Ports>>,
    /// All groups of ours; none: groups stay as they are.
    pub groups: Option<BTreeSet<String>>,
    pub role: Role,
    /// It has left the cluster: everything of ours goes, at last the mark.
    pub released: bool,
    /// Entries for the name service that were ours until lately. Somebody who had read them before
    /// writes them back without our record; they are still not theirs.
    pub former: BTreeSet<String>,
    /// It is taken over from the cluster whose mark it bears: that cluster's labels and groups go.
    pub take_over: bool,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Change {
    /// Tags to be set, all in one call.
    pub set: Tags,
    /// Tags to be deleted after that, one by one in this order.
    pub delete: Vec<&'static str>,
    /// Lists that cannot be parsed, and stay untouched.
    pub bad: Vec<Bad>,
}

impl Change {
    pub fn is_empty(&self) -> bool {
        self.set.is_empty() && self.delete.is_empty()
    }

    /// Whether tags show it: everything set as it was set, everything deleted gone.
    pub(super) fn shows_in(&self, tags: &Tags) -> bool {
        let set = self
            .set
            .iter()
            .all(|(key, value)| tags.get(key) == Some(value));
        set && self.delete.iter().all(|key| !tags.contains_key(*key))
    }
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the machine belongs to the cluster {0:?}")]
pub struct OtherCluster(pub String);

/// A write of ours has overwritten what somebody else had put there meanwhile.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Overwritten {
    pub(super) key: &'static str,
    /// What we wrote; only while it stands there is their request the one before it.
    pub(super) written: Option<TagValue>,
    pub(super) before: Option<TagValue>,
}

/// A list that is shared with others, and the record of what in it is ours.
pub(super) struct List {
    pub(super) tag: &'static str,
    record: &'static str,
    parse: fn(&str) -> Result<Vec<Item>, String>,
}

pub(super) const SERVICE_LIST: List = List {
    tag: SERVICES,
    record: SERVICES_RECORD,
    parse: grammar::services,
};
pub(super) const GROUP_LIST: List = List {
    tag: GROUPS,
    record: GROUPS_RECORD,
    parse: grammar::groups,
};

impl List {
    fn items(&self, value: Option<&TagValue>) -> Result<Vec<Item>, Bad> {
        let bad = |problem: String| Bad {
            tag: self.tag,
            problem,
        };
        match value {
            None => Ok(Vec::new()),
            Some(TagValue::Text(text)) => (self.parse)(text).map_err(bad),
            Some(other) => Err(bad(format!("is {other}, which is no text"))),
        }
    }

    fn recorded(&self, tags: &Tags) -> BTreeSet<String> {
        let text = tags.get(self.record).and_then(TagValue::as_text);
        text.map(grammar::record).unwrap_or_default()
    }
}

struct Sum {
    set: Tags,
    delete: Vec<&'static str>,
    /// Whether something of ours is in it then.
    ours: bool,
}

impl Sum {
    fn is_empty(&self) -> bool {
        self.set.is_empty() && self.delete.is_empty()
    }
}

/// How others' entries and ours are put together.
struct Terms<'a> {
    list: &'a List,
    tags: &'a Tags,
    /// The wanted entries by name; no entry: the name is to go.
    entries: BTreeMap<String, Vec<Item>>,
    /// Names on record that are not in `entries` go as well.
    drop_others: bool,
    /// What is on record is another cluster's.
    taken_over: bool,
    /// Entries that are ours without being on record.
    former: &'a BTreeSet<String>,
    overwritten: &'a [Overwritten],
}

impl Terms<'_> {
    fn sum(self) -> Result<Sum, Bad> {
        let Self {
            list,
            tags,
            entries,
            ..
        } = &self;
        let current = list.items(tags.get(list.tag))?;
        let recorded = list.recorded(tags);
        let wanted_names = entries.iter().filter(|(_, items)| !items.is_empty());
        let wanted_names: BTreeSet<String> = wanted_names.map(|(name, _)| name.clone()).collect();
        let others = recorded.iter().filter(|name| !entries.contains_key(*name));
        let kept: BTreeSet<String> = others.filter(|_| !self.drop_others).cloned().collect();
        let is_ours = |it: &Item| {
            let named = recorded.contains(&it.name) || wanted_names.contains(&it.name);
            named || self.former.contains(&it.text)
        };
        let mut ours: Vec<Item> = entries.values().flatten().cloned().collect();
        ours.extend(current.iter().filter(|it| kept.contains(&it.name)).cloned());
        ours.sort_by(|a, b| a.order().cmp(&b.order()));
        let theirs = self.theirs().unwrap_or_else(|| current.clone());
        let mut new: Vec<Item> = theirs.into_iter().filter(|it| !is_ours(it)).collect();
        new.extend(ours);
        let names: BTreeSet<String> = wanted_names.union(&kept).cloned().collect();
        Ok(self.difference(&current, &new, &recorded, &names))
    }

    /// What somebody else had put there before a write of ours came on top of it.
    fn theirs(&self) -> Option<Vec<Item>> {
        let found = self.overwritten.iter().find(|it| it.key == self.list.tag)?;
        let still = self.tags.get(self.list.tag) == found.written.as_ref();
        still
            .then(|| self.list.items(found.before.as_ref()).ok())
            .flatten()
    }

    fn difference(
        &self,
        current: &[Item],
        new: &[Item],
        recorded: &BTreeSet<String>,
        names: &BTreeSet<String>,
    ) -> Sum {
        let List { tag, record, .. } = self.list;
        let mut sum = Sum {
            set: Tags::new(),
            delete: Vec::new(),
            ours: !names.is_empty(),
        };
        let text = |list: &[&str]| TagValue::Text(list.join(","));
        let texts = |items: &[Item]| -> Vec<String> {
            let mut texts: Vec<String> = items.iter().map(|it| it.text.clone()).collect();
            texts.sort();
            texts
        };
        // The order of entries is for others to choose.
        let same = texts(current) == texts(new);
        if !same && new.is_empty() {
            sum.delete.push(tag);
        } else if !same {
            let new: Vec<&str> = new.iter().map(|it| it.text.as_str()).collect();
            sum.set.insert((*tag).to_owned(), text(&new));
        }
        let names_text: Vec<&str> = names.iter().map(String::as_str).collect();
        if !names.is_empty() && (!same || names != recorded) {
            sum.set.insert((*record).to_owned(), text(&names_text));
        } else if names.is_empty() && (same || self.taken_over) && self.tags.contains_key(*record) {
            // Not before the list shows that nothing of ours is left: without its record it would
            // never be found. Another cluster's record must not be taken for ours once the mark is
            // ours.
            sum.delete.push(record);
        }
        sum
    }
}

/// What has to be written to a machine with those tags.
pub fn change(tags: &Tags, wanted: &Wanted, cluster: &str) -> Result<Change, OtherCluster> {
    change_after(tags, wanted, cluster, &[])
}

/// The same after writes of ours that have overwritten others'.
pub(super) fn change_after(
    tags: &Tags,
    wanted: &Wanted,
    cluster: &str,
    overwritten: &[Overwritten],
) -> Result<Change, OtherCluster> {
    let owner = owner(tags, wanted.role);
    let other = owner.as_deref().filter(|owner| *owner != cluster);
    if let Some(other) = other
        && !(wanted.take_over && wanted.role == Role::Node && !wanted.released)
    {
        return Err(OtherCluster(other.to_owned()));
    }
    let mut change = Change::default();
    if wanted.role == Role::Balancer && owner.is_none() {
        change.bad.push(Bad {
            tag: BALANCER,
            problem: "is missing".to_owned(),
        });
        return Ok(change);
    }
    let drop_others = wanted.released || other.is_some();
    let mut ours = false;
    let mut clean = true;
    for (list, entries) in [
        (&SERVICE_LIST, wanted_services(wanted)),
        (
            &GROUP_LIST,
            wanted_groups(wanted, &GROUP_LIST.recorded(tags)),
        ),
    ] {
        let terms = Terms {
            list,
            tags,
            entries,
            drop_others,
            taken_over: other.is_some(),
            former: &wanted.former,
            overwritten,
        };
        match terms.sum() {
            Ok(sum) => {
                ours |= sum.ours;
                clean &= sum.is_empty();
                change.set.extend(sum.set);
                change.delete.extend(sum.delete);
            }
            Err(bad) => {
                clean = false;
                change.bad.push(bad);
            }
        }
    }
    if wanted.role == Role::Node {
        mark(
            &mut change,
            wanted,
            cluster,
            owner.as_deref(),
            (ours, clean),
        );
    }
    Ok(change)
}

/// The mark comes with our first entry, and goes after the last.
fn mark(
    change: &mut Change,
    wanted: &Wanted,
    cluster: &str,
    owner: Option<&str>,
    (ours, clean): (bool, bool),
) {
    let taken = owner.is_some_and(|owner| owner != cluster);
    let written = change.set.contains_key(SERVICES_RECORD);
    if taken || (ours && (written || owner.is_none())) {
        change.set.insert(NODE.to_owned(), cluster.into());
    } else if wanted.released && clean && owner.is_some() {
        change.delete.push(NODE);
    }
}

/// The cluster that the machine's mark names. A mark that is no text names no cluster that we know.
fn owner(tags: &Tags, role: Role) -> Option<String> {
    let key = match role {
        Role::Node => NODE,
        Role::Balancer => BALANCER,
    };
    tags.get(key).map(ToString::to_string)
}

fn wanted_services(wanted: &Wanted) -> BTreeMap<String, Vec<Item>> {
    if wanted.released {
        return BTreeMap::new();
    }
    let items = |(label, ports): (&String, &Option<Ports>)| {
        let ports = ports.iter().flatten();
        let items: Vec<Item> = ports.map(|port| Item::service(label, *port)).collect();
        (label.clone(), items)
    };
    // What the grammar does not know would be read otherwise than it was meant.
    let known = wanted.labels.iter();
    known
        .filter(|(label, _)| grammar::is_label(label))
        .map(items)
        .collect()
}

fn wanted_groups(wanted: &Wanted, recorded: &BTreeSet<String>) -> BTreeMap<String, Vec<Item>> {
    match &wanted.groups {
        Some(groups) if !wanted.released => {
            let put = groups.iter().map(|it| (it.clone(), vec![Item::group(it)]));
            let gone = recorded.difference(groups);
            gone.map(|it| (it.clone(), Vec::new())).chain(put).collect()
        }
        _ => BTreeMap::new(),
    }
}

/// Whether tags show a label as wanted: its ports, on record, on a machine marked as the cluster's;
/// or, for none, not on record.
pub fn holds(tags: &Tags, cluster: &str, label: &str, ports: Option<&Ports>) -> bool {
    let recorded = SERVICE_LIST.recorded(tags).contains(label);
    let Some(ports) = ports.filter(|ports| !ports.is_empty()) else {
        return !recorded;
    };
    let Ok(items) = SERVICE_LIST.items(tags.get(SERVICES)) else {
        return false;
    };
    let there = items.iter().filter(|it| it.name == label);
    let there: Vec<&str> = there.map(|it| it.text.as_str()).collect();
    let wanted: BTreeSet<String> = ports
        .iter()
        .map(|port| Item::service(label, *port).text)
        .collect();
    recorded
        && owner(tags, Role::Node).as_deref() == Some(cluster)
        && there.len() == wanted.len()
        && there.iter().all(|text| wanted.contains(*text))
}

/// The entries in tags that are on record as ours and that a change takes away.
pub(super) fn taken_away(tags: &Tags, change: &Change) -> BTreeSet<String> {
    let touched = change.set.contains_key(SERVICES) || change.delete.contains(&SERVICES);
    if !touched {
        return BTreeSet::new();
    }
    let recorded = SERVICE_LIST.recorded(tags);
    let texts = |value: Option<&TagValue>| -> BTreeSet<String> {
        let items = SERVICE_LIST.items(value).unwrap_or_default();
        let ours = items.into_iter().filter(|it| recorded.contains(&it.name));
        ours.map(|it| it.text).collect()
    };
    let left = texts(change.set.get(SERVICES));
    let mut away = texts(tags.get(SERVICES));
    away.retain(|text| !left.contains(text));
    away
}

/// Whether tags have one of these entries for the name service under that label.
pub(super) fn has_any(tags: &Tags, label: &str, entries: &BTreeSet<String>) -> bool {
    let items = SERVICE_LIST.items(tags.get(SERVICES)).unwrap_or_default();
    let own = items.iter().filter(|it| it.name == label);
    own.into_iter().any(|it| entries.contains(&it.text))
}

/// Whether tags show our groups as wanted: each there and on record, and no other on record.
pub fn holds_groups(tags: &Tags, groups: &BTreeSet<String>) -> bool {
    let Ok(items) = GROUP_LIST.items(tags.get(GROUPS)) else {
        return false;
    };
    let there: BTreeSet<String> = items.into_iter().map(|it| it.name).collect();
    GROUP_LIST.recorded(tags) == *groups && groups.is_subset(&there)
}
