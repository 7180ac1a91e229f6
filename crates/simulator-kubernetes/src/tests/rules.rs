use super::*;
use rcgen::{CertificateParams, KeyPair};

fn balancer(name: &str) -> Value {
    json!({
        "metadata": { "name": name },
        "spec": { "type": "LoadBalancer", "ports": [{ "port": 80 }] },
    })
}

#[tokio::test]
async fn a_new_service_gets_addresses_ports_and_defaults() {
    let api = api();
    let got = post(&api, SERVICES, &balancer("s")).await;
    assert_eq!(got.code, 201, "{}", got.body);
    let spec = &got.body["spec"];
    let ip: std::net::Ipv4Addr = spec["clusterIP"].as_str().unwrap().parse().unwrap();
    assert!((96..112).contains(&ip.octets()[1]), "{ip}");
    assert_eq!(spec["clusterIPs"], json!([spec["clusterIP"]]));
    assert_eq!(spec["ipFamilies"], json!(["IPv4"]));
    assert_eq!(spec["ipFamilyPolicy"], "SingleStack");
    assert_eq!(spec["sessionAffinity"], "None");
    assert_eq!(spec["externalTrafficPolicy"], "Cluster");
    assert_eq!(spec["internalTrafficPolicy"], "Cluster");
    assert_eq!(spec["allocateLoadBalancerNodePorts"], true);
    let port = &spec["ports"][0];
    assert_eq!(
        (&port["protocol"], &port["targetPort"]),
        (&json!("TCP"), &json!(80))
    );
    let node_port = port["nodePort"].as_i64().unwrap();
    assert!((30000..=32767).contains(&node_port));
    assert_eq!(got.body["status"], json!({ "loadBalancer": {} }));

    let dual = post(
        &api,
        SERVICES,
        &json!({
            "metadata": { "name": "dual" },
            "spec": { "ipFamilyPolicy": "PreferDualStack", "ports": [{ "port": 80 }] },
        }),
    )
    .await;
    let ips = &dual.body["spec"]["clusterIPs"];
    assert!(
        ips[1].as_str().unwrap().starts_with("fd00:10:96::"),
        "{ips}"
    );
    assert_eq!(dual.body["spec"]["ipFamilies"], json!(["IPv4", "IPv6"]));
    assert!(dual.body["spec"]["ports"][0].get("nodePort").is_none());

    let taken = post(
        &api,
        SERVICES,
        &json!({
            "metadata": { "name": "t" },
            "spec": { "type": "NodePort", "ports": [{ "port": 80, "nodePort": node_port }] },
        }),
    )
    .await;
    assert_eq!(
        taken.message(),
        format!(
            "Service \"t\" is invalid: spec.ports[0].nodePort: Invalid value: {node_port}: provided port is already allocated"
        )
    );
    let taken = post(
        &api,
        SERVICES,
        &json!({
            "metadata": { "name": "t" },
            "spec": { "clusterIP": spec["clusterIP"], "ports": [{ "port": 80 }] },
        }),
    )
    .await;
    assert_eq!(
        taken.message(),
        format!(
            "Service \"t\" is invalid: spec.clusterIPs: Invalid value: [\"{ip}\"]: failed to allocate IP {ip}: provided IP is already allocated"
        )
    );
}

