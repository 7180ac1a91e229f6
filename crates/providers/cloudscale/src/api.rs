//! The API as typed calls. Nothing here decides; what an answer means is the caller's matter.

mod floating_ip;
mod listener;
mod load_balancer;
mod member;
mod monitor;
mod pool;
mod resource;
mod server;

use std::time::Duration;

use bowline_core::{CloudError, CloudErrorKind};
use bowline_http::{CallError, HttpClient, Route};
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value};
use uuid::Uuid;

use crate::id::ServerId;

pub(crate) use floating_ip::FloatingIp;
pub(crate) use listener::Listener;
pub(crate) use load_balancer::LoadBalancer;
pub(crate) use member::Member;
pub(crate) use monitor::Monitor;
pub(crate) use pool::Pool;
pub(crate) use resource::{BadItem, Listing};
use resource::{Resource, read};
pub(crate) use server::{Address, BadServer, Interface, Server, ServerList, Status};

const SERVERS: &str = "v1/servers";
const SERVER: &str = "v1/servers/:id";

/// Waits of one call beyond its requests: a minute that the server may ask for, and half a minute
/// for the back-off and for the queue.
const WAITS: Duration = Duration::from_secs(90);
/// Requests of one call: the first and two repetitions.
const ATTEMPTS: u32 = 3;

/// The limit of one call, with its repetitions and waits, given that of one request.
pub(crate) fn call_deadline(request: Duration) -> Duration {
    request.saturating_mul(ATTEMPTS).saturating_add(WAITS)
}

#[derive(Clone, Debug)]
pub(crate) struct Api {
    http: HttpClient,
}

impl Api {
    pub(crate) fn new(http: HttpClient) -> Self {
        Self { http }
    }

    /// `GET /v1/servers`: all servers of the project, in one answer.
    pub(crate) async fn servers(&self) -> Result<ServerList, CloudError> {
        let reply = self.http.get(Route::new(SERVERS)).send().await;
        let reply = reply.map_err(about_a_collection)?;
        Ok(ServerList::read(&reply.texts()?))
    }

    /// `GET /v1/servers/<uuid>`. Not found is the cloud's answer about this very server.
    pub(crate) async fn server(&self, id: ServerId) -> Result<Server, CloudError> {
        let route = Route::new(SERVER).with("id", id.to_string());
        let reply = self.http.get(route).send().await?;
        let server =
            Server::read(reply.json::<Box<RawValue>>()?.get()).map_err(CloudError::from)?;
        if server.id == id {
            Ok(server)
        } else {
            let message = format!("GET v1/servers/{id} answered with server {}", server.id);
            Err(CloudError::new(CloudErrorKind::Unknown, message))
        }
    }

    async fn list<T: Resource>(&self, route: Route) -> Result<Listing<T>, CloudError> {
        let reply = self.http.get(route).send().await;
        let reply = reply.map_err(about_a_collection)?;
        Ok(Listing::read(&reply.texts()?))
    }

    /// One item. Not found is the cloud's answer about this very item.
    async fn read<T: Resource>(&self, route: Route) -> Result<T, CloudError> {
        let reply = self.http.get(route).send().await?;
        read(reply.json::<Box<RawValue>>()?.get()).map_err(|bad| CloudError::from(&bad))
    }

    /// A new item. An answer that is not the item is as good as a lost one.
    async fn create<T: Resource>(
        &self,
        route: Route,
        body: &Map<String, Value>,
    ) -> Result<T, CallError> {
        let reply = self.http.post(route).json(body).send().await?;
        reply.json()
    }

    /// One attribute of an item, which is all that the API changes at a time. If the answer gets
    /// lost, the item itself returns whether it was changed.
    async fn change(&self, route: Route, body: &Map<String, Value>) -> Result<(), CallError> {
        use CloudErrorKind::{Unavailable, Unknown};
        let sent = self.http.patch(route.clone()).json(body).send().await;
        let Err(error) = sent else { return Ok(()) };
        if matches!(error.kind(), Unavailable | Unknown)
            && let Ok(reply) = self.http.get(route).send().await
            && let Ok(item) = reply.json::<Value>()
            && body.iter().all(|(key, value)| shows(&item[key], value))
        {
            return Ok(());
        }
        Err(error)
    }

    /// The end of an item. One that is not there is at its end; a 404 alone does not say so: whoever may not delete may
    /// get that, too.
    async fn remove(&self, route: Route) -> Result<Removed, CallError> {
        let refusal = match self.http.delete(route.clone()).send().await {
            Err(error) if error.kind() == CloudErrorKind::NotFound => error,
            other => return other.map(|_| Removed::Now),
        };
        match self.http.get(route).send().await {
            Err(error) if error.kind() == CloudErrorKind::NotFound => Ok(Removed::Before(refusal)),
            Ok(_) => Err(refusal.with_kind(CloudErrorKind::Unknown)),
            Err(error) => Err(error),
        }
    }

