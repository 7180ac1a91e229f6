//! Names of events: the object's name and the time in hexadecimal nanoseconds.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use bowline_http::Random;
use jiff::Timestamp;

/// The longest name of an object.
const NAME_LIMIT: usize = 253;

/// `<object>.<nanoseconds in hex>`; none if that is not a DNS name.
pub fn event_name(object: &str, nanoseconds: i64) -> Option<String> {
    let name = format!("{object}.{nanoseconds:x}");
    is_dns_name(&name).then_some(name)
}

/// Dot-separated labels of lower-case letters, digits and inner hyphens.
fn is_dns_name(name: &str) -> bool {
    let letter = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    name.len() <= NAME_LIMIT
        && name.split('.').all(|label| {
            let bytes = label.as_bytes();
            let ends = [bytes.first(), bytes.last()];
            ends.into_iter().all(|end| end.copied().is_some_and(letter))
                && bytes.iter().all(|byte| letter(*byte) || *byte == b'-')
        })
}

/// Hands out names that never repeat: an event in the same nanosecond as the last one (usual under
/// a simulated clock) gets the next one.
#[derive(Clone, Debug, Default)]
pub struct EventNames(Arc<AtomicI64>);

impl EventNames {
    /// A name for an event about that object now.
    pub fn next(&self, object: &str, now: Timestamp, random: &Random) -> String {
        let now = i64::try_from(now.as_nanosecond()).unwrap_or(i64::MAX - 1);
        let later = |last: i64| Some(now.max(last.saturating_add(1)));
        let last = self
            .0
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, later);
        let unique = last.ok().and_then(later).unwrap_or(now);
        event_name(object, unique).unwrap_or_else(|| random.uuid())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vector_2_the_name_holds_the_time_in_hex() {
        assert_eq!(
            event_name("web", 1_700_000_000_000_000_000).as_deref(),
            Some("web.17979cfe362a0000")
        );
    }

    #[test]
    fn a_name_that_is_no_dns_name_becomes_a_uuid() {
        let now: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
        let long = "x".repeat(250);
        for object in ["Web", "", "a_b", "-a", "a..b", long.as_str()] {
            let name = EventNames::default().next(object, now, &Random::seeded(1));
            assert_eq!((name.len(), &name[14..15]), (36, "4"), "{object}");
        }
        assert!(event_name("n1.example.test", 1).is_some());
    }

    #[test]
    fn names_of_one_moment_differ() {
        let (names, random) = (EventNames::default(), Random::seeded(1));
        let now = Timestamp::from_nanosecond(1_700_000_000_000_000_000).unwrap();
        assert_eq!(names.next("web", now, &random), "web.17979cfe362a0000");
        assert_eq!(names.next("web", now, &random), "web.17979cfe362a0001");
    }
}
