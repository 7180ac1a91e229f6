//! Finds the instance of each node, and describes it.
//!
//! ```text
//!  nodes ─▶ question ─┬─ external: from the override, no request ──────────────────────────┬─▶ answer
//!           (pure)    ├─ up to 3 ids ─▶ GET each ────────────────────────────┐             │  (pure)
//!                     └─ more ─▶ a list, still fresh ─▶ GET each not settled ─┴─▶ types ────┘
//! ```
//!
//! *Gone* follows only from a read of that very instance: a 404, or the state `destroyed` or
//! `expunging`. An instance that the list does not show, shows without a name or type, or shows as
//! destroyed, is not settled by the list and is read by itself. The list shows every field that is
//! used here, so that for nodes whose instances live nothing is read one by one.
//!
//! When very many are not settled at once, only the first [`CONFIRMATIONS`] of them, in the order
//! of their ids, are read in one look-up, and the others are *cannot tell*. The order is the same
//! in every look-up, so that the same nodes collect the two looks that the deletion guard wants.
//!
//! A role that allows to get instances but not to list them is enough: then each is read.

mod answer;
mod describe;
mod list;
mod permission;
mod question;
mod types;

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bowline_core::{BoxFuture, CloudError, CloudErrorKind, Evidence, Instances, Lookup, Node};
pub use bowline_http::lookup::{CONFIRMATIONS, FEW, LIST_AGE};
use bowline_http::lookup::{Reading, ReportedOnce};
use bowline_http::{Cached, CachedRead, Clock, lookup};
use tokio::time::Instant;
use tracing::warn;
use uuid::Uuid;

use crate::api::{Api, Instance, InstanceState, PrivateNetwork};
use crate::config::InstanceConfig;
use answer::Knowledge;
pub(crate) use list::InstanceList;
use permission::Permission;
use question::{Question, question};
use types::Types;

/// How long single reads are begun in one look-up where nothing can be listed. At 100 ms each,
/// 4,800 instances fit in, and the look-up ends before its own limit of two minutes.
const READING_TIME: Duration = Duration::from_secs(60);
/// Instances found lately that are remembered for the check read, where nothing can be listed.
const WITNESSES: usize = 3;
/// Bound of messages remembered as reported; beyond, each may be reported again.
const MOST_REPORTED: usize = 1024;

pub(crate) struct Machines {
    api: Api,
    clock: Clock,
    zone: String,
    config: InstanceConfig,
    types: Types,
    may_list: Permission,
    /// Void once the credentials have changed.
    listing: CachedRead<InstanceList>,
    witnesses: Mutex<BTreeSet<Uuid>>,
    reported: ReportedOnce,
}

impl Machines {
    pub(crate) fn new(api: Api, clock: Clock, zone: String, config: InstanceConfig) -> Self {
        Self {
            api,
            clock,
            zone,
            config,
            types: Types::default(),
            may_list: Permission::new("list-instances", "instances are read one by one"),
            listing: CachedRead::default(),
            witnesses: Mutex::default(),
            reported: ReportedOnce::new(MOST_REPORTED),
        }
    }

    /// Forgets what other credentials saw, and what their role did not allow.
    pub(crate) fn credentials_changed(&self) {
        self.listing.invalidate();
        self.witnesses().clear();
        self.may_list.ask_again();
        self.types.credentials_changed();
    }

    /// Whether a node is labelled with another zone, and has no override.
    pub(crate) fn is_elsewhere(&self, node: &Node) -> bool {
        let node_override = self
            .config
            .overrides
            .find(&node.name, node.provider_id.as_deref());
        node_override.is_none() && answer::elsewhere(node, &self.zone).is_some()
    }

    /// All instances of the zone, as a list that is not older than [`LIST_AGE`] shows them.
    pub(crate) async fn all(&self) -> Result<Arc<InstanceList>, CloudError> {
        Ok(self.listing.recent(LIST_AGE, self.list()).await?.value)
    }

    /// A private network; none if there is none of that id, or if the role does not allow to read
    /// it, as the original's does not.
    pub(crate) async fn private_network(
        &self,
        id: Uuid,
    ) -> Result<Option<PrivateNetwork>, CloudError> {
        match self.api.private_network(id).await {
            Ok(network) => Ok(Some(network)),
            Err(error) => match error.kind() {
                CloudErrorKind::NotFound | CloudErrorKind::Denied => Ok(None),
                _ => Err(error),
            },
        }
    }

