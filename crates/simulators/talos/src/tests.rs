//! The API over pipes, as callers see it.

mod access;
mod control;
mod faults;
mod resources;
mod routing;
mod watches;
mod world;

use std::fmt::Write as _;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bowline_simulator::fixture;
use bowline_simulator::{rows, shows};
use bowline_talos_api::machine::VersionResponse;
use bowline_talos_api::machine::machine_service_client::MachineServiceClient;
use bowline_talos_api::resource::state_client::StateClient;
use bowline_talos_api::resource::{GetRequest, ListRequest, Resource};
use bowline_talos_api::{Kind, Single};
use futures::FutureExt;
use futures::future::BoxFuture;
use hyper::body::Incoming;
use hyper::client::conn::http2::{SendRequest, handshake};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, ServerName};
use serde::Deserialize;
use tonic::body::Body;
use tonic::{Code, Request, Status};

use super::*;

const AUTHORITY: &str = "10.0.0.2:50000";

/// Two machines of the control plane and two workers.
const FIXTURE: &str = "
machines:
  - name: cp-1
    control_plane: true
    addresses: [lo/127.0.0.1/8, eth0/10.0.0.2/24]
  - name: cp-2
    control_plane: true
    addresses: [eth0/10.0.0.3/24]
  - name: worker-1
    addresses: [eth0/10.0.0.5/24, eth0/fd00::5/64(128), external/203.0.113.5/32]
    platform:
      platform: hcloud
      hostname: worker-1
      region: fsn1
      zone: fsn1-dc14
      instance_type: cax21
      instance_id: '4711'
      provider_id: hcloud://4711
      spot: true
      tags: {team: core}
    system: {manufacturer: Example, uuid: 11111111-2222-3333-4444-555555555555}
  - name: worker-2
    addresses: [eth0/10.0.0.6/24]
    without_system: true
";

/// A cluster on a pipe, asked through its first machine.
struct Harness {
    world: World,
    talos: Arc<Talos>,
    _server: Server,
}

impl Harness {
    fn with(fixture: &str) -> Self {
        let world = World::simulated(7);
        let fixture: Fixture = fixture::parse("test", fixture).unwrap();
        let talos = Talos::from_fixture(&world, fixture).unwrap();
        let server = talos.on_pipe("cp-1", AUTHORITY);
        Self {
            world,
            talos,
            _server: server,
        }
    }

    fn new() -> Self {
        Self::with(FIXTURE)
    }

    fn access() -> Access {
        Access::reader(&[AUTHORITY])
    }

    /// A caller with the role of a reader.
    async fn reader(&self) -> Caller {
        self.caller(&Self::access()).await.unwrap()
    }

    async fn caller(&self, access: &Access) -> Result<Caller, String> {
        let file = self.talos.talosconfig(access).unwrap();
        self.connect(&file, "10.0.0.2").await
    }

    async fn connect(&self, file: &str, name: &str) -> Result<Caller, String> {
        let authority = Credentials::read(file).endpoints[0].clone();
        let stream = self.world.pipes.connect(&authority);
        let stream = stream.map_err(|error| error.to_string())?;
        Caller::over(stream, file, name, &[b"h2"]).await
    }
}

/// What a talosconfig has.
#[derive(Deserialize)]
struct Credentials {
    endpoints: Vec<String>,
    ca: String,
    crt: String,
    key: String,
}

#[derive(Deserialize)]
struct File {
    context: String,
    contexts: std::collections::BTreeMap<String, Credentials>,
}

impl Credentials {
    fn read(text: &str) -> Self {
        let mut file: File = serde_saphyr::from_str(text).unwrap();
        file.contexts.remove(&file.context).unwrap()
    }

    fn pem(encoded: &str) -> String {
        String::from_utf8(STANDARD.decode(encoded).unwrap()).unwrap()
    }

    fn tls(&self, protocols: &[&[u8]]) -> rustls::ClientConfig {
        let certificates = |encoded: &str| -> Vec<CertificateDer<'static>> {
            let pem = Self::pem(encoded);
            let all = CertificateDer::pem_slice_iter(pem.as_bytes());
            all.map(|one| one.unwrap().into_owned()).collect()
        };
        let mut roots = rustls::RootCertStore::empty();
        for authority in certificates(&self.ca) {
            roots.add(authority).unwrap();
        }
        // The label is one that PEM readers do not know.
        let pem = Self::pem(&self.key);
        let body: String = pem.lines().filter(|line| !line.starts_with('-')).collect();
        let key = PrivatePkcs8KeyDer::from(STANDARD.decode(body).unwrap());
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = rustls::ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots);
        let mut config = if self.crt.is_empty() {
            builder.with_no_client_auth()
        } else {
            let key = PrivateKeyDer::Pkcs8(key);
            let chain = certificates(&self.crt);
            builder.with_client_auth_cert(chain, key).unwrap()
        };
        config.alpn_protocols = protocols.iter().map(|one| one.to_vec()).collect();
        config
    }
}

