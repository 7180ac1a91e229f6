//! What all resources have in common: tolerant reading, and lists whose bad items are one error
//! each.

#[cfg(test)]
mod tests;

use bowline_core::{CloudError, CloudErrorKind};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer};
use serde_json::Value;
use thiserror::Error;
use uuid::Uuid;

pub(crate) trait Resource: DeserializeOwned {
    /// What it is, in the API's words.
    const KIND: &'static str;
}

#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{kind} {} of the API cannot be read: {reason}", self.called())]
pub(crate) struct BadItem {
    kind: &'static str,
    pub(crate) uuid: Option<Uuid>,
    pub(crate) name: Option<String>,
    pub(crate) load_balancer: Option<Uuid>,
    reason: String,
}

impl BadItem {
    fn new(kind: &'static str, text: &str, reason: String) -> Self {
        let value: Value = serde_json::from_str(text).unwrap_or_default();
        let uuid = |value: Option<&Value>| Uuid::try_parse(value?.as_str()?).ok();
        Self {
            kind,
            uuid: uuid(value.get("uuid")),
            name: value.get("name").and_then(Value::as_str).map(str::to_owned),
            load_balancer: uuid(value.pointer("/load_balancer/uuid")),
            reason,
        }
    }

    fn called(&self) -> String {
        match (&self.uuid, &self.name) {
            (Some(uuid), _) => uuid.to_string(),
            (None, Some(name)) => format!("{name:?}"),
            (None, None) => "without a uuid".to_owned(),
        }
    }

    pub(crate) fn may_belong_to(&self, load_balancer: Uuid) -> bool {
        self.load_balancer.is_none_or(|it| it == load_balancer)
    }
}

impl From<&BadItem> for CloudError {
    fn from(bad: &BadItem) -> Self {
        CloudError::new(CloudErrorKind::Unknown, bad.to_string())
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Listing<T> {
    pub(crate) items: Vec<T>,
    pub(crate) bad: Vec<BadItem>,
}

impl<T: Resource> Listing<T> {
    pub(crate) fn read(texts: &[&str]) -> Self {
        let (mut items, mut bad) = (Vec::with_capacity(texts.len()), Vec::new());
        for text in texts {
            match read(text) {
                Ok(item) => items.push(item),
                Err(item) => bad.push(item),
            }
        }
        Self { items, bad }
    }
}

pub(crate) fn read<T: Resource>(text: &str) -> Result<T, BadItem> {
    let read = serde_json::from_str(text);
    read.map_err(|error| BadItem::new(T::KIND, text, error.to_string()))
}

/// What is missing or null has its default.
pub(crate) fn or_default<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de> + Default,
{
    Ok(Option::<T>::deserialize(deserializer)?.unwrap_or_default())
}

/// The uuid of an object that is shown by its stub; none if it is null.
pub(crate) fn stub<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Uuid>, D::Error> {
    #[derive(Deserialize)]
    struct Stub {
        uuid: Option<Uuid>,
    }
    let stub: Option<Stub> = Deserialize::deserialize(deserializer)?;
    Ok(stub.and_then(|stub| stub.uuid))
}

pub(crate) fn slug<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    #[derive(Deserialize)]
    struct Stub {
        slug: Option<String>,
    }
    let stub: Option<Stub> = Deserialize::deserialize(deserializer)?;
    Ok(stub.and_then(|stub| stub.slug).unwrap_or_default())
}
