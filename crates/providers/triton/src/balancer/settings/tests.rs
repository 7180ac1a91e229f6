use super::*;
use crate::balancer::examples::{annotated, web};
use crate::testing::config;

fn read(service: &Service) -> (Settings, Vec<Problem>) {
    Settings::read(service, &config(&[], None).load_balancer)
}

fn only(key: &str, value: &str) -> (Settings, Vec<Problem>) {
    read(&annotated(&[(key, value)]))
}

#[test]
fn a_service_without_annotations_has_the_defaults() {
    assert_eq!(read(&web()), (Settings::default(), Vec::new()));
    let empty: Vec<(&str, &str)> = table::ANNOTATIONS
        .iter()
        .map(|row| (row.key.trim_start_matches(table::PREFIX), " "))
        .collect();
    let none = (Settings::default(), Vec::new());
    assert_eq!(read(&annotated(&empty)), none, "an empty value is none");
}

#[test]
fn every_annotation_has_its_meaning() {
    type Row = (&'static str, &'static str, fn(&mut Settings));
    let rows: &[Row] = &[
        ("mode", "cns", |it| it.mode = Some(Mode::Cns)),
        ("mode", " clb ", |it| it.mode = Some(Mode::Clb)),
        ("cns_service", "shop.eu-1", |it| {
            it.cns_service = Some("shop.eu-1".into());
        }),
        ("cns_network", "My Net", |it| {
            it.cns_network = Some("My Net".into());
        }),
        ("cns_port_mode", "service", |it| {
            it.port_mode = PortMode::Service;
        }),
        ("cns_port_mode", "direct", |it| {
            it.port_mode = PortMode::Direct;
        }),
        ("internal", "True", |it| it.internal = true),
        ("node_selector", "pool in (a,b),!spot", |it| {
            it.node_selector = Selector::parse("pool in (a,b),!spot").unwrap();
        }),
        ("publish", "both", |it| it.publish = Some(Publish::Both)),
        ("hostname", "Shop.Example.com", |it| {
            it.hostname = Some("shop.example.com".into());
        }),
        ("max_rs", "1024", |it| it.clb.max_rs = Some(1024)),
        ("certificate_name", "a.example, b.example", |it| {
            it.clb.certificate_names = vec!["a.example".into(), "b.example".into()];
        }),
        ("metrics_acl", "10.0.0.1 192.0.2.7/24,", |it| {
            let networks = ["10.0.0.1/32", "192.0.2.0/24"];
            it.clb.metrics_acl = networks.map(|it| it.parse().unwrap()).into();
        }),
        ("metrics_port", "65534", |it| {
            it.clb.metrics_port = Some(65_534);
        }),
        ("syslog", "logs.example:514", |it| {
            it.clb.syslog = Some("logs.example:514".into());
        }),
        ("timeouts", "connect:5000, client:60000", |it| {
            it.clb.timeouts = Some("connect:5000,client:60000".into());
        }),
        ("protocol", "https+insecure", |it| {
            it.clb.protocol = BalancingProtocol::HttpsInsecure;
        }),
        ("protocols", "http=https-http", |it| {
            it.clb.protocols = [(80, BalancingProtocol::HttpsHttp)].into();
        }),
        ("protocols", "80=http", |it| {
            it.clb.protocols = [(80, BalancingProtocol::Http)].into();
        }),
        ("proxy_protocol", "true", |it| it.clb.proxy_protocol = true),
        ("health_check", "off", |it| it.clb.check = Check::Off),
        ("health_check", "fall=1,path=/a?b=c,rise=1000", |it| {
            it.clb.check = Check::Given {
                path: Some("/a?b=c".into()),
                port: None,
                rise: Some(1000),
                fall: Some(1),
            };
        }),
        ("replicas", "8", |it| it.clb.replicas = Some(8)),
        ("package", "lb1.small", |it| {
            it.clb.package = Some("lb1.small".into());
        }),
        ("image", "x", |it| it.clb.image = Some("x".into())),
        ("ipv4", "10.20.0.50", |it| {
            it.clb.ipv4 = Some("10.20.0.50".parse().unwrap());
        }),
        ("lb_instance", "edge", |it| {
            it.clb.lb_instance = Some("edge".into());
        }),
        ("deletion_protection", "false", |it| {
            it.clb.deletion_protection = Some(false);
        }),
        ("status", "anything", |_| {}),
        ("instances", "anything", |_| {}),
    ];
    for (key, value, change) in rows {
        let mut wanted = Settings::default();
        change(&mut wanted);
        assert_eq!(only(key, value), (wanted, Vec::new()), "{key}: {value}");
    }
    let covered: BTreeSet<&str> = rows.iter().map(|it| it.0).collect();
    let all = table::ANNOTATIONS.iter().map(|row| row.key);
    let all: BTreeSet<&str> = all
        .map(|key| key.trim_start_matches(table::PREFIX))
        .collect();
    assert_eq!(covered, all);
}

