//! The documented objects, and what becomes of them when parts are missing.

use serde_json::{Value, json};

use super::{Listing, Resource, read};
use crate::api::{FloatingIp, Listener, LoadBalancer, Member, Monitor, Pool};

const UUID: &str = "8a4e0a55-1f5a-4f0e-9d0e-6a5f5b3d7c21";
const OTHER: &str = "7d1f0c9a-2b34-4c56-8d78-9e0f1a2b3c4d";

/// Without what is optional, and with it null.
fn poor<T: Resource>(keys: &[&str]) -> [T; 2] {
    let mut nulls = json!({"uuid": UUID, "network": "203.0.113.77/32", "new": [1]});
    for key in keys {
        nulls[key] = Value::Null;
    }
    let bare = json!({"uuid": UUID, "network": "203.0.113.77/32"});
    [bare, nulls].map(|it| read(&it.to_string()).unwrap())
}

#[test]
fn the_documented_objects_are_read() {
    let subnet = json!({"href": "…", "uuid": OTHER, "cidr": "203.0.113.0/24"});
    let stub = json!({"href": "…", "uuid": OTHER, "name": "x"});
    let balancer: LoadBalancer = read(
        &json!({
            "href": "…", "uuid": UUID, "name": "a", "created_at": "2026-02-03T08:20:00.000001Z",
            "status": "changing", "zone": {"slug": "rma1"},
            "flavor": {"slug": "lb-standard", "name": "LB-Standard"},
            "vip_addresses": [{"version": 4, "address": "203.0.113.200", "subnet": subnet}],
            "tags": {"team": "a"},
        })
        .to_string(),
    )
    .unwrap();
    assert!(balancer.is_changing());
    assert_eq!(
        (&*balancer.zone, &*balancer.flavor),
        ("rma1", "lb-standard")
    );
    assert_eq!(balancer.vip_addresses[0].address, "203.0.113.200");
    assert_eq!(balancer.vip_addresses[0].subnet.unwrap().to_string(), OTHER);
    assert_eq!(balancer.tags["team"], "a");

    let member: Member = read(&json!({
        "uuid": UUID, "name": "10.20.0.11:31080", "enabled": true, "pool": stub,
        "protocol_port": 31080, "monitor_port": 32100, "address": "10.20.0.11", "subnet": subnet,
        "monitor_status": "up", "tags": {},
    }).to_string())
    .unwrap();
    assert_eq!(
        (member.protocol_port, member.monitor_port),
        (31080, Some(32100))
    );
    assert_eq!(member.ip(), "10.20.0.11".parse().ok());

    let monitor: Monitor = read(
        &json!({
            "uuid": UUID, "pool": stub, "delay_s": 2, "timeout_s": 1, "up_threshold": 2,
            "down_threshold": 3, "type": "http", "http": {"expected_codes": ["200"],
            "method": "GET", "url_path": "/livez", "version": "1.0", "host": null},
        })
        .to_string(),
    )
    .unwrap();
    assert_eq!(monitor.kind, "http");
    assert_eq!(monitor.http.unwrap().version.as_deref(), Some("1.0"));

    let floating: FloatingIp = read(
        &json!({
            "network": "2001:db8:f::/56", "ip_version": 6, "region": null, "server": null,
            "load_balancer": stub, "next_hop": "2001:db8::1",
        })
        .to_string(),
    )
    .unwrap();
    assert_eq!(floating.address(), "2001:db8:f::".parse().ok());
    assert_eq!(floating.load_balancer.unwrap().to_string(), OTHER);
}

#[test]
fn whatever_is_optional_may_be_missing_or_null() {
    let keys = ["name", "status", "zone", "flavor", "vip_addresses", "tags"];
    for balancer in poor::<LoadBalancer>(&keys) {
        assert!(!balancer.is_changing());
        assert!(balancer.vip_addresses.is_empty() && balancer.tags.is_empty());
    }
    let keys = [
        "name",
        "created_at",
        "load_balancer",
        "algorithm",
        "protocol",
    ];
    for pool in poor::<Pool>(&keys) {
        assert_eq!(pool.load_balancer, None);
    }
    let keys = [
        "name",
        "enabled",
        "monitor_port",
        "address",
        "subnet",
        "protocol_port",
    ];
    for member in poor::<Member>(&keys) {
        assert_eq!(
            (member.ip(), member.monitor_port, member.subnet),
            (None, None, None)
        );
    }
    let keys = [
        "pool",
        "load_balancer",
        "allowed_cidrs",
        "timeout_client_data_ms",
    ];
    for listener in poor::<Listener>(&keys) {
        assert_eq!((listener.pool, listener.allowed_cidrs.len()), (None, 0));
    }
    for monitor in poor::<Monitor>(&["pool", "http", "delay_s", "type"]) {
        assert_eq!((monitor.http, monitor.delay_s), (None, 0));
    }
    for floating in poor::<FloatingIp>(&["load_balancer", "server"]) {
        assert_eq!((floating.load_balancer, floating.server), (None, None));
    }
}

#[test]
fn one_bad_item_is_one_error_that_says_whom_it_may_concern() {
    let items = [
        json!({"uuid": UUID, "name": "tcp/http"}),
        json!({"uuid": "x", "name": "tcp/dns", "load_balancer": {"uuid": OTHER}}),
        json!(null),
    ];
    let texts = items.map(|it| it.to_string());
    let listing: Listing<Pool> = Listing::read(&texts.each_ref().map(String::as_str));
    assert_eq!((listing.items.len(), listing.bad.len()), (1, 2));
    let (uuid, other) = (UUID.parse().unwrap(), OTHER.parse().unwrap());
    assert!(listing.bad[0].may_belong_to(other) && !listing.bad[0].may_belong_to(uuid));
    assert!(listing.bad[1].may_belong_to(uuid));
    assert!(listing.bad[0].to_string().contains("pool \"tcp/dns\""));
}
