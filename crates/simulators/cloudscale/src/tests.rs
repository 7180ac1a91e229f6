//! The API over pipes and sockets, as callers see it.

mod balancers;
mod children;
mod control;
mod drift;
mod fixture;
mod networks;
mod protocol;
mod refusals;
mod servers;
mod story;
mod words;
mod write_locks;

use std::sync::Arc;
use std::time::Duration;

use bowline_simulator::faults::{Action, Rule};
use bowline_simulator::fixture::parse;
use bowline_simulator::journal::Filter;
use bowline_simulator::machines::Power;
use bowline_simulator::serve::Server;
use bowline_simulator::testing::{Client, Reply, ServerAddress};
use bowline_simulator::{rows, shows};
use serde_json::{Value, json};

use super::*;

const AUTHORITY: &str = "cloudscale.sim:80";

/// A cloud on a pipe, and a caller with the default token.
struct Harness {
    world: World,
    cloud: Arc<Cloudscale>,
    client: Client,
    _server: Server,
}

impl Harness {
    fn new() -> Self {
        Self::with("")
    }

    fn with(fixture: &str) -> Self {
        let world = World::simulated(7);
        let fixture: Fixture = parse("test", fixture).unwrap();
        let cloud = Cloudscale::from_fixture(&world, fixture).unwrap();
        let server = Server::builder(&world, cloud.clone()).pipe(AUTHORITY);
        let client = Client::new(
            ServerAddress::Pipe(world.clone(), AUTHORITY),
            Some(DEFAULT_TOKEN),
        );
        Self {
            world,
            cloud,
            client,
            _server: server,
        }
    }

    fn as_token(&self, token: Option<&str>) -> Client {
        Client::new(self.client.address.clone(), token)
    }

    async fn get(&self, path: &str) -> Value {
        let reply = self.client.get(path).await;
        assert_eq!(reply.status, 200, "{path}: {}", reply.text());
        reply.json()
    }

    async fn post(&self, path: &str, body: Value) -> Reply {
        self.client.call("POST", path, &body).await
    }

    /// Creates something; the answer must be what an immediate read gives.
    async fn create(&self, path: &str, body: Value) -> Value {
        let reply = self.post(path, body).await;
        assert_eq!(reply.status, 201, "{}", reply.text());
        let made = reply.json();
        let href = made["href"].as_str().unwrap();
        let path = href.strip_prefix("http://sim.example:1234").unwrap();
        assert_eq!(self.get(path).await, made, "POST and GET must be equal");
        made
    }

    async fn patch(&self, path: &str, body: Value) -> Reply {
        self.client.call("PATCH", path, &body).await
    }

    async fn delete(&self, path: &str) -> Reply {
        self.client.call("DELETE", path, &Value::Null).await
    }

    async fn server(&self, name: &str, extra: Value) -> Value {
        self.create("/v1/servers", server(name, extra)).await
    }

    fn power(&self, server: &Value) -> Option<Power> {
        let uuid = server["uuid"].as_str().unwrap();
        self.world.machines.power(&format!("cloudscale://{uuid}"))
    }
}

fn server(name: &str, extra: Value) -> Value {
    let mut body = json!({"name": name, "flavor": "flex-4-2", "image": "debian-11"});
    let Value::Object(extra) = extra else {
        panic!("further attributes come as an object");
    };
    for (key, value) in extra {
        body[key] = value;
    }
    body
}

fn path_of(thing: &Value) -> String {
    let href = thing["href"].as_str().unwrap();
    href.strip_prefix("http://sim.example:1234")
        .unwrap()
        .to_owned()
}

fn error(reply: &Reply) -> (u16, String) {
    let body = reply.json();
    let object = body.as_object().cloned().unwrap_or_default();
    assert_eq!(object.len(), 1, "a flat object with one message: {body}");
    let (key, message) = object.into_iter().next().unwrap();
    (
        reply.status,
        format!("{key}: {}", message.as_str().unwrap()),
    )
}

#[track_caller]
fn assert_refused(reply: &Reply, status: u16, fragment: &str) {
    let (code, message) = error(reply);
    assert_eq!(code, status, "{message}");
    assert!(
        message.contains(fragment),
        "{message} should contain {fragment}"
    );
}
