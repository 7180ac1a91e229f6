//! What is there compared with what is wanted: what stays, and what cannot be changed.

use std::collections::BTreeSet;

use super::SeenPool;
use crate::api::{Listener, LoadBalancer, Member, Pool};
use crate::balancer::desire::{Wanted, WantedListener, WantedPool, ZoneWish};
use crate::balancer::settings::table::{FLAVOR, VIP_ADDRESSES, ZONE};
use crate::balancer::settings::{Fault, INVALID, VipWish};

/// What cannot be changed and is refused. `wanted.zone` counts only if a person chose it.
pub(crate) fn refusals(wanted: &Wanted, balancer: &LoadBalancer) -> Vec<Fault> {
    let mut faults = Vec::new();
    let mut refuse = |key: &str, is: String, asked: String| {
        faults.push(Fault {
            reason: INVALID,
            message: format!(
                "annotation {key}: load balancer {:?} has {is}, and that cannot be changed to {asked}",
                balancer.name
            ),
            about_members: false,
        });
    };
    if !wanted.vips.is_empty() && !same_vips(&wanted.vips, balancer) {
        let is: Vec<&str> = balancer
            .vip_addresses
            .iter()
            .map(|vip| vip.address.as_str())
            .collect();
        let asked: Vec<String> = wanted
            .vips
            .iter()
            .map(|vip| match vip.address {
                Some(address) => address.to_string(),
                None => format!("any of subnet {}", vip.subnet),
            })
            .collect();
        refuse(VIP_ADDRESSES.key, is.join(", "), asked.join(", "));
    }
    if wanted.flavor != balancer.flavor {
        refuse(FLAVOR.key, balancer.flavor.clone(), wanted.flavor.clone());
    }
    if let ZoneWish::Chosen(zone) = &wanted.zone
        && *zone != balancer.zone
    {
        refuse(ZONE.key, balancer.zone.clone(), zone.clone());
    }
    faults
}

fn same_vips(wanted: &[VipWish], balancer: &LoadBalancer) -> bool {
    let there = &balancer.vip_addresses;
    wanted.len() == there.len()
        && wanted.iter().zip(there).all(|(request, vip)| {
            vip.subnet == Some(request.subnet)
                && (request.address.is_none() || request.address == vip.address.parse().ok())
        })
}

impl WantedListener {
    /// Whether that one holds the wanted port.
    pub(super) fn is(&self, listener: &Listener) -> bool {
        self.protocol == listener.protocol && self.protocol_port == listener.protocol_port
    }
}

impl WantedPool {
    /// Whether members at a port of the nodes come that no member of that pool has.
    pub(super) fn brings_node_port(&self, pool: &SeenPool) -> bool {
        let known: BTreeSet<u16> = pool.members.iter().map(|it| it.protocol_port).collect();
        let mut members = self.members.iter();
        members.any(|member| !known.contains(&member.protocol_port))
    }

    /// Whether members come that are checked at a port at which no member of that pool is.
    pub(super) fn brings_monitor_port(&self, pool: &SeenPool) -> bool {
        let checked = |it: &Member| it.monitor_port.unwrap_or(it.protocol_port);
        let known: BTreeSet<u16> = pool.members.iter().map(checked).collect();
        let mut members = self.members.iter();
        members.any(|member| !known.contains(&member.monitor_port))
    }

    /// Whether the pool has listeners of other ports.
    pub(super) fn shares(&self, pool: &SeenPool) -> bool {
        let mut listeners = pool.listeners.iter();
        listeners.any(|listener| !self.listener.is(listener))
    }
}

/// Whether the pool can become the wanted one where it is. Not while another port that stays leads
/// to it, and other members come (names of ports were exchanged, say): its clients would be led to
/// them. Then a new pool is made beside it, and each listener moves to where its members are.
fn can_become(all: &Wanted, wanted: &WantedPool, pool: &SeenPool) -> bool {
    let moves = |listener: &Listener| {
        let mut others = all.pools.iter().filter(|it| it.name != wanted.name);
        others.any(|other| other.listener.is(listener))
    };
    !wanted.brings_node_port(pool) || !pool.listeners.iter().any(moves)
}

/// For each wanted pool the one that is there for it: of those with the same key, that with the
/// listener, or else with any, or else the oldest. `exactly`: it can become the wanted one.
pub(super) fn choose<'a>(
    wanted: &Wanted,
    there: &'a [SeenPool],
    exactly: bool,
) -> Vec<Option<&'a SeenPool>> {
    let mut used = BTreeSet::new();
    let (all, pools) = (wanted, wanted.pools.iter());
    pools
        .map(|wanted| {
            let same = |pool: &Pool| {
                pool.algorithm == wanted.algorithm && pool.protocol == wanted.protocol
            };
            let best = there
                .iter()
                .filter(|it| it.pool.name == wanted.name && !used.contains(&it.pool.uuid))
                .filter(|it| !exactly || same(&it.pool) && can_become(all, wanted, it))
                .min_by_key(|it| {
                    let fits = it.listeners.iter().any(|it| wanted.listener.is(it));
                    let created = it.pool.created_at.clone();
                    let any = it.listeners.is_empty();
                    (!fits, any, !same(&it.pool), created, it.pool.uuid)
                });
            used.extend(best.map(|it| it.pool.uuid));
            best
        })
        .collect()
}
