//! Servers and their groups.

use super::*;

#[tokio::test(start_paused = true)]
async fn a_server_has_every_attribute_of_the_real_one() {
    let sim = Harness::new();
    let made = sim
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
    shows!(addresses[0], {"reverse_ptr": "198-18-0-11.cust.cloudscale.ch"});
    assert_eq!(addresses[0]["subnet"]["cidr"], "198.18.0.0/16");
    assert_eq!(sim.get("/v1/servers").await, json!([made]));
    let volume = path_of(&made["volumes"][0]);
    shows!(sim.get(&volume).await, {"server_uuids": [made["uuid"]]});
}

#[tokio::test(start_paused = true)]
async fn a_server_passes_through_changing() {
    let sim = Harness::new();
    let made = sim.server("a", json!({})).await;
    let path = path_of(&made);
    let status = async || sim.get(&path).await["status"].clone();
    assert_eq!(sim.power(&made), Some(Power::Off));
    assert_refused(&sim.delete(&path).await, 400, "still being created");
    assert_refused(
        &sim.post(&format!("{path}/stop"), Value::Null).await,
        400,
        "created",
    );
    tokio::time::sleep(Duration::from_millis(1999)).await;
    assert_eq!(status().await, "changing");
    tokio::time::sleep(Duration::from_millis(1)).await;
    assert_eq!(status().await, "running");
    assert_eq!(sim.power(&made), Some(Power::Running));
    for (order, runs) in [
        ("stop", false),
        ("stop", false),
        ("start", true),
        ("reboot", true),
    ] {
        let reply = sim.post(&format!("{path}/{order}"), Value::Null).await;
        assert_eq!((reply.status, reply.bytes.len()), (204, 0), "{order}");
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert_eq!(
            status().await,
            if runs { "running" } else { "stopped" },
            "{order}"
        );
        let power = if runs { Power::Running } else { Power::Off };
        assert_eq!(sim.power(&made), Some(power), "{order}");
    }
    sim.post(&format!("{path}/stop"), json!({})).await;
    assert_eq!(status().await, "changing");
    assert_eq!(sim.delete(&path).await.status, 204);
    assert_refused(&sim.client.get(&path).await, 404, "Not found.");
    assert_refused(&sim.delete(&path).await, 404, "Not found.");
    assert_eq!(sim.power(&made), None);
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert_eq!(
        sim.power(&made),
        None,
        "a timer does not revive a deleted server"
    );
}

#[tokio::test(start_paused = true)]
async fn the_machines_follow_without_anybody_reading() {
    let sim = Harness::new();
    let made = sim.server("a", json!({})).await;
    let id = format!("cloudscale://{}", made["uuid"].as_str().unwrap());
    let mut machines = sim.world.machines.subscribe();
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
    let sim = Harness::with(zero);
    let made = sim.server("a", json!({})).await;
    assert_eq!(made["status"], "running");
    assert_eq!(sim.power(&made), Some(Power::Running));
    let path = path_of(&made);
    sim.post(&format!("{path}/stop"), Value::Null).await;
    assert_eq!(sim.get(&path).await["status"], "stopped");
    assert_refused(
        &sim.post(&format!("{path}/reboot"), Value::Null).await,
        400,
        "rebooted",
    );
}

#[tokio::test(start_paused = true)]
async fn one_attribute_at_a_time_can_be_changed() {
    let sim = Harness::with("machines: [{name: a, uuid: u1}]");
    let path = "/v1/servers/u1";
    for (body, status, fragment) in rows![
        {} => 204, "";
        {"name": "Ein Näme mit Leerzeichen"} => 204, "";
        {"name": "b", "flavor": "flex-4-4"} => 400, "Only one attribute";
        {"name": "b", "tags": {}} => 400, "Only one attribute";
        {"name": ""} => 400, "name: This field may not be blank.";
        {"name": "x".repeat(256)} => 400, "name: Ensure";
        {"zone": "lpg1"} => 400, "zone: This attribute cannot be changed";
        {"colour": "red"} => 400, "colour: This attribute cannot be changed";
        {"flavor": "flex-4-4"} => 400, "detail: The flavor can only be changed";
        {"flavor": "huge"} => 400, "is not a valid choice";
        {"tags": {"a": "b", "c": ""}} => 204, "";
        {"tags": {"a b": "c"}} => 400, "tags: \"a b\" is not a valid tag key";
        {"tags": {"a": 1}} => 400, "tags: Tags must be";
        {"tags": {"a": "x".repeat(257)}} => 400, "longer than 256";
        [] => 400, "detail: Invalid data";
    ] {
        let reply = sim.patch(path, body.clone()).await;
        if status == 204 {
            assert_eq!(reply.status, 204, "{body}: {}", reply.text());
        } else {
            assert_refused(&reply, status, fragment);
        }
    }
    let reply = sim
        .client
        .attempt("PATCH", path, "{\"name\": ")
        .await
        .unwrap();
    assert_refused(&reply, 400, "JSON parse error");
    let reply = sim
        .client
        .attempt("PATCH", path, "{\"name\": \"c\"}\n")
        .await
        .unwrap();
    assert_eq!(reply.status, 204, "a trailing newline does no harm");
    let shown = sim.get(path).await;
    shows!(shown, {"name": "c", "tags": {"a": "b", "c": ""}});
    sim.cloud.stop("u1").unwrap();
    assert_eq!(
        sim.patch(path, json!({"flavor": "flex-4-4"})).await.status,
        204
    );
    assert_eq!(sim.get(path).await["flavor"]["vcpu_count"], 4);
    assert_eq!(sim.patch(path, json!({"tags": {}})).await.status, 204);
    assert_eq!(sim.get(path).await["tags"], json!({}));
    assert_refused(
        &sim.patch("/v1/servers/other", json!({})).await,
        404,
        "Not found.",
    );
}

