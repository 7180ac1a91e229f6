//! What the control handle shows of load balancers: whole trees, to be compared.

use std::collections::BTreeMap;
use std::net::IpAddr;

use jiff::Timestamp;

use super::model::{
    Balancer, BalancerStatus, Health, Http, Listener, Member, Pool, script_for, watched_from,
};
use crate::Cloudscale;
use crate::model::{Project, Target};

/// A load balancer with everything that belongs to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BalancerInfo {
    pub uuid: String,
    pub name: String,
    pub project: String,
    pub zone: String,
    pub flavor: String,
    pub status: BalancerStatus,
    pub vip_addresses: Vec<IpAddr>,
    /// Floating IPs that point to it.
    pub floating_ips: Vec<IpAddr>,
    pub tags: BTreeMap<String, String>,
    /// Its pools, in the order of making.
    pub pools: Vec<PoolInfo>,
    /// Its listeners without a pool.
    pub loose_listeners: Vec<ListenerInfo>,
    /// Writes through the API, to it or to what belongs to it, that took effect.
    pub changes: u64,
}

/// A pool with everything that belongs to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PoolInfo {
    pub uuid: String,
    pub name: String,
    /// How it chooses among its members.
    pub algorithm: String,
    /// How it speaks to them.
    pub protocol: String,
    pub tags: BTreeMap<String, String>,
    /// Its members, in the order of making.
    pub members: Vec<MemberInfo>,
    /// Its listeners, in the order of making.
    pub listeners: Vec<ListenerInfo>,
    pub monitor: Option<MonitorInfo>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemberInfo {
    pub uuid: String,
    pub name: String,
    /// Whether it takes part.
    pub enabled: bool,
    pub address: IpAddr,
    /// The uuid of its subnet.
    pub subnet: String,
    pub protocol_port: u16,
    /// The port that is checked, if it was named.
    pub monitor_port: Option<u16>,
    /// What the monitor says now.
    pub health: Health,
    pub tags: BTreeMap<String, String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListenerInfo {
    pub uuid: String,
    pub name: String,
    /// `tcp` or `udp`.
    pub protocol: String,
    pub protocol_port: u16,
    /// Who may connect; everybody if empty.
    pub allowed_cidrs: Vec<String>,
    /// How long the client may be silent.
    pub timeout_client_data_ms: u64,
    /// How long connecting to a member may take.
    pub timeout_member_connect_ms: u64,
    /// How long the member may be silent.
    pub timeout_member_data_ms: u64,
    pub tags: BTreeMap<String, String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MonitorInfo {
    pub uuid: String,
    /// What it does to find out.
    pub kind: String,
    /// Seconds from check to check.
    pub delay_s: u64,
    /// Seconds that a check may take.
    pub timeout_s: u64,
    /// Good checks until a member is up.
    pub up_threshold: u64,
    /// Bad checks until a member is down.
    pub down_threshold: u64,
    /// What it asks for by HTTP.
    pub http: Option<Http>,
    pub tags: BTreeMap<String, String>,
}

impl Cloudscale {
    /// All load balancers of all projects, each with everything that belongs to it.
    pub fn balancers(&self) -> Vec<BalancerInfo> {
        let now = self.now();
        let cloud = self.lock();
        let mut shown = Vec::new();
        for (name, project) in &cloud.projects {
            let balancers = project.balancers.all();
            shown.extend(balancers.map(|balancer| show_balancer(name, project, balancer, now)));
        }
        shown
    }
}

fn show_balancer(
    name: &str,
    project: &Project,
    balancer: &Balancer,
    now: Timestamp,
) -> BalancerInfo {
    let here = Some(Target::Balancer(balancer.uuid.clone()));
    let floating = project.floating_ips.all().filter(|ip| ip.target == here);
    let pools = project
        .pools
        .all()
        .filter(|pool| pool.balancer == balancer.uuid);
    let loose = project.listeners.all();
    let loose = loose.filter(|l| l.balancer == balancer.uuid && l.pool.is_none());
    BalancerInfo {
        uuid: balancer.uuid.clone(),
        name: balancer.name.clone(),
        project: name.to_owned(),
        zone: balancer.zone.clone(),
        flavor: balancer.flavor.clone(),
        status: balancer.status(project, now),
        vip_addresses: balancer.vips.iter().map(|vip| vip.address).collect(),
        floating_ips: floating.map(|ip| ip.network.addr()).collect(),
        tags: balancer.tags.clone(),
        pools: pools.map(|pool| show_pool(project, pool, now)).collect(),
        loose_listeners: loose.map(show_listener).collect(),
        changes: balancer.changes,
    }
}

fn show_pool(project: &Project, pool: &Pool, now: Timestamp) -> PoolInfo {
    let listeners = project.listeners.all();
    let listeners = listeners.filter(|l| l.pool.as_ref() == Some(&pool.uuid));
    let monitor = project.monitors.all().find(|m| m.pool == pool.uuid);
    let members = pool.members.all();
    PoolInfo {
        uuid: pool.uuid.clone(),
        name: pool.name.clone(),
        algorithm: pool.algorithm.clone(),
        protocol: pool.protocol.clone(),
        tags: pool.tags.clone(),
        members: members
            .map(|member| show_member(project, member, now))
            .collect(),
        listeners: listeners.map(show_listener).collect(),
        monitor: monitor.map(|monitor| MonitorInfo {
            uuid: monitor.uuid.clone(),
            kind: monitor.kind.clone(),
            delay_s: monitor.delay_s,
            timeout_s: monitor.timeout_s,
            up_threshold: monitor.up_threshold,
            down_threshold: monitor.down_threshold,
            http: monitor.http.clone(),
            tags: monitor.tags.clone(),
        }),
    }
}

fn show_member(project: &Project, member: &Member, now: Timestamp) -> MemberInfo {
    let watched = watched_from(project, &member.pool);
    MemberInfo {
        uuid: member.uuid.clone(),
        name: member.name.clone(),
        enabled: member.enabled,
        address: member.address,
        subnet: member.subnet.clone(),
        protocol_port: member.protocol_port,
        monitor_port: member.monitor_port,
        health: member.health(script_for(project, member), watched, now),
        tags: member.tags.clone(),
    }
}

fn show_listener(listener: &Listener) -> ListenerInfo {
    ListenerInfo {
        uuid: listener.uuid.clone(),
        name: listener.name.clone(),
        protocol: listener.protocol.clone(),
        protocol_port: listener.protocol_port,
        allowed_cidrs: listener.allowed_cidrs.clone(),
        timeout_client_data_ms: listener.timeout_client_data_ms,
        timeout_member_connect_ms: listener.timeout_member_connect_ms,
        timeout_member_data_ms: listener.timeout_member_data_ms,
        tags: listener.tags.clone(),
    }
}
