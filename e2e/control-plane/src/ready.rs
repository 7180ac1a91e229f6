//! Whether a server can be used.

use crate::credentials::Keyring;
use crate::https::RequestError;
use crate::ports::Ports;
use crate::server::Server;

/// What is asked of the API server: whether it is ready, and for what it makes by itself shortly after.
/// Scenarios may rely on these objects from the beginning.
const API_SERVER: [&str; 5] = [
    "/readyz",
    "/api/v1/namespaces/default",
    "/api/v1/namespaces/kube-system",
    "/api/v1/namespaces/default/services/kubernetes",
    "/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication",
];

/// The reason why a server cannot be used yet.
pub(crate) async fn not_ready(
    server: Server,
    keyring: &Keyring,
    ports: Ports,
) -> Result<(), RequestError> {
    let (https, paths): (_, &[&str]) = match server {
        Server::Etcd => (&keyring.etcd, &["/health"]),
        Server::ApiServer => (&keyring.admin, &API_SERVER),
        Server::ControllerManager => (&keyring.admin, &["/healthz"]),
    };
    for path in paths {
        https.get(ports.of(server), path).await?;
    }
    Ok(())
}
