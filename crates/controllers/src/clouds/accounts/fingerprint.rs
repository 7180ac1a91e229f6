//! How an account is recognised later without keeping its credentials: a salted hash.

use std::fmt::{self, Write as _};
use std::sync::Arc;

use bowline_core::Cloud;
use bowline_http::Random;
use ring::digest::{SHA256, digest};

/// Bytes of a hash that a fingerprint shows: nobody finds another set with the same 16.
const SHOWN: usize = 16;

/// What distinguishes a set of credentials, endpoint, zone and project from others inside this process: a hash.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct AccountKey([u8; 32]);

impl fmt::Debug for AccountKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AccountKey")
    }
}

impl AccountKey {
    /// That of the set which a cloud uses now; none if it has no account.
    pub fn of(cloud: &Arc<dyn Cloud>) -> Option<Self> {
        let identity = cloud.account()?;
        Some(Self(sha256(identity.reveal().as_bytes())))
    }

    /// A new fingerprint of it, for leases, events and settings: `<salt>-<hash>`.
    pub fn fingerprint(&self, random: &Random) -> String {
        self.salted(&format!("{:016x}", random.number()))
    }

    /// Whether that is a fingerprint of it, whatever its salt.
    pub fn is_like(&self, fingerprint: &str) -> bool {
        let salt = fingerprint.trim().split_once('-').map(|it| it.0);
        salt.is_some_and(|salt| self.salted(salt) == fingerprint.trim())
    }

    /// What is noted of it for later processes: `<fingerprint> <provider>`.
    pub fn note(&self, provider: &str, random: &Random) -> AccountNote {
        AccountNote {
            fingerprint: self.fingerprint(random),
            provider: Some(provider.to_owned()),
        }
    }

    fn salted(&self, salt: &str) -> String {
        let mut text = salt.as_bytes().to_vec();
        text.push(0);
        text.extend(self.0);
        let mut shown = format!("{salt}-");
        for byte in sha256(&text).iter().take(SHOWN) {
            // Writing to a text does not fail.
            let _ = write!(shown, "{byte:02x}");
        }
        shown
    }
}

/// What the lease says about an account that was proven.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccountNote {
    pub fingerprint: String,
    /// The provider of its cloud; none if an earlier version wrote it.
    pub provider: Option<String>,
}

impl AccountNote {
    /// Reads it.
    pub fn read(text: &str) -> Self {
        let mut words = text.split_whitespace().map(str::to_owned);
        Self {
            fingerprint: words.next().unwrap_or_default(),
            provider: words.next(),
        }
    }
}

impl fmt::Display for AccountNote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.fingerprint)?;
        match &self.provider {
            Some(provider) => write!(f, " {provider}"),
            None => Ok(()),
        }
    }
}

fn sha256(bytes: &[u8]) -> [u8; 32] {
    let mut hash = [0; 32];
    hash.copy_from_slice(digest(&SHA256, bytes).as_ref());
    hash
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_is_read_as_it_was_written() {
        for (text, provider) in [("a-b", None), ("a-b triton", Some("triton"))] {
            let note = AccountNote::read(text);
            assert_eq!(
                (note.fingerprint.as_str(), note.provider.as_deref()),
                ("a-b", provider)
            );
            assert_eq!(note.to_string(), text);
        }
    }

    #[test]
    fn a_fingerprint_fits_its_set_alone_and_no_two_are_alike() {
        let (one, other) = (AccountKey(sha256(b"one")), AccountKey(sha256(b"other")));
        let random = Random::seeded(1);
        let (first, second) = (one.fingerprint(&random), one.fingerprint(&random));
        assert_ne!(first, second, "the salt differs");
        assert_eq!(first.len(), 16 + 1 + 32);
        for (key, text, like) in [
            (one, first.as_str(), true),
            (one, &second, true),
            (one, &format!(" {first}\n"), true),
            (other, &first, false),
            (one, &first[..first.len() - 1], false),
            (one, "", false),
            (one, "-", false),
        ] {
            assert_eq!(key.is_like(text), like, "{text}");
        }
    }
}
