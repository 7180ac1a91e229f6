//! The machine API of Talos: messages by themselves, and a machine that answers over gRPC.

use std::convert::Infallible;
use std::fmt::Debug;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::{Arc, LazyLock};

use base64::Engine as _;
use bowline_core::Node;
use bowline_http::Pipes;
use bowline_talos::{Config, KIND};
use bowline_talos_api::Kind;
use bowline_talos_api::common::{NetIp, NetIpPrefix};
use bowline_talos_api::machine::VersionResponse;
use bowline_talos_api::resource::{GetResponse, ListResponse, Resource};
use bowline_talos_api::specs::{
    AddressStatusSpec, ControllerManagerConfigSpec, MemberSpec, NodenameSpec, PlatformMetadataSpec,
    SystemInformationSpec,
};
use bytes::Bytes;
use http::{HeaderMap, Request, Response};
use http_body_util::{BodyExt as _, Full};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use jiff::Timestamp;
use prost::Message;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::ServerConfig;
use rustls_pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use serde_json::json;
use tokio_rustls::TlsAcceptor;

use crate::answers::{Script, run};
use crate::clouds::{Account, ask};

/// The only machine that is called.
const MACHINE: &str = "10.0.0.1";
/// The header that says that a body is sent as it is; others are framed as one message.
const UNFRAMED: &str = "unframed";

/// A script whose answers have the status of gRPC, and a message as their body.
pub(crate) fn talos(bytes: &[u8]) {
    let script = Script::read(bytes);
    let path = SERVER.talosconfig.path();
    let account = Account {
        kind: &KIND,
        settings: json!({"talosconfig": path, "endpoints": [MACHINE]}),
        machine: "metal/10.0.0.5".to_owned(),
    };
    run(async {
        let pipes = Pipes::default();
        serve(&pipes, &script);
        let cloud = account
            .build(&pipes)
            .await
            .expect("credentials that are right");
        ask(&account, &*cloud, &script.question).await;
    });
}

/// Any message, and what resources carry.
pub(crate) fn grpc(bytes: &[u8]) {
    if let Some(answer) = decoded::<GetResponse>(bytes) {
        answer.resource.iter().for_each(resource);
    }
    if let Some(answer) = decoded::<ListResponse>(bytes) {
        answer.resource.iter().for_each(resource);
    }
    decoded::<VersionResponse>(bytes);
    if let Some(spec) = decoded::<PlatformMetadataSpec>(bytes) {
        describe(spec);
    }
    if let Some(prefix) = decoded::<NetIpPrefix>(bytes) {
        prefix.address();
    }
    if let Some(address) = decoded::<NetIp>(bytes) {
        address.address();
    }
}

/// What can be read is the same after it was written.
fn decoded<M: Message + Default + PartialEq + Debug>(bytes: &[u8]) -> Option<M> {
    let message = M::decode(bytes).ok()?;
    let again = M::decode(&*message.encode_to_vec());
    assert_eq!(again.as_ref(), Ok(&message));
    Some(message)
}

fn resource(found: &Resource) {
    fn is_read<K: Kind>(found: &Resource) -> bool {
        found.read::<K>().is_ok()
    }
    let read = [
        is_read::<AddressStatusSpec>(found),
        is_read::<ControllerManagerConfigSpec>(found),
        is_read::<MemberSpec>(found),
        is_read::<NodenameSpec>(found),
        is_read::<PlatformMetadataSpec>(found),
        is_read::<SystemInformationSpec>(found),
    ];
    let kinds = read.iter().filter(|is_read| **is_read).count();
    assert!(kinds <= 1, "a resource is of {kinds} kinds");
}

fn describe(spec: PlatformMetadataSpec) {
    let (config, node) = (Config::default(), Node::default());
    let address = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 5));
    let machine = spec.into();
    let known = bowline_talos::recognise(&config, &node, &machine, address, Timestamp::MAX);
    if let Ok(known) = known {
        let system = SystemInformationSpec::default().into();
        let _ = known.describe(&config, &node, &system, &[], Some("fuzz"));
    }
}

