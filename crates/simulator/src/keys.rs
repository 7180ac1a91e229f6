//! Where the keys of simulated servers come from: the operating system, or the world's randomness.
//!
//! Every key is Ed25519 made from 32 bytes. With [`Keys::seeded`] one seed gives one set of
//! certificates and tokens, byte for byte.

use bowline_http::Random;
use ring::rand::SecureRandom;

/// PKCS#8 framing of a bare Ed25519 seed (RFC 8410, section 7).
const PKCS8_FRAME: [u8; 16] = [
    0x30, 0x2e, 0x02, 0x01, 0x00, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x04, 0x22, 0x04, 0x20,
];

/// Why a certificate could not be made.
#[derive(Debug, thiserror::Error)]
pub enum CertificateError {
    /// The system gave no random bytes.
    #[error("the system's source of random bytes does not answer")]
    NoRandomness,
    /// The library refused.
    #[error("making the certificate of {subject}")]
    Refused {
        subject: String,
        source: rcgen::Error,
    },
    /// More groups than a certificate made here can carry.
    #[error("a client certificate carries at most two groups, {subject} has {count}")]
    TooManyGroups {
        subject: String,
        /// How many groups.
        count: usize,
    },
    /// The TLS library refused the authority.
    #[error("setting up the check of client certificates: {0}")]
    Verifier(String),
}

/// Where key material comes from.
#[derive(Clone, Debug)]
pub enum Keys {
    /// From the operating system: for servers that others can reach.
    System,
    /// From the world's randomness: repeatable, and therefore no secret.
    Seeded(Random),
}

impl Keys {
    /// Repeatable keys that leave other draws of `random` undisturbed.
    pub fn seeded(random: &Random) -> Self {
        Self::Seeded(random.fork())
    }

    /// The next 32 bytes.
    pub fn seed(&self) -> Result<[u8; 32], CertificateError> {
        let mut bytes = [0; 32];
        match self {
            Self::System => ring::rand::SystemRandom::new()
                .fill(&mut bytes)
                .map_err(|_| CertificateError::NoRandomness)?,
            Self::Seeded(random) => {
                for chunk in bytes.chunks_exact_mut(8) {
                    chunk.copy_from_slice(&random.number().to_le_bytes());
                }
            }
        }
        Ok(bytes)
    }
}

/// The PKCS#8 form of an Ed25519 key.
pub fn pkcs8(seed: [u8; 32]) -> Vec<u8> {
    [PKCS8_FRAME.as_slice(), seed.as_slice()].concat()
}
