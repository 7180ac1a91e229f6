//! Cases on changing load balancers.

use bowline_core::{ClusterMarks, Impact, NamespaceRule};
use bowline_test_kit::says;
use serde_json::json;

use super::harness::{Harness, L1, NAME, UID, open, port};
use crate::harness::{P1, P2};

#[tokio::test(start_paused = true)]
async fn exoscale_case_54_another_node_port_is_one_change() {
    let mut shop = open().await;
    shop.service.ports[0].node_port = 30090;
    let outcome = shop.ensure().await;
    assert_eq!(outcome.good().plan.impact(), Impact::InPlace);
    let changes = shop.changes();
    let [(name, body)] = changes.as_slice() else {
        panic!("{changes:?}");
    };
    assert_eq!(name, "update-load-balancer-service");
    assert_eq!(
        (&body["target-port"], &body["healthcheck"]["port"]),
        (&json!(30090), &json!(30090))
    );
    assert_eq!(shop.listener().target_port, 30090);
}

#[tokio::test(start_paused = true)]
async fn exoscale_case_55_another_port_replaces_the_service() {
    let mut shop = open().await;
    let before = shop.balancer();
    shop.service.ports = vec![port("TCP", 8080, 30080)];
    let outcome = shop.ensure().await;
    assert_eq!(outcome.good().plan.impact(), Impact::Interrupts);
    assert_eq!(
        shop.writes(),
        [
            "delete-load-balancer-service",
            "add-service-to-load-balancer"
        ]
    );
    let after = shop.balancer();
    assert_eq!(
        (after.id, after.ip, after.name),
        (before.id, before.ip, before.name)
    );
    assert_eq!(shop.listener().name, format!("{UID}-8080"));
}

#[tokio::test(start_paused = true)]
async fn exoscale_case_56_another_pool_replaces_every_service_in_its_turn() {
    let mut shop = Harness::new().await;
    shop.service.ports.push(port("TCP", 443, 30443));
    shop.ensure().await.good();
    let (before, address) = (shop.balancer(), shop.address());
    shop.calls();
    shop.set("service-instancepool-id", P2);
    let outcome = shop.ensure().await;
    assert_eq!(outcome.good().plan.impact(), Impact::Interrupts);
    let (delete, add) = (
        "delete-load-balancer-service",
        "add-service-to-load-balancer",
    );
    assert_eq!(shop.writes(), [delete, add, delete, add]);
    assert_eq!((shop.get("id"), shop.address()), (&*before.id, address));
    assert!(shop.balancer().services.iter().all(|it| it.pool == P2));
}

#[tokio::test(start_paused = true)]
async fn exoscale_case_57_names_and_descriptions_really_change() {
    let mut shop = Harness::new().await;
    shop.set("name", "edge").set("description", "d1");
    shop.ensure().await.good();
    shop.calls();
    shop.set("name", "edge2");
    shop.ensure().await.good();
    let change = |body| vec![("update-load-balancer".to_owned(), body)];
    assert_eq!(shop.changes(), change(json!({"name": "edge2"})));
    shop.set("description", "d2");
    shop.ensure().await.good();
    assert_eq!(shop.changes(), change(json!({"description": "d2"})));
    assert!(shop.ensure().await.good().plan.is_empty());
    shop.unset("description");
    let outcome = shop.ensure().await;
    assert_eq!(outcome.good().plan.impact(), Impact::None);
    assert_eq!(shop.writes(), ["reset-load-balancer-field"]);
    assert_eq!(shop.balancer().description, None);
    assert!(shop.ensure().await.good().plan.is_empty());
}

#[tokio::test(start_paused = true)]
async fn exoscale_case_58_nothing_to_do_is_one_read() {
    let mut shop = open().await;
    let address = shop.address();
    shop.set("example.test/note", "x");
    shop.restart().await;
    assert!(shop.ensure().await.good().plan.is_empty());
    let calls: Vec<String> = shop.calls().into_iter().map(|it| it.operation).collect();
    assert_eq!(calls, ["get-load-balancer"]);
    assert_eq!(shop.address(), address);
}

#[tokio::test(start_paused = true)]
async fn exoscale_case_59_a_load_balancer_that_is_gone_is_made_anew() {
    let mut shop = open().await;
    let (before, address) = (shop.get("id").to_owned(), shop.address());
    shop.sim.remove_balancer(&before).unwrap();
    let outcome = shop.ensure().await;
    assert_eq!(outcome.good().reasons(), ["LoadBalancerRecreated"]);
    assert_ne!(shop.get("id"), before);
    assert_ne!(shop.address(), address);
    assert_eq!(shop.address(), shop.balancer().ip.to_string());
    assert!(!shop.balancers().has_members(), "nodes change nothing");
}

