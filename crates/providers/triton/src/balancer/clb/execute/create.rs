//! Making machines, and not making two.

use std::time::Duration;

use bowline_core::{CloudError, CloudErrorKind, Notice, StepOutcome};
use uuid::Uuid;

use super::{ClbActions, POLL, error};
use crate::api::{ApiError, Machine, MachineAction, MachineState, NewMachine};
use crate::balancer::clb::machines::{Blueprint, is_ours, runs};
use crate::balancer::clb::state::MOST_FAILURES;
use crate::balancer::clb::{metadata, observe, portmap};

/// When to make another machine after one has failed.
const NEXT_TRY: Duration = Duration::from_secs(1);

impl ClbActions {
    fn blueprint(&self) -> Result<&Blueprint, CloudError> {
        let blueprint = self.facts.blueprint.as_ref();
        blueprint.ok_or_else(|| {
            error(
                CloudErrorKind::Invalid,
                "the plan has no blueprint of machines",
            )
        })
    }

    /// A machine for that seat, with the name of the nodes that is known by now.
    fn new_machine(&self, ordinal: u8) -> Result<NewMachine, CloudError> {
        let form = self.facts.form;
        let names = self.facts.names.as_ref();
        let name = names.map_or("", |names| names.of(form));
        let entries =
            portmap::entries(&self.service, &self.settings, name).map_err(|problems| {
                let texts: Vec<String> = problems.into_iter().map(|it| it.message).collect();
                error(CloudErrorKind::Invalid, texts.join("; "))
            })?;
        let count = self.facts.counts[form as usize];
        let facts = metadata::wanted(&portmap::join(&entries), &self.settings, count, None);
        Ok(self.blueprint()?.machine(ordinal, facts))
    }

    /// Makes a machine, unless one is there that a former attempt made.
    pub(super) async fn create(&mut self, ordinal: u8) -> Result<StepOutcome, CloudError> {
        let new = self.new_machine(ordinal)?;
        if let Some(made) = self.made_before(&new.name).await? {
            return Ok(self.take(ordinal, made));
        }
        let refused = match self.shared.data_center.api.create_machine(&new).await {
            Ok(made) => return Ok(self.take(ordinal, made)),
            Err(refused) => refused,
        };
        if is_lost(&refused)
            && let Ok(Some(made)) = self.made_before(&new.name).await
        {
            return Ok(self.take(ordinal, made));
        }
        self.refused(ordinal, &new, refused).await
    }

    fn take(&mut self, ordinal: u8, made: Machine) -> StepOutcome {
        self.shared.clb.creating_for(&self.service.uid, made.id);
        self.shared.data_center.machines.invalidate();
        self.facts.by_ordinal.insert(ordinal, made);
        StepOutcome::Done
    }

    /// The machine of that name that is ours, if there is one.
    async fn made_before(&self, name: &str) -> Result<Option<Machine>, CloudError> {
        let data_center = &self.shared.data_center;
        let own = observe::own(data_center, &self.cluster, &self.service.uid).await?;
        Ok(own.into_iter().find(|it| it.name == name))
    }

    async fn refused(
        &mut self,
        ordinal: u8,
        new: &NewMachine,
        refused: ApiError,
    ) -> Result<StepOutcome, CloudError> {
        let reason = if refused.is_quota() {
            "QuotaExceeded"
        } else if refused.is_duplicate_name() {
            let named = observe::named(&self.shared.data_center, &new.name).await?;
            let uid = &self.service.uid;
            match named.into_iter().find(|it| is_ours(it, &self.cluster, uid)) {
                Some(made) => return Ok(self.take(ordinal, made)),
                None => "CLBNameTaken",
            }
        } else if matches!(refused.status(), Some(409 | 422)) {
            "CLBCreateFailed"
        } else {
            return Err(refused.into());
        };
        self.shared.clb.lookups.forget();
        let message = format!("machine {} cannot be made: {}", new.name, words(&refused));
        Ok(self.hold(reason, message))
    }