#[tokio::test]
async fn changing_the_type_of_a_service_clears_what_the_new_type_lacks() {
    let api = api();
    let mut body = balancer("s");
    body["spec"]["externalTrafficPolicy"] = "Local".into();
    body["spec"]["loadBalancerClass"] = "example.com/lb".into();
    let created = post(&api, SERVICES, &body).await;
    assert!(
        created.body["spec"]["healthCheckNodePort"].is_i64(),
        "{}",
        created.body
    );
    let uri = format!("{SERVICES}/s");
    let status = json!({ "status": { "loadBalancer": { "ingress": [{ "ip": "192.0.2.1" }] } } });
    let shown = patch(&api, &format!("{uri}/status"), "merge-patch+json", &status).await;
    assert_eq!(
        shown.body["status"]["loadBalancer"]["ingress"],
        json!([{ "ip": "192.0.2.1", "ipMode": "VIP" }])
    );
    let class = json!({ "spec": { "loadBalancerClass": "example.com/other" } });
    let refused = patch(&api, &uri, "merge-patch+json", &class).await;
    assert_eq!(
        (refused.code, refused.message()),
        (
            422,
            "Service \"s\" is invalid: spec.loadBalancerClass: Invalid value: \"example.com/other\": may not change once set"
        )
    );
    let inner = patch(
        &api,
        &uri,
        "merge-patch+json",
        &json!({ "spec": { "type": "ClusterIP" } }),
    )
    .await;
    assert_eq!(inner.code, 200, "{}", inner.body);
    for field in [
        "healthCheckNodePort",
        "loadBalancerClass",
        "allocateLoadBalancerNodePorts",
        "externalTrafficPolicy",
    ] {
        assert!(inner.body["spec"].get(field).is_none(), "{field}");
    }
    assert!(inner.body["spec"]["ports"][0].get("nodePort").is_none());
    assert_eq!(inner.body["status"], json!({ "loadBalancer": {} }));
    assert_eq!(
        inner.body["spec"]["clusterIP"],
        created.body["spec"]["clusterIP"]
    );
    let refused = patch(&api, &format!("{uri}/status"), "merge-patch+json", &status).await;
    assert_eq!(
        refused.message(),
        "Service \"s\" is invalid: status.loadBalancer.ingress: Forbidden: may only be used when `spec.type` is 'LoadBalancer'"
    );
}

#[tokio::test]
async fn the_status_of_a_service_carries_finalizers_but_no_spec() {
    let api = api();
    post(&api, SERVICES, &balancer("s")).await;
    let uri = format!("{SERVICES}/s/status");
    let change = json!({
        "metadata": { "finalizers": ["service.kubernetes.io/load-balancer-cleanup"], "labels": { "a": "b" } },
        "spec": { "type": "ClusterIP" },
    });
    let got = patch(&api, &uri, "merge-patch+json", &change).await;
    assert_eq!(got.code, 200);
    assert_eq!(
        got.body["metadata"]["finalizers"][0],
        "service.kubernetes.io/load-balancer-cleanup"
    );
    assert_eq!(got.body["metadata"]["labels"]["a"], "b");
    assert_eq!(got.body["spec"]["type"], "LoadBalancer");
    let rows = [
        (
            json!([{ "ipMode": "VIP", "hostname": "a" }]),
            "ipMode: Forbidden: may not be specified when `ip` is not set",
        ),
        (
            json!([{ "hostname": "192.0.2.1" }]),
            "hostname: Invalid value: \"192.0.2.1\": must be a DNS name, not an IP address",
        ),
        (
            json!([{ "ip": "x" }]),
            "ip: Invalid value: \"x\": must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)",
        ),
        (
            json!([{ "ip": "192.0.2.1", "ipMode": "Odd" }]),
            "ipMode: Unsupported value: \"Odd\": supported values: \"Proxy\", \"VIP\"",
        ),
    ];
    for (ingress, message) in rows {
        let change = json!({ "status": { "loadBalancer": { "ingress": ingress } } });
        let got = patch(&api, &uri, "merge-patch+json", &change).await;
        assert_eq!(
            got.message(),
            format!("Service \"s\" is invalid: status.loadBalancer.ingress[0].{message}")
        );
    }
    let waiting = delete(&api, &format!("{SERVICES}/s")).await;
    assert_eq!(waiting.body["kind"], "Service");
    let done = patch(
        &api,
        &uri,
        "merge-patch+json",
        &json!({ "metadata": { "finalizers": null } }),
    )
    .await;
    assert_eq!(done.code, 200);
    assert_eq!(get(&api, &format!("{SERVICES}/s")).await.code, 404);
}

