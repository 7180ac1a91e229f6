//! Destroying machines, if they are ours.

use bowline_core::{CloudError, CloudErrorKind, Notice, StepId, StepOutcome};
use uuid::Uuid;

use super::{ClbActions, POLL, error};
use crate::balancer::clb::machines::is_ours;
use crate::balancer::clb::{observe, plan};

impl ClbActions {
    /// Takes a machine that goes out of DNS.
    pub(super) async fn drain(
        &mut self,
        step: StepId,
        id: Uuid,
    ) -> Result<StepOutcome, CloudError> {
        let done = self.untag(step, id).await?;
        if done == StepOutcome::Done {
            // Counted from now on.
            self.shared.clb.drained(&self.service.uid, id);
        }
        Ok(done)
    }

    /// Destroys a machine if its tags, read right now, name this Service.
    pub(super) async fn delete(&mut self, id: Uuid) -> Result<StepOutcome, CloudError> {
        let Some(machine) = observe::one(&self.shared.data_center, id).await? else {
            return Ok(StepOutcome::Done);
        };
        if machine.deletion_protection {
            let (reason, message) = plan::protected(&machine);
            return Ok(StepOutcome::Skipped(Notice {
                warning: true,
                reason,
                message,
            }));
        }
        if !is_ours(&machine, &self.cluster, &self.service.uid) {
            let name = &machine.name;
            let message = format!(
                "the tags of machine {name} ({id}) do not name this Service any more: it stays"
            );
            return Err(error(CloudErrorKind::Conflict, message));
        }
        self.shared.data_center.api.delete_machine(id).await?;
        self.shared.data_center.machines.invalidate();
        Ok(StepOutcome::Done)
    }

    pub(super) async fn await_gone(
        &mut self,
        step: StepId,
        id: Uuid,
    ) -> Result<StepOutcome, CloudError> {
        self.is_new(step);
        let machine = observe::one(&self.shared.data_center, id).await?;
        let Some(machine) = machine.filter(|it| !it.state.is_over()) else {
            self.shared.clb.is_gone(&self.service.uid, id);
            return Ok(StepOutcome::Done);
        };
        let limit = self.shared.config.delete_timeout;
        if self.lasting(step) >= limit {
            let message = format!(
                "machine {} ({id}) is still there {} s after its deletion began",
                machine.name,
                limit.as_secs()
            );
            return Err(error(CloudErrorKind::Unavailable, message));
        }
        Ok(StepOutcome::Wait {
            what: format!("machine {} to be gone", machine.name),
            after: POLL,
        })
    }
}
