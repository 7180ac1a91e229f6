//! Reads the cluster once.

use std::collections::BTreeMap;
use std::sync::Arc;

use bowline_core::{Need, Needs, Node, ServiceKey};
use kube::api::{ApiResource, DynamicObject, ListParams};
use kube::core::{GroupVersionKind, ObjectList};
use kube::{Api, Resource as _, ResourceExt as _};
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::kube::endpoints::Slice;
use crate::kube::objects::{DeserializeGuard, NodeObject, SliceObject};
use crate::kube::store::{StoreView, Stored};
use crate::loops::service::{has_ip_mode, requirements};

/// Objects in one answer, as `kubectl` asks for.
const PAGE: u32 = 500;
/// Pages of one list: 100,000 objects, ten times what a cluster is built for.
const MOST_PAGES: usize = 200;

/// Why nothing can be said.
#[derive(Debug, thiserror::Error)]
pub enum PreviewError {
    /// The cluster cannot be read.
    #[error("reading {what} of the cluster failed")]
    Cluster {
        /// Which objects.
        what: &'static str,
        /// Why.
        source: Box<kube::Error>,
    },
    /// A list does not end.
    #[error("the list of {0} of the cluster does not end")]
    Endless(&'static str),
    /// The cluster cannot be distinguished from others.
    #[error("namespace kube-system of the cluster has no uid")]
    NoUid,
    /// There is no such Service.
    #[error("there is no Service {0}")]
    Missing(ServiceKey),
    /// A Service of a file cannot be read.
    #[error("{file}: Service {key} is wrong: {message}")]
    Wrong {
        file: String,
        key: ServiceKey,
        /// What is wrong.
        message: String,
    },
    /// The files have one Service twice.
    #[error("Service {0} is in the files twice")]
    Twice(ServiceKey),
}

/// What is in the cluster.
pub(super) struct Seen {
    pub(super) services: BTreeMap<ServiceKey, Value>,
    pub(super) nodes: StoreView<Node>,
    pub(super) has_ip_mode: bool,
    /// If a cloud needs it.
    pub(super) cluster_uid: Option<String>,
    /// If a cloud needs them.
    pub(super) slices: Option<StoreView<Slice>>,
    pub(super) remarks: Vec<String>,
}

pub(super) async fn read(
    client: &kube::Client,
    needs: Needs,
    said_uid: Option<&str>,
) -> Result<Seen, PreviewError> {
    let mut remarks = Vec::new();
    let kind = ApiResource::from_gvk(&GroupVersionKind::gvk("", "v1", "Service"));
    let services = Api::<DynamicObject>::all_with(client.clone(), &kind);
    let services = list(services, "Services").await?;
    let nodes = Api::<DeserializeGuard<NodeObject>>::all(client.clone());
    let nodes = sort(list(nodes, "nodes").await?, &mut remarks);
    let cluster_uid = match said_uid {
        Some(uid) => Some(uid.to_owned()),
        None => read_uid(client, needs.cluster_uid, &mut remarks).await?,
    };
    let mut slices = None;
    if needs.endpoints {
        let api = Api::<DeserializeGuard<SliceObject>>::all(client.clone());
        slices = Some(sort(list(api, "endpoint slices").await?, &mut remarks));
    }
    let has_ip_mode = match client.apiserver_version().await {
        Ok(version) => has_ip_mode(&version.major, &version.minor),
        Err(error) => {
            remarks.push(format!(
                "the API server does not report its version and was taken for a current one: {error}"
            ));
            true
        }
    };
    let services = services.into_iter().map(|it| {
        let key = ServiceKey {
            namespace: it.namespace().unwrap_or_default(),
            name: it.name_any(),
        };
        (key, serde_json::to_value(it).unwrap_or_default())
    });
    Ok(Seen {
        services: services.collect(),
        nodes,
        has_ip_mode,
        cluster_uid,
        slices,
        remarks,
    })
}

/// The uid of the cluster, as far as it is needed and may be read.
async fn read_uid(
    client: &kube::Client,
    need: Need,
    remarks: &mut Vec<String>,
) -> Result<Option<String>, PreviewError> {
    if need == Need::No {
        return Ok(None);
    }
    match requirements::cluster_uid(client).await {
        Ok(Some(uid)) => Ok(Some(uid)),
        Ok(None) => Err(PreviewError::NoUid),
        Err(error) if need == Need::IfAllowed && requirements::is_refused(&error) => {
            remarks.push(requirements::WITHOUT_UID.to_owned());
            Ok(None)
        }
        Err(source) => Err(PreviewError::Cluster {
            what: "the uid",
            source: Box::new(source),
        }),
    }
}

fn sort<T: Stored>(
    listed: Vec<DeserializeGuard<T::Object>>,
    remarks: &mut Vec<String>,
) -> StoreView<T> {
    let mut seen = StoreView::default();
    for object in listed {
        match object.0 {
            Ok(object) => {
                let object: T = object.into();
                seen.objects.insert(object.key(), Arc::new(object));
            }
            Err(broken) => {
                let (kind, error) = (T::Object::kind(&()), broken.error);
                let key = T::key_in(&broken.metadata);
                remarks.push(format!("{kind} {key} cannot be read: {error}"));
                seen.unreadable.insert(key, None);
            }
        }
    }
    seen
}

/// All objects of a kind, page by page.
async fn list<K>(api: Api<K>, what: &'static str) -> Result<Vec<K>, PreviewError>
where
    K: Clone + DeserializeOwned + std::fmt::Debug,
{
    let mut all = Vec::new();
    let mut params = ListParams::default().limit(PAGE);
    for _ in 0..MOST_PAGES {
        let failed = |source| PreviewError::Cluster {
            what,
            source: Box::new(source),
        };
        let page: ObjectList<K> = api.list(&params).await.map_err(failed)?;
        all.extend(page.items);
        match page.metadata.continue_.filter(|it| !it.is_empty()) {
            Some(token) => params.continue_token = Some(token),
            None => return Ok(all),
        }
    }
    Err(PreviewError::Endless(what))
}
