//! Executes the plan of a DNS name without further decisions: hands the wanted tags to the tag
//! reconciler, and calls it until they show.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use bowline_core::{
    BoxFuture, CloudError, Executor, Notice, Publication, Service, Step, StepId, StepOutcome,
};
use uuid::Uuid;

use super::plan::{Question, Work, bad_tag};
use crate::balancer::firewall::RuleChange;
use crate::balancer::naming::is_nodes_label;
use crate::balancer::targets::sooner;
use crate::balancer::{Shared, dns_names};
use crate::tags::{About, TagOutcome};

/// How often a name that is not there yet is looked for.
const NAME_PAUSE: Duration = Duration::from_secs(5);
/// How long it is waited for: publication takes 15 to 45 seconds.
pub(crate) const NAME_LIMIT: Duration = Duration::from_secs(120);
/// When to plan anew after an outcome that only the next plan can report.
pub(crate) const SOON: Duration = Duration::from_secs(1);

#[derive(Clone, Debug)]
pub(crate) enum Action {
    EnableNames,
    /// Writes the tags of a machine: the number of the work.
    Tags(usize),
    /// Waits until the machines show their tags: those that get a label, or those that lose it.
    AwaitTags {
        puts: bool,
    },
    Rule(RuleChange),
    /// Waits until one of these machines has the name.
    AwaitName {
        hostname: String,
        machines: Vec<Uuid>,
    },
}

/// What is published when all is done.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ending {
    pub(crate) publication: Publication,
    /// When time alone changes what is wanted.
    pub(crate) again: Option<Duration>,
}

