//! Provider ids: `triton://<machine id>`.

use bowline_core::{Claim, Node, ProviderId};
use uuid::Uuid;

/// What every provider id of this cloud begins with.
pub const SCHEME: &str = "triton:";

pub fn provider_id(machine: Uuid) -> Option<ProviderId> {
    ProviderId::parse(&format!("triton://{machine}")).ok()
}

/// The machine that a provider id names: behind two slashes or more, in any case.
pub fn machine_id(provider_id: &str) -> Option<Uuid> {
    let rest = provider_id.strip_prefix("triton://")?;
    hyphenated(rest.trim_start_matches('/'))
}

/// A UUID in the form with dashes, the only one that counts here.
pub fn hyphenated(text: &str) -> Option<Uuid> {
    (text.len() == 36).then(|| Uuid::try_parse(text).ok())?
}

/// Whose a node is, by its provider id alone.
pub(crate) fn claim(node: &Node) -> Claim {
    let Some(id) = node.provider_id.as_deref() else {
        return Claim::Foreign;
    };
    if machine_id(id).is_some() {
        Claim::Mine
    } else if id.starts_with(SCHEME) {
        Claim::Malformed(format!("{id}: want triton:// and the UUID of a machine"))
    } else {
        Claim::Foreign
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::node;

    #[test]
    fn triton_case_17_every_provider_id_has_its_claim() {
        let id = Uuid::from_u128(0x5b1e_2d3c_0000_4000_8000_0000_0000_0001);
        for text in [
            "triton://5b1e2d3c-0000-4000-8000-000000000001",
            "triton:///5B1E2D3C-0000-4000-8000-000000000001",
            "triton:////5b1e2d3c-0000-4000-8000-000000000001",
        ] {
            assert_eq!(machine_id(text), Some(id), "{text}");
            assert_eq!(claim(&node("n", text)), Claim::Mine);
        }
        let written = provider_id(id).unwrap();
        assert_eq!(
            written.as_str(),
            "triton://5b1e2d3c-0000-4000-8000-000000000001"
        );
        for text in [
            "triton:/5b1e2d3c-0000-4000-8000-000000000001",
            "triton://5b1e2d3c00004000800000000000000001",
            "triton://5b1e2d3c-0000-4000-8000-000000000001/",
            "triton://web-1",
            "triton://",
        ] {
            assert!(
                matches!(claim(&node("n", text)), Claim::Malformed(_)),
                "{text}"
            );
        }
        for text in [
            "",
            "exoscale://5b1e2d3c-0000-4000-8000-000000000001",
            "tritonx://a",
        ] {
            assert_eq!(claim(&node("n", text)), Claim::Foreign, "{text}");
        }
    }
}
