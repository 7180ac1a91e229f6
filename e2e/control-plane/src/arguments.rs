//! The flags of the servers.
//!
//! What kubeadm sets is set the same way, so that clients meet what they meet in a cluster; the rest is
//! for speed, and for life on loopback without nodes.

use std::path::Path;

use crate::ports::Ports;
use crate::server::Server;

/// The flags of a server whose files are in `folder`.
pub(crate) fn arguments(server: Server, folder: &Path, ports: Ports, audit: bool) -> Vec<String> {
    let file = |name: &str| folder.join(name).display().to_string();
    match server {
        Server::Etcd => etcd(&file, ports),
        Server::ApiServer => api_server(&file, ports, audit),
        Server::ControllerManager => controller_manager(&file, ports),
    }
}

/// The audit log's policy: every request once, when it is answered, without bodies.
pub(crate) const AUDIT_POLICY: &str = "apiVersion: audit.k8s.io/v1\nkind: Policy\n\
    omitStages: [RequestReceived]\nrules: [{level: Metadata}]\n";

fn etcd(file: &dyn Fn(&str) -> String, ports: Ports) -> Vec<String> {
    let url = ports.url(Server::Etcd);
    vec![
        format!("--data-dir={}", file("etcd")),
        format!("--listen-client-urls={url}"),
        format!("--advertise-client-urls={url}"),
        // It has no peers: any port will do.
        "--listen-peer-urls=http://127.0.0.1:0".to_owned(),
        "--client-cert-auth".to_owned(),
        format!("--trusted-ca-file={}", file("etcd-ca.crt")),
        format!("--cert-file={}", file("etcd.crt")),
        format!("--key-file={}", file("etcd.key")),
        "--log-level=warn".to_owned(),
        // The data does not outlive the launcher.
        "--unsafe-no-fsync".to_owned(),
    ]
}

fn api_server(file: &dyn Fn(&str) -> String, ports: Ports, audit: bool) -> Vec<String> {
    let mut flags = vec![
        format!("--etcd-servers={}", ports.url(Server::Etcd)),
        format!("--etcd-cafile={}", file("etcd-ca.crt")),
        format!("--etcd-certfile={}", file("etcd-client.crt")),
        format!("--etcd-keyfile={}", file("etcd-client.key")),
        format!("--secure-port={}", ports.of(Server::ApiServer)),
        format!("--tls-cert-file={}", file("kube-apiserver.crt")),
        format!("--tls-private-key-file={}", file("kube-apiserver.key")),
        format!("--client-ca-file={}", file("ca.crt")),
        format!(
            "--requestheader-client-ca-file={}",
            file("front-proxy-ca.crt")
        ),
        format!(
            "--service-account-key-file={}",
            file("service-accounts.pub")
        ),
        format!(
            "--service-account-signing-key-file={}",
            file("service-accounts.key")
        ),
    ];
    flags.extend(API_SERVER.map(str::to_owned));
    if audit {
        flags.push(format!("--audit-policy-file={}", file("audit-policy.yaml")));
        flags.push(format!("--audit-log-path={}", file("audit.log")));
    }
    flags
}

/// What is the same in every run.
const API_SERVER: [&str; 15] = [
    "--bind-address=127.0.0.1",
    "--advertise-address=127.0.0.1",
    // Endpoints must not be loopback addresses, and ours is no other.
    "--endpoint-reconciler-type=none",
    "--service-cluster-ip-range=10.96.0.0/12",
    "--requestheader-allowed-names=front-proxy-client",
    "--requestheader-username-headers=X-Remote-User",
    "--requestheader-group-headers=X-Remote-Group",
    "--requestheader-extra-headers-prefix=X-Remote-Extra-",
    "--service-account-issuer=https://kubernetes.default.svc.cluster.local",
    "--authorization-mode=Node,RBAC",
    "--enable-admission-plugins=NodeRestriction",
    // It refuses Pods as long as their namespace has no default account, which only
    // kube-controller-manager makes.
    "--disable-admission-plugins=ServiceAccount",
    "--allow-privileged=true",
    // On SIGTERM, end open watches. Otherwise it stops listening and then waits up to a minute for them.
    "--shutdown-watch-termination-grace-period=1s",
    "--profiling=false",
];

fn controller_manager(file: &dyn Fn(&str) -> String, ports: Ports) -> Vec<String> {
    let kubeconfig = file("kube-controller-manager.kubeconfig");
    vec![
        format!("--kubeconfig={kubeconfig}"),
        format!("--authentication-kubeconfig={kubeconfig}"),
        format!("--authorization-kubeconfig={kubeconfig}"),
        "--bind-address=127.0.0.1".to_owned(),
        format!("--secure-port={}", ports.of(Server::ControllerManager)),
        format!("--tls-cert-file={}", file("kube-apiserver.crt")),
        format!("--tls-private-key-file={}", file("kube-apiserver.key")),
        format!("--client-ca-file={}", file("ca.crt")),
        format!(
            "--requestheader-client-ca-file={}",
            file("front-proxy-ca.crt")
        ),
        format!("--root-ca-file={}", file("ca.crt")),
        format!("--cluster-signing-cert-file={}", file("ca.crt")),
        format!("--cluster-signing-key-file={}", file("ca.key")),
        format!(
            "--service-account-private-key-file={}",
            file("service-accounts.key")
        ),
        "--use-service-account-credentials=true".to_owned(),
        // There is no second one.
        "--leader-elect=false".to_owned(),
        "--profiling=false".to_owned(),
    ]
}
