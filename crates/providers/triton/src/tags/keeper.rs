//! What everybody wants on each machine, and bringing it there.
//!
//! Nothing goes on in the background: a write is made, and looked after, only by who calls
//! [`Keeper::settle`] or [`Keeper::settle_all`] and waits for it. So whoever may not write (any more)
//! does not.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bowline_core::{CloudError, CloudErrorKind};
use futures::{StreamExt as _, stream};
use prometheus_client::metrics::counter::Counter;
use tokio::time::Instant;
use tracing::{info, warn};
use uuid::Uuid;

use super::arithmetic::{Change, OtherCluster, Overwritten, Role, Wanted, change_after};
use super::arithmetic::{holds, holds_groups};
use super::flight::{Flight, Look, POLL_LIMIT};
use super::grammar::{Bad, is_label};
use super::{BALANCER, GROUPS, Ports, SERVICES, Tags};
use crate::api::{ApiError, MachineRead};
use crate::roll::Listing;
use crate::site::Site;

/// When to ask again about a machine that somebody else is at work on.
const BUSY: Duration = Duration::from_millis(250);
/// Machines that are read and written at the same time: half of what the client allows.
const AT_ONCE: usize = 4;
/// So many machines are looked at with one list instead of one by one.
const LIST_FROM: usize = 4;

/// What came of bringing a machine to what is wanted on it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Settled {
    /// It is there.
    Done,
    /// It is on its way.
    Working {
        /// When to look again.
        after: Duration,
    },
    /// The machine cannot be written: what was written has not shown for a minute. It is tried again
    /// once a minute, by who asks then; nobody should wait for it.
    Pending {
        /// When it was first written.
        since: Instant,
    },
    /// The server does not take it, for the reason it gives.
    Refused(String),
    /// A list on the machine cannot be understood; it is left alone.
    Bad(Bad),
    /// The machine is marked as another cluster's; nothing was written.
    OtherCluster(String),
    /// The machine is destroyed; there is nothing to clean.
    Gone,
}

/// What somebody asks about. All that is wanted on a machine travels in one write; this says which of
/// it the answer is about, and what is tried alone if the server refuses the whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum About<'a> {
    /// A label for the name service.
    Label(&'a str),
    /// The groups of metrics.
    Groups,
    /// Everything.
    Machine,
}

/// What everybody wants on the machines of one data center.
#[derive(Debug)]
pub struct Keeper {
    site: Arc<Site>,
    repairs: Counter,
    /// As many as the cluster has, and a few that have left it.
    machines: Mutex<BTreeMap<Uuid, Machine>>,
}

/// What is known about one machine.
#[derive(Debug, Default)]
struct Machine {
    wanted: Wanted,
    /// Labels told since they were last seen in place.
    open: BTreeSet<String>,
    open_groups: bool,
    /// What was seen in place, as it was wanted: whoever takes it away makes us repair it.
    seen: BTreeMap<String, Ports>,
    seen_groups: Option<BTreeSet<String>>,
    /// Labels that the server does not take, or may not: they are left out of what others write.
    refused: BTreeSet<String>,
    refused_groups: bool,
    work: Arc<tokio::sync::Mutex<Work>>,
    /// Whether a write is on its way.
    busy: bool,
}

/// The writing of one machine.
#[derive(Debug, Default)]
struct Work {
    flight: Option<Flight>,
    /// When the first of the writes that do not show was made.
    since: Option<Instant>,
    unwritable: bool,
    overwritten: Vec<Overwritten>,
    /// When it last changed: lists asked for before that are too old.
    changed: Option<Instant>,
}

/// What a look at a machine leads to.
enum Decision {
    /// Nothing to be written.
    Answer(Settled),
    Write(Change, Wanted),
}

/// Telling what is wanted.
impl Keeper {
    /// Nothing is wanted yet. `repairs` counts what others took away and we put back.
    pub fn new(site: Arc<Site>, repairs: Counter) -> Self {
        Self {
            site,
            repairs,
            machines: Mutex::default(),
        }
    }

