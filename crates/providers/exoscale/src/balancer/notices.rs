//! Notices and problems in a Service's plan. Pure. None reveals an id or an address that the
//! Service did not name itself.

use bowline_core::{NOT_OURS, Notice, Problem};
use uuid::Uuid;

use super::record::MOST_ATTACHED;
use super::settings::invalid;
use super::settings::table::{EXTERNAL, ID, INSTANCE_POOL};
use crate::api::LoadBalancer;

pub(super) fn adopted(balancer: &LoadBalancer) -> Notice {
    Notice {
        warning: false,
        reason: "LoadBalancerFound",
        message: format!(
            "load balancer {:?} was made for this Service and is used",
            balancer.name
        ),
    }
}

pub(super) fn recreated(lost: Uuid) -> Notice {
    Notice {
        warning: true,
        reason: "LoadBalancerRecreated",
        message: format!("load balancer {lost} is gone; a new one is made, with another address"),
    }
}

/// The Service names a load balancer that is not its own, by its id.
pub(super) fn attached(annotation: &str, balancer: &LoadBalancer) -> Notice {
    Notice {
        warning: true,
        reason: NOT_OURS,
        message: format!(
            "annotation {annotation}: {} names a load balancer that is not this Service's. Bowline adds services for \
             this Service's ports where they are free and changes nothing else of it; annotation {}: \"true\" says that \
             this is intended. The operator of the cluster can allow its adoption",
            balancer.id, EXTERNAL.key
        ),
    }
}

/// A refusal that keeps nothing else from being done.
pub(super) fn refused(refusal: Problem) -> Notice {
    Notice {
        warning: true,
        reason: refusal.reason,
        message: refusal.message,
    }
}

pub(super) fn attaching_is_not_allowed() -> Problem {
    Problem {
        reason: NOT_OURS,
        message: "the load balancer that this Service names is not its own, and the operator of the cluster does not \
                  allow Services of this namespace to use load balancers of others (loadBalancers.externalBalancers)"
            .to_owned(),
    }
}

pub(super) fn attached_too_often() -> Problem {
    invalid(format!(
        "this Service has used {MOST_ATTACHED} load balancers of others, and cannot use another one; a new Service can"
    ))
}

pub(super) fn no_such_pool(pool: Uuid) -> Problem {
    invalid(format!(
        "there is no instance pool {pool} in this zone (annotation {}): nothing is created for it",
        INSTANCE_POOL.key
    ))
}

pub(super) fn pool_without_nodes(pool: Uuid) -> Notice {
    Notice {
        warning: true,
        reason: "InstancePoolWithoutNodes",
        message: format!(
            "instance pool {pool} has no node of this cluster: the load balancer sends traffic to instances that do \
             not serve this Service"
        ),
    }
}

pub(super) fn external_is_gone(id: Uuid) -> Problem {
    invalid(format!(
        "NLB instance marked as external in Service annotations, cannot create: there is no load \
         balancer {id} (annotation {})",
        ID.key
    ))
}

/// The external load balancer of that name, or that there is none, or several.
pub(super) fn external_named<'a>(
    all: &'a [LoadBalancer],
    name: &str,
) -> Result<&'a LoadBalancer, Problem> {
    let id: Option<Uuid> = name.parse().ok();
    let fits: Vec<&LoadBalancer> = all
        .iter()
        .filter(|it| it.name == name || Some(it.id) == id)
        .collect();
    match fits.as_slice() {
        [one] => Ok(one),
        [] => Err(invalid(format!(
            "NLB instance is marked external by name \"{name}\", but no matching NLB was found"
        ))),
        several => Err(invalid(format!(
            "NLB instance is marked external by name \"{name}\", and {} match: annotation {} says which",
            several.len(),
            ID.key,
        ))),
    }
}
