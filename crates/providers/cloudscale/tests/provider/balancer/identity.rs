//! Cases on which load balancer is whose, and on who may connect.

use bowline_core::{Service, Whose};
use bowline_simulator::journal::Entry;
use serde_json::{Value, json};

use super::shop::{NAME, Shop, UID, key, named, set};
use crate::stage::NOBODY;

const OTHER_UID: &str = "0d9b1f6e-1111-4a3f-8f6e-3b9d2a7c1e55";

fn tagged(service: &str, cluster: Option<&str>) -> Value {
    let mut tags = json!({"k8s-service-uid": service});
    if let Some(cluster) = cluster {
        tags["k8s-cluster-name"] = cluster.into();
    }
    json!({"name": NAME, "tags": tags})
}

#[tokio::test(start_paused = true)]
async fn cloudscale_case_59_a_stale_uuid_falls_back_to_the_name() {
    let mut shop = Shop::new();
    let uuid = shop.place_originals();
    for stale in [NOBODY, "not a uuid", ""] {
        shop.set("uuid", stale).ensure().await.good();
        assert_eq!(shop.get("uuid"), uuid);
    }
    assert_eq!(shop.balancer().uuid, uuid);
}

#[tokio::test(start_paused = true)]
async fn cloudscale_case_60_uuid_and_name_of_two_load_balancers_are_an_error() {
    let mut shop = Shop::new();
    let by_uuid = shop.place(json!({"name": "something"}));
    shop.place(json!({"name": NAME}));
    shop.set("uuid", &by_uuid);
    let outcome = shop.ensure().await;
    let problem = outcome.problem("InvalidLoadBalancerConfig");
    assert!(problem.contains("found more than one"), "{problem}");
    let outcome = shop.delete().await;
    assert!(outcome.error.unwrap().contains("found more than one"));
    assert_eq!(shop.writes(), [""; 0]);
    assert_eq!(shop.all().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn of_two_load_balancers_of_one_name_the_one_of_the_uuid_is_used() {
    let mut shop = Shop::new();
    shop.ensure().await.good();
    let ours = shop.balancer().uuid;
    let other = shop.place(json!({"name": NAME}));
    shop.calls();
    for uuid in [ours.as_str(), ""] {
        // By the uuid, and without it by the mark.
        shop.set("uuid", uuid);
        shop.settle().await;
        let outcome = shop.ensure().await;
        assert_eq!(outcome.good().reasons(), ["DuplicateLoadBalancer"]);
        assert!(outcome.notices[0].message.contains(&other));
        assert!(outcome.plan.is_empty());
        assert_eq!(shop.get("uuid"), ours);
    }
    let mut shop = Shop::with(&[("CLOUDSCALE_OWNERSHIP_TAGS", "false")]);
    shop.place(json!({"name": NAME}));
    shop.place(json!({"name": NAME}));
    let outcome = shop.ensure().await;
    assert!(
        outcome
            .problem("InvalidLoadBalancerConfig")
            .contains("found more than one")
    );
}

#[tokio::test(start_paused = true)]
async fn cloudscale_case_61_a_removed_uuid_is_restored() {
    let mut shop = Shop::new();
    shop.ensure().await.good();
    let uuid = shop.balancer().uuid;
    shop.unset("uuid");
    assert!(shop.ensure().await.good().plan.is_empty());
    assert_eq!(shop.get("uuid"), uuid);
}

#[tokio::test(start_paused = true)]
async fn cloudscale_case_72_taking_over_from_the_original_changes_only_a_tag() {
    let mut shop = Shop::new();
    shop.place_originals();
    let service = shop.service.clone();
    shop.ensure().await.good();
    assert_eq!(
        shop.changes(),
        [format!(
            r#"PATCH load-balancers {{"tags":{{"k8s-service-uid":"{UID}"}}}}"#
        )]
    );
    assert_eq!(shop.service, service);
    let mut shop = Shop::with(&[("CLOUDSCALE_OWNERSHIP_TAGS", "false")]);
    shop.place_originals();
    let service = shop.service.clone();
    assert!(shop.ensure().await.good().plan.is_empty());
    assert_eq!(shop.writes(), [""; 0]);
    assert_eq!(shop.service, service);
}

#[tokio::test(start_paused = true)]
async fn cloudscale_case_73_tags_say_whose_it_is_and_leave_others_alone() {
    let mut shop = Shop::new();
    shop.cluster_name = "prod-1".into();
    shop.ensure().await.good();
    let balancer = shop.balancer();
    let own = json!({"k8s-service-uid": UID, "k8s-cluster-name": "prod-1"});
    assert_eq!(json!(balancer.tags), own);
    let call = shop.calls().into_iter().find(Entry::is_mutating).unwrap();
    assert_eq!(call.body["tags"], own, "from the beginning");
    let child = json!({"k8s-cluster-name": "prod-1"});
    let pool = shop.pool();
    let mut tags = vec![&pool.tags, &pool.listeners[0].tags];
    tags.extend(pool.members.iter().map(|it| &it.tags));
    tags.extend(pool.monitor.iter().map(|it| &it.tags));
    assert!(tags.into_iter().all(|tags| json!(tags) == child));

    let mut shop = Shop::new();
    shop.place(json!({"name": NAME, "tags": {"team": "a"}}));
    shop.ensure().await.good();
    let wanted =
        format!(r#"PATCH load-balancers {{"tags":{{"k8s-service-uid":"{UID}","team":"a"}}}}"#);
    assert!(shop.changes().contains(&wanted));

    let mut shop = Shop::new();
    for (node, name) in shop.nodes.iter_mut().zip(["one", "two"]) {
        let key = "cluster.x-k8s.io/cluster-name".to_owned();
        node.annotations.insert(key, name.to_owned());
    }
    let outcome = shop.ensure().await;
    assert_eq!(outcome.good().reasons(), ["ClusterNameTagAmbiguous"]);
    assert_eq!(json!(shop.balancer().tags), json!({"k8s-service-uid": UID}));
    shop.nodes.pop();
    shop.ensure().await.good();
    assert_eq!(shop.balancer().tags["k8s-cluster-name"], "one");
}

#[tokio::test(start_paused = true)]
async fn cloudscale_case_74_anothers_load_balancer_is_left_alone() {
    for by_uuid in [false, true] {
        let mut shop = Shop::new();
        let uuid = if by_uuid {
            let uuid = shop.place(json!({"name": "x", "tags": {"k8s-service-uid": OTHER_UID}}));
            shop.set("uuid", &uuid);
            uuid
        } else {
            shop.place(tagged(OTHER_UID, None))
        };
        let outcome = shop.ensure().await;
        let problem = outcome.problem("LoadBalancerOwnedByOther");
        for word in [&uuid, OTHER_UID, UID, "bowline.dev/take-over"] {
            assert!(problem.contains(word), "{problem}");
        }
        let annotated = if by_uuid { uuid.as_str() } else { "" };
        assert_eq!(shop.get("uuid"), annotated, "nothing of it is published");
        let outcome = shop.delete().await;
        assert_eq!(outcome.good().reasons(), ["LoadBalancerOwnedByOther"]);
        assert!(outcome.plan.is_empty(), "the finalizer may go");
        assert_eq!(shop.writes(), [""; 0]);
        let free = json!({"tags": {}});
        shop.stage
            .sim
            .edit(&uuid, free.as_object().unwrap())
            .unwrap();
        shop.settle().await;
        shop.ensure().await.good();
        assert_eq!(shop.balancer().tags["k8s-service-uid"], UID);
        assert_eq!(shop.balancer().uuid, uuid);
    }
}

#[tokio::test(start_paused = true)]
async fn an_older_service_has_the_first_right_to_an_unmarked_load_balancer() {
    let refer: [fn(&mut Service, &str); 2] = [
        |it, uuid| set(it, "uuid", uuid),
        |it, _| set(it, "name", "shared"),
    ];
    for refers in refer {
        let mut shop = Shop::new();
        let uuid = shop.place(json!({"name": "shared"}));
        shop.set("name", "shared");
        let mut older = named("older", OTHER_UID);
        refers(&mut older, &uuid);
        older.created = "2026-01-01T00:00:00Z".parse().unwrap();
        shop.others = vec![older.clone()];
        let outcome = shop.ensure().await;
        let problem = outcome.problem("LoadBalancerOwnedByOther");
        assert!(problem.contains("shop/older"), "{problem}");
        assert_eq!(shop.delete().await.good().plan.steps, []);
        assert_eq!(shop.writes(), [""; 0]);
        // A younger one has not.
        shop.others[0].created = "2026-03-01T00:00:00Z".parse().unwrap();
        shop.ensure().await.good();
        assert_eq!(shop.balancer().uuid, uuid);
    }
}

#[tokio::test(start_paused = true)]
async fn cloudscale_case_78_floating_ips_and_private_addresses_do_not_go_together() {
    let mut shop = Shop::new();
    shop.set("floating-ips", r#"["203.0.113.77"]"#).set(
        "vip-addresses",
        r#"[{"subnet":"7d1f0c9a-2b34-4c56-8d78-9e0f1a2b3c4d"}]"#,
    );
    let outcome = shop.ensure().await;
    let problem = outcome.problem("InvalidLoadBalancerConfig");
    for suffix in ["floating-ips", "vip-addresses"] {
        assert!(problem.contains(&key(suffix)), "{problem}");
    }
    assert_eq!(shop.writes(), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn cloudscale_case_84_the_services_source_ranges_filter_unless_switched_off() {
    let ranges = || vec!["192.0.2.0/24".to_owned()];
    let mut shop = Shop::new();
    shop.service.source_ranges = ranges();
    let outcome = shop.ensure().await;
    assert_eq!(outcome.good().reasons(), ["SourceRangesApplied"]);
    assert_eq!(shop.pool().listeners[0].allowed_cidrs, ["192.0.2.0/24"]);
    assert_eq!(shop.ensure().await.good().reasons(), [""; 0], "once");
    shop.calls();
    shop.set("listener-allowed-cidrs", "[]")
        .ensure()
        .await
        .good();
    assert_eq!(
        shop.changes(),
        [r#"PATCH load-balancers/listeners {"allowed_cidrs":[]}"#]
    );
    shop.set("listener-allowed-cidrs", " ")
        .ensure()
        .await
        .good();
    assert_eq!(
        shop.pool().listeners[0].allowed_cidrs,
        ["192.0.2.0/24"],
        "blank is absent"
    );
    let mut shop = Shop::with(&[("CLOUDSCALE_SERVICE_SOURCE_RANGES", "false")]);
    shop.service.source_ranges = ranges();
    assert_eq!(shop.ensure().await.good().reasons(), [""; 0]);
    assert_eq!(shop.pool().listeners[0].allowed_cidrs, [""; 0]);
    let mut shop = Shop::new();
    shop.service.source_ranges = vec!["here".to_owned()];
    let outcome = shop.ensure().await;
    assert!(
        outcome
            .problem("InvalidLoadBalancerConfig")
            .contains("loadBalancerSourceRanges")
    );
}

#[tokio::test(start_paused = true)]
async fn cloudscale_case_91_an_orphan_is_taken_over_by_the_same_cluster_or_by_a_persons_word() {
    // (cluster of the load balancer, our cluster, take-over annotation, taken over)
    let rows: [(Option<&str>, &str, Option<bool>, bool); 7] = [
        (Some("prod-1"), "prod-1", None, true),
        (Some("prod-2"), "prod-1", None, false),
        (None, "prod-1", None, false),
        (Some("prod-1"), "kubernetes", None, false),
        (None, "kubernetes", None, false),
        (None, "kubernetes", Some(true), true),
        (None, "kubernetes", Some(false), false),
    ];
    for (theirs, ours, told, taken) in rows {
        let mut shop = Shop::new();
        shop.cluster_name = ours.into();
        let uuid = shop.place(tagged(OTHER_UID, theirs));
        if let Some(right) = told {
            let value = if right { uuid.as_str() } else { NOBODY };
            shop.set("bowline.dev/take-over", value);
        }
        let outcome = shop.ensure().await;
        if taken {
            assert_eq!(outcome.good().reasons(), ["LoadBalancerTakenOver"]);
            let writes = shop.changes();
            assert!(
                writes[0].starts_with("PATCH load-balancers {\"tags\":"),
                "{writes:?}"
            );
            assert_eq!(shop.balancer().tags["k8s-service-uid"], UID);
            assert_eq!(shop.pool().members.len(), 2);
        } else {
            let problem = outcome.problem("LoadBalancerOwnedByOther");
            assert!(problem.contains("bowline.dev/take-over"), "{problem}");
            assert_eq!(shop.writes(), [""; 0]);
        }
    }
    // Before a load balancer is written to it is marked, also when a setting is wrong.
    let mut shop = Shop::new();
    shop.place_originals();
    let uuid = shop.balancer().uuid;
    let theirs = json!({"tags": {"k8s-service-uid": OTHER_UID}});
    shop.stage
        .sim
        .edit(&uuid, theirs.as_object().unwrap())
        .unwrap();
    shop.set("bowline.dev/take-over", &uuid).set("ip-mode", "x");
    shop.nodes.pop();
    shop.ensure().await.problem("InvalidLoadBalancerConfig");
    let writes = shop.changes();
    assert!(
        writes[0].starts_with("PATCH load-balancers {\"tags\":"),
        "{writes:?}"
    );
    assert_eq!(writes.len(), 2, "{writes:?}");
    // As long as the Service with that uid exists it is its own.
    let mut shop = Shop::new();
    shop.cluster_name = "prod-1".into();
    shop.place(tagged(OTHER_UID, Some("prod-1")));
    shop.others = vec![named("api", OTHER_UID)];
    shop.ensure().await.problem("LoadBalancerOwnedByOther");
    // Or may exist: some Service cannot be read.
    shop.others.clear();
    shop.all_known = false;
    shop.ensure().await.problem("LoadBalancerOwnedByOther");
    assert_eq!(shop.writes(), [""; 0]);
    shop.all_known = true;
    shop.ensure().await.good();
}

#[tokio::test(start_paused = true)]
async fn a_load_balancer_that_was_lost_is_made_again_and_told() {
    let mut shop = Shop::new();
    shop.ensure().await.good();
    let lost = shop.balancer().uuid;
    shop.stage.sim.remove(&lost).unwrap();
    shop.settle().await;
    let outcome = shop.ensure().await;
    assert_eq!(outcome.good().reasons(), ["LoadBalancerRecreated"]);
    let new = shop.balancer();
    assert_eq!(shop.get("uuid"), new.uuid);
    assert_eq!(
        shop.service.ingress[0].ip,
        Some(new.vip_addresses[0].to_string())
    );
    // Not so for a Service that was of another type for a while.
    shop.delete().await.good();
    shop.service.ingress.clear();
    assert_eq!(shop.ensure().await.good().reasons(), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn orphans_are_found_by_their_mark_and_removed_only_with_it() {
    let mut shop = Shop::new();
    let uuid = shop.place(tagged(OTHER_UID, Some("prod-1")));
    shop.place(json!({"name": "unmarked"}));
    // The flag is the default; the name comes from the nodes, as it does in the tags.
    let key = "cluster.x-k8s.io/cluster-name".to_owned();
    shop.nodes[0].annotations.insert(key, "prod-1".into());
    let marked = shop.marked().await;
    let [orphan] = marked.as_slice() else {
        panic!("{marked:?}");
    };
    assert_eq!((&orphan.id, &*orphan.service_uid), (&uuid, OTHER_UID));
    assert_eq!(orphan.whose, Whose::Ours);
    assert_eq!(shop.calls().len(), 1);
    let mut changed = orphan.clone();
    changed.service_uid = UID.into();
    assert!(shop.balancers().remove_orphan(&changed).await.is_err());
    shop.stage.sim.freeze_balancer(&uuid).unwrap();
    assert!(shop.balancers().remove_orphan(orphan).await.is_err());
    assert_eq!(shop.writes(), [""; 0]);
    shop.stage.sim.thaw_balancer(&uuid).unwrap();
    shop.balancers().remove_orphan(orphan).await.unwrap();
    shop.balancers().remove_orphan(orphan).await.unwrap();
    assert_eq!(shop.all().len(), 1);
    let shop = Shop::with(&[("CLOUDSCALE_OWNERSHIP_TAGS", "false")]);
    shop.place(tagged(OTHER_UID, None));
    assert_eq!(shop.marked().await, []);
}
