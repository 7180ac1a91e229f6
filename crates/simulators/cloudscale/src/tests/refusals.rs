//! What the API does not take from those who make or change children of a load balancer.

use super::balancers::{LISTENERS, MONITORS, listener, member, members_of, monitor, with};
use super::*;

const POOLS: &str = "/v1/load-balancers/pools";

/// A load balancer with one child of each kind.
struct Family {
    sim: Harness,
    balancer: Value,
    pool: Value,
    member: Value,
    listener: Value,
    monitor: Value,
}

impl Family {
    async fn new() -> Self {
        let sim = Harness::balanced("");
        let balancer = sim.balancer(json!({})).await;
        let pool = sim.pool(&balancer).await;
        let first = member("10.20.0.11", json!({}));
        let member = sim.create(&members_of(&pool), first).await;
        let listener = sim.create(LISTENERS, listener(&pool, json!({}))).await;
        let monitor = sim.create(MONITORS, monitor(&pool, json!({}))).await;
        Self {
            sim,
            balancer,
            pool,
            member,
            listener,
            monitor,
        }
    }

    /// Every row must be refused, and nothing else may have happened.
    async fn refuses(&self, path: &str, body: impl Fn(Value) -> Value, rows: &[(Value, &str)]) {
        for (extra, fragment) in rows {
            let reply = self.sim.post(path, body(extra.clone())).await;
            assert_refused(&reply, 400, fragment);
        }
        assert_eq!(self.sim.cloud.balancers()[0].changes, 4);
    }

    async fn keeps(&self, thing: &Value, rows: &[(Value, &str)]) {
        let before = self.sim.get(&path_of(thing)).await;
        for (body, fragment) in rows {
            let reply = self.sim.patch(&path_of(thing), body.clone()).await;
            assert_refused(&reply, 400, fragment);
        }
        assert_eq!(self.sim.get(&path_of(thing)).await, before);
    }

