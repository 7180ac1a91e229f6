//! What goes when a Service leaves a load balancer.

use bowline_core::{Impact, Notice};

use super::{Action, BALANCER, PlanBuilder, SERVICE, SHARED, note, seen};
use crate::api::{LoadBalancer, LoadBalancerState};
use crate::balancer::ownership::{OwnershipContext, ServiceOwner};

/// Adds the removal of a load balancer, as far as it is the Service's, to a plan.
pub(crate) fn remove(
    builder: &mut PlanBuilder,
    context: OwnershipContext<'_>,
    there: &LoadBalancer,
    manages: bool,
) {
    let object = || seen(BALANCER, &there.name, there.id);
    if manages && there.state == LoadBalancerState::Deleting {
        let why = note(Impact::None, Some("it is being removed"), &[]);
        builder.wait(object(), &why, Action::AwaitEnd(there.id));
        return;
    }
    let mut needs = Vec::new();
    let mut stay = 0_usize;
    for service in &there.services.items {
        let goes = match context.owner(service) {
            ServiceOwner::Ours => true,
            // Left by an earlier Service on what is this one's.
            ServiceOwner::LeftOver => manages,
            ServiceOwner::Another(_) | ServiceOwner::Foreign => false,
        };
        if !goes {
            stay += 1;
            continue;
        }
        let why = note(Impact::Interrupts, Some("no Service wants it"), &[]);
        let action = Action::DeleteService {
            balancer: there.id,
            id: service.id,
        };
        let service = seen(SERVICE, &service.name, service.id);
        needs.push(builder.delete(service, &why, action));
    }
    if manages && stay == 0 {
        let why = note(Impact::Destroys, Some("no Service wants it"), &needs);
        builder.delete(object(), &why, Action::DeleteBalancer(there.id));
    } else if manages {
        builder.plan.notices.push(Notice {
            warning: true,
            reason: SHARED,
            message: format!(
                "load balancer {:?} stays: it has services that are not this Service's ({stay})",
                there.name,
            ),
        });
    }
}
