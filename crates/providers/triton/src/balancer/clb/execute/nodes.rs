//! The nodes behind: their label and their name.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use bowline_core::{CloudError, StepId, StepOutcome};
use tracing::warn;
use uuid::Uuid;

use super::ClbActions;
use crate::balancer::clb::backend::Form;
use crate::balancer::clb::plan::{LabelChange, Labelling};
use crate::balancer::dns_names;
use crate::tags::{About, TagOutcome};

/// How often a name that is not there yet is looked for.
const NAME_PAUSE: Duration = Duration::from_millis(2500);
/// How long the better name is waited for before the first machine is made.
const NAME_LIMIT: Duration = Duration::from_secs(30);
/// When to plan anew after something that only the next plan knows.
const SOON: Duration = Duration::from_secs(1);
/// When to look again at nodes that could not be labelled.
const UNLABELLED_PAUSE: Duration = Duration::from_secs(60);

impl ClbActions {
    pub(super) async fn enable_names(&mut self) -> Result<StepOutcome, CloudError> {
        self.shared.data_center.api.set_cns_enabled(true).await?;
        // The networks have suffixes now.
        self.shared.data_center.forget();
        self.sooner(SOON);
        Ok(StepOutcome::Done)
    }

    /// Writes the label of one machine, and of no other: it is over when the write is on its way,
    /// or cannot be made for now.
    pub(super) async fn label(
        &mut self,
        id: Uuid,
        label: &str,
        change: LabelChange,
    ) -> Result<StepOutcome, CloudError> {
        let reconciler = Arc::clone(&self.shared.tags);
        let about = match change {
            LabelChange::On => {
                reconciler.want(id, label, Some(BTreeSet::from([None])));
                About::Label(label)
            }
            LabelChange::Off => {
                reconciler.want(id, label, None);
                About::Label(label)
            }
            LabelChange::Left => {
                reconciler.release(id);
                About::Machine
            }
        };
        match reconciler.reconcile(&self.cluster, id, about).await {
            Ok(TagOutcome::Working { after }) if !reconciler.is_on_its_way(id, about) => {
                Ok(StepOutcome::Wait {
                    what: format!("machine {id} to be free for a change"),
                    after,
                })
            }
            Ok(_) => Ok(StepOutcome::Done),
            Err(error) => {
                // Whether the others can be labelled is seen at the end.
                warn!(machine = %id, label, error = error.chain(), "its label is not changed yet");
                Ok(StepOutcome::Done)
            }
        }
    }

    /// Waits until all nodes show it, or cannot for now: a machine on a dead compute node holds up
    /// nothing.
    pub(super) async fn await_labels(
        &mut self,
        labelling: &Labelling,
    ) -> Result<StepOutcome, CloudError> {
        let Labelling {
            label,
            on,
            off,
            left,
        } = labelling;
        let reconciler = Arc::clone(&self.shared.tags);
        let machines: BTreeSet<Uuid> = on.keys().chain(off.keys()).copied().collect();
        let about = About::Label(label);
        let mut answers = reconciler
            .reconcile_all(&self.cluster, &machines, about)
            .await;
        let released: BTreeSet<Uuid> = left.keys().copied().collect();
        answers.extend(
            reconciler
                .reconcile_all(&self.cluster, &released, About::Machine)
                .await,
        );
        let mut wait: Option<Duration> = None;
        let (mut good, mut failed) = (0, None);
        for (id, answer) in answers {
            match answer {
                Ok(TagOutcome::Done | TagOutcome::Gone) => good += 1,
                Ok(TagOutcome::Working { after }) => {
                    wait = Some(wait.map_or(after, |wait| wait.min(after)));
                }
                Ok(other) => {
                    warn!(machine = %id, label, "its label cannot be changed: {other:?}");
                    self.sooner(UNLABELLED_PAUSE);
                }
                Err(error) => failed = Some(error),
            }
        }
        match (wait, failed) {
            (Some(after), _) => Ok(StepOutcome::Wait {
                what: format!("the nodes to show DNS service {label}"),
                after,
            }),
            // If none can be labelled, something else is wrong.
            (None, Some(error)) if good == 0 => Err(error),
            (None, failed) => {
                if let Some(error) = failed {
                    warn!(
                        label,
                        error = error.chain(),
                        "some nodes are not labelled yet"
                    );
                    self.sooner(UNLABELLED_PAUSE);
                }
                Ok(StepOutcome::Done)
            }
        }
    }

    /// Waits for the better name, and not for ever.
    pub(super) async fn await_name(&mut self, step: StepId) -> StepOutcome {
        self.is_new(step);
        let Some(wanted) = self.facts.names.clone() else {
            return StepOutcome::Done;
        };
        let known = dns_names::read(&self.shared, &self.facts.targets, NAME_PAUSE).await;
        let shown = known.values().flatten().any(|it| *it == wanted.qualified);
        if shown {
            self.facts.form = Form::Qualified;
        } else if self.lasting(step) < NAME_LIMIT {
            return StepOutcome::Wait {
                what: format!("{} to be published by CNS", wanted.qualified),
                after: NAME_PAUSE,
            };
        }
        StepOutcome::Done
    }
}
