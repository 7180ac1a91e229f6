//! Health monitors of pools.

use serde::Deserialize;
use uuid::Uuid;

use super::resource::{Resource, or_default, stub};

#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub(crate) struct Monitor {
    pub(crate) uuid: Uuid,
    #[serde(default, deserialize_with = "stub")]
    pub(crate) pool: Option<Uuid>,
    #[serde(default, deserialize_with = "or_default")]
    pub(crate) delay_s: i64,
    #[serde(default, deserialize_with = "or_default")]
    pub(crate) timeout_s: i64,
    #[serde(default, deserialize_with = "or_default")]
    pub(crate) up_threshold: i64,
    #[serde(default, deserialize_with = "or_default")]
    pub(crate) down_threshold: i64,
    #[serde(default, rename = "type", deserialize_with = "or_default")]
    pub(crate) kind: String,
    /// Null for types other than `http` and `https`.
    #[serde(default)]
    pub(crate) http: Option<SeenHttp>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub(crate) struct SeenHttp {
    #[serde(default, deserialize_with = "or_default")]
    pub(crate) expected_codes: Vec<String>,
    #[serde(default, deserialize_with = "or_default")]
    pub(crate) method: String,
    #[serde(default, deserialize_with = "or_default")]
    pub(crate) url_path: String,
    #[serde(default)]
    pub(crate) version: Option<String>,
    #[serde(default)]
    pub(crate) host: Option<String>,
}

impl Resource for Monitor {
    const KIND: &'static str = "health monitor";
}
