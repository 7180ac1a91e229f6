use bowline_core::Service;
use bowline_test_kit::{ends, rows, says};

use super::*;
use crate::balancer::examples::{port, service};
use crate::balancer::settings::page::EXAMPLE;
use crate::balancer::settings::{HttpOptions, Settings};

const WEB: usize = 0;
const SAFE: usize = 1;
const DNS_TCP: usize = 2;
const DNS_UDP: usize = 3;
const BARE: usize = 4;

/// A Service with five ports, and these annotations.
fn test(annotations: &[(&str, &str)]) -> Service {
    let mut service = service();
    service.ports = vec![
        port("http", "TCP", 80, 31080),
        port("https", "TCP", 443, 31443),
        port("dns", "TCP", 53, 30053),
        port("dns-udp", "UDP", 53, 30054),
        port("", "TCP", 9090, 30090),
    ];
    let pairs = annotations.iter().map(|(suffix, value)| {
        let key = format!("k8s.cloudscale.ch/loadbalancer-{suffix}");
        (key, (*value).to_owned())
    });
    service.annotations = Some(pairs.collect());
    service
}

#[track_caller]
fn good(annotations: &[(&str, &str)]) -> Vec<PortSettings> {
    let (settings, faults) = Settings::read(&test(annotations));
    assert_eq!(faults, []);
    settings.ports
}

fn faults(text: &str) -> Vec<String> {
    let (_, faults) = Settings::read(&test(&[("port-settings", text)]));
    assert!(faults.iter().all(|fault| !fault.about_members));
    faults.into_iter().map(|fault| fault.message).collect()
}

#[test]
fn without_it_and_with_an_empty_one_all_ports_have_the_same() {
    let given = [("pool-algorithm", "source_ip"), ("port-settings", "{}")];
    for annotations in [&given[..1], &given] {
        let mut ports = good(annotations);
        assert_eq!(ports.len(), 5);
        assert_eq!(ports[0].algorithm, "source_ip");
        ports.dedup();
        assert_eq!(ports.len(), 1);
    }
}

#[test]
fn each_setting_of_a_port_holds_for_that_port_and_changes_nothing_else() {
    type Change = fn(&mut PortSettings);
    let rows: [(&str, Change); 13] = [
        (r#""pool-algorithm": "source_ip""#, |it| {
            it.algorithm = "source_ip".into();
        }),
        (r#""pool-protocol": "proxyv2""#, |it| {
            it.pool_protocol = "proxyv2".into();
        }),
        (r#""listener-allowed-cidrs": []"#, |it| {
            it.allowed_cidrs = Some(Vec::new());
        }),
        (
            r#""listener-allowed-cidrs": ["10.1.2.3/8", "192.0.2.1"]"#,
            |it| {
                let networks = ["10.0.0.0/8", "192.0.2.1/32"];
                it.allowed_cidrs = Some(networks.map(|it| it.parse().unwrap()).to_vec());
            },
        ),
        (r#""timeout-client-data-ms": 1"#, |it| {
            it.timeout_client_data = 1;
        }),
        (r#""timeout-member-connect-ms": 2"#, |it| {
            it.timeout_member_connect = 2;
        }),
        (r#""timeout-member-data-ms": 3"#, |it| {
            it.timeout_member_data = 3;
        }),
        (r#""health-monitor-delay-s": 4"#, |it| {
            it.monitor.delay = Some(4);
        }),
        (r#""health-monitor-timeout-s": 5"#, |it| {
            it.monitor.timeout = Some(5);
        }),
        (r#""health-monitor-up-threshold": 6"#, |it| {
            it.monitor.up = 6;
        }),
        (r#""health-monitor-down-threshold": 7"#, |it| {
            it.monitor.down = 7;
        }),
        (r#""health-monitor-type": "tls-hello""#, |it| {
            it.monitor.kind = Some("tls-hello".into());
        }),
        (r#""health-monitor-http": {"url_path": "/x"}"#, |it| {
            it.monitor.http = Some(HttpOptions {
                url_path: "/x".into(),
                ..HttpOptions::default()
            });
        }),
    ];
    for row in of_ports() {
        let word = format!("\"{}\"", table::word(&row));
        assert!(rows.iter().any(|(text, _)| text.contains(&word)), "{word}");
    }
    for (setting, change) in rows {
        let mut wanted = vec![PortSettings::default(); 5];
        change(&mut wanted[SAFE]);
        for key in ["443", "443/tcp", "443/TCP", "https"] {
            let text = format!("{{\"{key}\": {{{setting}}}}}");
            assert_eq!(good(&[("port-settings", &text)]), wanted, "{text}");
        }
    }
}

