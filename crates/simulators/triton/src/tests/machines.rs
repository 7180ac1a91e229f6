//! The lives of machines, their tags and metadata.

use super::*;

async fn create(it: &Harness, more: Value) -> Reply {
    let mut body = json!({ "image": MACHINE_IMAGE, "package": "g4-highcpu-1G" });
    for (key, value) in more.as_object().unwrap() {
        body[key] = value.clone();
    }
    it.call("POST", "/acme/machines", body).await
}

#[tokio::test(start_paused = true)]
async fn a_machine_is_made_and_runs_and_is_destroyed_and_forgotten() {
    let it = Harness::with("");
    let reply = create(
        &it,
        json!({ "name": "web-{{shortId}}", "networks": [FABRIC, EXTERNAL], "tag.role": "x",
            "tag.n": 7, "metadata.a": "b", "metadata.root_pw": "hidden", "firewall_enabled": true }),
    )
    .await;
    assert_eq!(reply.status, 201, "{}", reply.text());
    let made = reply.json();
    let id = made["id"].as_str().unwrap().to_owned();
    assert_eq!(
        reply.headers["location"],
        format!("/acme/machines/{id}").as_str()
    );
    assert_eq!(made["name"], format!("web-{}", &id[..8]));
    shows!(made, {"state": "provisioning", "package": ""});
    assert_eq!(made["nics"], json!([]));
    assert_eq!(made["tags"], json!({ "role": "x", "n": 7 }));
    assert_eq!(made["metadata"], json!({ "a": "b" }));
    assert_eq!(it.machine(&id).await["package"], "g4-highcpu-1G");
    assert_eq!(it.world.machines.power(&machine_id(&id)), Some(Power::Off));
    seconds(3).await;
    let runs = it.machine(&id).await;
    shows!(runs, {"state": "running", "brand": "bhyve"});
    assert_eq!(
        runs["primaryIp"], "203.0.113.10",
        "the first public network is primary"
    );
    assert_eq!(runs["ips"], json!(["10.20.0.5", "203.0.113.10"]));
    assert_eq!(runs["nics"][1]["netmask"], "255.255.255.0");
    assert_eq!(
        it.world.machines.power(&machine_id(&id)),
        Some(Power::Running)
    );

    assert_eq!(
        it.status("DELETE", &format!("/acme/machines/{id}")).await,
        204
    );
    assert_eq!(it.status("GET", &format!("/acme/machines/{id}")).await, 200);
    seconds(1).await;
    let reply = it
        .call("GET", &format!("/acme/machines/{id}"), Value::Null)
        .await;
    assert_eq!(
        (reply.status, &reply.json()["state"]),
        (410, &json!("deleted"))
    );
    assert_eq!(
        it.status("DELETE", &format!("/acme/machines/{id}")).await,
        410
    );
    assert_eq!(it.get("/acme/machines").await, json!([]));
    assert_eq!(
        it.get("/acme/machines?state=destroyed").await[0]["id"],
        id.as_str()
    );
    assert_eq!(it.world.machines.power(&machine_id(&id)), None);
    // Tags of a destroyed machine can be read and written, and nothing comes of it.
    let tags = format!("/acme/machines/{id}/tags");
    assert_eq!(it.get(&tags).await["role"], "x");
    assert_eq!(
        it.call("POST", &tags, json!({ "role": "y" })).await.status,
        200
    );
    seconds(2).await;
    assert_eq!(it.get(&tags).await["role"], "x");
    it.cloud.purge();
    let reply = it
        .call("GET", &format!("/acme/machines/{id}"), Value::Null)
        .await;
    refused(&reply, 404, "ResourceNotFound", "VM not found");
}

