//! What a new cluster holds before anybody has done anything: namespaces, the `kubernetes`
//! Service, and the roles and bindings that a real API server creates for itself.

mod roles;

use serde_json::{Value, json};

use super::auth::Auth;
use roles::{bindings, roles};

pub use roles::node_rules;

pub const NAMESPACES: [&str; 4] = ["default", "kube-node-lease", "kube-public", "kube-system"];
/// Address of the `kubernetes` Service: the first one of the usual range.
pub const SERVICE_ADDRESS: &str = "10.96.0.1";
/// Everything a new cluster holds, in an order in which it can be created.
///
/// `endpoint` is where the API server itself is reached, for the `kubernetes` Service.
pub fn objects(auth: &Auth, endpoint: std::net::SocketAddr) -> Vec<Value> {
    let mut objects: Vec<Value> = NAMESPACES.iter().map(|name| namespace(name)).collect();
    objects.extend(NAMESPACES.iter().map(|name| account(name, "default")));
    objects.extend(config_maps(auth));
    objects.extend(roles());
    objects.extend(bindings());
    objects.extend(kubernetes_service(endpoint));
    objects
}

fn namespace(name: &str) -> Value {
    json!({
        "kind": "Namespace", "apiVersion": "v1",
        "metadata": { "name": name, "labels": { "kubernetes.io/metadata.name": name } },
        "spec": { "finalizers": ["kubernetes"] },
        "status": { "phase": "Active" },
    })
}

fn account(namespace: &str, name: &str) -> Value {
    json!({
        "kind": "ServiceAccount", "apiVersion": "v1",
        "metadata": { "namespace": namespace, "name": name },
    })
}

/// The authority's certificate in every namespace, and what extension servers need to know about
/// callers.
fn config_maps(auth: &Auth) -> Vec<Value> {
    let map = |namespace: &str, name: &str, data: Value| {
        json!({
            "kind": "ConfigMap", "apiVersion": "v1",
            "metadata": { "namespace": namespace, "name": name },
            "data": data,
        })
    };
    let mut maps: Vec<Value> = NAMESPACES
        .iter()
        .map(|space| {
            map(
                space,
                "kube-root-ca.crt",
                json!({ "ca.crt": auth.authority().pem() }),
            )
        })
        .collect();
    // Lists are JSON inside the text, as the real server writes them.
    maps.push(map(
        "kube-system",
        "extension-apiserver-authentication",
        json!({
            "client-ca-file": auth.authority().pem(),
            "requestheader-allowed-names": r#"["front-proxy-client"]"#,
            "requestheader-client-ca-file": auth.front_proxy().pem(),
            "requestheader-extra-headers-prefix": r#"["X-Remote-Extra-"]"#,
            "requestheader-group-headers": r#"["X-Remote-Group"]"#,
            "requestheader-username-headers": r#"["X-Remote-User"]"#,
        }),
    ));
    maps
}

/// The Service by which pods reach the API server, and where it leads.
fn kubernetes_service(endpoint: std::net::SocketAddr) -> [Value; 3] {
    let family = if endpoint.is_ipv4() { "IPv4" } else { "IPv6" };
    let address = endpoint.ip().to_string();
    let port = json!({ "name": "https", "port": endpoint.port(), "protocol": "TCP" });
    [
        json!({
            "kind": "Service", "apiVersion": "v1",
            "metadata": {
                "namespace": "default", "name": "kubernetes",
                "labels": { "component": "apiserver", "provider": "kubernetes" },
            },
            "spec": {
                "type": "ClusterIP",
                "clusterIP": SERVICE_ADDRESS,
                "clusterIPs": [SERVICE_ADDRESS],
                "ipFamilies": ["IPv4"],
                "ipFamilyPolicy": "SingleStack",
                "internalTrafficPolicy": "Cluster",
                "sessionAffinity": "None",
                "ports": [{
                    "name": "https", "port": 443, "protocol": "TCP",
                    "targetPort": endpoint.port(),
                }],
            },
            "status": { "loadBalancer": {} },
        }),
        json!({
            "kind": "Endpoints", "apiVersion": "v1",
            "metadata": {
                "namespace": "default", "name": "kubernetes",
                "labels": { "endpointslice.kubernetes.io/skip-mirror": "true" },
            },
            "subsets": [{ "addresses": [{ "ip": address }], "ports": [port] }],
        }),
        json!({
            "kind": "EndpointSlice", "apiVersion": "discovery.k8s.io/v1",
            "metadata": {
                "namespace": "default", "name": "kubernetes",
                "labels": { "kubernetes.io/service-name": "kubernetes" },
            },
            "addressType": family,
            "endpoints": [{ "addresses": [address], "conditions": { "ready": true } }],
            "ports": [port],
        }),
    ]
}
