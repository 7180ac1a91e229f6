use super::*;
use crate::auth::User;
use crate::kinds::by_path;
use crate::store::Store;
use bowline_http::{Clock, Random};

/// Creates or changes a Service.
fn prepare(service: &Value, old: Option<&Value>) -> Value {
    let kind = by_path("", "v1", "services").unwrap();
    let store = Store::new(Clock::system(), Random::seeded(1));
    let mut service = json!({ "metadata": { "name": "s", "uid": "own" }, "spec": service });
    defaults(&mut service);
    store.with(|state| {
        let context = Context {
            state,
            user: &User::default(),
            now: jiff::Timestamp::UNIX_EPOCH,
            random: &Random::seeded(2),
        };
        match old {
            None => prepare_create(kind, &mut service, &context),
            Some(old) => {
                let mut before = json!({ "metadata": { "name": "s", "uid": "own" }, "spec": old });
                before["status"] = json!({ "loadBalancer": {} });
                prepare_update(kind, &mut service, &before, &context)
            }
        }
        .unwrap();
    });
    service["spec"].clone()
}

fn port(number: i64) -> Value {
    json!([{ "port": number }])
}

#[test]
fn families_and_addresses_follow_the_policy() {
    let rows = [
        (json!({}), "SingleStack", json!(["IPv4"]), 1),
        (
            json!({"ipFamilies": ["IPv6"]}),
            "SingleStack",
            json!(["IPv6"]),
            1,
        ),
        (
            json!({"ipFamilyPolicy": "PreferDualStack"}),
            "PreferDualStack",
            json!(["IPv4", "IPv6"]),
            2,
        ),
        (
            json!({"ipFamilyPolicy": "RequireDualStack", "ipFamilies": ["IPv6"]}),
            "RequireDualStack",
            json!(["IPv6", "IPv4"]),
            2,
        ),
        (
            json!({"clusterIP": "10.96.0.10"}),
            "SingleStack",
            json!(["IPv4"]),
            1,
        ),
        (
            json!({"clusterIP": "None", "selector": {"a": "b"}}),
            "SingleStack",
            json!(["IPv4"]),
            1,
        ),
        (
            json!({"clusterIP": "None"}),
            "RequireDualStack",
            json!(["IPv4", "IPv6"]),
            1,
        ),
    ];
    for (mut service, policy, families, addresses) in rows {
        service["ports"] = port(80);
        let spec = prepare(&service, None);
        assert_eq!(spec["ipFamilyPolicy"], policy, "{service}");
        assert_eq!(spec["ipFamilies"], families, "{service}");
        let ips = spec["clusterIPs"].as_array().unwrap();
        assert_eq!(ips.len(), addresses, "{service}");
        assert_eq!(ips[0], spec["clusterIP"], "{service}");
    }
}

#[test]
fn node_ports_are_handed_out_where_they_are_wanted() {
    let rows = [
        (json!({"type": "ClusterIP", "ports": port(80)}), 0),
        (json!({"type": "NodePort", "ports": port(80)}), 1),
        (json!({"type": "LoadBalancer", "ports": port(80)}), 1),
        (
            json!({"type": "LoadBalancer", "allocateLoadBalancerNodePorts": false, "ports": port(80)}),
            0,
        ),
        (
            json!({"type": "NodePort", "ports": [{"port": 53, "protocol": "UDP"}, {"port": 53}, {"port": 80}]}),
            2,
        ),
    ];
    for (service, distinct) in rows {
        let spec = prepare(&service, None);
        let ports: std::collections::BTreeSet<i64> =
            node_ports(&json!({ "spec": spec })).into_iter().collect();
        assert_eq!(ports.len(), distinct, "{service}");
    }
    let local =
        json!({"type": "LoadBalancer", "externalTrafficPolicy": "Local", "ports": port(80)});
    assert!(prepare(&local, None)["healthCheckNodePort"].is_i64());
}

#[test]
fn an_update_keeps_what_was_allocated() {
    let first =
        json!({"type": "LoadBalancer", "externalTrafficPolicy": "Local", "ports": port(80)});
    let before = prepare(&first, None);
    let after = prepare(&first, Some(&before));
    assert_eq!(after, before, "the client sent nothing back");
    let mut dual = before.clone();
    dual["ipFamilyPolicy"] = "PreferDualStack".into();
    let upgraded = prepare(&dual, Some(&before));
    assert_eq!(upgraded["clusterIPs"].as_array().unwrap().len(), 2);
    assert_eq!(upgraded["clusterIPs"][0], before["clusterIP"]);
    let mut single = upgraded.clone();
    single["ipFamilyPolicy"] = "SingleStack".into();
    let downgraded = prepare(&single, Some(&upgraded));
    assert_eq!(downgraded["clusterIPs"], before["clusterIPs"]);
    let name = json!({"type": "ExternalName", "externalName": "a.example"});
    let external = prepare(&name, Some(&before));
    assert!(external.get("clusterIP").is_none() && external.get("ipFamilies").is_none());
}