#[tokio::test(start_paused = true)]
async fn a_machine_goes_through_its_states() {
    let it = Harness::new();
    let path = format!("/acme/machines/{MACHINE}");
    let state = async || {
        it.machine(MACHINE).await["state"]
            .as_str()
            .unwrap()
            .to_owned()
    };
    let act = async |action: &str| {
        let reply = it.call("POST", &path, json!({ "action": action })).await;
        assert_eq!((reply.status, reply.text().as_str()), (202, ""), "{action}");
    };
    act("stop").await;
    assert_eq!(state().await, "stopping");
    seconds(1).await;
    assert_eq!(state().await, "stopped");
    assert_eq!(
        it.world.machines.power(&machine_id(MACHINE)),
        Some(Power::Off)
    );
    act("start").await;
    seconds(1).await;
    assert_eq!(state().await, "running");
    act("reboot").await;
    assert_eq!(state().await, "stopping");
    seconds(1).await;
    assert_eq!(state().await, "ready");
    seconds(1).await;
    assert_eq!(state().await, "running");
    act("enable_deletion_protection").await;
    seconds(1).await;
    let reply = it.call("DELETE", &path, Value::Null).await;
    refused(&reply, 409, "CannotDestroyMachineError", "");
    let audit = it.get(&format!("{path}/audit")).await;
    let actions: Vec<_> = audit
        .as_array()
        .unwrap()
        .iter()
        .map(|it| it["action"].clone())
        .collect();
    assert_eq!(
        actions,
        ["enable_deletion_protection", "reboot", "start", "stop"]
    );
    let reply = it.call("POST", &path, json!({ "action": "dance" })).await;
    refused(&reply, 409, "InvalidArgument", "");
    let reply = it
        .call(
            "POST",
            &path,
            json!({ "action": "rename", "name": "New.Name" }),
        )
        .await;
    assert_eq!(reply.status, 202);
    let reply = it
        .call(
            "POST",
            &path,
            json!({ "action": "resize", "package": "g4-highcpu-4G" }),
        )
        .await;
    assert_eq!(reply.status, 202);
    seconds(2).await;
    let now = it.machine(MACHINE).await;
    shows!(now, {"name": "New.Name", "package": "g4-highcpu-4G"});
    assert_eq!(now["memory"], 4096);
}

#[tokio::test(start_paused = true)]
async fn tags_change_when_their_jobs_end_in_order() {
    let it = Harness::new();
    let tags = format!("/acme/machines/{MACHINE}/tags");
    let reply = it.call("POST", &tags, json!({ "a": "1", "b": true })).await;
    assert_eq!(reply.json(), json!({ "a": "1", "b": true }));
    assert!(reply.headers.contains_key("x-job-uuid"));
    let reply = it.call("POST", &tags, json!({ "c": 2.5 })).await;
    assert_eq!(
        reply.json(),
        json!({ "a": "1", "b": true, "c": 2.5 }),
        "the expected future"
    );
    assert_eq!(it.get(&tags).await, json!({}), "the present");
    let reply = it.call("DELETE", &format!("{tags}/a"), Value::Null).await;
    refused(&reply, 404, "ResourceNotFound", "tag \\\"a\\\" not found");
    seconds(1).await;
    assert_eq!(it.get(&tags).await, json!({ "a": "1", "b": true }));
    seconds(1).await;
    assert_eq!(it.get(&tags).await["c"], 2.5);
    assert_eq!(it.get(&format!("{tags}/a")).await, "1");
    assert_eq!(
        it.get(&format!("{tags}/b")).await,
        "",
        "numbers and booleans come as nothing"
    );
    assert_eq!(it.status("DELETE", &format!("{tags}/a")).await, 204);
    seconds(1).await;
    assert_eq!(it.get(&tags).await, json!({ "b": true, "c": 2.5 }));
    assert_eq!(
        it.call("PUT", &tags, json!({ "d": "e" })).await.json(),
        json!({ "d": "e" })
    );
    seconds(1).await;
    assert_eq!(it.status("DELETE", &tags).await, 204);
    seconds(1).await;
    assert_eq!(it.get(&tags).await, json!({}));
}

