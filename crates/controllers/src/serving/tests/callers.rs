//! Certificates, front proxies and where their authorities come from.

use rcgen::{CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair};

use super::*;

/// An authority and a certificate by it.
struct Authority {
    issuer: Issuer<'static, KeyPair>,
    pem: String,
}

impl Authority {
    fn new(name: &str) -> Self {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let pem = params.self_signed(&key).unwrap().pem();
        Self {
            issuer: Issuer::new(params, key),
            pem,
        }
    }

    fn identity(&self, name: &str, groups: &[&str]) -> Identity {
        let mut params = CertificateParams::default();
        params.distinguished_name = rcgen::DistinguishedName::new();
        params.distinguished_name.push(DnType::CommonName, name);
        for group in groups {
            params
                .distinguished_name
                .push(DnType::OrganizationName, *group);
        }
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        (vec![certificate.der().clone()], key.serialize_der())
    }
}

async fn get_as(
    running: &Running,
    path: &str,
    identity: Identity,
    headers: &[(&str, &str)],
) -> u16 {
    let ask = Ask {
        identity: Some(identity),
        headers: headers.to_vec(),
        ..Ask::default()
    };
    running.ask(path, ask).await.unwrap().status
}

#[tokio::test]
async fn client_certificates_and_front_proxies_are_recognised_by_the_cluster_s_authorities() {
    let (clients, proxies, strangers) = (
        Authority::new("clients"),
        Authority::new("proxies"),
        Authority::new("strangers"),
    );
    let reviewer = Reviewer::new(Backend::Good);
    *reviewer.config_map.lock().unwrap() = Some(json!({
        "kind": "ConfigMap", "apiVersion": "v1",
        "metadata": {"name": "extension-apiserver-authentication", "namespace": "kube-system",
            "resourceVersion": "1"},
        "data": {
            "client-ca-file": clients.pem,
            "requestheader-client-ca-file": proxies.pem,
            "requestheader-allowed-names": "[\"front\"]",
            "requestheader-username-headers": "[\"X-Remote-User\"]",
            "requestheader-group-headers": "[\"X-Remote-Group\"]",
            "requestheader-extra-headers-prefix": "[\"X-Remote-Extra-\"]",
        },
    }));
    let mut options = options();
    options.authentication.skip_lookup = false;
    let parts = parts(Some(&reviewer));
    let running = start_with(options, parts, reviewer).await;

    assert_eq!(
        get_as(
            &running,
            "/metrics",
            clients.identity("cert-user", &["x"]),
            &[]
        )
        .await,
        200
    );
    assert_eq!(
        get_as(&running, "/metrics", clients.identity("other", &["x"]), &[]).await,
        403
    );
    let master = clients.identity("a", &["system:masters"]);
    assert_eq!(get_as(&running, "/configz", master, &[]).await, 200);
    let ann = [("x-remote-user", "ann"), ("x-remote-group", "dev")];
    assert_eq!(
        get_as(&running, "/metrics", proxies.identity("front", &[]), &ann).await,
        200
    );
    let root = [
        ("x-remote-user", "root"),
        ("x-remote-group", "system:masters"),
    ];
    assert_eq!(
        get_as(&running, "/configz", proxies.identity("front", &[]), &root).await,
        200
    );
    // Headers count only behind the proxy's own certificate.
    assert_eq!(
        get_as(&running, "/metrics", proxies.identity("evil", &[]), &ann).await,
        401
    );
    assert_eq!(
        get_as(&running, "/metrics", clients.identity("other", &[]), &ann).await,
        403
    );
    let stranger = || strangers.identity("cert-user", &["system:masters"]);
    assert_eq!(get_as(&running, "/healthz", stranger(), &[]).await, 401);
    let token = [("authorization", "Bearer good")];
    assert_eq!(get_as(&running, "/metrics", stranger(), &token).await, 200);
    let ask = Ask {
        headers: ann.to_vec(),
        ..Ask::default()
    };
    assert_eq!(running.ask("/metrics", ask).await.unwrap().status, 403);
}

#[tokio::test]
async fn authorities_that_change_in_the_cluster_are_taken_over_while_serving() {
    let clients = Authority::new("clients");
    let reviewer = Reviewer::new(Backend::Good);
    let mut options = options();
    options.authentication.skip_lookup = false;
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let parts = parts(Some(&reviewer));
    let server = Server::on(listener, options, parts.clone()).await.unwrap();
    assert!(server.shared.trust.current().clients.is_none());
    *reviewer.config_map.lock().unwrap() = Some(json!({
        "kind": "ConfigMap", "apiVersion": "v1",
        "metadata": {"name": "extension-apiserver-authentication", "namespace": "kube-system",
            "resourceVersion": "2"},
        "data": {"client-ca-file": clients.pem},
    }));
    let shared = Arc::clone(&server.shared);
    let address = server.address().unwrap();
    let done = tokio::spawn(server.run(std::future::pending()));
    while shared.trust.current().clients.is_none() {
        tokio::task::yield_now().await;
    }
    let running = Running {
        address,
        parts,
        reviewer,
        stop: None,
        done,
    };
    let identity = clients.identity("cert-user", &[]);
    assert_eq!(get_as(&running, "/metrics", identity, &[]).await, 200);
}

#[tokio::test]
async fn a_certificate_is_ignored_where_no_authority_is_known() {
    let strangers = Authority::new("strangers");
    let running = start(options(), Backend::Good).await;
    assert_eq!(
        get_as(&running, "/healthz", strangers.identity("x", &[]), &[]).await,
        200
    );
}

#[tokio::test]
async fn the_authentication_config_map_is_required_unless_told_otherwise() {
    let listener = || async { TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap() };
    let reviewer = Reviewer::new(Backend::Unreachable);
    let mut options = options();
    options.authentication.skip_lookup = false;
    let failed = Server::on(listener().await, options.clone(), parts(Some(&reviewer))).await;
    let error = failed.unwrap_err().to_string();
    assert!(
        error.contains("extension-apiserver-authentication"),
        "{error}"
    );
    options.authentication.tolerate_lookup_failure = true;
    assert!(
        Server::on(listener().await, options.clone(), parts(Some(&reviewer)))
            .await
            .is_ok()
    );
    // Nothing there is no failure.
    options.authentication.tolerate_lookup_failure = false;
    let reviewer = Reviewer::new(Backend::Good);
    assert!(
        Server::on(listener().await, options, parts(Some(&reviewer)))
            .await
            .is_ok()
    );
}
