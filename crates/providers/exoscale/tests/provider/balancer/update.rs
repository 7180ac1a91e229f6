//! Cases on changing load balancers.

use bowline_core::{ClusterMarks, Impact, NamespaceRule};
use bowline_test_kit::says;
use serde_json::json;

use super::harness::{Harness, L1, NAME, UID, open, port};
use crate::harness::{P1, P2};

#[tokio::test(start_paused = true)]
async fn exoscale_case_54_another_node_port_is_one_change() {
    let mut test = open().await;
    test.service.ports[0].node_port = 30090;
    let outcome = test.ensure().await;
    assert_eq!(outcome.good().plan.impact(), Impact::InPlace);
    let changes = test.changes();
    let [(name, body)] = changes.as_slice() else {
        panic!("{changes:?}");
    };
    assert_eq!(name, "update-load-balancer-service");
    assert_eq!(
        (&body["target-port"], &body["healthcheck"]["port"]),
        (&json!(30090), &json!(30090))
    );
    assert_eq!(test.listener().target_port, 30090);
}

#[tokio::test(start_paused = true)]
async fn exoscale_case_55_another_port_replaces_the_service() {
    let mut test = open().await;
    let before = test.balancer();
    test.service.ports = vec![port("TCP", 8080, 30080)];
    let outcome = test.ensure().await;
    assert_eq!(outcome.good().plan.impact(), Impact::Interrupts);
    assert_eq!(
        test.writes(),
        [
            "delete-load-balancer-service",
            "add-service-to-load-balancer"
        ]
    );
    let after = test.balancer();
    assert_eq!(
        (after.id, after.ip, after.name),
        (before.id, before.ip, before.name)
    );
    assert_eq!(test.listener().name, format!("{UID}-8080"));
}

#[tokio::test(start_paused = true)]
async fn exoscale_case_56_another_pool_replaces_every_service_in_its_turn() {
    let mut test = Harness::new().await;
    test.service.ports.push(port("TCP", 443, 30443));
    test.ensure().await.good();
    let (before, address) = (test.balancer(), test.address());
    test.calls();
    test.set("service-instancepool-id", P2);
    let outcome = test.ensure().await;
    assert_eq!(outcome.good().plan.impact(), Impact::Interrupts);
    let (delete, add) = (
        "delete-load-balancer-service",
        "add-service-to-load-balancer",
    );
    assert_eq!(test.writes(), [delete, add, delete, add]);
    assert_eq!((test.get("id"), test.address()), (&*before.id, address));
    assert!(test.balancer().services.iter().all(|it| it.pool == P2));
}

#[tokio::test(start_paused = true)]
async fn exoscale_case_57_names_and_descriptions_really_change() {
    let mut test = Harness::new().await;
    test.set("name", "edge").set("description", "d1");
    test.ensure().await.good();
    test.calls();
    test.set("name", "edge2");
    test.ensure().await.good();
    let change = |body| vec![("update-load-balancer".to_owned(), body)];
    assert_eq!(test.changes(), change(json!({"name": "edge2"})));
    test.set("description", "d2");
    test.ensure().await.good();
    assert_eq!(test.changes(), change(json!({"description": "d2"})));
    assert!(test.ensure().await.good().plan.is_empty());
    test.unset("description");
    let outcome = test.ensure().await;
    assert_eq!(outcome.good().plan.impact(), Impact::None);
    assert_eq!(test.writes(), ["reset-load-balancer-field"]);
    assert_eq!(test.balancer().description, None);
    assert!(test.ensure().await.good().plan.is_empty());
}

#[tokio::test(start_paused = true)]
async fn exoscale_case_58_nothing_to_do_is_one_read() {
    let mut test = open().await;
    let address = test.address();
    test.set("example.test/note", "x");
    test.restart().await;
    assert!(test.ensure().await.good().plan.is_empty());
    let calls: Vec<String> = test.calls().into_iter().map(|it| it.operation).collect();
    assert_eq!(calls, ["get-load-balancer"]);
    assert_eq!(test.address(), address);
}

#[tokio::test(start_paused = true)]
async fn exoscale_case_59_a_load_balancer_that_is_gone_is_made_anew() {
    let mut test = open().await;
    let (before, address) = (test.get("id").to_owned(), test.address());
    test.sim.remove_balancer(&before).unwrap();
    let outcome = test.ensure().await;
    assert_eq!(outcome.good().reasons(), ["LoadBalancerRecreated"]);
    assert_ne!(test.get("id"), before);
    assert_ne!(test.address(), address);
    assert_eq!(test.address(), test.balancer().ip.to_string());
    assert!(!test.balancers().has_members(), "nodes change nothing");
}