#[tokio::test]
async fn node_spec_and_status_are_written_apart() {
    let api = api();
    let created = post(
        &api,
        NODES,
        &json!({
            "metadata": { "name": "n" }, "spec": { "providerID": "a://1" },
            "status": { "capacity": { "cpu": "4" } },
        }),
    )
    .await;
    assert_eq!(
        created.body["spec"]["taints"],
        json!([{ "key": "node.kubernetes.io/not-ready", "effect": "NoSchedule" }])
    );
    assert_eq!(created.body["status"]["allocatable"]["cpu"], "4");
    let both = json!({
        "metadata": { "labels": { "a": "b" }, "finalizers": ["x.io/y"] },
        "spec": { "unschedulable": true },
        "status": { "addresses": [{ "type": "InternalIP", "address": "10.0.0.1" }] },
    });
    let main = patch(&api, &format!("{NODES}/n"), "merge-patch+json", &both).await;
    assert_eq!(main.body["spec"]["unschedulable"], true);
    assert!(main.body["status"].get("addresses").is_none());
    let uncordon = json!({ "spec": { "unschedulable": false }, "status": both["status"], "metadata": { "labels": { "a": "c" } } });
    let status = patch(
        &api,
        &format!("{NODES}/n/status"),
        "merge-patch+json",
        &uncordon,
    )
    .await;
    assert_eq!(status.body["spec"]["unschedulable"], true);
    assert_eq!(status.body["status"]["addresses"][0]["address"], "10.0.0.1");
    assert_eq!(status.body["metadata"]["labels"]["a"], "c");
    let moved = patch(
        &api,
        &format!("{NODES}/n"),
        "merge-patch+json",
        &json!({ "spec": { "providerID": "a://2" } }),
    )
    .await;
    assert_eq!(
        moved.message(),
        "Node \"n\" is invalid: spec.providerID: Forbidden: node updates may not change providerID except from \"\" to valid"
    );
    let twice = json!({ "status": { "addresses": [
        { "type": "InternalIP", "address": "10.0.0.1" }, { "type": "InternalIP", "address": "10.0.0.1" } ] } });
    let refused = patch(
        &api,
        &format!("{NODES}/n/status"),
        "merge-patch+json",
        &twice,
    )
    .await;
    assert_eq!(refused.code, 422);
    assert_eq!(
        refused.body["details"]["causes"][0]["reason"],
        "FieldValueDuplicate"
    );
}

#[tokio::test]
async fn a_namespace_is_emptied_before_it_goes() {
    let api = api();
    let created = post(&api, "/api/v1/namespaces", &named("team")).await;
    assert_eq!(created.body["status"]["phase"], "Active");
    assert_eq!(created.body["spec"]["finalizers"], json!(["kubernetes"]));
    assert_eq!(
        created.body["metadata"]["labels"]["kubernetes.io/metadata.name"],
        "team"
    );
    let maps = "/api/v1/namespaces/team/configmaps";
    post(&api, maps, &named("free")).await;
    post(
        &api,
        maps,
        &json!({ "metadata": { "name": "held", "finalizers": ["x.io/y"] } }),
    )
    .await;
    let going = delete(&api, "/api/v1/namespaces/team").await;
    assert_eq!(going.body["status"]["phase"], "Terminating");
    assert_eq!(get(&api, &format!("{maps}/free")).await.code, 404);
    assert_eq!(get(&api, &format!("{maps}/held")).await.code, 200);
    let late = post(&api, maps, &named("late")).await;
    assert_eq!(
        (late.code, late.message()),
        (
            403,
            "configmaps \"late\" is forbidden: unable to create new content in namespace team because it is being terminated"
        )
    );
    assert_eq!(
        late.body["details"]["causes"][0]["reason"],
        "NamespaceTerminating"
    );
    let again = delete(&api, "/api/v1/namespaces/team").await;
    assert_eq!(again.code, 409);
    patch(
        &api,
        &format!("{maps}/held"),
        "merge-patch+json",
        &json!({ "metadata": { "finalizers": null } }),
    )
    .await;
    assert_eq!(get(&api, "/api/v1/namespaces/team").await.code, 404);
    let kept = delete(&api, "/api/v1/namespaces/default").await;
    assert_eq!(
        (kept.code, kept.message()),
        (
            403,
            "namespaces \"default\" is forbidden: this namespace may not be deleted"
        )
    );
}

