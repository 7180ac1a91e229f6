//! What the manager may do is enough for everything that happens to nodes and Services, and nothing besides is needed.

use std::collections::BTreeSet;

use bowline_scenarios::objects::{annotated, service};
use bowline_scenarios::rights::used::{Right, is_granted, right};
use bowline_scenarios::scenario;
use bowline_scenarios::triton::{role, section, shipped};
use serde_json::{Value, json};

use crate::triton::harness::Harness;
use crate::triton::service_harness::PREFIX;

/// A node comes, sleeps, wakes and goes; Services of every kind come and go before it.
async fn live(test: &Harness) {
    test.joined(1).await;
    test.joined(2).await;
    let ready = json!({ "ready": true });
    test.cluster
        .put_endpoints("local", &[("k8s-1", ready)])
        .await;
    let mut local = service("local");
    local["spec"]["externalTrafficPolicy"] = "Local".into();
    test.create_service(local).await;
    let clb = annotated("clb", &[(&*format!("{PREFIX}mode"), "clb")]);
    test.create_service(clb).await;
    for name in ["local", "clb"] {
        test.until_published(name).await;
    }
    for name in ["local", "clb"] {
        test.delete_service(name).await;
        test.until_service_gone(name).await;
    }
    test.cloud.stop("k8s-1").unwrap();
    test.shutdown_taint("k8s-1", true).await;
    test.cloud.start("k8s-1").unwrap();
    test.shutdown_taint("k8s-1", false).await;
    test.cloud.destroy("k8s-1").unwrap();
    test.until_deleted("k8s-1").await;
    test.message("k8s-1", "DeletingNode").await;
}

async fn story(manifest: &[Value]) {
    let file = section("LoadBalancer", &[("clb-package", "lb1.small")]);
    let mut test = Harness::idle_as(manifest, 3, &file, &[]).await;
    test.start().await;
    live(&test).await;
    let calls = test.entries().into_iter();
    let ours = calls.filter(|it| it.server == "kubernetes" && it.caller == test.user);
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
    test.end().await;
}

#[scenario]
async fn the_rights_of_the_specification_are_enough() {
    story(&role()).await;
}

#[scenario]
async fn the_rights_of_the_manifest_that_we_ship_are_enough() {
    story(&shipped()).await;
}
