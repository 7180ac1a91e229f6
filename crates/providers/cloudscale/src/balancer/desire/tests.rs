use super::*;
use crate::balancer::examples::{host, port, service};

fn wanted(service: &Service, hosts: &[Host]) -> Desire {
    let (settings, faults) = Settings::read(service);
    assert_eq!(faults, []);
    desire(service, &settings, hosts, true)
}

fn annotate(service: &mut Service, suffix: &str, value: &str) {
    let key = format!("k8s.cloudscale.ch/loadbalancer-{suffix}");
    let annotations = service.annotations.get_or_insert_default();
    annotations.insert(key, value.to_owned());
}

#[test]
fn names_are_those_of_the_original() {
    for (name, protocol, pool, listener) in [
        ("http", "TCP", "tcp/http", "tcp/80"),
        ("", "TCP", "tcp", "tcp/80"),
        ("DNS", "UDP", "udp/DNS", "udp/80"),
    ] {
        let mut service = service();
        service.ports = vec![port(name, protocol, 80, 31080)];
        let hosts = [host(1, "rma1", &["10.20.0.11", "fd00::5"])];
        let wanted = wanted(&service, &hosts).wanted;
        assert_eq!(wanted.pools[0].name, pool);
        assert_eq!(wanted.pools[0].listener.name, listener);
        let members: Vec<&str> = wanted.pools[0].members.iter().map(|it| &*it.name).collect();
        assert_eq!(members, ["10.20.0.11:31080", "[fd00::5]:31080"]);
    }
}

#[test]
fn only_private_addresses_are_members_and_each_once() {
    let hosts = [
        host(1, "rma1", &["10.20.0.11"]),
        host(2, "rma1", &[]),
        host(3, "rma1", &["10.20.0.11", "10.20.0.13"]),
    ];
    let desire = wanted(&service(), &hosts);
    let members = desire.wanted.pools[0].members.iter();
    let members: Vec<(&str, &str)> = members.map(|it| (&*it.node, &*it.address)).collect();
    assert_eq!(
        members,
        [("node-1", "10.20.0.11"), ("node-3", "10.20.0.13")]
    );
}

#[test]
fn the_zone_is_said_or_common() {
    let (rma, lpg) = (host(1, "rma1", &[]), host(2, "lpg1", &[]));
    let zone = |service: &Service, hosts: &[Host]| wanted(service, hosts).wanted.zone;
    let mut service = service();
    assert_eq!(zone(&service, &[]), ZoneWish::Unknown);
    assert_eq!(
        zone(&service, std::slice::from_ref(&rma)),
        ZoneWish::Common("rma1".into())
    );
    let both = ["lpg1".to_owned(), "rma1".to_owned()].into();
    assert_eq!(zone(&service, &[rma.clone(), lpg]), ZoneWish::Several(both));
    annotate(&mut service, "zone", "lpg1");
    assert_eq!(zone(&service, &[rma]), ZoneWish::Said("lpg1".into()));
}

#[test]
fn monitors_suit_their_ports() {
    // (type, http, local, protocol) and what comes of it.
    for (kind, http, local, protocol, wanted_kind, path) in [
        (None, None, false, "TCP", "tcp", None),
        (Some("udp-connect"), None, false, "TCP", "tcp", None),
        (Some("udp-connect"), None, false, "UDP", "udp-connect", None),
        (Some("https"), None, false, "TCP", "https", Some("/")),
        (
            Some("tcp"),
            Some(r#"{"url_path":"/x"}"#),
            false,
            "TCP",
            "tcp",
            None,
        ),
        (Some("tcp"), None, true, "TCP", "http", Some("/livez")),
        (None, Some("{ }"), true, "UDP", "http", Some("/")),
    ] {
        let mut service = service();
        service.ports = vec![port("p", protocol, 80, 31080)];
        if local {
            service.traffic_policy = TrafficPolicy::Local;
        }
        for (suffix, value) in [("health-monitor-type", kind), ("health-monitor-http", http)] {
            if let Some(value) = value {
                annotate(&mut service, suffix, value);
            }
        }
        let monitor = wanted(&service, &[]).wanted.pools.remove(0).monitor;
        let seen = monitor.http.as_ref().map(|http| http.url_path.as_str());
        assert_eq!((&*monitor.kind, seen), (wanted_kind, path));
        let numbers = if wanted_kind == "udp-connect" {
            (3, 2)
        } else {
            (2, 1)
        };
        assert_eq!((monitor.delay, monitor.timeout), numbers);
        let body = monitor.body(&BTreeMap::new());
        assert_eq!(body.contains_key("http"), path.is_some());
    }
}

#[test]
fn two_ports_of_one_pool_name_are_told() {
    let mut service = service();
    service.ports = vec![port("a", "TCP", 80, 31080), port("a", "TCP", 81, 31081)];
    let desire = wanted(&service, &[]);
    assert_eq!(desire.faults.len(), 1);
    assert!(desire.faults[0].about_members);
}
