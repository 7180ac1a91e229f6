//! Tables of designations.

use super::*;
use crate::balancer::clb::examples::{port, web};
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
    assert_eq!(
        Entry::parse("HTTPS://1:a").map(|it| it.treatment),
        Some(Treatment::Https)
    );
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
    assert_eq!(
        split("tcp://80:a:1,http://81:b:2{check:/x,rise:2}  tcp://82:c:3\ntcp://83:d:4,"),
        [
            "tcp://80:a:1",
            "http://81:b:2{check:/x,rise:2}",
            "tcp://82:c:3",
            "tcp://83:d:4"
        ]
    );
    assert_eq!(split(""), [""; 0]);
}

#[test]
fn checks_are_read_strictly() {
    for (text, wanted) in [
        ("off", Some("")),
        (
            "path=/healthz,port=9000,rise=2,fall=1",
            Some("{check:/healthz,port:9000,rise:2,fall:1}"),
        ),
        ("fall=1000,path=/a?b=c", Some("{check:/a?b=c,fall:1000}")),
        ("port=9000", Some("{port:9000}")),
        (" rise=1 ", Some("{rise:1}")),
        ("path=/a,b", None),
        ("path=a", None),
        ("path=/a b", None),
        ("path=/{}", None),
        ("port=0", None),
        ("port=65535", None),
        ("rise=0", None),
        ("fall=1001", None),
        ("rise=+1", None),
        ("rise=1,rise=2", None),
        ("speed=1", None),
        ("", None),
        ("on", None),
    ] {
        let read = CheckSetting::parse(text).map(|it| match it {
            CheckSetting::Off => String::new(),
            CheckSetting::Of(check) => check.to_string(),
        });
        assert_eq!(read.as_deref(), wanted, "{text:?}");
    }
}

#[test]
fn treatments_are_read_strictly() {
    let read = parse_treatments("80=http, web=https-http").unwrap();
    assert_eq!(
        read,
        [
            (PortName::Number(80), Treatment::Http),
            (PortName::Name("web".to_owned()), Treatment::HttpsHttp)
        ]
    );
    for bad in [
        "",
        "80",
        "80=",
        "80=udp",
        "80=tcp-proxy-v2",
        "80=http,80=tcp",
        "We_b=http",
        "80=HTTP",
    ] {
        assert_eq!(parse_treatments(bad), None, "{bad:?}");
    }
}

#[test]
fn ports_become_designations_in_ascending_order() {
    let mut service = web();
    service.ports = vec![port("TCP", 443, 30443), port("TCP", 80, 30080)];
    let plain = Treatments::default();
    let map = |service: &Service, treatments: &Treatments| {
        entries(service, treatments, "n.svc.example").map(|it| join(&it))
    };
    assert_eq!(
        map(&service, &plain).unwrap(),
        "tcp://80:n.svc.example:30080,tcp://443:n.svc.example:30443"
    );
    let proxy = Treatments {
        proxy_protocol: true,
        ..Treatments::default()
    };
    assert!(
        map(&service, &proxy)
            .unwrap()
            .starts_with("tcp-proxy-v2://80:")
    );
    service.traffic_policy = TrafficPolicy::Local;
    service.health_check_node_port = Some(31000);
    let mixed = Treatments {
        of: parse_treatments("tcp-443=https-http").unwrap(),
        ..Treatments::default()
    };
    assert_eq!(
        map(&service, &mixed).unwrap(),
        "tcp://80:n.svc.example:30080{check:/healthz,port:31000},\
         https-http://443:n.svc.example:30443{check:/healthz,port:31000}"
    );
    let unchecked = Treatments {
        check: Some(CheckSetting::Off),
        ..mixed
    };
    assert_eq!(
        map(&service, &unchecked).unwrap(),
        "tcp://80:n.svc.example:30080,https-http://443:n.svc.example:30443"
    );
}

#[test]
fn whatever_cannot_be_carried_stops_the_whole() {
    let reasons = |ports: Vec<ServicePort>, treatments: &Treatments| -> Vec<&str> {
        let mut service = web();
        service.ports = ports;
        let problems = entries(&service, treatments, "n.svc.example").unwrap_err();
        problems.iter().map(|it| it.reason).collect()
    };
    let plain = Treatments::default();
    assert_eq!(
        reasons(vec![port("TCP", 80, 30080), port("UDP", 53, 30053)], &plain),
        ["UnsupportedProtocol"]
    );
    assert_eq!(
        reasons(vec![port("SCTP", 80, 30080)], &plain),
        ["UnsupportedProtocol"]
    );
    assert_eq!(
        reasons(vec![port("TCP", 80, 0)], &plain),
        ["NodePortsRequired"]
    );
    assert_eq!(
        reasons(vec![port("TCP", 65535, 30080)], &plain),
        ["UnsupportedPort"]
    );
    let other = Treatments {
        of: parse_treatments("81=http").unwrap(),
        ..Treatments::default()
    };
    assert_eq!(
        reasons(vec![port("TCP", 80, 30080)], &other),
        ["InvalidAnnotation"]
    );
    let both = Treatments {
        of: parse_treatments("80=http").unwrap(),
        proxy_protocol: true,
        ..Treatments::default()
    };
    assert_eq!(
        reasons(vec![port("TCP", 80, 30080)], &both),
        ["InvalidAnnotation"]
    );
}
