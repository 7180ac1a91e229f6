//! From what is wanted and what is there to the steps between. Pure.
//!
//! The order is the specification's: rename; pools that nobody wants and that hold no wanted port;
//! listeners without a pool that hold one; new pools; in each pool members (new ones first), the
//! listener, the monitor; pools that held a wanted port until now; attributes; floating IPs; tags.
//! So a new pool is complete before the listener moves to it, a pool is never without members
//! because of us as long as others are wanted, and no port ever leads to members of another.

mod attributes;
mod builder;
mod children;
mod compare;
mod members;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use bowline_core::{Impact, StepId};
use serde_json::json;
use uuid::Uuid;

use super::desire::{Wanted, WantedPool};
use super::ownership::{SERVICE_TAG, without_mark};
use crate::api::{FloatingIp, Listener, LoadBalancer, Member, Monitor, Pool};
use bowline_core::StepNote;
use builder::attribute;
pub(crate) use builder::{Action, PlanBuilder, PoolRef, new, seen};
use compare::choose;
pub(crate) use compare::refusals;

// Kinds of objects in plans.
pub(crate) const BALANCER: &str = "load balancer";
pub(crate) const POOL: &str = "pool";
pub(crate) const LISTENER: &str = "listener";
pub(crate) const MONITOR: &str = "health monitor";
pub(crate) const MEMBER: &str = "member";
pub(crate) const FLOATING_IP: &str = "floating IP";

/// A member by its name and that of its pool.
pub(crate) fn in_pool(member: &str, pool: &str) -> String {
    format!("{member} in {pool}")
}

/// A load balancer and everything that belongs to it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Seen {
    pub(crate) balancer: LoadBalancer,
    pub(crate) pools: Vec<SeenPool>,
    /// Listeners of the load balancer that have no pool.
    pub(crate) loose: Vec<Listener>,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct SeenPool {
    pub(crate) pool: Pool,
    pub(crate) members: Vec<Member>,
    pub(crate) listeners: Vec<Listener>,
    pub(crate) monitors: Vec<Monitor>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scope {
    Everything,
    /// Members of pools that exist: something else is wrong, and traffic must go on.
    Members,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Circumstances<'a> {
    pub(crate) scope: Scope,
    /// Tags come first: nothing marks the load balancer as this Service's yet.
    pub(crate) marking: bool,
    /// The floating IPs of the project, if some are wanted.
    pub(crate) floating_ips: &'a [FloatingIp],
}

/// The plan of a load balancer that does not exist, in that zone.
pub(crate) fn build(wanted: &Wanted, zone: &str, floating_ips: &[FloatingIp]) -> PlanBuilder {
    let mut builder = PlanBuilder::default();
    let body = wanted.body(zone);
    let object = new(BALANCER, &wanted.name);
    let nothing = note(Impact::None, None, &[]);
    let made = builder.create(
        object.clone(),
        &body,
        &nothing,
        Action::CreateBalancer(body.clone()),
    );
    let needs = [made];
    let after = note(Impact::None, Some("it is being made"), &needs);
    let ready = builder.wait(object, &after, Action::AwaitBalancer);
    let mut planner = Planner::new(wanted, None, &mut builder, vec![ready]);
    planner.pools();
    planner.floating_ips(floating_ips);
    finish(&mut builder, new(BALANCER, &wanted.name));
    builder
}

/// The plan of a load balancer that exists.
pub(crate) fn reconcile(wanted: &Wanted, there: &Seen, around: Circumstances<'_>) -> PlanBuilder {
    let mut builder = PlanBuilder::default();
    let balancer = &there.balancer;
    let object = || seen(BALANCER, &balancer.name, balancer.uuid);
    let mut needs = Vec::new();
    if balancer.is_changing() {
        let why = note(Impact::None, Some("the cloud is at work on it"), &[]);
        needs.push(builder.wait(object(), &why, Action::AwaitBalancer));
    }
    let waits = builder.actions.len();
    let mut planner = Planner::new(wanted, Some(there), &mut builder, needs);
    if around.marking {
        planner.tags();
    }
    if around.scope == Scope::Members {
        planner.members_alone();
    } else {
        planner.rename();
        planner.pools();
        planner.attributes();
        planner.floating_ips(around.floating_ips);
        if !around.marking {
            planner.tags();
        }
    }
    if builder.actions.len() > waits {
        finish(&mut builder, object());
    }
    builder
}

/// Adds the end of a load balancer that nobody wants any more, after everything else.
pub(crate) fn remove(builder: &mut PlanBuilder, balancer: &LoadBalancer) {
    let id = balancer.uuid;
    let object = || seen(BALANCER, &balancer.name, id);
    let mut needs: Vec<StepId> = (0..builder.actions.len()).collect();
    if balancer.is_changing() {
        let why = note(Impact::None, Some("the cloud is at work on it"), &needs);
        needs.push(builder.wait(object(), &why, Action::AwaitBalancerOrItsEnd(id)));
    }
    let why = note(Impact::Destroys, Some("no Service wants it"), &needs);
    let deleted = builder.delete(object(), &why, Action::DeleteBalancer(id));
    let needs = [deleted];
    let after = note(Impact::None, Some("it is being removed"), &needs);
    builder.wait(object(), &after, Action::AwaitItsEnd(id));
}

/// Adds the end of what we made on a load balancer that was there before, and stays. The mark goes
/// last.
pub(crate) fn release(builder: &mut PlanBuilder, there: &Seen, service_uid: &str) {
    let balancer = &there.balancer;
    let object = || seen(BALANCER, &balancer.name, balancer.uuid);
    let mut needs: Vec<StepId> = (0..builder.actions.len()).collect();
    if balancer.is_changing() {
        let why = note(Impact::None, Some("the cloud is at work on it"), &needs);
        needs.push(builder.wait(object(), &why, Action::AwaitBalancerOrItsEnd(balancer.uuid)));
    }
    let is_ours =
        |it: &&SeenPool| it.pool.tags.get(SERVICE_TAG).map(String::as_str) == Some(service_uid);
    let pools: Vec<&SeenPool> = there.pools.iter().filter(is_ours).collect();
    let reason = Some("it was made for the Service on a load balancer that stays");
    for pool in pools {
        for listener in &pool.listeners {
            let object = seen(LISTENER, &listener.name, listener.uuid);
            let why = note(Impact::Interrupts, reason, &needs);
            let action = Action::DeleteListener(listener.uuid);
            needs.push(builder.delete(object, &why, action));
        }
        let object = seen(POOL, &pool.pool.name, pool.pool.uuid);
        let why = note(Impact::None, reason, &needs);
        let action = Action::DeletePool(pool.pool.uuid);
        needs.push(builder.delete(object, &why, action));
    }
    let (before, after) = (json!(balancer.tags), json!(without_mark(balancer)));
    let (change, body) = attribute("tags", before, after);
    let why = note(Impact::None, Some("it is nobody's any more"), &needs);
    let id = balancer.uuid;
    let action = Action::ReleaseBalancer { id, body };
    builder.change(object(), vec![change], &why, action);
}

/// Everything is done only when the cloud has done it.
fn finish(builder: &mut PlanBuilder, object: bowline_core::ResourceRef) {
    let why = note(Impact::None, Some("the changes take effect"), &[]);
    builder.wait(object, &why, Action::AwaitBalancer);
}

fn note<'a>(impact: Impact, reason: Option<&'a str>, needs: &'a [StepId]) -> StepNote<'a> {
    StepNote {
        impact,
        reason,
        needs,
    }
}

/// A wanted pool, the one that is there for it, and how steps refer to it.
struct PoolDiff<'a> {
    wanted: &'a WantedPool,
    there: Option<&'a SeenPool>,
    pool: PoolRef,
    needs: Vec<StepId>,
}

