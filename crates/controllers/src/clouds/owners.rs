//! Finds out which cloud owns a node and which describes it: this module asks the clouds, core decides.
//!
//! The *owner* decides about life cycle and load balancer targets. The *describer* gives provider ID,
//! addresses, labels and metadata.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bowline_core::ownership::{self, Recognition, Unowned};
use bowline_core::{Cloud, CloudError, CloudName, DescribePolicy, Lookup, Node, Ownership};
use futures::future::join_all;
use tracing::info;

use crate::clouds::accounts::Accounts;
use crate::clouds::batcher::InstanceBatcher;
use crate::clouds::cloud_health::CloudHealth;
use crate::clouds::machines::Machines;
use crate::clouds::resolver::{Identity, OwnershipResolver, identity};
use crate::kube::election::Fence;
use crate::kube::nodes::Nodes;
use crate::queue::Lanes;
use tokio_util::sync::CancellationToken;

/// How often clouds are asked which of them has the machines of nodes that several could have. Once found, a node
/// is not asked about again; what remains is a list call of each such cloud.
const SETTLE_EVERY: Duration = Duration::from_secs(60);
/// The first pause before a cloud is asked again that could not answer; it doubles. Load balancers keep targets meanwhile
/// that nobody may want.
const SETTLE_AGAIN: Duration = Duration::from_secs(1);
/// The longest such pause: one list call, and everybody waits for its answer.
const SETTLE_LATEST: Duration = Duration::from_secs(20);

/// What each cloud answered when it was last asked whether it has the machines of nodes.
type Answers = BTreeMap<CloudName, BTreeMap<Identity, Recognition>>;

/// All configured clouds that know machines, in configured order.
#[derive(Clone)]
pub struct OwnerDiscovery {
    all: Arc<[InstanceBatcher]>,
    resolver: OwnershipResolver,
}

/// Who describes a node, and what it was already asked about it.
pub struct Describer<'a> {
    /// How to ask it.
    pub batcher: &'a InstanceBatcher,
    /// Its answer, where deciding needed one.
    pub answer: Option<Lookup>,
}

impl OwnerDiscovery {
    /// The owners among these clouds, by the decisions of `resolver`.
    pub fn new(
        batcher: impl IntoIterator<Item = InstanceBatcher>,
        resolver: OwnershipResolver,
    ) -> Self {
        Self {
            all: batcher.into_iter().collect(),
            resolver,
        }
    }

    /// All clouds of `resolver` that know machines; `fence` is in front of the questions to them, and what becomes of
    /// those is noted in `cloud_health` and `accounts`.
    pub fn asking(
        resolver: &OwnershipResolver,
        cloud_health: &CloudHealth,
        accounts: &Accounts,
        fence: &Fence,
        stop: &CancellationToken,
    ) -> Self {
        let knowing = resolver
            .clouds()
            .iter()
            .filter(|it| it.instances().is_some());
        let batcher = knowing.map(|cloud: &Arc<dyn Cloud>| {
            let (cloud_health, accounts) = (cloud_health.clone(), accounts.clone());
            InstanceBatcher::noting(cloud_health, accounts, cloud.clone(), fence.clone(), stop)
        });
        Self::new(batcher, resolver.clone())
    }

    /// All clouds.
    pub fn all(&self) -> &[InstanceBatcher] {
        &self.all
    }

    /// Whether that cloud owns a node, by what it carries, its provider id above all. Makes no call.
    pub fn owns(&self, cloud: &InstanceBatcher, node: &Node) -> bool {
        let decided = self.ownership(node);
        self.decided(decided.as_ref())
            .is_some_and(|owner| owner.cloud().name() == cloud.cloud().name())
    }

    /// The cloud that describes a node, as far as what it carries decides. Makes no call.
    pub fn describer(&self, node: &Node) -> Option<&InstanceBatcher> {
        self.decided(self.description(node).as_ref())
    }

    /// Whether that cloud describes a node, as far as what it carries decides. Makes no call.
    pub fn describes(&self, cloud: &InstanceBatcher, node: &Node) -> bool {
        let describer = self.describer(node);
        describer.is_some_and(|it| it.cloud().name() == cloud.cloud().name())
    }

    /// What keeps a node unmanaged or without a describer, where that is to be reported: who describes it
    /// is contested, or else its owner. Makes no call.
    pub fn doubt(&self, node: &Node) -> Option<Ownership> {
        match self.description(node) {
            _ if self.resolver.is_to_be_asked(node) => None,
            contested @ Some(Ownership::Contested(_)) => contested,
            _ => self.ownership(node),
        }
    }