/// A connection.
#[derive(Clone)]
struct Channel(SendRequest<Body>);

impl tower::Service<http::Request<Body>> for Channel {
    type Response = http::Response<Incoming>;
    type Error = hyper::Error;
    type Future = BoxFuture<'static, Result<Self::Response, Self::Error>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), hyper::Error>> {
        self.0.poll_ready(context)
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        self.0.send_request(request).boxed()
    }
}

/// Somebody who asks.
#[derive(Clone)]
struct Caller {
    state: StateClient<Channel>,
    machine: MachineServiceClient<Channel>,
    channel: Channel,
}

/// A request with these headers.
fn with<T>(message: T, headers: &[(&'static str, &str)]) -> Request<T> {
    let mut request = Request::new(message);
    for (name, value) in headers {
        request.metadata_mut().append(*name, value.parse().unwrap());
    }
    request
}

impl Caller {
    async fn over<S>(stream: S, file: &str, name: &str, protocols: &[&[u8]]) -> Result<Self, String>
    where
        S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Send + Unpin + 'static,
    {
        let tls = Arc::new(Credentials::read(file).tls(protocols));
        let name = ServerName::try_from(name.to_owned()).unwrap();
        let connector = tokio_rustls::TlsConnector::from(tls);
        let stream = connector.connect(name, stream).await;
        let stream = stream.map_err(|error| error.to_string())?;
        let shaken = handshake(TokioExecutor::new(), TokioIo::new(stream)).await;
        let (sender, connection) = shaken.map_err(|error| chain(&error))?;
        let driver = tokio::spawn(connection);
        let channel = Channel(sender);
        let origin: http::Uri = "https://talos.sim".parse().unwrap();
        let caller = Self {
            state: StateClient::with_origin(channel.clone(), origin.clone()),
            machine: MachineServiceClient::with_origin(channel.clone(), origin),
            channel,
        };
        // A refused certificate shows itself only when the client has done its part.
        let probe = caller.clone().machine.version(Request::new(())).await;
        match probe {
            Err(_) if driver.is_finished() => {
                let ended = driver.await.unwrap();
                Err(ended
                    .err()
                    .map_or("ended".to_owned(), |error| chain(&error)))
            }
            _ => Ok(caller),
        }
    }

    async fn get(
        &self,
        request: GetRequest,
        headers: &[(&'static str, &str)],
    ) -> Result<Resource, Status> {
        let answer = self.state.clone().get(with(request, headers)).await?;
        Ok(answer.into_inner().resource.unwrap())
    }

    /// The one resource of a type of a machine.
    async fn single<K: Single>(&self, node: &str) -> Result<K, Status> {
        let resource = self.get(K::get_single(), &[("node", node)]).await?;
        Ok(resource.read().unwrap())
    }

    async fn list(
        &self,
        request: ListRequest,
        headers: &[(&'static str, &str)],
    ) -> Result<Vec<Resource>, Status> {
        let answer = self.state.clone().list(with(request, headers)).await?;
        let mut stream = answer.into_inner();
        let mut all = Vec::new();
        while let Some(message) = stream.message().await? {
            all.push(message.resource.unwrap());
        }
        Ok(all)
    }

    async fn ids<K: Kind>(&self, node: &str) -> Result<Vec<String>, Status> {
        let all = self.list(K::list(), &[("node", node)]).await?;
        Ok(all
            .into_iter()
            .map(|one| one.metadata.unwrap().id)
            .collect())
    }

    async fn version(&self, headers: &[(&'static str, &str)]) -> Result<VersionResponse, Status> {
        let mut machine = self.machine.clone();
        Ok(machine.version(with((), headers)).await?.into_inner())
    }
}

/// An error with what caused it.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        let _ = write!(text, ": {error}");
        source = error.source();
    }
    text
}

/// An error's code and text.
fn reported<T: std::fmt::Debug>(result: Result<T, Status>) -> (Code, String) {
    let status = result.unwrap_err();
    (status.code(), status.message().to_owned())
}
