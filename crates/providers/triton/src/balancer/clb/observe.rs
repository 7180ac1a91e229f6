//! Reads what the cloud has for load balancer machines. A failed read is an error, never absence.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;
use std::time::Duration;

use bowline_core::{CloudError, CloudErrorKind};
use futures::future::try_join_all;
use tokio::time::Instant;
use uuid::Uuid;

use super::machines::{CLUSTER_TAG, UID_TAG, is_ours};
use crate::api::{Image, List, Machine, MachineQuery, MachineRead, TagValue};
use crate::data_center::DataCenter;
use crate::id::hyphenated;
use crate::{lock, remember};

/// How long images and packages are cached: they change rarely.
const LOOKUP_AGE: Duration = Duration::from_secs(300);
/// Bound of cached images and packages; the map is emptied when it is full.
const MOST_LOOKUPS: usize = 256;
/// What the former controller marks its machines with.
const LEGACY: (&str, &str) = ("managed-by", "triton-loadbalancer-controller");
const LEGACY_KIND: &str = "loadbalancer";

#[derive(Debug, Default)]
pub(crate) struct Lookups {
    images: Cache<Vec<Image>>,
    used: Cache<Option<Image>>,
    packages: Cache<String>,
}

#[derive(Debug)]
struct Cache<T>(Mutex<BTreeMap<String, (Instant, T)>>);

impl<T> Default for Cache<T> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<T: Clone> Cache<T> {
    fn get(&self, key: &str) -> Option<T> {
        let all = lock(&self.0);
        let (asked, value) = all.get(key)?;
        (asked.elapsed() < LOOKUP_AGE).then(|| value.clone())
    }

    fn put(&self, key: &str, value: T) -> T {
        let now = (Instant::now(), value.clone());
        remember(&mut lock(&self.0), MOST_LOOKUPS, key.to_owned(), now);
        value
    }

    fn clear(&self) {
        lock(&self.0).clear();
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Images {
    /// The newest; none if there is no such image.
    pub(crate) newest: Option<Uuid>,
    /// All that are as good: other versions too, and what cannot be looked up.
    pub(crate) good: BTreeSet<Uuid>,
}

impl Lookups {
    /// Images by name or id. A machine whose image has that name, in whatever version, need not be
    /// replaced: nobody has asked for another one.
    pub(crate) async fn images(
        &self,
        data_center: &DataCenter,
        text: &str,
        machines: &[Machine],
    ) -> Result<Images, CloudError> {
        if let Some(id) = hyphenated(text) {
            return Ok(Images {
                newest: Some(id),
                good: BTreeSet::from([id]),
            });
        }
        let list = if let Some(list) = self.images.get(text) {
            list
        } else {
            let list = data_center.api.images(text).await?;
            if list.is_empty() {
                list
            } else {
                self.images.put(text, list)
            }
        };
        let newest = list
            .iter()
            .max_by_key(|it| (it.published_at.clone(), it.id));
        let newest = newest.map(|it| it.id);
        let mut good: BTreeSet<Uuid> = list.iter().map(|it| it.id).collect();
        for id in machines.iter().filter_map(|it| it.image) {
            if !good.contains(&id) && self.may_be(data_center, id, text).await? {
                good.insert(id);
            }
        }
        Ok(Images { newest, good })
    }

    async fn may_be(
        &self,
        data_center: &DataCenter,
        id: Uuid,
        name: &str,
    ) -> Result<bool, CloudError> {
        let key = id.to_string();
        let image = match self.used.get(&key) {
            Some(image) => image,
            None => self.used.put(&key, data_center.api.image(id).await?),
        };
        Ok(image.is_none_or(|it| it.name == name))
    }

    /// The name of a package, by name or id; none if there is no such package.
    pub(crate) async fn package(
        &self,
        data_center: &DataCenter,
        text: &str,
    ) -> Result<Option<String>, CloudError> {
        if let Some(name) = self.packages.get(text) {
            return Ok(Some(name));
        }
        let package = data_center.api.package(text).await?;
        Ok(package.map(|it| self.packages.put(text, it.name)))
    }

    pub(crate) fn forget(&self) {
        self.images.clear();
        self.used.clear();
        self.packages.clear();
    }
}

/// The load balancer machines of a Service, by id, as the API has them now: a list that is a few
/// seconds old would not show what an attempt made that died.
pub(crate) async fn own(
    data_center: &DataCenter,
    cluster: &str,
    uid: &str,
) -> Result<Vec<Machine>, CloudError> {
    let query = MachineQuery {
        tag: Some((UID_TAG.to_owned(), uid.to_owned())),
        ..MachineQuery::default()
    };
    let mut found = readable(data_center.api.machines(&query).await?)?;
    found.retain(|it| is_ours(it, cluster, uid) && !it.state.is_over());
    try_join_all(found.iter().map(|it| data_center.with_nics(it))).await
}

pub(crate) async fn named(
    data_center: &DataCenter,
    name: &str,
) -> Result<Vec<Machine>, CloudError> {
    let query = MachineQuery {
        name: Some(name.to_owned()),
        ..MachineQuery::default()
    };
    let mut found = readable(data_center.api.machines(&query).await?)?;
    found.retain(|it| it.name == name && !it.state.is_over());
    Ok(found)
}

/// The machine that the former controller made for a Service of that name.
pub(crate) async fn legacy(
    data_center: &DataCenter,
    name: &str,
) -> Result<Option<Machine>, CloudError> {
    let is_legacy = |machine: &Machine| {
        let kind = machine.tags.get(LEGACY_KIND).map(ToString::to_string);
        machine.tags.get(LEGACY.0) == Some(&TagValue::from(LEGACY.1))
            && kind.as_deref() == Some("true")
            && !machine.tags.contains_key(CLUSTER_TAG)
            && !machine.tags.contains_key(UID_TAG)
    };
    let found = named(data_center, name).await?.into_iter().find(is_legacy);
    match found {
        Some(machine) => data_center.with_nics(&machine).await.map(Some),
        None => Ok(None),
    }
}

/// All load balancer machines of clusters, by one list call.
pub(crate) async fn of_clusters(data_center: &DataCenter) -> Result<Vec<Machine>, CloudError> {
    let query = MachineQuery {
        tag: Some((CLUSTER_TAG.to_owned(), "*".to_owned())),
        ..MachineQuery::default()
    };
    let list = data_center.api.machines(&query).await?;
    Ok(list.items)
}

/// One machine, right now; none if it is gone for certain.
pub(crate) async fn one(data_center: &DataCenter, id: Uuid) -> Result<Option<Machine>, CloudError> {
    let words = match data_center.api.machine(id).await? {
        MachineRead::Shown(machine) => return data_center.with_nics(&machine).await.map(Some),
        MachineRead::Destroyed => return Ok(None),
        MachineRead::Missing(words) => words,
    };
    let lists = data_center.proof().await?;
    if lists.iter().all(|list| list.lacks(id)) {
        return Ok(None);
    }
    let text = format!("machine {id} is listed, but reading it is answered with {words:?}");
    Err(CloudError::new(CloudErrorKind::Unavailable, text))
}

/// An error if a machine in a list cannot be read: it may be the one that is looked for.
fn readable(list: List<Machine>) -> Result<Vec<Machine>, CloudError> {
    match list.bad.first() {
        None => Ok(list.items),
        Some(bad) => {
            let which = bad.object.as_deref().unwrap_or("without an id");
            let text = format!("machine {which} cannot be read: {}", bad.reason);
            Err(CloudError::new(CloudErrorKind::Unknown, text))
        }
    }
}
