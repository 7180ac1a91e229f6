//! Reports Services that no cloud serves although users may expect it, with the way out.

use std::time::Duration;

use bowline_core::reconcile::{LATEST_RETRY, SOONEST_RETRY};
use bowline_core::{Service, Unserved};

use super::ServiceController;
use crate::kube::events::EventType;

/// How long a Service without a class, or with a finalizer that is not ours, may be held before it is
/// reported: longer than a removal takes that goes well.
const HELD_PATIENCE: Duration = Duration::from_secs(300);

impl ServiceController {
    /// Reports once why no cloud serves a Service, if users have to know.
    pub(super) fn report_unserved(&self, service: &Service) -> Option<Duration> {
        let unserved = self.clouds.names().unserved(service)?;
        self.report_why(service, &unserved)
    }

    /// Reports once that a Service names a cloud that there is not, although another serves it.
    pub(super) fn report_misnamed(&self, service: &Service) {
        if let Some(misnamed) = self.clouds.names().misnamed(service) {
            self.report_why(service, &misnamed);
        }
    }

    /// Reports once why no cloud serves a Service. Returns how long that has to wait, if it has to.
    pub(super) fn report_why(&self, service: &Service, unserved: &Unserved) -> Option<Duration> {
        let (reason, patience) = match unserved {
            Unserved::UnknownCloud { .. } | Unserved::Misnamed { .. } => {
                ("UnknownCloud", Duration::ZERO)
            }
            Unserved::Held => ("DeletionHeld", HELD_PATIENCE),
            Unserved::Unproven => ("FinalizerNotOurs", HELD_PATIENCE),
        };
        let uid = service.uid.clone();
        let left = self
            .unserved
            .due_in(uid, unserved, patience, Duration::MAX)?;
        if !left.is_zero() {
            return Some(left.clamp(SOONEST_RETRY, LATEST_RETRY));
        }
        let text = unserved.advice(self.clouds.names().all());
        self.report(service, EventType::Warning, reason, &text);
        self.parts.metrics.services.unserved(reason);
        None
    }
}
