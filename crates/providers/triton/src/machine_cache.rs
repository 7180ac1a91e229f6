//! All machines of an account in one data center, listed once for everybody who asks.
//!
//! ```text
//!  look-ups ──┐                     ┌─▶ who waits meanwhile gets the same list
//!  change feed ┼─▶ one list at a time ┤
//!  resync ────┘                     └─▶ differences from the last one are broadcast
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use bowline_core::CloudError;
use bowline_http::{Cached, CachedRead, Freshness};
use tokio::sync::broadcast;
use tokio::time::Instant;
use tracing::warn;
use uuid::Uuid;

use crate::api::{Api, Machine, MachineQuery};

/// Changes kept for a slow subscriber; who misses some looks at everything.
const WAITING: usize = 64;
/// What is asked for at a moment may have begun before it; what is asked for later has not.
pub(crate) const LATER: Duration = Duration::from_nanos(1);

#[derive(Clone, Debug)]
pub struct Listing {
    pub machines: BTreeMap<Uuid, Machine>,
    /// Ids of machines that are there but could not be read.
    pub unreadable: BTreeSet<Uuid>,
    /// Whether something is there of which not even the id could be read.
    pub nameless: bool,
    /// The pages it came in: more than one is no snapshot.
    pub pages: usize,
    pub asked: Instant,
}

impl Listing {
    /// Whether the machine is certainly not in it.
    pub fn lacks(&self, id: Uuid) -> bool {
        !self.machines.contains_key(&id) && !self.unreadable.contains(&id) && !self.nameless
    }
}

/// Machines that differ from one list to the next: changed, new or gone.
pub type Changes = Arc<BTreeSet<Uuid>>;

#[derive(Debug)]
pub struct MachineCache {
    api: Arc<Api>,
    list: CachedRead<Listing>,
    changes: broadcast::Sender<Changes>,
}

impl MachineCache {
    pub fn new(api: Arc<Api>) -> Self {
        Self {
            api,
            list: CachedRead::default(),
            changes: broadcast::Sender::new(WAITING),
        }
    }

    pub fn changes(&self) -> broadcast::Receiver<Changes> {
        self.changes.subscribe()
    }

    pub fn invalidate(&self) {
        self.list.invalidate();
    }

    /// The last list, if it is no older than `age` and still good.
    pub async fn recent(&self, age: Duration) -> Result<Arc<Listing>, CloudError> {
        let now = Instant::now();
        self.since(now.checked_sub(age).unwrap_or(now)).await
    }

    /// A list that was asked for later than `moment`: the last one, or a new one.
    pub async fn since(&self, moment: Instant) -> Result<Arc<Listing>, CloudError> {
        let later = Freshness {
            since: Some(moment + LATER),
            generation: None,
        };
        Ok(self
            .list
            .get(later, |former| self.read(former))
            .await?
            .value)
    }

    async fn read(&self, former: Option<Cached<Listing>>) -> Result<Listing, CloudError> {
        let asked = Instant::now();
        let list = self.api.machines(&MachineQuery::default()).await?;
        let mut unreadable = BTreeSet::new();
        let mut nameless = false;
        for bad in &list.bad {
            warn!(error = %bad, machine = bad.object, "a machine in the list cannot be read");
            let id = bad.object.as_deref().map(Uuid::try_parse);
            match id {
                Some(Ok(id)) => {
                    unreadable.insert(id);
                }
                _ => nameless = true,
            }
        }
        let machines = list.items.into_iter().map(|it| (it.id, it)).collect();
        if let Some(former) = former {
            let changed = differences(&former.value.machines, &machines);
            if !changed.is_empty() {
                // Nobody may be listening.
                let _ = self.changes.send(Arc::new(changed));
            }
        }
        Ok(Listing {
            machines,
            unreadable,
            nameless,
            pages: list.pages,
            asked,
        })
    }
}

fn differences(old: &BTreeMap<Uuid, Machine>, new: &BTreeMap<Uuid, Machine>) -> BTreeSet<Uuid> {
    let changed = new.iter().filter(|(id, it)| old.get(id) != Some(*it));
    let gone = old.keys().filter(|id| !new.contains_key(id));
    changed.map(|(id, _)| id).chain(gone).copied().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Harness, reply};
    use serde_json::json;

    #[tokio::test(start_paused = true)]
    async fn one_list_serves_all_until_it_is_old_or_void() {
        let mut state = 0;
        let test = Harness::new(move |_| {
            state += 1;
            let state = if state > 2 { "stopped" } else { "running" };
            reply(
                200,
                &json!([{"id": Uuid::from_u128(1), "state": state}, {"id": "odd"}]),
            )
        });
        let machine_cache = MachineCache::new(test.api(&[]));
        let mut changes = machine_cache.changes();
        let age = Duration::from_secs(60);
        let (a, b) = tokio::join!(machine_cache.recent(age), machine_cache.recent(age));
        assert!(Arc::ptr_eq(&a.unwrap(), &b.unwrap()));
        assert_eq!(test.lines().len(), 1, "those who wait get the same list");
        tokio::time::advance(age.saturating_sub(Duration::from_secs(1))).await;
        machine_cache.recent(age).await.unwrap();
        assert_eq!(test.lines().len(), 1);
        tokio::time::advance(Duration::from_secs(1)).await;
        let listing = machine_cache.recent(age).await.unwrap();
        assert_eq!(test.lines().len(), 2);
        assert!(changes.try_recv().is_err(), "nothing has changed");
        assert!(listing.nameless && !listing.lacks(Uuid::from_u128(9)));
        machine_cache.invalidate();
        tokio::time::advance(Duration::from_millis(1)).await;
        machine_cache.recent(age).await.unwrap();
        assert_eq!(test.lines().len(), 3);
        assert_eq!(
            *changes.try_recv().unwrap(),
            BTreeSet::from([Uuid::from_u128(1)])
        );
        machine_cache.recent(age).await.unwrap();
        assert_eq!(test.lines().len(), 3, "the new list is good");
    }
}
