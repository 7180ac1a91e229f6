//! The change feed: a WebSocket that tells which machines have changed, and in what.

use std::sync::Arc;
use std::time::Duration;

use bowline_simulator::serve::{Body, Stopping};
use bytes::Bytes;
use futures::{SinkExt, StreamExt};
use http::{HeaderValue, Request, Response, header};
use hyper_util::rt::TokioIo;
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::json;
use tokio::sync::broadcast;
use tokio::time::Instant;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use tokio_tungstenite::tungstenite::protocol::{Role, WebSocketConfig};

use super::Triton;
use super::model::Cloud;
use super::render;

/// After so long without a word of the client the proxy in front drops the connection.
const IDLE: Duration = Duration::from_secs(55);
/// Changes that a slow client may be behind; 50 machines that change ten times at once are 500.
pub(super) const BACKLOG: usize = 4096;
/// The largest message that a client may send: a registration with a thousand ids is below 50 kB.
const MESSAGE: usize = 100_000;
/// What a client may ask to be told about.
const PARTS: [&str; 8] = [
    "alias",
    "customer_metadata",
    "destroyed",
    "nics",
    "owner_uuid",
    "server_uuid",
    "state",
    "tags",
];

/// A machine that has changed.
#[derive(Clone, Debug)]
pub(super) struct Change {
    account: String,
    machine: String,
    parts: Vec<&'static str>,
    frame: Arc<str>,
}

/// What a client wants to be told.
#[derive(Debug, Deserialize)]
struct Subscription {
    resource: String,
    #[serde(rename = "subResources")]
    parts: Vec<String>,
    vms: Option<Vec<String>>,
}

impl Subscription {
    /// What a message asks for; none if it is not valid, which nobody is reported.
    fn parse(text: &str) -> Option<Self> {
        let subscription: Self = serde_json::from_str(text).ok()?;
        let known = subscription
            .parts
            .iter()
            .all(|part| PARTS.contains(&part.as_str()));
        (subscription.resource == "vm" && known && !subscription.parts.is_empty())
            .then_some(subscription)
    }

    fn wants(&self, change: &Change) -> bool {
        let part = |part: &&str| self.parts.iter().any(|wanted| wanted == part);
        let machine = |all: &Vec<String>| all.contains(&change.machine);
        change.parts.iter().any(part) && self.vms.as_ref().is_none_or(machine)
    }
}

impl Cloud {
    /// The changes that the machines which were touched come to.
    pub(super) fn changes(
        &self,
        touched: &[(String, Vec<&'static str>)],
        now: Timestamp,
    ) -> Vec<Change> {
        let mut changes = Vec::new();
        for (id, parts) in touched {
            let Some(machine) = self.machines.get(id).filter(|_| !parts.is_empty()) else {
                continue;
            };
            let mut shown = render::machine(self, machine);
            shown["package"] = "".into();
            let frame = json!({
                "changedResourceId": id,
                "published": now.as_millisecond().to_string(),
                "changeKind": { "resource": "vm", "subResources": parts },
                "resourceState": machine.state.internal(),
                "resourceObject": shown,
            });
            let change = Change {
                account: machine.owner.clone(),
                machine: id.clone(),
                parts: parts.clone(),
                frame: frame.to_string().into(),
            };
            if self.quirks.repeated_changes {
                changes.push(change.clone());
            }
            changes.push(change);
        }
        if self.quirks.reordered_changes {
            changes.reverse();
        }
        changes
    }
}

/// Whether a request asks for a WebSocket.
pub(super) fn is_upgrade(request: &Request<Bytes>) -> bool {
    let upgrade = request.headers().get(header::UPGRADE);
    let named = upgrade.is_some_and(|it| it.as_bytes().eq_ignore_ascii_case(b"websocket"));
    named && request.headers().contains_key(header::SEC_WEBSOCKET_KEY)
}

impl Triton {
    /// Completes the answer to a request for the feed, and serves it once the connection is taken over.
    pub(super) fn take_over(
        &self,
        request: &mut Request<Bytes>,
        response: &mut Response<Body>,
        caller: &str,
    ) {
        let key = request.headers().get(header::SEC_WEBSOCKET_KEY);
        let accept = derive_accept_key(key.map(HeaderValue::as_bytes).unwrap_or_default());
        let headers = response.headers_mut();
        headers.insert(header::CONNECTION, HeaderValue::from_static("Upgrade"));
        headers.insert(header::UPGRADE, HeaderValue::from_static("websocket"));
        if let Ok(accept) = HeaderValue::try_from(accept) {
            headers.insert(header::SEC_WEBSOCKET_ACCEPT, accept);
        }
        let account = caller.split('/').next().unwrap_or_default().to_owned();
        let changes = self.changes.subscribe();
        let cut = self.world.faults.cut(super::NAME);
        let stopping = request.extensions().get::<Stopping>().cloned();
        let upgrade = hyper::upgrade::on(request);
        tokio::spawn(async move {
            let end = async move {
                match stopping {
                    Some(stopping) => stopping.given().await,
                    None => std::future::pending().await,
                }
            };
            let Ok(stream) = upgrade.await else { return };
            let config = WebSocketConfig::default().max_message_size(Some(MESSAGE));
            let stream = TokioIo::new(stream);
            let socket = WebSocketStream::from_raw_socket(stream, Role::Server, Some(config)).await;
            tokio::select! {
                biased;
                () = end => {}
                () = cut => {}
                () = speak(socket, changes, account) => {}
            }
        });
    }
}

/// Tells changes until the client goes, falls silent or falls behind.
async fn speak<S>(
    mut socket: WebSocketStream<S>,
    mut changes: broadcast::Receiver<Change>,
    account: String,
) where
    S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin,
{
    let mut subscription: Option<Subscription> = None;
    let mut silent_until = Instant::now() + IDLE;
    loop {
        tokio::select! {
            biased;
            heard = socket.next() => {
                silent_until = Instant::now() + IDLE;
                match heard {
                    Some(Ok(Message::Text(text))) => {
                        subscription = Subscription::parse(&text).or(subscription);
                    }
                    // The answer to a ping is ready; it has to be sent.
                    Some(Ok(Message::Ping(_))) => {
                        if socket.flush().await.is_err() {
                            return;
                        }
                    }
                    Some(Ok(Message::Close(_)) | Err(_)) | None => return,
                    Some(Ok(_)) => {}
                }
            }
            change = changes.recv() => {
                let Ok(change) = change else { return };
                let reported = subscription.as_ref().is_some_and(|subscription| subscription.wants(&change));
                if reported && change.account == account {
                    let frame = Message::text(change.frame.to_string());
                    if socket.send(frame).await.is_err() {
                        return;
                    }
                }
            }
            () = tokio::time::sleep_until(silent_until) => return,
        }
    }
}

/// A sender to which nobody listens yet.
pub(super) fn channel() -> broadcast::Sender<Change> {
    broadcast::channel(BACKLOG).0
}
