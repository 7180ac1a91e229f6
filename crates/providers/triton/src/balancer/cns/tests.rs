use std::collections::BTreeSet;
use std::sync::Arc;

use bowline_core::{BalancerRequest, Goal, Ingress, Service};

use super::check::check;
use super::labels::{Claims, Reader};
use super::publish::Shown;
use crate::balancer::examples::{annotated, web};
use crate::balancer::settings::{PortMode, Settings};
use crate::testing::config;

const CLUSTER: &str = "cccccccc-0000-4000-8000-00000000000c";

fn request(service: &Service, others: &[Service], goal: Goal) -> BalancerRequest {
    let all = others.iter().chain([service]).cloned().map(Arc::new);
    BalancerRequest {
        service: Arc::new(service.clone()),
        goal,
        all: Arc::new(all.collect()),
        all_known: true,
        cluster_name: "kubernetes".to_owned(),
        has_ip_mode: true,
        cluster_uid: Some(CLUSTER.to_owned()),
        ..BalancerRequest::default()
    }
}

fn claims(request: &BalancerRequest) -> Claims {
    let config = config(&[], None).load_balancer;
    let reader = Reader {
        config: &config,
        cluster_name: "kubernetes",
        cluster: CLUSTER,
    };
    Claims::gather(request, request.goal, "web.prod", reader)
}

fn other(name: &str, pairs: &[(&str, &str)]) -> Service {
    let mut service = annotated(pairs);
    service.key.name = name.to_owned();
    service.uid = format!("{name}-uid-of-the-service");
    service
}

#[test]
fn a_label_is_stale_if_nobody_wants_or_shows_it_and_everybody_is_understood() {
    let api = other("api", &[]);
    let balanced = other("lb", &[("mode", "clb")]);
    let picky = other("picky", &[("mode", "clb"), ("node_selector", "a=b")]);
    let mut renamed = other("renamed", &[("cns_service", "store")]);
    renamed.ingress = vec![Ingress {
        hostname: Some("shop.svc.acct.zone".to_owned()),
        ..Ingress::default()
    }];
    let mut plain = other("plain", &[]);
    plain.is_load_balancer = false;
    let others = [api, balanced, picky, renamed, plain];
    let present = request(&web(), &others, Goal::Present);
    let all = claims(&present);
    for (label, stale) in [
        ("web.prod", false),
        ("api.prod", false),
        ("lb.prod", false),
        ("k8s-nodes-cccccccc", false),
        ("be-picky-ui", false),
        ("store", false),
        ("shop", false),
        ("sho", true),
        ("renamed.prod", true),
        ("plain.prod", true),
        ("old.prod", true),
    ] {
        assert_eq!(all.is_stale(label), stale, "{label}");
    }
    let absent = claims(&request(&web(), &others, Goal::Absent));
    assert!(absent.is_stale("web.prod"), "its own label is known to go");
    let mut unknown = present.clone();
    unknown.all_known = false;
    assert!(!claims(&unknown).is_stale("old.prod"));
    let mut bad = others.to_vec();
    bad.push(other("bad", &[("cns_port_mode", "bogus")]));
    let frozen = claims(&request(&web(), &bad, Goal::Present));
    assert!(!frozen.is_stale("old.prod"));
}

#[test]
fn those_with_the_same_label_share_it() {
    let same = other("same", &[("cns_service", "web.prod")]);
    let machines = other("lb", &[("cns_service", "web.prod"), ("mode", "clb")]);
    let all = claims(&request(&web(), &[same, machines], Goal::Absent));
    let names: Vec<&str> = all.sharers.iter().map(|it| &*it.service.key.name).collect();
    assert_eq!(names, ["same"]);
    assert!(!all.is_stale("web.prod"));
}

#[test]
fn nodes_keep_their_own_ports() {
    let direct = Settings {
        port_mode: PortMode::Direct,
        ..Settings::default()
    };
    for (port, refused) in [
        (22, true),
        (80, false),
        (2380, true),
        (2381, false),
        (10_247, false),
        (10_248, true),
        (10_259, true),
        (29_999, false),
        (32_767, true),
        (32_768, false),
    ] {
        let mut service = web();
        service.ports[0].port = port;
        assert_eq!(!check(&service, &direct).0.is_empty(), refused, "{port}");
        assert_eq!(check(&service, &Settings::default()).0, []);
    }
    let mut dual = web();
    dual.ip_families = vec!["IPv6".to_owned(), "IPv4".to_owned()];
    assert_eq!(check(&dual, &Settings::default()).0, []);
}

#[test]
fn what_is_shown_is_what_was_asked_for() {
    type Row = (
        &'static [(&'static str, &'static str)],
        bool,
        &'static [&'static str],
        bool,
    );
    let addresses = ["203.0.113.9", "203.0.113.10"].map(|it| it.parse().unwrap());
    let addresses: BTreeSet<std::net::IpAddr> = addresses.into();
    let name = "web.prod.svc.a.z";
    let rows: &[Row] = &[
        (&[], true, &["web.prod.svc.a.z"], false),
        (
            &[("publish", "ip")],
            true,
            &["203.0.113.9 (Proxy)", "203.0.113.10 (Proxy)"],
            false,
        ),
        (&[("publish", "ip")], false, &[], true),
        (&[("publish", "both")], false, &["web.prod.svc.a.z"], true),
        (
            &[("cns_port_mode", "direct"), ("publish", "ip")],
            false,
            &["203.0.113.9 (VIP)", "203.0.113.10 (VIP)"],
            false,
        ),
        (
            &[("hostname", "shop.example")],
            true,
            &["shop.example"],
            false,
        ),
    ];
    for (pairs, has_ip_mode, wanted, started) in rows {
        let service = annotated(pairs);
        let (settings, _) = Settings::read(&service, &config(&[], None).load_balancer);
        let shown = Shown {
            settings: &settings,
            hostname: Some(name),
            addresses: &addresses,
            has_ip_mode: *has_ip_mode,
        };
        let (ingress, notice) = shown.ingress();
        let texts: Vec<String> = ingress.iter().map(ToString::to_string).collect();
        assert_eq!(texts, *wanted, "{pairs:?}");
        assert_eq!(notice.is_some(), *started, "{pairs:?}");
    }
    let none = Shown {
        settings: &Settings::default(),
        hostname: None,
        addresses: &BTreeSet::new(),
        has_ip_mode: true,
    };
    assert_eq!(none.ingress().0, []);
    assert_eq!(none.status(&web()), "cns without a name yet: 80/TCP→30080");
}
