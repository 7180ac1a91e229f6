//! What Services may do with load balancers of a cloud that are not theirs.

use bowline_core::{BalancerRules, NamespaceRule};

use super::document::Value;
use super::schema::{Field, Kind, namespaces};

pub(super) fn fields() -> Vec<Field> {
    let rule = |name, default: &str, meaning: &str| {
        Field::new(name, Kind::Namespaces, meaning).or(default)
    };
    vec![
        rule(
            "adoption",
            "never",
            "Namespaces whose Services may adopt a load balancer that no Service of this cluster owns, by annotation \
             `bowline.dev/take-over: <id>`.",
        ),
        rule(
            "externalBalancers",
            "any",
            "Whose Services may attach ports to a load balancer that is not theirs, where the cloud allows that.",
        ),
        rule(
            "floatingIps",
            "never",
            "Whose Services may move a floating IP that points to something else.",
        ),
    ]
}

/// What was said, and the usual for the rest. `value` has been checked.
pub(super) fn read(value: &Value) -> BalancerRules {
    let usual = BalancerRules::default();
    let rule = |key: &str, or: NamespaceRule| {
        let said = value.get(key).filter(|it| !it.is_nothing());
        said.and_then(|it| namespaces(it).ok()).unwrap_or(or)
    };
    BalancerRules {
        adoption: rule("adoption", usual.adoption),
        external: rule("externalBalancers", usual.external),
        floating_ips: rule("floatingIps", usual.floating_ips),
    }
}
