//! Provider ids: `exoscale://<uuid>` for instances, and what overrides say for external nodes.

use bowline_core::{Claim, Node};
use uuid::Uuid;

use crate::config::Overrides;

/// What every provider id of this cloud begins with.
pub const SCHEME: &str = "exoscale://";

/// The provider id of an instance.
pub fn provider_id(instance: Uuid) -> String {
    format!("{SCHEME}{instance}")
}

/// The instance that a provider id names: with the scheme or without, in any case.
pub fn instance_id(provider_id: &str) -> Option<Uuid> {
    let id = provider_id.strip_prefix(SCHEME).unwrap_or(provider_id);
    hyphenated(id)
}

/// A uuid in the form with dashes, the only one that the API and kubelets use.
pub fn hyphenated(text: &str) -> Option<Uuid> {
    (text.len() == 36).then(|| Uuid::try_parse(text).ok())?
}

/// The instance that a node says it is: by its provider id, or else by the id that its firmware
/// tells.
pub(crate) fn instance_of(node: &Node) -> Option<Uuid> {
    match &node.provider_id {
        Some(provider_id) => instance_id(provider_id),
        None => hyphenated(&node.system_uuid),
    }
}

/// Whose a node is, by looking at it alone. Without a provider id it is ours if an external override
/// names it, or if the id of its machine could be that of an instance.
pub(crate) fn claim(node: &Node, overrides: &Overrides) -> Claim {
    let Some(provider_id) = &node.provider_id else {
        let said = overrides.by_name(&node.name);
        let ours = said.is_some_and(|it| it.external) || instance_of(node).is_some();
        return if ours { Claim::Mine } else { Claim::Foreign };
    };
    if instance_id(provider_id).is_some() {
        return Claim::Mine;
    }
    if !provider_id.starts_with(SCHEME) {
        return Claim::Foreign;
    }
    let said = overrides.by_provider_id(provider_id);
    if said.is_some_and(|said| said.external) {
        return Claim::Mine;
    }
    let why = "it is no uuid, and no external override has that id";
    Claim::Malformed(format!("{provider_id}: {why}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;
    use crate::testing::node;

    #[test]
    fn every_provider_id_has_its_claim() {
        let file = "
instances:
  overrides:
    - {name: edge-1, external: true}
    - {name: edge-2, external: true, externalID: rack7-u12}
    - {name: n1, externalID: inside}
";
        let environment = |name: &str| name.starts_with("EXOSCALE_API_").then(|| "x".to_owned());
        let environment = |name: &str| match name {
            "EXOSCALE_API_KEY" | "EXOSCALE_API_SECRET" => environment(name),
            _ => None,
        };
        let config = Config::read(environment, Some(file)).unwrap();
        let overrides = config.instances.overrides;
        let (mine, malformed) = (Some(true), Some(false));
        let derived = "external-df594d71a145abdc3d2b8d6c6fa910dd4bb21f63de731ecd11fe97b6ff6ce691";
        for (id, wanted) in [
            ("exoscale://6f1d2c3b-7a55-4e0c-9b61-2d3e4f5a6b7c", mine),
            ("exoscale://6F1D2C3B-7A55-4E0C-9B61-2D3E4F5A6B7C", mine),
            ("6f1d2c3b-7a55-4e0c-9b61-2d3e4f5a6b7c", mine),
            (&format!("exoscale://{derived}"), mine),
            ("exoscale://rack7-u12", mine),
            ("exoscale://inside", malformed),
            ("exoscale://6f1d2c3b7a554e0c9b612d3e4f5a6b7c", malformed),
            (
                "exoscale://ch-gva-2/6f1d2c3b-7a55-4e0c-9b61-2d3e4f5a6b7c",
                malformed,
            ),
            ("exoscale://", malformed),
            ("hcloud://42", None),
            ("rack7-u12", None),
            ("", None),
        ] {
            let got = match claim(&node("n", Some(id), ""), &overrides) {
                Claim::Mine => Some(true),
                Claim::Malformed(_) => Some(false),
                Claim::Foreign => None,
            };
            assert_eq!(got, wanted, "{id}");
        }
        for (name, machine, wanted) in [
            ("n", "6F1D2C3B-7A55-4E0C-9B61-2D3E4F5A6B7C", Claim::Mine),
            ("n", "ec2abc", Claim::Foreign),
            ("n", "", Claim::Foreign),
            ("edge-1", "", Claim::Mine),
            ("n1", "", Claim::Foreign),
        ] {
            let node = node(name, None, machine);
            assert_eq!(claim(&node, &overrides), wanted, "{name} {machine}");
        }
    }
}
