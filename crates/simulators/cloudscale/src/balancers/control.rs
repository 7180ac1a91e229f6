//! The control handle: what tests and the sandbox do to load balancers behind everybody's back.
//!
//! Nothing here takes time, waits for another write or leaves a load balancer busy.

use std::net::IpAddr;

use bowline_simulator::control::by_id_or_name;
use jiff::Timestamp;
use serde_json::{Map, Value};

use super::model::{Balancer, BalancerStatus, Health, Listener, Monitor, Pool};
use super::spec::{BalancerSpec, ListenerSpec, MemberSpec, PoolSpec};
use super::{Pace, find};
use crate::config::{BalancerTimings, Quirks};
use crate::fields::Fields;
use crate::model::{Cloud, Project, Target};
use crate::refusals::{OrRefusal, Refusal};
use crate::shelf::{Kept, Patchable, owner};
use crate::{Cloudscale, ControlError, ControlResult};

/// What a uuid belongs to.
enum Found {
    Balancer,
    Pool,
    Member { pool: String },
    Listener,
    Monitor,
}

impl Cloudscale {
    /// Adds a load balancer with everything that belongs to it, ready at once; returns its uuid.
    pub fn add_balancer(&self, spec: &BalancerSpec) -> ControlResult<String> {
        let mut cloud = self.lock();
        let made = self.make_balancer(&mut cloud, spec);
        made.map_err(|refusal| failed("add the load balancer", &spec.name, &refusal))
    }

    /// Adds a pool with everything that belongs to it; returns its uuid.
    pub fn add_pool(&self, balancer: &str, spec: &PoolSpec) -> ControlResult<String> {
        self.on_balancer("add a pool to", balancer, |cloud, project, uuid| {
            self.make_pool(cloud, project, uuid, spec)
        })
    }

    /// Adds a member to a pool; returns its uuid.
    pub fn add_member(&self, pool: &str, spec: &MemberSpec) -> ControlResult<String> {
        self.on("add a member to", pool, |cloud, project, uuid, found| {
            let Found::Pool = found else {
                return Err(Refusal::state("it is not a pool"));
            };
            self.make_member(cloud, project, uuid, spec)
        })
    }

    /// Adds a listener to a pool, or to a load balancer itself; returns its uuid.
    pub fn add_listener(&self, to: &str, spec: &ListenerSpec) -> ControlResult<String> {
        self.on("add a listener to", to, |cloud, project, uuid, found| {
            let key = match found {
                Found::Pool => "pool",
                Found::Balancer => "load_balancer",
                _ => return Err(Refusal::state("it is neither a pool nor a load balancer")),
            };
            self.make_listener(cloud, project, (key, uuid), spec)
        })
    }

    /// Changes attributes of a load balancer, pool, member, listener or monitor, also those that
    /// the API lets nobody change.
    pub fn edit(&self, id: &str, attributes: &Map<String, Value>) -> ControlResult {
        self.on("edit", id, |cloud, project, uuid, found| {
            let fields = Fields::of(attributes.clone());
            let owner = owner(cloud, project)?;
            for attribute in fields.keys() {
                edit_one(owner, uuid, &found, attribute, &fields)?;
            }
            Ok(())
        })
    }

    /// Removes a load balancer, pool, member, listener or monitor with what belongs to it. What it
    /// occupied is free at once.
    pub fn remove(&self, id: &str) -> ControlResult {
        self.on("remove", id, |cloud, project, uuid, found| match found {
            Found::Balancer => self.delete_balancer(cloud, project, uuid, Pace::Hand),
            Found::Pool => self.delete_pool(cloud, project, uuid, Pace::Hand),
            Found::Listener => self.delete_listener(cloud, project, uuid, Pace::Hand),
            Found::Monitor => self.delete_monitor(cloud, project, uuid, Pace::Hand),
            Found::Member { pool } => self.delete_member(cloud, project, (&pool, uuid), Pace::Hand),
        })
    }

    /// Leaves a load balancer `changing` until it is thawed: being made if it is, else busy.
    pub fn freeze_balancer(&self, balancer: &str) -> ControlResult {
        let now = self.now();
        self.on_balancer("freeze", balancer, |cloud, project, uuid| {
            let balancer = find(cloud, project, uuid)?;
            balancer.busy_until = Timestamp::MAX;
            if balancer.is_creating(now) {
                balancer.ready_at = Timestamp::MAX;
            }
            Ok(())
        })
    }

    /// Ends whatever keeps a load balancer `changing`.
    pub fn thaw_balancer(&self, balancer: &str) -> ControlResult {
        let now = self.now();
        self.on_balancer("thaw", balancer, |cloud, project, uuid| {
            let balancer = find(cloud, project, uuid)?;
            balancer.ready_at = balancer.ready_at.min(now);
            balancer.busy_until = balancer.busy_until.min(now);
            Ok(())
        })
    }

    /// Shows a load balancer with that status whatever its state; none: its true one again.
    pub fn set_balancer_status(
        &self,
        balancer: &str,
        status: Option<BalancerStatus>,
    ) -> ControlResult {
        self.on_balancer("set the status of", balancer, |cloud, project, uuid| {
            find(cloud, project, uuid)?.forced = status;
            Ok(())
        })
    }

    /// The next so many operations (making a load balancer, writing to a child of one) end in
    /// `error`. The next good operation on the load balancer ends that.
    pub fn fail_next_changes(&self, times: u32) {
        self.lock().failing = times;
    }

