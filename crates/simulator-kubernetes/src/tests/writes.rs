//! What no recorded answer can show: time, chance, ranges, controllers, and the control handle.

use bowline_simulator::control::Control as _;

use super::*;

#[tokio::test]
async fn answers_have_the_usual_headers_and_the_simulated_time() {
    let api = api();
    let created = post(&api, MAPS, &named("a")).await;
    assert_eq!(created.code, 201, "{}", created.body);
    assert_eq!(created.headers["content-type"], "application/json");
    assert_eq!(created.headers["cache-control"], "no-cache, private");
    let metadata = &created.body["metadata"];
    assert_eq!(metadata["creationTimestamp"], "2026-10-26T07:33:20Z");
}

#[tokio::test]
async fn a_dry_run_makes_no_revision() {
    let api = api();
    let before = api.store().revision();
    let dry = post(&api, &format!("{NODES}?dryRun=All"), &named("n")).await;
    assert_eq!(dry.code, 201);
    assert_eq!(api.store().revision(), before);
}

#[tokio::test]
async fn addresses_and_ports_are_of_the_clusters_ranges() {
    let api = api();
    let ports = json!([{ "port": 80 }]);
    let dual =
        json!({ "type": "LoadBalancer", "ipFamilyPolicy": "PreferDualStack", "ports": ports });
    let got = post(
        &api,
        SERVICES,
        &json!({ "metadata": { "name": "s" }, "spec": dual }),
    )
    .await;
    let spec = &got.body["spec"];
    let ip: std::net::Ipv4Addr = spec["clusterIP"].as_str().unwrap().parse().unwrap();
    assert_eq!(ip.octets()[0], 10);
    assert!((96..112).contains(&ip.octets()[1]), "{ip}");
    let second = spec["clusterIPs"][1].as_str().unwrap();
    assert!(second.starts_with("fd00:10:96::"), "{second}");
    let node_port = spec["ports"][0]["nodePort"].as_i64().unwrap();
    assert!((30000..=32767).contains(&node_port), "{node_port}");
}

#[tokio::test]
async fn a_namespace_is_emptied_before_it_goes() {
    let api = api();
    post(&api, "/api/v1/namespaces", &named("team")).await;
    let maps = "/api/v1/namespaces/team/configmaps";
    post(&api, maps, &named("free")).await;
    let held = json!({ "metadata": { "name": "held", "finalizers": ["x.io/y"] } });
    post(&api, maps, &held).await;
    let going = delete(&api, "/api/v1/namespaces/team").await;
    assert_eq!(going.body["status"]["phase"], "Terminating");
    assert_eq!(get(&api, &format!("{maps}/free")).await.code, 404);
    assert_eq!(get(&api, &format!("{maps}/held")).await.code, 200);
    let again = delete(&api, "/api/v1/namespaces/team").await;
    assert_eq!(again.code, 409);
    let free = json!({ "metadata": { "finalizers": null } });
    patch(&api, &format!("{maps}/held"), "merge-patch+json", &free).await;
    assert_eq!(get(&api, "/api/v1/namespaces/team").await.code, 404);
}

#[tokio::test(start_paused = true)]
async fn the_same_seed_gives_the_same_cluster() {
    let mut states = Vec::new();
    for reads in [0, 5] {
        let api = api();
        for name in ["a", "b"] {
            let ports = json!([{ "port": 80 }]);
            let spec = json!({ "type": "LoadBalancer", "ports": ports });
            post(
                &api,
                SERVICES,
                &json!({ "metadata": { "name": name }, "spec": spec }),
            )
            .await;
            for _ in 0..reads {
                get(&api, NODES).await;
            }
            post(&api, MAPS, &json!({ "metadata": { "generateName": "m-" } })).await;
        }
        states.push(api.state().to_string());
    }
    assert_eq!(states[0], states[1], "reads change nothing");
}

#[tokio::test]
async fn the_control_handle_puts_deletes_and_explains() {
    let api = api();
    let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}});
    let stored = api.carry_out("put", &node).unwrap();
    assert_eq!(stored["metadata"]["name"], "n");
    assert_eq!(api.state()["objects"]["nodes"]["n"]["kind"], "Node");
    assert_eq!(
        api.carry_out("delete", &node).unwrap(),
        json!({"found": true})
    );
    assert!(
        api.carry_out("jump", &Value::Null)
            .unwrap_err()
            .contains("break-watches")
    );
    assert!(api.carry_out("put", &json!({"kind": "Node"})).is_err());
}

#[tokio::test]
async fn checks_of_health_are_told_one_by_one() {
    let verbose = get(&api(), "/readyz?verbose").await;
    assert_eq!(
        verbose.body,
        json!("[+]ping ok\n[+]log ok\n[+]etcd ok\nreadyz check passed\n")
    );
}

#[tokio::test(start_paused = true)]
async fn events_go_an_hour_after_their_last_write() {
    let api = api();
    let events = "/api/v1/namespaces/default/events";
    for name in ["old", "renewed"] {
        post(&api, events, &named(name)).await;
    }
    tokio::time::advance(std::time::Duration::from_secs(1800)).await;
    let change = json!({ "count": 2 });
    patch(
        &api,
        &format!("{events}/renewed"),
        "merge-patch+json",
        &change,
    )
    .await;
    tokio::time::advance(std::time::Duration::from_secs(1801)).await;
    post(&api, NODES, &named("n")).await;
    assert_eq!(get(&api, &format!("{events}/old")).await.code, 404);
    assert_eq!(get(&api, &format!("{events}/renewed")).await.code, 200);
}
