//! Notices and problems in a Service's plan. Pure.

use std::net::IpAddr;

use bowline_core::{BalancerRequest, Notice, Problem, name_list};
use uuid::Uuid;

use super::desire::Host;
use super::find::Claimed;
use super::plan::PlanBuilder;
use super::settings::table::{ALLOWED_SUBNETS, FLOATING_IPS, NODE_SELECTOR, UUID, VIP_ADDRESSES};
use super::settings::{Fault, INVALID, Settings, VipWish};
use crate::api::{FloatingIp, LoadBalancer};

/// The reason of events about Services with more than one load balancer.
pub(super) const DUPLICATE: &str = "DuplicateLoadBalancer";
/// How many load balancers in question are written out.
const NAMED: usize = 5;
pub(super) const NO_VALID_NODES: &str = "NoValidNodes";
pub(super) const NODE_SKIPPED: &str = "NodeSkipped";

/// Nodes with a notice of their own; further ones are only named. When a cloud has lost hundreds of
/// servers, as many events for every Service help nobody.
const MOST_NOTICES: usize = 10;

pub(super) fn problem(fault: &Fault) -> Problem {
    Problem {
        reason: fault.reason,
        message: fault.message.clone(),
    }
}

pub(super) fn only_problem(reason: &'static str, message: String) -> PlanBuilder {
    let mut builder = PlanBuilder::default();
    builder.plan.problems.push(Problem { reason, message });
    builder
}

/// Other load balancers of the same name are only counted: they may belong to others.
pub(super) fn duplicates(name: &str, others: usize) -> Option<Notice> {
    (others > 0).then(|| Notice {
        warning: true,
        reason: DUPLICATE,
        message: format!(
            "other load balancers ({others}) have the name {name:?} or are this Service's as well; they are left alone"
        ),
    })
}

/// Several are the Service's own, and nothing shows which one is in use.
pub(super) fn more_than_one(all: &[Claimed]) -> String {
    let shown = all
        .iter()
        .take(NAMED)
        .map(|it| it.balancer.uuid.to_string());
    let shown: Vec<String> = shown.collect();
    format!(
        "found more than one load balancer of this Service: {}; annotation {} says which one is in use",
        shown.join(", "),
        UUID.key
    )
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

/// No node serves the Service: how many there are, and what keeps each of them out.
pub(super) fn no_valid_nodes(request: &BalancerRequest, settings: &Settings) -> Notice {
    let mut reasons = request.excluded.reasons();
    let nodes = request.nodes.iter();
    let selected = nodes.filter(|it| settings.selector.matches(&it.labels));
    let selected = selected.count();
    let key = NODE_SELECTOR.key;
    let value = request.service.annotation(key).unwrap_or_default();
    for (count, why) in [
        (
            request.nodes.len() - selected,
            format!("that annotation {key} {value:?} leaves out"),
        ),
        (selected, "without a server".to_owned()),
    ] {
        if count > 0 {
            reasons.push(format!("{count} {why}"));
        }
    }
    let reasons = match reasons.as_slice() {
        [] => "the cluster has none".to_owned(),
        reasons => format!("there are {}", reasons.join(", ")),
    };
    Notice {
        warning: true,
        reason: NO_VALID_NODES,
        message: format!("no node can be a target: {reasons}"),
    }
}

/// Nodes that are no members because they have no server, each with why.
pub(super) fn without_server(nodes: &[(&str, String)]) -> Vec<Notice> {
    let notice = |message: String| Notice {
        warning: true,
        reason: NODE_SKIPPED,
        message,
    };
    let (reported, more) = nodes.split_at(nodes.len().min(MOST_NOTICES));
    let reported = reported.iter();
    let mut notices: Vec<Notice> = reported
        .map(|(node, why)| notice(format!("node {node} is no member: {why}")))
        .collect();
    if !more.is_empty() {
        let names = name_list(more.iter().map(|(node, _)| *node));
        notices.push(notice(format!("nor are nodes [{names}] members")));
    }
    notices
}

/// Hosts that cannot be members for want of an address, and the way out.
pub(super) fn hosts_without_address(settings: &Settings, hosts: &[Host]) -> Option<Notice> {
    let allowed = &settings.allowed_subnets;
    let is_usable = |subnet: Uuid| allowed.is_empty() || allowed.contains(&subnet);
    let without = hosts.iter().filter(|host| {
        let private = host.server.interfaces.iter().filter(|it| !it.public);
        let mut addresses = private.flat_map(|interface| &interface.addresses);
        !addresses.any(|it| it.subnet.is_some_and(is_usable))
    });
    let without: Vec<&str> = without.map(|host| host.node.as_str()).collect();
    let (reason, who) = match without.len() {
        0 => return None,
        count if count == hosts.len() => (NO_VALID_NODES, "all pools stay empty: "),
        _ => (NODE_SKIPPED, ""),
    };
    let what = if allowed.is_empty() {
        "no private address, and load balancers reach servers by those alone: attach the servers to \
         a private network"
            .to_owned()
    } else {
        let key = ALLOWED_SUBNETS.key;
        format!(
            "no address in the subnets of annotation {key}: attach the servers to one of these, or \
             change the annotation"
        )
    };
    Some(Notice {
        warning: true,
        reason,
        message: format!(
            "{who}nodes [{}] have {what}",
            name_list(without.iter().copied())
        ),
    })
}
