//! Lists: at which version, which page, which objects.

use std::collections::BTreeMap;
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::kinds::Kind;
use super::request::Query;
use super::respond::{Reply, list_document};
use super::selectors::Selector;
use super::status::Refusal;
use super::store::State;
use super::strategy::problem::{Problem, check_options};
use super::words::json_error;

const EXPIRED_LIST: &str = "The resourceVersion for the provided list is too old.";
const EXPIRED_PAGE: &str = "The provided continue parameter is too old to display a consistent list result. You can start a new list without the continue parameter, or use the continue token in this response to retrieve the remainder of the results. Continuing with the provided token results in an inconsistent list - objects that were created, modified, or deleted between the time the first chunk was returned and now may show up in the list.";

/// Which version of the objects a list must show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    Latest,
    /// This one or a later one.
    NotOlderThan(u64),
    /// Exactly this one.
    Exact(u64),
}

/// Where a page starts.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
struct Token {
    v: String,
    rv: i64,
    start: String,
}

/// What a list request asks for.
#[derive(Clone, Debug)]
pub struct ListOptions {
    pub version: Version,
    selector: Selector,
    limit: usize,
    page: Option<Token>,
}

/// Reads a version number from the query.
pub fn version_number(text: &str) -> Result<u64, Refusal> {
    if text.is_empty() {
        return Ok(0);
    }
    text.parse().map_err(|_| {
        Refusal::bad_request(format!(
            "invalid resource version: resourceVersion: Invalid value: {text:?}: strconv.ParseUint: parsing {text:?}: invalid syntax"
        ))
    })
}

/// 504: the version asked for does not exist yet.
pub fn too_large(wanted: u64, current: u64) -> Refusal {
    let mut refusal = Refusal::new(
        504,
        "Timeout",
        format!("Timeout: Too large resource version: {wanted}, current: {current}"),
    );
    refusal.details = json!({
        "causes": [{
            "reason": "ResourceVersionTooLarge", "message": "Too large resource version",
        }],
        "retryAfterSeconds": 1,
    });
    refusal
}

impl ListOptions {
    /// Reads and checks the query of a list.
    pub fn parse(kind: &Kind, query: &Query) -> Result<Self, Refusal> {
        let selector =
            Selector::parse(kind, query.get("labelSelector"), query.get("fieldSelector"))?;
        check_options("ListOptions", &check(query))?;
        let limit: i64 = match query.get("limit") {
            "" => 0,
            text => text.parse().map_err(|_| {
                Refusal::bad_request(format!(
                    "strconv.ParseInt: parsing {text:?}: invalid syntax"
                ))
            })?,
        };
        // Any version may be answered from a cache, and that has no pages.
        let limit = match query.get("resourceVersion") {
            "0" => 0,
            _ => usize::try_from(limit).unwrap_or(0),
        };
        let number = version_number(query.get("resourceVersion"))?;
        let page = match query.get("continue") {
            "" => None,
            token => Some(decode(token)?),
        };
        if page.is_some() && number != 0 {
            return Err(Refusal::bad_request(
                "specifying resource version is not allowed when using continue",
            ));
        }
        let version = match (query.get("resourceVersionMatch"), number) {
            (_, 0) => Version::Latest,
            ("Exact", number) => Version::Exact(number),
            // A page of a list at a version was exact before one could say so.
            ("", number) if limit > 0 => Version::Exact(number),
            (_, number) => Version::NotOlderThan(number),
        };
        Ok(Self {
            version,
            selector,
            limit,
            page,
        })
    }

    /// The version that must exist before the list can be answered.
    pub fn wait_for(&self) -> u64 {
        match self.version {
            Version::NotOlderThan(number) => number,
            _ => 0,
        }
    }
}