#[tokio::test(start_paused = true)]
async fn every_parameter_becomes_a_tag_wherever_it_comes_from() {
    let it = Harness::new();
    let tags = format!("/acme/machines/{MACHINE}/tags");
    let body = json!({ "a": "b", "image": "x", "uuid": "y", "context": "z" });
    let reply = it.call("POST", &format!("{tags}?as-role=ops"), body).await;
    assert_eq!(reply.json(), json!({ "a": "b", "as-role": "ops" }));
    let reply = it
        .call("POST", &tags, json!({ "triton.cns.services": " " }))
        .await;
    refused(
        &reply,
        409,
        "ValidationFailed",
        "error adding tags: Invalid tag parameters",
    );
    assert_eq!(reply.json()["errors"][0]["field"], "tags");
    let reply = it.call("PUT", &tags, json!({ "triton.x": "y" })).await;
    refused(&reply, 409, "ValidationFailed", "error replacing tags");
    let reply = it.call("POST", &tags, json!({ "a": [] })).await;
    refused(&reply, 409, "InvalidArgument", "");
    // A body that names a machine is about that machine.
    let reply = it
        .call("POST", &tags, json!({ "machine": UNKNOWN, "a": "b" }))
        .await;
    refused(&reply, 404, "ResourceNotFound", "VM not found");
}

#[tokio::test(start_paused = true)]
async fn metadata_is_merged_and_some_of_it_stays() {
    let it = Harness::new();
    let path = format!("/acme/machines/{MACHINE}/metadata");
    let body = json!({ "a": "b", "root_authorized_keys": "k", "admin_pw": "x" });
    let reply = it.call("POST", &path, body).await;
    assert_eq!(
        reply.json(),
        json!({ "a": "b", "root_authorized_keys": "k" })
    );
    seconds(1).await;
    assert_eq!(it.get(&format!("{path}/a")).await, "b");
    assert_eq!(it.status("DELETE", &format!("{path}/nothing")).await, 404);
    assert_eq!(
        it.status("DELETE", &format!("{path}/root_authorized_keys"))
            .await,
        409
    );
    assert_eq!(it.status("DELETE", &format!("{path}/a")).await, 204);
    seconds(1).await;
    assert_eq!(it.get(&path).await, json!({ "root_authorized_keys": "k" }));
}

