//! A caller of the manager's HTTPS port.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering};

use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt as _, Full};
use hyper_util::rt::TokioIo;
use rustls::ClientConfig;
use rustls_pki_types::ServerName;
use tokio::net::TcpStream;

use crate::witness::Witness;

/// A port nobody listens on, below those that outgoing connections get.
pub(crate) fn free_port() -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let process = u16::try_from(std::process::id() % 400).unwrap();
    loop {
        let port = 20_000 + process * 25 + NEXT.fetch_add(1, Ordering::Relaxed) % 25;
        if TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok() {
            return port;
        }
    }
}

/// The flags that serve on that port of the loopback.
pub(crate) fn serving_flags(port: u16) -> [String; 2] {
    [
        "--bind-address=127.0.0.1".to_owned(),
        format!("--secure-port={port}"),
    ]
}

#[derive(Debug)]
pub(crate) struct Said {
    pub(crate) status: u16,
    pub(crate) body: String,
    /// The server's own certificate.
    pub(crate) certificate: Vec<u8>,
}

/// Calls until somebody listens, then gives the answer.
pub(crate) async fn get(port: u16, path: &str, token: Option<&str>) -> Said {
    call("GET", port, path, token).await
}

pub(crate) async fn call(method: &str, port: u16, path: &str, token: Option<&str>) -> Said {
    let seen = Arc::new(Witness::default());
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .dangerous()
        .with_custom_certificate_verifier(seen.clone())
        .with_no_client_auth();
    let connector = tokio_rustls::TlsConnector::from(Arc::new(config));
    let stream = connect(port).await;
    let stream = connector
        .connect(ServerName::try_from("localhost").unwrap(), stream)
        .await
        .unwrap();
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream))
        .await
        .unwrap();
    tokio::spawn(connection);
    let mut request = Request::builder()
        .method(method)
        .uri(path)
        .header("host", "localhost");
    if let Some(token) = token {
        request = request.header("authorization", format!("Bearer {token}"));
    }
    let request = request.body(Full::new(Bytes::new())).unwrap();
    let (parts, body) = sender.send_request(request).await.unwrap().into_parts();
    let body = body.collect().await.unwrap().to_bytes();
    let certificate = seen.0.lock().unwrap().remove(0);
    Said {
        status: parts.status.as_u16(),
        body: String::from_utf8(body.to_vec()).unwrap(),
        certificate,
    }
}

/// A manager that was just started may not listen yet; its port says when.
async fn connect(port: u16) -> TcpStream {
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    loop {
        match TcpStream::connect(address).await {
            Ok(stream) => return stream,
            Err(error) if error.kind() == std::io::ErrorKind::ConnectionRefused => {
                tokio::task::yield_now().await;
            }
            Err(error) => panic!("{error}"),
        }
    }
}
