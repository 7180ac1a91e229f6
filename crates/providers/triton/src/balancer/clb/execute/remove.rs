//! Destroying machines, if they are ours.

use bowline_core::{CloudError, CloudErrorKind, Notice, Progress, StepId};
use uuid::Uuid;

use super::{Hands, POLL, error};
use crate::balancer::clb::machines::is_ours;
use crate::balancer::clb::{observe, plan};

impl Hands {
    /// Takes a machine that goes out of DNS.
    pub(super) async fn drain(&mut self, step: StepId, id: Uuid) -> Result<Progress, CloudError> {
        let done = self.untag(step, id).await?;
        if done == Progress::Done {
            // Counted from now on.
            self.shared.clb.drained(&self.service.uid, id);
        }
        Ok(done)
    }

    /// Destroys a machine whose tags say, right now, that it is this Service's.
    pub(super) async fn delete(&mut self, id: Uuid) -> Result<Progress, CloudError> {
        let Some(machine) = observe::one(&self.shared.site, id).await? else {
            return Ok(Progress::Done);
        };
        if machine.deletion_protection {
            let (reason, message) = plan::protected(&machine);
            return Ok(Progress::Skipped(Notice {
                warning: true,
                reason,
                message,
            }));
        }
        if !is_ours(&machine, &self.cluster, &self.service.uid) {
            let name = &machine.name;
            let message = format!(
                "machine {name} ({id}) does not say any more that it is this Service's, and stays"
            );
            return Err(error(CloudErrorKind::Conflict, message));
        }
        self.shared.site.api.delete_machine(id).await?;
        self.shared.site.roll.invalidate();
        Ok(Progress::Done)
    }

    pub(super) async fn await_gone(
        &mut self,
        step: StepId,
        id: Uuid,
    ) -> Result<Progress, CloudError> {
        self.is_new(step);
        let machine = observe::one(&self.shared.site, id).await?;
        let Some(machine) = machine.filter(|it| !it.state.is_over()) else {
            self.shared.clb.is_gone(&self.service.uid, id);
            return Ok(Progress::Done);
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
        Ok(Progress::Wait {
            what: format!("machine {} to be gone", machine.name),
            after: POLL,
        })
    }
}
