//! Real sockets: TLS with a CA of our own, client certificates, proxies.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bowline_core::{CloudError, CloudErrorKind, Secret};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use rustls::ServerConfig;
use rustls::server::WebPkiClientVerifier;
use rustls_pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;

use super::server::{Server, answer};
use crate::{
    BaseUrl, Bearer, CallError, Connector, HttpClient, ProxyRules, RetryPolicy, Route, Tls,
    TlsError, Wire,
};

struct Authority(CertifiedIssuer<'static, KeyPair>);

impl Authority {
    fn new() -> Self {
        Self::named("test authority")
    }

    fn named(name: &str) -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        Self(CertifiedIssuer::self_signed(params, key).unwrap())
    }

    fn pem(&self) -> String {
        self.0.pem()
    }

    fn issue(&self, name: &str) -> (rcgen::Certificate, KeyPair) {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new([name.to_owned()]).unwrap();
        (params.signed_by(&key, &self.0).unwrap(), key)
    }

    /// A TLS server for `name`; with `clients`, only for those who show a certificate of theirs.
    fn acceptor(&self, name: &str, clients: Option<&Authority>) -> TlsAcceptor {
        let (certificate, key) = self.issue(name);
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .unwrap();
        let builder = match clients {
            None => builder.with_no_client_auth(),
            Some(clients) => {
                let mut roots = rustls::RootCertStore::empty();
                roots.add(clients.0.der().clone()).unwrap();
                let verifier =
                    WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
                builder.with_client_cert_verifier(verifier.build().unwrap())
            }
        };
        let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
        let chain = vec![certificate.der().clone()];
        TlsAcceptor::from(Arc::new(builder.with_single_cert(chain, key).unwrap()))
    }
}

async fn listen(server: &Server, tls: Option<TlsAcceptor>) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let server = server.clone();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let (server, tls) = (server.clone(), tls.clone());
            tokio::spawn(async move {
                match tls {
                    None => server.serve(stream).await,
                    Some(tls) => {
                        if let Ok(stream) = tls.accept(stream).await {
                            server.serve(stream).await;
                        }
                    }
                }
            });
        }
    });
    address
}

fn client(base: &str, tls: &Tls, variables: &[(&str, &str)]) -> HttpClient {
    let map: BTreeMap<&str, &str> = variables.iter().copied().collect();
    let rules = ProxyRules::from_environment(|name| map.get(name).map(|v| (*v).to_owned()));
    let connector = Connector::real(tls.build().unwrap(), rules.unwrap());
    HttpClient::builder("cloud", BaseUrl::parse(base).unwrap(), connector)
        .auth(Bearer(Secret::new("t0ken-t0ken")))
        .retry(RetryPolicy::never())
        .build()
}

async fn get(client: &HttpClient) -> Result<u16, CallError> {
    let reply = client.get(Route::new("v1/servers")).send().await?;
    Ok(reply.status())
}

fn chain(result: Result<u16, CallError>) -> String {
    CloudError::from(result.unwrap_err()).chain()
}

#[tokio::test]
async fn a_given_authority_is_trusted_and_an_unknown_one_is_named_as_the_problem() {
    let authority = Authority::new();
    let server = Server::new(|_| answer(200, "[]"));
    let address = listen(&server, Some(authority.acceptor("localhost", None))).await;
    let base = format!("https://localhost:{}", address.port());

    let given = Tls::new().authority_pem("ca", authority.pem());
    assert_eq!(get(&client(&base, &given, &[])).await.unwrap(), 200);

    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("ca.pem");
    std::fs::write(&file, authority.pem()).unwrap();
    let only = given.clone().only_given_authorities();
    assert_eq!(get(&client(&base, &only, &[])).await.unwrap(), 200);

    let path = file.to_str().unwrap().to_owned();
    let environment = move |name: &str| (name == "SSL_CERT_FILE").then(|| path.clone());
    let from_environment = Tls::new().environment(environment);
    assert_eq!(
        get(&client(&base, &from_environment, &[])).await.unwrap(),
        200
    );

    let unknown = "it is signed by an unknown authority (give its CA file)";
    let renewed =
        "its authority has the name of one we know, but another key (was the CA renewed?)";
    let other = Tls::new().authority_pem("ca", Authority::named("other").pem());
    let namesake = Tls::new().authority_pem("ca", Authority::new().pem());
    for (tls, reason) in [(Tls::new(), unknown), (other, unknown), (namesake, renewed)] {
        let to = format!("localhost:{}", address.port());
        let wanted = format!("the certificate of {to} is not trusted: {reason}");
        let text = chain(get(&client(&base, &tls, &[])).await);
        assert_eq!(
            text,
            format!("cloud: GET v1/servers was not sent: {wanted}")
        );
    }
    assert_eq!(server.seen().len(), 3);
}

