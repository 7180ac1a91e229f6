//! The library on real servers. They are those of `KUBEBUILDER_ASSETS`:
//!
//! ```sh
//! KUBEBUILDER_ASSETS=$(e2e/control-plane/build) cargo test -p bowline-control-plane -- --ignored
//! ```

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test may"
)]

use std::path::Path;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use futures::{StreamExt as _, TryStreamExt as _};
use k8s_openapi::api::authentication::v1::SelfSubjectReview;
use k8s_openapi::api::certificates::v1::CertificateSigningRequest;
use k8s_openapi::api::core::v1::{ConfigMap, Node};
use kube::api::{ListParams, Patch, PatchParams, PostParams, WatchEvent, WatchParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client};
use serde_json::{Value, json};

use bowline_control_plane::{Assets, ControlPlane, ControlPlaneError, Server, Settings};

/// Longer than anything that is waited for takes on a busy machine.
const SOON: Duration = Duration::from_secs(60);

async fn plane(change: impl FnOnce(&mut Settings)) -> ControlPlane {
    let assets = Assets::from_environment().unwrap_or_else(|error| panic!("{error}"));
    let mut settings = Settings::new(assets);
    change(&mut settings);
    ControlPlane::start(settings).await.unwrap()
}

async fn client(kubeconfig: &Path) -> Client {
    client_of(Kubeconfig::read_from(kubeconfig).unwrap()).await
}

async fn client_of(kubeconfig: Kubeconfig) -> Client {
    let options = KubeConfigOptions::default();
    let config = kube::Config::from_custom_kubeconfig(kubeconfig, &options);
    Client::try_from(config.await.unwrap()).unwrap()
}

async fn who(client: Client) -> String {
    let reviews: Api<SelfSubjectReview> = Api::all(client);
    let asked = PostParams::default();
    let review = reviews.create(&asked, &SelfSubjectReview::default()).await;
    let info = review.unwrap().status.unwrap().user_info.unwrap();
    let groups = info.groups.unwrap_or_default().join(" ");
    format!("{}: {groups}", info.username.unwrap())
}

fn old_node(name: &str) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "uid": "5b1c1c7a-0d3c-4d0e-9b53-2f6f5d3c2a10",
            "creationTimestamp": "2020-02-02T02:02:02Z",
        },
        "spec": {},
        "status": {},
    })
}

#[tokio::test]
#[ignore = "needs servers"]
async fn users_and_accounts_are_who_they_say() {
    let plane = plane(|settings| settings.audit = true).await;
    let jane = plane.user("jane", &["a", "b"]).await.unwrap();
    assert_eq!(
        who(client(&jane).await).await,
        "jane: a b system:authenticated"
    );
    let robot = plane.account("shop", "robot").await.unwrap();
    assert_eq!(
        who(client(&robot).await).await,
        "system:serviceaccount:shop:robot: system:serviceaccounts system:serviceaccounts:shop \
         system:authenticated"
    );
    let again = plane.account("shop", "robot").await.unwrap();
    assert_ne!(robot, again);
    let error = plane.account("Shop!", "robot").await.unwrap_err();
    assert!(error.to_string().contains("Invalid value"), "{error}");
    let log = std::fs::read_to_string(plane.audit_log().unwrap()).unwrap();
    assert!(log.contains("\"code\":422"));
    let folder = plane.folder().to_owned();
    plane.shutdown().await;
    assert!(!folder.exists());
}

#[tokio::test]
#[ignore = "needs servers"]
async fn a_stored_node_has_its_age_in_an_open_watch_and_can_be_changed() {
    let plane = plane(|_| {}).await;
    let nodes: Api<Node> = Api::all(client(&plane.kubeconfig()).await);
    let listed = nodes.list(&ListParams::default()).await.unwrap();
    let version = listed.metadata.resource_version.unwrap();
    let watch = nodes.watch(&WatchParams::default(), &version).await;
    let mut watch = watch.unwrap().boxed();

    let revision = plane
        .store("/registry/minions/old", &old_node("old"))
        .await
        .unwrap();

    let event = tokio::time::timeout(SOON, watch.try_next()).await.unwrap();
    let Some(WatchEvent::Added(seen)) = event.unwrap() else {
        panic!("no node was added");
    };
    let read = nodes.get("old").await.unwrap();
    assert_eq!(seen, read);
    assert_eq!(read.metadata.resource_version, Some(revision.to_string()));
    let created = serde_json::to_value(read.metadata.creation_timestamp).unwrap();
    assert_eq!(created, "2020-02-02T02:02:02Z");
    let patch = json!({ "metadata": { "labels": { "a": "b" } } });
    let parameters = PatchParams::default();
    let patched = nodes.patch("old", &parameters, &Patch::Merge(patch)).await;
    assert_eq!(patched.unwrap().metadata.labels.unwrap()["a"], "b");
    let error = plane.store("/registry/minions/x", &json!({})).await;
    assert!(matches!(error, Err(ControlPlaneError::NoKind(_))));
    plane.shutdown().await;
}

