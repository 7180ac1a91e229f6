//! The change feed, DNS and metrics.

use bowline_simulator::serve::Identity;
use bowline_simulator::testing::send;
use futures::{SinkExt, StreamExt};
use http::Request;
use http_body_util::Full;
use rcgen::{CertificateParams, DnType, ExtendedKeyUsagePurpose, KeyPair, KeyUsagePurpose};
use rustls_pki_types::PrivateKeyDer;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;

use super::*;

type Socket = WebSocketStream<tokio::io::DuplexStream>;

/// Connects to the feed.
async fn connect(it: &Harness) -> Result<Socket, tokio_tungstenite::tungstenite::Error> {
    let date = write_date(it.world.clock.now());
    let mut request = "ws://triton.sim/acme/changefeed"
        .into_client_request()
        .unwrap();
    let header = sign(&seed(), &it.key, "GET", "/acme/changefeed", &date);
    request.headers_mut().insert("date", date.parse().unwrap());
    request
        .headers_mut()
        .insert("authorization", header.parse().unwrap());
    let stream = it.world.pipes.connect(AUTHORITY).unwrap();
    let connected = tokio_tungstenite::client_async(request, stream).await;
    connected.map(|(socket, _)| socket)
}

async fn register(socket: &mut Socket, parts: &[&str]) {
    let subscription = json!({ "resource": "vm", "subResources": parts });
    socket
        .send(Message::text(subscription.to_string()))
        .await
        .unwrap();
    // The subscription has been heard once the pong is here.
    socket.send(Message::Ping("x".into())).await.unwrap();
    assert_eq!(
        socket.next().await.unwrap().unwrap(),
        Message::Pong("x".into())
    );
}

async fn frame(socket: &mut Socket) -> Value {
    let message = socket.next().await.unwrap().unwrap();
    serde_json::from_str(message.to_text().unwrap()).unwrap()
}

#[tokio::test(start_paused = true)]
async fn the_feed_tells_what_was_asked_for() {
    let it = Harness::new();
    let mut socket = connect(&it).await.unwrap();
    // Before a valid subscription nothing is reported.
    it.cloud.rename("k8s-1", "other").unwrap();
    register(&mut socket, &["state", "zone_state"]).await;
    it.cloud.rename("other", "k8s-1").unwrap();
    register(&mut socket, &["tags"]).await;
    it.cloud.rename("k8s-1", "k8s-2").unwrap();
    it.cloud.set_tag("k8s-2", "a", Some(json!("b"))).unwrap();
    let reported = frame(&mut socket).await;
    assert_eq!(reported["changedResourceId"], MACHINE);
    shows!(reported, {"changeKind": { "resource": "vm", "subResources": ["tags"] }});
    assert_eq!(reported["resourceState"], "running");
    assert_eq!(reported["resourceObject"]["tags"], json!({ "a": "b" }));
    assert_eq!(reported["resourceObject"]["package"], "");
    assert!(
        reported["published"]
            .as_str()
            .unwrap()
            .parse::<i64>()
            .is_ok()
    );
    register(&mut socket, &["state"]).await;
    let stop = json!({ "action": "stop" });
    assert_eq!(
        it.call("POST", &format!("/acme/machines/{MACHINE}"), stop)
            .await
            .status,
        202
    );
    let reported = frame(&mut socket).await;
    assert_eq!(reported["resourceState"], "stopping");
    assert!(
        reported["changeKind"]["subResources"]
            .to_string()
            .contains("zone_state")
    );
    assert_eq!(frame(&mut socket).await["resourceState"], "stopped");
    it.cloud.set_quirks(|quirks| quirks.repeated_changes = true);
    it.cloud.destroy(MACHINE).unwrap();
    let (first, second) = (frame(&mut socket).await, frame(&mut socket).await);
    assert_eq!(
        (&first["resourceState"], &first),
        (&json!("destroyed"), &second)
    );
}

