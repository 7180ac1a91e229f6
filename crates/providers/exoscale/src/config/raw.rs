//! The cloud config file as it is written: every key may be missing or null, unknown keys mean
//! nothing, and only the first document counts.

use bowline_core::Secret;
use bowline_provider::{first_document, first_line};
use serde::{Deserialize, Deserializer};

use super::ConfigError;

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct RawConfig {
    #[serde(deserialize_with = "or_default")]
    pub(super) global: RawGlobal,
    #[serde(deserialize_with = "or_default")]
    pub(super) instances: RawInstances,
    #[serde(rename = "loadBalancer", deserialize_with = "or_default")]
    pub(super) load_balancer: RawLoadBalancer,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct RawGlobal {
    #[serde(deserialize_with = "or_default")]
    pub(super) api_key: String,
    #[serde(deserialize_with = "secret")]
    pub(super) api_secret: Option<Secret>,
    #[serde(deserialize_with = "or_default")]
    pub(super) api_credentials_file: String,
    #[serde(deserialize_with = "or_default")]
    pub(super) api_endpoint: String,
    #[serde(deserialize_with = "or_default")]
    pub(super) api_environment: String,
    #[serde(deserialize_with = "or_default")]
    pub(super) zone: String,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct RawInstances {
    #[serde(deserialize_with = "or_default")]
    pub(super) disabled: bool,
    #[serde(deserialize_with = "or_default")]
    pub(super) external_only: bool,
    #[serde(deserialize_with = "or_default")]
    pub(super) overrides: Vec<RawOverride>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct RawOverride {
    #[serde(deserialize_with = "or_default")]
    pub(super) name: String,
    #[serde(deserialize_with = "or_default")]
    pub(super) external: bool,
    #[serde(rename = "externalID", deserialize_with = "or_default")]
    pub(super) external_id: String,
    #[serde(rename = "type", deserialize_with = "or_default")]
    pub(super) instance_type: String,
    #[serde(deserialize_with = "or_default")]
    pub(super) addresses: Vec<RawAddress>,
    #[serde(deserialize_with = "or_default")]
    pub(super) region: String,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct RawAddress {
    #[serde(rename = "type", deserialize_with = "or_default")]
    pub(super) kind: String,
    #[serde(deserialize_with = "or_default")]
    pub(super) address: String,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct RawLoadBalancer {
    #[serde(deserialize_with = "or_default")]
    pub(super) disabled: bool,
    #[serde(rename = "defaultInstancePoolID", deserialize_with = "or_default")]
    pub(super) default_instance_pool: String,
    #[serde(rename = "localPolicyHealthCheck", deserialize_with = "or_default")]
    pub(super) local_policy_health_check: String,
}

impl RawConfig {
    /// Reads the first document of `text`; nothing, comments alone and `---` are an empty one.
    pub(super) fn read(text: &str) -> Result<Self, ConfigError> {
        let first = first_document(text).map_err(|error| ConfigError::File {
            reason: first_line(&error),
        })?;
        Ok(first.unwrap_or_default())
    }
}

fn or_default<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de> + Default,
{
    Ok(Option::<T>::deserialize(deserializer)?.unwrap_or_default())
}

fn secret<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Secret>, D::Error> {
    Ok(Option::<String>::deserialize(deserializer)?.map(Secret::new))
}