#[test]
fn a_value_that_does_not_parse_is_a_fault_of_its_key() {
    let long = "a".repeat(64);
    for (key, value) in [
        ("mode", "none"),
        ("cns_service", "Shop"),
        ("cns_service", "-shop"),
        ("cns_service", "shop..eu"),
        ("cns_service", "shop_eu"),
        ("cns_service", "k8s-nodes-cccccccc"),
        ("cns_service", "be-1"),
        ("cns_service", &long),
        ("cns_port_mode", "bogus"),
        ("internal", "yes"),
        ("node_selector", "a in b"),
        ("publish", "name"),
        ("hostname", "a b"),
        ("max_rs", "31"),
        ("max_rs", "+64"),
        ("certificate_name", "a.example,a.example"),
        ("metrics_acl", "fd00::/8"),
        ("metrics_port", "65535"),
        ("syslog", "logs.example"),
        ("timeouts", "connect:5s"),
        ("timeouts", "connect:1,connect:2"),
        ("timeouts", "check:1"),
        ("protocol", "udp"),
        ("protocols", "443=http"),
        ("protocols", "80=http,http=tcp"),
        ("health_check", "path=/a,b"),
        ("health_check", "rise=0"),
        ("health_check", "path=healthz"),
        ("replicas", "9"),
        ("ipv4", "fd00::1"),
        ("deletion_protection", "1"),
    ] {
        let (settings, faults) = only(key, value);
        assert_eq!(settings, Settings::default(), "{key}: {value}");
        let [fault] = faults.as_slice() else {
            panic!("{key}: {value}: {faults:?}");
        };
        assert_eq!(fault.reason, "InvalidAnnotation");
        let named = format!("annotation cloud.tritoncompute/{key}: {value:?} is not allowed");
        assert!(fault.message.starts_with(&named), "{}", fault.message);
    }
}

#[test]
fn values_that_do_not_go_together_are_a_fault_where_they_count() {
    let (clb, proxy, http) = (
        ("mode", "clb"),
        ("proxy_protocol", "true"),
        ("protocol", "http"),
    );
    let (ipv4, internal) = (("ipv4", "10.20.0.50"), ("internal", "true"));
    for (pairs, faults) in [
        (vec![clb, proxy], 0),
        (vec![clb, proxy, http], 1),
        (vec![proxy, http], 0),
        (vec![clb, ipv4, internal], 0),
        (vec![clb, ipv4], 1),
        (vec![clb, ipv4, internal, ("replicas", "2")], 1),
    ] {
        let found = read(&annotated(&pairs)).1;
        assert_eq!(found.len(), faults, "{pairs:?}: {found:?}");
    }
}

#[test]
fn the_reference_page_has_a_row_for_each() {
    let page = table::reference();
    for row in table::ANNOTATIONS {
        let suffix = row.key.trim_start_matches(table::PREFIX);
        assert!(page.contains(&format!("| `{suffix}` |")), "{suffix}");
        assert!(!row.meaning.is_empty() && !row.allowed.to_string().is_empty());
    }
}
