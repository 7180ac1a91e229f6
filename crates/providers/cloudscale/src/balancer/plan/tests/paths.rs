//! What must hold after every step: no port leads to members of another, and no monitor asks for
//! what a member does not serve.

use std::collections::{BTreeMap, BTreeSet};

use uuid::Uuid;

use super::super::*;
use super::model::Model;
use crate::api::{Listener, Member};

type Port = (String, u16);

/// Where traffic and checks may go while a plan is carried out.
pub(super) struct Paths {
    /// For each port the ports of the nodes that it led to before, and that it is to lead to.
    node_ports: BTreeMap<Port, BTreeSet<u16>>,
    /// Monitors that were there before, with the ports at which members of their pool were checked.
    /// None if the monitor suits every port, or stays because it is what is wanted.
    monitors: BTreeMap<Uuid, Option<BTreeSet<u16>>>,
    /// For each pool by name the ports at which its members are to be checked.
    checked: BTreeMap<String, BTreeSet<u16>>,
}

fn port_of(listener: &Listener) -> Port {
    (listener.protocol.clone(), listener.protocol_port)
}

fn checked(member: &Member) -> u16 {
    member.monitor_port.unwrap_or(member.protocol_port)
}

impl Paths {
    pub(super) fn of(wanted: &Wanted, model: &Model) -> Self {
        let mut paths = Self {
            node_ports: BTreeMap::new(),
            monitors: BTreeMap::new(),
            checked: BTreeMap::new(),
        };
        for pool in model.there.iter().flat_map(|there| &there.pools) {
            for listener in &pool.listeners {
                let led = paths.node_ports.entry(port_of(listener)).or_default();
                led.extend(pool.members.iter().map(|it| it.protocol_port));
            }
            let request = wanted.pools.iter().find(|it| it.name == pool.pool.name);
            for monitor in &pool.monitors {
                let stays = request.is_some_and(|it| it.monitor.can_become(monitor));
                let free = stays || matches!(monitor.kind.as_str(), "tcp" | "ping");
                let ports = pool.members.iter().map(checked).collect();
                let ports = Some(ports).filter(|_| !free);
                paths.monitors.insert(monitor.uuid, ports);
            }
        }
        for pool in &wanted.pools {
            let listener = (pool.listener.protocol.clone(), pool.listener.protocol_port);
            let led = paths.node_ports.entry(listener).or_default();
            led.extend(pool.members.iter().map(|it| it.protocol_port));
            let ports = pool.members.iter().map(|it| it.monitor_port).collect();
            paths.checked.insert(pool.name.clone(), ports);
        }
        paths
    }

    #[track_caller]
    pub(super) fn check(&self, model: &Model, step: usize) {
        for pool in model.there.iter().flat_map(|there| &there.pools) {
            let members = || pool.members.iter();
            for listener in &pool.listeners {
                let port = port_of(listener);
                let wrong =
                    members().find(|it| !self.node_ports[&port].contains(&it.protocol_port));
                assert_eq!(wrong, None, "{port:?} leads to it after step {step}");
            }
            for monitor in &pool.monitors {
                let allowed = match self.monitors.get(&monitor.uuid) {
                    Some(None) => continue,
                    Some(Some(ports)) => ports,
                    None => &self.checked[&pool.pool.name],
                };
                let wrong = members().find(|it| !allowed.contains(&checked(it)));
                assert_eq!(wrong, None, "{monitor:?} checks it after step {step}");
            }
        }
    }
}
