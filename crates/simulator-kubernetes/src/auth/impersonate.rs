//! Being taken for somebody else, by request headers and with permission.

use std::collections::BTreeMap;

use http::HeaderMap;

use super::super::status::Refusal;
use super::{Attributes, Auth, Objects, User};

const USER: &str = "impersonate-user";
const GROUP: &str = "impersonate-group";
const UID: &str = "impersonate-uid";
const EXTRA: &str = "impersonate-extra-";

/// The user the request is to be judged as.
pub(super) fn apply(
    auth: &Auth,
    caller: User,
    headers: &HeaderMap,
    objects: &dyn Objects,
) -> Result<User, Refusal> {
    let Some(wanted) = wanted(headers)? else {
        return Ok(caller);
    };
    for attributes in needed(&wanted) {
        auth.authorize(&caller, &attributes, objects)?;
    }
    Ok(complete(wanted))
}

/// Whom the headers ask for, if anybody.
fn wanted(headers: &HeaderMap) -> Result<Option<User>, Refusal> {
    let all = |name: &str| -> Vec<String> {
        let values = headers.get_all(name).iter();
        values
            .filter_map(|value| value.to_str().ok().map(str::to_owned))
            .collect()
    };
    let first = |name: &str| all(name).into_iter().next().unwrap_or_default();
    let extra: BTreeMap<String, Vec<String>> = headers
        .keys()
        .filter_map(|name| {
            let key = name.as_str().strip_prefix(EXTRA)?;
            Some((unescape(key), all(name.as_str())))
        })
        .collect();
    let user = User {
        name: first(USER),
        uid: first(UID),
        groups: all(GROUP),
        extra,
    };
    if user == User::default() {
        return Ok(None);
    }
    if user.name.is_empty() {
        return Err(Refusal::new(
            500,
            "InternalError",
            "Internal error occurred: requested impersonation of groups, uid or extra \
             without impersonating a user",
        ));
    }
    Ok(Some(user))
}

/// Header names cannot hold every character of a key: those arrive percent-encoded.
fn unescape(key: &str) -> String {
    let mut bytes = Vec::with_capacity(key.len());
    let mut rest = key.as_bytes();
    while let Some((&first, tail)) = rest.split_first() {
        let code = (first == b'%')
            .then(|| tail.get(..2))
            .flatten()
            .and_then(|digits| std::str::from_utf8(digits).ok())
            .and_then(|digits| u8::from_str_radix(digits, 16).ok());
        rest = if code.is_some() { &tail[2..] } else { tail };
        bytes.push(code.unwrap_or(first));
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// A service account's namespace and name, if the user is one.
fn account(user: &str) -> Option<(&str, &str)> {
    user.strip_prefix("system:serviceaccount:")?.split_once(':')
}

/// Everything the caller must be allowed to `impersonate`.
fn needed(wanted: &User) -> Vec<Attributes> {
    const AUTHENTICATION: &str = "authentication.k8s.io";
    let ask = |group: &str, resource: &str, name: &str| {
        Attributes::resource("impersonate", group, resource).named(name)
    };
    let mut needed = vec![match account(&wanted.name) {
        Some((namespace, name)) => ask("", "serviceaccounts", name).within(namespace),
        None => ask("", "users", &wanted.name),
    }];
    needed.extend(wanted.groups.iter().map(|group| ask("", "groups", group)));
    for (key, values) in &wanted.extra {
        let resource = format!("userextras/{key}");
        needed.extend(
            values
                .iter()
                .map(|value| ask(AUTHENTICATION, &resource, value)),
        );
    }
    if !wanted.uid.is_empty() {
        needed.push(ask(AUTHENTICATION, "uids", &wanted.uid));
    }
    needed
}

/// Adds the groups that come with the name.
fn complete(mut user: User) -> User {
    if user.groups.is_empty()
        && let Some((namespace, _)) = account(&user.name)
    {
        user.groups = vec![
            "system:serviceaccounts".to_owned(),
            format!("system:serviceaccounts:{namespace}"),
        ];
    }
    if user.name == super::ANONYMOUS {
        if user.groups.is_empty() {
            user.groups.push(super::UNAUTHENTICATED.to_owned());
        }
        return user;
    }
    user.authenticated()
}
