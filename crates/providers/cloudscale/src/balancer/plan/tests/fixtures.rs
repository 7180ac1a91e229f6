//! Random Services and random clouds.

use std::collections::BTreeSet;

use bowline_core::{Service, TrafficPolicy};
use proptest::prelude::*;
use proptest::sample::{Index, select, subsequence};
use serde_json::{Value, json};
use uuid::Uuid;

use super::model::Model;
use crate::api::{FloatingIp, Listener, Member, Monitor};
use crate::balancer::desire::{Wanted, desire};
use crate::balancer::examples::{SUBNET, host, port, service};
use crate::balancer::ownership;
use crate::balancer::plan::{Seen, SeenPool};
use crate::balancer::settings::Settings;

#[derive(Clone, Debug)]
pub(super) struct Case {
    pub(super) wanted: Wanted,
    pub(super) model: Model,
}

pub(super) fn case() -> impl Strategy<Value = Case> {
    (wanted(), model()).prop_map(|(wanted, model)| Case { wanted, model })
}

const PORT_NAMES: [&str; 4] = ["http", "https", "dns", "api"];
const NUMBERS: [u16; 5] = [53, 80, 443, 8080, 9999];
const ADDRESSES: [&str; 6] = [
    "10.20.0.11",
    "10.20.0.12",
    "10.20.0.13",
    "10.20.0.14",
    "10.20.0.15",
    "10.20.0.16",
];
const FLOATING: [&str; 2] = ["203.0.113.77", "2001:db8:f::77"];

