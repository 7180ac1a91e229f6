//! From a request to an answer: who asks, for what, and what comes back.

use bowline_simulator::serve::{self, Body, Encrypted};
use bytes::Bytes;
use http::{HeaderValue, Method, Request, Response, StatusCode, header};
use percent_encoding::percent_decode_str;
use serde_json::{Value, json};

use super::XenOrchestra;
use super::actions::Action;
use super::auth::Caller;
use super::calls::{call, document};
use super::config::Release;
use super::model::{Cloud, Heard, Kind};
use super::refusals::{OrRefusal, Refusal, answer, html};
use super::tasks::Task;

/// Where the API is.
pub(super) const ROOT: &str = "/rest/v0";
/// Requests whose headers are kept; beyond it the oldest go.
const MOST_HEARD: usize = 10_000;

/// One call, taken apart.
pub(super) struct Asked<'a> {
    pub(super) operation: &'static str,
    /// What stands for the braces of the path.
    pub(super) ids: Vec<String>,
    /// The path as Xen Orchestra knows it.
    pub(super) path: &'a str,
    pub(super) query: Vec<(String, String)>,
    pub(super) body: &'a Bytes,
    pub(super) caller: Caller,
}

impl Asked<'_> {
    /// The id of what the call is about.
    pub(super) fn id(&self) -> &str {
        self.ids.first().map(String::as_str).unwrap_or_default()
    }

    /// What follows it.
    pub(super) fn second(&self) -> &str {
        self.ids.get(1).map(String::as_str).unwrap_or_default()
    }

    /// The first value of a parameter.
    pub(super) fn parameter(&self, name: &str) -> Option<&str> {
        let found = self.query.iter().find(|(key, _)| key == name);
        found.map(|(_, value)| value.as_str())
    }

    /// A parameter that says yes or no; no if left out.
    pub(super) fn flag(&self, name: &str) -> OrRefusal<bool> {
        match self.parameter(name).map(str::to_lowercase).as_deref() {
            None | Some("false") => Ok(false),
            Some("true") => Ok(true),
            Some(_) => {
                let value = self.parameter(name).map(Value::from);
                Err(Refusal::parameter(
                    name,
                    "invalid boolean value",
                    value.as_ref(),
                ))
            }
        }
    }

    /// The body as JSON; nothing is an empty object.
    fn json(&self) -> OrRefusal<Value> {
        if self.body.is_empty() {
            return Ok(json!({}));
        }
        serde_json::from_slice(self.body).map_err(|error| Refusal::failure(error.to_string()))
    }
}

/// What comes of a call.
pub(super) enum Flow {
    /// This answer.
    Now(Response<Body>),
    /// Whatever comes of a task; with what is known of it, or without a word.
    After { task: String, shown: bool },
}

impl XenOrchestra {
    /// Answers a request, and says who made it.
    pub(super) async fn respond(&self, request: Request<Bytes>) -> (Response<Body>, String) {
        self.with(|cloud| cloud.hear(&request));
        let Some(path) = self.known_path(request.uri().path()) else {
            return (html(StatusCode::NOT_FOUND, "Not Found"), String::new());
        };
        let path = path.to_owned();
        if let Some(response) = self.redirected(&request, &path) {
            return (response, String::new());
        }
        if path == "/api/" || path == "/api" {
            return (self.open_socket(request), String::new());
        }
        let inside = path
            .strip_prefix(ROOT)
            .filter(|rest| rest.is_empty() || rest.starts_with('/'));
        let Some(rest) = inside else {
            return (self.page(&request, &path), String::new());
        };
        let mut caller = String::new();
        let result = self.with(|cloud| self.dispatch(cloud, &request, &path, rest, &mut caller));
        let response = match result {
            Ok(Flow::Now(response)) => response,
            Ok(Flow::After { task, shown }) => self.outcome(&task, shown).await,
            Err(refusal) => refusal.response(self.with(|cloud| cloud.quirks.release)),
        };
        (response, caller)
    }

