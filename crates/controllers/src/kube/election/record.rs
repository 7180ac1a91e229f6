//! The election as pure functions: the record in a Lease, what is remembered of it, and what to do next.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::LeaseSpec;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use tokio::time::Instant;

/// The part of a Lease's spec that the election is about.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Record {
    /// Who holds it; empty for nobody.
    pub holder: String,
    /// For how long after a change nobody else may take it.
    pub duration_seconds: i32,
    /// When the holder took it.
    pub acquired: Option<Timestamp>,
    /// When the holder last renewed it.
    pub renewed: Option<Timestamp>,
    /// How often it went from one holder to another.
    pub transitions: i32,
}

impl Record {
    /// Reads a spec; what is absent counts as empty or zero.
    pub fn from_spec(spec: Option<&LeaseSpec>) -> Self {
        let Some(spec) = spec else {
            return Self::default();
        };
        Self {
            holder: spec.holder_identity.clone().unwrap_or_default(),
            duration_seconds: spec.lease_duration_seconds.unwrap_or_default(),
            acquired: spec.acquire_time.as_ref().map(|time| time.0),
            renewed: spec.renew_time.as_ref().map(|time| time.0),
            transitions: spec.lease_transitions.unwrap_or_default(),
        }
    }

    /// Writes it into a spec and leaves the rest of that spec alone.
    pub fn write_to(&self, spec: &mut LeaseSpec) {
        spec.holder_identity = Some(self.holder.clone());
        spec.lease_duration_seconds = Some(self.duration_seconds);
        spec.acquire_time = self.acquired.map(MicroTime);
        spec.renew_time = self.renewed.map(MicroTime);
        spec.lease_transitions = Some(self.transitions);
    }

    /// What a holder leaves behind when it goes: nobody's, so that anybody may take it at once.
    #[must_use]
    pub fn released(&self, now: Timestamp) -> Self {
        Self {
            holder: String::new(),
            // The API server refuses 0.
            duration_seconds: 1,
            acquired: Some(now),
            renewed: Some(now),
            transitions: self.transitions,
        }
    }
}

/// A record and the moment, by our own clock, at which we first saw it like that.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Observation {
    /// What we saw.
    pub record: Record,
    /// Since when we know it.
    pub since: Instant,
}

impl Observation {
    /// The sighting after one more look: an unchanged record keeps its moment.
    #[must_use]
    pub fn look(before: Option<Self>, record: Record, now: Instant) -> Self {
        match before {
            Some(before) if before.record == record => before,
            _ => Self { record, since: now },
        }
    }

    /// Whether its holder must still be respected. The times inside the record are another
    /// machine's and prove nothing; only our own waiting does.
    pub fn is_valid(&self, now: Instant) -> bool {
        let seconds = u64::try_from(self.record.duration_seconds).unwrap_or_default();
        now < self.since + Duration::from_secs(seconds)
    }
}

/// What to do about a Lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Act {
    /// There is none: create it with this record.
    Create(Record),
    /// It is ours, nobody's, or expired: write this record.
    Update(Record),
    /// Somebody else holds it.
    Wait,
}