    /// The data center.
    pub fn site(&self) -> &Arc<Site> {
        &self.site
    }

    /// A label is wanted on a machine with those ports, or, with none, not at all. Labels that nobody
    /// has told anything about stay as they are.
    pub fn tell(&self, machine: Uuid, label: &str, ports: Option<Ports>) {
        let label = label.to_ascii_lowercase();
        let ports = ports.filter(|ports| !ports.is_empty());
        self.with(machine, |it| {
            if ports.is_some() {
                // Who is wanted again has not left.
                it.wanted.released = false;
            }
            if it.wanted.labels.get(&label) == Some(&ports) {
                return;
            }
            it.refused.remove(&label);
            it.open.insert(label.clone());
            it.wanted.labels.insert(label, ports);
        });
    }

    /// These are all the groups of ours that a machine is to be in.
    pub fn tell_groups(&self, machine: Uuid, role: Role, groups: BTreeSet<String>) {
        self.with(machine, |it| {
            it.wanted.role = role;
            if !groups.is_empty() {
                it.wanted.released = false;
            }
            if it.wanted.groups.as_ref() == Some(&groups) {
                return;
            }
            it.refused_groups = false;
            it.open_groups = true;
            it.wanted.groups = Some(groups);
        });
    }

    /// A machine that is marked as another cluster's is to be taken over, with the next write and only
    /// then.
    pub fn take_over(&self, machine: Uuid) {
        self.with(machine, |it| it.wanted.take_over = true);
    }

    /// A machine has left the cluster: everything of ours goes from it, at last its mark.
    pub fn release(&self, machine: Uuid) {
        self.with(machine, |it| {
            it.wanted = Wanted {
                released: true,
                role: it.wanted.role,
                ..Wanted::default()
            };
            it.open.clear();
            it.open_groups = false;
            it.seen.clear();
            it.seen_groups = None;
        });
    }

    /// Whether these tags of a machine, as a list showed them, are what is wanted of a label, so that
    /// nothing has to be done about it. Writes nothing; what it saw in place it knows as such.
    pub fn shows(
        &self,
        cluster: &str,
        (machine, tags): (Uuid, &Tags),
        label: &str,
        ports: Option<&Ports>,
    ) -> bool {
        let ports = ports.filter(|ports| !ports.is_empty());
        let there = holds(tags, cluster, label, ports);
        let mut machines = self.lock();
        if let Some(known) = machines.get(&machine) {
            // What was told meanwhile, or is on its way, the list does not show yet.
            let told = known.wanted.labels.get(label);
            let other = told.is_some_and(|told| told.as_ref() != ports);
            if other || known.open.contains(label) || (known.wanted.released && ports.is_some()) {
                return false;
            }
        }
        if let Some(ports) = ports.filter(|_| there) {
            let seen = &mut machines.entry(machine).or_default().seen;
            seen.insert(label.to_owned(), ports.clone());
        }
        there
    }

    /// The same about groups.
    pub fn shows_groups(&self, (machine, tags): (Uuid, &Tags), groups: &BTreeSet<String>) -> bool {
        let there = holds_groups(tags, groups);
        let mut machines = self.lock();
        if let Some(known) = machines.get(&machine) {
            let told = known.wanted.groups.as_ref();
            if known.open_groups || told.is_some_and(|told| told != groups) {
                return false;
            }
        }
        if there && !groups.is_empty() {
            machines.entry(machine).or_default().seen_groups = Some(groups.clone());
        }
        there
    }

    /// Machines that are not known to be as they are wanted, so that somebody should see to them:
    /// told and not brought there yet, on their way, unwritable, or not clean after they left.
    pub fn unsettled(&self) -> BTreeSet<Uuid> {
        let machines = self.lock();
        let open = machines.iter().filter(|(_, it)| {
            it.busy
                || it.wanted.released
                || (it.open_groups && !it.refused_groups)
                || it.open.difference(&it.refused).next().is_some()
        });
        open.map(|(id, _)| *id).collect()
    }

