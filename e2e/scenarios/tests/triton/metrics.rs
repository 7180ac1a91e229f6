//! Prometheus is led to the metrics of machines: what the cluster is given for it.

use std::time::Duration;

use bowline_scenarios::scenario;
use bowline_scenarios::triton::section;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::Api;
use kube::api::DeleteParams;

use crate::stage::{Stage, id};

const SYSTEM: &str = "kube-system";
const SECRET: &str = "triton-cmon-client";
const CONFIG_MAP: &str = "triton-cmon-scrape";

/// The certificate in the Secret, as soon as there is one other than that.
async fn until_certificate(stage: &Stage, other_than: &[u8]) -> Vec<u8> {
    let api: Api<Secret> = Api::namespaced(stage.admin(), SYSTEM);
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
    let mut stage = Stage::idle(2, &file, &[]).await;
    stage.start().await;
    stage.joined(1).await;
    stage
        .until("its machine is in the group", |_| {
            let machine = stage.cloud.machine(&id(1)).unwrap();
            machine.tag("triton.cmon.groups") == Some("k8s-kubernetes")
        })
        .await;
    let first = until_certificate(&stage, b"").await;
    let maps: Api<ConfigMap> = Api::namespaced(stage.admin(), SYSTEM);
    let snippets = maps.get(CONFIG_MAP).await.unwrap().data.unwrap();
    let page = format!(".{SYSTEM}.svc:");
    assert!(snippets["http-sd.yaml"].contains(&page), "{snippets:?}");
    assert!(snippets["triton-sd.yaml"].contains("groups: [k8s-kubernetes]"));
    let other = stage.cloud.machine(&id(2)).unwrap();
    assert_eq!(other.tag("triton.cmon.groups"), None, "it is no node");
    // Another leader goes on with the certificate; one that is gone is replaced.
    stage.stop().await;
    stage.start().await;
    stage.joined(2).await;
    stage
        .until("the second is in the group", |_| {
            let machine = stage.cloud.machine(&id(2)).unwrap();
            machine.tag("bowline.cmon") == Some("k8s-kubernetes")
        })
        .await;
    assert_eq!(until_certificate(&stage, b"").await, first);
    stage.stop().await;
    let secrets: Api<Secret> = Api::namespaced(stage.admin(), SYSTEM);
    secrets
        .delete(SECRET, &DeleteParams::default())
        .await
        .unwrap();
    stage.start().await;
    until_certificate(&stage, &first).await;
    stage.end().await;
}
