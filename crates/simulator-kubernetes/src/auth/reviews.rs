//! Answers to token and access reviews.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::super::kinds::Kind;
use super::super::status::Refusal;
use super::{AUDIENCE, Attributes, Auth, Objects, User, rbac, text, texts};

impl Auth {
    /// Answers a token or access review with the whole object.
    pub fn answer_review(
        &self,
        kind: &Kind,
        namespace: &str,
        body: &Value,
        caller: &User,
        objects: &dyn Objects,
        now: Timestamp,
    ) -> Result<Value, Refusal> {
        let spec = &body["spec"];
        let status = match kind.kind {
            "TokenReview" => token(self, spec, objects, now)?,
            "SubjectAccessReview" => access(self, kind, spec, &subject(kind, spec)?, objects)?,
            "LocalSubjectAccessReview" => {
                local(kind, spec, namespace)?;
                access(self, kind, spec, &subject(kind, spec)?, objects)?
            }
            "SelfSubjectAccessReview" => access(self, kind, spec, caller, objects)?,
            "SelfSubjectRulesReview" => rules(caller, spec, objects)?,
            "SelfSubjectReview" => json!({ "userInfo": caller.to_info() }),
            _ => return Err(Refusal::no_such_path()),
        };
        let mut review = json!({ "kind": kind.kind, "apiVersion": kind.api_version() });
        review["metadata"] = match &body["metadata"] {
            Value::Object(metadata) => Value::Object(metadata.clone()),
            _ => json!({}),
        };
        if kind.namespaced {
            review["metadata"]["namespace"] = json!(namespace);
        }
        if kind.kind == "SelfSubjectReview" {
            let whole = Timestamp::from_second(now.as_second()).unwrap_or(now);
            review["metadata"]["creationTimestamp"] = json!(whole);
        } else if kind.kind == "SelfSubjectRulesReview" {
            // The server does not repeat the question.
            review["spec"] = json!({});
        } else {
            review["spec"] = spec.clone();
        }
        review["status"] = status;
        Ok(review)
    }
}

/// 422 about one field of an object that has no name.
pub(super) fn invalid(kind: &str, field: &str, why: &str) -> Refusal {
    let mut refusal = Refusal::new(
        422,
        "Invalid",
        format!("{kind} \"\" is invalid: {field}: {why}"),
    );
    let (name, group) = kind.split_once('.').unwrap_or((kind, ""));
    refusal.details = json!({
        "group": group,
        "causes": [{ "reason": "FieldValueInvalid", "message": why, "field": field }],
    });
    if !name.is_empty() {
        refusal.details["kind"] = name.into();
    }
    refusal
}

fn token(
    auth: &Auth,
    spec: &Value,
    objects: &dyn Objects,
    now: Timestamp,
) -> Result<Value, Refusal> {
    let token = text(spec, "/token");
    if token.is_empty() {
        return Err(Refusal::bad_request(
            "token is required for TokenReview in authentication",
        ));
    }
    let audiences = match texts(spec, "audiences") {
        none if none.is_empty() => vec![AUDIENCE],
        some => some,
    };
    Ok(match auth.by_token(token, &audiences, objects, now) {
        Some((user, audiences)) => {
            json!({ "authenticated": true, "user": user.to_info(), "audiences": audiences })
        }
        None => json!({ "user": {}, "error": "invalid bearer token" }),
    })
}

/// The user a review asks about.
fn subject(kind: &Kind, spec: &Value) -> Result<User, Refusal> {
    let user = User {
        name: text(spec, "/user").to_owned(),
        uid: text(spec, "/uid").to_owned(),
        groups: texts(spec, "groups")
            .into_iter()
            .map(str::to_owned)
            .collect(),
        ..User::default()
    };
    if user.name.is_empty() && user.groups.is_empty() {
        return Err(invalid(
            &nameless(kind),
            "spec.user",
            "Invalid value: \"\": at least one of user or group must be specified",
        ));
    }
    Ok(user)
}

fn local(kind: &Kind, spec: &Value, namespace: &str) -> Result<(), Refusal> {
    if text(spec, "/resourceAttributes/namespace") == namespace {
        return Ok(());
    }
    let found = json!(text(spec, "/resourceAttributes/namespace"));
    Err(invalid(
        &nameless(kind),
        "spec.resourceAttributes.namespace",
        &format!("Invalid value: {found}: must match metadata.namespace"),
    ))
}

fn access(
    auth: &Auth,
    kind: &Kind,
    spec: &Value,
    user: &User,
    objects: &dyn Objects,
) -> Result<Value, Refusal> {
    let decision = auth.decide(user, &attributes(kind, spec)?, objects);
    let mut status = json!({ "allowed": decision.allowed });
    if !decision.reason.is_empty() {
        status["reason"] = json!(decision.reason);
    }
    Ok(status)
}

fn attributes(kind: &Kind, spec: &Value) -> Result<Attributes, Refusal> {
    let of = |part: &str, key: &str| text(&spec[part], key).to_owned();
    match (
        spec["resourceAttributes"].is_object(),
        spec["nonResourceAttributes"].is_object(),
    ) {
        (true, false) => Ok(Attributes {
            verb: of("resourceAttributes", "/verb"),
            group: of("resourceAttributes", "/group"),
            resource: of("resourceAttributes", "/resource"),
            subresource: of("resourceAttributes", "/subresource"),
            namespace: of("resourceAttributes", "/namespace"),
            name: of("resourceAttributes", "/name"),
            path: String::new(),
        }),
        (false, true) => Ok(Attributes::path(
            &of("nonResourceAttributes", "/verb"),
            &of("nonResourceAttributes", "/path"),
        )),
        (true, true) => {
            let other = &spec["nonResourceAttributes"];
            let shown = format!(
                r#"{{"Path":{},"Verb":{}}}"#,
                json!(text(other, "/path")),
                json!(text(other, "/verb"))
            );
            Err(invalid(
                &nameless(kind),
                "spec.nonResourceAttributes",
                &format!(
                    "Invalid value: {shown}: cannot be specified in combination with resourceAttributes"
                ),
            ))
        }
        (false, false) => Err(invalid(
            &nameless(kind),
            "spec.resourceAttributes",
            "Invalid value: null: exactly one of nonResourceAttributes or resourceAttributes \
             must be specified",
        )),
    }
}

/// The server does not say which kind of review is wrong, only of which group.
fn nameless(kind: &Kind) -> String {
    format!(".{}", kind.group)
}

fn rules(caller: &User, spec: &Value, objects: &dyn Objects) -> Result<Value, Refusal> {
    let namespace = text(spec, "/namespace");
    if namespace.is_empty() {
        return Err(Refusal::bad_request("no namespace on request"));
    }
    let (mut resources, mut paths) = (Vec::new(), Vec::new());
    for mut rule in rbac::rules(caller, namespace, objects) {
        let Some(fields) = rule.as_object_mut() else {
            continue;
        };
        if fields.contains_key("resources") {
            fields.remove("nonResourceURLs");
            resources.push(rule);
        } else if fields.contains_key("nonResourceURLs") {
            fields.retain(|key, _| key == "verbs" || key == "nonResourceURLs");
            paths.push(rule);
        }
    }
    Ok(json!({ "resourceRules": resources, "nonResourceRules": paths, "incomplete": false }))
}
