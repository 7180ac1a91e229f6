//! Faults: what is made to go wrong, at the level of whole calls.
//!
//! A fault is a named rule: which calls it means, how often it strikes, and what it does to them.
//! The serving layer asks about every call; an API asks only about stale lists.

mod rule;
#[cfg(test)]
mod tests;
mod written;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bowline_http::Random;
use serde_json::json;
use tokio::sync::watch;
use tokio::time::Instant;

pub use rule::{Action, Rule, RuleError};
pub use written::{RawRule, Span, Times};

/// Rules that may stand at once: a fault script is written by people, and each call tries all.
pub const MOST_RULES: usize = 1_000;

/// The name in the journal of the switch that makes all reads fail.
pub const READS_FAIL: &str = "reads-fail";

/// What a rule looks at.
#[derive(Clone, Copy, Debug)]
pub struct Call<'a> {
    /// The server's name.
    pub server: &'a str,
    /// HTTP method, in capitals.
    pub method: &'a str,
    /// Path without the query.
    pub path: &'a str,
    /// Query without the question mark.
    pub query: &'a str,
    /// The API's own name of the call; empty if it has none.
    pub operation: &'a str,
}

/// What happens to one call.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Strike {
    /// How long it waits before anything else.
    pub delay: Duration,
    /// What becomes of it; none means that it is answered normally.
    pub fate: Option<Fate>,
    /// The rule that decided, or the first that delayed; empty if none did.
    pub rule: String,
}

/// What becomes of a call that does not simply succeed.
#[derive(Clone, Debug, PartialEq)]
pub enum Fate {
    /// This answer instead of the API's.
    Answer {
        code: u16,
        headers: Vec<(String, String)>,
        /// The body; none means an error body in the API's own form.
        body: Option<FaultBody>,
    },
    /// The connection is cut before the API hears of the call.
    Reset,
    /// The API does what it was asked to, and then the connection is cut.
    LostAnswer,
    /// The API does what it was asked to, and no answer ever comes.
    Silence,
    /// The API does what it was asked to, and the first half of its answer is sent.
    Truncated,
    /// The API does what it was asked to, and then once more.
    Twice,
    /// Lists in the API's answer are empty.
    EmptyList,
    /// Lists are answered as they were that long ago.
    StaleList(Duration),
    /// The API does what it was asked to, and its answer lacks every member of that name.
    Without(String),
    /// No answer, ever.
    Hang,
    /// A streamed answer is cut after that time.
    CutStream(Duration),
}

/// The body of an answer that a rule gives.
#[derive(Clone, Debug, PartialEq)]
pub enum FaultBody {
    Json(serde_json::Value),
    /// Several documents of JSON, each in a line of its own.
    Lines(Vec<serde_json::Value>),
    /// A page, as a proxy in between would send it.
    Html(String),
    /// As it is written.
    Text(String),
}

/// The shared table of faults.
#[derive(Clone, Debug)]
pub struct Faults(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    table: Mutex<Table>,
    random: Random,
    /// How often all open streams of each server were cut.
    cuts: watch::Sender<BTreeMap<String, u64>>,
    /// Changes when a rule strikes.
    strikes: watch::Sender<()>,
}

#[derive(Debug, Default)]
struct Table {
    rules: Vec<Standing>,
    reads_fail: BTreeSet<String>,
    named: u64,
}

/// A rule and what has come of it so far.
#[derive(Debug)]
struct Standing {
    rule: Rule,
    /// Calls that it meant.
    met: u64,
    /// Calls that it struck.
    struck: u64,
    /// For throttling: calls still allowed, as of that moment.
    allowance: Option<(f64, Instant)>,
}

impl Default for Faults {
    fn default() -> Self {
        Self::new(Random::seeded(0))
    }
}

impl Faults {
    /// No faults yet; probabilities and ranges will be drawn from `random`.
    pub fn new(random: Random) -> Self {
        Self(Arc::new(Shared {
            table: Mutex::default(),
            random,
            cuts: watch::Sender::new(BTreeMap::new()),
            strikes: watch::Sender::new(()),
        }))
    }

