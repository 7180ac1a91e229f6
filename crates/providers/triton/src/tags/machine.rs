//! The state of one machine: what is wanted on it, and what is in flight. Pure.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;
use tracing::warn;

use super::arithmetic::{Change, Overwritten, Wanted, holds, holds_groups, taken_away};
use super::in_flight::{InFlightWrite, POLL_LIMIT};
use super::reconciler::{About, TagOutcome};
use super::{BALANCER, GROUPS, Ports, SERVICES, Tags};
use crate::machine_cache::Listing;

/// When to ask again about a machine that somebody else is at work on.
pub(super) const BUSY: Duration = Duration::from_millis(250);
/// For how long an entry of ours that comes back after we took it away is still known as ours: a
/// tool that read it before writes it back within seconds, and no job takes longer than five
/// minutes.
const FORMER_FOR: Duration = Duration::from_secs(300);
/// How long a refusal is remembered before the same is tried again: a caller with many machines
/// comes by often.
const REFUSED_FOR: Duration = Duration::from_secs(30);

#[derive(Debug, Default)]
pub(super) struct Machine {
    pub(super) wanted: Wanted,
    /// Labels wanted and not seen in place since.
    pub(super) open: BTreeSet<String>,
    pub(super) open_groups: bool,
    /// What was seen in place, as it was wanted: whoever takes it away makes us repair it.
    pub(super) seen: BTreeMap<String, Ports>,
    pub(super) seen_groups: Option<BTreeSet<String>>,
    /// Entries for the name service that were taken away, and when.
    pub(super) former: BTreeMap<String, Instant>,
    /// Labels that the server does not take, or may not: they are left out of what others write.
    pub(super) refused: BTreeMap<String, Refusal>,
    pub(super) refused_groups: Option<Refusal>,
    pub(super) work: Arc<tokio::sync::Mutex<Work>>,
    pub(super) busy: bool,
    /// It does not exist any more, and nothing has been wanted on it since that was found out.
    pub(super) gone: bool,
}

#[derive(Clone, Debug)]
pub(super) struct Refusal {
    /// The server's message; none if this was not tried alone.
    message: Option<String>,
    at: Instant,
}

#[derive(Debug, Default)]
pub(super) struct Work {
    pub(super) in_flight: Option<InFlightWrite>,
    /// When the first of the writes that do not show was made.
    pub(super) since: Option<Instant>,
    pub(super) unwritable: bool,
    /// Whether the last attempt to write failed. Such a machine is not counted among the writes of
    /// a pass.
    pub(super) failed: bool,
    pub(super) overwritten: Vec<Overwritten>,
    /// When it last changed: lists asked for before that are too old.
    pub(super) changed: Option<Instant>,
}

impl About<'_> {
    pub(super) fn concerns(self, tag: &str) -> bool {
        match self {
            Self::Machine => true,
            _ if tag == BALANCER => true,
            Self::Label(_) => tag == SERVICES,
            Self::Groups => tag == GROUPS,
        }
    }
}

impl Wanted {
    pub(super) fn only(&self, about: About<'_>) -> Self {
        let mut alone = self.clone();
        match about {
            About::Machine => {}
            About::Groups => alone.labels.clear(),
            About::Label(label) => {
                alone.labels.retain(|it, _| it == label);
                alone.groups = None;
            }
        }
        alone
    }
}

impl Machine {
    /// What is wanted, without what the server did not take from others.
    pub(super) fn wanted_for(&self, about: About<'_>) -> Wanted {
        let mut wanted = self.wanted.clone();
        wanted.former = self.former();
        let refused = |label: &String| {
            self.refused.contains_key(label) && about != About::Label(label.as_str())
        };
        wanted.labels.retain(|label, _| !refused(label));
        if self.refused_groups.is_some() && about != About::Groups {
            wanted.groups = None;
        }
        wanted
    }

    /// Entries that were ours until lately.
    pub(super) fn former(&self) -> BTreeSet<String> {
        let young = |at: &Instant| at.elapsed() < FORMER_FOR;
        let former = self.former.iter().filter(|(_, at)| young(at));
        former.map(|(text, _)| text.clone()).collect()
    }

    pub(super) fn settled(&mut self, wanted: &Wanted) {
        for (label, ports) in &wanted.labels {
            self.open.remove(label);
            self.refused.remove(label);
            if let Some(ports) = ports {
                self.seen.insert(label.clone(), ports.clone());
            } else {
                self.wanted.labels.remove(label);
                self.seen.remove(label);
            }
        }
        if let Some(groups) = &wanted.groups {
            self.open_groups = false;
            self.refused_groups = None;
            self.seen_groups = Some(groups.clone()).filter(|it| !it.is_empty());
        }
        self.wanted.take_over = false;
        self.wanted.released = false;
        self.busy = false;
    }

