//! Instances: made, changed, started, stopped, deleted.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, Ipv6Addr};

use serde_json::Value;

use super::Exoscale;
use super::catalog::{TEMPLATES, kind};
use super::fields::Fields;
use super::model::{Cloud, Instance, State, Zone};
use super::operations::Ending;
use super::refusals::{OrRefusal, Refusal};
use super::routes::Asked;

/// What a body may say about a new instance.
const NEW: &str = "name instance-type template disk-size labels auto-start public-ip-assignment \
    ipv6-enabled ssh-key ssh-keys security-groups anti-affinity-groups user-data deploy-target \
    secureboot-enabled tpm-enabled application-consistent-snapshot-enabled";
/// What a body may say about one that exists.
const CHANGED: &str = "name labels public-ip-assignment user-data \
    application-consistent-snapshot-enabled";
/// How instances get public addresses.
pub(super) const ASSIGNMENTS: [&str; 3] = ["inet4", "dual", "none"];
/// GiB of a disk.
pub(super) const DISK: std::ops::RangeInclusive<u64> = 10..=51_200;

/// Which instances a list shows.
#[derive(Debug, Default)]
pub(super) struct Filter {
    manager: Option<String>,
    address: Option<String>,
    label: Option<(String, String)>,
    /// A manager of a type that no instance has.
    none: bool,
}

impl Filter {
    pub(super) fn of(asked: &Asked<'_>) -> Self {
        let kind = asked.parameter("manager-type");
        let label = asked.parameter("labels");
        Self {
            manager: asked.parameter("manager-id"),
            address: asked.parameter("ip-address"),
            label: label.map(|text| {
                let (key, value) = text.split_once('=').unwrap_or((&text, ""));
                (key.to_owned(), value.to_owned())
            }),
            none: kind.is_some_and(|kind| kind != "instance-pool"),
        }
    }

    pub(super) fn fits(&self, instance: &Instance) -> bool {
        let at = |wanted: &String| {
            let v4 = instance.public_ip.map(|address| address.to_string());
            let v6 = instance.ipv6.map(|address| address.to_string());
            [v4, v6].iter().flatten().any(|address| address == wanted)
        };
        !self.none
            && self
                .manager
                .as_ref()
                .is_none_or(|it| instance.pool.as_ref() == Some(it))
            && self.address.as_ref().is_none_or(at)
            && self
                .label
                .as_ref()
                .is_none_or(|(key, value)| instance.labels.get(key) == Some(value))
    }
}

/// A new instance, before it has an identity.
#[derive(Clone, Debug)]
pub(super) struct NewInstance {
    pub(super) id: Option<String>,
    pub(super) name: String,
    pub(super) kind: String,
    pub(super) template: String,
    pub(super) assignment: &'static str,
    /// Chosen if left out and the assignment asks for one.
    pub(super) public_ip: Option<Ipv4Addr>,
    pub(super) ipv6: Option<Ipv6Addr>,
    /// By id.
    pub(super) networks: Vec<String>,
    pub(super) pool: Option<String>,
    pub(super) labels: BTreeMap<String, String>,
    pub(super) disk: u64,
    pub(super) state: State,
}

impl NewInstance {
    pub(super) fn named(name: &str) -> Self {
        Self {
            id: None,
            name: name.to_owned(),
            kind: String::new(),
            template: TEMPLATES[0].0.to_owned(),
            assignment: ASSIGNMENTS[0],
            public_ip: None,
            ipv6: None,
            networks: Vec::new(),
            pool: None,
            labels: BTreeMap::new(),
            disk: 50,
            state: State::Running,
        }
    }
}

/// The type and the template that a body names.
pub(super) fn kind_and_template(fields: &Fields) -> OrRefusal<(String, String)> {
    let wanted = fields.reference("instance-type").unwrap_or_default();
    let template = fields.reference("template").unwrap_or_default();
    fields.finish()?;
    if kind(&wanted).is_none_or(|kind| kind.0 != wanted) {
        return Err(Refusal::no_such("Instance type", &wanted));
    }
    if !TEMPLATES.iter().any(|(id, _)| *id == template) {
        return Err(Refusal::no_such("Template", &template));
    }
    Ok((wanted, template))
}

impl Exoscale {
    /// Makes an instance, and returns its id.
    pub(super) fn make_instance(
        &self,
        cloud: &mut Cloud,
        zone: &str,
        new: NewInstance,
    ) -> OrRefusal<String> {
        let most = cloud.quirks.most_instances;
        let id = new.id.unwrap_or_else(|| self.world.random.uuid());
        let (v4, v6) = (new.assignment != "none", new.assignment == "dual");
        let public_ip = new
            .public_ip
            .or_else(|| v4.then(|| cloud.addresses.instance()).flatten());
        let ipv6 = new
            .ipv6
            .or_else(|| v6.then(|| cloud.addresses.instance_v6()));
        let addresses = [public_ip.map(Into::into), ipv6.map(Into::into)];
        for address in addresses.into_iter().flatten() {
            cloud.addresses.reserve(address);
        }
        let mac = || {
            let number = self.world.random.number().to_be_bytes();
            let parts = number.iter().take(5).map(|part| format!(":{part:02x}"));
            format!("06{}", parts.collect::<String>())
        };
        let instance = Instance {
            id: id.clone(),
            name: new.name,
            state: new.state,
            kind: new.kind,
            template: new.template,
            public_ip,
            ipv6,
            assignment: new.assignment,
            networks: new.networks.into_iter().map(|id| (id, mac())).collect(),
            pool: new.pool,
            labels: new.labels,
            created_at: self.now(),
            mac: mac(),
            disk: new.disk,
        };
        let zone = cloud.zone_mut(zone)?;
        if zone.instances.get(&id).is_some() {
            return Err(Refusal::conflict(format!("Instance {id} already exists")));
        }
        if most.is_some_and(|most| zone.instances.len() as u64 >= most) {
            let text = "Quota exceeded for resource instance".to_owned();
            return Err(Refusal::forbidden(text));
        }
        zone.instances.insert(&id, instance);
        zone.touched.insert(id.clone());
        Ok(id)
    }

