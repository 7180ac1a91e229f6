//! One write that the API has accepted, and that shows some time later or never. Pure.

use std::time::Duration;

use tokio::time::Instant;

use super::Tags;
use super::arithmetic::{Change, GROUP_LIST, Overwritten, SERVICE_LIST, Wanted, change};
use super::reconciler::About;

/// How long a write may take to show; a job takes one to ten seconds, and gives up after two
/// minutes. After this the machine counts as unwritable, which is also how often it is tried again.
pub const POLL_LIMIT: Duration = Duration::from_secs(60);
/// How long after somebody else's change was seen in place of ours ours is still waited for: longer
/// than a job takes. Then it was overwritten, and is written again.
const OVERTAKEN: Duration = Duration::from_secs(15);

/// How long to wait before the next look, so long after a write. Jobs take a second or more, and
/// run one after the other on a machine: looking more often than that, for as long as a few of them
/// take, shows what somebody else has written before ours comes on top of it. Who takes longer is
/// in no hurry.
pub fn polling_interval(since: Duration) -> Duration {
    match since.as_secs() {
        0 => Duration::from_millis(500),
        1..30 => Duration::from_millis(750),
        _ => Duration::from_secs(3),
    }
}

#[derive(Clone, Debug)]
pub(super) struct InFlightWrite {
    change: Change,
    wanted: Wanted,
    cluster: String,
    base: Tags,
    last: Tags,
    sent: Instant,
    /// Since when somebody else's change is seen.
    theirs_since: Option<Instant>,
    pub(super) next: Instant,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Observation {
    /// It shows; on top of others' changes, if there are any.
    Applied(Vec<Overwritten>),
    Waiting,
    /// Somebody else's change has come on top of it.
    Overtaken,
    TimedOut,
}

impl InFlightWrite {
    pub(super) fn new(
        (change, wanted, cluster): (Change, Wanted, &str),
        base: Tags,
        now: Instant,
    ) -> Self {
        Self {
            change,
            wanted,
            cluster: cluster.to_owned(),
            last: base.clone(),
            base,
            sent: now,
            theirs_since: None,
            next: now + polling_interval(Duration::ZERO),
        }
    }

    pub(super) fn look(&mut self, tags: &Tags, now: Instant) -> Observation {
        if self.change.shows_in(tags) {
            return Observation::Applied(self.overwritten());
        }
        // With a change of somebody else's who had seen ours.
        if self.is_met_by(tags) && !self.is_met_by(&self.base) {
            return Observation::Applied(Vec::new());
        }
        let touched = self.keys().any(|key| tags.get(key) != self.base.get(key));
        self.theirs_since = touched.then(|| self.theirs_since.unwrap_or(now));
        self.last.clone_from(tags);
        let since = |moment: Instant| now.saturating_duration_since(moment);
        self.next = now + polling_interval(since(self.sent));
        if self.theirs_since.is_some_and(|it| since(it) >= OVERTAKEN) {
            Observation::Overtaken
        } else if since(self.sent) >= POLL_LIMIT {
            Observation::TimedOut
        } else {
            Observation::Waiting
        }
    }

    /// Whether it was made for the same of that.
    pub(super) fn carries(&self, wanted: &Wanted, about: About<'_>) -> bool {
        let carried = self.wanted.only(about);
        (&carried.labels, &carried.groups, carried.released)
            == (&wanted.labels, &wanted.groups, wanted.released)
    }

    fn is_met_by(&self, tags: &Tags) -> bool {
        let left = change(tags, &self.wanted, &self.cluster);
        left.is_ok_and(|it| it.is_empty() && it.bad.is_empty())
    }

    fn keys(&self) -> impl Iterator<Item = &str> {
        let set = self.change.set.keys().map(String::as_str);
        set.chain(self.change.delete.iter().copied())
    }

    /// Lists that somebody else had changed before this came on top of them.
    fn overwritten(&self) -> Vec<Overwritten> {
        let lists = [SERVICE_LIST.tag, GROUP_LIST.tag];
        let ours = lists
            .into_iter()
            .filter(|tag| self.keys().any(|it| it == *tag));
        let changed = ours.filter(|tag| self.last.get(*tag) != self.base.get(*tag));
        let overwritten = |key: &'static str| Overwritten {
            key,
            written: self.change.set.get(key).cloned(),
            before: self.last.get(key).cloned(),
        };
        changed.map(overwritten).collect()
    }
}