    async fn takes(&self, thing: &Value, rows: &[(&str, Value)]) {
        let path = path_of(thing);
        for (attribute, value) in rows {
            let reply = self.sim.patch(&path, json!({*attribute: value})).await;
            assert_eq!(reply.status, 204, "{attribute}: {}", reply.text());
            assert_eq!(&self.sim.get(&path).await[attribute], value);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_bad_pool_is_refused_field_by_field() {
    let family = Family::new().await;
    let body = |extra| {
        let body = json!({"name": "p", "load_balancer": family.balancer["uuid"],
            "algorithm": "round_robin", "protocol": "tcp"});
        with(body, extra)
    };
    let rows = rows![
        {"name": ""} => "name: This field may not be blank.";
        {"load_balancer": "x"} => "load_balancer: \"x\" does not exist.";
        {"load_balancer": null} => "load_balancer: This field is required.";
        {"algorithm": "robin_round"} => "algorithm: Expect one of: round_robin";
        {"algorithm": null} => "algorithm: This field is required.";
        {"protocol": "sctp"} => "protocol: Expect one of: tcp, proxy, proxyv2, udp";
    ];
    family.refuses(POOLS, body, &rows).await;
}

#[tokio::test(start_paused = true)]
async fn a_bad_member_is_refused_field_by_field() {
    let family = Family::new().await;
    let between = "must be between 1 and 65535.";
    let rows = rows![
        {"address": "10.20.0.11"} => "detail: A member with this address and protocol_port exists";
        {"address": "nonsense"} => "address: Enter a valid IPv4";
        {"address": null} => "address: This field is required.";
        {"subnet": null} => "subnet: This field is required.";
        {"subnet": "x"} => "subnet: Must be a valid UUID.";
        {"subnet": "s3"} => "subnet: The subnet is not in the load balancer's zone rma1.";
        {"protocol_port": null} => "protocol_port: This field is required.";
        {"protocol_port": 0} => between;
        {"protocol_port": -1} => between;
        {"monitor_port": 65536} => between;
        {"enabled": "no"} => "enabled: Must be a valid boolean.";
    ];
    let body = |extra| member("10.20.0.12", extra);
    family.refuses(&members_of(&family.pool), body, &rows).await;
}

#[tokio::test(start_paused = true)]
async fn a_bad_listener_is_refused_field_by_field() {
    let family = Family::new().await;
    let cidr = "allowed_cidrs: Enter a valid network address in CIDR notation.";
    let rows = rows![
        {"protocol_port": 80} => "detail: A listener with this protocol and protocol_port exists";
        {"pool": "x"} => "pool: \"x\" does not exist.";
        {"pool": null} => "pool: This field is required.";
        {"protocol": "sctp"} => "protocol: Expect one of: tcp, udp";
        {"protocol_port": 70000} => "The protocol_port must be between";
        {"protocol_port": "x"} => "protocol_port: A valid integer is required.";
        {"allowed_cidrs": ["1.1.1.1"]} => cidr;
        {"allowed_cidrs": ["10.0.0.1/24"]} => cidr;
        {"timeout_client_data_ms": 0} => "timeout_client_data_ms: Must be between";
    ];
    let body = |extra| with(listener(&family.pool, json!({"protocol_port": 81})), extra);
    family.refuses(LISTENERS, body, &rows).await;
}

#[tokio::test(start_paused = true)]
async fn a_bad_monitor_is_refused_field_by_field() {
    let family = Family::new().await;
    let rows = rows![
        {} => "detail: A health monitor of this pool exists already.";
        {"pool": "x"} => "pool: \"x\" does not exist.";
        {"type": "gopher"} => "type: Expect one of: ping, tcp, http";
        {"type": null} => "type: This field is required.";
        {"delay_s": 301} => "delay_s: Must be between 1 and 300.";
        {"up_threshold": 11} => "up_threshold: Must be between 1 and 10.";
        {"timeout_s": 3} => "timeout_s: The timeout_s must not be greater than delay_s.";
        {"type": "udp-connect"} => "delay_s: The delay_s of udp-connect must be at least 3.";
        {"http": {"method": "GET"}} => "http: A monitor of type tcp has no HTTP options.";
    ];
    let body = |extra| monitor(&family.pool, extra);
    family.refuses(MONITORS, body, &rows).await;
    let rows = rows![
        {"host": "a.b", "version": "1.0"} =>
            "The host argument can not be used with HTTP version 1.0";
        {"version": "2"} => "version: Expect one of: 1.0, 1.1";
        {"method": "BREW"} => "method: Expect one of";
        {"expected_codes": []} => "expected_codes: Expect a list of status codes";
        {"expected_codes": ["200-204", "301"]} => "expected_codes: Expect a list";
        {"expected_codes": ["20"]} => "expected_codes: Expect a list";
        {"url_path": "health"} => "url_path: The path must begin with /.";
        {"colour": "red"} => "colour: There is no such attribute.";
        "x" => "http: Expected a dictionary.";
    ];
    let body = |http| monitor(&family.pool, json!({"type": "http", "http": http}));
    family.refuses(MONITORS, body, &rows).await;
}

#[tokio::test(start_paused = true)]
async fn one_attribute_of_a_child_can_be_changed_at_a_time() {
    let family = Family::new().await;
    let tags = || ("tags", json!({"k": "v"}));
    family
        .takes(&family.pool, &[("name", json!("tcp/web")), tags()])
        .await;
    let rows = [("name", json!("m")), ("enabled", json!(false)), tags()];
    family.takes(&family.member, &rows).await;
    let rows = [
        ("name", json!("l")),
        ("allowed_cidrs", json!(["2001:db8::/32", "10.0.0.0/8"])),
        ("allowed_cidrs", json!([])),
        ("timeout_client_data_ms", json!(1)),
        ("timeout_member_connect_ms", json!(2)),
        ("timeout_member_data_ms", json!(3)),
        tags(),
    ];
    family.takes(&family.listener, &rows).await;
    let rows = [
        ("delay_s", json!(9)),
        ("timeout_s", json!(8)),
        ("up_threshold", json!(7)),
        ("down_threshold", json!(6)),
        tags(),
    ];
    family.takes(&family.monitor, &rows).await;
    let mixed = json!({"delay_s": 20, "http": {}});
    let path = path_of(&family.monitor);
    let reply = family.sim.patch(&path, mixed).await;
    assert_eq!(
        reply.status, 204,
        "an empty http beside another attribute does no harm"
    );
    assert_eq!(family.sim.get(&path).await["delay_s"], 20);
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_changed_stays_as_it_is() {
    let family = Family::new().await;
    let rows = rows![
        {"algorithm": "source_ip"} => "only name, tags can";
        {"protocol": "udp"} => "protocol: This attribute cannot be changed";
        {"name": "x", "tags": {}} => "Only one attribute";
    ];
    family.keeps(&family.pool, &rows).await;
    let rows = rows![
        {"address": "10.20.0.12"} => "only name, enabled, tags can";
        {"protocol_port": 1} => "protocol_port: This attribute cannot be changed";
        {"monitor_port": 1} => "monitor_port: This attribute cannot be changed";
        {"subnet": "s2"} => "subnet: This attribute cannot be changed";
        {"name": "x", "enabled": true} => "Only one attribute";
    ];
    family.keeps(&family.member, &rows).await;
    let rows = rows![
        {"pool": family.pool["uuid"]} => "pool: This attribute cannot be changed";
        {"protocol_port": 1} => "protocol_port: This attribute cannot be changed";
        {"allowed_cidrs": ["1.1.1.1"]} => "Enter a valid network address";
        {"timeout_member_data_ms": 0} => "timeout_member_data_ms: Must be between";
        {"name": "x", "allowed_cidrs": []} => "Only one attribute";
    ];
    family.keeps(&family.listener, &rows).await;
    let rows = rows![
        {"type": "ping"} => "type: This attribute cannot be changed";
        {"timeout_s": 3} => "timeout_s: The timeout_s must not be greater";
        {"delay_s": 20, "timeout_s": 1} => "Only one attribute";
        {"http": {"method": "HEAD"}} => "http: A monitor of type tcp has no";
    ];
    family.keeps(&family.monitor, &rows).await;
    let uuid = family.member["uuid"].as_str().unwrap();
    let elsewhere = format!("/v1/load-balancers/pools/x/members/{uuid}");
    let reply = family.sim.client.get(&elsewhere).await;
    assert_refused(&reply, 404, "Not found.");
    let reply = family.sim.patch(&elsewhere, json!({})).await;
    assert_refused(&reply, 404, "Not found.");
}
