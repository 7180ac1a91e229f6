//! Building blocks of the plans of both modes.

use bowline_core::{Change, Impact, Publication, ResourceRef, StepId, StepNote};
use serde_json::{Map, Value, json};
use uuid::Uuid;

use super::firewall::RuleChange;
use super::settings::table;
use crate::api::{Account, FirewallRule, Machine, TagValue};
use crate::tags::{self, Item, SERVICES, Tags};

// Kinds of objects in plans.
pub(crate) const MACHINE: &str = "machine";
pub(crate) const LABEL: &str = "DNS service";
pub(crate) const NAME: &str = "DNS name";

/// An object that exists.
pub(crate) fn there(kind: &'static str, name: &str, id: &Uuid) -> ResourceRef {
    ResourceRef {
        id: Some(id.to_string()),
        ..new(kind, name)
    }
}

pub(crate) fn seen(machine: &Machine) -> ResourceRef {
    there(MACHINE, &machine.name, &machine.id)
}

pub(crate) fn new(kind: &'static str, name: &str) -> ResourceRef {
    ResourceRef {
        kind,
        name: name.to_owned(),
        id: None,
    }
}

pub(crate) fn note<'a>(
    impact: Impact,
    reason: Option<&'a str>,
    needs: &'a [StepId],
) -> StepNote<'a> {
    StepNote {
        impact,
        reason,
        needs,
    }
}

pub(crate) fn change(field: &str, before: impl Into<Value>, after: impl Into<Value>) -> Change {
    Change {
        field: field.to_owned(),
        before: before.into(),
        after: after.into(),
    }
}

/// The step that switches the name service on.
pub(crate) fn push_names<A>(
    builder: &mut bowline_core::PlanBuilder<A>,
    account: &Account,
    why: &str,
    action: A,
) {
    let object = there("account", &account.login, &account.id);
    let changes = vec![change("triton_cns_enabled", false, true)];
    let note = note(Impact::None, Some(why), &[]);
    builder.change(object, changes, &note, action);
}

/// The step that changes a firewall rule; `rules` are those that there are.
pub(crate) fn push_rule<A>(
    builder: &mut bowline_core::PlanBuilder<A>,
    rule: &RuleChange,
    rules: &[FirewallRule],
    action: A,
) {
    let kind = "firewall rule";
    let name = rule.name();
    let in_place = note(Impact::InPlace, None, &[]);
    match rule {
        RuleChange::Create(rule) => {
            let body = Map::from_iter([("rule".to_owned(), json!(rule.rule))]);
            let note = note(Impact::None, None, &[]);
            builder.create(new(kind, name), &body, &note, action);
        }
        RuleChange::Update { id, rule } => {
            let former = rules.iter().find(|it| it.id == *id);
            let former = former.map(|it| it.rule.clone());
            let changes = vec![change("rule", former, rule.rule.clone())];
            builder.change(there(kind, name, id), changes, &in_place, action);
        }
        RuleChange::Delete { id, .. } => {
            builder.delete(there(kind, name, id), &in_place, action);
        }
    }
}

/// The publication of a Service that is no longer served.
pub(crate) fn withdrawn() -> Publication {
    let own = [table::STATUS.key, table::INSTANCES.key];
    Publication {
        withdrawn: own.map(str::to_owned).into(),
        ..Publication::default()
    }
}

/// The entries for the name service that a machine has, as far as they can be understood.
pub(crate) fn services(machine_tags: &Tags) -> Vec<Item> {
    let text = machine_tags.get(SERVICES).and_then(TagValue::as_text);
    tags::services(text.unwrap_or_default()).unwrap_or_default()
}