    pub(super) fn create_instance(&self, cloud: &mut Cloud, asked: &Asked<'_>) -> OrRefusal<Value> {
        let fields = Fields::parse(asked.body, NEW)?;
        fields.need("disk-size instance-type template");
        let assignment = fields.word("public-ip-assignment", &ASSIGNMENTS);
        let dual = fields.flag("ipv6-enabled") == Some(true);
        let mut new = NewInstance {
            assignment: assignment.unwrap_or(if dual { "dual" } else { "inet4" }),
            labels: fields.labels("labels").unwrap_or_default(),
            disk: fields.number("disk-size", DISK).unwrap_or_default(),
            state: State::Starting,
            ..NewInstance::named(&fields.text("name", 1..=255).unwrap_or_default())
        };
        let starts = fields.flag("auto-start") != Some(false);
        (new.kind, new.template) = kind_and_template(&fields)?;
        if new.name.is_empty() {
            let id = self.world.random.uuid();
            new.name = format!("VM-{id}");
            new.id = Some(id);
        }
        let id = self.make_instance(cloud, asked.zone, new)?;
        let ready = if starts {
            State::Running
        } else {
            State::Stopped
        };
        let (made, failed) = (id.clone(), id.clone());
        let done = move |zone: &mut Zone, _| zone.set_state(&made, ready);
        let undone = move |zone: &mut Zone, _| zone.lose_instance(&failed);
        self.begin(cloud, asked.about("instance", &id), done, undone)
    }

    pub(super) fn update_instance(&self, cloud: &mut Cloud, asked: &Asked<'_>) -> OrRefusal<Value> {
        let id = found(cloud, asked)?.id.clone();
        let fields = Fields::parse(asked.body, CHANGED)?;
        let (name, labels) = (fields.text("name", 1..=255), fields.labels("labels"));
        let assignment = fields.word("public-ip-assignment", &ASSIGNMENTS);
        fields.finish()?;
        let v4 = cloud.addresses.instance();
        let v6 = (assignment == Some("dual")).then(|| cloud.addresses.instance_v6());
        let changed = id.clone();
        let done = move |zone: &mut Zone, _| {
            let Some(instance) = zone.instances.get_mut(&changed) else {
                return;
            };
            instance.name = name.unwrap_or_else(|| instance.name.clone());
            instance.labels = labels.unwrap_or_else(|| instance.labels.clone());
            if let Some(assignment) = assignment {
                instance.assignment = assignment;
                let (has_v4, has_v6) = (assignment != "none", assignment == "dual");
                instance.public_ip = instance.public_ip.or(v4).filter(|_| has_v4);
                instance.ipv6 = instance.ipv6.or(v6).filter(|_| has_v6);
            }
        };
        self.begin(cloud, asked.about("instance", &id), done, |_, _| {})
    }

    pub(super) fn delete_instance(&self, cloud: &mut Cloud, asked: &Asked<'_>) -> OrRefusal<Value> {
        let before = found(cloud, asked)?.state;
        let id = asked.id().to_owned();
        let zone = cloud.zone_mut(asked.zone)?;
        zone.set_state(&id, State::Destroying);
        let (gone, stays) = (id.clone(), id.clone());
        let done = move |zone: &mut Zone, _| zone.lose_instance(&gone);
        let undone = move |zone: &mut Zone, _| zone.set_state(&stays, before);
        self.begin(cloud, asked.about("instance", &id), done, undone)
    }

    /// Brings an instance from one state through another to a third.
    pub(super) fn power(
        &self,
        cloud: &mut Cloud,
        asked: &Asked<'_>,
        [before, meanwhile, after]: [State; 3],
    ) -> OrRefusal<Value> {
        let instance = found(cloud, asked)?;
        if instance.state != before {
            let (is, must) = (instance.state.as_str(), before.as_str());
            let text = format!("Instance {} must be {must}, it is {is}", instance.id);
            return Err(Refusal::state(text));
        }
        let id = instance.id.clone();
        cloud.zone_mut(asked.zone)?.set_state(&id, meanwhile);
        let bare = cloud.quirks.no_reference_of_power;
        let about = asked.about("instance", if bare { "" } else { asked.id() });
        let same = id.clone();
        let done = move |zone: &mut Zone, _| zone.set_state(&id, after);
        let undone = move |zone: &mut Zone, _| zone.set_state(&same, before);
        self.begin(cloud, about, done, undone)
    }
}

/// The instance that a call is about.
fn found<'a>(cloud: &'a Cloud, asked: &Asked<'_>) -> OrRefusal<&'a Instance> {
    let zone = cloud.zone(asked.zone)?;
    zone.instances
        .get(asked.id())
        .ok_or_else(Refusal::not_found)
}

/// An operation that fails at once because another is under way.
pub(super) fn busy() -> Ending {
    let text = "another operation on this resource is under way";
    Ending::failure("busy", text).after(std::time::Duration::ZERO)
}