#[test]
fn a_port_wins_over_the_annotation_for_all_and_that_over_the_default() {
    let ports = good(&[
        ("timeout-client-data-ms", "7000"),
        ("health-monitor-delay-s", "9"),
        (
            "health-monitor-http",
            r#"{"url_path":"/all","method":"HEAD"}"#,
        ),
        ("listener-allowed-cidrs", r#"["10.0.0.0/8"]"#),
        (
            "port-settings",
            r#"{"https": {"timeout-client-data-ms": 8000, "listener-allowed-cidrs": [],
                          "health-monitor-http": {"url_path": "/one"}},
                "9090": {"health-monitor-http": {}}}"#,
        ),
    ]);
    let times: Vec<i64> = ports.iter().map(|it| it.timeout_client_data).collect();
    assert_eq!(times, [7000, 8000, 7000, 7000, 7000]);
    assert!(ports.iter().all(|it| it.monitor.delay == Some(9)));
    assert!(ports.iter().all(|it| it.timeout_member_data == 50_000));
    let open: Vec<bool> = ports
        .iter()
        .map(|it| it.allowed_cidrs.as_ref().unwrap().is_empty())
        .collect();
    assert_eq!(open, [false, true, false, false, false]);
    let http = |at: usize| ports[at].monitor.http.as_ref();
    assert_eq!(http(WEB).unwrap().url_path, "/all");
    // It is taken as a whole: nothing of the other one is left.
    assert_eq!(http(SAFE).unwrap().url_path, "/one");
    assert_eq!(http(SAFE).unwrap().method, "GET");
    assert_eq!(http(BARE), None);
}

