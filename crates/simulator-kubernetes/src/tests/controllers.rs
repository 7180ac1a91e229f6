//! The writes of a cloud controller manager, byte for byte, and the same seed twice.

use super::*;

const STRATEGIC: &str = "strategic-merge-patch+json";

#[tokio::test]
async fn the_writes_about_a_node_are_understood() {
    let api = api();
    post(
        &api,
        NODES,
        &json!({ "metadata": { "name": "n" }, "spec": { "taints": [
            { "key": "node.cloudprovider.kubernetes.io/uninitialized", "value": "true", "effect": "NoSchedule" },
        ] } }),
    )
    .await;
    let node = format!("{NODES}/n");
    let status = format!("{NODES}/n/status");
    let address = |kind: &str, address: &str| json!({ "type": kind, "address": address });
    let first = json!({ "status": { "addresses": [address("InternalIP", "10.0.0.1"), address("Hostname", "n")] } });
    patch(&api, &status, STRATEGIC, &first).await;
    let second = json!({ "status": { "addresses": [
        address("ExternalIP", "192.0.2.1"), address("Hostname", "n"), { "$patch": "replace" },
    ] } });
    let got = patch(&api, &status, STRATEGIC, &second).await;
    assert_eq!(
        got.body["status"]["addresses"],
        json!([address("ExternalIP", "192.0.2.1"), address("Hostname", "n")])
    );
    let condition = |status: &str| {
        json!({ "status": { "conditions": [{
            "type": "NetworkUnavailable", "status": status, "reason": "r", "message": "m",
            "lastHeartbeatTime": "2026-10-26T07:33:20Z", "lastTransitionTime": "2026-10-26T07:33:20Z",
        }] } })
    };
    patch(&api, &status, STRATEGIC, &condition("True")).await;
    let got = patch(&api, &status, STRATEGIC, &condition("False")).await;
    assert_eq!(
        got.body["status"]["conditions"].as_array().unwrap().len(),
        1
    );
    assert_eq!(got.body["status"]["conditions"][0]["status"], "False");

    let cidrs = json!({ "spec": { "podCIDR": "10.244.0.0/24", "podCIDRs": ["10.244.0.0/24", "fd00:1::/64"] } });
    assert_eq!(patch(&api, &node, STRATEGIC, &cidrs).await.code, 200);
    let other = json!({ "spec": { "podCIDR": "10.244.1.0/24", "podCIDRs": ["10.244.1.0/24"] } });
    assert_eq!(patch(&api, &node, STRATEGIC, &other).await.code, 422);

    let stale = json!({ "metadata": { "resourceVersion": "1" }, "spec": { "taints": null } });
    assert_eq!(patch(&api, &node, STRATEGIC, &stale).await.code, 409);
    let current = get(&api, &node).await;
    let none =
        json!({ "metadata": { "resourceVersion": current.version() }, "spec": { "taints": null } });
    let got = patch(&api, &node, STRATEGIC, &none).await;
    assert!(got.body["spec"].get("taints").is_none(), "{}", got.body);
    let same = patch(&api, &status, STRATEGIC, &json!({})).await;
    assert_eq!(same.version(), got.version());
}

#[tokio::test]
async fn the_writes_about_a_service_are_understood() {
    let api = api();
    let ours = "service.kubernetes.io/load-balancer-cleanup";
    post(
        &api,
        SERVICES,
        &json!({
            "metadata": { "name": "s", "finalizers": ["x.io/other"] },
            "spec": { "type": "LoadBalancer", "ports": [{ "port": 80 }] },
        }),
    )
    .await;
    let status = format!("{SERVICES}/s/status");
    let add = json!({ "metadata": {
        "finalizers": [ours], "$setElementOrder/finalizers": ["x.io/other", ours],
    } });
    let got = patch(&api, &status, STRATEGIC, &add).await;
    assert_eq!(
        got.body["metadata"]["finalizers"],
        json!(["x.io/other", ours]),
        "{}",
        got.body
    );
    let up = json!({ "status": { "loadBalancer": { "ingress": [{ "ip": "192.0.2.1" }] } } });
    let got = patch(&api, &status, STRATEGIC, &up).await;
    assert_eq!(
        got.body["status"]["loadBalancer"]["ingress"][0]["ipMode"],
        "VIP"
    );
    let down = json!({ "status": { "loadBalancer": { "ingress": null } } });
    let got = patch(&api, &status, STRATEGIC, &down).await;
    assert_eq!(got.body["status"], json!({ "loadBalancer": {} }));
    let remove = json!({ "metadata": {
        "$deleteFromPrimitiveList/finalizers": [ours], "$setElementOrder/finalizers": ["x.io/other"],
    } });
    let got = patch(&api, &status, STRATEGIC, &remove).await;
    assert_eq!(got.body["metadata"]["finalizers"], json!(["x.io/other"]));
    let got = patch(
        &api,
        &status,
        STRATEGIC,
        &json!({ "metadata": { "finalizers": null } }),
    )
    .await;
    assert!(got.body["metadata"].get("finalizers").is_none());
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
async fn applying_an_object_owns_nothing_of_its_status() {
    let api = api();
    let config = json!({
        "apiVersion": "v1", "kind": "Node", "metadata": { "name": "n" },
        "spec": { "unschedulable": true }, "status": { "phase": "Odd" },
    });
    let uri = format!("{NODES}/n?fieldManager=me");
    let got = patch(&api, &uri, "apply-patch+yaml", &config).await;
    assert_eq!(got.code, 201, "{}", got.body);
    let fields = &got.body["metadata"]["managedFields"][0]["fieldsV1"];
    assert!(fields["f:spec"]["f:unschedulable"].is_object(), "{fields}");
    assert!(fields.get("f:status").is_none(), "{fields}");
    let again = patch(&api, &uri, "apply-patch+yaml", &config).await;
    assert_eq!((again.code, again.version()), (200, got.version()));
}
