//! What an instance can ask about itself: the metadata server.

use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use futures::FutureExt;
use futures::future::BoxFuture;
use http::{Method, Request, StatusCode};
use serde_json::{Value, json};

use bowline_simulator::control::Control;
use bowline_simulator::serve::{Answer, Api, Peer, text};

/// The name in the journal and in fault rules.
pub const METADATA: &str = "exoscale-metadata";
const PREFIX: &str = "/latest/meta-data/";

/// The metadata server, as one instance sees it.
#[derive(Debug)]
pub struct Metadata {
    zone: Mutex<String>,
    instance: String,
}

impl Metadata {
    /// For an instance of that id in that zone.
    pub fn new(zone: &str, instance: &str) -> Arc<Self> {
        Arc::new(Self {
            zone: Mutex::new(zone.to_owned()),
            instance: instance.to_owned(),
        })
    }

    /// Tells another zone from now on, whatever that text is.
    pub fn set_zone(&self, zone: &str) {
        zone.clone_into(&mut self.zone.lock().unwrap_or_else(PoisonError::into_inner));
    }

    fn zone(&self) -> String {
        let zone = self.zone.lock();
        zone.unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn value(&self, key: &str) -> Option<String> {
        match key {
            "availability-zone" => Some(self.zone()),
            "instance-id" | "vm-id" => Some(self.instance.clone()),
            "cloud-identifier" => Some("CloudStack-{simulated}".to_owned()),
            "" => Some("availability-zone\ncloud-identifier\ninstance-id\nvm-id".to_owned()),
            _ => None,
        }
    }
}

impl Api for Metadata {
    fn name(&self) -> &'static str {
        METADATA
    }

    fn answer<'a>(&'a self, request: Request<Bytes>, _peer: &'a Peer) -> BoxFuture<'a, Answer> {
        async move {
            let key = request.uri().path().strip_prefix(PREFIX);
            let key = key.filter(|_| request.method() == Method::GET);
            let response = match key.and_then(|key| self.value(key)) {
                Some(value) => text(StatusCode::OK, value),
                None => text(StatusCode::NOT_FOUND, "not found"),
            };
            Answer {
                response,
                caller: String::new(),
            }
        }
        .boxed()
    }

    fn control(&self) -> Option<&dyn Control> {
        Some(self)
    }
}

impl Control for Metadata {
    fn state(&self) -> Value {
        json!({ "availability-zone": self.zone(), "instance-id": self.instance })
    }

    fn carry_out(&self, verb: &str, body: &Value) -> Result<Value, String> {
        match (verb, body["zone"].as_str()) {
            ("zone", Some(zone)) => {
                self.set_zone(zone);
                Ok(json!({}))
            }
            _ => Err("allowed is zone, with {\"zone\": \"ch-dk-2\"}".to_owned()),
        }
    }
}
