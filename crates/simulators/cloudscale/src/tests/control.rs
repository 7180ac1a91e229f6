//! The control handle and the fixture.

use super::*;

#[tokio::test(start_paused = true)]
async fn the_handle_adds_stops_renames_moves_and_destroys() {
    let sim = Harness::new();
    let cloud = &sim.cloud;
    let uuid = cloud.add_server(&MachineSpec::named("a")).unwrap();
    let id = format!("cloudscale://{uuid}");
    let machines = &sim.world.machines;
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
    shows!(sim.get("/v1/servers").await, {"/0/interfaces": "nonsense"});
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
        assert!(cloud.add_server(&spec).is_err());
    }
}

#[tokio::test(start_paused = true)]
async fn the_control_handle_works_over_http() {
    let sim = Harness::new();
    let added = sim
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
        let reply = sim.post(&format!("/_sim/{verb}"), body).await;
        assert_eq!(reply.status, 200, "{verb}: {}", reply.text());
    }
    let state = sim.get("/_sim/state").await;
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
    for (verb, body, fragment) in rows![
        "explode": {} => "allowed are add, stop, start, destroy, rename, migrate";
        "add": {"nmae": "x"} => "unknown field `nmae`, expected one of `name`";
        "add": {} => "missing field `name`";
        "stop": {"machine": "x", "hard": true} => "unknown field `hard`, expected `machine`";
        "stop": {"machine": "nobody"} => "there is none of that uuid";
        "migrate": {"machine": "x", "zone": "zrh1"} => "Choose one of: rma1, lpg1";
    ] {
        let reply = sim.post(&format!("/_sim/{verb}"), body).await;
        assert_refused(&reply, 400, fragment);
    }
}

#[tokio::test(start_paused = true)]
async fn a_reset_sets_the_scene_anew() {
    let sim = Harness::with(
        "machines: [{name: a, uuid: u1}]\nfaults: [{name: slow, action: delay, delay: 1s, path: /v1/images}]",
    );
    sim.cloud.destroy("u1").unwrap();
    sim.cloud
        .add_server(&MachineSpec::named("b").uuid("u2"))
        .unwrap();
    sim.world.faults.clear();
    assert_eq!(sim.post("/_sim/reset", Value::Null).await.status, 200);
    let names: Vec<_> = sim.cloud.servers().into_iter().map(|s| s.name).collect();
    assert_eq!(names, ["a"]);
    assert_eq!(sim.world.machines.power("cloudscale://u2"), None);
    assert_eq!(
        sim.world.machines.power("cloudscale://u1"),
        Some(Power::Running)
    );
    assert_eq!(sim.world.faults.rules()[0].0.name, "slow");
}

#[tokio::test(start_paused = true)]
async fn fifty_load_balancers_with_two_hundred_members_each_are_listed() {
    let sim = Harness::balanced("");
    let address = |last: u8| std::net::IpAddr::from([10, 20, 0, last]);
    for number in 0..50_u16 {
        let members = (1..=200).map(|last| MemberSpec::at(address(last), 30_000 + number));
        let pool = PoolSpec {
            members: members.collect(),
            ..PoolSpec::named("p").monitor(MonitorSpec::of("tcp"))
        };
        let spec = BalancerSpec::named(&format!("lb-{number}")).pool(pool);
        sim.cloud.add_balancer(&spec).unwrap();
    }
    sim.cloud.set_health("10.20.0.7", Some(Health::Down));
    let list = sim.get("/v1/load-balancers").await;
    let list = list.as_array().unwrap();
    assert_eq!(list.len(), 50);
    assert!(list.iter().all(|lb| lb["status"] == "degraded"));
    let pools = sim.get("/v1/load-balancers/pools").await;
    let members = format!("{}/members", path_of(&pools[49]));
    assert_eq!(sim.count(&members).await, 200);
}

#[tokio::test(start_paused = true)]
async fn two_thousand_servers_are_added_and_listed_quickly() {
    let sim = Harness::with("machines: [{name: node, count: 2000}]");
    let list = sim.get("/v1/servers").await;
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