#[tokio::test]
async fn a_certificate_request_is_decided_once() {
    use base64::Engine;
    let api = api();
    let key = KeyPair::generate().unwrap();
    let pem = CertificateParams::default()
        .serialize_request(&key)
        .unwrap()
        .pem()
        .unwrap();
    let uri = "/apis/certificates.k8s.io/v1/certificatesigningrequests";
    let request = json!({
        "metadata": { "name": "c" },
        "spec": {
            "request": base64::engine::general_purpose::STANDARD.encode(pem),
            "signerName": "kubernetes.io/kubelet-serving", "username": "forged",
            "usages": ["digital signature", "server auth"],
        },
        "status": { "conditions": [{ "type": "Approved", "status": "True" }] },
    });
    let created = post(&api, uri, &request).await;
    assert_eq!(created.code, 201, "{}", created.body);
    assert_eq!(created.body["spec"]["username"], "kubernetes-admin");
    assert_eq!(created.body["status"], json!({}));
    let mut approved = created.body.clone();
    approved["status"]["conditions"] =
        json!([{ "type": "Approved", "status": "True", "reason": "r", "message": "m" }]);
    let main = put(&api, &format!("{uri}/c"), &approved).await;
    assert_eq!((main.code, &main.body["status"]), (200, &json!({})));
    let done = put(&api, &format!("{uri}/c/approval"), &approved).await;
    assert_eq!(done.code, 200, "{}", done.body);
    assert!(done.body["status"]["conditions"][0]["lastUpdateTime"].is_string());
    let mut both = done.body.clone();
    both["status"]["conditions"]
        .as_array_mut()
        .unwrap()
        .push(json!({ "type": "Denied", "status": "True" }));
    let refused = put(&api, &format!("{uri}/c/approval"), &both).await;
    assert_eq!(refused.code, 422);
    assert!(
        refused
            .message()
            .contains("Approved and Denied conditions are mutually exclusive")
    );
    let garbage = json!({ "metadata": { "name": "g" }, "spec": { "request": "eA==", "signerName": "a.b/c", "usages": ["any"] } });
    assert!(
        post(&api, uri, &garbage)
            .await
            .message()
            .contains("PEM block type must be CERTIFICATE REQUEST")
    );
}

