//! Tables of designations.

use super::*;
use crate::balancer::clb::examples::port;
use crate::balancer::examples::{annotated, web};
use crate::balancer::settings::Settings;
use crate::testing::config;
use bowline_core::TrafficPolicy;

#[test]
fn designations_are_read_as_the_appliance_does() {
    for text in [
        "tcp://80:a.b:30080",
        "https-http://443:a.b:30443{check:/healthz,port:31000}",
        "https+insecure://443:a.b:30443{rise:2,fall:1}",
        "http://8080:srv.b",
        "tcp-proxy-v2://25:m:25",
    ] {
        let entry = Entry::parse(text).unwrap();
        assert_eq!(entry.to_string(), text);
        assert!(entry.is_readable());
    }
    let capital = Entry::parse("HTTPS://1:a").unwrap();
    assert_eq!(capital.treatment, Treatment::Https);
    for bad in [
        "udp://53:a.b:53",
        "tcp://65535:a.b:80",
        "tcp://80:a.b:0",
        "tcp://80:a.b:65535",
        "tcp://+80:a.b:80",
        "tcp://80",
        "tcp://80:a b:80",
        "tcp://80::80",
        "tcp://80:a.b:80{}",
        "tcp://80:a.b:80{speed:1}",
        "tcp://80:a.b:80{check:/x",
        "tcp://80:a.b:80{check:/x,check:/y}",
        "tcp://80:a.b:80:90",
        "80:a.b:80",
    ] {
        assert_eq!(Entry::parse(bad), None, "{bad}");
    }
}

#[test]
fn a_map_is_cut_outside_of_braces() {
    let map = "tcp://80:a:1,http://81:b:2{check:/x,rise:2}  tcp://82:c:3\ntcp://83:d:4,";
    let (first, second) = ("tcp://80:a:1", "http://81:b:2{check:/x,rise:2}");
    assert_eq!(split(map), [first, second, "tcp://82:c:3", "tcp://83:d:4"]);
    assert_eq!(split(""), [""; 0]);
}

fn settings(pairs: &[(&str, &str)], service: &Service) -> ClbSettings {
    let mut service = service.clone();
    service.annotations = annotated(pairs).annotations;
    let (settings, faults) = Settings::read(&service, &config(&[], None).load_balancer);
    assert_eq!(faults, []);
    settings.clb
}

#[test]
fn ports_become_designations_in_ascending_order() {
    let mut service = web();
    service.ports = vec![port("TCP", 443, 30443), port("TCP", 80, 30080)];
    let map = |service: &Service, pairs: &[(&str, &str)]| {
        let settings = settings(pairs, service);
        join(&entries(service, &settings, "n").unwrap())
    };
    assert_eq!(map(&service, &[]), "tcp://80:n:30080,tcp://443:n:30443");
    let proxy = map(&service, &[("proxy_protocol", "true")]);
    assert!(proxy.starts_with("tcp-proxy-v2://80:"), "{proxy}");
    service.traffic_policy = TrafficPolicy::Local;
    service.health_check_node_port = Some(31000);
    let mixed = ("protocols", "tcp-443=https-http");
    let local = "{check:/healthz,port:31000}";
    let expected = format!("tcp://80:n:30080{local},https-http://443:n:30443{local}");
    assert_eq!(map(&service, &[mixed]), expected);
    let unchecked = map(&service, &[mixed, ("health_check", "off")]);
    assert_eq!(unchecked, "tcp://80:n:30080,https-http://443:n:30443");
    let insecure = ("protocol", "https+insecure");
    let given = map(&service, &[insecure, ("health_check", "fall=1,path=/x")]);
    let check = "{check:/x,fall:1}";
    let expected = ["80:n:30080", "443:n:30443"].map(|it| format!("{}://{it}{check}", insecure.1));
    assert_eq!(given, expected.join(","));
}

#[test]
fn whatever_cannot_be_carried_stops_the_whole() {
    let reasons = |ports: Vec<ServicePort>| -> Vec<&str> {
        let mut service = web();
        service.ports = ports;
        let plain = ClbSettings::default();
        let problems = entries(&service, &plain, "n.svc.example").unwrap_err();
        problems.iter().map(|it| it.reason).collect()
    };
    let web = || port("TCP", 80, 30080);
    for (ports, reason) in [
        (vec![web(), port("UDP", 53, 30053)], "UnsupportedProtocol"),
        (vec![port("SCTP", 80, 30080)], "UnsupportedProtocol"),
        (vec![port("TCP", 80, 0)], "NodePortsRequired"),
        (vec![port("TCP", 65535, 30080)], "UnsupportedPort"),
    ] {
        assert_eq!(reasons(ports), [reason]);
    }
}
