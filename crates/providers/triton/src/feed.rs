//! The change feed: CloudAPI reports over a WebSocket that something about a machine has changed.
//!
//! A frame is only a reason to list machines again: states arrive out of order, objects are
//! incomplete, nothing is repeated. Without a feed, machines are still listed every resync period.
//!
//! ```text
//!  activity gate closed ─▶ quiet ◀─────────────────────────────────────┐
//!       │ opens                                                         │ closes
//!       ▼                                                               │
//!  connect ─▶ register ─▶ list ─▶ frame? list a moment later ─▶ … ──────┤
//!     │ refused: again in 10 min     │ broken: again in 1 s … 60 s      │
//!     └──────────────────────────────┴──────────────────────────────────┘
//! ```

use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bowline_http::{AuthError, Authenticate, ConnectError, Random, Signing, Wire};
use futures::{SinkExt as _, StreamExt as _};
use http::{HeaderMap, Method, Request, Uri};
use prometheus_client::metrics::gauge::Gauge;
use serde::Deserialize;
use serde_json::json;
use thiserror::Error;
use tokio::time::{Instant, sleep, sleep_until, timeout};
use tokio_tungstenite::tungstenite::{self, Message};
use tokio_tungstenite::{WebSocketStream, client_async_with_config};
use tracing::{debug, info};
use uuid::Uuid;

use crate::api::Client;
use crate::context::Context;

/// The proxy in front of CloudAPI drops what is silent for 55 s.
pub const PING: Duration = Duration::from_secs(25);
/// Two pings without an answer: the other end is gone.
const SILENCE: Duration = Duration::from_secs(60);
/// Where there is no feed, one may appear with the next update of the data center.
pub const REFUSED: Duration = Duration::from_secs(600);
const FIRST_WAIT: Duration = Duration::from_secs(1);
const LONGEST_WAIT: Duration = Duration::from_secs(60);
/// A connection that lived so long was a good one: the next failure is a new one.
const GOOD: Duration = Duration::from_secs(60);
/// How long further frames are waited for before machines are listed: one change makes several.
pub const GATHER: Duration = Duration::from_millis(500);
/// A frame with a whole machine in it, and much room.
const LARGEST_FRAME: usize = 1024 * 1024;

/// The parts of machines whose changes count. With any other name in it the server ignores the
/// whole message.
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

