//! One look at the account of a cloud: whether it has the machines of the cluster's nodes.

use std::sync::Arc;

use bowline_core::{AccountState, Cloud, Known, Looked, Lookup, Node, NodeOwner, ProvenBy, Ready};

use super::{AccountKey, Accounts, its_id};
use crate::clouds::batcher::InstanceBatcher;
use crate::clouds::owners::OwnerDiscovery;
use crate::clouds::resolver::OwnershipResolver;

/// Machines that are asked for in one look, those of Ready nodes first. One that is found is enough, and the life cycle
/// asks for those of the others anyway.
const ASKED: usize = 32;

/// Ready nodes for whose machines a proven account is asked before anything is concluded from what it does not have. If
/// it knows none of so many, something is wrong with what it may see, not with them.
const WITNESSES: usize = 8;

/// The nodes of a cloud that have an id of it, Ready ones first.
pub(super) fn with_ids(
    cloud: &Arc<dyn Cloud>,
    resolver: &OwnershipResolver,
    nodes: impl IntoIterator<Item = Arc<Node>>,
) -> Vec<Arc<Node>> {
    let mut nodes: Vec<Arc<Node>> = nodes
        .into_iter()
        .filter(|it| its_id(cloud, it).is_some())
        .filter(|it| resolver.node_owner(it, cloud.name()) == NodeOwner::Own)
        .collect();
    nodes.sort_by_key(|it| it.ready != Ready::True);
    nodes
}

impl Accounts {
    /// Asks for the machines of these nodes of a cloud, and takes note of what it says.
    pub(super) async fn look(
        &self,
        cloud: &Arc<dyn Cloud>,
        key: AccountKey,
        batcher: Option<&InstanceBatcher>,
        nodes: &[Arc<Node>],
    ) {
        let asked: Vec<Arc<Node>> = nodes.iter().take(ASKED).cloned().collect();
        let answers = match batcher {
            Some(batcher) => batcher.ask(asked).await,
            None => Vec::new(),
        };
        if AccountKey::of(cloud) != Some(key) {
            return;
        }
        let answers = answers.iter().map(known);
        let answers = answers.chain(std::iter::repeat(Known::Unclear));
        let looked = nodes.iter().zip(answers);
        let looked: Vec<Looked<'_>> = looked
            .map(|(node, machine)| Looked { node, machine })
            .collect();
        self.with(key, |proof| proof.look(&looked));
    }

    /// Asks a proven account for the machines of some Ready nodes of these, and takes note of what it says. To be called
    /// after a check read: what providers keep for some seconds is fresh then.
    pub(crate) async fn ask_witnesses(&self, batcher: &InstanceBatcher, nodes: &[Arc<Node>]) {
        let cloud = batcher.cloud();
        let Some(key) = AccountKey::of(cloud) else {
            return;
        };
        if self.with(key, |proof| proof.proven_by().is_none()) {
            return;
        }
        let is_witness = |it: &&Arc<Node>| {
            it.ready == Ready::True && !it.deleting && its_id(cloud, it).is_some()
        };
        let witnesses = nodes.iter().filter(is_witness).take(WITNESSES);
        let witnesses: Vec<Arc<Node>> = witnesses.cloned().collect();
        let answers = batcher.ask_presence(witnesses.clone()).await;
        if AccountKey::of(cloud) != Some(key) {
            return;
        }
        let looked = witnesses.iter().zip(&answers);
        let looked: Vec<Looked<'_>> = looked
            .map(|(node, answer)| Looked {
                node,
                machine: known(answer),
            })
            .collect();
        self.with(key, |proof| proof.witness(&looked));
        self.note_witnessed(key);
    }

    /// How an account stands, for who looks only once and knows nothing of earlier looks.
    pub(crate) async fn look_once(
        &self,
        cloud: &Arc<dyn Cloud>,
        owners: &OwnerDiscovery,
        resolver: &OwnershipResolver,
        nodes: &[Arc<Node>],
    ) -> AccountState {
        if let Some(key) = AccountKey::of(cloud) {
            let confirmed = resolver.rules().account_of(cloud.name());
            if confirmed.is_some_and(|it| key.is_like(it)) {
                self.with(key, |proof| proof.believe(ProvenBy::Operator));
            } else {
                let nodes = with_ids(cloud, resolver, nodes.iter().cloned());
                self.look(cloud, key, owners.of(cloud.name()), &nodes).await;
            }
        }
        self.state(cloud)
    }
}

fn known(answer: &Lookup) -> Known {
    match answer {
        Lookup::Found(_) => Known::Found,
        Lookup::Gone(_) => Known::Missing,
        Lookup::NotMine | Lookup::CannotTell(_) => Known::Unclear,
    }
}
