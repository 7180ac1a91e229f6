//! Cases on load balancers that somebody else looks after.

use super::harness::{Harness, L1, UID, port};

/// A shop with the load balancer `shared`, which somebody else made.
async fn beside(services: &[(&str, u16)]) -> Harness {
    let mut shop = Harness::new().await;
    shop.place("shared", services);
    shop.service.ports = vec![port("TCP", 443, 30443)];
    shop.set("external", "TRUE");
    shop
}

fn names(shop: &Harness) -> Vec<String> {
    let all = shop.balancer().services.into_iter();
    all.map(|it| it.name).collect()
}

#[tokio::test(start_paused = true)]
async fn exoscale_case_63_external_needs_an_id_or_a_name() {
    let mut shop = Harness::new().await;
    shop.set("external", "true");
    let outcome = shop.ensure().await;
    let text =
        "NLB instance marked as external in Service annotations, but no ID or name specified";
    assert!(outcome.problem().contains(text));
    assert_eq!(shop.calls().len(), 0);
}

#[tokio::test(start_paused = true)]
async fn exoscale_case_64_an_external_one_is_found_by_its_name_and_kept_as_it_is() {
    let mut shop = beside(&[]).await;
    shop.set("name", "shared").set("description", "ours");
    shop.ensure().await.good();
    assert_eq!(
        (shop.get("id"), shop.address().as_str()),
        (L1, "203.0.113.80")
    );
    assert_eq!(shop.writes(), ["add-service-to-load-balancer"]);
    let balancer = shop.balancer();
    assert_eq!((&*balancer.name, balancer.description), ("shared", None));
    assert!(balancer.labels.is_empty());
}

#[tokio::test(start_paused = true)]
async fn exoscale_case_65_an_external_one_that_is_not_there_is_not_made() {
    let mut shop = Harness::new().await;
    shop.set("external", "true").set("name", "shared");
    let outcome = shop.ensure().await;
    let text = "NLB instance is marked external by name \"shared\", but no matching NLB was found";
    assert_eq!(outcome.problem(), text);
    shop.set("id", L1);
    let outcome = shop.ensure().await;
    let text = "NLB instance marked as external in Service annotations, cannot create";
    assert!(outcome.problem().contains(text));
    assert!(shop.all().is_empty());
}

#[tokio::test(start_paused = true)]
async fn exoscale_case_66_other_services_of_an_external_one_stay() {
    let mut shop = beside(&[("api", 6443)]).await;
    shop.set("id", L1);
    shop.ensure().await.good();
    assert_eq!(names(&shop), ["api".to_owned(), format!("{UID}-443")]);
    assert_eq!(shop.writes(), ["add-service-to-load-balancer"]);
    assert!(shop.ensure().await.good().plan.is_empty());
}

#[tokio::test(start_paused = true)]
async fn exoscale_case_67_a_service_at_our_port_is_taken_over_in_place() {
    let mut shop = beside(&[("old", 443)]).await;
    shop.set("id", L1);
    shop.ensure().await.good();
    assert_eq!(shop.writes(), ["update-load-balancer-service"]);
    assert_eq!(names(&shop), [format!("{UID}-443")]);
}

#[tokio::test(start_paused = true)]
async fn exoscale_case_68_a_port_that_is_no_longer_wanted_leaves_the_external_one() {
    for service_name in [None, Some("x")] {
        let mut shop = beside(&[("api", 6443)]).await;
        shop.set("id", L1);
        if let Some(name) = service_name {
            shop.set("service-name", name);
        }
        shop.ensure().await.good();
        shop.calls();
        shop.service.ports = vec![port("TCP", 8443, 30443)];
        shop.ensure().await.good();
        assert_eq!(
            shop.writes(),
            [
                "delete-load-balancer-service",
                "add-service-to-load-balancer"
            ]
        );
        let ours = service_name.map_or_else(|| format!("{UID}-8443"), str::to_owned);
        assert_eq!(names(&shop), ["api".to_owned(), ours]);
        assert!(shop.ensure().await.good().plan.is_empty());
    }
}
