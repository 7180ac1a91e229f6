//! Load balancers and their children as the API shows them.

use serde_json::{Value, json};

use super::model::{Balancer, Health, Listener, Member, Monitor, Pool, script_for, watched_from};
use crate::model::version_of;
use crate::render::{View, moment};

/// Where load balancers are, below `/v1`.
const BALANCERS: &str = "load-balancers";
/// Where pools are.
const POOLS: &str = "load-balancers/pools";
/// Where listeners are.
const LISTENERS: &str = "load-balancers/listeners";
/// Where health monitors are.
const MONITORS: &str = "load-balancers/health-monitors";

impl View<'_> {
    /// The short form of a load balancer, or of the lack of one.
    pub(crate) fn balancer_stub(&self, uuid: &str) -> Value {
        let found = self.owner().and_then(|owner| owner.balancers.get(uuid));
        found.map_or(Value::Null, |found| self.stub(BALANCERS, uuid, &found.name))
    }

    fn pool_stub(&self, uuid: &str) -> Value {
        let found = self.owner().and_then(|owner| owner.pools.get(uuid));
        found.map_or(Value::Null, |found| self.stub(POOLS, uuid, &found.name))
    }

    fn subnet_stub_of(&self, uuid: &str) -> Value {
        let found = self.cloud.subnet(self.project, uuid);
        found.map_or(Value::Null, |subnet| self.subnet_stub(subnet))
    }

    pub(crate) fn balancer(&self, balancer: &Balancer) -> Value {
        let status = self
            .owner()
            .map(|owner| balancer.status(owner, self.now).as_str());
        let vips = balancer.vips.iter().map(|vip| {
            json!({
                "version": version_of(&vip.address),
                "address": vip.address,
                "subnet": self.subnet_stub_of(&vip.subnet),
            })
        });
        json!({
            "href": self.href(BALANCERS, &balancer.uuid),
            "uuid": balancer.uuid,
            "name": balancer.name,
            "created_at": moment(balancer.created_at),
            "status": status,
            "zone": {"slug": balancer.zone},
            "flavor": super::flavor(&balancer.flavor),
            "vip_addresses": vips.collect::<Vec<_>>(),
            "tags": balancer.tags,
        })
    }

    pub(crate) fn pool(&self, pool: &Pool) -> Value {
        json!({
            "href": self.href(POOLS, &pool.uuid),
            "uuid": pool.uuid,
            "name": pool.name,
            "created_at": moment(pool.created_at),
            "load_balancer": self.balancer_stub(&pool.balancer),
            "algorithm": pool.algorithm,
            "protocol": pool.protocol,
            "tags": pool.tags,
        })
    }

    /// All members of a pool; none if there is no such pool.
    pub(crate) fn members(&self, pool: &str) -> Option<Vec<Value>> {
        let pool = self.owner()?.pools.get(pool)?;
        let members = pool.members.all();
        Some(members.map(|member| self.member(pool, member)).collect())
    }

    pub(crate) fn member_of(&self, pool: &str, uuid: &str) -> Option<Value> {
        let pool = self.owner()?.pools.get(pool)?;
        Some(self.member(pool, pool.members.get(uuid)?))
    }

    fn member(&self, pool: &Pool, member: &Member) -> Value {
        let health = self.owner().map_or(Health::Unknown, |owner| {
            let watched = watched_from(owner, &pool.uuid);
            member.health(script_for(owner, member), watched, self.now)
        });
        let collection = format!("{POOLS}/{}/members", pool.uuid);
        let shown = json!({
            "href": self.href(&collection, &member.uuid),
            "uuid": member.uuid,
            "name": member.name,
            "enabled": member.enabled,
            "created_at": moment(member.created_at),
            "pool": self.pool_stub(&pool.uuid),
            "load_balancer": self.balancer_stub(&pool.balancer),
            "protocol_port": member.protocol_port,
            "monitor_port": member.monitor_port,
            "address": member.address,
            "subnet": self.subnet_stub_of(&member.subnet),
            "monitor_status": health.as_str(),
            "tags": member.tags,
        });
        self.finished(&member.uuid, shown)
    }

    pub(crate) fn listener(&self, listener: &Listener) -> Value {
        let pool = listener.pool.as_ref();
        json!({
            "href": self.href(LISTENERS, &listener.uuid),
            "uuid": listener.uuid,
            "name": listener.name,
            "created_at": moment(listener.created_at),
            "pool": pool.map(|pool| self.pool_stub(pool)),
            "load_balancer": self.balancer_stub(&listener.balancer),
            "protocol": listener.protocol,
            "protocol_port": listener.protocol_port,
            "allowed_cidrs": listener.allowed_cidrs,
            "timeout_client_data_ms": listener.timeout_client_data_ms,
            "timeout_member_connect_ms": listener.timeout_member_connect_ms,
            "timeout_member_data_ms": listener.timeout_member_data_ms,
            "tags": listener.tags,
        })
    }

    pub(crate) fn monitor(&self, monitor: &Monitor) -> Value {
        let http = monitor.http.as_ref().map(|http| {
            json!({
                "expected_codes": http.expected_codes,
                "method": http.method,
                "url_path": http.url_path,
                "version": http.version,
                "host": http.host,
            })
        });
        json!({
            "href": self.href(MONITORS, &monitor.uuid),
            "uuid": monitor.uuid,
            "created_at": moment(monitor.created_at),
            "pool": self.pool_stub(&monitor.pool),
            "load_balancer": self.balancer_stub(&monitor.balancer),
            "delay_s": monitor.delay_s,
            "timeout_s": monitor.timeout_s,
            "up_threshold": monitor.up_threshold,
            "down_threshold": monitor.down_threshold,
            "type": monitor.kind,
            "http": http,
            "tags": monitor.tags,
        })
    }
}
