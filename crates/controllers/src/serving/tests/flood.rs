//! Many callers that want nothing, and few that do.

use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpSocket;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};
use tokio_rustls::client::TlsStream;

use super::*;

const CROWD: u32 = 1000;
const PLACES: usize = 256;
/// Every client of HTTP/2 begins with this; an empty SETTINGS frame follows.
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";

/// What a caller does once it is connected: too little, in each case.
#[derive(Clone, Copy, Debug)]
enum Manner {
    /// Nothing at all.
    Mute,
    /// TLS, then nothing.
    Silent,
    /// TLS, then a byte a second.
    Slow,
    /// HTTP/2 without a stream.
    Streamless,
}

/// Addresses of the loopback network that the test takes for other hosts'.
fn is_this_host(address: IpAddr) -> bool {
    address == IpAddr::from(Ipv4Addr::LOCALHOST)
}

async fn start_judging(is_local: fn(IpAddr) -> bool) -> Running {
    let listener = listen((Ipv4Addr::LOCALHOST, 0).into(), false).unwrap();
    let reviewer = Reviewer::new(Backend::Good);
    let parts = parts(Some(&reviewer));
    let mut server = Server::on(listener, options(), parts.clone())
        .await
        .unwrap();
    server.is_local = is_local;
    let address = server.address().unwrap();
    let done = tokio::spawn(server.run(std::future::pending()));
    Running {
        address,
        parts,
        reviewer,
        stop: None,
        done,
    }
}

async fn connect(from: Ipv4Addr, to: SocketAddr) -> io::Result<TcpStream> {
    let socket = TcpSocket::new_v4()?;
    socket.bind((from, 0).into())?;
    socket.connect(to).await
}

async fn shake(stream: TcpStream, alpn: &str) -> io::Result<TlsStream<TcpStream>> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(Witness::default()))
        .with_no_client_auth();
    config.alpn_protocols = vec![alpn.as_bytes().to_vec()];
    let connector = tokio_rustls::TlsConnector::from(Arc::new(config));
    let host = ServerName::try_from("localhost").unwrap();
    connector.connect(host, stream).await
}

/// Ends when the server closes the connection.
async fn be(manner: Manner, stream: TcpStream, there: &Semaphore) -> io::Result<()> {
    let alpn = match manner {
        Manner::Mute => {
            there.add_permits(1);
            return until_closed(stream).await;
        }
        Manner::Streamless => "h2",
        Manner::Silent | Manner::Slow => "http/1.1",
    };
    let shaken = shake(stream, alpn).await;
    there.add_permits(1);
    let mut stream = shaken?;
    match manner {
        Manner::Streamless => stream.write_all(PREFACE).await?,
        Manner::Slow => {
            let (from, mut to) = tokio::io::split(stream);
            let dribble = async {
                to.write_all(b"GET /livez HTTP/1.1\r\nx: ").await?;
                loop {
                    to.write_all(b"x").await?;
                    tokio::time::sleep(Duration::from_secs(1)).await;
                }
            };
            return tokio::select! {
                closed = until_closed(from) => closed,
                failed = dribble => failed,
            };
        }
        Manner::Mute | Manner::Silent => {}
    }
    until_closed(stream).await
}

async fn until_closed(mut stream: impl AsyncRead + Unpin) -> io::Result<()> {
    let mut buffer = [0; 256];
    while stream.read(&mut buffer).await? > 0 {}
    Ok(())
}

async fn withstand(manner: Manner, is_local: fn(IpAddr) -> bool, from: fn(u32) -> Ipv4Addr) {
    let running = start_judging(is_local).await;
    let there = Arc::new(Semaphore::new(0));
    let mut crowd = JoinSet::new();
    for number in 0..CROWD {
        let (there, to) = (Arc::clone(&there), running.address);
        let stream = connect(from(number), to).await.unwrap();
        crowd.spawn(async move {
            let _ = be(manner, stream, &there).await;
        });
    }
    let _all = there.acquire_many(CROWD).await.unwrap();
    for path in ["/livez", "/readyz", "/healthz"] {
        let said = timeout(Duration::from_secs(1), running.get(path)).await;
        assert_eq!(said.expect(path).status, 200, "{manner:?} {path}");
    }
    // Only so many are there at any time: the others are closed long before their time is over.
    for _ in PLACES..CROWD as usize {
        let closed = timeout(Duration::from_secs(8), crowd.join_next()).await;
        closed.expect("closed for a newcomer").unwrap().unwrap();
    }
    tokio::time::pause();
    let start = Instant::now();
    while let Some(ended) = crowd.join_next().await {
        ended.unwrap();
    }
    let took = start.elapsed();
    let limit = match manner {
        Manner::Streamless => Duration::from_secs(60),
        _ => Duration::from_secs(10),
    };
    assert!(took <= limit, "{manner:?}: {took:?}");
}

fn from_here(_: u32) -> Ipv4Addr {
    Ipv4Addr::LOCALHOST
}

fn from_one(_: u32) -> Ipv4Addr {
    Ipv4Addr::new(127, 9, 9, 9)
}

fn from_everywhere(number: u32) -> Ipv4Addr {
    Ipv4Addr::from_bits(Ipv4Addr::new(127, 10, 0, 1).to_bits() + number)
}

#[tokio::test]
async fn proof_case_39_a_thousand_mute_callers_keep_no_probe_waiting() {
    withstand(Manner::Mute, is_this_host, from_one).await;
}

#[tokio::test]
async fn proof_case_39_a_thousand_silent_callers_from_here_one_address_and_many() {
    withstand(Manner::Silent, places::is_local, from_here).await;
    tokio::time::resume();
    withstand(Manner::Silent, is_this_host, from_one).await;
    tokio::time::resume();
    withstand(Manner::Silent, is_this_host, from_everywhere).await;
}

#[tokio::test]
async fn proof_case_39_a_thousand_callers_that_send_a_byte_a_second() {
    withstand(Manner::Slow, is_this_host, from_everywhere).await;
}

#[tokio::test]
async fn proof_case_39_a_thousand_http_2_connections_without_a_stream() {
    withstand(Manner::Streamless, is_this_host, from_one).await;
}

#[tokio::test]
async fn who_has_asked_keeps_its_connection_for_a_minute_also_in_a_flood() {
    let running = start_judging(is_this_host).await;
    let stream = connect(from_one(0), running.address).await.unwrap();
    let mut scraper = shake(stream, "http/1.1").await.unwrap();
    let mut crowd = Vec::new();
    for round in 0..3 {
        let request = b"GET /livez HTTP/1.1\r\nhost: localhost\r\n\r\n";
        scraper.write_all(request).await.unwrap();
        let mut buffer = [0; 1024];
        let length = scraper.read(&mut buffer).await.unwrap();
        let said = String::from_utf8_lossy(&buffer[..length]);
        assert!(said.starts_with("HTTP/1.1 200"), "{round}: {said}");
        for number in 0..300 {
            let to = running.address;
            crowd.push(connect(from_everywhere(number), to).await.unwrap());
        }
    }
    tokio::time::pause();
    let start = Instant::now();
    let _ = until_closed(scraper).await;
    let took = start.elapsed();
    let (least, most) = (Duration::from_secs(55), Duration::from_secs(61));
    assert!(took >= least && took <= most, "{took:?}");
}