/// The last part of exoscale case 60, that `take-over` alone makes it the Service's, gave way to
/// proof cases 16 and 20.
#[tokio::test(start_paused = true)]
async fn exoscale_case_60_and_proof_case_20_a_foreign_load_balancer_is_attached_until_adopted() {
    let mut test = Harness::new().await;
    test.place("by-hand", &[("theirs", 9000)]);
    test.sim.describe_balancer(L1, "theirs").unwrap();
    test.set("id", L1);
    let outcome = test.ensure().await;
    assert_eq!(outcome.good().reasons(), ["LoadBalancerNotOurs"]);
    let message = &outcome.notices[0].message;
    says(message, "exoscale-loadbalancer-external: \"true\"");
    says(message, "adoption");
    assert_eq!(test.writes(), ["add-service-to-load-balancer"]);
    assert_eq!(
        (&*test.balancer().name, test.balancer().services.len()),
        ("by-hand", 2)
    );
    assert!(test.ensure().await.good().plan.is_empty());
    test.calls();

    // Asking for it is not enough, and changes nothing of what is.
    test.set("bowline.dev/take-over", L1);
    assert!(test.ensure().await.good().plan.is_empty());
    test.rules.adoption = NamespaceRule::Only(["default".to_owned()].into());
    let outcome = test.ensure().await;
    assert_eq!(outcome.good().reasons(), ["LoadBalancerAdopted"]);
    let changes = test.changes();
    assert_eq!(changes.len(), 1, "{changes:?}");
    assert_eq!(changes[0].0, "update-load-balancer");
    assert_eq!(changes[0].1["labels"]["bowline-service-uid"], UID);
    assert_eq!(changes[0].1["labels"]["bowline-adopted"], "true");
    assert_eq!(test.record(), "", "attached no more");
    let there = test.balancer();
    assert_eq!((&*there.name, there.services.len()), ("by-hand", 2));
    assert_eq!(there.description.as_deref(), Some("theirs"));
    assert!(test.ensure().await.good().plan.is_empty());
    // It has what the Service asks for, and outlives it.
    test.set("description", "ours");
    test.ensure().await.good();
    assert_eq!(test.balancer().description.as_deref(), Some("ours"));
    test.delete().await.good();
    assert_eq!(test.listener().name, "theirs");
    assert!(test.delete().await.good().plan.is_empty());
    let marked = test.balancers().marked(ClusterMarks::default()).await;
    assert_eq!(marked.unwrap(), []);
}

#[tokio::test(start_paused = true)]
async fn what_the_original_left_is_ours_and_labelled_with_the_next_change() {
    let mut test = Harness::new().await;
    test.place(NAME, &[(&format!("{UID}-80"), 80)]);
    test.set("id", L1).set("service-instancepool-id", P1);
    assert!(test.ensure().await.good().plan.is_empty());
    assert!(test.balancer().labels.is_empty());
    test.set("description", "shop");
    test.ensure().await.good();
    assert_eq!(test.balancer().labels["bowline-service-uid"], UID);
}

#[tokio::test(start_paused = true)]
async fn labels_of_the_annotation_are_set_and_ours_are_never_overwritten() {
    let mut test = Harness::new().await;
    test.set("labels", "team=shop,env=test");
    test.ensure().await.good();
    let label = |test: &Harness, key: &str| test.balancer().labels.get(key).cloned();
    assert_eq!(label(&test, "team").as_deref(), Some("shop"));
    assert_eq!(label(&test, "bowline-service-uid").as_deref(), Some(UID));
    test.calls();
    test.set("labels", "env=prod");
    test.ensure().await.good();
    assert_eq!(test.writes(), ["update-load-balancer"]);
    assert_eq!(label(&test, "env").as_deref(), Some("prod"));
    assert_eq!(label(&test, "team").as_deref(), Some("shop"));
    assert!(test.ensure().await.good().plan.is_empty());
    for ours in [
        "bowline-service-uid=x",
        "env=prod,k8s-service=x",
        "=x",
        "env",
    ] {
        test.set("labels", ours);
        let outcome = test.ensure().await;
        assert_eq!(outcome.plan.problems.len(), 1, "{ours}");
        assert_eq!(label(&test, "bowline-service-uid").as_deref(), Some(UID));
    }
}

