//! One machine's API as callers reach it, and what it passes on to the others.

use std::fmt::Write as _;
use std::sync::Arc;

use bowline_simulator::control::Control;
use bowline_simulator::serve::{
    Answer, Api, Body, Connection, Gist, JournalStatus, Never, Peer, empty,
};
use bowline_talos_api::machine::machine_service_server::MachineServiceServer;
use bowline_talos_api::resource::state_server::StateServer;
use bowline_talos_api::resource::{GetRequest, ListRequest, WatchRequest};
use bytes::Bytes;
use futures::FutureExt;
use futures::future::BoxFuture;
use http::{Method, Request, Response};
use http_body_util::{BodyExt, Full};
use prost::Message;
use serde_json::{Value, json};
use tonic::Status;
use tonic::codec::CompressionEncoding;
use tower::ServiceExt;

use super::authorities::{AuthorityError, roles};
use super::routes::{Reach, target};
use super::service::Asked;
use super::{NAME, Talos};

const STATE: &str = "/cosi.resource.State/";
const MACHINE: &str = "/machine.MachineService/";
/// Bytes before the message in a frame of gRPC: whether it is compressed, and its length.
const FRAME: usize = 5;
/// The methods that there are.
const METHODS: [&str; 9] = [
    "Create",
    "Destroy",
    "Get",
    "List",
    "Teardown",
    "TeardownAndDestroy",
    "Update",
    "Version",
    "Watch",
];
/// The methods that only read.
const READS: [&str; 4] = ["Get", "List", "Version", "Watch"];

/// The API of one machine.
#[derive(Debug)]
pub(super) struct Endpoint {
    talos: Arc<Talos>,
    machine: String,
}

impl Talos {
    /// The API of that machine.
    pub(super) fn endpoint(self: &Arc<Self>, machine: &str) -> Arc<Endpoint> {
        Arc::new(Endpoint {
            talos: self.clone(),
            machine: machine.to_owned(),
        })
    }

    /// The TLS settings with which a machine accepts a connection; none if it does not.
    pub(super) fn tls_of(
        &self,
        machine: &str,
    ) -> Result<Option<Arc<rustls::ServerConfig>>, AuthorityError> {
        self.with(|cluster| {
            let Some(found) = cluster.machines.get(machine) else {
                return Ok(None);
            };
            let off = found.owned_elsewhere && !self.runs(&found.register);
            if off || !found.stage.answers() {
                return Ok(None);
            }
            let mut names: Vec<String> = found.node_ips.iter().map(ToString::to_string).collect();
            let addresses = found.addresses();
            let others = addresses.iter().map(|one| super::notation::ip_of(one).0);
            names.extend(others.map(|ip| ip.to_string()));
            names.push(found.name.clone());
            let only = cluster.server_names.is_some();
            if let Some(wanted) = &cluster.server_names {
                names.clone_from(wanted);
            }
            names.sort();
            names.dedup();
            let clock = &self.world.clock;
            let server = cluster
                .authorities
                .server(&names, only, &self.keys, clock)?;
            Ok(Some(server))
        })
    }

    /// The error that a call was planned to be answered with.
    fn planned_failure(&self, method: &str, machine: &str) -> Option<Status> {
        self.with(|cluster| {
            let failures = &mut cluster.failures;
            let at = failures.iter().position(|one| {
                one.method.as_deref().is_none_or(|it| it == method)
                    && one.machine.as_deref().is_none_or(|it| it == machine)
            })?;
            let failure = failures.get_mut(at)?;
            let status = Status::new(failure.code, failure.message.clone());
            failure.times = failure.times.saturating_sub(1);
            if failure.times == 0 {
                failures.remove(at);
            }
            Some(status)
        })
    }
}

/// The method that a path names.
fn method_of(path: &str) -> Option<&'static str> {
    let name = path
        .strip_prefix(STATE)
        .or_else(|| path.strip_prefix(MACHINE))?;
    let known = METHODS.into_iter().find(|known| *known == name)?;
    ((known == "Version") == path.starts_with(MACHINE)).then_some(known)
}

/// The status of HTTP that a code of gRPC comes to, for the journal.
fn comparable(code: tonic::Code) -> u16 {
    match code {
        tonic::Code::Ok => 200,
        tonic::Code::InvalidArgument
        | tonic::Code::FailedPrecondition
        | tonic::Code::OutOfRange => 400,
        tonic::Code::Unauthenticated => 401,
        tonic::Code::PermissionDenied => 403,
        tonic::Code::NotFound => 404,
        tonic::Code::AlreadyExists | tonic::Code::Aborted => 409,
        tonic::Code::ResourceExhausted => 429,
        tonic::Code::Cancelled => 499,
        tonic::Code::Unimplemented => 501,
        tonic::Code::Unavailable => 503,
        tonic::Code::DeadlineExceeded => 504,
        tonic::Code::Unknown | tonic::Code::Internal | tonic::Code::DataLoss => 500,
    }
}

fn refusal(status: Status) -> Response<Body> {
    let answer = status.into_http::<Full<Bytes>>();
    finished(answer.map(|_| empty()))
}

