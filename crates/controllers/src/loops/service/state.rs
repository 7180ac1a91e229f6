//! The state of each Service between reconciles.
//!
//! Losing it on restart is safe. It lets the controller remove the load balancer of a vanished Service, continue plans that
//! wait, and not repeat events.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bowline_core::reconcile::PlanState;
use bowline_core::{CloudName, Fingerprint, Service, ServiceKey};

use super::execute::InFlightPlan;
use super::triggers::Triggers;
use crate::report::Reported;

/// Reports about one Service that are remembered: more than an observer has of one plan. More is a text that never repeats
/// itself; then it may as well be reported again.
const REPORTED_LIMIT: usize = 1000;

/// A Service that has, or may have, a load balancer of ours.
struct ServiceState {
    service: Arc<Service>,
    /// Where its load balancer is, or may be.
    clouds: Vec<CloudName>,
    /// Of the targets it was last planned with; none before the first plan, and in a clean-up.
    targets: Option<Fingerprint>,
    /// The nodes whose targets stayed in the last plan because nobody knows whether they are still wanted.
    held: BTreeSet<String>,
    /// The annotations we wrote.
    published: BTreeMap<String, String>,
    /// The plan that waits for the cloud.
    in_flight: Option<(InFlightPlan, PlanState)>,
    /// Whether the last plan found something wrong with what is wanted, or failed for
    /// what may be a lack.
    troubled: bool,
    /// Whether the removal of its load balancer was begun.
    removing: bool,
    /// The work that was announced and has not ended yet, by the reason of its event.
    announced: Option<&'static str>,
    /// By reason and message; a round is a plan.
    reported: Reported<(String, String), ()>,
}

#[derive(Default)]
struct States {
    known: BTreeMap<ServiceKey, ServiceState>,
    triggers: BTreeMap<ServiceKey, Triggers>,
}

/// All of it; clones share it. Bounded by the Services that live, and those whose removal is under way.
#[derive(Clone, Default)]
pub(super) struct ServiceStates(Arc<Mutex<States>>);

impl ServiceStates {
    // Triggers.

    pub(super) fn add_trigger(&self, key: &ServiceKey, trigger: Triggers) {
        let mut state = self.state();
        state
            .triggers
            .entry(key.clone())
            .or_default()
            .merge(trigger);
    }

    pub(super) fn take_triggers(&self, key: &ServiceKey) -> Triggers {
        self.state().triggers.remove(key).unwrap_or_default()
    }

    pub(super) fn has_node_trigger(&self, key: &ServiceKey) -> bool {
        let state = self.state();
        state.triggers.get(key).is_some_and(|it| it.nodes.is_some())
    }

    // Services.

    pub(super) fn knows(&self, key: &ServiceKey) -> bool {
        self.state().known.contains_key(key)
    }

    /// The Service as it was last worked on, and where.
    pub(super) fn recall(&self, key: &ServiceKey) -> Option<(Arc<Service>, Vec<CloudName>)> {
        let state = self.state();
        let known = state.known.get(key)?;
        Some((known.service.clone(), known.clouds.clone()))
    }

    /// Remembers a Service as it is now.
    pub(super) fn remember(&self, service: &Arc<Service>, clouds: &[CloudName]) {
        let mut state = self.state();
        let known = state.known.entry(service.key.clone());
        let known = known.or_insert_with(|| ServiceState {
            service: service.clone(),
            clouds: clouds.to_vec(),
            targets: None,
            held: BTreeSet::new(),
            published: BTreeMap::new(),
            in_flight: None,
            troubled: false,
            removing: false,
            announced: None,
            reported: Reported::new(REPORTED_LIMIT),
        });
        known.service = service.clone();
        clouds.clone_into(&mut known.clouds);
    }

    pub(super) fn forget(&self, key: &ServiceKey) {
        self.state().known.remove(key);
    }

    /// The uids of all Services that have, or may have, a load balancer.
    pub(super) fn uids(&self) -> BTreeSet<String> {
        let state = self.state();
        state
            .known
            .values()
            .map(|it| it.service.uid.clone())
            .collect()
    }

    pub(super) fn set_removing(&self, key: &ServiceKey, removing: bool) {
        self.with(key, |known| known.removing = removing);
    }

