//! From a request to what it asks for: who, whether they may, and which kind's verb it is.

use bowline_simulator::serve::{Body, Peer};
use bytes::Bytes;
use http::Response;
use http::header::CACHE_CONTROL;
use http::request::Parts as Head;
use serde_json::{Value, json};

use super::KubernetesApi;
use crate::auth::{Attributes, Objects, User};
use crate::discovery;
use crate::health;
use crate::kinds::{self, Kind, Role};
use crate::object::text;
use crate::openapi;
use crate::request::{Query, Target};
use crate::respond;
use crate::selectors::Selector;
use crate::status::Refusal;
use crate::verbs::{Call, subresources};

/// The largest request body, as in the API server.
const BODY_LIMIT: usize = 3 * 1024 * 1024;
/// What every use of Endpoints is answered with.
const ENDPOINTS_WARNING: &str =
    "v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice";

impl KubernetesApi {
    /// Answers a request; also tells who asked.
    pub(super) async fn respond(
        &self,
        head: &Head,
        content: Bytes,
        peer: &Peer,
    ) -> (Response<Body>, String) {
        let audit = self.noise.uuid();
        let user = self.auth.authenticate(
            &head.headers,
            peer,
            self.store.as_ref(),
            self.world.clock.now(),
        );
        let user = match user {
            Ok(user) => user,
            Err(refusal) => {
                let mut response = respond::refuse(&refusal, false);
                respond::finish(&mut response, &audit, &[]);
                return (response, String::new());
            }
        };
        let caller = user.name.clone();
        let mut warnings = Vec::new();
        let yaml = respond::negotiate(&head.headers, false).is_ok_and(|format| format.yaml);
        let mut response = match self.route(head, content, user, &mut warnings).await {
            Ok(response) => response,
            Err(refusal) => respond::refuse(&refusal, yaml),
        };
        respond::finish(&mut response, &audit, &warnings);
        (response, caller)
    }

    async fn route(
        &self,
        head: &Head,
        content: Bytes,
        user: User,
        warnings: &mut Vec<String>,
    ) -> Result<Response<Body>, Refusal> {
        let path = head.uri.path();
        let query = Query::of(&head.uri);
        let Some(target) = Target::of(path) else {
            return self.plain_path(head, path, &query, &user);
        };
        let verb = target.verb(&head.method, &query);
        let selected = selected_name(&target, verb, &query);
        let attributes = target.attributes(verb, path, selected.as_deref());
        self.allow(&user, &attributes)?;
        if !target.group_is_served() {
            return if target.group_is_known() {
                Err(no_such_resource())
            } else {
                Ok(not_a_page())
            };
        }
        let kind = served(&target)?;
        let format = respond::negotiate(&head.headers, verb == "watch").map_err(|refusal| {
            // Lists can be watched, and watches are written in other ways too.
            match verb {
                "list" | "watch" => respond::not_acceptable(&respond::list_media_types()),
                _ => refusal,
            }
        })?;
        check_size(&content)?;
        check_method(kind, &target, head.method.as_str())?;
        if verb == "watch" {
            return self.watch(kind, &target, &query, format).await;
        }
        let namespace = if kind.namespaced {
            target.namespace.as_str()
        } else {
            ""
        };
        let creates = matches!(verb, "update" | "patch")
            && !self.store.contains(kind, namespace, &target.name);
        let may_create = if creates {
            let verb = "create".to_owned();
            self.allow(&user, &Attributes { verb, ..attributes })
        } else {
            Ok(())
        };
        let call = Call {
            auth: &self.auth,
            random: &self.random,
            now: self.world.clock.now(),
            user,
            kind,
            namespace: namespace.to_owned(),
            name: target.name.clone(),
            subresource: target.subresource.clone(),
            query,
            headers: head.headers.clone(),
            body: content,
            may_create,
        };
        self.check_signer(&call, verb)?;
        if kind.kind == "Endpoints" {
            warnings.push(ENDPOINTS_WARNING.to_owned());
        }
        let reply = self.execute(&call, verb).await?;
        warnings.splice(..0, reply.warnings.iter().cloned());
        self.show(kind, &call.query, format, &reply)
    }

    fn allow(&self, user: &User, attributes: &Attributes) -> Result<(), Refusal> {
        self.auth.authorize(user, attributes, self.store.as_ref())
    }

    /// Who approves a certificate request, or signs it, must be allowed to do so for its signer.
    fn check_signer(&self, call: &Call, verb: &str) -> Result<(), Refusal> {
        if call.kind.group != "certificates.k8s.io" || !matches!(verb, "update" | "patch") {
            return Ok(());
        }
        let Some(request) = self.store.get(call.kind, "", &call.name) else {
            return Err(Refusal::not_found(call.kind, &call.name));
        };
        let action = match call.subresource.as_str() {
            "approval" => "approve",
            "status" if sets_certificate(&call.body, &request) => "sign",
            _ => return Ok(()),
        };
        let signer = text(&request, "/spec/signerName");
        let domain = signer.split('/').next().unwrap_or_default();
        let names = [signer.to_owned(), format!("{domain}/*")];
        let allowed = names.into_iter().any(|name| {
            let attributes = Attributes {
                verb: action.to_owned(),
                group: "certificates.k8s.io".to_owned(),
                resource: "signers".to_owned(),
                name,
                ..Attributes::default()
            };
            self.allow(&call.user, &attributes).is_ok()
        });
        if allowed {
            return Ok(());
        }
        let message = format!(
            "{} {:?} is forbidden: user not permitted to {action} requests with signerName {signer:?}",
            call.kind.qualified(),
            call.name
        );
        Err(Refusal::new(403, "Forbidden", message).about(call.kind, &call.name))
    }