#[tokio::test(start_paused = true)]
async fn a_silent_feed_is_dropped_and_a_live_one_can_be() {
    let it = Harness::new();
    let began = tokio::time::Instant::now();
    let mut socket = connect(&it).await.unwrap();
    assert!(!matches!(socket.next().await, Some(Ok(_))));
    assert_eq!(began.elapsed().as_secs(), 55);
    let mut socket = connect(&it).await.unwrap();
    for _ in 0..5 {
        seconds(25).await;
        register(&mut socket, &["tags"]).await;
    }
    it.cloud.drop_feeds();
    assert!(!matches!(socket.next().await, Some(Ok(_))));
    it.cloud.set_quirks(|quirks| quirks.no_changefeed = true);
    let refusal = connect(&it).await.unwrap_err().to_string();
    assert!(refusal.contains("404"), "{refusal}");
    it.cloud.set_quirks(|quirks| quirks.no_changefeed = false);
    assert_eq!(it.status("GET", "/acme/changefeed").await, 400);
}

/// A question, as resolvers ask.
fn question(name: &str, kind: u8) -> Vec<u8> {
    let mut bytes = vec![7, 7, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
    for label in name.split('.') {
        bytes.push(u8::try_from(label.len()).unwrap());
        bytes.extend(label.bytes());
    }
    bytes.extend([0, 0, kind, 0, 1]);
    bytes
}

#[tokio::test(start_paused = true)]
async fn names_can_be_asked_for_in_dns() {
    let it = Harness::with(
        "services: {cmon: 'https://cmon.eg-1.cns.example.com:9163'}
machines:
  - {name: a, id: 5b1e2d3c-0000-4000-8000-000000000001, tags: {triton.cns.services: 'web:80'}}
  - {name: b, tags: {triton.cns.services: web}}",
    );
    let name = format!("WEB.svc.{DEFAULT_ACCOUNT_ID}.eg-1.cns.example.com");
    let ask = |name: &str, kind| it.cloud.answer_dns(&question(name, kind)).unwrap();
    let answer = ask(&name, 1);
    assert_eq!(
        answer[..8],
        [7, 7, 0x85, 0, 0, 1, 0, 2],
        "two addresses, with authority"
    );
    assert!(answer.ends_with(&[0, 0, 0, 30, 0, 4, 203, 0, 113, 11]));
    let answer = ask(&name, 33);
    assert_eq!(answer[6..8], [0, 1]);
    let head = [0, 0, 0, 10, 0, 80, 1, b'a', 4];
    assert!(
        answer.windows(head.len()).any(|window| window == head),
        "priority 0, weight 10, port"
    );
    assert_eq!(ask(&name, 16)[6..8], [0, 2], "one text for each machine");
    assert_eq!(
        ask(&name, 28)[2..8],
        [0x85, 0, 0, 1, 0, 0],
        "there is the name, not the type"
    );
    assert_eq!(ask("nothing.example.com", 1)[3], 3, "there is no such name");
    let alias = format!("{MACHINE}.cmon.eg-1.cns.example.com");
    assert_eq!(ask(&alias, 1)[6..8], [0, 2], "an alias and its address");
    assert!(it.cloud.answer_dns(&[0; 5]).is_none());
}

#[tokio::test]
async fn dns_is_served_over_sockets() {
    let it = Harness::new();
    let dns = Dns::serve(&it.cloud, "127.0.0.1:0".parse().unwrap())
        .await
        .unwrap();
    let name = format!("k8s-1.inst.{DEFAULT_ACCOUNT_ID}.int.eg-1.example.com");
    let socket = tokio::net::UdpSocket::bind("127.0.0.1:0").await.unwrap();
    socket
        .send_to(&question(&name, 1), dns.local_addr())
        .await
        .unwrap();
    let mut buffer = [0; 512];
    let length = socket.recv(&mut buffer).await.unwrap();
    assert!(buffer[..length].ends_with(&[10, 20, 0, 5]));
    let mut stream = tokio::net::TcpStream::connect(dns.local_addr())
        .await
        .unwrap();
    let asked = question(&name, 1);
    stream
        .write_u16(u16::try_from(asked.len()).unwrap())
        .await
        .unwrap();
    stream.write_all(&asked).await.unwrap();
    let length = stream.read_u16().await.unwrap();
    let mut answer = vec![0; usize::from(length)];
    stream.read_exact(&mut answer).await.unwrap();
    assert_eq!(answer, buffer[..usize::from(length)]);
}

/// A certificate for CMON, signed with that key; the closure may spoil it.
fn certificate(
    now: Timestamp,
    signer: &KeyPair,
    spoil: impl FnOnce(&mut CertificateParams, &mut CertificateParams),
) -> Vec<u8> {
    certificate_and_key(now, signer, spoil).0
}

/// The same, and its key.
fn certificate_and_key(
    now: Timestamp,
    signer: &KeyPair,
    spoil: impl FnOnce(&mut CertificateParams, &mut CertificateParams),
) -> (Vec<u8>, KeyPair) {
    let mut subject = CertificateParams::new(Vec::new()).unwrap();
    subject.distinguished_name.push(DnType::CommonName, "acme");
    subject.key_usages = vec![
        KeyUsagePurpose::DigitalSignature,
        KeyUsagePurpose::ContentCommitment,
    ];
    let cmon = ExtendedKeyUsagePurpose::Other(vec![1, 3, 6, 1, 4, 1, 38678, 1, 4, 2]);
    subject.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth, cmon];
    let time = |seconds: i64| {
        rcgen::date_time_ymd(1970, 1, 1) + Duration::from_secs(u64::try_from(seconds).unwrap())
    };
    subject.not_before = time(now.as_second() - 3600);
    subject.not_after = time(now.as_second() + 86_400);
    let mut issuer = CertificateParams::new(Vec::new()).unwrap();
    issuer
        .distinguished_name
        .push(DnType::CommonName, "MD5:JcCDRRR3tqv83c1aIIWVOg");
    spoil(&mut subject, &mut issuer);
    let own = KeyPair::generate().unwrap();
    let issuer = rcgen::Issuer::new(issuer, signer);
    let made = subject.signed_by(&own, &issuer).unwrap();
    (made.der().to_vec(), own)
}