/// A machine and those who may call it: made once, as that takes a while.
struct Server {
    tls: Arc<ServerConfig>,
    talosconfig: tempfile::NamedTempFile,
}

static SERVER: LazyLock<Server> = LazyLock::new(|| {
    let key = || KeyPair::generate_for(&rcgen::PKCS_ED25519).unwrap();
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority = CertifiedIssuer::self_signed(params, key()).unwrap();
    let issue = |name: &str| {
        let (params, key) = (CertificateParams::new([name.to_owned()]).unwrap(), key());
        (params.signed_by(&key, &authority).unwrap(), key)
    };
    let (machine, machine_key) = issue(MACHINE);
    let secret = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(machine_key.serialize_der()));
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let tls = ServerConfig::builder_with_provider(provider);
    let tls = tls
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth();
    let mut tls = tls
        .with_single_cert(vec![machine.der().clone()], secret)
        .unwrap();
    tls.alpn_protocols = vec![b"h2".to_vec()];

    let (client, client_key) = issue("fuzz");
    let encoded = |pem: String| base64::engine::general_purpose::STANDARD.encode(pem);
    let text = json!({"context": "fuzz", "contexts": {"fuzz": {
        "ca": encoded(authority.pem()),
        "crt": encoded(client.pem()),
        "key": encoded(client_key.serialize_pem()),
    }}});
    let talosconfig = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(talosconfig.path(), text.to_string()).unwrap();
    Server {
        tls: Arc::new(tls),
        talosconfig,
    }
});

fn serve(pipes: &Pipes, script: &Script) {
    let mut listener = pipes.listen(&format!("{MACHINE}:50000"));
    let (acceptor, script) = (TlsAcceptor::from(SERVER.tls.clone()), script.clone());
    tokio::spawn(async move {
        while let Some(pipe) = listener.accept().await {
            let (acceptor, script) = (acceptor.clone(), script.clone());
            let service = service_fn(move |request: Request<hyper::body::Incoming>| {
                let script = script.clone();
                async move { Ok::<_, Infallible>(respond(&script, request).await) }
            });
            tokio::spawn(async move {
                let stream = acceptor.accept(pipe).await.ok()?;
                let server = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
                server
                    .serve_connection(TokioIo::new(stream), service)
                    .await
                    .ok()
            });
        }
    });
}

type Body = http_body_util::combinators::UnsyncBoxBody<Bytes, Infallible>;

/// An answer for a method, or for what is asked for there: types of resources are texts in requests.
async fn respond(script: &Script, request: Request<hyper::body::Incoming>) -> Response<Body> {
    let path = request.uri().path().to_owned();
    let asked = request.into_body().collect().await;
    let asked = asked.map_or_else(|_| Bytes::new(), http_body_util::Collected::to_bytes);
    let answer = script.answer(&format!("{path} {}", crate::text(&asked)));
    let answer = answer.unwrap_or_default();
    let (status, headers) = (answer.status, answer.headers);
    // The line's end is of the script.
    let message = answer.body.strip_suffix(b"\n").unwrap_or(&answer.body);
    let is_framed = !headers.iter().any(|(name, _)| name == UNFRAMED);
    let mut body = Vec::new();
    if is_framed {
        body.push(0);
        body.extend(
            u32::try_from(message.len())
                .unwrap_or(u32::MAX)
                .to_be_bytes(),
        );
    }
    body.extend(message);
    let mut trailers = HeaderMap::new();
    trailers.insert("grpc-status", status.into());
    trailers.extend(headers);
    let body = Full::new(Bytes::from(body));
    let body = body.with_trailers(async move { Some(Ok(trailers)) });
    let response = Response::builder().header("content-type", "application/grpc");
    response.body(body.boxed_unsync()).unwrap()
}