    pub(super) fn is_removing(&self, key: &ServiceKey) -> bool {
        self.with(key, |known| known.removing).unwrap_or_default()
    }

    pub(super) fn set_troubled(&self, key: &ServiceKey, troubled: bool) {
        self.with(key, |known| known.troubled = troubled);
    }

    /// The Services whose last plan found something wrong, or failed for what may be a lack.
    pub(super) fn troubled(&self) -> Vec<ServiceKey> {
        let state = self.state();
        let troubled = state.known.iter().filter(|(_, known)| known.troubled);
        troubled.map(|(key, _)| key.clone()).collect()
    }

    // Targets.

    pub(super) fn set_targets(&self, key: &ServiceKey, targets: Option<Fingerprint>) {
        self.with(key, |known| known.targets = targets);
    }

    /// Every Service that was planned, with its cloud and the targets it was planned with.
    pub(super) fn planned(&self) -> Vec<(ServiceKey, CloudName, Fingerprint)> {
        let state = self.state();
        let planned = state.known.iter().filter_map(|(key, known)| {
            let (cloud, targets) = known.clouds.first().zip(known.targets.clone())?;
            Some((key.clone(), cloud.clone(), targets))
        });
        planned.collect()
    }

    /// Remembers for which nodes targets of a Service stay. Says how many nodes that are at that cloud.
    pub(super) fn set_held(&self, key: &ServiceKey, cloud: &CloudName, held: &[String]) -> usize {
        self.with(key, |known| known.held = held.iter().cloned().collect());
        let state = self.state();
        let there = state.known.values();
        let there = there.filter(|known| known.clouds.first() == Some(cloud));
        let nodes: BTreeSet<&String> = there.flat_map(|known| &known.held).collect();
        nodes.len()
    }

    /// The Services that keep targets because nobody knows whether they are still wanted.
    pub(super) fn holding(&self) -> Vec<ServiceKey> {
        let state = self.state();
        let holding = state.known.iter().filter(|(_, it)| !it.held.is_empty());
        holding.map(|(key, _)| key.clone()).collect()
    }

    // What we wrote.

    pub(super) fn published(&self, key: &ServiceKey) -> BTreeMap<String, String> {
        self.with(key, |known| known.published.clone())
            .unwrap_or_default()
    }

    pub(super) fn set_published(&self, key: &ServiceKey, annotations: &BTreeMap<String, String>) {
        self.with(key, |known| {
            known.published.extend(annotations.clone());
        });
    }

    // Plans that wait.

    pub(super) fn put_aside(&self, key: &ServiceKey, in_flight: InFlightPlan, plan: PlanState) {
        self.with(key, |known| known.in_flight = Some((in_flight, plan)));
    }

    pub(super) fn take_in_flight(&self, key: &ServiceKey) -> Option<(InFlightPlan, PlanState)> {
        self.with(key, |known| known.in_flight.take()).flatten()
    }

    // What was reported.

    /// Whether that work is to be announced: not if it was and has not ended.
    pub(super) fn announce(&self, key: &ServiceKey, reason: &'static str) -> bool {
        let before = self.with(key, |known| known.announced.replace(reason));
        before.flatten() != Some(reason)
    }

    /// The announced work has ended. Says whether there was any.
    pub(super) fn conclude(&self, key: &ServiceKey) -> bool {
        let announced = self.with(key, |known| known.announced.take());
        announced.flatten().is_some()
    }

    /// Whether that was not reported about the Service.
    pub(super) fn is_new(&self, key: &ServiceKey, reason: &str, message: &str) -> bool {
        let report = (reason.to_owned(), message.to_owned());
        let is_new = self.with(key, |known| known.reported.is_new(report, &()));
        is_new.unwrap_or(true)
    }

    /// A plan has ended. If it was given up, what was reported before may still hold.
    pub(super) fn end_reports(&self, key: &ServiceKey, is_complete: bool) {
        self.with(key, |known| known.reported.end_round(is_complete));
    }

    fn with<T>(&self, key: &ServiceKey, work: impl FnOnce(&mut ServiceState) -> T) -> Option<T> {
        self.state().known.get_mut(key).map(work)
    }

    fn state(&self) -> MutexGuard<'_, States> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
