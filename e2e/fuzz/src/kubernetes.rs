//! What comes from the API server: objects, lists and watches.

use std::time::Duration;

use bowline_controllers::clients::Connection;
use bowline_controllers::metrics::Metrics;
use bowline_controllers::{Requested, Store, Stored};
use bowline_core::{
    ApprovalRules, CloudName, LoadBalancerClasses, Node, Selector, Service, allows_all,
    recognise_certificate, source_ranges, stable_labels_to_repair,
};
use bowline_http::{Connector, Pipes, Random};
use serde_json::json;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use crate::answers::{Script, run};
use crate::ids::KINDS;

/// How long a watch is followed: a few rounds, if all of them fail.
const WATCHED: Duration = Duration::from_secs(20);

/// An object as stores read it.
pub(crate) fn read<T: Stored>(bytes: &[u8]) -> Option<T> {
    let object: Result<T::Object, _> = serde_json::from_slice(bytes);
    object.ok().map(Into::into)
}

pub(crate) fn node(bytes: &[u8]) {
    let Some(node) = read::<Node>(bytes) else {
        return;
    };
    for kind in KINDS {
        (kind.match_node)(&node);
    }
    stable_labels_to_repair(&node.labels);
    let _ = bowline_core::ipam::node_ips(&node);
    if let Ok(selector) = Selector::parse("zone in (a, b), !old") {
        selector.matches(&node.labels);
    }
    let again = node.clone().at_version("another");
    assert!(node.is_same_but_version(&again));
    assert_eq!(node.key(), node.name);
}

pub(crate) fn service(bytes: &[u8]) {
    let Some(service) = read::<Service>(bytes) else {
        return;
    };
    let name = CloudName::parse("cloud").unwrap();
    let classes = LoadBalancerClasses::new([name.clone()]).by_default(Some(name));
    classes.responsibility(&service);
    classes.unserved(&service);
    classes.misnamed(&service);
    classes.recorded(&service);
    if let Ok(ranges) = source_ranges(&service) {
        allows_all(&ranges);
    }
    assert!(service.is_same_but_version(&service.clone().at_version("another")));
}

/// A CertificateSigningRequest; or the bytes of `spec.request` alone, which are PEM and PKCS#10.
pub(crate) fn csr(bytes: &[u8]) {
    use base64::Engine as _;
    let encoded = base64::engine::general_purpose::STANDARD.encode(bytes);
    let around = json!({
        "metadata": {"name": "csr-1", "uid": "u"},
        "spec": {"request": encoded, "signerName": "kubernetes.io/kubelet-serving",
            "username": "system:node:worker-1", "groups": ["system:nodes", "system:authenticated"],
            "usages": ["digital signature", "server auth"]},
    });
    let whole = read::<Requested>(bytes);
    let inner = read::<Requested>(around.to_string().as_bytes());
    for requested in whole.into_iter().chain(inner) {
        let facts = requested.facts();
        recognise_certificate(&facts, &ApprovalRules::default());
        if let Ok(content) = &facts.content {
            assert!(content.dns_names.iter().all(|name| !name.is_empty()));
        }
    }
}

/// A list and a watch, as a store follows them.
pub(crate) fn watch(bytes: &[u8]) {
    let script = Script::read(bytes);
    run(async {
        match &*script.question {
            "services" => follow::<Service>(&script).await,
            "requests" => follow::<Requested>(&script).await,
            _ => follow::<Node>(&script).await,
        }
    });
}

async fn follow<T: Stored>(script: &Script) {
    let pipes = Pipes::default();
    script.serve(&pipes, "server:80");
    let config = kube::Config::new("http://server:80".parse().unwrap());
    let connection = Connection::over(&config, Connector::simulated(pipes)).unwrap();
    let (store, metrics) = (Store::<T>::default(), Metrics::new());
    let client = connection.client().clone();
    let stop = CancellationToken::new();
    let restored = tokio::sync::Notify::new();
    let following = store.follow(client, Random::seeded(1), &metrics.stores, &restored, stop);
    tokio::select! {
        () = following => {}
        () = sleep(WATCHED) => {}
    }
    let seen = store.view();
    for (key, object) in &seen.objects {
        assert!(*key == object.key(), "{key} is kept as another");
        assert!(!seen.unreadable.contains_key(key), "{key} is kept twice");
    }
}
