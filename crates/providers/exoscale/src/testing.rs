//! A small API for the tests of this crate: zones, instances, and keys that may be refused.
//! Whatever else is asked is answered with a finished operation.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bowline_core::{Node, Ready, Secret};
use bowline_http::{BaseUrl, Connector, HttpClient};
use bowline_simulator::faults::Rule;
use bowline_simulator::serve::{Answer, Api, Peer, json};
use bowline_test_kit as kit;
use bytes::Bytes;
use futures::future::BoxFuture;
use http::{Request, StatusCode};
use ring::hmac;
use serde_json::{Value, json};
use tracing::subscriber::DefaultGuard;

use crate::{KeyPair, Seams};

pub(crate) const AUTHORITY: &str = "api.localhost:80";
pub(crate) const ENDPOINT: &str = "http://api.localhost/v2";

#[derive(Default)]
pub(crate) struct Desk {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Secrets by key, with the paths that the key's role denies.
    keys: BTreeMap<String, (String, Vec<&'static str>)>,
    zones: Value,
    metadata: Option<(u16, String)>,
    signatures: Vec<String>,
}

impl Desk {
    pub(crate) fn allow(&self, key: &str, secret: &str, denied: &[&'static str]) {
        let entry = (secret.to_owned(), denied.to_vec());
        self.state().keys.insert(key.to_owned(), entry);
    }

    pub(crate) fn revoke(&self, key: &str) {
        self.state().keys.remove(key);
    }

    pub(crate) fn set_zones(&self, zones: Value) {
        self.state().zones = zones;
    }

    pub(crate) fn set_metadata(&self, status: u16, body: &str) {
        self.state().metadata = Some((status, body.to_owned()));
    }

    pub(crate) fn signatures(&self) -> Vec<String> {
        self.state().signatures.clone()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    /// Who signed the request, or that nobody did; an error if it is not signed as it should be.
    fn caller(&self, request: &Request<Bytes>) -> Result<Option<String>, ()> {
        let Some(header) = request.headers().get("authorization") else {
            return Ok(None);
        };
        let header = header.to_str().map_err(|_| ())?;
        let fields = header.strip_prefix("EXO2-HMAC-SHA256 ").ok_or(())?;
        let fields: BTreeMap<&str, &str> = fields
            .split(',')
            .filter_map(|it| it.split_once('='))
            .collect();
        let key = *fields.get("credential").ok_or(())?;
        let mut state = self.state();
        state.signatures.push(header.to_owned());
        let (secret, denied) = state.keys.get(key).ok_or(())?;
        let path = request.uri().path();
        let expires = fields.get("expires").ok_or(())?;
        let body = std::str::from_utf8(request.body()).map_err(|_| ())?;
        let message = format!("{} {path}\n{body}\n\n\n{expires}", request.method());
        let secret = hmac::Key::new(hmac::HMAC_SHA256, secret.as_bytes());
        let signature = STANDARD.decode(fields.get("signature").ok_or(())?);
        let signature = signature.map_err(|_| ())?;
        hmac::verify(&secret, message.as_bytes(), &signature).map_err(|_| ())?;
        let denied = denied.iter().any(|it| path.ends_with(it));
        if denied {
            Err(())
        } else {
            Ok(Some(key.to_owned()))
        }
    }

    fn reply(&self, request: &Request<Bytes>) -> Answer {
        let answer = |status: u16, body: &Value, caller: &str| Answer {
            response: json(StatusCode::from_u16(status).unwrap(), body),
            caller: caller.to_owned(),
        };
        let path = request.uri().path();
        if path.starts_with("/latest/") {
            let (status, body) = self.state().metadata.clone().unwrap_or_default();
            let status = StatusCode::from_u16(status).unwrap();
            return Answer {
                response: bowline_simulator::serve::text(status, body),
                caller: String::new(),
            };
        }
        match (self.caller(request), path) {
            (Err(()), _) => answer(403, &json!({"message": "Invalid request signature"}), ""),
            (Ok(caller), "/v2/zone") => {
                let zones = self.state().zones.clone();
                answer(200, &json!({"zones": zones}), &caller.unwrap_or_default())
            }
            (Ok(None), _) => answer(401, &json!({"message": "Unauthorized"}), ""),
            (Ok(Some(caller)), "/v2/instance") => answer(200, &json!({"instances": []}), &caller),
            (Ok(Some(caller)), _) => {
                let id = "b1f5c0de-0000-4000-8000-0000000000a1";
                answer(200, &json!({"id": id, "state": "success"}), &caller)
            }
        }
    }
}

impl Api for Desk {
    fn name(&self) -> &'static str {
        "exoscale"
    }

    fn answer<'a>(&'a self, request: Request<Bytes>, _: &'a Peer) -> BoxFuture<'a, Answer> {
        let answer = self.reply(&request);
        Box::pin(async move { answer })
    }
}

pub(crate) struct Harness(kit::Simulation<Desk>);

kit::wraps!(Harness => 0: kit::Simulation<Desk>);

impl Harness {
    pub(crate) fn new() -> Self {
        Self(kit::Simulation::new(7, AUTHORITY, |_| Arc::default()))
    }

    pub(crate) fn connector(&self) -> Connector {
        Connector::simulated(self.world.pipes.clone())
    }

    pub(crate) fn seams(&self) -> Seams {
        kit::seams(&self.world, "exoscale")
    }

    /// A client with that key, as the provider makes it.
    pub(crate) fn client(&self, pair: Option<(&str, &str)>) -> HttpClient {
        let environment = |name: &str| match name {
            "EXOSCALE_API_KEY" | "EXOSCALE_API_SECRET" => Some("x".to_owned()),
            _ => None,
        };
        let config = crate::Config::read(environment, None).unwrap();
        let base = BaseUrl::parse(ENDPOINT).unwrap();
        let http = crate::client(&config, &self.seams(), base);
        if let Some((key, secret)) = pair {
            http.set_auth(KeyPair {
                key: key.to_owned(),
                secret: Secret::new(secret),
            });
        }
        http
    }

    /// `METHOD path status caller` of every call so far.
    pub(crate) fn calls(&self) -> Vec<String> {
        let entries = self.world.journal.entries();
        let line = |it: &bowline_simulator::journal::Entry| {
            format!("{} {} {} {}", it.method, it.path, it.status, it.caller)
                .trim_end()
                .to_owned()
        };
        entries.iter().map(line).collect()
    }
}

/// A node of that name with that provider id; empty for none.
pub(crate) fn node(name: &str, provider_id: &str) -> Node {
    Node {
        ready: Ready::Unknown,
        ..kit::node(name, provider_id)
    }
}

pub(crate) fn status(code: u16, body: Option<Value>) -> Rule {
    Rule::new(body.map_or_else(|| kit::status(code), |body| kit::answer(code, body)))
}

/// What is logged while it lives.
#[derive(Clone, Default)]
pub(crate) struct Log(Arc<Mutex<Vec<u8>>>);

impl Log {
    /// Keeps what this thread logs from now on.
    pub(crate) fn keep() -> (Self, DefaultGuard) {
        let log = Self::default();
        let writer = log.clone();
        let subscriber = tracing_subscriber::fmt()
            .with_max_level(tracing::Level::INFO)
            .with_ansi(false)
            .with_writer(move || writer.clone())
            .finish();
        (log, tracing::subscriber::set_default(subscriber))
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
    }
}

impl io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
