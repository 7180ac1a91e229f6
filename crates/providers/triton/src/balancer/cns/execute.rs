//! Carrying out the plan of a DNS name. No choices: the keeper is told what the plan says, and asked
//! until it is so.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use bowline_core::{
    BoxFuture, CloudError, Executor, Notice, Publication, Service, Step, StepId, StepOutcome,
};
use uuid::Uuid;

use super::plan::{Question, Work, bad_tag};
use crate::balancer::firewall::RuleChange;
use crate::balancer::members::sooner;
use crate::balancer::naming::is_nodes_label;
use crate::balancer::{Shared, names};
use crate::tags::{About, Settled};

/// How often a name that is not there yet is looked for.
const NAME_PAUSE: Duration = Duration::from_secs(5);
/// How long it is waited for: publication takes 15 to 45 seconds.
pub(crate) const NAME_LIMIT: Duration = Duration::from_secs(120);
/// When to plan anew after something came out that only the next plan can tell.
pub(crate) const SOON: Duration = Duration::from_secs(1);

/// What a step does.
#[derive(Clone, Debug)]
pub(crate) enum Action {
    /// Switches the name service on.
    EnableNames,
    /// Writes the tags of a machine: the number of the work.
    Tags(usize),
    /// Until the machines show their tags: those that get something, or those that lose it.
    AwaitTags { puts: bool },
    /// Changes a firewall rule.
    Rule(RuleChange),
    /// Waits until one of these machines has the name.
    AwaitName {
        hostname: String,
        machines: Vec<Uuid>,
    },
}

/// What is shown when all is done.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ending {
    pub(crate) publication: Publication,
    /// When time alone changes what is wanted.
    pub(crate) again: Option<Duration>,
}

/// Carries out one plan.
pub(crate) struct CnsActions {
    pub(crate) shared: Arc<Shared>,
    pub(crate) cluster: String,
    pub(crate) service: Arc<Service>,
    pub(crate) actions: Vec<Action>,
    pub(crate) works: Vec<Work>,
    /// Whether some member has what it is to have already.
    pub(crate) has_members: bool,
    /// What may be said before all is done.
    pub(crate) before: Publication,
    pub(crate) ending: Ending,
    /// Works that the keeper knows of.
    pub(crate) told: BTreeSet<usize>,
    pub(crate) settled: BTreeMap<Question, Settled>,
    /// Whether a machine could not be read or written.
    pub(crate) has_failed: bool,
}

impl CnsActions {
    async fn carry(&mut self, step: StepId) -> Result<StepOutcome, CloudError> {
        match self.actions[step].clone() {
            Action::EnableNames => self.enable_names().await,
            Action::Tags(number) => self.write(number).await,
            Action::AwaitTags { puts } => self.await_tags(puts).await,
            Action::Rule(change) => {
                change.carry_out(&self.shared.site.api).await?;
                self.shared.rules.forget();
                Ok(StepOutcome::Done)
            }
            Action::AwaitName { hostname, machines } => {
                Ok(self.look_for(&hostname, &machines).await)
            }
        }
    }

    async fn enable_names(&mut self) -> Result<StepOutcome, CloudError> {
        self.shared.site.api.set_cns_enabled(true).await?;
        // The networks have suffixes now.
        self.shared.site.forget();
        self.ending.again = sooner(self.ending.again, SOON);
        Ok(StepOutcome::Done)
    }

