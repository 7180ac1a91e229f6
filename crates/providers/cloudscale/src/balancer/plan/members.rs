//! Members of a pool: new ones, after each of them one that nobody wants if others stay, then those
//! that are replaced, one at a time, then the rest of those that nobody wants.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use bowline_core::{Impact, StepId};
use uuid::Uuid;

use super::builder::{Action, PoolRef, attribute, new, seen};
use super::{MEMBER, Planner, PoolDiff, in_pool, note};
use crate::api::Member;
use crate::balancer::desire::WantedMember;

impl<'a> Planner<'a> {
    pub(super) fn members(&mut self, diff: &PoolDiff<'a>) {
        let there: &[Member] = diff.there.map_or(&[], |there| &there.members);
        let mut diffs: BTreeMap<(IpAddr, u16), &Member> = BTreeMap::new();
        for member in there {
            if let Some(ip) = member.ip() {
                diffs.entry((ip, member.protocol_port)).or_insert(member);
            }
        }
        let (mut stay, mut replaced, mut come) = (Vec::new(), Vec::new(), Vec::new());
        for member in &diff.wanted.members {
            match diffs.get(&(member.ip, member.protocol_port)) {
                Some(old) if member.is(old) => stay.push((member, *old)),
                Some(old) => replaced.push((member, *old)),
                None => come.push(member),
            }
        }
        let known: BTreeSet<Uuid> = stay
            .iter()
            .chain(&replaced)
            .map(|(_, old)| old.uuid)
            .collect();
        let mut leave = there.iter().filter(|it| !known.contains(&it.uuid));
        for member in come {
            self.create_member(diff, member, &diff.needs, false);
            // The address of a machine that is gone may be another's soon: it does not wait for all
            // the others. Where nothing else stays, traffic needs the old ones until all new ones
            // are there.
            if !stay.is_empty()
                && let Some(old) = leave.next()
            {
                self.delete_member(diff, old, &diff.needs, "no node wants it");
            }
        }
        let mut needs = diff.needs.clone();
        for (member, old) in &replaced {
            let gone = self.delete_member(diff, old, &needs, "it is replaced at once");
            let mut after = diff.needs.clone();
            after.push(gone);
            let made = self.create_member(diff, member, &after, true);
            needs.clone_from(&diff.needs);
            needs.push(made);
        }
        for member in leave {
            self.delete_member(diff, member, &diff.needs, "no node wants it");
        }
        for (wanted, member) in stay {
            self.change_member(diff, wanted, member);
        }
    }

    /// Only the members of addresses that nobody wants go.
    pub(super) fn members_that_leave(&mut self, diff: &PoolDiff<'a>) {
        let wanted: BTreeSet<IpAddr> = diff.wanted.members.iter().map(|it| it.ip).collect();
        let there: &[Member] = diff.there.map_or(&[], |there| &there.members);
        let leaves = |it: &&Member| it.ip().is_none_or(|ip| !wanted.contains(&ip));
        for member in there.iter().filter(leaves) {
            self.delete_member(diff, member, &diff.needs, "no node wants it");
        }
    }

    fn create_member(
        &mut self,
        diff: &PoolDiff<'a>,
        member: &WantedMember,
        needs: &[StepId],
        after_delete: bool,
    ) -> StepId {
        let body = member.body(&self.wanted.child_tags);
        let object = new(MEMBER, called(diff, &member.name));
        let reason = format!("node {}", member.node);
        let why = note(Impact::None, Some(&reason), needs);
        let action = Action::CreateMember {
            pool: diff.pool,
            body: body.clone(),
            node: member.node.clone(),
            after_delete,
        };
        self.builder.create(object, &body, &why, action)
    }

    fn delete_member(
        &mut self,
        diff: &PoolDiff<'a>,
        member: &Member,
        needs: &[StepId],
        why: &str,
    ) -> StepId {
        let object = seen(MEMBER, called(diff, &member.name), member.uuid);
        let why = note(Impact::InPlace, Some(why), needs);
        let id = member.uuid;
        let action = match diff.pool {
            PoolRef::Seen(pool) => Action::DeleteMember { pool, id },
            // A pool that is being made has no members to lose.
            PoolRef::Made(step) => return step,
        };
        self.builder.delete(object, &why, action)
    }

    /// Name and whether it is enabled can be changed where they are.
    fn change_member(&mut self, diff: &PoolDiff<'a>, wanted: &WantedMember, member: &Member) {
        let PoolRef::Seen(pool) = diff.pool else {
            return;
        };
        let mut changes = Vec::new();
        if wanted.name != member.name {
            changes.push(attribute("name", &*member.name, &*wanted.name));
        }
        if member.enabled == Some(false) {
            changes.push(attribute("enabled", false, true));
        }
        for (change, body) in changes {
            let id = member.uuid;
            let object = seen(MEMBER, called(diff, &member.name), id);
            let why = note(Impact::InPlace, None, &diff.needs);
            let action = Action::ChangeMember { pool, id, body };
            self.builder.change(object, vec![change], &why, action);
        }
    }
}

fn called(diff: &PoolDiff<'_>, member: &str) -> String {
    in_pool(member, &diff.wanted.name)
}

impl WantedMember {
    /// Whether the member in its place has all else that cannot be changed.
    fn is(&self, member: &Member) -> bool {
        member.monitor_port == Some(self.monitor_port) && member.subnet == Some(self.subnet)
    }
}
