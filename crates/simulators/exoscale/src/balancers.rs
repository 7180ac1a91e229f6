//! Network load balancers: made, renamed, described, deleted.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use jiff::Timestamp;
use serde_json::Value;

use super::Exoscale;
use super::fields::Fields;
use super::instances::busy;
use super::model::{Balancer, Cloud, Zone};
use super::refusals::{OrRefusal, Refusal};
use super::routes::Asked;

/// What a body may say about a load balancer.
const KNOWN: &str = "name description labels";
/// Characters of a description.
pub(super) const DESCRIPTION: std::ops::RangeInclusive<usize> = 0..=255;

/// A new load balancer, before it has an identity.
#[derive(Clone, Debug, Default)]
pub(super) struct NewBalancer {
    pub(super) id: Option<String>,
    pub(super) name: String,
    pub(super) description: Option<String>,
    pub(super) labels: BTreeMap<String, String>,
    pub(super) ip: Option<Ipv4Addr>,
}

/// The load balancer of that id, if it can be seen already.
pub(super) fn find<'a>(zone: &'a Zone, id: &str, now: Timestamp) -> OrRefusal<&'a Balancer> {
    let found = zone.balancers.get(id).filter(|it| it.visible_from <= now);
    found.ok_or_else(Refusal::not_found)
}

/// What is said about a name that another load balancer has.
fn check_name(zone: &Zone, name: &str, own: &str) -> OrRefusal {
    let mut all = zone.balancers.all();
    if all.any(|it| it.name == name && it.id != own) {
        let text =
            format!("Load balancer with name {name} already exists, the name must be unique");
        return Err(Refusal::conflict(text));
    }
    Ok(())
}

/// An empty description is none.
pub(super) fn described(text: Option<String>) -> Option<String> {
    text.filter(|text| !text.is_empty())
}

impl Exoscale {
    /// Makes a load balancer that is there at once, and returns its id.
    pub(super) fn make_balancer(
        &self,
        cloud: &mut Cloud,
        zone_name: &str,
        new: NewBalancer,
    ) -> OrRefusal<String> {
        let most = cloud.quirks.most_load_balancers;
        let zone = cloud.zone(zone_name)?;
        check_name(zone, &new.name, "")?;
        if most.is_some_and(|most| zone.balancers.len() as u64 >= most) {
            let text = "Quota exceeded for resource network-load-balancer";
            return Err(Refusal::forbidden(text));
        }
        let id = new.id.unwrap_or_else(|| self.world.random.uuid());
        if zone.balancers.get(&id).is_some() {
            return Err(Refusal::conflict(format!(
                "Load balancer {id} already exists"
            )));
        }
        if let Some(ip) = new.ip {
            cloud.addresses.reserve(ip.into());
        }
        let ip = new.ip.or_else(|| cloud.addresses.balancer());
        let ip = ip.ok_or_else(|| Refusal::forbidden("There is no address left"))?;
        let now = self.now();
        let balancer = Balancer {
            id: id.clone(),
            name: new.name,
            description: described(new.description),
            labels: new.labels,
            state: "running",
            created_at: now,
            ip,
            address_from: Some(now),
            visible_from: now,
            services: Vec::new(),
            under_way: 0,
        };
        cloud.zone_mut(zone_name)?.balancers.insert(&id, balancer);
        Ok(id)
    }

    pub(super) fn create_balancer(&self, cloud: &mut Cloud, asked: &Asked<'_>) -> OrRefusal<Value> {
        let fields = Fields::parse(asked.body, KNOWN)?;
        fields.need("name");
        if cloud.quirks.labels_refused && fields.has("labels") {
            fields.wrong("labels are not allowed");
        }
        let new = NewBalancer {
            name: fields.text("name", 1..=255).unwrap_or_default(),
            description: fields.text("description", DESCRIPTION),
            labels: fields.labels("labels").unwrap_or_default(),
            ..NewBalancer::default()
        };
        fields.finish()?;
        let id = self.make_balancer(cloud, asked.zone, new)?;
        let invisible = cloud.timings.created_invisible;
        let later = cloud.timings.address;
        let zone = cloud.zone_mut(asked.zone)?;
        if let Some(balancer) = zone.balancers.get_mut(&id) {
            balancer.state = "creating";
            balancer.address_from = None;
            balancer.under_way = 1;
            let now = balancer.created_at;
            balancer.visible_from = now.saturating_add(invisible).unwrap_or(now);
        }
        let (made, failed) = (id.clone(), id.clone());
        let done = move |zone: &mut Zone, at: Timestamp| {
            if let Some(balancer) = zone.balancers.get_mut(&made) {
                balancer.state = "running";
                balancer.address_from = Some(at.saturating_add(later).unwrap_or(at));
                balancer.under_way -= 1;
            }
        };
        let undone = move |zone: &mut Zone, _| {
            zone.balancers.remove(&failed);
        };
        self.begin(cloud, asked.about("load-balancer", &id), done, undone)
    }

