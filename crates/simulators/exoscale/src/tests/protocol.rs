//! Zones, keys, roles, errors.

use bowline_simulator::journal::Filter;

use super::*;
use crate::config::Key;

const ZONES: &str =
    "zones: [ch-gva-2, at-vie-1]\ninstances: [{name: a}, {name: b, zone: at-vie-1}]";

async fn endpoints(sim: &Harness, host: &str) -> Vec<String> {
    let place = (&sim.world, AUTHORITY);
    let sent = send_by_pipe(place, ("GET", "/v2/zone"), "", &[("host", host)]).await;
    let reply = whole(sent.unwrap()).await.unwrap();
    let zones = reply.json()["zones"].as_array().cloned().unwrap();
    let endpoint = |zone: &Value| zone["api-endpoint"].as_str().unwrap().to_owned();
    zones.iter().map(endpoint).collect()
}

#[tokio::test(start_paused = true)]
async fn zones_tell_their_own_addresses_and_share_nothing() {
    let sim = Harness::with(ZONES);
    assert_eq!(
        endpoints(&sim, "sim.example:1").await,
        [
            "http://sim.example:1/v2",
            "http://sim.example:1/z/at-vie-1/v2"
        ]
    );
    assert_eq!(
        endpoints(&sim, "api-at-vie-1.sim.example").await,
        [
            "http://api-ch-gva-2.sim.example/v2",
            "http://api-at-vie-1.sim.example/v2"
        ]
    );
    let name = |list: Value| list["instances"][0]["name"].clone();
    assert_eq!(name(sim.get("/v2/instance").await), "a");
    assert_eq!(name(sim.get("/z/at-vie-1/v2/instance").await), "b");
    assert_eq!(name(sim.get("/z/ch-gva-2/v2/instance").await), "a");
    assert_eq!(sim.status("GET", "/z/mars/v2/instance").await, 404);
    let made = json!({ "name": "same" });
    let here = sim.done("POST", "/v2/load-balancer", made.clone()).await;
    let operation = sim
        .begin("POST", "/z/at-vie-1/v2/load-balancer", made)
        .await;
    let there = operation["reference"]["id"].as_str().unwrap();
    let path = format!("/v2/operation/{}", operation["id"].as_str().unwrap());
    assert_eq!(sim.status("GET", &path).await, 404);
    assert_eq!(sim.status("GET", &format!("/z/at-vie-1{path}")).await, 200);
    assert_eq!(
        sim.status("GET", &format!("/v2/load-balancer/{there}"))
            .await,
        404
    );
    assert_eq!(
        sim.status("GET", &format!("/v2/load-balancer/{here}"))
            .await,
        200
    );
}

#[tokio::test(start_paused = true)]
async fn a_client_that_does_not_look_at_the_zones_can_be_lost() {
    let sim = Harness::with(&format!("{ZONES}\nquirks: {{every_zone_apart: true}}"));
    let first = &endpoints(&sim, "sim.example").await[0];
    assert_eq!(first, "http://sim.example/z/ch-gva-2/v2");
    assert_eq!(sim.status("GET", "/v2/instance").await, 404);
    assert_eq!(sim.status("GET", "/z/ch-gva-2/v2/instance").await, 200);
    let fixed = Harness::with("public_url: https://cloud.example/");
    assert_eq!(endpoints(&fixed, "x").await, ["https://cloud.example/v2"]);
}

