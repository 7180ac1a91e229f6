//! Brings machines to what is wanted on them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use bowline_core::{CloudError, CloudErrorKind};
use futures::{StreamExt as _, stream};
use tokio::time::Instant;
use tracing::info;
use uuid::Uuid;

use super::Tags;
use super::arithmetic::{Change, OtherCluster, Overwritten, Wanted, change_after};
use super::grammar::is_label;
use super::in_flight::{InFlightWrite, Observation};
use super::machine::{BUSY, Machine, Work};
use super::reconciler::{About, TagOutcome, TagReconciler};
use crate::api::{ApiError, MachineRead};
use crate::machine_cache::Listing;

/// Machines that are read and written at the same time: half of what the client allows.
const AT_ONCE: usize = 4;
/// So many machines are looked at with one list instead of one by one.
const LIST_FROM: usize = 4;
/// Writes that one pass over many machines begins for each page of their list. Few, so that what is
/// on its way is looked at about once a second, although a read and a write take two of five calls
/// a second.
const STARTS: usize = 2;
/// When to go on with the rest of them.
const NEXT_PASS: Duration = Duration::from_millis(100);
/// Bound of the machines remembered as gone, for callers that ask about them once more.
const MOST_GONE: usize = 1000;

enum Decision {
    Answer(TagOutcome),
    Write(Change, Wanted),
}

struct Pass<'a> {
    listing: &'a Listing,
    /// Writes that it may still begin.
    starts: AtomicUsize,
}

impl Pass<'_> {
    fn may_start(&self) -> bool {
        let less = |left: usize| left.checked_sub(1);
        let taken = self.starts.fetch_update(Relaxed, Relaxed, less);
        taken.is_ok()
    }
}

impl TagReconciler {
    /// Brings a machine one step nearer to what is wanted on it: reads it, and writes if something
    /// has to be written and nothing is in flight. Call it until it returns something else than
    /// [`TagOutcome::Working`]. An error means that the machine could not be read or written.
    pub async fn reconcile(
        &self,
        cluster: &str,
        machine: Uuid,
        about: About<'_>,
    ) -> Result<TagOutcome, CloudError> {
        self.visit(cluster, machine, about, None).await
    }

    /// The same for many machines, with fewer calls. None of them waits for another.
    pub async fn reconcile_all(
        &self,
        cluster: &str,
        machines: &BTreeSet<Uuid>,
        about: About<'_>,
    ) -> BTreeMap<Uuid, Result<TagOutcome, CloudError>> {
        let due = machines.iter().filter(|id| self.is_due(**id)).count();
        let listing = if due >= LIST_FROM {
            // Without a list each is read by itself.
            self.data_center.machines().since(Instant::now()).await.ok()
        } else {
            None
        };
        let pass = listing.as_deref().map(|listing| Pass {
            listing,
            starts: AtomicUsize::new(STARTS * listing.pages.max(1)),
        });
        let pass = pass.as_ref();
        let visits = stream::iter(machines.iter().copied())
            .map(|id| async move { (id, self.visit(cluster, id, about, pass).await) })
            .buffer_unordered(AT_ONCE);
        visits.collect().await
    }

    fn is_due(&self, machine: Uuid) -> bool {
        let now = Instant::now();
        let machines = self.lock();
        let known = machines.get(&machine).filter(|it| !it.gone);
        let work = known.map(|it| it.work.try_lock());
        work.is_some_and(|work| work.is_ok_and(|work| work.early(now).is_none()))
    }

    async fn visit(
        &self,
        cluster: &str,
        id: Uuid,
        about: About<'_>,
        pass: Option<&Pass<'_>>,
    ) -> Result<TagOutcome, CloudError> {
        if let About::Label(label) = about
            && !is_label(label)
        {
            let why = format!("{label:?} is no label for the name service");
            return Ok(TagOutcome::Refused(why));
        }
        let work = match self.lock().get(&id) {
            None => return Ok(TagOutcome::Done),
            Some(machine) if machine.gone => return Ok(TagOutcome::Gone),
            Some(machine) => match machine.refusal(about) {
                Some(message) => return Ok(TagOutcome::Refused(message.to_owned())),
                None => Arc::clone(&machine.work),
            },
        };
        // The caller at work here takes along what is wanted by then, or leaves it to the next
        // look.
        let Ok(mut work) = work.try_lock() else {
            return Ok(TagOutcome::Working { after: BUSY });
        };
        if let Some(early) = work.early(Instant::now()) {
            // A list that is there anyway is looked at also before its time.
            let listing = pass.filter(|_| !work.unwritable).map(|it| it.listing);
            let has = |it: &Listing| work.is_before(it) && it.machines.contains_key(&id);
            if !listing.is_some_and(has) {
                return Ok(early);
            }
        }
        let result = self.work_on(cluster, id, about, pass, &mut work).await;
        if result.is_err() {
            work.failed = true;
        }
        result
    }