    /// Writes the tags of one machine, and of no other: it is over when the write is on its way.
    async fn write(&mut self, number: usize) -> Result<StepOutcome, CloudError> {
        let Some(work) = self.works.get(number).cloned() else {
            return Ok(StepOutcome::Done);
        };
        if self.told.insert(number) {
            self.tell(&work);
        }
        let keeper = Arc::clone(&self.shared.keeper);
        let mut wait: Option<Duration> = None;
        for question in work.questions() {
            if !self.is_open(&question) {
                continue;
            }
            let about = about(&question);
            let answer = keeper.settle(&self.cluster, work.machine, about).await;
            if let Some(error) = self.note(&question, answer) {
                return self.failed(&work, error);
            }
            if let Some(Settled::Working { after }) = self.settled.get(&question)
                && !keeper.is_on_its_way(work.machine, about)
            {
                wait = sooner(wait, *after);
            }
        }
        Ok(match (self.refusal(&work), wait) {
            (Some(notice), _) => StepOutcome::Skipped(notice),
            (None, Some(after)) => StepOutcome::Wait {
                what: format!("machine {} to be free for a change", work.name),
                after,
            },
            (None, None) => StepOutcome::Done,
        })
    }

    /// Waits until what was written shows. What somebody else has overwritten meanwhile is written once more.
    async fn await_tags(&mut self, puts: bool) -> Result<StepOutcome, CloudError> {
        let works = self.works.iter().filter(|it| it.puts() == puts);
        let works: Vec<Work> = works.cloned().collect();
        let mut failed = self.settle(puts).await;
        let mut wait: Option<Duration> = None;
        for work in &works {
            for question in work.questions() {
                if let Some(error) = failed.remove(&question) {
                    return self.failed(work, error);
                }
                if let Some(Settled::Working { after }) = self.settled.get(&question) {
                    wait = sooner(wait, *after);
                }
            }
        }
        if let Some(after) = wait {
            let what = "the machines to show their tags".to_owned();
            return Ok(StepOutcome::Wait { what, after });
        }
        let refused = works.iter().find_map(|work| self.refusal(work));
        Ok(refused.map_or(StepOutcome::Done, StepOutcome::Skipped))
    }

    /// Keeps what came of a look at a machine; the answer is what failed.
    fn note(
        &mut self,
        question: &Question,
        answer: Result<Settled, CloudError>,
    ) -> Option<CloudError> {
        let settled = match answer {
            Ok(settled) => settled,
            Err(error) => return Some(error),
        };
        if settled == Settled::Done {
            self.shared.memory.note_written(question.0);
        }
        self.settled.insert(question.clone(), settled);
        None
    }

    /// Why the tags of a machine cannot be as they are wanted, if people have to be told.
    fn refusal(&mut self, work: &Work) -> Option<Notice> {
        for question in work.questions() {
            match self.settled.get(&question) {
                Some(Settled::Refused(words)) => return Some(refused(work, words)),
                Some(Settled::Bad(bad)) if work.puts() => {
                    return Some(bad_tag(&work.name, &bad.problem));
                }
                Some(Settled::Pending { .. }) => {
                    // Nobody waits for it; the next plan tells it, once.
                    if self.shared.memory.note_pending(work.machine, &work.name) {
                        self.ending.again = sooner(self.ending.again, SOON);
                    }
                }
                // What is not ours, or cannot be understood, holds up no removal.
                Some(
                    Settled::Done
                    | Settled::Gone
                    | Settled::Working { .. }
                    | Settled::OtherCluster(_)
                    | Settled::Bad(_),
                )
                | None => {}
            }
        }
        None
    }

    /// Tells the keeper what is wanted on a machine.
    fn tell(&self, work: &Work) {
        let keeper = &self.shared.keeper;
        if work.release {
            return keeper.release(work.machine);
        }
        if work.take_over {
            keeper.take_over(work.machine);
        }
        let uid = &self.service.uid;
        for (label, ports) in &work.labels {
            if ports.is_some() {
                self.shared.memory.holds(uid, label);
            } else if work.stale.contains(label) && is_held(&self.shared, uid, work.machine, label)
            {
                continue;
            }
            keeper.tell(work.machine, label, ports.clone());
        }
    }

    fn is_open(&self, question: &Question) -> bool {
        let settled = self.settled.get(question);
        settled.is_none_or(|it| matches!(it, Settled::Working { .. }))
    }

