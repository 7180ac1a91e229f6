//! Instance pools: made, grown, shrunk, deleted, with their members.

use std::fmt::Write as _;

use serde_json::Value;

use super::Exoscale;
use super::balancers::{DESCRIPTION, described};
use super::fields::Fields;
use super::instances::{ASSIGNMENTS, DISK, NewInstance, kind_and_template};
use super::model::{Cloud, Pool, State, Zone};
use super::operations::About;
use super::refusals::{OrRefusal, Refusal};
use super::routes::Asked;

/// What a body may say about a pool.
const KNOWN: &str = "name description size instance-prefix instance-type template disk-size \
    labels public-ip-assignment ipv6-enabled private-networks security-groups \
    anti-affinity-groups elastic-ips ssh-key ssh-keys user-data deploy-target min-available \
    application-consistent-snapshot-enabled";
/// Members of a pool: more than anybody simulates.
pub(super) const MOST_MEMBERS: u64 = 100_000;
/// What the last part of a member's name consists of.
const LETTERS: &[u8] = b"abcdefghijklmnopqrstuvwxyz0123456789";

impl Exoscale {
    /// A name for a member: `<prefix>-<5 hex digits of the pool>-<5 letters>`.
    fn member_name(&self, pool: &Pool) -> String {
        let mut name = format!("{}-", pool.prefix);
        name.extend(pool.id.chars().filter(|letter| *letter != '-').take(5));
        name.push('-');
        for _ in 0..5 {
            let at = self.world.random.below(LETTERS.len() as u64);
            let letter = usize::try_from(at).ok().and_then(|at| LETTERS.get(at));
            // The index is below the length.
            let _ = name.write_char(letter.map_or('x', |letter| char::from(*letter)));
        }
        name
    }

    /// A further member of a pool, as the pool makes them.
    pub(super) fn new_member(&self, pool: &Pool, state: State) -> NewInstance {
        NewInstance {
            kind: pool.kind.clone(),
            template: pool.template.clone(),
            assignment: pool.assignment,
            networks: pool.networks.clone(),
            pool: Some(pool.id.clone()),
            labels: pool.labels.clone(),
            disk: pool.disk,
            state,
            ..NewInstance::named(&self.member_name(pool))
        }
    }

    /// Adds members to a pool, and returns their ids.
    pub(super) fn make_members(
        &self,
        cloud: &mut Cloud,
        zone: &str,
        pool: &str,
        count: u64,
        state: State,
    ) -> OrRefusal<Vec<String>> {
        let found = cloud.zone(zone)?.pools.get(pool);
        let pool = found.cloned().ok_or_else(Refusal::not_found)?;
        let mut made = Vec::new();
        for _ in 0..count {
            let new = self.new_member(&pool, state);
            match self.make_instance(cloud, zone, new) {
                Ok(id) => made.push(id),
                Err(refusal) => {
                    // All or none.
                    let zone = cloud.zone_mut(zone)?;
                    zone.lose_instances(&made);
                    return Err(refusal);
                }
            }
        }
        Ok(made)
    }

    pub(super) fn create_pool(&self, cloud: &mut Cloud, asked: &Asked<'_>) -> OrRefusal<Value> {
        let fields = Fields::parse(asked.body, KNOWN)?;
        fields.need("name size instance-type template disk-size");
        let assignment = fields.word("public-ip-assignment", &ASSIGNMENTS);
        let dual = fields.flag("ipv6-enabled") == Some(true);
        let size = fields.number("size", 1..=MOST_MEMBERS).unwrap_or_default();
        let prefix = fields.text("instance-prefix", 1..=30);
        let mut pool = Pool {
            id: self.world.random.uuid(),
            name: fields.text("name", 1..=255).unwrap_or_default(),
            description: described(fields.text("description", DESCRIPTION)),
            prefix: prefix.unwrap_or_else(|| "pool".to_owned()),
            size,
            state: "creating",
            kind: String::new(),
            template: String::new(),
            assignment: assignment.unwrap_or(if dual { "dual" } else { "inet4" }),
            networks: fields.references("private-networks").unwrap_or_default(),
            labels: fields.labels("labels").unwrap_or_default(),
            disk: fields.number("disk-size", DISK).unwrap_or_default(),
            nodepool: None,
        };
        (pool.kind, pool.template) = kind_and_template(&fields)?;
        let zone = cloud.zone_mut(asked.zone)?;
        for network in &pool.networks {
            if zone.networks.get(network).is_none() {
                return Err(Refusal::no_such("Private network", network));
            }
        }
        let id = pool.id.clone();
        zone.pools.insert(&id, pool);
        let made = self.make_members(cloud, asked.zone, &id, size, State::Starting);
        let made = made.inspect_err(|_| {
            let zone = cloud.zones.get_mut(asked.zone);
            zone.map(|zone| zone.pools.remove(&id));
        })?;
        let (pool, gone) = (id.clone(), (id.clone(), made.clone()));
        let done = move |zone: &mut Zone, _| zone.ready(&pool, &made);
        let undone = move |zone: &mut Zone, _| {
            zone.pools.remove(&gone.0);
            zone.lose_instances(&gone.1);
        };
        self.begin(cloud, asked.about("instance-pool", &id), done, undone)
    }

