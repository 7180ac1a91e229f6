//! The id of a server, and how a node's provider id names it: `cloudscale://<uuid>`.

use std::fmt;

use bowline_core::{Claim, ProviderId};
use thiserror::Error;
use uuid::Uuid;

/// What stands before `://` in the provider ids of this cloud.
pub const SCHEME: &str = "cloudscale";

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ServerId(Uuid);

/// Why a provider id does not name a server of this cloud.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum IdError {
    /// Another scheme, or none: somebody else's.
    #[error("provider id {0:?} does not begin with {SCHEME}://")]
    Foreign(String),
    /// Our scheme, but what follows is not a uuid.
    #[error("provider id {0:?} is not {SCHEME}:// and the uuid of a server")]
    Malformed(String),
}

impl ServerId {
    pub fn parse(uuid: &str) -> Option<Self> {
        Uuid::try_parse(uuid).ok().map(Self)
    }

    /// Reads a provider id in any of the spellings that have ever been accepted: spaces around
    /// either part, any letter case of the uuid, with and without dashes, braces or `urn:uuid:`.
    pub fn from_provider_id(text: &str) -> Result<Self, IdError> {
        let foreign = || IdError::Foreign(text.to_owned());
        let (scheme, rest) = text.split_once("://").ok_or_else(foreign)?;
        if scheme.trim_matches(' ') != SCHEME {
            return Err(foreign());
        }
        Self::parse(rest.trim_matches(' ')).ok_or_else(|| IdError::Malformed(text.to_owned()))
    }

    /// The canonical provider id. Always there: the form is valid by construction.
    pub fn provider_id(self) -> Option<ProviderId> {
        ProviderId::parse(&format!("{SCHEME}://{self}")).ok()
    }
}

impl From<Uuid> for ServerId {
    fn from(uuid: Uuid) -> Self {
        Self(uuid)
    }
}

impl fmt::Display for ServerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0.as_hyphenated())
    }
}

pub fn claim(provider_id: &str) -> Claim {
    match ServerId::from_provider_id(provider_id) {
        Ok(_) => Claim::Mine,
        Err(IdError::Foreign(_)) => Claim::Foreign,
        Err(error @ IdError::Malformed(_)) => Claim::Malformed(error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const CANONICAL: &str = "cloudscale://3f9b1c52-6a7d-4e08-9c41-d2f0a8b7e613";

    #[test]
    fn every_accepted_spelling_names_the_same_server() {
        for text in [
            CANONICAL,
            "cloudscale://3F9B1C526A7D4E089C41D2F0A8B7E613",
            "cloudscale://3F9B1C52-6A7D-4e08-9c41-d2f0a8b7e613",
            "cloudscale:// 3f9b1c52-6a7d-4e08-9c41-d2f0a8b7e613 ",
            " cloudscale ://3f9b1c52-6a7d-4e08-9c41-d2f0a8b7e613",
            "cloudscale://{3f9b1c52-6a7d-4e08-9c41-d2f0a8b7e613}",
            "cloudscale://urn:uuid:3f9b1c52-6a7d-4e08-9c41-d2f0a8b7e613",
            "cloudscale://URN:UUID:3F9B1C52-6A7D-4E08-9C41-D2F0A8B7E613",
        ] {
            let id = ServerId::from_provider_id(text).unwrap();
            assert_eq!(id.provider_id().unwrap().as_str(), CANONICAL, "{text:?}");
            assert_eq!(claim(text), Claim::Mine);
        }
    }

    #[test]
    fn everything_else_is_foreign_or_malformed() {
        let malformed = [
            "cloudscale:///3f9b1c52-6a7d-4e08-9c41-d2f0a8b7e613",
            "cloudscale://worker-1",
            "cloudscale://invalid",
            "cloudscale://",
            "cloudscale://3f9b1c52-6a7d-4e08-9c41-d2f0a8b7e61",
            "cloudscale://3f9b1c526a7d-4e08-9c41-d2f0a8b7e613",
            "cloudscale://\t3f9b1c52-6a7d-4e08-9c41-d2f0a8b7e613",
            "cloudscale://rma1://3f9b1c52-6a7d-4e08-9c41-d2f0a8b7e613",
            "cloudscale://{3f9b1c526a7d4e089c41d2f0a8b7e613}",
        ];
        let foreign = [
            "Cloudscale://3f9b1c52-6a7d-4e08-9c41-d2f0a8b7e613",
            "exoscale://3f9b1c52-6a7d-4e08-9c41-d2f0a8b7e613",
            "bigcorp://08d56bfe-40d0-4c68-a915-54f846c28c9e",
            "cloudscale",
            "",
            "://3f9b1c52-6a7d-4e08-9c41-d2f0a8b7e613",
            "cloudscale:/3f9b1c52-6a7d-4e08-9c41-d2f0a8b7e613",
        ];
        for text in malformed {
            let error = ServerId::from_provider_id(text).unwrap_err();
            assert_eq!(error, IdError::Malformed(text.into()));
            assert_eq!(claim(text), Claim::Malformed(error.to_string()));
        }
        for text in foreign {
            let error = ServerId::from_provider_id(text).unwrap_err();
            assert_eq!(error, IdError::Foreign(text.into()));
            assert_eq!(claim(text), Claim::Foreign);
        }
    }

    proptest! {
        #[test]
        fn what_we_write_we_read(bits: u128) {
            let id = ServerId(Uuid::from_u128(bits));
            let written = id.provider_id().unwrap();
            prop_assert_eq!(written.as_str().len(), "cloudscale://".len() + 36);
            prop_assert_eq!(written.as_str(), written.as_str().to_lowercase());
            prop_assert_eq!(ServerId::from_provider_id(written.as_str()), Ok(id));
        }

        #[test]
        fn no_text_is_too_strange(text in "\\PC{0,60}") {
            let _ = claim(&text);
        }
    }
}
