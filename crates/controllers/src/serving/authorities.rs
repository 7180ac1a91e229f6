//! Where the authorities come from: files, and the cluster's own ConfigMap, watched.

use std::path::Path;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use futures::StreamExt;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use kube::runtime::WatchStreamExt as _;
use kube::runtime::watcher::watch_object;

use super::ServingError;
use super::identity::{Authorities, Authority};
use super::options::{AuthenticationConfig, RequestHeaders};

const NAMESPACE: &str = "kube-system";
const NAME: &str = "extension-apiserver-authentication";
/// How long the first look may take; the original has 10 s for it.
const LOOKUP_LIMIT: Duration = Duration::from_secs(10);

/// The authorities in force, and how to find them out again. Not an `http::Reloaded`: a ConfigMap
/// counts while a file is wrong, and the other way round.
pub(super) struct ClientTrust {
    options: AuthenticationConfig,
    lookup: Option<kube::Client>,
    cluster: RwLock<Option<ConfigMap>>,
    current: RwLock<Arc<Authorities>>,
    files: RwLock<[Vec<u8>; 2]>,
}

impl ClientTrust {
    /// Reads the files and, unless told not to, the ConfigMap.
    pub(super) async fn new(
        options: AuthenticationConfig,
        client: Option<kube::Client>,
    ) -> Result<Self, ServingError> {
        let lookup = client.filter(|_| !options.skip_lookup);
        let found = match &lookup {
            Some(client) => look_up(client, options.tolerate_lookup_failure).await?,
            None => None,
        };
        let files = read_files(&options)?;
        let authorities = combine(&options, &files, found.as_ref())?;
        Ok(Self {
            options,
            lookup,
            cluster: RwLock::new(found),
            current: RwLock::new(Arc::new(authorities)),
            files: RwLock::new(files),
        })
    }

    /// The authorities in force now.
    pub(super) fn current(&self) -> Arc<Authorities> {
        Arc::clone(&self.current.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Follows the ConfigMap for as long as it is polled.
    pub(super) async fn follow(&self) {
        let Some(client) = &self.lookup else {
            return std::future::pending().await;
        };
        let api: Api<ConfigMap> = Api::namespaced(client.clone(), NAMESPACE);
        let mut versions = watch_object(api, NAME).default_backoff().boxed();
        while let Some(version) = versions.next().await {
            match version {
                Ok(Some(found)) => {
                    *self.cluster.write().unwrap_or_else(PoisonError::into_inner) = Some(found);
                    self.recombine();
                }
                // Deleted: the last known authorities stay, as in the original.
                Ok(None) => {}
                Err(error) => tracing::debug!(%error, "watching ConfigMap {NAMESPACE}/{NAME}"),
            }
        }
    }

    /// Looks at the files once more.
    pub(super) fn refresh(&self) {
        match read_files(&self.options) {
            Ok(files) => {
                let mut known = self.files.write().unwrap_or_else(PoisonError::into_inner);
                if *known == files {
                    return;
                }
                *known = files;
                drop(known);
                self.recombine();
            }
            Err(error) => tracing::warn!(%error, "authority file not readable, old one stays"),
        }
    }

    fn recombine(&self) {
        let files = self.files.read().unwrap_or_else(PoisonError::into_inner);
        let cluster = self.cluster.read().unwrap_or_else(PoisonError::into_inner);
        match combine(&self.options, &files, cluster.as_ref()) {
            Ok(authorities) => {
                let mut current = self.current.write().unwrap_or_else(PoisonError::into_inner);
                *current = Arc::new(authorities);
            }
            Err(error) => tracing::warn!(%error, "authorities not usable, old ones stay"),
        }
    }
}

async fn look_up(client: &kube::Client, tolerate: bool) -> Result<Option<ConfigMap>, ServingError> {
    let api: Api<ConfigMap> = Api::namespaced(client.clone(), NAMESPACE);
    let failure = match tokio::time::timeout(LOOKUP_LIMIT, api.get(NAME)).await {
        Ok(Ok(found)) => return Ok(Some(found)),
        Ok(Err(kube::Error::Api(status))) if status.code == 404 => {
            tracing::warn!("no ConfigMap {NAMESPACE}/{NAME}: client certificates are not checked");
            return Ok(None);
        }
        Ok(Err(error)) => error.to_string(),
        Err(_) => format!("no answer within {LOOKUP_LIMIT:?}"),
    };
    if tolerate {
        tracing::warn!(
            failure,
            "reading ConfigMap {NAMESPACE}/{NAME}; going on without"
        );
        return Ok(None);
    }
    Err(ServingError::Lookup(failure))
}

/// The client authority's file and the front proxy's, in this order; empty where there is none.
fn read_files(options: &AuthenticationConfig) -> Result<[Vec<u8>; 2], ServingError> {
    let read = |path: Option<&Path>| {
        path.map_or(Ok(Vec::new()), |path| {
            std::fs::read(path).map_err(|source| ServingError::File {
                doing: "reading",
                path: path.to_owned(),
                source,
            })
        })
    };
    Ok([
        read(options.client_ca_file.as_deref())?,
        read(options.request_header_ca_file.as_deref())?,
    ])
}

/// Files come first; the ConfigMap fills what they leave open.
fn combine(
    options: &AuthenticationConfig,
    [client_file, proxy_file]: &[Vec<u8>; 2],
    cluster: Option<&ConfigMap>,
) -> Result<Authorities, ServingError> {
    let value = |key: &str| Some(cluster?.data.as_ref()?.get(key)?.as_str());
    let from_file = |pem: &[u8], path: &Option<std::path::PathBuf>| {
        Authority::from_pem(pem).map_err(|reason| ServingError::Certificate {
            path: path.clone().unwrap_or_default(),
            reason,
        })
    };
    // A bad bundle in the cluster must not stop the process: it is as good as none.
    let from_cluster = |key: &str| {
        let pem = value(key)?;
        Authority::from_pem(pem.as_bytes())
            .inspect_err(|error| tracing::warn!(key, error, "ConfigMap {NAMESPACE}/{NAME}"))
            .ok()
    };
    let clients = if options.client_ca_file.is_some() {
        Some(from_file(client_file, &options.client_ca_file)?)
    } else {
        from_cluster("client-ca-file")
    };
    let front_proxy = if options.request_header_ca_file.is_some() {
        let authority = from_file(proxy_file, &options.request_header_ca_file)?;
        Some((authority, options.request_headers.clone()))
    } else {
        let list =
            |key: &str| value(key).and_then(|text| serde_json::from_str::<Vec<String>>(text).ok());
        from_cluster("requestheader-client-ca-file").map(|authority| {
            let headers = RequestHeaders {
                allowed_names: list("requestheader-allowed-names").unwrap_or_default(),
                username: list("requestheader-username-headers").unwrap_or_default(),
                group: list("requestheader-group-headers").unwrap_or_default(),
                uid: list("requestheader-uid-headers").unwrap_or_default(),
                extra_prefix: list("requestheader-extra-headers-prefix").unwrap_or_default(),
            };
            (authority, headers)
        })
    };
    Ok(Authorities {
        clients,
        front_proxy,
    })
}
