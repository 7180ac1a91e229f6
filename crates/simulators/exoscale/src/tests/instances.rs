//! Instances, pools and clusters.

use bowline_simulator::machines::Power;

use super::*;
use crate::machine_id;

fn new_instance(name: &str) -> Value {
    json!({
        "name": name, "instance-type": { "id": MEDIUM }, "template": { "id": TEMPLATE },
        "disk-size": 50, "public-ip-assignment": "dual",
    })
}

#[tokio::test(start_paused = true)]
async fn an_instance_starts_stops_and_goes_and_its_machine_with_it() {
    let sim = Harness::with("");
    let operation = sim
        .begin("POST", "/v2/instance", new_instance("Node-A"))
        .await;
    let id = operation["reference"]["id"].as_str().unwrap().to_owned();
    let path = format!("/v2/instance/{id}");
    let power = || sim.world.machines.power(&machine_id(&id));
    let shown = sim.get(&path).await;
    shows!(shown, {"state": "starting", "name": "Node-A"});
    assert_eq!(shown["instance-type"], json!({ "id": MEDIUM }));
    assert_eq!(power(), Some(Power::Off));
    let mut seen = sim.world.machines.subscribe();
    // Nobody asks the API; the register tells all the same.
    let runs = |all: &std::collections::BTreeMap<String, Power>| {
        all.get(&machine_id(&id)) == Some(&Power::Running)
    };
    seen.wait_for(runs).await.unwrap();
    assert!(
        shown["ipv6-address"]
            .as_str()
            .unwrap()
            .starts_with("2001:db8:")
    );

    refused(
        &sim.call("PUT", &format!("{path}:start"), Value::Null).await,
        400,
        "must be stopped",
    );
    for (action, meanwhile, after, runs) in [
        ("stop", "stopping", "stopped", Power::Off),
        ("start", "starting", "running", Power::Running),
        ("reboot", "starting", "running", Power::Running),
    ] {
        sim.begin("PUT", &format!("{path}:{action}"), Value::Null)
            .await;
        assert_eq!(sim.get(&path).await["state"], meanwhile, "{action}");
        assert_eq!(power(), Some(Power::Off), "{action}");
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert_eq!(sim.get(&path).await["state"], after, "{action}");
        assert_eq!(power(), Some(runs), "{action}");
    }
    sim.done(
        "PUT",
        &path,
        json!({ "name": "b", "public-ip-assignment": "inet4" }),
    )
    .await;
    let shown = sim.get(&path).await;
    assert_eq!(
        (&shown["name"], shown.get("ipv6-address")),
        (&json!("b"), None)
    );
    sim.begin("DELETE", &path, Value::Null).await;
    assert_eq!(sim.get(&path).await["state"], "destroying");
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(sim.status("GET", &path).await, 404);
    assert_eq!(power(), None);
}

#[tokio::test(start_paused = true)]
async fn what_is_wrong_with_an_instance_is_refused() {
    let sim = Harness::with("quirks: {most_instances: 1}");
    for (name, value, status, fragment) in bowline_simulator::table![
        "disk-size", json!(5), 400, "disk-size must be between";
        "name", json!(""), 400, "name must have";
        "instance-type", json!({ "id": UNKNOWN }), 404, "Instance type";
        "instance-type", json!({ "id": "standard.medium" }), 404, "Instance type";
        "template", json!({ "id": UNKNOWN }), 404, "Template";
        "template", Value::Null, 400, "template is missing";
    ] {
        let mut body = new_instance("a");
        body[name] = value;
        refused(
            &sim.call("POST", "/v2/instance", body).await,
            status,
            fragment,
        );
    }
    sim.done("POST", "/v2/instance", new_instance("a")).await;
    let second = sim.call("POST", "/v2/instance", new_instance("b")).await;
    refused(&second, 403, "Quota exceeded");
    for target in [
        "/v2/instance/x",
        "/v2/instance/hcloud:%2F%2F42",
        "/v2/instance/a/b",
    ] {
        assert_eq!(sim.status("GET", target).await, 404, "{target}");
    }
}

#[tokio::test(start_paused = true)]
async fn instances_are_listed_by_pool_address_and_label() {
    let sim = Harness::with(&format!(
        "instance_pools: [{{name: p1, id: {POOL}, size: 2}}]\n\
         instances:\n\
         - {{name: a, public_ip: 198.51.100.7, labels: {{env: prod eu}}}}\n\
         - {{name: a, ipv6_address: '2001:db8::21', public_ip_assignment: none}}\n"
    ));
    for (query, count) in [
        (String::new(), 4),
        (format!("?manager-type=instance-pool&manager-id={POOL}"), 2),
        (format!("?manager-id={UNKNOWN}"), 0),
        ("?manager-type=other".to_owned(), 0),
        ("?ip-address=198.51.100.7".to_owned(), 1),
        ("?ip-address=2001:db8::21".to_owned(), 1),
        (
            "?labels=env%3Dprod%20eu&ip-address=198.51.100.7".to_owned(),
            1,
        ),
        ("?labels=env%3Dtest".to_owned(), 0),
    ] {
        let found = sim.get(&format!("/v2/instance{query}")).await;
        assert_eq!(
            found["instances"].as_array().unwrap().len(),
            count,
            "{query}"
        );
    }
    let listed = sim.get("/v2/instance").await;
    let by_id = format!(
        "/v2/instance/{}",
        listed["instances"][3]["id"].as_str().unwrap()
    );
    let one = sim.get(&by_id).await;
    assert_eq!(
        (one.get("public-ip"), &one["ipv6-address"]),
        (None, &json!("2001:db8::21"))
    );
    // A list tells less.
    assert_eq!(
        (listed["instances"][3].get("disk-size"), &one["disk-size"]),
        (None, &json!(50))
    );
}

