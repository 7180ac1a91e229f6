//! Which cloud is responsible for a node: claims, voices and answers gathered, the decision in core.
//!
//! Two questions. The *owner* looks after the node: its life cycle, its place in load balancers. The
//! *describer* says what it is: provider id, addresses, labels, marks.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bowline_core::ownership::{self, Orphan, Recognition};
use bowline_core::{CloudError, CloudName, Lookup, Node, Ownership, Voice};
use futures::future::join_all;
use tracing::info;

use crate::lookups::Lookups;
use crate::nodes::Nodes;
use crate::referee::Referee;
use crate::stop::Stop;

/// How often clouds are asked which of them has the machines of nodes that several could have. Once found, a node
/// is not asked about again; what remains is a list call of each such cloud.
const SETTLE_EVERY: Duration = Duration::from_secs(60);

/// All configured clouds that know machines, in configured order.
#[derive(Clone)]
pub struct Owners {
    all: Arc<[Lookups]>,
    referee: Referee,
}

/// Who describes a node, and what it was already asked about it.
pub struct Describer<'a> {
    /// How to ask it.
    pub lookups: &'a Lookups,
    /// Its answer, where deciding needed one.
    pub answer: Option<Lookup>,
}

impl Owners {
    /// The owners among these clouds, by the decisions of `referee`.
    pub fn new(lookups: impl IntoIterator<Item = Lookups>, referee: Referee) -> Self {
        Self {
            all: lookups.into_iter().collect(),
            referee,
        }
    }

    /// All clouds.
    pub fn all(&self) -> &[Lookups] {
        &self.all
    }

    /// Whether that cloud owns a node, by what it carries, its provider id above all. Makes no call.
    pub fn owns(&self, cloud: &Lookups, node: &Node) -> bool {
        let decided = self.ownership(node);
        self.decided(decided.as_ref())
            .is_some_and(|owner| owner.cloud().name() == cloud.cloud().name())
    }

    /// The cloud that describes a node, as far as what it carries tells. Makes no call.
    pub fn describer(&self, node: &Node) -> Option<&Lookups> {
        self.decided(self.description(node).as_ref())
    }

    /// Whether that cloud describes a node, as far as what it carries tells. Makes no call.
    pub fn describes(&self, cloud: &Lookups, node: &Node) -> bool {
        let describer = self.describer(node);
        describer.is_some_and(|it| it.cloud().name() == cloud.cloud().name())
    }

    /// What keeps a node from being looked after or described, where people have to know: who describes it
    /// is contested, or else whose it is. Makes no call.
    pub fn doubt(&self, node: &Node) -> Option<Ownership> {
        match self.description(node) {
            contested @ Some(Ownership::Contested(_)) => contested,
            _ => self.ownership(node),
        }
    }

