use bowline_test_kit::{pairs, says};
use std::collections::BTreeMap;

use super::table::{ANNOTATIONS, PREFIX, reference};
use super::*;
use crate::balancer::examples::service;

fn annotated(pairs: &[(&str, &str)]) -> Service {
    let mut service = service();
    let pairs = pairs.iter();
    let map: BTreeMap<String, String> = pairs
        .map(|(suffix, value)| {
            (
                format!("{PREFIX}loadbalancer-{suffix}"),
                (*value).to_owned(),
            )
        })
        .collect();
    service.annotations = Some(map);
    service
}

fn read(suffix: &str, value: &str) -> (Settings, Vec<Fault>) {
    Settings::read(&annotated(&[(suffix, value)]))
}

#[test]
fn without_annotations_the_defaults_are_those_of_the_original() {
    let (settings, faults) = Settings::read(&service());
    assert_eq!(faults, []);
    let [port] = settings.ports.as_slice() else {
        panic!("{:?}", settings.ports);
    };
    let uid = &service().uid;
    assert_eq!(settings.name, format!("k8s-service-{uid}"));
    assert_eq!(
        [
            &*settings.flavor,
            &*port.algorithm,
            &*port.pool_protocol,
            &*settings.listener_protocol
        ],
        ["lb-standard", "round_robin", "tcp", "tcp"]
    );
    assert_eq!(
        [
            port.timeout_client_data,
            port.timeout_member_connect,
            port.timeout_member_data
        ],
        [50_000, 5_000, 50_000]
    );
    let monitor = &port.monitor;
    assert_eq!((monitor.up, monitor.down), (2, 3));
    assert_eq!((monitor.delay, monitor.timeout), (None, None));
    assert_eq!((&monitor.kind, &monitor.http), (&None, &None));
    assert_eq!(settings.ip_mode, IpMode::Proxy);
    assert!(settings.selector.is_everything());
    assert_eq!(
        (settings.uuid, &settings.zone, &port.allowed_cidrs),
        (None, &None, &None)
    );
    assert!(settings.vips.is_empty() && settings.floating_ips.is_empty());
    assert!(settings.allowed_subnets.is_empty() && settings.force_hostname.is_none());
}

