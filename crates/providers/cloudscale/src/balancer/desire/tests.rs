use super::*;
use crate::balancer::examples::{host, port, service};
use bowline_test_kit::{rows, says};

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
    assert_eq!(zone(&service, &[rma]), ZoneWish::Chosen("lpg1".into()));
}

#[test]
fn monitors_suit_their_ports() {
    for [kind, http, policy, protocol, wanted_kind, path] in rows(
        r#"            |                   |       | TCP | tcp         |
           udp-connect |                   |       | TCP | tcp         |
           udp-connect |                   |       | UDP | udp-connect |
           https       |                   |       | TCP | https       | /
           tcp         | {"url_path":"/x"} |       | TCP | tcp         |
           tcp         |                   | local | TCP | http        | /livez
                       | { }               | local | UDP | http        | /"#,
    ) {
        let path = Some(path).filter(|path| !path.is_empty());
        let mut service = service();
        service.ports = vec![port("p", protocol, 80, 31080)];
        if policy == "local" {
            service.traffic_policy = TrafficPolicy::Local;
        }
        for (suffix, value) in [("health-monitor-type", kind), ("health-monitor-http", http)] {
            if !value.is_empty() {
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
fn two_ports_of_one_pool_name_are_reported() {
    let mut service = service();
    service.ports = vec![port("a", "TCP", 80, 31080), port("a", "TCP", 81, 31081)];
    let desire = wanted(&service, &[]);
    assert_eq!(desire.faults.len(), 1);
    assert!(desire.faults[0].about_members);
}

/// A Service with a UDP, a TCP and another TCP port.
fn mixed(annotations: &[(&str, &str)]) -> Service {
    let mut service = service();
    service.ports = vec![
        port("dns", "UDP", 53, 30053),
        port("http", "TCP", 80, 31080),
        port("api", "TCP", 8080, 31081),
    ];
    for (suffix, value) in annotations {
        annotate(&mut service, suffix, value);
    }
    service
}

/// `type delay/timeout/up/down` of each port's monitor.
fn monitors(service: &Service) -> Vec<String> {
    let pools = wanted(service, &[]).wanted.pools;
    let monitors = pools.into_iter().map(|pool| pool.monitor);
    monitors
        .map(|it| {
            format!(
                "{} {}/{}/{}/{}",
                it.kind, it.delay, it.timeout, it.up, it.down
            )
        })
        .collect()
}

#[test]
fn monitors_of_single_ports_suit_their_ports_too() {
    // One UDP port is checked by UDP, with the times that the cloud takes there. What a port says
    // wins over the type for all; the rest is as without it. A UDP port that is not checked by UDP
    // has the usual times.
    for [all, single, expected] in rows(
        r#"            | "dns": {"TYPE": "udp-connect"} | udp-connect 3/2/2/3, USUAL, USUAL
           udp-connect | "80": {"TYPE": "http", "DOWN": 9} | udp-connect 3/2/2/3, http 2/1/2/9, USUAL
           udp-connect | "dns": {"TYPE": "ping"} | ping 2/1/2/3, USUAL, USUAL"#,
    ) {
        let single = single.replace("TYPE", "health-monitor-type");
        let single = single.replace("DOWN", "health-monitor-down-threshold");
        let single = format!("{{{single}}}");
        let mut service = mixed(&[("port-settings", &single)]);
        if !all.is_empty() {
            annotate(&mut service, "health-monitor-type", all);
        }
        let expected = expected.replace("USUAL", "tcp 2/1/2/3");
        assert_eq!(monitors(&service).join(", "), expected, "{single}");
    }
    // A time for all holds also for a port with a type of its own, unless that says otherwise.
    let text = r#"{"dns": {"health-monitor-type": "udp-connect"},
                   "api": {"health-monitor-delay-s": 5, "health-monitor-timeout-s": 4}}"#;
    let service = mixed(&[("health-monitor-delay-s", "8"), ("port-settings", text)]);
    let expected = ["udp-connect 8/2/2/3", "tcp 8/1/2/3", "tcp 5/4/2/3"];
    assert_eq!(monitors(&service), expected);
}

#[test]
fn with_the_local_policy_only_the_options_of_a_port_count() {
    let text = r#"{"http": {"health-monitor-type": "ping",
                            "health-monitor-http": {"url_path": "/ready"}}}"#;
    let mut service = mixed(&[("port-settings", text)]);
    service.traffic_policy = TrafficPolicy::Local;
    service.health_check_node_port = Some(32100);
    let pools = wanted(&service, &[]).wanted.pools;
    let seen: Vec<(&str, &str)> = pools
        .iter()
        .map(|pool| {
            let http = pool.monitor.http.as_ref().unwrap();
            (&*pool.monitor.kind, &*http.url_path)
        })
        .collect();
    assert_eq!(
        seen,
        [("http", "/livez"), ("http", "/ready"), ("http", "/livez")]
    );
}

#[test]
fn single_ports_change_their_own_pool_and_listener_and_no_name() {
    let plain = wanted(&mixed(&[]), &[host(1, "rma1", &["10.20.0.11"])]).wanted;
    let text = r#"{"http": {"pool-protocol": "proxyv2", "pool-algorithm": "source_ip",
                            "timeout-member-connect-ms": 7, "timeout-member-data-ms": 8}}"#;
    let service = mixed(&[("pool-protocol", "proxy"), ("port-settings", text)]);
    let mut single = wanted(&service, &[host(1, "rma1", &["10.20.0.11"])]).wanted;
    let protocols: Vec<&str> = single.pools.iter().map(|it| &*it.protocol).collect();
    assert_eq!(protocols, ["udp", "proxyv2", "proxy"]);
    let algorithms: Vec<&str> = single.pools.iter().map(|it| &*it.algorithm).collect();
    assert_eq!(algorithms, ["round_robin", "source_ip", "round_robin"]);
    let listener = &single.pools[1].listener;
    assert_eq!(
        [
            listener.timeout_client_data,
            listener.timeout_member_connect,
            listener.timeout_member_data
        ],
        [50_000, 7, 8]
    );
    // But for that, everything is as without.
    for (single, plain) in single.pools.iter_mut().zip(&plain.pools) {
        single.protocol.clone_from(&plain.protocol);
        single.algorithm.clone_from(&plain.algorithm);
        single.listener.timeout_member_connect = plain.listener.timeout_member_connect;
        single.listener.timeout_member_data = plain.listener.timeout_member_data;
    }
    assert_eq!(single, plain);
}

