//! The API over pipes, as callers see it.

mod machines;
mod networks;
mod outside;
mod protocol;

use std::sync::Arc;
use std::time::Duration;

use bowline_simulator::fixture;
use bowline_simulator::serve::Server;
use bowline_simulator::testing::{Reply, documented, send_by_pipe, text_of, whole};
use bowline_simulator::{rows, shows};
use serde_json::{Value, json};

use super::signature::tests::{ED25519, sign};
use super::signature::write_date;
use super::*;

const AUTHORITY: &str = "triton.sim:80";
const MACHINE: &str = "5b1e2d3c-0000-4000-8000-000000000001";
const UNKNOWN: &str = "00000000-0000-4000-8000-000000000000";
const MD5: &str = "f1:02:17:de:ef:c1:30:83:11:8b:82:a0:0e:67:7f:d5";

/// The seed of the key that everybody has here.
fn seed() -> [u8; 32] {
    std::array::from_fn(|number| u8::try_from(number).unwrap())
}

/// A cloud on a pipe, and a caller with a key.
struct Harness {
    world: World,
    cloud: Arc<Triton>,
    key: String,
    _server: Server,
}

impl Harness {
    /// The fixture's keys may be written `KEY`.
    fn with(fixture: &str) -> Self {
        let world = World::simulated(7);
        let fixture: Fixture = fixture::parse("test", &fixture.replace("KEY", ED25519)).unwrap();
        let cloud = Triton::from_fixture(&world, fixture).unwrap();
        cloud
            .add_key(DEFAULT_ACCOUNT, &format!("{ED25519} test"))
            .unwrap();
        cloud.set_throttle(None);
        let server = Server::builder(&world, cloud.clone()).pipe(AUTHORITY);
        Self {
            world,
            cloud,
            key: format!("/acme/keys/{MD5}"),
            _server: server,
        }
    }

    /// With one machine.
    fn new() -> Self {
        Self::with(&format!("machines: [{{name: k8s-1, id: {MACHINE}}}]"))
    }

    /// A request with a date and whatever headers.
    async fn raw(&self, method: &str, target: &str, body: &str, headers: &[(&str, &str)]) -> Reply {
        let headers = [&[("host", "sim.example:1234")], headers].concat();
        let place = (&self.world, AUTHORITY);
        let sent = send_by_pipe(place, (method, target), body, &headers).await;
        whole(sent.unwrap()).await.unwrap()
    }

    async fn call(&self, method: &str, target: &str, body: Value) -> Reply {
        let date = write_date(self.world.clock.now());
        let header = sign(&seed(), &self.key, method, target, &date);
        let kind = ("content-type", "application/json");
        let headers = [
            ("date", date.as_str()),
            ("authorization", header.as_str()),
            kind,
        ];
        self.raw(method, target, &text_of(&body), &headers).await
    }

    async fn get(&self, target: &str) -> Value {
        let reply = self.call("GET", target, Value::Null).await;
        assert_eq!(reply.status, 200, "{target}: {}", reply.text());
        reply.json()
    }

    async fn status(&self, method: &str, target: &str) -> u16 {
        self.call(method, target, Value::Null).await.status
    }

    /// The machine, whatever became of it.
    async fn machine(&self, id: &str) -> Value {
        self.call("GET", &format!("/acme/machines/{id}"), Value::Null)
            .await
            .json()
    }
}

async fn seconds(count: u64) {
    tokio::time::sleep(Duration::from_secs(count)).await;
}

#[track_caller]
fn refused(reply: &Reply, status: u16, code: &str, fragment: &str) {
    let text = reply.text();
    assert_eq!(reply.status, status, "{text}");
    assert_eq!(reply.json()["code"], code, "{text}");
    assert!(text.contains(fragment), "{text} should contain {fragment}");
}

#[tokio::test]
async fn the_documented_fixture_is_what_it_says() {
    let fixture: Fixture = fixture::parse("docs", documented("## The Triton simulator")).unwrap();
    let world = World::simulated(1);
    let cloud = Triton::from_fixture(&world, fixture).unwrap();
    assert_eq!(cloud.machines().len(), 21);
    assert_eq!(cloud.rules().len(), 1);
    assert_eq!(cloud.routes("My-Fabric").len(), 1);
    assert_eq!(world.faults.rules().len(), 1);
    let one = cloud.machine("k8s-1").unwrap();
    assert_eq!(one.addresses, ["203.0.113.10", "10.20.0.5"]);
    assert!(!one.dns_names.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_kubelet_runs_where_its_machine_does() {
    let it = Harness::with(&format!("machines: [{{name: K8s-1, id: {MACHINE}}}]"));
    let kubelet = it.cloud.kubelet("K8s-1").unwrap();
    assert_eq!(
        (kubelet.node_name.as_str(), kubelet.system_uuid.as_str()),
        ("k8s-1", MACHINE)
    );
    assert_eq!(kubelet.machine_id, machine_id(MACHINE));
    let addresses: Vec<String> = kubelet
        .own_addresses
        .iter()
        .map(ToString::to_string)
        .collect();
    assert_eq!(addresses, ["203.0.113.10", "10.20.0.5"]);
    it.cloud.stop(MACHINE).unwrap();
    assert_eq!(
        it.world.machines.power(&kubelet.machine_id),
        Some(Power::Off)
    );
    let error = it.cloud.kubelet("nothing").unwrap_err().to_string();
    assert!(
        error.starts_with("cannot find the machine \"nothing\""),
        "{error}"
    );
}

#[tokio::test(start_paused = true)]
async fn the_same_seed_gives_the_same_transcript() {
    let mut transcripts = Vec::new();
    for _ in 0..2 {
        let it = Harness::new();
        it.cloud
            .set_quirks(|quirks| quirks.shuffled_networks = true);
        let body = json!({ "image": MACHINE_IMAGE, "package": "lb1.small", "name": "x" });
        let made = it.call("POST", "/acme/machines", body).await.json();
        let tags = format!("/acme/machines/{}/tags", made["id"].as_str().unwrap());
        it.call("POST", &tags, json!({ "a": "b" })).await;
        seconds(20).await;
        let seen = [
            it.get("/acme/machines").await,
            it.get("/acme/networks").await,
        ];
        transcripts.push((it.world.journal.json_lines(), seen));
    }
    assert_eq!(transcripts[0], transcripts[1]);
}
