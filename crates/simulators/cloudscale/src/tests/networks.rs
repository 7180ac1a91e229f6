//! Networks, interfaces and floating IPs.

use super::*;

#[tokio::test(start_paused = true)]
async fn interfaces_can_be_asked_for_in_every_form() {
    let sim = Harness::new();
    let network = sim.create("/v1/networks", json!({"name": "k8s"})).await;
    let bare = json!({"name": "bare", "auto_create_ipv4_subnet": false});
    let bare = sim.create("/v1/networks", bare).await;
    assert_eq!(bare["subnets"], json!([]));
    let wanted = json!({"network": bare["uuid"], "cidr": "192.168.7.0/24"});
    let subnet = sim.create("/v1/subnets", wanted).await;
    let stub = &sim.get(&path_of(&bare)).await["subnets"][0];
    let (n, s) = (&network["uuid"], &subnet["uuid"]);
    for (interfaces, expected) in rows![
        [{"network": "public"}] => json!(["public", 2]);
        [{"network": n}] => json!(["private", 1]);
        [{"network": n, "addresses": []}] => json!(["private", 0]);
        [{"addresses": [{"subnet": s}]}] => json!(["private", 1]);
        [{"addresses": [{"subnet": s, "address": "192.168.7.7"}]}] => json!(["private", 1]);
        [{"network": bare["uuid"], "addresses": [{"address": "192.168.7.8"}]}] =>
            json!(["private", 1]);
        [{"network": n}, {"network": "public"}] => json!(["private", 1, "public", 2]);
        [] => json!([]);
    ] {
        let made = sim.server("a", json!({"interfaces": interfaces})).await;
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
                shows!(address, {"gateway": null, "reverse_ptr": null});
            }
        }
    }
    for (interfaces, fragment) in rows![
        [{"addresses": [{"subnet": s, "address": "192.168.7.7"}]}] =>
            "is not a valid IP for the specified subnet";
        [{"addresses": [{"subnet": s, "address": "192.168.7.0"}]}] =>
            "is not a valid IP for the specified subnet";
        [{"addresses": [{"subnet": s, "address": "10.1.1.1"}]}] =>
            "is not a valid IP for the specified subnet";
        [{"addresses": [{"subnet": s, "address": "nonsense"}]}] => "Enter a valid IPv4";
        [{"network": n, "addresses": [{"subnet": s}]}] => "does not belong to the network";
    ] {
        let reply = sim
            .post(
                "/v1/servers",
                server("a", json!({"interfaces": interfaces})),
            )
            .await;
        assert_refused(&reply, 400, fragment);
    }
    let elsewhere = json!({"zone": "lpg1", "interfaces": [{"network": n}]});
    let reply = sim.post("/v1/servers", server("a", elsewhere)).await;
    assert_refused(&reply, 400, "The network is in zone rma1");
}

#[tokio::test(start_paused = true)]
async fn interfaces_can_be_replaced_and_survive_a_refused_change() {
    let sim = Harness::with(
        "networks: [{name: k8s, uuid: n1, subnets: [{cidr: 10.0.0.0/24, uuid: s1}]}]\nmachines: [{name: a, uuid: u1}]",
    );
    let before = sim.get("/v1/servers/u1").await;
    let bad = json!({"interfaces": [
        {"network": "n1", "addresses": [{"address": "10.0.0.50"}]}, {"network": "nowhere"}]});
    assert_refused(
        &sim.patch("/v1/servers/u1", bad).await,
        400,
        "does not exist",
    );
    assert_eq!(sim.get("/v1/servers/u1").await, before);
    // The refused request gave its address back.
    let good = json!({"interfaces": [
        {"network": "n1", "addresses": [{"address": "10.0.0.50"}]}]});
    assert_eq!(sim.patch("/v1/servers/u1", good).await.status, 204);
    let after = sim.get("/v1/servers/u1").await;
    shows!(after, {"/interfaces/0/addresses/0/address": "10.0.0.50"});
    assert_refused(
        &sim.delete("/v1/networks/n1").await,
        400,
        "servers attached",
    );
    assert_refused(&sim.delete("/v1/subnets/s1").await, 400, "in use");
    sim.cloud.destroy("u1").unwrap();
    assert_eq!(sim.delete("/v1/networks/n1").await.status, 204);
    assert_refused(&sim.client.get("/v1/subnets/s1").await, 404, "Not found.");
}

