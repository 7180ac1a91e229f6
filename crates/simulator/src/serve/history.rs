//! Earlier answers to list requests, so that a fault can make a list stale.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use bytes::Bytes;
use http::HeaderMap;
use tokio::time::Instant;

/// Different answers kept per list. Only changes are kept, so that a quiet list costs one; a busy
/// list of 2,000 servers (2 MiB each) costs 16 MiB.
const MOST_ANSWERS: usize = 8;
/// Lists that are kept: callers times collections times the filters in use.
const MOST_LISTS: usize = 64;

/// A list as it was answered.
type List = (HeaderMap, Bytes);

/// Answers by list, each with the moment at which it was first given.
#[derive(Debug, Default)]
pub(super) struct History(BTreeMap<String, VecDeque<(Instant, List)>>);

impl History {
    /// Notes the answer that is true now.
    pub(super) fn note(&mut self, list: &str, (headers, answer): (&HeaderMap, &Bytes)) {
        if self.0.len() >= MOST_LISTS && !self.0.contains_key(list) {
            return;
        }
        let answers = self.0.entry(list.to_owned()).or_default();
        if answers.back().is_some_and(|(_, last)| last.1 == answer) {
            return;
        }
        if answers.len() >= MOST_ANSWERS {
            answers.pop_front();
        }
        answers.push_back((Instant::now(), (headers.clone(), answer.clone())));
    }

    /// The answer as it was that long ago, or the oldest that is known.
    pub(super) fn recall(&self, list: &str, age: Duration) -> Option<List> {
        let answers = self.0.get(list)?;
        let mut newest_first = answers.iter().rev();
        let found = newest_first
            .find(|(since, _)| since.elapsed() >= age)
            .or_else(|| answers.front());
        found.map(|(_, answer)| answer.clone())
    }
}

/// Whether an answer is a list: clouds give it as it is, or as the first field of an object.
pub(super) fn is_list(answer: &[u8]) -> bool {
    match answer {
        [b'[', ..] => true,
        [b'{', b'"', rest @ ..] => {
            let mut after = rest.splitn(2, |it| *it == b'"').skip(1);
            after.next().is_some_and(|it| it.starts_with(b":["))
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn the_past_is_recalled_and_the_oldest_is_forgotten() {
        let mut history = History::default();
        for number in 0..10 {
            let answer = Bytes::from(number.to_string());
            history.note("servers", (&HeaderMap::new(), &answer));
            tokio::time::advance(Duration::from_secs(5)).await;
            history.note("servers", (&HeaderMap::new(), &answer));
            tokio::time::advance(Duration::from_secs(5)).await;
        }
        for (age, expected) in [(0, "9"), (15, "8"), (35, "6"), (9999, "2")] {
            let recalled = history.recall("servers", Duration::from_secs(age));
            assert_eq!(recalled.unwrap().1, expected, "{age} s ago");
        }
        assert!(history.recall("networks", Duration::ZERO).is_none());
    }

    #[test]
    fn lists_stand_alone_or_in_an_object() {
        for list in ["[]", r#"[{"id":"1"}]"#, r#"{"instances":[]}"#] {
            assert!(is_list(list.as_bytes()), "{list}");
        }
        for other in ["", "{}", "7", r#"{"id":"1","tags":[]}"#, r#"{"id"#] {
            assert!(!is_list(other.as_bytes()), "{other}");
        }
    }
}
