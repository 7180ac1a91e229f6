//! The control handle, from Rust and over HTTP; fixtures; the fleet; the same run twice.

use bowline_simulator::control::Control as _;
use bowline_simulator::machines::Power;
use bowline_simulator::testing::documented;

use super::*;
use crate::metadata::Metadata;

const I1: &str = "6f1d2c3b-7a55-4e0c-9b61-2d3e4f5a6b7c";
const L1: &str = "7d2f7f4e-22d1-4b38-8f0b-94c8a54d6d01";

#[tokio::test(start_paused = true)]
async fn a_scene_is_set_with_chosen_ids_names_and_addresses() {
    let sim = Harness::with("private_networks: [{name: net}]");
    let cloud = &sim.cloud;
    let pool = cloud.add_pool(&PoolSpec::named("p1", 1).id(POOL)).unwrap();
    assert_eq!(pool, POOL);
    let spec = InstanceSpec::named("Pool-a1b2c-xyz")
        .id(I1)
        .pool("p1")
        .kind("cpu.extra-large");
    let spec = spec.public_ip("198.51.100.21".parse().unwrap());
    assert_eq!(cloud.add_instance(&spec).unwrap(), I1);
    let taken = cloud.add_instance(&spec).unwrap_err().to_string();
    assert_eq!(
        taken,
        format!("cannot add the instance Pool-a1b2c-xyz: Instance {I1} already exists")
    );
    let shown = sim.get(&format!("/v2/instance/{I1}")).await;
    shows!(shown, {"name": "Pool-a1b2c-xyz", "public-ip": "198.51.100.21"});
    assert_eq!(shown["manager"]["id"], POOL);
    assert_eq!(cloud.pools()[0].size, 2);
    assert_eq!(cloud.instances()[1].kind, "cpu.extra-large");

    cloud
        .set_ipv6(I1, Some("2001:db8::21".parse().unwrap()))
        .unwrap();
    cloud.set_private_networks(I1, &["net"]).unwrap();
    cloud.set_public_ip(I1, None).unwrap();
    let shown = sim.get(&format!("/v2/instance/{I1}")).await;
    assert_eq!(
        (shown.get("public-ip"), &shown["ipv6-address"]),
        (None, &json!("2001:db8::21"))
    );
    assert_eq!(shown["private-networks"].as_array().unwrap().len(), 1);
    cloud.rename(I1, "twin").unwrap();
    cloud.add_instance(&InstanceSpec::named("twin")).unwrap();
    let missing = cloud.stop("twin").unwrap_err().to_string();
    assert!(
        missing.ends_with("nor exactly one of that name"),
        "{missing}"
    );
    cloud.set_pool_of(I1, None).unwrap();
    cloud.set_state(I1, State::Stopping).unwrap();
    assert_eq!(sim.world.machines.power(&machine_id(I1)), Some(Power::Off));
    cloud.destroy(I1).unwrap();
    assert_eq!(sim.status("GET", &format!("/v2/instance/{I1}")).await, 404);
    assert_eq!(sim.world.machines.power(&machine_id(I1)), None);
    cloud.remove_pool("p1").unwrap();
    assert_eq!(cloud.instances().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn load_balancers_are_changed_behind_everybodys_back() {
    let sim = Harness::new();
    let cloud = &sim.cloud;
    let spec = BalancerSpec::named("edge")
        .id(L1)
        .ip("203.0.113.80".parse().unwrap());
    let spec = spec.service(ServiceSpec::new("foreign", POOL, 9000, 31000));
    assert_eq!(cloud.add_balancer(&spec).unwrap(), L1);
    let wrong = cloud
        .add_service(L1, &ServiceSpec::new("", "p1", 0, 1))
        .unwrap_err();
    assert!(
        wrong.reason.contains("port must be between 1 and 65535"),
        "{wrong}"
    );
    cloud
        .add_service("edge", &ServiceSpec::new("web", "p1", 80, 30080))
        .unwrap();
    cloud.rename_balancer("edge", "other").unwrap();
    cloud.describe_balancer(L1, "d1").unwrap();
    cloud.label_balancer(L1, &[("a", "b")]).unwrap();
    cloud.retarget_service(L1, "web", 30081).unwrap();
    cloud.remove_service(L1, "foreign").unwrap();
    let shown = sim.get(&format!("/v2/load-balancer/{L1}")).await;
    shows!(shown, {"name": "other", "ip": "203.0.113.80"});
    shows!(shown, {"description": "d1", "labels": { "a": "b" }});
    assert_eq!(shown["services"][0]["target-port"], 30081);
    let member = cloud.instances()[0].clone();
    cloud.set_health(&member.public_ip.unwrap().to_string(), Some(false));
    cloud.stop(&cloud.instances()[1].id).unwrap();
    let statuses = |shown: &Value| {
        let all = shown["services"][0]["healthcheck-status"]
            .as_array()
            .cloned()
            .unwrap();
        all.iter()
            .map(|it| it["status"].as_str().unwrap().to_owned())
            .collect::<Vec<_>>()
    };
    let shown = sim.get(&format!("/v2/load-balancer/{L1}")).await;
    assert_eq!(statuses(&shown), ["failure", "failure"]);
    cloud.set_health(&member.public_ip.unwrap().to_string(), None);
    let shown = sim.get(&format!("/v2/load-balancer/{L1}")).await;
    assert_eq!(statuses(&shown), ["success", "failure"]);
    let members = json!({ "ip": null, "services": 7 });
    cloud.deform(L1, members.as_object().cloned().unwrap());
    let shown = sim.get(&format!("/v2/load-balancer/{L1}")).await;
    assert_eq!((shown.get("ip"), &shown["services"]), (None, &json!(7)));
    cloud.remove_balancer(L1).unwrap();
    assert_eq!(cloud.balancers(), []);
}

#[tokio::test(start_paused = true)]
async fn the_handle_is_there_over_http_too() {
    let sim = Harness::new();
    let say = |verb: &'static str, body: Value| {
        let sim = &sim;
        async move { sim.call("POST", &format!("/_sim/{verb}"), body).await }
    };
    let rows = rows![
        "add": { "name": "m", "count": 2 };
        "add-pool": { "name": "p2", "size": 1 };
        "add-private-network": { "name": "n" };
        "add-cluster": { "name": "c", "nodepools": [{ "name": "np", "size": 1 }] };
        "add-load-balancer": { "name": "l" };
        "add-service": { "to": "l", "add": { "name": "s", "instance_pool": "p1", "port": 1,
            "target_port": 2 } };
        "stop": { "machine": "m-1" };
        "start": { "machine": "m-1" };
        "state": { "machine": "m-1", "state": "error" };
        "rename": { "machine": "m-1", "name": "M" };
        "destroy": { "machine": "M" };
        "remove-service": { "from": "l", "id": "s" };
        "remove-load-balancer": { "id": "l" };
        "health": { "instance": "1.2.3.4", "good": false };
        "deform": { "id": "x", "members": {} };
        "key": { "key": "EXO2", "secret": "s", "deny": ["list-zones"] };
        "remove-key": { "key": "EXO2" };
        "deny": { "operations": ["list-zones"] };
        "permit-all": {};
        "timings": { "operation": "0s", "operations": { "delete-instance": "5s" } };
        "quirks": { "most_services": 2 };
        "plan": { "operation": "create-*", "ending": "failure", "reason": "busy", "times": 1 };
        "end-operations": {};
    ];
    for (verb, body) in rows {
        let reply = say(verb, body).await;
        assert_eq!(reply.status, 200, "{verb}: {}", reply.text());
    }
    let made = sim
        .call("POST", "/v2/load-balancer", json!({ "name": "x" }))
        .await
        .json();
    shows!(made, {"state": "failure", "reason": "busy"});
    say("forget-plans", json!({})).await;
    let made = sim
        .call("POST", "/v2/load-balancer", json!({ "name": "x" }))
        .await
        .json();
    assert_eq!(made["state"], "success");
    let state = sim.get("/_sim/state").await;
    let zone = &state["zones"]["ch-gva-2"];
    assert_eq!(zone["load-balancers"][0]["name"], "x");
    say("reset", json!({})).await;
    assert_eq!(
        (sim.cloud.balancers().len(), sim.cloud.instances().len()),
        (0, 2)
    );
}

#[tokio::test(start_paused = true)]
async fn a_mistake_over_http_is_answered_with_what_is_allowed() {
    let sim = Harness::with("instances: [{name: m}]");
    for (verb, body, fragment) in rows![
        "dance": {} => "allowed are add, add-pool";
        "stop": { "machine": "none" } => "there is none of that id";
        "state": { "machine": "m", "state": "tired" } => "is no state";
        "add": { "nmae": "x" } => "nmae";
        "deny": { "operations": ["fly"] } => "there is no operation";
        "plan": { "operation": "fly", "ending": "never" } => "there is no operation";
        "plan": { "operation": "*", "ending": "soon" } => "success, failure, timeout, never";
        "remove-key": { "key": "EXO2" } => "there is no key";
    ] {
        let reply = sim.call("POST", &format!("/_sim/{verb}"), body).await;
        assert_eq!(reply.status, 400, "{verb}");
        assert!(reply.text().contains(fragment), "{}", reply.text());
    }
}

#[tokio::test(start_paused = true)]
async fn a_kubelet_tells_the_id_of_its_instance_and_stops_with_it() {
    let world = World::simulated(3);
    let cloud = Exoscale::new(&world, Config::default());
    cloud
        .add_instance(&InstanceSpec::named("Pool-a1b2c-xyz").id(I1))
        .unwrap();
    let kubelet = cloud.kubelet(I1).unwrap();
    assert_eq!(
        (kubelet.node_name.as_str(), kubelet.system_uuid.as_str()),
        ("pool-a1b2c-xyz", I1)
    );
    let power = || world.machines.power(&kubelet.machine_id);
    assert_eq!(power(), Some(Power::Running));
    cloud.stop(I1).unwrap();
    assert_eq!(power(), Some(Power::Off));
}

#[tokio::test(start_paused = true)]
async fn the_documented_fixture_is_what_it_says() {
    let sim = Harness::with(documented("## The Exoscale simulator"));
    let instances = sim.cloud.instances();
    // Two and one of the pool, a fleet, three of the nodepool, and one elsewhere.
    assert_eq!(instances.len(), 2 + 1 + 20 + 3 + 1);
    let edge = instances.iter().find(|it| it.name == "Edge-1").unwrap();
    assert_eq!(
        (edge.kind.as_str(), edge.pool.as_deref()),
        ("standard.large", Some(POOL))
    );
    let balancers = sim.cloud.balancers();
    assert_eq!(
        balancers[0].services[0].healthcheck.uri.as_deref(),
        Some("/healthz")
    );
    assert_eq!(sim.world.faults.rules().len(), 1);
}

#[test]
fn a_mistake_in_a_fixture_is_named() {
    for (text, fragment) in [
        ("instnaces: []", "instnaces"),
        ("instances: [{name: a, colour: red}]", "colour"),
        ("timings: {operation: soon}", "soon"),
        (
            "load_balancers: [{name: a, services: [{name: b}]}]",
            "instance_pool",
        ),
    ] {
        let error = fixture::parse::<Fixture>("test", text)
            .unwrap_err()
            .to_string();
        assert!(error.contains(fragment), "{error}");
    }
    for (text, fragment) in bowline_simulator::table![
        "instances: [{name: a, type: huge.huge}]", "no instance type \"huge.huge\"";
        "instances: [{name: a, instance_pool: p}]", "no instance pool of the id \"p\"";
        "instances: [{name: a, count: 2, id: x}]", "cannot have one id";
        "load_balancers: [{name: a}, {name: a}]", "must be unique";
        "faults: [{action: truncated, code: 500}]", "does not take the key code";
    ] {
        let fixture = fixture::parse("test", text).unwrap();
        let error = Exoscale::from_fixture(&World::simulated(1), fixture)
            .unwrap_err()
            .to_string();
        assert!(error.contains(fragment), "{error}");
    }
}

#[tokio::test(start_paused = true)]
async fn metadata_tell_the_zone_that_was_said() {
    let world = World::simulated(1);
    let metadata = Metadata::new("ch-dk-2", I1);
    let _server = Server::builder(&world, metadata.clone()).pipe("metadata.exoscale.com:80");
    let place =
        bowline_simulator::testing::ServerAddress::Pipe(world.clone(), "metadata.exoscale.com:80");
    let client = bowline_simulator::testing::Client::new(place, None);
    let path = "/latest/meta-data/availability-zone";
    assert_eq!(client.get(path).await.text(), "ch-dk-2");
    assert_eq!(client.get("/latest/meta-data/instance-id").await.text(), I1);
    let said = client
        .call("POST", "/_sim/zone", &json!({ "zone": " at-vie-1\n" }))
        .await;
    assert_eq!(said.status, 200);
    assert_eq!(client.get(path).await.text(), " at-vie-1\n");
    assert_eq!(client.call("POST", path, &json!({})).await.status, 404);
}

/// Everything that a run says, with one seed.
async fn transcript() -> String {
    let sim = Harness::new();
    let id = sim.balancer("a").await;
    sim.begin(
        "POST",
        &format!("/v2/load-balancer/{id}/service"),
        service("s", 80),
    )
    .await;
    sim.cloud.add_pool(&PoolSpec::named("more", 3)).unwrap();
    sim.get("/v2/instance").await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    format!("{}{}", sim.world.journal.transcript(), sim.cloud.state())
}

#[tokio::test(start_paused = true)]
async fn one_seed_gives_one_story() {
    let first = transcript().await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!(first.contains("POST /v2/load-balancer -> 200"), "{first}");
    assert_eq!(first, transcript().await);
}
