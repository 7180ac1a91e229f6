//! Kubeconfig files, as `kubectl` and client libraries read them.
//!
//! JSON is YAML too, so what is written here is one pretty-printed JSON document: nothing to
//! quote, nothing to get wrong.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bowline_simulator::keys::CertificateError;
use serde_json::{Value, json};

use super::certificates::{Authority, Identity};

/// How the user of a kubeconfig proves who they are.
#[derive(Clone, Debug)]
pub enum Credentials {
    Token(String),
    Certificate(Identity),
    /// Nothing: the user is anonymous.
    Nothing,
}

/// A kubeconfig for one cluster and one user.
///
/// `server` is the address with its scheme: `https://127.0.0.1:6443`.
pub fn kubeconfig(
    authority: &Authority,
    cluster: &str,
    server: &str,
    user: &str,
    credentials: &Credentials,
) -> Value {
    let encode = |pem: &str| STANDARD.encode(pem);
    let credentials = match credentials {
        Credentials::Token(token) => json!({ "token": token }),
        Credentials::Certificate(identity) => json!({
            "client-certificate-data": encode(&identity.certificate_pem),
            "client-key-data": encode(&identity.key_pem),
        }),
        Credentials::Nothing => json!({}),
    };
    let mut endpoint = json!({ "server": server });
    if server.starts_with("https:") {
        endpoint["certificate-authority-data"] = json!(encode(authority.pem()));
    }
    let context = format!("{user}@{cluster}");
    json!({
        "apiVersion": "v1",
        "kind": "Config",
        "preferences": {},
        "clusters": [{ "name": cluster, "cluster": endpoint }],
        "users": [{ "name": user, "user": credentials }],
        "contexts": [{ "name": context, "context": { "cluster": cluster, "user": user } }],
        "current-context": context,
    })
}

/// The kubeconfig of somebody who may do anything, by client certificate.
pub fn admin(
    authority: &Authority,
    cluster: &str,
    server: &str,
) -> Result<Value, CertificateError> {
    let identity = authority.client("kubernetes-admin", &["system:masters"])?;
    let credentials = Credentials::Certificate(identity);
    Ok(kubeconfig(
        authority,
        cluster,
        server,
        "kubernetes-admin",
        &credentials,
    ))
}

/// The text of the file.
pub fn text(kubeconfig: &Value) -> String {
    format!("{kubeconfig:#}\n")
}

#[cfg(test)]
mod tests {
    use bowline_http::Random;
    use bowline_simulator::keys::Keys;
    use kube::config::{KubeConfigOptions, Kubeconfig};

    use super::*;

    fn authority() -> Authority {
        Authority::new("kubernetes", Keys::seeded(&Random::seeded(1))).unwrap()
    }

    async fn read(config: &Value) -> kube::Config {
        let parsed = Kubeconfig::from_yaml(&text(config)).unwrap();
        kube::Config::from_custom_kubeconfig(parsed, &KubeConfigOptions::default())
            .await
            .unwrap()
    }

    #[tokio::test]
    async fn the_kube_client_takes_each_form() {
        let authority = authority();
        let server = "https://127.0.0.1:6443";
        let config = read(&admin(&authority, "sandbox", server).unwrap()).await;
        assert_eq!(config.cluster_url.to_string(), format!("{server}/"));
        assert_eq!(config.root_cert.as_ref().unwrap().len(), 1);
        assert_eq!(
            config.root_cert.unwrap()[0],
            authority.certificate().to_vec()
        );
        assert!(config.auth_info.client_certificate_data.is_some());
        let by_token = kubeconfig(
            &authority,
            "sandbox",
            server,
            "bowline",
            &Credentials::Token("secret".to_owned()),
        );
        assert!(read(&by_token).await.auth_info.token.is_some());
    }

    #[tokio::test]
    async fn a_plain_server_gets_no_authority() {
        let plain = kubeconfig(
            &authority(),
            "c",
            "http://127.0.0.1:80",
            "u",
            &Credentials::Nothing,
        );
        assert!(read(&plain).await.root_cert.is_none());
    }

    #[test]
    fn the_file_is_yaml() {
        let config = admin(&authority(), "c", "https://localhost:1").unwrap();
        let back: Value = serde_saphyr::from_str(&text(&config)).unwrap();
        assert_eq!(back, config);
    }
}
