//! A plan from its draft to its end, as the controller would do it.

use std::collections::BTreeSet;
use std::time::Duration;

use bowline_core::{
    CloudError, DraftError, Executor, Notice, Plan, PlanProgress, PreparedPlan, Publication,
    Service, StepId, StepOutcome, Verb,
};
use tokio::time::Instant;

/// What a controller would wait for a step at most.
pub(crate) const PATIENCE: Duration = Duration::from_secs(660);
const DIED: &str = "the process died";
const GAPS: &str = "some steps could not be done";

/// What came of one try.
#[derive(Debug, Default)]
pub struct Outcome {
    pub plan: Plan,
    /// The notices of the plan and of what was skipped.
    pub notices: Vec<Notice>,
    /// Why it did not end well.
    pub error: Option<String>,
    /// When the cloud asks to be tried again after an error.
    pub hint: Option<Duration>,
    /// When time alone changes what is wanted.
    pub again: Option<Duration>,
    /// The annotations that are to be removed.
    pub withdrawn: Vec<String>,
    /// Some steps were skipped.
    pub gaps: bool,
}

impl Outcome {
    pub fn not_drafted(error: &DraftError) -> Self {
        let (error, hint) = match error {
            DraftError::Cloud(error) => (error.chain(), error.retry_hint()),
            DraftError::Later { after, .. } | DraftError::Account { after, .. } => {
                (error.to_string(), Some(*after))
            }
            other => (other.to_string(), None),
        };
        Self {
            error: Some(error),
            hint,
            ..Self::default()
        }
    }

    /// The reasons of all notices.
    pub fn reasons(&self) -> Vec<&str> {
        self.notices.iter().map(|notice| notice.reason).collect()
    }

    /// The reasons of all problems.
    pub fn problems(&self) -> Vec<&'static str> {
        let problems = self.plan.problems.iter();
        problems.map(|problem| problem.reason).collect()
    }

    /// The reasons of all events, each once.
    pub fn events(&self) -> BTreeSet<&str> {
        self.reasons().into_iter().chain(self.problems()).collect()
    }

    /// The text of the one problem.
    #[track_caller]
    pub fn problem(&self) -> &str {
        let [problem] = self.plan.problems.as_slice() else {
            panic!("not one problem: {self:?}");
        };
        &problem.message
    }

    /// The same, of a problem with that reason.
    #[track_caller]
    pub fn problem_of(&self, reason: &str) -> &str {
        let message = self.problem();
        assert_eq!(self.problems(), [reason], "{message}");
        message
    }

    #[track_caller]
    pub fn good(&self) -> &Self {
        assert_eq!(self.error, None);
        assert_eq!(self.plan.problems, []);
        self
    }

    /// Good, but for steps that were skipped.
    #[track_caller]
    pub fn incomplete(&self) -> &Self {
        assert_eq!(self.error.as_deref(), Some(GAPS));
        assert_eq!(self.plan.problems, []);
        self
    }

    pub fn died(&self) -> bool {
        self.error.as_deref() == Some(DIED)
    }
}

/// A plan and how far it has come, step by step.
pub struct PlanRun {
    progress: PlanProgress,
    executor: Box<dyn Executor>,
}

impl PlanRun {
    pub fn new(prepared: PreparedPlan) -> Self {
        Self {
            progress: PlanProgress::new(prepared.plan),
            executor: prepared.executor,
        }
    }

    pub fn plan(&self) -> &Plan {
        self.progress.plan()
    }

    pub fn next_step(&self) -> Option<StepId> {
        self.progress.next_step()
    }

    pub async fn carry_out(&mut self, id: StepId) -> Result<StepOutcome, CloudError> {
        let step = self.progress.step(id);
        let outcome = self.executor.carry_out(id, step).await?;
        match &outcome {
            StepOutcome::Done => self.progress.done(id),
            StepOutcome::Skipped(_) => self.progress.skip(id),
            StepOutcome::Wait { .. } => {}
        }
        Ok(outcome)
    }

    pub fn publication(&self) -> Publication {
        self.executor.publication(self.progress.is_finished())
    }
}

/// Carries out a plan, and writes what is to be published to the Service. The process dies after so many looks at
/// steps, if that is given.
pub async fn drive(
    service: &mut Service,
    prepared: PreparedPlan,
    mut looks: Option<u64>,
) -> Outcome {
    let mut outcome = Outcome {
        notices: prepared.plan.notices.clone(),
        plan: prepared.plan.clone(),
        ..Outcome::default()
    };
    let mut run = PlanRun::new(prepared);
    let start = Instant::now();
    publish(service, &run.publication());
    while let Some(step) = run.next_step() {
        if looks == Some(0) {
            outcome.error = Some(DIED.to_owned());
            return outcome;
        }
        looks = looks.map(|left| left - 1);
        let done = run.carry_out(step).await;
        // Whatever came of it: an id is there before it is waited for.
        publish(service, &run.publication());
        match done {
            Ok(StepOutcome::Done) => {}
            Ok(StepOutcome::Wait { what, after }) => {
                if start.elapsed() > PATIENCE {
                    outcome.error = Some(format!("still waiting for {what}"));
                    return outcome;
                }
                tokio::time::sleep(after).await;
            }
            Ok(StepOutcome::Skipped(notice)) => {
                outcome.notices.push(notice);
                outcome.gaps = true;
            }
            Err(error) => {
                outcome.hint = error.retry_hint();
                outcome.error = Some(error.chain());
                return outcome;
            }
        }
    }
    let publication = run.publication();
    publish(service, &publication);
    if outcome.gaps {
        outcome.error = Some(GAPS.to_owned());
    }
    // What works is not taken away because something else is wrong.
    let fine = outcome.plan.problems.is_empty() && !outcome.gaps;
    if fine || !publication.ingress.is_empty() {
        service.ingress = publication.ingress;
    }
    outcome.withdrawn = publication.withdrawn.into_iter().collect();
    outcome.again = run.executor.again();
    outcome
}

fn publish(service: &mut Service, publication: &Publication) {
    let annotations = service.annotations.get_or_insert_default();
    annotations.extend(publication.annotations.clone());
    for record in &publication.records {
        service.conditions.retain(|it| it.kind != record.kind);
        service.conditions.push(record.clone());
    }
}

/// The steps of a plan in words, without waits: `create pool tcp/http`.
pub fn steps(plan: &Plan) -> Vec<String> {
    let real = plan.steps.iter().filter(|step| step.verb != Verb::Wait);
    real.map(|step| format!("{} {}", step.verb, step.object))
        .collect()
}