    /// The path that Xen Orchestra sees behind its proxy, if it sees the request.
    fn known_path<'a>(&self, path: &'a str) -> Option<&'a str> {
        let prefix = self.with(|cloud| cloud.quirks.path_prefix.clone());
        let Some(prefix) = prefix else {
            return Some(path);
        };
        let rest = path.strip_prefix(prefix.trim_end_matches('/'))?;
        rest.starts_with('/').then_some(rest)
    }

    /// The way to TLS, where plain requests are not served.
    fn redirected(&self, request: &Request<Bytes>, path: &str) -> Option<Response<Body>> {
        let port = self.with(|cloud| cloud.quirks.redirect_to_https)?;
        if request.extensions().get::<Encrypted>().is_some() {
            return None;
        }
        let host = request.headers().get(header::HOST)?.to_str().ok()?;
        let name = host.rsplit_once(':').map_or(host, |(name, _)| name);
        let query = request.uri().query().map(|query| format!("?{query}"));
        let query = query.unwrap_or_default();
        Some(moved(
            StatusCode::FOUND,
            &format!("https://{name}:{port}{path}{query}"),
        ))
    }

    /// What is not the API: the page to sign in, to which everything else leads.
    fn page(&self, request: &Request<Bytes>, path: &str) -> Response<Body> {
        if path == "/auth/login"
            && request.method() == Method::POST
            && self.with(|cloud| cloud.quirks.login_works)
        {
            return self.log_in(request.body());
        }
        if path == "/signin" {
            let page = "<!DOCTYPE html>\n<html><head><title>Xen Orchestra</title></head>\
                <body><form method=\"post\" action=\"signin/local\"></form></body></html>\n";
            return serve::of_type(StatusCode::OK, "text/html; charset=utf-8", page);
        }
        moved(StatusCode::FOUND, "/signin")
    }

    /// The route that the Go SDK hopes for.
    fn log_in(&self, body: &Bytes) -> Response<Body> {
        let body: Value = serde_json::from_slice(body).unwrap_or_default();
        let word = |name: &str| body.get(name).and_then(Value::as_str);
        let (name, password) = (word("username").unwrap_or_default(), word("password"));
        let token = self.with(|cloud| {
            let caller = self.by_password(cloud, name, password, None)?;
            self.make_token(cloud, &caller, &json!({}))
        });
        let token = match token {
            Ok(token) => token,
            Err(refusal) => return refusal.response(Release::Current),
        };
        let mut response = answer(StatusCode::OK, &json!({}));
        let cookie = format!("authenticationToken={}; Path=/; HttpOnly", token.id);
        if let Ok(cookie) = HeaderValue::try_from(cookie) {
            response.headers_mut().insert(header::SET_COOKIE, cookie);
        }
        response
    }

    fn dispatch(
        &self,
        cloud: &mut Cloud,
        request: &Request<Bytes>,
        path: &str,
        rest: &str,
        caller: &mut String,
    ) -> OrRefusal<Flow> {
        let inside = rest.trim_start_matches('/').trim_end_matches('/');
        let found = call(request.method(), inside).filter(|(operation, _)| cloud.knows(operation));
        let old_tokens = matches!(&found, Some(("PostDeprecatedAuthenticationTokens", _)));
        let who = self.identify(cloud, request, old_tokens);
        let who = who.map_err(|refusal| cloud.old_words(old_tokens, refusal))?;
        if let Some(who) = &who {
            who.name.clone_into(caller);
            if who.by_password {
                caller.push_str(" (password)");
            }
        }
        let (operation, ids) =
            found.ok_or_else(|| Refusal::no_route(request.method().as_str(), path))?;
        if operation == "Ping" && cloud.quirks.release == Release::Current {
            let now = self.now().as_millisecond();
            return ok(&json!({ "result": "pong", "timestamp": now }));
        }
        if operation == "GetSwagger" {
            return ok(&document());
        }
        let who = who
            .filter(|_| operation != "Ping")
            .ok_or_else(Refusal::credentials)?;
        if cloud.quirks.release != Release::Current {
            who.admin()?;
        }
        let query = request.uri().query().unwrap_or_default();
        let asked = Asked {
            operation,
            ids: ids.into_iter().map(decoded).collect(),
            path,
            query: url::form_urlencoded::parse(query.as_bytes())
                .into_owned()
                .collect(),
            body: request.body(),
            caller: who,
        };
        if let Some(there) = me(&asked, query) {
            return Ok(Flow::Now(moved(StatusCode::TEMPORARY_REDIRECT, &there)));
        }
        self.carry(cloud, &asked)
    }

    fn carry(&self, cloud: &mut Cloud, asked: &Asked<'_>) -> OrRefusal<Flow> {
        match asked.operation {
            "GetVms" => cloud.list(asked, Kind::Vm),
            "GetHosts" => cloud.list(asked, Kind::Host),
            "GetPools" => cloud.list(asked, Kind::Pool),
            "GetVm" => cloud.one(asked, Kind::Vm),
            "GetHost" => cloud.one(asked, Kind::Host),
            "GetPool" => cloud.one(asked, Kind::Pool),
            "GetServers" | "GetServer" => cloud.servers(asked),
            "GetTasks" | "GetTask" => cloud.read_tasks(asked),
            "GetUsers" | "GetUser" => cloud.read_users(asked),
            "GetAuthenticationTokens" => cloud.read_tokens(asked),
            "PostAuthenticationTokens" | "PostDeprecatedAuthenticationTokens" => {
                self.new_token(cloud, asked)
            }
            "PutVmTag" | "DeleteVmTag" => cloud.tag(asked, Kind::Vm),
            "PutHostTag" | "DeleteHostTag" => cloud.tag(asked, Kind::Host),
            "PutPoolTag" | "DeletePoolTag" => cloud.tag(asked, Kind::Pool),
            "DeleteVm" => {
                cloud.may(asked, Kind::Vm, "delete")?;
                cloud.delete_vm(asked.id())?;
                done()
            }
            "OpenSseConnection" => Ok(Flow::Now(self.open_events(cloud, &asked.caller.name))),
            "AddSubscription" => {
                let added = cloud.subscribe(asked.id(), &asked.json()?)?;
                Ok(Flow::Now(answer(StatusCode::CREATED, &added)))
            }
            "RemoveSubscription" => {
                cloud.unsubscribe(asked.id(), asked.second())?;
                done()
            }
            _ => self.begin_action(cloud, asked),
        }
    }

    fn new_token(&self, cloud: &mut Cloud, asked: &Asked<'_>) -> OrRefusal<Flow> {
        if asked.operation == "PostDeprecatedAuthenticationTokens" {
            asked.caller.admin()?;
        } else if asked.id() != asked.caller.user.id {
            let reason = "you can only create token for yourself";
            return Err(Refusal::forbidden("create authentication token", reason));
        }
        let token = self.make_token(cloud, &asked.caller, &asked.json()?);
        let old = cloud.quirks.release != Release::Current;
        let token = token.map_err(|refusal| cloud.old_words(old, refusal))?;
        let status = if old {
            StatusCode::OK
        } else {
            StatusCode::CREATED
        };
        let shown = json!({ "token": token.show(&asked.caller.user.id) });
        Ok(Flow::Now(answer(status, &shown)))
    }

    /// An action on a VM: checked, begun, and told as a task.
    fn begin_action(&self, cloud: &mut Cloud, asked: &Asked<'_>) -> OrRefusal<Flow> {
        let word = asked
            .path
            .trim_end_matches('/')
            .rsplit('/')
            .next()
            .unwrap_or_default();
        let action = Action::parse(word).ok_or_else(|| Refusal::no_route("POST", asked.path))?;
        let body = asked.json()?;
        let host = body.get("hostId");
        if action == Action::Migrate && host.is_none() {
            return Err(Refusal::parameter(
                "body",
                "Value does not match any allowed schema",
                Some(&body),
            ));
        }
        let host = match host {
            Some(Value::String(id)) => Some(id.clone()),
            Some(other) => {
                return Err(Refusal::parameter(
                    "body.hostId",
                    "invalid string value",
                    Some(other),
                ));
            }
            None => None,
        };
        let sync = asked.flag("sync")?;
        cloud.may(asked, Kind::Vm, action.right())?;
        if let Some(host) = &host {
            let right = if action == Action::Migrate {
                "migrate-receive"
            } else {
                "allow-vm"
            };
            cloud.may_on(&asked.caller, Kind::Host, right, host)?;
        }
        let id = self.draw_task();
        let task = Task {
            id: id.clone(),
            user: asked.caller.user.id.clone(),
            name: action.name(),
            object: asked.id().to_owned(),
            params: host.is_some().then_some(body),
            start: self.now(),
            end: None,
            failure: None,
        };
        cloud.begin(task, action, host.as_deref());
        if sync {
            return Ok(Flow::After {
                task: id,
                shown: false,
            });
        }
        let mut response = answer(StatusCode::ACCEPTED, &json!({ "taskId": id }));
        if let Ok(place) = HeaderValue::try_from(format!("{ROOT}/tasks/{id}")) {
            response.headers_mut().insert(header::LOCATION, place);
        }
        Ok(Flow::Now(response))
    }

    /// Waits for the end of a task, and answers with what came of it.
    async fn outcome(&self, id: &str, shown: bool) -> Response<Body> {
        loop {
            let (task, due) = self.with(|cloud| {
                let due = cloud
                    .due
                    .iter()
                    .find(|(_, it)| it.task.as_deref() == Some(id));
                (cloud.tasks.get(id).cloned(), due.map(|((at, _), _)| *at))
            });
            let Some(task) = task else {
                return Refusal::no_such("task", id).response(Release::Current);
            };
            if let (None, Some(due)) = (task.end, due) {
                let now = self.now();
                let left = due.duration_since(now);
                // At least a moment, so that clocks which disagree do not make this turn on the spot.
                let left = left.unsigned_abs().max(std::time::Duration::from_millis(1));
                tokio::time::sleep(left).await;
                continue;
            }
            return match task.refusal() {
                _ if shown => answer(StatusCode::OK, &Value::Object(task.show())),
                Some(refusal) => refusal.response(Release::Current),
                None => nothing(),
            };
        }
    }

    /// The id of a new task: nine letters and digits.
    fn draw_task(&self) -> String {
        let letters = b"0123456789abcdefghijklmnopqrstuvwxyz";
        let draw = |_| usize::try_from(self.world.random.below(36)).unwrap_or_default();
        let drawn = (0..8).map(draw).map(|place| char::from(letters[place]));
        std::iter::once('0').chain(drawn).collect()
    }
}

