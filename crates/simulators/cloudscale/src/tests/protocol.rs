//! Tokens, filters, headers, paths.

use super::*;

#[tokio::test(start_paused = true)]
async fn tokens_are_projects_and_some_may_only_look() {
    let fixture = "tokens:\n- {value: t1, project: one}\n- {value: t2, project: two}\n- {value: r1, project: one, read_only: true}";
    let sim = Harness::with(fixture);
    let (one, two, reader) = (
        sim.as_token(Some("t1")),
        sim.as_token(Some("t2")),
        sim.as_token(Some("r1")),
    );
    let made = one
        .call("POST", "/v1/servers", &server("a", json!({})))
        .await;
    assert_eq!(made.status, 201);
    let path = path_of(&made.json());
    assert_eq!(reader.get(&path).await.status, 200);
    assert_refused(
        &reader.call("DELETE", &path, &Value::Null).await,
        403,
        "permission",
    );
    assert_refused(&two.get(&path).await, 404, "Not found.");
    assert_eq!(two.get("/v1/servers").await.json(), json!([]));
    assert_refused(
        &sim.as_token(None).get(&path).await,
        401,
        "Authentication credentials were not provided.",
    );
    assert_refused(
        &sim.as_token(Some("x")).get(&path).await,
        401,
        "Invalid token.",
    );
    let callers: Vec<_> = sim
        .world
        .journal
        .entries()
        .into_iter()
        .map(|e| e.caller)
        .collect();
    assert_eq!(callers, ["one", "one", "one", "two", "two", "", ""]);
}

#[tokio::test(start_paused = true)]
async fn lists_are_filtered_by_tag_and_name() {
    let sim = Harness::with(
        "machines:\n- {name: a, tags: {env: prod, k: v}}\n- {name: b, tags: {env: 'a b&c'}}\n- {name: c}",
    );
    for (query, expected) in [
        ("", vec!["a", "b", "c"]),
        ("?tag:env=prod", vec!["a"]),
        ("?tag%3Aenv=prod", vec!["a"]),
        ("?tag%3Aenv=a+b%26c", vec!["b"]),
        ("?tag:env=", vec!["a", "b"]),
        ("?tag:env", vec!["a", "b"]),
        ("?tag:env&tag:k=v", vec!["a"]),
        ("?tag:env=prod&tag:k=x", vec![]),
        ("?name=c", vec!["c"]),
        ("?page=2", vec!["a", "b", "c"]),
    ] {
        let list = sim.get(&format!("/v1/servers{query}")).await;
        let names: Vec<_> = list
            .as_array()
            .unwrap()
            .iter()
            .map(|s| s["name"].as_str().unwrap())
            .collect();
        assert_eq!(names, expected, "{query}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_other_collections_are_there_and_empty() {
    let sim = Harness::new();
    for name in [
        "volume-snapshots",
        "objects-users",
        "custom-images",
        "load-balancers",
        "load-balancers/pools",
        "load-balancers/listeners",
        "load-balancers/health-monitors",
        "volumes",
        "servers",
        "server-groups",
        "networks",
        "subnets",
        "floating-ips",
    ] {
        assert_eq!(sim.get(&format!("/v1/{name}")).await, json!([]), "{name}");
    }
    for name in ["regions", "flavors", "images"] {
        assert!(
            !sim.get(&format!("/v1/{name}"))
                .await
                .as_array()
                .unwrap()
                .is_empty()
        );
    }
    for (method, path, status) in [
        ("GET", "/v1/load-balancers/pools/x/members", 404),
        ("GET", "/v1/load-balancers/x", 404),
        ("POST", "/v1/load-balancers/pools/x/members", 404),
        ("POST", "/v1/load-balancers", 400),
        ("PUT", "/v1/load-balancers", 405),
        ("POST", "/v1/volumes", 405),
        ("GET", "/v1/load-balancers/pools/x/members/y/z", 404),
        ("GET", "/v1/nonsense", 404),
        ("GET", "/v2/servers", 404),
        ("GET", "/v1/v1/servers", 404),
        ("GET", "/v1/servers/not-a-uuid", 404),
        ("PUT", "/v1/servers", 405),
        ("POST", "/v1/servers/u1/explode", 404),
    ] {
        assert_eq!(
            sim.client.call(method, path, &Value::Null).await.status,
            status,
            "{method} {path}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn every_answer_has_the_cross_origin_headers_once() {
    let sim = Harness::new();
    for (method, path, status) in [
        ("GET", "/v1/servers", 200),
        ("GET", "/v1/x", 404),
        ("OPTIONS", "/v1/servers", 204),
    ] {
        let reply = sim.client.call(method, path, &Value::Null).await;
        assert_eq!(reply.status, status);
        for (name, value) in bowline_simulator::table![
            "access-control-allow-origin", "*";
            "access-control-allow-headers", "Content-Type, Authorization";
            "access-control-allow-methods", "GET, POST, OPTIONS, PUT, PATCH, DELETE";
        ] {
            let all: Vec<_> = reply.headers.get_all(name).iter().collect();
            assert_eq!(all, [value], "{name}");
        }
    }
    assert_eq!(
        sim.as_token(None)
            .call("OPTIONS", "/v1/servers", &Value::Null)
            .await
            .status,
        204
    );
}

#[tokio::test(start_paused = true)]
async fn a_configured_url_is_the_root_of_every_href() {
    let sim = Harness::with("public_url: https://cloud.example/\nmachines: [{name: a, uuid: u1}]");
    shows!(sim.get("/v1/servers").await, {"/0/href": "https://cloud.example/v1/servers/u1"});
}

#[tokio::test]
async fn the_cloud_answers_on_a_real_socket() {
    let world = World::real();
    let cloud = Cloudscale::new(&world, Config::default());
    let address = "127.0.0.1:0".parse().unwrap();
    let server_running = Server::builder(&world, cloud.clone())
        .plain(address)
        .await
        .unwrap();
    let place = ServerAddress::Socket(server_running.local_addr().unwrap());
    let client = Client::new(place, Some(DEFAULT_TOKEN));
    let made = client
        .call("POST", "/v1/servers", &server("a", json!({})))
        .await
        .json();
    assert_eq!(client.get(&path_of(&made)).await.json(), made);
    server_running.shutdown().await;
}
