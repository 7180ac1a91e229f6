//! Cases on names that are made, and on what they show.

use bowline_core::{Goal, Ready};
use serde_json::json;

use super::harness::{CLUSTER, Harness, id, node, outside, port, steps};

#[tokio::test(start_paused = true)]
async fn triton_case_28_a_new_service_gets_a_name_of_all_nodes() {
    let mut test = Harness::new();
    test.add("web");
    let outcome = test.ensure("web").await;
    outcome.good();
    let body = json!({
        "bowline.cns": "web.prod",
        "bowline.node": CLUSTER,
        "triton.cns.services": "web.prod:30080",
    });
    let mut changes = test.changes();
    changes.sort();
    let wanted = [1, 2, 3].map(|it| format!("POST /acme/machines/{}/tags {body}", id(it)));
    assert_eq!(changes, wanted);
    assert_eq!(test.status("web"), [outside("web.prod")]);
    let status = test.annotation("web", "status");
    assert!(status.contains("80/TCP→30080"), "{status}");
    let wanted = [1, 2, 3].map(|it| format!("update machine k8s-{it}"));
    assert_eq!(steps(&outcome.plan), wanted);
    let reason = outcome.plan.steps[0].reason.as_deref();
    assert_eq!(reason, Some("DNS service web.prod:30080 is put there"));
    assert_eq!(test.sim.resolve(&outside("web.prod")).len(), 3);
    let metric = test.metric(r#"triton_cns_published{service="prod/web"}"#);
    assert_eq!(metric.as_deref(), Some("1"));
    // All is as wanted: nothing is planned, nothing written, also by another process.
    assert!(test.ensure("web").await.good().plan.is_empty());
    test.restart();
    assert!(test.ensure("web").await.good().plan.is_empty());
    assert_eq!(test.changes(), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn a_deleted_service_leaves_nothing() {
    let mut test = Harness::new();
    test.add("web");
    test.add("api").ports = vec![port("TCP", 443, 30443), port("TCP", 80, 30081)];
    test.sim
        .set_tag(&id(1), "triton.cns.services", Some(json!("k8s-api:6443")))
        .unwrap();
    test.ensure("web").await.good();
    test.ensure("api").await.good();
    let ours = "api.prod:30081,api.prod:30443,web.prod:30080";
    assert_eq!(test.tag(1), format!("k8s-api:6443,{ours}"));
    assert_eq!(test.tags()[1..], [ours; 2]);
    let outcome = test.delete("api").await;
    outcome.good();
    let own = ["instances", "status"].map(|it| format!("cloud.tritoncompute/{it}"));
    assert!(outcome.withdrawn.iter().eq(&own));
    assert_eq!(test.tag(2), "web.prod:30080");
    test.delete("web").await.good();
    assert_eq!(test.tags(), ["k8s-api:6443", "", ""]);
    assert!(!test.machine(1).tags.contains_key("bowline.cns"));
    let metric = test.metric(r#"triton_cns_published{service="prod/web"}"#);
    assert_eq!(metric, None);
}

#[tokio::test(start_paused = true)]
async fn triton_case_37_a_name_service_that_is_off_is_told_or_switched_on() {
    let mut test = Harness::new();
    test.sim.enable_names("acme", false).unwrap();
    test.add("web");
    let outcome = test.ensure("web").await;
    assert_eq!(outcome.problems(), ["CNSDisabled"]);
    assert_eq!(test.changes(), [""; 0]);
    assert_eq!(test.status("web"), [""; 0]);
    test.configure("[LoadBalancer]\ncns-enable-account = true\n");
    let outcome = test.ensure("web").await;
    outcome.good();
    assert_eq!(steps(&outcome.plan), ["update account acme"]);
    let first = test.changes().remove(0);
    assert_eq!(first, r#"POST /acme {"triton_cns_enabled":true}"#);
    assert_eq!(test.tags(), ["web.prod:30080"; 3]);
    assert_eq!(test.status("web"), [outside("web.prod")]);
}

#[tokio::test(start_paused = true)]
async fn triton_case_39_a_label_of_somebody_else_is_shared_on_purpose_only() {
    use bowline_simulator_triton::MachineSpec;
    let mut test = Harness::new();
    let machine = MachineSpec::named("other").tag("triton.cns.services", "db,web.prod:80");
    test.sim.add_machine(&machine).unwrap();
    test.add("web");
    assert_eq!(test.ensure("web").await.problems(), ["CNSNameConflict"]);
    assert_eq!(test.changes(), [""; 0]);
    test.annotate("web", "cns_service", "web.prod");
    test.ensure("web").await.good();
    assert_eq!(test.tags(), ["web.prod:30080"; 3]);
    let other = test.sim.machine("other").unwrap();
    assert_eq!(other.tag("triton.cns.services"), Some("db,web.prod:80"));
}

#[tokio::test(start_paused = true)]
async fn triton_case_43_direct_shows_the_nodes_and_takes_none_of_their_ports() {
    let mut test = Harness::new();
    test.add("web");
    test.annotate("web", "cns_port_mode", "direct");
    test.ensure("web").await.good();
    assert_eq!(test.tags(), ["web.prod:80"; 3]);
    let addresses = [1, 2, 3].map(|it| format!("{} (VIP)", test.machine(it).addresses[0]));
    let mut wanted = vec![outside("web.prod")];
    wanted.extend(addresses);
    assert_eq!(test.status("web"), wanted);
    let targets = test.sim.resolve_services(&outside("web.prod"));
    assert!(targets.iter().all(|(port, _)| *port == 80), "{targets:?}");
    test.changes();
    test.add("ssh").ports = vec![port("TCP", 22, 30022)];
    test.annotate("ssh", "cns_port_mode", "direct");
    assert_eq!(test.ensure("ssh").await.problems(), ["PortReserved"]);
    assert_eq!(test.changes(), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn triton_case_73_both_are_the_name_and_the_addresses() {
    let mut test = Harness::new();
    test.add("web");
    test.annotate("web", "publish", "both");
    test.ensure("web").await.good();
    let addresses = [1, 2, 3].map(|it| format!("{} (Proxy)", test.machine(it).addresses[0]));
    let mut wanted = vec![outside("web.prod")];
    wanted.extend(addresses);
    assert_eq!(test.status("web"), wanted);
    // A server that does not keep the mode of an address gets none.
    test.has_ip_mode = false;
    let outcome = test.ensure("web").await;
    assert!(outcome.good().events().contains("IPModeUnsupported"));
    assert_eq!(test.status("web"), [outside("web.prod")]);
    test.annotate("web", "hostname", "shop.example.com");
    test.ensure("web").await.good();
    assert_eq!(test.status("web"), ["shop.example.com"]);
}

#[tokio::test(start_paused = true)]
async fn triton_case_45_a_members_firewall_is_opened_for_those_who_may_come() {
    let mut test = Harness::new();
    test.add("web").source_ranges = vec!["198.51.100.0/24".to_owned()];
    let outcome = test.ensure("web").await;
    assert!(outcome.good().events().contains("SourceRangesNotEnforced"));
    assert_eq!(test.sim.rules(), []);
    for number in 1..=3 {
        test.sim.set_firewall(&id(number), true).unwrap();
    }
    test.wait(10).await;
    test.changes();
    let outcome = test.ensure("web").await;
    outcome.good();
    assert!(!outcome.events().contains("SourceRangesNotEnforced"));
    let rule = format!(
        "FROM subnet 198.51.100.0/24 TO tag \"bowline.node\" = \"{CLUSTER}\" ALLOW tcp PORT 30080"
    );
    let changes = test.changes();
    assert_eq!(changes.len(), 1, "{changes:?}");
    let rule = rule.replace('"', "\\\"");
    assert!(changes[0].contains(&rule), "{changes:?}");
    let outcome = test.ensure("web").await;
    assert!(outcome.good().plan.is_empty(), "{:?}", outcome.plan);
    test.delete("web").await.good();
    assert_eq!(test.sim.rules(), []);
}

#[tokio::test(start_paused = true)]
async fn what_a_name_cannot_give_is_reported() {
    let mut test = Harness::new();
    let service = test.add("web");
    service.client_affinity = Some(10_800);
    service.requested_ip = Some("203.0.113.99".to_owned());
    let outcome = test.ensure("web").await;
    let reasons = outcome.good().events();
    assert!(reasons.contains("SessionAffinityIgnored"), "{reasons:?}");
    assert!(reasons.contains("LoadBalancerIPIgnored"), "{reasons:?}");
    test.changes();
    test.add("six").ip_families = vec!["IPv6".to_owned()];
    assert_eq!(test.ensure("six").await.problems(), ["IPv6Unsupported"]);
    test.add("bare").ports = vec![port("TCP", 80, 0)];
    assert_eq!(test.ensure("bare").await.problems(), ["NodePortsRequired"]);
    assert_eq!(test.changes(), [""; 0]);
    test.annotate("bare", "cns_port_mode", "service");
    test.ensure("bare").await.good();
    assert_eq!(test.tag(1), "bare.prod:80,web.prod:30080");
}

#[tokio::test(start_paused = true)]
async fn triton_case_59_the_class_and_the_annotation_choose_the_mode() {
    use bowline_core::{Cloud as _, LoadBalancerClasses, Responsibility};
    let mut test = Harness::new();
    let name = test.cloud.name().clone();
    let clouds = LoadBalancerClasses::new([name.clone()]);
    let clouds = clouds.with_classes(&name, test.balancers().classes());
    test.add("web").class = Some("example.com/other".to_owned());
    let responsibility = clouds.responsibility(test.service("web"));
    assert_eq!(responsibility, Responsibility::Nothing);
    let ours = Responsibility::Ensure(name.clone());
    let (cns, clb) = ("cloud.tritoncompute/cns", "cloud.tritoncompute/clb");
    for class in [None, Some(cns), Some(clb)] {
        test.service("web").class = class.map(str::to_owned);
        let responsibility = clouds.responsibility(test.service("web"));
        assert_eq!(responsibility, ours, "{class:?}");
    }
    // The class counts more than the annotation, and the annotation more than the configuration.
    let mode = |plan: &bowline_core::Plan| {
        let mut tagged = plan.steps.iter().filter(|it| it.object.kind == "machine");
        let names = tagged.any(|it| it.changes.iter().any(|it| it.after == "web.prod:30080"));
        if names { "cns" } else { "clb" }
    };
    for (file, class, annotation, wanted) in [
        ("cns", None, None, "cns"),
        ("cns", Some(clb), None, "clb"),
        ("cns", None, Some("clb"), "clb"),
        ("clb", None, Some("cns"), "cns"),
        ("clb", Some(cns), Some("clb"), "cns"),
        ("none", Some(cns), None, "cns"),
        ("none", None, Some("cns"), "cns"),
    ] {
        let text = format!("[LoadBalancer]\nmode = {file}\nclb-package = lb1.small\n");
        test.configure(&text);
        test.service("web").class = class.map(str::to_owned);
        test.annotate("web", "mode", annotation.unwrap_or_default());
        assert!(test.balancers().serves(&test.services["web"]));
        let draft = test.draft("web", Goal::Present).await.unwrap();
        assert_eq!(mode(&draft.plan), wanted, "{file} {class:?} {annotation:?}");
    }
    test.service("web").class = None;
    test.annotate("web", "mode", "");
    test.annotate("web", "replicas", "many");
    assert!(!test.balancers().serves(&test.services["web"]));
    let draft = test.draft("web", Goal::Present).await;
    assert!(matches!(draft, Err(bowline_core::DraftError::Elsewhere)));
    assert_eq!(test.changes(), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn nothing_is_put_on_nodes_that_are_not_ready_and_never_were() {
    let mut test = Harness::new();
    test.nodes[1].ready = Ready::Unknown;
    test.nodes.push(node(9));
    test.add("web");
    test.ensure("web").await.good();
    assert_eq!(test.tags(), ["web.prod:30080", "", "web.prod:30080"]);
}
