//! Cases on changes of what is there.

use std::time::Duration;

use bowline_core::Impact;
use bowline_simulator_triton::{ImageSpec, State};

use super::harness::{Harness, NAME, UID, open, port, steps};

#[tokio::test(start_paused = true)]
async fn triton_case_49_another_node_port_is_one_write_of_the_port_map() {
    let mut test = open().await;
    test.service.ports[0].node_port = 30999;
    let outcome = test.ensure().await;
    assert_eq!(outcome.good().plan.impact(), Impact::InPlace);
    let changes = test.changes();
    let [(operation, body)] = changes.as_slice() else {
        panic!("{changes:?}");
    };
    assert_eq!(operation, "addmachinemetadata");
    let keys: Vec<&String> = body.as_object().unwrap().keys().collect();
    assert_eq!(keys, ["cloud.tritoncompute:portmap"]);
    assert!(test.metadata("portmap").unwrap().contains(":30999"));
}

#[tokio::test(start_paused = true)]
async fn triton_case_50_what_is_no_longer_wanted_is_deleted() {
    let mut test = Harness::new();
    test.set("metrics_acl", "10.0.0.0/8 192.0.2.1");
    test.ensure().await.good();
    let acl = test.metadata("metrics_acl");
    assert_eq!(acl.as_deref(), Some("10.0.0.0/8,192.0.2.1/32"));
    assert_eq!(test.rules().len(), 2);
    test.calls();
    test.unset("metrics_acl");
    test.ensure().await.good();
    assert_eq!(test.metadata("metrics_acl"), None);
    let writes = ["deletemachinemetadata", "deletefirewallrule"];
    assert_eq!(test.writes(), writes);
}

#[tokio::test(start_paused = true)]
async fn triton_case_54_replicas_come_apart_from_each_other_and_go_out_of_dns_first() {
    let mut test = open().await;
    test.set("replicas", "2");
    test.ensure().await.good();
    let changes = test.changes();
    assert_eq!(changes.len(), 1, "{changes:?}");
    let second = "kubernetes-clb-3f0c2a9e-1";
    assert_eq!(changes[0].1["name"], second);
    let affinity = serde_json::json!([format!("bowline.uid!=~{UID}")]);
    assert_eq!(changes[0].1["affinity"], affinity);
    let machines = test.machines();
    assert_ne!(machines[0].compute_node, machines[1].compute_node);
    assert_eq!(test.service.ingress.len(), 2);
    test.set("replicas", "1");
    let outcome = test.ensure().await;
    assert_eq!(outcome.good().again, Some(Duration::from_secs(60)));
    assert_eq!(test.service.ingress.len(), 1, "{}", test.shown());
    let leaving = test.sim.machine(second).unwrap();
    assert_eq!(leaving.tag("triton.cns.services"), None);
    assert_eq!(leaving.state, State::Running);
    assert_eq!(test.writes(), ["deletemachinetag"]);
    test.wait(58).await;
    let outcome = test.ensure().await;
    assert!(outcome.good().plan.is_empty());
    assert_eq!(test.names().len(), 2);
    tokio::time::sleep(outcome.again.unwrap()).await;
    let outcome = test.ensure().await;
    let steps = steps(&outcome.good().plan);
    assert_eq!(steps, [format!("delete machine {second}")]);
    assert_eq!(test.names(), [NAME]);
    assert_eq!(outcome.again, None);
}

#[tokio::test(start_paused = true)]
async fn triton_case_57_source_ranges_become_the_rule_of_the_specification() {
    let mut test = Harness::new();
    test.ensure().await.good();
    let has = |test: &Harness, hash: &str| {
        let description = test.rules()[0].1.description.clone();
        let wanted = format!("bowline:cccccccc:{UID}:front-tcp:{hash}");
        assert_eq!(description, Some(wanted));
    };
    has(&test, "85222cef");
    test.service.source_ranges = vec!["203.0.113.0/24".into(), "198.51.100.0/24".into()];
    test.calls();
    test.ensure().await.good();
    has(&test, "daec830f");
    assert_eq!(test.writes(), ["updatefirewallrule"]);
    let reaches = |from: &str, port| {
        test.sim
            .would_reach(from.parse().unwrap(), NAME, "tcp", port)
    };
    assert!(reaches("198.51.100.7", 443) && reaches("203.0.113.200", 80));
    assert!(!reaches("192.0.2.1", 443) && !reaches("198.51.100.7", 22));
}