    /// Who describes any node, asking the clouds about one without a provider id.
    pub async fn find_describer(&self, node: &Arc<Node>) -> Result<Describer<'_>, Ownership> {
        if let Some(decided) = self.known_describer(node) {
            return match self.decided(Some(&decided)) {
                Some(batcher) => Ok(Describer {
                    batcher,
                    answer: None,
                }),
                None => Err(decided),
            };
        }
        let asked = self.asked(node);
        let answers = join_all(asked.iter().map(|it| it.ask_one(node.clone()))).await;
        let recognitions: Vec<_> = asked
            .iter()
            .zip(&answers)
            .map(|(it, answer)| (it.cloud().name().clone(), recognition(answer)))
            .collect();
        let ownership = ownership::by_recognition(&recognitions);
        let Ownership::Owned { by, .. } = &ownership else {
            return Err(ownership);
        };
        let mut found = asked.into_iter().zip(answers);
        let found = found.find(|(it, _)| it.cloud().name() == by);
        let Some((batcher, answer)) = found else {
            return Err(ownership);
        };
        self.remember(node, by, &answer);
        Ok(Describer {
            batcher,
            answer: Some(answer),
        })
    }

    /// Remembers which cloud alone has the machine of a node, under the provider id that it has or is about to be given:
    /// other accounts could have given one like it, and nobody shall wonder who owns it once it is written.
    fn remember(&self, node: &Node, cloud: &CloudName, answer: &Lookup) {
        if node.provider_id.is_some() {
            self.resolver.found_at(node, cloud);
        } else if let Lookup::Found(instance) = answer
            && let Some(id) = &instance.provider_id
        {
            let given = Node {
                provider_id: Some(id.to_string()),
                ..node.clone()
            };
            self.resolver.found_at(&given, cloud);
        }
    }

    /// The other Node that has the machine which a cloud found for this one.
    pub(crate) fn holder(&self, node: &Node, found: &Lookup) -> Option<String> {
        let Lookup::Found(instance) = found else {
            return None;
        };
        let id = instance.provider_id.as_ref()?.to_string();
        self.machines().holder(&id, node)
    }

    /// The one cloud that is to be asked what a node is, as far as that is known without asking any; none if
    /// nobody is, or several are. Makes no call.
    pub fn sole_describer(&self, node: &Node) -> Option<CloudName> {
        let batcher = match self.known_describer(node) {
            Some(decided) => self.decided(Some(&decided))?,
            None => match self.asked(node).as_slice() {
                [only] => *only,
                _ => return None,
            },
        };
        Some(batcher.cloud().name().clone())
    }

    /// Lanes for keys that are names of nodes, or lead to one.
    pub(crate) fn lanes<K>(
        &self,
        node: impl Fn(&K) -> Option<Arc<Node>> + Send + Sync + 'static,
    ) -> Lanes<K> {
        let names = self.all.iter().map(|it| it.cloud().name().clone());
        let owners = self.clone();
        Lanes::of_clouds(names, move |key| owners.sole_describer(&*node(key)?))
    }

    /// Who describes a node, unless clouds have to be asked.
    fn known_describer(&self, node: &Node) -> Option<Ownership> {
        // Several accounts that could have given a provider id can be asked which of them did.
        let is_askable = |decided: &Ownership| {
            can_be_settled(decided) && self.ownership(node).as_ref() == Some(decided)
        };
        self.description(node).filter(|it| !is_askable(it))
    }

    /// The clouds that have a say in who describes a node that nothing else decides. Who would not describe it has
    /// none: it may not even be able to look.
    fn asked(&self, node: &Node) -> Vec<&InstanceBatcher> {
        let askable = self.resolver.askable(node);
        let all = self.all.iter();
        all.filter(|it| may_describe(it, node) && askable.contains(it.cloud().name()))
            .collect()
    }

    /// The clouds whose answers decide the owner of a node; none if that is decided without asking.
    pub(crate) fn asked_about(&self, node: &Node) -> Vec<CloudName> {
        if !self.ownership(node).as_ref().is_none_or(can_be_settled) {
            return Vec::new();
        }
        if node.is_uninitialized() {
            let asked = self.asked(node).into_iter();
            return asked.map(|it| it.cloud().name().clone()).collect();
        }
        self.could_own(node)
    }

    /// The owner of a node, given what those clouds answered.
    pub(crate) fn verdict(&self, node: &Node, answers: &[(CloudName, Recognition)]) -> Ownership {
        match self.ownership(node) {
            Some(decided) if !can_be_settled(&decided) => decided,
            _ => ownership::by_recognition(answers),
        }
    }

    /// Who describes a node whose owner is known.
    pub(crate) fn describer_given(&self, node: &Node, owner: &Ownership) -> Ownership {
        let describer = ownership::describer(&self.voices(node), Some(owner.clone()));
        describer.unwrap_or_else(|| owner.clone())
    }

    /// How to ask that cloud.
    pub(crate) fn of(&self, cloud: &CloudName) -> Option<&InstanceBatcher> {
        self.all.iter().find(|it| it.cloud().name() == cloud)
    }

    /// Finds out, again and again until `stop`, which cloud has the machines of nodes that nothing else decides:
    /// provider ids that several accounts could have given, and nodes that have none.
    pub async fn keep_settling(self, nodes: Nodes, stop: CancellationToken) {
        if self.is_alone() || stop.run_until_cancelled(nodes.synced()).await.is_none() {
            return;
        }
        let answered = Mutex::default();
        let rounds = self.all.iter().map(|cloud| async {
            let mut again = SETTLE_AGAIN;
            loop {
                let verdicts = self.settle(cloud, &nodes.all(), &answered).await;
                let mut is_new = false;
                for (node, verdict) in &verdicts {
                    is_new |= self.resolver.note_asked(node);
                    if let Ownership::Owned { by, .. } = verdict {
                        is_new = true;
                        info!(node = node.name, cloud = %by, "the only cloud that has its machine");
                    }
                }
                if is_new {
                    self.resolver.notify();
                }
                let pause = if is_silent(&answered, cloud.cloud().name()) {
                    again
                } else {
                    again = SETTLE_AGAIN;
                    SETTLE_EVERY
                };
                tokio::time::sleep(pause).await;
                again = (2 * again).min(SETTLE_LATEST);
            }
        });
        stop.run_until_cancelled(join_all(rounds)).await;
    }

    /// Whether clouds were asked the owner of a node.
    pub(crate) fn was_asked(&self, node: &Node) -> bool {
        self.resolver.was_asked(node)
    }

    /// Hears of it when owners were found out.
    pub fn changes(&self) -> tokio::sync::watch::Receiver<u64> {
        self.resolver.changes()
    }

    /// Which Nodes show which machine.
    pub(crate) fn machines(&self) -> &Machines {
        self.resolver.machines()
    }

    /// Finds the same out once, for who looks at a cluster only once. Gives those of `nodes` that several clouds
    /// claim nevertheless, in the same order, with what came of asking.
    pub async fn settle_once(&self, nodes: &[Arc<Node>]) -> Vec<(Arc<Node>, Ownership)> {
        let mut verdicts = BTreeMap::new();
        if !self.is_alone() {
            let answered = Mutex::default();
            let rounds = self.all.iter();
            let rounds = join_all(rounds.map(|cloud| self.settle(cloud, nodes, &answered))).await;
            let decided = rounds.into_iter().flatten();
            verdicts.extend(decided.map(|(node, verdict)| (identity(&node), verdict)));
        }
        let contested = nodes.iter().filter_map(|node| match self.ownership(node) {
            Some(claimed @ Ownership::Contested(_)) => {
                let verdict = verdicts.remove(&identity(node));
                Some((Arc::clone(node), verdict.unwrap_or(claimed)))
            }
            _ => None,
        });
        contested.collect()
    }

    /// Where there is one cloud, and was no other, there is nothing to find out.
    fn is_alone(&self) -> bool {
        self.all.len() < 2 && !self.resolver.remembers()
    }

    /// Asks one cloud about all nodes whose machines it could have, in one question, and decides about those that
    /// all such clouds have answered about. One that does not answer keeps nothing open that it has no part in.
    async fn settle(
        &self,
        cloud: &InstanceBatcher,
        nodes: &[Arc<Node>],
        answered: &Mutex<Answers>,
    ) -> Vec<(Arc<Node>, Ownership)> {
        let name = cloud.cloud().name();
        let lock = || answered.lock().unwrap_or_else(PoisonError::into_inner);
        // Nothing is decided by what a cloud answered before, while it may say something else.
        lock().remove(name);
        let open = nodes.iter().filter(|node| self.is_open(node));
        let open: Vec<(&Arc<Node>, Vec<CloudName>)> =
            open.map(|node| (node, self.could_own(node))).collect();
        let of = open.iter().filter(|(_, askable)| askable.contains(name));
        let of: Vec<Arc<Node>> = of.map(|(node, _)| Arc::clone(node)).collect();
        let answers = cloud.ask_presence(of.clone()).await;
        let answers = answers.iter().map(recognition);
        let mut answered = lock();
        answered.insert(
            name.clone(),
            of.iter().map(|it| identity(it)).zip(answers).collect(),
        );
        let mut verdicts = Vec::new();
        for (node, askable) in open {
            let recognitions = askable.iter().map(|name| {
                let answer = answered.get(name)?.get(&identity(node))?;
                Some((name.clone(), answer.clone()))
            });
            // None while somebody has not answered yet.
            let Some(recognitions) = recognitions.collect::<Option<Vec<_>>>() else {
                continue;
            };
            let verdict = ownership::by_recognition(&recognitions);
            if let Ownership::Owned { by, .. } = &verdict {
                self.resolver.found_at(node, by);
            }
            verdicts.push((Arc::clone(node), verdict));
        }
        verdicts
    }

    /// Whether an initialised node has no owner yet and could have one.
    fn is_open(&self, node: &Node) -> bool {
        let undecided = self.ownership(node).as_ref().is_none_or(can_be_settled);
        undecided && !node.is_uninitialized()
    }

    /// The clouds that could say whether such a node's machine is gone.
    fn could_own(&self, node: &Node) -> Vec<CloudName> {
        let claiming = self.resolver.candidates(node).into_iter();
        let claiming: Vec<CloudName> = claiming
            .filter(|it| it.claim == bowline_core::Claim::Mine)
            .map(|it| it.name)
            .collect();
        let askable = self.resolver.askable(node).into_iter();
        let knows_machines = |name: &CloudName| self.all.iter().any(|it| it.cloud().name() == name);
        askable
            .filter(|it| claiming.contains(it) && knows_machines(it))
            .collect()
    }

    /// Its owner by what it carries and what was found out; none if that does not decide. Makes no call.
    pub fn ownership(&self, node: &Node) -> Option<Ownership> {
        self.resolver.ownership(node)
    }

    /// Who describes it by what it carries; none if that does not decide. Makes no call.
    pub fn description(&self, node: &Node) -> Option<Ownership> {
        ownership::describer(&self.voices(node), self.ownership(node))
    }

    fn voices(&self, node: &Node) -> Vec<(CloudName, DescribePolicy)> {
        let all = self.all.iter();
        all.map(|it| {
            (
                it.cloud().name().clone(),
                it.cloud().match_node(node).describes,
            )
        })
        .collect()
    }

    fn decided(&self, decided: Option<&Ownership>) -> Option<&InstanceBatcher> {
        match decided? {
            Ownership::Owned { by, .. } => self.all.iter().find(|it| it.cloud().name() == by),
            Ownership::Nobody(_) | Ownership::Contested(_) | Ownership::Undecided(_) => None,
        }
    }
}

/// Whether clouds can be asked which of them has the machine.
fn can_be_settled(ownership: &Ownership) -> bool {
    matches!(
        ownership,
        Ownership::Contested(_) | Ownership::Nobody(Unowned::Departed(_))
    )
}

/// Whether that cloud could not answer about some node when it was last asked.
fn is_silent(answered: &Mutex<Answers>, cloud: &CloudName) -> bool {
    let answered = answered.lock().unwrap_or_else(PoisonError::into_inner);
    let mut answers = answered.get(cloud).into_iter().flat_map(BTreeMap::values);
    answers.any(|it| matches!(it, Recognition::CannotTell(_)))
}

fn may_describe(cloud: &InstanceBatcher, node: &Node) -> bool {
    cloud.cloud().match_node(node).describes != DescribePolicy::Never
}

fn recognition(answer: &Lookup) -> Recognition {
    match answer {
        Lookup::Found(_) => Recognition::Mine,
        Lookup::NotMine | Lookup::Gone(_) => Recognition::NotMine,
        Lookup::CannotTell(error) => Recognition::CannotTell(CloudError::chain(error)),
    }
}

#[cfg(test)]
mod tests;
