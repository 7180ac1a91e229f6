//! What is remembered about a Service in a condition of its status: tenants write annotations, and
//! must not be able to say what is theirs. Pure.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use bowline_core::{Condition, Service};
use uuid::Uuid;

use crate::id::hyphenated;

pub const RECORD: &str = "bowline.dev/ExoscaleLoadBalancer";
/// The most load balancers that one Service is known to be attached to, so that the condition stays
/// short: 32 ids are
/// 1.2 KiB. Nobody forgets one of them, so that there must be an end.
pub(crate) const MOST_ATTACHED: usize = 32;

// What the parts of the message begin with.
const ATTACHED: &str = "attached to load balancers: ";
const SERVICES: &str = "owned NLB services: ";
const DESCRIBED: &str = "described by annotations: ";
// What may be described.
const BALANCER: &str = "load balancer";
const LISTENERS: &str = "NLB services";

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Record {
    /// The load balancers of others that the Service puts its ports on. Only somebody's consent
    /// ends that.
    pub(crate) attached: BTreeSet<Uuid>,
    /// The services of load balancers that are the Service's although not by their names.
    pub(crate) services: BTreeSet<Uuid>,
    /// Whether an annotation has given the load balancer its description: only then it may be
    /// emptied.
    pub(crate) describes_balancer: bool,
    /// The same of its services.
    pub(crate) describes_services: bool,
}

impl Record {
    pub(crate) fn of(service: &Service) -> Self {
        let mut conditions = service.conditions.iter();
        let message = conditions.find(|it| it.kind == RECORD);
        message.map_or_else(Self::default, |it| Self::read(&it.message))
    }

    /// What is not understood is nothing.
    fn read(message: &str) -> Self {
        let mut record = Self::default();
        for part in message.split("; ") {
            if let Some(ids) = part.strip_prefix(ATTACHED) {
                record.attached = read_ids(ids);
            } else if let Some(ids) = part.strip_prefix(SERVICES) {
                record.services = read_ids(ids);
            } else if let Some(described) = part.strip_prefix(DESCRIBED) {
                record.describes_balancer = described.split(", ").any(|it| it == BALANCER);
                record.describes_services = described.split(", ").any(|it| it == LISTENERS);
            }
        }
        record
    }

    /// The condition that remembers it; none if there is nothing to remember and nothing was.
    pub(crate) fn condition(&self, service: &Service) -> Option<Condition> {
        let was = service.conditions.iter().any(|it| it.kind == RECORD);
        let message = self.message();
        let is_empty = message.is_empty();
        (!is_empty || was).then(|| Condition {
            kind: RECORD.to_owned(),
            status: if is_empty { "False" } else { "True" }.to_owned(),
            reason: if is_empty {
                "NothingToRemember"
            } else {
                "Remembered"
            }
            .to_owned(),
            message,
        })
    }

    fn message(&self) -> String {
        let described = [
            (self.describes_balancer, BALANCER),
            (self.describes_services, LISTENERS),
        ];
        let described = described.into_iter().filter(|it| it.0);
        let described: Vec<&str> = described.map(|it| it.1).collect();
        let parts = [
            (ATTACHED, id_list(&self.attached)),
            (SERVICES, id_list(&self.services)),
            (DESCRIBED, described.join(", ")),
        ];
        let mut message = String::new();
        for (label, values) in parts.iter().filter(|it| !it.1.is_empty()) {
            let separator = if message.is_empty() { "" } else { "; " };
            // Writing to a string cannot fail.
            let _ = write!(message, "{separator}{label}{values}");
        }
        message
    }
}

fn id_list(ids: &BTreeSet<Uuid>) -> String {
    let ids: Vec<String> = ids.iter().map(Uuid::to_string).collect();
    ids.join(", ")
}

fn read_ids(text: &str) -> BTreeSet<Uuid> {
    text.split(", ").filter_map(hyphenated).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::balancer::examples::{L1, P1, P2, service};

    #[test]
    fn what_is_remembered_is_read_back() {
        let id = |text: &str| text.parse().unwrap();
        for record in [
            Record::default(),
            Record {
                attached: [id(L1)].into(),
                ..Record::default()
            },
            Record {
                attached: [id(L1), id(P1)].into(),
                services: [id(P1), id(P2)].into(),
                describes_balancer: true,
                describes_services: true,
            },
            Record {
                describes_services: true,
                ..Record::default()
            },
        ] {
            let mut service = service();
            let condition = record.condition(&service);
            assert_eq!(condition.is_none(), record == Record::default());
            service.conditions.extend(condition);
            assert_eq!(Record::of(&service), record);
        }
    }

    #[test]
    fn a_memory_that_has_become_empty_is_written_and_what_is_not_understood_is_nothing() {
        let mut service = service();
        service.conditions.push(Condition {
            kind: RECORD.into(),
            status: "True".into(),
            reason: "Remembered".into(),
            message: format!("{ATTACHED}all of them; words; {SERVICES}{L1}, x"),
        });
        let record = Record::of(&service);
        assert_eq!(record.attached, BTreeSet::new());
        assert_eq!(record.services.len(), 1);
        let empty = Record::default().condition(&service).unwrap();
        assert_eq!((&*empty.status, &*empty.message), ("False", ""));
    }
}
