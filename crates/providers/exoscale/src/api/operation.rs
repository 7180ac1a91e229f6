//! Operations: what the API answers to every write. The write itself is done some time later.

use bowline_core::CloudError;
use bowline_http::Route;
use serde::{Deserialize, Deserializer};
use uuid::Uuid;

use super::Api;

const OPERATION: &str = "operation/:id";

/// An operation, as the API shows it. What became of it is [`crate::operation`]'s matter.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub(crate) struct Operation {
    pub(crate) id: Option<Uuid>,
    #[serde(deserialize_with = "state")]
    pub(crate) state: OperationState,
    /// Why it failed, in one of the API's words.
    pub(crate) reason: Option<String>,
    /// The same for people.
    pub(crate) message: Option<String>,
    /// What it is about, if the answer has it. For services of a load balancer this is the load
    /// balancer.
    pub(crate) reference: Option<OperationReference>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub(crate) struct OperationReference {
    pub(crate) id: Option<Uuid>,
    pub(crate) link: Option<String>,
    /// The name of the call that reads it.
    pub(crate) command: Option<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum OperationState {
    Pending,
    Success,
    Failure,
    Timeout,
    #[default]
    Missing,
    /// Something newer than this program.
    Other(String),
}

impl Operation {
    pub(crate) fn subject(&self) -> Option<Uuid> {
        self.reference.as_ref()?.id
    }
}

impl Api {
    pub(crate) async fn operation(&self, id: Uuid) -> Result<Operation, CloudError> {
        self.read(Route::new(OPERATION).with("id", id.to_string()))
            .await
    }
}

fn state<'de, D: Deserializer<'de>>(deserializer: D) -> Result<OperationState, D::Error> {
    let text = Option::<String>::deserialize(deserializer)?;
    Ok(match text.as_deref() {
        None => OperationState::Missing,
        Some("pending") => OperationState::Pending,
        Some("success") => OperationState::Success,
        Some("failure") => OperationState::Failure,
        Some("timeout") => OperationState::Timeout,
        Some(other) => OperationState::Other(other.to_owned()),
    })
}
