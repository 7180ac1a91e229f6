//! The group of metrics that the cluster's machines are in: a tag, which other people's tools write too.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use bowline_core::{CloudError, Cluster, Node, Regarding};
use tokio::time::{Instant, sleep};
use tracing::{info, warn};
use uuid::Uuid;

use super::targets::Member;
use super::{AGAIN, Board, Cmon, GATHER, View};
use crate::PREFIX;
use crate::tags::{About, Role, Settled, holds_groups};

/// How long a machine must have strayed before its groups are taken away: a node that registers anew comes back
/// sooner.
const STRAYED: Duration = Duration::from_secs(60);
/// When to look again at what was refused, cannot be understood or is another's: only people change that.
const LATER: Duration = Duration::from_secs(300);
/// When a machine is looked at again that cannot be written.
const UNWRITABLE: Duration = Duration::from_secs(60);

const PENDING: &str = "CMONTagPending";
const REFUSED: &str = "CMONTagRefused";
const BAD: &str = "BadCMONTag";
const OTHER: &str = "MachineOwnedByOtherCluster";
const REASONS: &[&str] = &[PENDING, REFUSED, BAD, OTHER];

#[derive(Default)]
struct Memory {
    /// Machines that are not known to be as they are wanted.
    open: BTreeSet<Uuid>,
    /// Since when machines have strayed.
    strays: BTreeMap<Uuid, Instant>,
    /// What an observer has told already.
    observed: BTreeSet<Uuid>,
}

impl Cmon {
    /// Keeps the group on the cluster's machines, and takes it from those that have left.
    pub(super) async fn keep_groups(&self, cluster: &dyn Cluster, board: &Board) {
        let mut views = board.view.subscribe();
        let mut memory = Memory::default();
        loop {
            let view = views.borrow_and_update().clone();
            let pause = match view {
                Some(view) => self.settle_groups(cluster, &view, &mut memory).await,
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

    /// One round; says when the next one is due.
    async fn settle_groups(
        &self,
        cluster: &dyn Cluster,
        view: &View,
        memory: &mut Memory,
    ) -> Duration {
        if cluster.is_observing() {
            self.observe(view, &mut memory.observed);
            return LATER;
        }
        let mut open = self.tell_members(view);
        open.append(&mut memory.open);
        if view.is_whole {
            open.extend(self.tell_strays(view, &mut memory.strays));
        }
        let keeper = &self.context.keeper;
        let settled = keeper.settle_all(&view.cluster_uid, &open, About::Groups);
        let mut pause = LATER;
        for (id, settled) in settled.await {
            let member = view.members.iter().find(|it| it.machine.id == id);
            if let Some(after) = self.settled(cluster, member, &settled) {
                memory.open.insert(id);
                pause = pause.min(after);
            }
        }
        if memory.strays.is_empty() {
            pause
        } else {
            pause.min(STRAYED)
        }
    }

    /// Tells what is wanted on the cluster's machines, and answers with those that do not show it.
    fn tell_members(&self, view: &View) -> BTreeSet<Uuid> {
        let groups = self.groups();
        let mut open = BTreeSet::new();
        for member in view.members.iter().filter(|it| !it.machine.state.is_over()) {
            let (id, tags) = (member.machine.id, &member.machine.tags);
            if !self.context.keeper.shows_groups((id, tags), &groups) {
                self.context
                    .keeper
                    .tell_groups(id, member.role, groups.clone());
                open.insert(id);
            }
        }
        open
    }

    fn groups(&self) -> BTreeSet<String> {
        BTreeSet::from([self.group.clone()])
    }

    fn observe(&self, view: &View, told: &mut BTreeSet<Uuid>) {
        let groups = self.groups();
        for member in &view.members {
            let (id, tags) = (member.machine.id, &member.machine.tags);
            if !holds_groups(tags, &groups) && told.insert(id) {
                let (machine, group) = (member.name(), &self.group);
                info!(cloud = self.context.cloud, %id, machine, group, "would be put into the group");
            }
        }
    }

    /// What came of one machine; when to look at it again, if it has to be.
    fn settled(
        &self,
        cluster: &dyn Cluster,
        member: Option<&Member>,
        settled: &Result<Settled, CloudError>,
    ) -> Option<Duration> {
        let node = member.and_then(|it| it.node.as_deref());
        let group = &self.group;
        let (reason, message, after) = match settled {
            Ok(Settled::Done | Settled::Gone) => {
                if let Some(node) = node {
                    self.forget("Node", "", &node.name, REASONS);
                }
                return None;
            }
            Ok(Settled::Working { after }) => return Some(*after),
            Ok(Settled::Pending { .. }) => (
                PENDING,
                format!("the tag that puts its machine into the group {group} does not show"),
                UNWRITABLE,
            ),
            Ok(Settled::Refused(words)) => (
                REFUSED,
                format!("its machine cannot be put into the group {group}: {words}"),
                LATER,
            ),
            Ok(Settled::Bad(bad)) => (
                BAD,
                format!(
                    "the tag {} of its machine {}; it is left alone",
                    bad.tag, bad.problem
                ),
                LATER,
            ),
            Ok(Settled::OtherCluster(uid)) => {
                if let Some((member, _)) = member.zip(node.filter(|node| is_taken_over(node))) {
                    self.context.keeper.take_over(member.machine.id);
                    return Some(GATHER);
                }
                let message = format!(
                    "its machine is marked as one of the cluster {uid}, and not put into the group {group}"
                );
                (OTHER, message, LATER)
            }
            Err(error) => {
                let (cloud, error) = (&self.context.cloud, error.chain());
                let machine = member.map(Member::name);
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
            let machine = member.map(Member::name);
            warn!(cloud = self.context.cloud, machine, reason, "{message}");
        }
        Some(after)
    }

    /// Tells that machines which have strayed for long enough are in no group of ours any more, and answers with them.
    fn tell_strays(&self, view: &View, since: &mut BTreeMap<Uuid, Instant>) -> Vec<Uuid> {
        let now = Instant::now();
        since.retain(|id, _| view.strays.iter().any(|it| it.machine == *id));
        let mut told = Vec::new();
        for stray in &view.strays {
            let since = *since.entry(stray.machine).or_insert(now);
            if now.saturating_duration_since(since) < STRAYED {
                continue;
            }
            if stray.groups_alone {
                self.context.keeper.release(stray.machine);
            } else {
                // Its labels are the name service's concern, and the mark goes with the last of them.
                let none = BTreeSet::new();
                self.context
                    .keeper
                    .tell_groups(stray.machine, Role::Node, none);
            }
            told.push(stray.machine);
        }
        told
    }
}

fn is_taken_over(node: &Node) -> bool {
    let key = format!("{PREFIX}take_over");
    node.annotations.get(&key).is_some_and(|it| it == "true")
}
