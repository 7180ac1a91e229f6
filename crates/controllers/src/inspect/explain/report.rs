//! Explanations for programs: JSON whose keys and words stay as they are. More may be added.

use bowline_core::ownership::{Basis, Selection, Unowned};
use bowline_core::{Claim, CloudName, DescribePolicy, Ownership};
use serde_json::{Value, json};

use super::{Explanation, InstanceAnswer, Testimony};

impl Explanation {
    /// The explanation as JSON: `docs/several-clouds.md` says what is in it.
    pub fn json(&self) -> Value {
        let clouds = self.clouds.iter().map(testimony);
        json!({
            "node": self.node,
            "providerID": self.provider_id,
            "waits": self.waits,
            "owner": decision(&self.owner),
            "describer": decision(&self.describer),
            "clouds": clouds.collect::<Vec<_>>(),
            "warnings": self.warnings.json(),
            "advice": self.advice(),
        })
    }
}

fn decision(decision: &Ownership) -> Value {
    let (kind, cloud, reason, clouds) = match decision {
        Ownership::Owned { by, because } => ("owned", Some(by), basis(*because), Vec::new()),
        Ownership::Nobody(why) => {
            let (reason, clouds) = orphan(why);
            ("nobody", None, reason, clouds)
        }
        Ownership::Contested(claimants) => (
            "contested",
            None,
            "SeveralClaims",
            claimants.iter().collect(),
        ),
        Ownership::Undecided(silent) => {
            let silent = silent.iter().map(|(name, _)| name);
            ("undecided", None, "CannotTell", silent.collect())
        }
    };
    json!({
        "decision": kind,
        "cloud": cloud,
        "reason": reason,
        "clouds": clouds,
        "message": decision.to_string(),
    })
}

fn basis(basis: Basis) -> &'static str {
    match basis {
        Basis::ProviderId => "ProviderID",
        Basis::Account => "Account",
        Basis::Selector => "NodeSelector",
        Basis::OnlyClaim => "OnlyMachine",
        Basis::NobodyElse => "NobodyElse",
        Basis::MachineId => "MachineID",
        Basis::DescribePolicy => "DescribesItself",
    }
}

fn orphan(orphan: &Unowned) -> (&'static str, Vec<&CloudName>) {
    match orphan {
        Unowned::ForeignProviderId => ("ForeignProviderID", Vec::new()),
        Unowned::ForeignAccount(clouds) => ("ForeignAccount", clouds.iter().collect()),
        Unowned::MalformedProviderId { cloud, .. } => ("MalformedProviderID", vec![cloud]),
        Unowned::Unrecognized => ("NoMachine", Vec::new()),
        Unowned::ClaimedTwice(_) => ("ProviderIDClaimedTwice", Vec::new()),
        Unowned::Departed(cloud) => ("Departed", vec![cloud]),
        Unowned::Undescribed(cloud) => ("NotDescribed", vec![cloud]),
    }
}

fn testimony(said: &Testimony) -> Value {
    let candidate = &said.candidate;
    let (claim, why) = match &candidate.claim {
        Claim::Mine => ("mine", None),
        Claim::Fallback => ("leftover", None),
        Claim::FallbackIfAlone => ("presumed", None),
        Claim::Foreign => ("foreign", None),
        Claim::Malformed(why) => ("malformed", Some(why)),
    };
    let selector = match candidate.selection {
        Selection::Unsaid => "none",
        Selection::Meant => "matches",
        Selection::NotMeant => "doesNotMatch",
    };
    let describes = match said.describe_policy {
        DescribePolicy::Always => "always",
        DescribePolicy::Owner => "ifOwner",
        DescribePolicy::Never => "never",
    };
    let (answer, detail) = match &said.answer {
        None => ("notAsked", None),
        Some(InstanceAnswer::Has) => ("hasMachine", None),
        Some(InstanceAnswer::Gone(evidence)) => ("gone", Some(evidence)),
        Some(InstanceAnswer::NotMine) => ("noMachine", None),
        Some(InstanceAnswer::CannotTell(why)) => ("cannotTell", Some(why)),
    };
    json!({
        "name": candidate.name,
        "provider": said.provider,
        "claim": claim,
        "claimMessage": why,
        "disclaims": candidate.belongs_elsewhere,
        "nodeSelector": selector,
        "describes": describes,
        "answer": answer,
        "answerMessage": detail,
    })
}
