//! Who is who and who may do what, in a bootstrapped cluster.

mod identity;
mod reviews;
mod roles;
mod served;

use std::net::SocketAddr;

use bowline_http::Random;
use http::{HeaderMap, HeaderName, HeaderValue};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::objects::tests::Memory;
use super::*;
use crate::bootstrap;

const SYSTEM: &str = "kube-system";

fn now() -> Timestamp {
    "2026-10-01T12:00:00Z".parse().unwrap()
}

fn later(seconds: i64) -> Timestamp {
    now()
        .checked_add(SignedDuration::from_secs(seconds))
        .unwrap()
}

/// A new cluster whose objects all have uids.
fn cluster(more: Vec<Value>) -> (Auth, Memory) {
    let random = Random::seeded(1);
    let auth = Auth::new(&Keys::seeded(&random)).unwrap();
    let endpoint: SocketAddr = "127.0.0.1:6443".parse().unwrap();
    let mut objects = bootstrap::objects(&auth, endpoint);
    objects.extend(more);
    for object in &mut objects {
        object["metadata"]["uid"] = random.uuid().into();
    }
    (auth, Memory::with(objects))
}

fn headers(rows: &[(&str, &str)]) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for (name, value) in rows {
        let name = HeaderName::from_bytes(name.as_bytes()).unwrap();
        headers.append(name, HeaderValue::from_str(value).unwrap());
    }
    headers
}

fn account(name: &str) -> User {
    User::new(
        &format!("system:serviceaccount:{SYSTEM}:{name}"),
        &[
            "system:serviceaccounts",
            "system:serviceaccounts:kube-system",
            AUTHENTICATED,
        ],
    )
}

fn ask(verb: &str, group: &str, resource: &str) -> Attributes {
    Attributes::resource(verb, group, resource)
}

fn token_for(auth: &Auth, objects: &Memory, name: &str, spec: &Value) -> Value {
    let account = objects.get(kind("ServiceAccount"), SYSTEM, name).unwrap();
    auth.issue_token(SYSTEM, &account, spec, objects, now())
        .unwrap()
}

fn login(auth: &Auth, objects: &Memory, token: &str, when: Timestamp) -> Result<User, Refusal> {
    let headers = headers(&[("authorization", &format!("Bearer {token}"))]);
    auth.authenticate(&headers, &Peer::default(), objects, when)
}
