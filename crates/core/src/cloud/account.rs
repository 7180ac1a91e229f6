//! Whether credentials see the account that the cluster lives in.
//!
//! Credentials of another account, project or zone see none of the cluster's machines and load balancers: they
//! get 404. Before a 404 counts, the credentials must have shown that they see the cluster:
//!
//! ```text
//!               ┌── a Node's machine is found by its id ────────────────────────────┐
//!               ├── no Node has an id here: a load balancer with a Service's uid ───┤
//!  unproven ────┼── every id here was given by this process, from this account ─────┼──▶ proven, for good
//!               ├── the fingerprint is the one that was proven last ────────────────┤
//!               └── the operator says so (`account`) ───────────────────────────────┘
//!      │
//!      └── a Ready Node's id, or a load balancer that a Service's status shows, is unknown there ──▶ contradicted
//! ```
//!
//! One [`AccountProof`] belongs to one set of credentials, endpoint, zone and project. Such a set belongs to one account
//! for ever, so that what is proven once stays so. Contradicted is not for ever: it ends with what contradicts.
//!
//! What a set may see of its account can change, though, and some clouds answer 404 where a permission is missing. So
//! before anything is concluded from what a proven account does not have, it is asked for *witnesses*, the machines of
//! Ready Nodes. While it denies all of them, it is contradicted.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use crate::{AccountState, Goal, Node, Ready, Secret, Service};

/// Provider ids that are remembered to have been given by this process: twice the largest supported cluster. Beyond it
/// the memory begins anew, and ids that are forgotten count as having been there before.
const GIVEN: usize = 10_000;
/// Nodes and Services that a message names; more are counted.
const NAMED: usize = 3;

/// Set to `true` on a Node by a person who knows that its machine is gone.
pub const CONFIRM_GONE: &str = "bowline.dev/confirm-gone";

/// What distinguishes one account from all others, in one text: the parts are put together so that none runs into the next.
/// It may hold credentials.
pub fn account_identity<'a>(parts: impl IntoIterator<Item = &'a str>) -> Secret {
    let mut text = String::new();
    for part in parts {
        if !text.is_empty() {
            text.push(',');
        }
        text.push_str(&part.len().to_string());
        text.push(':');
        text.push_str(part);
    }
    Secret::new(text)
}

/// How the machine of a Node was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FoundBy {
    /// By its id, which no other account has.
    Id,
    /// By its name or address, which another account may have too.
    Name,
}

/// Why an account is believed to be the cluster's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProvenBy {
    /// It has the machine of a Node, by an id that was there before this process.
    Machine,
    /// All Nodes of the cloud have their ids from it: it cannot be another one.
    Origin,
    /// It has the load balancer of a Service, and misses none.
    Balancer,
    /// It is the one that was proven last.
    Fingerprint,
    /// The operator says so.
    Operator,
}

impl fmt::Display for ProvenBy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Machine => "a node's instance was found by its provider ID",
            Self::Origin => "all nodes of the cloud have their provider IDs from it",
            Self::Balancer => "a Service's load balancer was found, and none is missing",
            Self::Fingerprint => "it is the account that was proven last",
            Self::Operator => "the operator confirmed it",
        })
    }
}

/// What an account says about something that is asked for by its id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Known {
    /// It is there.
    Found,
    /// There is no such thing.
    Missing,
    /// There was no answer, or none that says either.
    Unclear,
}

/// A Node with an id of the cloud, and what the account says about its machine.
#[derive(Clone, Copy, Debug)]
pub struct Looked<'a> {
    /// The Node. Those whose machine the operator describes are never among them: nobody asks for it.
    pub node: &'a Node,
    /// The answer; unclear if it was not asked for.
    pub machine: Known,
}

/// What is known of one Service's load balancer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Balancer {
    known: Known,
    /// Whether it has the Service's uid in mark or name.
    is_certain: bool,
    /// Whether its being missing contradicts: the Service's status shows it, which no tenant can write.
    is_shown: bool,
}

/// What is known of one account.
#[derive(Clone, Debug, Default)]
pub struct AccountProof {
    proven: Option<ProvenBy>,
    looked: bool,
    /// Whether Nodes have ids of this cloud; unknown before the first look.
    has_ids: Option<bool>,
    /// Ids that this process gave to Nodes from this account.
    given: BTreeSet<String>,
    /// Ready Nodes, by name, whose ids the account does not know.
    strangers: BTreeSet<String>,
    /// The same, where the account was proven before, and knows none of them any more.
    denied: BTreeSet<String>,
    /// Load balancers of Services that were looked for, by the Service's uid.
    balancers: BTreeMap<String, Balancer>,
    /// Whether something waits for the proof.
    is_wanted: bool,
}

