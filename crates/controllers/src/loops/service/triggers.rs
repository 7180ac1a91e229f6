//! What triggers a reconcile: a change of the Service, its targets or its account, or a due audit.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use bowline_core::{
    AccountState, CloudName, Responsibility, Roster, Service, ServiceKey, change_event,
    needs_update,
};
use prometheus_client::metrics::histogram::Histogram;
use tokio::time::Instant;
use tracing::debug;

use super::ServiceController;
use crate::kube::events::EventType;
use crate::kube::services::ServiceChange;
use tokio_util::sync::CancellationToken;

/// At the start, Services that seem to be right are compared with the cloud one by one, this far
/// apart on average, so that a restart is no flood of calls …
const START_SPREAD: Duration = Duration::from_millis(200);
/// … but all within this time.
const START_LIMIT: Duration = Duration::from_secs(120);
/// A change of nodes or endpoints is acted upon when no other has come for this long: nodes come and go in
/// groups, and one update for all of them is enough.
const QUIET: Duration = Duration::from_secs(1);
/// But it waits no longer than this for quiet.
const LONGEST_UNREST: Duration = Duration::from_secs(5);

/// Why a Service is reconciled. No trigger at all: it is time to compare it with the cloud.
#[derive(Clone, Debug, Default)]
pub(super) struct Triggers {
    /// The Service changed, or is seen for the first time.
    pub(super) service: bool,
    /// The set of targets changed.
    pub(super) nodes: Option<Arc<Pass>>,
}

impl Triggers {
    pub(super) fn service() -> Self {
        Self {
            service: true,
            nodes: None,
        }
    }

    /// Whether the targets alone are the cause.
    pub(super) fn is_nodes_alone(&self) -> bool {
        !self.service && self.nodes.is_some()
    }

    /// Whether there is none.
    pub(super) fn is_audit(&self) -> bool {
        !self.service && self.nodes.is_none()
    }

    pub(super) fn merge(&mut self, other: Self) {
        self.service |= other.service;
        self.nodes = other.nodes.or(self.nodes.take());
    }
}

/// One pass over all Services after nodes changed. It has ended, and is measured, when the last of
/// those that it caused has.
#[derive(Debug)]
pub(super) struct Pass {
    pub(super) begun: Instant,
    pub(super) latency: Histogram,
}

impl Drop for Pass {
    fn drop(&mut self) {
        self.latency.observe(self.begun.elapsed().as_secs_f64());
    }
}

impl ServiceController {
    pub(super) fn listen(self: &Arc<Self>) {
        let this = Arc::downgrade(self);
        self.parts.services.on_change(move |change| {
            let Some(this) = this.upgrade() else { return };
            this.forget_endpoints_of(change);
            this.report_change(change);
            this.wake_rivals(change);
            if this.asks_for_reconcile(change) {
                this.states.add_trigger(&change.key, Triggers::service());
                this.queue.add(change.key.clone());
            }
        });
        let this = Arc::downgrade(self);
        self.parts.slices.on_change(move |change| {
            if let Some(this) = this.upgrade() {
                this.follow_endpoints(change);
            }
        });
        let readiness = self.clouds.all_needs().readiness;
        let this = Arc::downgrade(self);
        self.parts.nodes.on_change(move |change| {
            let (before, after) = (change.before.as_deref(), change.after.as_deref());
            if let Some(this) = this.upgrade()
                && bowline_core::may_change_targets(before, after, readiness)
            {
                this.targets_changed.notify_one();
            }
        });
    }

    /// What only one Service can have is asked for, or not any more: whoever asks for the same hears of it.
    fn wake_rivals(&self, change: &ServiceChange) {
        let claims = |service: Option<&Arc<Service>>| match service
            .map(|it| (it, self.clouds.names().responsibility(it)))
        {
            Some((service, Responsibility::Ensure(cloud))) => {
                let balancers = self.clouds.balancers(&cloud);
                balancers.map_or_else(BTreeSet::new, |it| it.contends_for(service))
            }
            _ => BTreeSet::new(),
        };
        let (before, after) = (
            claims(change.before.as_ref()),
            claims(change.after.as_ref()),
        );
        if before == after {
            return;
        }
        let changed: BTreeSet<&String> = before.symmetric_difference(&after).collect();
        for other in self.parts.services.all() {
            let same = claims(Some(&other)).iter().any(|it| changed.contains(it));
            if same && other.key != change.key {
                self.states.add_trigger(&other.key, Triggers::service());
                self.queue.add(other.key.clone());
            }
        }
    }

    /// Whether a change of a Service asks for a reconcile. What we write ourselves does not.
    fn asks_for_reconcile(&self, change: &ServiceChange) -> bool {
        let known = self.states.knows(&change.key);
        let Some(after) = &change.after else {
            return known;
        };
        let names = self.clouds.names();
        let (responsibility, unserved) = (names.responsibility(after), names.unserved(after));
        let concerned = known || responsibility != Responsibility::Nothing || unserved.is_some();
        let Some(before) = &change.before else {
            return concerned;
        };
        let as_before =
            names.responsibility(before) == responsibility && names.unserved(before) == unserved;
        if !as_before || before.uid != after.uid {
            return concerned;
        }
        let Responsibility::Ensure(cloud) = &responsibility else {
            return false;
        };
        let own = self.clouds.own_annotations(cloud);
        let published = self.states.published(&change.key);
        let stripped = before.has_finalizer() && !after.has_finalizer();
        stripped || needs_update(before, after, own, &published)
    }

