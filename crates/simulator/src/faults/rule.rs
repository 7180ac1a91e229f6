//! One fault rule.

use std::collections::BTreeMap;
use std::time::Duration;

use super::Call;
use crate::glob;

/// Which calls go wrong, how often and how.
#[derive(Clone, Debug, PartialEq)]
pub struct Rule {
    /// Its name, in lists and in the journal; empty: one is given.
    pub name: String,
    /// Only calls to that server; none: any.
    pub server: Option<String>,
    /// Only that method; none: any.
    pub method: Option<String>,
    /// Only paths that fit this pattern with `*`.
    pub path: String,
    /// Only queries that fit this pattern with `*`; none: any.
    pub query: Option<String>,
    /// Only calls that the API itself names so (`create-load-balancer`); none: any.
    pub operation: Option<String>,
    /// How many calls it strikes; none: no limit.
    pub times: Option<u64>,
    /// How many of the meant calls pass before it begins.
    pub after: u64,
    /// The chance with which each meant call is struck.
    pub probability: f64,
    pub action: Action,
}

/// What a rule does to a call.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// Answers with that status instead of asking the API.
    Status {
        code: u16,
        /// Further headers, such as `Retry-After`.
        headers: BTreeMap<String, String>,
        /// The body; none: an error body in the API's own form.
        body: Option<serde_json::Value>,
    },
    /// Answers a watch with these events, and ends it.
    Events {
        /// The events, as the API would send them.
        events: Vec<serde_json::Value>,
    },
    /// Waits, between `least` and `most`, before the call is handled.
    Delay {
        /// At least so long.
        least: Duration,
        /// At most so long.
        most: Duration,
    },
    /// Cuts the connection before the API hears of the call.
    Reset,
    /// Lets the API do it, then cuts the connection.
    LostAnswer,
    /// Lets the API do it, then sends the first half of its answer as if it were whole.
    Truncated,
    /// Lets the API do it twice, as if the call had been sent again on its way, and gives the first answer.
    Twice,
    /// Lets the API answer, and leaves nothing in a list that it gives.
    EmptyList,
    /// Lets the API do it, then leaves every member of that name out of its JSON answer, at whatever depth.
    Without { member: String },
    /// Answers with a page that is not JSON, like a proxy in between.
    Html { code: u16 },
    /// Never answers, and does nothing.
    Hang,
    /// Does what it was asked to, and never answers.
    Silence,
    /// Lets the API answer with a list as it was that long ago.
    StaleList {
        /// How old.
        age: Duration,
    },
    /// Answers 429 with `Retry-After` to what exceeds that many calls per second.
    Throttle { per_second: f64 },
    /// Cuts streamed answers (watches) that long after they began.
    CutStream {
        /// After that time.
        after: Duration,
    },
}

/// What is wrong with a rule.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum RuleError {
    /// No such action.
    #[error("action {0:?} is not known; allowed are {actions}", actions = super::written::ACTIONS)]
    UnknownAction(String),
    /// A key that this action needs.
    #[error("action {action} needs the key {key}")]
    Missing {
        action: &'static str,
        key: &'static str,
    },
    /// A key that this action does not have.
    #[error("action {action} does not take the key {key}")]
    Superfluous {
        action: &'static str,
        key: &'static str,
    },
    /// A status outside 200–599.
    #[error("{0} is not an HTTP status between 200 and 599")]
    Status(u16),
    /// A probability outside 0–1.
    #[error("probability must be between 0 and 1")]
    Probability,
    /// A rate that lets nothing pass, or is no number.
    #[error("per_second must be greater than 0")]
    Rate,
    /// A header that HTTP does not allow.
    #[error("header {0:?} is not one that HTTP allows")]
    Header(String),
    /// The table is full.
    #[error("there are already {} rules", super::MOST_RULES)]
    TooMany,
}

impl Rule {
    /// A rule without conditions: strikes every call, without limit.
    pub fn new(action: Action) -> Self {
        Self {
            name: String::new(),
            server: None,
            method: None,
            path: "*".to_owned(),
            query: None,
            operation: None,
            times: None,
            after: 0,
            probability: 1.0,
            action,
        }
    }

    /// Whether the rule is about this call.
    pub fn means(&self, call: &Call<'_>) -> bool {
        let server = self.server.as_deref();
        let method = self.method.as_deref();
        let query = self.query.as_deref();
        let operation = self.operation.as_deref();
        server.is_none_or(|server| server == call.server)
            && method.is_none_or(|method| method.eq_ignore_ascii_case(call.method))
            && glob::fits(&self.path, call.path)
            && query.is_none_or(|pattern| glob::fits(pattern, call.query))
            && operation.is_none_or(|pattern| glob::fits(pattern, call.operation))
    }

    /// Whether the rule makes sense.
    pub(super) fn check(&self) -> Result<(), RuleError> {
        if !(0.0..=1.0).contains(&self.probability) {
            return Err(RuleError::Probability);
        }
        match &self.action {
            Action::Status { code, .. } | Action::Html { code } if !(200..600).contains(code) => {
                Err(RuleError::Status(*code))
            }
            Action::Status { headers, .. } => {
                let bad = headers.iter().find(|(name, value)| {
                    http::HeaderName::try_from(name.as_str()).is_err()
                        || http::HeaderValue::try_from(value.as_str()).is_err()
                });
                bad.map_or(Ok(()), |(name, _)| Err(RuleError::Header(name.clone())))
            }
            Action::Throttle { per_second } if !(*per_second > 0.0 && per_second.is_finite()) => {
                Err(RuleError::Rate)
            }
            _ => Ok(()),
        }
    }
}

crate::setters! { Rule:
    named(name: &str) |rule| name.clone_into(&mut rule.name);
    /// Only calls to that server.
    server(server: &str) |rule| rule.server = Some(server.to_owned());
    /// Only calls with that method and a path that fits the pattern.
    on(method: &str, path: &str) |rule| {
        rule.method = (method != "*").then(|| method.to_owned());
        path.clone_into(&mut rule.path);
    };
    /// Only queries that fit the pattern.
    query(pattern: &str) |rule| rule.query = Some(pattern.to_owned());
    /// Only calls that the API itself names so.
    operation(operation: &str) |rule| rule.operation = Some(operation.to_owned());
    /// Only so many calls.
    times(times: u64) |rule| rule.times = Some(times);
    /// Only after so many of the meant calls have passed.
    after(calls: u64) |rule| rule.after = calls;
    /// Only with that chance.
    probability(probability: f64) |rule| rule.probability = probability;
}
