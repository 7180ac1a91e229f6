//! The same over TLS, through kubeconfig files and a real client.

use bowline_simulator::World;
use k8s_openapi::api::core::v1::{Node, Service};
use kube::Api;
use kube::api::ListParams;
use kube::config::{KubeConfigOptions, Kubeconfig};

use super::*;
use crate::cluster::Cluster;
use crate::kubeconfig::{self, Credentials};

async fn client(kubeconfig: &str) -> kube::Client {
    let config = kube::Config::from_custom_kubeconfig(
        Kubeconfig::from_yaml(kubeconfig).unwrap(),
        &KubeConfigOptions::default(),
    )
    .await
    .unwrap();
    kube::Client::try_from(config).unwrap()
}

fn code(error: kube::Error) -> u16 {
    match error {
        kube::Error::Api(status) => status.code,
        other => panic!("{other}"),
    }
}

#[tokio::test]
async fn certificates_and_tokens_of_kubeconfig_files_are_who_they_say() {
    let cluster = Cluster::on_socket(&World::real(), ([127, 0, 0, 1], 0).into())
        .await
        .unwrap();
    cluster.install(original()).unwrap();

    let admin = client(&cluster.admin_kubeconfig().unwrap()).await;
    let nodes = Api::<Node>::all(admin).list(&ListParams::default()).await;
    assert!(nodes.unwrap().items.is_empty());

    let account = cluster.account_kubeconfig(SYSTEM, "cloud-controller-manager");
    let manager = client(&account.unwrap()).await;
    let services = Api::<Service>::namespaced(manager.clone(), "default");
    let listed = services.list(&ListParams::default()).await.unwrap();
    assert_eq!(listed.items.len(), 1);
    assert_eq!(code(services.get("kubernetes").await.unwrap_err()), 403);

    let unknown = |credentials| {
        let authority = cluster.auth().authority();
        let config = kubeconfig::kubeconfig(authority, "sim", cluster.url(), "x", &credentials);
        kubeconfig::text(&config)
    };
    let wrong = client(&unknown(Credentials::Token("wrong".to_owned()))).await;
    let error = Api::<Node>::all(wrong).get("n").await.unwrap_err();
    assert_eq!(code(error), 401);
    let nobody = client(&unknown(Credentials::Nothing)).await;
    let error = Api::<Node>::all(nobody).get("n").await.unwrap_err();
    assert_eq!(code(error), 403);
}