#[tokio::test(start_paused = true)]
async fn a_bad_server_is_refused_field_by_field() {
    let sim = Harness::new();
    for (extra, fragment) in rows![
        {"name": null} => "name: This field is required";
        {"name": " "} => "name: This field may not be blank.";
        {"name": 7} => "name: Not a valid string.";
        {"name": "with space"} => "name: Only letters";
        {"name": "x".repeat(64)} => "name: Ensure";
        {"flavor": "huge"} => "flavor: \"huge\" is not a valid choice";
        {"image": "plan9"} => "image: \"plan9\" is not a valid choice";
        {"zone": "zrh1"} => "is not a valid choice. Choose one of: rma1, lpg1";
        {"volume_size_gb": 0} => "volume_size_gb: Must be between";
        {"volume_size_gb": "x"} => "volume_size_gb: A valid integer";
        {"use_ipv6": "x"} => "use_ipv6: Must be a valid boolean";
        {"server_groups": ["x"]} => "server_groups: \"x\" does not exist";
        {"interfaces": [{}]} => "interfaces: Either network or subnet";
        {"interfaces": [{"network": "x"}]} => "network: \"x\" does not exist";
        {"interfaces": [{"addresses": [{"subnet": "x"}]}]} => "subnet: \"x\" does not exist";
        {"interfaces": "x"} => "interfaces: Expected a list";
        {"tags": []} => "tags: Tags must be";
    ] {
        let reply = sim.post("/v1/servers", server("a", extra)).await;
        assert_refused(&reply, 400, fragment);
    }
    assert_eq!(sim.get("/v1/servers").await, json!([]), "nothing was made");
}

#[tokio::test(start_paused = true)]
async fn server_groups_hold_servers_apart() {
    let sim = Harness::new();
    let body = json!({"name": "g", "type": "anti-affinity"});
    let group = sim.create("/v1/server-groups", body).await;
    let bad = sim
        .post("/v1/server-groups", json!({"name": "g", "type": "x"}))
        .await;
    assert_refused(&bad, 400, "type: Expect one of");
    let member = json!({"server_groups": [group["uuid"]]});
    let first = sim.server("a", member.clone()).await;
    let second = sim.server("b", member).await;
    assert_eq!(second["server_groups"][0]["name"], "g");
    assert_eq!(second["anti_affinity_with"][0]["uuid"], first["uuid"]);
    let path = path_of(&group);
    assert_eq!(sim.get(&path).await["servers"].as_array().unwrap().len(), 2);
    assert_eq!(sim.patch(&path, json!({"name": "h"})).await.status, 204);
    assert_eq!(sim.delete(&path).await.status, 204);
    shows!(sim.get(&path_of(&second)).await, {"server_groups": []});
}

#[tokio::test(start_paused = true)]
async fn the_old_switches_choose_the_interfaces() {
    let sim = Harness::new();
    let wants = json!({"use_private_network": true});
    let reply = sim.post("/v1/servers", server("a", wants.clone())).await;
    assert_refused(
        &reply,
        400,
        "use_private_network: There is no private network",
    );
    sim.create("/v1/networks", json!({"name": "k8s"})).await;
    for (switches, expected) in [
        (wants, vec![("public", 2), ("private", 1)]),
        (json!({"use_ipv6": false}), vec![("public", 1)]),
        (json!({"use_public_network": false}), vec![]),
    ] {
        let made = sim.server("a", switches.clone()).await;
        let interfaces = made["interfaces"].as_array().unwrap().iter();
        let summary: Vec<_> = interfaces
            .map(|i| {
                (
                    i["type"].as_str().unwrap(),
                    i["addresses"].as_array().unwrap().len(),
                )
            })
            .collect();
        assert_eq!(summary, expected, "{switches}");
    }
}