#[tokio::test]
async fn a_certificate_for_another_name_is_refused_unless_told_otherwise() {
    let authority = Authority::new();
    let server = Server::new(|_| answer(200, "[]"));
    let address = listen(&server, Some(authority.acceptor("other.test", None))).await;
    let base = format!("https://127.0.0.1:{}", address.port());
    let tls = Tls::new().authority_pem("ca", authority.pem());
    let text = chain(get(&client(&base, &tls, &[])).await);
    assert!(text.ends_with("it was issued for another name"), "{text}");
    let insecure = Tls::new().insecure(true);
    assert_eq!(get(&client(&base, &insecure, &[])).await.unwrap(), 200);
}

#[tokio::test]
async fn a_server_that_the_dns_does_not_know_is_found_elsewhere_under_its_name() {
    let authority = Authority::new();
    let server = Server::new(|_| answer(200, "[]"));
    let name = "machine.cmon.invalid";
    let address = listen(&server, Some(authority.acceptor(name, None))).await;
    let tls = Tls::new().authority_pem("ca", authority.pem());
    let connector = Connector::real(tls.build().unwrap(), ProxyRules::default());
    let base = format!("https://{name}:{}", address.port());
    let client = |connector| {
        let base = BaseUrl::parse(&base).unwrap();
        HttpClient::builder("cloud", base, connector)
            .retry(RetryPolicy::never())
            .build()
    };
    assert!(get(&client(connector.clone())).await.is_err());
    let found = client(connector.found_at("127.0.0.1"));
    assert_eq!(get(&found).await.unwrap(), 200);
    let host = server.seen()[0].headers()["host"].clone();
    assert_eq!(host, format!("{name}:{}", address.port()));
}

#[tokio::test]
async fn an_untrusted_server_is_not_tried_again() {
    let authority = Authority::new();
    let accepted = Arc::new(Mutex::new(0));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (acceptor, counted) = (authority.acceptor("localhost", None), Arc::clone(&accepted));
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            *counted.lock().unwrap() += 1;
            let _ = acceptor.accept(stream).await;
        }
    });
    let client = client(&format!("https://{address}"), &Tls::new(), &[]);
    let call = client.get(Route::new("x")).retry(RetryPolicy::default());
    let error = call.send().await.unwrap_err();
    assert_eq!(error.kind(), CloudErrorKind::Unavailable);
    assert_eq!(*accepted.lock().unwrap(), 1);
}

#[tokio::test]
async fn a_client_certificate_is_shown_to_who_asks() {
    let (authority, clients) = (Authority::new(), Authority::new());
    let server = Server::new(|_| answer(200, "[]"));
    let acceptor = authority.acceptor("localhost", Some(&clients));
    let address = listen(&server, Some(acceptor)).await;
    let base = format!("https://localhost:{}", address.port());
    let tls = Tls::new().authority_pem("ca", authority.pem());
    assert!(get(&client(&base, &tls, &[])).await.is_err());
    let (certificate, key) = clients.issue("me");
    let key = Secret::new(key.serialize_pem());
    let tls = tls.client_certificate_pem("settings", certificate.pem(), key);
    assert_eq!(get(&client(&base, &tls, &[])).await.unwrap(), 200);
}

#[test]
fn bad_files_are_named_with_what_is_wrong() {
    let show = |tls: Tls| {
        let error: TlsError = tls.build().unwrap_err();
        error.to_string()
    };
    let absent = |name: &str| (name == "SSL_CERT_FILE").then(|| "/absent/ca".to_owned());
    let absent = show(Tls::new().environment(absent));
    assert_eq!(absent, "cannot read SSL_CERT_FILE /absent/ca");
    let (prose, armour) = ("not a certificate", "-----BEGIN CERTIFICATE-----\nAAAA\n");
    let ca = |pem: &str| Tls::new().authority_pem("the CA", pem);
    for text in ["", prose] {
        let wanted = "the CA holds no certificate in PEM form";
        assert_eq!(show(ca(text)), wanted, "{text}");
    }
    let junk = format!("{armour}-----END CERTIFICATE-----\n");
    for text in [junk.as_str(), armour] {
        let text = show(ca(text));
        assert!(text.starts_with("the CA is damaged: "), "{text}");
    }
    let (certificate, key) = Authority::new().issue("me");
    let (certificate, key) = (certificate.pem(), key.serialize_pem());
    let other = KeyPair::generate().unwrap().serialize_pem();
    let pair = |a: &str, b: &str| Tls::new().client_certificate_pem("me", a, Secret::new(b));
    let none = "holds no private key in PEM form";
    assert_eq!(
        show(pair(&certificate, prose)),
        format!("the key of me {none}")
    );
    let none = "holds no certificate in PEM form";
    assert_eq!(
        show(pair("", &key)),
        format!("the certificate of me {none}")
    );
    let text = show(pair(&certificate, &other));
    assert!(
        text.starts_with("the client certificate cannot be used: "),
        "{text}"
    );
    assert!(pair(&certificate, &key).build().is_ok());
}

