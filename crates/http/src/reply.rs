//! A successful answer and what can be read from it.

use std::collections::BTreeMap;
use std::fmt;

use bowline_core::CloudErrorKind;
use bytes::Bytes;
use http::{HeaderMap, Method};
use serde::de::DeserializeOwned;
use serde_json::Value;
use serde_json::value::RawValue;

use crate::error::{CallError, Cause, Failure};
use crate::redact::Redactor;

/// What a message says about a call: who was asked what.
#[derive(Clone)]
pub(crate) struct Subject {
    pub(crate) cloud: String,
    pub(crate) method: Method,
    pub(crate) route: String,
    pub(crate) redactor: Redactor,
}

impl Subject {
    pub(crate) fn says(&self, what: &str) -> String {
        let Self {
            cloud,
            method,
            route,
            redactor,
        } = self;
        redactor.text(&format!("{cloud}: {method} {route} {what}"))
    }
}

/// An answer of the 200s, read to its end.
#[derive(Clone)]
pub struct Reply {
    pub(crate) subject: Subject,
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

/// One item of a list that could not be read; the others are not concerned.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("item {position} of the list cannot be read: {reason}")]
pub struct BadItem {
    /// Counted from 0.
    pub position: usize,
    /// What is wrong with it.
    pub reason: String,
    /// Its `id`, `uuid` or `name`, if it has one, to tell which it is.
    pub object: Option<String>,
}

impl Reply {
    /// The HTTP status.
    pub fn status(&self) -> u16 {
        self.status
    }

    /// A header. Not redacted.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }

    /// All headers (`Set-Cookie` may come several times). Not redacted.
    pub fn headers(&self) -> &HeaderMap {
        &self.headers
    }

    /// The body as it came. Not redacted.
    pub fn bytes(&self) -> &Bytes {
        &self.body
    }

    /// The body as JSON. Fields that `T` does not know are ignored.
    pub fn json<T: DeserializeOwned>(&self) -> Result<T, CallError> {
        serde_json::from_slice(&self.body).map_err(|error| self.not_understood(&error))
    }

    /// The body as a JSON list, item by item: one that cannot be read is one error.
    pub fn items<T: DeserializeOwned>(&self) -> Result<Vec<Result<T, BadItem>>, CallError> {
        Ok(self.each::<T, _>(&self.raw()?))
    }

    /// The body as a JSON list, each item as the text that it is.
    pub fn texts(&self) -> Result<Vec<&str>, CallError> {
        Ok(self.raw()?.into_iter().map(RawValue::get).collect())
    }

    fn raw(&self) -> Result<Vec<&RawValue>, CallError> {
        serde_json::from_slice(&self.body).map_err(|error| self.not_understood(&error))
    }

    /// The same for a list under a key of an object (`{"instances": […]}`) where a server leaves out empty lists: a
    /// missing key, or null, is one. The body must be an object all the same.
    pub fn items_if_any<T, C>(&self, key: &str) -> Result<C, CallError>
    where
        T: DeserializeOwned,
        C: FromIterator<Result<T, BadItem>>,
    {
        let list = match self.under(key)?.map(RawValue::get) {
            None | Some("null") => return Ok(C::from_iter([])),
            Some(list) => list,
        };
        match serde_json::from_str::<Vec<&RawValue>>(list) {
            Ok(items) => Ok(self.each::<T, _>(&items)),
            Err(_) => Err(self.not_understood(&format!("there is no list under {key}"))),
        }
    }

    fn under(&self, key: &str) -> Result<Option<&RawValue>, CallError> {
        let object: BTreeMap<String, &RawValue> =
            serde_json::from_slice(&self.body).map_err(|error| self.not_understood(&error))?;
        Ok(object.get(key).copied())
    }

    /// Reads each item from the text itself: a tree of a whole list takes many times its size.
    fn each<T, C>(&self, items: &[&RawValue]) -> C
    where
        T: DeserializeOwned,
        C: FromIterator<Result<T, BadItem>>,
    {
        let numbered = items.iter().enumerate();
        let read = numbered.map(|(position, item)| {
            serde_json::from_str(item.get()).map_err(|error| BadItem {
                position,
                reason: self.subject.redactor.text(&error.to_string()),
                object: name_of(item.get()),
            })
        });
        read.collect()
    }

    pub(crate) fn not_understood(&self, reason: &dyn fmt::Display) -> CallError {
        let redactor = &self.subject.redactor;
        let shown = redactor.body(&self.body);
        let what = format!(
            "answered {} with what is not understood: {shown}",
            self.status
        );
        CallError::new(Failure {
            kind: CloudErrorKind::Unknown,
            message: self.subject.says(&what),
            cause: Some(Cause(redactor.text(&reason.to_string()))),
            status: Some(self.status),
            headers: self.headers.clone(),
            body: self.body.clone(),
            hint: None,
        })
    }
}

/// What an item calls itself, if it can be read that far.
fn name_of(item: &str) -> Option<String> {
    let item: Value = serde_json::from_str(item).ok()?;
    let mut names = ["id", "uuid", "name"]
        .iter()
        .filter_map(|key| item.get(*key)?.as_str());
    names.next().map(ToOwned::to_owned)
}

impl fmt::Debug for Reply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let redactor = &self.subject.redactor;
        f.debug_struct("Reply")
            .field("to", &self.subject.says(""))
            .field("status", &self.status)
            .field("headers", &redactor.headers(&self.headers))
            .field("body", &redactor.body(&self.body))
            .finish()
    }
}