    pub(super) fn is_idle(&self) -> bool {
        let no_groups = self.wanted.groups.as_ref().is_none_or(BTreeSet::is_empty);
        self.wanted.labels.is_empty()
            && no_groups
            && self.seen.is_empty()
            && self.seen_groups.is_none()
            && self.former().is_empty()
    }

    /// A write was made to those tags. Whether it puts back what somebody took away.
    pub(super) fn sent(&mut self, cluster: &str, tags: &Tags, change: &Change) -> bool {
        self.busy = true;
        let now = Instant::now();
        let former = self.former();
        self.former.retain(|text, _| former.contains(text));
        let away = taken_away(tags, change).into_iter();
        self.former.extend(away.map(|text| (text, now)));
        let wanted = &self.wanted.labels;
        let mut lost = false;
        self.seen.retain(|label, ports| match wanted.get(label) {
            Some(Some(wanted)) if wanted == ports => {
                let there = holds(tags, cluster, label, Some(ports));
                lost |= !there;
                there
            }
            // What is no longer wanted so is not missed.
            Some(_) => false,
            None => true,
        });
        if self.seen_groups.as_ref() == self.wanted.groups.as_ref()
            && let Some(groups) = &self.seen_groups
            && !holds_groups(tags, groups)
        {
            lost = true;
            self.seen_groups = None;
        }
        lost
    }

    pub(super) fn refuse(&mut self, about: About<'_>, message: &str) {
        let refusal = Refusal {
            message: Some(message.to_owned()),
            at: Instant::now(),
        };
        match about {
            About::Label(label) => drop(self.refused.insert(label.to_owned(), refusal)),
            About::Groups => self.refused_groups = Some(refusal),
            About::Machine => {}
        }
    }

    /// The server's message if it refused that lately.
    pub(super) fn refusal(&self, about: About<'_>) -> Option<&str> {
        let refusal = match about {
            About::Label(label) => self.refused.get(label)?,
            About::Groups => self.refused_groups.as_ref()?,
            About::Machine => return None,
        };
        let message = refusal.message.as_deref();
        message.filter(|_| refusal.at.elapsed() < REFUSED_FOR)
    }

    /// One of the others may be what the server does not take: each is left to who wants it.
    pub(super) fn suspect(
        &mut self,
        wanted: &Wanted,
        about: About<'_>,
        (cluster, tags): (&str, &Tags),
    ) {
        for (label, ports) in &wanted.labels {
            let own = about == About::Label(label.as_str());
            if !own && !holds(tags, cluster, label, ports.as_ref()) {
                let refusal = self.refused.entry(label.clone());
                refusal.or_insert_with(Refusal::suspected);
            }
        }
        if let Some(groups) = &wanted.groups
            && about != About::Groups
            && !holds_groups(tags, groups)
        {
            self.refused_groups.get_or_insert_with(Refusal::suspected);
        }
    }
}

impl Refusal {
    fn suspected() -> Self {
        Self {
            message: None,
            at: Instant::now(),
        }
    }
}

impl Work {
    /// The answer, if it is too early for another look.
    pub(super) fn early(&self, now: Instant) -> Option<TagOutcome> {
        let in_flight = self.in_flight.as_ref()?;
        (in_flight.next > now).then(|| self.waiting(now))
    }

    /// Whether a list was asked for after the last write and the last change of mind.
    pub(super) fn is_before(&self, listing: &Listing) -> bool {
        self.changed.is_none_or(|moment| listing.asked >= moment)
    }

    pub(super) fn waiting(&self, now: Instant) -> TagOutcome {
        match (&self.in_flight, self.since) {
            (_, Some(since)) if self.unwritable => TagOutcome::Pending { since },
            (Some(in_flight), _) => TagOutcome::Working {
                after: in_flight.next.saturating_duration_since(now),
            },
            (None, _) => TagOutcome::Working { after: BUSY },
        }
    }

    pub(super) fn track(&mut self, mut in_flight: InFlightWrite) -> TagOutcome {
        let now = Instant::now();
        let since = *self.since.get_or_insert(now);
        if self.unwritable {
            warn!(waiting_for = ?now.saturating_duration_since(since), "tags do not show; trying again");
            in_flight.next = now + POLL_LIMIT;
        }
        self.in_flight = Some(in_flight);
        self.failed = false;
        self.changed = Some(now);
        self.overwritten.clear();
        self.waiting(now)
    }

    pub(super) fn give_up(&mut self) {
        self.failed = true;
        self.in_flight = None;
        self.since = None;
        self.unwritable = false;
    }
}
