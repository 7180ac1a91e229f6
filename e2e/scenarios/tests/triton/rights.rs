//! What the manager may do is enough for everything that happens to nodes and Services, and nothing besides is needed.

use std::collections::BTreeSet;

use bowline_scenarios::objects::{annotated, service};
use bowline_scenarios::rights::used::{Right, is_granted, right};
use bowline_scenarios::scenario;
use bowline_scenarios::triton::{role, section, shipped};
use serde_json::{Value, json};

use crate::shop::PREFIX;
use crate::stage::Stage;

/// A node comes, sleeps, wakes and goes; Services of every kind come and go before it.
async fn live(stage: &Stage) {
    stage.joined(1).await;
    stage.joined(2).await;
    let ready = json!({ "ready": true });
    stage
        .cluster
        .put_endpoints("local", &[("k8s-1", ready)])
        .await;
    let mut local = service("local");
    local["spec"]["externalTrafficPolicy"] = "Local".into();
    stage.create_service(local).await;
    let clb = annotated("clb", &[(&*format!("{PREFIX}mode"), "clb")]);
    stage.create_service(clb).await;
    for name in ["local", "clb"] {
        stage.until_published(name).await;
    }
    for name in ["local", "clb"] {
        stage.delete_service(name).await;
        stage.until_service_gone(name).await;
    }
    stage.cloud.stop("k8s-1").unwrap();
    stage.shutdown_taint("k8s-1", true).await;
    stage.cloud.start("k8s-1").unwrap();
    stage.shutdown_taint("k8s-1", false).await;
    stage.cloud.destroy("k8s-1").unwrap();
    stage.until_deleted("k8s-1").await;
    stage.message("k8s-1", "DeletingNode").await;
}

async fn story(manifest: &[Value]) {
    let file = section("LoadBalancer", &[("clb-package", "lb1.small")]);
    let mut stage = Stage::idle_as(manifest, 3, &file, &[]).await;
    stage.start().await;
    live(&stage).await;
    let calls = stage.entries().into_iter();
    let ours = calls.filter(|it| it.server == "kubernetes" && it.caller == stage.user);
    let used: BTreeSet<Right> = ours.map(|it| right(&it)).collect();
    for (verb, resource) in [
        ("get", "namespaces"),
        ("watch", "endpointslices.discovery.k8s.io"),
    ] {
        let right = (verb.to_owned(), resource.to_owned());
        assert!(used.contains(&right), "{right:?} in {used:?}");
    }
    for right in &used {
        assert!(is_granted(manifest, right), "{right:?}");
    }
    // What the API server refused is asked there.
    stage.end().await;
}

#[scenario]
async fn the_rights_of_the_specification_are_enough() {
    story(&role()).await;
}

#[scenario]
async fn the_rights_of_the_manifest_that_we_ship_are_enough() {
    story(&shipped()).await;
}
