//! Resolves the owners of nodes for the whole process, with what is configured about clouds.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bowline_core::ownership::{self, CloudCandidate, Selection, Unowned};
use bowline_core::{
    BalancerRules, Claim, Cloud, CloudName, GuardPolicy, Node, NodeOwner, Ownership, Selector,
    targets,
};
use tokio::sync::watch;

use crate::clouds::accounts::Departed;
use crate::clouds::machines::Machines;

/// Nodes whose machine's cloud is remembered: far above the largest supported cluster (5,000 nodes).
pub(crate) const REMEMBERED: usize = 65_536;

/// What is configured about clouds that is not for them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CloudRules {
    /// Which cloud serves Services without a class.
    pub default_cloud: DefaultCloud,
    /// What deletion guards insist on, where nothing else is said.
    pub guard: GuardPolicy,
    /// What the deletion guards of these clouds insist on.
    pub guards: BTreeMap<CloudName, GuardPolicy>,
    /// The fingerprint of the account of clouds of which nothing else is said (`--account-fingerprint`). It fits no
    /// other cloud's credentials.
    pub account: Option<String>,
    /// The fingerprints of the accounts of these clouds, as the operator says (`account`).
    pub accounts: BTreeMap<CloudName, String>,
    /// What Services may do in clouds of which nothing else is said (`--load-balancer-adoption`).
    pub balancers: Arc<BalancerRules>,
    /// What Services may do in these clouds.
    pub balancers_by_cloud: BTreeMap<CloudName, Arc<BalancerRules>>,
    /// The nodes of these clouds.
    pub selectors: BTreeMap<CloudName, Selector>,
}

/// Which cloud serves Services without a class.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum DefaultCloud {
    /// The first that has load balancers.
    #[default]
    First,
    Named(CloudName),
    None,
}

impl CloudRules {
    /// What the deletion guard of that cloud insists on.
    pub fn guard_of(&self, cloud: &CloudName) -> &GuardPolicy {
        self.guards.get(cloud).unwrap_or(&self.guard)
    }

    /// The fingerprint that the operator confirms for that cloud.
    pub fn account_of(&self, cloud: &CloudName) -> Option<&str> {
        self.accounts
            .get(cloud)
            .or(self.account.as_ref())
            .map(String::as_str)
    }

    /// What Services may do in that cloud.
    pub fn balancers_of(&self, cloud: &CloudName) -> Arc<BalancerRules> {
        let said = self.balancers_by_cloud.get(cloud);
        said.unwrap_or(&self.balancers).clone()
    }

    fn selection(&self, cloud: &CloudName, node: &Node) -> Selection {
        match self.selectors.get(cloud) {
            None => Selection::Unsaid,
            Some(selector) if selector.matches(&node.labels) => Selection::Meant,
            Some(_) => Selection::NotMeant,
        }
    }
}

/// Decides about the owners of nodes. Clones share what was found out.
#[derive(Clone)]
pub struct OwnershipResolver(Arc<Inner>);

struct Inner {
    clouds: Vec<Arc<dyn Cloud>>,
    rules: Arc<CloudRules>,
    /// Who alone had the machine of a node, by the node's uid and provider id: a machine does not change its account.
    found: Mutex<BTreeMap<Identity, CloudName>>,
    /// Nodes that all clouds which could have them were asked about: before that nobody need hear that nobody has them.
    asked: Mutex<BTreeSet<Identity>>,
    /// Which Nodes show which machine.
    machines: Machines,
    /// Accounts of former configurations, with their providers: nodes may still be theirs.
    departed: Departed,
    /// Former names of clouds, and what they are called now.
    former: BTreeMap<CloudName, CloudName>,
    /// How often something was found out.
    changes: watch::Sender<u64>,
}

/// What a node is known by, for as long as its machine is the same.
pub(crate) type Identity = (String, Option<String>);

pub(crate) fn identity(node: &Node) -> Identity {
    (node.uid.clone(), node.provider_id.clone())
}

