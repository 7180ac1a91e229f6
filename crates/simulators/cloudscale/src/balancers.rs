//! Load balancers: made, changed, deleted, each with its pools, members, listeners and monitors.
//!
//! A load balancer is busy when it is made and after every write to one of its children; whoever
//! looks computes the status from the clock. Writes to one load balancer wait for each other.

mod control;
mod listeners;
mod make;
mod members;
mod model;
mod monitors;
mod pools;
mod render;
mod spec;
mod verbs;
mod views;
mod write_lock;

use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::Cloudscale;
use super::fields::Fields;
use super::interfaces::{self, Wanted, WantedAddress};
use super::kinds::Kind;
use super::model::{Cloud, Project, Target};
use super::refusals::{OrRefusal, Refusal};
use super::servers::later;
use super::shelf::{Patchable, keep, owner};

pub(super) use model::{Balancer, Listener, Monitor, Pool};
pub use model::{BalancerStatus, Health, Http};
pub use spec::{BalancerSpec, HttpSpec, ListenerSpec, MemberSpec, MonitorSpec, PoolSpec, VipSpec};
pub use views::{BalancerInfo, ListenerInfo, MemberInfo, MonitorInfo, PoolInfo};

pub(super) use control::{find_balancer, place_of};
use model::Slot;
pub(super) use verbs::VERBS;

/// Slug and name of every flavor.
const FLAVORS: [(&str, &str); 1] = [("lb-standard", "LB-Standard")];
/// Public addresses and private ones that a load balancer can have at most: as many as there are
/// versions in public, and enough for any test in private.
const MOST_VIPS: usize = 8;

/// How fast something is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pace {
    /// As the API does it: it takes time, and leaves traces for a while.
    Real,
    /// At once, behind everybody's back.
    Hand,
}

impl Pace {
    /// When something that takes so long is done.
    fn end(self, now: Timestamp, takes: Duration) -> Timestamp {
        match self {
            Self::Real => later(now, takes),
            Self::Hand => now,
        }
    }
}

/// The flavor as it stands in a load balancer.
fn flavor(slug: &str) -> Option<Value> {
    let found = FLAVORS.iter().find(|(known, _)| *known == slug);
    found.map(|(slug, name)| json!({"slug": slug, "name": name}))
}

/// One of a few words.
fn choice(fields: &Fields, key: &str, choices: &[&str]) -> OrRefusal<String> {
    let given = fields.required(key)?;
    if choices.contains(&given) {
        return Ok(given.to_owned());
    }
    let message = format!("Expect one of: {}.", choices.join(", "));
    Err(Refusal::field(key, message))
}

/// A port that must be there.
fn port(fields: &Fields, key: &str) -> OrRefusal<u16> {
    let value = fields.value(key).ok_or_else(|| Refusal::required(key))?;
    let number = value.as_i64();
    let number = number.ok_or_else(|| Refusal::field(key, "A valid integer is required."))?;
    let port = u16::try_from(number).ok().filter(|port| *port > 0);
    let message = || format!("The {key} must be between 1 and 65535.");
    port.ok_or_else(|| Refusal::field(key, message()))
}

/// An attribute that a thing does not have.
fn unknown(attribute: &str) -> Refusal {
    Refusal::field(attribute, "There is no such attribute.")
}

impl Patchable for Balancer {
    const CHANGEABLE: &'static [&'static str] = &["name", "tags"];

    fn set(&mut self, attribute: &str, fields: &Fields) -> OrRefusal {
        match attribute {
            "name" => self.name = fields.name()?,
            "tags" => self.tags = fields.tags()?,
            "zone" => self.zone = fields.zone()?,
            // By hand any flavor can be, so that callers can be shown one that they do not want.
            "flavor" => fields.required("flavor")?.clone_into(&mut self.flavor),
            other => return Err(unknown(other)),
        }
        Ok(())
    }
}

