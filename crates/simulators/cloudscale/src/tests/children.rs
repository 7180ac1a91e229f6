//! Pools, members, listeners and health monitors.

use super::balancers::{LISTENERS, MONITORS, SECOND, listener, member, members_of, monitor};
use super::*;

#[tokio::test(start_paused = true)]
async fn children_have_every_attribute_of_the_real_ones() {
    let sim = Harness::balanced("");
    let lb = sim.balancer(json!({})).await;
    let lb_stub = json!({"href": lb["href"], "uuid": lb["uuid"], "name": "lb"});
    let pool = sim.pool(&lb).await;
    assert_eq!(pool["load_balancer"], lb_stub);
    shows!(pool, {"algorithm": "round_robin", "protocol": "tcp"});
    let pool_stub = json!({"href": pool["href"], "uuid": pool["uuid"], "name": "tcp/http"});
    let subnet = &sim.get("/v1/networks/n1").await["subnets"][0];

    let made = sim
        .create(&members_of(&pool), member("10.20.0.11", json!({})))
        .await;
    assert_eq!(
        (&made["pool"], &made["load_balancer"]),
        (&pool_stub, &lb_stub)
    );
    assert_eq!(
        &made["subnet"], subnet,
        "a subnet stub is the same everywhere"
    );
    shows!(made, {"monitor_port": null, "enabled": true});
    assert_eq!(made["monitor_status"], "no_monitor");
    let given =
        json!({"monitor_port": 81, "protocol_port": 81, "enabled": false, "tags": {"a": ""}});
    let given = sim
        .create(&members_of(&pool), member("10.20.0.11", given))
        .await;
    shows!(given, {"monitor_port": 81, "enabled": false});

    let heard = sim.create(LISTENERS, listener(&pool, json!({}))).await;
    assert_eq!(
        (&heard["pool"], &heard["load_balancer"]),
        (&pool_stub, &lb_stub)
    );
    assert_eq!(heard["allowed_cidrs"], json!([]));
    for (timeout, expected) in [
        ("timeout_client_data_ms", 50_000),
        ("timeout_member_connect_ms", 5_000),
        ("timeout_member_data_ms", 50_000),
    ] {
        assert_eq!(heard[timeout], expected, "{timeout}");
    }
    let watched = sim.create(MONITORS, monitor(&pool, json!({}))).await;
    assert_eq!(
        (&watched["pool"], &watched["load_balancer"]),
        (&pool_stub, &lb_stub)
    );
    for (number, expected) in [
        ("delay_s", 2),
        ("timeout_s", 1),
        ("up_threshold", 2),
        ("down_threshold", 3),
    ] {
        assert_eq!(watched[number], expected, "{number}");
    }
    shows!(watched, {"type": "tcp", "http": null});
    for (list, expected) in [
        ("/v1/load-balancers/pools", 1),
        (&*members_of(&pool), 2),
        (&*format!("{}?tag:a", members_of(&pool)), 1),
        (LISTENERS, 1),
        (MONITORS, 1),
    ] {
        assert_eq!(sim.count(list).await, expected, "{list}");
    }
}

