//! From one Service to its plan and executor.

use std::collections::BTreeSet;
use std::time::Duration;

use bowline_core::{
    CloudErrorKind, DraftError, Goal, Notice, PreparedPlan, Problem, source_ranges,
};
use ipnet::IpNet;

use super::dedicated::PlanInputs;
use super::execute::{ClbActions, PlanFacts};
use super::plan::{self, Action, PlanBuilder, Planned, Rules};
use super::{backend_labels, observe, portmap, shared_appliance};
use crate::api::Machine;
use crate::balancer::cns;
use crate::balancer::draft_context::DraftContext;
use crate::balancer::firewall::{self, Holder};
use crate::balancer::settings::INVALID;
use crate::balancer::steps::{push_names, withdrawn};

/// How long cached DNS names of targets are used.
pub(super) const NAMES_AGE: Duration = Duration::from_secs(30);
/// The default port of the appliance's metrics.
const METRICS_PORT: u16 = 8405;
/// What stands for the name of the backends while ports are checked.
const ANY_NAME: &str = "nodes";

/// The plan for a Service in this mode; its annotations are valid.
pub(crate) async fn draft(context: &DraftContext<'_>) -> Result<PreparedPlan, DraftError> {
    let faults = faults(context);
    if !faults.is_empty() {
        return Ok(super::super::refusal(context.request, faults, Vec::new()));
    }
    if !context.account.triton_cns_enabled {
        return Ok(enable_names(context));
    }
    if let Some(name) = &context.settings.clb.lb_instance {
        return shared_appliance::draft(context, name).await;
    }
    let mut inputs = PlanInputs::look(context).await?;
    match inputs.plan().await? {
        Ok(draft) => Ok(draft),
        Err(problem) => {
            let found = inputs.found();
            let mut draft = still(context, vec![problem]);
            draft.plan.found = found;
            Ok(draft)
        }
    }
}

/// Faults that need no request to the cloud.
fn faults(context: &DraftContext<'_>) -> Vec<Problem> {
    let service = &context.request.service;
    let mut faults = Vec::new();
    let families = &service.ip_families;
    if !families.is_empty() && families.iter().all(|it| it == "IPv6") {
        faults.push(Problem {
            reason: "IPv6Unsupported",
            message:
                "the Service is for IPv6 alone, and machines of this cloud have IPv4 addresses only"
                    .to_owned(),
        });
    }
    if let Err(problems) = portmap::entries(service, &context.settings.clb, ANY_NAME) {
        faults.extend(problems);
    }
    if let Err(error) = source_ranges(service) {
        faults.push(Problem {
            reason: INVALID,
            message: error.to_string(),
        });
    }
    faults.extend(cns::conflict(context));
    if !context.account.triton_cns_enabled && !context.shared.config.cns_enable_account {
        faults.push(cns::disabled(context));
    }
    faults
}

/// A plan without steps: a person has to fix these problems first.
pub(super) fn still(context: &DraftContext<'_>, problems: Vec<Problem>) -> PreparedPlan {
    let mut draft = super::super::refusal(context.request, Vec::new(), Vec::new());
    draft.plan.unread = false;
    draft.plan.problems = problems;
    draft
}

fn enable_names(context: &DraftContext<'_>) -> PreparedPlan {
    let mut planned = Planned::default();
    let why = "load balancer machines find the nodes by the name service";
    let builder = &mut planned.builder;
    push_names(builder, &context.account, why, Action::EnableNames);
    planned.again = Some(Duration::from_secs(1));
    prepared(context, planned, PlanFacts::default())
}

pub(super) fn prepared(
    context: &DraftContext<'_>,
    planned: Planned,
    facts: PlanFacts,
) -> PreparedPlan {
    let Planned { builder, again } = planned;
    let PlanBuilder { mut plan, actions } = builder;
    if context.request.goal == Goal::Present {
        plan.held = context.holding(&backend_labels::label(context));
    }
    let executor = ClbActions::new(context, actions, facts, again);
    PreparedPlan::new(plan, Box::new(executor))
}

pub(super) async fn rules(
    context: &DraftContext<'_>,
    targets: &[Machine],
    shared: Option<&Machine>,
    notices: &mut Vec<Notice>,
) -> Result<Rules, DraftError> {
    if !context.shared.config.firewall {
        return Ok(Rules::default());
    }
    let service = &context.request.service;
    let clb = &context.settings.clb;
    let holder = Holder::new(context.cluster, &service.uid);
    // It was read before anything else.
    let sources = source_ranges(service).unwrap_or_default();
    let ports: BTreeSet<u16> = service.ports.iter().map(|it| it.port).collect();
    let mut behind: BTreeSet<u16> = service.ports.iter().map(|it| it.node_port).collect();
    behind.extend(service.local_health_check_port());
    let entries = portmap::entries(service, clb, ANY_NAME).unwrap_or_default();
    behind.extend(entries.iter().filter_map(|it| it.check.as_ref()?.port));
    let guarded = targets.iter().any(|it| it.firewall_enabled);
    let readers: BTreeSet<IpNet> = clb.metrics_acl.iter().map(|it| IpNet::V4(*it)).collect();
    let metrics_port = clb.metrics_port.unwrap_or(METRICS_PORT);
    let opened = firewall::Machines {
        ports: &ports,
        sources: &sources,
        metrics: (!readers.is_empty() && shared.is_none()).then_some((&readers, metrics_port)),
        back: guarded.then_some(&behind),
        shared: shared.map(|it| it.id),
    };
    let wanted = holder.of_machines(&opened);
    notices.extend(wanted.notices);
    let there = match context.shared.data_center.firewall_rules().await {
        Ok(there) => there,
        Err(error) if error.kind() == CloudErrorKind::Denied => {
            notices.push(Notice {
                warning: true,
                reason: "FirewallNotAllowed",
                message: format!("firewalls are not opened, as rules cannot be listed: {error}"),
            });
            return Ok(Rules::default());
        }
        Err(error) => return Err(error.into()),
    };
    let orphans = &context.shared.orphans;
    let is_gone = |uid: &str| orphans.is_gone(context.request, uid);
    Ok(Rules {
        changes: firewall::compare(&holder, &wanted.rules, &there, is_gone),
        there,
    })
}

/// The plan for a Service that is to be served so no more: empty if it has nothing of this mode.
/// Its firewall rules are not its business.
pub(crate) async fn removal(context: &DraftContext<'_>) -> Result<PreparedPlan, DraftError> {
    let service = &context.request.service;
    let data_center = &context.shared.data_center;
    let machines = observe::own(data_center, context.cluster, &service.uid).await?;
    let clb = &context.settings.clb;
    let config = &context.shared.config;
    let requested = clb
        .deletion_protection
        .unwrap_or(config.clb_deletion_protection);
    let mut planned = Planned::default();
    let builder = &mut planned.builder;
    for machine in &machines {
        let why = "no Service wants it";
        let gone = plan::push_removal(builder, machine, why, requested, &[]);
        if gone.is_none() {
            let (reason, message) = plan::protected(machine);
            builder.plan.problems.push(Problem { reason, message });
        }
        builder
            .plan
            .found
            .push(plan::found_state(machine, &context.networks));
    }
    if machines.is_empty() {
        context.shared.clb.forget(&service.uid);
    }
    let label = backend_labels::unlabelling(context);
    plan::push_label(builder, &label, "no Service needs it any more");
    let facts = PlanFacts {
        sharing: shared_appliance::push_leftovers(context, builder, None),
        withdrawal: Some(withdrawn()),
        ..PlanFacts::default()
    };
    Ok(prepared(context, planned, facts))
}