    /// The addresses that the operator gives to an instance's node, instead of what the cloud
    /// knows.
    pub(crate) fn override_addresses(&self, name: &str, node: Option<&Node>) -> Vec<IpAddr> {
        let id = node.and_then(|it| it.provider_id.as_deref());
        let node_override = self.config.overrides.find(name, id);
        let addresses = node_override
            .filter(|it| !it.external)
            .map(|it| &it.addresses);
        let addresses = addresses.into_iter().flatten();
        addresses.filter_map(|it| it.address.parse().ok()).collect()
    }

    async fn answers(&self, nodes: &[Arc<Node>]) -> Vec<Lookup> {
        let questions: Vec<Question<'_>> = nodes
            .iter()
            .map(|node| question(node, &self.config))
            .collect();
        let mut knowledge = self.gather(ids_of(&questions)).await;
        let wanted = knowledge.types_wanted(&questions);
        knowledge.types = self.types.learn(&self.api, &wanted).await;
        let seen = questions.iter().filter_map(|question| match question {
            Question::About { id, .. } => knowledge.instance(*id).ok().map(|_| *id),
            _ => None,
        });
        self.remember(seen.take(WITNESSES).collect());
        let asked = nodes.iter().zip(&questions);
        asked
            .map(|(node, question)| knowledge.answer(node, question, &self.zone))
            .collect()
    }

    /// Asks the zone about those instances, in as few calls as that takes.
    async fn gather(&self, ids: BTreeSet<Uuid>) -> Knowledge {
        let start = Instant::now();
        let age = |list: &InstanceList| lookup::age_by_ids(list.len());
        let listing = if ids.len() > FEW && self.may_list.is_given() {
            let leaves_open = |list: &InstanceList| unsettled(&ids, list).len() > FEW;
            match lookup::list_for(&self.listing, start, age, || self.list(), leaves_open).await {
                Ok(listing) => Some(listing),
                Err(error) if error.kind() == CloudErrorKind::Denied => {
                    return self.gather_one_by_one(ids, Some(error)).await;
                }
                Err(error) => return Knowledge::failed(error),
            }
        } else {
            lookup::kept_list(&self.listing, age)
        };
        let Some(listing) = listing else {
            return self.gather_one_by_one(ids, None).await;
        };
        let open = unsettled(&ids, &listing.value);
        let open = open.into_iter().take(CONFIRMATIONS).collect();
        Knowledge {
            read: self.read_each(open).await,
            list: Some(Ok(listing.value)),
            ..Knowledge::default()
        }
    }

    /// Reads all of them. If they are many, the first one shows whether the others are worth it:
    /// where nothing at all is allowed, it is not the list that the role lacks.
    async fn gather_one_by_one(
        &self,
        mut ids: BTreeSet<Uuid>,
        refusal: Option<CloudError>,
    ) -> Knowledge {
        let mut read = BTreeMap::new();
        if ids.len() > FEW
            && let Some(first) = ids.pop_first()
        {
            match self.read(first).await {
                Reading::Failed(error) if error.kind() == CloudErrorKind::Denied => {
                    return Knowledge::failed(error);
                }
                reading => read.insert(first, reading),
            };
            if let Some(refusal) = refusal {
                self.may_list.was_refused(&refusal);
            }
        }
        read.extend(self.read_each(ids).await);
        Knowledge {
            read,
            ..Knowledge::default()
        }
    }

    async fn list(&self) -> Result<InstanceList, CloudError> {
        let list = self.api.instances().await?;
        for bad in &list.bad {
            let text = bad.to_string();
            if self.reported.is_new(&text) {
                warn!(error = text, "leaving an instance out of the list");
            }
        }
        Ok(InstanceList::new(list.items))
    }

    /// Reads instances one by one, a few at a time, for as long as a look-up may take.
    async fn read_each(&self, ids: BTreeSet<Uuid>) -> BTreeMap<Uuid, Reading<Instance>> {
        let start = Instant::now();
        let read = |id| async move {
            if start.elapsed() < READING_TIME {
                return self.read(id).await;
            }
            let text = "there are too many instances to read each in time";
            Reading::Failed(CloudError::new(CloudErrorKind::Unavailable, text))
        };
        lookup::read_each(ids, lookup::READS_AT_ONCE, read).await
    }

