//! `metadata.managedFields`: who owns which fields.

use std::{cmp::Ordering, collections::BTreeMap};

use serde_json::{Map, Value, json};

use super::fields::Set;

/// How fields came to be owned.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Operation {
    Apply,
    Update,
}

impl Operation {
    fn name(self) -> &'static str {
        match self {
            Self::Apply => "Apply",
            Self::Update => "Update",
        }
    }
}

/// Who owns: an entry's identity.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Owner {
    pub(super) manager: String,
    pub(super) operation: Operation,
    /// Empty for `Apply`: one manager applies with one version at a time.
    pub(super) version: String,
    pub(super) subresource: String,
}

impl Owner {
    /// Its JSON, by which conflicts are sorted.
    pub(super) fn identity(&self) -> String {
        let mut fields = vec![
            ("manager", self.manager.as_str()),
            ("operation", self.operation.name()),
        ];
        if !self.version.is_empty() {
            fields.push(("apiVersion", &self.version));
        }
        if !self.subresource.is_empty() {
            fields.push(("subresource", &self.subresource));
        }
        let texts = fields
            .iter()
            .map(|(name, value)| format!("\"{name}\":\"{value}\""));
        format!("{{{}}}", texts.collect::<Vec<String>>().join(","))
    }

    /// As conflicts name it: `"kubectl" with subresource "status" using v1`.
    pub(super) fn describe(&self) -> String {
        let mut text = format!("{:?}", self.manager);
        if !self.subresource.is_empty() {
            text = format!("{text} with subresource {:?}", self.subresource);
        }
        if self.operation == Operation::Update {
            text = format!("{text} using {}", self.version);
        }
        text
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Owned {
    pub(super) version: String,
    pub(super) fields: Set,
    pub(super) time: Option<String>,
}

pub(super) type Owners = BTreeMap<Owner, Owned>;

/// Reads an object's entries; `None` if one is broken.
pub(super) fn read(object: &Value) -> Option<Owners> {
    let entries = object.pointer("/metadata/managedFields");
    let entries = entries.and_then(Value::as_array);
    entries.into_iter().flatten().map(read_entry).collect()
}

fn read_entry(entry: &Value) -> Option<(Owner, Owned)> {
    let text = |name: &str| entry.get(name).and_then(Value::as_str).unwrap_or_default();
    let operation = match text("operation") {
        "Apply" => Operation::Apply,
        "Update" => Operation::Update,
        _ => return None,
    };
    let version = text("apiVersion").to_owned();
    if version.is_empty() || text("fieldsType") != "FieldsV1" {
        return None;
    }
    let owner = Owner {
        manager: text("manager").to_owned(),
        operation,
        version: match operation {
            Operation::Apply => String::new(),
            Operation::Update => version.clone(),
        },
        subresource: text("subresource").to_owned(),
    };
    let owned = Owned {
        version,
        fields: entry
            .get("fieldsV1")
            .map(Set::from_json)
            .unwrap_or_default(),
        time: entry.get("time").and_then(Value::as_str).map(str::to_owned),
    };
    Some((owner, owned))
}

/// Writes entries into an object: by operation, then age, then name.
pub(super) fn write(object: &mut Value, owners: Owners) {
    let Some(metadata) = object
        .as_object_mut()
        .map(|map| map.entry("metadata").or_insert_with(|| json!({})))
        .and_then(Value::as_object_mut)
    else {
        return;
    };
    metadata.remove("managedFields");
    if owners.is_empty() {
        return;
    }
    let mut entries: Vec<(Owner, Owned)> = owners.into_iter().collect();
    entries.sort_by(compare);
    let entries = entries.into_iter().map(write_entry).collect();
    metadata.insert("managedFields".to_owned(), entries);
}

fn compare((left, a): &(Owner, Owned), (right, b): &(Owner, Owned)) -> Ordering {
    left.operation
        .cmp(&right.operation)
        // All times are written alike, to the second and in UTC: their texts sort.
        .then_with(|| a.time.cmp(&b.time))
        .then_with(|| left.manager.cmp(&right.manager))
        .then_with(|| a.version.cmp(&b.version))
        .then_with(|| left.subresource.cmp(&right.subresource))
}

fn write_entry((owner, owned): (Owner, Owned)) -> Value {
    let mut entry = Map::new();
    entry.insert("manager".to_owned(), owner.manager.into());
    entry.insert("operation".to_owned(), owner.operation.name().into());
    entry.insert("apiVersion".to_owned(), owned.version.into());
    if let Some(time) = owned.time {
        entry.insert("time".to_owned(), time.into());
    }
    entry.insert("fieldsType".to_owned(), "FieldsV1".into());
    entry.insert("fieldsV1".to_owned(), owned.fields.to_json());
    if !owner.subresource.is_empty() {
        entry.insert("subresource".to_owned(), owner.subresource.into());
    }
    entry.into()
}

/// Entries of updates kept apart: the limit of a real server, which bounds an object's size.
const UPDATERS: usize = 10;

/// Where older updates go.
const ANCIENT: &str = "ancient-changes";

/// Folds the oldest updates into one entry when there are too many.
pub(super) fn fold_oldest(owners: &mut Owners) {
    let mut updaters: Vec<(Option<String>, Owner)> = owners
        .iter()
        .filter(|(owner, _)| owner.operation == Operation::Update)
        .map(|(owner, owned)| (owned.time.clone(), owner.clone()))
        .collect();
    updaters.sort();
    let mut count = updaters.len();
    let mut first: BTreeMap<String, Owner> = BTreeMap::new();
    for (time, owner) in updaters {
        if count <= UPDATERS {
            break;
        }
        let Some(before) = first.get(&owner.version) else {
            first.insert(owner.version.clone(), owner);
            continue;
        };
        let bucket = Owner {
            manager: ANCIENT.to_owned(),
            operation: Operation::Update,
            version: owner.version.clone(),
            subresource: String::new(),
        };
        if !owners.contains_key(&bucket)
            && let Some(owned) = owners.remove(before)
        {
            owners.insert(bucket.clone(), owned);
        }
        if let Some(folded) = owners.remove(&owner) {
            let into = owners.entry(bucket).or_default();
            into.fields = into.fields.union(&folded.fields);
            into.version = folded.version;
            into.time = time;
        }
        count -= 1;
    }
}
