//! The same over TLS, through kubeconfig files and a real client.

use k8s_openapi::api::core::v1::{Node, Service};
use kube::Api;
use kube::api::ListParams;
use kube::config::{KubeConfigOptions, Kubeconfig};

use super::*;
use crate::World;
use crate::fleet::cluster::Cluster;
use crate::kubernetes::kubeconfig::{self, Credentials};
use crate::serve::{Identity, Server};

async fn serve(cluster: &Cluster) -> (Server, String) {
    let authority = cluster.auth.authority();
    let own = authority.server(&[]).unwrap();
    let identity =
        Identity::from_pem(&own.certificate_pem, &own.key_pem, Some(authority.pem())).unwrap();
    let server = Server::builder(&cluster.world, cluster.api.clone())
        .tls(([127, 0, 0, 1], 0).into(), identity)
        .await
        .unwrap();
    let url = format!("https://{}", server.local_addr().unwrap());
    (server, url)
}

async fn client(kubeconfig: &Value) -> kube::Client {
    let text = kubeconfig::text(kubeconfig);
    let config = kube::Config::from_custom_kubeconfig(
        Kubeconfig::from_yaml(&text).unwrap(),
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
    let cluster = Cluster::new(&World::real());
    cluster.install(originals::cloudscale());
    let (_server, url) = serve(&cluster).await;
    let authority = cluster.auth.authority();

    let admin = client(&kubeconfig::admin(authority, "sim", &url).unwrap()).await;
    let nodes = Api::<Node>::all(admin).list(&ListParams::default()).await;
    assert!(nodes.unwrap().items.is_empty());

    let name = "cloud-controller-manager";
    let account = cluster
        .api
        .get(kind("ServiceAccount"), SYSTEM, name)
        .unwrap();
    let now = cluster.world.clock.now();
    let answer = cluster
        .auth
        .issue_token(SYSTEM, &account, &json!({}), &Memory::default(), now)
        .unwrap();
    let token = Credentials::Token(text(&answer, "/status/token").to_owned());
    let manager = client(&kubeconfig::kubeconfig(
        authority, "sim", &url, name, &token,
    ))
    .await;
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

    let wrong = Credentials::Token("wrong".to_owned());
    let wrong = client(&kubeconfig::kubeconfig(authority, "sim", &url, "x", &wrong)).await;
    let error = Api::<Node>::all(wrong).get("n").await.unwrap_err();
    assert_eq!(refusal(error), (401, "Unauthorized".to_owned()));

    let nobody = kubeconfig::kubeconfig(authority, "sim", &url, "x", &Credentials::Nothing);
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