#[test]
fn a_number_is_all_ports_with_it_and_yields_to_what_means_one() {
    let times = |text: &str| -> Vec<i64> {
        let ports = good(&[("port-settings", text)]);
        let dns = [&ports[DNS_TCP], &ports[DNS_UDP]];
        dns.map(|it| it.timeout_client_data).to_vec()
    };
    let set = |key: &str, value: u8| format!(r#""{key}": {{"timeout-client-data-ms": {value}}}"#);
    for (entries, wanted) in [
        (vec![set("53", 1)], [1, 1]),
        (vec![set("53/udp", 2)], [50_000, 2]),
        (vec![set("53/udp", 2), set("53", 1)], [1, 2]),
        (vec![set("dns", 3), set("53", 1)], [3, 1]),
        (vec![set("dns", 3), set("53/udp", 2), set("53", 1)], [3, 2]),
    ] {
        let text = format!("{{{}}}", entries.join(","));
        assert_eq!(times(&text), wanted, "{text}");
    }
}

#[test]
fn digits_are_a_number_even_where_they_are_a_name() {
    let mut service = test(&[(
        "port-settings",
        r#"{"443": {"timeout-client-data-ms": 1}, "8443": {"timeout-client-data-ms": 2}}"#,
    )]);
    service.ports[WEB].name = "443".into();
    service.ports[BARE].name = "8443".into();
    let (settings, faults) = Settings::read(&service);
    let times: Vec<i64> = settings
        .ports
        .iter()
        .map(|it| it.timeout_client_data)
        .collect();
    assert_eq!(times, [50_000, 1, 50_000, 50_000, 50_000]);
    assert_eq!(faults.len(), 1, "{faults:?}");
}

#[test]
fn what_concerns_one_protocol_leaves_the_other_alone() {
    let ports = good(&[
        ("health-monitor-type", "http"),
        (
            "port-settings",
            r#"{"53": {"health-monitor-type": "udp-connect", "pool-protocol": "proxy"}}"#,
        ),
    ]);
    let kind = |at: usize| ports[at].monitor.kind.as_deref().unwrap();
    assert_eq!((kind(DNS_TCP), kind(DNS_UDP)), ("http", "udp-connect"));
    assert_eq!(ports[DNS_TCP].pool_protocol, "proxy");
    assert_eq!(ports[DNS_UDP].pool_protocol, "tcp");
}

/// Words of messages that are long or come often.
const WORDS: [(&str, &str); 4] = [
    ("ABOVE", "allowed is a whole number above 0"),
    (
        "NONE",
        r#"pool-algoritm: "source_ip": there is no such setting"#,
    ),
    (
        "SETTINGS",
        "allowed is pool-algorithm, pool-protocol, listener-allowed-cidrs, timeout-client",
    ),
    (
        "TWICE",
        r#"pool-algorithm: "round_robin": it is there twice"#,
    ),
];

/// Each row is a key, what it stands for, and what has to be in the only message about it beside
/// the annotation and the key.
#[track_caller]
fn reported(table: &str) {
    for [port, given, reported] in rows(table) {
        let text = format!("{{\"{port}\": {given}}}");
        let faults = faults(&text);
        let [fault] = faults.as_slice() else {
            panic!("{text}: {faults:?}");
        };
        let start = format!("annotation {}: port {port:?}: ", PORT_SETTINGS.key);
        assert!(fault.starts_with(&start), "{fault}");
        for part in reported.split(" … ") {
            let words = WORDS.iter().find(|(word, _)| part.starts_with(word));
            let words = words.map(|(word, words)| part.replace(word, words));
            says(fault, &words.unwrap_or_else(|| part.to_owned()));
        }
    }
}

#[test]
fn a_key_that_is_no_port_is_reported_with_the_ports() {
    reported(
        "
        8080   | {} | no such port … allowed is 80/tcp (http), 443/tcp (https), 53/tcp
        8080   | 7  | no such port … 9090/tcp
               | {} | no such port
        0      | {} | no such port
        080    | {} | no such port
        80/udp | {} | no such port
        80/    | {} | no such port
        htpps  | {} | no such port",
    );
}

#[test]
fn what_is_no_setting_of_ports_is_reported_with_the_settings() {
    reported(
        r#"
        80 | null  | null is not allowed … a JSON object of settings
        80 | []    | [] is not allowed
        80 | "tcp" | "tcp" is not allowed
        80 | {"pool-algoritm": "source_ip"} | NONE (did you mean pool-algorithm?) … SETTINGS
        80 | {"k8s.cloudscale.ch/loadbalancer-pool-algorithm": "a"} | did you mean pool-algorithm?
        80 | {"loadbalancer-timeout-member-data-ms": 1} | did you mean timeout-member-data-ms?
        80 | {"colour": [1]} | colour: [1]: there is no such setting; allowed is pool
        80 | {"zone": "rma1"} | zone: "rma1": it can only be set for all ports
        80 | {"listener-protocol": "tcp"} | it can only be set for all ports … SETTINGS
        80 | {"pool-algorithm": "source_ip", "pool-algorithm": "round_robin"} | TWICE"#,
    );
}

#[test]
fn a_value_of_another_type_is_reported_with_what_is_allowed() {
    reported(
        r#"
        80 | {"timeout-client-data-ms": "5"} | timeout-client-data-ms: "5" is not … ABOVE
        80 | {"timeout-client-data-ms": "5"} | , as a JSON number
        80 | {"pool-algorithm": 1}    | pool-algorithm: 1 is not … least_connections
        80 | {"pool-algorithm": null} | pool-algorithm: null is not … , as a JSON string
        80 | {"listener-allowed-cidrs": "10.0.0.0/8"} | allowed is a JSON list of networks
        80 | {"listener-allowed-cidrs": [1]} | [1] is not
        80 | {"health-monitor-http": "{}"} | allowed is a JSON object of expected_codes
        80 | {"health-monitor-http": []} | [] is not"#,
    );
}

#[test]
fn a_value_out_of_range_is_reported_with_what_is_allowed() {
    reported(
        r#"
        80 | {"timeout-client-data-ms": 0} | timeout-client-data-ms: 0 is not … ABOVE
        80 | {"health-monitor-delay-s": -3} | health-monitor-delay-s: -3 is not … ABOVE
        80 | {"health-monitor-delay-s": 1.5} | 1.5 is not … ABOVE
        80 | {"health-monitor-up-threshold": 99999999999999999999} | ABOVE
        80 | {"pool-algorithm": "robin_round"} | "robin_round" is not … round_robin
        80 | {"pool-protocol": "udp"} | allowed is tcp, proxy or proxyv2
        80 | {"listener-allowed-cidrs": ["here"]} | ["here"] is not
        80 | {"health-monitor-type": "icmp"} | or udp-connect
        80 | {"health-monitor-http": {"version":"1.0","host":"a"}} | not with version 1.0"#,
    );
}

#[test]
fn what_means_nothing_for_the_port_is_reported() {
    reported(
        r#"
        53/udp  | {"pool-protocol": "proxy"} | UDP ports always use udp
        dns-udp | {"pool-protocol": "proxy"} | UDP ports always use udp
        80      | {"health-monitor-type": "udp-connect"} | udp-connect is for UDP ports"#,
    );
}

#[test]
fn a_port_that_is_there_twice_is_reported() {
    let twice = faults(r#"{"80": {}, "80": {}}"#);
    assert_eq!(twice.len(), 1, "{twice:?}");
    says(&twice[0], r#"port "80": it is there twice"#);
    let same = faults(
        r#"{"http": {"timeout-client-data-ms": 1, "pool-algorithm": "source_ip"},
            "80/tcp": {"timeout-client-data-ms": 2, "timeout-member-data-ms": 2}}"#,
    );
    assert_eq!(same.len(), 1, "{same:?}");
    let reported =
        r#"port "80/tcp": timeout-client-data-ms: 2: port "http" is the same and says it too"#;
    says(&same[0], reported);
}

#[test]
fn what_is_wrong_with_one_port_leaves_the_others_as_said() {
    let text = r#"{"http": {"pool-algorithm": "x", "timeout-client-data-ms": 1},
                   "nobody": {}, "https": {"timeout-client-data-ms": 2}}"#;
    let (settings, faults) = Settings::read(&test(&[("port-settings", text)]));
    assert_eq!(faults.len(), 2, "{faults:?}");
    let ports = &settings.ports;
    assert_eq!(ports[WEB].algorithm, "round_robin");
    assert_eq!(ports[WEB].timeout_client_data, 1);
    assert_eq!(ports[SAFE].timeout_client_data, 2);
}

#[test]
fn only_so_many_mistakes_are_reported() {
    let words: Vec<String> = (0..30).map(|it| format!("\"w{it}\": 1")).collect();
    let faults = faults(&format!("{{\"80\": {{{}}}}}", words.join(",")));
    assert_eq!(faults.len(), TOLD + 1);
    let last = faults.last().unwrap();
    ends(last, "and 22 more mistakes");
}

#[test]
fn the_example_of_the_page_can_be_used() {
    let ports = good(&[("port-settings", EXAMPLE)]);
    assert_eq!(ports[SAFE].pool_protocol, "proxyv2");
    assert_eq!(ports[DNS_UDP].monitor.kind.as_deref(), Some("udp-connect"));
    assert_eq!(ports[BARE].monitor.kind.as_deref(), Some("http"));
    assert_eq!(ports[WEB], PortSettings::default());
}