    /// Nothing is made for a while.
    fn hold(&self, reason: &'static str, message: String) -> StepOutcome {
        let state = &self.shared.clb;
        state.refuse(&self.service.uid, reason, message.clone());
        StepOutcome::Skipped(Notice {
            warning: true,
            reason,
            message,
        })
    }

    /// Until the machine in that seat runs. One that fails, or takes too long, goes with the next
    /// plan.
    pub(super) async fn await_running(&mut self, ordinal: u8) -> Result<StepOutcome, CloudError> {
        let Some(id) = self.facts.by_ordinal.get(&ordinal).map(|it| it.id) else {
            let message = format!("there is no machine in seat {ordinal} yet");
            return Err(error(CloudErrorKind::Invalid, message));
        };
        let Some(machine) = observe::one(&self.shared.data_center, id).await? else {
            self.facts.by_ordinal.remove(&ordinal);
            let message = format!("machine {id} is gone before it ran");
            let lost = error(CloudErrorKind::Unavailable, message);
            return Err(lost.retry_after(Some(NEXT_TRY)));
        };
        let state = &self.shared.clb;
        if runs(&machine) {
            state.succeeded(&self.service.uid, id);
            self.shared.data_center.machines.invalidate();
            self.facts.by_ordinal.insert(ordinal, machine);
            return Ok(StepOutcome::Done);
        }
        let lasting = state.creating_for(&self.service.uid, id);
        let too_long = lasting >= self.shared.config.provision_timeout;
        match machine.state {
            MachineState::Failed | MachineState::Deleted => {
                self.failed(ordinal, &machine, "has failed")
            }
            MachineState::Provisioning if too_long => {
                self.failed(ordinal, &machine, "did not run in time")
            }
            _ => Ok(StepOutcome::Wait {
                what: format!("machine {} to run", machine.name),
                after: POLL,
            }),
        }
    }

    /// A machine came to nothing. The next plan destroys it and makes another one; but not without
    /// end.
    fn failed(
        &mut self,
        ordinal: u8,
        machine: &Machine,
        what: &'static str,
    ) -> Result<StepOutcome, CloudError> {
        self.facts.by_ordinal.remove(&ordinal);
        self.shared.data_center.machines.invalidate();
        let Machine { name, id, .. } = machine;
        let count = self.shared.clb.failed(&self.service.uid, *id, what);
        if count >= MOST_FAILURES {
            let message = format!(
                "machine {name} ({id}) {what}, as {} before it; the next try is in five minutes",
                count - 1
            );
            return Ok(self.hold("CLBProvisionFailed", message));
        }
        let message =
            format!("machine {name} ({id}) {what}; it is destroyed, and another one is made");
        let failed = error(CloudErrorKind::Unavailable, message);
        Err(failed.retry_after(Some(NEXT_TRY)))
    }

    pub(super) async fn start(&mut self, ordinal: u8) -> Result<StepOutcome, CloudError> {
        let id: Option<Uuid> = self.facts.by_ordinal.get(&ordinal).map(|it| it.id);
        if let Some(id) = id {
            self.shared
                .data_center
                .api
                .act(id, &MachineAction::Start)
                .await?;
        }
        Ok(StepOutcome::Done)
    }
}

/// Whether it is open what came of a request.
fn is_lost(refused: &ApiError) -> bool {
    use CloudErrorKind::{Unavailable, Unknown};
    matches!(refused.kind(), Unavailable | Unknown)
}

fn words(refused: &ApiError) -> String {
    let fields = refused.fields().iter();
    let fields: Vec<&str> = fields
        .map(|it| it.message.as_str())
        .filter(|it| !it.is_empty())
        .collect();
    match (refused.message(), fields.is_empty()) {
        ("", _) => refused.to_string(),
        (message, true) => message.to_owned(),
        (message, false) => format!("{message} ({})", fields.join("; ")),
    }
}
