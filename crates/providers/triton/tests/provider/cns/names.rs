//! Cases on the name and its zone.

use bowline_simulator_triton::{FABRIC, MachineSpec, NetworkSpec};

use super::harness::{Harness, inside, node, outside};

#[tokio::test(start_paused = true)]
async fn triton_case_42_an_internal_name_is_in_the_zone_of_the_fabric() {
    let mut test = Harness::new();
    test.add("web");
    test.annotate("web", "internal", "true");
    test.ensure("web").await.good();
    assert_eq!(test.status("web"), [inside("web.prod")]);
    assert_eq!(test.sim.resolve(&inside("web.prod")).len(), 3);
}

#[tokio::test(start_paused = true)]
async fn triton_case_66_the_order_of_networks_does_not_change_a_name() {
    let mut test = Harness::new();
    test.sim.set_quirks(|it| it.shuffled_networks = true);
    let second = NetworkSpec {
        id: Some("00000000-1111-4111-8111-111111111111".to_owned()),
        zones: vec!["first.example.com".to_owned()],
        ..NetworkSpec::named("first", "10.30.0.0/24".parse().unwrap())
    };
    test.sim.add_network(&second).unwrap();
    // Neither card is the first, so that nothing but the order of ids decides.
    test.nodes.clear();
    for number in 4..=6 {
        let machine = MachineSpec::named(&format!("k8s-{number}"))
            .id(&super::harness::id(number))
            .networks(&["external", FABRIC, "first"]);
        test.sim.add_machine(&machine).unwrap();
        test.nodes.push(node(number));
    }
    test.add("web");
    test.annotate("web", "internal", "true");
    let mut seen = Vec::new();
    for _ in 0..6 {
        // Without what is shown there is nothing to keep to.
        test.service("web").ingress.clear();
        test.ensure("web").await.good();
        seen.push(test.status("web"));
        test.wait(61).await;
    }
    let account = bowline_simulator_triton::DEFAULT_ACCOUNT_ID;
    let name = format!("web.prod.svc.{account}.first.example.com");
    assert_eq!(seen, vec![vec![name.clone()]; 6]);
    test.ensure("web").await.good();
    assert_eq!(test.status("web"), [name]);
}

#[tokio::test(start_paused = true)]
async fn triton_case_67_the_suffix_is_as_the_network_says() {
    let mut test = Harness::new();
    test.sim.set_quirks(|it| it.login_names = true);
    test.add("web");
    test.annotate("web", "internal", "true");
    test.ensure("web").await.good();
    let name = "web.prod.svc.acme.int.eg-1.example.com";
    assert_eq!(test.status("web"), [name]);
}

#[tokio::test(start_paused = true)]
async fn a_network_may_be_named_by_the_service_or_by_the_configuration() {
    let mut test = Harness::configured("[LoadBalancer]\npublic-network = My-Fabric\n");
    test.add("web");
    test.ensure("web").await.good();
    assert_eq!(test.status("web"), [inside("web.prod")]);
    test.annotate("web", "cns_network", "external");
    test.ensure("web").await.good();
    assert_eq!(test.status("web"), [outside("web.prod")]);
    test.annotate("web", "cns_network", "nowhere");
    assert_eq!(test.ensure("web").await.problems(), ["InvalidAnnotation"]);
    assert_eq!(test.status("web"), [outside("web.prod")]);
    let mut test = Harness::configured("[LoadBalancer]\npublic-network = nowhere\n");
    test.add("web");
    assert_eq!(test.ensure("web").await.problems(), ["NetworkNotFound"]);
}

#[tokio::test(start_paused = true)]
async fn a_name_that_is_never_published_is_shown_all_the_same_and_reported() {
    let mut test = Harness::new();
    // The machines have their own names by then.
    test.wait(20).await;
    test.sim
        .set_timings(|it| it.commit = std::time::Duration::from_secs(100_000));
    test.add("web");
    let begun = tokio::time::Instant::now();
    let outcome = test.ensure("web").await;
    outcome.good();
    let took = begun.elapsed().as_secs();
    assert!((120..150).contains(&took), "{took}");
    assert!(outcome.events().contains("CNSNotPublished"));
    assert_eq!(test.status("web"), [outside("web.prod")]);
    let metric = test.metric(r#"triton_cns_published{service="prod/web"}"#);
    assert_eq!(metric.as_deref(), Some("0"));
}
