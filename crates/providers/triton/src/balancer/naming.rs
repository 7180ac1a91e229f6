//! What DNS names are called: the labels of Services and nodes, and the network and zone that they
//! are published in. Pure.

mod zone;

use std::fmt::Write as _;

use bowline_core::{Service, ServiceKey};
use ring::digest::{SHA256, digest};

use super::settings::Settings;
use crate::config::LabelStyle;

pub(crate) use zone::{Choice, Zones, addresses_on};

/// The default cluster name, which distinguishes nothing.
const ANY_CLUSTER: &str = "kubernetes";
/// The longest label of the name service, dots included.
const LONGEST: usize = 63;
/// The part of a Service's name in a flat label; a dash and eight digits follow.
const FLAT_NAME: usize = 54;
/// Digits of a uid that distinguish clusters or Services.
const SHORT: usize = 8;

pub(crate) fn label_of(
    service: &Service,
    settings: &Settings,
    style: LabelStyle,
    cluster: &str,
) -> String {
    let own = settings.cns_service.clone();
    own.unwrap_or_else(|| default_label(style, cluster, &service.key))
}

fn default_label(style: LabelStyle, cluster: &str, key: &ServiceKey) -> String {
    let ServiceKey { namespace, name } = key;
    match style {
        LabelStyle::Flat => {
            let name: String = name.chars().take(FLAT_NAME).collect();
            format!("{name}-{}", &fingerprint(cluster, key)[..SHORT])
        }
        LabelStyle::Dotted => {
            let dotted = if cluster == ANY_CLUSTER {
                format!("{name}.{namespace}")
            } else {
                format!("{name}.{namespace}.{cluster}")
            };
            if dotted.len() <= LONGEST {
                dotted
            } else {
                format!("k8s-{}", &fingerprint(cluster, key)[..32])
            }
        }
    }
}

/// SHA-256 of cluster, namespace and name, in hexadecimal digits.
fn fingerprint(cluster: &str, key: &ServiceKey) -> String {
    let text = format!("{cluster}/{}/{}", key.namespace, key.name);
    let mut digits = String::new();
    for byte in digest(&SHA256, text.as_bytes()).as_ref() {
        // Writing to a string cannot fail.
        let _ = write!(digits, "{byte:02x}");
    }
    digits
}

/// What the labels of nodes begin with; a Service must not be mistaken for them.
const NODE_LABELS: [&str; 2] = ["k8s-nodes-", "be-"];

pub(crate) fn is_nodes_label(label: &str) -> bool {
    NODE_LABELS.iter().any(|begin| label.starts_with(begin))
}

/// The label of all nodes, behind load balancer machines.
pub(crate) fn nodes_label(cluster_uid: &str) -> String {
    format!("k8s-nodes-{}", short(cluster_uid))
}

/// The label of the nodes that one Service selects, behind load balancer machines.
pub(crate) fn selected_nodes_label(service_uid: &str) -> String {
    format!("be-{}", short(service_uid))
}

pub(crate) fn short(uid: &str) -> &str {
    uid.get(..SHORT).unwrap_or(uid)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn triton_case_41_labels_are_those_of_the_specification() {
        let long = (
            "a-very-long-namespace-name-for-the-payments-team-eu",
            "checkout-frontend-internal-api",
        );
        for (style, cluster, (namespace, name), wanted) in [
            (
                LabelStyle::Dotted,
                "kubernetes",
                ("prod", "web"),
                "web.prod",
            ),
            (LabelStyle::Dotted, "blue", ("prod", "web"), "web.prod.blue"),
            (
                LabelStyle::Flat,
                "kubernetes",
                ("prod", "web"),
                "web-7ead91f4",
            ),
            (
                LabelStyle::Dotted,
                "prod",
                long,
                "k8s-c99867edd80e6a2756b540402a9503e0",
            ),
        ] {
            let key = ServiceKey {
                namespace: namespace.to_owned(),
                name: name.to_owned(),
            };
            assert_eq!(default_label(style, cluster, &key), wanted);
        }
        let key = ServiceKey {
            namespace: "prod".to_owned(),
            name: "n".repeat(63),
        };
        let label = default_label(LabelStyle::Flat, "kubernetes", &key);
        assert_eq!((label.len(), &label[..54]), (63, &*"n".repeat(54)));
    }

    #[test]
    fn labels_of_nodes_begin_as_no_service_may() {
        let uid = "cccccccc-0000-4000-8000-00000000000c";
        assert_eq!(nodes_label(uid), "k8s-nodes-cccccccc");
        assert_eq!(selected_nodes_label(uid), "be-cccccccc");
    }
}
