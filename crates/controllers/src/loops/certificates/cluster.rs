//! The cluster's own names and addresses: read where the role allows it, cached for a minute.
//!
//! The originals' roles do not allow all of it. A refused read is reported once, and the rest counts. A
//! failed read leaves requests pending, because nothing is approved on doubt.

use std::fmt::Display;
use std::sync::Arc;
use std::time::Duration;

use bowline_core::{ClusterNames, Names, error_chain};
use k8s_openapi::api::core::v1::Service;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use k8s_openapi::api::networking::v1::ServiceCIDR;
use kube::api::{ApiResource, DynamicObject, ListParams};
use kube::{Api, Client, Resource};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::sync::Mutex;
use tokio::time::Instant;
use tracing::{debug, info};

use super::clouds::CertificateClouds;
use crate::kube::clients::ServerNames;

/// How long what was read counts: addresses of the API server change when machines of the control plane do.
const FRESH: Duration = Duration::from_secs(60);
/// The same where the role allows none of it: it is asked again in case that changes.
const FRESH_IF_REFUSED: Duration = Duration::from_secs(600);
/// Where the API server's Service is, and its name.
const NAMESPACE: &str = "default";
const SERVICE: &str = "kubernetes";
/// The endpoints of that Service.
const ITS_SLICES: &str = "kubernetes.io/service-name=kubernetes";
/// How many places it is read from.
const SOURCES: usize = 3;
/// More than anybody has of slices of one Service, or of Service ranges.
const MOST_OBJECTS: u32 = 100;

/// Where it is read.
pub(super) struct ClusterReader {
    client: Client,
    server: ServerNames,
    clouds: CertificateClouds,
    /// What the operator reserves.
    reserved: Names,
    cache: Mutex<ClusterCache>,
}

#[derive(Default)]
struct ClusterCache {
    sources: Sources,
    /// When it is read again.
    due: Option<Instant>,
    is_reported: bool,
}

/// What was read last, each from a place of its own; none if it was never read.
#[derive(Default)]
struct Sources {
    endpoints: Option<Names>,
    service: Option<Names>,
    ranges: Option<Names>,
    /// The ranges of Services that clouds know.
    of_clouds: Names,
}

impl ClusterReader {
    pub(super) fn new(
        client: Client,
        server: ServerNames,
        clouds: CertificateClouds,
        reserved: &[String],
    ) -> Self {
        Self {
            client,
            server,
            clouds,
            reserved: reserved.iter().collect(),
            cache: Mutex::default(),
        }
    }

    /// All that is the cluster's own, or why it is not known.
    pub(super) async fn names(&self) -> Result<Arc<ClusterNames>, String> {
        let mut cache = self.cache.lock().await;
        if cache.due.is_none_or(|due| due <= Instant::now()) {
            let fresh = self.read(&mut cache).await?;
            cache.due = Some(Instant::now() + fresh);
        }
        let mut api_server = self.server.all();
        let mut reserved = self.reserved.clone();
        let Sources {
            endpoints,
            service,
            ranges,
            of_clouds,
        } = &cache.sources;
        reserved.extend(of_clouds);
        if let Some(known) = endpoints {
            api_server.extend(known);
        }
        for known in service.iter().chain(ranges) {
            reserved.extend(known);
        }
        Ok(Arc::new(ClusterNames {
            api_server,
            reserved,
        }))
    }

    /// Reads all of it; for how long that counts.
    async fn read(&self, cache: &mut ClusterCache) -> Result<Duration, String> {
        let (endpoints, service, ranges, of_clouds) = tokio::join!(
            self.endpoints(),
            self.service(),
            self.ranges(),
            self.clouds.service_ranges()
        );
        // A cloud that does not answer takes nothing back.
        cache.sources.of_clouds.extend(&of_clouds);
        let mut refused = Vec::new();
        let sources = &mut cache.sources;
        for (what, read, known) in [
            (
                "the endpoints of default/kubernetes",
                endpoints,
                &mut sources.endpoints,
            ),
            (
                "the Service default/kubernetes",
                service,
                &mut sources.service,
            ),
            ("the ServiceCIDRs", ranges, &mut sources.ranges),
        ] {
            match read {
                Ok(names) => *known = Some(names),
                Err(error) if is_refused(&error) => {
                    *known = Some(Names::default());
                    refused.push(what);
                }
                Err(error) => keep(what, known.as_ref(), &error)?,
            }
        }
        if !refused.is_empty() && !cache.is_reported {
            cache.is_reported = true;
            let refused = refused.join(", ");
            info!(
                "serving certificates: the role does not allow to read {refused}; names and addresses in \
                 the API server's certificate, of other Nodes and in --reserved-names are refused all the same"
            );
        }
        let is_any_read = refused.len() < SOURCES;
        Ok(if is_any_read { FRESH } else { FRESH_IF_REFUSED })
    }