/// Annotations with some of the values that they may have.
const CHOICES: [(&str, &[&str]); 9] = [
    ("pool-algorithm", &["round_robin", "source_ip"]),
    ("pool-protocol", &["tcp", "proxyv2"]),
    (
        "listener-allowed-cidrs",
        &["[]", r#"["10.0.0.0/8"]"#, r#"["192.0.2.1", "10.0.0.0/8"]"#],
    ),
    ("timeout-client-data-ms", &["50000", "7"]),
    (
        "health-monitor-type",
        &["tcp", "http", "https", "udp-connect"],
    ),
    (
        "health-monitor-http",
        &[
            "{}",
            r#"{"host":"a"}"#,
            r#"{"version":"1.0"}"#,
            r#"{"url_path":"/x","method":"HEAD"}"#,
        ],
    ),
    ("health-monitor-delay-s", &["5", "9"]),
    ("name", &["one", "two"]),
    ("floating-ips", &["[]", r#"["203.0.113.77"]"#]),
];

/// Settings of a single port, whatever its protocol.
const SINGLE: [&str; 6] = [
    "{}",
    r#"{"pool-algorithm": "least_connections"}"#,
    r#"{"listener-allowed-cidrs": [], "timeout-client-data-ms": 11}"#,
    r#"{"listener-allowed-cidrs": ["192.0.2.0/24"], "health-monitor-type": "ping"}"#,
    r#"{"health-monitor-type": "https", "health-monitor-http": {"host": "b"}}"#,
    r#"{"health-monitor-delay-s": 7, "health-monitor-timeout-s": 6}"#,
];

fn annotations() -> impl Strategy<Value = Vec<(&'static str, &'static str)>> {
    let chosen = subsequence(CHOICES.to_vec(), 0..=CHOICES.len());
    (chosen, any::<[Index; CHOICES.len()]>()).prop_map(|(chosen, picks)| {
        let pairs = chosen.into_iter().zip(picks);
        pairs
            .map(|((key, values), pick)| (key, *pick.get(values)))
            .collect()
    })
}

fn wanted() -> impl Strategy<Value = Wanted> {
    let ports = (
        subsequence(PORT_NAMES.to_vec(), 0..=PORT_NAMES.len()),
        Just(NUMBERS.to_vec()).prop_shuffle(),
        any::<[bool; PORT_NAMES.len()]>(),
        0_u16..3,
        any::<[Index; PORT_NAMES.len()]>(),
    );
    let hosts = subsequence(ADDRESSES.to_vec(), 0..=ADDRESSES.len());
    let local = proptest::option::of(select(vec![32100_u16, 32200]));
    (ports, hosts, annotations(), local).prop_map(|(ports, hosts, annotations, local)| {
        let mut service = service();
        let (names, numbers, udp, shift, single) = ports;
        let single = names.iter().zip(single);
        let single: Vec<String> = single
            .map(|(name, pick)| format!("\"{name}\": {}", pick.get(&SINGLE)))
            .collect();
        let single = format!("{{{}}}", single.join(","));
        let mut annotations = annotations;
        annotations.push(("port-settings", &single));
        service.ports = names
            .iter()
            .zip(numbers)
            .zip(udp)
            .map(|((name, number), udp)| {
                let protocol = if udp { "UDP" } else { "TCP" };
                port(name, protocol, number, 31000 + number % 7 + shift)
            })
            .collect();
        if local.is_some() {
            service.traffic_policy = TrafficPolicy::Local;
            service.health_check_node_port = local;
        }
        want(service, &hosts, &annotations)
    })
}

fn want(mut service: Service, hosts: &[&str], annotations: &[(&str, &str)]) -> Wanted {
    let pairs = annotations.iter().map(|(suffix, value)| {
        let key = format!("k8s.cloudscale.ch/loadbalancer-{suffix}");
        (key, (*value).to_owned())
    });
    service.annotations = Some(pairs.collect());
    let (settings, faults) = Settings::read(&service);
    assert_eq!(faults, []);
    let hosts: Vec<_> = (1..)
        .zip(hosts)
        .map(|(number, address)| host(number, "rma1", &[address]))
        .collect();
    let mut wanted = desire(&service, &settings, &hosts, true).wanted;
    (wanted.tags, wanted.child_tags) = ownership::tags(&service, Some("prod-1"), Some("uid-1"));
    wanted
}

fn read<T: serde::de::DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).unwrap()
}

fn model() -> impl Strategy<Value = Model> {
    let pools = proptest::collection::vec(pool(), 0..5);
    let loose = proptest::collection::vec(listener(), 0..3);
    let seen = (pools, loose, select(vec!["one", "three"]), any::<bool>());
    let there = proptest::option::weighted(0.9, seen);
    (there, proptest::array::uniform2(0_u8..3)).prop_map(|(there, targets)| {
        let mut model = Model::default();
        model.floating_ips = FLOATING
            .iter()
            .zip(targets)
            .map(|(address, target)| floating(address, target))
            .collect();
        model.there = there.map(|(pools, loose, name, tagged)| {
            let tags = if tagged {
                json!({"team": "a", "k8s-cluster-name": "old"})
            } else {
                json!({})
            };
            let balancer = read(json!({"uuid": Uuid::from_u128(1), "name": name,
                "status": "running", "zone": {"slug": "rma1"}, "flavor": {"slug": "lb-standard"},
                "tags": tags}));
            tidy(Seen {
                balancer,
                pools,
                loose,
            })
        });
        model
    })
}

fn floating(address: &str, target: u8) -> FloatingIp {
    let somebody = json!({"uuid": Uuid::from_u128(9)});
    let (server, balancer) = match target {
        0 => (json!(null), json!(null)),
        1 => (somebody, json!(null)),
        _ => (json!(null), somebody),
    };
    read(
        json!({"network": format!("{address}/{}", if address.contains(':') { 128 } else { 32 }),
                "server": server, "load_balancer": balancer}),
    )
}

fn pool() -> impl Strategy<Value = SeenPool> {
    let key = (
        select(vec![
            "tcp/http",
            "tcp/https",
            "udp/dns",
            "tcp/api",
            "tcp/other",
        ]),
        select(vec!["round_robin", "source_ip"]),
        select(vec!["tcp", "udp", "proxyv2"]),
    );
    let members = proptest::collection::vec(member(), 0..6);
    let listeners = proptest::collection::vec(listener(), 0..3);
    let monitors = proptest::option::of(monitor());
    (key, members, listeners, monitors).prop_map(|(key, members, listeners, monitor)| SeenPool {
        pool: read(
            json!({"uuid": Uuid::nil(), "name": key.0, "algorithm": key.1,
                          "protocol": key.2, "created_at": ""}),
        ),
        members,
        listeners,
        monitors: monitor.into_iter().collect(),
    })
}

fn member() -> impl Strategy<Value = Member> {
    let port = select(vec![31000_u16, 31001, 31002, 31003]);
    let health = select(vec![None, Some(31000_u16), Some(31002), Some(32100)]);
    let address = select(ADDRESSES.to_vec());
    (address, port, health, any::<bool>(), any::<bool>()).prop_map(
        |(address, port, health, enabled, named)| {
            let name = if named {
                format!("{address}:{port}")
            } else {
                "x".to_owned()
            };
            read(
                json!({"uuid": Uuid::nil(), "name": name, "enabled": enabled,
                        "address": address, "protocol_port": port, "monitor_port": health,
                        "subnet": {"uuid": SUBNET}}),
            )
        },
    )
}

fn listener() -> impl Strategy<Value = Listener> {
    let protocol = select(vec!["tcp", "udp"]);
    let cidrs = select(vec![json!([]), json!(["10.0.0.0/8"]), json!(["what"])]);
    (protocol, select(NUMBERS.to_vec()), cidrs, any::<bool>()).prop_map(
        |(protocol, port, cidrs, named)| {
            let name = if named {
                format!("{protocol}/{port}")
            } else {
                "x".to_owned()
            };
            read(
                json!({"uuid": Uuid::nil(), "name": name, "protocol": protocol,
                        "protocol_port": port, "allowed_cidrs": cidrs,
                        "timeout_client_data_ms": 50000, "timeout_member_connect_ms": 1,
                        "timeout_member_data_ms": 50000}),
            )
        },
    )
}

fn monitor() -> impl Strategy<Value = Monitor> {
    let kind = select(vec!["tcp", "http", "https", "udp-connect", "ping"]);
    let version = select(vec!["1.0", "1.1"]);
    let host = select(vec![None, Some("a"), Some("b")]);
    (kind, version, host, 1_i64..9, 0_i64..9).prop_map(|(kind, version, host, timeout, more)| {
        let http = matches!(kind, "http" | "https").then(|| {
            json!({"expected_codes": ["204"], "method": "GET", "url_path": "/y",
                   "version": version, "host": host})
        });
        read(
            json!({"uuid": Uuid::nil(), "type": kind, "delay_s": timeout + more,
                    "timeout_s": timeout, "up_threshold": 2, "down_threshold": 4, "http": http}),
        )
    })
}

/// Gives everything an id of its own, and leaves out what a cloud would not have let be.
fn tidy(mut there: Seen) -> Seen {
    let mut number = 100;
    let mut id = || {
        number += 1;
        Uuid::from_u128(number)
    };
    let mut ports = BTreeSet::new();
    for (at, pool) in there.pools.iter_mut().enumerate() {
        pool.pool.uuid = id();
        pool.pool.created_at = format!("2026-01-{at:02}");
        let mut diffs = BTreeSet::new();
        pool.members
            .retain(|it| diffs.insert((it.ip(), it.protocol_port)));
        pool.listeners
            .retain(|it| ports.insert((it.protocol.clone(), it.protocol_port)));
        for member in &mut pool.members {
            member.uuid = id();
        }
        for listener in &mut pool.listeners {
            listener.uuid = id();
        }
        for monitor in &mut pool.monitors {
            monitor.uuid = id();
        }
    }
    there
        .loose
        .retain(|it| ports.insert((it.protocol.clone(), it.protocol_port)));
    for listener in &mut there.loose {
        listener.uuid = id();
    }
    there
}