pub(crate) struct CnsActions {
    pub(crate) shared: Arc<Shared>,
    pub(crate) cluster: String,
    pub(crate) service: Arc<Service>,
    pub(crate) actions: Vec<Action>,
    pub(crate) works: Vec<Work>,
    /// Whether some target has its labels already.
    pub(crate) has_targets: bool,
    /// What is published before all is done.
    pub(crate) before: Publication,
    pub(crate) ending: Ending,
    /// Works that the tag reconciler has.
    pub(crate) started: BTreeSet<usize>,
    pub(crate) outcomes: BTreeMap<Question, TagOutcome>,
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
                change.carry_out(&self.shared.data_center.api).await?;
                self.shared.data_center.firewall_rules_changed();
                Ok(StepOutcome::Done)
            }
            Action::AwaitName { hostname, machines } => {
                Ok(self.look_for(&hostname, &machines).await)
            }
        }
    }

    async fn enable_names(&mut self) -> Result<StepOutcome, CloudError> {
        self.shared.data_center.api.set_cns_enabled(true).await?;
        // The networks have suffixes now.
        self.shared.data_center.forget();
        self.ending.again = sooner(self.ending.again, SOON);
        Ok(StepOutcome::Done)
    }

    /// Writes the tags of one machine, and of no other; done once the write is in flight.
    async fn write(&mut self, number: usize) -> Result<StepOutcome, CloudError> {
        let Some(work) = self.works.get(number).cloned() else {
            return Ok(StepOutcome::Done);
        };
        if self.started.insert(number) {
            self.want(&work);
        }
        let reconciler = Arc::clone(&self.shared.tags);
        let mut wait: Option<Duration> = None;
        for question in work.questions() {
            if !self.is_open(&question) {
                continue;
            }
            let about = about(&question);
            let answer = reconciler
                .reconcile(&self.cluster, work.machine, about)
                .await;
            if let Some(error) = self.note(&question, answer) {
                return self.failed(&work, error);
            }
            if let Some(TagOutcome::Working { after }) = self.outcomes.get(&question)
                && !reconciler.is_on_its_way(work.machine, about)
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

    /// Waits until the writes show. What somebody else has overwritten meanwhile is written once
    /// more.
    async fn await_tags(&mut self, puts: bool) -> Result<StepOutcome, CloudError> {
        let works = self.works.iter().filter(|it| it.puts() == puts);
        let works: Vec<Work> = works.cloned().collect();
        let mut failed = self.reconcile(puts).await;
        let mut wait: Option<Duration> = None;
        for work in &works {
            for question in work.questions() {
                if let Some(error) = failed.remove(&question) {
                    return self.failed(work, error);
                }
                if let Some(TagOutcome::Working { after }) = self.outcomes.get(&question) {
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

    /// Records the outcome of one machine; returns the error, if it failed.
    fn note(
        &mut self,
        question: &Question,
        answer: Result<TagOutcome, CloudError>,
    ) -> Option<CloudError> {
        let outcomes = match answer {
            Ok(outcomes) => outcomes,
            Err(error) => return Some(error),
        };
        if outcomes == TagOutcome::Done {
            self.shared.state.note_written(question.0);
        }
        self.outcomes.insert(question.clone(), outcomes);
        None
    }

    /// Why the tags of a machine cannot be as wanted, if that is worth a notice.
    fn refusal(&mut self, work: &Work) -> Option<Notice> {
        for question in work.questions() {
            match self.outcomes.get(&question) {
                Some(TagOutcome::Refused(words)) => return Some(refused(work, words)),
                Some(TagOutcome::Bad(bad)) if work.puts() => {
                    return Some(bad_tag(&work.name, &bad.problem));
                }
                Some(TagOutcome::Pending { .. }) => {
                    // The plan goes on without it; the next plan reports it, once.
                    if self.shared.state.note_pending(work.machine, &work.name) {
                        self.ending.again = sooner(self.ending.again, SOON);
                    }
                }
                // What is not ours, or cannot be understood, holds up no removal.
                Some(
                    TagOutcome::Done
                    | TagOutcome::Gone
                    | TagOutcome::Working { .. }
                    | TagOutcome::OtherCluster(_)
                    | TagOutcome::Bad(_),
                )
                | None => {}
            }
        }
        None
    }

    fn want(&self, work: &Work) {
        let reconciler = &self.shared.tags;
        if work.release {
            return reconciler.release(work.machine);
        }
        if work.take_over {
            reconciler.take_over(work.machine);
        }
        let uid = &self.service.uid;
        for (label, ports) in &work.labels {
            if ports.is_some() {
                self.shared.state.holds(uid, label);
            } else if work.stale.contains(label) && is_held(&self.shared, uid, work.machine, label)
            {
                continue;
            }
            reconciler.want(work.machine, label, ports.clone());
        }
    }

    fn is_open(&self, question: &Question) -> bool {
        let outcomes = self.outcomes.get(question);
        outcomes.is_none_or(|it| matches!(it, TagOutcome::Working { .. }))
    }

    /// Reconciles all open machines together, so that none waits for another; returns the failures.
    async fn reconcile(&mut self, puts: bool) -> BTreeMap<Question, CloudError> {
        let mut open: BTreeMap<Option<String>, BTreeSet<Uuid>> = BTreeMap::new();
        for work in self.works.iter().filter(|it| it.puts() == puts) {
            for question in work.questions() {
                if !self.is_open(&question) {
                    continue;
                }
                open.entry(question.1).or_default().insert(question.0);
            }
        }
        let reconciler = Arc::clone(&self.shared.tags);
        let mut failed = BTreeMap::new();
        for (label, machines) in open {
            let about = label.as_deref().map_or(About::Machine, About::Label);
            let answers = reconciler
                .reconcile_all(&self.cluster, &machines, about)
                .await;
            for (machine, answer) in answers {
                let question = (machine, label.clone());
                if let Some(error) = self.note(&question, answer) {
                    failed.insert(question, error);
                }
            }
        }
        failed
    }

    /// A machine that cannot be read or written holds up no other; if the next one cannot be
    /// either, or there is none, something else is wrong.
    fn failed(&mut self, work: &Work, error: CloudError) -> Result<StepOutcome, CloudError> {
        let is_well = |it: &TagOutcome| matches!(it, TagOutcome::Done | TagOutcome::Working { .. });
        let some_are_well = self.outcomes.values().any(is_well) || self.has_targets;
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
        let lasting = self.shared.state.awaiting(&self.service.uid, hostname);
        let names = dns_names::read(&self.shared, machines, NAME_PAUSE).await;
        let there = names
            .values()
            .any(|names| names.iter().any(|it| it == hostname));
        let metrics = &self.shared.metrics;
        metrics.published(&self.service.key.to_string(), there);
        if there {
            self.shared.state.arrived(&self.service.uid);
            return StepOutcome::Done;
        }
        if lasting >= NAME_LIMIT {
            // It is published all the same, and the next plan reports why.
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

/// Whether another Service, perhaps newer than the plan, has put a label on a machine.
pub(crate) fn is_held(shared: &Shared, uid: &str, machine: Uuid, label: &str) -> bool {
    // A label of backends belongs to no single Service.
    let is_backend = is_nodes_label(label) && shared.tags.wants(machine, label);
    is_backend || shared.state.is_held_by_others(uid, label)
}

fn refused(work: &Work, words: &str) -> Notice {
    Notice {
        warning: true,
        reason: "CNSTagRefused",
        message: format!(
            "machine {} is not tagged: CloudAPI answers {words}",
            work.name
        ),
    }
}
