//! What the handles of simulated clouds share: errors, faults of fixtures, and bodies over HTTP.

use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::World;
use crate::faults::{RawRule, Rule};

/// Something that cannot be done to a simulated cloud.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("cannot {task} {object}: {reason}")]
pub struct HandleError {
    /// What was tried.
    pub task: &'static str,
    pub object: String,
    /// Why not.
    pub reason: String,
}

impl HandleError {
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
}

/// Adds the faults of a fixture: those of `server`, where they name none.
pub fn add_faults(world: &World, server: &str, faults: &[RawRule]) -> Result<(), HandleError> {
    for raw in faults {
        let failed = |error| HandleError::new("add the fault", &format!("{:?}", raw.name), error);
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