#[tokio::test(start_paused = true)]
async fn http_options_are_kept_and_changed_one_by_one() {
    let sim = Harness::balanced("");
    let lb = sim.balancer(json!({})).await;
    for none in [json!({}), json!({"http": {}}), json!({"http": null})] {
        let pool = sim.pool(&lb).await;
        let made = sim.create(MONITORS, monitor(&pool, none)).await;
        assert_eq!(made["http"], Value::Null);
    }
    let defaults = json!({"expected_codes": ["200"], "method": "GET", "url_path": "/",
        "version": "1.1", "host": null});
    for kind in ["http", "https"] {
        let pool = sim.pool(&lb).await;
        let made = sim
            .create(MONITORS, monitor(&pool, json!({"type": kind})))
            .await;
        assert_eq!(made["http"], defaults);
        let path = path_of(&made);
        let mut expected = defaults.clone();
        for (attribute, value) in [
            ("expected_codes", json!(["202", "200"])),
            ("expected_codes", json!(["200-204"])),
            ("method", json!("HEAD")),
            ("url_path", json!("/livez")),
            ("host", json!("app.example.org")),
            ("host", Value::Null),
        ] {
            let body = json!({"http": {attribute: value}});
            assert_eq!(sim.patch(&path, body).await.status, 204, "{attribute}");
            expected[attribute] = value;
            assert_eq!(sim.get(&path).await["http"], expected);
        }
        // A client that sends the whole object means what differs.
        expected["method"] = json!("POST");
        let whole = json!({"http": expected});
        assert_eq!(sim.patch(&path, whole).await.status, 204);
        assert_eq!(sim.get(&path).await["http"], expected);
        let other = sim.patch(&path, json!({"http": {"version": "1.0"}})).await;
        assert_refused(&other, 400, "http: The version cannot be changed.");
    }
    let pool = sim.pool(&lb).await;
    let local = json!({"type": "http", "http": {"version": "1.0", "url_path": "/livez"}});
    let made = sim.create(MONITORS, monitor(&pool, local)).await;
    let host = sim
        .patch(&path_of(&made), json!({"http": {"host": "a.b"}}))
        .await;
    assert_refused(
        &host,
        400,
        "The host argument can not be used with HTTP version 1.0",
    );
    let udp = json!({"type": "udp-connect", "delay_s": 3, "timeout_s": 2});
    let pool = sim.pool(&lb).await;
    let made = sim.create(MONITORS, monitor(&pool, udp)).await;
    let short = sim.patch(&path_of(&made), json!({"delay_s": 2})).await;
    assert_refused(&short, 400, "at least 3");
    sim.cloud.set_quirks(Quirks {
        http_options_ignored: true,
        ..Quirks::default()
    });
    let pool = sim.pool(&lb).await;
    let odd = monitor(&pool, json!({"http": {"version": "1.0"}}));
    let made = sim.create(MONITORS, odd).await;
    assert_eq!(made["http"], Value::Null, "ignored");
    let body = json!({"http": {"method": "HEAD"}});
    assert_eq!(sim.patch(&path_of(&made), body).await.status, 204);
}