/// An answer with the status that the journal is reported.
fn finished(mut response: Response<Body>) -> Response<Body> {
    let status = Status::from_header_map(response.headers());
    let code = status.map_or(tonic::Code::Ok, |status| status.code());
    response
        .extensions_mut()
        .insert(JournalStatus(comparable(code)));
    response
}

impl Endpoint {
    async fn respond(&self, request: Request<Bytes>, roles: Vec<String>) -> Response<Body> {
        let path = request.uri().path().to_owned();
        let Some(method) = method_of(&path) else {
            let text = format!("unknown method {path}");
            return refusal(Status::unimplemented(text));
        };
        let node = match target(request.headers(), &path) {
            Ok(node) => node,
            Err(status) => return refusal(status),
        };
        let meant = self.meant(node.as_deref());
        if let Some(status) = self.talos.planned_failure(method, &meant) {
            return refusal(status);
        }
        let machine = match self.talos.reach(&self.machine, node.as_deref()) {
            Reach::Machine(machine) => machine,
            Reach::Refused(status, after) => {
                tokio::time::sleep(after).await;
                return refusal(status);
            }
            Reach::Nobody => {
                let mut never = Response::new(empty());
                never.extensions_mut().insert(Never);
                return never;
            }
        };
        let connection = request.extensions().get::<Connection>().cloned();
        let asked = Asked {
            talos: self.talos.clone(),
            machine,
            node: node.unwrap_or_default(),
            roles,
            connection: connection.unwrap_or_default(),
        };
        answered(asked, method, request).await
    }

    /// The machine that a call is for, by name where it is known.
    fn meant(&self, node: Option<&str>) -> String {
        let Some(node) = node else {
            return self.machine.clone();
        };
        let ip = node.parse().ok();
        let known = self.talos.with(|cluster| {
            let machine = cluster.by_ip(ip?)?;
            Some(machine.name.clone())
        });
        known.unwrap_or_else(|| node.to_owned())
    }
}

async fn answered(asked: Asked, method: &str, request: Request<Bytes>) -> Response<Body> {
    let request = request.map(Full::new);
    let answer = if method == "Version" {
        let server = MachineServiceServer::new(asked);
        let server = server.accept_compressed(CompressionEncoding::Gzip);
        server.oneshot(request).await
    } else {
        let server = StateServer::new(asked);
        let server = server.accept_compressed(CompressionEncoding::Gzip);
        server.oneshot(request).await
    };
    let Ok(answer) = answer;
    finished(answer.map(|body| body.map_err(std::io::Error::other).boxed_unsync()))
}

/// What a request asks for, as far as it can be read without unpacking.
fn wanted(method: &str, body: &Bytes) -> Option<(String, String, Option<String>)> {
    let plain = body.first() == Some(&0);
    let message = body.get(FRAME..).filter(|_| plain)?;
    match method {
        "Get" => {
            let read = GetRequest::decode(message).ok()?;
            Some((read.namespace, read.r#type, Some(read.id)))
        }
        "List" => {
            let read = ListRequest::decode(message).ok()?;
            Some((read.namespace, read.r#type, None))
        }
        "Watch" => {
            let read = WatchRequest::decode(message).ok()?;
            Some((read.namespace, read.r#type, read.id))
        }
        _ => None,
    }
}

impl Api for Endpoint {
    fn name(&self) -> &'static str {
        NAME
    }

    fn operation(&self, _method: &Method, path: &str) -> Option<&'static str> {
        method_of(path)
    }

    fn gist(&self, request: &Request<Bytes>) -> Option<Gist> {
        let method = method_of(request.uri().path()).unwrap_or_default();
        let mut query = format!("endpoint={}", self.machine);
        let mut body = serde_json::Map::new();
        for node in request.headers().get_all("node") {
            let node = node.to_str().unwrap_or_default();
            let _ = write!(query, "&node={node}");
            body.insert("node".to_owned(), json!(node));
        }
        if let Some((namespace, kind, id)) = wanted(method, request.body()) {
            let _ = write!(query, "&type={kind}");
            if let Some(id) = &id {
                let _ = write!(query, "&id={id}");
                body.insert("id".to_owned(), json!(id));
            }
            body.insert("namespace".to_owned(), json!(namespace));
            body.insert("type".to_owned(), json!(kind));
        }
        Some(Gist {
            method: if READS.contains(&method) {
                "GET"
            } else {
                "POST"
            },
            query,
            body: if body.is_empty() {
                Value::Null
            } else {
                Value::Object(body)
            },
        })
    }

    fn answer<'a>(&'a self, request: Request<Bytes>, peer: &'a Peer) -> BoxFuture<'a, Answer> {
        async move {
            let roles = peer.certificate.as_deref().map(roles).unwrap_or_default();
            let caller = roles.join(",");
            let response = self.respond(request, roles).await;
            Answer { response, caller }
        }
        .boxed()
    }

    fn control(&self) -> Option<&dyn Control> {
        Some(&*self.talos)
    }
}
