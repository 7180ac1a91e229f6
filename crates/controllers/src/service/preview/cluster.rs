//! The cluster, read once.

use std::collections::BTreeMap;
use std::sync::Arc;

use bowline_core::{Node, ServiceKey};
use kube::api::{ApiResource, DynamicObject, ListParams};
use kube::core::{DeserializeGuard, GroupVersionKind, ObjectList};
use kube::{Api, ResourceExt as _};
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::super::has_ip_mode;
use crate::objects::NodeObject;
use crate::store::Sighting;

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
    /// There is no such Service.
    #[error("there is no Service {0}")]
    Missing(ServiceKey),
    /// A Service of a file cannot be read.
    #[error("{file}: Service {key} is wrong: {message}")]
    Wrong {
        /// The file.
        file: String,
        /// The Service.
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
    pub(super) nodes: Sighting<Node>,
    pub(super) has_ip_mode: bool,
    pub(super) remarks: Vec<String>,
}

pub(super) async fn read(client: &kube::Client) -> Result<Seen, PreviewError> {
    let mut remarks = Vec::new();
    let kind = ApiResource::from_gvk(&GroupVersionKind::gvk("", "v1", "Service"));
    let services = Api::<DynamicObject>::all_with(client.clone(), &kind);
    let services = list(services, "Services").await?;
    let nodes = Api::<DeserializeGuard<NodeObject>>::all(client.clone());
    let nodes = sort(list(nodes, "nodes").await?, &mut remarks);
    let has_ip_mode = match client.apiserver_version().await {
        Ok(version) => has_ip_mode(&version.major, &version.minor),
        Err(error) => {
            remarks.push(format!(
                "the API server does not tell its version and was taken for a current one: {error}"
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
        remarks,
    })
}

fn sort(listed: Vec<DeserializeGuard<NodeObject>>, remarks: &mut Vec<String>) -> Sighting<Node> {
    let mut nodes = Sighting::default();
    for node in listed {
        match node.0 {
            Ok(node) => {
                let node = Node::from(node);
                nodes.objects.insert(node.name.clone(), Arc::new(node));
            }
            Err(broken) => {
                let name = broken.metadata.name.unwrap_or_default();
                remarks.push(format!("Node {name} cannot be read: {}", broken.error));
                nodes.unreadable.insert(name, None);
            }
        }
    }
    nodes
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
