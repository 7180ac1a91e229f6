use super::*;
use crate::balancer::examples::{annotated, port, service};
use bowline_test_kit::rows;

fn wanted(service: &Service) -> Desire {
    let (settings, faults) = Settings::read(service);
    assert_eq!(faults, []);
    desire(service, &settings, LocalPolicyHealthCheck::Tcp)
}

/// `name check-port` of each service.
fn lines(desire: &Desire) -> Vec<String> {
    let all = desire.services.iter();
    all.map(|it| format!("{} {}", it.name.rsplit('-').next().unwrap(), it.check.port))
        .collect()
}

#[test]
fn every_port_is_checked_where_it_can_be() {
    let udp_and_tcp = vec![port("UDP", 53, 30053), port("TCP", 53, 30153)];
    let udp = vec![port("UDP", 53, 30053), port("TCP", 80, 30080)];
    for [ports, said, local, wanted_lines, reasons] in rows(
        "udp and tcp |       |       | udp 30153, 53 30153 |
         udp         |       |       | udp 30053, 80 30080 | UdpHealthCheck
         udp         | 31000 |       | udp 31000, 80 31000 |
         udp         |       | 32100 | udp 32100, 80 32100 | LocalPolicyHealthCheck
         udp         | 31000 | 32100 | udp 31000, 80 31000 |",
    ) {
        let ports = if ports == "udp" { &udp } else { &udp_and_tcp };
        let mut service = match said {
            "" => service(),
            said => annotated(&[("service-healthcheck-port", said)]),
        };
        service.ports.clone_from(ports);
        if let Ok(local) = local.parse() {
            service.traffic_policy = TrafficPolicy::Local;
            service.health_check_node_port = Some(local);
        }
        let desire = wanted(&service);
        assert_eq!(lines(&desire).join(", "), wanted_lines);
        let reported: Vec<&str> = desire.notices.iter().map(|it| it.reason).collect();
        assert_eq!(reported.join(" "), reasons);
    }
}

#[test]
fn an_explicit_mode_is_nobodys_business() {
    for (mode, uri) in [("tcp", ""), ("http", "/healthz")] {
        let pairs = [
            ("service-healthcheck-mode", mode),
            ("service-healthcheck-uri", uri),
        ];
        let mut service = annotated(&pairs);
        service.traffic_policy = TrafficPolicy::Local;
        service.health_check_node_port = Some(32100);
        let (settings, _) = Settings::read(&service);
        let desire = desire(&service, &settings, LocalPolicyHealthCheck::Http);
        assert_eq!(desire.notices, []);
        assert_eq!(desire.services[0].check.mode, mode);
    }
}

#[test]
fn source_ranges_are_reported_to_have_no_effect() {
    let mut service = service();
    service.source_ranges = vec!["10.0.0.0/8".into()];
    let desire = wanted(&service);
    assert_eq!(desire.notices[0].reason, "SourceRangesIgnored");
    assert!(desire.notices[0].message.contains("security groups"));
}

#[test]
fn ports_that_no_load_balancer_has_are_faults() {
    let mut service = service();
    service.ports = vec![
        port("SCTP", 80, 30080),
        port("TCP", 81, 0),
        port("TCP", 82, 30082),
    ];
    let desire = wanted(&service);
    assert_eq!((desire.faults.len(), desire.services.len()), (2, 1));
    service.ports = (1..=11).map(|it| port("TCP", it, 30_000 + it)).collect();
    assert_eq!(wanted(&service).faults.len(), 1);
    service.ports.pop();
    assert_eq!(wanted(&service).faults, []);
}
