//! Which duties for a node are this provider's when several clouds are configured.
//!
//! A Talos machine at a cloud belongs to two providers. Talos initialises it, because the machine itself
//! knows best; the cloud whose provider id it has decides whether it still exists.

use bowline_core::Claim;

use crate::id;

/// How the operating system of a Talos machine begins its name.
const OS_IMAGE: &str = "Talos (";

/// Whether a node runs on a Talos machine, by what its kubelet says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// It does.
    Talos,
    /// It runs on something else: never to be asked.
    Other,
    /// The kubelet has not said yet: ask the machine.
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

/// Who gives a node its provider id, addresses and labels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Initializer {
    /// This provider.
    Talos,
    /// The cloud that has the instance.
    Cloud,
    /// This provider if the machine answers, else the cloud that has the instance.
    AskTheMachine,
}

/// Who initialises a node.
pub fn initializer(os_image: &str) -> Initializer {
    match kind(os_image) {
        Kind::Talos => Initializer::Talos,
        Kind::Other => Initializer::Cloud,
        Kind::Unknown => Initializer::AskTheMachine,
    }
}

/// Whether this provider answers for the existence of a node: with its own ids, and with those that are
/// nobody's. `another_claims` tells whether another configured cloud has the id's scheme.
pub fn owns_lifecycle(provider_id: &str, another_claims: bool) -> bool {
    match id::claim(provider_id) {
        Claim::Mine | Claim::Malformed(_) => true,
        Claim::Foreign | Claim::Leftover => !another_claims,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_talos_machine_is_known_by_its_operating_system() {
        for (os_image, kind_of, who) in [
            ("Talos (v1.13.5)", Kind::Talos, Initializer::Talos),
            (
                "Debian GNU/Linux 12 (bookworm)",
                Kind::Other,
                Initializer::Cloud,
            ),
            ("Talosian (v1)", Kind::Other, Initializer::Cloud),
            ("", Kind::Unknown, Initializer::AskTheMachine),
        ] {
            assert_eq!(kind(os_image), kind_of, "{os_image}");
            assert_eq!(initializer(os_image), who, "{os_image}");
        }
    }

    #[test]
    fn the_cloud_of_an_id_decides_whether_its_machine_exists() {
        for (id, another_claims, ours) in [
            ("talos://metal/10.0.0.5", false, true),
            ("talos://metal/10.0.0.5", true, true),
            ("exoscale://9f", true, false),
            ("exoscale://9f", false, true),
            ("gce://p/z/n", false, true),
        ] {
            assert_eq!(
                owns_lifecycle(id, another_claims),
                ours,
                "{id} {another_claims}"
            );
        }
    }
}