impl OwnershipResolver {
    /// Decides among these clouds.
    pub fn new(clouds: &[Arc<dyn Cloud>], rules: Arc<CloudRules>) -> Self {
        Self::seeing(clouds, rules, (Machines::default(), Departed::new()))
    }

    /// The same where Nodes show those machines, and some accounts have left the configuration.
    pub(crate) fn seeing(
        clouds: &[Arc<dyn Cloud>],
        rules: Arc<CloudRules>,
        (machines, departed): (Machines, Departed),
    ) -> Self {
        Self(Arc::new(Inner {
            clouds: clouds.to_vec(),
            rules,
            found: Mutex::default(),
            asked: Mutex::default(),
            machines,
            departed,
            former: BTreeMap::new(),
            changes: watch::Sender::new(0),
        }))
    }

    /// Decides among other clouds from now on, of which `renamed` says what they were called before. What was found out
    /// about clouds that are the same is still known, and so is which of `nodes` were of clouds that are no more: those
    /// are not another's for want of claims. Nor are those that may be in an account that has departed.
    #[must_use]
    pub(crate) fn followed_by(
        &self,
        clouds: &[Arc<dyn Cloud>],
        rules: Arc<CloudRules>,
        renamed: &BTreeMap<CloudName, CloudName>,
        nodes: &[Arc<Node>],
        (machines, departed): (Machines, Departed),
    ) -> Self {
        let of = |name: &CloudName| clouds.iter().find(|it| it.name() == name);
        let departing = nodes.iter().filter_map(|node| match self.ownership(node) {
            Some(Ownership::Owned { by, .. }) if of(&by).is_none() => Some((identity(node), by)),
            _ => None,
        });
        let departing: Vec<(Identity, CloudName)> = departing.collect();
        let is_changed = |before: &Arc<dyn Cloud>| {
            of(before.name()).is_some_and(|after| !Arc::ptr_eq(before, after))
        };
        let mut found = self.found().clone();
        found.retain(|_, cloud| {
            let before = self.0.clouds.iter().find(|it| it.name() == cloud);
            !before.is_some_and(is_changed)
        });
        found.extend(departing);
        for cloud in found.values_mut() {
            if let Some(now) = renamed.get(cloud) {
                cloud.clone_from(now);
            }
        }
        Self(Arc::new(Inner {
            clouds: clouds.to_vec(),
            rules,
            found: Mutex::new(found),
            asked: Mutex::default(),
            machines,
            departed,
            former: renamed.clone(),
            changes: watch::Sender::new(0),
        }))
    }

    /// Former names of clouds, and what they are called now.
    pub(crate) fn former(&self) -> &BTreeMap<CloudName, CloudName> {
        &self.0.former
    }

    /// Whether there were accounts that are not configured any more.
    pub(crate) fn has_departed(&self) -> bool {
        !self.0.departed.is_empty()
    }

    /// Which Nodes show which machine.
    pub(crate) fn machines(&self) -> &Machines {
        &self.0.machines
    }

    /// Hears of it when the owners of nodes were found out.
    pub(crate) fn changes(&self) -> watch::Receiver<u64> {
        self.0.changes.subscribe()
    }

    /// Tells that owners of nodes were found out, or could not be.
    pub(crate) fn notify(&self) {
        self.0.changes.send_modify(|count| *count += 1);
    }

    /// All clouds that could have a node's machine were asked. Says whether for the first time.
    pub(crate) fn note_asked(&self, node: &Node) -> bool {
        let mut asked = self.asked();
        if asked.len() >= REMEMBERED {
            asked.clear();
        }
        asked.insert(identity(node))
    }

    /// Whether they were.
    pub(crate) fn was_asked(&self, node: &Node) -> bool {
        self.asked().contains(&identity(node))
    }

