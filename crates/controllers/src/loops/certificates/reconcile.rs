//! Reconciles one request: reads it, asks its cloud, and writes the decision.

use std::collections::BTreeMap;
use std::sync::Arc;

use bowline_core::{
    ApprovalRules, CertificateVerdict, Cloud, Counted, Finding, MachineAnswer, Node, Recognised,
    WellFormedRequest, clusters_own, decide_certificate, is_proven, node_of, recognise_certificate,
    rivals, settle_claims,
};
use futures::future::join_all;
use tracing::{debug, info};

use super::CertificateController;
use super::clouds::rules;
use crate::kube::csr_store::Requested;
use crate::kube::write::{ApprovalDecision, WriteError};
use tokio_util::sync::CancellationToken;

/// Nodes that show the same name or address and whose machines are asked whether they have it. Nobody has more by
/// mistake; beyond that nothing is certain.
const RIVALS_ASKED: usize = 32;

/// The outcome of one reconcile.
pub(super) enum RequestOutcome {
    /// Nothing is left to do.
    Settled,
    /// Not as things are now: it is looked at again when its node changes, or after a while.
    Waiting,
}

/// What is to be done about a request.
struct Judgement {
    /// Whose words are used.
    cloud: Option<Arc<dyn Cloud>>,
    act: Act,
}

enum Act {
    /// It is not our matter.
    Nothing,
    /// The decision is written.
    Decide(Finding, ApprovalDecision),
    /// It stays as it is, for good.
    Leave(Finding),
    /// It stays as it is, for now.
    Wait(Finding),
}

impl CertificateController {
    pub(super) async fn sync(
        &self,
        name: &str,
        stop: &CancellationToken,
    ) -> Result<RequestOutcome, WriteError> {
        let Some(request) = self.requests.get(name) else {
            return Ok(RequestOutcome::Settled);
        };
        let Some(judgement) = stop.run_until_cancelled(self.judge(&request)).await else {
            return Ok(RequestOutcome::Settled);
        };
        let Judgement { cloud, act } = judgement;
        match act {
            Act::Nothing => Ok(RequestOutcome::Settled),
            Act::Leave(finding) => {
                self.report_pending(&request, cloud.as_ref(), &finding);
                Ok(RequestOutcome::Settled)
            }
            Act::Wait(finding) => {
                self.report_pending(&request, cloud.as_ref(), &finding);
                Ok(RequestOutcome::Waiting)
            }
            Act::Decide(finding, decision) => {
                Box::pin(self.execute(&request, cloud.as_ref(), &finding, &decision)).await
            }
        }
    }

    /// Gathers and decides.
    async fn judge(&self, request: &Requested) -> Judgement {
        let facts = request.facts();
        let node = node_of(&request.username).and_then(|name| self.nodes.get(name));
        let candidate = match recognise_certificate(&facts, &self.clouds.first_rules()) {
            Recognised::Other => return refusal(Recognised::Other, None),
            _ if self.clouds.is_foreign(node.as_deref()) => {
                return Judgement {
                    cloud: None,
                    act: Act::Wait(Finding::Foreign),
                };
            }
            Recognised::WellFormedRequest(candidate) => candidate,
            other => return refusal(other, self.clouds.spokesman(node.as_deref())),
        };
        if let Some(finding) = self.clusters_own(&candidate, node.as_deref()).await {
            return Judgement {
                cloud: self.clouds.spokesman(node.as_deref()).cloned(),
                act: Act::Wait(finding),
            };
        }
        let (cloud, answer) = match self.clouds.ask(&candidate.node, node.as_deref()).await {
            Ok(answer) => answer,
            Err(finding) => {
                let cloud = self.clouds.spokesman(node.as_deref()).cloned();
                return Judgement {
                    cloud,
                    act: Act::Wait(finding),
                };
            }
        };
        let rules = rules(&cloud);
        let candidate = match recognise_certificate(&facts, &rules) {
            Recognised::WellFormedRequest(candidate) => candidate,
            other => return refusal(other, Some(&cloud)),
        };
        let act = match decide_certificate(&candidate, &rules, node.as_deref(), &answer) {
            CertificateVerdict::Approve => match self.claimed_twice(&candidate, &answer).await {
                Some(finding) => Act::Wait(finding),
                None => Act::Decide(Finding::Approved, approval(&rules)),
            },
            CertificateVerdict::Deny(why) => {
                let decision = denial(&rules, &why);
                Act::Decide(Finding::Refused(why), decision)
            }
            CertificateVerdict::Wait(finding) => Act::Wait(finding),
        };
        Judgement {
            cloud: Some(cloud),
            act,
        }
    }

