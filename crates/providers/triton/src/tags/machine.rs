//! What is known about one machine: what is wanted on it, and what is on its way. Pure.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;
use tracing::warn;

use super::arithmetic::{Overwritten, Wanted, holds, holds_groups};
use super::flight::{Flight, POLL_LIMIT};
use super::keeper::{About, Settled};
use super::{BALANCER, GROUPS, Ports, SERVICES, Tags};

/// When to ask again about a machine that somebody else is at work on.
pub(super) const BUSY: Duration = Duration::from_millis(250);

/// What is known about one machine.
#[derive(Debug, Default)]
pub(super) struct Machine {
    pub(super) wanted: Wanted,
    /// Labels told since they were last seen in place.
    pub(super) open: BTreeSet<String>,
    pub(super) open_groups: bool,
    /// What was seen in place, as it was wanted: whoever takes it away makes us repair it.
    pub(super) seen: BTreeMap<String, Ports>,
    pub(super) seen_groups: Option<BTreeSet<String>>,
    /// Labels that the server does not take, or may not: they are left out of what others write.
    pub(super) refused: BTreeSet<String>,
    pub(super) refused_groups: bool,
    pub(super) work: Arc<tokio::sync::Mutex<Work>>,
    /// Whether a write is on its way.
    pub(super) busy: bool,
    /// It does not exist any more; nothing has been told about it since that was found out.
    pub(super) gone: bool,
}

/// The writing of one machine.
#[derive(Debug, Default)]
pub(super) struct Work {
    pub(super) flight: Option<Flight>,
    /// When the first of the writes that do not show was made.
    pub(super) since: Option<Instant>,
    pub(super) unwritable: bool,
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
    /// The part of it that somebody asks about.
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
        let refused =
            |label: &String| self.refused.contains(label) && about != About::Label(label.as_str());
        wanted.labels.retain(|label, _| !refused(label));
        if self.refused_groups && about != About::Groups {
            wanted.groups = None;
        }
        wanted
    }

    /// All of that is in place.
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
            self.refused_groups = false;
            self.seen_groups = Some(groups.clone()).filter(|it| !it.is_empty());
        }
        self.wanted.take_over = false;
        self.busy = false;
    }

    pub(super) fn is_idle(&self) -> bool {
        let no_groups = self.wanted.groups.as_ref().is_none_or(BTreeSet::is_empty);
        self.wanted.labels.is_empty()
            && no_groups
            && self.seen.is_empty()
            && self.seen_groups.is_none()
    }

    /// A write was made to those tags. Whether it puts back what somebody took away.
    pub(super) fn sent(&mut self, cluster: &str, tags: &Tags) -> bool {
        self.busy = true;
        let told = &self.wanted.labels;
        let mut lost = false;
        self.seen.retain(|label, ports| match told.get(label) {
            Some(Some(told)) if told == ports => {
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

    pub(super) fn refuse(&mut self, about: About<'_>) {
        match about {
            About::Label(label) => drop(self.refused.insert(label.to_owned())),
            About::Groups => self.refused_groups = true,
            About::Machine => {}
        }
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
                self.refused.insert(label.clone());
            }
        }
        if let Some(groups) = &wanted.groups
            && about != About::Groups
            && !holds_groups(tags, groups)
        {
            self.refused_groups = true;
        }
    }
}

impl Work {
    /// The answer, if it is too early for another look.
    pub(super) fn early(&self, now: Instant) -> Option<Settled> {
        let flight = self.flight.as_ref()?;
        (flight.next > now).then(|| self.waiting(now))
    }

    pub(super) fn waiting(&self, now: Instant) -> Settled {
        match (&self.flight, self.since) {
            (_, Some(since)) if self.unwritable => Settled::Pending { since },
            (Some(flight), _) => Settled::Working {
                after: flight.next.saturating_duration_since(now),
            },
            (None, _) => Settled::Working { after: BUSY },
        }
    }

    /// A write was accepted.
    pub(super) fn took_off(&mut self, mut flight: Flight) -> Settled {
        let now = Instant::now();
        let since = *self.since.get_or_insert(now);
        if self.unwritable {
            warn!(waiting_for = ?now.saturating_duration_since(since), "tags do not show; trying again");
            flight.next = now + POLL_LIMIT;
        }
        self.flight = Some(flight);
        self.changed = Some(now);
        self.overwritten.clear();
        self.waiting(now)
    }

    /// Nothing is tried any more for now.
    pub(super) fn give_up(&mut self) {
        self.flight = None;
        self.since = None;
        self.unwritable = false;
    }
}