    async fn endpoints(&self) -> kube::Result<Names> {
        let api =
            Api::namespaced_with(self.client.clone(), NAMESPACE, &resource::<EndpointSlice>());
        let params = ListParams::default().labels(ITS_SLICES).limit(MOST_OBJECTS);
        let slices: Vec<DynamicObject> = api.list(&params).await?.items;
        let endpoints = slices.iter().map(|it| read(&it.data["endpoints"]));
        let endpoints: Vec<Vec<Endpoint>> = endpoints.collect::<kube::Result<_>>()?;
        let addresses = endpoints.into_iter().flatten();
        Ok(addresses.flat_map(|it| it.addresses).collect())
    }

    async fn service(&self) -> kube::Result<Names> {
        let api = Api::namespaced_with(self.client.clone(), NAMESPACE, &resource::<Service>());
        let service: DynamicObject = api.get(SERVICE).await?;
        let spec = &service.data["spec"];
        let one: Option<String> = read(&spec["clusterIP"])?;
        let all: Vec<String> = read(&spec["clusterIPs"])?;
        Ok(one.into_iter().chain(all).collect())
    }

    async fn ranges(&self) -> kube::Result<Names> {
        let api = Api::all_with(self.client.clone(), &resource::<ServiceCIDR>());
        let params = ListParams::default().limit(MOST_OBJECTS);
        let all: Vec<DynamicObject> = api.list(&params).await?.items;
        let ranges = all.iter().map(|it| read(&it.data["spec"]["cidrs"]));
        let ranges: Vec<Vec<String>> = ranges.collect::<kube::Result<_>>()?;
        Ok(ranges.into_iter().flatten().collect())
    }
}

/// Of these objects one list of texts is wanted: not worth a decoder for the whole type.
fn resource<K: Resource<DynamicType = ()>>() -> ApiResource {
    ApiResource::erase::<K>(&())
}

#[derive(Deserialize)]
struct Endpoint {
    #[serde(default)]
    addresses: Vec<String>,
}

/// What stands there, and nothing where it is absent. What cannot be read is an error, never nothing: fewer names would be
/// reserved.
fn read<T: DeserializeOwned + Default>(value: &Value) -> kube::Result<T> {
    let read = Option::<T>::deserialize(value).map_err(kube::Error::SerdeError)?;
    Ok(read.unwrap_or_default())
}

/// What was known before counts on; without it nothing is known.
fn keep(what: &str, known: Option<&Names>, error: &kube::Error) -> Result<(), String> {
    let text = problem(what, &error_chain(error));
    match known {
        Some(_) => debug!("{text}; what was read before counts"),
        None => return Err(text),
    }
    Ok(())
}

fn problem(what: &str, error: &dyn Display) -> String {
    format!("{what} cannot be read: {error}")
}

/// The role does not allow it, or the server does not know it: neither passes by itself.
fn is_refused(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if matches!(status.code, 403 | 404))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_cannot_be_read_is_an_error_and_never_nothing() {
        assert_eq!(read::<Vec<String>>(&Value::Null).unwrap(), [""; 0]);
        assert_eq!(read::<Vec<String>>(&json!(["a"])).unwrap(), ["a"]);
        for wrong in [json!("a"), json!([1]), json!({})] {
            assert!(read::<Vec<String>>(&wrong).is_err(), "{wrong}");
        }
        let wrong = json!([{ "addresses": ["10.0.0.1"] }, { "addresses": "10.0.0.2" }]);
        assert!(read::<Vec<Endpoint>>(&wrong).is_err());
    }
}