    /// Answers a path that names no resource.
    fn plain_path(
        &self,
        head: &Head,
        path: &str,
        query: &Query,
        user: &User,
    ) -> Result<Response<Body>, Refusal> {
        let attributes = Attributes {
            verb: head.method.as_str().to_ascii_lowercase(),
            path: path.to_owned(),
            ..Attributes::default()
        };
        self.allow(user, &attributes)?;
        if !matches!(head.method.as_str(), "GET" | "HEAD") {
            return Err(not_allowed());
        }
        if let Some(response) = health::answer(path, query) {
            return Ok(response);
        }
        let accept = head
            .headers
            .get(http::header::ACCEPT)
            .and_then(|value| value.to_str().ok())
            .unwrap_or_default();
        if path == "/openapi/v2" {
            let (content_type, content) = openapi::version_2(accept);
            return Ok(respond::bytes(200, content_type, content));
        }
        if matches!(path, "/api" | "/apis") && !discovery::is_acceptable(accept) {
            return Err(respond::not_acceptable(respond::MEDIA_TYPES));
        }
        if let Some((content_type, document)) = discovery::answer(path, accept) {
            let mut content = document.to_string().into_bytes();
            content.push(b'\n');
            let mut response = respond::bytes(200, &content_type, content);
            if content_type.contains("APIGroupDiscoveryList") {
                let value = http::HeaderValue::from_static("public");
                response.headers_mut().insert(CACHE_CONTROL, value);
            }
            return Ok(response);
        }
        let parts: Vec<&str> = path.trim_matches('/').split('/').collect();
        match parts.as_slice() {
            ["apis", group, _] if kinds::KINDS.iter().any(|kind| kind.group == *group) => {
                Err(no_such_resource())
            }
            _ => Ok(not_a_page()),
        }
    }
}

/// The name that a field selector asks for: authorization treats it like one in the path.
fn selected_name(target: &Target, verb: &str, query: &Query) -> Option<String> {
    let kind = target.kind()?;
    if !matches!(verb, "list" | "watch" | "deletecollection") {
        return None;
    }
    let selector = Selector::parse(kind, "", query.get("fieldSelector")).ok()?;
    selector.name().map(str::to_owned)
}

fn check_size(content: &Bytes) -> Result<(), Refusal> {
    if content.len() <= BODY_LIMIT {
        return Ok(());
    }
    let message = format!("Request entity too large: limit is {BODY_LIMIT}");
    Err(Refusal::new(413, "RequestEntityTooLarge", message))
}

/// Whether a write to the status of a certificate request brings another certificate.
fn sets_certificate(body: &[u8], request: &Value) -> bool {
    let written: Value = serde_json::from_slice(body).unwrap_or_default();
    let certificate = &written["status"]["certificate"];
    !certificate.is_null() && *certificate != request["status"]["certificate"]
}

/// The kind behind a path, if the path has a form that the kind allows.
fn served(target: &Target) -> Result<&'static Kind, Refusal> {
    let kind = target.kind().ok_or_else(no_such_resource)?;
    let known =
        target.subresource.is_empty() || kind.subresources.contains(&target.subresource.as_str());
    // A namespaced object can only be addressed within its namespace.
    let placed = kind.namespaced || target.namespace.is_empty() || kind.kind == "Namespace";
    let complete = !kind.namespaced || target.name.is_empty() || !target.namespace.is_empty();
    if known && placed && complete && !target.deeper {
        Ok(kind)
    } else {
        Err(no_such_resource())
    }
}

fn no_such_resource() -> Refusal {
    let mut refusal = Refusal::no_such_path();
    refusal.details = json!({});
    refusal
}

pub(super) fn not_allowed() -> Refusal {
    let mut refusal = Refusal::new(
        405,
        "MethodNotAllowed",
        "the server does not allow this method on the requested resource",
    );
    refusal.details = json!({});
    refusal
}

fn check_method(kind: &Kind, target: &Target, method: &str) -> Result<(), Refusal> {
    let allowed = if kind.role == Role::Review {
        method == "POST" && target.name.is_empty()
    } else if target.old_watch {
        method == "GET"
    } else if target.name.is_empty() {
        let here = !kind.namespaced || !target.namespace.is_empty();
        method == "GET" || (here && matches!(method, "POST" | "DELETE"))
    } else {
        subresources::allows(kind, &target.subresource, method)
    };
    // Namespaces cannot be deleted as a collection.
    let collection = target.name.is_empty() && method == "DELETE" && kind.kind == "Namespace";
    if allowed && !collection {
        Ok(())
    } else {
        Err(not_allowed())
    }
}

/// What Go's router answers to a path that nobody handles.
fn not_a_page() -> Response<Body> {
    let mut response = respond::bytes(
        404,
        "text/plain; charset=utf-8",
        b"404 page not found\n".to_vec(),
    );
    response.headers_mut().insert(
        "x-content-type-options",
        http::HeaderValue::from_static("nosniff"),
    );
    response
}
