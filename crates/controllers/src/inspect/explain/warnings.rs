//! The Warning events about an object: what the manager refused or held back, and why.

use std::fmt;

use k8s_openapi::api::core::v1::{Event, ObjectReference};
use kube::Api;
use kube::api::ListParams;
use serde_json::{Value, json};

use super::{ExplainError, unread};

/// What stands before each of them in a text.
const INDENT: &str = "\n  ";

/// The Warning events about some objects that the API server still has: those of about an hour.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Warnings {
    all: Vec<Warning>,
    /// Why there may be more, if they could not be read.
    unread: Option<String>,
}

/// One of them.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Warning {
    /// `Kind/name`.
    about: String,
    reason: String,
    message: String,
    count: i32,
}

impl Warnings {
    /// Reads those about these objects. That they cannot be read is part of the answer: the rest of an explanation
    /// does not need them.
    pub(super) async fn about(client: &kube::Client, objects: &[ObjectReference]) -> Self {
        let mut warnings = Self::default();
        for object in objects {
            match read(client, object).await {
                Ok(read) => warnings.all.extend(read),
                Err(error) => warnings.lack(&error),
            }
        }
        warnings
    }

    pub(super) fn extend(&mut self, more: Self) {
        self.all.extend(more.all);
        self.unread = self.unread.take().or(more.unread);
    }

    /// There may be more that could not be read.
    pub(super) fn lack(&mut self, why: &ExplainError) {
        self.unread = Some(why.to_string());
    }

    /// Only those whose message has that text in it.
    pub(super) fn naming(mut self, text: &str) -> Self {
        self.all.retain(|warning| warning.message.contains(text));
        self
    }

    /// Whether there are any.
    pub(super) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// For programs.
    pub(super) fn json(&self) -> Value {
        let all = self.all.iter().map(|warning| {
            json!({
                "about": warning.about,
                "reason": warning.reason,
                "message": warning.message,
                "count": warning.count,
            })
        });
        all.collect()
    }
}

async fn read(
    client: &kube::Client,
    object: &ObjectReference,
) -> Result<Vec<Warning>, ExplainError> {
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    let (kind, name) = (text(&object.kind), text(&object.name));
    let about = format!("{kind}/{name}");
    // Events about what has no namespace are in this one.
    let namespace = object.namespace.as_deref().unwrap_or("default");
    let selector = format!("involvedObject.kind={kind},involvedObject.name={name},type=Warning");
    let api: Api<Event> = Api::namespaced(client.clone(), namespace);
    let read = api.list(&ListParams::default().fields(&selector)).await;
    let mut events = read
        .map_err(unread(format!("the events of {about}")))?
        .items;
    events.sort_by_key(|event| event.last_timestamp.as_ref().map(|time| time.0));
    let warning = |event: Event| Warning {
        about: about.clone(),
        reason: event.reason.unwrap_or_default(),
        message: event.message.unwrap_or_default(),
        count: event.count.unwrap_or(1),
    };
    Ok(events.into_iter().map(warning).collect())
}

/// A section of its own; nothing, if there is nothing to say.
impl fmt::Display for Warnings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_empty() && self.unread.is_none() {
            return Ok(());
        }
        f.write_str("\nWarnings of the last hour")?;
        for warning in &self.all {
            let Warning {
                about,
                reason,
                message,
                count,
            } = warning;
            write!(f, "{INDENT}{about}: {reason}: {message}")?;
            if *count > 1 {
                write!(f, " ({count} times)")?;
            }
        }
        match &self.unread {
            Some(why) => write!(f, "{INDENT}not all are shown: {why}"),
            None => Ok(()),
        }
    }
}
