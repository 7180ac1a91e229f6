//! The API over pipes, as callers see it.

mod balancers;
mod control;
mod faults;
mod instances;
mod protocol;

use std::sync::Arc;
use std::time::Duration;

use bowline_simulator::fixture;
use bowline_simulator::serve::Server;
use bowline_simulator::testing::{Reply, send_by_pipe, text_of, whole};
use bowline_simulator::{rows, shows};
use serde_json::{Value, json};

use super::signature::tests::sign;
use super::*;

const AUTHORITY: &str = "exoscale.sim:80";
const MEDIUM: &str = "b6cd1ff5-3a2f-4e9d-a4d1-8988c1191fe8";
const TEMPLATE: &str = "c1a11e5d-7e3b-4a3d-8f51-3b1d0ef60001";
const POOL: &str = "0f0e0d0c-0b0a-4908-8706-050403020100";
const UNKNOWN: &str = "00000000-0000-4000-8000-000000000000";

/// A cloud on a pipe, and a caller with the default key.
struct Harness {
    world: World,
    cloud: Arc<Exoscale>,
    pair: (String, String),
    _server: Server,
}

impl Harness {
    fn with(fixture: &str) -> Self {
        let world = World::simulated(7);
        let fixture: Fixture = fixture::parse("test", fixture).unwrap();
        let cloud = Exoscale::from_fixture(&world, fixture).unwrap();
        let server = Server::builder(&world, cloud.clone()).pipe(AUTHORITY);
        Self {
            world,
            cloud,
            pair: (DEFAULT_KEY.to_owned(), DEFAULT_SECRET.to_owned()),
            _server: server,
        }
    }

    /// With the pool P1 of two members.
    fn new() -> Self {
        Self::with(&format!(
            "instance_pools: [{{name: p1, id: {POOL}, size: 2}}]"
        ))
    }

    async fn attempt(&self, method: &str, target: &str, body: &str) -> hyper::Result<Reply> {
        let expires = self.world.clock.now().as_second() + 600;
        let pair = (self.pair.0.as_str(), self.pair.1.as_str());
        let header = sign(pair, method, target, body, expires);
        self.raw(method, target, body, Some(&header)).await
    }

    async fn raw(
        &self,
        method: &str,
        target: &str,
        body: &str,
        header: Option<&str>,
    ) -> hyper::Result<Reply> {
        let mut headers = vec![("host", "sim.example:1234")];
        headers.extend(header.map(|header| ("authorization", header)));
        let place = (&self.world, AUTHORITY);
        whole(send_by_pipe(place, (method, target), body, &headers).await?).await
    }

    async fn call(&self, method: &str, target: &str, body: Value) -> Reply {
        self.attempt(method, target, &text_of(&body)).await.unwrap()
    }

    async fn get(&self, target: &str) -> Value {
        let reply = self.call("GET", target, Value::Null).await;
        assert_eq!(reply.status, 200, "{target}: {}", reply.text());
        reply.json()
    }

    async fn status(&self, method: &str, target: &str) -> u16 {
        self.call(method, target, Value::Null).await.status
    }

    /// Begins an operation, which must be pending.
    async fn begin(&self, method: &str, target: &str, body: Value) -> Value {
        let reply = self.call(method, target, body).await;
        assert_eq!(reply.status, 200, "{method} {target}: {}", reply.text());
        let operation = reply.json();
        assert_eq!(operation["state"], "pending", "{operation}");
        operation
    }

    /// The state of an operation now.
    async fn progress(&self, operation: &Value) -> String {
        let id = operation["id"].as_str().unwrap();
        let shown = self.get(&format!("/v2/operation/{id}")).await;
        shown["state"].as_str().unwrap().to_owned()
    }

    /// Carries out an operation to its good end, and returns what it is about.
    async fn done(&self, method: &str, target: &str, body: Value) -> String {
        let operation = self.begin(method, target, body).await;
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert_eq!(self.progress(&operation).await, "success", "{operation}");
        operation["reference"]["id"]
            .as_str()
            .unwrap_or_default()
            .to_owned()
    }

    /// A load balancer that is ready.
    async fn balancer(&self, name: &str) -> String {
        self.done("POST", "/v2/load-balancer", json!({ "name": name }))
            .await
    }
}

/// A service that the API takes.
fn service(name: &str, port: u16) -> Value {
    json!({
        "name": name, "instance-pool": { "id": POOL }, "protocol": "tcp", "strategy": "round-robin",
        "port": port, "target-port": 30080,
        "healthcheck": { "mode": "tcp", "port": 30080, "interval": 10, "timeout": 5, "retries": 1 },
    })
}

#[track_caller]
fn refused(reply: &Reply, status: u16, fragment: &str) {
    let text = reply.text();
    assert_eq!(reply.status, status, "{text}");
    assert!(reply.json()["message"].is_string(), "{text}");
    assert!(text.contains(fragment), "{text} should contain {fragment}");
}
