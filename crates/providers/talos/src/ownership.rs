//! Which duties for a node are this provider's when several clouds are configured.
//!
//! A Talos machine at a cloud belongs to two providers. Talos describes it, because the machine
//! itself knows best; the cloud whose provider id it has decides whether it still exists.

use bowline_core::{Claim, DescribePolicy, Node};

use crate::id;

/// How the operating system of a Talos machine begins its name.
const OS_IMAGE: &str = "Talos (";

/// Whether a node runs on a Talos machine, as its kubelet reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Talos,
    /// It runs on something else: never to be asked.
    Other,
    /// The kubelet has not reported it yet: ask the machine.
    Unknown,
}

/// Tells by `status.nodeInfo.osImage`; empty is unknown.
pub fn kind(os_image: &str) -> Kind {
    if os_image.is_empty() {
        Kind::Unknown
    } else if os_image.starts_with(OS_IMAGE) {
        Kind::Talos
    } else {
        Kind::Other
    }
}

/// Whether this provider gives a node its provider id, addresses and labels: always to a Talos
/// machine's, never to another's; and as long as the kubelet has not reported which it is, if the
/// machine answers.
pub fn describe_policy(node: &Node) -> DescribePolicy {
    match kind(&node.os_image) {
        Kind::Talos => DescribePolicy::Always,
        Kind::Other => DescribePolicy::Never,
        Kind::Unknown => DescribePolicy::Owner,
    }
}

/// Whether this provider answers for the existence of a node: with its own ids, and with those that
/// are nobody's: of Talos machines, and of those of an unknown kind where there is no other cloud.
pub fn claim(node: &Node) -> Claim {
    let Some(provider_id) = &node.provider_id else {
        return Claim::Foreign;
    };
    match (id::claim(provider_id), kind(&node.os_image)) {
        (Claim::Foreign, Kind::Talos) => Claim::Fallback,
        (Claim::Foreign, Kind::Unknown) => Claim::FallbackIfAlone,
        (claim, _) => claim,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bowline_core::{CloudName, Ownership, ownership};

    #[test]
    fn a_talos_machine_is_known_by_its_operating_system() {
        for (os_image, kind_of, speaks) in [
            ("Talos (v1.13.5)", Kind::Talos, DescribePolicy::Always),
            (
                "Debian GNU/Linux 12 (bookworm)",
                Kind::Other,
                DescribePolicy::Never,
            ),
            ("Talosian (v1)", Kind::Other, DescribePolicy::Never),
            ("", Kind::Unknown, DescribePolicy::Owner),
        ] {
            let mut node = crate::testing::node("n1", "10.0.0.5");
            node.os_image = os_image.into();
            assert_eq!(kind(os_image), kind_of, "{os_image}");
            assert_eq!(describe_policy(&node), speaks, "{os_image}");
        }
    }

    #[test]
    fn the_cloud_of_an_id_decides_whether_its_machine_exists() {
        let [talos, exoscale] = ["talos", "exoscale"].map(|it| CloudName::parse(it).unwrap());
        let (ours, debian) = ("Talos (v1.13.5)", "Debian GNU/Linux 12 (bookworm)");
        for (id, os_image, theirs, by) in [
            ("talos://metal/10.0.0.5", ours, Claim::Foreign, Some(&talos)),
            ("exoscale://9f", ours, Claim::Mine, Some(&exoscale)),
            ("gce://p/z/n", ours, Claim::Foreign, Some(&talos)),
            ("gce://p/z/n", "", Claim::Foreign, None),
            ("gce://p/z/n", debian, Claim::Foreign, None),
            ("eu-1.i-7", ours, Claim::Foreign, Some(&talos)),
        ] {
            let mut node = crate::testing::node("n1", "10.0.0.5");
            node.provider_id = Some(id.into());
            node.os_image = os_image.into();
            let claims = [(talos.clone(), claim(&node)), (exoscale.clone(), theirs)];
            let owner = match ownership::by_claims(&node, &claims) {
                Some(Ownership::Owned { by, .. }) => Some(by),
                _ => None,
            };
            assert_eq!(owner.as_ref(), by, "{id} {os_image}");
        }
    }

    #[test]
    fn where_talos_is_the_only_cloud_it_answers_for_machines_of_an_unknown_kind() {
        let talos = CloudName::parse("talos").unwrap();
        let mut node = crate::testing::node("n1", "10.0.0.5");
        node.provider_id = Some("gce://p/z/n".into());
        node.os_image = String::new();
        let owner = ownership::by_claims(&node, &[(talos.clone(), claim(&node))]);
        let is_own = matches!(owner, Some(Ownership::Owned { by, .. }) if by == talos);
        assert!(is_own);
    }
}