    /// The same where a list shows what there is: whoever may not see an item gets a 404 about it, too.
    async fn remove_from(&self, all: Route, route: Route, id: Uuid) -> Result<(), CallError> {
        #[derive(Deserialize)]
        struct Listed {
            uuid: Uuid,
        }
        let Removed::Before(refusal) = self.remove(route).await? else {
            return Ok(());
        };
        let reply = self.http.get(all).send().await;
        let listed: Vec<Listed> = reply.map_err(about_a_collection)?.json()?;
        if listed.iter().any(|it| it.uuid == id) {
            return Err(refusal.with_kind(CloudErrorKind::Unknown));
        }
        Ok(())
    }
}

/// What became of an item.
enum Removed {
    Now,
    /// It was not there, as this answer to its deletion says.
    Before(CallError),
}

/// Calls about items of one kind: where all of them are, and one by its id; then the names of list
/// and read, create and change, and delete. Not every kind has a read and a change.
macro_rules! calls {
    ($($item:ty: $all:literal, $one:literal {
        $list:ident $($read:ident)?, $create:ident $($change:ident)?, $delete:ident
    })*) => {$(
        impl Api {
            pub(crate) async fn $list(&self) -> Result<Listing<$item>, CloudError> {
                self.list(Route::new($all)).await
            }

            $(pub(crate) async fn $read(&self, id: Uuid) -> Result<$item, CloudError> {
                self.read(Route::new($one).with("id", id.to_string())).await
            })?

            pub(crate) async fn $create(&self, body: &Map<String, Value>) -> Result<$item, CallError> {
                self.create(Route::new($all), body).await
            }

            $(pub(crate) async fn $change(
                &self,
                id: Uuid,
                body: &Map<String, Value>,
            ) -> Result<(), CallError> {
                self.change(Route::new($one).with("id", id.to_string()), body).await
            })?

            pub(crate) async fn $delete(&self, id: Uuid) -> Result<(), CallError> {
                let one = Route::new($one).with("id", id.to_string());
                self.remove_from(Route::new($all), one, id).await
            }
        }
    )*};
}

calls! {
    LoadBalancer: "v1/load-balancers", "v1/load-balancers/:id" {
        load_balancers load_balancer, create_load_balancer change_load_balancer,
        delete_load_balancer
    }
    Pool: "v1/load-balancers/pools", "v1/load-balancers/pools/:id" {
        pools, create_pool, delete_pool
    }
    Listener: "v1/load-balancers/listeners", "v1/load-balancers/listeners/:id" {
        listeners, create_listener change_listener, delete_listener
    }
    Monitor: "v1/load-balancers/health-monitors", "v1/load-balancers/health-monitors/:id" {
        monitors, create_monitor change_monitor, delete_monitor
    }
}

/// Whether an attribute is as it was to be. References are written as an id, and shown as an object
/// with one.
fn shows(found: &Value, wanted: &Value) -> bool {
    match (found, wanted) {
        (Value::Object(found), Value::Object(wanted)) => {
            let shown = |(key, value)| found.get(key).is_some_and(|it| shows(it, value));
            found.len() == wanted.len() && wanted.iter().all(shown)
        }
        (Value::Object(found), Value::String(id)) => {
            found.get("uuid").and_then(Value::as_str) == Some(id)
        }
        (Value::Array(found), Value::Array(wanted)) => {
            found.len() == wanted.len() && found.iter().zip(wanted).all(|(a, b)| shows(a, b))
        }
        _ => found == wanted,
    }
}

/// A 404 of a collection means that the URL is wrong, not that an item does not exist.
fn about_a_collection(error: CallError) -> CallError {
    if error.kind() == CloudErrorKind::NotFound {
        error.with_kind(CloudErrorKind::Unknown)
    } else {
        error
    }
}

/// The cloud's own words in an error body: a flat object of texts, of which all are kept. Other
/// bodies are shown as they are, cut, by the client.
pub(crate) fn error_text(body: &[u8]) -> Option<String> {
    let fields: Map<String, Value> = serde_json::from_slice(body).ok()?;
    let word = |value: &Value| match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    if let (1, Some(detail)) = (fields.len(), fields.get("detail")) {
        return Some(word(detail));
    }
    let all: Vec<String> = fields
        .iter()
        .map(|(key, value)| format!("{key}: {}", word(value)))
        .collect();
    (!all.is_empty()).then(|| all.join("; "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn error_texts_keep_every_key() {
        for (body, wanted) in [
            (r#"{"detail": "Not found."}"#, Some("Not found.")),
            (r#"{"name": "blank"}"#, Some("name: blank")),
            (
                r#"{"detail": "no", "zone": "bad", "name": ["a", 1]}"#,
                Some(r#"detail: no; name: ["a",1]; zone: bad"#),
            ),
            ("{}", None),
            ("[]", None),
            ("<html>", None),
            ("", None),
        ] {
            assert_eq!(error_text(body.as_bytes()).as_deref(), wanted, "{body}");
        }
    }

    #[test]
    fn a_call_has_room_for_its_repetitions() {
        assert_eq!(call_deadline(Duration::from_secs(20)).as_secs(), 150);
        assert_eq!(call_deadline(Duration::MAX), Duration::MAX);
    }
}