    pub(super) fn update_balancer(&self, cloud: &mut Cloud, asked: &Asked<'_>) -> OrRefusal<Value> {
        let zone = cloud.zone(asked.zone)?;
        changeable(find(zone, asked.id(), self.now())?)?;
        let fields = Fields::parse(asked.body, KNOWN)?;
        let name = fields.text("name", 1..=255);
        let description = fields.text("description", DESCRIPTION);
        let labels = fields.labels("labels");
        fields.finish()?;
        if let Some(name) = &name {
            check_name(zone, name, asked.id())?;
        }
        self.change_balancer(cloud, asked, move |balancer| {
            if let Some(name) = name {
                balancer.name = name;
            }
            if description.is_some() {
                balancer.description = described(description);
            }
            if let Some(labels) = labels {
                balancer.labels = labels;
            }
        })
    }

    pub(super) fn reset_balancer(&self, cloud: &mut Cloud, asked: &Asked<'_>) -> OrRefusal<Value> {
        let zone = cloud.zone(asked.zone)?;
        changeable(find(zone, asked.id(), self.now())?)?;
        match asked.second() {
            "description" => self.change_balancer(cloud, asked, |it| it.description = None),
            "labels" => self.change_balancer(cloud, asked, |it| it.labels.clear()),
            _ => Err(Refusal::not_found()),
        }
    }

    /// Begins an operation on a load balancer: `change` when it succeeds, `otherwise` when it fails.
    pub(super) fn change_balancer_or(
        &self,
        cloud: &mut Cloud,
        asked: &Asked<'_>,
        change: impl FnOnce(&mut Balancer) + Send + 'static,
        otherwise: impl FnOnce(&mut Balancer) + Send + 'static,
    ) -> OrRefusal<Value> {
        let id = asked.id().to_owned();
        let found = cloud.zones.get_mut(asked.zone);
        if let Some(balancer) = found.and_then(|zone| zone.balancers.get_mut(&id)) {
            balancer.under_way += 1;
        }
        let kept = id.clone();
        let done = move |zone: &mut Zone, _| {
            if let Some(balancer) = zone.balancers.get_mut(&id) {
                balancer.under_way -= 1;
                change(balancer);
            }
        };
        let undone = move |zone: &mut Zone, _| {
            if let Some(balancer) = zone.balancers.get_mut(&kept) {
                balancer.under_way -= 1;
                otherwise(balancer);
            }
        };
        let about = asked.about("load-balancer", asked.id());
        self.begin(cloud, about, done, undone)
    }

    fn change_balancer(
        &self,
        cloud: &mut Cloud,
        asked: &Asked<'_>,
        change: impl FnOnce(&mut Balancer) + Send + 'static,
    ) -> OrRefusal<Value> {
        if let Some(refused) = self.busy_balancer(cloud, asked)? {
            return Ok(refused);
        }
        self.change_balancer_or(cloud, asked, change, |_| {})
    }

    /// The operation that fails because another is under way, where that matters.
    pub(super) fn busy_balancer(
        &self,
        cloud: &mut Cloud,
        asked: &Asked<'_>,
    ) -> OrRefusal<Option<Value>> {
        let balancer = find(cloud.zone(asked.zone)?, asked.id(), self.now())?;
        if !cloud.quirks.one_change_at_a_time || balancer.under_way == 0 {
            return Ok(None);
        }
        let about = asked.about("load-balancer", asked.id());
        self.begin_with(cloud, about, None, busy()).map(Some)
    }

    pub(super) fn delete_balancer(&self, cloud: &mut Cloud, asked: &Asked<'_>) -> OrRefusal<Value> {
        if let Some(refused) = self.busy_balancer(cloud, asked)? {
            return Ok(refused);
        }
        let id = asked.id().to_owned();
        let zone = cloud.zone_mut(asked.zone)?;
        let mut before = "running";
        if let Some(balancer) = zone.balancers.get_mut(&id) {
            before = std::mem::replace(&mut balancer.state, "deleting");
            balancer.under_way += 1;
        }
        let (gone, stays) = (id.clone(), id.clone());
        let done = move |zone: &mut Zone, _| {
            zone.balancers.remove(&gone);
        };
        let undone = move |zone: &mut Zone, _| {
            if let Some(balancer) = zone.balancers.get_mut(&stays) {
                balancer.under_way -= 1;
                balancer.state = before;
            }
        };
        self.begin(cloud, asked.about("load-balancer", &id), done, undone)
    }
}

/// Whether a load balancer can be changed: not on its way out.
pub(super) fn changeable(balancer: &Balancer) -> OrRefusal {
    if balancer.state == "deleting" {
        let text = format!("Load balancer {} is being deleted", balancer.id);
        return Err(Refusal::conflict(text));
    }
    Ok(())
}