#[tokio::test]
async fn small_kinds_have_their_rules() {
    let api = api();
    let leases = "/apis/coordination.k8s.io/v1/namespaces/default/leases";
    let events = "/api/v1/namespaces/default/events";
    let secrets = "/api/v1/namespaces/default/secrets";
    let slices = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices";
    let roles = "/apis/rbac.authorization.k8s.io/v1/namespaces/default/roles";
    let bindings = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings";
    let with = |extra: Value| {
        let mut object = named("x");
        for (key, value) in extra.as_object().unwrap() {
            object[key] = value.clone();
        }
        object
    };
    let rows = [
        (
            leases,
            json!({"spec": {"leaseDurationSeconds": 0}}),
            "spec.leaseDurationSeconds: Invalid value: 0: must be greater than 0",
        ),
        (
            events,
            json!({"involvedObject": {"namespace": "other"}}),
            "involvedObject.namespace: Invalid value: \"other\": does not match event.namespace",
        ),
        (
            secrets,
            json!({"type": "kubernetes.io/tls"}),
            "[data[tls.crt]: Required value, data[tls.key]: Required value]",
        ),
        (
            MAPS,
            json!({"data": {"..": ""}}),
            "data[..]: Invalid value: \"..\": must not be '..'",
        ),
        (
            slices,
            json!({"addressType": "IPv4", "endpoints": [{"addresses": ["::1"]}]}),
            "endpoints[0].addresses[0]: Invalid value: \"::1\": must be an IPv4 address",
        ),
        (
            roles,
            json!({"rules": [{"apiGroups": [""], "resources": ["pods"]}]}),
            "rules[0].verbs: Required value: verbs must contain at least one value",
        ),
        (
            bindings,
            json!({"roleRef": {"kind": "Role", "name": "r"}}),
            "roleRef.kind: Unsupported value: \"Role\": supported values: \"ClusterRole\"",
        ),
    ];
    for (uri, extra, message) in rows {
        let got = post(&api, uri, &with(extra)).await;
        assert_eq!(got.code, 422, "{}", got.body);
        assert!(
            got.message().ends_with(&format!("is invalid: {message}")),
            "{}",
            got.message()
        );
    }
    let secret = post(
        &api,
        secrets,
        &with(json!({"stringData": {"a": "b"}, "immutable": true})),
    )
    .await;
    assert_eq!(
        (&secret.body["data"]["a"], &secret.body["type"]),
        (&json!("Yg=="), &json!("Opaque"))
    );
    assert!(secret.body.get("stringData").is_none());
    let changed = patch(
        &api,
        &format!("{secrets}/x"),
        "merge-patch+json",
        &json!({"data": {"a": "Yw=="}}),
    )
    .await;
    assert_eq!(
        changed.message(),
        "Secret \"x\" is invalid: data: Forbidden: field is immutable when `immutable` is set"
    );
    let slice = post(&api, slices, &with(json!({"addressType": "IPv4"}))).await;
    assert_eq!(slice.body["metadata"]["generation"], 1);
    let slice = patch(
        &api,
        &format!("{slices}/x"),
        "merge-patch+json",
        &json!({"ports": [{"port": 1}]}),
    )
    .await;
    assert_eq!(slice.body["metadata"]["generation"], 2);
    let event = post(
        &api,
        events,
        &with(json!({"involvedObject": {"kind": "Node", "name": "n"}, "reason": "r"})),
    )
    .await;
    assert_eq!((event.code, &event.body["eventTime"]), (201, &Value::Null));
}

#[tokio::test]
async fn a_pod_waits_is_bound_and_stops_gracefully() {
    let api = api();
    let pods = "/api/v1/namespaces/default/pods";
    let pod = json!({ "metadata": { "name": "p" }, "spec": { "containers": [{ "name": "c", "image": "web:1" }] } });
    let created = post(&api, pods, &pod).await;
    assert_eq!(created.code, 201, "{}", created.body);
    assert_eq!(
        created.body["status"],
        json!({ "phase": "Pending", "qosClass": "BestEffort" })
    );
    assert_eq!(created.body["spec"]["serviceAccountName"], "default");
    assert_eq!(
        created.body["spec"]["containers"][0]["imagePullPolicy"],
        "IfNotPresent"
    );
    assert_eq!(
        created.body["spec"]["tolerations"]
            .as_array()
            .unwrap()
            .len(),
        2
    );
    let bound = post(
        &api,
        &format!("{pods}/p/binding"),
        &json!({ "target": { "kind": "Node", "name": "n" } }),
    )
    .await;
    assert_eq!(
        (bound.code, &bound.body["status"]),
        (201, &json!("Success"))
    );
    let twice = post(
        &api,
        &format!("{pods}/p/binding"),
        &json!({ "target": { "name": "m" } }),
    )
    .await;
    assert_eq!(twice.code, 409);
    let stopping = delete(&api, &format!("{pods}/p")).await;
    assert_eq!(stopping.body["metadata"]["deletionGracePeriodSeconds"], 30);
    assert_eq!(stopping.body["metadata"]["generation"], 2);
    assert_eq!(get(&api, &format!("{pods}/p")).await.code, 200);
    assert_eq!(
        delete(&api, &format!("{pods}/p?gracePeriodSeconds=0"))
            .await
            .code,
        200
    );
    assert_eq!(get(&api, &format!("{pods}/p")).await.code, 404);
    post(&api, pods, &pod).await;
    let evicted = post(&api, &format!("{pods}/p/eviction"), &named("p")).await;
    assert_eq!(evicted.code, 201, "{}", evicted.body);
    assert_eq!(get(&api, &format!("{pods}/p")).await.code, 404);
}
