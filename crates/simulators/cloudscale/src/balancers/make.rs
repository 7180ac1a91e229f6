//! Making load balancers from specifications: as requests would, but at once.

use std::net::{IpAddr, SocketAddr};

use serde::Serialize;

use super::spec::{BalancerSpec, ListenerSpec, MemberSpec, MonitorSpec, PoolSpec};
use super::{Pace, find};
use crate::Cloudscale;
use crate::fields::Fields;
use crate::model::Cloud;
use crate::refusals::{OrRefusal, Refusal};

impl Cloudscale {
    pub(super) fn make_balancer(
        &self,
        cloud: &mut Cloud,
        spec: &BalancerSpec,
    ) -> OrRefusal<String> {
        let project = &spec.project;
        let uuid = self.create_balancer(cloud, project, &body(spec, &[])?, Pace::Hand)?;
        find(cloud, project, &uuid)?.forced = spec.status;
        let children = spec
            .pools
            .iter()
            .try_for_each(|pool| self.make_pool(cloud, project, &uuid, pool).map(|_| ()));
        let children = children.and_then(|()| {
            spec.listeners.iter().try_for_each(|listener| {
                let parent = ("load_balancer", &*uuid);
                self.make_listener(cloud, project, parent, listener)
                    .map(|_| ())
            })
        });
        if let Err(refusal) = children {
            self.delete_balancer(cloud, project, &uuid, Pace::Hand)?;
            return Err(refusal);
        }
        Ok(uuid)
    }

    pub(super) fn make_pool(
        &self,
        cloud: &mut Cloud,
        project: &str,
        balancer: &str,
        spec: &PoolSpec,
    ) -> OrRefusal<String> {
        let fields = body(spec, &[("load_balancer", balancer)])?;
        let uuid = self.create_pool(cloud, project, &fields, Pace::Hand)?;
        for member in &spec.members {
            self.make_member(cloud, project, &uuid, member)?;
        }
        for listener in &spec.listeners {
            self.make_listener(cloud, project, ("pool", &uuid), listener)?;
        }
        if let Some(monitor) = &spec.monitor {
            self.make_monitor(cloud, project, &uuid, monitor)?;
        }
        Ok(uuid)
    }

    pub(super) fn make_member(
        &self,
        cloud: &mut Cloud,
        project: &str,
        pool: &str,
        spec: &MemberSpec,
    ) -> OrRefusal<String> {
        let name = SocketAddr::new(spec.address, spec.protocol_port).to_string();
        let name = spec.name.clone().unwrap_or(name);
        let subnet = match &spec.subnet {
            Some(subnet) => subnet.clone(),
            None => subnet_of(cloud, project, spec.address)?,
        };
        let fields = body(spec, &[("name", &name), ("subnet", &subnet)])?;
        self.create_member(cloud, project, pool, &fields, Pace::Hand)
    }

    pub(super) fn make_listener(
        &self,
        cloud: &mut Cloud,
        project: &str,
        parent: (&str, &str),
        spec: &ListenerSpec,
    ) -> OrRefusal<String> {
        let name = format!("{}/{}", spec.protocol, spec.protocol_port);
        let name = spec.name.clone().unwrap_or(name);
        let fields = body(spec, &[("name", &name), parent])?;
        self.create_listener(cloud, project, &fields, Pace::Hand)
    }

    pub(super) fn make_monitor(
        &self,
        cloud: &mut Cloud,
        project: &str,
        pool: &str,
        spec: &MonitorSpec,
    ) -> OrRefusal<String> {
        self.create_monitor(cloud, project, &body(spec, &[("pool", pool)])?, Pace::Hand)
    }
}

/// What a request would say to make the same.
fn body(spec: &impl Serialize, extra: &[(&str, &str)]) -> OrRefusal<Fields> {
    let mut value = serde_json::to_value(spec).map_err(|e| Refusal::state(e.to_string()))?;
    for (key, text) in extra {
        value[*key] = (*text).into();
    }
    Fields::within("body", &value)
}

fn subnet_of(cloud: &Cloud, project: &str, address: IpAddr) -> OrRefusal<String> {
    let owner = cloud.projects.get(project);
    let mut subnets = owner.into_iter().flat_map(|owner| owner.subnets.all());
    let found = subnets.find(|subnet| subnet.cidr.contains(&address));
    let found = found.map(|subnet| subnet.uuid.clone());
    found.ok_or_else(|| Refusal::state(format!("there is no subnet with the address {address}")))
}