    /// Adds a rule and returns its name. A rule of the same name is replaced.
    pub fn add(&self, mut rule: Rule) -> Result<String, RuleError> {
        rule.check()?;
        let mut table = self.lock();
        if rule.name.is_empty() {
            table.named += 1;
            rule.name = format!("fault-{}", table.named);
        }
        table
            .rules
            .retain(|standing| standing.rule.name != rule.name);
        if table.rules.len() >= MOST_RULES {
            return Err(RuleError::TooMany);
        }
        let name = rule.name.clone();
        table.rules.push(Standing {
            rule,
            met: 0,
            struck: 0,
            allowance: None,
        });
        Ok(name)
    }

    /// Removes the rule of that name; false if there is none.
    pub fn remove(&self, name: &str) -> bool {
        let mut table = self.lock();
        let before = table.rules.len();
        table.rules.retain(|standing| standing.rule.name != name);
        table.rules.len() < before
    }

    /// Removes all rules and switches.
    pub fn clear(&self) {
        let mut table = self.lock();
        table.rules.clear();
        table.reads_fail.clear();
    }

    /// The rules, in the order in which they are tried, with how many calls each has struck.
    pub fn rules(&self) -> Vec<(Rule, u64)> {
        let table = self.lock();
        let all = table.rules.iter();
        all.map(|standing| (standing.rule.clone(), standing.struck))
            .collect()
    }

    /// Waits until the rule of that name has struck so many calls; each may still wait for its
    /// delay, and is not in the journal yet.
    pub async fn struck(&self, name: &str, times: u64) {
        let mut strikes = self.0.strikes.subscribe();
        let so_many = |rules: Vec<(Rule, u64)>| {
            let mut rules = rules.into_iter();
            rules.any(|(rule, struck)| rule.name == name && struck >= times)
        };
        while !so_many(self.rules()) {
            // The sender is ours, so there is no error to expect.
            let _ = strikes.changed().await;
        }
    }

    /// The switch "reads fail, everything else works" for one server.
    pub fn fail_reads(&self, server: &str, fail: bool) {
        let mut table = self.lock();
        if fail {
            table.reads_fail.insert(server.to_owned());
        } else {
            table.reads_fail.remove(server);
        }
    }

    /// Cuts all streams (watches) of a server that are open now.
    pub fn cut_streams(&self, server: &str) {
        self.0
            .cuts
            .send_modify(|cuts| *cuts.entry(server.to_owned()).or_default() += 1);
    }

    /// Ends when the streams of that server that are open now are to be cut.
    pub fn cut(&self, server: &str) -> impl Future<Output = ()> + Send + use<> {
        let mut cuts = self.0.cuts.subscribe();
        let server = server.to_owned();
        let before = cuts.borrow().get(&server).copied();
        async move {
            if cuts
                .wait_for(|cuts| cuts.get(&server).copied() != before)
                .await
                .is_err()
            {
                // The table of faults is gone: nobody can cut any more.
                std::future::pending::<()>().await;
            }
        }
    }

    /// Everything as JSON, for `GET /_sim/faults`.
    pub fn to_json(&self) -> serde_json::Value {
        let table = self.lock();
        let rules: Vec<_> = table
            .rules
            .iter()
            .map(|standing| {
                let mut shown =
                    serde_json::to_value(RawRule::from(&standing.rule)).unwrap_or_default();
                shown["struck"] = json!(standing.struck);
                shown
            })
            .collect();
        json!({"reads_fail": table.reads_fail, "rules": rules})
    }

