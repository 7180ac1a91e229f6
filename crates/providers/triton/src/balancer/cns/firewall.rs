//! Which firewall rules a Service on nodes wants, and the steps to them.

use bowline_core::{CloudErrorKind, DraftError, Goal, Notice, source_ranges};

use super::{Action, PlanInputs, check};
use crate::api::Machine;
use crate::balancer::firewall::{Holder, Nodes, compare};
use crate::balancer::parts::push_rule;
use crate::balancer::settings::{INVALID, PortMode};

impl PlanInputs<'_> {
    /// Plans the rules of a Service with those members; with none to be served, that they go.
    pub(super) async fn plan_rules(&mut self, members: &[Machine]) -> Result<(), DraftError> {
        let scene = self.scene;
        let service = &scene.request.service;
        let keeps_rules = scene.shared.config.firewall;
        let holder = Holder::new(scene.cluster, &service.uid);
        let mut wanted = crate::balancer::firewall::Wanted::default();
        if scene.request.goal == Goal::Present {
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
            let mode = scene.settings.port_mode;
            let ports = service.ports.iter();
            let ports: Vec<_> = ports
                .map(|port| (port.protocol.clone(), check::node_port(mode, port)))
                .collect();
            let guarded = members.iter().filter(|it| it.firewall_enabled).count();
            wanted = holder.of_nodes(&Nodes {
                ports: &ports,
                sources: &sources,
                guarded,
                open: members.len() - guarded,
                enforced: mode == PortMode::Direct,
                keeps_rules,
            });
        }
        self.builder.plan.notices.extend(wanted.notices);
        if !keeps_rules {
            return Ok(());
        }
        let there = match scene.shared.rules.all(&scene.shared.site).await {
            Ok(there) => there,
            // Without the right to see rules there are none of ours.
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
        let is_gone = |uid: &str| scene.shared.orphans.is_gone(scene.request, uid);
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
        message: format!("the members' firewalls are not opened, as rules cannot be listed: {why}"),
    }
}
