use super::*;
use crate::auth::User;
use crate::kinds::by_path;
use crate::store::Store;
use bowline_http::{Clock, Random};

/// Creates or changes a Service beside the given others.
fn prepare(others: &[Value], service: &Value, old: Option<&Value>) -> Result<Value, String> {
    let kind = by_path("", "v1", "services").unwrap();
    let store = Store::new(Clock::system(), Random::seeded(1));
    for (index, other) in others.iter().enumerate() {
        let mut other = json!({ "spec": other });
        other["metadata"] = json!({ "name": format!("other-{index}"), "namespace": "default" });
        store.put(kind, other);
    }
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
        .map_err(|refusal| refusal.message)
    })?;
    Ok(service["spec"].clone())
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
        let spec = prepare(&[], &service, None).unwrap();
        assert_eq!(spec["ipFamilyPolicy"], policy, "{service}");
        assert_eq!(spec["ipFamilies"], families, "{service}");
        let ips = spec["clusterIPs"].as_array().unwrap();
        assert_eq!(ips.len(), addresses, "{service}");
        assert_eq!(ips[0], spec["clusterIP"], "{service}");
    }
}

#[test]
fn addresses_and_ports_that_cannot_be_had_are_refused() {
    let others = [json!({
        "type": "NodePort", "clusterIPs": ["10.96.0.10"], "ports": [{ "port": 1, "nodePort": 30080 }],
        "healthCheckNodePort": 30090,
    })];
    let rows = [
        (
            json!({"clusterIP": "10.96.0.10"}),
            "spec.clusterIPs: Invalid value: [\"10.96.0.10\"]: failed to allocate IP 10.96.0.10: provided IP is already allocated",
        ),
        (
            json!({"clusterIP": "192.0.2.1"}),
            "spec.clusterIPs: Invalid value: [\"192.0.2.1\"]: failed to allocate IP 192.0.2.1: the provided network does not match the current range",
        ),
        (
            json!({"type": "NodePort", "ports": [{"port": 1, "nodePort": 30080}]}),
            "spec.ports[0].nodePort: Invalid value: 30080: provided port is already allocated",
        ),
        (
            json!({"type": "NodePort", "ports": [{"port": 1, "nodePort": 30090}]}),
            "spec.ports[0].nodePort: Invalid value: 30090: provided port is already allocated",
        ),
        (
            json!({"type": "NodePort", "ports": [{"port": 1, "nodePort": 80}]}),
            "spec.ports[0].nodePort: Invalid value: 80: provided port is not in the valid range. The range of valid ports is 30000-32767",
        ),
        (
            json!({"ipFamilies": ["IPv4", "IPv6"], "ipFamilyPolicy": "SingleStack"}),
            "spec.ipFamilyPolicy: Invalid value: \"SingleStack\": must be 'RequireDualStack' or 'PreferDualStack' when multiple IP families are specified",
        ),
    ];
    for (service, message) in rows {
        let found = prepare(&others, &service, None).unwrap_err();
        assert_eq!(found, format!("Service \"s\" is invalid: {message}"));
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
        let spec = prepare(&[], &service, None).unwrap();
        let ports: std::collections::BTreeSet<i64> =
            node_ports(&json!({ "spec": spec })).into_iter().collect();
        assert_eq!(ports.len(), distinct, "{service}");
    }
    let local =
        json!({"type": "LoadBalancer", "externalTrafficPolicy": "Local", "ports": port(80)});
    assert!(prepare(&[], &local, None).unwrap()["healthCheckNodePort"].is_i64());
}

#[test]
fn an_update_keeps_what_was_allocated() {
    let first =
        json!({"type": "LoadBalancer", "externalTrafficPolicy": "Local", "ports": port(80)});
    let before = prepare(&[], &first, None).unwrap();
    let after = prepare(&[], &first, Some(&before)).unwrap();
    assert_eq!(after, before, "the client sent nothing back");
    let mut dual = before.clone();
    dual["ipFamilyPolicy"] = "PreferDualStack".into();
    let upgraded = prepare(&[], &dual, Some(&before)).unwrap();
    assert_eq!(upgraded["clusterIPs"].as_array().unwrap().len(), 2);
    assert_eq!(upgraded["clusterIPs"][0], before["clusterIP"]);
    let mut single = upgraded.clone();
    single["ipFamilyPolicy"] = "SingleStack".into();
    let downgraded = prepare(&[], &single, Some(&upgraded)).unwrap();
    assert_eq!(downgraded["clusterIPs"], before["clusterIPs"]);
    let name = json!({"type": "ExternalName", "externalName": "a.example"});
    let external = prepare(&[], &name, Some(&before)).unwrap();
    assert!(external.get("clusterIP").is_none() && external.get("ipFamilies").is_none());
}