    /// Who describes any node, asking the clouds about one without a provider id.
    pub async fn find_describer(&self, node: &Arc<Node>) -> Result<Describer<'_>, Ownership> {
        // Several accounts that could have given a provider id can be asked which of them did.
        let is_askable = |decided: &Ownership| {
            can_be_settled(decided) && self.ownership(node).as_ref() == Some(decided)
        };
        if let Some(decided) = self.description(node).filter(|it| !is_askable(it)) {
            return match self.decided(Some(&decided)) {
                Some(lookups) => Ok(Describer {
                    lookups,
                    answer: None,
                }),
                None => Err(decided),
            };
        }
        let askable = self.referee.askable(node);
        // Who would not describe it has no say in whose it is: it may not even be able to look.
        let asked: Vec<&Lookups> = (self.all.iter())
            .filter(|it| may_describe(it, node) && askable.contains(it.cloud().name()))
            .collect();
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
        let Some((lookups, answer)) = found else {
            return Err(ownership);
        };
        self.remember(node, by, &answer);
        Ok(Describer {
            lookups,
            answer: Some(answer),
        })
    }

    /// Remembers which cloud alone has the machine of a node, under the provider id that it has or is about to be given:
    /// other accounts could have given one like it, and nobody shall wonder whose it is once it is written.
    fn remember(&self, node: &Node, cloud: &CloudName, answer: &Lookup) {
        if node.provider_id.is_some() {
            self.referee.found_at(node, cloud);
        } else if let Lookup::Found(instance) = answer
            && let Some(id) = &instance.provider_id
        {
            let given = Node {
                provider_id: Some(id.to_string()),
                ..node.clone()
            };
            self.referee.found_at(&given, cloud);
        }
    }

    /// Finds out, again and again until `stop`, which cloud has the machines of nodes that nothing else decides:
    /// provider ids that several accounts could have given, and nodes that have none.
    pub async fn keep_settling(self, nodes: Nodes, stop: Stop) {
        // Where there is one cloud there is nothing to find out.
        if self.all.len() < 2 || stop.unless_given(nodes.synced()).await.is_none() {
            return;
        }
        loop {
            let round = async {
                self.settle(&nodes.all()).await;
                tokio::time::sleep(SETTLE_EVERY).await;
            };
            if stop.unless_given(round).await.is_none() {
                return;
            }
        }
    }

    /// Asks every cloud that could have the machines of these nodes, all of its nodes in one question.
    async fn settle(&self, nodes: &[Arc<Node>]) {
        let open: Vec<(&Arc<Node>, Vec<CloudName>)> = nodes
            .iter()
            .filter(|node| self.is_open(node))
            .map(|node| (node, self.could_own(node)))
            .collect();
        let asked = self.all.iter().map(|it| async {
            let name = it.cloud().name();
            let of = open.iter().filter(|(_, askable)| askable.contains(name));
            let of: Vec<Arc<Node>> = of.map(|(node, _)| Arc::clone(node)).collect();
            let answers = it.ask_presence(of.clone()).await;
            let said = of.iter().map(|node| node.uid.clone());
            let said: BTreeMap<String, Recognition> =
                said.zip(answers.iter().map(recognition)).collect();
            (name.clone(), said)
        });
        let answers = join_all(asked).await;
        for (node, askable) in open {
            let recognitions: Vec<(CloudName, Recognition)> = answers
                .iter()
                .filter(|(name, _)| askable.contains(name))
                .filter_map(|(name, said)| Some((name.clone(), said.get(&node.uid)?.clone())))
                .collect();
            if let Ownership::Owned { by, .. } = ownership::by_recognition(&recognitions) {
                info!(node = node.name, cloud = %by, "the only cloud that has its machine");
                self.referee.found_at(node, &by);
            }
        }
    }

    /// Whether an initialised node has no owner yet and could have one.
    fn is_open(&self, node: &Node) -> bool {
        let undecided = self.ownership(node).as_ref().is_none_or(can_be_settled);
        undecided && !node.is_uninitialized()
    }

    /// The clouds that could tell whether such a node's machine is gone.
    fn could_own(&self, node: &Node) -> Vec<CloudName> {
        let claiming = self.referee.candidates(node).into_iter();
        let claiming: Vec<CloudName> = claiming
            .filter(|it| it.claim == bowline_core::Claim::Mine)
            .map(|it| it.name)
            .collect();
        let askable = self.referee.askable(node).into_iter();
        askable.filter(|it| claiming.contains(it)).collect()
    }

    /// Whose it is by what it carries and what was found out; none if that does not tell.
    fn ownership(&self, node: &Node) -> Option<Ownership> {
        self.referee.ownership(node)
    }

    /// Who describes it by what it carries; none if that does not tell.
    fn description(&self, node: &Node) -> Option<Ownership> {
        let voices: Vec<(CloudName, Voice)> = self
            .all
            .iter()
            .map(|it| (it.cloud().name().clone(), it.cloud().voice(node)))
            .collect();
        ownership::describer(&voices, self.ownership(node))
    }

    fn decided(&self, decided: Option<&Ownership>) -> Option<&Lookups> {
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
        Ownership::Contested(_) | Ownership::Nobody(Orphan::Departed(_))
    )
}

fn may_describe(cloud: &Lookups, node: &Node) -> bool {
    cloud.cloud().voice(node) != Voice::Never
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
