//! JSON-RPC over a WebSocket: what remains of the old API.

use bowline_simulator::journal::Entry;
use bowline_simulator::serve::{self, Body, Stopping};
use bytes::Bytes;
use futures::{SinkExt, StreamExt};
use http::{HeaderValue, Request, Response, StatusCode, header};
use hyper::upgrade::{OnUpgrade, Upgraded};
use hyper_util::rt::TokioIo;
use serde_json::{Map, Value, json};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use tokio_tungstenite::tungstenite::protocol::{Role, WebSocketConfig};

use super::auth::Caller;
use super::events::{Ear, Form};
use super::model::Kind;
use super::refusals::{OrRefusal, Refusal};
use super::{NAME, XenOrchestra, filter};

/// Bytes of one message: far above any call.
const MOST_BYTES: usize = 1024 * 1024;

/// What one connection is about.
struct Session {
    caller: Option<Caller>,
    ear: Option<Ear>,
}

impl XenOrchestra {
    /// Turns a connection into a socket, if that is what it asks for.
    pub(super) fn open_socket(&self, mut request: Request<Bytes>) -> Response<Body> {
        let upgrade = request.extensions_mut().remove::<OnUpgrade>();
        let key = request.headers().get(header::SEC_WEBSOCKET_KEY);
        let (Some(upgrade), Some(key), Some(me)) = (upgrade, key, self.me.upgrade()) else {
            return serve::text(StatusCode::UPGRADE_REQUIRED, "Upgrade Required");
        };
        let accepted = derive_accept_key(key.as_bytes());
        let stopping = request.extensions().get::<Stopping>().cloned();
        let cut = self.world.faults.cut(NAME);
        tokio::spawn(async move {
            let ended = async {
                match stopping {
                    Some(stopping) => stopping.given().await,
                    None => std::future::pending().await,
                }
            };
            let served = async {
                match upgrade.await {
                    Ok(stream) => me.converse(stream).await,
                    Err(error) => tracing::debug!(%error, "a socket was not opened"),
                }
            };
            tokio::select! {
                biased;
                () = ended => {}
                () = cut => {}
                () = served => {}
            }
        });
        let mut response = Response::new(serve::empty());
        *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
        let headers = response.headers_mut();
        headers.insert(header::CONNECTION, HeaderValue::from_static("Upgrade"));
        headers.insert(header::UPGRADE, HeaderValue::from_static("websocket"));
        if let Ok(accepted) = HeaderValue::try_from(accepted) {
            headers.insert(header::SEC_WEBSOCKET_ACCEPT, accepted);
        }
        response
    }

    /// Answers calls until the other side goes, or everybody is hung up.
    async fn converse(&self, stream: Upgraded) {
        let limits = WebSocketConfig::default()
            .max_message_size(Some(MOST_BYTES))
            .max_frame_size(Some(MOST_BYTES));
        let stream = TokioIo::new(stream);
        let mut socket = WebSocketStream::from_raw_socket(stream, Role::Server, Some(limits)).await;
        let mut session = Session {
            caller: None,
            ear: None,
        };
        loop {
            let reported = async {
                match &mut session.ear {
                    Some(ear) => ear.next().await,
                    None => std::future::pending().await,
                }
            };
            let reply = tokio::select! {
                biased;
                piece = reported => match piece {
                    Some(piece) => String::from_utf8_lossy(&piece).into_owned(),
                    // Hung up.
                    None => break,
                },
                message = socket.next() => match message {
                    Some(Ok(Message::Text(text))) => self.reply(&mut session, &text),
                    Some(Ok(Message::Close(_)) | Err(_)) | None => break,
                    Some(Ok(_)) => continue,
                },
            };
            if !reply.is_empty() && socket.send(Message::text(reply)).await.is_err() {
                break;
            }
        }
        let _ = socket.close(None).await;
    }

    /// The answer to a message; empty for one that wants none.
    fn reply(&self, session: &mut Session, text: &str) -> String {
        let Ok(call) = serde_json::from_str::<Value>(text) else {
            let error = json!({ "code": -32_700, "message": "parse error" });
            return json!({ "jsonrpc": "2.0", "id": null, "error": error }).to_string();
        };
        let method = call["method"].as_str().unwrap_or_default();
        let result = self.call(session, method, &call["params"]);
        let caller = session.caller.as_ref().map(|caller| caller.name.clone());
        self.note(
            method,
            &call["params"],
            caller.unwrap_or_default(),
            result.is_ok(),
        );
        let Some(id) = call.get("id") else {
            return String::new();
        };
        let answer = match result {
            Ok(result) => json!({ "jsonrpc": "2.0", "id": id, "result": result }),
            Err(error) => json!({ "jsonrpc": "2.0", "id": id, "error": error }),
        };
        answer.to_string()
    }

