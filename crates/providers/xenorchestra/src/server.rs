//! What one server knows: asked for in as few calls as that takes, or told by its events.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bowline_core::CloudError;
use bowline_http::Clock;
use bowline_http::lookup::{self, FEW, LIST_AGE, READS_AT_ONCE};
use jiff::Timestamp;
use tokio::sync::Notify;
use tokio::time::Instant;
use uuid::Uuid;

use crate::api::{Api, IDS_AT_ONCE, Listing, Vm};
use crate::events::View;
use crate::metrics::Gauges;

/// How old the name of a host or pool may be. Label synchronisation comes every five minutes and should
/// see a new one.
pub const NAMES_AGE: Duration = Duration::from_secs(240);
/// How long a host or pool that cannot be read is not asked for again.
const UNREADABLE_FOR: Duration = Duration::from_secs(30);
/// Listed VMs that are kept; then the memory begins anew.
const KEPT: usize = 16 * 1024;

pub(crate) struct Server {
    name: String,
    api: Api,
    clock: Clock,
    gauges: Gauges,
    /// Only while events are followed.
    view: Mutex<Option<View>>,
    /// Held while lists are under way: whoever comes meanwhile gets the same ones.
    listed: tokio::sync::Mutex<Listed>,
    hosts: tokio::sync::Mutex<Names>,
    pools: tokio::sync::Mutex<Names>,
    /// Told when the view changes.
    changed: Arc<Notify>,
}

/// Names of hosts or pools with the time when they were read; none: it could not be read.
type Names = BTreeMap<Uuid, (Instant, Option<String>)>;

/// VMs with the time when a list was asked for; none: it did not show the VM.
type Listed = BTreeMap<Uuid, (Instant, Option<Vm>)>;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Named {
    Host,
    Pool,
}

/// VMs that are asked about, each with the pool it is probably in.
pub(crate) type Wanted = BTreeMap<Uuid, Option<Uuid>>;

#[derive(Debug)]
pub(crate) enum Reading {
    Found(Box<Vm>),
    Missing,
    Failed(CloudError),
}

