//! From one Service to its plan: gather, decide, and hand over to who carries it out.

use std::collections::BTreeSet;
use std::time::Duration;

use bowline_core::{
    CloudErrorKind, DraftError, Goal, Notice, PreparedPlan, Problem, source_ranges,
};
use ipnet::IpNet;

use super::execute::{ClbActions, PlanFacts};
use super::own::PlanInputs;
use super::plan::{self, Action, PlanBuilder, Planned, Rules};
use super::{behind, observe, portmap, share};
use crate::api::Machine;
use crate::balancer::cns;
use crate::balancer::firewall::{self, Holder};
use crate::balancer::parts::{push_names, withdrawn};
use crate::balancer::scene::DraftContext;
use crate::balancer::settings::INVALID;

/// For how long the DNS names of members are believed.
pub(super) const NAMES_AGE: Duration = Duration::from_secs(30);
/// Where metrics are read if nobody says otherwise.
const METRICS_PORT: u16 = 8405;
/// What stands for the name of the backends while ports are checked.
const ANY_NAME: &str = "nodes";

/// The plan for a Service that is to be served so. Nothing is wrong with its annotations.
pub(crate) async fn draft(scene: &DraftContext<'_>) -> Result<PreparedPlan, DraftError> {
    let faults = faults(scene);
    if !faults.is_empty() {
        return Ok(super::super::refusal(scene.request, faults, Vec::new()));
    }
    if !scene.account.triton_cns_enabled {
        return Ok(enable_names(scene));
    }
    if let Some(name) = &scene.settings.clb.lb_instance {
        return share::draft(scene, name).await;
    }
    let mut making = PlanInputs::look(scene).await?;
    match making.plan().await? {
        Ok(draft) => Ok(draft),
        Err(problem) => {
            let found = making.found();
            let mut draft = still(scene, vec![problem]);
            draft.plan.found = found;
            Ok(draft)
        }
    }
}

/// What is wrong before anything is asked.
fn faults(scene: &DraftContext<'_>) -> Vec<Problem> {
    let service = &scene.request.service;
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
    if let Err(problems) = portmap::entries(service, &scene.settings.clb, ANY_NAME) {
        faults.extend(problems);
    }
    if let Err(error) = source_ranges(service) {
        faults.push(Problem {
            reason: INVALID,
            message: error.to_string(),
        });
    }
    faults.extend(cns::conflict(scene));
    if !scene.account.triton_cns_enabled && !scene.shared.config.cns_enable_account {
        faults.push(cns::disabled(scene));
    }
    faults
}

/// Nothing is done while a person has to put something right.
pub(super) fn still(scene: &DraftContext<'_>, problems: Vec<Problem>) -> PreparedPlan {
    let mut draft = super::super::refusal(scene.request, Vec::new(), Vec::new());
    draft.plan.unread = false;
    draft.plan.problems = problems;
    draft
}

fn enable_names(scene: &DraftContext<'_>) -> PreparedPlan {
    let mut planned = Planned::default();
    let why = "load balancer machines find the nodes by the name service";
    let builder = &mut planned.builder;
    push_names(builder, &scene.account, why, Action::EnableNames);
    planned.again = Some(Duration::from_secs(1));
    prepared(scene, planned, PlanFacts::default())
}

pub(super) fn prepared(
    scene: &DraftContext<'_>,
    planned: Planned,
    told: PlanFacts,
) -> PreparedPlan {
    let Planned { builder, again } = planned;
    let PlanBuilder { mut plan, actions } = builder;
    if scene.request.goal == Goal::Present {
        plan.held = scene.holding(&behind::label(scene));
    }
    let executor = ClbActions::new(scene, actions, told, again);
    PreparedPlan::new(plan, Box::new(executor))
}

pub(super) async fn rules(
    scene: &DraftContext<'_>,
    members: &[Machine],
    shared: Option<&Machine>,
    notices: &mut Vec<Notice>,
) -> Result<Rules, DraftError> {
    if !scene.shared.config.firewall {
        return Ok(Rules::default());
    }
    let service = &scene.request.service;
    let clb = &scene.settings.clb;
    let holder = Holder::new(scene.cluster, &service.uid);
    // It was read before anything else.
    let sources = source_ranges(service).unwrap_or_default();
    let ports: BTreeSet<u16> = service.ports.iter().map(|it| it.port).collect();
    let mut behind: BTreeSet<u16> = service.ports.iter().map(|it| it.node_port).collect();
    behind.extend(service.local_health_check_port());
    let entries = portmap::entries(service, clb, ANY_NAME).unwrap_or_default();
    behind.extend(entries.iter().filter_map(|it| it.check.as_ref()?.port));
    let guarded = members.iter().any(|it| it.firewall_enabled);
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
    let there = match scene.shared.rules.all(&scene.shared.site).await {
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
    let orphans = &scene.shared.orphans;
    let is_gone = |uid: &str| orphans.is_gone(scene.request, uid);
    Ok(Rules {
        changes: firewall::compare(&holder, &wanted.rules, &there, is_gone),
        there,
    })
}

/// The plan for a Service that is to be served so no more: empty if it has nothing of this mode. Its
/// firewall rules are not its business.
pub(crate) async fn removal(scene: &DraftContext<'_>) -> Result<PreparedPlan, DraftError> {
    let service = &scene.request.service;
    let site = &scene.shared.site;
    let machines = observe::own(site, scene.cluster, &service.uid).await?;
    let clb = &scene.settings.clb;
    let config = &scene.shared.config;
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
            .push(plan::found_thing(machine, &scene.networks));
    }
    if machines.is_empty() {
        scene.shared.clb.forget(&service.uid);
    }
    let label = behind::unlabelling(scene);
    plan::push_label(builder, &label, "no Service needs it any more");
    let told = PlanFacts {
        sharing: share::push_leftovers(scene, builder, None),
        farewell: Some(withdrawn()),
        ..PlanFacts::default()
    };
    Ok(prepared(scene, planned, told))
}
