//! Provider ids: how a node names its machine.

use std::fmt;

/// The id of a machine: `<scheme>://<rest>`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ProviderId(String);

/// Why a text is not a provider id.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("provider id {value:?} is not of the form <scheme>://<id>")]
pub struct ProviderIdError {
    value: String,
}

impl ProviderId {
    /// Checks the form; whether the scheme is known is the clouds' matter.
    pub fn parse(value: &str) -> Result<Self, ProviderIdError> {
        let wrong = || ProviderIdError {
            value: value.to_owned(),
        };
        let (scheme, rest) = value.split_once("://").ok_or_else(wrong)?;
        let plain = |c: char| c.is_ascii_alphanumeric() || "+.-".contains(c);
        if scheme.is_empty() || rest.is_empty() || !scheme.chars().all(plain) {
            return Err(wrong());
        }
        Ok(Self(value.to_owned()))
    }

    /// What stands before `://`.
    pub fn scheme(&self) -> &str {
        self.0.split_once("://").map_or("", |(scheme, _)| scheme)
    }

    /// What stands after `://`.
    pub fn rest(&self) -> &str {
        self.0.split_once("://").map_or("", |(_, rest)| rest)
    }

    /// The whole id.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ProviderId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_provider_id_has_a_scheme_and_a_rest() {
        let id = ProviderId::parse("demo://zone/m-1").unwrap();
        assert_eq!(
            (id.scheme(), id.rest(), id.as_str()),
            ("demo", "zone/m-1", "demo://zone/m-1")
        );
        for wrong in ["", "demo", "demo:/x", "://x", "demo://", "de mo://x"] {
            assert!(ProviderId::parse(wrong).is_err(), "{wrong:?} was accepted");
        }
    }

    proptest! {
        #[test]
        fn ids_round_trip(scheme in "[a-z][a-z0-9+.-]{0,12}", rest in "\\PC{1,40}") {
            let text = format!("{scheme}://{rest}");
            let id = ProviderId::parse(&text).unwrap();
            prop_assert_eq!(id.scheme(), scheme);
            prop_assert_eq!(id.rest(), rest);
            prop_assert_eq!(id.to_string(), text);
        }
    }
}
