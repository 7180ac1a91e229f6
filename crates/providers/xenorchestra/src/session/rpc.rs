//! The oldest way to a token: JSON-RPC over a WebSocket.

use bowline_core::{CloudError, CloudErrorKind};
use bowline_http::{Connector, HttpClient, Wire};
use futures::{SinkExt as _, StreamExt as _};
use http::Uri;
use serde_json::{Value, json};
use tokio::time::timeout;
use tokio_tungstenite::tungstenite::protocol::WebSocketConfig;
use tokio_tungstenite::tungstenite::{Error as SocketError, Message};
use tokio_tungstenite::{WebSocketStream, client_async_with_config};

use super::sign_in::SignInError;
use crate::config::ServerConfig;

/// Messages may report thousands of objects that changed; they are dropped, but read.
const LONGEST_MESSAGE: usize = 32 * 1024 * 1024;
/// Messages about other things that are read while an answer is waited for.
const OTHER_MESSAGES: usize = 1000;
/// From http to https, and one more.
const REDIRECTS: usize = 2;
const INVALID_CREDENTIALS: i64 = 3;

/// Signs in with `credentials` and makes a token.
pub(super) async fn token(
    connector: &Connector,
    http: &HttpClient,
    config: &ServerConfig,
    credentials: Value,
    request: Value,
) -> Result<String, SignInError> {
    let work = async {
        let mut socket = Socket {
            stream: open(connector, http, config).await?,
            http,
            next: 1,
        };
        socket.ask("session.signIn", credentials).await?;
        let token = socket.ask("token.create", request).await?;
        // The token is all; whether the server hears a good-bye does not matter.
        let _ = socket.stream.close(None).await;
        let token = token.as_str().filter(|token| !token.is_empty());
        token
            .map(str::to_owned)
            .ok_or_else(|| failed(http, "token.create answered without a token"))
    };
    timeout(config.timeout, work).await.unwrap_or_else(|_| {
        let seconds = config.timeout.as_secs_f64();
        let text = format!("signing in over the WebSocket takes longer than {seconds} s");
        Err(failed(http, &text))
    })
}

/// An error that holds no secret.
fn failed(http: &HttpClient, text: &str) -> SignInError {
    let text = http.redactor().text(text);
    SignInError::Failed(CloudError::new(CloudErrorKind::Unavailable, text))
}

/// Opens the WebSocket, following links on the same host.
async fn open(
    connector: &Connector,
    http: &HttpClient,
    config: &ServerConfig,
) -> Result<WebSocketStream<Box<dyn Wire>>, SignInError> {
    let root = config.url.url().as_str().trim_end_matches('/');
    let mut uri: Uri = format!("{root}/api/")
        .parse()
        .map_err(|_| failed(http, "the WebSocket has no address"))?;
    for _ in 0..=REDIRECTS {
        let wire = connector.connect(uri.clone()).await.map_err(|error| {
            let text = bowline_core::error_chain(&error);
            failed(http, &format!("signing in over the WebSocket: {text}"))
        })?;
        let limits = WebSocketConfig::default()
            .max_message_size(Some(LONGEST_MESSAGE))
            .max_frame_size(Some(LONGEST_MESSAGE));
        // `http` and `https` become `ws` and `wss`.
        let address = uri.to_string().replacen("http", "ws", 1);
        let opened = client_async_with_config(address, wire.into_wire(), Some(limits)).await;
        let response = match opened {
            Ok((socket, _)) => return Ok(socket),
            Err(SocketError::Http(response)) => response,
            Err(error) => {
                return Err(failed(http, &format!("opening the WebSocket: {error}")));
            }
        };
        let link = response.headers().get(http::header::LOCATION);
        let link = link.and_then(|link| link.to_str().ok());
        let next = link.and_then(|link| config.url.resolve(&uri, link).ok());
        uri = next
            .filter(|_| response.status().is_redirection())
            .ok_or_else(|| {
                let status = response.status().as_u16();
                let text = format!("opening the WebSocket at {uri} answered {status}");
                failed(http, &text)
            })?;
    }
    Err(failed(http, "opening the WebSocket: redirected too often"))
}

struct Socket<'a> {
    stream: WebSocketStream<Box<dyn Wire>>,
    http: &'a HttpClient,
    next: u64,
}

impl Socket<'_> {
    async fn ask(&mut self, method: &str, params: Value) -> Result<Value, SignInError> {
        let id = self.next;
        self.next += 1;
        let call = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params });
        let http = self.http;
        let broken =
            |error: SocketError| failed(http, &format!("{method} over the WebSocket: {error}"));
        let message = Message::text(call.to_string());
        self.stream.send(message).await.map_err(broken)?;
        for _ in 0..OTHER_MESSAGES {
            let Some(message) = self.stream.next().await else {
                let text = format!("{method}: the server closed the WebSocket");
                return Err(failed(http, &text));
            };
            let Message::Text(text) = message.map_err(broken)? else {
                continue;
            };
            let Ok(mut answer) = serde_json::from_str::<Value>(&text) else {
                continue;
            };
            if answer["id"] != id {
                continue;
            }
            if answer["error"].is_object() {
                return Err(self.refusal(method, &answer["error"]));
            }
            return Ok(answer["result"].take());
        }
        Err(failed(
            http,
            &format!("{method}: no answer among many messages"),
        ))
    }

    fn refusal(&self, method: &str, error: &Value) -> SignInError {
        let message = error["message"].as_str().unwrap_or("no reason given");
        let text = format!("{method} over the WebSocket was refused: {message}");
        let text = self.http.redactor().text(&text);
        if error["code"] == INVALID_CREDENTIALS {
            SignInError::Refused(CloudError::new(CloudErrorKind::Denied, text))
        } else {
            SignInError::Failed(CloudError::new(CloudErrorKind::Unknown, text))
        }
    }
}