/// The last part of exoscale case 60, that `take-over` alone makes it the Service's, gave way to proof cases 16 and 20.
#[tokio::test(start_paused = true)]
async fn exoscale_case_60_and_proof_case_20_a_foreign_load_balancer_is_attached_until_adopted() {
    let mut shop = Harness::new().await;
    shop.place("by-hand", &[("theirs", 9000)]);
    shop.sim.describe_balancer(L1, "theirs").unwrap();
    shop.set("id", L1);
    let outcome = shop.ensure().await;
    assert_eq!(outcome.good().reasons(), ["LoadBalancerNotOurs"]);
    let message = &outcome.notices[0].message;
    says(message, "exoscale-loadbalancer-external: \"true\"");
    says(message, "adoption");
    assert_eq!(shop.writes(), ["add-service-to-load-balancer"]);
    assert_eq!(
        (&*shop.balancer().name, shop.balancer().services.len()),
        ("by-hand", 2)
    );
    assert!(shop.ensure().await.good().plan.is_empty());
    shop.calls();

    // Asking for it is not enough, and changes nothing of what is.
    shop.set("bowline.dev/take-over", L1);
    assert!(shop.ensure().await.good().plan.is_empty());
    shop.rules.adoption = NamespaceRule::Only(["default".to_owned()].into());
    let outcome = shop.ensure().await;
    assert_eq!(outcome.good().reasons(), ["LoadBalancerAdopted"]);
    let changes = shop.changes();
    assert_eq!(changes.len(), 1, "{changes:?}");
    assert_eq!(changes[0].0, "update-load-balancer");
    assert_eq!(changes[0].1["labels"]["bowline-service-uid"], UID);
    assert_eq!(changes[0].1["labels"]["bowline-adopted"], "true");
    assert_eq!(shop.record(), "", "attached no more");
    let there = shop.balancer();
    assert_eq!((&*there.name, there.services.len()), ("by-hand", 2));
    assert_eq!(there.description.as_deref(), Some("theirs"));
    assert!(shop.ensure().await.good().plan.is_empty());
    // It has what the Service asks for, and outlives it.
    shop.set("description", "ours");
    shop.ensure().await.good();
    assert_eq!(shop.balancer().description.as_deref(), Some("ours"));
    shop.delete().await.good();
    assert_eq!(shop.listener().name, "theirs");
    assert!(shop.delete().await.good().plan.is_empty());
    let marked = shop.balancers().marked(ClusterMarks::default()).await;
    assert_eq!(marked.unwrap(), []);
}

#[tokio::test(start_paused = true)]
async fn what_the_original_left_is_ours_and_labelled_with_the_next_change() {
    let mut shop = Harness::new().await;
    shop.place(NAME, &[(&format!("{UID}-80"), 80)]);
    shop.set("id", L1).set("service-instancepool-id", P1);
    assert!(shop.ensure().await.good().plan.is_empty());
    assert!(shop.balancer().labels.is_empty());
    shop.set("description", "shop");
    shop.ensure().await.good();
    assert_eq!(shop.balancer().labels["bowline-service-uid"], UID);
}

#[tokio::test(start_paused = true)]
async fn labels_of_the_annotation_are_set_and_ours_are_never_overwritten() {
    let mut shop = Harness::new().await;
    shop.set("labels", "team=shop,env=test");
    shop.ensure().await.good();
    let label = |shop: &Harness, key: &str| shop.balancer().labels.get(key).cloned();
    assert_eq!(label(&shop, "team").as_deref(), Some("shop"));
    assert_eq!(label(&shop, "bowline-service-uid").as_deref(), Some(UID));
    shop.calls();
    shop.set("labels", "env=prod");
    shop.ensure().await.good();
    assert_eq!(shop.writes(), ["update-load-balancer"]);
    assert_eq!(label(&shop, "env").as_deref(), Some("prod"));
    assert_eq!(label(&shop, "team").as_deref(), Some("shop"));
    assert!(shop.ensure().await.good().plan.is_empty());
    for ours in [
        "bowline-service-uid=x",
        "env=prod,k8s-service=x",
        "=x",
        "env",
    ] {
        shop.set("labels", ours);
        let outcome = shop.ensure().await;
        assert_eq!(outcome.plan.problems.len(), 1, "{ours}");
        assert_eq!(label(&shop, "bowline-service-uid").as_deref(), Some(UID));
    }
}

