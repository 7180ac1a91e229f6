//! Pools, members, listeners and health monitors.

use super::balancers::{LISTENERS, MONITORS, SECOND, listener, member, members_of, monitor};
use super::*;

#[tokio::test(start_paused = true)]
async fn children_have_every_attribute_of_the_real_ones() {
    let harness = Harness::balanced("");
    let lb = harness.balancer(json!({})).await;
    let lb_stub = json!({"href": lb["href"], "uuid": lb["uuid"], "name": "lb"});
    let pool = harness.pool(&lb).await;
    assert_eq!(pool["load_balancer"], lb_stub);
    shows!(pool, {"algorithm": "round_robin", "protocol": "tcp"});
    let pool_stub = json!({"href": pool["href"], "uuid": pool["uuid"], "name": "tcp/http"});
    let subnet = &harness.get("/v1/networks/n1").await["subnets"][0];

    let made = harness
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
    let given = harness
        .create(&members_of(&pool), member("10.20.0.11", given))
        .await;
    shows!(given, {"monitor_port": 81, "enabled": false});

    let heard = harness.create(LISTENERS, listener(&pool, json!({}))).await;
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
    let watched = harness.create(MONITORS, monitor(&pool, json!({}))).await;
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
        assert_eq!(harness.count(list).await, expected, "{list}");
    }
}

#[tokio::test(start_paused = true)]
async fn http_options_are_kept_and_changed_one_by_one() {
    let harness = Harness::balanced("");
    let lb = harness.balancer(json!({})).await;
    for none in [json!({}), json!({"http": {}}), json!({"http": null})] {
        let pool = harness.pool(&lb).await;
        let made = harness.create(MONITORS, monitor(&pool, none)).await;
        assert_eq!(made["http"], Value::Null);
    }
    let defaults = json!({"expected_codes": ["200"], "method": "GET", "url_path": "/",
        "version": "1.1", "host": null});
    for kind in ["http", "https"] {
        let pool = harness.pool(&lb).await;
        let made = harness
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
            assert_eq!(harness.patch(&path, body).await.status, 204, "{attribute}");
            expected[attribute] = value;
            assert_eq!(harness.get(&path).await["http"], expected);
        }
        // A client that sends the whole object means what differs.
        expected["method"] = json!("POST");
        let whole = json!({"http": expected});
        assert_eq!(harness.patch(&path, whole).await.status, 204);
        assert_eq!(harness.get(&path).await["http"], expected);
        let other = harness
            .patch(&path, json!({"http": {"version": "1.0"}}))
            .await;
        assert_refused(&other, 400, "http: The version cannot be changed.");
    }
    let pool = harness.pool(&lb).await;
    let local = json!({"type": "http", "http": {"version": "1.0", "url_path": "/livez"}});
    let made = harness.create(MONITORS, monitor(&pool, local)).await;
    let host = harness
        .patch(&path_of(&made), json!({"http": {"host": "a.b"}}))
        .await;
    assert_refused(
        &host,
        400,
        "The host argument can not be used with HTTP version 1.0",
    );
    let udp = json!({"type": "udp-connect", "delay_s": 3, "timeout_s": 2});
    let pool = harness.pool(&lb).await;
    let made = harness.create(MONITORS, monitor(&pool, udp)).await;
    let short = harness.patch(&path_of(&made), json!({"delay_s": 2})).await;
    assert_refused(&short, 400, "at least 3");
    harness.cloud.set_quirks(Quirks {
        http_options_ignored: true,
        ..Quirks::default()
    });
    let pool = harness.pool(&lb).await;
    let odd = monitor(&pool, json!({"http": {"version": "1.0"}}));
    let made = harness.create(MONITORS, odd).await;
    assert_eq!(made["http"], Value::Null, "ignored");
    let body = json!({"http": {"method": "HEAD"}});
    assert_eq!(harness.patch(&path_of(&made), body).await.status, 204);
}

