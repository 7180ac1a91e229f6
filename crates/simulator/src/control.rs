//! The control handle of a simulated server: what tests, `bowline sandbox` and people do to it behind
//! the back of its API. Here is what those of all servers share: errors, the parts of fixtures, and
//! verbs over HTTP.

mod http;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::World;
use crate::faults::{RawRule, Rule};

pub(crate) use http::{answer, is_control};

/// The part of the control handle over HTTP that belongs to one server alone. The serving layer
/// answers what all servers share (faults, journal) itself.
pub trait Control: Send + Sync {
    /// Everything there is, for `GET /_sim/state`.
    fn state(&self) -> Value;

    /// `POST /_sim/<verb>` with a JSON body.
    fn carry_out(&self, verb: &str, body: &Value) -> Result<Value, String>;

    /// Forgets everything and loads the fixture again, for `POST /_sim/reset`.
    fn reset(&self) -> ControlResult {
        Ok(())
    }
}

/// Something that cannot be done to a simulated cloud.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("cannot {task} {object}: {reason}")]
pub struct ControlError {
    /// What was tried.
    pub task: &'static str,
    pub object: String,
    /// Why not.
    pub reason: String,
}

/// What can be done to a simulated cloud, or why not.
pub type ControlResult<T = ()> = Result<T, ControlError>;

impl ControlError {
    /// That task cannot be done to that object.
    #[allow(
        clippy::needless_pass_by_value,
        reason = "a word, a text or an error, whatever is at hand"
    )]
    pub fn new(task: &'static str, object: &str, reason: impl ToString) -> Self {
        Self {
            task,
            object: object.to_owned(),
            reason: reason.to_string(),
        }
    }

    /// That task needs something of that kind, which is not there.
    pub fn unknown(task: &'static str, kind: &str, name: &str) -> Self {
        let reason = "there is none of that id, nor exactly one of that name";
        Self::new(task, &format!("the {kind} {name:?}"), reason)
    }
}

/// The one of that id, else the only one of that name.
pub fn by_id_or_name<T>(
    all: impl Iterator<Item = T> + Clone,
    wanted: &str,
    id: impl Fn(&T) -> &str,
    name: impl Fn(&T) -> &str,
) -> Option<T> {
    let mut named = all.clone().filter(|it| name(it) == wanted);
    let only = || named.next().filter(|_| named.next().is_none());
    all.into_iter().find(|it| id(it) == wanted).or_else(only)
}

/// Adds all that a fixture lists of one kind.
pub fn add_all<S, T>(specs: &[S], add: impl Fn(&S) -> ControlResult<T>) -> ControlResult {
    specs.iter().try_for_each(|spec| add(spec).map(|_| ()))
}

/// Adds the faults of a fixture: those of `server`, where they name none.
pub fn add_faults(world: &World, server: &str, faults: &[RawRule]) -> ControlResult {
    for raw in faults {
        let failed = |error| ControlError::new("add the fault", &format!("{:?}", raw.name), error);
        let mut rule = Rule::try_from(raw.clone()).map_err(failed)?;
        rule.server.get_or_insert_with(|| server.to_owned());
        world.faults.add(rule).map_err(failed)?;
    }
    Ok(())
}

/// A body of the control handle; serde's message names what is allowed.
pub fn read_body<T: DeserializeOwned>(body: &Value) -> Result<T, String> {
    T::deserialize(body).map_err(|error| error.to_string())
}

/// The bodies of verbs.
#[macro_export]
macro_rules! bodies {
    ($($name:ident { $($(#[$attribute:meta])* $field:ident: $kind:ty),* })*) => {
        $(
            #[derive(serde::Deserialize)]
            #[serde(deny_unknown_fields)]
            struct $name { $($(#[$attribute])* $field: $kind),* }
        )*
    };
}

/// What a verb without an answer comes to.
pub trait Done {
    fn done(self) -> Result<(), String>;
}

impl Done for () {
    fn done(self) -> Result<(), String> {
        Ok(())
    }
}

impl<E: ToString> Done for Result<(), E> {
    fn done(self) -> Result<(), String> {
        self.map_err(|error| error.to_string())
    }
}

/// Carries out a verb that answers nothing.
pub fn done<B: DeserializeOwned, R: Done>(
    body: &Value,
    work: impl FnOnce(B) -> R,
) -> Result<Value, String> {
    work(read_body(body)?).done()?;
    Ok(json!({}))
}

/// Carries out a verb that answers with what it added.
pub fn added<B: DeserializeOwned, T: Serialize>(
    body: &Value,
    work: impl FnOnce(B) -> ControlResult<T>,
) -> Result<Value, String> {
    let added = work(read_body(body)?).map_err(|error| error.to_string())?;
    Ok(json!({ "added": added }))
}