    pub(super) fn update_pool(&self, cloud: &mut Cloud, asked: &Asked<'_>) -> OrRefusal<Value> {
        let id = free(cloud, asked, "updateInstancePool")?.id.clone();
        let fields = Fields::parse(asked.body, KNOWN)?;
        let (name, labels) = (fields.text("name", 1..=255), fields.labels("labels"));
        let description = fields.text("description", DESCRIPTION);
        let prefix = fields.text("instance-prefix", 1..=30);
        fields.finish()?;
        let zone = cloud.zone_mut(asked.zone)?;
        if let Some(pool) = zone.pools.get_mut(&id) {
            pool.state = "updating";
        }
        let changed = id.clone();
        let done = move |zone: &mut Zone, _| {
            if let Some(pool) = zone.pools.get_mut(&changed) {
                pool.state = "running";
                pool.name = name.unwrap_or_else(|| pool.name.clone());
                pool.labels = labels.unwrap_or_else(|| pool.labels.clone());
                pool.prefix = prefix.unwrap_or_else(|| pool.prefix.clone());
                pool.description = described(description.or_else(|| pool.description.clone()));
            }
        };
        let same = id.clone();
        let undone = move |zone: &mut Zone, _| zone.ready(&same, &[]);
        self.begin(cloud, asked.about("instance-pool", &id), done, undone)
    }

    pub(super) fn scale_pool(&self, cloud: &mut Cloud, asked: &Asked<'_>) -> OrRefusal<Value> {
        let id = free(cloud, asked, "scaleInstancePool")?.id.clone();
        self.scale(cloud, asked, &id, asked.about("instance-pool", &id))
    }

    /// Grows or shrinks a pool to the size that the body says.
    pub(super) fn scale(
        &self,
        cloud: &mut Cloud,
        asked: &Asked<'_>,
        pool: &str,
        about: About<'_>,
    ) -> OrRefusal<Value> {
        let fields = Fields::parse(asked.body, "size")?;
        fields.need("size");
        let size = fields.number("size", 0..=MOST_MEMBERS).unwrap_or_default();
        fields.finish()?;
        let zone = cloud.zone(asked.zone)?;
        let staying = zone
            .members(pool)
            .filter(|it| it.state != State::Destroying);
        let members: Vec<String> = staying.map(|it| it.id.clone()).collect();
        let have = members.len() as u64;
        if size >= have {
            return self.grow(cloud, about, pool, size, size - have);
        }
        // The youngest go.
        let keep = usize::try_from(size).unwrap_or(usize::MAX);
        let leaving = members.get(keep..).unwrap_or_default().to_vec();
        self.shrink(cloud, about, pool, size, leaving)
    }

    fn grow(
        &self,
        cloud: &mut Cloud,
        about: About<'_>,
        pool: &str,
        size: u64,
        more: u64,
    ) -> OrRefusal<Value> {
        let made = self.make_members(cloud, about.zone, pool, more, State::Starting)?;
        let before = cloud.zone_mut(about.zone)?.resize(pool, size, "scaling-up");
        let (grown, failed) = (pool.to_owned(), (pool.to_owned(), made.clone()));
        let done = move |zone: &mut Zone, _| zone.ready(&grown, &made);
        let undone = move |zone: &mut Zone, _| {
            zone.lose_instances(&failed.1);
            zone.resize(&failed.0, before, "running");
        };
        self.begin(cloud, about, done, undone)
    }

