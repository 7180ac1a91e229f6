//! Making machines, and not making two.

use std::time::Duration;

use bowline_core::{CloudError, CloudErrorKind, Notice, StepOutcome};
use uuid::Uuid;

use super::{ClbActions, POLL, error};
use crate::api::{ApiError, Machine, MachineAction, MachineState, NewMachine};
use crate::balancer::clb::machines::{Blueprint, is_ours, runs};
use crate::balancer::clb::memory::MOST_FAILURES;
use crate::balancer::clb::{metadata, observe, portmap};

/// When to make another machine after one has failed.
const NEXT_TRY: Duration = Duration::from_secs(1);

impl ClbActions {
    fn blueprint(&self) -> Result<&Blueprint, CloudError> {
        let blueprint = self.told.blueprint.as_ref();
        blueprint.ok_or_else(|| {
            error(
                CloudErrorKind::Invalid,
                "nobody says what machines are like",
            )
        })
    }

    /// A machine for that seat, with the name of the nodes that is known by now.
    fn new_machine(&self, seat: u8) -> Result<NewMachine, CloudError> {
        let form = self.told.form;
        let names = self.told.names.as_ref();
        let name = names.map_or("", |names| names.of(form));
        let entries =
            portmap::entries(&self.service, &self.settings, name).map_err(|problems| {
                let texts: Vec<String> = problems.into_iter().map(|it| it.message).collect();
                error(CloudErrorKind::Invalid, texts.join("; "))
            })?;
        let count = self.told.counts[form as usize];
        let told = metadata::wanted(&portmap::join(&entries), &self.settings, count, None);
        Ok(self.blueprint()?.machine(seat, told))
    }

    /// Makes a machine, unless one is there that a former attempt made.
    pub(super) async fn create(&mut self, seat: u8) -> Result<StepOutcome, CloudError> {
        let new = self.new_machine(seat)?;
        if let Some(made) = self.made_before(&new.name).await? {
            return Ok(self.take(seat, made));
        }
        let refused = match self.shared.site.api.create_machine(&new).await {
            Ok(made) => return Ok(self.take(seat, made)),
            Err(refused) => refused,
        };
        if is_lost(&refused)
            && let Ok(Some(made)) = self.made_before(&new.name).await
        {
            return Ok(self.take(seat, made));
        }
        self.refused(seat, &new, refused).await
    }

    fn take(&mut self, seat: u8, made: Machine) -> StepOutcome {
        self.shared.clb.in_the_making(&self.service.uid, made.id);
        self.shared.site.roll.invalidate();
        self.told.seats.insert(seat, made);
        StepOutcome::Done
    }

    /// The machine of that name that is ours, if there is one.
    async fn made_before(&self, name: &str) -> Result<Option<Machine>, CloudError> {
        let site = &self.shared.site;
        let own = observe::own(site, &self.cluster, &self.service.uid).await?;
        Ok(own.into_iter().find(|it| it.name == name))
    }

    async fn refused(
        &mut self,
        seat: u8,
        new: &NewMachine,
        refused: ApiError,
    ) -> Result<StepOutcome, CloudError> {
        let reason = if refused.is_quota() {
            "QuotaExceeded"
        } else if refused.is_duplicate_name() {
            let named = observe::named(&self.shared.site, &new.name).await?;
            let uid = &self.service.uid;
            match named.into_iter().find(|it| is_ours(it, &self.cluster, uid)) {
                Some(made) => return Ok(self.take(seat, made)),
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
        let memory = &self.shared.clb;
        memory.refuse(&self.service.uid, reason, message.clone());
        StepOutcome::Skipped(Notice {
            warning: true,
            reason,
            message,
        })
    }

    /// Until the machine in that seat runs. One that fails, or takes too long, goes with the next plan.
    pub(super) async fn await_running(&mut self, seat: u8) -> Result<StepOutcome, CloudError> {
        let Some(id) = self.told.seats.get(&seat).map(|it| it.id) else {
            let message = format!("there is no machine in seat {seat} yet");
            return Err(error(CloudErrorKind::Invalid, message));
        };
        let Some(machine) = observe::one(&self.shared.site, id).await? else {
            self.told.seats.remove(&seat);
            let message = format!("machine {id} is gone before it ran");
            let lost = error(CloudErrorKind::Unavailable, message);
            return Err(lost.retry_after(Some(NEXT_TRY)));
        };
        let memory = &self.shared.clb;
        if runs(&machine) {
            memory.succeeded(&self.service.uid, id);
            self.shared.site.roll.invalidate();
            self.told.seats.insert(seat, machine);
            return Ok(StepOutcome::Done);
        }
        let lasting = memory.in_the_making(&self.service.uid, id);
        let too_long = lasting >= self.shared.config.provision_timeout;
        match machine.state {
            MachineState::Failed | MachineState::Deleted => {
                self.ruined(seat, &machine, "has failed")
            }
            MachineState::Provisioning if too_long => {
                self.ruined(seat, &machine, "did not run in time")
            }
            _ => Ok(StepOutcome::Wait {
                what: format!("machine {} to run", machine.name),
                after: POLL,
            }),
        }
    }

    /// A machine came to nothing. The next plan destroys it and makes another one; but not without end.
    fn ruined(
        &mut self,
        seat: u8,
        machine: &Machine,
        what: &'static str,
    ) -> Result<StepOutcome, CloudError> {
        self.told.seats.remove(&seat);
        self.shared.site.roll.invalidate();
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

    pub(super) async fn start(&mut self, seat: u8) -> Result<StepOutcome, CloudError> {
        let id: Option<Uuid> = self.told.seats.get(&seat).map(|it| it.id);
        if let Some(id) = id {
            self.shared.site.api.act(id, &MachineAction::Start).await?;
        }
        Ok(StepOutcome::Done)
    }
}

/// Whether it is open what came of a request.
fn is_lost(refused: &ApiError) -> bool {
    use CloudErrorKind::{Unavailable, Unknown};
    matches!(refused.kind(), Unavailable | Unknown)
}

/// What the server says.
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