fn check(query: &Query) -> Vec<Problem> {
    let mut problems = Vec::new();
    let field = "resourceVersionMatch";
    let matching = query.get(field);
    if !matching.is_empty() {
        if query.get("resourceVersion").is_empty() {
            let detail = "resourceVersionMatch is forbidden unless resourceVersion is provided";
            problems.push(Problem::forbidden(field, detail));
        }
        if !query.get("continue").is_empty() {
            let detail = "resourceVersionMatch is forbidden when continue is provided";
            problems.push(Problem::forbidden(field, detail));
        }
        if !["Exact", "NotOlderThan"].contains(&matching) {
            let known = ["Exact", "NotOlderThan", ""];
            problems.push(Problem::unsupported(field, &json!(matching), &known));
        }
        if matching == "Exact" && query.get("resourceVersion") == "0" {
            let detail = "resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\"";
            problems.push(Problem::forbidden(field, detail));
        }
    }
    if query.maybe("sendInitialEvents").is_some() {
        let detail = "sendInitialEvents is forbidden for list";
        problems.push(Problem::forbidden("sendInitialEvents", detail));
    }
    problems
}

fn decode(token: &str) -> Result<Token, Refusal> {
    let wrong = |why: &str| Refusal::bad_request(format!("invalid continue token: {why}"));
    let bytes = URL_SAFE_NO_PAD
        .decode(token)
        .map_err(|error| wrong(&format!("continue key is not valid: {error}")))?;
    let token: Token = serde_json::from_slice(&bytes).map_err(|error| {
        let why = json_error(&bytes, &error);
        wrong(&format!("continue key is not valid: {why}"))
    })?;
    if token.v != "meta.k8s.io/v1" {
        return Err(wrong(&format!(
            "continue key is not valid: server does not recognize this encoded version {}",
            token.v
        )));
    }
    if token.rv == 0 {
        return Err(wrong(
            "continue key is not valid: incorrect encoded start resourceVersion (version meta.k8s.io/v1)",
        ));
    }
    if token.start.is_empty() {
        return Err(wrong(
            "continue key is not valid: encoded start key empty (version meta.k8s.io/v1)",
        ));
    }
    Ok(token)
}

fn encode(start: &str, rv: i64) -> String {
    let token = Token {
        v: "meta.k8s.io/v1".to_owned(),
        rv,
        start: start.to_owned(),
    };
    URL_SAFE_NO_PAD.encode(serde_json::to_vec(&token).unwrap_or_default())
}

/// Answers a list.
pub fn list(
    state: &State,
    kind: &Kind,
    namespace: Option<&str>,
    options: &ListOptions,
) -> Result<Reply, Refusal> {
    let current = state.revision();
    let wanted = match (&options.page, options.version) {
        (Some(token), _) => u64::try_from(token.rv).unwrap_or(current),
        (None, Version::Exact(number)) => number,
        (None, Version::NotOlderThan(number)) if number > current => {
            return Err(too_large(number, current));
        }
        (None, _) => current,
    };
    if wanted > current {
        return Err(too_large(wanted, current));
    }
    if wanted < state.floor(kind) {
        return match &options.page {
            Some(token) => Ok(expired_page(token)),
            None => Err(Refusal::expired(EXPIRED_LIST)),
        };
    }
    let objects = state.list_at(kind, namespace, wanted);
    Ok(page(kind, options, &objects, wanted))
}

/// 410 with a token that goes on at the latest version.
fn expired_page(token: &Token) -> Reply {
    let mut status = Refusal::expired(EXPIRED_PAGE).to_status();
    status["metadata"]["continue"] = encode(&token.start, -1).into();
    Reply::document(410, status)
}

fn page(
    kind: &Kind,
    options: &ListOptions,
    objects: &BTreeMap<String, Arc<Value>>,
    revision: u64,
) -> Reply {
    let start = options
        .page
        .as_ref()
        .map_or("", |token| token.start.as_str());
    let mut chosen: Vec<Value> = Vec::new();
    let mut metadata = json!({ "resourceVersion": revision.to_string() });
    let mut last = "";
    let mut rest = objects.range(start.to_owned()..);
    for (path, object) in rest.by_ref() {
        if !options.selector.matches(object) {
            continue;
        }
        chosen.push((**object).clone());
        last = path;
        if options.limit > 0 && chosen.len() == options.limit {
            break;
        }
    }
    let remaining = rest.count();
    if options.limit > 0 && chosen.len() == options.limit && remaining > 0 {
        let next = format!("{last}\0");
        metadata["continue"] = encode(&next, i64::try_from(revision).unwrap_or(i64::MAX)).into();
        if options.selector.is_empty() {
            metadata["remainingItemCount"] = remaining.into();
        }
    }
    Reply::object(200, list_document(kind, &metadata, chosen))
}
