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

fn refusal(error: kube::Error) -> (u16, String) {
    match error {
        kube::Error::Api(status) => (status.code, status.message),
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
    assert_eq!(
        services
            .list(&ListParams::default())
            .await
            .unwrap()
            .items
            .len(),
        1
    );
    assert_eq!(
        refusal(services.get("kubernetes").await.unwrap_err()),
        (
            403,
            "services \"kubernetes\" is forbidden: User \
            \"system:serviceaccount:kube-system:cloud-controller-manager\" cannot get resource \
            \"services\" in API group \"\" in the namespace \"default\""
                .to_owned()
        )
    );

    let unknown = |credentials| {
        let authority = cluster.auth().authority();
        let config = kubeconfig::kubeconfig(authority, "sim", cluster.url(), "x", &credentials);
        kubeconfig::text(&config)
    };
    let wrong = client(&unknown(Credentials::Token("wrong".to_owned()))).await;
    let error = Api::<Node>::all(wrong).get("n").await.unwrap_err();
    assert_eq!(refusal(error), (401, "Unauthorized".to_owned()));

    let nobody = unknown(Credentials::Nothing);
    let error = Api::<Node>::all(client(&nobody).await)
        .get("n")
        .await
        .unwrap_err();
    assert_eq!(
        refusal(error),
        (
            403,
            "nodes \"n\" is forbidden: User \"system:anonymous\" cannot get resource \"nodes\" \
            in API group \"\" at the cluster scope"
                .to_owned()
        )
    );
}
