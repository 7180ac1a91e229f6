//! Earlier answers to list requests, so that a fault can make a list stale.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use bytes::Bytes;
use jiff::Timestamp;

/// Different answers kept per list. Only changes are kept, so that a quiet list costs one; a busy
/// list of 2,000 servers (2 MiB each) costs 16 MiB.
const MOST_ANSWERS: usize = 8;
/// Lists that are kept: projects times collections times the filters in use.
const MOST_LISTS: usize = 64;

/// Answers by list, each with the moment at which it was first given.
#[derive(Debug, Default)]
pub(super) struct History(BTreeMap<String, VecDeque<(Timestamp, Bytes)>>);

impl History {
    /// Notes the answer that is true now.
    pub(super) fn note(&mut self, list: &str, now: Timestamp, answer: &Bytes) {
        if self.0.len() >= MOST_LISTS && !self.0.contains_key(list) {
            return;
        }
        let answers = self.0.entry(list.to_owned()).or_default();
        if answers.back().is_some_and(|(_, last)| last == answer) {
            return;
        }
        if answers.len() >= MOST_ANSWERS {
            answers.pop_front();
        }
        answers.push_back((now, answer.clone()));
    }

    /// The answer as it was that long ago, or the oldest that is known.
    pub(super) fn recall(&self, list: &str, now: Timestamp, age: Duration) -> Option<Bytes> {
        let answers = self.0.get(list)?;
        let then = now.saturating_sub(age).unwrap_or(Timestamp::MIN);
        let mut newest_first = answers.iter().rev();
        let found = newest_first
            .find(|(since, _)| *since <= then)
            .or_else(|| answers.front());
        found.map(|(_, answer)| answer.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_past_is_recalled_and_the_oldest_is_forgotten() {
        let at = |second| Timestamp::from_second(second).unwrap();
        let mut history = History::default();
        for second in 0..10 {
            let answer = Bytes::from(second.to_string());
            history.note("servers", at(second * 10), &answer);
            history.note("servers", at(second * 10 + 5), &answer);
        }
        for (age, expected) in [(0, "9"), (5, "8"), (25, "6"), (9999, "2")] {
            let recalled = history
                .recall("servers", at(90), Duration::from_secs(age))
                .unwrap();
            assert_eq!(recalled, expected, "{age} s ago");
        }
        assert!(history.recall("networks", at(0), Duration::ZERO).is_none());
    }
}
