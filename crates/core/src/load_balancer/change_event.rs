//! What the framework reports about a change of a Service: reasons and texts are its own.

use crate::Service;

/// The Normal event about a change of a Service that has, or had, a load balancer, as reason and message; none
/// where the framework is silent. Of several differences the first in the framework's order counts, and ports,
/// affinity and annotations end the search without a word, as they do there.
pub fn change_event(before: &Service, after: &Service) -> Option<(&'static str, String)> {
    if !before.is_load_balancer && !after.is_load_balancer {
        return None;
    }
    let arrow = |reason, old: &str, new: &str| Some((reason, format!("{old} -> {new}")));
    let count = |reason, old: usize, new: usize| Some((reason, format!("Count: {old} -> {new}")));
    if before.is_load_balancer != after.is_load_balancer {
        return arrow("Type", &before.type_name, &after.type_name);
    }
    if before.source_ranges != after.source_ranges {
        let list = |ranges: &[String]| format!("[{}]", ranges.join(" "));
        let (old, new) = (list(&before.source_ranges), list(&after.source_ranges));
        return arrow("LoadBalancerSourceRanges", &old, &new);
    }
    if before.ports != after.ports || before.client_affinity != after.client_affinity {
        return None;
    }
    if before.requested_ip != after.requested_ip {
        let old = before.requested_ip.as_deref().unwrap_or_default();
        let new = after.requested_ip.as_deref().unwrap_or_default();
        return arrow("LoadbalancerIP", old, new);
    }
    let (old, new) = (&before.external_ips, &after.external_ips);
    if old.len() != new.len() {
        return count("ExternalIP", old.len(), new.len());
    }
    if let Some((_, added)) = old.iter().zip(new).find(|(old, new)| old != new) {
        return Some(("ExternalIP", format!("Added: {added}")));
    }
    if before.annotations != after.annotations {
        return None;
    }
    if before.uid != after.uid {
        return arrow("UID", &before.uid, &after.uid);
    }
    if before.traffic_policy != after.traffic_policy {
        let (old, new) = (before.traffic_policy, after.traffic_policy);
        return arrow("ExternalTrafficPolicy", old.as_str(), new.as_str());
    }
    let port = |service: &Service| service.health_check_node_port.unwrap_or_default();
    if port(before) != port(after) {
        let text = format!("{} -> {}", port(before), port(after));
        return Some(("HealthCheckNodePort", text));
    }
    let (old, new) = (before.ip_families.len(), after.ip_families.len());
    if old != new {
        return count("IPFamilies", old, new);
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::TrafficPolicy;
    use crate::load_balancer::service::examples::web;

    /// What changes, and what the framework says about it.
    type Row = (fn(&mut Service), Option<(&'static str, &'static str)>);

    #[test]
    fn each_change_has_the_reason_and_the_text_of_the_framework() {
        let rows: &[Row] = &[
            (|_| {}, None),
            (
                |it| (it.is_load_balancer, it.type_name) = (false, "ClusterIP".into()),
                Some(("Type", "LoadBalancer -> ClusterIP")),
            ),
            (
                |it| it.source_ranges = vec!["10.0.0.0/8".into(), "192.0.2.0/24".into()],
                Some((
                    "LoadBalancerSourceRanges",
                    "[] -> [10.0.0.0/8 192.0.2.0/24]",
                )),
            ),
            (
                |it| it.requested_ip = Some("192.0.2.1".into()),
                Some(("LoadbalancerIP", " -> 192.0.2.1")),
            ),
            (
                |it| it.external_ips = vec!["192.0.2.1".into()],
                Some(("ExternalIP", "Count: 0 -> 1")),
            ),
            (|it| it.uid = "b".into(), Some(("UID", "a -> b"))),
            (
                |it| it.traffic_policy = TrafficPolicy::Local,
                Some(("ExternalTrafficPolicy", "Cluster -> Local")),
            ),
            (
                |it| it.health_check_node_port = Some(32_100),
                Some(("HealthCheckNodePort", "0 -> 32100")),
            ),
            (
                |it| it.ip_families.push("IPv6".into()),
                Some(("IPFamilies", "Count: 1 -> 2")),
            ),
            (|it| it.ports[0].port = 8080, None),
            (|it| it.client_affinity = Some(10_800), None),
            (
                |it| it.annotations = Some([("a".into(), "b".into())].into()),
                None,
            ),
        ];
        for (change, said) in rows {
            let mut before = web();
            before.uid = "a".into();
            let mut after = before.clone();
            change(&mut after);
            let said = said.map(|(reason, text)| (reason, text.to_owned()));
            assert_eq!(change_event(&before, &after), said);
        }
    }

    #[test]
    fn another_address_of_as_many_is_named() {
        let (mut before, mut after) = (web(), web());
        before.external_ips = vec!["192.0.2.1".into(), "192.0.2.2".into()];
        after.external_ips = vec!["192.0.2.1".into(), "192.0.2.3".into()];
        let said = Some(("ExternalIP", "Added: 192.0.2.3".to_owned()));
        assert_eq!(change_event(&before, &after), said);
    }

    #[test]
    fn of_several_changes_the_first_is_told_and_other_services_are_none_of_its_business() {
        let (mut before, mut after) = (web(), web());
        (before.traffic_policy, before.health_check_node_port) = (TrafficPolicy::Local, Some(1));
        after.traffic_policy = TrafficPolicy::Cluster;
        let said = change_event(&before, &after).unwrap();
        assert_eq!(said, ("ExternalTrafficPolicy", "Local -> Cluster".into()));
        (before.is_load_balancer, after.is_load_balancer) = (false, false);
        assert_eq!(change_event(&before, &after), None);
    }
}
