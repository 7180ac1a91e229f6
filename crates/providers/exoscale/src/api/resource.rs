//! What all answers have in common: tolerant reading, and lists whose bad items are one error each.

use std::net::IpAddr;

use bowline_http::BadItem;
use serde::de::{DeserializeOwned, Error as _};
use serde::{Deserialize, Deserializer};
use serde_json::Value;
use uuid::Uuid;

/// All items of a list, and those that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Listing<T> {
    pub(crate) items: Vec<T>,
    pub(crate) bad: Vec<BadItem>,
}

impl<T> Default for Listing<T> {
    fn default() -> Self {
        Self {
            items: Vec::new(),
            bad: Vec::new(),
        }
    }
}

impl<T> FromIterator<Result<T, BadItem>> for Listing<T> {
    fn from_iter<I: IntoIterator<Item = Result<T, BadItem>>>(read: I) -> Self {
        let read = read.into_iter();
        let mut listing = Self {
            items: Vec::with_capacity(read.size_hint().0),
            bad: Vec::new(),
        };
        for item in read {
            match item {
                Ok(item) => listing.items.push(item),
                Err(bad) => listing.bad.push(bad),
            }
        }
        listing
    }
}

/// A list inside an object, item by item; missing and null are empty.
pub(super) fn listing<'de, D, T>(deserializer: D) -> Result<Listing<T>, D::Error>
where
    D: Deserializer<'de>,
    T: DeserializeOwned,
{
    let values = Option::<Vec<Value>>::deserialize(deserializer)?.unwrap_or_default();
    let read = values.into_iter().enumerate().map(|(position, value)| {
        T::deserialize(&value).map_err(|error| BadItem {
            position,
            reason: error.to_string(),
            object: ["id", "name"]
                .iter()
                .find_map(|key| value.get(*key)?.as_str().map(str::to_owned)),
        })
    });
    Ok(read.collect())
}

/// What is missing or null has its default.
pub(super) fn or_default<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de> + Default,
{
    Ok(Option::<T>::deserialize(deserializer)?.unwrap_or_default())
}

/// The id of an object that is shown by it alone (`{"id": …}`), whatever else it shows.
pub(super) fn reference<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<Uuid>, D::Error> {
    #[derive(Deserialize)]
    struct Stub {
        id: Option<Uuid>,
    }
    let stub = Option::<Stub>::deserialize(deserializer)?;
    Ok(stub.and_then(|stub| stub.id))
}

/// The ids of objects that are shown by them alone.
pub(super) fn references<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Vec<Option<Uuid>>, D::Error> {
    #[derive(Deserialize)]
    struct Stub {
        #[serde(default)]
        id: Option<Uuid>,
    }
    let stubs = Option::<Vec<Option<Stub>>>::deserialize(deserializer)?.unwrap_or_default();
    Ok(stubs
        .into_iter()
        .map(|stub| stub.and_then(|stub| stub.id))
        .collect())
}

/// An address; missing, null and empty are none.
pub(super) fn address<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<IpAddr>, D::Error> {
    let text = Option::<String>::deserialize(deserializer)?.unwrap_or_default();
    if text.is_empty() {
        return Ok(None);
    }
    let wrong = |_| D::Error::custom(format!("{text:?} is not an IP address"));
    text.parse().map(Some).map_err(wrong)
}
