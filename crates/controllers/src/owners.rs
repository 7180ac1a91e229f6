//! Which cloud is responsible for a node: the claims and answers gathered, the decision in core.

use std::sync::Arc;

use bowline_core::ownership::{self, Recognition};
use bowline_core::{Cloud, CloudError, CloudName, Lookup, Node, Ownership};
use futures::future::join_all;

use crate::lookups::Lookups;

/// All configured clouds that know machines, in configured order.
#[derive(Clone)]
pub struct Owners(Arc<[Lookups]>);

/// A node's owner, and what it was already asked about the node.
pub struct Owner<'a> {
    /// How to ask it.
    pub lookups: &'a Lookups,
    /// Its answer, where deciding needed one.
    pub answer: Option<Lookup>,
}

impl Owners {
    /// The owners among these clouds.
    pub fn new(lookups: impl IntoIterator<Item = Lookups>) -> Self {
        Self(lookups.into_iter().collect())
    }

    /// All clouds.
    pub fn all(&self) -> &[Lookups] {
        &self.0
    }

    /// Decides by what the node carries; makes no call. None if that does not tell.
    pub fn by_claims(&self, node: &Node) -> Option<Ownership> {
        by_claims(self.0.iter().map(Lookups::cloud), node)
    }

    /// The cloud that owns a node by what it carries, its provider id above all.
    pub fn of_identified(&self, node: &Node) -> Option<&Lookups> {
        match self.by_claims(node)? {
            Ownership::Owned { by, .. } => self.named(&by),
            Ownership::Nobody(_) | Ownership::Contested(_) | Ownership::Undecided(_) => None,
        }
    }

    /// Whether that cloud owns a node by what it carries.
    pub fn owns(&self, cloud: &Lookups, node: &Node) -> bool {
        let owner = self.of_identified(node);
        owner.is_some_and(|owner| owner.cloud().name() == cloud.cloud().name())
    }

    /// Decides about any node, asking the clouds about one without a provider id.
    pub async fn of(&self, node: &Arc<Node>) -> Result<Owner<'_>, Ownership> {
        if let Some(ownership) = self.by_claims(node) {
            return match &ownership {
                Ownership::Owned { by, .. } => self
                    .named(by)
                    .map(|lookups| Owner {
                        lookups,
                        answer: None,
                    })
                    .ok_or(ownership),
                Ownership::Nobody(_) | Ownership::Contested(_) | Ownership::Undecided(_) => {
                    Err(ownership)
                }
            };
        }
        let answers = join_all(self.0.iter().map(|it| it.ask_one(node.clone()))).await;
        let recognitions: Vec<_> = self
            .0
            .iter()
            .zip(&answers)
            .map(|(it, answer)| (it.cloud().name().clone(), recognition(answer)))
            .collect();
        let ownership = ownership::by_recognition(&recognitions);
        let Ownership::Owned { by, .. } = &ownership else {
            return Err(ownership);
        };
        self.0
            .iter()
            .zip(answers)
            .find(|(it, _)| it.cloud().name() == by)
            .map(|(lookups, answer)| Owner {
                lookups,
                answer: Some(answer),
            })
            .ok_or(ownership)
    }

    fn named(&self, name: &CloudName) -> Option<&Lookups> {
        self.0.iter().find(|it| it.cloud().name() == name)
    }
}

/// Decides among these clouds by what the node carries; none if that does not tell.
pub(crate) fn by_claims<'a>(
    clouds: impl IntoIterator<Item = &'a Arc<dyn Cloud>>,
    node: &Node,
) -> Option<Ownership> {
    let claims: Vec<_> = clouds
        .into_iter()
        .map(|cloud| (cloud.name().clone(), cloud.claim(node)))
        .collect();
    ownership::by_claims(node, &claims)
}

fn recognition(answer: &Lookup) -> Recognition {
    match answer {
        Lookup::Found(_) => Recognition::Mine,
        Lookup::NotMine | Lookup::Gone(_) => Recognition::NotMine,
        Lookup::CannotTell(error) => Recognition::CannotTell(CloudError::chain(error)),
    }
}