    /// What the request asks for that is the cluster's own.
    async fn clusters_own(
        &self,
        candidate: &WellFormedRequest,
        node: Option<&Node>,
    ) -> Option<Finding> {
        match self.cluster.names().await {
            Ok(cluster) => clusters_own(candidate, node, &cluster),
            Err(why) => Some(Finding::CannotTell(why)),
        }
    }

    /// What the request asks for that another Node shows as well, unless `own` and the others' machines or clouds tell
    /// who owns it.
    async fn claimed_twice(
        &self,
        candidate: &WellFormedRequest,
        own: &MachineAnswer,
    ) -> Option<Finding> {
        let seen = self.nodes.view();
        let last_known = seen.unreadable.values().flatten();
        let nodes = seen.objects.values().chain(last_known);
        let rivals = rivals(candidate, nodes.map(|it| &**it));
        if rivals.len() > RIVALS_ASKED {
            return settle_claims(&rivals, &MachineAnswer::Unknown, &BTreeMap::new());
        }
        let mut others = BTreeMap::new();
        if is_proven(&rivals, own) {
            let (clouds, objects) = (&self.clouds, &seen.objects);
            let answers = rivals.keys().map(move |name| async move {
                let node = objects.get(name).map(|it| &**it);
                let answer = clouds.ask(name, node).await;
                Some((name.clone(), answer.ok()?.1))
            });
            others.extend(join_all(answers).await.into_iter().flatten());
        }
        settle_claims(&rivals, own, &others)
    }

    async fn execute(
        &self,
        request: &Requested,
        cloud: Option<&Arc<dyn Cloud>>,
        finding: &Finding,
        decision: &ApprovalDecision,
    ) -> Result<RequestOutcome, WriteError> {
        if self.writer.is_observing() {
            let verb = if decision.is_approval {
                "approve"
            } else {
                "deny"
            };
            info!(request = request.name, "observing: would {verb}: {finding}");
            return Ok(RequestOutcome::Settled);
        }
        let now = self.clock.now();
        match self.writer.decide(request, decision, now).await {
            Ok(Some(written)) => {
                // Noted before the watch brings it, so that no further reconcile works on the old one.
                self.requests.note(written);
                self.report_decided(request, cloud, finding, decision);
                Ok(RequestOutcome::Settled)
            }
            Ok(None) => Ok(RequestOutcome::Settled),
            Err(error) if error.is_not_found() => {
                debug!(request = request.name, "the request is gone");
                Ok(RequestOutcome::Settled)
            }
            Err(error) => Err(error),
        }
    }
}

/// What is done about a request that nobody has to be asked about.
fn refusal(recognised: Recognised, cloud: Option<&Arc<dyn Cloud>>) -> Judgement {
    let act = match recognised {
        Recognised::Other | Recognised::WellFormedRequest(_) => Act::Nothing,
        Recognised::Unreadable(why) => Act::Leave(Finding::Unreadable(why)),
        Recognised::Faulty(fault) => match cloud.map(rules).filter(|it| it.denies_faults) {
            Some(rules) => {
                let decision = denial(&rules, &fault.to_string());
                Act::Decide(Finding::Faulty(fault), decision)
            }
            None => Act::Leave(Finding::Faulty(fault)),
        },
    };
    Judgement {
        cloud: cloud.cloned(),
        act,
    }
}

fn approval(rules: &ApprovalRules) -> ApprovalDecision {
    ApprovalDecision {
        is_approval: true,
        reason: rules.approval.reason,
        message: rules.approval.message.to_owned(),
    }
}

fn denial(rules: &ApprovalRules, why: &str) -> ApprovalDecision {
    ApprovalDecision {
        is_approval: false,
        reason: rules.denial.reason,
        message: format!("{}{why}", rules.denial.message),
    }
}

impl ApprovalDecision {
    /// How it is counted.
    pub(super) fn counted(&self) -> Counted {
        if self.is_approval {
            Counted::Approved
        } else {
            Counted::Denied
        }
    }
}
