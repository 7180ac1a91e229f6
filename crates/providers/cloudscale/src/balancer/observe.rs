//! Reads what the cloud has.
//!
//! The API lists children of all load balancers of the project at once, so one look serves many
//! Services: a list that is on its way is waited for, and one that is a few seconds old is used
//! again, unless the Service has written something since it was asked for. What cannot be read is
//! an error and never absence.

use std::sync::Arc;
use std::time::Duration;

use bowline_core::{CloudError, CloudErrorKind};
pub(crate) use bowline_http::Freshness;
use bowline_http::{CachedRead, OwnWrites, Writing};
use futures::{StreamExt as _, TryStreamExt as _, stream, try_join};
use uuid::Uuid;

use super::plan::{Seen, SeenPool};
use crate::api::{Api, BadItem, FloatingIp, Listener, Listing, LoadBalancer, Monitor, Pool};

/// How old a list may be to answer again: as long as a list of servers.
pub const SNAPSHOT_AGE: Duration = crate::instances::LIST_AGE;
/// Reads of members at the same time: half of what the client allows, so that others are not held
/// up.
const READS_AT_ONCE: usize = 8;

/// The last list of each kind.
pub(crate) struct Observer {
    api: Api,
    balancers: CachedRead<Listing<LoadBalancer>>,
    pools: CachedRead<Listing<Pool>>,
    listeners: CachedRead<Listing<Listener>>,
    monitors: CachedRead<Listing<Monitor>>,
    floating_ips: CachedRead<Listing<FloatingIp>>,
    /// What was written for Services.
    writes: OwnWrites,
}

impl Observer {
    pub(crate) fn new(api: Api) -> Self {
        let writes = OwnWrites::new(SNAPSHOT_AGE);
        let now = writes.generation();
        Self {
            api,
            balancers: CachedRead::sharing(now),
            pools: CachedRead::sharing(now),
            listeners: CachedRead::sharing(now),
            monitors: CachedRead::sharing(now),
            floating_ips: CachedRead::sharing(now),
            writes,
        }
    }

    /// Something is being written for that Service.
    pub(crate) fn writing<'a>(&'a self, service_uid: &'a str) -> Writing<'a> {
        self.writes.writing(service_uid)
    }

    /// No list from before now is used again, for whichever Service: another token saw it, or it
    /// shows what is gone.
    pub(crate) fn forget(&self) {
        self.writes.forget();
    }

    pub(crate) fn freshness(&self, service_uid: &str) -> Freshness {
        self.writes.freshness(service_uid)
    }

    pub(crate) async fn balancers(
        &self,
        fresh: Freshness,
    ) -> Result<Arc<Listing<LoadBalancer>>, CloudError> {
        let read = |_| self.api.load_balancers();
        Ok(self.balancers.get(fresh, read).await?.value)
    }

    pub(crate) async fn floating_ips(
        &self,
        fresh: Freshness,
    ) -> Result<Arc<Listing<FloatingIp>>, CloudError> {
        let read = |_| self.api.floating_ips();
        Ok(self.floating_ips.get(fresh, read).await?.value)
    }

    /// Load balancers that may be a Service's: those with these ids, and those that `may_be` says,
    /// which looks at names and marks. One that cannot be read, and may have one of these names, is
    /// an error.
    pub(crate) async fn candidates(
        &self,
        fresh: Freshness,
        ids: &[Uuid],
        names: &[&str],
        may_be: impl Fn(&LoadBalancer) -> bool,
    ) -> Result<Vec<LoadBalancer>, CloudError> {
        let list = self.balancers(fresh).await?;
        let mut found = may_be_wanted(&list, ids, names, may_be)?;
        for id in ids {
            // Lists can be stale and lose items.
            if found.iter().all(|it| it.uuid != *id) {
                found.extend(self.read(*id).await?);
            }
        }
        Ok(found)
    }

    /// A load balancer by its id; none only by the cloud's answer about this very one.
    pub(crate) async fn read(&self, uuid: Uuid) -> Result<Option<LoadBalancer>, CloudError> {
        match self.api.load_balancer(uuid).await {
            Ok(balancer) if balancer.uuid == uuid => Ok(Some(balancer)),
            Ok(other) => Err(CloudError::new(
                CloudErrorKind::Unknown,
                format!(
                    "GET v1/load-balancers/{uuid} answered with load balancer {}",
                    other.uuid
                ),
            )),
            Err(error) if error.kind() == CloudErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    pub(crate) async fn whole(
        &self,
        balancer: LoadBalancer,
        fresh: Freshness,
    ) -> Result<Seen, CloudError> {
        let (pools, listeners, monitors) = try_join!(
            self.pools.get(fresh, |_| self.api.pools()),
            self.listeners.get(fresh, |_| self.api.listeners()),
            self.monitors.get(fresh, |_| self.api.monitors()),
        )?;
        let (pools, listeners, monitors) = (pools.value, listeners.value, monitors.value);
        let id = balancer.uuid;
        for bad in [&pools.bad, &listeners.bad, &monitors.bad] {
            if let Some(bad) = bad.iter().find(|bad| bad.may_belong_to(id)) {
                return Err(bad.into());
            }
        }
        let own = pools.items.iter().filter(|it| it.load_balancer == Some(id));
        let own: Vec<Pool> = own.cloned().collect();
        let mut own: Vec<SeenPool> = stream::iter(own)
            .map(|pool| self.pool(pool, &listeners.items, &monitors.items))
            .buffered(READS_AT_ONCE)
            .try_collect()
            .await?;
        own.sort_by_key(|it| (it.pool.created_at.clone(), it.pool.uuid));
        let all = listeners.items.iter();
        let loose = all.filter(|it| it.pool.is_none() && it.load_balancer == Some(id));
        Ok(Seen {
            balancer,
            loose: loose.cloned().collect(),
            pools: own,
        })
    }

    async fn pool(
        &self,
        pool: Pool,
        listeners: &[Listener],
        monitors: &[Monitor],
    ) -> Result<SeenPool, CloudError> {
        let id = pool.uuid;
        let members = self.api.members(id).await?;
        if let Some(bad) = members.bad.first() {
            return Err(bad.into());
        }
        let listeners = listeners.iter().filter(|it| it.pool == Some(id));
        let monitors = monitors.iter().filter(|it| it.pool == Some(id));
        Ok(SeenPool {
            pool,
            members: members.items,
            listeners: listeners.cloned().collect(),
            monitors: monitors.cloned().collect(),
        })
    }
}

/// Those of a list that are wanted; an error if one of them cannot be read.
fn may_be_wanted(
    list: &Listing<LoadBalancer>,
    ids: &[Uuid],
    names: &[&str],
    may_be: impl Fn(&LoadBalancer) -> bool,
) -> Result<Vec<LoadBalancer>, CloudError> {
    let suspect = |bad: &&BadItem| {
        let named = bad.name.as_deref();
        named.is_none_or(|it| names.contains(&it)) || bad.uuid.is_some_and(|it| ids.contains(&it))
    };
    if let Some(bad) = list.bad.iter().find(suspect) {
        return Err(bad.into());
    }
    let wanted = |it: &&LoadBalancer| ids.contains(&it.uuid) || may_be(it);
    Ok(list.items.iter().filter(wanted).cloned().collect())
}
