//! Cases on load balancers that somebody else manages.

use super::harness::{Harness, L1, UID, port};

/// A test with the load balancer `shared`, which somebody else made.
async fn beside(services: &[(&str, u16)]) -> Harness {
    let mut test = Harness::new().await;
    test.place("shared", services);
    test.service.ports = vec![port("TCP", 443, 30443)];
    test.set("external", "TRUE");
    test
}

fn names(test: &Harness) -> Vec<String> {
    let all = test.balancer().services.into_iter();
    all.map(|it| it.name).collect()
}

#[tokio::test(start_paused = true)]
async fn exoscale_case_63_external_needs_an_id_or_a_name() {
    let mut test = Harness::new().await;
    test.set("external", "true");
    let outcome = test.ensure().await;
    let text =
        "NLB instance marked as external in Service annotations, but no ID or name specified";
    assert!(outcome.problem().contains(text));
    assert_eq!(test.calls().len(), 0);
}

#[tokio::test(start_paused = true)]
async fn exoscale_case_64_an_external_one_is_found_by_its_name_and_kept_as_it_is() {
    let mut test = beside(&[]).await;
    test.set("name", "shared").set("description", "ours");
    test.ensure().await.good();
    assert_eq!(
        (test.get("id"), test.address().as_str()),
        (L1, "203.0.113.80")
    );
    assert_eq!(test.writes(), ["add-service-to-load-balancer"]);
    let balancer = test.balancer();
    assert_eq!((&*balancer.name, balancer.description), ("shared", None));
    assert!(balancer.labels.is_empty());
}

#[tokio::test(start_paused = true)]
async fn exoscale_case_65_an_external_one_that_is_not_there_is_not_made() {
    let mut test = Harness::new().await;
    test.set("external", "true").set("name", "shared");
    let outcome = test.ensure().await;
    let text = "NLB instance is marked external by name \"shared\", but no matching NLB was found";
    assert_eq!(outcome.problem(), text);
    test.set("id", L1);
    let outcome = test.ensure().await;
    let text = "NLB instance marked as external in Service annotations, cannot create";
    assert!(outcome.problem().contains(text));
    assert!(test.all().is_empty());
}

#[tokio::test(start_paused = true)]
async fn exoscale_case_66_other_services_of_an_external_one_stay() {
    let mut test = beside(&[("api", 6443)]).await;
    test.set("id", L1);
    test.ensure().await.good();
    assert_eq!(names(&test), ["api".to_owned(), format!("{UID}-443")]);
    assert_eq!(test.writes(), ["add-service-to-load-balancer"]);
    assert!(test.ensure().await.good().plan.is_empty());
}

#[tokio::test(start_paused = true)]
async fn exoscale_case_67_a_service_at_our_port_is_taken_over_in_place() {
    let mut test = beside(&[("old", 443)]).await;
    test.set("id", L1);
    test.ensure().await.good();
    assert_eq!(test.writes(), ["update-load-balancer-service"]);
    assert_eq!(names(&test), [format!("{UID}-443")]);
}

#[tokio::test(start_paused = true)]
async fn exoscale_case_68_a_port_that_is_no_longer_wanted_leaves_the_external_one() {
    for service_name in [None, Some("x")] {
        let mut test = beside(&[("api", 6443)]).await;
        test.set("id", L1);
        if let Some(name) = service_name {
            test.set("service-name", name);
        }
        test.ensure().await.good();
        test.calls();
        test.service.ports = vec![port("TCP", 8443, 30443)];
        test.ensure().await.good();
        assert_eq!(
            test.writes(),
            [
                "delete-load-balancer-service",
                "add-service-to-load-balancer"
            ]
        );
        let ours = service_name.map_or_else(|| format!("{UID}-8443"), str::to_owned);
        assert_eq!(names(&test), ["api".to_owned(), ours]);
        assert!(test.ensure().await.good().plan.is_empty());
    }
}
