//! A small CloudAPI for the tests of this crate: it answers as each test says, and keeps what was
//! asked.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use bowline_core::{AddressKind, Node, NodeAddress, Ready};
use bowline_http::Seams;
use bowline_simulator::serve::{Answer, Api as Served, Peer, json};
use bowline_test_kit::{Simulation, wraps};
use bytes::Bytes;
use futures::future::BoxFuture;
use http::{Request, Response, StatusCode};
use serde_json::{Value, json};

use crate::api::{Api, Client, Setting};
use crate::config::{Config, Given};
use crate::keys::examples::RSA_PKCS1;

pub(crate) const AUTHORITY: &str = "cloudapi.sim:80";
pub(crate) const ENDPOINT: &str = "http://cloudapi.sim";

type Reply = Response<bowline_simulator::serve::Body>;
type Script = Box<dyn FnMut(&Request<Bytes>) -> Reply + Send>;

pub(crate) struct FakeCluster {
    script: Mutex<Script>,
    seen: Mutex<Vec<Request<Bytes>>>,
}

impl Served for FakeCluster {
    fn name(&self) -> &'static str {
        "triton"
    }

    fn answer<'a>(&'a self, request: Request<Bytes>, _: &'a Peer) -> BoxFuture<'a, Answer> {
        let response = (self.script.lock().unwrap())(&request);
        self.seen.lock().unwrap().push(request);
        let caller = String::new();
        Box::pin(async move { Answer { response, caller } })
    }
}

pub(crate) struct Harness {
    simulation: Simulation<FakeCluster>,
}

wraps!(Harness => simulation: Simulation<FakeCluster>);

impl Harness {
    pub(crate) fn new(script: impl FnMut(&Request<Bytes>) -> Reply + Send + 'static) -> Self {
        let cluster = FakeCluster {
            script: Mutex::new(Box::new(script)),
            seen: Mutex::default(),
        };
        Self {
            simulation: Simulation::new(7, AUTHORITY, |_| Arc::new(cluster)),
        }
    }

    pub(crate) fn seams(&self) -> Seams {
        self.simulation.seams("triton")
    }

    /// The API as somebody with those further variables sees it.
    pub(crate) fn api(&self, environment: &[(&str, &str)]) -> Arc<Api> {
        let config = config(environment, None);
        let setting = Setting::new(
            &self.seams(),
            config.calls.clone(),
            &crate::TritonMetrics::default(),
        );
        let client = Client::new(&config.connection, &setting).unwrap();
        Arc::new(Api::new(client))
    }

    /// `METHOD path?query` of every request so far.
    pub(crate) fn lines(&self) -> Vec<String> {
        let seen = self.sim.seen.lock().unwrap();
        let line = |it: &Request<Bytes>| format!("{} {}", it.method(), it.uri());
        seen.iter().map(line).collect()
    }

    /// The values of a header in all requests so far.
    pub(crate) fn headers(&self, name: &str) -> Vec<String> {
        let seen = self.sim.seen.lock().unwrap();
        let value = |it: &Request<Bytes>| {
            let value = it.headers().get(name);
            value.map_or("", |value| value.to_str().unwrap()).to_owned()
        };
        seen.iter().map(value).collect()
    }
}

pub(crate) fn config(environment: &[(&str, &str)], file: Option<&str>) -> Config {
    let known: BTreeMap<&str, &str> = [
        ("SDC_ENDPOINT", ENDPOINT),
        ("SDC_ACCOUNT", "acme"),
        ("SDC_PRIVATE_KEY", RSA_PKCS1),
    ]
    .into_iter()
    .chain(environment.iter().copied())
    .collect();
    Config::read(&Given {
        flags: &BTreeMap::new(),
        secret: None,
        environment: &|name| known.get(name).map(|value| (*value).to_owned()),
        file,
        read: &|_| Err(std::io::ErrorKind::NotFound.into()),
        cluster_name: "kubernetes",
    })
    .unwrap()
}

pub(crate) fn reply(status: u16, body: &Value) -> Reply {
    json(StatusCode::from_u16(status).unwrap(), body)
}

pub(crate) fn refusal(status: u16, code: &str, message: &str) -> Reply {
    reply(status, &json!({"code": code, "message": message}))
}

pub(crate) fn with(mut reply: Reply, name: &'static str, value: &str) -> Reply {
    reply.headers_mut().insert(name, value.parse().unwrap());
    reply
}

/// A node of that name with that provider id; empty for none.
pub(crate) fn node(name: &str, provider_id: &str) -> Node {
    Node {
        addresses: vec![NodeAddress::new(AddressKind::Hostname, name)],
        ready: Ready::Unknown,
        ..bowline_test_kit::node(name, provider_id)
    }
}

pub(crate) fn machine(id: uuid::Uuid, name: &str) -> crate::api::Machine {
    let body = json!({"id": id, "name": name, "state": "running", "brand": "bhyve", "nics": []});
    serde_json::from_value(body).unwrap()
}
