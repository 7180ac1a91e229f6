//! Load balancers: their life and their status.

use super::*;

/// A network with two subnets, and one in the other zone.
pub(super) const NETWORKS: &str = "networks:\n\
    - {name: k8s, uuid: n1, subnets: [{cidr: 10.20.0.0/24, uuid: s1}, {cidr: 10.30.0.0/24, uuid: s2}]}\n\
    - {name: far, uuid: n2, zone: lpg1, subnets: [{cidr: 10.40.0.0/24, uuid: s3}]}\n";

pub(super) const SECOND: Duration = Duration::from_secs(1);

impl Harness {
    /// A fixture with networks, in which writes to load balancers are answered at once.
    pub(super) fn balanced(more: &str) -> Self {
        let calls = "timings: {load_balancers: {call: 0s}}\n";
        Self::with(&format!("{NETWORKS}{calls}{more}"))
    }

    /// A load balancer that is ready.
    pub(super) async fn balancer(&self, extra: Value) -> Value {
        let made = self.create("/v1/load-balancers", balancer(extra)).await;
        self.cloud
            .thaw_balancer(made["uuid"].as_str().unwrap())
            .unwrap();
        self.get(&path_of(&made)).await
    }

    pub(super) async fn pool(&self, balancer: &Value) -> Value {
        let body = json!({"name": "tcp/http", "load_balancer": balancer["uuid"],
            "algorithm": "round_robin", "protocol": "tcp"});
        self.create("/v1/load-balancers/pools", body).await
    }

    pub(super) async fn status(&self, balancer: &Value) -> String {
        let shown = self.get(&path_of(balancer)).await;
        shown["status"].as_str().unwrap().to_owned()
    }

    pub(super) async fn count(&self, path: &str) -> usize {
        self.get(path).await.as_array().unwrap().len()
    }
}

pub(super) fn with(mut body: Value, extra: Value) -> Value {
    let Value::Object(extra) = extra else {
        panic!("further attributes come as an object");
    };
    for (key, value) in extra {
        body[key] = value;
    }
    body
}

pub(super) fn balancer(extra: Value) -> Value {
    with(
        json!({"name": "lb", "flavor": "lb-standard", "zone": "rma1"}),
        extra,
    )
}

pub(super) fn member(address: &str, extra: Value) -> Value {
    let body = json!({"name": address, "address": address, "subnet": "s1", "protocol_port": 80});
    with(body, extra)
}

pub(super) fn listener(pool: &Value, extra: Value) -> Value {
    let body = json!({"name": "tcp/80", "pool": pool["uuid"], "protocol": "tcp",
        "protocol_port": 80});
    with(body, extra)
}

pub(super) fn monitor(pool: &Value, extra: Value) -> Value {
    with(json!({"pool": pool["uuid"], "type": "tcp"}), extra)
}

pub(super) fn members_of(pool: &Value) -> String {
    format!("{}/members", path_of(pool))
}

pub(super) const LISTENERS: &str = "/v1/load-balancers/listeners";
pub(super) const MONITORS: &str = "/v1/load-balancers/health-monitors";

#[tokio::test(start_paused = true)]
async fn a_load_balancer_has_every_attribute_of_the_real_one() {
    let sim = Harness::balanced("");
    for none in [
        json!({}),
        json!({"vip_addresses": []}),
        json!({"vip_addresses": null}),
    ] {
        let made = sim
            .create(
                "/v1/load-balancers",
                with(balancer(json!({"tags": {"a": "b"}})), none),
            )
            .await;
        assert_eq!(made["status"], "changing");
        assert_eq!(made["zone"], json!({"slug": "rma1"}));
        shows!(made, {"flavor": {"slug": "lb-standard", "name": "LB-Standard"}});
        assert_eq!(made["tags"], json!({"a": "b"}));
        assert_eq!(made["created_at"].as_str().unwrap().len(), 27);
        let vips = made["vip_addresses"].as_array().unwrap();
        let versions: Vec<_> = vips.iter().map(|vip| vip["version"].as_u64()).collect();
        assert_eq!(
            versions,
            [Some(4), Some(6)],
            "a public one of each, IPv4 first"
        );
        let subnet = &vips[0]["subnet"];
        let server = sim.server("a", json!({})).await;
        assert_eq!(
            subnet, &server["interfaces"][0]["addresses"][0]["subnet"],
            "a subnet stub is the same everywhere"
        );
    }
    assert_eq!(
        sim.count("/v1/load-balancers").await,
        3,
        "names are not unique"
    );
    assert_eq!(sim.count("/v1/load-balancers?tag:a=b").await, 3);
    assert_eq!(sim.count("/v1/load-balancers?tag:a=c").await, 0);
    assert_eq!(sim.count("/v1/load-balancers?name=lb").await, 3);
    let plain = json!({"name": "x", "flavor": "lb-standard"});
    let plain = sim.create("/v1/load-balancers", plain).await;
    assert_eq!(plain["zone"]["slug"], "rma1", "the default zone");
}

