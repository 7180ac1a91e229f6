//! Delete, of one object or of a collection.

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::{Call, body, namespaces, success};
use crate::kinds::Kind;
use crate::list::{self, ListOptions};
use crate::object::{has_finalizers, seconds, text};
use crate::request::Query;
use crate::respond::Reply;
use crate::status::Refusal;
use crate::store::State;
use crate::strategy::problem::{Problem, check_options};
use crate::{respond, store};

/// How to delete.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeleteOptions {
    grace: Option<i64>,
    uid: Option<String>,
    version: Option<String>,
    dry_run: bool,
}

/// What became of a deleted object.
pub enum Outcome {
    /// It is gone; this was its last state.
    Gone(Value),
    /// It waits for its finalizers or its grace period.
    Waiting(Value),
}

impl DeleteOptions {
    /// Options from the body if there is one, else from the query.
    pub fn parse(call: &Call) -> Result<Self, Refusal> {
        let given = if call.body.is_empty() {
            from_query(&call.query)?
        } else {
            let given = body::read(&call.headers, &call.body)?.map_err(Refusal::bad_request)?;
            check_kind(&given)?;
            given
        };
        Self::check(&given)
    }

    /// Checks a `DeleteOptions` document.
    pub fn check(given: &Value) -> Result<Self, Refusal> {
        let mut problems = Vec::new();
        let policy = text(given, "/propagationPolicy");
        if !policy.is_empty() && !given["orphanDependents"].is_null() {
            let detail = "orphanDependents and deletionPropagation cannot be both set";
            let value = json!(policy);
            problems.push(Problem::invalid("propagationPolicy", &value, detail));
        }
        let known = ["Foreground", "Background", "Orphan"];
        if !policy.is_empty() && !known.contains(&policy) {
            let value = json!(policy);
            let known = ["Foreground", "Background", "Orphan", "nil"];
            problems.push(Problem::unsupported("propagationPolicy", &value, &known));
        }
        for value in given["dryRun"].as_array().into_iter().flatten() {
            problems.extend(Problem::unless_known("dryRun", value, &["All"]));
        }
        check_options("DeleteOptions", &problems)?;
        let precondition = |field: &str| given["preconditions"][field].as_str().map(str::to_owned);
        Ok(Self {
            // Negative periods count as the shortest.
            grace: given["gracePeriodSeconds"]
                .as_i64()
                .map(|grace| if grace < 0 { 1 } else { grace }),
            uid: precondition("uid"),
            version: precondition("resourceVersion"),
            dry_run: given["dryRun"]
                .as_array()
                .is_some_and(|list| !list.is_empty()),
        })
    }
}

/// Refuses a body that is something else.
fn check_kind(given: &Value) -> Result<(), Refusal> {
    let kind = text(given, "/kind");
    if kind.is_empty() || kind == "DeleteOptions" {
        return Ok(());
    }
    let version = text(given, "/apiVersion");
    Err(Refusal::bad_request(format!(
        "no kind {kind:?} is registered for version {version:?} in scheme \"pkg/runtime/scheme.go:111\""
    )))
}

fn from_query(query: &Query) -> Result<Value, Refusal> {
    let mut given = json!({});
    if let Some(grace) = query.maybe("gracePeriodSeconds") {
        let seconds: i64 = grace.parse().map_err(|_| {
            Refusal::bad_request(format!(
                "strconv.ParseInt: parsing {grace:?}: invalid syntax"
            ))
        })?;
        given["gracePeriodSeconds"] = seconds.into();
    }
    if let Some(policy) = query.maybe("propagationPolicy") {
        given["propagationPolicy"] = policy.into();
    }
    if let Some(orphan) = query.flag("orphanDependents") {
        given["orphanDependents"] = orphan.into();
    }
    let dry_run = query.all("dryRun");
    if !dry_run.is_empty() {
        given["dryRun"] = dry_run.into();
    }
    Ok(given)
}

/// Kinds whose deletion answers with the object, not with a `Status`.
fn returns_object(kind: &Kind) -> bool {
    kind.group.is_empty() && matches!(kind.kind, "Pod" | "Service" | "ServiceAccount")
}

/// Answers the deletion of one object.
pub fn delete(call: &Call, state: &mut State) -> Result<Reply, Refusal> {
    let options = DeleteOptions::parse(call)?;
    let old = state
        .get(call.kind, &call.path())
        .ok_or_else(|| Refusal::not_found(call.kind, &call.name))?;
    Ok(match remove(call, state, &old, &options)? {
        Outcome::Waiting(object) => Reply::object(200, object),
        Outcome::Gone(object) if returns_object(call.kind) => Reply::object(200, object),
        Outcome::Gone(object) => Reply::document(200, success(call.kind, &object)),
    })
}

/// Answers the deletion of all selected objects: the list as it was.
pub fn delete_collection(call: &Call, state: &mut State) -> Result<Reply, Refusal> {
    let options = DeleteOptions::parse(call)?;
    let selection = ListOptions::parse(call.kind, &call.query)?;
    let namespace = (!call.namespace.is_empty()).then_some(call.namespace.as_str());
    let reply = list::list(state, call.kind, namespace, &selection)?;
    let places: Vec<String> = respond::items(&reply.body)
        .iter()
        .map(|item| {
            store::path(
                text(item, "/metadata/namespace"),
                text(item, "/metadata/name"),
            )
        })
        .collect();
    for place in places {
        if let Some(old) = state.get(call.kind, &place) {
            remove(call, state, &old, &options)?;
        }
    }
    Ok(reply)
}

