//! The API over pipes, as callers see it.

mod access;
mod control;
mod events;
mod faults;
mod objects;
mod socket;
mod tasks;

use std::sync::Arc;
use std::time::Duration;

use bowline_simulator::fixture;
use bowline_simulator::serve::Server;
use bowline_simulator::testing::{Reply, send_by_pipe, text_of, whole};
use bowline_simulator::{rows, shows};
use serde_json::{Value, json};

use super::*;

const AUTHORITY: &str = "xo.sim:80";
const PA: &str = "0b2f7c0e-3c1d-4f55-9d0a-6f1f6c3b7a10";
const PB: &str = "7e5a1d34-90bc-4d2e-8f61-3a2b1c0d9e8f";
const H1: &str = "6d6f4f6e-7f2b-4e0c-8a86-2f3b8c0f9e21";
const H2: &str = "2c8b7a90-5e4d-4b3c-9a1f-7d6e5f4c3b2a";
const H3: &str = "94d0c2e1-6b5a-4f7e-8c3d-1a0b9c8d7e6f";
const VM1: &str = "c1a9d5b2-4e7f-4a63-9b1d-0f2e3d4c5b6a";
const VM2: &str = "9f0e4c6d-1b2a-4f3e-8d7c-5a6b7c8d9e0f";
const UNKNOWN: &str = "00000000-0000-4000-8000-000000000000";

/// Two pools, three hosts, two VMs.
fn usual() -> String {
    format!(
        "pools: [{{name: lab pool, id: {PA}}}, {{name: dr pool, id: {PB}}}]\n\
         hosts:\n\
         - {{name: xcp 1, id: {H1}, pool: lab pool}}\n\
         - {{name: xcp-2, id: {H2}, pool: lab pool}}\n\
         - {{name: dr-host, id: {H3}, pool: dr pool}}\n\
         vms:\n\
         - {{name: worker 1, id: {VM1}, host: xcp 1, cpus: 4, memory: 4GiB, ip: 10.20.0.11}}\n\
         - {{name: worker-2, id: {VM2}, host: xcp-2, cpus: 2, memory: 8GiB, ip: 10.20.0.12}}\n"
    )
}

/// Xen Orchestra on a pipe, and a caller with the default token.
struct Harness {
    world: World,
    orchestra: Arc<XenOrchestra>,
    _server: Server,
}

impl Harness {
    fn with(fixture: &str) -> Self {
        let world = World::simulated(7);
        let fixture: Fixture = fixture::parse("test", fixture).unwrap();
        let orchestra = XenOrchestra::from_fixture(&world, fixture).unwrap();
        let server = Server::builder(&world, orchestra.clone()).pipe(AUTHORITY);
        Self {
            world,
            orchestra,
            _server: server,
        }
    }

    fn new() -> Self {
        Self::with(&usual())
    }

    /// Sends a request with these headers.
    async fn raw(&self, method: &str, target: &str, body: &str, headers: &[(&str, &str)]) -> Reply {
        let sent = self.attempt(method, target, body, headers).await;
        whole(sent.unwrap()).await.unwrap()
    }

    async fn attempt(
        &self,
        method: &str,
        target: &str,
        body: &str,
        headers: &[(&str, &str)],
    ) -> hyper::Result<http::Response<hyper::body::Incoming>> {
        let usual = [("host", AUTHORITY), ("content-type", "application/json")];
        let headers = [&usual, headers].concat();
        send_by_pipe((&self.world, AUTHORITY), (method, target), body, &headers).await
    }

    /// Calls the API as the administrator.
    async fn call(&self, method: &str, path: &str, body: Value) -> Reply {
        self.call_with(DEFAULT_TOKEN, method, path, body).await
    }

    async fn call_with(&self, token: &str, method: &str, path: &str, body: Value) -> Reply {
        let cookie = format!("authenticationToken={token}");
        let target = format!("/rest/v0{path}");
        self.raw(method, &target, &text_of(&body), &[("cookie", &cookie)])
            .await
    }

    async fn get(&self, path: &str) -> Value {
        let reply = self.call("GET", path, Value::Null).await;
        assert_eq!(reply.status, 200, "{path}: {}", reply.text());
        reply.json()
    }

    async fn status(&self, path: &str) -> u16 {
        self.call("GET", path, Value::Null).await.status
    }
}

/// [`assert_answer`] with the body as JSON.
macro_rules! answers {
    ($reply:expr, $status:expr, $body:tt) => {
        assert_answer(&$reply, $status, &json!($body))
    };
}
use answers;

#[track_caller]
fn assert_answer(reply: &Reply, status: u16, body: &Value) {
    assert_eq!(
        (reply.status, &reply.json()),
        (status, body),
        "{}",
        reply.text()
    );
}

async fn pass(seconds: u64) {
    tokio::time::sleep(Duration::from_secs(seconds)).await;
}