    async fn work_on(
        &self,
        cluster: &str,
        id: Uuid,
        about: About<'_>,
        pass: Option<&Pass<'_>>,
        work: &mut Work,
    ) -> Result<TagOutcome, CloudError> {
        let listing = pass.map(|it| it.listing);
        let listing = listing.filter(|it| work.is_before(it));
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
            if !looked && let Some(answer) = self.look(work, &tags) {
                return Ok(answer);
            }
            looked = true;
            match self.decide(cluster, id, about, (&tags, &work.overwritten)) {
                Decision::Answer(answer) => {
                    work.overwritten.clear();
                    return Ok(answer);
                }
                // Before a write the machine itself is asked: a list is older, and does not show
                // whether it still exists.
                Decision::Write(..) if is_listed => {
                    if !work.failed && pass.is_some_and(|it| !it.may_start()) {
                        return Ok(TagOutcome::Working { after: NEXT_PASS });
                    }
                }
                Decision::Write(change, wanted) => {
                    let order = (change, wanted);
                    return self.write(cluster, id, about, order, tags, work).await;
                }
            }
        }
    }

    /// The tags of a machine; none if it is gone.
    async fn read(&self, id: Uuid) -> Result<Option<Tags>, CloudError> {
        let words = match self.data_center.api().machine(id).await? {
            MachineRead::Shown(machine) if machine.state.is_over() => return Ok(None),
            MachineRead::Shown(machine) => return Ok(Some(machine.tags)),
            MachineRead::Destroyed => return Ok(None),
            MachineRead::Missing(words) => words,
        };
        let lists = self.data_center.proof().await?;
        if lists.iter().all(|list| list.lacks(id)) {
            return Ok(None);
        }
        let text = format!("machine {id} is listed, but reading it is answered with {words:?}");
        Err(CloudError::new(CloudErrorKind::Unavailable, text))
    }

    fn forget(&self, id: Uuid) -> TagOutcome {
        let mut machines = self.lock();
        if machines.values().filter(|it| it.gone).count() >= MOST_GONE {
            machines.retain(|_, it| !it.gone);
        }
        let gone = Machine {
            gone: true,
            ..Machine::default()
        };
        machines.insert(id, gone);
        TagOutcome::Gone
    }

    /// Looks at the write in flight. None: nothing is in flight any more.
    fn look(&self, work: &mut Work, tags: &Tags) -> Option<TagOutcome> {
        let now = Instant::now();
        match work.in_flight.as_mut()?.look(tags, now) {
            Observation::Waiting => return Some(work.waiting(now)),
            Observation::Applied(overwritten) => {
                work.overwritten = overwritten;
                work.since = None;
                work.unwritable = false;
                self.data_center.machines().invalidate();
            }
            Observation::Overtaken => {
                work.since = None;
                work.unwritable = false;
            }
            Observation::TimedOut => work.unwritable = true,
        }
        work.in_flight = None;
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
            return Decision::Answer(TagOutcome::Done);
        };
        let wanted = machine.wanted_for(about);
        let change = match change_after(tags, &wanted, cluster, overwritten) {
            Ok(change) => change,
            Err(OtherCluster(uid)) => {
                if wanted.released {
                    machines.remove(&id);
                }
                return Decision::Answer(TagOutcome::OtherCluster(uid));
            }
        };
        let bad = change.bad.iter().find(|bad| about.concerns(bad.tag));
        if let Some(bad) = bad.filter(|_| about != About::Machine || change.is_empty()) {
            return Decision::Answer(TagOutcome::Bad(bad.clone()));
        }
        if !change.is_empty() {
            return Decision::Write(change, wanted);
        }
        machine.settled(&wanted);
        if machine.is_idle() {
            machines.remove(&id);
        }
        Decision::Answer(TagOutcome::Done)
    }

    async fn write(
        &self,
        cluster: &str,
        id: Uuid,
        about: About<'_>,
        (mut change, mut wanted): (Change, Wanted),
        tags: Tags,
        work: &mut Work,
    ) -> Result<TagOutcome, CloudError> {
        let mut sent = self.send(id, &change).await;
        if let Err((_, error)) = &sent
            && is_refusal(error)
        {
            let message = words(error);
            let alone = wanted.only(about);
            let order = change_after(&tags, &alone, cluster, &work.overwritten).unwrap_or_default();
            if about == About::Machine || order == change {
                return Ok(self.refused(id, about, message, work));
            }
            // It may be for somebody else's part.
            self.with(id, |it| it.suspect(&wanted, about, (cluster, &tags)));
            if order.is_empty() {
                return Ok(TagOutcome::Done);
            }
            (change, wanted) = (order, alone);
            sent = self.send(id, &change).await;
        }
        let failed = match sent {
            Ok(()) => None,
            Err((_, error)) if is_refusal(&error) => {
                return Ok(self.refused(id, about, words(&error), work));
            }
            Err((part, error)) if part.is_empty() => return Err(error.into()),
            Err((part, error)) => {
                change = part;
                Some(error)
            }
        };
        let repaired = self.with(id, |it| it.sent(cluster, &tags, &change));
        if repaired {
            self.repairs.inc();
        }
        info!(machine = %id, set = ?change.set, deleted = ?change.delete, repaired, "tagging a machine");
        let answer = work.track(InFlightWrite::new(
            (change, wanted, cluster),
            tags,
            Instant::now(),
        ));
        failed.map_or(Ok(answer), |error| Err(error.into()))
    }

    fn refused(&self, id: Uuid, about: About<'_>, message: String, work: &mut Work) -> TagOutcome {
        self.with(id, |it| it.refuse(about, &message));
        work.give_up();
        TagOutcome::Refused(message)
    }

    /// Sends a change. With an error comes what of it was taken before.
    async fn send(&self, id: Uuid, change: &Change) -> Result<(), (Change, ApiError)> {
        let mut taken = Change::default();
        let api = self.data_center.api();
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

fn words(error: &ApiError) -> String {
    let fields = error.fields().iter().map(|it| it.message.clone());
    let fields: Vec<String> = fields.filter(|it| !it.is_empty()).collect();
    match (error.message(), fields.is_empty()) {
        ("", true) => error.to_string(),
        (message, true) => message.to_owned(),
        (message, false) => format!("{message}: {}", fields.join("; ")),
    }
}
