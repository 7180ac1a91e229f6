//! Load balancers and their services.

use super::*;
use crate::Ending;

#[tokio::test(start_paused = true)]
async fn a_load_balancer_is_made_gets_its_address_late_and_is_deleted() {
    let sim = Harness::new();
    sim.cloud
        .set_timings(|timings| timings.address = Duration::from_secs(20));
    let body = json!({ "name": "k8s-1", "description": "d", "labels": { "a": "b" } });
    let operation = sim.begin("POST", "/v2/load-balancer", body).await;
    let id = operation["reference"]["id"].as_str().unwrap().to_owned();
    let path = format!("/v2/load-balancer/{id}");
    shows!(operation, {"reference": { "id": id, "link": path, "command": "get-load-balancer" }});
    let shown = sim.get(&path).await;
    shows!(shown, {"state": "creating", "ip": null});
    tokio::time::sleep(Duration::from_secs(20)).await;
    assert_eq!(sim.progress(&operation).await, "success");
    assert_eq!(sim.get(&path).await["ip"], Value::Null);
    tokio::time::sleep(Duration::from_secs(1)).await;
    let shown = sim.get(&path).await;
    assert_eq!(
        shown,
        json!({
            "id": id, "name": "k8s-1", "description": "d", "labels": { "a": "b" },
            "state": "running", "ip": "203.0.113.1", "services": [],
            "created-at": shown["created-at"],
        })
    );
    shows!(sim.get("/v2/load-balancer").await, {"load-balancers": [shown]});

    let operation = sim.begin("DELETE", &path, Value::Null).await;
    assert_eq!(sim.get(&path).await["state"], "deleting");
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(sim.status("GET", &path).await, 404);
    assert_eq!(sim.progress(&operation).await, "success");
    sim.balancer("k8s-1").await;
    // Not given out again.
    assert_eq!(sim.cloud.balancers()[0].ip.to_string(), "203.0.113.2");
    sim.cloud.skip_balancer_addresses(7);
    sim.balancer("k8s-2").await;
    let all = sim.cloud.balancers();
    assert!(all.iter().any(|it| it.ip.to_string() == "203.0.113.10"));
}

#[tokio::test(start_paused = true)]
async fn a_new_load_balancer_can_be_unknown_for_a_while_but_has_its_name() {
    let sim = Harness::new();
    sim.cloud
        .set_timings(|timings| timings.created_invisible = Duration::from_secs(5));
    let id = sim.balancer("a").await;
    let path = format!("/v2/load-balancer/{id}");
    assert_eq!(sim.status("GET", &path).await, 404);
    assert_eq!(sim.status("DELETE", &path).await, 404);
    shows!(sim.get("/v2/load-balancer").await, {"load-balancers": []});
    let again = sim
        .call("POST", "/v2/load-balancer", json!({ "name": "a" }))
        .await;
    refused(
        &again,
        409,
        "Load balancer with name a already exists, the name must be unique",
    );
    tokio::time::sleep(Duration::from_secs(4)).await;
    assert_eq!(sim.status("GET", &path).await, 200);
}