    async fn read(&self, id: Uuid) -> Reading<Instance> {
        let gone = |text: String| {
            let at = self.clock.now();
            Reading::Gone(Evidence { text, at })
        };
        match self.api.instance(id).await {
            Ok(instance) if is_destroyed(&instance) => {
                let state = if instance.state == InstanceState::Destroyed {
                    "destroyed"
                } else {
                    "expunging"
                };
                gone(format!(
                    "GET instance/{id} answered 200 with the state {state}"
                ))
            }
            Ok(instance) => Reading::Found(Box::new(instance)),
            Err(error) if error.kind() == CloudErrorKind::NotFound => {
                gone(format!("GET instance/{id} answered 404"))
            }
            Err(error) => Reading::Failed(error),
        }
    }

    /// Whether the zone answers, and shows the cluster's organisation. A list shows that; where the
    /// role allows none, an instance that was seen before does.
    async fn check(&self) -> Result<(), CloudError> {
        // Nothing is asked, and nothing is ever gone.
        if self.config.external_only {
            return Ok(());
        }
        if self.may_list.is_given() {
            match self.listing.since(Instant::now(), self.list()).await {
                Ok(listing) => return self.is_current(&listing),
                Err(error) if error.kind() == CloudErrorKind::Denied => {}
                Err(error) => return Err(error),
            }
        }
        self.check_by_id().await
    }

    fn is_current(&self, listing: &Cached<InstanceList>) -> Result<(), CloudError> {
        if self.listing.is_current(listing) {
            return Ok(());
        }
        let text = "the API credentials changed while GET instance was under way";
        Err(CloudError::new(CloudErrorKind::Unavailable, text))
    }

    /// Reads an instance that was found before, and has to find one again: a key that has lost its permission to read may
    /// get a 404 for each.
    async fn check_by_id(&self) -> Result<(), CloudError> {
        let witnesses: Vec<Uuid> = self.witnesses().iter().copied().take(WITNESSES).collect();
        for witness in &witnesses {
            match self.api.instance(*witness).await {
                Ok(_) => return Ok(()),
                Err(error) if error.kind() == CloudErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
        }
        let text = if witnesses.is_empty() {
            "the role of the API key does not allow list-instances, and no instance was found yet that could be read \
             instead"
        } else {
            "the role of the API key does not allow list-instances, and no instance that was found before is found now"
        };
        Err(CloudError::new(CloudErrorKind::Unknown, text))
    }

    fn remember(&self, found: BTreeSet<Uuid>) {
        if !found.is_empty() {
            *self.witnesses() = found;
        }
    }

    fn witnesses(&self) -> MutexGuard<'_, BTreeSet<Uuid>> {
        let witnesses = self.witnesses.lock();
        witnesses.unwrap_or_else(PoisonError::into_inner)
    }
}

fn ids_of(questions: &[Question<'_>]) -> BTreeSet<Uuid> {
    let ids = questions.iter().filter_map(|question| match question {
        Question::About { id, .. } => Some(*id),
        _ => None,
    });
    ids.collect()
}

/// The instances that the list alone does not settle.
fn unsettled(ids: &BTreeSet<Uuid>, list: &InstanceList) -> BTreeSet<Uuid> {
    let settled = |id: &Uuid| {
        list.get(*id)
            .is_some_and(|it| it.name.is_some() && it.instance_type.is_some() && !is_destroyed(it))
    };
    ids.iter().filter(|id| !settled(id)).copied().collect()
}

/// Whether it never comes back, although it is still shown.
fn is_destroyed(instance: &Instance) -> bool {
    use InstanceState::{Destroyed, Expunging};
    matches!(instance.state, Destroyed | Expunging)
}

impl Instances for Machines {
    fn lookup<'a>(&'a self, nodes: &'a [Arc<Node>]) -> BoxFuture<'a, Vec<Lookup>> {
        Box::pin(self.answers(nodes))
    }

    fn is_declared(&self, node: &Node) -> bool {
        matches!(question(node, &self.config), Question::External(_))
    }

    /// Lists the instances, always anew.
    fn canary(&self) -> BoxFuture<'_, Result<(), CloudError>> {
        Box::pin(self.check())
    }
}
