//! The file as it is written. Scalars keep their text wherever a text is wanted; null is nothing.

use std::collections::BTreeMap;
use std::fmt;

use bowline_provider::first_document;
use serde::de::{Error as _, Visitor};
use serde::{Deserialize, Deserializer};

use super::ConfigError;
use crate::transform::{Draft, Requirement, Section, Selector, Term};

type Texts = BTreeMap<Option<String>, Option<String>>;

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct RawConfig {
    global: Option<RawGlobal>,
    transformations: Option<Vec<Option<RawRule>>>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct RawGlobal {
    #[serde(rename = "clusterName")]
    cluster_name: Option<String>,
    #[serde(rename = "preferIPv6")]
    prefer_ipv6: Option<Switch>,
    #[serde(rename = "enforceTransformations")]
    enforce: Option<Switch>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct RawRule {
    name: Option<String>,
    node_selector: Option<Vec<Option<RawTerm>>>,
    annotations: Option<Texts>,
    labels: Option<Texts>,
    taints: Option<Texts>,
    platform_metadata: Option<Texts>,
    features: Option<RawFeatures>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct RawTerm {
    match_expressions: Option<Vec<Option<RawRequirement>>>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct RawRequirement {
    key: Option<String>,
    operator: Option<String>,
    values: Option<Vec<Option<String>>>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct RawFeatures {
    #[serde(rename = "publicIPDiscovery")]
    public_ip_discovery: Option<Switch>,
}

/// A truth value without quotes: in quotes it is a text, which the original refuses.
#[derive(Clone, Copy, Debug)]
struct Switch(bool);

impl<'de> Deserialize<'de> for Switch {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Only;
        impl Visitor<'_> for Only {
            type Value = Switch;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("true or false without quotes")
            }

            fn visit_bool<E>(self, value: bool) -> Result<Switch, E> {
                Ok(Switch(value))
            }

            fn visit_str<E: serde::de::Error>(self, value: &str) -> Result<Switch, E> {
                Err(E::custom(format!("{value:?} is a text, not true or false")))
            }
        }
        deserializer.deserialize_any(Only).map_err(D::Error::custom)
    }
}

/// What is wrong with a text, and where, in our own words.
fn words(error: &serde_saphyr::Error) -> String {
    use serde_saphyr::Error;
    let error = error.without_snippet();
    let what = match error {
        Error::DuplicateMappingKey { .. } => "the key is there twice".to_owned(),
        Error::Unexpected { expected, .. } => match *expected {
            "sequence start" => "a list is expected".to_owned(),
            "mapping start" => "keys with values are expected".to_owned(),
            other if other.contains("scalar") => "a text is expected".to_owned(),
            _ => "something else is expected".to_owned(),
        },
        Error::SerdeInvalidType { expected, .. } | Error::SerdeInvalidValue { expected, .. } => {
            format!("{expected} is expected")
        }
        // Our own words.
        Error::Message { msg, .. } if msg.ends_with("not true or false") => msg.clone(),
        _ => "this is not YAML".to_owned(),
    };
    match error.location() {
        Some(at) => format!("line {}, column {}: {what}", at.line(), at.column()),
        None => what,
    }
}

impl RawConfig {
    /// Reads the first document of a text; nothing, comments alone, `---` and `null` are an empty
    /// one.
    pub(super) fn read(text: &str) -> Result<Self, ConfigError> {
        let first = first_document(text);
        let first = first.map_err(|error| ConfigError::Decode(words(&error)))?;
        Ok(first.unwrap_or_default())
    }

    pub(super) fn cluster_name(&self) -> String {
        let global = self.global.as_ref();
        global
            .and_then(|global| global.cluster_name.clone())
            .unwrap_or_default()
    }

    pub(super) fn prefer_ipv6(&self) -> Option<bool> {
        let switch = self.global.as_ref()?.prefer_ipv6;
        switch.map(|Switch(value)| value)
    }

    pub(super) fn enforces(&self) -> bool {
        let global = self.global.as_ref();
        global.is_some_and(|global| matches!(global.enforce, Some(Switch(true))))
    }

    pub(super) fn rules(&self) -> Vec<Draft> {
        let rules = self.transformations.iter().flatten();
        rules
            .map(|rule| rule.clone().unwrap_or_default().draft())
            .collect()
    }
}

impl RawRule {
    fn draft(self) -> Draft {
        let terms = self.node_selector.unwrap_or_default().into_iter();
        let selector = Selector(terms.map(|term| term.unwrap_or_default().term()).collect());
        let sections = [
            (Section::Annotations, self.annotations),
            (Section::Labels, self.labels),
            (Section::Taints, self.taints),
            (Section::PlatformMetadata, self.platform_metadata),
        ];
        let features = self.features.unwrap_or_default();
        Draft {
            name: self.name.unwrap_or_default(),
            selector,
            sections: sections
                .map(|(section, texts)| (section, plain(texts)))
                .into(),
            public_ip_discovery: matches!(features.public_ip_discovery, Some(Switch(true))),
        }
    }
}

impl RawTerm {
    fn term(self) -> Term {
        let requirements = self.match_expressions.unwrap_or_default().into_iter();
        let read = |raw: Option<RawRequirement>| {
            let raw = raw.unwrap_or_default();
            let values = raw.values.unwrap_or_default();
            let values: Vec<String> = values.into_iter().map(Option::unwrap_or_default).collect();
            let (key, operator) = (
                raw.key.unwrap_or_default(),
                raw.operator.unwrap_or_default(),
            );
            Requirement::new(&key, &operator, &values)
        };
        Term(requirements.map(read).collect())
    }
}

fn plain(texts: Option<Texts>) -> BTreeMap<String, String> {
    let texts = texts.unwrap_or_default().into_iter();
    texts
        .map(|(key, value)| (key.unwrap_or_default(), value.unwrap_or_default()))
        .collect()
}
