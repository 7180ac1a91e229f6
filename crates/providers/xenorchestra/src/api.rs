//! The REST API of one server, thin and typed; nothing here decides.

mod types;

use std::sync::Arc;

use bowline_core::{CloudError, CloudErrorKind};
use bowline_http::{Call, CallError, HttpClient, Reply, ResponseStream, Route};
use http::HeaderValue;
use http::header::ACCEPT;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::json;
use tracing::debug;
use uuid::Uuid;

use crate::session::{Reload, Session};
pub(crate) use types::{Connection, Host, HostLoad, Pool, PowerState, Vm};
#[cfg(test)]
pub(crate) use types::{Cpus, Memory};

/// Ids in one filter. A request line of 16 KiB holds 400; this leaves room for a long URL.
pub(crate) const IDS_AT_ONCE: usize = 200;

#[derive(Clone)]
pub(crate) struct Api {
    session: Arc<Session>,
    reload: Option<Arc<Reload>>,
}

/// A list, and how many of its items could not be read.
pub(crate) struct Listing<T> {
    pub(crate) items: Vec<T>,
    pub(crate) unreadable: usize,
}

impl Api {
    pub(crate) fn new(session: Arc<Session>, reload: Option<Arc<Reload>>) -> Self {
        Self { session, reload }
    }

    pub(crate) fn session(&self) -> &Session {
        &self.session
    }

    /// The start check of the original: whether the server answers, and whether it shows any VM.
    pub(crate) async fn check(&self) -> Result<bool, CloudError> {
        let ask = |http: &HttpClient| {
            let list = http.get(Route::new("vms"));
            list.query("fields", "*").query("limit", "1")
        };
        let items: Vec<Result<serde_json::Value, _>> = self.call(ask).await?.items()?;
        Ok(!items.is_empty())
    }

    /// That VM; none only by the server's answer about this very id.
    pub(crate) async fn vm(&self, id: Uuid) -> Result<Option<Vm>, CloudError> {
        self.one("vms/:id", "VM", id).await
    }

    pub(crate) async fn host(&self, id: Uuid) -> Result<Option<Host>, CloudError> {
        self.one("hosts/:id", "host", id).await
    }

    pub(crate) async fn pool(&self, id: Uuid) -> Result<Option<Pool>, CloudError> {
        self.one("pools/:id", "pool", id).await
    }

    /// All VMs, or those of one pool.
    pub(crate) async fn vms(&self, pool: Option<Uuid>) -> Result<Listing<Vm>, CloudError> {
        let filter = pool.map(|pool| format!("$pool:{pool}"));
        self.list("vms", Vm::FIELDS, filter).await
    }

    /// These VMs, as many of them as there are; at most [`IDS_AT_ONCE`], at least one.
    pub(crate) async fn vms_by_id(&self, ids: &[Uuid]) -> Result<Listing<Vm>, CloudError> {
        let ids: Vec<String> = ids.iter().map(Uuid::to_string).collect();
        let filter = format!("id:|({})", ids.join(" "));
        self.list("vms", Vm::FIELDS, Some(filter)).await
    }

    pub(crate) async fn hosts(&self) -> Result<Listing<Host>, CloudError> {
        self.list("hosts", "id,name_label", None).await
    }

    pub(crate) async fn pools(&self) -> Result<Listing<Pool>, CloudError> {
        self.list("pools", "id,name_label", None).await
    }

    /// What hosts show of the VMs, those of all pools or of one.
    pub(crate) async fn loads(&self, pool: Option<Uuid>) -> Result<Listing<HostLoad>, CloudError> {
        let filter = pool.map(|pool| format!("$pool:{pool}"));
        let fields = "id,controlDomain,residentVms,$pool";
        self.list("hosts", fields, filter).await
    }

    pub(crate) async fn connections(&self) -> Result<Listing<Connection>, CloudError> {
        self.list("servers", "*", None).await
    }

    /// When the token in use ends, if the server shows that: it lists the user's own tokens.
    pub(crate) async fn token_end(&self) -> Result<Option<jiff::Timestamp>, CloudError> {
        #[derive(Deserialize)]
        struct Own {
            id: String,
            #[serde(default)]
            expiration: Option<i64>,
        }
        let Some(token) = self.session.token() else {
            return Ok(self.session.expires().await);
        };
        let route = "users/me/authentication_tokens";
        let reply = self.call(|http| http.get(Route::new(route))).await?;
        let tokens: Vec<Result<Own, _>> = reply.items()?;
        let mut own = tokens.into_iter().flatten();
        let own = own.find(|it| it.id == token.reveal());
        let milliseconds = own.and_then(|it| it.expiration);
        Ok(milliseconds.and_then(|it| jiff::Timestamp::from_millisecond(it).ok()))
    }

