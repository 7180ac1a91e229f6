//! Who may have a floating IP. Pure.
//!
//! One that points to nothing, or to a load balancer of a Service of the same namespace that no
//! longer wants it, may be assigned. Of several Services that want one the present holder keeps it,
//! or else the oldest. Nothing else of either waits for it.

use std::net::IpAddr;
use std::sync::Arc;

use bowline_core::{BalancerRequest, ClusterMatch, Notice, Problem, Service, match_by_uid};
use uuid::Uuid;

use super::ownership::{mark_of, uid_in_name};
use super::settings::table::FLOATING_IPS;
use super::settings::{floating_ips_of, may_be_ours};
use crate::api::{FloatingIp, LoadBalancer};

/// The reason of events about floating IPs that several Services want.
const CONFLICT: &str = "FloatingIPConflict";
/// The reason of events about floating IPs that point to something else.
const IN_USE: &str = "FloatingIPInUse";

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Granted {
    /// Those that it may have, in its order.
    pub(super) addresses: Vec<IpAddr>,
    pub(super) refused: Vec<Problem>,
    /// What it should know about those that it has.
    pub(super) notices: Vec<Notice>,
}

enum Target<'a> {
    Nothing,
    Own,
    /// The load balancer of another Service of this cluster.
    Of(&'a Arc<Service>),
    Elsewhere,
}

/// Which of the wanted floating IPs the Service may have. `own` is its load balancer, if it is
/// there.
pub(super) fn grant(
    request: &BalancerRequest,
    wanted: &[IpAddr],
    there: &[FloatingIp],
    balancers: &[LoadBalancer],
    own: Option<Uuid>,
) -> Granted {
    let service = &request.service;
    let mut granted = Granted::default();
    for address in wanted {
        let known = there.iter().find(|it| it.address() == Some(*address));
        let rivals = rivals(request, *address);
        let target = target(request, known, balancers, own);
        let may_move = request.rules.floating_ips.allows(&service.key.namespace);
        let older = || rivals.iter().find(|it| is_older(it, service)).copied();
        let holder = match &target {
            Target::Of(other) if rivals.iter().any(|it| it.uid == other.uid) => Some(*other),
            Target::Nothing | Target::Of(_) => older(),
            // Those who may move it settle that by age.
            Target::Elsewhere if may_move => older(),
            Target::Own | Target::Elsewhere => None,
        };
        if let Some(holder) = holder {
            let text = format!("assigned to another service: {address}->{}", holder.key);
            granted.refused.push(problem(CONFLICT, &text));
            continue;
        }
        let may_have = match &target {
            Target::Nothing | Target::Own => true,
            Target::Of(other) => other.key.namespace == service.key.namespace || may_move,
            Target::Elsewhere => may_move,
        };
        if !may_have {
            let text = format!(
                "{address} is in use and is not moved: it points to something that is not this Service's; take it away \
                 there, or ask the operator of the cluster (loadBalancers.floatingIps)"
            );
            granted.refused.push(problem(IN_USE, &text));
            continue;
        }
        granted.addresses.push(*address);
        granted.notices.extend(rivals.iter().map(|rival| Notice {
            warning: true,
            reason: CONFLICT,
            message: format!(
                "Service {} wants floating IP {address}, too; this Service keeps it",
                rival.key
            ),
        }));
    }
    granted
}

fn problem(reason: &'static str, text: &str) -> Problem {
    Problem {
        reason,
        message: format!("annotation {}: {text}", FLOATING_IPS.key),
    }
}

fn rivals(request: &BalancerRequest, address: IpAddr) -> Vec<&Arc<Service>> {
    let others = request.all.iter().filter(|other| {
        other.uid != request.service.uid
            && other.is_load_balancer
            && !other.deleting
            && may_be_ours(other)
    });
    let mut rivals: Vec<&Arc<Service>> = others
        .filter(|it| floating_ips_of(it).contains(&address))
        .collect();
    rivals.sort_by(|one, other| (one.created, &one.uid).cmp(&(other.created, &other.uid)));
    rivals
}

/// The uid decides between Services of one second.
fn is_older(one: &Service, other: &Service) -> bool {
    (one.created, &one.uid) < (other.created, &other.uid)
}

fn target<'a>(
    request: &'a BalancerRequest,
    known: Option<&FloatingIp>,
    balancers: &[LoadBalancer],
    own: Option<Uuid>,
) -> Target<'a> {
    let Some(known) = known else {
        return Target::Nothing;
    };
    let Some(id) = known.load_balancer else {
        return match known.server {
            Some(_) => Target::Elsewhere,
            None => Target::Nothing,
        };
    };
    if own == Some(id) {
        return Target::Own;
    }
    let balancer = balancers.iter().find(|it| it.uuid == id);
    let owner = balancer.and_then(|it| owner(it, request));
    owner.map_or(Target::Elsewhere, Target::Of)
}

/// The Service of this cluster whose uid is in its mark or name.
fn owner<'a>(balancer: &LoadBalancer, request: &'a BalancerRequest) -> Option<&'a Arc<Service>> {
    let mark = mark_of(balancer);
    let of = mark.as_ref().and_then(|it| it.cluster_uid.as_deref());
    if match_by_uid(of, request.cluster_uid.as_deref()) == Some(ClusterMatch::Foreign) {
        return None;
    }
    let uid = match &mark {
        Some(mark) => mark.service_uid.as_str(),
        None => uid_in_name(&balancer.name)?,
    };
    request.all.iter().find(|it| it.uid == uid)
}
