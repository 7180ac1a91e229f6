//! Changes of machines in place. The cloud applies them some time later: each is followed until it
//! shows.

use std::collections::BTreeMap;
use std::time::Duration;

use bowline_core::{CloudError, CloudErrorKind, StepId, StepOutcome};
use uuid::Uuid;

use super::{ClbActions, error};
use crate::api::{Machine, MachineAction, TagValue};
use crate::balancer::clb::machines::{NAMES_TAG, UID_TAG};
use crate::balancer::clb::metadata::{Difference, OURS, PORTMAP};
use crate::balancer::clb::shared_map::{Claim, SharedMap, View};
use crate::balancer::clb::{observe, portmap, shared_appliance};

/// When to try again for a port map that another Service is changing.
const LOCK_PAUSE: Duration = Duration::from_secs(1);

impl ClbActions {
    async fn read(&self, id: Uuid) -> Result<Machine, CloudError> {
        let machine = observe::one(&self.shared.data_center, id).await?;
        machine.ok_or_else(|| {
            let message = format!("machine {id} is gone");
            error(CloudErrorKind::Conflict, message).retry_after(Some(LOCK_PAUSE))
        })
    }

    /// Marks a machine of the former controller as ours, if nobody else has meanwhile.
    pub(super) async fn adopt(
        &mut self,
        step: StepId,
        id: Uuid,
        tags: &BTreeMap<String, String>,
    ) -> Result<StepOutcome, CloudError> {
        if !self.begun.contains_key(&step) {
            let machine = self.read(id).await?;
            let other = machine.tags.get(UID_TAG).map(ToString::to_string);
            if other.is_some_and(|it| it != self.service.uid) {
                let message = format!("machine {id} is another Service's by now");
                return Err(error(CloudErrorKind::Conflict, message));
            }
        }
        self.tag(step, id, tags).await
    }

    pub(super) async fn tag(
        &mut self,
        step: StepId,
        id: Uuid,
        tags: &BTreeMap<String, String>,
    ) -> Result<StepOutcome, CloudError> {
        if self.is_new(step) {
            self.add_tags(id, tags).await?;
        }
        let shows = self.has_tags(id, tags).await?;
        Ok(self.shown(step, id, shows))
    }

    async fn add_tags(&self, id: Uuid, tags: &BTreeMap<String, String>) -> Result<(), CloudError> {
        let tags = tags
            .iter()
            .map(|(key, value)| (key.clone(), TagValue::from(value.as_str())));
        self.shared
            .data_center
            .api
            .add_tags(id, &tags.collect())
            .await?;
        Ok(())
    }

    async fn has_tags(
        &self,
        id: Uuid,
        tags: &BTreeMap<String, String>,
    ) -> Result<bool, CloudError> {
        let there = self.shared.data_center.api.tags(id).await?;
        let text = |key: &String| there.get(key).and_then(TagValue::as_text);
        Ok(tags.iter().all(|(key, value)| text(key) == Some(value)))
    }

    /// Takes a machine out of DNS.
    pub(super) async fn untag(
        &mut self,
        step: StepId,
        id: Uuid,
    ) -> Result<StepOutcome, CloudError> {
        let api = &self.shared.data_center.api;
        if !self.begun.contains_key(&step) {
            api.delete_tag(id, NAMES_TAG).await?;
        }
        let there = api.tags(id).await?;
        self.is_new(step);
        Ok(self.shown(step, id, !there.contains_key(NAMES_TAG)))
    }

    pub(super) async fn metadata(
        &mut self,
        step: StepId,
        id: Uuid,
        difference: &Difference,
    ) -> Result<StepOutcome, CloudError> {
        let is_new = self.is_new(step);
        let api = &self.shared.data_center.api;
        let Difference { set, removed } = difference;
        if is_new {
            if !set.is_empty() {
                api.add_metadata(id, set).await?;
            }
            for key in removed {
                api.delete_metadata(id, key).await?;
            }
        }
        let there = api.metadata(id).await?;
        let has = |key: &String, value: &String| {
            let there = there.get(key).map(ToString::to_string);
            there.as_ref() == Some(value)
        };
        let shows = set.iter().all(|(key, value)| has(key, value))
            && !removed.iter().any(|key| there.contains_key(*key));
        Ok(self.shown(step, id, shows))
    }

