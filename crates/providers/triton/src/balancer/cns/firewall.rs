//! Which firewall rules a Service on nodes wants, and the steps to them.

use bowline_core::{
    Change, CloudErrorKind, DraftError, Goal, Impact, Notice, ResourceRef, StepNote, source_ranges,
};

use super::{Action, PlanInputs, check};
use crate::api::{FirewallRule, Machine};
use crate::balancer::firewall::{Holder, Nodes, RuleChange, compare};
use crate::balancer::settings::{INVALID, PortMode};

impl PlanInputs<'_> {
    /// Plans the rules of a Service with those members; with none to be served, that they go.
    pub(super) async fn plan_rules(&mut self, members: &[Machine]) -> Result<(), DraftError> {
        let scene = self.scene;
        let service = &scene.wish.service;
        let keeps_rules = scene.shared.config.firewall;
        let holder = Holder::new(scene.cluster, &service.uid);
        let mut wanted = crate::balancer::firewall::Wanted::default();
        if scene.wish.goal == Goal::Present {
            let sources = match source_ranges(service) {
                Ok(sources) => sources,
                Err(error) => {
                    // Nothing is opened because of it.
                    self.sketch.plan.problems.push(bowline_core::Problem {
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
        self.sketch.plan.notices.extend(wanted.notices);
        if !keeps_rules {
            return Ok(());
        }
        let there = match scene.shared.rules.all(&scene.shared.site).await {
            Ok(there) => there,
            // Without the right to see rules there are none of ours.
            Err(error) if error.kind() == CloudErrorKind::Denied => {
                if !wanted.rules.is_empty() {
                    self.sketch
                        .plan
                        .notices
                        .push(not_allowed(&error.to_string()));
                }
                return Ok(());
            }
            Err(error) => return Err(bowline_core::CloudError::from(error).into()),
        };
        let is_gone = |uid: &str| scene.shared.orphans.is_gone(scene.wish, uid);
        for change in compare(&holder, &wanted.rules, &there, is_gone) {
            self.push_rule(&change, &there);
        }
        Ok(())
    }

    fn push_rule(&mut self, change: &RuleChange, there: &[FirewallRule]) {
        let remark = |impact| StepNote {
            impact,
            reason: None,
            needs: &[],
        };
        let object = |id: Option<String>| ResourceRef {
            kind: "firewall rule",
            name: change.name().to_owned(),
            id,
        };
        let action = Action::Rule(change.clone());
        match change {
            RuleChange::Create(rule) => {
                let mut body = serde_json::Map::new();
                body.insert("rule".to_owned(), rule.rule.clone().into());
                self.sketch
                    .create(object(None), &body, &remark(Impact::None), action)
            }
            RuleChange::Update { id, rule } => {
                let former = there.iter().find(|it| it.id == *id);
                let text = Change {
                    field: "rule".to_owned(),
                    before: former.map(|it| it.rule.clone()).into(),
                    after: rule.rule.clone().into(),
                };
                let object = object(Some(id.to_string()));
                self.sketch
                    .change(object, vec![text], &remark(Impact::InPlace), action)
            }
            RuleChange::Delete { id, .. } => {
                let object = object(Some(id.to_string()));
                self.sketch.delete(object, &remark(Impact::InPlace), action)
            }
        };
    }
}

fn not_allowed(why: &str) -> Notice {
    Notice {
        warning: true,
        reason: "FirewallNotAllowed",
        message: format!("the members' firewalls are not opened, as rules cannot be listed: {why}"),
    }
}
