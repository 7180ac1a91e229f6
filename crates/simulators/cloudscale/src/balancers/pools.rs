//! Pools.

use super::model::{Pool, Slot};
use super::{Pace, choice, find, unknown};
use crate::Cloudscale;
use crate::fields::Fields;
use crate::model::{Cloud, Collection};
use crate::refusals::{OrRefusal, Refusal};
use crate::shelf::{Kept, Patchable, keep, owner};

const ALGORITHMS: [&str; 3] = ["round_robin", "least_connections", "source_ip"];
const PROTOCOLS: [&str; 4] = ["tcp", "proxy", "proxyv2", "udp"];

impl Patchable for Pool {
    const CHANGEABLE: &'static [&'static str] = &["name", "tags"];

    fn set(&mut self, attribute: &str, fields: &Fields) -> OrRefusal {
        match attribute {
            "name" => self.name = fields.name()?,
            "tags" => self.tags = fields.tags()?,
            "algorithm" => self.algorithm = choice(fields, "algorithm", &ALGORITHMS)?,
            "protocol" => self.protocol = choice(fields, "protocol", &PROTOCOLS)?,
            other => return Err(unknown(other)),
        }
        Ok(())
    }
}

impl Cloudscale {
    pub(crate) fn create_pool(
        &self,
        cloud: &mut Cloud,
        project: &str,
        fields: &Fields,
        pace: Pace,
    ) -> OrRefusal<String> {
        let balancer = fields.required("load_balancer")?;
        let pool = Pool {
            uuid: self.uuid(cloud, fields, pace)?,
            name: fields.name()?,
            created_at: self.now(),
            balancer: find(cloud, project, balancer)?.uuid.clone(),
            algorithm: choice(fields, "algorithm", &ALGORITHMS)?,
            protocol: choice(fields, "protocol", &PROTOCOLS)?,
            tags: fields.tags()?,
            members: Collection::default(),
        };
        self.admit(cloud, project, balancer, None, pace)?;
        Ok(keep(cloud, project, pool))
    }

    /// Deletes a pool with its members, its monitor and its listeners.
    pub(crate) fn delete_pool(
        &self,
        cloud: &mut Cloud,
        project: &str,
        uuid: &str,
        pace: Pace,
    ) -> OrRefusal {
        let survive = cloud.quirks.listeners_survive;
        let pool = Pool::take(cloud, project, uuid)?;
        let owner = owner(cloud, project)?;
        owner.monitors.retain(|monitor| monitor.pool != uuid);
        let mut freed = Vec::new();
        for listener in owner.listeners.all_mut() {
            if listener.pool.as_deref() == Some(uuid) {
                listener.pool = None;
                freed.push((listener.uuid.clone(), listener.slot()));
            }
        }
        if survive {
            freed.clear();
        }
        for (listener, _) in &freed {
            owner.listeners.remove(listener);
        }
        let monitor = Slot::Monitor { pool: pool.uuid };
        let slots = freed.into_iter().map(|(_, slot)| slot).chain([monitor]);
        self.vacate(cloud, project, &pool.balancer, slots, pace);
        Ok(())
    }
}

/// The pool that a request names, and its load balancer.
pub(super) fn named(cloud: &Cloud, project: &str, fields: &Fields) -> OrRefusal<(String, String)> {
    let uuid = fields.required("pool")?;
    let owner = cloud.projects.get(project);
    let pool = owner.and_then(|owner| owner.pools.get(uuid));
    let pool = pool.ok_or_else(|| Refusal::no_such("pool", uuid))?;
    Ok((pool.uuid.clone(), pool.balancer.clone()))
}
