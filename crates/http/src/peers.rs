//! The certificates that servers have shown and that were trusted.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Servers behind one address have a certificate each, and renew them: twice as many as anybody has control planes.
const MOST: usize = 32;

/// What servers have shown, newest last. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct PeerCertificates(Arc<Mutex<VecDeque<Vec<u8>>>>);

impl PeerCertificates {
    /// Keeps a certificate (DER); of too many the oldest goes.
    pub fn note(&self, certificate: &[u8]) {
        let mut all = self.lock();
        if all.iter().any(|it| it == certificate) {
            return;
        }
        if all.len() == MOST {
            all.pop_front();
        }
        all.push_back(certificate.to_vec());
    }

    /// All of them.
    pub fn all(&self) -> Vec<Vec<u8>> {
        self.lock().iter().cloned().collect()
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<Vec<u8>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_is_kept_once_and_of_too_many_the_newest() {
        let shown = PeerCertificates::default();
        shown.note(b"first");
        shown.note(b"first");
        assert_eq!(shown.all(), [b"first"]);
        for number in 0..MOST {
            shown.clone().note(number.to_string().as_bytes());
        }
        assert_eq!(shown.all().len(), MOST);
        assert!(!shown.all().iter().any(|it| it == b"first"));
    }
}