#[tokio::test(start_paused = true)]
async fn private_addresses_are_taken_and_given_back() {
    let sim = Harness::balanced("");
    let vips = json!({"vip_addresses": [
        {"subnet": "s1", "address": "10.20.0.200"}, {"subnet": "s2"}]});
    let made = sim.balancer(vips).await;
    let shown = made["vip_addresses"].as_array().unwrap();
    assert_eq!(shown[0]["address"], "10.20.0.200");
    assert_eq!(shown[0]["subnet"]["cidr"], "10.20.0.0/24");
    assert_eq!(shown[1]["address"], "10.30.0.11", "chosen");
    for (vips, fragment) in rows![
        [{"subnet": "s1", "address": "10.20.0.200"}] =>
            "is not a valid IP for the specified subnet";
        [{"subnet": "s1", "address": "10.20.0.0"}] => "is not a valid IP for the specified subnet";
        [{"subnet": "s1", "address": "10.30.0.9"}] => "is not a valid IP for the specified subnet";
        [{"subnet": "nonsense"}] => "subnet: Must be a valid UUID.";
        [{"subnet": "7d1f0c9a-2b34-4c56-8d78-9e0f1a2b3c4d"}] => "does not exist";
        [{"address": "10.20.0.9"}] => "subnet: This field is required.";
        [{"subnet": "s3"}] => "network: The network is in zone lpg1, not in rma1.";
        "s1" => "vip_addresses: Expected a list";
        ["s1"] => "vip_addresses: Expected a dictionary.";
        [{"subnet": "s2"}, {"subnet": "s1", "address": "10.20.0.0"}] => "is not a valid IP";
    ] {
        let reply = sim
            .post(
                "/v1/load-balancers",
                balancer(json!({"vip_addresses": vips})),
            )
            .await;
        assert_refused(&reply, 400, fragment);
    }
    assert_refused(&sim.delete("/v1/subnets/s1").await, 400, "in use");
    assert_refused(
        &sim.delete("/v1/networks/n1").await,
        400,
        "There are load balancers attached to this network.",
    );
    assert_eq!(sim.delete(&path_of(&made)).await.status, 204);
    let again = json!({"vip_addresses": [{"subnet": "s1", "address": "10.20.0.200"}]});
    let again = sim.balancer(again).await;
    assert_eq!(sim.delete(&path_of(&again)).await.status, 204);
    assert_eq!(
        sim.delete("/v1/networks/n1").await.status,
        204,
        "right after"
    );
}

