//! What goes when a Service leaves a load balancer.

use bowline_core::{Impact, Notice};

use super::{Action, BALANCER, SERVICE, SHARED, Sketch, is_at, remark, seen};
use crate::api::{LoadBalancer, LoadBalancerState};
use crate::balancer::desire::{Entrance, entrance};
use crate::balancer::ownership::{Family, Whose};

/// Adds the removal of a load balancer, as far as it is the Service's, to a plan. `entrances` are
/// those of the Service's ports: what is there counts as its own unless another Service has it.
pub(crate) fn remove(
    sketch: &mut Sketch,
    family: Family<'_>,
    there: &LoadBalancer,
    manages: bool,
    entrances: &[Entrance],
) {
    let object = || seen(BALANCER, &there.name, there.id);
    if manages && there.state == LoadBalancerState::Deleting {
        let why = remark(Impact::None, Some("it is being removed"), &[]);
        sketch.wait(object(), &why, Action::AwaitEnd(there.id));
        return;
    }
    let mut needs = Vec::new();
    let mut stay = Vec::new();
    for service in &there.services.items {
        let goes = match family.whose(service) {
            Whose::Ours => true,
            Whose::Another(_) | Whose::Unclear => false,
            Whose::Foreign => entrances.iter().any(|it| is_at(service, it)),
        };
        if !goes {
            stay.push(service.name.as_str());
            continue;
        }
        let why = remark(Impact::Interrupts, Some("no Service wants it"), &[]);
        let action = Action::DeleteService {
            balancer: there.id,
            id: service.id,
        };
        let service = seen(SERVICE, &service.name, service.id);
        needs.push(sketch.delete(service, &why, action));
    }
    if manages && stay.is_empty() {
        let why = remark(Impact::Destroys, Some("no Service wants it"), &needs);
        sketch.delete(object(), &why, Action::DeleteBalancer(there.id));
    } else if manages {
        sketch.plan.notices.push(Notice {
            warning: true,
            reason: SHARED,
            message: format!(
                "load balancer {:?} ({}) stays: it has services that are not this Service's ({})",
                there.name,
                there.id,
                stay.join(", ")
            ),
        });
    }
}

/// The entrances of a Service's ports.
pub(crate) fn entrances(service: &bowline_core::Service) -> Vec<Entrance> {
    service.ports.iter().filter_map(entrance).collect()
}

/// Whether it cannot be told whose a service at these entrances is: it must neither go nor be left
/// behind.
pub(crate) fn is_in_doubt(
    family: Family<'_>,
    there: &LoadBalancer,
    entrances: &[Entrance],
) -> bool {
    let mut all = there.services.items.iter();
    all.any(|it| {
        entrances.iter().any(|entrance| is_at(it, entrance)) && family.whose(it) == Whose::Unclear
    })
}