#[tokio::test(start_paused = true)]
async fn labels_that_the_cloud_refuses_are_reported_and_cost_nothing_else() {
    let mut test = Harness::new().await;
    test.ensure().await.good();
    test.fault("update-load-balancer", 1, bowline_test_kit::status(400));
    test.set("labels", "env=prod");
    test.service.ports[0].node_port = 30090;
    let outcome = test.ensure().await;
    let reported = format!("{outcome:?}");
    says(&reported, "the cloud refuses these labels");
    assert_eq!(test.listener().target_port, 30090);
    assert_eq!(test.balancer().labels["bowline-service-uid"], UID);
}

#[tokio::test(start_paused = true)]
async fn exoscale_case_85_a_second_port_takes_the_name_away_and_gives_it_back() {
    let mut test = Harness::new().await;
    test.set("service-name", "x")
        .set("service-description", "y");
    test.ensure().await.good();
    test.calls();
    test.service.ports.push(port("TCP", 443, 30443));
    test.ensure().await.good();
    assert_eq!(
        test.writes(),
        [
            "update-load-balancer-service",
            "reset-load-balancer-service-field",
            "add-service-to-load-balancer"
        ]
    );
    let names = |test: &Harness| -> Vec<String> {
        let all = test.balancer().services.into_iter();
        all.map(|it| it.name).collect()
    };
    assert_eq!(names(&test), [format!("{UID}-80"), format!("{UID}-443")]);
    assert_eq!(test.record(), "");
    test.service.ports.pop();
    test.ensure().await.good();
    assert_eq!(
        test.writes(),
        [
            "delete-load-balancer-service",
            "update-load-balancer-service"
        ]
    );
    assert_eq!(names(&test), ["x"]);
    assert!(test.record().contains(&test.listener().id));
}

#[tokio::test(start_paused = true)]
async fn exoscale_case_105_a_health_check_is_replaced_as_a_whole() {
    let mut test = Harness::new().await;
    test.set("service-healthcheck-mode", "http")
        .set("service-healthcheck-uri", "/h");
    test.ensure().await.good();
    test.calls();
    test.unset("service-healthcheck-mode")
        .unset("service-healthcheck-uri");
    test.ensure().await.good();
    let changes = test.changes();
    let [(name, body)] = changes.as_slice() else {
        panic!("{changes:?}");
    };
    assert_eq!(name, "update-load-balancer-service");
    assert_eq!(
        body["healthcheck"],
        json!({"mode": "tcp", "port": 30080, "interval": 10, "timeout": 5, "retries": 1})
    );
    assert_eq!(test.listener().healthcheck.uri, None);
}

#[tokio::test(start_paused = true)]
async fn checks_over_tls_may_name_their_server() {
    let mut test = Harness::new().await;
    test.set("service-healthcheck-mode", "https")
        .set("service-healthcheck-uri", "/h")
        .set("service-healthcheck-tls-sni", "web.example.test");
    test.ensure().await.good();
    let check = test.listener().healthcheck;
    assert_eq!(
        (check.mode, check.tls_sni.as_deref()),
        ("https", Some("web.example.test"))
    );
    assert!(test.ensure().await.good().plan.is_empty());
}

#[tokio::test(start_paused = true)]
async fn what_somebody_changed_in_the_cloud_is_repaired() {
    let mut test = open().await;
    let id = test.get("id").to_owned();
    let service = format!("{UID}-80");
    test.sim.retarget_service(&id, &service, 31999).unwrap();
    test.sim.rename_balancer(&id, "drifted").unwrap();
    test.ensure().await.good();
    assert_eq!(
        (&*test.balancer().name, test.listener().target_port),
        (NAME, 30080)
    );
    test.sim.remove_service(&id, &service).unwrap();
    test.does(&[format!("create service {service}")]).await;
    assert_eq!(test.listener().port, 80);
}

#[tokio::test(start_paused = true)]
async fn a_load_balancer_that_was_left_goes_after_the_new_one_serves() {
    let mut test = open().await;
    let before = test.get("id").to_owned();
    test.place("by-hand", &[]);
    test.set("id", L1).set("external", "true");
    let outcome = test.ensure().await;
    assert_eq!(outcome.good().plan.impact(), Impact::Destroys);
    assert_eq!(
        test.writes(),
        [
            "add-service-to-load-balancer",
            "delete-load-balancer-service",
            "delete-load-balancer"
        ]
    );
    assert!(test.all().iter().all(|it| it.id != before));
    assert_eq!(test.address(), "203.0.113.80");
}