    /// Asks the keeper about all that is open, so that machines do not wait for each other; the answer
    /// is what failed.
    async fn settle(&mut self, puts: bool) -> BTreeMap<Question, CloudError> {
        let mut open: BTreeMap<Option<String>, BTreeSet<Uuid>> = BTreeMap::new();
        for work in self.works.iter().filter(|it| it.puts() == puts) {
            for question in work.questions() {
                if !self.is_open(&question) {
                    continue;
                }
                open.entry(question.1).or_default().insert(question.0);
            }
        }
        let keeper = Arc::clone(&self.shared.keeper);
        let mut failed = BTreeMap::new();
        for (label, machines) in open {
            let about = label.as_deref().map_or(About::Machine, About::Label);
            let answers = keeper.settle_all(&self.cluster, &machines, about).await;
            for (machine, answer) in answers {
                let question = (machine, label.clone());
                if let Some(error) = self.note(&question, answer) {
                    failed.insert(question, error);
                }
            }
        }
        failed
    }

    /// A machine that cannot be read or written holds up no other; if the next one cannot be either, or there is
    /// none, something else is wrong.
    fn failed(&mut self, work: &Work, error: CloudError) -> Result<StepOutcome, CloudError> {
        let is_well = |it: &Settled| matches!(it, Settled::Done | Settled::Working { .. });
        let some_are_well = self.settled.values().any(is_well) || self.has_members;
        let is_first = !std::mem::replace(&mut self.has_failed, true) && self.works.len() > 1;
        if !work.puts() || !(some_are_well || is_first) {
            return Err(error);
        }
        Ok(StepOutcome::Skipped(Notice {
            warning: true,
            reason: "CNSTagFailed",
            message: format!("machine {} is not tagged: {}", work.name, error.chain()),
        }))
    }

    async fn look_for(&mut self, hostname: &str, machines: &[Uuid]) -> StepOutcome {
        let lasting = self.shared.memory.awaiting(&self.service.uid, hostname);
        let names = names::read(&self.shared, machines, NAME_PAUSE).await;
        let there = names
            .values()
            .any(|names| names.iter().any(|it| it == hostname));
        let metrics = &self.shared.metrics;
        metrics.published(&self.service.key.to_string(), there);
        if there {
            self.shared.memory.arrived(&self.service.uid);
            return StepOutcome::Done;
        }
        if lasting >= NAME_LIMIT {
            // It is shown all the same, and the next plan tells why.
            self.ending.again = sooner(self.ending.again, SOON);
            return StepOutcome::Done;
        }
        StepOutcome::Wait {
            what: format!("{hostname} to be published by CNS"),
            after: NAME_PAUSE,
        }
    }
}

impl Executor for CnsActions {
    fn carry_out<'a>(
        &'a mut self,
        id: StepId,
        _: &'a Step,
    ) -> BoxFuture<'a, Result<StepOutcome, CloudError>> {
        Box::pin(self.carry(id))
    }

    fn publication(&self, finished: bool) -> Publication {
        if finished {
            self.ending.publication.clone()
        } else {
            self.before.clone()
        }
    }

    fn again(&self) -> Option<Duration> {
        self.ending.again
    }
}

fn about(question: &Question) -> About<'_> {
    question.1.as_deref().map_or(About::Machine, About::Label)
}

/// Whether a label was put on a machine by another Service, which a plan need not know of: it may be newer.
pub(crate) fn is_held(shared: &Shared, uid: &str, machine: Uuid, label: &str) -> bool {
    // Load balancer machines do not say which Service a label of nodes is for.
    let behind = is_nodes_label(label) && shared.keeper.wants(machine, label);
    behind || shared.memory.is_held_by_others(uid, label)
}

fn refused(work: &Work, words: &str) -> Notice {
    Notice {
        warning: true,
        reason: "CNSTagRefused",
        message: format!("machine {} is not tagged: CloudAPI says {words}", work.name),
    }
}
