//! Services that nobody serves although people may think that we do: told, with the way out.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use bowline_core::reconcile::{LATEST_RETRY, SOONEST_RETRY};
use bowline_core::{Service, Unserved};
use tokio::time::Instant;

use super::ServiceController;
use crate::kube::events::EventType;
use crate::lru::Lru;

/// How long a Service without a class, or with a finalizer that is not ours, may be held before people are told: whoever serves it takes some time to remove
/// what it has. Longer than a removal that goes well.
const HELD_PATIENCE: Duration = Duration::from_secs(300);
/// Services that are remembered. One that is forgotten is told about again.
const REMEMBERED: usize = 1000;

/// What is wrong with Services, by uid: since when, and whether it was told.
pub(super) struct Complaints(Mutex<Lru<String, Complaint>>);

struct Complaint {
    about: Unserved,
    since: Instant,
    told: bool,
}

impl Default for Complaints {
    fn default() -> Self {
        Self(Mutex::new(Lru::new(REMEMBERED)))
    }
}

/// When to tell.
enum Due {
    Now,
    In(Duration),
    /// It was told.
    Not,
}

impl Complaints {
    fn due(&self, uid: &str, about: &Unserved, patience: Duration) -> Due {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let key = uid.to_owned();
        let known = all.get_mut(&key).is_some_and(|it| it.about == *about);
        if !known {
            let complaint = Complaint {
                about: about.clone(),
                since: Instant::now(),
                told: false,
            };
            all.insert(key.clone(), complaint);
        }
        let Some(complaint) = all.get_mut(&key) else {
            return Due::Now;
        };
        let left = patience.saturating_sub(complaint.since.elapsed());
        if complaint.told {
            Due::Not
        } else if left.is_zero() {
            complaint.told = true;
            Due::Now
        } else {
            Due::In(left)
        }
    }
}

impl ServiceController {
    /// Tells once why nobody serves a Service that is not handled, if people have to know.
    pub(super) fn tell_unserved(&self, service: &Service) -> Option<Duration> {
        let unserved = self.clouds.names().unserved(service)?;
        self.complain(service, &unserved)
    }

    /// Tells once that a Service names a cloud that there is not, although another serves it.
    pub(super) fn tell_misnamed(&self, service: &Service) {
        if let Some(misnamed) = self.clouds.names().misnamed(service) {
            self.complain(service, &misnamed);
        }
    }

    /// Tells once what is wrong with a Service that nobody serves. The answer is when it is time for that, if it is not
    /// yet.
    pub(super) fn complain(&self, service: &Service, unserved: &Unserved) -> Option<Duration> {
        let (reason, patience) = match unserved {
            Unserved::UnknownCloud { .. } | Unserved::Misnamed { .. } => {
                ("UnknownCloud", Duration::ZERO)
            }
            Unserved::Held => ("DeletionHeld", HELD_PATIENCE),
            Unserved::Unproven => ("FinalizerNotOurs", HELD_PATIENCE),
        };
        match self.complaints.due(&service.uid, unserved, patience) {
            Due::Now => {
                let text = unserved.advice(self.clouds.names().all());
                self.tell(service, EventType::Warning, reason, &text);
                self.parts.metrics.services.unserved(reason);
                None
            }
            Due::In(left) => Some(left.clamp(SOONEST_RETRY, LATEST_RETRY)),
            Due::Not => None,
        }
    }
}