    fn with<T>(&self, machine: Uuid, work: impl FnOnce(&mut Machine) -> T) -> T {
        work(self.lock().entry(machine).or_default())
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<Uuid, Machine>> {
        self.machines.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Bringing it there.
impl Keeper {
    /// Brings a machine nearer to what is wanted on it by now: looks at it, and writes if something has
    /// to be written and nothing is on its way. To be called until it says something else than
    /// [`Settled::Working`]. An error is that the machine could not be read or written.
    pub async fn settle(
        &self,
        cluster: &str,
        machine: Uuid,
        about: About<'_>,
    ) -> Result<Settled, CloudError> {
        self.visit(cluster, machine, about, None).await
    }

    /// The same for many machines, with fewer calls. None of them waits for another.
    pub async fn settle_all(
        &self,
        cluster: &str,
        machines: &BTreeSet<Uuid>,
        about: About<'_>,
    ) -> BTreeMap<Uuid, Result<Settled, CloudError>> {
        let due = machines.iter().filter(|id| self.is_due(**id)).count();
        let listing = if due >= LIST_FROM {
            // Without a list each is read by itself.
            self.site.roll().since(Instant::now()).await.ok()
        } else {
            None
        };
        let listing = listing.as_deref();
        let visits = stream::iter(machines.iter().copied())
            .map(|id| async move { (id, self.visit(cluster, id, about, listing).await) })
            .buffer_unordered(AT_ONCE);
        visits.collect().await
    }

    fn is_due(&self, machine: Uuid) -> bool {
        let now = Instant::now();
        let work = self.work(machine);
        let due = |work: &tokio::sync::Mutex<Work>| {
            let work = work.try_lock();
            work.is_ok_and(|work| work.early(now).is_none())
        };
        work.is_some_and(|work| due(&work))
    }

    fn work(&self, machine: Uuid) -> Option<Arc<tokio::sync::Mutex<Work>>> {
        self.lock().get(&machine).map(|it| Arc::clone(&it.work))
    }

    async fn visit(
        &self,
        cluster: &str,
        id: Uuid,
        about: About<'_>,
        listing: Option<&Listing>,
    ) -> Result<Settled, CloudError> {
        if let About::Label(label) = about
            && !is_label(label)
        {
            let why = format!("{label:?} is no label for the name service");
            return Ok(Settled::Refused(why));
        }
        let Some(work) = self.work(id) else {
            return Ok(Settled::Done);
        };
        // Whoever is at work takes along what was told by then, or leaves it to the next look.
        let Ok(mut work) = work.try_lock() else {
            return Ok(Settled::Working { after: BUSY });
        };
        if let Some(early) = work.early(Instant::now()) {
            return Ok(early);
        }
        let listing = listing.filter(|it| work.changed.is_none_or(|moment| it.asked > moment));
        let mut listed = listing.and_then(|it| it.machines.get(&id));
        let mut looked = false;
        loop {
            let is_listed = listed.is_some();
            let tags = match listed.take() {
                Some(machine) => machine.tags.clone(),
                None => match self.read(id).await? {
                    Some(tags) => tags,
                    None => return Ok(self.forget(id)),
                },
            };
            if !looked && let Some(answer) = self.look(&mut work, &tags) {
                return Ok(answer);
            }
            looked = true;
            match self.decide(cluster, id, about, (&tags, &work.overwritten)) {
                Decision::Answer(answer) => return Ok(answer),
                // Before a write the machine itself is asked: a list is older, and does not show whether it
                // still exists.
                Decision::Write(..) if is_listed => {}
                Decision::Write(change, wanted) => {
                    let order = (change, wanted);
                    return self.write(cluster, id, about, order, tags, &mut work).await;
                }
            }
        }
    }

    /// The tags of a machine; none if it is gone.
    async fn read(&self, id: Uuid) -> Result<Option<Tags>, CloudError> {
        let words = match self.site.api().machine(id).await? {
            MachineRead::Shown(machine) if machine.state.is_over() => return Ok(None),
            MachineRead::Shown(machine) => return Ok(Some(machine.tags)),
            MachineRead::Destroyed => return Ok(None),
            MachineRead::Missing(words) => words,
        };
        let lists = self.site.proof().await?;
        if lists.iter().all(|list| list.lacks(id)) {
            return Ok(None);
        }
        let text = format!("machine {id} is listed, but reading it is answered with {words:?}");
        Err(CloudError::new(CloudErrorKind::Unavailable, text))
    }

    fn forget(&self, id: Uuid) -> Settled {
        self.lock().remove(&id);
        Settled::Gone
    }

    /// Looks at what is on its way. None: nothing is, any more.
    fn look(&self, work: &mut Work, tags: &Tags) -> Option<Settled> {
        let now = Instant::now();
        match work.flight.as_mut()?.look(tags, now) {
            Look::Waiting => return Some(work.waiting(now)),
            Look::Landed(overwritten) => {
                work.overwritten = overwritten;
                work.since = None;
                work.unwritable = false;
                self.site.roll().invalidate();
            }
            Look::Overtaken => {
                work.since = None;
                work.unwritable = false;
            }
            Look::TimedOut => work.unwritable = true,
        }
        work.flight = None;
        work.changed = Some(now);
        None
    }

    fn decide(
        &self,
        cluster: &str,
        id: Uuid,
        about: About<'_>,
        (tags, overwritten): (&Tags, &[Overwritten]),
    ) -> Decision {
        let mut machines = self.lock();
        let Some(machine) = machines.get_mut(&id) else {
            return Decision::Answer(Settled::Done);
        };
        let wanted = machine.wanted_for(about);
        let change = match change_after(tags, &wanted, cluster, overwritten) {
            Ok(change) => change,
            Err(OtherCluster(uid)) => {
                if wanted.released {
                    machines.remove(&id);
                }
                return Decision::Answer(Settled::OtherCluster(uid));
            }
        };
        let bad = change.bad.iter().find(|bad| about.concerns(bad.tag));
        if let Some(bad) = bad.filter(|_| about != About::Machine || change.is_empty()) {
            return Decision::Answer(Settled::Bad(bad.clone()));
        }
        if !change.is_empty() {
            return Decision::Write(change, wanted);
        }
        machine.settled(&wanted);
        if wanted.released || machine.is_idle() {
            machines.remove(&id);
        }
        Decision::Answer(Settled::Done)
    }

    async fn write(
        &self,
        cluster: &str,
        id: Uuid,
        about: About<'_>,
        (mut change, mut wanted): (Change, Wanted),
        tags: Tags,
        work: &mut Work,
    ) -> Result<Settled, CloudError> {
        let mut sent = self.send(id, &change).await;
        if let Err((_, error)) = &sent
            && is_refusal(error)
        {
            let message = words(error);
            let alone = wanted.only(about);
            let order = change_after(&tags, &alone, cluster, &work.overwritten).unwrap_or_default();
            if about == About::Machine || order == change {
                self.with(id, |it| it.refuse(about));
                work.give_up();
                return Ok(Settled::Refused(message));
            }
            // It may be for somebody else's part.
            self.with(id, |it| it.suspect(&wanted, about, (cluster, &tags)));
            if order.is_empty() {
                return Ok(Settled::Done);
            }
            (change, wanted) = (order, alone);
            sent = self.send(id, &change).await;
        }
        let failed = match sent {
            Ok(()) => None,
            Err((_, error)) if is_refusal(&error) => {
                self.with(id, |it| it.refuse(about));
                work.give_up();
                return Ok(Settled::Refused(words(&error)));
            }
            Err((part, error)) if part.is_empty() => return Err(error.into()),
            Err((part, error)) => {
                change = part;
                Some(error)
            }
        };
        let repaired = self.with(id, |it| it.sent(cluster, &tags));
        if repaired {
            self.repairs.inc();
        }
        info!(machine = %id, set = ?change.set, deleted = ?change.delete, repaired, "tagging a machine");
        let answer = work.took_off(Flight::new((change, wanted, cluster), tags, Instant::now()));
        failed.map_or(Ok(answer), |error| Err(error.into()))
    }

    /// Sends a change. With an error comes what of it was taken before.
    async fn send(&self, id: Uuid, change: &Change) -> Result<(), (Change, ApiError)> {
        let mut taken = Change::default();
        let api = self.site.api();
        if !change.set.is_empty() {
            match api.add_tags(id, &change.set).await {
                Ok(()) => taken.set.clone_from(&change.set),
                Err(error) => return Err((taken, error)),
            }
        }
        for key in &change.delete {
            match api.delete_tag(id, key).await {
                Ok(_) => taken.delete.push(key),
                Err(error) => return Err((taken, error)),
            }
        }
        Ok(())
    }
}

/// Whether the server has understood and does not want it.
fn is_refusal(error: &ApiError) -> bool {
    matches!(error.status(), Some(409 | 422))
}

/// What the server says about it.
fn words(error: &ApiError) -> String {
    let fields = error.fields().iter().map(|it| it.message.clone());
    let fields: Vec<String> = fields.filter(|it| !it.is_empty()).collect();
    let message = match (error.message(), fields.is_empty()) {
        ("", true) => return error.to_string(),
        (message, true) => message.to_owned(),
        (message, false) => format!("{message}: {}", fields.join("; ")),
    };
    message
}

impl About<'_> {
    fn concerns(self, tag: &str) -> bool {
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
    fn only(&self, about: About<'_>) -> Self {
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
    fn wanted_for(&self, about: About<'_>) -> Wanted {
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
    fn settled(&mut self, wanted: &Wanted) {
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

    fn is_idle(&self) -> bool {
        let no_groups = self.wanted.groups.as_ref().is_none_or(BTreeSet::is_empty);
        self.wanted.labels.is_empty()
            && no_groups
            && self.seen.is_empty()
            && self.seen_groups.is_none()
    }

    /// A write was made to those tags. Whether it puts back what somebody took away.
    fn sent(&mut self, cluster: &str, tags: &Tags) -> bool {
        self.busy = true;
        let before = self.seen.len();
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
        debug_assert!(self.seen.len() <= before);
        if self.seen_groups.as_ref() == self.wanted.groups.as_ref()
            && let Some(groups) = &self.seen_groups
            && !holds_groups(tags, groups)
        {
            lost = true;
            self.seen_groups = None;
        }
        lost
    }

    fn refuse(&mut self, about: About<'_>) {
        match about {
            About::Label(label) => drop(self.refused.insert(label.to_owned())),
            About::Groups => self.refused_groups = true,
            About::Machine => {}
        }
    }

    /// One of the others may be what the server does not take: each is left to who wants it.
    fn suspect(&mut self, wanted: &Wanted, about: About<'_>, (cluster, tags): (&str, &Tags)) {
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
    fn early(&self, now: Instant) -> Option<Settled> {
        let flight = self.flight.as_ref()?;
        (flight.next > now).then(|| self.waiting(now))
    }

    fn waiting(&self, now: Instant) -> Settled {
        match (&self.flight, self.since) {
            (_, Some(since)) if self.unwritable => Settled::Pending { since },
            (Some(flight), _) => Settled::Working {
                after: flight.next.saturating_duration_since(now),
            },
            (None, _) => Settled::Working { after: BUSY },
        }
    }

    /// A write was accepted.
    fn took_off(&mut self, mut flight: Flight) -> Settled {
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
    fn give_up(&mut self) {
        self.flight = None;
        self.since = None;
        self.unwritable = false;
    }
}