#[tokio::test(start_paused = true)]
async fn lists_come_in_pages_and_can_be_filtered() {
    let it = Harness::with(
        "machines:
  - {name: k8s-1, tags: {env: prod, n: 7, on: true}}
  - {name: k8s-10, state: stopped}
  - {name: other, count: 5, docker: true}",
    );
    let names = async |query: &str| {
        let all = it.get(&format!("/acme/machines?{query}")).await;
        let mut all: Vec<String> = all
            .as_array()
            .unwrap()
            .iter()
            .map(|it| it["name"].as_str().unwrap().to_owned())
            .collect();
        all.sort();
        all.join(" ")
    };
    let mut seen = Vec::new();
    for (offset, count) in [(0, "3"), (3, "3"), (6, "1"), (9, "0")] {
        let target = format!("/acme/machines?limit=3&offset={offset}");
        let reply = it.call("GET", &target, Value::Null).await;
        assert_eq!(reply.headers["x-query-limit"], "3");
        assert_eq!(reply.headers["x-resource-count"], count);
        seen.extend(reply.json().as_array().unwrap().clone());
        let head = it.call("HEAD", &target, Value::Null).await;
        assert_eq!(
            (&head.headers["x-resource-count"], head.text().as_str()),
            (&count.parse().unwrap(), "")
        );
    }
    let ids: Vec<_> = seen.iter().map(|it| it["id"].as_str().unwrap()).collect();
    assert!(ids.is_sorted() && ids.len() == 7);
    assert!(seen[0].get("dns_names").is_none());
    for (query, wanted) in [
        ("name=k8s-1", "k8s-1 k8s-10"),
        ("state=running&name=k8s", "k8s-1"),
        ("state=active&docker=false", "k8s-1 k8s-10"),
        ("tag.env=prod", "k8s-1"),
        ("tag.env=*", "k8s-1"),
        ("tag.env=p*d&tag.n=7&tag.on=true", "k8s-1"),
        ("tag.env=dev", ""),
        ("tags=*&limit=1&state=stopped", "k8s-1"),
    ] {
        assert_eq!(names(query).await, wanted, "{query}");
    }
    for query in ["limit=0", "limit=1001", "limit=x", "state=unknown"] {
        assert_eq!(
            it.status("GET", &format!("/acme/machines?{query}")).await,
            409,
            "{query}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn new_machines_are_refused_for_good_reasons() {
    let it = Harness::with(
        "
accounts: [{login: acme, id: aaaaaaaa-0000-4000-8000-00000000000a, cns: true, keys: [KEY],
    limits: [{value: 2}, {by: ram, value: 4096}]}]
packages: [{name: small}, {name: plain, no_fabric: true}, {name: huge, memory: 8192}]
machines: [{name: taken, package: small, networks: [My-Fabric]}]",
    );
    let rows = rows![
        { "name": "taken" } => 409, "ValidationFailed", "Duplicate";
        { "name": "a b" } => 409, "ValidationFailed", "Invalid machine name";
        { "name": "a".repeat(64) } => 409, "ValidationFailed", "alias";
        { "image": UNKNOWN } => 409, "InvalidArgument", "image";
        { "package": "nothing" } => 409, "InvalidArgument", "package";
        { "networks": [UNKNOWN] } => 409, "InvalidArgument", "Invalid Networks";
        { "networks": [EXTERNAL, { "ipv4_uuid": FABRIC }] } =>
            409, "InvalidArgument", "Invalid Networks";
        { "networks": [{ "ipv4_uuid": EXTERNAL, "ipv4_ips": ["203.0.113.20"] }] } =>
            409, "InvalidArgument", "ipv4_ips";
        { "networks": [{ "ipv4_uuid": FABRIC, "ipv4_ips": ["10.20.0.5"] }] } =>
            422, "InvalidParameters", "already in use";
        { "package": "plain", "networks": [FABRIC] } => 409, "InvalidFabricPackage", "";
        { "tag.triton.x": "y" } => 409, "ValidationFailed", "Unrecognized";
        { "package": "huge" } =>
            403, "NotAuthorized",
            "Quota exceeded; to have your limits raised please contact Support";
    ];
    for (more, status, code, fragment) in rows {
        let mut body = json!({ "package": "small" });
        for (key, value) in more.as_object().unwrap() {
            body[key] = value.clone();
        }
        refused(&create(&it, body).await, status, code, fragment);
    }
}

#[tokio::test(start_paused = true)]
async fn new_machines_beyond_the_limits_are_refused() {
    let it = Harness::with(
        "
accounts: [{login: acme, keys: [KEY], limits: [{value: 2}, {by: ram, value: 4096}]}]
packages: [{name: small}]
machines: [{name: taken, package: small, networks: [My-Fabric]}]",
    );
    let good = json!({ "package": "small", "networks": [{ "ipv4_uuid": FABRIC, "ipv4_ips": ["10.20.0.50"] }] });
    let made = create(&it, good).await.json();
    seconds(3).await;
    shows!(it.machine(made["id"].as_str().unwrap()).await, {"ips": ["10.20.0.50"]});
    refused(
        &create(&it, json!({ "package": "small" })).await,
        403,
        "NotAuthorized",
        "Quota exceeded",
    );
    let limits = it.get("/acme/limits").await;
    assert_eq!(limits[0], json!({ "value": 2, "used": 2 }));
    assert_eq!(
        limits[1],
        json!({ "by": "ram", "value": 4096, "used": 2048 })
    );
    it.cloud.remove_keys("acme").unwrap();
    assert_eq!(it.status("GET", "/acme").await, 401);
}

#[tokio::test(start_paused = true)]
async fn machines_that_shall_be_apart_run_apart_and_some_fail() {
    let it = Harness::with("");
    let mut nodes = std::collections::BTreeSet::new();
    for number in 0..3 {
        let body = json!({ "name": format!("lb-{number}"), "tag.bowline.uid": "u",
            "affinity": ["bowline.uid!=~u"] });
        let id = create(&it, body).await.json()["id"]
            .as_str()
            .unwrap()
            .to_owned();
        seconds(3).await;
        nodes.insert(
            it.machine(&id).await["compute_node"]
                .as_str()
                .unwrap()
                .to_owned(),
        );
    }
    assert_eq!(nodes.len(), 3);
    it.cloud.fail_provisions(1);
    let id = create(&it, json!({})).await.json()["id"]
        .as_str()
        .unwrap()
        .to_owned();
    seconds(3).await;
    assert_eq!(it.machine(&id).await["state"], "failed");
    assert_eq!(it.get("/acme/machines").await.as_array().unwrap().len(), 3);
}

#[tokio::test(start_paused = true)]
async fn a_dead_compute_node_answers_and_does_nothing() {
    let it = Harness::new();
    let node = it.cloud.machine("k8s-1").unwrap().compute_node.unwrap();
    let tags = format!("/acme/machines/{MACHINE}/tags");
    it.cloud.kill_compute_node(&node);
    assert_eq!(
        it.call("POST", &tags, json!({ "a": "b" })).await.status,
        200
    );
    seconds(60).await;
    assert_eq!(it.get(&tags).await, json!({}));
    assert_eq!(it.machine(MACHINE).await["state"], "running");
    it.cloud.revive_compute_node(&node);
    assert_eq!(
        it.get(&tags).await,
        json!({ "a": "b" }),
        "a young job goes on"
    );
    it.cloud.kill_compute_node(&node);
    assert_eq!(it.status("DELETE", &format!("{tags}/a")).await, 204);
    seconds(121).await;
    let audit = it.get(&format!("/acme/machines/{MACHINE}/audit")).await;
    shows!(audit[0], {"action": "remove_tags", "success": "no"});
    it.cloud.revive_compute_node(&node);
    assert_eq!(
        it.get(&tags).await,
        json!({ "a": "b" }),
        "an old one has given up"
    );
}

#[tokio::test(start_paused = true)]
async fn an_outage_of_the_name_service_is_felt_below_machines_only() {
    let it = Harness::new();
    it.cloud.set_quirks(|quirks| quirks.names_down = true);
    let path = format!("/acme/machines/{MACHINE}");
    let down = "Unable to contact the Triton CNS API";
    refused(
        &it.call("GET", &path, Value::Null).await,
        500,
        "InternalError",
        down,
    );
    let write = it
        .call("POST", &format!("{path}/tags"), json!({ "a": "b" }))
        .await;
    refused(&write, 500, "InternalError", down);
    refused(
        &it.call("GET", "/acme/networks", Value::Null).await,
        500,
        "InternalError",
        down,
    );
    assert_eq!(it.status("GET", "/acme/machines").await, 200);
    assert_eq!(
        it.status("GET", &format!("/acme/networks/{FABRIC}")).await,
        200
    );
    it.cloud
        .set_quirks(|quirks| quirks.networks_without_suffixes = true);
    assert!(it.get("/acme/networks").await[0].get("suffixes").is_none());
    it.cloud.set_quirks(|quirks| *quirks = Quirks::default());
    assert_eq!(it.status("GET", &path).await, 200);
    it.cloud.lose_image("k8s-1", true).unwrap();
    let reply = it.call("GET", &path, Value::Null).await;
    refused(&reply, 404, "ResourceNotFound", "Cannot find machine image");
    assert_eq!(it.get("/acme/machines").await[0]["id"], MACHINE);
}