impl Cloudscale {
    pub(super) fn create_balancer(
        &self,
        cloud: &mut Cloud,
        project: &str,
        fields: &Fields,
        pace: Pace,
    ) -> OrRefusal<String> {
        let name = fields.name()?;
        let slug = fields.required("flavor")?;
        if flavor(slug).is_none() && pace == Pace::Real {
            let message = format!("\"{slug}\" is not a valid choice.");
            return Err(Refusal::field("flavor", message));
        }
        let zone = fields.zone()?;
        let tags = fields.tags()?;
        let wanted = vips(cloud, project, fields, pace)?;
        let owner = cloud.projects.get(project);
        let count = owner.map_or(0, |owner| owner.balancers.all().count());
        if pace == Pace::Real
            && cloud
                .quirks
                .most_load_balancers
                .is_some_and(|most| count >= most)
        {
            return Err(Refusal::state("The quota of load balancers is exhausted."));
        }
        let uuid = self.uuid(cloud, fields, pace)?;
        let attached = interfaces::attach(cloud, project, &zone, &wanted, true)?;
        let now = self.now();
        let busy = pace.end(now, cloud.timings.load_balancers.create);
        let balancer = Balancer {
            uuid,
            name,
            created_at: now,
            zone,
            flavor: slug.to_owned(),
            public: attached.iter().all(|interface| interface.public),
            vips: attached.into_iter().flat_map(|i| i.addresses).collect(),
            tags,
            ready_at: busy,
            busy_until: busy,
            failed: pace == Pace::Real && cloud.strike(),
            forced: None,
            reserved: Vec::new(),
            changes: 0,
            write_lock: std::sync::Arc::default(),
        };
        Ok(keep(cloud, project, balancer))
    }

    /// The uuid that a fixture gives; the API draws one.
    fn uuid(&self, cloud: &Cloud, fields: &Fields, pace: Pace) -> OrRefusal<String> {
        match fields.text("uuid")? {
            Some(uuid) if pace == Pace::Hand => {
                if place_of(cloud, uuid).is_some() {
                    let message = format!("\"{uuid}\" exists already.");
                    return Err(Refusal::field("uuid", message));
                }
                Ok(uuid.to_owned())
            }
            _ => Ok(self.world.random.uuid()),
        }
    }

    /// Deletes a load balancer with everything that belongs to it.
    pub(super) fn delete_balancer(
        &self,
        cloud: &mut Cloud,
        project: &str,
        uuid: &str,
        pace: Pace,
    ) -> OrRefusal {
        let now = self.now();
        let owner = owner(cloud, project)?;
        let balancer = owner.balancers.get(uuid).ok_or_else(Refusal::not_found)?;
        if pace == Pace::Real && balancer.is_creating(now) {
            return Err(being_created());
        }
        let vips = balancer.vips.clone();
        owner.balancers.remove(uuid);
        owner.pools.retain(|pool| pool.balancer != uuid);
        owner.listeners.retain(|listener| listener.balancer != uuid);
        owner.monitors.retain(|monitor| monitor.balancer != uuid);
        for floating in owner.floating_ips.all_mut() {
            if floating.target == Some(Target::Balancer(uuid.to_owned())) {
                floating.target = None;
            }
        }
        interfaces::release(cloud, project, &vips);
        Ok(())
    }

    /// Begins a change of a child: the load balancer is busy for a while.
    pub(super) fn touch(&self, cloud: &mut Cloud, project: &str, balancer: &str, pace: Pace) {
        if pace == Pace::Hand {
            return;
        }
        let now = self.now();
        let takes = cloud.timings.load_balancers.change;
        let failed = cloud.strike();
        if let Ok(balancer) = find(cloud, project, balancer) {
            balancer.busy_until = balancer.busy_until.max(later(now, takes));
            balancer.failed = failed;
            balancer.changes += 1;
            balancer.reserved.retain(|(until, _)| now < *until);
        }
    }

    /// After a PATCH of a load balancer or of one of its children.
    pub(super) fn changed(&self, cloud: &mut Cloud, project: &str, kind: Kind<'_>, id: &str) {
        let Some(owner) = cloud.projects.get_mut(project) else {
            return;
        };
        if let Some(balancer) = balancer_of(owner, kind, id) {
            self.touch(cloud, project, &balancer, Pace::Real);
        } else if kind == Kind::Balancers
            && let Some(balancer) = owner.balancers.get_mut(id)
        {
            // Name and tags are only written down: nothing has to be applied.
            balancer.changes += 1;
        }
    }

