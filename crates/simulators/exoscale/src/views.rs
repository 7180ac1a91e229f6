//! What the control handle shows: instances, pools and load balancers as plain values.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, Ipv6Addr};

use super::Exoscale;
use super::catalog::kind;
use super::model::{Healthcheck, State};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InstanceInfo {
    pub id: String,
    pub name: String,
    pub zone: String,
    pub state: State,
    /// Its type: `standard.medium`.
    pub kind: String,
    pub public_ip: Option<Ipv4Addr>,
    pub ipv6: Option<Ipv6Addr>,
    pub pool: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PoolInfo {
    pub id: String,
    pub name: String,
    pub zone: String,
    pub state: String,
    /// How many members it wants.
    pub size: u64,
    /// The members that it has, by id.
    pub members: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BalancerInfo {
    pub id: String,
    pub name: String,
    pub zone: String,
    pub state: String,
    pub description: Option<String>,
    /// Its address, also while the API does not tell it.
    pub ip: Ipv4Addr,
    pub labels: BTreeMap<String, String>,
    pub services: Vec<ServiceInfo>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServiceInfo {
    pub id: String,
    pub name: String,
    pub description: Option<String>,
    pub state: String,
    /// `tcp` or `udp`.
    pub protocol: String,
    pub port: u16,
    /// The port of the members.
    pub target_port: u16,
    pub strategy: String,
    pub pool: String,
    pub healthcheck: Healthcheck,
}

impl Exoscale {
    /// All instances of all zones.
    pub fn instances(&self) -> Vec<InstanceInfo> {
        self.with(|cloud| {
            let zones = cloud.zones.iter();
            let all = zones.flat_map(|(zone, it)| it.instances.all().map(move |one| (zone, one)));
            all.map(|(zone, one)| InstanceInfo {
                id: one.id.clone(),
                name: one.name.clone(),
                zone: zone.clone(),
                state: one.state,
                kind: kind(&one.kind).map_or_else(String::new, |it| format!("{}.{}", it.1, it.2)),
                public_ip: one.public_ip,
                ipv6: one.ipv6,
                pool: one.pool.clone(),
            })
            .collect()
        })
    }

    /// All instance pools of all zones.
    pub fn pools(&self) -> Vec<PoolInfo> {
        self.with(|cloud| {
            let zones = cloud.zones.iter();
            let all = zones.flat_map(|(zone, it)| it.pools.all().map(move |one| (zone, it, one)));
            all.map(|(zone, content, one)| PoolInfo {
                id: one.id.clone(),
                name: one.name.clone(),
                zone: zone.clone(),
                state: one.state.to_owned(),
                size: one.size,
                members: content.members(&one.id).map(|it| it.id.clone()).collect(),
            })
            .collect()
        })
    }

    /// All load balancers of all zones, also those that the API does not show yet.
    pub fn balancers(&self) -> Vec<BalancerInfo> {
        self.with(|cloud| {
            let zones = cloud.zones.iter();
            let all = zones.flat_map(|(zone, it)| it.balancers.all().map(move |one| (zone, one)));
            all.map(|(zone, one)| BalancerInfo {
                id: one.id.clone(),
                name: one.name.clone(),
                zone: zone.clone(),
                state: one.state.to_owned(),
                description: one.description.clone(),
                ip: one.ip,
                labels: one.labels.clone(),
                services: one.services.iter().map(service).collect(),
            })
            .collect()
        })
    }
}

fn service(one: &super::model::Service) -> ServiceInfo {
    ServiceInfo {
        id: one.id.clone(),
        name: one.name.clone(),
        description: one.description.clone(),
        state: one.state.to_owned(),
        protocol: one.protocol.to_owned(),
        port: one.port,
        target_port: one.target_port,
        strategy: one.strategy.to_owned(),
        pool: one.pool.clone(),
        healthcheck: one.healthcheck.clone(),
    }
}
