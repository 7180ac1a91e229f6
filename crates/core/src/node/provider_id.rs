//! Provider ids: how a node names its machine.

use std::fmt;

/// The id of a machine: `<scheme>://<rest>`. Some platforms give ids without a scheme; to the API server any
/// text is one.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ProviderId(String);

/// Why a text is not a provider id.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("provider id {value:?} is neither of the form <scheme>://<id> nor plain text")]
pub struct ProviderIdError {
    value: String,
}

impl ProviderId {
    /// Checks the form; whether the scheme is known is the clouds' matter.
    pub fn parse(value: &str) -> Result<Self, ProviderIdError> {
        let wrong = || ProviderIdError {
            value: value.to_owned(),
        };
        let plain = |c: char| c.is_ascii_alphanumeric() || "+.-".contains(c);
        let well_formed = match value.split_once("://") {
            Some((scheme, rest)) => {
                !scheme.is_empty() && !rest.is_empty() && scheme.chars().all(plain)
            }
            None => {
                !value.is_empty() && !value.contains(|c: char| c.is_whitespace() || c.is_control())
            }
        };
        if well_formed {
            Ok(Self(value.to_owned()))
        } else {
            Err(wrong())
        }
    }

    /// What stands before `://`; empty if it has no scheme.
    pub fn scheme(&self) -> &str {
        self.0.split_once("://").map_or("", |(scheme, _)| scheme)
    }

    /// What stands after `://`; all of one that has no scheme.
    pub fn rest(&self) -> &str {
        self.0.split_once("://").map_or(&self.0, |(_, rest)| rest)
    }

    /// With its scheme, as in `spec.providerID`.
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
        for wrong in ["", " ", "de mo", "a\n", "://x", "demo://", "de mo://x"] {
            assert!(ProviderId::parse(wrong).is_err(), "{wrong:?} was accepted");
        }
    }

    #[test]
    fn an_id_without_a_scheme_is_one() {
        for text in ["eu-central-1.i-2ze0m", "demo", "demo:/x"] {
            let id = ProviderId::parse(text).unwrap();
            assert_eq!((id.scheme(), id.rest(), id.as_str()), ("", text, text));
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
