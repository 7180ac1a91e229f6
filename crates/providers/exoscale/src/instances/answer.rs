//! From what was gathered to the answer about one node. Pure.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bowline_core::{CloudError, CloudErrorKind, Lookup, Node};
use bowline_http::lookup::Reading;
use uuid::Uuid;

use super::describe::{describe, external};
use super::question::Question;
use super::types::Names;
use super::{InstanceList, is_destroyed};
use crate::api::Instance;
use crate::config::Override;

/// What was gathered for all nodes of one look-up.
#[derive(Default)]
pub(super) struct Knowledge {
    /// All instances; none if they were not asked for.
    pub(super) list: Option<Result<Arc<InstanceList>, CloudError>>,
    /// Instances that were read one by one; they count more than the list.
    pub(super) read: BTreeMap<Uuid, Reading<Instance>>,
    pub(super) types: Names,
}

impl Knowledge {
    /// Nothing is known, and this is why.
    pub(super) fn failed(error: CloudError) -> Self {
        Self {
            list: Some(Err(error)),
            ..Self::default()
        }
    }

    pub(super) fn types_wanted(&self, questions: &[Question<'_>]) -> BTreeSet<Uuid> {
        let types = questions.iter().filter_map(|question| match question {
            Question::About {
                id, node_override, ..
            } if type_override(*node_override).is_none() => self.instance(*id).ok()?.instance_type,
            _ => None,
        });
        types.collect()
    }

    pub(super) fn answer(&self, node: &Node, question: &Question<'_>, zone: &str) -> Lookup {
        let (id, node_override, known) = match question {
            Question::Nothing => return Lookup::NotMine,
            Question::Malformed(why) => {
                return Lookup::CannotTell(CloudError::new(CloudErrorKind::Invalid, why));
            }
            Question::External(node_override) => {
                return Lookup::Found(Box::new(external(node_override, node)));
            }
            Question::About {
                id,
                node_override,
                known,
            } => (*id, *node_override, *known),
        };
        let instance = match self.instance(id) {
            Ok(instance) => instance,
            // Nothing ever showed that the node is this cloud's, and its machine is not here.
            Err(Lookup::Gone(_)) if !known => return Lookup::NotMine,
            Err(Lookup::Gone(evidence)) => {
                return elsewhere(node, zone).map_or(Lookup::Gone(evidence), |other| {
                    let text = format!(
                        "the node is one of {other}, and zone {zone} knows nothing of other zones"
                    );
                    Lookup::CannotTell(CloudError::new(CloudErrorKind::Unknown, text))
                });
            }
            Err(answer) => return answer,
        };
        let named = match type_override(node_override) {
            Some(node_override) => Ok(node_override),
            None => self.type_of(instance),
        };
        match describe(instance, node, node_override, zone, named) {
            Ok(described) => Lookup::Found(Box::new(described)),
            Err(error) => Lookup::CannotTell(error),
        }
    }

    /// That instance, or the whole answer if there is none.
    pub(super) fn instance(&self, id: Uuid) -> Result<&Instance, Lookup> {
        if let Some(reading) = self.read.get(&id) {
            return reading.machine();
        }
        let listed = match &self.list {
            Some(Ok(list)) => list.get(id),
            Some(Err(error)) => return Err(Lookup::CannotTell(error.copy())),
            None => None,
        };
        // One that is destroyed is gone only on its own word.
        listed.filter(|it| !is_destroyed(it)).ok_or_else(|| {
            let text = format!(
                "GET instance does not list instance {id}, and too many are missing to ask for each"
            );
            Lookup::CannotTell(CloudError::new(CloudErrorKind::Unknown, text))
        })
    }

    fn type_of(&self, instance: &Instance) -> Result<&str, CloudError> {
        let missing = |what: &str| {
            let text = format!("GET instance/{} answered without {what}", instance.id);
            CloudError::new(CloudErrorKind::Unknown, text)
        };
        let id = instance.instance_type;
        let id = id.ok_or_else(|| missing("instance-type"))?;
        match self.types.get(&id) {
            Some(Ok(name)) => Ok(name),
            Some(Err(error)) => Err(error.copy()),
            None => Err(missing("an instance-type that is known")),
        }
    }
}

/// The other zone that a node's labels name. Nodes of some years ago name only a region, which
/// is the zone as well.
pub(crate) fn elsewhere<'a>(node: &'a Node, zone: &str) -> Option<&'a str> {
    let keys = [
        "topology.kubernetes.io/zone",
        "topology.kubernetes.io/region",
    ];
    let mut labelled = keys.iter().filter_map(|key| node.labels.get(key));
    let labelled = labelled.find(|zone| !zone.is_empty())?;
    (labelled != zone).then_some(labelled)
}

/// The instance type that the operator gives a node.
fn type_override(node_override: Option<&Override>) -> Option<&str> {
    node_override.and_then(|node_override| node_override.instance_type.as_deref())
}