#[derive(Debug, Error)]
enum FeedError {
    #[error("the change feed cannot be asked for")]
    Unsigned(#[from] AuthError),
    #[error("the change feed cannot be asked for: {0}")]
    Request(#[from] http::Error),
    #[error("no connection for the change feed")]
    Connect(#[from] ConnectError),
    #[error("the server does not give a change feed (status {0})")]
    Refused(u16),
    #[error("the change feed broke")]
    Broken(#[source] Box<tungstenite::Error>),
    #[error("the change feed has ended")]
    Ended,
    #[error("the change feed has been silent for {} s", SILENCE.as_secs())]
    Silent,
}

impl FeedError {
    /// Whether it is pointless to ask again soon.
    fn is_refusal(&self) -> bool {
        // A wrong clock, too many calls and maintenance pass; what else is refused stays so for a
        // while.
        matches!(self, Self::Refused(status) if (200..500).contains(status)
            && !matches!(status, 400 | 408 | 429))
    }
}

/// The part of a frame that we use.
#[derive(Debug, Deserialize)]
struct Frame {
    #[serde(rename = "changedResourceId")]
    machine: Uuid,
}

/// Follows the feed of one data center while the activity gate is open.
pub(crate) struct Follower {
    pub(crate) context: Arc<Context>,
    pub(crate) random: Random,
    pub(crate) connected: Gauge,
}

impl Follower {
    pub(crate) async fn run(self) {
        let mut failures: u32 = 0;
        loop {
            self.context.activity.wait().await;
            let start = Instant::now();
            let ended = self.follow().await;
            self.connected.set(0);
            let Err(error) = ended else {
                debug!("no questions about machines: the change feed is not followed");
                continue;
            };
            if start.elapsed() >= GOOD {
                failures = 0;
            }
            let wait = if error.is_refusal() {
                REFUSED
            } else {
                let doublings = failures.min(6);
                let wait = FIRST_WAIT.saturating_mul(1 << doublings).min(LONGEST_WAIT);
                self.random.jitter(wait, 0.25).min(LONGEST_WAIT)
            };
            let text = bowline_core::error_chain(&error);
            if failures == 0 {
                info!(error = text, again_in = ?wait, "machines are listed without the change feed");
            } else {
                debug!(error = text, again_in = ?wait, "the change feed is not followed");
            }
            failures = failures.saturating_add(1);
            sleep(wait).await;
        }
    }

    /// Follows until the activity gate closes, or something breaks.
    async fn follow(&self) -> Result<(), FeedError> {
        let mut socket = connect(&self.context.data_center.api.client(), &self.random).await?;
        let registration = json!({"resource": "vm", "subResources": PARTS}).to_string();
        socket
            .send(Message::text(registration))
            .await
            .map_err(broken)?;
        self.connected.set(1);
        debug!("following the change feed");
        // Nothing is repeated: what happened before is only in a list.
        self.context.data_center.machines.invalidate();
        let mut list_at = Some(Instant::now());
        let mut ping_at = Instant::now() + PING;
        let mut heard = Instant::now();
        loop {
            let far = Instant::now() + LONGEST_WAIT;
            tokio::select! {
                biased;
                message = socket.next() => {
                    heard = Instant::now();
                    if is_change(message)? {
                        self.context.data_center.machines.invalidate();
                        list_at = Some(list_at.unwrap_or(heard + GATHER));
                    }
                }
                () = sleep_until(list_at.unwrap_or(far)), if list_at.is_some() => {
                    list_at = None;
                    // The next caller gets the error.
                    let _ = self.context.data_center.machines.since(Instant::now()).await;
                }
                () = sleep_until(ping_at) => {
                    if heard.elapsed() >= SILENCE {
                        return Err(FeedError::Silent);
                    }
                    if !self.context.activity.is_open() {
                        let _ = timeout(FIRST_WAIT, socket.close(None)).await;
                        return Ok(());
                    }
                    socket.send(Message::Ping(tungstenite::Bytes::new())).await.map_err(broken)?;
                    ping_at = Instant::now() + PING;
                }
            }
        }
    }
}

fn broken(error: tungstenite::Error) -> FeedError {
    FeedError::Broken(Box::new(error))
}

/// Whether a message reports a changed machine.
fn is_change(message: Option<Result<Message, tungstenite::Error>>) -> Result<bool, FeedError> {
    match message.ok_or(FeedError::Ended)?.map_err(broken)? {
        Message::Text(text) => match serde_json::from_str::<Frame>(&text) {
            Ok(frame) => {
                debug!(machine = %frame.machine, "the change feed names a machine");
                Ok(true)
            }
            Err(_) => Ok(false),
        },
        Message::Close(_) => Err(FeedError::Ended),
        _ => Ok(false),
    }
}

type Socket = WebSocketStream<Box<dyn Wire>>;

/// Asks for the feed, signed like any other request.
async fn connect(client: &Client, random: &Random) -> Result<Socket, FeedError> {
    let base = client.base().url();
    let path = base.path().trim_end_matches('/');
    let login = client.connection().login();
    let scheme = base.scheme();
    let host = base.authority().to_owned();
    let target = format!("{path}/{login}/changefeed");
    let uri: Uri = format!("{scheme}://{host}{target}")
        .parse()
        .map_err(http::Error::from)?;
    let mut headers = HeaderMap::new();
    let signing = Signing {
        method: &Method::GET,
        uri: &uri,
        body: b"",
        now: client.now(),
    };
    client.signer().authenticate(signing, &mut headers)?;
    let mut key = [0; 16];
    key[..8].copy_from_slice(&random.number().to_be_bytes());
    key[8..].copy_from_slice(&random.number().to_be_bytes());
    let socket_scheme = if scheme == "https" { "wss" } else { "ws" };
    let mut request = Request::get(format!("{socket_scheme}://{host}{target}"))
        .header("host", &host)
        .header("connection", "Upgrade")
        .header("upgrade", "websocket")
        .header("sec-websocket-version", "13")
        .header("sec-websocket-key", STANDARD.encode(key))
        .header("accept-version", client.api_version())
        .body(())?;
    request.headers_mut().extend(headers);
    let wire = client.connector().connect(uri).await?.into_wire();
    let config = tungstenite::protocol::WebSocketConfig::default()
        .max_message_size(Some(LARGEST_FRAME))
        .max_frame_size(Some(LARGEST_FRAME));
    let upgraded = timeout(
        client.request_timeout(),
        client_async_with_config(request, wire, Some(config)),
    );
    match upgraded.await {
        Ok(Ok((socket, _))) => Ok(socket),
        Ok(Err(tungstenite::Error::Http(response))) => {
            Err(FeedError::Refused(response.status().as_u16()))
        }
        Ok(Err(error)) => Err(broken(error)),
        Err(_) => Err(FeedError::Silent),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_refused_for_good_is_asked_for_rarely() {
        for (status, wanted) in [
            (404, true),
            (403, true),
            (200, true),
            (401, true),
            (400, false),
            (429, false),
            (503, false),
        ] {
            assert_eq!(FeedError::Refused(status).is_refusal(), wanted, "{status}");
        }
        assert!(!FeedError::Ended.is_refusal());
    }

    #[test]
    fn only_a_frame_about_a_machine_is_a_change() {
        let frame = json!({
            "changedResourceId": Uuid::from_u128(1), "published": "1",
            "changeKind": {"resource": "vm", "subResources": ["zone_state", "tags"]},
            "resourceState": "running", "resourceObject": {"package": ""},
        });
        assert!(is_change(Some(Ok(Message::text(frame.to_string())))).unwrap());
        assert!(!is_change(Some(Ok(Message::text("hello")))).unwrap());
        assert!(!is_change(Some(Ok(Message::Pong(tungstenite::Bytes::new())))).unwrap());
        assert!(is_change(Some(Ok(Message::Close(None)))).is_err());
        assert!(is_change(None).is_err());
    }
}
