//! Who waits for whom, and what goes when a load balancer goes.

use super::balancers::{
    LISTENERS, MONITORS, NETWORKS, balancer, listener, member, members_of, monitor,
};
use super::*;

#[tokio::test(start_paused = true)]
async fn writes_to_one_load_balancer_wait_for_each_other_and_others_do_not() {
    let sim = Harness::with(&format!(
        "{NETWORKS}timings: {{load_balancers: {{call: 3s}}}}"
    ));
    let one = sim
        .cloud
        .add_balancer(&BalancerSpec::named("one").pool(PoolSpec::named("p")));
    let two = sim.cloud.add_balancer(&BalancerSpec::named("two"));
    let (one, two) = (one.unwrap(), two.unwrap());
    let pool = sim.cloud.balancers()[0].pools[0].uuid.clone();
    let began = tokio::time::Instant::now();
    let timed = |method: &'static str, path: String, body: Value| {
        let client = sim.client.clone();
        async move {
            let reply = client.call(method, &path, &body).await;
            (reply.status, began.elapsed().as_secs())
        }
    };
    let pool_path = format!("/v1/load-balancers/pools/{pool}");
    let body = |lb: &str| json!({"name": "p", "load_balancer": lb, "algorithm": "source_ip", "protocol": "udp"});
    let answers = futures::join!(
        timed("POST", "/v1/load-balancers/pools".to_owned(), body(&one)),
        timed(
            "POST",
            format!("{pool_path}/members"),
            member("10.20.0.11", json!({}))
        ),
        timed(
            "POST",
            LISTENERS.to_owned(),
            json!({"name": "l", "pool": pool, "protocol": "tcp", "protocol_port": 1})
        ),
        timed("PATCH", pool_path.clone(), json!({"tags": {}})),
        timed(
            "PATCH",
            format!("/v1/load-balancers/{one}"),
            json!({"name": "x"})
        ),
        timed("DELETE", pool_path, Value::Null),
        timed("POST", "/v1/load-balancers/pools".to_owned(), body(&two)),
        timed("POST", "/v1/load-balancers".to_owned(), balancer(json!({}))),
        timed("GET", format!("/v1/load-balancers/{one}"), Value::Null),
        timed(
            "POST",
            "/v1/load-balancers/pools".to_owned(),
            body("nobody")
        ),
    );
    assert_eq!(answers.0, (201, 3));
    assert_eq!(answers.1, (201, 6));
    assert_eq!(answers.2, (201, 9));
    assert_eq!(answers.3, (204, 12));
    assert_eq!(answers.4, (204, 15));
    assert_eq!(answers.5, (204, 18));
    assert_eq!(
        answers.6,
        (201, 3),
        "another load balancer has its own queue"
    );
    assert_eq!(answers.7, (201, 3), "a new one has none");
    assert_eq!(answers.8, (200, 0), "readers do not wait");
    assert_eq!(answers.9, (400, 0), "nor do mistakes");
}

#[tokio::test(start_paused = true)]
async fn deleting_takes_everything_along_and_frees_floating_ips() {
    let sim = Harness::balanced("");
    let lb = sim.balancer(json!({})).await;
    let other = sim.balancer(json!({"name": "other"})).await;
    for lb in [&lb, &other] {
        let pool = sim.pool(lb).await;
        sim.create(&members_of(&pool), member("10.20.0.11", json!({})))
            .await;
        sim.create(LISTENERS, listener(&pool, json!({}))).await;
        sim.create(MONITORS, monitor(&pool, json!({}))).await;
    }
    let body = json!({"ip_version": 4, "load_balancer": lb["uuid"]});
    let floating = sim.create("/v1/floating-ips", body).await;
    assert_eq!(sim.cloud.balancers()[0].floating_ips.len(), 1);
    assert_refused(
        &sim.delete("/v1/networks/n1").await,
        400,
        "load balancers attached",
    );
    assert_eq!(sim.delete(&path_of(&lb)).await.status, 204);
    for list in [
        "/v1/load-balancers",
        "/v1/load-balancers/pools",
        LISTENERS,
        MONITORS,
    ] {
        assert_eq!(sim.count(list).await, 1, "{list}");
    }
    let left = sim.get(&path_of(&floating)).await;
    shows!(left, {"load_balancer": null, "next_hop": null});
}

#[tokio::test(start_paused = true)]
async fn floating_ips_move_between_servers_and_load_balancers() {
    let sim = Harness::balanced("machines: [{name: a, uuid: u1}]");
    let lb = sim.balancer(json!({})).await;
    let far = sim.balancer(json!({"name": "far", "zone": "lpg1"})).await;
    let vips = json!({"name": "private", "vip_addresses": [{"subnet": "s1"}]});
    let private = sim.balancer(vips).await;
    let vip = |number: usize| &lb["vip_addresses"][number]["address"];
    for (version, number) in [(4, 0), (6, 1)] {
        let body = json!({"ip_version": version, "load_balancer": lb["uuid"]});
        let made = sim.create("/v1/floating-ips", body).await;
        assert_eq!(&made["next_hop"], vip(number));
        assert_eq!(made["load_balancer"]["name"], "lb");
        shows!(made, {"server": null, "/region/slug": "rma"});
        let path = path_of(&made);
        assert_eq!(sim.patch(&path, json!({"server": "u1"})).await.status, 204);
        let moved = sim.get(&path).await;
        shows!(moved, {"/server/uuid": "u1", "load_balancer": null});
        for (body, fragment) in rows![
            {"load_balancer": far["uuid"]} =>
                "load_balancer: The load balancer is in another region.";
            {"load_balancer": private["uuid"]} =>
                "load_balancer: The load balancer has no public IPv";
            {"load_balancer": null} => "load_balancer: This field may not be null.";
            {"load_balancer": lb["uuid"], "server": "u1"} => "Only one attribute";
        ] {
            assert_refused(&sim.patch(&path, body).await, 400, fragment);
        }
        let back = json!({"load_balancer": lb["uuid"]});
        assert_eq!(sim.patch(&path, back).await.status, 204);
        assert_eq!(&sim.get(&path).await["next_hop"], vip(number), "at once");
        assert_eq!(sim.status(&lb).await, "running");
    }
    let both = json!({"ip_version": 4, "load_balancer": lb["uuid"], "server": "u1"});
    assert_refused(
        &sim.post("/v1/floating-ips", both).await,
        400,
        "not to both",
    );
    let global = json!({"ip_version": 4, "type": "global", "load_balancer": far["uuid"]});
    let global = sim.create("/v1/floating-ips", global).await;
    assert_eq!(
        global["load_balancer"]["uuid"], far["uuid"],
        "a global one goes anywhere"
    );
}
