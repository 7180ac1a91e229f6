//! Finds what a request may have made although its answer got lost. If nothing is there, the error
//! stands: the next plan looks again before it creates anything.

use bowline_core::{CloudError, CloudErrorKind, StepOutcome};
use bowline_http::CallError;
use serde_json::{Map, Value};
use uuid::Uuid;

use super::super::ownership::SERVICE_TAG;
use super::is_lost;
use crate::api::{Api, LoadBalancer};

fn text<'a>(body: &'a Map<String, Value>, key: &str) -> &'a str {
    body.get(key).and_then(Value::as_str).unwrap_or_default()
}

fn id(body: &Map<String, Value>, key: &str) -> Option<Uuid> {
    Uuid::try_parse(text(body, key)).ok()
}

fn port(body: &Map<String, Value>) -> Option<u64> {
    body.get("protocol_port").and_then(Value::as_u64)
}

/// The Service in the mark of what is to be made.
fn mark(body: &Map<String, Value>) -> Option<&str> {
    body.get("tags")?.get(SERVICE_TAG)?.as_str()
}

/// Whether a load balancer has the mark that was asked for, if one was.
pub(super) fn carries(balancer: &LoadBalancer, body: &Map<String, Value>) -> bool {
    let theirs = balancer.tags.get(SERVICE_TAG).map(String::as_str);
    mark(body).is_none_or(|ours| theirs == Some(ours))
}

/// The load balancer of that name, by a list of this very moment.
pub(super) async fn balancer(
    api: &Api,
    body: &Map<String, Value>,
) -> Result<Option<LoadBalancer>, CloudError> {
    let name = text(body, "name");
    let list = api.load_balancers().await?;
    let mut bad = list.bad.iter();
    if let Some(bad) = bad.find(|bad| bad.name.as_deref().is_none_or(|it| it == name)) {
        return Err(bad.into());
    }
    let mut named = list.items.into_iter().filter(|it| it.name == name);
    match (named.next(), named.next()) {
        (one, None) => Ok(one),
        (_, Some(_)) => Err(CloudError::new(
            CloudErrorKind::Conflict,
            format!("found more than one load balancer by the name {name:?}"),
        )),
    }
}

/// The pool that was to be made.
pub(super) async fn pool(
    api: &Api,
    body: &Map<String, Value>,
    error: CallError,
) -> Result<Uuid, CloudError> {
    if !is_lost(&error) {
        return Err(error.into());
    }
    let Ok(list) = api.pools().await else {
        return Err(error.into());
    };
    let found = list.items.iter().find(|it| {
        it.load_balancer == id(body, "load_balancer")
            && it.name == text(body, "name")
            && it.algorithm == text(body, "algorithm")
            && it.protocol == text(body, "protocol")
    });
    found.map(|it| it.uuid).ok_or_else(|| error.into())
}

/// The member that was to be made.
pub(super) async fn member(
    api: &Api,
    pool: Uuid,
    body: &Map<String, Value>,
    error: CallError,
) -> Result<StepOutcome, CloudError> {
    if is_lost(&error) && is_member(api, pool, body).await {
        return Ok(StepOutcome::Done);
    }
    Err(error.into())
}

/// Whether the pool has a member like that.
pub(super) async fn is_member(api: &Api, pool: Uuid, body: &Map<String, Value>) -> bool {
    let Ok(list) = api.members(pool).await else {
        return false;
    };
    list.items.iter().any(|it| {
        it.address == text(body, "address")
            && Some(u64::from(it.protocol_port)) == port(body)
            && it.monitor_port.map(u64::from) == body.get("monitor_port").and_then(Value::as_u64)
            && it.subnet == id(body, "subnet")
    })
}

/// The listener that was to be made.
pub(super) async fn listener(
    api: &Api,
    body: &Map<String, Value>,
    error: CallError,
) -> Result<StepOutcome, CloudError> {
    if is_lost(&error)
        && let Ok(list) = api.listeners().await
        && list.items.iter().any(|it| {
            it.pool == id(body, "pool")
                && it.protocol == text(body, "protocol")
                && Some(u64::from(it.protocol_port)) == port(body)
        })
    {
        return Ok(StepOutcome::Done);
    }
    Err(error.into())
}

/// The monitor of that pool.
pub(super) async fn monitor(
    api: &Api,
    pool: Uuid,
    error: CallError,
) -> Result<StepOutcome, CloudError> {
    if is_lost(&error)
        && let Ok(list) = api.monitors().await
        && list.items.iter().any(|it| it.pool == Some(pool))
    {
        return Ok(StepOutcome::Done);
    }
    Err(error.into())
}
