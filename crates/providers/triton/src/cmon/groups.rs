//! The group of metrics that the cluster's machines are in: a tag, which other people's tools write
//! too.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use bowline_core::{CloudError, Cluster, Node, Regarding};
use tokio::time::{Instant, sleep};
use tracing::{info, warn};
use uuid::Uuid;

use super::targets::Target;
use super::{AGAIN, Board, Cmon, GATHER, View};
use crate::PREFIX;
use crate::tags::{About, Role, TagOutcome, holds_groups};

/// How long a machine must have strayed before its groups are taken away: a node that registers
/// anew comes back sooner.
const STRAYED: Duration = Duration::from_secs(60);
/// When to look again at what was refused, cannot be understood or is another's: only people change
/// that.
const LATER: Duration = Duration::from_secs(300);
/// When a machine is looked at again that cannot be written.
const UNWRITABLE: Duration = Duration::from_secs(60);

const PENDING: &str = "CMONTagPending";
const REFUSED: &str = "CMONTagRefused";
const BAD: &str = "BadCMONTag";
const OTHER: &str = "MachineOwnedByOtherCluster";
const REASONS: &[&str] = &[PENDING, REFUSED, BAD, OTHER];

#[derive(Default)]
struct GroupProgress {
    /// Machines that are not known to be as they are wanted.
    open: BTreeSet<Uuid>,
    /// Since when machines have strayed.
    strays: BTreeMap<Uuid, Instant>,
    /// What an observer has reported already.
    observed: BTreeSet<Uuid>,
}

impl Cmon {
    /// Keeps the group on the cluster's machines, and takes it from those that have left.
    pub(super) async fn keep_groups(&self, cluster: &dyn Cluster, board: &Board) {
        let mut views = board.view.subscribe();
        let mut progress = GroupProgress::default();
        loop {
            let view = views.borrow_and_update().clone();
            let pause = match view {
                Some(view) => self.reconcile_groups(cluster, &view, &mut progress).await,
                None => LATER,
            };
            tokio::select! {
                biased;
                // The board lives as long as this.
                _ = views.changed() => {}
                () = sleep(pause) => {}
            }
        }
    }

    /// One round; returns when the next one is due.
    async fn reconcile_groups(
        &self,
        cluster: &dyn Cluster,
        view: &View,
        progress: &mut GroupProgress,
    ) -> Duration {
        if cluster.is_observing() {
            self.observe(view, &mut progress.observed);
            return LATER;
        }
        let mut open = self.report_targets(view);
        open.append(&mut progress.open);
        if view.is_whole {
            open.extend(self.report_strays(view, &mut progress.strays));
        }
        let reconciler = &self.context.tags;
        let settled = reconciler.reconcile_all(&view.cluster_uid, &open, About::Groups);
        let mut pause = LATER;
        for (id, settled) in settled.await {
            let target = view.targets.iter().find(|it| it.machine.id == id);
            if let Some(after) = self.settled(cluster, target, &settled) {
                progress.open.insert(id);
                pause = pause.min(after);
            }
        }
        if progress.strays.is_empty() {
            pause
        } else {
            pause.min(STRAYED)
        }
    }

    /// Wants the groups on the cluster's machines, and returns those that do not show them.
    fn report_targets(&self, view: &View) -> BTreeSet<Uuid> {
        let groups = self.groups();
        let mut open = BTreeSet::new();
        for target in view.targets.iter().filter(|it| !it.machine.state.is_over()) {
            let (id, tags) = (target.machine.id, &target.machine.tags);
            if !self.context.tags.shows_groups((id, tags), &groups) {
                self.context
                    .tags
                    .want_groups(id, target.role, groups.clone());
                open.insert(id);
            }
        }
        open
    }

    fn groups(&self) -> BTreeSet<String> {
        BTreeSet::from([self.group.clone()])
    }

    fn observe(&self, view: &View, reported: &mut BTreeSet<Uuid>) {
        let groups = self.groups();
        for target in &view.targets {
            let (id, tags) = (target.machine.id, &target.machine.tags);
            if !holds_groups(tags, &groups) && reported.insert(id) {
                let (machine, group) = (target.name(), &self.group);
                info!(cloud = self.context.cloud, %id, machine, group, "would be put into the group");
            }
        }
    }

    /// What came of one machine; when to look at it again, if it has to be.
    fn settled(
        &self,
        cluster: &dyn Cluster,
        target: Option<&Target>,
        settled: &Result<TagOutcome, CloudError>,
    ) -> Option<Duration> {
        let node = target.and_then(|it| it.node.as_deref());
        let group = &self.group;
        let (reason, message, after) = match settled {
            Ok(TagOutcome::Done | TagOutcome::Gone) => {
                if let Some(node) = node {
                    self.forget("Node", "", &node.name, REASONS);
                }
                return None;
            }
            Ok(TagOutcome::Working { after }) => return Some(*after),
            Ok(TagOutcome::Pending { .. }) => (
                PENDING,
                format!("the tag that puts its machine into the group {group} does not show"),
                UNWRITABLE,
            ),
            Ok(TagOutcome::Refused(words)) => (
                REFUSED,
                format!("its machine cannot be put into the group {group}: {words}"),
                LATER,
            ),
            Ok(TagOutcome::Bad(bad)) => (
                BAD,
                format!(
                    "the tag {} of its machine {}; it is left alone",
                    bad.tag, bad.problem
                ),
                LATER,
            ),
            Ok(TagOutcome::OtherCluster(uid)) => {
                if let Some((target, _)) = target.zip(node.filter(|node| is_taken_over(node))) {
                    self.context.tags.take_over(target.machine.id);
                    return Some(GATHER);
                }
                let message = format!(
                    "its machine is marked as one of the cluster {uid}, and not put into the group {group}"
                );
                (OTHER, message, LATER)
            }
            Err(error) => {
                let (cloud, error) = (&self.context.cloud, error.chain());
                let machine = target.map(Target::name);
                warn!(
                    cloud,
                    machine, error, "the groups of a machine are not kept"
                );
                return Some(AGAIN);
            }
        };
        if let Some(node) = node {
            self.tell(cluster, Regarding::node(node), reason, message);
        } else {
            let machine = target.map(Target::name);
            warn!(cloud = self.context.cloud, machine, reason, "{message}");
        }
        Some(after)
    }

    /// Takes machines that have strayed for long enough out of our groups, and returns them.
    fn report_strays(&self, view: &View, since: &mut BTreeMap<Uuid, Instant>) -> Vec<Uuid> {
        let now = Instant::now();
        since.retain(|id, _| view.strays.iter().any(|it| it.machine == *id));
        let mut reported = Vec::new();
        for stray in &view.strays {
            let since = *since.entry(stray.machine).or_insert(now);
            if now.saturating_duration_since(since) < STRAYED {
                continue;
            }
            if stray.groups_alone {
                self.context.tags.release(stray.machine);
            } else {
                // Its labels are the name service's concern, and the mark goes with the last of
                // them.
                let none = BTreeSet::new();
                self.context
                    .tags
                    .want_groups(stray.machine, Role::Node, none);
            }
            reported.push(stray.machine);
        }
        reported
    }
}

fn is_taken_over(node: &Node) -> bool {
    let key = format!("{PREFIX}take_over");
    node.annotations.get(&key).is_some_and(|it| it == "true")
}