#[tokio::test(start_paused = true)]
async fn metrics_are_for_certificates_that_an_accounts_key_signed() {
    let it = Harness::with(&format!(
        "machines: [{{name: k8s-1, id: {MACHINE}, tags: {{triton.cmon.groups: 'db,k8s'}}}}, {{name: x, state: stopped}}]"
    ));
    let now = it.world.clock.now();
    let signer = KeyPair::from_pem(DEFAULT_PRIVATE_KEY).unwrap();
    let cmon = Cmon::new(&it.cloud);
    let ask = async |certificate: Option<Vec<u8>>, host: &str, path: &str| {
        let peer = Peer { certificate };
        let request = Request::get(path)
            .header("host", host)
            .body(Bytes::new())
            .unwrap();
        let answer = cmon.answer(request, &peer).await;
        let status = answer.response.status().as_u16();
        let body = http_body_util::BodyExt::collect(answer.response.into_body())
            .await
            .unwrap();
        (status, String::from_utf8(body.to_bytes().to_vec()).unwrap())
    };
    let host = "cmon.eg-1.cns.example.com:9163";
    let good = || Some(certificate(now, &signer, |_, _| {}));
    let (status, found) = ask(good(), host, "/v1/discover").await;
    assert_eq!(status, 200);
    let found: Value = serde_json::from_str(&found).unwrap();
    assert_eq!(
        found["containers"].as_array().unwrap().len(),
        1,
        "only what runs"
    );
    assert_eq!(found["containers"][0]["groups"], json!(["db", "k8s"]));
    assert!(
        ask(good(), host, "/v1/discover?groups=web")
            .await
            .1
            .contains("[]")
    );
    assert_eq!(ask(good(), host, "/v1/discover?groups=a%20b").await.0, 400);
    let machine = format!("{MACHINE}.{host}");
    assert!(
        ask(good(), &machine, "/metrics")
            .await
            .1
            .contains("\nmem_limit 1073741824\n")
    );
    assert_eq!(ask(good(), host, "/metrics").await.0, 404);

    let other = KeyPair::generate().unwrap();
    let later = rcgen::date_time_ymd(2100, 1, 1);
    let name = |params: &mut CertificateParams, name: &str| {
        params.distinguished_name = rcgen::DistinguishedName::new();
        params.distinguished_name.push(DnType::CommonName, name);
    };
    let bad = [
        None,
        Some(certificate(now, &other, |_, _| {})),
        Some(certificate(now, &signer, |subject, _| {
            subject.not_before = later;
        })),
        Some(certificate(now, &signer, |subject, _| {
            subject.not_after = rcgen::date_time_ymd(2000, 1, 1);
        })),
        Some(certificate(now, &signer, |subject, _| {
            subject.extended_key_usages.pop();
        })),
        Some(certificate(now, &signer, |subject, _| {
            name(subject, "nobody");
        })),
        Some(certificate(now, &signer, |_, issuer| {
            name(issuer, "SHA256:peASj3+imk5oMKxH++6lQsrMM/3aiUwxFp0E/7CbhOc");
        })),
    ];
    for (number, certificate) in bad.into_iter().enumerate() {
        assert_eq!(
            ask(certificate, host, "/v1/discover").await.0,
            401,
            "{number}"
        );
    }
    let hex = format!("MD5:{DEFAULT_FINGERPRINT}");
    let spelled = certificate(now, &signer, |_, issuer| name(issuer, &hex));
    assert_eq!(ask(Some(spelled), host, "/v1/discover").await.0, 200);
    it.cloud.remove_keys("acme").unwrap();
    assert_eq!(
        ask(good(), host, "/v1/discover").await.0,
        401,
        "it dies with the key"
    );
}

