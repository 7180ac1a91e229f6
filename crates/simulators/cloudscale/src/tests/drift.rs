//! What the control handle does to load balancers: by hand, and over HTTP.

use super::balancers::{MONITORS, SECOND, balancer, member, members_of, monitor};
use super::*;

fn address(text: &str) -> std::net::IpAddr {
    text.parse().unwrap()
}

/// A load balancer as the original leaves it for a Service with one port and two nodes.
fn whole() -> BalancerSpec {
    let pool = PoolSpec::named("tcp/http")
        .member(MemberSpec::at(address("10.20.0.11"), 31080))
        .member(MemberSpec::at(address("10.20.0.12"), 31080))
        .listener(ListenerSpec::on("tcp", 80))
        .monitor(MonitorSpec::of("tcp"));
    BalancerSpec::named("k8s-service-1")
        .uuid("b1")
        .tag("k8s-service-uid", "1")
        .pool(pool)
}

fn map(value: Value) -> serde_json::Map<String, Value> {
    let Value::Object(map) = value else {
        panic!("attributes come as an object");
    };
    map
}

#[tokio::test(start_paused = true)]
async fn a_whole_load_balancer_is_there_at_once_and_seen_as_a_tree() {
    let sim = Harness::balanced("");
    let cloud = &sim.cloud;
    assert_eq!(cloud.add_balancer(&whole()).unwrap(), "b1");
    let shown = cloud.balancers();
    let lb = &shown[0];
    assert_eq!((lb.status, lb.changes), (BalancerStatus::Running, 0));
    assert_eq!(lb.vip_addresses.len(), 2);
    let pool = &lb.pools[0];
    assert_eq!((&*pool.algorithm, &*pool.protocol), ("round_robin", "tcp"));
    assert_eq!(pool.members[0].name, "10.20.0.11:31080");
    assert_eq!(pool.members[1].monitor_port, Some(31080));
    assert_eq!(
        (&*pool.members[0].subnet, pool.members[0].health),
        ("s1", Health::Up)
    );
    assert_eq!(pool.listeners[0].name, "tcp/80");
    let found = pool.monitor.as_ref().unwrap();
    assert_eq!(
        (
            found.delay_s,
            found.timeout_s,
            found.up_threshold,
            found.down_threshold
        ),
        (2, 1, 2, 3)
    );
    shows!(sim.get("/v1/load-balancers?tag:k8s-service-uid=1").await, {"/0/uuid": "b1"});
    assert_eq!(
        sim.status(&sim.get("/v1/load-balancers/b1").await).await,
        "running"
    );

    let http = HttpSpec {
        url_path: Some("/livez".to_owned()),
        ..HttpSpec::default()
    };
    let watched = MonitorSpec {
        http: Some(http),
        ..MonitorSpec::of("http")
    };
    let fixed = BalancerSpec::named("foreign")
        .zone("lpg1")
        .vip(None, Some(address("203.0.113.200")))
        .listener(ListenerSpec::on("tcp", 9999))
        .pool(PoolSpec::named("p").protocol("proxyv2").monitor(watched))
        .status(BalancerStatus::Degraded);
    let fixed = BalancerSpec {
        flavor: "lb-large".to_owned(),
        ..fixed
    };
    cloud.add_balancer(&fixed).unwrap();
    let foreign = &cloud.balancers()[1];
    assert_eq!(foreign.vip_addresses, [address("203.0.113.200")]);
    assert_eq!(
        (foreign.status, &*foreign.flavor),
        (BalancerStatus::Degraded, "lb-large")
    );
    assert_eq!(foreign.loose_listeners[0].protocol_port, 9999);
    let http = foreign.pools[0]
        .monitor
        .as_ref()
        .unwrap()
        .http
        .as_ref()
        .unwrap();
    assert_eq!((&*http.url_path, &*http.method), ("/livez", "GET"));
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_is_not_made_by_hand_either() {
    let sim = Harness::balanced("");
    let cloud = &sim.cloud;
    cloud.add_balancer(&whole()).unwrap();
    for (spec, reason) in [
        (whole(), "uuid: \"b1\" exists already."),
        (
            BalancerSpec::named("x").zone("zrh1"),
            "zone: \"zrh1\" is not a valid choice",
        ),
        (
            BalancerSpec::named("x").vip(None, None),
            "subnet: This field is required.",
        ),
        (
            BalancerSpec::named("x").pool(PoolSpec {
                uuid: Some("b1".to_owned()),
                ..PoolSpec::named("p")
            }),
            "uuid: \"b1\" exists already.",
        ),
        (
            BalancerSpec::named("x").pool(PoolSpec::named("p").protocol("sctp")),
            "protocol: Expect one of",
        ),
        (
            BalancerSpec::named("x")
                .pool(PoolSpec::named("p").member(MemberSpec::at(address("10.99.0.1"), 1))),
            "there is no subnet with the address 10.99.0.1",
        ),
    ] {
        let message = cloud.add_balancer(&spec).unwrap_err().to_string();
        assert!(message.contains(reason), "{message}");
    }
    assert_eq!(cloud.balancers().len(), 1, "nothing half made is left");
}

#[tokio::test(start_paused = true)]
async fn everything_can_be_changed_by_hand_also_what_the_api_does_not_change() {
    let sim = Harness::balanced("");
    let cloud = &sim.cloud;
    cloud.add_balancer(&whole()).unwrap();
    let before = cloud.balancers().remove(0);
    let pool = &before.pools[0];
    let monitor = pool.monitor.as_ref().unwrap();
    for (id, attributes) in bowline_simulator::table![
        "k8s-service-1", json!({"name": "mine", "tags": {}, "flavor": "lb-large", "zone": "lpg1"});
        &*pool.uuid, json!({"algorithm": "source_ip", "protocol": "udp", "name": "p"});
        &*pool.members[0].uuid, json!({"monitor_port": null, "protocol_port": 9, "enabled": false});
        &*pool.members[1].uuid, json!({"address": "10.30.0.9", "subnet": "s2"});
        &*pool.listeners[0].uuid,
            json!({"protocol_port": 81, "pool": null, "timeout_member_data_ms": 7});
        &*monitor.uuid, json!({"type": "http", "delay_s": 5});
        &*monitor.uuid, json!({"http": {"version": "1.0", "host": "a.b"}});
    ] {
        cloud.edit(id, &map(attributes)).unwrap();
    }
    let after = cloud.balancers().remove(0);
    assert_eq!(
        (&*after.name, &*after.flavor, &*after.zone),
        ("mine", "lb-large", "lpg1")
    );
    assert_eq!(
        (after.status, after.changes),
        (BalancerStatus::Running, 0),
        "behind all backs"
    );
    assert_eq!(
        (&*after.pools[0].algorithm, &*after.pools[0].protocol),
        ("source_ip", "udp")
    );
    assert_eq!(after.pools[0].members[0].monitor_port, None);
    assert_eq!(after.pools[0].members[1].subnet, "s2");
    assert_eq!(after.loose_listeners[0].protocol_port, 81);
    let changed = after.pools[0].monitor.as_ref().unwrap();
    assert_eq!(changed.http.as_ref().unwrap().version, "1.0");
    for (id, attributes, reason) in bowline_simulator::table![
        "nobody", json!({}), "cannot edit \"nobody\": there is nothing of that uuid";
        "b1", json!({"colour": "red"}), "colour: There is no such attribute.";
        &*pool.uuid, json!({"protocol": "x"}), "protocol: Expect one of";
    ] {
        let message = cloud.edit(id, &map(attributes)).unwrap_err().to_string();
        assert!(message.contains(reason), "{message}");
    }
    let elsewhere = json!({"subnet": {"href": "https://elsewhere/v1/subnets/s1", "uuid": "s1"}});
    cloud.deform(&pool.members[0].uuid, map(elsewhere)).unwrap();
    let members = sim
        .get(&format!("/v1/load-balancers/pools/{}/members", pool.uuid))
        .await;
    shows!(members, {"/0/subnet/href": "https://elsewhere/v1/subnets/s1"});
    assert!(cloud.deform("nobody", map(json!({}))).is_err());
}

#[tokio::test(start_paused = true)]
async fn everything_can_be_added_and_removed_by_hand_and_leaves_no_trace() {
    let sim = Harness::balanced("floating_ips: [{address: 203.0.113.77}]");
    let cloud = &sim.cloud;
    cloud.add_balancer(&whole()).unwrap();
    let twin = cloud.add_pool("b1", &PoolSpec::named("tcp/http")).unwrap();
    let stray = MemberSpec::at(address("10.20.0.99"), 1);
    let stray = cloud.add_member(&twin, &stray).unwrap();
    cloud
        .add_listener(&twin, &ListenerSpec::on("udp", 53))
        .unwrap();
    cloud
        .add_listener("b1", &ListenerSpec::on("tcp", 9999))
        .unwrap();
    assert!(
        cloud
            .add_member("b1", &MemberSpec::at(address("10.20.0.1"), 1))
            .is_err()
    );
    assert!(cloud.add_pool(&twin, &PoolSpec::named("x")).is_err());
    assert!(
        cloud
            .add_listener(&stray, &ListenerSpec::on("tcp", 1))
            .is_err()
    );
    let lb = cloud.balancers().remove(0);
    assert_eq!((lb.pools.len(), lb.loose_listeners.len()), (2, 1));
    assert_eq!(
        (lb.pools[1].members.len(), lb.pools[1].listeners.len()),
        (1, 1)
    );
    cloud
        .assign_floating_ip(address("203.0.113.77"), Some("b1"))
        .unwrap();
    assert_eq!(cloud.balancers()[0].floating_ips, [address("203.0.113.77")]);
    cloud
        .assign_floating_ip(address("203.0.113.77"), None)
        .unwrap();
    assert_eq!(
        cloud.balancers()[0].floating_ips,
        [] as [std::net::IpAddr; 0]
    );
    assert!(
        cloud
            .assign_floating_ip(address("203.0.113.78"), None)
            .is_err()
    );
    assert!(
        cloud
            .assign_floating_ip(address("203.0.113.77"), Some("x"))
            .is_err()
    );

    let first = &lb.pools[0];
    let watched = first.monitor.as_ref().unwrap().uuid.clone();
    for id in [
        &first.members[0].uuid,
        &first.listeners[0].uuid,
        &watched,
        &stray,
        &twin,
    ] {
        cloud.remove(id).unwrap();
        assert!(cloud.remove(id).is_err(), "gone");
    }
    let lb = cloud.balancers().remove(0);
    assert_eq!((lb.pools.len(), lb.status), (1, BalancerStatus::Running));
    // Nothing is occupied any more.
    let pool = json!({"uuid": first.uuid});
    let path = format!("/v1/load-balancers/pools/{}/members", first.uuid);
    let back = member("10.20.0.11", json!({"protocol_port": 31080}));
    assert_eq!(sim.post(&path, back).await.status, 201);
    assert_eq!(
        sim.post(MONITORS, monitor(&pool, json!({}))).await.status,
        201
    );
    cloud.remove("k8s-service-1").unwrap();
    assert_refused(
        &sim.client.get("/v1/load-balancers/b1").await,
        404,
        "Not found.",
    );
    assert_eq!(cloud.balancers(), []);
}

#[tokio::test(start_paused = true)]
async fn a_load_balancer_can_be_frozen_and_thawed_and_shown_in_any_status() {
    let sim = Harness::balanced("");
    let cloud = &sim.cloud;
    let made = sim.create("/v1/load-balancers", balancer(json!({}))).await;
    cloud.freeze_balancer("lb").unwrap();
    tokio::time::sleep(1_000_000 * SECOND).await;
    assert_eq!(sim.status(&made).await, "changing");
    assert_refused(
        &sim.delete(&path_of(&made)).await,
        400,
        "still being created",
    );
    cloud.thaw_balancer("lb").unwrap();
    assert_eq!(sim.status(&made).await, "running");
    cloud.freeze_balancer("lb").unwrap();
    let pool = sim.pool(&made).await;
    tokio::time::sleep(1_000_000 * SECOND).await;
    assert_eq!(sim.status(&made).await, "changing");
    sim.create(&members_of(&pool), member("10.20.0.11", json!({})))
        .await;
    cloud.thaw_balancer("lb").unwrap();
    for status in [
        "degraded", "error", "stopped", "unknown", "changing", "running",
    ] {
        let meant: BalancerStatus = serde_json::from_value(status.into()).unwrap();
        cloud.set_balancer_status("lb", Some(meant)).unwrap();
        assert_eq!(sim.status(&made).await, status);
    }
    cloud
        .set_balancer_status("lb", Some(BalancerStatus::Stopped))
        .unwrap();
    cloud.set_balancer_status("lb", None).unwrap();
    assert_eq!(sim.status(&made).await, "running");
    let never = BalancerTimings {
        create: Duration::MAX,
        ..BalancerTimings::INSTANT
    };
    cloud.set_balancer_timings(never);
    let other = sim
        .create("/v1/load-balancers", balancer(json!({"name": "never"})))
        .await;
    tokio::time::sleep(1_000_000 * SECOND).await;
    assert_eq!(sim.status(&other).await, "changing");
    assert!(cloud.freeze_balancer("nobody").is_err());
    let pool = pool["uuid"].as_str().unwrap();
    assert!(
        cloud
            .freeze_balancer(pool)
            .unwrap_err()
            .to_string()
            .contains("not a load balancer")
    );
}

#[tokio::test(start_paused = true)]
async fn an_operation_can_fail_and_the_next_one_heals() {
    let sim = Harness::balanced("");
    sim.cloud.fail_next_changes(2);
    let made = sim.create("/v1/load-balancers", balancer(json!({}))).await;
    assert_eq!(made["status"], "changing");
    tokio::time::sleep(5 * SECOND).await;
    assert_eq!(sim.status(&made).await, "error");
    sim.pool(&made).await;
    assert_eq!(sim.status(&made).await, "changing");
    tokio::time::sleep(SECOND).await;
    assert_eq!(sim.status(&made).await, "error");
    sim.pool(&made).await;
    tokio::time::sleep(SECOND).await;
    assert_eq!(sim.status(&made).await, "running");
}