    fn call(&self, session: &mut Session, method: &str, params: &Value) -> Result<Value, Value> {
        let refused = |refusal: Refusal| refusal.rpc();
        match method {
            "session.signIn" => self.sign_in(session, params).map_err(refused),
            "session.getUser" => Ok(session.caller.as_ref().map_or(Value::Null, user)),
            "session.signOut" => {
                *session = Session {
                    caller: None,
                    ear: None,
                };
                Ok(json!(true))
            }
            "token.create" => {
                let caller = known(session).map_err(refused)?;
                let made = self.with(|cloud| self.make_token(cloud, caller, params));
                made.map(|token| json!(token.id)).map_err(refused)
            }
            "xo.getAllObjects" => {
                let caller = known(session).map_err(refused)?;
                self.all_objects(caller, params).map_err(refused)
            }
            "system.getServerVersion" => Ok(json!("5.207.2")),
            _ => Err(json!({ "code": -32_601, "message": format!("method not found: {method}") })),
        }
    }

    fn sign_in(&self, session: &mut Session, params: &Value) -> OrRefusal<Value> {
        let word = |name: &str| params.get(name).and_then(Value::as_str);
        let (caller, ear) = self.with(|cloud| {
            let caller = if let Some(token) = word("token") {
                self.by_token(cloud, token)?
            } else {
                let name = word("email").or_else(|| word("username"));
                let name = name.unwrap_or_default();
                self.by_password(cloud, name, word("password"), word("otp"))?
            };
            let ear = self.listen(cloud, &caller.name, Form::Notification);
            Ok::<_, Refusal>((caller, ear))
        })?;
        let shown = user(&caller);
        // An earlier ear goes here, where nothing is locked: it says goodbye.
        *session = Session {
            caller: Some(caller),
            ear: Some(ear),
        };
        Ok(shown)
    }

    fn all_objects(&self, caller: &Caller, params: &Value) -> OrRefusal<Value> {
        let wanted = params.get("filter").cloned().unwrap_or(json!({}));
        let term = match wanted.as_str() {
            Some(text) => {
                Some(filter::parse(text).map_err(|message| Refusal::filter(&message, text))?)
            }
            None => None,
        };
        let fits = |object: &Value| match (&term, &wanted) {
            (Some(term), _) => term.fits(Some(object)),
            (None, Value::Object(members)) => {
                members.iter().all(|(key, value)| object[key] == *value)
            }
            _ => true,
        };
        let limit = params.get("limit").and_then(Value::as_u64);
        let limit = limit
            .and_then(|limit| usize::try_from(limit).ok())
            .unwrap_or(usize::MAX);
        let found: Map<String, Value> = self.with(|cloud| {
            let all = Kind::ALL.into_iter().flat_map(|kind| {
                let ids = cloud.shown(kind).into_iter();
                ids.map(move |id| (kind, id))
            });
            let may = all.filter(|(kind, id)| caller.user.may(kind.resource(), "read", id));
            let shown = may.filter_map(|(kind, id)| Some((id.clone(), cloud.show(kind, &id)?)));
            shown
                .filter(|(_, object)| fits(object))
                .take(limit)
                .collect()
        });
        Ok(Value::Object(found))
    }

    /// Writes a call into the journal.
    fn note(&self, method: &str, params: &Value, caller: String, good: bool) {
        let now = self.now();
        self.world.journal.record(Entry {
            time: now,
            arrived: now,
            concurrent: 1,
            server: NAME.to_owned(),
            method: "RPC".to_owned(),
            operation: method.to_owned(),
            path: "/api/".to_owned(),
            query: String::new(),
            body: params.clone(),
            status: if good { 200 } else { 400 },
            caller,
            fault: String::new(),
        });
    }
}

fn known(session: &Session) -> OrRefusal<&Caller> {
    session.caller.as_ref().ok_or_else(Refusal::administrators)
}

fn user(caller: &Caller) -> Value {
    let permission = if caller.user.admin { "admin" } else { "none" };
    json!({
        "id": caller.user.id,
        "email": caller.name,
        "permission": permission,
        "groups": [],
        "preferences": {},
    })
}
