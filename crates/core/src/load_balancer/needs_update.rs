//! Decides which changes of a Service need a reconcile.

use std::collections::BTreeMap;

use crate::Service;

/// Whether a load balancer could have to change because its Service did.
///
/// `own` are the annotations that we write ourselves and `published` what we last wrote there: such
/// a change is our own doing. A change of labels, selector or status is none of our business.
pub fn needs_update(
    before: &Service,
    after: &Service,
    own: &[&str],
    published: &BTreeMap<String, String>,
) -> bool {
    if !before.is_load_balancer && !after.is_load_balancer {
        return false;
    }
    before.is_load_balancer != after.is_load_balancer
        || before.uid != after.uid
        || before.class != after.class
        || before.source_ranges != after.source_ranges
        || before.ports != after.ports
        || before.client_affinity != after.client_affinity
        || before.requested_ip != after.requested_ip
        || before.external_ips != after.external_ips
        || before.traffic_policy != after.traffic_policy
        || before.health_check_node_port != after.health_check_node_port
        || before.ip_families.len() != after.ip_families.len()
        || annotations_differ(before, after, own, published)
}

fn annotations_differ(
    before: &Service,
    after: &Service,
    own: &[&str],
    published: &BTreeMap<String, String>,
) -> bool {
    let empty = BTreeMap::new();
    let (old, new) = (
        before.annotations.as_ref().unwrap_or(&empty),
        after.annotations.as_ref().unwrap_or(&empty),
    );
    old.keys().chain(new.keys()).any(|key| {
        let now = new.get(key);
        let ours = own.contains(&key.as_str()) && now.is_some() && now == published.get(key);
        old.get(key) != now && !ours
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load_balancer::service::examples::web;
    use crate::{Condition, Ingress, Protocol, ServicePort, TrafficPolicy};

    /// What changes, and how.
    type Row = (&'static str, fn(&mut Service));

    const OWN: &[&str] = &["demo.test/id"];

    fn annotated(pairs: &[(&str, &str)]) -> Service {
        let pairs = pairs.iter().map(|(k, v)| ((*k).into(), (*v).into()));
        Service {
            annotations: Some(pairs.collect()),
            ..web()
        }
    }

    /// Whether a change of the example counts.
    fn counts(change: impl FnOnce(&mut Service)) -> bool {
        let mut after = web();
        change(&mut after);
        needs_update(&web(), &after, OWN, &BTreeMap::new())
    }

    #[test]
    fn everything_a_load_balancer_is_made_of_counts() {
        let rows: &[Row] = &[
            ("type", |it| it.is_load_balancer = false),
            ("uid", |it| it.uid = "another".into()),
            ("class", |it| it.class = Some("bowline.dev/demo".into())),
            ("ranges", |it| it.source_ranges = vec!["10.0.0.0/8".into()]),
            ("affinity", |it| it.client_affinity = Some(10_800)),
            ("address", |it| it.requested_ip = Some("192.0.2.1".into())),
            ("external", |it| it.external_ips = vec!["192.0.2.1".into()]),
            ("policy", |it| it.traffic_policy = TrafficPolicy::Local),
            ("health port", |it| it.health_check_node_port = Some(32_100)),
            ("families", |it| it.ip_families.push("IPv6".into())),
            ("port name", |it| it.ports[0].name = "web".into()),
            ("protocol", |it| it.ports[0].protocol = Protocol::Udp),
            ("port", |it| it.ports[0].port = 8080),
            ("node port", |it| it.ports[0].node_port = 31_081),
            ("target port", |it| it.ports[0].target_port = "http".into()),
            ("application", |it| {
                it.ports[0].application_protocol = Some("http".into());
            }),
            ("fewer ports", |it| it.ports.clear()),
        ];
        for (what, change) in rows {
            assert!(counts(change), "{what}");
        }
    }

    #[test]
    fn what_no_load_balancer_is_made_of_does_not_count() {
        let rows: &[Row] = &[
            ("nothing", |_| {}),
            ("version", |it| it.resource_version = "8".into()),
            ("finalizers", |it| it.finalizers.push("x.io/y".into())),
            ("deletion", |it| it.deleting = true),
            ("family order", |it| it.ip_families = vec!["IPv6".into()]),
            ("address published", |it| {
                it.ingress = vec![Ingress::default()];
            }),
            ("condition", |it| {
                it.conditions = vec![Condition {
                    kind: "k".into(),
                    status: "True".into(),
                    reason: "r".into(),
                    message: String::new(),
                }];
            }),
            ("no annotations", |it| {
                it.annotations = Some(BTreeMap::new());
            }),
        ];
        for (what, change) in rows {
            assert!(!counts(change), "{what}");
        }
    }

    #[test]
    fn the_order_of_ranges_and_ports_counts() {
        let (mut one, mut other) = (web(), web());
        one.source_ranges = vec!["10.0.0.0/8".into(), "192.0.2.0/24".into()];
        other.source_ranges = vec!["192.0.2.0/24".into(), "10.0.0.0/8".into()];
        assert!(needs_update(&one, &other, OWN, &BTreeMap::new()));
        let second = ServicePort {
            name: "https".into(),
            ..web().ports[0].clone()
        };
        let (mut one, mut other) = (web(), web());
        one.ports = vec![one.ports[0].clone(), second.clone()];
        other.ports = vec![second, other.ports[0].clone()];
        assert!(needs_update(&one, &other, OWN, &BTreeMap::new()));
    }

    #[test]
    fn a_service_that_never_was_a_load_balancer_does_not_count() {
        let mut before = web();
        before.is_load_balancer = false;
        let mut after = before.clone();
        after.ports.clear();
        assert!(!needs_update(&before, &after, OWN, &BTreeMap::new()));
    }

    #[test]
    fn annotations_count_unless_we_wrote_them_ourselves() {
        let published = BTreeMap::from([("demo.test/id".to_owned(), "lb-1".to_owned())]);
        let bare = web();
        let ours = annotated(&[("demo.test/id", "lb-1")]);
        let forged = annotated(&[("demo.test/id", "lb-2")]);
        let with_others = annotated(&[("demo.test/id", "lb-1"), ("demo.test/timeout", "5")]);
        for (before, after, counts) in [
            (&bare, &ours, false),
            (&ours, &bare, true),
            (&ours, &forged, true),
            (&forged, &ours, false),
            (&bare, &with_others, true),
            (&with_others, &ours, true),
            (&bare, &annotated(&[]), false),
        ] {
            assert_eq!(needs_update(before, after, OWN, &published), counts);
        }
        // What we do not remember to have written, somebody else wrote.
        assert!(needs_update(&bare, &ours, OWN, &BTreeMap::new()));
        assert!(needs_update(&bare, &ours, &[], &published));
    }
}
