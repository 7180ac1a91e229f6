//! For the tests of simulators: a small HTTP client with one connection per call, and fixtures.

use bytes::Bytes;
use http::{HeaderMap, Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper_util::rt::{TokioExecutor, TokioIo};
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;

use crate::World;
use crate::simulate::Options;

/// Where the server is.
#[derive(Clone)]
pub enum ServerAddress {
    Socket(std::net::SocketAddr),
    Pipe(World, &'static str),
}

/// A caller of one server.
#[derive(Clone)]
pub struct Client {
    pub address: ServerAddress,
    pub token: Option<String>,
}

/// An answer, read whole.
#[derive(Clone, Debug)]
pub struct Reply {
    pub status: u16,
    pub headers: HeaderMap,
    pub bytes: Bytes,
}

impl Reply {
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.bytes).unwrap_or_default()
    }

    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.bytes).into_owned()
    }
}

impl Client {
    pub fn new(address: ServerAddress, token: Option<&str>) -> Self {
        let token = token.map(str::to_owned);
        Self { address, token }
    }

    pub fn request(&self, method: &str, path: &str, body: &str) -> Request<Full<Bytes>> {
        let mut request = Request::builder()
            .method(method)
            .uri(path)
            .header("host", "sim.example:1234")
            .header("content-type", "application/json");
        if let Some(token) = &self.token {
            request = request.header("authorization", format!("Bearer {token}"));
        }
        request.body(Full::new(body.to_owned().into())).unwrap()
    }

    /// The head of the answer and its body still to come.
    pub async fn open(
        &self,
        method: &str,
        path: &str,
        body: &str,
    ) -> hyper::Result<Response<Incoming>> {
        let request = self.request(method, path, body);
        match &self.address {
            ServerAddress::Socket(address) => {
                send(TcpStream::connect(address).await.unwrap(), request).await
            }
            ServerAddress::Pipe(world, name) => {
                send(world.pipes.connect(name).unwrap(), request).await
            }
        }
    }

    /// The whole answer, or the error if there was none.
    pub async fn attempt(&self, method: &str, path: &str, body: &str) -> hyper::Result<Reply> {
        whole(self.open(method, path, body).await?).await
    }

    pub async fn call(&self, method: &str, path: &str, body: &Value) -> Reply {
        self.attempt(method, path, &text_of(body)).await.unwrap()
    }

    pub async fn get(&self, path: &str) -> Reply {
        self.call("GET", path, &Value::Null).await
    }
}

/// The text of a body; none for null.
pub fn text_of(body: &Value) -> String {
    if body.is_null() {
        String::new()
    } else {
        body.to_string()
    }
}

/// Sends one request with these headers on a pipe.
pub async fn send_by_pipe(
    (world, authority): (&World, &str),
    (method, target): (&str, &str),
    body: &str,
    headers: &[(&str, &str)],
) -> hyper::Result<Response<Incoming>> {
    let request = Request::builder().method(method).uri(target);
    let headers = headers.iter();
    let request = headers.fold(request, |request, (name, value)| {
        request.header(*name, *value)
    });
    let request = request.body(Full::new(body.to_owned().into())).unwrap();
    send(world.pipes.connect(authority).unwrap(), request).await
}

pub async fn whole(response: Response<Incoming>) -> hyper::Result<Reply> {
    let (head, body) = response.into_parts();
    Ok(Reply {
        status: head.status.as_u16(),
        headers: head.headers,
        bytes: body.collect().await?.to_bytes(),
    })
}

/// Sends one request with HTTP/1.1 on a fresh stream.
pub async fn send<S>(stream: S, request: Request<Full<Bytes>>) -> hyper::Result<Response<Incoming>>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
    let connection = tokio::spawn(connection);
    let answer = sender.send_request(request).await;
    if answer.is_err() {
        connection.abort();
    }
    answer
}

/// Sends one request with HTTP/2 on a fresh stream.
pub async fn send_http2<S>(
    stream: S,
    request: Request<Full<Bytes>>,
) -> hyper::Result<Response<Incoming>>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let (mut sender, connection) =
        hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await?;
    tokio::spawn(connection);
    sender.send_request(request).await
}

/// A server of its own with that fixture, on any port.
pub fn options(fixture: &std::path::Path) -> Options {
    let options = Options::default().with("listen", "127.0.0.1:0");
    options.with("fixture", fixture.display()).with("seed", 1)
}

/// The first example of a fixture below that heading of the documentation.
pub fn documented(heading: &str) -> &'static str {
    let page = include_str!("../../../docs/simulators.md");
    let page = &page[page.find(heading).unwrap()..];
    let example = page.split("```yaml\n").nth(1).unwrap();
    example.split("```").next().unwrap()
}

/// Rows of a table of bodies, each with what comes of it: `{"name": ""} => 400, "is missing";`, or
/// with what it is for: `"stop": {"machine": "a"} => "is gone";`.
#[macro_export]
macro_rules! rows {
    ($($label:literal: $body:tt $(=> $($wanted:expr),+)?;)*) => {
        [$(($label, serde_json::json!($body) $($(, $wanted)+)?)),*]
    };
    ($($body:tt => $($wanted:expr),+;)*) => {
        [$((serde_json::json!($body), $($wanted),+)),*]
    };
}

/// Asserts members of a value, by name or by pointer; null stands for a missing one:
/// `shows!(made, {"mtu": 1500, "/zone/slug": "a"})`.
#[macro_export]
macro_rules! shows {
    ($value:expr, $members:tt) => {
        $crate::testing::assert_members(&$value, &serde_json::json!($members))
    };
}

#[track_caller]
pub fn assert_members(value: &Value, members: &Value) {
    for (name, wanted) in members.as_object().unwrap() {
        let found = match name.strip_prefix('/') {
            Some(_) => value.pointer(name).unwrap_or(&Value::Null),
            None => &value[name],
        };
        assert_eq!(found, wanted, "{name} of {value}");
    }
}
