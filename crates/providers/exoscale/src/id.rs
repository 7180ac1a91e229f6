//! Provider ids: `exoscale://<uuid>` for instances, and those of overrides for external nodes.

use bowline_core::{Claim, Node};
use uuid::Uuid;

use crate::config::InstanceConfig;

/// What every provider id of this cloud begins with.
pub const SCHEME: &str = "exoscale://";

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

/// The instance of a node: by its provider id, or else by its system uuid.
pub(crate) fn instance_of(node: &Node) -> Option<Uuid> {
    match &node.provider_id {
        Some(provider_id) => instance_id(provider_id),
        None => hyphenated(&node.system_uuid),
    }
}

/// Whose a node is, by what it carries: its provider id, the name of an external override, or what
/// its machine calls itself, which is an instance's id if it is an instance. Where the API is not
/// to be asked, only external overrides count.
pub(crate) fn claim(node: &Node, config: &InstanceConfig) -> Claim {
    let id = node.provider_id.as_deref().unwrap_or_default();
    let ours = id.is_empty() || id.starts_with(SCHEME) || instance_id(id).is_some();
    if !ours {
        return Claim::Foreign;
    }
    let node_override = config.overrides.find(&node.name, Some(id));
    if node_override.is_some_and(|node_override| node_override.external) {
        return Claim::Mine;
    }
    if config.external_only {
        return Claim::Foreign;
    }
    let machine = if id.is_empty() {
        hyphenated(&node.system_uuid)
    } else {
        instance_id(id)
    };
    match machine {
        Some(_) => Claim::Mine,
        None if id.is_empty() => Claim::Foreign,
        None => {
            let why = "it is no uuid, and no external override has that id or the node's name";
            Claim::Malformed(format!("{id}: {why}"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;
    use crate::testing::node;
    use bowline_test_kit::rows;

    #[test]
    fn every_node_has_its_claim() {
        let file = "
instances:
  overrides:
    - {name: edge-1, external: true}
    - {name: edge-2, external: true, externalID: rack7-u12}
    - {name: n1, externalID: inside}
";
        let environment = |name: &str| match name {
            "EXOSCALE_API_KEY" | "EXOSCALE_API_SECRET" => Some("x".to_owned()),
            _ => None,
        };
        let config = Config::read(environment, Some(file)).unwrap();
        let mut config = config.instances;
        let derived = "external-df594d71a145abdc3d2b8d6c6fa910dd4bb21f63de731ecd11fe97b6ff6ce691";
        for [name, id, wanted] in rows(
            "w      | exoscale://6f1d2c3b-7a55-4e0c-9b61-2d3e4f5a6b7c | mine
             w      | exoscale://6F1D2C3B-7A55-4E0C-9B61-2D3E4F5A6B7C | mine
             w      | 6f1d2c3b-7a55-4e0c-9b61-2d3e4f5a6b7c            | mine
             w      | exoscale://DERIVED                              | mine
             w      | exoscale://rack7-u12                            | mine
             w      | exoscale://inside                               | malformed
             w      | exoscale://6f1d2c3b7a554e0c9b612d3e4f5a6b7c     | malformed
             w      | exoscale://ch-gva-2/6f1d2c3b-7a55-4e0c-9b61-2d3e4f5a6b7c | malformed
             w      | exoscale://                                     | malformed
             w      | hcloud://42                                     | foreign
             w      | rack7-u12                                       | foreign
             w      |                                                 | foreign
             edge-1 |                                                 | mine
             edge-1 | exoscale://rack9                                | mine
             edge-1 | hcloud://42                                     | foreign
             n1     |                                                 | foreign",
        ) {
            let id = &id.replace("DERIVED", derived);
            let got = match claim(&node(name, id), &config) {
                Claim::Mine => "mine",
                Claim::Malformed(_) => "malformed",
                Claim::Foreign | Claim::Fallback | Claim::FallbackIfAlone => "foreign",
            };
            assert_eq!(got, wanted, "{name} {id}");
        }
        // What the machine calls itself counts only where there is no provider id.
        let mut machine = node("w", "");
        for (uuid, wanted) in [
            ("6F1D2C3B-7A55-4E0C-9B61-2D3E4F5A6B7C", Claim::Mine),
            ("not-a-uuid", Claim::Foreign),
        ] {
            machine.system_uuid = uuid.to_owned();
            assert_eq!(claim(&machine, &config), wanted, "{uuid}");
        }
        config.external_only = true;
        for (name, id, wanted) in [
            (
                "w",
                "exoscale://6f1d2c3b-7a55-4e0c-9b61-2d3e4f5a6b7c",
                Claim::Foreign,
            ),
            ("w", "exoscale://rack7-u12", Claim::Mine),
            ("edge-1", "", Claim::Mine),
        ] {
            assert_eq!(claim(&node(name, id), &config), wanted, "{name} {id}");
        }
    }
}