#[test]
fn what_the_original_takes_is_taken() {
    let uuid = "7d1f0c9a-2b34-4c56-8d78-9e0f1a2b3c4d";
    let vip = format!(r#"[{{"Subnet":"{uuid}","ADDRESS":"10.20.0.200","other":[1]}}]"#);
    let list = format!(r#"["{uuid}"]"#);
    let others = [
        ("vip-addresses", vip.as_str()),
        ("floating-ips", " "),
        ("listener-allowed-subnets", &list),
        ("port-settings", r#" {"http": {}, "80/TCP": {}} "#),
    ];
    let table = pairs(
        r#"uuid = ¦ anything
           config-version = 7
           zone = ¦ lpg1
           name = shop web
           vip-addresses = []
           floating-ips = ¦ ["203.0.113.77/32", "2001:db8:f::/56"]
           pool-algorithm = least_connections
           pool-protocol = proxy
           listener-allowed-cidrs = ¦ ["10.0.0.0/8"]
           timeout-client-data-ms = +1
           health-monitor-type = tls-hello
           health-monitor-http = {} ¦ { } ¦ {"EXPECTED_CODES":["200-204"],"x":1,"method":null}
           health-monitor-http = {"expected_codes":["200","202"],"version":"1.0"}
           force-hostname = ¦ lb.example.org
           ip-mode = VIP
           node-selector = ¦ a in (b,c),!d
           publish-floating-ips = false
           port-settings = {}"#,
    );
    for (suffix, value) in table.into_iter().chain(others) {
        assert_eq!(read(suffix, value).1, [], "{suffix}={value:?}");
    }
}

#[test]
fn what_cannot_be_used_is_reported_with_key_and_value() {
    let numbers = [
        "timeout-client-data-ms",
        "timeout-member-connect-ms",
        "timeout-member-data-ms",
        "health-monitor-delay-s",
        "health-monitor-timeout-s",
        "health-monitor-up-threshold",
        "health-monitor-down-threshold",
    ];
    let numbers = numbers.iter().flat_map(|suffix| {
        ["", "0", "-3", "5s", "1.5", " 1", "1_000"].map(|value| (*suffix, value))
    });
    let table = pairs(
        r#"name =
           flavor =
           vip-addresses = ¦ null ¦ {} ¦ [{"address":"10.20.0.200"}] ¦ [{"subnet":"x"}]
           floating-ips = null ¦ 203.0.113.77 ¦ ["203.0.113.777"] ¦ [null]
           pool-algorithm = ¦ robin_round
           pool-protocol = udp ¦ TCP
           listener-protocol = udp
           listener-allowed-cidrs = ["here"] ¦ null
           listener-allowed-subnets = ["S1"]
           health-monitor-type = ¦ icmp
           health-monitor-http = ¦ null ¦ [] ¦ {"method":"get"} ¦ {"expected_codes":[200]}
           health-monitor-http = {"expected_codes":["2xx"]} ¦ {"version":"2"}
           health-monitor-http = {"url_path":"ready"} ¦ {"version":"1.0","host":"a"}
           force-hostname = LB.example.org ¦ 203.0.113.1
           ip-mode = ¦ vip
           node-selector = a===b
           publish-floating-ips = yes
           port-settings = ¦ null ¦ [] ¦ {"http": {} ¦ {"http": {}} {}"#,
    );
    for (suffix, value) in table.into_iter().chain(numbers) {
        let (_, faults) = read(suffix, value);
        let [fault] = faults.as_slice() else {
            panic!("{suffix}={value:?}: {faults:?}");
        };
        let message = &fault.message;
        says(message, &format!("{PREFIX}loadbalancer-{suffix}"));
        says(message, &format!("{value:?}"));
        let members = matches!(suffix, "listener-allowed-subnets" | "node-selector");
        assert_eq!(fault.about_members, members, "{suffix}");
    }
}

#[test]
fn all_that_is_wrong_is_reported_at_once() {
    let (_, faults) = Settings::read(&annotated(&[("name", ""), ("ip-mode", "x"), ("zone", "")]));
    assert_eq!(faults.len(), 2);
}

#[test]
fn http_options_are_filled_up() {
    let options = |text: &str| {
        read("health-monitor-http", text)
            .0
            .ports
            .remove(0)
            .monitor
            .http
    };
    assert_eq!(options("{}"), None);
    assert_eq!(options("{ }"), Some(HttpOptions::default()));
    let wanted = HttpOptions {
        url_path: "/ready".into(),
        host: Some("a.example.org".into()),
        ..HttpOptions::default()
    };
    let text = r#"{"Url_Path":"/ready","HOST":"a.example.org","method":"","expected_codes":[]}"#;
    assert_eq!(options(text), Some(wanted));
}

#[test]
fn networks_and_addresses_are_read_whatever_their_spelling() {
    let (mut settings, _) = read(
        "listener-allowed-cidrs",
        r#"["198.51.100.7", "10.1.2.3/8", "10.0.0.0/8", "2001:DB8:0:0::/32"]"#,
    );
    let networks: Vec<String> = settings
        .ports
        .remove(0)
        .allowed_cidrs
        .iter()
        .flatten()
        .map(ToString::to_string)
        .collect();
    assert_eq!(networks, ["198.51.100.7/32", "10.0.0.0/8", "2001:db8::/32"]);
    let (settings, _) = read(
        "floating-ips",
        r#"["2001:DB8:f::77/128", "2001:db8:f:0::77"]"#,
    );
    assert_eq!(
        settings.floating_ips,
        ["2001:db8:f::77".parse::<IpAddr>().unwrap()]
    );
}

#[test]
fn every_key_is_in_the_table_once_and_on_the_page() {
    let page = reference();
    let mut keys: Vec<&str> = ANNOTATIONS.iter().map(|row| row.key).collect();
    for key in &keys {
        let suffix = key.strip_prefix(PREFIX).unwrap();
        assert!(suffix.starts_with("loadbalancer-"));
        assert!(page.contains(&format!("| `{suffix}` |")), "{suffix}");
    }
    keys.sort_unstable();
    keys.dedup();
    assert_eq!(keys.len(), ANNOTATIONS.len());
    let written: Vec<&str> = ANNOTATIONS
        .iter()
        .filter(|row| row.written_back)
        .map(|row| row.key)
        .collect();
    assert_eq!(written, [UUID.key, table::CONFIG_VERSION.key, ZONE.key]);
}