    fn shrink(
        &self,
        cloud: &mut Cloud,
        about: About<'_>,
        pool: &str,
        size: u64,
        leaving: Vec<String>,
    ) -> OrRefusal<Value> {
        let zone = cloud.zone_mut(about.zone)?;
        let before = zone.resize(pool, size, "scaling-down");
        for id in &leaving {
            zone.set_state(id, State::Destroying);
        }
        let (shrunk, stays) = (pool.to_owned(), (pool.to_owned(), leaving.clone()));
        let done = move |zone: &mut Zone, _| {
            zone.lose_instances(&leaving);
            zone.ready(&shrunk, &[]);
        };
        let undone = move |zone: &mut Zone, _| {
            zone.resize(&stays.0, before, "running");
            zone.ready(&stays.0, &stays.1);
        };
        self.begin(cloud, about, done, undone)
    }

    pub(super) fn evict_members(&self, cloud: &mut Cloud, asked: &Asked<'_>) -> OrRefusal<Value> {
        let id = free(cloud, asked, "evictInstancePoolMembers")?.id.clone();
        self.evict(cloud, asked, &id, asked.about("instance-pool", &id))
    }

    /// Removes the members that the body names.
    pub(super) fn evict(
        &self,
        cloud: &mut Cloud,
        asked: &Asked<'_>,
        pool: &str,
        about: About<'_>,
    ) -> OrRefusal<Value> {
        let fields = Fields::parse(asked.body, "instances")?;
        fields.need("instances");
        let mut leaving = fields.texts("instances").unwrap_or_default();
        fields.finish()?;
        leaving.sort();
        leaving.dedup();
        let zone = cloud.zone(asked.zone)?;
        for id in &leaving {
            if !zone.members(pool).any(|member| member.id == *id) {
                return Err(Refusal::no_such("Member", id));
            }
        }
        let size = zone.pools.get(pool).map_or(0, |pool| pool.size);
        let size = size.saturating_sub(leaving.len() as u64);
        self.shrink(cloud, about, pool, size, leaving)
    }

    pub(super) fn delete_pool(&self, cloud: &mut Cloud, asked: &Asked<'_>) -> OrRefusal<Value> {
        let id = free(cloud, asked, "destroyInstancePool")?.id.clone();
        let zone = cloud.zone_mut(asked.zone)?;
        if let Some(balancer) = zone.holder(&id) {
            let reason = format!("Locked by NLB {}", balancer.id);
            return Err(locked("destroyInstancePool", &id, &reason));
        }
        let members: Vec<String> = zone.members(&id).map(|it| it.id.clone()).collect();
        for member in &members {
            zone.set_state(member, State::Destroying);
        }
        if let Some(pool) = zone.pools.get_mut(&id) {
            pool.state = "destroying";
        }
        let (gone, stays) = (id.clone(), (id.clone(), members.clone()));
        let done = move |zone: &mut Zone, _| {
            zone.pools.remove(&gone);
            zone.lose_instances(&members);
        };
        let undone = move |zone: &mut Zone, _| zone.ready(&stays.0, &stays.1);
        self.begin(cloud, asked.about("instance-pool", &id), done, undone)
    }
}

impl Zone {
    /// Gives a pool a size and a state, and returns the size that it had.
    fn resize(&mut self, pool: &str, size: u64, state: &'static str) -> u64 {
        let Some(pool) = self.pools.get_mut(pool) else {
            return 0;
        };
        pool.state = state;
        std::mem::replace(&mut pool.size, size)
    }

    /// A pool is in order again, and so are these members.
    fn ready(&mut self, pool: &str, members: &[String]) {
        if let Some(pool) = self.pools.get_mut(pool) {
            pool.state = "running";
        }
        for member in members {
            self.set_state(member, State::Running);
        }
    }
}

fn locked(task: &str, id: &str, reason: &str) -> Refusal {
    let text = format!("Operation {task} on resource {id} is forbidden - reason: {reason}");
    Refusal::forbidden(text)
}

/// The pool that a call is about, if nobody else manages it.
fn free<'a>(cloud: &'a Cloud, asked: &Asked<'_>, task: &str) -> OrRefusal<&'a Pool> {
    let zone = cloud.zone(asked.zone)?;
    let pool = zone.pools.get(asked.id()).ok_or_else(Refusal::not_found)?;
    match &pool.nodepool {
        Some(nodepool) => {
            let reason = format!("Locked by SKS nodepool {nodepool}");
            Err(locked(task, &pool.id, &reason))
        }
        None => Ok(pool),
    }
}