impl Server {
    pub(crate) fn new(
        name: String,
        api: Api,
        clock: Clock,
        gauges: Gauges,
        changed: Arc<Notify>,
    ) -> Self {
        Self {
            name,
            api,
            clock,
            gauges,
            view: Mutex::default(),
            listed: tokio::sync::Mutex::default(),
            hosts: tokio::sync::Mutex::default(),
            pools: tokio::sync::Mutex::default(),
            changed,
        }
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn api(&self) -> &Api {
        &self.api
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    pub(crate) fn set_view(&self, new: Option<View>) {
        let mut view = self.view();
        let news = new.is_some() && *view != new;
        *view = new;
        let pools = view.as_ref().map(|view| view.pools.len());
        self.gauges.set_pools(&self.name, pools);
        drop(view);
        if news {
            self.changed.notify_one();
        }
    }

    /// Changes the view, if there is one; `change` says whether anything is different then.
    pub(crate) fn change_view(&self, change: impl FnOnce(&mut View) -> bool) {
        let mut view = self.view();
        let changed = view.as_mut().is_some_and(change);
        let pools = view.as_ref().map(|view| view.pools.len());
        drop(view);
        if changed {
            self.gauges.set_pools(&self.name, pools);
            self.changed.notify_one();
        }
    }

    /// Those of these VMs that the view shows; none if there is no view.
    pub(crate) fn viewed(&self, wanted: &Wanted) -> Option<BTreeMap<Uuid, Vm>> {
        let view = self.view();
        let shown = wanted.keys().filter_map(|id| view.as_ref()?.vms.get(id));
        let shown: Vec<Vm> = shown.cloned().collect();
        view.as_ref()?;
        Some(shown.into_iter().map(|vm| (vm.id, vm)).collect())
    }

    /// Those of these VMs that there are, from lists: of a pool where many of its VMs are wanted, by
    /// their ids otherwise.
    pub(crate) async fn list(&self, wanted: &Wanted) -> Result<BTreeMap<Uuid, Vm>, CloudError> {
        let mut listed = self.listed.lock().await;
        let now = Instant::now();
        let is_recent = |listed: &Listed, id: &Uuid| {
            let at = listed.get(id).map(|(at, _)| *at);
            at.is_some_and(|at| now.saturating_duration_since(at) <= LIST_AGE)
        };
        let open = wanted.iter().filter(|(id, _)| !is_recent(&listed, id));
        let open: Wanted = open.map(|(id, pool)| (*id, *pool)).collect();
        let (pools, ids) = batches(open.iter());
        let mut found: Vec<Listing<Vm>> = Vec::new();
        for pool in pools {
            found.push(self.api.vms(Some(pool)).await?);
        }
        for ids in ids.chunks(IDS_AT_ONCE) {
            found.push(self.api.vms_by_id(ids).await?);
        }
        let found: Vec<Vm> = found.into_iter().flat_map(|it| it.items).collect();
        if listed.len() + found.len() > KEPT {
            listed.retain(|_, (at, _)| now.saturating_duration_since(*at) <= LIST_AGE);
        }
        listed.extend(open.keys().map(|id| (*id, (now, None))));
        listed.extend(found.into_iter().map(|vm| (vm.id, (now, Some(vm)))));
        let shown = wanted.keys().filter(|id| is_recent(&listed, id));
        let shown = shown.filter_map(|id| Some((*id, listed.get(id)?.1.clone()?)));
        Ok(shown.collect())
    }

    pub(crate) async fn read(&self, id: Uuid) -> Reading {
        match self.api.vm(id).await {
            Ok(Some(vm)) if vm.id == id => Reading::Found(Box::new(vm)),
            Ok(Some(_)) => Reading::Failed(CloudError::new(
                bowline_core::CloudErrorKind::Unknown,
                format!("GET vms/{id} answered with another VM"),
            )),
            Ok(None) => Reading::Missing,
            Err(error) => Reading::Failed(error),
        }
    }

    pub(crate) async fn host_names(&self, wanted: BTreeSet<Uuid>) -> BTreeMap<Uuid, String> {
        self.names(Named::Host, wanted).await
    }

    pub(crate) async fn pool_names(&self, wanted: BTreeSet<Uuid>) -> BTreeMap<Uuid, String> {
        self.names(Named::Pool, wanted).await
    }

    async fn names(&self, named: Named, mut wanted: BTreeSet<Uuid>) -> BTreeMap<Uuid, String> {
        let mut names = BTreeMap::new();
        if let Some(view) = self.view().as_ref() {
            let map = match named {
                Named::Host => &view.hosts,
                Named::Pool => &view.pools,
            };
            for id in &wanted {
                names.extend(map.get(id).map(|name| (*id, name.clone())));
            }
        }
        wanted.retain(|id| !names.contains_key(id));
        if wanted.is_empty() {
            return names;
        }
        let mut kept = match named {
            Named::Host => self.hosts.lock().await,
            Named::Pool => self.pools.lock().await,
        };
        let now = Instant::now();
        kept.retain(|_, (at, name)| {
            let age = name.as_ref().map_or(UNREADABLE_FOR, |_| NAMES_AGE);
            now.saturating_duration_since(*at) < age
        });
        let open: Vec<Uuid> = wanted
            .iter()
            .filter(|it| !kept.contains_key(it))
            .copied()
            .collect();
        for (id, name) in self.learn(named, open).await {
            kept.insert(id, (now, name));
        }
        let known = wanted
            .iter()
            .filter_map(|id| Some((*id, kept.get(id)?.1.clone()?)));
        names.extend(known);
        names
    }

    /// Asks for names: one by one if they are few, else in one list, and then for what that lacks.
    async fn learn(&self, named: Named, ids: Vec<Uuid>) -> BTreeMap<Uuid, Option<String>> {
        let mut names = BTreeMap::new();
        if ids.len() > FEW {
            let list = match named {
                Named::Host => self.api.hosts().await.map(|list| {
                    let pair = |it: crate::api::Host| (it.id, it.name_label);
                    list.items.into_iter().map(pair).collect::<BTreeMap<_, _>>()
                }),
                Named::Pool => self.api.pools().await.map(|list| {
                    let pair = |it: crate::api::Pool| (it.id, it.name_label);
                    list.items.into_iter().map(pair).collect()
                }),
            };
            names = list.unwrap_or_default();
        }
        let missing = ids.into_iter().filter(|id| !names.contains_key(id));
        let read = |id| async move {
            let name = match named {
                Named::Host => self.api.host(id).await.map(|it| it.map(|it| it.name_label)),
                Named::Pool => self.api.pool(id).await.map(|it| it.map(|it| it.name_label)),
            };
            name.ok().flatten().map(Option::unwrap_or_default)
        };
        let read = lookup::read_each(missing, READS_AT_ONCE, read).await;
        names.extend(read);
        names
    }

    fn view(&self) -> MutexGuard<'_, Option<View>> {
        self.view.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Which pools are listed whole, and which VMs by their ids. A filter of many ids is longer than the list
/// of a pool that has little else.
fn batches<'a>(
    wanted: impl Iterator<Item = (&'a Uuid, &'a Option<Uuid>)>,
) -> (Vec<Uuid>, Vec<Uuid>) {
    let mut by_pool: BTreeMap<Option<Uuid>, Vec<Uuid>> = BTreeMap::new();
    for (id, pool) in wanted {
        by_pool.entry(*pool).or_default().push(*id);
    }
    let (mut pools, mut ids) = (Vec::new(), Vec::new());
    for (pool, members) in by_pool {
        match pool {
            Some(pool) if members.len() > IDS_AT_ONCE / 2 => pools.push(pool),
            _ => ids.extend(members),
        }
    }
    (pools, ids)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_vms_of_a_pool_are_its_list_and_others_are_asked_for_by_id() {
        let (big, small) = (Uuid::from_u128(1), Uuid::from_u128(2));
        let mut wanted: Wanted = (100..300)
            .map(|it| (Uuid::from_u128(it), Some(big)))
            .collect();
        wanted.insert(Uuid::from_u128(10), Some(small));
        wanted.insert(Uuid::from_u128(11), None);
        let (pools, ids) = batches(wanted.iter());
        assert_eq!(pools, [big]);
        assert_eq!(ids, [11, 10].map(Uuid::from_u128));
        assert_eq!(batches(Wanted::new().iter()), (Vec::new(), Vec::new()));
    }
}