#[tokio::test(start_paused = true)]
async fn what_was_deleted_occupies_its_place_for_a_while() {
    let harness = Harness::balanced("");
    let mut timings = BalancerTimings {
        call: Duration::ZERO,
        ..BalancerTimings::default()
    };
    timings.removal = 8 * SECOND;
    harness.cloud.set_balancer_timings(timings);
    let lb = harness.balancer(json!({})).await;
    let other = harness.balancer(json!({"name": "other"})).await;
    let pool = harness.pool(&lb).await;
    let second = harness.pool(&lb).await;
    let elsewhere = harness.pool(&other).await;
    let members = members_of(&pool);
    let rows = [
        (members.as_str(), member("10.20.0.11", json!({}))),
        (LISTENERS, listener(&pool, json!({}))),
        (MONITORS, monitor(&pool, json!({}))),
    ];
    for (path, body) in &rows {
        let made = harness.create(path, body.clone()).await;
        assert_eq!(harness.delete(&path_of(&made)).await.status, 204);
        assert_refused(
            &harness.client.get(&path_of(&made)).await,
            404,
            "Not found.",
        );
        assert_eq!(harness.count(path).await, 0, "gone from lists at once");
        assert_refused(
            &harness.post(path, body.clone()).await,
            400,
            "is still being removed.",
        );
    }
    // What occupies another place is not concerned.
    harness
        .create(&members, member("10.20.0.11", json!({"protocol_port": 81})))
        .await;
    harness
        .create(&members_of(&second), member("10.20.0.11", json!({})))
        .await;
    harness
        .create(LISTENERS, listener(&pool, json!({"protocol": "udp"})))
        .await;
    harness
        .create(LISTENERS, listener(&elsewhere, json!({})))
        .await;
    harness.create(MONITORS, monitor(&second, json!({}))).await;
    tokio::time::sleep(8 * SECOND).await;
    for (path, body) in rows {
        harness.create(path, body).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_deleted_pool_takes_its_children_along_or_leaves_its_listeners() {
    let harness = Harness::balanced("");
    let lb = harness.balancer(json!({})).await;
    for survive in [false, true] {
        harness.cloud.set_quirks(Quirks {
            listeners_survive: survive,
            ..Quirks::default()
        });
        let pool = harness.pool(&lb).await;
        harness
            .create(&members_of(&pool), member("10.20.0.11", json!({})))
            .await;
        let heard = harness.create(LISTENERS, listener(&pool, json!({}))).await;
        harness.create(MONITORS, monitor(&pool, json!({}))).await;
        assert_eq!(harness.delete(&path_of(&pool)).await.status, 204);
        assert_refused(
            &harness.client.get(&members_of(&pool)).await,
            404,
            "Not found.",
        );
        assert_eq!(harness.count(MONITORS).await, 0);
        let next = harness.pool(&lb).await;
        let taken = harness.post(LISTENERS, listener(&next, json!({}))).await;
        if survive {
            let left = harness.get(&path_of(&heard)).await;
            assert_eq!(
                (&left["pool"], &left["load_balancer"]["uuid"]),
                (&Value::Null, &lb["uuid"])
            );
            assert_refused(&taken, 400, "exists already");
            assert_eq!(
                harness.cloud.balancers()[0].loose_listeners[0].protocol_port,
                80
            );
        } else {
            assert_eq!(harness.count(LISTENERS).await, 0);
            assert_refused(&taken, 400, "is still being removed");
        }
        tokio::time::sleep(SECOND).await;
    }
}

#[tokio::test(start_paused = true)]
async fn monitors_find_out_and_the_load_balancer_shows_it() {
    let harness = Harness::balanced("");
    let lb = harness.balancer(json!({})).await;
    let pool = harness.pool(&lb).await;
    let members = members_of(&pool);
    let first = harness
        .create(&members, member("10.20.0.11", json!({})))
        .await;
    harness
        .create(&members, member("10.20.0.12", json!({})))
        .await;
    let health = async || {
        let list = harness.get(&members).await;
        let list = list.as_array().unwrap().iter();
        let list = list.map(|m| m["monitor_status"].as_str().unwrap().to_owned());
        (
            list.collect::<Vec<_>>().join(" "),
            harness.status(&lb).await,
        )
    };
    let is = |members: &str, lb: &str| (members.to_owned(), lb.to_owned());
    harness.cloud.set_health("10.20.0.11", Some(Health::Down));
    tokio::time::sleep(SECOND).await;
    assert_eq!(
        health().await,
        is("no_monitor no_monitor", "running"),
        "nobody looks"
    );
    let watched = harness.create(MONITORS, monitor(&pool, json!({}))).await;
    assert_eq!(health().await, is("changing changing", "changing"));
    tokio::time::sleep(2 * SECOND).await;
    assert_eq!(health().await, is("down up", "degraded"));
    harness
        .cloud
        .set_health("10.20.0.12:80", Some(Health::Down));
    assert_eq!(health().await, is("down down", "error"));
    let uuid = first["uuid"].as_str().unwrap();
    harness.cloud.set_health(uuid, Some(Health::Up));
    assert_eq!(
        health().await,
        is("up down", "degraded"),
        "the nearest word counts"
    );
    harness
        .create(&members, member("10.20.0.13", json!({})))
        .await;
    assert_eq!(health().await, is("up down changing", "changing"));
    tokio::time::sleep(2 * SECOND).await;
    harness
        .cloud
        .set_health("10.20.0.13", Some(Health::Unknown));
    assert_eq!(health().await, is("up down unknown", "degraded"));
    let second = harness.cloud.balancers()[0].pools[0].members[1]
        .uuid
        .clone();
    let off = harness
        .patch(&format!("{members}/{second}"), json!({"enabled": false}))
        .await;
    assert_eq!(off.status, 204);
    tokio::time::sleep(SECOND).await;
    assert_eq!(
        health().await,
        is("up down unknown", "running"),
        "who takes no part is not missed"
    );
    harness.delete(&path_of(&watched)).await;
    tokio::time::sleep(SECOND).await;
    assert_eq!(
        health().await,
        is("no_monitor no_monitor no_monitor", "running")
    );
    // Another pool without members is no reason to worry.
    let empty = harness.pool(&lb).await;
    harness.create(MONITORS, monitor(&empty, json!({}))).await;
    tokio::time::sleep(2 * SECOND).await;
    assert_eq!(harness.status(&lb).await, "running");
}
