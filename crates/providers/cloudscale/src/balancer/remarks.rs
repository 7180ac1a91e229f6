//! What people are told about a Service beside its steps. Pure.

use std::net::IpAddr;

use bowline_core::{Notice, Problem, Wish};
use uuid::Uuid;

use super::desire::{Host, Wanted};
use super::plan::Sketch;
use super::settings::table::{ALLOWED_SUBNETS, FLOATING_IPS, VIP_ADDRESSES};
use super::settings::{self, Fault, INVALID, Settings, VipWish};
use crate::api::{FloatingIp, LoadBalancer};

/// The reason of events about load balancers that are not ours.
pub(super) const OWNED_BY_OTHER: &str = "LoadBalancerOwnedByOther";

pub(super) fn problem(fault: &Fault) -> Problem {
    Problem {
        reason: fault.reason,
        message: fault.message.clone(),
    }
}

pub(super) fn only_problem(reason: &'static str, message: String) -> Sketch {
    let mut sketch = Sketch::default();
    sketch.plan.problems.push(Problem { reason, message });
    sketch
}

/// Other load balancers of the same name are told and left alone.
pub(super) fn duplicates(name: &str, others: &[Uuid]) -> Option<Notice> {
    let shown: Vec<String> = others.iter().map(Uuid::to_string).collect();
    (!others.is_empty()).then(|| Notice {
        warning: true,
        reason: "DuplicateLoadBalancer",
        message: format!(
            "other load balancers have the name {name:?} and are left alone: {}",
            shown.join(", ")
        ),
    })
}

/// Other Services that want the same floating IPs.
pub(super) fn floating_ip_conflict(wish: &Wish, settings: &Settings) -> Option<Fault> {
    let service = &wish.service;
    let mut taken = Vec::new();
    for address in &settings.floating_ips {
        let others = wish.all.iter().filter(|other| {
            other.uid != service.uid
                && other.is_load_balancer
                && !other.deleting
                && settings::may_be_ours(other)
        });
        let mut holders = others.filter(|it| settings::floating_ips_of(it).contains(address));
        taken.extend(holders.next().map(|it| format!("{address}->{}", it.key)));
    }
    (!taken.is_empty()).then(|| Fault {
        reason: "FloatingIPConflict",
        message: format!(
            "annotation {}: assigned to another service: {}",
            FLOATING_IPS.key,
            taken.join(", ")
        ),
        about_members: false,
    })
}

pub(super) fn unknown_floating_ips(settings: &Settings, there: &[FloatingIp]) -> Option<Fault> {
    let known = |address: &IpAddr| there.iter().any(|it| it.address() == Some(*address));
    let unknown: Vec<String> = settings
        .floating_ips
        .iter()
        .filter(|address| !known(address))
        .map(IpAddr::to_string)
        .collect();
    (!unknown.is_empty()).then(|| Fault {
        reason: INVALID,
        message: format!(
            "annotation {}: the project has no floating IP {}",
            FLOATING_IPS.key,
            unknown.join(", ")
        ),
        about_members: false,
    })
}

/// The cloud cannot change addresses, and nobody would notice.
pub(super) fn private_vips_stay(wanted: &[VipWish], found: &LoadBalancer) -> Option<Notice> {
    let private = |text: &str| match text.parse() {
        Ok(IpAddr::V4(address)) => address.is_private(),
        Ok(IpAddr::V6(address)) => address.is_unique_local(),
        Err(_) => false,
    };
    let is_private = found.vip_addresses.iter().any(|it| private(&it.address));
    (wanted.is_empty() && is_private).then(|| Notice {
        warning: true,
        reason: INVALID,
        message: format!(
            "annotation {} is empty, and load balancer {:?} has private addresses, which cannot be \
             changed: they stay",
            VIP_ADDRESSES.key, found.name
        ),
    })
}

pub(super) fn no_members_of_subnets(
    settings: &Settings,
    hosts: &[Host],
    wanted: &Wanted,
) -> Option<Notice> {
    let empty = wanted.pools.iter().all(|pool| pool.members.is_empty());
    let limited = !settings.allowed_subnets.is_empty();
    (limited && empty && !hosts.is_empty() && !wanted.pools.is_empty()).then(|| Notice {
        warning: true,
        reason: "NoValidNodes",
        message: format!(
            "no node has an address in the subnets of annotation {}",
            ALLOWED_SUBNETS.key
        ),
    })
}
