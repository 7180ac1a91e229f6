//! Short requests to the servers on loopback, over mutual TLS.
//!
//! Every request has a connection of its own: the servers come and go, and a kept connection to one
//! that was restarted would fail the next request.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use hyper::header::{ACCEPT, CONTENT_TYPE, HOST};
use hyper::{Method, Request, StatusCode};
use hyper_util::rt::TokioIo;
use rustls_pki_types::{CertificateDer, ServerName};
use serde_json::Value;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use bowline_simulator_kubernetes::certificates::Identity;

/// No answer that we read is longer: objects of a few kilobytes.
const LONGEST_ANSWER: usize = 1 << 20;
/// A request that takes longer has failed; the readiness checks repeat theirs.
const ANSWER_WITHIN: Duration = Duration::from_secs(15);

/// Why a request to a server failed.
#[derive(Debug, thiserror::Error)]
pub enum RequestError {
    #[error("setting up TLS with our own certificates")]
    Tls(#[source] rustls::Error),
    #[error("connecting to port {port} on loopback")]
    Connect { port: u16, source: std::io::Error },
    #[error("{method} {path} on port {port}")]
    Exchange {
        method: Method,
        path: String,
        port: u16,
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    #[error("{method} {path} on port {port} got no answer within {ANSWER_WITHIN:?}")]
    Late {
        method: Method,
        path: String,
        port: u16,
    },
    #[error("{method} {path} was answered {status}: {body}")]
    Refused {
        method: Method,
        path: String,
        status: StatusCode,
        body: String,
    },
}

/// Whom we trust, and whose certificate we show.
#[derive(Clone)]
pub(crate) struct Https(Arc<rustls::ClientConfig>);

impl Https {
    pub(crate) fn new(
        authority: &CertificateDer<'static>,
        shown: &Identity,
    ) -> Result<Self, RequestError> {
        let mut roots = rustls::RootCertStore::empty();
        roots.add(authority.clone()).map_err(RequestError::Tls)?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = rustls::ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(RequestError::Tls)?
            .with_root_certificates(roots)
            .with_client_auth_cert(vec![shown.certificate.clone()], shown.key())
            .map_err(RequestError::Tls)?;
        Ok(Self(Arc::new(config)))
    }

    pub(crate) async fn get(&self, port: u16, path: &str) -> Result<Bytes, RequestError> {
        self.send(port, Method::GET, path, None).await
    }

    pub(crate) async fn post(
        &self,
        port: u16,
        path: &str,
        body: &Value,
    ) -> Result<Value, RequestError> {
        let answer = self.send(port, Method::POST, path, Some(body)).await?;
        serde_json::from_slice(&answer).map_err(|error| RequestError::Exchange {
            method: Method::POST,
            path: path.to_owned(),
            port,
            source: error.into(),
        })
    }

    async fn send(
        &self,
        port: u16,
        method: Method,
        path: &str,
        body: Option<&Value>,
    ) -> Result<Bytes, RequestError> {
        let exchange = self.exchange(port, &method, path, body);
        match tokio::time::timeout(ANSWER_WITHIN, exchange).await {
            Ok(answer) => answer,
            Err(_) => Err(RequestError::Late {
                method,
                path: path.to_owned(),
                port,
            }),
        }
    }

    async fn exchange(
        &self,
        port: u16,
        method: &Method,
        path: &str,
        body: Option<&Value>,
    ) -> Result<Bytes, RequestError> {
        let broken = |source: Box<dyn std::error::Error + Send + Sync>| RequestError::Exchange {
            method: method.clone(),
            path: path.to_owned(),
            port,
            source,
        };
        let stream = self
            .connect(port)
            .await
            .map_err(|source| RequestError::Connect { port, source })?;
        let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream))
            .await
            .map_err(|error| broken(error.into()))?;
        // Ends with the sender, or with the server.
        tokio::spawn(connection);
        let content = body.map_or_else(Bytes::new, |body| Bytes::from(body.to_string()));
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header(HOST, format!("127.0.0.1:{port}"))
            .header(CONTENT_TYPE, "application/json")
            .header(ACCEPT, "application/json, */*")
            .body(Full::new(content))
            .map_err(|error| broken(error.into()))?;
        let answer = sender
            .send_request(request)
            .await
            .map_err(|error| broken(error.into()))?;
        let status = answer.status();
        let body = Limited::new(answer.into_body(), LONGEST_ANSWER)
            .collect()
            .await
            .map_err(broken)?
            .to_bytes();
        if status.is_success() {
            return Ok(body);
        }
        Err(RequestError::Refused {
            method: method.clone(),
            path: path.to_owned(),
            status,
            body: String::from_utf8_lossy(&body).trim().to_owned(),
        })
    }

    async fn connect(
        &self,
        port: u16,
    ) -> std::io::Result<tokio_rustls::client::TlsStream<TcpStream>> {
        let loopback = Ipv4Addr::LOCALHOST;
        let stream = TcpStream::connect((loopback, port)).await?;
        let name = ServerName::IpAddress(IpAddr::from(loopback).into());
        TlsConnector::from(self.0.clone())
            .connect(name, stream)
            .await
    }
}