#[tokio::test(start_paused = true)]
async fn what_was_deleted_occupies_its_place_for_a_while() {
    let sim = Harness::balanced("");
    let mut timings = BalancerTimings {
        call: Duration::ZERO,
        ..BalancerTimings::default()
    };
    timings.removal = 8 * SECOND;
    sim.cloud.set_balancer_timings(timings);
    let lb = sim.balancer(json!({})).await;
    let other = sim.balancer(json!({"name": "other"})).await;
    let pool = sim.pool(&lb).await;
    let second = sim.pool(&lb).await;
    let elsewhere = sim.pool(&other).await;
    let members = members_of(&pool);
    let rows = [
        (members.as_str(), member("10.20.0.11", json!({}))),
        (LISTENERS, listener(&pool, json!({}))),
        (MONITORS, monitor(&pool, json!({}))),
    ];
    for (path, body) in &rows {
        let made = sim.create(path, body.clone()).await;
        assert_eq!(sim.delete(&path_of(&made)).await.status, 204);
        assert_refused(&sim.client.get(&path_of(&made)).await, 404, "Not found.");
        assert_eq!(sim.count(path).await, 0, "gone from lists at once");
        assert_refused(
            &sim.post(path, body.clone()).await,
            400,
            "is still being removed.",
        );
    }
    // What occupies another place is not concerned.
    sim.create(&members, member("10.20.0.11", json!({"protocol_port": 81})))
        .await;
    sim.create(&members_of(&second), member("10.20.0.11", json!({})))
        .await;
    sim.create(LISTENERS, listener(&pool, json!({"protocol": "udp"})))
        .await;
    sim.create(LISTENERS, listener(&elsewhere, json!({}))).await;
    sim.create(MONITORS, monitor(&second, json!({}))).await;
    tokio::time::sleep(8 * SECOND).await;
    for (path, body) in rows {
        sim.create(path, body).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_deleted_pool_takes_its_children_along_or_leaves_its_listeners() {
    let sim = Harness::balanced("");
    let lb = sim.balancer(json!({})).await;
    for survive in [false, true] {
        sim.cloud.set_quirks(Quirks {
            listeners_survive: survive,
            ..Quirks::default()
        });
        let pool = sim.pool(&lb).await;
        sim.create(&members_of(&pool), member("10.20.0.11", json!({})))
            .await;
        let heard = sim.create(LISTENERS, listener(&pool, json!({}))).await;
        sim.create(MONITORS, monitor(&pool, json!({}))).await;
        assert_eq!(sim.delete(&path_of(&pool)).await.status, 204);
        assert_refused(&sim.client.get(&members_of(&pool)).await, 404, "Not found.");
        assert_eq!(sim.count(MONITORS).await, 0);
        let next = sim.pool(&lb).await;
        let taken = sim.post(LISTENERS, listener(&next, json!({}))).await;
        if survive {
            let left = sim.get(&path_of(&heard)).await;
            assert_eq!(
                (&left["pool"], &left["load_balancer"]["uuid"]),
                (&Value::Null, &lb["uuid"])
            );
            assert_refused(&taken, 400, "exists already");
            assert_eq!(
                sim.cloud.balancers()[0].loose_listeners[0].protocol_port,
                80
            );
        } else {
            assert_eq!(sim.count(LISTENERS).await, 0);
            assert_refused(&taken, 400, "is still being removed");
        }
        tokio::time::sleep(SECOND).await;
    }
}

#[tokio::test(start_paused = true)]
async fn monitors_find_out_and_the_load_balancer_shows_it() {
    let sim = Harness::balanced("");
    let lb = sim.balancer(json!({})).await;
    let pool = sim.pool(&lb).await;
    let members = members_of(&pool);
    let first = sim.create(&members, member("10.20.0.11", json!({}))).await;
    sim.create(&members, member("10.20.0.12", json!({}))).await;
    let health = async || {
        let list = sim.get(&members).await;
        let list = list.as_array().unwrap().iter();
        let list = list.map(|m| m["monitor_status"].as_str().unwrap().to_owned());
        (list.collect::<Vec<_>>().join(" "), sim.status(&lb).await)
    };
    let is = |members: &str, lb: &str| (members.to_owned(), lb.to_owned());
    sim.cloud.set_health("10.20.0.11", Some(Health::Down));
    tokio::time::sleep(SECOND).await;
    assert_eq!(
        health().await,
        is("no_monitor no_monitor", "running"),
        "nobody looks"
    );
    let watched = sim.create(MONITORS, monitor(&pool, json!({}))).await;
    assert_eq!(health().await, is("changing changing", "changing"));
    tokio::time::sleep(2 * SECOND).await;
    assert_eq!(health().await, is("down up", "degraded"));
    sim.cloud.set_health("10.20.0.12:80", Some(Health::Down));
    assert_eq!(health().await, is("down down", "error"));
    let uuid = first["uuid"].as_str().unwrap();
    sim.cloud.set_health(uuid, Some(Health::Up));
    assert_eq!(
        health().await,
        is("up down", "degraded"),
        "the nearest word counts"
    );
    sim.create(&members, member("10.20.0.13", json!({}))).await;
    assert_eq!(health().await, is("up down changing", "changing"));
    tokio::time::sleep(2 * SECOND).await;
    sim.cloud.set_health("10.20.0.13", Some(Health::Unknown));
    assert_eq!(health().await, is("up down unknown", "degraded"));
    let second = sim.cloud.balancers()[0].pools[0].members[1].uuid.clone();
    let off = sim
        .patch(&format!("{members}/{second}"), json!({"enabled": false}))
        .await;
    assert_eq!(off.status, 204);
    tokio::time::sleep(SECOND).await;
    assert_eq!(
        health().await,
        is("up down unknown", "running"),
        "who takes no part is not missed"
    );
    sim.delete(&path_of(&watched)).await;
    tokio::time::sleep(SECOND).await;
    assert_eq!(
        health().await,
        is("no_monitor no_monitor no_monitor", "running")
    );
    // Another pool without members is no reason to worry.
    let empty = sim.pool(&lb).await;
    sim.create(MONITORS, monitor(&empty, json!({}))).await;
    tokio::time::sleep(2 * SECOND).await;
    assert_eq!(sim.status(&lb).await, "running");
}