    /// Begins to make a child. Refused for a load balancer that has never been ready, and while
    /// what was deleted goes on occupying the slot.
    fn admit(
        &self,
        cloud: &mut Cloud,
        project: &str,
        balancer: &str,
        slot: Option<&Slot>,
        pace: Pace,
    ) -> OrRefusal {
        let now = self.now();
        let known = find(cloud, project, balancer)?;
        if pace == Pace::Hand {
            return Ok(());
        }
        if known.is_creating(now) {
            return Err(being_created());
        }
        if let Some(slot) = slot.filter(|slot| known.is_reserved(slot, now)) {
            let message = format!("{} is still being removed.", slot.name());
            return Err(Refusal::state(message));
        }
        self.touch(cloud, project, balancer, pace);
        Ok(())
    }

    /// After the deletion of a child: the load balancer is busy, and what the child occupied stays
    /// occupied for a while.
    fn vacate(
        &self,
        cloud: &mut Cloud,
        project: &str,
        balancer: &str,
        slots: impl IntoIterator<Item = Slot>,
        pace: Pace,
    ) {
        if pace == Pace::Hand {
            return;
        }
        self.touch(cloud, project, balancer, pace);
        let until = later(self.now(), cloud.timings.load_balancers.removal);
        if let Ok(balancer) = find(cloud, project, balancer) {
            let slots = slots.into_iter().map(|slot| (until, slot));
            balancer.reserved.extend(slots);
        }
    }
}

/// The load balancer that a child belongs to.
fn balancer_of(owner: &Project, kind: Kind<'_>, id: &str) -> Option<String> {
    let balancer = match kind {
        Kind::Pools => &owner.pools.get(id)?.balancer,
        Kind::Members(pool) => &owner.pools.get(pool)?.balancer,
        Kind::Listeners => &owner.listeners.get(id)?.balancer,
        Kind::Monitors => &owner.monitors.get(id)?.balancer,
        _ => return None,
    };
    Some(balancer.clone())
}

fn find<'a>(cloud: &'a mut Cloud, project: &str, uuid: &str) -> OrRefusal<&'a mut Balancer> {
    let owner = cloud.projects.get_mut(project);
    let balancer = owner.and_then(|owner| owner.balancers.get_mut(uuid));
    balancer.ok_or_else(|| Refusal::no_such("load_balancer", uuid))
}

fn being_created() -> Refusal {
    Refusal::state("The load balancer is still being created.")
}

/// What is already there cannot be made again.
fn exists(slot: &Slot) -> Refusal {
    Refusal::state(format!("{} exists already.", slot.name()))
}

/// The addresses that are asked for: none means a public one of each version.
fn vips(cloud: &Cloud, project: &str, fields: &Fields, pace: Pace) -> OrRefusal<Vec<Wanted>> {
    let list = fields.list("vip_addresses")?;
    let Some(list) = list.filter(|list| !list.is_empty()) else {
        return Ok(vec![Wanted::public()]);
    };
    if list.len() > MOST_VIPS {
        let message = format!("Ensure this field has no more than {MOST_VIPS} elements.");
        return Err(Refusal::field("vip_addresses", message));
    }
    let vip = |value: &Value| {
        let vip = Fields::within("vip_addresses", value)?;
        let address = vip.address("address")?;
        let subnet = vip.text("subnet")?.map(str::to_owned);
        // Only scenes say which public address it is.
        let public = pace == Pace::Hand && subnet.is_none() && address.is_some();
        let network = public.then(|| interfaces::PUBLIC.to_owned());
        if network.is_none() {
            let subnet = subnet
                .as_deref()
                .ok_or_else(|| Refusal::required("subnet"))?;
            own_subnet(cloud, project, subnet)?;
        }
        let addresses = Some(vec![WantedAddress { subnet, address }]);
        Ok(Wanted { network, addresses })
    };
    list.iter().map(vip).collect()
}

/// A private subnet must be one of the project's own.
fn own_subnet<'a>(
    cloud: &'a Cloud,
    project: &str,
    uuid: &str,
) -> OrRefusal<&'a super::model::Subnet> {
    let owner = cloud.projects.get(project);
    let subnet = owner.and_then(|owner| owner.subnets.get(uuid));
    subnet.ok_or_else(|| {
        if ::uuid::Uuid::try_parse(uuid).is_ok() {
            Refusal::no_such("subnet", uuid)
        } else {
            Refusal::field("subnet", "Must be a valid UUID.")
        }
    })
}