#[tokio::test]
#[ignore = "needs servers"]
async fn a_watch_from_before_a_compaction_is_told_so() {
    let plane = plane(|_| {}).await;
    let client = client(&plane.kubeconfig()).await;
    let maps: Api<ConfigMap> = Api::namespaced(client, "default");
    let listed = maps.list(&ListParams::default()).await.unwrap();
    let version = listed.metadata.resource_version.unwrap();
    for round in ["one", "two"] {
        let map = json!({ "metadata": { "name": round } });
        let map = serde_json::from_value(map).unwrap();
        maps.create(&PostParams::default(), &map).await.unwrap();
    }
    assert!(plane.compact().await.unwrap() > version.parse().unwrap());
    plane.restart(Server::ApiServer, &[]).await.unwrap();
    let watch = maps.watch(&WatchParams::default(), &version).await;
    let event = watch.unwrap().boxed().try_next().await.unwrap();
    let Some(WatchEvent::Error(status)) = event else {
        panic!("the watch was served: {event:?}");
    };
    assert_eq!(status.code, 410);
    plane.shutdown().await;
}

#[tokio::test]
#[ignore = "needs servers"]
async fn the_controller_manager_signs_in_the_name_of_the_clusters_authority() {
    let plane = plane(|settings| settings.controller_manager = true).await;
    let requests: Api<CertificateSigningRequest> = Api::all(client(&plane.kubeconfig()).await);
    let key = rcgen::KeyPair::generate().unwrap();
    let mut asked = rcgen::CertificateParams::default();
    asked.distinguished_name = rcgen::DistinguishedName::new();
    asked
        .distinguished_name
        .push(rcgen::DnType::CommonName, "newcomer");
    let pem = asked.serialize_request(&key).unwrap().pem().unwrap();
    let request = json!({
        "metadata": { "name": "newcomer" },
        "spec": {
            "request": STANDARD.encode(pem),
            "signerName": "kubernetes.io/kube-apiserver-client",
            "usages": ["client auth"],
        },
    });
    let request = serde_json::from_value(request).unwrap();
    let created = requests.create(&PostParams::default(), &request).await;
    let version = created.unwrap().metadata.resource_version.unwrap();
    let approval = json!({ "status": { "conditions": [{
        "type": "Approved", "status": "True", "reason": "Test", "message": "approved by a test",
    }] } });
    let parameters = PatchParams::default();
    let approval = Patch::Merge(approval);
    let approved = requests.patch_approval("newcomer", &parameters, &approval);
    approved.await.unwrap();

    let watch = requests.watch(&WatchParams::default(), &version).await;
    let mut certificates = watch
        .unwrap()
        .try_filter_map(async |event| {
            Ok(match event {
                WatchEvent::Modified(request) => request.status.and_then(|it| it.certificate),
                _ => None,
            })
        })
        .boxed();
    let certificate = tokio::time::timeout(SOON, certificates.try_next()).await;
    let certificate = certificate.unwrap().unwrap().expect("a certificate").0;

    let text = std::fs::read_to_string(plane.kubeconfig()).unwrap();
    let mut kubeconfig: Value = serde_json::from_str(&text).unwrap();
    kubeconfig["users"][0]["user"] = json!({
        "client-certificate-data": STANDARD.encode(certificate),
        "client-key-data": STANDARD.encode(key.serialize_pem()),
    });
    let newcomer = client_of(serde_json::from_value(kubeconfig).unwrap()).await;
    assert_eq!(who(newcomer).await, "newcomer: system:authenticated");
    plane.shutdown().await;
}

#[tokio::test]
#[ignore = "needs servers"]
async fn servers_are_stopped_started_and_refused_by_name() {
    let plane = plane(|_| {}).await;
    let nonsense = ["--nonsense".to_owned()];
    let error = plane.start_server(Server::ControllerManager, &nonsense);
    let error = error.await.unwrap_err().to_string();
    assert!(
        error.contains("ended before it was ready") && error.contains("unknown flag: --nonsense"),
        "{error}"
    );
    let error = plane.start_server(Server::Etcd, &[]).await.unwrap_err();
    assert_eq!(error.to_string(), "etcd runs already");
    let error = plane.stop(Server::ControllerManager).await.unwrap_err();
    assert_eq!(error.to_string(), "kube-controller-manager does not run");

    plane.kill(Server::ApiServer).await.unwrap();
    assert!(plane.version().await.is_err());
    let limit = ["--event-ttl=5m".to_owned()];
    plane.start_server(Server::ApiServer, &limit).await.unwrap();
    assert!(plane.version().await.unwrap().starts_with("v1."));
    plane.shutdown().await;
}

#[tokio::test]
#[ignore = "needs servers"]
async fn two_do_not_disturb_each_other_and_one_that_is_dropped_is_gone() {
    let (first, second) = tokio::join!(plane(|_| {}), plane(|_| {}));
    assert_ne!(first.url(), second.url());
    let address = first.url().replace("https://", "");
    drop(first);
    let refused = async {
        while tokio::net::TcpStream::connect(&address).await.is_ok() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(SOON, refused).await.unwrap();
    assert!(second.version().await.is_ok());
    second.shutdown().await;
}
