//! Looks at one cloud's account until it is proven, and reports its state.

use std::sync::Arc;
use std::time::Duration;

use bowline_core::{AccountProof, AccountState, Cloud, Node, ProvenBy};
use bowline_http::Random;
use k8s_openapi::api::core::v1::ObjectReference;
use tokio::time::Instant;
use tracing::info;

use super::{AccountKey, Accounts, look};
use crate::clouds::batcher::InstanceBatcher;
use crate::clouds::cloud_health::CloudHealth;
use crate::clouds::resolver::OwnershipResolver;
use crate::kube::events::Recorder;
use crate::kube::nodes::Nodes;
use crate::report::{Fact, emit};
use tokio_util::sync::CancellationToken;

/// How often it is seen to that the credentials are still the same. Nothing is called for that.
const TICK: Duration = Duration::from_secs(1);
/// How often an account that is not proven is looked at: one flight.
const LOOK_EVERY: Duration = Duration::from_secs(15);
/// How often a proven account is asked for its witnesses at most.
const ASK_EVERY: Duration = Duration::from_secs(5);

/// What a watch works with.
pub(crate) struct AccountWatchParts {
    pub(crate) cloud: Arc<dyn Cloud>,
    /// How its machines are asked for; none if it knows none.
    pub(crate) batcher: Option<InstanceBatcher>,
    pub(crate) resolver: OwnershipResolver,
    pub(crate) nodes: Nodes,
    pub(crate) accounts: Accounts,
    pub(crate) cloud_health: CloudHealth,
    pub(crate) recorder: Recorder,
    pub(crate) random: Random,
    /// Where events are shown.
    pub(crate) lease: ObjectReference,
}

/// Keeps one cloud's account.
pub(crate) struct AccountWatch {
    parts: AccountWatchParts,
    /// When it was last looked at, with which credentials.
    looked: Option<(AccountKey, Instant)>,
    /// The state that was reported last, and of which credentials.
    reported: Option<(AccountKey, AccountState)>,
}

impl AccountWatch {
    pub(crate) fn new(parts: AccountWatchParts) -> Self {
        Self {
            parts,
            looked: None,
            reported: None,
        }
    }

    /// Works until `stop`.
    pub(crate) async fn run(mut self, stop: CancellationToken) {
        let Some(()) = stop.run_until_cancelled(self.parts.nodes.synced()).await else {
            return;
        };
        while let Some(key) = AccountKey::of(&self.parts.cloud) {
            if stop.run_until_cancelled(self.review(key)).await.is_none() {
                break;
            }
            self.publish(key);
            let Some(()) = stop.run_until_cancelled(tokio::time::sleep(TICK)).await else {
                break;
            };
        }
        self.parts.accounts.hide(self.parts.cloud.name());
    }

    async fn review(&mut self, key: AccountKey) {
        if self.with(key, |proof| proof.proven_by().is_some()) {
            self.ask_witnesses(key).await;
            return;
        }
        if let Some(by) = self.vouched(key) {
            self.with(key, |proof| proof.believe(by));
            return;
        }
        let nodes = self.with_ids();
        let ids = nodes.iter().filter_map(|it| it.provider_id.as_deref());
        let ids: Vec<&str> = ids.collect();
        self.with(key, |proof| proof.consider_origin(&ids));
        let is_due = self
            .looked
            .is_none_or(|(then, at)| then != key || at.elapsed() >= LOOK_EVERY);
        if is_due && !self.with(key, |proof| proof.proven_by().is_some()) {
            self.looked = Some((key, Instant::now()));
            self.look(key, &nodes).await;
        }
    }

    /// Asks a proven account for its witnesses: if somebody waits for that, and as long as it denies them.
    async fn ask_witnesses(&mut self, key: AccountKey) {
        let is_denying = self.with(key, |proof| proof.is_denying());
        let is_doubted = self.parts.accounts.is_doubted(key);
        let pause = if is_denying { LOOK_EVERY } else { ASK_EVERY };
        let is_due = self
            .looked
            .is_none_or(|(then, at)| then != key || at.elapsed() >= pause);
        if !(is_due && (is_doubted || is_denying)) {
            return;
        }
        self.looked = Some((key, Instant::now()));
        let Some(batcher) = &self.parts.batcher else {
            return self.parts.accounts.note_witnessed(key);
        };
        // First the check read, so that no answer is older than the question.
        if batcher.canary().await.is_ok() {
            let nodes = self.with_ids();
            self.parts.accounts.ask_witnesses(batcher, &nodes).await;
        }
    }

