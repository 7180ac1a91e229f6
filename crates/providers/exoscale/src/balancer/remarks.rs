//! What people are told about a Service beside its steps. Pure.

use bowline_core::{Notice, TAKE_OVER};
use uuid::Uuid;

use super::settings::Fault;
use super::settings::table::{EXTERNAL, ID, NAME};
use crate::api::LoadBalancer;

pub(super) fn adopted(balancer: &LoadBalancer) -> Notice {
    Notice {
        warning: false,
        reason: "LoadBalancerAdopted",
        message: format!(
            "load balancer {:?} ({}) was made for this Service and is used",
            balancer.name, balancer.id
        ),
    }
}

pub(super) fn taken_over(balancer: &LoadBalancer) -> Notice {
    Notice {
        warning: false,
        reason: "LoadBalancerTakenOver",
        message: format!(
            "load balancer {:?} ({}) is this Service's now, as annotation {TAKE_OVER} says",
            balancer.name, balancer.id
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

/// A load balancer of the wanted name exists and is not ours.
pub(super) fn name_taken(balancer: &LoadBalancer) -> Fault {
    Fault {
        reason: "LoadBalancerNameTaken",
        message: format!(
            "load balancer {:?} ({id}) exists and was not made for this Service; annotation {}: \"true\" \
             uses it as it is, {TAKE_OVER}: {id} makes it this Service's, and another {} avoids it",
            balancer.name,
            EXTERNAL.key,
            NAME.key,
            id = balancer.id
        ),
    }
}

pub(super) fn external_is_gone(id: Uuid) -> Fault {
    Fault::invalid(format!(
        "NLB instance marked as external in Service annotations, cannot create: there is no load \
         balancer {id} (annotation {})",
        ID.key
    ))
}

/// The external load balancer of that name, or that there is none, or several.
pub(super) fn external_named<'a>(
    all: &'a [LoadBalancer],
    name: &str,
) -> Result<&'a LoadBalancer, Fault> {
    let id: Option<Uuid> = name.parse().ok();
    let fits: Vec<&LoadBalancer> = all
        .iter()
        .filter(|it| it.name == name || Some(it.id) == id)
        .collect();
    match fits.as_slice() {
        [one] => Ok(one),
        [] => Err(Fault::invalid(format!(
            "NLB instance is marked external by name \"{name}\", but no matching NLB was found"
        ))),
        several => {
            let ids: Vec<String> = several.iter().map(|it| it.id.to_string()).collect();
            Err(Fault::invalid(format!(
                "NLB instance is marked external by name \"{name}\", and several match: annotation {} says \
                 which ({})",
                ID.key,
                ids.join(", ")
            )))
        }
    }
}
