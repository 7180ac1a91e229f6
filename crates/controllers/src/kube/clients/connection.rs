//! How the API server is reached: kubeconfig, `--master` or the pod's own account.

use std::io;

use bowline_http::{Connector, PeerCertificates, ProxyError, ProxyRules, READ_AT_ONCE, Transport};
use bytes::Bytes;
use http::{Request, Response, Uri};
use http_body_util::BodyExt;
use http_body_util::combinators::UnsyncBoxBody;
use hyper_util::rt::TokioExecutor;
use kube::client::{Body, ConfigExt as _};
use kube::config::{AuthInfo, KubeConfigOptions, Kubeconfig, KubeconfigError};
use kube::{Client, Config};
use rustls_pki_types::ServerName;
use tower::util::BoxCloneSyncService;
use tower::{BoxError, Service, ServiceBuilder, ServiceExt as _};

use super::ServerNames;

/// Why there is no connection to an API server.
#[derive(Debug, thiserror::Error)]
pub enum ConnectionError {
    /// The kubeconfig cannot be used.
    #[error("cannot use kubeconfig {path}")]
    Kubeconfig {
        path: String,
        /// Why.
        source: Box<kube::config::KubeconfigError>,
    },
    /// `--master` is no address.
    #[error("--master {0:?} is not a URL such as https://api.example:6443")]
    Master(String),
    /// Neither flag was given, and this is no pod.
    #[error(
        "neither --kubeconfig nor --master is given, and this is not a pod with a service account \
         (KUBERNETES_SERVICE_HOST, KUBERNETES_SERVICE_PORT, \
         /var/run/secrets/kubernetes.io/serviceaccount)"
    )]
    InCluster(#[source] Box<kube::config::InClusterError>),
    /// A proxy setting cannot be used.
    #[error("cannot use the proxy for the API server")]
    Proxy(#[source] ProxyError),
    /// Certificates or credentials cannot be used.
    #[error("cannot set up the client of {host}")]
    Setup {
        /// `host:port` of the API server.
        host: String,
        /// Why.
        source: Box<kube::Error>,
    },
}

/// Reads where the API server is and how to sign in: from the file, with `master` in place of its
/// server; from `master` alone; or, with both empty, from the pod. `KUBECONFIG` is not looked at.
pub async fn load_config(kubeconfig: &str, master: &str) -> Result<Config, ConnectionError> {
    let master = match master {
        "" => None,
        text => Some(server(text)?),
    };
    let mut config = match (kubeconfig, &master) {
        ("", None) => {
            Config::incluster().map_err(|error| ConnectionError::InCluster(Box::new(error)))?
        }
        ("", Some(uri)) => Config::new(uri.clone()),
        (path, _) => from_file(path).await?,
    };
    if let Some(uri) = master {
        config.cluster_url = uri;
    }
    // Repetitions are ours to decide, see `call`: the library's go on for minutes.
    config.default_retry = false;
    Ok(config)
}

fn server(text: &str) -> Result<Uri, ConnectionError> {
    let wrong = || ConnectionError::Master(text.to_owned());
    // As the originals: a bare `host:port` is plain HTTP.
    let text = if text.contains("://") {
        text.to_owned()
    } else {
        format!("http://{text}")
    };
    let uri: Uri = text.parse().map_err(|_| wrong())?;
    match (uri.scheme_str(), uri.host()) {
        (Some("http" | "https"), Some(host)) if !host.is_empty() => Ok(uri),
        _ => Err(wrong()),
    }
}

async fn from_file(path: &str) -> Result<Config, ConnectionError> {
    let failed = |source| ConnectionError::Kubeconfig {
        path: path.to_owned(),
        source: Box::new(source),
    };
    if ends_in_half_a_unit(path) {
        let error = io::Error::new(io::ErrorKind::InvalidData, "Invalid UTF-16");
        let error = KubeconfigError::ReadConfig(error, path.into());
        return Err(failed(error));
    }
    let kubeconfig = Kubeconfig::read_from(path).map_err(failed)?;
    let proxy = own_proxy(&kubeconfig);
    let options = KubeConfigOptions::default();
    let mut config = Config::from_custom_kubeconfig(kubeconfig, &options)
        .await
        .map_err(failed)?;
    // The library also looks into the environment, with rules of its own; ours come later.
    config.proxy_url = proxy;
    Ok(config)
}

/// Whether a file is UTF-16 with an odd number of bytes, at which the library panics.
fn ends_in_half_a_unit(path: &str) -> bool {
    let bytes = std::fs::read(path).unwrap_or_default();
    matches!(bytes.as_slice(), [0xFF, 0xFE, ..] | [0xFE, 0xFF, ..]) && bytes.len() % 2 == 1
}

/// The `proxy-url` of the cluster of the current context.
fn own_proxy(kubeconfig: &Kubeconfig) -> Option<Uri> {
    let current = kubeconfig.current_context.as_deref()?;
    let context = kubeconfig
        .contexts
        .iter()
        .find(|context| context.name == current)?;
    let cluster = context.context.as_ref()?.cluster.as_str();
    let cluster = kubeconfig
        .clusters
        .iter()
        .find(|known| known.name == cluster)?;
    cluster.cluster.as_ref()?.proxy_url.as_ref()?.parse().ok()
}

/// What makes requests and brings answers: below a client, without the queue that one has.
pub(super) type ApiService = BoxCloneSyncService<Request<Body>, Response<AnyBody>, BoxError>;
pub(super) type AnyBody = UnsyncBoxBody<Bytes, BoxError>;

/// A way to the API server, shared by all clients.
#[derive(Clone)]
pub struct Connection {
    client: Client,
    root: ApiService,
    bare: ApiService,
    host: String,
    namespace: String,
    names: ServerNames,
}

impl Connection {
    /// Over TCP and TLS. A `proxy-url` in the kubeconfig wins over `proxies`.
    pub fn open(config: &Config, proxies: ProxyRules) -> Result<Self, ConnectionError> {
        let proxies = match &config.proxy_url {
            Some(uri) => {
                let text = uri.to_string();
                ProxyRules::from_environment(|name| name.starts_with("HTTP").then(|| text.clone()))
                    .map_err(ConnectionError::Proxy)?
            }
            None => proxies,
        };
        let failed = |error| setup(config, error);
        let expected = config.tls_server_name.clone().map(ServerName::try_from);
        let expected = expected.transpose().map_err(|error| {
            let error = kube::client::RustlsTlsError::InvalidServerName(error);
            failed(kube::Error::RustlsTls(error))
        })?;
        let shown = PeerCertificates::default();
        let connector = |config: &Config| {
            let tls = std::sync::Arc::new(config.rustls_client_config()?);
            let connector = Connector::real(tls, proxies.clone()).noting(&shown);
            Ok(match &expected {
                Some(name) => connector.expecting(name.clone()),
                None => connector,
            })
        };
        let stranger = without_credentials(config);
        let root = connector(config).map_err(failed)?;
        let bare = connector(&stranger).map_err(failed)?;
        let opened = Self::from_services(
            service(config, root).map_err(failed)?,
            service(&stranger, bare).map_err(failed)?,
            config,
        );
        Ok(opened.noting(config, shown))
    }

    /// The same to a server that shows the certificates there.
    #[must_use]
    pub fn noting(self, config: &Config, shown: PeerCertificates) -> Self {
        let names = ServerNames::of(config, shown);
        Self { names, ..self }
    }

    /// Over a connector that exists: in simulated runs, [`Connector::simulated`]. TLS is the connector's.
    pub fn over(config: &Config, connector: Connector) -> Result<Self, ConnectionError> {
        let failed = |error| setup(config, error);
        Ok(Self::from_services(
            service(config, connector.clone()).map_err(failed)?,
            service(&without_credentials(config), connector).map_err(failed)?,
            config,
        ))
    }

    /// From services that exist: `root` with credentials, `bare` without.
    pub(super) fn from_services(root: ApiService, bare: ApiService, config: &Config) -> Self {
        let namespace = config.default_namespace.clone();
        Self {
            client: Client::new(root.clone(), namespace.clone()),
            root,
            bare,
            host: host(config),
            namespace,
            names: ServerNames::of(config, PeerCertificates::default()),
        }
    }

    /// What the API server is called.
    pub fn server_names(&self) -> &ServerNames {
        &self.names
    }

    /// The API server, as `host:port`.
    pub fn host(&self) -> &str {
        &self.host
    }

    pub(super) fn namespace(&self) -> &str {
        &self.namespace
    }

    /// With credentials, but without limits, deadline and user agent: for commands that ask once.
    pub fn client(&self) -> &Client {
        &self.client
    }

    pub(super) fn root(&self) -> &ApiService {
        &self.root
    }

    pub(super) fn bare(&self) -> &ApiService {
        &self.bare
    }
}

fn setup(config: &Config, error: kube::Error) -> ConnectionError {
    ConnectionError::Setup {
        host: host(config),
        source: Box::new(error),
    }
}

fn host(config: &Config) -> String {
    let authority = config.cluster_url.authority();
    authority
        .map(|authority| authority.host().to_owned())
        .map_or_else(String::new, |host| match config.cluster_url.port_u16() {
            Some(port) => format!("{host}:{port}"),
            None => host,
        })
}

/// The same server and authorities, nobody signed in.
fn without_credentials(config: &Config) -> Config {
    let mut config = config.clone();
    config.auth_info = AuthInfo::default();
    config
}

fn service(config: &Config, connector: Connector) -> Result<ApiService, kube::Error> {
    let http: Transport = hyper_util::client::legacy::Client::builder(TokioExecutor::new())
        .http1_max_buf_size(READ_AT_ONCE)
        .build(connector);
    let service = ServiceBuilder::new()
        .layer(config.base_uri_layer())
        .option_layer(config.auth_layer()?)
        .layer(config.extra_headers_layer()?)
        .map_request(|request: Request<Body>| {
            request.map(|body| body.map_err(BoxError::from).boxed_unsync())
        })
        .map_err(BoxError::from)
        .service(http);
    Ok(erased(service))
}

/// The same service, of the type that all have.
pub(super) fn erased<S, B>(service: S) -> ApiService
where
    S: Service<Request<Body>, Response = Response<B>> + Clone + Send + Sync + 'static,
    S::Error: Into<BoxError>,
    S::Future: Send + 'static,
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    let service = service.map_err(Into::into);
    let boxed = |body: B| body.map_err(Into::into).boxed_unsync();
    BoxCloneSyncService::new(service.map_response(move |it: Response<B>| it.map(boxed)))
}