#[tokio::test(start_paused = true)]
async fn a_pool_is_made_scaled_evicted_and_deleted_unless_it_is_held() {
    let sim = Harness::with("");
    let body = json!({
        "name": "web", "size": 3, "instance-type": { "id": MEDIUM },
        "template": { "id": TEMPLATE }, "disk-size": 50, "instance-prefix": "web",
    });
    sim.begin("POST", "/v2/instance-pool", body).await;
    let pool = sim.cloud.pools()[0].clone();
    assert_eq!((pool.state.as_str(), pool.members.len()), ("creating", 3));
    tokio::time::sleep(Duration::from_secs(1)).await;
    let path = format!("/v2/instance-pool/{}", pool.id);
    let shown = sim.get(&path).await;
    shows!(shown, {"state": "running", "size": 3});
    let member = sim.get(&format!("/v2/instance/{}", pool.members[0])).await;
    shows!(member, {"manager": { "id": pool.id, "type": "instance-pool" }});
    assert_eq!(member["state"], "running");
    let name: Vec<&str> = member["name"].as_str().unwrap().split('-').collect();
    assert_eq!((name[0], name[1], name[2].len()), ("web", &pool.id[..5], 5));

    sim.begin("PUT", &format!("{path}:scale"), json!({ "size": 4 }))
        .await;
    assert_eq!(sim.get(&path).await["state"], "scaling-up");
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(sim.cloud.pools()[0].members.len(), 4);
    let evicted = json!({ "instances": [pool.members[1]] });
    sim.begin("PUT", &format!("{path}:evict"), evicted.clone())
        .await;
    let leaving = format!("/v2/instance/{}", pool.members[1]);
    assert_eq!(sim.get(&leaving).await["state"], "destroying");
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(sim.status("GET", &leaving).await, 404);
    assert_eq!(sim.cloud.pools()[0].size, 3);
    refused(
        &sim.call("PUT", &format!("{path}:evict"), evicted).await,
        404,
        "Member",
    );
    sim.done("PUT", &format!("{path}:scale"), json!({ "size": 1 }))
        .await;
    assert_eq!(sim.cloud.pools()[0].members, pool.members[..1]);

    let balancer = sim.balancer("a").await;
    let mut wanted = service("web", 80);
    wanted["instance-pool"]["id"] = json!(pool.id);
    sim.done(
        "POST",
        &format!("/v2/load-balancer/{balancer}/service"),
        wanted,
    )
    .await;
    let held = sim.call("DELETE", &path, Value::Null).await;
    let text = format!(
        "Operation destroyInstancePool on resource {} is forbidden - reason: Locked by NLB {balancer}",
        pool.id
    );
    refused(&held, 403, &text);
    sim.done(
        "DELETE",
        &format!("/v2/load-balancer/{balancer}"),
        Value::Null,
    )
    .await;
    sim.done("DELETE", &path, Value::Null).await;
    assert_eq!(
        (sim.cloud.pools().len(), sim.cloud.instances().len()),
        (0, 0)
    );
}

#[tokio::test(start_paused = true)]
async fn clusters_have_nodepools_whose_pools_they_manage() {
    let sim = Harness::with(&format!(
        "instance_pools: [{{name: p2, id: {POOL}, size: 1}}]\n\
         sks_clusters: [{{name: prod, nodepools: [{{name: web, instance_pool: p2}}, \
         {{name: db, size: 2}}]}}]"
    ));
    let clusters = sim.get("/v2/sks-cluster").await;
    let cluster = &clusters["sks-clusters"][0];
    shows!(cluster, {"/nodepools/0/instance-pool": { "id": POOL }});
    assert_eq!(cluster["nodepools"][1]["size"], 2);
    let pool = sim.get(&format!("/v2/instance-pool/{POOL}")).await;
    let nodepool = cluster["nodepools"][0]["id"].as_str().unwrap();
    shows!(pool, {"manager": { "id": nodepool, "type": "sks-nodepool" }});
    let direct = sim
        .call(
            "PUT",
            &format!("/v2/instance-pool/{POOL}:scale"),
            json!({ "size": 3 }),
        )
        .await;
    refused(&direct, 403, "Locked by SKS nodepool");
    let path = format!("/v2/sks-cluster/{}", cluster["id"].as_str().unwrap());
    sim.done(
        "PUT",
        &format!("{path}/nodepool/{nodepool}:scale"),
        json!({ "size": 3 }),
    )
    .await;
    shows!(sim.get(&format!("{path}/nodepool/{nodepool}")).await, {"size": 3});
    assert_eq!(
        sim.status("GET", &format!("/v2/sks-cluster/{UNKNOWN}"))
            .await,
        404
    );
}