impl AccountProof {
    /// Whether the account is the cluster's.
    pub fn state(&self) -> AccountState {
        if self.is_denying() {
            AccountState::Contradicted
        } else if self.proven.is_some() {
            AccountState::Proven
        } else if self.strangers.is_empty() && self.lost_balancers() == 0 {
            AccountState::Unproven
        } else {
            AccountState::Contradicted
        }
    }

    /// Why it is believed; none if it is not.
    pub fn proven_by(&self) -> Option<ProvenBy> {
        self.proven
    }

    /// Whether it is proven, and knows none of its witnesses all the same. The operator's word counts more.
    pub fn is_denying(&self) -> bool {
        let is_believed = !matches!(self.proven, None | Some(ProvenBy::Operator));
        is_believed && !self.denied.is_empty()
    }

    /// Whether it may be contradicted any moment: nobody has looked yet.
    pub fn is_settling(&self) -> bool {
        self.proven.is_none() && !self.looked
    }

    /// Whether people should hear that it is not proven: something waits for that, or there are ids that prove nothing.
    pub fn is_wanted(&self) -> bool {
        self.looked && (self.is_wanted || self.has_ids == Some(true))
    }

    /// Something waits for the proof.
    pub fn want(&mut self) {
        self.is_wanted = true;
    }

    /// It is the cluster's, for that reason. The first reason stays.
    pub fn believe(&mut self, by: ProvenBy) {
        self.proven.get_or_insert(by);
    }

    /// The machine of a Node with that id was found.
    pub fn found(&mut self, id: &str, by: FoundBy) {
        if by == FoundBy::Id && !self.given.contains(id) {
            self.believe(ProvenBy::Machine);
        }
    }

    /// This process is about to give that id to a Node, by what this account says.
    pub fn gives(&mut self, id: &str) {
        if self.given.len() >= GIVEN {
            self.given.clear();
        }
        self.given.insert(id.to_owned());
    }

    /// Takes note of a look at the machines of all Nodes with an id of this cloud.
    pub fn look(&mut self, nodes: &[Looked<'_>]) {
        self.looked = true;
        self.has_ids = Some(!nodes.is_empty());
        let earlier = |it: &&Looked<'_>| {
            let id = it.node.provider_id.as_ref();
            id.is_some_and(|id| !self.given.contains(id))
        };
        let earlier: Vec<&Looked<'_>> = nodes.iter().filter(earlier).collect();
        let lost = earlier.iter().filter(|it| {
            it.machine == Known::Missing && it.node.ready == Ready::True && !it.node.deleting
        });
        self.strangers = lost.map(|it| it.node.name.clone()).collect();
        if earlier.iter().any(|it| it.machine == Known::Found) {
            self.believe(ProvenBy::Machine);
        }
    }

    /// Takes note of what a proven account says about the machines of Ready Nodes. One that is found is enough; an answer
    /// that says nothing changes nothing. Nothing else ends a denial: what is found otherwise may be remembered.
    pub fn witness(&mut self, witnesses: &[Looked<'_>]) {
        let says = |known: Known| witnesses.iter().filter(move |it| it.machine == known);
        if witnesses.is_empty() || says(Known::Found).next().is_some() {
            self.denied.clear();
        } else if says(Known::Missing).next().is_some() {
            let names = says(Known::Missing).map(|it| it.node.name.clone());
            self.denied = names.collect();
        }
    }

    /// These are the ids of all Nodes of this cloud. If this account gave all of them, it is the cluster's: a new
    /// cluster has nothing else that could tell.
    pub fn consider_origin(&mut self, ids: &[&str]) {
        let all_given = ids.iter().all(|id| self.given.contains(*id));
        if all_given && !self.given.is_empty() && self.state() == AccountState::Unproven {
            self.believe(ProvenBy::Origin);
        }
    }

    /// Takes note of a look at the load balancer of a Service. `remembering` are the uids of all Services that had one
    /// in this cloud.
    pub fn balancer(
        &mut self,
        service: &Service,
        known: Known,
        is_certain: bool,
        remembering: &BTreeSet<String>,
    ) {
        let balancer = Balancer {
            known,
            is_certain,
            is_shown: !service.ingress.is_empty(),
        };
        self.balancers.insert(service.uid.clone(), balancer);
        let uid = &service.uid;
        self.balancers
            .retain(|it, _| it == uid || remembering.contains(it));
        let certain = self.balancers.values().any(|it| it.is_certain);
        let missing = self.balancers.values().any(|it| it.known == Known::Missing);
        let all_looked_for = remembering.iter().all(|it| self.balancers.contains_key(it));
        if self.has_ids == Some(false) && certain && !missing && all_looked_for {
            self.believe(ProvenBy::Balancer);
        }
    }

    /// Whether the load balancer of one of these Services was looked for, or none has any.
    pub fn has_looked_for_any(&self, remembering: &BTreeSet<String>) -> bool {
        remembering.is_empty() || remembering.iter().any(|it| self.balancers.contains_key(it))
    }

    fn lost_balancers(&self) -> usize {
        let lost = |it: &&Balancer| it.known == Known::Missing && it.is_shown;
        self.balancers.values().filter(lost).count()
    }

    /// What contradicts, for people, in words that follow "does not know".
    pub fn contradiction(&self) -> String {
        let mut lost = Vec::new();
        let strangers = if self.is_denying() {
            &self.denied
        } else {
            &self.strangers
        };
        if !strangers.is_empty() {
            let names = strangers.iter().take(NAMED).cloned();
            let names: Vec<String> = names.collect();
            let more = match strangers.len().saturating_sub(NAMED) {
                0 => String::new(),
                more => format!(" and {more} more"),
            };
            let names = names.join(", ");
            lost.push(format!("the instances of Ready nodes {names}{more}"));
        }
        match self.lost_balancers() {
            0 => {}
            1 => lost.push("the load balancer that the status of a Service shows".to_owned()),
            count => lost.push(format!(
                "the load balancers that the status of {count} Services shows"
            )),
        }
        lost.join(" or ")
    }
}

/// Whether a Service had a load balancer before: its status shows one, or the annotation that names one is there
/// ([`Balancers::naming_annotation`](crate::Balancers::naming_annotation)).
pub fn remembers(service: &Service, naming: Option<&str>) -> bool {
    let is_named = naming.is_some_and(|key| service.annotation(key).is_some());
    !service.ingress.is_empty() || is_named
}

/// Why a plan for a Service is not carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AccountHold {
    /// The account is contradicted.
    Contradicted,
    /// Its load balancer is not found where nothing may be concluded from that.
    Unproven,
    /// Its load balancer is not found, and may be in an account that is not configured any more.
    Departed,
    /// Nobody has looked at the account yet, or not since something is missing there.
    Settling,
}