/// What is wrong with a spec after its defaults, without allocation.
fn faults(spec: &Value, old: Option<&Value>) -> Vec<String> {
    let mut service = json!({ "metadata": { "name": "s" }, "spec": spec });
    defaults(&mut service);
    let old = old.map(|spec| json!({ "spec": spec }));
    validate(&service, old.as_ref())
        .into_iter()
        .map(|problem| format!("{}: {}", problem.field, problem.message))
        .collect()
}

#[test]
fn specs_are_checked_in_the_servers_words() {
    let rows = [
        (json!({}), "spec.ports: Required value"),
        (
            json!({"ports": [{"port": 0, "targetPort": 1}]}),
            "spec.ports[0].port: Invalid value: 0: must be between 1 and 65535, inclusive",
        ),
        (
            json!({"ports": [{"port": 1}, {"port": 2, "name": "b"}]}),
            "spec.ports[0].name: Required value",
        ),
        (
            json!({"ports": [{"port": 1, "protocol": "QUIC"}]}),
            "spec.ports[0].protocol: Unsupported value: \"QUIC\": supported values: \"SCTP\", \"TCP\", \"UDP\"",
        ),
        (
            json!({"ports": [{"port": 1, "nodePort": 30000}]}),
            "spec.ports[0].nodePort: Forbidden: may not be used when `type` is 'ClusterIP'",
        ),
        (
            json!({"type": "Odd", "ports": port(1)}),
            "spec.type: Unsupported value: \"Odd\": supported values: \"ClusterIP\", \"ExternalName\", \"LoadBalancer\", \"NodePort\"",
        ),
        (
            json!({"type": "ExternalName"}),
            "spec.externalName: Required value",
        ),
        (
            json!({"loadBalancerClass": "a/b", "ports": port(1)}),
            "spec.loadBalancerClass: Forbidden: may only be used when `type` is 'LoadBalancer'",
        ),
        (
            json!({"loadBalancerSourceRanges": ["10.0.0.0/8"], "ports": port(1)}),
            "spec.LoadBalancerSourceRanges: Forbidden: may only be used when `type` is 'LoadBalancer'",
        ),
        (
            json!({"type": "LoadBalancer", "loadBalancerSourceRanges": ["10.0.0.0"], "ports": port(1)}),
            "spec.LoadBalancerSourceRanges[0]: Invalid value: \"10.0.0.0\": must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)",
        ),
        (
            json!({"externalTrafficPolicy": "Local", "ports": port(1)}),
            "spec.externalTrafficPolicy: Invalid value: \"Local\": may only be set for externally-accessible services",
        ),
        (
            json!({"type": "LoadBalancer", "healthCheckNodePort": 30000, "ports": port(1)}),
            "spec.healthCheckNodePort: Invalid value: 30000: may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'",
        ),
        (
            json!({"sessionAffinity": "Cookie", "ports": port(1)}),
            "spec.sessionAffinity: Unsupported value: \"Cookie\": supported values: \"ClientIP\", \"None\"",
        ),
        (
            json!({"type": "NodePort", "clusterIP": "None", "clusterIPs": ["None"], "ports": port(1)}),
            "spec.clusterIPs[0]: Invalid value: \"None\": may not be set to 'None' for NodePort services",
        ),
    ];
    for (spec, message) in rows {
        assert_eq!(faults(&spec, None), [message], "{spec}");
    }
}

#[test]
fn what_may_not_change_is_refused() {
    let old = json!({
        "type": "LoadBalancer", "clusterIP": "10.96.0.2", "clusterIPs": ["10.96.0.2"],
        "externalTrafficPolicy": "Local", "healthCheckNodePort": 30001,
        "loadBalancerClass": "a/b", "ipFamilies": ["IPv4"], "ports": port(1),
    });
    let rows = [
        (
            "loadBalancerClass",
            json!("a/c"),
            "spec.loadBalancerClass: Invalid value: \"a/c\": may not change once set",
        ),
        (
            "loadBalancerClass",
            Value::Null,
            "spec.loadBalancerClass: Invalid value: null: may not change once set",
        ),
        (
            "healthCheckNodePort",
            json!(30002),
            "spec.healthCheckNodePort: Forbidden: field is immutable",
        ),
    ];
    for (field, value, message) in rows {
        let mut spec = old.clone();
        spec[field] = value;
        assert_eq!(faults(&spec, Some(&old)), [message]);
    }
    let mut spec = old.clone();
    spec["clusterIP"] = "10.96.0.3".into();
    spec["clusterIPs"] = json!(["10.96.0.3"]);
    assert_eq!(
        faults(&spec, Some(&old)),
        ["spec.clusterIPs[0]: Invalid value: [\"10.96.0.3\"]: may not change once set"]
    );
}