#[tokio::test(start_paused = true)]
async fn targets_with_firewalls_let_the_load_balancer_in() {
    let mut test = Harness::new();
    test.sim.set_firewall("k8s-2", true).unwrap();
    test.ensure().await.good();
    let inside = test.machine().addresses[1].parse().unwrap();
    assert!(test.sim.would_reach(inside, "k8s-2", "tcp", 30080));
    let outside = "192.0.2.1".parse().unwrap();
    assert!(!test.sim.would_reach(outside, "k8s-2", "tcp", 30080));
    let kinds: Vec<String> = test.rules().into_iter().map(|it| it.0).collect();
    assert_eq!(kinds, ["back-tcp", "front-tcp"]);
}

#[tokio::test(start_paused = true)]
async fn triton_case_74_what_does_not_fit_one_rule_becomes_two_and_goes_again() {
    let mut test = Harness::new();
    test.sim.set_quirks(|it| it.eight_ports = true);
    let ports = |count: u16| (1..=count).map(|it| port("TCP", it, 30000 + it)).collect();
    test.service.ports = ports(9);
    test.ensure().await.good();
    let kinds = |test: &Harness, what: &str| -> Vec<String> {
        let all = test.rules().into_iter();
        all.map(|it| format!("{} {}", it.0, it.1.rule.matches(what).count()))
            .collect()
    };
    assert_eq!(kinds(&test, "PORT"), ["front-tcp 8", "front-tcp-1 1"]);
    test.service.ports = ports(8);
    test.ensure().await.good();
    assert_eq!(kinds(&test, "PORT"), ["front-tcp 8"]);
    test.service.ports = ports(1);
    test.service.source_ranges = (0..30).map(|it| format!("10.9.{it}.0/24")).collect();
    test.ensure().await.good();
    assert_eq!(kinds(&test, "/24"), ["front-tcp 24", "front-tcp-1 6"]);
}

#[tokio::test(start_paused = true)]
async fn triton_case_75_a_rule_that_was_switched_off_is_switched_on_and_its_text_is_the_servers() {
    let mut test = open().await;
    let (_, rule) = test.rules().remove(0);
    assert!(rule.rule.contains("PORT 80 AND PORT 443"), "{}", rule.rule);
    assert!(test.ensure().await.good().plan.is_empty());
    assert!(test.sim.switch_rule(&rule.id, false));
    test.wait(10).await;
    test.ensure().await.good();
    assert_eq!(test.writes(), ["updatefirewallrule"]);
    assert!(test.rules()[0].1.enabled);
}

#[tokio::test(start_paused = true)]
async fn another_package_is_another_machine_and_the_old_one_serves_until_it_runs() {
    let mut test = open().await;
    let old = test.machine();
    let before = test.shown();
    test.set("package", "g4-highcpu-1G");
    let outcome = test.ensure().await;
    let wanted = ["update", "create", "update"].map(|it| format!("{it} machine {NAME}"));
    assert_eq!(steps(&outcome.good().plan), wanted);
    let new = test.sim.machine(NAME).unwrap();
    assert_ne!(new.id, old.id);
    assert_eq!(new.package, "g4-highcpu-1G");
    assert_ne!(test.shown(), before);
    assert_eq!(test.get("instances"), new.id);
    assert_eq!(test.machines().len(), 2, "the old one is still there");
    test.reconcile().await.good();
    assert_eq!(test.machine().id, new.id);
}

#[tokio::test(start_paused = true)]
async fn while_a_successor_cannot_be_made_the_old_machine_stays() {
    let mut test = open().await;
    let old = test.machine();
    let before = test.shown();
    test.set("package", "g4-highcpu-1G");
    test.sim.fail_provisions(99);
    for _ in 0..3 {
        let outcome = test.ensure().await;
        assert!(outcome.error.is_some());
        tokio::time::sleep(outcome.hint.unwrap_or_default()).await;
    }
    test.wait(120).await;
    assert_eq!(test.machine().id, old.id);
    assert_eq!(test.shown(), before);
    test.unset("package");
    test.reconcile().await.good();
    assert_eq!((test.machine().id, test.shown()), (old.id, before));
}

#[tokio::test(start_paused = true)]
async fn a_newer_image_of_the_same_name_replaces_nothing_and_another_one_does() {
    let mut test = open().await;
    let old = test.machine();
    let image = ImageSpec {
        name: "cloud-load-balancer".to_owned(),
        id: Some("33333333-3333-4333-8333-444444444444".to_owned()),
        published_at: "2026-07-01T00:00:00Z".parse().ok(),
        ..ImageSpec::default()
    };
    test.sim.add_image(&image).unwrap();
    test.restart();
    assert!(test.ensure().await.good().plan.is_empty());
    test.set("image", image.id.as_deref().unwrap());
    test.reconcile().await.good();
    let new = test.machine();
    assert_ne!(new.id, old.id);
    assert_eq!(new.image, image.id.unwrap());
}

