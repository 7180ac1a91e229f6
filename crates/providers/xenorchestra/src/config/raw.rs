//! The cloud config file as it is written. Texts are taken as they stand, whatever YAML makes of
//! them; unknown keys mean nothing, a key given twice is an error, and only the first document
//! counts.

use bowline_core::Secret;
use bowline_provider::{first_document, first_line};
use serde::de::{Unexpected, Visitor};
use serde::{Deserialize, Deserializer};

use super::ConfigError;

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct RawConfig {
    #[serde(deserialize_with = "text")]
    pub(super) url: String,
    #[serde(deserialize_with = "secret")]
    pub(super) token: Option<Secret>,
    #[serde(deserialize_with = "text")]
    pub(super) username: String,
    #[serde(deserialize_with = "secret")]
    pub(super) password: Option<Secret>,
    #[serde(deserialize_with = "boolean")]
    pub(super) insecure: bool,
    #[serde(deserialize_with = "text")]
    pub(super) client_timeout: String,
    #[serde(deserialize_with = "text")]
    pub(super) address_mode: String,
    #[serde(deserialize_with = "texts")]
    pub(super) address_include: Vec<String>,
    #[serde(deserialize_with = "texts")]
    pub(super) address_exclude: Vec<String>,
    #[serde(deserialize_with = "text")]
    pub(super) zone_source: String,
    #[serde(deserialize_with = "text")]
    pub(super) type_memory: String,
    #[serde(deserialize_with = "text")]
    pub(super) tag_label_prefix: String,
    #[serde(deserialize_with = "boolean_or_true")]
    pub(super) events: Switch,
    #[serde(deserialize_with = "servers")]
    pub(super) servers: Vec<RawServer>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct RawServer {
    #[serde(deserialize_with = "text")]
    pub(super) name: String,
    #[serde(deserialize_with = "text")]
    pub(super) url: String,
    #[serde(deserialize_with = "secret")]
    pub(super) token: Option<Secret>,
    #[serde(deserialize_with = "text")]
    pub(super) username: String,
    #[serde(deserialize_with = "secret")]
    pub(super) password: Option<Secret>,
    #[serde(deserialize_with = "boolean")]
    pub(super) insecure: bool,
    #[serde(deserialize_with = "text")]
    pub(super) client_timeout: String,
}

/// On by default.
#[derive(Clone, Copy, Debug)]
pub(super) struct Switch(pub(super) bool);

impl Default for Switch {
    fn default() -> Self {
        Self(true)
    }
}

impl RawConfig {
    pub(super) fn read(text: &str) -> Result<Self, ConfigError> {
        let first = first_document(text).map_err(|error| first_line(&error));
        let first = first.and_then(|first| first.ok_or_else(|| "EOF".to_owned()));
        first.map_err(|reason| ConfigError::File { reason })
    }
}

fn text<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    let text = Option::<String>::deserialize(deserializer)?;
    Ok(text.unwrap_or_default().trim().to_owned())
}

/// None if there is nothing in it.
fn secret<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Secret>, D::Error> {
    let text = text(deserializer)?;
    Ok((!text.is_empty()).then(|| Secret::new(text)))
}

fn texts<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    Ok(Option::<Vec<String>>::deserialize(deserializer)?.unwrap_or_default())
}

fn servers<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<RawServer>, D::Error> {
    Ok(Option::<Vec<RawServer>>::deserialize(deserializer)?.unwrap_or_default())
}

fn boolean_or_true<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Switch, D::Error> {
    Ok(Switch(boolean_if_any(deserializer)?.unwrap_or(true)))
}

fn boolean<'de, D: Deserializer<'de>>(deserializer: D) -> Result<bool, D::Error> {
    Ok(boolean_if_any(deserializer)?.unwrap_or_default())
}

/// `true` and `false` unquoted; the older words also quoted; nothing else.
fn boolean_if_any<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<bool>, D::Error> {
    struct Words;
    impl Visitor<'_> for Words {
        type Value = Option<bool>;

        fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str("true or false, without quotes")
        }

        fn visit_bool<E>(self, value: bool) -> Result<Self::Value, E> {
            Ok(Some(value))
        }

        fn visit_unit<E>(self) -> Result<Self::Value, E> {
            Ok(None)
        }

        fn visit_str<E: serde::de::Error>(self, value: &str) -> Result<Self::Value, E> {
            match value.to_ascii_lowercase().as_str() {
                "y" | "yes" | "on" => Ok(Some(true)),
                "n" | "no" | "off" => Ok(Some(false)),
                _ => Err(E::invalid_value(Unexpected::Str(value), &self)),
            }
        }
    }
    deserializer.deserialize_any(Words)
}
