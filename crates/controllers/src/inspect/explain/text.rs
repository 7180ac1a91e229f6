//! Explanations as text: first the result, then the reasons, then what to do.

use std::collections::BTreeSet;
use std::fmt;

use bowline_core::ownership::{CloudCandidate, Selection, Unowned};
use bowline_core::{Claim, Ownership};

use super::{Explanation, InstanceAnswer, Testimony};

impl Explanation {
    /// What people can do about it; none if there is nothing to do.
    pub fn advice(&self) -> Option<String> {
        match &self.owner {
            Ownership::Owned { by, .. } => self.advice_to_owner(by.as_str()),
            Ownership::Nobody(orphan) => Some(self.advice_to_nobody(orphan)),
            Ownership::Contested(_) => Some(
                "Say in the configuration which nodes each of these clouds has: clouds[].nodeSelector. Until then \
                 nobody touches the node."
                    .to_owned(),
            ),
            Ownership::Undecided(_) => Some(
                "Let the clouds that could not answer answer again: credentials, network, quota. The manager asks \
                 every minute; until then nobody touches the node."
                    .to_owned(),
            ),
        }
    }

    fn advice_to_owner(&self, owner: &str) -> Option<String> {
        let of_owner = self
            .clouds
            .iter()
            .find(|it| it.candidate.name.as_str() == owner);
        match of_owner?.answer.as_ref()? {
            InstanceAnswer::Gone(_) => Some(format!(
                "The Node is deleted when the deletion guard is satisfied: it is NotReady, and the cloud has said \
                 twice that the machine is gone. Events on the Node tell what holds it back. If its machine is alive, \
                 the credentials of cloud {owner} are of another account, project or zone; then events \
                 AccountContradicted or AccountUnproven on the lease say so, and nothing is deleted."
            )),
            InstanceAnswer::CannotTell(_) => Some(format!(
                "Let cloud {owner} answer again: credentials, network, quota. Until then the node stays as it is."
            )),
            InstanceAnswer::NotMine if self.provider_id.is_some() => Some(format!(
                "Cloud {owner} does not find the machine, and that does not prove that it is gone: the Node stays."
            )),
            InstanceAnswer::NotMine => of_owner?.recognises_by.map(|hint| format!("{hint}.")),
            InstanceAnswer::Has => None,
        }
    }

    /// What makes the machine known, in the words of each cloud.
    fn ways_to_be_recognised(&self) -> String {
        let by_name = self.clouds.iter().any(|it| it.recognises_by.is_none());
        let by_name = by_name.then_some("give the machine the Node's name there");
        let others: BTreeSet<&str> = (self.clouds.iter())
            .filter_map(|it| it.recognises_by)
            .collect();
        let all: Vec<&str> = by_name.into_iter().chain(others).collect();
        all.join(". ")
    }

    fn advice_to_nobody(&self, orphan: &Unowned) -> String {
        let name = &self.node;
        match orphan {
            Unowned::ForeignProviderId => {
                "Nothing, if no cloud is to look after it: it is never touched. Otherwise \
                 configure the cloud that gave it this id."
                    .to_owned()
            }
            Unowned::ForeignAccount(_) => {
                "Nothing, if it is of an account that is not configured. Otherwise compare \
                 the zones, endpoints and node selectors of these clouds with the node's labels."
                    .to_owned()
            }
            Unowned::MalformedProviderId { .. } => format!(
                "The id of a Node cannot be changed: delete the Node, and let its kubelet register again without \
                 --provider-id, or with a right one: kubectl delete node {name}"
            ),
            Unowned::Unrecognized => format!(
                "If a configured cloud has its machine: {}. If none has: start \
                 its kubelet without --cloud-provider=external, or take the taint away: kubectl taint node {name} \
                 node.cloudprovider.kubernetes.io/uninitialized-",
                self.ways_to_be_recognised()
            ),
            Unowned::ClaimedTwice(older) => format!(
                "Find out which of the two runs on that machine. Delete the other Node, and check the credentials of \
                 its kubelet: kubectl delete node {name}, or kubectl delete node {older}"
            ),
            Unowned::Departed(cloud) => format!(
                "Nothing, if it went with cloud {cloud}: it is never touched. Otherwise configure that cloud again; \
                 another one gets it once it is seen to have the machine."
            ),
            Unowned::Undescribed(by) => format!(
                "Cloud {by} owns it and says nothing about its addresses and labels; whoever does must be configured \
                 too."
            ),
        }
    }
}

impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "Node {}: {}", self.node, self.owner)?;
        let id = self.provider_id.as_deref().unwrap_or("none");
        writeln!(f, "  provider id: {id}")?;
        if self.waits {
            writeln!(
                f,
                "  waits to be initialised: it has the taint of new nodes"
            )?;
        }
        match (&self.owner, &self.describer) {
            (Ownership::Owned { .. }, describer) if *describer == self.owner => {
                writeln!(f, "  addresses and labels: from the same cloud")?;
            }
            (owner, describer) if owner == describer => {}
            (_, describer) => writeln!(f, "  addresses and labels: {describer}")?,
        }
        write!(f, "What each cloud says")?;
        for cloud in &self.clouds {
            write!(f, "\n  {cloud}")?;
        }
        write!(f, "{}", self.warnings)?;
        match self.advice() {
            Some(advice) => write!(f, "\nWhat to do\n  {advice}"),
            None => Ok(()),
        }
    }
}

impl fmt::Display for Testimony {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let CloudCandidate {
            name,
            claim,
            belongs_elsewhere,
            selection,
        } = &self.candidate;
        write!(f, "{name} ({}): ", self.provider)?;
        let mut parts = Vec::new();
        match claim {
            Claim::Malformed(why) => parts.push(format!("the id is not one of its kind: {why}")),
            Claim::Fallback => parts.push("takes what no other cloud has".to_owned()),
            Claim::FallbackIfAlone => {
                parts.push("takes it where there is no other cloud".to_owned());
            }
            // Without an id it is a guess, and the answer counts.
            Claim::Mine | Claim::Foreign if !self.has_id => {}
            Claim::Mine => parts.push("the id is of its kind".to_owned()),
            Claim::Foreign => parts.push("the id is not of its kind".to_owned()),
        }
        if *belongs_elsewhere {
            parts.push("the node's labels say that it is elsewhere".to_owned());
        }
        match selection {
            Selection::Unsaid => {}
            Selection::Meant => parts.push("its node selector means the node".to_owned()),
            Selection::NotMeant => {
                parts.push("its node selector does not mean the node".to_owned());
            }
        }
        parts.push(match &self.answer {
            None => "was not asked".to_owned(),
            Some(InstanceAnswer::Has) => "has the machine".to_owned(),
            Some(InstanceAnswer::Gone(evidence)) => format!("the machine is gone: {evidence}"),
            Some(InstanceAnswer::NotMine) => "has no machine for it".to_owned(),
            Some(InstanceAnswer::CannotTell(why)) => format!("could not answer: {why}"),
        });
        f.write_str(&parts.join("; "))
    }
}