    /// The stream of events. The first one names the connection.
    pub(crate) async fn events(&self) -> Result<ResponseStream, CallErrorOrOther> {
        let access = self.session.access().await?;
        let accept = HeaderValue::from_static("text/event-stream");
        let call = access.http.get(Route::new("events")).header(ACCEPT, accept);
        match call.follow().await {
            Err(error) if error.status() == Some(401) && self.renewed(&access).await => {
                // The next attempt is the caller's, who tries again anyway.
                Err(error.into())
            }
            other => Ok(other?),
        }
    }

    /// Has changes of that kind of object sent to that connection.
    pub(crate) async fn subscribe(
        &self,
        connection: &str,
        collection: &str,
        fields: &[&str],
    ) -> Result<(), CloudError> {
        let body = json!({ "collection": collection, "fields": fields });
        let subscribe = |http: &HttpClient| {
            let route = Route::new("events/:connection/subscriptions");
            let call = http.post(route.with("connection", connection)).json(&body);
            call.repeatable()
        };
        self.call(subscribe).await.map(|_| ())
    }

    async fn one<T: DeserializeOwned>(
        &self,
        template: &'static str,
        kind: &str,
        id: Uuid,
    ) -> Result<Option<T>, CloudError> {
        let read = |http: &HttpClient| http.get(Route::new(template).with("id", id.to_string()));
        match self.send(read).await? {
            Ok(reply) => Ok(Some(reply.json()?)),
            Err(error) if is_missing(&error, kind, id) => Ok(None),
            // A 404 of something else, such as a proxy, proves nothing about the object.
            Err(error) if error.kind() == CloudErrorKind::NotFound => {
                Err(error.with_kind(CloudErrorKind::Unknown).into())
            }
            Err(error) => Err(error.into()),
        }
    }

    async fn list<T: DeserializeOwned>(
        &self,
        collection: &'static str,
        fields: &str,
        filter: Option<String>,
    ) -> Result<Listing<T>, CloudError> {
        let list = |http: &HttpClient| {
            let call = http.get(Route::new(collection)).query("fields", fields);
            match &filter {
                Some(filter) => call.query("filter", filter),
                None => call,
            }
        };
        let read: Vec<Result<T, _>> = self.call(list).await?.items()?;
        let count = read.len();
        let items: Vec<T> = read
            .into_iter()
            .filter_map(|item| match item {
                Ok(item) => Some(item),
                Err(error) => {
                    debug!(collection, %error, "leaving an object out of the list");
                    None
                }
            })
            .collect();
        let unreadable = count - items.len();
        Ok(Listing { items, unreadable })
    }

    async fn call(&self, make: impl Fn(&HttpClient) -> Call) -> Result<Reply, CloudError> {
        Ok(self.send(make).await??)
    }

    /// Sends a call. If the server does not know us, looks for what is new about who we are, and if
    /// there is anything, tries once more.
    async fn send(
        &self,
        make: impl Fn(&HttpClient) -> Call,
    ) -> Result<Result<Reply, CallError>, CloudError> {
        let access = self.session.access().await?;
        let refused = match make(&access.http).send().await {
            Err(error) if error.status() == Some(401) => error,
            other => return Ok(other),
        };
        if !self.renewed(&access).await {
            return Ok(Err(refused));
        }
        let access = self.session.access().await?;
        Ok(make(&access.http).send().await)
    }

    /// Whether we can say better who we are than a moment ago.
    async fn renewed(&self, access: &crate::session::Access) -> bool {
        if let Some(reload) = &self.reload {
            reload.look().await;
        }
        self.session.refused(access).await
    }
}

/// Why there is no stream of events: an answer, or no way to ask.
pub(crate) enum CallErrorOrOther {
    Call(CallError),
    Other(CloudError),
}

impl From<CallError> for CallErrorOrOther {
    fn from(error: CallError) -> Self {
        Self::Call(error)
    }
}

impl From<CloudError> for CallErrorOrOther {
    fn from(error: CloudError) -> Self {
        Self::Other(error)
    }
}

/// Whether the server itself answers, about this very id, that there is no such object.
fn is_missing(error: &CallError, kind: &str, id: Uuid) -> bool {
    #[derive(Deserialize)]
    struct Body {
        error: String,
    }
    let body: Option<Body> = serde_json::from_slice(error.body()).ok();
    let wanted = format!("no such {kind} {id}");
    error.status() == Some(404) && body.is_some_and(|body| body.error == wanted)
}