#[tokio::test(start_paused = true)]
async fn a_load_balancer_is_renamed_described_and_reset() {
    let sim = Harness::new();
    let (a, _b) = (sim.balancer("a").await, sim.balancer("b").await);
    let path = format!("/v2/load-balancer/{a}");
    let taken = sim.call("PUT", &path, json!({ "name": "b" })).await;
    refused(&taken, 409, "must be unique");
    sim.done(
        "PUT",
        &path,
        json!({ "description": "one", "labels": { "x": "y" } }),
    )
    .await;
    sim.done("PUT", &path, json!({ "name": "c" })).await;
    let shown = sim.get(&path).await;
    shows!(shown, {"name": "c", "description": "one", "labels": { "x": "y" }});
    sim.done("DELETE", &format!("{path}/description"), Value::Null)
        .await;
    sim.done("DELETE", &format!("{path}/labels"), Value::Null)
        .await;
    let shown = sim.get(&path).await;
    assert_eq!(
        (shown.get("description"), shown.get("labels")),
        (None, None)
    );
    assert_eq!(sim.status("DELETE", &format!("{path}/name")).await, 404);
    for (method, target) in [
        ("GET", format!("/v2/load-balancer/{UNKNOWN}")),
        ("PUT", format!("/v2/load-balancer/{UNKNOWN}")),
        ("DELETE", format!("/v2/load-balancer/{UNKNOWN}")),
        ("GET", "/v2/load-balancer/hcloud:%2F%2F42".to_owned()),
        ("POST", format!("/v2/load-balancer/{UNKNOWN}/service")),
    ] {
        assert_eq!(sim.status(method, &target).await, 404, "{method} {target}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_service_is_added_changed_and_deleted() {
    let sim = Harness::new();
    let id = sim.balancer("a").await;
    let path = format!("/v2/load-balancer/{id}");
    let mut wanted = service("web-80", 80);
    wanted["description"] = json!("");
    let operation = sim
        .begin("POST", &format!("{path}/service"), wanted.clone())
        .await;
    // It is about the load balancer.
    assert_eq!(operation["reference"]["id"], id);
    assert_eq!(sim.get(&path).await["services"][0]["state"], "creating");
    tokio::time::sleep(Duration::from_secs(1)).await;
    let shown = sim.get(&path).await["services"][0].clone();
    wanted.as_object_mut().unwrap().remove("description");
    wanted["id"] = shown["id"].clone();
    wanted["state"] = json!("running");
    let addresses = sim.cloud.instances();
    let health = addresses
        .iter()
        .map(|it| json!({"public-ip": it.public_ip, "status": "success"}));
    wanted["healthcheck-status"] = health.collect();
    assert_eq!(shown, wanted);

    let own = format!("{path}/service/{}", shown["id"].as_str().unwrap());
    assert_eq!(sim.get(&own).await, wanted);
    let check = json!({ "mode": "https", "port": 31000, "uri": "/h", "tls-sni": "a.example" });
    let change = json!({ "description": "front", "healthcheck": check, "target-port": 30081 });
    sim.begin("PUT", &own, change).await;
    let during = sim.get(&own).await;
    shows!(during, {"state": "updating", "target-port": 30080});
    tokio::time::sleep(Duration::from_secs(1)).await;
    let after = sim.get(&own).await;
    shows!(after, {"name": "web-80", "target-port": 30081});
    assert_eq!(after["healthcheck"]["tls-sni"], "a.example");
    // Replaced as a whole.
    let check = json!({ "mode": "tcp", "port": 31000, "uri": "" });
    sim.done("PUT", &own, json!({ "healthcheck": check })).await;
    assert_eq!(
        sim.get(&own).await["healthcheck"],
        json!({ "mode": "tcp", "port": 31000, "interval": 10, "timeout": 5, "retries": 1 })
    );
    sim.done("DELETE", &format!("{own}/description"), Value::Null)
        .await;
    assert_eq!(sim.get(&own).await.get("description"), None);
    sim.begin("DELETE", &own, Value::Null).await;
    assert_eq!(sim.get(&own).await["state"], "deleting");
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(sim.status("GET", &own).await, 404);
    assert_eq!(sim.get(&path).await["services"], json!([]));
}

#[tokio::test(start_paused = true)]
async fn what_is_wrong_with_a_service_is_refused() {
    let sim = Harness::new();
    let id = sim.balancer("a").await;
    let path = format!("/v2/load-balancer/{id}/service");
    let rows = rows![
        { "name": "" } => 400, "name must have";
        { "port": 0 } => 400, "port must be between";
        { "target-port": 0 } => 400, "target-port must be between";
        { "target-port": null } => 400, "target-port is missing";
        { "protocol": "sctp" } => 400, "protocol must be one of tcp, udp";
        { "strategy": "random" } => 400, "strategy must be one of";
        { "colour": "red" } => 400, "colour is not known";
        { "instance-pool": { "id": UNKNOWN } } => 404, UNKNOWN;
        { "healthcheck": { "mode": "tcp" } } => 400, "healthcheck.port is missing";
        { "healthcheck": { "mode": "http", "port": 1 } } => 400, "healthcheck.uri is missing";
        { "healthcheck": { "mode": "tcp", "port": 1, "interval": 4 } } =>
            400, "healthcheck.interval must be between 5 and 300";
        { "healthcheck": { "mode": "tcp", "port": 1, "interval": 5, "timeout": 6 } } =>
            400, "interval must not be less than timeout";
        { "healthcheck": { "mode": "tcp", "port": 1, "retries": 21 } } =>
            400, "healthcheck.retries must be between 1 and 20";
        { "healthcheck": { "mode": "tcp", "port": 1, "tls-sni": "a" } } =>
            400, "tls-sni is only for https";
    ];
    for (change, status, fragment) in rows {
        let mut body = service("web", 80);
        for (name, value) in change.as_object().unwrap() {
            body[name] = value.clone();
        }
        refused(&sim.call("POST", &path, body).await, status, fragment);
    }
    sim.done("POST", &path, service("web", 80)).await;
    let again = sim.call("POST", &path, service("other", 80)).await;
    refused(&again, 409, "80/tcp");
    let mut udp = service("udp", 80);
    udp["protocol"] = json!("udp");
    sim.done("POST", &path, udp).await;
    let shown = sim.get(&format!("/v2/load-balancer/{id}")).await;
    let own = format!("{path}/{}", shown["services"][0]["id"].as_str().unwrap());
    let clash = sim.call("PUT", &own, json!({ "protocol": "udp" })).await;
    refused(&clash, 409, "80/udp");
    let moved = sim
        .call("PUT", &own, json!({ "instance-pool": { "id": POOL } }))
        .await;
    refused(&moved, 400, "instance-pool is not known");
}

#[tokio::test(start_paused = true)]
async fn limits_are_kept() {
    let sim = Harness::new();
    let id = sim.balancer("a").await;
    let path = format!("/v2/load-balancer/{id}/service");
    for port in 1..=10 {
        sim.done("POST", &path, service(&format!("s-{port}"), port))
            .await;
    }
    let eleventh = sim.call("POST", &path, service("s-11", 11)).await;
    refused(&eleventh, 403, "at most 10 services");
    sim.cloud.set_quirks(|quirks| {
        quirks.full_status = 409;
        quirks.most_load_balancers = Some(1);
    });
    let eleventh = sim.call("POST", &path, service("s-11", 11)).await;
    refused(&eleventh, 409, "at most 10 services");
    let second = sim
        .call("POST", "/v2/load-balancer", json!({ "name": "b" }))
        .await;
    refused(&second, 403, "network-load-balancer");
    let quota = sim.get("/v2/quota/network-load-balancer").await;
    assert_eq!(
        quota,
        json!({ "resource": "network-load-balancer", "usage": 1, "limit": 1 })
    );
    let quotas = sim.get("/v2/quota").await;
    assert_eq!(
        quotas["quotas"][0],
        json!({ "resource": "instance", "usage": 2, "limit": -1 })
    );
}

#[tokio::test(start_paused = true)]
async fn operations_fail_time_out_or_never_end_on_demand() {
    let sim = Harness::new();
    let create = || sim.call("POST", "/v2/load-balancer", json!({ "name": "a" }));
    let plan = |ending| sim.cloud.plan("create-load-balancer", ending, Some(1));
    let path = |operation: &Value| format!("/v2/operation/{}", operation["id"].as_str().unwrap());

    plan(Ending::failure("conflict", "m"));
    let operation = create().await.json();
    assert_eq!(sim.cloud.balancers().len(), 1);
    tokio::time::sleep(Duration::from_secs(1)).await;
    let shown = sim.get(&path(&operation)).await;
    shows!(shown, {"state": "failure", "reason": "conflict", "message": "m"});
    assert_eq!(sim.cloud.balancers(), []);

    plan(Ending::failure("busy", "now").after(Duration::ZERO));
    assert_eq!(create().await.json()["state"], "failure");
    plan(Ending::timeout().after(Duration::from_secs(60)));
    let operation = create().await.json();
    tokio::time::sleep(Duration::from_secs(59)).await;
    assert_eq!(sim.progress(&operation).await, "pending");
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(sim.progress(&operation).await, "timeout");
    assert_eq!(sim.cloud.balancers(), []);

    plan(Ending::never());
    let operation = create().await.json();
    tokio::time::sleep(Duration::from_secs(3600)).await;
    assert_eq!(sim.progress(&operation).await, "pending");
    assert_eq!(sim.cloud.balancers()[0].state, "creating");
    sim.cloud.end_operations();
    assert_eq!(sim.progress(&operation).await, "success");
    assert_eq!(sim.cloud.balancers()[0].state, "running");

    sim.cloud.remove_balancer("a").unwrap();
    plan(Ending::success().without_reference().after(Duration::ZERO));
    let operation = create().await.json();
    assert_eq!(
        (operation.get("reference"), &operation["state"]),
        (None, &json!("success"))
    );
    assert_eq!(sim.cloud.balancers()[0].state, "running");
    let id = sim.cloud.balancers()[0].id.clone();
    sim.cloud
        .plan("delete-*", Ending::failure("fault", "").applied(), None);
    let target = format!("/v2/load-balancer/{id}");
    sim.begin("DELETE", &target, Value::Null).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(sim.cloud.balancers(), []);
}

#[tokio::test(start_paused = true)]
async fn a_failed_change_leaves_everything_as_it_was() {
    let sim = Harness::new();
    let id = sim.balancer("a").await;
    let path = format!("/v2/load-balancer/{id}");
    sim.done("POST", &format!("{path}/service"), service("web", 80))
        .await;
    let before = sim.cloud.balancers();
    let own = format!("{path}/service/{}", before[0].services[0].id);
    sim.cloud.plan("*", Ending::failure("fault", "no"), None);
    for (method, target, body) in [
        ("PUT", path.clone(), json!({ "name": "z" })),
        ("DELETE", path.clone(), Value::Null),
        ("DELETE", format!("{path}/labels"), Value::Null),
        ("POST", format!("{path}/service"), service("more", 81)),
        ("PUT", own.clone(), json!({ "port": 82 })),
        ("DELETE", own.clone(), Value::Null),
    ] {
        let operation = sim.begin(method, &target, body).await;
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert_eq!(
            sim.progress(&operation).await,
            "failure",
            "{method} {target}"
        );
        assert_eq!(sim.cloud.balancers(), before, "{method} {target}");
    }
}

#[tokio::test(start_paused = true)]
async fn changes_can_be_made_to_wait_for_each_other() {
    let sim = Harness::new();
    sim.cloud
        .set_quirks(|quirks| quirks.one_change_at_a_time = true);
    let id = sim.balancer("a").await;
    let path = format!("/v2/load-balancer/{id}");
    sim.begin("PUT", &path, json!({ "name": "b" })).await;
    let second = sim
        .call("POST", &format!("{path}/service"), service("web", 80))
        .await;
    assert_eq!(
        (second.status, &second.json()["reason"]),
        (200, &json!("busy"))
    );
    tokio::time::sleep(Duration::from_secs(1)).await;
    sim.done("POST", &format!("{path}/service"), service("web", 80))
        .await;
}
