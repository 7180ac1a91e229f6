//! Members of pools.

use std::net::IpAddr;

use super::model::{Member, Pool, Slot};
use super::{Pace, exists, find, own_subnet, port, unknown};
use crate::Cloudscale;
use crate::fields::Fields;
use crate::model::Cloud;
use crate::refusals::{OrRefusal, Refusal};
use crate::shelf::{Kept, owner};

/// What a PATCH may change.
const CHANGEABLE: [&str; 3] = ["name", "enabled", "tags"];

impl Member {
    pub(super) fn set(&mut self, attribute: &str, fields: &Fields) -> OrRefusal {
        match attribute {
            "name" => self.name = fields.name()?,
            "enabled" => self.enabled = fields.flag("enabled", true)?,
            "tags" => self.tags = fields.tags()?,
            "protocol_port" => self.protocol_port = port(fields, "protocol_port")?,
            "monitor_port" => self.monitor_port = monitor_port(fields)?,
            "address" => self.address = address(fields)?,
            "subnet" => fields.required("subnet")?.clone_into(&mut self.subnet),
            other => return Err(unknown(other)),
        }
        Ok(())
    }

    fn slot(&self) -> Slot {
        Slot::Member {
            pool: self.pool.clone(),
            address: self.address,
            port: self.protocol_port,
        }
    }
}

fn monitor_port(fields: &Fields) -> OrRefusal<Option<u16>> {
    match fields.value("monitor_port") {
        None => Ok(None),
        Some(_) => port(fields, "monitor_port").map(Some),
    }
}

fn address(fields: &Fields) -> OrRefusal<IpAddr> {
    let address = fields.address("address")?;
    address.ok_or_else(|| Refusal::required("address"))
}

/// A pool of a project.
pub(super) fn pool<'a>(cloud: &'a mut Cloud, project: &str, uuid: &str) -> OrRefusal<&'a mut Pool> {
    Pool::find(owner(cloud, project)?, uuid)
}

impl Cloudscale {
    pub(crate) fn create_member(
        &self,
        cloud: &mut Cloud,
        project: &str,
        within: &str,
        fields: &Fields,
        pace: Pace,
    ) -> OrRefusal<String> {
        let now = self.now();
        let subnet = fields.required("subnet")?;
        let member = Member {
            uuid: self.uuid(cloud, fields, pace)?,
            name: fields.name()?,
            created_at: now,
            pool: within.to_owned(),
            enabled: fields.flag("enabled", true)?,
            protocol_port: port(fields, "protocol_port")?,
            monitor_port: monitor_port(fields)?,
            address: address(fields)?,
            subnet: own_subnet(cloud, project, subnet)?.uuid.clone(),
            tags: fields.tags()?,
            known_from: pace.end(now, cloud.timings.load_balancers.check),
        };
        let slot = member.slot();
        let pool = pool(cloud, project, within)?;
        let own = (member.address, member.protocol_port);
        let same = |other: &Member| (other.address, other.protocol_port) == own;
        let twice = pool.members.all().any(same);
        let balancer = pool.balancer.clone();
        if twice {
            return Err(exists(&slot));
        }
        let zone = find(cloud, project, &balancer)?.zone.clone();
        let network = &own_subnet(cloud, project, subnet)?.network;
        let network = cloud.network(project, network);
        if network.is_none_or(|network| network.zone != zone) {
            let message = format!("The subnet is not in the load balancer's zone {zone}.");
            return Err(Refusal::field("subnet", message));
        }
        self.admit(cloud, project, &balancer, Some(&slot), pace)?;
        let uuid = member.uuid.clone();
        self::pool(cloud, project, within)?
            .members
            .insert(&uuid, member);
        Ok(uuid)
    }

    pub(crate) fn change_member(
        &self,
        cloud: &mut Cloud,
        project: &str,
        (within, uuid): (&str, &str),
        fields: &Fields,
    ) -> OrRefusal {
        let pool = pool(cloud, project, within)?;
        let member = pool.members.get_mut(uuid).ok_or_else(Refusal::not_found)?;
        let Some(attribute) = fields.only(&CHANGEABLE)? else {
            return Ok(());
        };
        member.set(attribute, fields)?;
        let balancer = pool.balancer.clone();
        self.touch(cloud, project, &balancer, Pace::Real);
        Ok(())
    }

    pub(crate) fn delete_member(
        &self,
        cloud: &mut Cloud,
        project: &str,
        (within, uuid): (&str, &str),
        pace: Pace,
    ) -> OrRefusal {
        let pool = pool(cloud, project, within)?;
        let member = pool.members.remove(uuid).ok_or_else(Refusal::not_found)?;
        let balancer = pool.balancer.clone();
        self.vacate(cloud, project, &balancer, [member.slot()], pace);
        Ok(())
    }
}
