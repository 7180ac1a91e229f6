//! The rules of ownership for one kind and resource.

use serde_json::Value;

use super::{
    LAST_APPLIED, Writer,
    entries::{Operation, Owned, Owner, Owners},
    fields::{Set, Shape, Step},
    walk::{self, Comparison},
    without_nulls,
};
use crate::{
    kinds::Kind,
    schema::{self, catalogue},
};

/// Who owns what somebody wants to change.
pub(super) type Conflicts = Vec<(Owner, Vec<Step>)>;

/// How ownership descends into objects of a kind.
pub(super) fn root(kind: &Kind) -> Shape {
    match schema::type_of(kind) {
        schema::Type::Struct(place) => catalogue().at(place).map_or(Shape::Leaf, Shape::Struct),
        _ => Shape::Leaf,
    }
}

/// Fields nobody owns: identity, and what only the server sets.
fn never_owned() -> Set {
    Set::of(&[
        &["apiVersion"],
        &["kind"],
        &["metadata"],
        &["metadata", "name"],
        &["metadata", "namespace"],
        &["metadata", "creationTimestamp"],
        &["metadata", "selfLink"],
        &["metadata", "uid"],
        &["metadata", "clusterName"],
        &["metadata", "generation"],
        &["metadata", "managedFields"],
        &["metadata", "resourceVersion"],
    ])
}

/// Fields that a write through this resource does not change, and so does not own.
fn out_of_reach(kind: &Kind, subresource: Option<&str>) -> Set {
    match (kind.kind, subresource) {
        ("Node" | "Service" | "Namespace" | "Pod", None) | ("Namespace", Some("finalize")) => {
            Set::of(&[&["status"]])
        }
        ("Node" | "Service" | "Namespace", Some("status")) => Set::of(&[&["spec"]]),
        ("Pod", Some("status")) => Set::of(&[
            &["spec"],
            &["metadata", "deletionTimestamp"],
            &["metadata", "ownerReferences"],
        ]),
        ("CertificateSigningRequest", None) => Set::of(&[&["spec"], &["status"]]),
        ("CertificateSigningRequest", Some("status")) => {
            Set::of(&[&["spec"], &["status", "conditions"]])
        }
        ("CertificateSigningRequest", Some("approval")) => {
            Set::of(&[&["spec"], &["status", "certificate"]])
        }
        _ => Set::default(),
    }
}

/// The rules for one kind and resource.
pub(super) struct Ledger<'a> {
    kind: &'a Kind,
    shape: Shape,
    ignored: Set,
}

impl<'a> Ledger<'a> {
    pub(super) fn new(kind: &'a Kind, subresource: Option<&str>) -> Self {
        Self {
            kind,
            shape: root(kind),
            ignored: out_of_reach(kind, subresource),
        }
    }

    fn compare(&self, before: &Value, after: &Value) -> Comparison {
        Comparison::new(self.shape, before, after).without(&self.ignored)
    }

    /// Entries of versions that are not served mean nothing any more.
    fn drop_foreign(&self, owners: &mut Owners) {
        let version = self.kind.api_version();
        owners.retain(|_, owned| owned.version == version);
    }

    pub(super) fn update(
        &self,
        before: &Value,
        after: &Value,
        mut owners: Owners,
        writer: &Writer,
    ) -> Owners {
        self.drop_foreign(&mut owners);
        let change = self.compare(before, after);
        let touched = change.modified.union(&change.added);
        lose(&mut owners, &touched.union(&change.removed), None);
        let taken = touched.difference(&never_owned());
        if !taken.is_empty() {
            let owner = writer.owner(self.kind, Operation::Update);
            let owned = owners.entry(owner).or_default();
            owned.version = self.kind.api_version();
            owned.fields = owned.fields.union(&taken);
            owned.time = Some(writer.stamp());
        }
        owners
    }