    /// Decides what happens to a call. Delays add up; the first other action decides.
    pub fn strike(&self, call: &Call<'_>) -> Strike {
        let mut strike = Strike::default();
        let mut table = self.lock();
        if matches!(call.method, "GET" | "HEAD") && table.reads_fail.contains(call.server) {
            strike.fate = Some(Fate::answer(500, None));
            READS_FAIL.clone_into(&mut strike.rule);
            return strike;
        }
        for standing in &mut table.rules {
            if !standing.rule.means(call) || !standing.strikes(&self.0.random) {
                continue;
            }
            let fate = match &standing.rule.action {
                Action::Delay { least, most } => {
                    strike.delay += between(*least, *most, &self.0.random);
                    if strike.rule.is_empty() {
                        strike.rule.clone_from(&standing.rule.name);
                    }
                    continue;
                }
                Action::Throttle { per_second } => {
                    let per_second = *per_second;
                    match standing.throttle(per_second) {
                        Some(wait) => Fate::answer(429, Some(wait)),
                        None => continue,
                    }
                }
                other => match Fate::of(other) {
                    Some(fate) => fate,
                    None => continue,
                },
            };
            strike.rule.clone_from(&standing.rule.name);
            strike.fate = Some(fate);
            break;
        }
        drop(table);
        if !strike.rule.is_empty() {
            self.0.strikes.send_replace(());
        }
        strike
    }

    fn lock(&self) -> MutexGuard<'_, Table> {
        self.0.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Standing {
    /// Counts a call that the rule means, and says whether the rule strikes it.
    fn strikes(&mut self, random: &Random) -> bool {
        self.met += 1;
        let strikes = self.met > self.rule.after
            && self.rule.times.is_none_or(|times| self.struck < times)
            // Drawn only when it matters, so that sure rules do not disturb the others' draws.
            && (self.rule.probability >= 1.0 || random.unit() < self.rule.probability);
        self.struck += u64::from(strikes);
        strikes
    }

    /// Takes one call from the allowance, or says how long to wait for the next.
    fn throttle(&mut self, per_second: f64) -> Option<Duration> {
        let now = Instant::now();
        let burst = per_second.max(1.0);
        let (left, since) = self.allowance.unwrap_or((burst, now));
        let left = (left + now.duration_since(since).as_secs_f64() * per_second).min(burst);
        if left >= 1.0 {
            self.allowance = Some((left - 1.0, now));
            // A call that was let through was not struck after all.
            self.struck -= 1;
            None
        } else {
            self.allowance = Some((left, now));
            Some(Duration::from_secs_f64((1.0 - left) / per_second))
        }
    }
}

impl Fate {
    fn answer(code: u16, retry_after: Option<Duration>) -> Self {
        let headers = retry_after.map(|wait| {
            let seconds = wait.as_secs() + u64::from(wait.subsec_nanos() > 0);
            ("retry-after".to_owned(), seconds.to_string())
        });
        Self::Answer {
            code,
            headers: headers.into_iter().collect(),
            body: None,
        }
    }

    /// The fate that an action means by itself.
    fn of(action: &Action) -> Option<Self> {
        Some(match action {
            Action::Status {
                code,
                headers,
                body,
            } => Self::Answer {
                code: *code,
                headers: headers.clone().into_iter().collect(),
                body: body.clone().map(|body| match body {
                    serde_json::Value::String(text) => FaultBody::Text(text),
                    value => FaultBody::Json(value),
                }),
            },
            Action::Events { events } => Self::Answer {
                code: 200,
                headers: Vec::new(),
                body: Some(FaultBody::Lines(events.clone())),
            },
            Action::Html { code } => Self::Answer {
                code: *code,
                headers: Vec::new(),
                body: Some(FaultBody::Html(format!(
                    "<html><head><title>{code}</title></head><body><h1>{code}</h1></body></html>\n"
                ))),
            },
            Action::Reset => Self::Reset,
            Action::LostAnswer => Self::LostAnswer,
            Action::Silence => Self::Silence,
            Action::Truncated => Self::Truncated,
            Action::Twice => Self::Twice,
            Action::EmptyList => Self::EmptyList,
            Action::Without { member } => Self::Without(member.clone()),
            Action::Hang => Self::Hang,
            Action::CutStream { after } => Self::CutStream(*after),
            Action::StaleList { age } => Self::StaleList(*age),
            Action::Delay { .. } | Action::Throttle { .. } => return None,
        })
    }
}

fn between(least: Duration, most: Duration, random: &Random) -> Duration {
    if most > least {
        least + most.saturating_sub(least).mul_f64(random.unit())
    } else {
        least
    }
}