    /// Whether its fingerprint is known, and by whom.
    fn vouched(&self, key: AccountKey) -> Option<ProvenBy> {
        let AccountWatchParts {
            accounts, resolver, ..
        } = &self.parts;
        let name = self.parts.cloud.name();
        let confirmed = resolver.rules().account_of(name);
        if confirmed.is_some_and(|it| key.is_like(it)) {
            return Some(ProvenBy::Operator);
        }
        let is_same = match accounts.last_proven(name) {
            Some(last) => key.is_like(&last.fingerprint),
            // The cloud has another name than when the last process looked.
            None => !accounts.former_names(key, resolver.clouds()).is_empty(),
        };
        is_same.then_some(ProvenBy::Fingerprint)
    }

    fn with_ids(&self) -> Vec<Arc<Node>> {
        let AccountWatchParts {
            cloud,
            resolver,
            nodes,
            ..
        } = &self.parts;
        look::with_ids(cloud, resolver, nodes.all())
    }

    async fn look(&self, key: AccountKey, nodes: &[Arc<Node>]) {
        let AccountWatchParts {
            cloud,
            batcher,
            accounts,
            ..
        } = &self.parts;
        accounts.look(cloud, key, batcher.as_ref(), nodes).await;
    }

    /// Reports the state: once by an event, and by metric and `/readyz` for as long as it lasts.
    fn publish(&mut self, key: AccountKey) {
        let (state, by, is_wanted, contradiction) = self.with(key, |proof| {
            let contradiction = proof.contradiction();
            let (state, by) = (proof.state(), proof.proven_by());
            (state, by, proof.is_wanted(), contradiction)
        });
        let AccountWatchParts {
            cloud,
            accounts,
            cloud_health,
            ..
        } = &self.parts;
        let name = cloud.name();
        accounts.show(name, state);
        let is_contradicted = state == AccountState::Contradicted;
        let lost = format!("its account does not know {contradiction}");
        cloud_health.note_account(cloud, is_contradicted.then_some(lost));
        if by.is_some() {
            self.remember(key);
        }
        let before = self.reported;
        match state {
            _ if before == Some((key, state)) => return,
            AccountState::Unproven if !is_wanted => return,
            AccountState::Unproven => self.report_unproven(key),
            AccountState::Contradicted => self.report_contradicted(key, &contradiction),
            AccountState::Proven => {
                let by = by.map_or_else(String::new, |by| format!(": {by}"));
                info!(cloud = %name, "the account is proven{by}");
                if before.is_some() {
                    let text = format!("Account of cloud {name} is proven{by}");
                    let fact = Fact::normal(self.parts.lease.clone(), "AccountProven", text);
                    self.parts.recorder.emit(fact);
                }
            }
        }
        self.reported = Some((key, state));
    }

    /// Keeps the fingerprint of an account that is proven, for the next process.
    fn remember(&self, key: AccountKey) {
        let AccountWatchParts {
            accounts, cloud, ..
        } = &self.parts;
        // Under a former name it would look like an account that has departed, once its credentials change.
        for name in accounts.former_names(key, self.parts.resolver.clouds()) {
            accounts.notes().forget(&name);
        }
        let last = accounts.last_proven(cloud.name());
        let is_noted = last.is_some_and(|it| key.is_like(&it.fingerprint) && it.provider.is_some());
        if !is_noted {
            let note = key.note(cloud.provider(), &self.parts.random);
            accounts
                .notes()
                .set(cloud.name().as_str(), note.to_string());
        }
    }

    fn report_unproven(&self, key: AccountKey) {
        let name = self.parts.cloud.name();
        let text = format!(
            "Nothing proves yet that the credentials of cloud {name} see the account of this cluster. Until then no node \
             is deleted because its instance is not found, and a Service whose load balancer is not found keeps what it \
             has. If the credentials are right, set account: {} for the cloud (--account-fingerprint without --config)",
            key.fingerprint(&self.parts.random)
        );
        let fact = Fact::warning(self.parts.lease.clone(), "AccountUnproven", text);
        emit!(self.parts.recorder, fact, cloud = %name);
    }

    fn report_contradicted(&self, key: AccountKey, contradiction: &str) {
        let name = self.parts.cloud.name();
        let text = format!(
            "The credentials of cloud {name} seem to be of another account, project or zone, or to have lost permissions: it \
             does not know {contradiction}. Nothing is created or deleted there, and no node is initialised. Correct the credentials, \
             or if they are right, set account: {} for the cloud (--account-fingerprint without --config)",
            key.fingerprint(&self.parts.random)
        );
        let fact = Fact::warning(self.parts.lease.clone(), "AccountContradicted", text);
        emit!(self.parts.recorder, fact, cloud = %name);
    }

    fn with<T>(&self, key: AccountKey, work: impl FnOnce(&mut AccountProof) -> T) -> T {
        self.parts.accounts.with(key, work)
    }
}
