//! Carries out changes of routes: removals before creations, many destinations at once. A destination
//! that fails is retried with back-off.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use bowline_core::routes::{Creation, Question, Removal, RouteChange, RouteDecision, RouteStep};
use bowline_core::{CloudError, CloudErrorKind};
use futures::{StreamExt as _, stream};
use tokio::time::Instant;
use tracing::{info, warn};

use super::{CloudRoutes, RouteController, RouteTopic, lock};
use tokio_util::sync::CancellationToken;

/// Calls for routes at the same time, as many as in the originals.
const CALLS_AT_ONCE: usize = 200;
/// Tries of one write while the cloud says that something else comes in between.
const CONFLICT_TRIES: usize = 5;
/// The least pause between two such tries; up to twice as long.
const CONFLICT_PAUSE: Duration = Duration::from_millis(100);

/// What became of one change: an outcome for each removal, then for each creation.
pub(super) struct ChangeDone {
    change: RouteChange,
    outcomes: Vec<RouteOutcome>,
}

/// What became of one step.
enum RouteOutcome {
    Made,
    /// Not begun, because something before it failed or it is time to stop.
    Skipped,
    Failed(CloudError, Duration),
}

impl RouteController {
    /// Carries out what is due, and writes down in the decision what did not come about.
    pub(super) async fn execute(
        &self,
        state: &mut CloudRoutes<'_>,
        question: &Question,
        changes: Vec<RouteChange>,
        decision: &mut RouteDecision,
        stop: &CancellationToken,
    ) {
        let places: BTreeSet<_> = changes.iter().map(place).collect();
        state.due.retain(|place, _| places.contains(place));
        if self.parts.writer.is_observing() {
            return report_withheld(state, &changes);
        }
        let now = Instant::now();
        let is_due =
            |change: &RouteChange| state.due.get(&place(change)).is_none_or(|at| *at <= now);
        let (due, waiting): (Vec<RouteChange>, Vec<RouteChange>) =
            changes.into_iter().partition(is_due);
        for creation in waiting.iter().flat_map(|it| &it.creations) {
            lack(decision, creation);
        }
        let done = if state.routes.writes_tables() {
            self.write_tables(state, question, due, stop).await
        } else {
            self.write_apart(state, question, due, stop).await
        };
        for done in done {
            self.take_note(state, done, decision);
        }
    }

    /// Each destination by itself.
    async fn write_apart(
        &self,
        state: &CloudRoutes<'_>,
        question: &Question,
        changes: Vec<RouteChange>,
        stop: &CancellationToken,
    ) -> Vec<ChangeDone> {
        let mut done: Vec<(usize, ChangeDone)> =
            stream::iter(changes.into_iter().enumerate())
                .map(|(at, change)| async move {
                    (at, self.change(state, question, change, stop).await)
                })
                .buffer_unordered(CALLS_AT_ONCE)
                .collect()
                .await;
        done.sort_by_key(|(at, _)| *at);
        done.into_iter().map(|(_, done)| done).collect()
    }

    async fn change(
        &self,
        state: &CloudRoutes<'_>,
        question: &Question,
        change: RouteChange,
        stop: &CancellationToken,
    ) -> ChangeDone {
        let mut outcomes = Vec::new();
        let mut is_clear = true;
        for removal in &change.removals {
            let step = RouteStep::Delete(removal.route.clone());
            let outcome = self.step(state, question, step, stop).await;
            is_clear &= matches!(outcome, RouteOutcome::Made);
            outcomes.push(outcome);
        }
        for creation in &change.creations {
            // Beside a wrong route the right one is of no use, or cannot be made at all.
            let outcome = if is_clear {
                self.step(state, question, creation.step(), stop).await
            } else {
                RouteOutcome::Skipped
            };
            outcomes.push(outcome);
        }
        ChangeDone { change, outcomes }
    }

