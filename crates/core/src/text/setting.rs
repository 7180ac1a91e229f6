//! Settings: values that remember where they came from.

use std::fmt;

/// Where a setting's value came from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// Nobody set it.
    Default,
    /// The configuration or the environment; the key or variable.
    Config(String),
    /// An annotation of the object; its key.
    Annotation(String),
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::Config(key) => write!(f, "configuration {key}"),
            Self::Annotation(key) => write!(f, "annotation {key}"),
        }
    }
}

/// A value with its origin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setting<T> {
    /// The value.
    pub value: T,
    /// Where it came from.
    pub origin: Origin,
}

impl<T> Setting<T> {
    /// A value nobody set.
    pub fn default_value(value: T) -> Self {
        Self {
            value,
            origin: Origin::Default,
        }
    }

    /// A value read from `text`, or the error about this very setting.
    pub fn read(
        text: &str,
        origin: Origin,
        allowed: &str,
        parse: impl FnOnce(&str) -> Option<T>,
    ) -> Result<Self, SettingError> {
        match parse(text) {
            Some(value) => Ok(Self { value, origin }),
            None => Err(SettingError {
                origin,
                value: text.into(),
                allowed: allowed.into(),
            }),
        }
    }
}

/// A value that cannot be used. It concerns its setting, not the object that carries it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{origin}: {value:?} is not allowed; allowed is {allowed}")]
pub struct SettingError {
    /// Which setting.
    pub origin: Origin,
    /// The value as it was written.
    pub value: String,
    /// What is allowed, in words.
    pub allowed: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bad_value_names_its_setting_the_value_and_what_is_allowed() {
        let key = Origin::Annotation("k8s.example.test/timeout".into());
        let parse = |text: &str| text.parse::<u16>().ok();
        let good = Setting::read("50", key.clone(), "a number", parse).unwrap();
        assert_eq!(
            good,
            Setting {
                value: 50,
                origin: key.clone()
            }
        );
        let bad = Setting::read("5s", key, "a number of milliseconds", parse).unwrap_err();
        assert_eq!(
            bad.to_string(),
            "annotation k8s.example.test/timeout: \"5s\" is not allowed; \
             allowed is a number of milliseconds"
        );
    }
}
