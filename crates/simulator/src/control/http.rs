//! The control handle over HTTP: the paths under `/_sim/` that all simulated servers share.
//!
//! It asks nobody for credentials, and it can change everything: simulated servers belong on
//! loopback.

use bytes::Bytes;
use http::{Method, Request, Response, StatusCode};
use serde_json::{Value, json};

use super::Control;
use crate::World;
use crate::faults::{RawRule, Rule};
use crate::serve::{Api, Body, json as answer_json, text};

const PREFIX: &str = "/_sim";

/// What can be asked, for the answer to what cannot.
const WORDS: &str = "GET /_sim/journal, DELETE /_sim/journal, GET /_sim/state, GET /_sim/faults, \
    POST /_sim/faults, DELETE /_sim/faults, DELETE /_sim/faults/<name>, POST /_sim/reads-fail, \
    POST /_sim/cut-streams, POST /_sim/reset, POST /_sim/<verb of the server>";

/// Whether the path is one of the control handle.
pub(crate) fn is_control(path: &str) -> bool {
    path.strip_prefix(PREFIX)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// Answers a control request. Such requests meet no faults and stay out of the journal.
pub(crate) fn answer(world: &World, api: &dyn Api, request: &Request<Bytes>) -> Response<Body> {
    let path = request.uri().path();
    let word = path.strip_prefix(PREFIX).unwrap_or_default();
    let word = word.trim_start_matches('/').trim_end_matches('/');
    let result = match (request.method(), word) {
        (&Method::GET, "journal") => {
            return text(StatusCode::OK, world.journal.json_lines());
        }
        (&Method::DELETE, "journal") => {
            world.journal.clear();
            Ok(json!({}))
        }
        (&Method::GET, "state") => Ok(api.control().map(Control::state).unwrap_or_default()),
        (&Method::GET, "faults") => Ok(world.faults.to_json()),
        (&Method::POST, "faults") => add_faults(world, api, request.body()),
        (&Method::DELETE, "faults") => {
            world.faults.clear();
            Ok(json!({}))
        }
        (&Method::DELETE, word) if word.starts_with("faults/") => {
            let name = word.trim_start_matches("faults/");
            if world.faults.remove(name) {
                Ok(json!({}))
            } else {
                Err(format!("there is no fault named {name:?}"))
            }
        }
        (&Method::POST, "reads-fail") => reads_fail(world, api, request.body()),
        (&Method::POST, "cut-streams") => {
            world.faults.cut_streams(api.name());
            Ok(json!({}))
        }
        (&Method::POST, "reset") => {
            world.faults.clear();
            world.journal.clear();
            let reset = api.control().map_or(Ok(()), Control::reset);
            reset.map(|()| json!({})).map_err(|error| error.to_string())
        }
        (&Method::POST, verb) if !verb.is_empty() && !verb.contains('/') => {
            let control = api
                .control()
                .ok_or_else(|| format!("{verb:?} is not known: {} has no verbs", api.name()));
            control.and_then(|control| control.carry_out(verb, &parse(request.body())?))
        }
        _ => {
            let message = format!(
                "{} {path} is not known; there are {WORDS}",
                request.method()
            );
            return answer_json(StatusCode::NOT_FOUND, &json!({ "error": message }));
        }
    };
    match result {
        Ok(value) => answer_json(StatusCode::OK, &value),
        Err(message) => answer_json(StatusCode::BAD_REQUEST, &json!({ "error": message })),
    }
}

/// A body as JSON; an empty one means an empty object.
fn parse(body: &Bytes) -> Result<Value, String> {
    if body.iter().all(u8::is_ascii_whitespace) {
        return Ok(json!({}));
    }
    serde_json::from_slice(body).map_err(|error| format!("the body is not JSON: {error}"))
}

/// Adds one rule, or a list of them: all or none. A rule without a server means this one.
fn add_faults(world: &World, api: &dyn Api, body: &Bytes) -> Result<Value, String> {
    let given = match parse(body)? {
        Value::Array(rules) => rules,
        rule => vec![rule],
    };
    let mut rules = Vec::new();
    for value in given {
        let raw: RawRule = serde_json::from_value(value).map_err(|error| error.to_string())?;
        let mut rule = Rule::try_from(raw).map_err(|error| error.to_string())?;
        rule.server.get_or_insert_with(|| api.name().to_owned());
        rules.push(rule);
    }
    let mut names = Vec::new();
    for rule in rules {
        names.push(world.faults.add(rule).map_err(|error| error.to_string())?);
    }
    Ok(json!({ "added": names }))
}

fn reads_fail(world: &World, api: &dyn Api, body: &Bytes) -> Result<Value, String> {
    let body = parse(body)?;
    let only = body.as_object().filter(|object| object.len() == 1);
    let on = only
        .and_then(|object| object.get("on"))
        .and_then(Value::as_bool);
    let on = on.ok_or("the body must be {\"on\": true} or {\"on\": false}")?;
    world.faults.fail_reads(api.name(), on);
    Ok(json!({ "reads_fail": on }))
}
