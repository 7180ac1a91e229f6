//! The JSON paths of kubeconfigs: names and positions, one after the other.
//!
//! kube's client reads a path in one place: `token-key` and `expiry-key` of the auth provider `gcp`, which say where the answer of
//! a command holds the token. They are like `{.credential.access_token}`. The crate that it brings for them knows filters and
//! functions, and with its parser and a second set of regular expressions it was a twentieth of the program (`docs/size.md`).

use serde_json::Value;

/// Why a path cannot be used.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("{0:?} is not a path of names and positions such as $.credential['access_token'][0]")]
pub struct PathError(String);

/// What paths lead through. Named as in the crate that this one replaces.
pub trait JsonPath {
    /// What the path leads to: one value, or none.
    fn query(&self, path: &str) -> Result<Vec<&Value>, PathError>;
}

impl JsonPath for Value {
    fn query(&self, path: &str) -> Result<Vec<&Value>, PathError> {
        let wrong = || PathError(path.to_owned());
        let mut rest = path.strip_prefix('$').ok_or_else(wrong)?;
        let mut value = Some(self);
        while !rest.is_empty() {
            let (step, after) = step(rest).ok_or_else(wrong)?;
            value = value.and_then(|value| match step {
                Step::Name(name) => value.get(name),
                Step::Position(position) => value.get(position),
            });
            rest = after;
        }
        Ok(value.into_iter().collect())
    }
}

enum Step<'a> {
    Name(&'a str),
    Position(usize),
}

/// The first step of a path, and what follows it.
fn step(path: &str) -> Option<(Step<'_>, &str)> {
    if let Some(path) = path.strip_prefix('.') {
        let end = path.find(['.', '[']).unwrap_or(path.len());
        let (name, rest) = path.split_at(end);
        let is_plain = |it: char| it.is_alphanumeric() || matches!(it, '_' | '-');
        return (!name.is_empty() && name.chars().all(is_plain))
            .then_some((Step::Name(name), rest));
    }
    let inner = path.strip_prefix('[')?;
    for quote in ['\'', '"'] {
        if let Some(quoted) = inner.strip_prefix(quote) {
            let (name, rest) = quoted.split_once(quote)?;
            return Some((Step::Name(name), rest.strip_prefix(']')?));
        }
    }
    let (position, rest) = inner.split_once(']')?;
    Some((Step::Position(position.parse().ok()?), rest))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_path_leads_to_one_value_or_none() {
        let answer = json!({ "credential": { "access_token": "t", "a.b": ["x", { "y": "z" }] } });
        for (path, expected) in [
            ("$.credential.access_token", Some("t")),
            ("$['credential'][\"access_token\"]", Some("t")),
            ("$.credential['a.b'][0]", Some("x")),
            ("$.credential['a.b'][1].y", Some("z")),
            ("$.credential.token", None),
            ("$.credential.access_token.more", None),
            ("$.credential['a.b'][2]", None),
        ] {
            let found = answer
                .query(path)
                .map(|found| found.first().and_then(|it| it.as_str()));
            assert_eq!(found, Ok(expected), "{path}");
        }
        assert_eq!(answer.query("$"), Ok(vec![&answer]));
    }

    #[test]
    fn what_is_no_such_path_is_an_error() {
        for path in [
            "",
            "credential",
            "$credential",
            "$.",
            "$..a",
            "$.a.",
            "$[",
            "$[-1]",
            "$['a",
            "$['a'",
            "$.*",
            "$[?(@.a)]",
        ] {
            assert_eq!(
                json!({}).query(path),
                Err(PathError(path.to_owned())),
                "{path}"
            );
        }
    }
}
