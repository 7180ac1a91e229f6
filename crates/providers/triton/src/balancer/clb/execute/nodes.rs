//! The nodes behind: their label and their name.

use std::collections::BTreeSet;
use std::time::Duration;

use bowline_core::{CloudError, Progress, StepId};
use tracing::warn;
use uuid::Uuid;

use super::Hands;
use crate::balancer::clb::backend::Form;
use crate::balancer::clb::plan::Labelling;
use crate::balancer::names;
use crate::tags::{About, Settled};

/// How often a name that is not there yet is looked for.
const NAME_PAUSE: Duration = Duration::from_millis(2500);
/// How long the better name is waited for before the first machine is made.
const NAME_LIMIT: Duration = Duration::from_secs(30);
/// When to plan anew after something that only the next plan knows.
const SOON: Duration = Duration::from_secs(1);
/// When to look again at nodes that could not be labelled.
const UNLABELLED_PAUSE: Duration = Duration::from_secs(60);

impl Hands {
    pub(super) async fn enable_names(&mut self) -> Result<Progress, CloudError> {
        self.shared.site.api.set_cns_enabled(true).await?;
        // The networks have suffixes now.
        self.shared.site.forget().await;
        self.sooner(SOON);
        Ok(Progress::Done)
    }

    /// Tells the keeper, and asks it until all is so, or cannot be for now: nobody waits for a machine whose
    /// compute node is down.
    pub(super) async fn label(
        &mut self,
        step: StepId,
        labelling: &Labelling,
    ) -> Result<Progress, CloudError> {
        let Labelling {
            label,
            on,
            off,
            left,
        } = labelling;
        if self.is_new(step) {
            let keeper = &self.shared.keeper;
            for id in on.keys() {
                keeper.tell(*id, label, Some(BTreeSet::from([None])));
            }
            for id in off.keys() {
                keeper.tell(*id, label, None);
            }
            for id in left.keys() {
                keeper.release(*id);
            }
        }
        let keeper = std::sync::Arc::clone(&self.shared.keeper);
        let machines: BTreeSet<Uuid> = on.keys().chain(off.keys()).copied().collect();
        let about = About::Label(label);
        let mut answers = keeper.settle_all(&self.cluster, &machines, about).await;
        let released: BTreeSet<Uuid> = left.keys().copied().collect();
        answers.extend(
            keeper
                .settle_all(&self.cluster, &released, About::Machine)
                .await,
        );
        let mut wait: Option<Duration> = None;
        let (mut good, mut failed) = (0, None);
        for (id, answer) in answers {
            match answer {
                Ok(Settled::Done | Settled::Gone) => good += 1,
                Ok(Settled::Working { after }) => {
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
            (Some(after), _) => Ok(Progress::Wait {
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
                Ok(Progress::Done)
            }
        }
    }

    /// Waits for the better name, and not for ever.
    pub(super) async fn await_name(&mut self, step: StepId) -> Progress {
        self.is_new(step);
        let Some(wanted) = self.told.names.clone() else {
            return Progress::Done;
        };
        let known = names::read(&self.shared, &self.told.members, NAME_PAUSE).await;
        let shown = known.values().flatten().any(|it| *it == wanted.qualified);
        if shown {
            self.told.form = Form::Qualified;
        } else if self.lasting(step) < NAME_LIMIT {
            return Progress::Wait {
                what: format!("{} to be published by CNS", wanted.qualified),
                after: NAME_PAUSE,
            };
        }
        Progress::Done
    }
}
