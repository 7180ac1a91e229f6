//! Load balancers in the fixture, and the words that change them over HTTP.

use std::net::IpAddr;

use super::balancers::{MONITORS, NETWORKS, SECOND, balancer};
use super::*;

#[tokio::test(start_paused = true)]
async fn the_fixture_has_load_balancers_and_a_reset_brings_them_back() {
    let sim = Harness::with(&format!(
        "{NETWORKS}
timings: {{load_balancers: {{create: 45s, change: 2s, call: 1500ms, removal: 8s, check: 4s}}}}
load_balancers:
- name: web
  uuid: b1
  tags: {{team: a}}
  vip_addresses: [{{subnet: s1, address: 10.20.0.200}}]
  pools:
  - name: tcp/http
    members: [{{address: 10.20.0.11, protocol_port: 31080}}]
    listeners: [{{protocol_port: 80, allowed_cidrs: [10.0.0.0/8]}}]
    monitor: {{type: http, http: {{url_path: /livez, version: '1.0'}}}}
- {{name: public, uuid: b2, status: degraded}}
floating_ips: [{{address: 203.0.113.77, load_balancer: public}}]"
    ));
    let before = sim.cloud.balancers();
    assert_eq!(
        before[0].vip_addresses,
        ["10.20.0.200".parse::<IpAddr>().unwrap()]
    );
    assert_eq!(before[0].pools[0].members[0].monitor_port, None);
    assert_eq!(
        before[1].floating_ips,
        ["203.0.113.77".parse::<IpAddr>().unwrap()]
    );
    assert_eq!(before[1].status, BalancerStatus::Degraded);
    assert_eq!(sim.cloud.lock().timings.load_balancers.create, 45 * SECOND);
    sim.cloud.remove("b1").unwrap();
    sim.cloud.set_health("10.20.0.11", Some(Health::Down));
    sim.cloud.set_balancer_timings(BalancerTimings::INSTANT);
    assert_eq!(sim.post("/_sim/reset", Value::Null).await.status, 200);
    let after = sim.cloud.balancers();
    assert_eq!(
        (after.len(), after[0].pools[0].members[0].health),
        (2, Health::Up)
    );
    assert_eq!(sim.cloud.lock().timings.load_balancers.create, 45 * SECOND);
    let state = sim.get("/_sim/state").await;
    let project = &state["projects"]["default"];
    for (list, count) in [
        ("load-balancers", 2),
        ("pools", 1),
        ("pool-members", 1),
        ("listeners", 1),
        ("health-monitors", 1),
    ] {
        assert_eq!(project[list].as_array().unwrap().len(), count, "{list}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_words_for_load_balancers_work_over_http() {
    let sim = Harness::balanced("floating_ips: [{address: 203.0.113.77}]");
    let word = async |verb: &str, body: Value| {
        let reply = sim.post(&format!("/_sim/{verb}"), body).await;
        assert_eq!(reply.status, 200, "{verb}: {}", reply.text());
        reply.json()["added"]
            .as_str()
            .unwrap_or_default()
            .to_owned()
    };
    let lb = word(
        "add-load-balancer",
        json!({"name": "lb", "tags": {"a": "b"}}),
    )
    .await;
    let pool = word("add-pool", json!({"to": lb, "add": {"name": "p"}})).await;
    let place = json!({"address": "10.20.0.11", "protocol_port": 80});
    let made = word("add-member", json!({"to": pool, "add": place})).await;
    word(
        "add-listener",
        json!({"to": pool, "add": {"protocol_port": 80}}),
    )
    .await;
    word(
        "edit",
        json!({"id": "lb", "attributes": {"name": "renamed"}}),
    )
    .await;
    word("freeze", json!({"id": lb})).await;
    assert_eq!(sim.cloud.balancers()[0].status, BalancerStatus::Changing);
    word("thaw", json!({"id": lb})).await;
    word("status", json!({"id": lb, "status": "degraded"})).await;
    assert_eq!(sim.cloud.balancers()[0].status, BalancerStatus::Degraded);
    word("status", json!({"id": lb, "status": null})).await;
    word("assign", json!({"address": "203.0.113.77", "to": lb})).await;
    word("health", json!({"member": made, "health": "down"})).await;
    word("quirks", json!({"listeners_survive": true})).await;
    word("fail", json!({"times": 1})).await;
    word("timings", json!({"create": "0s", "check": "0s"})).await;
    word("deform", json!({"id": pool, "members": {"algorithm": 7}})).await;
    let path = format!("/v1/load-balancers/pools/{pool}");
    assert_eq!(sim.get(&path).await["algorithm"], 7);
    let failed = sim
        .create("/v1/load-balancers", balancer(json!({"name": "failed"})))
        .await;
    assert_eq!(failed["status"], "error");
    sim.create(MONITORS, json!({"pool": pool, "type": "tcp"}))
        .await;
    let shown = sim.cloud.balancers().remove(0);
    assert_eq!((&*shown.name, shown.floating_ips.len()), ("renamed", 1));
    assert_eq!(shown.pools[0].members[0].health, Health::Down);
    assert_eq!(
        sim.cloud.lock().timings.load_balancers.change,
        SECOND,
        "what is not named stays"
    );
    assert_eq!(sim.delete(&path).await.status, 204);
    assert_eq!(sim.cloud.balancers()[0].loose_listeners.len(), 1);
    word("remove", json!({"id": lb})).await;
    for (verb, body, fragment) in rows![
        "remove": {"id": lb} => "there is nothing of that uuid";
        "edit": {"id": lb} => "missing field `attributes`";
        "status": {"id": lb, "status": "fine"} =>
            "unknown variant `fine`, expected one of `changing`";
        "timings": {"crate": "1s"} => "unknown field `crate`, expected one of `create`";
        "add-load-balancer": {"name": "x", "pools": [{}]} => "missing field `name`";
        "explode": {} =>
            "allowed are add, stop, start, destroy, rename, migrate, deform, add-load-balancer";
    ] {
        let reply = sim.post(&format!("/_sim/{verb}"), body).await;
        assert_refused(&reply, 400, fragment);
    }
}