    /// Says what monitors find out from now on about a member (by uuid), about `address:port`, or
    /// about whatever has that address; none: as if nothing had been said.
    pub fn set_health(&self, member: &str, health: Option<Health>) {
        for project in self.lock().projects.values_mut() {
            match health {
                Some(health) => project.health.insert(member.to_owned(), health),
                None => project.health.remove(member),
            };
        }
    }

    /// How long things take from now on.
    pub fn set_balancer_timings(&self, timings: BalancerTimings) {
        self.lock().timings.load_balancers = timings;
    }

    /// How the API behaves from now on where its behaviour is not certain, and its limits.
    pub fn set_quirks(&self, quirks: Quirks) {
        self.lock().quirks = quirks;
    }

    /// Points a floating IP to a server or load balancer (by uuid, or by a name that only one
    /// has), or to nothing, which the API does not do.
    pub fn assign_floating_ip(&self, address: IpAddr, to: Option<&str>) -> ControlResult {
        let failed =
            |refusal: Refusal| failed("assign the floating IP", &address.to_string(), &refusal);
        let mut cloud = self.lock();
        let target = match to {
            None => None,
            Some(id) => {
                let server = cloud.find(id).map(|(_, uuid)| Target::Server(uuid));
                let balancer = || find_balancer(&cloud, id).map(|(_, uuid)| Target::Balancer(uuid));
                let target = server.or_else(balancer);
                Some(target.ok_or_else(|| failed(Refusal::no_such("target", id)))?)
            }
        };
        let mut projects = cloud.projects.values_mut();
        let floating = projects.find_map(|p| p.floating_ips.get_mut(&address.to_string()));
        let floating = floating.ok_or_else(|| failed(Refusal::not_found()))?;
        floating.target = target;
        Ok(())
    }

    fn on<T>(
        &self,
        task: &'static str,
        id: &str,
        work: impl FnOnce(&mut Cloud, &str, &str, Found) -> OrRefusal<T>,
    ) -> ControlResult<T> {
        let object = format!("{id:?}");
        let mut cloud = self.lock();
        let missing = "there is nothing of that uuid, nor exactly one load balancer of that name";
        let (project, uuid, found) =
            locate(&cloud, id).ok_or_else(|| failed(task, &object, &Refusal::state(missing)))?;
        let done = work(&mut cloud, &project, &uuid, found);
        done.map_err(|refusal| failed(task, &object, &refusal))
    }

    fn on_balancer<T>(
        &self,
        task: &'static str,
        id: &str,
        work: impl FnOnce(&mut Cloud, &str, &str) -> OrRefusal<T>,
    ) -> ControlResult<T> {
        self.on(task, id, |cloud, project, uuid, found| match found {
            Found::Balancer => work(cloud, project, uuid),
            _ => Err(Refusal::state("it is not a load balancer")),
        })
    }
}

fn edit_one(
    owner: &mut Project,
    uuid: &str,
    found: &Found,
    attribute: &str,
    fields: &Fields,
) -> OrRefusal {
    match found {
        Found::Balancer => Balancer::find(owner, uuid)?.set(attribute, fields),
        Found::Pool => Pool::find(owner, uuid)?.set(attribute, fields),
        Found::Listener => Listener::find(owner, uuid)?.set(attribute, fields),
        // Whether it fits the rest is not asked.
        Found::Monitor => Monitor::find(owner, uuid)?.assign(attribute, fields),
        Found::Member { pool } => {
            let member = Pool::find(owner, pool)?.members.get_mut(uuid);
            member
                .ok_or_else(Refusal::not_found)?
                .set(attribute, fields)
        }
    }
}

/// The project and uuid of a load balancer, found by uuid or by a name that only one has.
pub(crate) fn find_balancer(cloud: &Cloud, id: &str) -> Option<(String, String)> {
    let all = cloud.projects.iter();
    let all = all.flat_map(|(name, project)| project.balancers.all().map(move |b| (name, b)));
    let found = by_id_or_name(all, id, |(_, it)| &it.uuid, |(_, it)| &it.name);
    found.map(|(project, balancer)| (project.clone(), balancer.uuid.clone()))
}

/// The project and uuid of a load balancer or of something that belongs to one.
pub(crate) fn place_of(cloud: &Cloud, id: &str) -> Option<(String, String)> {
    locate(cloud, id).map(|(project, uuid, _)| (project, uuid))
}

/// Where something is, and what it is.
fn locate(cloud: &Cloud, id: &str) -> Option<(String, String, Found)> {
    for (name, project) in &cloud.projects {
        let mut pools = project.pools.all();
        let found = if project.pools.get(id).is_some() {
            Found::Pool
        } else if project.listeners.get(id).is_some() {
            Found::Listener
        } else if project.monitors.get(id).is_some() {
            Found::Monitor
        } else if let Some(pool) = pools.find(|pool| pool.members.get(id).is_some()) {
            let pool = pool.uuid.clone();
            Found::Member { pool }
        } else {
            continue;
        };
        return Some((name.clone(), id.to_owned(), found));
    }
    let (project, uuid) = find_balancer(cloud, id)?;
    Some((project, uuid, Found::Balancer))
}

fn failed(task: &'static str, object: &str, refusal: &Refusal) -> ControlError {
    ControlError {
        task,
        object: object.to_owned(),
        reason: format!("{}: {}", refusal.key, refusal.message)
            .trim_start_matches("detail: ")
            .to_owned(),
    }
}