#[tokio::test(start_paused = true)]
async fn networks_and_subnets_are_made_changed_and_checked() {
    let sim = Harness::new();
    let network = sim
        .create("/v1/networks", json!({"name": "n", "tags": {"a": "b"}}))
        .await;
    shows!(network, {"mtu": 9000, "/zone/slug": "rma1"});
    assert_eq!(network["subnets"].as_array().unwrap().len(), 1);
    let path = path_of(&network);
    for body in [
        json!({"name": "m"}),
        json!({"mtu": 1500}),
        json!({"tags": {}}),
    ] {
        assert_eq!(sim.patch(&path, body).await.status, 204);
    }
    let shown = sim.get(&path).await;
    shows!(shown, {"name": "m", "mtu": 1500, "tags": {}});
    let subnet = |extra: Value| {
        let mut body = json!({"network": network["uuid"], "cidr": "172.16.0.0/24"});
        for (key, value) in extra.as_object().cloned().unwrap() {
            body[key] = value;
        }
        body
    };
    for (extra, fragment) in rows![
        {"cidr": "172.16.0.1/24"} => "Enter a valid network address in CIDR notation";
        {"cidr": "1.1.1.1"} => "Enter a valid network address in CIDR notation";
        {"cidr": "172.16.0.0/25"} => "must be 24 or less";
        {"network": "x"} => "does not exist";
        {"gateway_address": "10.0.0.1"} => "is not a valid IP for the specified subnet";
        {"dns_servers": ["0.0.0.0"]} => "dns_servers: 0.0.0.0 is not a valid IP";
    ] {
        assert_refused(&sim.post("/v1/subnets", subnet(extra)).await, 400, fragment);
    }
    let made = sim
        .create(
            "/v1/subnets",
            subnet(json!({"gateway_address": "172.16.0.2"})),
        )
        .await;
    assert_eq!(made["dns_servers"].as_array().unwrap().len(), 2);
    let overlap = subnet(json!({"cidr": "172.16.0.0/16"}));
    assert_refused(&sim.post("/v1/subnets", overlap).await, 400, "overlaps");
    let path = path_of(&made);
    for (body, key, expected) in rows![
        {"dns_servers": []} => "dns_servers", json!([]);
        {"dns_servers": ["9.9.9.9"]} => "dns_servers", json!(["9.9.9.9"]);
        {"gateway_address": null} => "gateway_address", Value::Null;
        {"tags": {"x": "y"}} => "tags", json!({"x": "y"});
    ] {
        assert_eq!(sim.patch(&path, body).await.status, 204);
        assert_eq!(sim.get(&path).await[key], expected);
    }
    sim.patch(&path, json!({"dns_servers": null})).await;
    assert_eq!(
        sim.get(&path).await["dns_servers"]
            .as_array()
            .unwrap()
            .len(),
        2
    );
    assert_eq!(sim.delete(&path).await.status, 204);
}

#[tokio::test(start_paused = true)]
async fn floating_ips_move_between_servers_and_outlive_them() {
    let sim = Harness::with(
        "machines: [{name: a, uuid: u1}, {name: b, uuid: u2, zone: lpg1}, {name: c, uuid: u3, interfaces: []}]",
    );
    let made = sim
        .create("/v1/floating-ips", json!({"ip_version": 4, "server": "u1"}))
        .await;
    shows!(made, {"type": "regional", "/region/slug": "rma"});
    shows!(made, {"network": "203.0.113.11/32", "ip_version": 4});
    shows!(made, {"next_hop": "198.18.0.11", "load_balancer": null});
    let path = path_of(&made);
    assert_eq!(path, "/v1/floating-ips/203.0.113.11");
    for (body, fragment) in rows![
        {"server": "u2"} => "server: The server is in another region";
        {"server": "u3"} => "server: The server has no public IPv4 address";
        {"server": "u9"} => "server: \"u9\" does not exist";
        {"server": null} => "server: This field may not be null";
        {"load_balancer": "l1"} => "load_balancer: \"l1\" does not exist";
        {"region": "lpg"} => "region: This attribute cannot be changed";
        {"server": "u2", "tags": {}} => "Only one attribute";
    ] {
        assert_refused(&sim.patch(&path, body).await, 400, fragment);
    }
    let global = json!({"ip_version": 6, "type": "global", "server": "u1", "reverse_ptr": "x.y"});
    let global = sim.create("/v1/floating-ips", global).await;
    shows!(global, {"region": null, "reverse_ptr": "x.y"});
    assert_eq!(
        sim.patch(&path_of(&global), json!({"server": "u2"}))
            .await
            .status,
        204
    );
    let moved = sim.get(&path_of(&global)).await;
    shows!(moved, {"/server/uuid": "u2", "next_hop": "2001:db8:2::b"});
    let long = "/v1/floating-ips/2001:0db8:00f2:0:0:0:0:000b";
    assert_eq!(
        sim.patch(long, json!({"tags": {"a": "b"}})).await.status,
        204
    );
    let wide = json!({"ip_version": 6, "prefix_length": 56, "region": "lpg"});
    let wide = sim.create("/v1/floating-ips", wide).await;
    assert!(wide["network"].as_str().unwrap().ends_with("/56"));
    shows!(wide, {"server": null, "next_hop": null});
    assert_eq!(sim.delete("/v1/servers/u1").await.status, 204);
    assert_eq!(
        sim.get(&path).await["server"],
        Value::Null,
        "it outlives its server"
    );
    assert_eq!(sim.delete(&path).await.status, 204);
    assert_refused(&sim.client.get(&path).await, 404, "Not found.");
    assert_eq!(
        sim.get("/v1/floating-ips").await.as_array().unwrap().len(),
        2
    );
}

#[tokio::test(start_paused = true)]
async fn a_bad_floating_ip_is_refused_field_by_field() {
    let sim = Harness::new();
    for (body, fragment) in rows![
        {} => "ip_version: This field is required";
        {"ip_version": 5} => "ip_version: Expect one of";
        {"ip_version": 4, "type": "x"} => "type: Expect one of";
        {"ip_version": 4, "region": "x"} => "Choose one of: rma, lpg";
        {"ip_version": 4, "prefix_length": 128} => "prefix_length: Expect one of";
        {"ip_version": 4, "prefix_length": 24} => "prefix_length: Expect one of";
    ] {
        assert_refused(&sim.post("/v1/floating-ips", body).await, 400, fragment);
    }
}