/// Decides what `identity` does about the Lease it sees (none if there is no such Lease).
///
/// `now` is tokio's clock and judges expiry; `date` is the time of day that is written. The claim of
/// `ended` does not count: it is known to be over, although the record looks alive.
pub fn decide(
    seen: Option<&Observation>,
    (now, date): (Instant, Timestamp),
    identity: &str,
    ended: Option<&str>,
    lease_duration: Duration,
) -> Act {
    let fresh = |acquired, transitions| Record {
        holder: identity.to_owned(),
        // Whole seconds, as the field is; what is cut makes the others wait shorter, never longer.
        duration_seconds: i32::try_from(lease_duration.as_secs()).unwrap_or(i32::MAX),
        acquired: Some(acquired),
        renewed: Some(date),
        transitions,
    };
    let Some(seen) = seen else {
        return Act::Create(fresh(date, 0));
    };
    let old = &seen.record;
    if old.holder == identity {
        return Act::Update(fresh(old.acquired.unwrap_or(date), old.transitions));
    }
    let counts = !old.holder.is_empty() && ended != Some(old.holder.as_str());
    if counts && seen.is_valid(now) {
        return Act::Wait;
    }
    Act::Update(fresh(date, old.transitions.saturating_add(1)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEASE: Duration = Duration::from_secs(15);

    fn date(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    fn held_by(holder: &str) -> Record {
        Record {
            holder: holder.to_owned(),
            duration_seconds: 15,
            acquired: Some(date("2026-01-01T00:00:00Z")),
            renewed: Some(date("2026-01-01T00:00:10Z")),
            transitions: 4,
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_lease_is_created_renewed_respected_or_taken_over() {
        let start = Instant::now();
        let today = date("2026-01-01T01:00:00Z");
        let sighting = |holder: &str| Observation {
            record: held_by(holder),
            since: start,
        };
        let after = |seconds| start + Duration::from_secs(seconds);
        let ours = |acquired, transitions| Record {
            holder: "me".to_owned(),
            duration_seconds: 15,
            acquired: Some(acquired),
            renewed: Some(today),
            transitions,
        };
        let first = date("2026-01-01T00:00:00Z");
        for (name, seen, at, expected) in [
            ("no lease", None, start, Act::Create(ours(today, 0))),
            (
                "ours",
                Some(sighting("me")),
                after(5),
                Act::Update(ours(first, 4)),
            ),
            (
                "ours, expired",
                Some(sighting("me")),
                after(99),
                Act::Update(ours(first, 4)),
            ),
            (
                "nobody's",
                Some(sighting("")),
                start,
                Act::Update(ours(today, 5)),
            ),
            (
                "theirs, stale dates",
                Some(sighting("they")),
                start,
                Act::Wait,
            ),
            (
                "theirs, nearly expired",
                Some(sighting("they")),
                after(14),
                Act::Wait,
            ),
            (
                "theirs, expired",
                Some(sighting("they")),
                after(15),
                Act::Update(ours(today, 5)),
            ),
        ] {
            assert_eq!(
                decide(seen.as_ref(), (at, today), "me", None, LEASE),
                expected,
                "{name}"
            );
        }
        for (ended, expected) in [("they", Act::Update(ours(today, 5))), ("others", Act::Wait)] {
            let seen = sighting("they");
            let act = decide(Some(&seen), (start, today), "me", Some(ended), LEASE);
            assert_eq!(act, expected, "{ended} is known to have ended");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn an_unchanged_record_keeps_the_moment_of_its_first_sight() {
        let start = Instant::now();
        let later = start + Duration::from_secs(9);
        let first = Observation::look(None, held_by("they"), start);
        let again = Observation::look(Some(first.clone()), held_by("they"), later);
        assert_eq!(again.since, start);
        let mut renewed = held_by("they");
        renewed.renewed = Some(date("2026-01-01T00:00:12Z"));
        assert_eq!(Observation::look(Some(first), renewed, later).since, later);
    }

    #[test]
    fn a_released_lease_is_nobodys_and_keeps_its_transitions() {
        let today = date("2026-01-01T01:00:00Z");
        let released = held_by("me").released(today);
        assert_eq!(
            (released.holder.as_str(), released.duration_seconds),
            ("", 1)
        );
        assert_eq!((released.transitions, released.renewed), (4, Some(today)));
    }

    #[test]
    fn a_spec_keeps_what_the_election_does_not_know() {
        let mut spec = LeaseSpec {
            strategy: Some("kept".to_owned()),
            ..LeaseSpec::default()
        };
        held_by("me").write_to(&mut spec);
        assert_eq!(spec.strategy.as_deref(), Some("kept"));
        assert_eq!(Record::from_spec(Some(&spec)), held_by("me"));
        assert_eq!(Record::from_spec(None), Record::default());
    }
}