#[tokio::test(start_paused = true)]
async fn labels_that_the_cloud_refuses_are_reported_and_cost_nothing_else() {
    let mut shop = Harness::new().await;
    shop.ensure().await.good();
    shop.fault("update-load-balancer", 1, bowline_test_kit::status(400));
    shop.set("labels", "env=prod");
    shop.service.ports[0].node_port = 30090;
    let outcome = shop.ensure().await;
    let reported = format!("{outcome:?}");
    says(&reported, "the cloud refuses these labels");
    assert_eq!(shop.listener().target_port, 30090);
    assert_eq!(shop.balancer().labels["bowline-service-uid"], UID);
}

#[tokio::test(start_paused = true)]
async fn exoscale_case_85_a_second_port_takes_the_name_away_and_gives_it_back() {
    let mut shop = Harness::new().await;
    shop.set("service-name", "x")
        .set("service-description", "y");
    shop.ensure().await.good();
    shop.calls();
    shop.service.ports.push(port("TCP", 443, 30443));
    shop.ensure().await.good();
    assert_eq!(
        shop.writes(),
        [
            "update-load-balancer-service",
            "reset-load-balancer-service-field",
            "add-service-to-load-balancer"
        ]
    );
    let names = |shop: &Harness| -> Vec<String> {
        let all = shop.balancer().services.into_iter();
        all.map(|it| it.name).collect()
    };
    assert_eq!(names(&shop), [format!("{UID}-80"), format!("{UID}-443")]);
    assert_eq!(shop.record(), "");
    shop.service.ports.pop();
    shop.ensure().await.good();
    assert_eq!(
        shop.writes(),
        [
            "delete-load-balancer-service",
            "update-load-balancer-service"
        ]
    );
    assert_eq!(names(&shop), ["x"]);
    assert!(shop.record().contains(&shop.listener().id));
}

#[tokio::test(start_paused = true)]
async fn exoscale_case_105_a_health_check_is_replaced_as_a_whole() {
    let mut shop = Harness::new().await;
    shop.set("service-healthcheck-mode", "http")
        .set("service-healthcheck-uri", "/h");
    shop.ensure().await.good();
    shop.calls();
    shop.unset("service-healthcheck-mode")
        .unset("service-healthcheck-uri");
    shop.ensure().await.good();
    let changes = shop.changes();
    let [(name, body)] = changes.as_slice() else {
        panic!("{changes:?}");
    };
    assert_eq!(name, "update-load-balancer-service");
    assert_eq!(
        body["healthcheck"],
        json!({"mode": "tcp", "port": 30080, "interval": 10, "timeout": 5, "retries": 1})
    );
    assert_eq!(shop.listener().healthcheck.uri, None);
}

#[tokio::test(start_paused = true)]
async fn checks_over_tls_may_name_their_server() {
    let mut shop = Harness::new().await;
    shop.set("service-healthcheck-mode", "https")
        .set("service-healthcheck-uri", "/h")
        .set("service-healthcheck-tls-sni", "web.example.test");
    shop.ensure().await.good();
    let check = shop.listener().healthcheck;
    assert_eq!(
        (check.mode, check.tls_sni.as_deref()),
        ("https", Some("web.example.test"))
    );
    assert!(shop.ensure().await.good().plan.is_empty());
}

#[tokio::test(start_paused = true)]
async fn what_somebody_changed_in_the_cloud_is_put_right() {
    let mut shop = open().await;
    let id = shop.get("id").to_owned();
    let service = format!("{UID}-80");
    shop.sim.retarget_service(&id, &service, 31999).unwrap();
    shop.sim.rename_balancer(&id, "drifted").unwrap();
    shop.ensure().await.good();
    assert_eq!(
        (&*shop.balancer().name, shop.listener().target_port),
        (NAME, 30080)
    );
    shop.sim.remove_service(&id, &service).unwrap();
    shop.does(&[format!("create service {service}")]).await;
    assert_eq!(shop.listener().port, 80);
}

#[tokio::test(start_paused = true)]
async fn a_load_balancer_that_was_left_goes_after_the_new_one_serves() {
    let mut shop = open().await;
    let before = shop.get("id").to_owned();
    shop.place("by-hand", &[]);
    shop.set("id", L1).set("external", "true");
    let outcome = shop.ensure().await;
    assert_eq!(outcome.good().plan.impact(), Impact::Destroys);
    assert_eq!(
        shop.writes(),
        [
            "add-service-to-load-balancer",
            "delete-load-balancer-service",
            "delete-load-balancer"
        ]
    );
    assert!(shop.all().iter().all(|it| it.id != before));
    assert_eq!(shop.address(), "203.0.113.80");
}