#[tokio::test(start_paused = true)]
async fn internal_machines_are_inside_and_may_have_a_fixed_address() {
    let mut test = open().await;
    test.set("internal", "true").set("ipv4", "10.20.0.50");
    test.reconcile().await.good();
    let first = test.machine();
    assert_eq!(first.addresses, ["10.20.0.50"]);
    assert_eq!(test.shown(), "10.20.0.50 (Proxy)");
    // Only one machine can have the address: the old one goes first.
    test.set("package", "g4-highcpu-1G");
    let outcome = test.ensure().await;
    let wanted = ["delete", "create"].map(|it| format!("{it} machine {NAME}"));
    assert_eq!(steps(&outcome.good().plan), wanted);
    assert_eq!(outcome.plan.impact(), Impact::Destroys);
    let second = test.machine();
    assert_ne!(second.id, first.id);
    assert_eq!(second.addresses, ["10.20.0.50"]);
}

#[tokio::test(start_paused = true)]
async fn a_stopped_machine_is_started() {
    let mut test = open().await;
    test.sim.stop(NAME).unwrap();
    test.wait(10).await;
    let outcome = test.ensure().await;
    assert_eq!(outcome.good().reasons(), ["CLBStarted"]);
    assert_eq!(test.machine().state, State::Running);
    let changes = test.changes();
    assert_eq!(changes.len(), 1);
    assert_eq!(changes[0].1["action"], "start");
}

#[tokio::test(start_paused = true)]
async fn what_the_service_shows_can_be_its_name() {
    let mut test = Harness::new();
    test.set("publish", "both");
    test.ensure().await.good();
    let ip = test.machine().addresses[0].clone();
    let name = "web.prod.svc.aaaaaaaa-0000-4000-8000-00000000000a.eg-1.cns.example.com";
    assert_eq!(test.shown(), format!("{name} {ip} (Proxy)"));
    test.wait(10).await;
    let resolved = test.sim.resolve(name);
    assert_eq!(resolved, [ip.parse::<std::net::Ipv4Addr>().unwrap()]);
    test.set("publish", "hostname")
        .set("hostname", "shop.example.com");
    test.ensure().await.good();
    assert_eq!(test.shown(), "shop.example.com");
}

#[tokio::test(start_paused = true)]
async fn a_name_of_the_nodes_that_is_missing_is_given_up_after_five_minutes() {
    let mut test = open().await;
    let used = test.metadata("portmap").unwrap();
    assert!(used.contains("my-fabric."));
    let hide = |test: &Harness, hidden: Option<serde_json::Value>| {
        for name in ["k8s-1", "k8s-2", "k8s-3"] {
            let key = "triton.cns.disable";
            test.sim.set_tag(name, key, hidden.clone()).unwrap();
        }
    };
    hide(&test, Some(true.into()));
    test.wait(60).await;
    let outcome = test.ensure().await;
    assert!(outcome.good().plan.is_empty());
    let again = outcome.again.unwrap();
    assert!(again <= Duration::from_secs(300), "{again:?}");
    tokio::time::sleep(again).await;
    test.ensure().await.good();
    assert!(!test.metadata("portmap").unwrap().contains("my-fabric."));
    hide(&test, None);
    test.wait(60).await;
    test.ensure().await.good();
    let map = test.metadata("portmap").unwrap();
    assert_eq!(map, used, "and taken up at once");
}

#[tokio::test(start_paused = true)]
async fn tags_that_somebody_took_away_come_back() {
    let mut test = open().await;
    test.sim.set_tag(NAME, "triton.cns.services", None).unwrap();
    test.wait(10).await;
    test.ensure().await.good();
    assert_eq!(test.machine().tag("triton.cns.services"), Some("web.prod"));
    assert_eq!(test.writes(), ["addmachinetags"]);
}

#[tokio::test(start_paused = true)]
async fn selected_nodes_have_a_label_of_their_own() {
    let mut test = Harness::new();
    test.nodes[0].labels.insert("pool".into(), "edge".into());
    test.set("node_selector", "pool=edge");
    test.ensure().await.good();
    let map = test.metadata("portmap").unwrap();
    assert!(map.contains("my-fabric.be-3f0c2a9e.svc."));
    let tag = |name: &str| {
        let machine = test.sim.machine(name).unwrap();
        machine.tag("triton.cns.services").map(str::to_owned)
    };
    assert_eq!(tag("k8s-1").as_deref(), Some("be-3f0c2a9e"));
    assert_eq!(tag("k8s-2"), None);
}
