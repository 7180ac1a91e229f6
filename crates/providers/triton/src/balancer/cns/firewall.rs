//! Which firewall rules a Service on nodes wants, and the steps to them.

use bowline_core::{CloudErrorKind, DraftError, Goal, Notice, source_ranges};

use super::{Action, PlanInputs, check};
use crate::api::Machine;
use crate::balancer::firewall::{Holder, Nodes, compare};
use crate::balancer::settings::{INVALID, PortMode};
use crate::balancer::steps::push_rule;

impl PlanInputs<'_> {
    /// Plans the rules of a Service with those targets; for a Service that goes, their removal.
    pub(super) async fn plan_rules(&mut self, targets: &[Machine]) -> Result<(), DraftError> {
        let context = self.context;
        let service = &context.request.service;
        let keeps_rules = context.shared.config.firewall;
        let holder = Holder::new(context.cluster, &service.uid);
        let mut wanted = crate::balancer::firewall::Wanted::default();
        if context.request.goal == Goal::Present {
            let sources = match source_ranges(service) {
                Ok(sources) => sources,
                Err(error) => {
                    // Nothing is opened because of it.
                    self.builder.plan.problems.push(bowline_core::Problem {
                        reason: INVALID,
                        message: error.to_string(),
                    });
                    return Ok(());
                }
            };
            let mode = context.settings.port_mode;
            let ports = service.ports.iter();
            let ports: Vec<_> = ports
                .map(|port| (port.protocol.clone(), check::node_port(mode, port)))
                .collect();
            let guarded = targets.iter().filter(|it| it.firewall_enabled).count();
            wanted = holder.of_nodes(&Nodes {
                ports: &ports,
                sources: &sources,
                guarded,
                open: targets.len() - guarded,
                enforced: mode == PortMode::Direct,
                keeps_rules,
            });
        }
        self.builder.plan.notices.extend(wanted.notices);
        if !keeps_rules {
            return Ok(());
        }
        let there = match context.shared.data_center.firewall_rules().await {
            Ok(there) => there,
            // Without permission to list rules there are none of ours.
            Err(error) if error.kind() == CloudErrorKind::Denied => {
                if !wanted.rules.is_empty() {
                    self.builder
                        .plan
                        .notices
                        .push(not_allowed(&error.to_string()));
                }
                return Ok(());
            }
            Err(error) => return Err(error.into()),
        };
        let is_gone = |uid: &str| context.shared.orphans.is_gone(context.request, uid);
        for change in compare(&holder, &wanted.rules, &there, is_gone) {
            let action = Action::Rule(change.clone());
            push_rule(&mut self.builder, &change, &there, action);
        }
        Ok(())
    }
}

fn not_allowed(why: &str) -> Notice {
    Notice {
        warning: true,
        reason: "FirewallNotAllowed",
        message: format!("the targets' firewalls are not opened, as rules cannot be listed: {why}"),
    }
}