#[tokio::test(start_paused = true)]
async fn a_bad_load_balancer_is_refused_field_by_field() {
    let sim = Harness::balanced("quirks: {most_load_balancers: 1}");
    for (extra, fragment) in rows![
        {"name": null} => "name: This field is required.";
        {"name": ""} => "name: This field may not be blank.";
        {"flavor": null} => "flavor: This field is required.";
        {"flavor": "lb-large"} => "flavor: \"lb-large\" is not a valid choice.";
        {"zone": "zrh1"} => "zone: \"zrh1\" is not a valid choice. Choose one of: rma1, lpg1";
        {"tags": {"a b": ""}} => "tags: \"a b\" is not a valid tag key";
    ] {
        let reply = sim.post("/v1/load-balancers", balancer(extra)).await;
        assert_refused(&reply, 400, fragment);
    }
    assert_eq!(sim.count("/v1/load-balancers").await, 0, "nothing was made");
    let made = sim.balancer(json!({})).await;
    let reply = sim.post("/v1/load-balancers", balancer(json!({}))).await;
    assert_refused(
        &reply,
        400,
        "detail: The quota of load balancers is exhausted.",
    );
    let path = path_of(&made);
    for (body, fragment) in rows![
        {"flavor": "lb-standard"} =>
            "flavor: This attribute cannot be changed; only name, tags can.";
        {"zone": "lpg1"} => "zone: This attribute cannot be changed";
        {"vip_addresses": []} => "vip_addresses: This attribute cannot be changed";
        {"name": "x", "tags": {}} => "Only one attribute";
    ] {
        assert_refused(&sim.patch(&path, body).await, 400, fragment);
    }
    for body in [
        json!({}),
        json!({"name": "renamed"}),
        json!({"tags": {"k": "v"}}),
    ] {
        assert_eq!(sim.patch(&path, body).await.status, 204);
        assert_eq!(
            sim.status(&made).await,
            "running",
            "nothing has to be applied"
        );
    }
    let shown = sim.get(&path).await;
    shows!(shown, {"name": "renamed", "tags": {"k": "v"}});
    assert_eq!(
        sim.cloud.balancers()[0].changes,
        2,
        "an empty PATCH changes nothing"
    );
}

#[tokio::test(start_paused = true)]
async fn a_new_load_balancer_is_changing_and_takes_no_children() {
    let sim = Harness::balanced("");
    let made = sim.create("/v1/load-balancers", balancer(json!({}))).await;
    let body = json!({"name": "p", "load_balancer": made["uuid"], "algorithm": "round_robin",
        "protocol": "tcp"});
    let early = sim.post("/v1/load-balancers/pools", body.clone()).await;
    assert_refused(
        &early,
        400,
        "detail: The load balancer is still being created.",
    );
    let early = sim.delete(&path_of(&made)).await;
    assert_refused(
        &early,
        400,
        "detail: The load balancer is still being created.",
    );
    tokio::time::sleep(4999 * SECOND / 1000).await;
    assert_eq!(sim.status(&made).await, "changing");
    tokio::time::sleep(SECOND / 1000).await;
    assert_eq!(sim.status(&made).await, "running");
    assert_eq!(sim.post("/v1/load-balancers/pools", body).await.status, 201);
    assert_eq!(
        sim.delete(&path_of(&made)).await.status,
        204,
        "although it changes"
    );
    assert_refused(&sim.client.get(&path_of(&made)).await, 404, "Not found.");
    assert_refused(&sim.delete(&path_of(&made)).await, 404, "Not found.");
}

#[tokio::test(start_paused = true)]
async fn every_write_to_a_child_makes_the_load_balancer_busy_and_more_are_taken_meanwhile() {
    let sim = Harness::balanced("");
    let lb = sim.balancer(json!({})).await;
    let pool = sim.pool(&lb).await;
    assert_eq!(sim.status(&lb).await, "changing");
    let made = sim
        .create(&members_of(&pool), member("10.20.0.11", json!({})))
        .await;
    let heard = sim.create(LISTENERS, listener(&pool, json!({}))).await;
    let watched = sim.create(MONITORS, monitor(&pool, json!({}))).await;
    for (thing, change) in [
        (&pool, json!({"name": "x"})),
        (&made, json!({"enabled": false})),
        (&heard, json!({"allowed_cidrs": ["10.0.0.0/8"]})),
        (&watched, json!({"delay_s": 9})),
    ] {
        tokio::time::sleep(SECOND).await;
        assert_eq!(sim.status(&lb).await, "running");
        for nothing in [json!({}), json!({"http": {}})] {
            assert_eq!(sim.patch(&path_of(thing), nothing).await.status, 204);
            assert_eq!(sim.status(&lb).await, "running", "nothing changed");
        }
        assert_eq!(sim.patch(&path_of(thing), change).await.status, 204);
        assert_eq!(sim.status(&lb).await, "changing");
    }
    for thing in [&made, &watched, &heard, &pool] {
        tokio::time::sleep(SECOND).await;
        assert_eq!(sim.status(&lb).await, "running");
        assert_eq!(sim.delete(&path_of(thing)).await.status, 204);
        assert_eq!(sim.status(&lb).await, "changing");
    }
    assert_eq!(sim.cloud.balancers()[0].changes, 12);
}