    pub(super) fn apply(
        &self,
        live: &Value,
        config: &Value,
        mut owners: Owners,
        writer: &Writer,
        force: bool,
    ) -> Result<(Value, Owners), Conflicts> {
        self.drop_foreign(&mut owners);
        let me = writer.owner(self.kind, Operation::Apply);
        let merged = walk::merge(self.shape, Some(live), Some(config)).unwrap_or_default();
        let last = owners.remove(&me).unwrap_or_default();
        let mine = walk::fields(self.shape, config).without_trees(&self.ignored);
        owners.insert(
            me.clone(),
            Owned {
                version: self.kind.api_version(),
                fields: mine,
                time: last.time,
            },
        );
        let object = self.prune(merged, &owners, &last.fields);
        let change = self.compare(live, &object);
        let touched = change.modified.union(&change.added);
        let conflicts = conflicts(&owners, &touched, &me);
        if !force && !conflicts.is_empty() {
            return Err(conflicts);
        }
        lose(&mut owners, &touched.union(&change.removed), Some(&me));
        Self::settle(&mut owners, &me, *live != object, writer);
        let object = if *live == object {
            live.clone()
        } else {
            object
        };
        Ok((without_nulls(object), owners))
    }

    /// Finishes the applier's own entry.
    fn settle(owners: &mut Owners, me: &Owner, changed: bool, writer: &Writer) {
        let Some(owned) = owners.get_mut(me) else {
            return;
        };
        owned.fields = owned.fields.difference(&never_owned());
        if owned.fields.is_empty() {
            owners.remove(me);
        } else if changed {
            owned.time = Some(writer.stamp());
        }
    }

    /// Takes out what this manager applied before and nobody owns now.
    fn prune(&self, merged: Value, owners: &Owners, last: &Set) -> Value {
        if last.is_empty() {
            return merged;
        }
        let last = last.with_parents(self.shape);
        let pruned = walk::remove(self.shape, &merged, &last);
        let all = walk::fields(self.shape, &merged).with_parents(self.shape);
        let owned = owners
            .values()
            .fold(Set::default(), |all, owned| all.union(&owned.fields));
        // What others own comes back …
        let left = walk::fields(self.shape, &pruned).with_parents(self.shape);
        let kept = left.union(&owned.with_parents(self.shape));
        let pruned = walk::remove(self.shape, &merged, &all.difference(&kept));
        // … and so does what was never this manager's.
        let left = walk::fields(self.shape, &pruned).with_parents(self.shape);
        let gone = all.difference(&left).intersection(&last);
        walk::remove(self.shape, &merged, &gone)
    }

    /// What client-side apply wrote last and is still so: taking that over is no conflict.
    pub(super) fn last_applied(&self, live: &Value) -> Set {
        let config = live
            .get("metadata")
            .and_then(|metadata| metadata.get("annotations")?.get(LAST_APPLIED)?.as_str())
            .and_then(|text| serde_json::from_str::<Value>(text).ok());
        match config {
            Some(config) if config["apiVersion"] == self.kind.api_version().as_str() => {
                let change = Comparison::new(self.shape, &config, live);
                walk::fields(self.shape, &config)
                    .difference(&change.modified)
                    .difference(&change.added)
                    .difference(&change.removed)
            }
            _ => Set::default(),
        }
    }
}

fn conflicts(owners: &Owners, touched: &Set, me: &Owner) -> Conflicts {
    let mut others: Vec<(&Owner, &Owned)> = owners.iter().filter(|(o, _)| *o != me).collect();
    others.sort_by_key(|(owner, _)| owner.identity());
    others
        .into_iter()
        .flat_map(|(owner, owned)| {
            let paths = owned.fields.intersection(touched).paths();
            paths.into_iter().map(|path| (owner.clone(), path))
        })
        .collect()
}

/// Everybody but one loses these fields; who has none left goes.
fn lose(owners: &mut Owners, fields: &Set, except: Option<&Owner>) {
    for (owner, owned) in owners.iter_mut() {
        if Some(owner) != except {
            owned.fields = owned.fields.difference(fields);
        }
    }
    owners.retain(|owner, owned| Some(owner) == except || !owned.fields.is_empty());
}
