//! Prometheus is led to the metrics of machines: what the cluster is given for it.

use std::time::Duration;

use bowline_scenarios::scenario;
use bowline_scenarios::triton::section;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::Api;
use kube::api::DeleteParams;

use crate::triton::harness::{Harness, id};

const SYSTEM: &str = "kube-system";
const SECRET: &str = "triton-cmon-client";
const CONFIG_MAP: &str = "triton-cmon-scrape";

/// The certificate in the Secret, as soon as there is one other than that.
async fn until_certificate(test: &Harness, other_than: &[u8]) -> Vec<u8> {
    let api: Api<Secret> = Api::namespaced(test.admin(), SYSTEM);
    for _ in 0..7200 {
        let secret = api.get_opt(SECRET).await.unwrap();
        let data = secret.and_then(|it| it.data).unwrap_or_default();
        if let Some(found) = data.get("tls.crt").filter(|it| it.0 != other_than) {
            return found.0.clone();
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    panic!("there never is a certificate");
}

#[scenario]
async fn machines_are_in_the_group_and_the_cluster_has_a_certificate_and_scrape_configurations() {
    let endpoint = "https://cmon.eg-1.cns.example.com:9163";
    let file = section(
        "Metrics",
        &[("mode", "discovery"), ("cmon-endpoint", endpoint)],
    );
    let mut test = Harness::idle(2, &file, &[]).await;
    test.start().await;
    test.joined(1).await;
    test.until("its machine is in the group", |_| {
        let machine = test.cloud.machine(&id(1)).unwrap();
        machine.tag("triton.cmon.groups") == Some("k8s-kubernetes")
    })
    .await;
    let first = until_certificate(&test, b"").await;
    let maps: Api<ConfigMap> = Api::namespaced(test.admin(), SYSTEM);
    let snippets = maps.get(CONFIG_MAP).await.unwrap().data.unwrap();
    let page = format!(".{SYSTEM}.svc:");
    assert!(snippets["http-sd.yaml"].contains(&page), "{snippets:?}");
    assert!(snippets["triton-sd.yaml"].contains("groups: [k8s-kubernetes]"));
    let other = test.cloud.machine(&id(2)).unwrap();
    assert_eq!(other.tag("triton.cmon.groups"), None, "it is no node");
    // Another leader goes on with the certificate; one that is gone is replaced.
    test.stop().await;
    test.start().await;
    test.joined(2).await;
    test.until("the second is in the group", |_| {
        let machine = test.cloud.machine(&id(2)).unwrap();
        machine.tag("bowline.cmon") == Some("k8s-kubernetes")
    })
    .await;
    assert_eq!(until_certificate(&test, b"").await, first);
    test.stop().await;
    let secrets: Api<Secret> = Api::namespaced(test.admin(), SYSTEM);
    secrets
        .delete(SECRET, &DeleteParams::default())
        .await
        .unwrap();
    test.start().await;
    until_certificate(&test, &first).await;
    test.end().await;
}