impl AccountHold {
    /// The reason of the event.
    pub const fn reason(self) -> &'static str {
        match self {
            Self::Contradicted => "AccountContradicted",
            Self::Unproven | Self::Settling => "AccountUnproven",
            Self::Departed => "AccountDeparted",
        }
    }
}

/// What a plan for a Service rests on.
#[derive(Clone, Copy, Debug)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "facts that do not depend on each other"
)]
pub struct PlanBasis {
    /// What is wanted.
    pub goal: Goal,
    /// Whether a load balancer was found; unclear if nobody looked.
    pub balancer: Known,
    /// Whether the Service had one before.
    pub remembers: bool,
    /// Whether its removal was begun, and announced, by us: then that it is missing is no wonder.
    pub removal_began: bool,
    /// Whether the account may be contradicted any moment.
    pub is_settling: bool,
    /// Whether it may be in an account that is not configured any more: nothing says in which cloud it is.
    pub may_have_departed: bool,
}

/// Whether a plan has to wait for the account, and why.
pub fn account_hold(state: AccountState, basis: PlanBasis) -> Option<AccountHold> {
    let missing = basis.balancer == Known::Missing;
    match state {
        _ if basis.removal_began && basis.goal == Goal::Absent => None,
        AccountState::Proven => {
            let forgets = basis.goal == Goal::Absent && missing && basis.remembers;
            (forgets && basis.may_have_departed).then_some(AccountHold::Departed)
        }
        AccountState::Contradicted => {
            let creates = basis.goal == Goal::Present && missing;
            let removes = basis.goal == Goal::Absent && (!missing || basis.remembers);
            (creates || removes).then_some(AccountHold::Contradicted)
        }
        AccountState::Unproven if !missing => None,
        AccountState::Unproven if basis.remembers => Some(AccountHold::Unproven),
        AccountState::Unproven => {
            let creates = basis.goal == Goal::Present;
            (creates && basis.is_settling).then_some(AccountHold::Settling)
        }
    }
}

/// What the deletion guard may rest on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trust {
    /// What the account does not have does not exist.
    Full,
    /// Nobody knows, but all machines of the cloud seem to be gone: a long proof is needed.
    Long,
    /// The same, and a person says that this one is gone.
    Confirmed,
    /// Nothing may be concluded.
    Unproven,
    /// The account is another one.
    Contradicted,
}

/// How far the word of an account about a Node's machine is to be trusted. `all_gone`: it says so of all Nodes of the
/// cloud. `is_other`: another account was proven before; then only a person can say that this one is right.
pub fn trust(state: AccountState, node: &Node, all_gone: bool, is_other: bool) -> Trust {
    let confirmed = node.annotations.get(CONFIRM_GONE);
    let is_confirmed = confirmed.is_some_and(|it| it == "true");
    match state {
        AccountState::Proven => Trust::Full,
        AccountState::Contradicted => Trust::Contradicted,
        AccountState::Unproven if !all_gone => Trust::Unproven,
        AccountState::Unproven if is_confirmed => Trust::Confirmed,
        AccountState::Unproven if is_other => Trust::Unproven,
        AccountState::Unproven => Trust::Long,
    }
}

#[cfg(test)]
mod tests;
