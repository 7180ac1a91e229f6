//! A plan in the making: steps for people, and beside each what is to be done.

use std::net::IpAddr;

use bowline_core::{Change, StepId};
pub(crate) use bowline_provider::plan::{new, seen};
use serde_json::{Map, Value};
use uuid::Uuid;

/// A pool that exists, or will by the time that step is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PoolRef {
    Seen(Uuid),
    Made(StepId),
}

/// What a step does. Bodies are complete but for the ids of what is made in the same plan.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Action {
    CreateBalancer(Map<String, Value>),
    ChangeBalancer(Map<String, Value>),
    /// The load balancer is another's again.
    ReleaseBalancer {
        id: Uuid,
        body: Map<String, Value>,
    },
    DeleteBalancer(Uuid),
    /// Until the cloud is no longer at work on it.
    AwaitBalancer,
    /// The same before a deletion: gone is as good.
    AwaitBalancerOrItsEnd(Uuid),
    AwaitItsEnd(Uuid),
    CreatePool(Map<String, Value>),
    DeletePool(Uuid),
    CreateMember {
        pool: PoolRef,
        body: Map<String, Value>,
        node: String,
        after_delete: bool,
    },
    ChangeMember {
        pool: Uuid,
        id: Uuid,
        body: Map<String, Value>,
    },
    DeleteMember {
        pool: Uuid,
        id: Uuid,
    },
    CreateListener {
        pool: PoolRef,
        body: Map<String, Value>,
        after_delete: bool,
    },
    ChangeListener {
        id: Uuid,
        body: Map<String, Value>,
    },
    DeleteListener(Uuid),
    CreateMonitor {
        pool: PoolRef,
        body: Map<String, Value>,
        after_delete: bool,
    },
    ChangeMonitor {
        id: Uuid,
        body: Map<String, Value>,
    },
    DeleteMonitor(Uuid),
    MoveFloatingIp(IpAddr),
}

/// A plan and, for each step, what it does.
pub(crate) type PlanBuilder = bowline_core::PlanBuilder<Action>;

/// One attribute from what it is to what it becomes.
pub(crate) fn attribute(
    field: &str,
    before: impl Into<Value>,
    after: impl Into<Value>,
) -> (Change, Map<String, Value>) {
    let (before, after) = (before.into(), after.into());
    let mut body = Map::new();
    // `http.method` is sent as {"http": {"method": …}}.
    match field.split_once('.') {
        Some((outer, inner)) => {
            let mut nested = Map::new();
            nested.insert(inner.to_owned(), after.clone());
            body.insert(outer.to_owned(), Value::Object(nested));
        }
        None => {
            body.insert(field.to_owned(), after.clone());
        }
    }
    let change = Change {
        field: field.to_owned(),
        before,
        after,
    };
    (change, body)
}