    /// Whether it is too early to say that several clouds claim a node: they are only about to be asked.
    pub(crate) fn is_to_be_asked(&self, node: &Node) -> bool {
        let contested = matches!(self.ownership(node), Some(Ownership::Contested(_)));
        contested && !self.was_asked(node)
    }

    fn asked(&self) -> MutexGuard<'_, BTreeSet<Identity>> {
        self.0.asked.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// All clouds, in configured order.
    pub fn clouds(&self) -> &[Arc<dyn Cloud>] {
        &self.0.clouds
    }

    /// What is configured about them.
    pub fn rules(&self) -> &CloudRules {
        &self.0.rules
    }

    /// What is known about each cloud and a node. Makes no call.
    pub fn candidates(&self, node: &Node) -> Vec<CloudCandidate> {
        let one = |cloud: &Arc<dyn Cloud>| {
            let found = cloud.match_node(node);
            CloudCandidate {
                name: cloud.name().clone(),
                claim: found.claim,
                belongs_elsewhere: found.other_account,
                selection: self.0.rules.selection(cloud.name(), node),
            }
        };
        self.0.clouds.iter().map(one).collect()
    }

    /// The owner of a node by what it carries, what is configured and what was found out; none if that does not decide.
    pub fn ownership(&self, node: &Node) -> Option<Ownership> {
        if let Some(older) = self.0.machines.of_another(node) {
            return Some(Ownership::Nobody(Unowned::ClaimedTwice(older)));
        }
        let candidates = self.candidates(node);
        let found = self.found().get(&identity(node)).cloned();
        let found = found.or_else(|| self.departed_of(&candidates));
        ownership::decide(node, &candidates, found.as_ref())
    }

    /// A former account that a node of these clouds may belong to: another of the same provider. That one of them is alone
    /// now proves nothing.
    fn departed_of(&self, candidates: &[CloudCandidate]) -> Option<CloudName> {
        let departed = self.0.departed.iter().find(|(_, provider)| {
            let mut clouds = self.0.clouds.iter().zip(candidates);
            clouds.any(|(cloud, it)| it.claim == Claim::Mine && cloud.provider() == provider)
        });
        departed.map(|(name, _)| name.clone())
    }

    /// Whether a node is that cloud's.
    pub fn node_owner(&self, node: &Node, cloud: &CloudName) -> NodeOwner {
        let known = self.0.clouds.iter().find(|it| it.name() == cloud);
        let claim = known.map_or(Claim::Foreign, |it| it.match_node(node).claim);
        targets::node_owner(node, cloud, &claim, self.ownership(node).as_ref())
    }

    /// The clouds to ask about a node that nothing else decides. Those of its provider id's scheme, or all if it has
    /// none, as far as node selectors leave them.
    pub fn askable(&self, node: &Node) -> Vec<CloudName> {
        let candidates = self.candidates(node);
        let claims = |it: &&CloudCandidate| {
            node.provider_id.is_none() || it.claim == Claim::Mine && !it.belongs_elsewhere
        };
        let all: Vec<&CloudCandidate> = candidates.iter().filter(claims).collect();
        let left = ownership::left_by_selectors(&all);
        left.into_iter().map(|it| it.name.clone()).collect()
    }

    /// Whether there is, or was, more than what is configured: something was found out, with an earlier configuration
    /// perhaps, or an account has left.
    pub fn remembers(&self) -> bool {
        self.has_departed() || !self.found().is_empty()
    }

    /// Remembers that this cloud alone has the machine of a node.
    pub fn found_at(&self, node: &Node, cloud: &CloudName) {
        let mut found = self.found();
        if found.len() >= REMEMBERED {
            // Whatever is needed is found out again, but for what clouds had that nobody can ask any more.
            found.retain(|_, name| self.0.clouds.iter().all(|it| it.name() != name));
        }
        found.insert(identity(node), cloud.clone());
    }

    fn found(&self) -> MutexGuard<'_, BTreeMap<Identity, CloudName>> {
        self.0.found.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
