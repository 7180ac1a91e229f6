//! Which cloud is responsible for a node: claims, voices and answers gathered, the decision in core.
//!
//! Two questions. The *owner* looks after the node: its life cycle, its place in load balancers. The
//! *describer* says what it is: provider id, addresses, labels, marks.

use std::sync::Arc;

use bowline_core::ownership::{self, Recognition};
use bowline_core::{Cloud, CloudError, CloudName, Lookup, Node, Ownership, Voice};
use futures::future::join_all;

use crate::lookups::Lookups;

/// All configured clouds that know machines, in configured order.
#[derive(Clone)]
pub struct Owners(Arc<[Lookups]>);

/// Who describes a node, and what it was already asked about it.
pub struct Describer<'a> {
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
        if let Some(decided) = self.description(node) {
            return match self.decided(Some(&decided)) {
                Some(lookups) => Ok(Describer {
                    lookups,
                    answer: None,
                }),
                None => Err(decided),
            };
        }
        // Who would not describe it has no say in whose it is: it may not even be able to look.
        let asked: Vec<&Lookups> = self.0.iter().filter(|it| may_describe(it, node)).collect();
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
        asked
            .into_iter()
            .zip(answers)
            .find(|(it, _)| it.cloud().name() == by)
            .map(|(lookups, answer)| Describer {
                lookups,
                answer: Some(answer),
            })
            .ok_or(ownership)
    }

    /// Whose it is by what it carries; none if that does not tell.
    fn ownership(&self, node: &Node) -> Option<Ownership> {
        by_claims(self.0.iter().map(Lookups::cloud), node)
    }

    /// Who describes it by what it carries; none if that does not tell.
    fn description(&self, node: &Node) -> Option<Ownership> {
        let voices: Vec<(CloudName, Voice)> = self
            .0
            .iter()
            .map(|it| (it.cloud().name().clone(), it.cloud().voice(node)))
            .collect();
        ownership::describer(&voices, self.ownership(node))
    }

    fn decided(&self, decided: Option<&Ownership>) -> Option<&Lookups> {
        match decided? {
            Ownership::Owned { by, .. } => self.0.iter().find(|it| it.cloud().name() == by),
            Ownership::Nobody(_) | Ownership::Contested(_) | Ownership::Undecided(_) => None,
        }
    }
}

fn may_describe(cloud: &Lookups, node: &Node) -> bool {
    cloud.cloud().voice(node) != Voice::Never
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
