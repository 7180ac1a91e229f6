//! Fault rules as people write them: YAML fixtures and `POST /_sim/faults`.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use super::rule::{Action, Rule, RuleError};

/// The names of all actions, for messages.
pub(super) const ACTIONS: &str = "status, events, delay, reset, lost-answer, truncated, twice, empty-list, without, html, hang, silence, stale-list, throttle, cut-stream";

/// A rule as people write it: flat, with an action by name and the keys of that action.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct RawRule {
    /// See [`Rule::name`].
    pub name: String,
    /// See [`Rule::server`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server: Option<String>,
    /// See [`Rule::method`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub method: Option<String>,
    /// See [`Rule::path`]; any if left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// See [`Rule::query`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub query: Option<String>,
    /// See [`Rule::operation`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub operation: Option<String>,
    /// A number, or `unlimited` (also if left out).
    pub times: Times,
    /// See [`Rule::after`].
    pub after: u64,
    /// See [`Rule::probability`]; 1 if left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub probability: Option<f64>,
    /// One of the actions by name.
    pub action: String,
    /// For `status` and `html`: the status.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub code: Option<u16>,
    /// For `status`: further headers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub headers: Option<BTreeMap<String, String>>,
    /// For `status`: the body.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub body: Option<serde_json::Value>,
    /// For `events`: them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub events: Option<Vec<serde_json::Value>>,
    /// For `without`: the name of what the answer lacks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub member: Option<String>,
    /// For `delay`: `500ms`, or a range `1s..3s`. For `cut-stream`: when.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delay: Option<Span>,
    /// For `stale-list`: how old.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub age: Option<Span>,
    /// For `throttle`: calls per second.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub per_second: Option<f64>,
}

impl TryFrom<RawRule> for Rule {
    type Error = RuleError;

    fn try_from(raw: RawRule) -> Result<Self, RuleError> {
        let action = raw.action()?;
        let rule = Self {
            name: raw.name,
            server: raw.server,
            method: raw.method,
            path: raw.path.unwrap_or_else(|| "*".to_owned()),
            query: raw.query,
            operation: raw.operation,
            times: raw.times.0,
            after: raw.after,
            probability: raw.probability.unwrap_or(1.0),
            action,
        };
        rule.check()?;
        Ok(rule)
    }
}

impl RawRule {
    fn action(&self) -> Result<Action, RuleError> {
        let (name, keys): (&'static str, &[&str]) = match self.action.as_str() {
            "status" => ("status", &["code", "headers", "body"]),
            "events" => ("events", &["events"]),
            "delay" => ("delay", &["delay"]),
            "reset" => ("reset", &[]),
            "lost-answer" => ("lost-answer", &[]),
            "truncated" => ("truncated", &[]),
            "twice" => ("twice", &[]),
            "empty-list" => ("empty-list", &[]),
            "without" => ("without", &["member"]),
            "html" => ("html", &["code"]),
            "hang" => ("hang", &[]),
            "silence" => ("silence", &[]),
            "stale-list" => ("stale-list", &["age"]),
            "throttle" => ("throttle", &["per_second"]),
            "cut-stream" => ("cut-stream", &["delay"]),
            other => return Err(RuleError::UnknownAction(other.to_owned())),
        };
        let given = [
            ("code", self.code.is_some()),
            ("headers", self.headers.is_some()),
            ("body", self.body.is_some()),
            ("events", self.events.is_some()),
            ("member", self.member.is_some()),
            ("delay", self.delay.is_some()),
            ("age", self.age.is_some()),
            ("per_second", self.per_second.is_some()),
        ];
        if let Some((key, _)) = given.iter().find(|(key, is)| *is && !keys.contains(key)) {
            return Err(RuleError::Superfluous { action: name, key });
        }
        let missing = |key| RuleError::Missing { action: name, key };
        Ok(match name {
            "status" => Action::Status {
                code: self.code.ok_or_else(|| missing("code"))?,
                headers: self.headers.clone().unwrap_or_default(),
                body: self.body.clone(),
            },
            "events" => Action::Events {
                events: self.events.clone().ok_or_else(|| missing("events"))?,
            },
            "delay" => {
                let span = self.delay.ok_or_else(|| missing("delay"))?;
                Action::Delay {
                    least: span.least,
                    most: span.most,
                }
            }
            "reset" => Action::Reset,
            "lost-answer" => Action::LostAnswer,
            "truncated" => Action::Truncated,
            "twice" => Action::Twice,
            "empty-list" => Action::EmptyList,
            "without" => Action::Without {
                member: self.member.clone().ok_or_else(|| missing("member"))?,
            },
            "html" => Action::Html {
                code: self.code.unwrap_or(502),
            },
            "hang" => Action::Hang,
            "silence" => Action::Silence,
            "stale-list" => Action::StaleList {
                age: self.age.ok_or_else(|| missing("age"))?.least,
            },
            "throttle" => Action::Throttle {
                per_second: self.per_second.ok_or_else(|| missing("per_second"))?,
            },
            _ => Action::CutStream {
                after: self.delay.ok_or_else(|| missing("delay"))?.least,
            },
        })
    }
}