impl Cloud {
    /// Keeps the head of a request.
    fn hear(&mut self, request: &Request<Bytes>) {
        if self.heard.len() >= MOST_HEARD {
            self.heard.pop_front();
        }
        let headers = request.headers().iter().map(|(name, value)| {
            let value = String::from_utf8_lossy(value.as_bytes()).into_owned();
            (name.as_str().to_owned(), value)
        });
        self.heard.push_back(Heard {
            method: request.method().to_string(),
            target: request.uri().to_string(),
            headers: headers.collect(),
        });
    }

    /// Whether the release has that call.
    fn knows(&self, operation: &str) -> bool {
        let current = self.quirks.release == Release::Current;
        match operation {
            "OpenSseConnection" | "AddSubscription" | "RemoveSubscription" => {
                current && !self.quirks.no_events
            }
            "PostAuthenticationTokens" => current,
            "PostDeprecatedAuthenticationTokens" => !self.quirks.no_deprecated_tokens,
            _ => true,
        }
    }

    /// What the old route for tokens says instead.
    fn old_words(&self, there: bool, refusal: Refusal) -> Refusal {
        if there && self.quirks.release != Release::Current {
            refusal.bare()
        } else {
            refusal
        }
    }
}

/// Where `me` leads to, with the query.
fn me(asked: &Asked<'_>, query: &str) -> Option<String> {
    if asked.id() != "me" || !asked.path.starts_with("/rest/v0/users/") {
        return None;
    }
    // The real one overlooks it in the last part of a path that a query follows.
    if asked.operation == "GetUser" && !query.is_empty() {
        return None;
    }
    let there = format!("/users/{}", asked.caller.user.id);
    let path = asked.path.replacen("/users/me", &there, 1);
    let mark = if query.is_empty() { "" } else { "?" };
    Some(format!("{path}{mark}{query}"))
}

fn decoded(part: &str) -> String {
    percent_decode_str(part).decode_utf8_lossy().into_owned()
}

#[expect(
    clippy::unnecessary_wraps,
    reason = "a row of a table of calls, some of which fail"
)]
pub(super) fn ok(value: &Value) -> OrRefusal<Flow> {
    Ok(Flow::Now(answer(StatusCode::OK, value)))
}

#[expect(
    clippy::unnecessary_wraps,
    reason = "a row of a table of calls, some of which fail"
)]
pub(super) fn done() -> OrRefusal<Flow> {
    Ok(Flow::Now(nothing()))
}

/// 204.
fn nothing() -> Response<Body> {
    let mut response = Response::new(serve::empty());
    *response.status_mut() = StatusCode::NO_CONTENT;
    response
}

/// Another place.
fn moved(status: StatusCode, place: &str) -> Response<Body> {
    let reason = status.canonical_reason().unwrap_or_default();
    let text = format!("{reason}. Redirecting to {place}");
    let mut response = serve::text(status, text);
    if let Ok(place) = HeaderValue::try_from(place) {
        response.headers_mut().insert(header::LOCATION, place);
    }
    response
}