    async fn step(
        &self,
        state: &CloudRoutes<'_>,
        question: &Question,
        step: RouteStep,
        stop: &CancellationToken,
    ) -> RouteOutcome {
        let steps = std::slice::from_ref(&step);
        let mut outcomes = self.write(state, question, steps, stop).await;
        outcomes.pop().unwrap_or(RouteOutcome::Skipped)
    }

    /// All destinations of one table together.
    async fn write_tables(
        &self,
        state: &CloudRoutes<'_>,
        question: &Question,
        changes: Vec<RouteChange>,
        stop: &CancellationToken,
    ) -> Vec<ChangeDone> {
        let mut tables: BTreeMap<String, Vec<RouteChange>> = BTreeMap::new();
        for change in changes {
            let table = tables.entry(change.table.clone()).or_default();
            table.push(change);
        }
        let tables: Vec<Vec<ChangeDone>> = stream::iter(tables.into_values())
            .map(|changes| self.write_table(state, question, changes, stop))
            .buffered(CALLS_AT_ONCE)
            .collect()
            .await;
        tables.into_iter().flatten().collect()
    }

    async fn write_table(
        &self,
        state: &CloudRoutes<'_>,
        question: &Question,
        changes: Vec<RouteChange>,
        stop: &CancellationToken,
    ) -> Vec<ChangeDone> {
        let removals = changes.iter().flat_map(|it| &it.removals);
        let removals = removals.map(|it| RouteStep::Delete(it.route.clone()));
        let creations = changes.iter().flat_map(|it| &it.creations);
        let creations = creations.map(Creation::step);
        let steps: Vec<RouteStep> = removals.chain(creations).collect();
        let mut outcomes = self.write(state, question, &steps, stop).await;
        let first: usize = changes.iter().map(|it| it.removals.len()).sum();
        let mut created = outcomes.split_off(first).into_iter();
        let mut removed = outcomes.into_iter();
        let mut done = Vec::new();
        for change in changes {
            let (gone, come) = (change.removals.len(), change.creations.len());
            let mut outcomes: Vec<RouteOutcome> = removed.by_ref().take(gone).collect();
            outcomes.extend(created.by_ref().take(come));
            done.push(ChangeDone { change, outcomes });
        }
        done
    }

    /// One write, and again those of its steps that something else came in between of: one outcome for
    /// each step.
    async fn write(
        &self,
        state: &CloudRoutes<'_>,
        question: &Question,
        steps: &[RouteStep],
        stop: &CancellationToken,
    ) -> Vec<RouteOutcome> {
        let mut outcomes: Vec<RouteOutcome> = steps.iter().map(|_| RouteOutcome::Skipped).collect();
        let mut open: Vec<usize> = (0..steps.len()).collect();
        let begun = Instant::now();
        for tries in 1..=CONFLICT_TRIES {
            if open.is_empty() || stop.is_cancelled() {
                break;
            }
            if tries > 1 {
                let pause = self.parts.random.jitter(CONFLICT_PAUSE, 1.0);
                tokio::time::sleep(pause).await;
            }
            let asked: Vec<RouteStep> = open.iter().map(|&at| steps[at].clone()).collect();
            let answers = self.ask(state, question, &asked).await;
            let mut again = Vec::new();
            for (at, answer) in open.into_iter().zip(answers) {
                outcomes[at] = match answer {
                    Ok(()) => RouteOutcome::Made,
                    Err(error) => {
                        if error.kind() == CloudErrorKind::Conflict {
                            again.push(at);
                        }
                        RouteOutcome::Failed(error, begun.elapsed())
                    }
                };
            }
            open = again;
        }
        outcomes
    }

    async fn ask(
        &self,
        state: &CloudRoutes<'_>,
        question: &Question,
        steps: &[RouteStep],
    ) -> Vec<Result<(), CloudError>> {
        let call = state.routes.write(question, steps);
        let mut answers = match self.parts.caller.write("writing routes", call).await {
            Ok(answers) => answers,
            Err(error) => return steps.iter().map(|_| Err(error.copy())).collect(),
        };
        // A provider that answers too little has not answered about the rest.
        while answers.len() < steps.len() {
            let text = format!("{} gave no answer about this route", state.cloud.name());
            answers.push(Err(CloudError::new(CloudErrorKind::Unknown, text)));
        }
        answers
    }

