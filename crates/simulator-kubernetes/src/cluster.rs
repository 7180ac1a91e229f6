//! A whole simulated cluster: the API server with its bootstrap objects, on a socket or a pipe.

#[cfg(test)]
pub(crate) mod testing;

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use bowline_http::Connector;
use bowline_simulator::World;
use bowline_simulator::keys::{CertificateError, Keys};
use bowline_simulator::serve::{Identity, ServeError, Server};
use hyper_util::rt::TokioExecutor;
use kube::client::ConfigExt;
use serde_json::{Value, json};

use crate::auth::{Auth, User};
use crate::kinds;
use crate::kubeconfig::{self, Credentials};
use crate::status::Refusal;
use crate::{KubernetesApi, bootstrap};

/// The name of a cluster on a pipe.
const PIPE: &str = "kubernetes.sim:80";
/// How long the tokens in kubeconfigs of service accounts last: longer than anybody watches a
/// sandbox. A real one would be renewed by the kubelet.
const TOKEN_SECONDS: u64 = 24 * 3600;

/// Why a cluster could not be started.
#[derive(Debug, thiserror::Error)]
pub enum ClusterError {
    #[error("making the certificates of the simulated cluster")]
    Certificates(#[from] CertificateError),
    #[error(transparent)]
    Serve(#[from] ServeError),
    #[error("making a client of the simulated cluster")]
    Client(#[source] Box<dyn std::error::Error + Send + Sync>),
    #[error("the simulated cluster refuses: {0}")]
    Refused(String),
}

impl From<Refusal> for ClusterError {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal.message)
    }
}

/// A running cluster. Dropping it stops it.
pub struct Cluster {
    world: World,
    api: Arc<KubernetesApi>,
    auth: Arc<Auth>,
    server: Server,
    url: String,
}

impl Cluster {
    /// On a TLS socket. Port 0 picks a free one.
    pub async fn on_socket(world: &World, address: SocketAddr) -> Result<Self, ClusterError> {
        let auth = Arc::new(Auth::new(&Keys::System)?);
        let api = KubernetesApi::new(world.clone(), auth.clone());
        let certificate = auth.authority().server(&[])?;
        let identity = Identity::from_pem(
            &certificate.certificate_pem,
            &certificate.key_pem,
            Some(auth.authority().pem()),
        )?;
        let server = Server::builder(world, api.clone())
            .tls(address, identity)
            .await?;
        let address = server.local_addr().unwrap_or(address);
        let url = format!("https://{address}");
        let cluster = Self {
            world: world.clone(),
            api,
            auth,
            server,
            url,
        };
        cluster.install(bootstrap::objects(&cluster.auth, address))?;
        Ok(cluster)
    }

    /// On a pipe of the world, without TLS: for runs under a paused clock.
    pub fn on_pipe(world: &World) -> Result<Self, ClusterError> {
        let auth = Arc::new(Auth::new(&Keys::seeded(&world.random))?);
        let api = KubernetesApi::new(world.clone(), auth.clone());
        let server = Server::builder(world, api.clone()).pipe(PIPE);
        let url = format!("http://{PIPE}");
        let cluster = Self {
            world: world.clone(),
            api,
            auth,
            server,
            url,
        };
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, 80));
        cluster.install(bootstrap::objects(&cluster.auth, address))?;
        Ok(cluster)
    }

    /// Its address, with the scheme.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// The API server, for direct control.
    pub fn api(&self) -> &Arc<KubernetesApi> {
        &self.api
    }

    /// Stores objects as they are, whoever may.
    pub fn install(&self, objects: impl IntoIterator<Item = Value>) -> Result<(), ClusterError> {
        for object in objects {
            let kind = kinds::of_document(&object).map_err(ClusterError::Refused)?;
            self.api.put(kind, object);
        }
        Ok(())
    }

    /// A kubeconfig of somebody who may do everything.
    pub fn admin_kubeconfig(&self) -> Result<String, ClusterError> {
        let config = kubeconfig::admin(self.auth.authority(), "bowline-sandbox", &self.url)?;
        Ok(kubeconfig::text(&config))
    }

    /// A kubeconfig of a service account, with a token as a pod would have it.
    pub fn account_kubeconfig(&self, namespace: &str, name: &str) -> Result<String, ClusterError> {
        let token = self.account_token(namespace, name)?;
        let config = kubeconfig::kubeconfig(
            self.auth.authority(),
            "bowline-sandbox",
            &self.url,
            name,
            &Credentials::Token(token),
        );
        Ok(kubeconfig::text(&config))
    }

    /// A token of a service account.
    pub fn account_token(&self, namespace: &str, name: &str) -> Result<String, ClusterError> {
        let kind = kinds::by_kind("", "v1", "ServiceAccount")
            .ok_or_else(|| ClusterError::Refused("no service accounts".to_owned()))?;
        let account = self.api.get(kind, namespace, name).ok_or_else(|| {
            ClusterError::Refused(format!("no service account {namespace}/{name}"))
        })?;
        let spec = json!({ "expirationSeconds": TOKEN_SECONDS });
        let (store, now) = (self.api.store().as_ref(), self.world.clock.now());
        let answer = self
            .auth
            .issue_token(namespace, &account, &spec, store, now)?;
        Ok(answer["status"]["token"]
            .as_str()
            .unwrap_or_default()
            .to_owned())
    }

    /// A client configuration with a bearer token that is this user.
    pub fn config_of(&self, user: User) -> Result<kube::Config, ClusterError> {
        let token = self.world.random.uuid();
        self.auth.add_token(&token, user);
        self.config_with(&token)
    }

    /// A client configuration with that bearer token.
    pub fn config_with(&self, token: &str) -> Result<kube::Config, ClusterError> {
        let url = self
            .url
            .parse()
            .map_err(|error| ClusterError::Client(Box::new(error)))?;
        let mut config = kube::Config::new(url);
        config.root_cert = Some(vec![self.auth.authority().certificate().to_vec()]);
        config.auth_info.token = Some(token.to_owned().into());
        config.default_retry = false;
        Ok(config)
    }

    /// A client of somebody who may do everything.
    pub fn admin(&self) -> Result<kube::Client, ClusterError> {
        let config = self.config_of(User::new("kubernetes-admin", &["system:masters"]))?;
        self.client(config)
    }

    /// A client with that configuration, over the cluster's own network.
    pub fn client(&self, config: kube::Config) -> Result<kube::Client, ClusterError> {
        let failed = |error: kube::Error| ClusterError::Client(Box::new(error));
        if self.server.local_addr().is_some() {
            return kube::Client::try_from(config).map_err(failed);
        }
        client_over(&self.world, config)
    }

    /// What serves it, which then is all that is left of it.
    pub(crate) fn into_server(self) -> Server {
        self.server
    }

    /// Stops serving and returns when all connections are closed.
    pub async fn shutdown(self) {
        self.server.shutdown().await;
    }
}

/// A client with that configuration over the world's pipes.
pub fn client_over(world: &World, config: kube::Config) -> Result<kube::Client, ClusterError> {
    let failed = |error: kube::Error| ClusterError::Client(Box::new(error));
    let http: hyper_util::client::legacy::Client<_, kube::client::Body> =
        hyper_util::client::legacy::Client::builder(TokioExecutor::new())
            .build(Connector::simulated(world.pipes.clone()));
    let service = tower::ServiceBuilder::new()
        .layer(config.base_uri_layer())
        .option_layer(config.auth_layer().map_err(failed)?)
        .map_err(tower::BoxError::from)
        .service(http);
    Ok(kube::Client::new(service, config.default_namespace))
}