#[tokio::test]
async fn metrics_are_served_over_tls_to_certificates_that_no_authority_has_issued() {
    let it = Harness::new();
    let own = rcgen::generate_simple_self_signed(["cmon.localhost".to_owned()]).unwrap();
    let key = PrivateKeyDer::try_from(own.signing_key.serialize_der()).unwrap();
    let identity = Identity {
        chain: vec![own.cert.der().clone()],
        key,
        client_authorities: Vec::new(),
    };
    let server = Server::builder(&it.world, Cmon::new(&it.cloud));
    let address = "127.0.0.1:0".parse().unwrap();
    let server = server.tls_for_any_client(address, identity).await.unwrap();
    let signer = KeyPair::from_pem(DEFAULT_PRIVATE_KEY).unwrap();
    let (certificate, key) = certificate_and_key(it.world.clock.now(), &signer, |_, _| {});
    let key = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
    for (identity, wanted) in [(Some((certificate.into(), key)), 200), (None, 401)] {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut roots = rustls::RootCertStore::empty();
        roots.add(own.cert.der().clone()).unwrap();
        let config = rustls::ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots);
        let config = match identity {
            Some((certificate, key)) => config
                .with_client_auth_cert(vec![certificate], key)
                .unwrap(),
            None => config.with_no_client_auth(),
        };
        let connector: tokio_rustls::TlsConnector = Arc::new(config).into();
        let stream = tokio::net::TcpStream::connect(server.local_addr().unwrap())
            .await
            .unwrap();
        let name = "cmon.localhost".try_into().unwrap();
        let stream = connector.connect(name, stream).await.unwrap();
        let request = Request::get("/v1/discover").header("host", "cmon.localhost");
        let request = request.body(Full::default()).unwrap();
        let reply = whole(send(stream, request).await.unwrap()).await.unwrap();
        assert_eq!(reply.status, wanted, "{}", reply.text());
    }
}