#[test]
fn source_ranges_of_the_service_filter_where_nobody_says_otherwise() {
    let text = r#"{"http": {"listener-allowed-cidrs": ["192.0.2.0/24"]},
                   "8080": {"listener-allowed-cidrs": []}}"#;
    let mut service = mixed(&[("port-settings", text)]);
    service.source_ranges = vec!["10.0.0.0/8".into()];
    let allowed = |desire: &Desire| -> Vec<String> {
        let pools = desire.wanted.pools.iter();
        pools
            .map(|it| format!("{:?}", it.listener.allowed_cidrs))
            .collect()
    };
    let filtered = wanted(&service, &[]);
    assert_eq!(allowed(&filtered), ["[10.0.0.0/8]", "[192.0.2.0/24]", "[]"]);
    assert_eq!(
        filtered.wanted.filtered_by_service,
        ["udp/53".to_owned()].into()
    );
    // Ranges that cannot be read do not matter where no port uses them.
    service.source_ranges = vec!["here".into()];
    assert_eq!(wanted(&service, &[]).faults.len(), 1);
    let all = r#"{"53": {"listener-allowed-cidrs": []}, "80": {"listener-allowed-cidrs": []},
                  "8080": {"listener-allowed-cidrs": []}}"#;
    annotate(&mut service, "port-settings", all);
    let open = wanted(&service, &[]);
    assert_eq!(open.faults, []);
    assert_eq!(allowed(&open), ["[]", "[]", "[]"]);
    assert_eq!(open.wanted.filtered_by_service, BTreeSet::new());
}

#[test]
fn udp_ports_that_are_checked_by_tcp_are_reported_as_long_as_there_are_some() {
    let reported = |text: &str| -> Vec<String> {
        let mut service = mixed(&[("port-settings", text)]);
        service.ports.truncate(1);
        service.ports.push(port("log", "UDP", 514, 30514));
        let notices = wanted(&service, &[host(1, "rma1", &["10.20.0.11"])]).notices;
        notices.into_iter().map(|it| it.message).collect()
    };
    let all = reported("{}");
    says(&all[0], "the health check is tcp");
    let one = reported(r#"{"dns": {"health-monitor-type": "udp-connect"}}"#);
    says(&one[0], "the health check of port 514 is tcp");
    let none = reported(
        r#"{"dns": {"health-monitor-type": "udp-connect"}, "log": {"health-monitor-type": "tcp"}}"#,
    );
    assert_eq!(none, [""; 0]);
}
