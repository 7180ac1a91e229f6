//! The one source of randomness: jitter, names, identities. It can be seeded.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// A generator shared by everybody who holds a clone of it.
///
/// Not for secrets: keys and certificates come from the TLS library.
#[derive(Clone, Debug)]
pub struct Random(Arc<Mutex<fastrand::Rng>>);

impl Random {
    /// Seeded by the operating system.
    pub fn from_system() -> Self {
        Self(Arc::new(Mutex::new(fastrand::Rng::new())))
    }

    /// The same seed gives the same numbers.
    pub fn seeded(seed: u64) -> Self {
        Self(Arc::new(Mutex::new(fastrand::Rng::with_seed(seed))))
    }

    fn with<T>(&self, draw: impl FnOnce(&mut fastrand::Rng) -> T) -> T {
        draw(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// A generator of its own, derived from this one, for a part whose draws must not disturb others.
    #[must_use]
    pub fn fork(&self) -> Self {
        Self(Arc::new(Mutex::new(self.with(fastrand::Rng::fork))))
    }

    /// Any 64 bits.
    pub fn number(&self) -> u64 {
        self.with(|rng| rng.u64(..))
    }

    /// A whole number below `bound` (0 if `bound` is 0).
    pub fn below(&self, bound: u64) -> u64 {
        if bound == 0 {
            0
        } else {
            self.with(|rng| rng.u64(..bound))
        }
    }

    /// A number in [0, 1).
    pub fn unit(&self) -> f64 {
        self.with(fastrand::Rng::f64)
    }

    /// `base` × (1 + `factor` × random[0, 1)).
    pub fn jitter(&self, base: Duration, factor: f64) -> Duration {
        base.mul_f64(1.0 + factor * self.unit())
    }

    /// A version 4 UUID.
    pub fn uuid(&self) -> String {
        let bytes = self.with(|rng| rng.u128(..)).to_be_bytes();
        uuid::Builder::from_random_bytes(bytes)
            .into_uuid()
            .to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_gives_the_same_numbers() {
        let (a, b) = (Random::seeded(7), Random::seeded(7));
        assert_eq!(a.uuid(), b.uuid());
        assert_eq!(a.fork().number(), b.fork().number());
        assert_ne!(Random::seeded(8).number(), Random::seeded(7).number());
    }

    #[test]
    fn a_uuid_is_of_version_4() {
        let id = Random::seeded(1).uuid();
        assert_eq!((id.len(), &id[14..15]), (36, "4"));
        assert!("89ab".contains(&id[19..20]));
    }

    #[test]
    fn jitter_stays_between_one_and_one_plus_factor() {
        let random = Random::seeded(3);
        for _ in 0..100 {
            let drawn = random.jitter(Duration::from_secs(2), 1.2);
            assert!(drawn >= Duration::from_secs(2) && drawn < Duration::from_millis(4400));
        }
    }
}