    /// Counts, reports, and puts off what failed.
    fn take_note(
        &self,
        state: &mut CloudRoutes<'_>,
        done: ChangeDone,
        decision: &mut RouteDecision,
    ) {
        let ChangeDone { change, outcomes } = done;
        let mut outcomes = outcomes.into_iter();
        let place = place(&change);
        let mut failed: Option<Duration> = None;
        let mut is_whole = true;
        for removal in &change.removals {
            match outcomes.next() {
                Some(RouteOutcome::Made) => self.removed(state, removal),
                Some(RouteOutcome::Failed(error, _)) => {
                    self.not_made(state, "delete", &removal.route, &error);
                    failed = failed.max(Some(error.retry_hint().unwrap_or_default()));
                }
                Some(RouteOutcome::Skipped) | None => is_whole = false,
            }
        }
        for creation in &change.creations {
            match outcomes.next() {
                Some(RouteOutcome::Made) => {
                    self.count(state, "create", "done");
                    info!(cloud = %state.cloud.name(), "route {} created", creation.route);
                }
                Some(RouteOutcome::Failed(error, took)) => {
                    lack(decision, creation);
                    self.not_made(state, "create", &creation.route, &error);
                    self.report_failed(creation, &error, took);
                    failed = failed.max(Some(error.retry_hint().unwrap_or_default()));
                }
                Some(RouteOutcome::Skipped) | None => {
                    lack(decision, creation);
                    is_whole = false;
                }
            }
        }
        if let Some(hint) = failed {
            let now = Instant::now();
            let pause = state.backoff.next(&place, now).max(hint);
            state.due.insert(place, now + pause);
        } else if is_whole {
            state.backoff.forget(&place);
            state.due.remove(&place);
        }
    }

    fn removed(&self, state: &mut CloudRoutes<'_>, removal: &Removal) {
        if removal.is_leftover {
            lock(&state.allowance).spend(Instant::now().into_std());
        }
        self.count(state, "delete", "done");
        let (cloud, why) = (state.cloud.name(), removal.why.words());
        info!(%cloud, why, "route {} deleted", removal.route);
    }

    fn not_made(
        &self,
        state: &CloudRoutes<'_>,
        verb: &'static str,
        route: &bowline_core::routes::PodRoute,
        error: &CloudError,
    ) {
        self.count(state, verb, "failed");
        let (cloud, error) = (state.cloud.name(), error.chain());
        warn!(%cloud, error, "could not {verb} route {route}; trying again");
    }

    fn count(&self, state: &CloudRoutes<'_>, verb: &'static str, result: &'static str) {
        let metrics = &self.parts.metrics.routes;
        metrics.change(state.cloud.name().as_str(), verb, result);
    }
}

fn place(change: &RouteChange) -> (String, String) {
    (change.table.clone(), change.destination.clone())
}

fn lack(decision: &mut RouteDecision, creation: &Creation) {
    if let Some(standing) = decision.standings.get_mut(&creation.node.name) {
        standing.lack();
    }
}

/// Reports once what an observer would do.
fn report_withheld(state: &CloudRoutes<'_>, changes: &[RouteChange]) {
    for change in changes {
        let removals = change.removals.iter();
        let removals = removals.map(|it| RouteStep::Delete(it.route.clone()));
        let steps = removals.chain(change.creations.iter().map(Creation::step));
        let steps: Vec<String> = steps.map(|step| step.to_string()).collect();
        let text = steps.join(", ");
        let topic = RouteTopic::Withheld(place(change));
        if state.reported.is_new(topic, &text) {
            info!(cloud = %state.cloud.name(), "observing: not made: {text}");
        }
    }
}