struct Planner<'a> {
    wanted: &'a Wanted,
    there: Option<&'a Seen>,
    builder: &'a mut PlanBuilder,
    /// What every step has to wait for.
    base: Vec<StepId>,
    /// What has a step that deletes it.
    deleted: BTreeMap<Uuid, StepId>,
}

impl<'a> Planner<'a> {
    fn new(
        wanted: &'a Wanted,
        there: Option<&'a Seen>,
        builder: &'a mut PlanBuilder,
        base: Vec<StepId>,
    ) -> Self {
        Self {
            wanted,
            there,
            builder,
            base,
            deleted: BTreeMap::new(),
        }
    }

    fn seen_pools(&self) -> &'a [SeenPool] {
        self.there.map_or(&[], |there| &there.pools)
    }

    fn rename(&mut self) {
        let Some(there) = self.there else {
            return;
        };
        let balancer = &there.balancer;
        if balancer.name != self.wanted.name {
            let (change, body) = attribute("name", &*balancer.name, &*self.wanted.name);
            self.change_balancer(balancer, change, body);
        }
    }

    fn tags(&mut self) {
        let Some(there) = self.there else {
            return;
        };
        let balancer = &there.balancer;
        let mut merged = balancer.tags.clone();
        merged.extend(self.wanted.tags.clone());
        if merged != balancer.tags {
            let (change, body) = attribute("tags", json!(balancer.tags), json!(merged));
            self.change_balancer(balancer, change, body);
        }
    }

    fn change_balancer(
        &mut self,
        balancer: &LoadBalancer,
        change: bowline_core::Change,
        body: serde_json::Map<String, serde_json::Value>,
    ) {
        let object = seen(BALANCER, &balancer.name, balancer.uuid);
        let why = note(Impact::None, None, &self.base);
        let action = Action::ChangeBalancer(body);
        self.builder.change(object, vec![change], &why, action);
    }

    fn pools(&mut self) {
        let chosen = choose(self.wanted, self.seen_pools(), true);
        let kept: BTreeSet<Uuid> = chosen.iter().flatten().map(|it| it.pool.uuid).collect();
        let leftover: Vec<&SeenPool> = self
            .seen_pools()
            .iter()
            .filter(|it| !kept.contains(&it.pool.uuid))
            .collect();
        let holds_wanted = |pool: &SeenPool| {
            let mut all = pool.listeners.iter();
            all.any(|listener| self.wanted.pools.iter().any(|it| it.listener.is(listener)))
        };
        let (later, now): (Vec<_>, Vec<_>) = leftover.into_iter().partition(|it| holds_wanted(it));
        for pool in now {
            self.delete_pool(pool);
        }
        self.loose_listeners();
        let diffs = self.diffs(&chosen);
        for diff in &diffs {
            self.children(diff);
        }
        for pool in later {
            self.delete_pool(pool);
        }
    }

    /// Creates the pools that are missing.
    fn diffs(&mut self, chosen: &[Option<&'a SeenPool>]) -> Vec<PoolDiff<'a>> {
        let wanted = self.wanted;
        let pairs = wanted.pools.iter().zip(chosen);
        pairs
            .map(|(wanted_pool, there)| {
                let mut needs = self.base.clone();
                let pool = if let Some(there) = there {
                    PoolRef::Seen(there.pool.uuid)
                } else {
                    let body = wanted_pool.body(&wanted.child_tags);
                    let object = new(POOL, &wanted_pool.name);
                    let why = note(Impact::None, None, &self.base);
                    let action = Action::CreatePool(body.clone());
                    let step = self.builder.create(object, &body, &why, action);
                    needs.push(step);
                    PoolRef::Made(step)
                };
                PoolDiff {
                    wanted: wanted_pool,
                    there: *there,
                    pool,
                    needs,
                }
            })
            .collect()
    }

    /// Members, listener and monitor of one pool. A new monitor comes after the members that it is
    /// for.
    fn children(&mut self, diff: &PoolDiff<'a>) {
        self.unfit(diff);
        self.members(diff);
        self.listener(diff);
        self.monitor(diff);
    }

    /// Members of pools that exist, whatever is wrong with the rest.
    fn members_alone(&mut self) {
        let chosen = choose(self.wanted, self.seen_pools(), false);
        for (wanted, there) in self.wanted.pools.iter().zip(chosen) {
            let Some(there) = there else {
                continue;
            };
            let diff = PoolDiff {
                wanted,
                there: Some(there),
                pool: PoolRef::Seen(there.pool.uuid),
                needs: self.base.clone(),
            };
            // Its listeners stay as they are: no other port is led to new members.
            if wanted.shares(there) && wanted.brings_node_port(there) {
                self.members_that_leave(&diff);
            } else {
                self.members(&diff);
            }
        }
    }

    /// Listeners go by themselves: it is not certain that they always go with their pool. Members
    /// and the monitor do.
    fn delete_pool(&mut self, pool: &SeenPool) {
        let mut needs = self.base.clone();
        for listener in &pool.listeners {
            let why = "its pool goes";
            needs.push(self.delete_listener(listener, why, Impact::Interrupts));
        }
        let object = seen(POOL, &pool.pool.name, pool.pool.uuid);
        let reason = Some("no port of the Service wants it");
        let why = note(Impact::None, reason, &needs);
        let action = Action::DeletePool(pool.pool.uuid);
        self.builder.delete(object, &why, action);
    }

    fn floating_ips(&mut self, all: &[FloatingIp]) {
        let balancer = self.there.map(|there| there.balancer.uuid);
        for address in &self.wanted.floating_ips {
            let known = all.iter().find(|it| it.address() == Some(*address));
            let target = known.and_then(|it| it.load_balancer.or(it.server));
            if target.is_some() && target == balancer {
                continue;
            }
            let impact = match target {
                Some(_) => Impact::Interrupts,
                None => Impact::InPlace,
            };
            let before = target.map(|uuid| uuid.to_string());
            let after = balancer.map(|uuid| uuid.to_string());
            let after = after.unwrap_or_else(|| self.wanted.name.clone());
            let (change, _) = attribute("load_balancer", before, after);
            let why = note(impact, None, &self.base);
            let action = Action::MoveFloatingIp(*address);
            let object = new(FLOATING_IP, address.to_string());
            self.builder.change(object, vec![change], &why, action);
        }
    }
}