    /// Reports what the framework reports about a change, whether or not it asks for a reconcile.
    fn report_change(&self, change: &ServiceChange) {
        let (Some(before), Some(after)) = (&change.before, &change.after) else {
            return;
        };
        let names = self.clouds.names();
        let ours = |service| matches!(names.responsibility(service), Responsibility::Ensure(_));
        if !ours(before) && !ours(after) || self.clouds.is_observing() {
            return;
        }
        if let Some((reason, text)) = change_event(before, after) {
            self.report(after, EventType::Normal, reason, &text);
        }
    }

    /// Queues every Service at the start: at once where something is to be done, spread over some
    /// time where it seems to be right.
    pub(super) fn compare_all(&self) {
        let all = self.parts.services.all();
        let names = self.clouds.names();
        let handled = |it: &&Arc<Service>| {
            names.responsibility(it) != Responsibility::Nothing || names.unserved(it).is_some()
        };
        let handled: Vec<&Arc<Service>> = all.iter().filter(handled).collect();
        let count = u32::try_from(handled.len()).unwrap_or(u32::MAX);
        let spread = START_SPREAD.saturating_mul(count).min(START_LIMIT);
        for service in handled {
            self.states.add_trigger(&service.key, Triggers::service());
            let settled =
                !service.deleting && service.has_finalizer() && !service.ingress.is_empty();
            if settled {
                let delay = spread.mul_f64(self.parts.random.unit());
                self.queue.add_after(service.key.clone(), delay);
            } else {
                self.queue.add(service.key.clone());
            }
        }
    }

    /// Gathers changes of nodes and endpoints, and queues the Services whose targets they changed. Owners that were
    /// found out are no unrest: somebody waits for them.
    pub(super) async fn follow_nodes(&self, stop: &CancellationToken) {
        let mut changes = self.clouds.changes();
        loop {
            let change = async {
                tokio::select! {
                    biased;
                    () = self.unrest() => {}
                    Ok(()) = changes.changed() => {}
                }
            };
            if stop.run_until_cancelled(change).await.is_none() {
                return;
            }
            self.look_at_targets();
        }
    }

    /// Waits for a change, and then for quiet.
    async fn unrest(&self) {
        self.targets_changed.notified().await;
        let limit = Instant::now() + LONGEST_UNREST;
        loop {
            let quiet = (Instant::now() + QUIET).min(limit);
            tokio::select! {
                biased;
                () = tokio::time::sleep_until(quiet) => return,
                () = self.targets_changed.notified() => {}
            }
        }
    }

    fn look_at_targets(&self) {
        let nodes = self.parts.nodes.view();
        let pass = Arc::new(Pass {
            begun: Instant::now(),
            latency: self.parts.metrics.services.node_latency.clone(),
        });
        let planned = self.states.planned();
        let clouds = self.clouds.names().all().iter();
        let rosters: Vec<(&CloudName, Roster)> = clouds
            .filter(|cloud| planned.iter().any(|(_, of, _)| of == *cloud))
            .map(|cloud| (cloud, self.clouds.roster(cloud, &nodes)))
            .collect();
        let troubled: BTreeSet<ServiceKey> = self.states.troubled().into_iter().collect();
        for (key, cloud, before) in planned {
            let follows = self.clouds.balancers(&cloud);
            if follows.is_some_and(|it| !it.has_members()) {
                // It follows its machines by itself, but what was wrong may have been about nodes.
                if troubled.contains(&key) {
                    self.states.add_trigger(&key, Triggers::service());
                    self.queue.add(key);
                }
                continue;
            }
            let roster = rosters.iter().find(|(name, _)| **name == cloud);
            let Some((service, (_, roster))) = self.parts.services.get(&key).zip(roster) else {
                continue;
            };
            let now = self.fingerprint(&service, &cloud, roster);
            if now != before {
                debug!(service = %key, "its targets changed");
                let trigger = Triggers {
                    service: false,
                    nodes: Some(pass.clone()),
                };
                self.states.add_trigger(&key, trigger);
                // Addresses of deleted machines are given to others: they go before new ones come elsewhere.
                if before.loses_to(&now) {
                    self.queue.add_urgent(key);
                } else {
                    self.queue.add(key);
                }
            }
        }
    }

    /// Looks again at all Services of clouds whose account is another by now.
    pub(super) async fn follow_accounts(&self, stop: &CancellationToken) {
        let mut changes = self.accounts().changes();
        let names = self.clouds.names().all();
        let states = || -> Vec<AccountState> {
            let all = names.iter();
            all.map(|it| self.account_state(it)).collect()
        };
        let mut before = states();
        while let Some(Ok(())) = stop.run_until_cancelled(changes.changed()).await {
            let after = states();
            for (cloud, changed) in names.iter().zip(before.iter().zip(&after)) {
                if changed.0 != changed.1 {
                    self.look_again_in(cloud);
                }
            }
            before = after;
        }
        stop.cancelled().await;
    }

    fn look_again_in(&self, cloud: &CloudName) {
        for service in self.parts.services.all() {
            let concerned = match self.clouds.names().responsibility(&service) {
                Responsibility::Ensure(by) => by == *cloud,
                Responsibility::CleanUp(clouds) => clouds.contains(cloud),
                Responsibility::Nothing => false,
            };
            // Those that have not been reconciled yet are anyway.
            if concerned && self.states.knows(&service.key) {
                self.states.add_trigger(&service.key, Triggers::service());
                self.queue.add(service.key.clone());
            }
        }
    }
}