#[tokio::test]
async fn nobody_listening_and_a_silent_listener_are_told_apart() {
    let closed = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = closed.local_addr().unwrap();
    drop(closed);
    let tls = Tls::new();
    let text = chain(get(&client(&format!("http://{address}"), &tls, &[])).await);
    let start = format!("cloud: GET v1/servers was not sent: cannot connect to {address}: ");
    assert!(
        text.starts_with(&start) && text.contains("refused"),
        "{text}"
    );

    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = silent.local_addr().unwrap();
    let connector = Connector::real(tls.build().unwrap(), ProxyRules::default());
    let connector = connector.deadline(Duration::from_millis(50));
    let error = connector
        .connect(format!("https://{address}").parse().unwrap())
        .await
        .unwrap_err();
    assert_eq!(
        error.to_string(),
        format!("no connection to {address} within 0.05 s")
    );
}

/// An HTTP proxy that knows where names lead, and keeps the heads of what it is asked.
#[derive(Clone, Default)]
struct Proxy {
    names: BTreeMap<String, SocketAddr>,
    heads: Arc<Mutex<Vec<String>>>,
    password: Option<&'static str>,
}

impl Proxy {
    async fn listen(self) -> SocketAddr {
        self.listen_with(None).await
    }

    async fn listen_with(self, tls: Option<TlsAcceptor>) -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (proxy, tls) = (self.clone(), tls.clone());
                tokio::spawn(async move {
                    match tls {
                        None => proxy.serve(stream).await,
                        Some(tls) => proxy.serve(tls.accept(stream).await.unwrap()).await,
                    }
                });
            }
        });
        address
    }

    async fn serve(self, stream: impl Wire) {
        let mut stream = BufReader::new(stream);
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            if stream.read_line(&mut head).await.unwrap_or(0) == 0 {
                return;
            }
        }
        self.heads.lock().unwrap().push(head.clone());
        let wanted = self
            .password
            .map(|password| format!("proxy-authorization: {password}"));
        let lower = head.to_lowercase();
        if wanted.is_some_and(|wanted| !lower.contains(&wanted.to_lowercase())) {
            let refusal =
                b"HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\n\r\n";
            stream.write_all(refusal).await.unwrap();
            return;
        }
        let target = head.split(' ').nth(1).unwrap().to_owned();
        if head.starts_with("CONNECT ") {
            let mut far = TcpStream::connect(self.names[&target]).await.unwrap();
            stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await.unwrap();
            let _ = tokio::io::copy_bidirectional(&mut stream, &mut far).await;
        } else {
            let host = target
                .trim_start_matches("http://")
                .split('/')
                .next()
                .unwrap();
            let mut far = TcpStream::connect(self.names[host]).await.unwrap();
            far.write_all(head.as_bytes()).await.unwrap();
            let mut bytes = vec![0; 4096];
            let length = far.read(&mut bytes).await.unwrap();
            stream.write_all(&bytes[..length]).await.unwrap();
        }
    }

    fn first_lines(&self) -> Vec<String> {
        let heads = self.heads.lock().unwrap();
        heads
            .iter()
            .map(|head| head.lines().next().unwrap().to_owned())
            .collect()
    }
}

