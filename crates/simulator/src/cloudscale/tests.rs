use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};

use super::*;
use crate::faults::{Action, Rule};
use crate::fixture;
use crate::journal::Filter;
use crate::machines::Power;
use crate::serve::Server;
use crate::testing::{Client, Place, Reply};

const AUTHORITY: &str = "cloudscale.sim:80";

/// A cloud on a pipe, and a caller with the default token.
struct Scenery {
    world: World,
    cloud: Arc<Cloudscale>,
    client: Client,
    _server: Server,
}

impl Scenery {
    fn new() -> Self {
        Self::with("")
    }

    fn with(fixture: &str) -> Self {
        let world = World::simulated(7);
        let scene: Scene = fixture::parse("test", fixture).unwrap();
        let cloud = Cloudscale::from_fixture(&world, scene).unwrap();
        let server = Server::builder(&world, cloud.clone()).pipe(AUTHORITY);
        let client = Client::new(Place::Pipe(world.clone(), AUTHORITY), Some(DEFAULT_TOKEN));
        Self {
            world,
            cloud,
            client,
            _server: server,
        }
    }

    fn as_token(&self, token: Option<&str>) -> Client {
        Client::new(self.client.place.clone(), token)
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
    for (key, value) in extra.as_object().cloned().unwrap_or_default() {
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

#[tokio::test(start_paused = true)]
async fn a_server_has_every_attribute_of_the_real_one() {
    let scenery = Scenery::new();
    let made = scenery
        .server(
            "worker-a",
            json!({"volume_size_gb": 50, "tags": {"a": "b"}}),
        )
        .await;
    assert_eq!(made["status"], "changing");
    assert_eq!(made["zone"], json!({"slug": "rma1"}));
    assert_eq!(made["flavor"]["name"], "Flex-4-2");
    assert_eq!(made["image"]["operating_system"], "Debian");
    assert_eq!(made["volumes"][0]["size_gb"], 50);
    assert_eq!(made["volumes"][0]["name"], "worker-a-root");
    assert_eq!(made["tags"], json!({"a": "b"}));
    for empty in [
        "ssh_fingerprints",
        "ssh_host_keys",
        "anti_affinity_with",
        "server_groups",
    ] {
        assert_eq!(made[empty], json!([]), "{empty}");
    }
    let created = made["created_at"].as_str().unwrap();
    assert!(
        created.ends_with(".000000Z") && created.len() == 27,
        "{created}"
    );
    let interface = &made["interfaces"][0];
    assert_eq!(interface["type"], "public");
    assert_eq!(interface["network"]["name"], "Public");
    let addresses = interface["addresses"].as_array().unwrap();
    assert_eq!(
        (
            addresses[0]["version"].as_u64(),
            addresses[1]["version"].as_u64()
        ),
        (Some(4), Some(6))
    );
    assert_eq!(addresses[0]["gateway"], "198.18.0.1");
    assert_eq!(
        addresses[0]["reverse_ptr"],
        "198-18-0-11.cust.cloudscale.ch"
    );
    assert_eq!(addresses[0]["subnet"]["cidr"], "198.18.0.0/16");
    assert_eq!(scenery.get("/v1/servers").await, json!([made]));
    let volume = path_of(&made["volumes"][0]);
    assert_eq!(
        scenery.get(&volume).await["server_uuids"],
        json!([made["uuid"]])
    );
}

#[tokio::test(start_paused = true)]
async fn a_server_passes_through_changing() {
    let scenery = Scenery::new();
    let made = scenery.server("a", json!({})).await;
    let path = path_of(&made);
    let status = async || scenery.get(&path).await["status"].clone();
    assert_eq!(scenery.power(&made), Some(Power::Off));
    assert_refused(&scenery.delete(&path).await, 400, "still being created");
    assert_refused(
        &scenery.post(&format!("{path}/stop"), Value::Null).await,
        400,
        "created",
    );
    tokio::time::sleep(Duration::from_millis(1999)).await;
    assert_eq!(status().await, "changing");
    tokio::time::sleep(Duration::from_millis(1)).await;
    assert_eq!(status().await, "running");
    assert_eq!(scenery.power(&made), Some(Power::Running));
    for (order, runs) in [
        ("stop", false),
        ("stop", false),
        ("start", true),
        ("reboot", true),
    ] {
        let reply = scenery.post(&format!("{path}/{order}"), Value::Null).await;
        assert_eq!((reply.status, reply.bytes.len()), (204, 0), "{order}");
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert_eq!(
            status().await,
            if runs { "running" } else { "stopped" },
            "{order}"
        );
        let power = if runs { Power::Running } else { Power::Off };
        assert_eq!(scenery.power(&made), Some(power), "{order}");
    }
    scenery.post(&format!("{path}/stop"), json!({})).await;
    assert_eq!(status().await, "changing");
    assert_eq!(scenery.delete(&path).await.status, 204);
    assert_refused(&scenery.client.get(&path).await, 404, "Not found.");
    assert_refused(&scenery.delete(&path).await, 404, "Not found.");
    assert_eq!(scenery.power(&made), None);
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert_eq!(
        scenery.power(&made),
        None,
        "a timer does not revive a deleted server"
    );
}

#[tokio::test(start_paused = true)]
async fn the_machines_follow_without_anybody_reading() {
    let scenery = Scenery::new();
    let made = scenery.server("a", json!({})).await;
    let id = format!("cloudscale://{}", made["uuid"].as_str().unwrap());
    let mut machines = scenery.world.machines.subscribe();
    let began = tokio::time::Instant::now();
    machines
        .wait_for(|all| all.get(&id) == Some(&Power::Running))
        .await
        .unwrap();
    assert_eq!(began.elapsed(), Duration::from_secs(2));
}

#[tokio::test(start_paused = true)]
async fn durations_of_zero_mean_at_once() {
    let zero = "timings: {create: 0s, start: 0s, stop: 0s, reboot: 0s}";
    let scenery = Scenery::with(zero);
    let made = scenery.server("a", json!({})).await;
    assert_eq!(made["status"], "running");
    assert_eq!(scenery.power(&made), Some(Power::Running));
    let path = path_of(&made);
    scenery.post(&format!("{path}/stop"), Value::Null).await;
    assert_eq!(scenery.get(&path).await["status"], "stopped");
    assert_refused(
        &scenery.post(&format!("{path}/reboot"), Value::Null).await,
        400,
        "rebooted",
    );
}

#[tokio::test(start_paused = true)]
async fn one_attribute_at_a_time_can_be_changed() {
    let scenery = Scenery::with("machines: [{name: a, uuid: u1}]");
    let path = "/v1/servers/u1";
    for (body, status, fragment) in [
        (json!({}), 204, ""),
        (json!({"name": "Ein Näme mit Leerzeichen"}), 204, ""),
        (
            json!({"name": "b", "flavor": "flex-4-4"}),
            400,
            "Only one attribute",
        ),
        (json!({"name": "b", "tags": {}}), 400, "Only one attribute"),
        (
            json!({"name": ""}),
            400,
            "name: This field may not be blank.",
        ),
        (json!({"name": "x".repeat(256)}), 400, "name: Ensure"),
        (
            json!({"zone": "lpg1"}),
            400,
            "zone: This attribute cannot be changed",
        ),
        (
            json!({"colour": "red"}),
            400,
            "colour: This attribute cannot be changed",
        ),
        (
            json!({"flavor": "flex-4-4"}),
            400,
            "detail: The flavor can only be changed",
        ),
        (json!({"flavor": "huge"}), 400, "is not a valid choice"),
        (json!({"tags": {"a": "b", "c": ""}}), 204, ""),
        (
            json!({"tags": {"a b": "c"}}),
            400,
            "tags: \"a b\" is not a valid tag key",
        ),
        (json!({"tags": {"a": 1}}), 400, "tags: Tags must be"),
        (
            json!({"tags": {"a": "x".repeat(257)}}),
            400,
            "longer than 256",
        ),
        (json!([]), 400, "detail: Invalid data"),
    ] {
        let reply = scenery.patch(path, body.clone()).await;
        if status == 204 {
            assert_eq!(reply.status, 204, "{body}: {}", reply.text());
        } else {
            assert_refused(&reply, status, fragment);
        }
    }
    let reply = scenery
        .client
        .attempt("PATCH", path, "{\"name\": ")
        .await
        .unwrap();
    assert_refused(&reply, 400, "JSON parse error");
    let reply = scenery
        .client
        .attempt("PATCH", path, "{\"name\": \"c\"}\n")
        .await
        .unwrap();
    assert_eq!(reply.status, 204, "a trailing newline does no harm");
    let shown = scenery.get(path).await;
    assert_eq!(
        (&shown["name"], &shown["tags"]),
        (&json!("c"), &json!({"a": "b", "c": ""}))
    );
    scenery.cloud.stop("u1").unwrap();
    assert_eq!(
        scenery
            .patch(path, json!({"flavor": "flex-4-4"}))
            .await
            .status,
        204
    );
    assert_eq!(scenery.get(path).await["flavor"]["vcpu_count"], 4);
    assert_eq!(scenery.patch(path, json!({"tags": {}})).await.status, 204);
    assert_eq!(scenery.get(path).await["tags"], json!({}));
    assert_refused(
        &scenery.patch("/v1/servers/other", json!({})).await,
        404,
        "Not found.",
    );
}

#[tokio::test(start_paused = true)]
async fn a_bad_server_is_refused_field_by_field() {
    let scenery = Scenery::new();
    for (extra, fragment) in [
        (json!({"name": null}), "name: This field is required"),
        (json!({"name": " "}), "name: This field may not be blank."),
        (json!({"name": 7}), "name: Not a valid string."),
        (json!({"name": "with space"}), "name: Only letters"),
        (json!({"name": "x".repeat(64)}), "name: Ensure"),
        (
            json!({"flavor": "huge"}),
            "flavor: \"huge\" is not a valid choice",
        ),
        (
            json!({"image": "plan9"}),
            "image: \"plan9\" is not a valid choice",
        ),
        (
            json!({"zone": "zrh1"}),
            "is not a valid choice. Choose one of: rma1, lpg1",
        ),
        (
            json!({"volume_size_gb": 0}),
            "volume_size_gb: Must be between",
        ),
        (
            json!({"volume_size_gb": "x"}),
            "volume_size_gb: A valid integer",
        ),
        (
            json!({"use_ipv6": "x"}),
            "use_ipv6: Must be a valid boolean",
        ),
        (
            json!({"server_groups": ["x"]}),
            "server_groups: \"x\" does not exist",
        ),
        (
            json!({"interfaces": [{}]}),
            "interfaces: Either network or subnet",
        ),
        (
            json!({"interfaces": [{"network": "x"}]}),
            "network: \"x\" does not exist",
        ),
        (
            json!({"interfaces": [{"addresses": [{"subnet": "x"}]}]}),
            "subnet: \"x\" does not exist",
        ),
        (json!({"interfaces": "x"}), "interfaces: Expected a list"),
        (json!({"tags": []}), "tags: Tags must be"),
    ] {
        let reply = scenery.post("/v1/servers", server("a", extra)).await;
        assert_refused(&reply, 400, fragment);
    }
    assert_eq!(
        scenery.get("/v1/servers").await,
        json!([]),
        "nothing was made"
    );
}

#[tokio::test(start_paused = true)]
async fn interfaces_can_be_asked_for_in_every_form() {
    let scenery = Scenery::new();
    let network = scenery.create("/v1/networks", json!({"name": "k8s"})).await;
    let bare = json!({"name": "bare", "auto_create_ipv4_subnet": false});
    let bare = scenery.create("/v1/networks", bare).await;
    assert_eq!(bare["subnets"], json!([]));
    let wanted = json!({"network": bare["uuid"], "cidr": "192.168.7.0/24"});
    let subnet = scenery.create("/v1/subnets", wanted).await;
    let stub = &scenery.get(&path_of(&bare)).await["subnets"][0];
    let (n, s) = (&network["uuid"], &subnet["uuid"]);
    for (interfaces, expected) in [
        (json!([{"network": "public"}]), json!(["public", 2])),
        (json!([{"network": n}]), json!(["private", 1])),
        (
            json!([{"network": n, "addresses": []}]),
            json!(["private", 0]),
        ),
        (
            json!([{"addresses": [{"subnet": s}]}]),
            json!(["private", 1]),
        ),
        (
            json!([{"addresses": [{"subnet": s, "address": "192.168.7.7"}]}]),
            json!(["private", 1]),
        ),
        (
            json!([{"network": bare["uuid"], "addresses": [{"address": "192.168.7.8"}]}]),
            json!(["private", 1]),
        ),
        (
            json!([{"network": n}, {"network": "public"}]),
            json!(["private", 1, "public", 2]),
        ),
        (json!([]), json!([])),
    ] {
        let made = scenery.server("a", json!({"interfaces": interfaces})).await;
        let shown = made["interfaces"].as_array().unwrap().iter();
        let summary: Vec<Value> = shown
            .flat_map(|i| {
                [
                    i["type"].clone(),
                    i["addresses"].as_array().unwrap().len().into(),
                ]
            })
            .collect();
        assert_eq!(Value::from(summary), expected, "{interfaces}");
        for address in made["interfaces"]
            .as_array()
            .unwrap()
            .iter()
            .flat_map(|i| i["addresses"].as_array().unwrap())
        {
            if address["subnet"]["uuid"] == *s {
                assert_eq!(
                    &address["subnet"], stub,
                    "a subnet stub is the same everywhere"
                );
                assert_eq!(
                    (&address["gateway"], &address["reverse_ptr"]),
                    (&Value::Null, &Value::Null)
                );
            }
        }
    }
    for (interfaces, fragment) in [
        (
            json!([{"addresses": [{"subnet": s, "address": "192.168.7.7"}]}]),
            "is not a valid IP for the specified subnet",
        ),
        (
            json!([{"addresses": [{"subnet": s, "address": "192.168.7.0"}]}]),
            "is not a valid IP for the specified subnet",
        ),
        (
            json!([{"addresses": [{"subnet": s, "address": "10.1.1.1"}]}]),
            "is not a valid IP for the specified subnet",
        ),
        (
            json!([{"addresses": [{"subnet": s, "address": "nonsense"}]}]),
            "Enter a valid IPv4",
        ),
        (
            json!([{"network": n, "addresses": [{"subnet": s}]}]),
            "does not belong to the network",
        ),
    ] {
        let reply = scenery
            .post(
                "/v1/servers",
                server("a", json!({"interfaces": interfaces})),
            )
            .await;
        assert_refused(&reply, 400, fragment);
    }
    let elsewhere = json!({"zone": "lpg1", "interfaces": [{"network": n}]});
    let reply = scenery.post("/v1/servers", server("a", elsewhere)).await;
    assert_refused(&reply, 400, "The network is in zone rma1");
}

#[tokio::test(start_paused = true)]
async fn interfaces_can_be_replaced_and_survive_a_refused_change() {
    let scenery = Scenery::with(
        "networks: [{name: k8s, uuid: n1, subnets: [{cidr: 10.0.0.0/24, uuid: s1}]}]\nmachines: [{name: a, uuid: u1}]",
    );
    let before = scenery.get("/v1/servers/u1").await;
    let bad = json!({"interfaces": [
        {"network": "n1", "addresses": [{"address": "10.0.0.50"}]}, {"network": "nowhere"}]});
    assert_refused(
        &scenery.patch("/v1/servers/u1", bad).await,
        400,
        "does not exist",
    );
    assert_eq!(scenery.get("/v1/servers/u1").await, before);
    // The refused request gave its address back.
    let good = json!({"interfaces": [
        {"network": "n1", "addresses": [{"address": "10.0.0.50"}]}]});
    assert_eq!(scenery.patch("/v1/servers/u1", good).await.status, 204);
    let after = scenery.get("/v1/servers/u1").await;
    assert_eq!(
        after["interfaces"][0]["addresses"][0]["address"],
        "10.0.0.50"
    );
    assert_refused(
        &scenery.delete("/v1/networks/n1").await,
        400,
        "servers attached",
    );
    assert_refused(&scenery.delete("/v1/subnets/s1").await, 400, "in use");
    scenery.cloud.destroy("u1").unwrap();
    assert_eq!(scenery.delete("/v1/networks/n1").await.status, 204);
    assert_refused(
        &scenery.client.get("/v1/subnets/s1").await,
        404,
        "Not found.",
    );
}

#[tokio::test(start_paused = true)]
async fn networks_and_subnets_are_made_changed_and_checked() {
    let scenery = Scenery::new();
    let network = scenery
        .create("/v1/networks", json!({"name": "n", "tags": {"a": "b"}}))
        .await;
    assert_eq!(
        (&network["mtu"], &network["zone"]["slug"]),
        (&json!(9000), &json!("rma1"))
    );
    assert_eq!(network["subnets"].as_array().unwrap().len(), 1);
    let path = path_of(&network);
    for body in [
        json!({"name": "m"}),
        json!({"mtu": 1500}),
        json!({"tags": {}}),
    ] {
        assert_eq!(scenery.patch(&path, body).await.status, 204);
    }
    let shown = scenery.get(&path).await;
    assert_eq!(
        (&shown["name"], &shown["mtu"], &shown["tags"]),
        (&json!("m"), &json!(1500), &json!({}))
    );
    let subnet = |extra: Value| {
        let mut body = json!({"network": network["uuid"], "cidr": "172.16.0.0/24"});
        for (key, value) in extra.as_object().cloned().unwrap() {
            body[key] = value;
        }
        body
    };
    for (extra, fragment) in [
        (
            json!({"cidr": "172.16.0.1/24"}),
            "Enter a valid network address in CIDR notation",
        ),
        (
            json!({"cidr": "1.1.1.1"}),
            "Enter a valid network address in CIDR notation",
        ),
        (json!({"cidr": "172.16.0.0/25"}), "must be 24 or less"),
        (json!({"network": "x"}), "does not exist"),
        (
            json!({"gateway_address": "10.0.0.1"}),
            "is not a valid IP for the specified subnet",
        ),
        (
            json!({"dns_servers": ["0.0.0.0"]}),
            "dns_servers: 0.0.0.0 is not a valid IP",
        ),
    ] {
        assert_refused(
            &scenery.post("/v1/subnets", subnet(extra)).await,
            400,
            fragment,
        );
    }
    let made = scenery
        .create(
            "/v1/subnets",
            subnet(json!({"gateway_address": "172.16.0.2"})),
        )
        .await;
    assert_eq!(made["dns_servers"].as_array().unwrap().len(), 2);
    let overlap = subnet(json!({"cidr": "172.16.0.0/16"}));
    assert_refused(&scenery.post("/v1/subnets", overlap).await, 400, "overlaps");
    let path = path_of(&made);
    for (body, key, expected) in [
        (json!({"dns_servers": []}), "dns_servers", json!([])),
        (
            json!({"dns_servers": ["9.9.9.9"]}),
            "dns_servers",
            json!(["9.9.9.9"]),
        ),
        (
            json!({"gateway_address": null}),
            "gateway_address",
            Value::Null,
        ),
        (json!({"tags": {"x": "y"}}), "tags", json!({"x": "y"})),
    ] {
        assert_eq!(scenery.patch(&path, body).await.status, 204);
        assert_eq!(scenery.get(&path).await[key], expected);
    }
    scenery.patch(&path, json!({"dns_servers": null})).await;
    assert_eq!(
        scenery.get(&path).await["dns_servers"]
            .as_array()
            .unwrap()
            .len(),
        2
    );
    assert_eq!(scenery.delete(&path).await.status, 204);
}

#[tokio::test(start_paused = true)]
async fn server_groups_hold_servers_apart() {
    let scenery = Scenery::new();
    let body = json!({"name": "g", "type": "anti-affinity"});
    let group = scenery.create("/v1/server-groups", body).await;
    let bad = scenery
        .post("/v1/server-groups", json!({"name": "g", "type": "x"}))
        .await;
    assert_refused(&bad, 400, "type: Expect one of");
    let member = json!({"server_groups": [group["uuid"]]});
    let first = scenery.server("a", member.clone()).await;
    let second = scenery.server("b", member).await;
    assert_eq!(second["server_groups"][0]["name"], "g");
    assert_eq!(second["anti_affinity_with"][0]["uuid"], first["uuid"]);
    let path = path_of(&group);
    assert_eq!(
        scenery.get(&path).await["servers"]
            .as_array()
            .unwrap()
            .len(),
        2
    );
    assert_eq!(scenery.patch(&path, json!({"name": "h"})).await.status, 204);
    assert_eq!(scenery.delete(&path).await.status, 204);
    assert_eq!(
        scenery.get(&path_of(&second)).await["server_groups"],
        json!([])
    );
}

#[tokio::test(start_paused = true)]
async fn floating_ips_move_between_servers_and_outlive_them() {
    let scenery = Scenery::with(
        "machines: [{name: a, uuid: u1}, {name: b, uuid: u2, zone: lpg1}, {name: c, uuid: u3, interfaces: []}]",
    );
    let made = scenery
        .create("/v1/floating-ips", json!({"ip_version": 4, "server": "u1"}))
        .await;
    assert_eq!(
        (&made["type"], &made["region"]["slug"]),
        (&json!("regional"), &json!("rma"))
    );
    assert_eq!(
        (&made["network"], &made["ip_version"]),
        (&json!("203.0.113.11/32"), &json!(4))
    );
    assert_eq!(
        (&made["next_hop"], &made["load_balancer"]),
        (&json!("198.18.0.11"), &Value::Null)
    );
    let path = path_of(&made);
    assert_eq!(path, "/v1/floating-ips/203.0.113.11");
    for (body, fragment) in [
        (
            json!({"server": "u2"}),
            "server: The server is in another region",
        ),
        (
            json!({"server": "u3"}),
            "server: The server has no public IPv4 address",
        ),
        (json!({"server": "u9"}), "server: \"u9\" does not exist"),
        (
            json!({"server": null}),
            "server: This field may not be null",
        ),
        (
            json!({"load_balancer": "l1"}),
            "load_balancer: \"l1\" does not exist",
        ),
        (
            json!({"region": "lpg"}),
            "region: This attribute cannot be changed",
        ),
        (json!({"server": "u2", "tags": {}}), "Only one attribute"),
    ] {
        assert_refused(&scenery.patch(&path, body).await, 400, fragment);
    }
    let global = json!({"ip_version": 6, "type": "global", "server": "u1", "reverse_ptr": "x.y"});
    let global = scenery.create("/v1/floating-ips", global).await;
    assert_eq!(
        (&global["region"], &global["reverse_ptr"]),
        (&Value::Null, &json!("x.y"))
    );
    assert_eq!(
        scenery
            .patch(&path_of(&global), json!({"server": "u2"}))
            .await
            .status,
        204
    );
    let moved = scenery.get(&path_of(&global)).await;
    assert_eq!(
        (&moved["server"]["uuid"], &moved["next_hop"]),
        (&json!("u2"), &json!("2001:db8:2::b"))
    );
    let long = "/v1/floating-ips/2001:0db8:00f2:0:0:0:0:000b";
    assert_eq!(
        scenery
            .patch(long, json!({"tags": {"a": "b"}}))
            .await
            .status,
        204
    );
    let wide = json!({"ip_version": 6, "prefix_length": 56, "region": "lpg"});
    let wide = scenery.create("/v1/floating-ips", wide).await;
    assert!(wide["network"].as_str().unwrap().ends_with("/56"));
    assert_eq!(
        (&wide["server"], &wide["next_hop"]),
        (&Value::Null, &Value::Null)
    );
    assert_eq!(scenery.delete("/v1/servers/u1").await.status, 204);
    assert_eq!(
        scenery.get(&path).await["server"],
        Value::Null,
        "it outlives its server"
    );
    assert_eq!(scenery.delete(&path).await.status, 204);
    assert_refused(&scenery.client.get(&path).await, 404, "Not found.");
    assert_eq!(
        scenery
            .get("/v1/floating-ips")
            .await
            .as_array()
            .unwrap()
            .len(),
        2
    );
    for (body, fragment) in [
        (json!({}), "ip_version: This field is required"),
        (json!({"ip_version": 5}), "ip_version: Expect one of"),
        (json!({"ip_version": 4, "type": "x"}), "type: Expect one of"),
        (
            json!({"ip_version": 4, "region": "x"}),
            "Choose one of: rma, lpg",
        ),
        (
            json!({"ip_version": 4, "prefix_length": 24}),
            "prefix_length: Expect one of",
        ),
    ] {
        assert_refused(&scenery.post("/v1/floating-ips", body).await, 400, fragment);
    }
}

#[tokio::test(start_paused = true)]
async fn tokens_are_projects_and_some_may_only_look() {
    let fixture = "tokens:\n- {value: t1, project: one}\n- {value: t2, project: two}\n- {value: r1, project: one, read_only: true}";
    let scenery = Scenery::with(fixture);
    let (one, two, reader) = (
        scenery.as_token(Some("t1")),
        scenery.as_token(Some("t2")),
        scenery.as_token(Some("r1")),
    );
    let made = one
        .call("POST", "/v1/servers", &server("a", json!({})))
        .await;
    assert_eq!(made.status, 201);
    let path = path_of(&made.json());
    assert_eq!(reader.get(&path).await.status, 200);
    assert_refused(
        &reader.call("DELETE", &path, &Value::Null).await,
        403,
        "permission",
    );
    assert_refused(&two.get(&path).await, 404, "Not found.");
    assert_eq!(two.get("/v1/servers").await.json(), json!([]));
    assert_refused(
        &scenery.as_token(None).get(&path).await,
        401,
        "Authentication credentials were not provided.",
    );
    assert_refused(
        &scenery.as_token(Some("x")).get(&path).await,
        401,
        "Invalid token.",
    );
    let callers: Vec<_> = scenery
        .world
        .journal
        .entries()
        .into_iter()
        .map(|e| e.caller)
        .collect();
    assert_eq!(callers, ["one", "one", "one", "two", "two", "", ""]);
}

#[tokio::test(start_paused = true)]
async fn lists_are_filtered_by_tag_and_name() {
    let scenery = Scenery::with(
        "machines:\n- {name: a, tags: {env: prod, k: v}}\n- {name: b, tags: {env: 'a b&c'}}\n- {name: c}",
    );
    for (query, expected) in [
        ("", vec!["a", "b", "c"]),
        ("?tag:env=prod", vec!["a"]),
        ("?tag%3Aenv=prod", vec!["a"]),
        ("?tag%3Aenv=a+b%26c", vec!["b"]),
        ("?tag:env=", vec!["a", "b"]),
        ("?tag:env", vec!["a", "b"]),
        ("?tag:env&tag:k=v", vec!["a"]),
        ("?tag:env=prod&tag:k=x", vec![]),
        ("?name=c", vec!["c"]),
        ("?page=2", vec!["a", "b", "c"]),
    ] {
        let list = scenery.get(&format!("/v1/servers{query}")).await;
        let names: Vec<_> = list
            .as_array()
            .unwrap()
            .iter()
            .map(|s| s["name"].as_str().unwrap())
            .collect();
        assert_eq!(names, expected, "{query}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_other_collections_are_there_and_empty() {
    let scenery = Scenery::new();
    for name in [
        "volume-snapshots",
        "objects-users",
        "custom-images",
        "load-balancers",
        "load-balancers/pools",
        "load-balancers/listeners",
        "load-balancers/health-monitors",
        "volumes",
        "servers",
        "server-groups",
        "networks",
        "subnets",
        "floating-ips",
    ] {
        assert_eq!(
            scenery.get(&format!("/v1/{name}")).await,
            json!([]),
            "{name}"
        );
    }
    for name in ["regions", "flavors", "images"] {
        assert!(
            !scenery
                .get(&format!("/v1/{name}"))
                .await
                .as_array()
                .unwrap()
                .is_empty()
        );
    }
    for (method, path, status) in [
        ("GET", "/v1/load-balancers/pools/x/members", 404),
        ("GET", "/v1/load-balancers/x", 404),
        ("POST", "/v1/load-balancers", 405),
        ("GET", "/v1/nonsense", 404),
        ("GET", "/v2/servers", 404),
        ("GET", "/v1/v1/servers", 404),
        ("GET", "/v1/servers/not-a-uuid", 404),
        ("PUT", "/v1/servers", 405),
        ("POST", "/v1/servers/u1/explode", 404),
    ] {
        assert_eq!(
            scenery.client.call(method, path, &Value::Null).await.status,
            status,
            "{method} {path}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn every_answer_has_the_cross_origin_headers_once() {
    let scenery = Scenery::new();
    for (method, path, status) in [
        ("GET", "/v1/servers", 200),
        ("GET", "/v1/x", 404),
        ("OPTIONS", "/v1/servers", 204),
    ] {
        let reply = scenery.client.call(method, path, &Value::Null).await;
        assert_eq!(reply.status, status);
        for (name, value) in [
            ("access-control-allow-origin", "*"),
            (
                "access-control-allow-headers",
                "Content-Type, Authorization",
            ),
            (
                "access-control-allow-methods",
                "GET, POST, OPTIONS, PUT, PATCH, DELETE",
            ),
        ] {
            let all: Vec<_> = reply.headers.get_all(name).iter().collect();
            assert_eq!(all, [value], "{name}");
        }
    }
    assert_eq!(
        scenery
            .as_token(None)
            .call("OPTIONS", "/v1/servers", &Value::Null)
            .await
            .status,
        204
    );
}

#[tokio::test(start_paused = true)]
async fn a_configured_url_is_the_root_of_every_href() {
    let scenery =
        Scenery::with("public_url: https://cloud.example/\nmachines: [{name: a, uuid: u1}]");
    assert_eq!(
        scenery.get("/v1/servers").await[0]["href"],
        "https://cloud.example/v1/servers/u1"
    );
}

#[tokio::test(start_paused = true)]
async fn the_cloud_can_be_slow_to_show_what_happened() {
    let scenery = Scenery::new();
    let second = Duration::from_secs(1);
    scenery.cloud.set_visibility_lag(10 * second, 30 * second);
    let made = scenery
        .post("/v1/servers", server("a", json!({})))
        .await
        .json();
    let path = path_of(&made);
    let seen = async || {
        let listed = scenery.get("/v1/servers").await.as_array().unwrap().len() == 1;
        assert_eq!(
            listed,
            scenery.client.get(&path).await.status == 200,
            "list and item agree"
        );
        listed
    };
    assert!(!seen().await);
    tokio::time::sleep(9 * second).await;
    assert!(!seen().await);
    tokio::time::sleep(second).await;
    assert!(seen().await);
    assert_eq!(scenery.delete(&path).await.status, 204);
    assert_eq!(
        scenery.power(&made),
        None,
        "the machine itself is gone at once"
    );
    assert_refused(&scenery.delete(&path).await, 404, "Not found.");
    tokio::time::sleep(29 * second).await;
    assert!(seen().await);
    tokio::time::sleep(second).await;
    assert!(!seen().await);
}

#[tokio::test(start_paused = true)]
async fn a_list_can_be_stale() {
    let scenery = Scenery::with("machines: [{name: a, uuid: u1}, {name: b, uuid: u2}]");
    let both = scenery.get("/v1/servers").await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    scenery.cloud.destroy("u1").unwrap();
    let age = Duration::from_secs(30);
    let stale = Rule::new(Action::StaleList { age })
        .on("GET", "/v1/servers")
        .times(1);
    scenery.world.faults.add(stale).unwrap();
    assert_eq!(scenery.get("/v1/servers").await, both);
    assert_eq!(
        scenery.client.get("/v1/servers/u1").await.status,
        404,
        "items are not stale"
    );
    assert_eq!(
        scenery.get("/v1/servers").await.as_array().unwrap().len(),
        1
    );
}

#[tokio::test(start_paused = true)]
async fn a_lost_answer_leaves_the_server_made() {
    let scenery = Scenery::new();
    scenery
        .world
        .faults
        .add(Rule::new(Action::LostAnswer).on("POST", "/v1/servers"))
        .unwrap();
    let body = server("a", json!({})).to_string();
    assert!(
        scenery
            .client
            .attempt("POST", "/v1/servers", &body)
            .await
            .is_err()
    );
    assert_eq!(
        scenery.get("/v1/servers").await.as_array().unwrap().len(),
        1
    );
    let lost = scenery.world.journal.matching(&Filter::any().mutating());
    assert_eq!((lost[0].status, lost[0].caller.as_str()), (0, "default"));
}

#[tokio::test(start_paused = true)]
async fn the_handle_adds_stops_renames_moves_and_destroys() {
    let scenery = Scenery::new();
    let cloud = &scenery.cloud;
    let uuid = cloud.add_server(MachineSpec::named("a")).unwrap();
    let id = format!("cloudscale://{uuid}");
    let machines = &scenery.world.machines;
    assert_eq!(machines.power(&id), Some(Power::Running), "there at once");
    cloud.stop(&uuid).unwrap();
    assert_eq!(
        (machines.power(&id), cloud.servers()[0].status),
        (Some(Power::Off), Status::Stopped)
    );
    cloud.start("a").unwrap();
    assert_eq!(machines.power(&id), Some(Power::Running));
    cloud.rename(&uuid, "b c").unwrap();
    cloud.migrate(&uuid, "lpg1").unwrap();
    let shown = &cloud.servers()[0];
    assert_eq!((shown.name.as_str(), shown.zone.as_str()), ("b c", "lpg1"));
    assert!(shown.addresses[0].to_string().starts_with("198.19."));
    let broken = [("interfaces".to_owned(), json!("nonsense"))]
        .into_iter()
        .collect();
    cloud.deform(&uuid, broken).unwrap();
    assert_eq!(
        scenery.get("/v1/servers").await[0]["interfaces"],
        "nonsense"
    );
    cloud.destroy(&uuid).unwrap();
    assert_eq!((machines.power(&id), cloud.servers().len()), (None, 0));
    assert_eq!(
        cloud.stop("x").unwrap_err().to_string(),
        "cannot stop the machine \"x\": there is none of that uuid, nor exactly one of that name"
    );
    for spec in [
        MachineSpec::named("a").zone("zrh1"),
        MachineSpec::named("a").flavor("huge"),
        MachineSpec::named("a").interface("nowhere", None),
    ] {
        assert!(cloud.add_server(spec).is_err());
    }
}

#[tokio::test(start_paused = true)]
async fn the_control_handle_works_over_http() {
    let scenery = Scenery::new();
    let added = scenery
        .post(
            "/_sim/add",
            json!({"name": "w", "count": 3, "zone": "lpg1"}),
        )
        .await;
    assert_eq!(added.json()["added"].as_array().unwrap().len(), 3);
    for (verb, body) in [
        ("stop", json!({"machine": "w-1"})),
        ("rename", json!({"machine": "w-2", "name": "x"})),
        ("migrate", json!({"machine": "x", "zone": "rma1"})),
        ("destroy", json!({"machine": "w-3"})),
    ] {
        let reply = scenery.post(&format!("/_sim/{verb}"), body).await;
        assert_eq!(reply.status, 200, "{verb}: {}", reply.text());
    }
    let state = scenery.get("/_sim/state").await;
    let servers = state["projects"]["default"]["servers"]
        .as_array()
        .unwrap()
        .clone();
    let summary: Vec<_> = servers
        .iter()
        .map(|s| {
            (
                s["name"].clone(),
                s["status"].clone(),
                s["zone"]["slug"].clone(),
            )
        })
        .collect();
    assert_eq!(
        summary,
        [
            (json!("w-1"), json!("stopped"), json!("lpg1")),
            (json!("x"), json!("running"), json!("rma1"))
        ]
    );
    for (verb, body, fragment) in [
        (
            "explode",
            json!({}),
            "allowed are add, stop, start, destroy, rename, migrate",
        ),
        (
            "add",
            json!({"nmae": "x"}),
            "unknown field `nmae`, expected one of `name`",
        ),
        ("add", json!({}), "missing field `name`"),
        (
            "stop",
            json!({"machine": "x", "hard": true}),
            "unknown field `hard`, expected `machine`",
        ),
        (
            "stop",
            json!({"machine": "nobody"}),
            "there is none of that uuid",
        ),
        (
            "migrate",
            json!({"machine": "x", "zone": "zrh1"}),
            "Choose one of: rma1, lpg1",
        ),
    ] {
        let reply = scenery.post(&format!("/_sim/{verb}"), body).await;
        assert_refused(&reply, 400, fragment);
    }
}

#[tokio::test(start_paused = true)]
async fn a_reset_sets_the_scene_anew() {
    let scenery = Scenery::with(
        "machines: [{name: a, uuid: u1}]\nfaults: [{name: slow, action: delay, delay: 1s, path: /v1/images}]",
    );
    scenery.cloud.destroy("u1").unwrap();
    scenery
        .cloud
        .add_server(MachineSpec::named("b").uuid("u2"))
        .unwrap();
    scenery.world.faults.clear();
    assert_eq!(scenery.post("/_sim/reset", Value::Null).await.status, 200);
    let names: Vec<_> = scenery
        .cloud
        .servers()
        .into_iter()
        .map(|s| s.name)
        .collect();
    assert_eq!(names, ["a"]);
    assert_eq!(scenery.world.machines.power("cloudscale://u2"), None);
    assert_eq!(
        scenery.world.machines.power("cloudscale://u1"),
        Some(Power::Running)
    );
    assert_eq!(scenery.world.faults.rules()[0].0.name, "slow");
}

#[tokio::test(start_paused = true)]
async fn two_thousand_servers_are_added_and_listed_quickly() {
    let scenery = Scenery::with("machines: [{name: node, count: 2000}]");
    let list = scenery.get("/v1/servers").await;
    let list = list.as_array().unwrap();
    assert_eq!(list.len(), 2000);
    let addresses: std::collections::BTreeSet<_> = list
        .iter()
        .map(|s| s["interfaces"][0]["addresses"][0]["address"].to_string())
        .collect();
    assert_eq!(
        addresses.len(),
        2000,
        "every server has an address of its own"
    );
    assert_eq!(list[1999]["name"], "node-2000");
}

#[tokio::test]
async fn the_cloud_answers_on_a_real_socket() {
    let world = World::real();
    let cloud = Cloudscale::new(&world, Config::default());
    let address = "127.0.0.1:0".parse().unwrap();
    let server_running = Server::builder(&world, cloud.clone())
        .plain(address)
        .await
        .unwrap();
    let place = Place::Socket(server_running.local_addr().unwrap());
    let client = Client::new(place, Some(DEFAULT_TOKEN));
    let made = client
        .call("POST", "/v1/servers", &server("a", json!({})))
        .await
        .json();
    assert_eq!(client.get(&path_of(&made)).await.json(), made);
    server_running.shutdown().await;
}

/// One scripted run under a paused clock.
async fn story(seed: u64) -> String {
    let world = World::simulated(seed);
    let cloud = Cloudscale::new(&world, Config::default());
    let _server = Server::builder(&world, cloud.clone()).pipe(AUTHORITY);
    let client = Client::new(Place::Pipe(world.clone(), AUTHORITY), Some(DEFAULT_TOKEN));
    for rule in [
        Rule::new(Action::Reset)
            .on("GET", "*")
            .probability(0.3)
            .named("cut"),
        Rule::new(Action::Delay {
            least: Duration::ZERO,
            most: Duration::from_secs(5),
        })
        .named("slow"),
        Rule::new(Action::LostAnswer)
            .on("POST", "*")
            .probability(0.3)
            .named("lost"),
    ] {
        world.faults.add(rule).unwrap();
    }
    let callers = (0..4).map(|number| {
        let client = client.clone();
        async move {
            for step in 0..5 {
                let body = server(&format!("w-{number}-{step}"), json!({})).to_string();
                let _ = client.attempt("POST", "/v1/servers", &body).await;
                let list = client.attempt("GET", "/v1/servers", "").await;
                let list = list.map(|reply| reply.json()).unwrap_or_default();
                for found in list.as_array().cloned().unwrap_or_default() {
                    let _ = client.attempt("GET", &path_of(&found), "").await;
                }
            }
        }
    });
    futures::future::join_all(callers).await;
    format!("{}{}", world.journal.transcript(), cloud.state())
}

#[tokio::test(start_paused = true)]
async fn the_same_seed_gives_the_same_transcript() {
    let first = story(42).await;
    assert!(
        first.lines().count() > 50 && first.contains("fault=cut") && first.contains("fault=lost")
    );
    assert_eq!(first, story(42).await);
    assert_ne!(first, story(43).await);
}