impl From<&Rule> for RawRule {
    fn from(rule: &Rule) -> Self {
        let mut raw = Self {
            name: rule.name.clone(),
            server: rule.server.clone(),
            method: rule.method.clone(),
            path: Some(rule.path.clone()),
            query: rule.query.clone(),
            operation: rule.operation.clone(),
            times: Times(rule.times),
            after: rule.after,
            probability: Some(rule.probability),
            ..Self::default()
        };
        let action = match &rule.action {
            Action::Status {
                code,
                headers,
                body,
            } => {
                raw.code = Some(*code);
                raw.headers = (!headers.is_empty()).then(|| headers.clone());
                raw.body.clone_from(body);
                "status"
            }
            Action::Events { events } => {
                raw.events = Some(events.clone());
                "events"
            }
            Action::Delay { least, most } => {
                raw.delay = Some(Span {
                    least: *least,
                    most: *most,
                });
                "delay"
            }
            Action::Reset => "reset",
            Action::LostAnswer => "lost-answer",
            Action::Truncated => "truncated",
            Action::Twice => "twice",
            Action::EmptyList => "empty-list",
            Action::Without { member } => {
                raw.member = Some(member.clone());
                "without"
            }
            Action::Html { code } => {
                raw.code = Some(*code);
                "html"
            }
            Action::Hang => "hang",
            Action::Silence => "silence",
            Action::StaleList { age } => {
                raw.age = Some(Span::exactly(*age));
                "stale-list"
            }
            Action::Throttle { per_second } => {
                raw.per_second = Some(*per_second);
                "throttle"
            }
            Action::CutStream { after } => {
                raw.delay = Some(Span::exactly(*after));
                "cut-stream"
            }
        };
        action.clone_into(&mut raw.action);
        raw
    }
}

/// How often a rule strikes: a number, or `unlimited`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Times(pub Option<u64>);

impl Serialize for Times {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            Some(times) => serializer.serialize_u64(times),
            None => serializer.serialize_str("unlimited"),
        }
    }
}

impl<'de> Deserialize<'de> for Times {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl de::Visitor<'_> for Visitor {
            type Value = Times;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a whole number or \"unlimited\"")
            }

            fn visit_u64<E: de::Error>(self, value: u64) -> Result<Times, E> {
                Ok(Times(Some(value)))
            }

            fn visit_i64<E: de::Error>(self, value: i64) -> Result<Times, E> {
                let value = u64::try_from(value);
                value
                    .map(|value| Times(Some(value)))
                    .map_err(|_| E::custom("a number of times cannot be negative"))
            }

            fn visit_str<E: de::Error>(self, value: &str) -> Result<Times, E> {
                if value == "unlimited" {
                    Ok(Times(None))
                } else {
                    Err(E::invalid_value(de::Unexpected::Str(value), &self))
                }
            }
        }
        deserializer.deserialize_any(Visitor)
    }
}

/// A length of time (`2s`, `500ms`, `1m 30s`) or a range of them (`1s..3s`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    pub least: Duration,
    pub most: Duration,
}

impl Span {
    /// No range.
    pub fn exactly(duration: Duration) -> Self {
        Self {
            least: duration,
            most: duration,
        }
    }
}

impl std::str::FromStr for Span {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let one = |text: &str| {
            let parsed = text.trim().parse::<jiff::SignedDuration>().ok();
            let parsed = parsed.and_then(|duration| Duration::try_from(duration).ok());
            parsed.ok_or_else(|| {
                format!("{text:?} is not a length of time such as 500ms, 2s, 1m 30s or 1s..3s")
            })
        };
        let (least, most) = match text.split_once("..") {
            Some((least, most)) => (one(least)?, one(most)?),
            None => (one(text)?, one(text)?),
        };
        if most < least {
            return Err(format!("the range {text:?} ends before it begins"));
        }
        Ok(Self { least, most })
    }
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let signed =
            |d: Duration| jiff::SignedDuration::try_from(d).unwrap_or(jiff::SignedDuration::MAX);
        write!(f, "{:#}", signed(self.least))?;
        if self.most > self.least {
            write!(f, "..{:#}", signed(self.most))?;
        }
        Ok(())
    }
}

impl Serialize for Span {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Span {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(de::Error::custom)
    }
}