    pub(super) async fn rename(
        &mut self,
        step: StepId,
        id: Uuid,
        name: &str,
    ) -> Result<StepOutcome, CloudError> {
        let action = MachineAction::Rename(name.to_owned());
        self.switch(step, id, &action, |it| it.name == name).await
    }

    pub(super) async fn firewall(
        &mut self,
        step: StepId,
        id: Uuid,
    ) -> Result<StepOutcome, CloudError> {
        let action = MachineAction::Firewall(true);
        self.switch(step, id, &action, |it| it.firewall_enabled)
            .await
    }

    pub(super) async fn protect(
        &mut self,
        step: StepId,
        id: Uuid,
        on: bool,
    ) -> Result<StepOutcome, CloudError> {
        let action = MachineAction::DeletionProtection(on);
        self.switch(step, id, &action, |it| it.deletion_protection == on)
            .await
    }

    async fn switch(
        &mut self,
        step: StepId,
        id: Uuid,
        action: &MachineAction,
        shows: impl Fn(&Machine) -> bool,
    ) -> Result<StepOutcome, CloudError> {
        if self.is_new(step) {
            self.shared.data_center.api.act(id, action).await?;
        }
        let shows = shows(&self.read(id).await?);
        Ok(self.shown(step, id, shows))
    }

    /// Brings the Service's entries into a port map that others write too, or out of it: one
    /// Service at a time, beginning with what is there now.
    pub(super) async fn share_map(
        &mut self,
        step: StepId,
        id: Uuid,
        brings: bool,
    ) -> Result<StepOutcome, CloudError> {
        if !self.map_locks.contains_key(&step) {
            let Some(lock) = self.shared.clb.map_locks.try_lock(id) else {
                return Ok(StepOutcome::Wait {
                    what: format!("another Service to change the port map of machine {id}"),
                    after: LOCK_PAUSE,
                });
            };
            self.map_locks.insert(step, lock);
        }
        let there = self.shared.data_center.api.metadata(id).await?;
        let map = shared_appliance::map_of(&there);
        let wanted = self.wanted_map(id, &map, brings);
        if wanted == map {
            return Ok(self.shown(step, id, true));
        }
        if self.is_new(step) {
            self.write_map(id, &wanted).await?;
        }
        Ok(self.shown(step, id, false))
    }

    fn wanted_map(&self, id: Uuid, map: &SharedMap, brings: bool) -> SharedMap {
        let none = Vec::new();
        let view = View {
            map,
            labels: &self.labels,
            others: self.facts.sharing.get(&id).unwrap_or(&none),
        };
        let name = self.facts.names.as_ref().filter(|_| brings);
        let name = name.map(|names| names.of(self.facts.form));
        let entries =
            name.and_then(|name| portmap::entries(&self.service, &self.settings, name).ok());
        let own = Claim::of(&self.service);
        let (admitted, _) = view.admit(&own, &entries.unwrap_or_default());
        view.with(&own.key, &admitted)
    }

    /// An empty record or map is none.
    async fn write_map(&self, id: Uuid, map: &SharedMap) -> Result<(), CloudError> {
        let api = &self.shared.data_center.api;
        let pairs = [(PORTMAP, &map.portmap), (OURS, &map.record)];
        let set = pairs.iter().filter(|(_, text)| !text.is_empty());
        let set: BTreeMap<String, String> = set
            .map(|(key, text)| ((*key).to_owned(), (*text).clone()))
            .collect();
        if !set.is_empty() {
            api.add_metadata(id, &set).await?;
        }
        for (key, _) in pairs.iter().filter(|(_, text)| text.is_empty()) {
            api.delete_metadata(id, key).await?;
        }
        Ok(())
    }
}