/// Deletes one object, or marks it as being deleted.
///
/// There is no garbage collector here, so nothing ever depends on an object: whatever the
/// propagation policy, an object without other finalizers goes at once.
pub fn remove(
    call: &Call,
    state: &mut State,
    old: &Arc<Value>,
    options: &DeleteOptions,
) -> Result<Outcome, Refusal> {
    check_preconditions(call.kind, old, options)?;
    let place = store::path(
        text(old, "/metadata/namespace"),
        text(old, "/metadata/name"),
    );
    if call.kind.kind == "Namespace" {
        return namespaces::remove(call.kind, state, old, call.now, options.dry_run);
    }
    let dry_run = options.dry_run || call.dry_run();
    let marked = match grace(call.kind, old, options) {
        Some(grace) if grace > 0 => shorten(old, grace, call.now),
        _ if has_finalizers(old) => mark(old, call.now),
        _ => {
            let mut last = (**old).clone();
            if !dry_run {
                state.remove(call.kind, &place);
                last["metadata"]["resourceVersion"] = state.revision().to_string().into();
            }
            if last["metadata"].get("deletionGracePeriodSeconds").is_some() {
                last["metadata"]["deletionGracePeriodSeconds"] = json!(0);
            }
            return Ok(Outcome::Gone(last));
        }
    };
    if marked == **old || dry_run {
        return Ok(Outcome::Waiting(marked));
    }
    let saved = state.save(call.kind, &place, marked);
    Ok(Outcome::Waiting((*saved).clone()))
}

fn check_preconditions(kind: &Kind, old: &Value, options: &DeleteOptions) -> Result<(), Refusal> {
    let rows = [
        ("UID", "uid", &options.uid, "deleted and then recreated"),
        (
            "ResourceVersion",
            "resourceVersion",
            &options.version,
            "modified",
        ),
    ];
    for (label, field, wanted, fate) in rows {
        let found = old["metadata"][field].as_str().unwrap_or_default();
        if let Some(wanted) = wanted
            && wanted != found
        {
            let name = text(old, "/metadata/name");
            let why = format!(
                "the {label} in the precondition ({wanted}) does not match the {label} in record ({found}). The object might have been {fate}"
            );
            // Here the server names the kind where it otherwise names the resource.
            let mut refusal = Refusal::conflict(kind, name, &why);
            let qualified = match kind.group {
                "" => kind.kind.to_owned(),
                group => format!("{}.{group}", kind.kind),
            };
            refusal.message =
                format!("Operation cannot be fulfilled on {qualified} {name:?}: {why}");
            refusal.details["kind"] = kind.kind.into();
            return Err(refusal);
        }
    }
    Ok(())
}

/// How long a pod may still run; none for what is not stopped but just deleted.
fn grace(kind: &Kind, old: &Value, options: &DeleteOptions) -> Option<i64> {
    if kind.kind != "Pod" {
        return None;
    }
    if text(old, "/spec/nodeName").is_empty()
        || matches!(text(old, "/status/phase"), "Failed" | "Succeeded")
    {
        return Some(0);
    }
    let default = old["spec"]["terminationGracePeriodSeconds"]
        .as_i64()
        .unwrap_or(30);
    let wanted = options.grace.unwrap_or(default);
    match old["metadata"]["deletionGracePeriodSeconds"].as_i64() {
        // The period of a pod that is already being deleted can only be made shorter.
        Some(current) if options.grace.is_none_or(|wanted| wanted >= current) => Some(current),
        _ => Some(wanted),
    }
}

/// The object, marked as being deleted now.
pub fn mark(old: &Value, now: Timestamp) -> Value {
    let mut object = old.clone();
    let metadata = &mut object["metadata"];
    if metadata["deletionTimestamp"].is_null() {
        bump(metadata);
        metadata["deletionTimestamp"] = seconds(now).into();
    }
    metadata["deletionGracePeriodSeconds"] = json!(0);
    object
}

/// The object, marked as being deleted after its grace period.
fn shorten(old: &Value, grace: i64, now: Timestamp) -> Value {
    let mut object = old.clone();
    let metadata = &mut object["metadata"];
    let start = match metadata["deletionTimestamp"]
        .as_str()
        .and_then(|time| time.parse::<Timestamp>().ok())
    {
        None => {
            bump(metadata);
            now
        }
        Some(end) => {
            let current = metadata["deletionGracePeriodSeconds"].as_i64().unwrap_or(0);
            if current == grace {
                return object;
            }
            end.saturating_sub(SignedDuration::from_secs(current))
                .unwrap_or(now)
        }
    };
    let end = start
        .saturating_add(SignedDuration::from_secs(grace))
        .unwrap_or(now);
    metadata["deletionTimestamp"] = seconds(end.max(now)).into();
    metadata["deletionGracePeriodSeconds"] = grace.into();
    object
}

/// A deletion counts as a change of what is wanted.
fn bump(metadata: &mut Value) {
    if let Some(generation) = metadata["generation"].as_i64()
        && generation > 0
    {
        metadata["generation"] = (generation + 1).into();
    }
    if metadata["generation"].is_null()
        && let Some(map) = metadata.as_object_mut()
    {
        map.remove("generation");
    }
}