#[tokio::test]
async fn framework_case_146_cloud_calls_go_through_the_proxy_and_excepted_hosts_do_not() {
    let authority = Authority::new();
    let cloud = Server::new(|_| answer(200, "[]"));
    let cloud_address = listen(&cloud, Some(authority.acceptor("cloud.test", None))).await;
    let kubernetes = Server::new(|_| answer(200, "{}"));
    // 0.0.0.0 leads to this machine and is not a loopback address, which no proxy would get.
    let api_address = listen(&kubernetes, Some(authority.acceptor("0.0.0.0", None))).await;
    let api = format!("0.0.0.0:{}", api_address.port());
    let proxy = Proxy {
        names: [
            ("cloud.test:443".to_owned(), cloud_address),
            (api.clone(), api_address),
        ]
        .into(),
        password: Some("Basic YW5uOnBAc3M="),
        ..Proxy::default()
    };
    let address = proxy.clone().listen().await;
    let url = format!("http://ann:p%40ss@{address}");
    let excepted = [
        ("HTTPS_PROXY", url.as_str()),
        ("NO_PROXY", "x.test, 0.0.0.0/8"),
    ];
    let tls = Tls::new().authority_pem("ca", authority.pem());

    assert_eq!(
        get(&client("https://cloud.test", &tls, &excepted))
            .await
            .unwrap(),
        200
    );
    let api_url = format!("https://{api}");
    assert_eq!(get(&client(&api_url, &tls, &excepted)).await.unwrap(), 200);
    assert_eq!(proxy.first_lines(), ["CONNECT cloud.test:443 HTTP/1.1"]);
    assert_eq!((cloud.seen().len(), kubernetes.seen().len()), (1, 1));
    let head = proxy.heads.lock().unwrap()[0].clone();
    assert!(
        !head.contains("t0ken"),
        "the proxy sees no credentials of the cloud: {head}"
    );

    let all = &excepted[..1];
    assert_eq!(get(&client(&api_url, &tls, all)).await.unwrap(), 200);
    assert_eq!(proxy.first_lines()[1], format!("CONNECT {api} HTTP/1.1"));
}

#[tokio::test]
async fn a_proxy_may_itself_want_tls() {
    let authority = Authority::new();
    let cloud = Server::new(|_| answer(200, "[]"));
    let address = listen(&cloud, Some(authority.acceptor("cloud.test", None))).await;
    let proxy = Proxy {
        names: [("cloud.test:443".to_owned(), address)].into(),
        ..Proxy::default()
    };
    let acceptor = authority.acceptor("localhost", None);
    let port = proxy.clone().listen_with(Some(acceptor)).await.port();
    let url = format!("https://localhost:{port}");
    let tls = Tls::new().authority_pem("ca", authority.pem());
    let client = client("https://cloud.test", &tls, &[("HTTPS_PROXY", url.as_str())]);
    assert_eq!(get(&client).await.unwrap(), 200);
    assert_eq!(proxy.first_lines(), ["CONNECT cloud.test:443 HTTP/1.1"]);
}

#[tokio::test]
async fn plain_http_goes_through_the_proxy_in_absolute_form() {
    let cloud = Server::new(|_| answer(200, "[]"));
    let names = [("cloud.test".to_owned(), listen(&cloud, None).await)].into();
    let password = Some("Basic YW5uOnB3");
    let proxy = Proxy {
        names,
        password,
        ..Proxy::default()
    };
    let url = format!("http://ann:pw@{}", proxy.clone().listen().await);
    let client = client(
        "http://cloud.test",
        &Tls::new(),
        &[("http_proxy", url.as_str())],
    );
    assert_eq!(get(&client).await.unwrap(), 200);
    assert_eq!(
        proxy.first_lines(),
        ["GET http://cloud.test/v1/servers HTTP/1.1"]
    );
}

#[tokio::test]
async fn a_proxy_that_refuses_is_named_without_its_password() {
    let proxy = Proxy {
        password: Some("Basic other"),
        ..Proxy::default()
    };
    let address = proxy.listen().await;
    let url = format!("http://ann:hunter2@{address}");
    let client = client(
        "https://cloud.test",
        &Tls::new(),
        &[("HTTPS_PROXY", url.as_str())],
    );
    assert_eq!(
        chain(get(&client).await),
        format!(
            "cloud: GET v1/servers was not sent: proxy {address} gives no tunnel to \
             cloud.test:443: tunnel error: proxy authorization required"
        )
    );
}

#[test]
fn a_direct_connector_leaves_its_proxies_out() {
    let environment = |name: &str| {
        let proxy = (name == "HTTP_PROXY").then_some("http://ann:hunter2@proxy.test:3128");
        proxy.map(str::to_owned)
    };
    let rules = ProxyRules::from_environment(environment).unwrap();
    let connector = Connector::real(Tls::new().build().unwrap(), rules);
    let uri = "http://metadata.test/zone".parse().unwrap();
    assert!(connector.proxy_authorization(&uri).is_some());
    assert!(!connector.secrets().is_empty());
    let direct = connector.direct();
    assert!(direct.proxy_authorization(&uri).is_none());
    assert!(direct.secrets().is_empty());
}