#[tokio::test(start_paused = true)]
async fn the_list_of_zones_is_public_unless_it_is_signed() {
    let mut sim = Harness::with("");
    let open = |target: &'static str| sim.raw("GET", target, "", None);
    assert_eq!(open("/v2/zone").await.unwrap().status, 200);
    refused(
        &open("/v2/instance").await.unwrap(),
        403,
        "Missing authentication",
    );
    refused(
        &open("/v2/nothing").await.unwrap(),
        403,
        "Missing authentication",
    );
    assert_eq!(sim.status("GET", "/v2/zone").await, 200);
    assert_eq!(sim.status("GET", "/v2//zone").await, 404);
    assert_eq!(sim.status("GET", "/v1/zone").await, 404);
    sim.cloud.deny(&["list-zones"]);
    refused(
        &sim.call("GET", "/v2/zone", Value::Null).await,
        403,
        "list-zones",
    );
    "wrong".clone_into(&mut sim.pair.1);
    for target in ["/v2/zone", "/v2/instance"] {
        let reply = sim.call("GET", target, Value::Null).await;
        refused(&reply, 403, "Invalid request signature");
        assert_eq!(
            reply.headers["content-type"],
            "application/json; charset=utf-8"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn keys_are_rotated_and_roles_deny_single_operations() {
    let mut sim = Harness::new();
    let late = sign(
        (DEFAULT_KEY, DEFAULT_SECRET),
        "GET",
        "/v2/instance",
        "",
        1_792_999_999,
    );
    let expired = sim
        .raw("GET", "/v2/instance", "", Some(&late))
        .await
        .unwrap();
    refused(&expired, 403, "expired");
    sim.cloud.deny(&["list-instances", "create-load-balancer"]);
    refused(
        &sim.call("GET", "/v2/instance", Value::Null).await,
        403,
        "list-instances",
    );
    let create = sim
        .call("POST", "/v2/load-balancer", json!({ "name": "a" }))
        .await;
    refused(&create, 403, "create-load-balancer");
    assert_eq!(sim.status("GET", "/v2/instance-pool").await, 200);
    sim.cloud.permit_all();
    assert_eq!(sim.status("GET", "/v2/instance").await, 200);

    let mut narrow = Key::new("new");
    narrow.allowed = Some(["list-instances".to_owned()].into());
    sim.cloud.set_key("EXOnew", narrow);
    assert!(sim.cloud.remove_key(DEFAULT_KEY));
    assert_eq!(sim.status("GET", "/v2/instance").await, 403);
    sim.pair = ("EXOnew".to_owned(), "new".to_owned());
    assert_eq!(sim.status("GET", "/v2/instance").await, 200);
    assert_eq!(sim.status("GET", "/v2/instance-pool").await, 403);
    // The journal tells with which key, and what.
    let calls = sim
        .world
        .journal
        .matching(&Filter::any().operation("list-instances"));
    let calls: Vec<_> = calls
        .iter()
        .map(|it| (it.caller.as_str(), it.status))
        .collect();
    let own = DEFAULT_KEY;
    assert_eq!(
        calls,
        [
            ("", 403),
            (own, 403),
            (own, 200),
            ("", 403),
            ("EXOnew", 200)
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn lists_that_nobody_fills_have_the_right_key() {
    let sim = Harness::with("private_networks: [{name: n, start_ip: 10.0.0.1}]");
    for (path, key, count) in [
        ("instance-type", "instance-types", 12),
        ("template", "templates", 2),
        ("ssh-key", "ssh-keys", 0),
        ("security-group", "security-groups", 0),
        ("anti-affinity-group", "anti-affinity-groups", 0),
        ("elastic-ip", "elastic-ips", 0),
        ("private-network", "private-networks", 1),
        ("instance-pool", "instance-pools", 0),
        ("load-balancer", "load-balancers", 0),
        ("sks-cluster", "sks-clusters", 0),
        ("sks-cluster-version", "sks-cluster-versions", 1),
        ("instance", "instances", 0),
        ("quota", "quotas", 3),
    ] {
        let list = sim.get(&format!("/v2/{path}")).await;
        assert_eq!(
            list[key].as_array().map(Vec::len),
            Some(count),
            "{path}: {list}"
        );
        assert_eq!(list.as_object().unwrap().len(), 1, "{path}");
    }
    let kind = sim.get(&format!("/v2/instance-type/{MEDIUM}")).await;
    shows!(kind, {"family": "standard", "size": "medium"});
    assert_eq!(
        sim.status("GET", "/v2/instance-type/standard.medium").await,
        404
    );
    for (method, path) in [("POST", "zone"), ("DELETE", "instance"), ("GET", "volume")] {
        assert_eq!(
            sim.status(method, &format!("/v2/{path}")).await,
            404,
            "{method} {path}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn an_operation_can_be_read_for_an_hour_and_more() {
    let sim = Harness::new();
    let operation = sim
        .begin("POST", "/v2/load-balancer", json!({ "name": "a" }))
        .await;
    tokio::time::sleep(Duration::from_secs(3700)).await;
    sim.balancer("b").await;
    assert_eq!(sim.progress(&operation).await, "success");
    tokio::time::sleep(Duration::from_secs(7200)).await;
    sim.balancer("c").await;
    let path = format!("/v2/operation/{}", operation["id"].as_str().unwrap());
    assert_eq!(sim.status("GET", &path).await, 404);
}
