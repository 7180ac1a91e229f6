//! Cases on which load balancer is whose, and on who may connect.

use bowline_core::ClusterMatch;
use bowline_simulator::journal::Entry;
use bowline_test_kit::begins;
use serde_json::{Value, json};

use super::harness::{Harness, NAME, UID, key, named};
use crate::harness::NOBODY;

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
    let mut test = Harness::new();
    let uuid = test.place_originals();
    for stale in [NOBODY, "not a uuid", ""] {
        test.set("uuid", stale).ensure().await.good();
        assert_eq!(test.get("uuid"), uuid);
    }
    assert_eq!(test.balancer().uuid, uuid);
}

/// Was an error before `proof.md` defined the owner of a load balancer: case 60 of cloudscale, case 16 of
/// the proof.
#[tokio::test(start_paused = true)]
async fn cloudscale_case_60_proof_case_16_of_uuid_and_name_the_one_that_is_ours_is_used() {
    let mut test = Harness::new();
    let by_uuid = test.place(json!({"name": "something"}));
    let by_name = test.place(json!({"name": NAME}));
    let before = test.all()[0].clone();
    test.set("uuid", &by_uuid);
    let outcome = test.ensure().await;
    assert_eq!(outcome.good().reasons(), ["LoadBalancerNotOurs"]);
    assert_eq!(test.get("uuid"), by_name);
    test.set("uuid", &by_uuid);
    test.settle().await;
    let outcome = test.delete().await;
    assert_eq!(outcome.good().reasons(), ["LoadBalancerNotOurs"]);
    assert_eq!(test.balancer(), before);
}

#[tokio::test(start_paused = true)]
async fn of_two_load_balancers_of_one_name_the_one_of_the_uuid_is_used() {
    let mut test = Harness::new();
    test.ensure().await.good();
    let ours = test.balancer().uuid;
    let other = test.place(json!({"name": NAME}));
    test.calls();
    for uuid in [ours.as_str(), ""] {
        // By the uuid, and without it by the mark.
        test.set("uuid", uuid);
        test.settle().await;
        let outcome = test.ensure().await;
        assert_eq!(outcome.good().reasons(), ["DuplicateLoadBalancer"]);
        assert!(!outcome.notices[0].message.contains(&other));
        assert!(outcome.plan.is_empty());
        assert_eq!(test.get("uuid"), ours);
    }
    let mut test = Harness::with(&[("CLOUDSCALE_OWNERSHIP_TAGS", "false")]);
    test.place(json!({"name": NAME}));
    test.place(json!({"name": NAME}));
    test.refused("found more than one").await;
}

#[tokio::test(start_paused = true)]
async fn cloudscale_case_61_a_removed_uuid_is_restored() {
    let mut test = Harness::new();
    test.ensure().await.good();
    let uuid = test.balancer().uuid;
    test.unset("uuid");
    assert!(test.ensure().await.good().plan.is_empty());
    assert_eq!(test.get("uuid"), uuid);
}

#[tokio::test(start_paused = true)]
async fn cloudscale_case_72_taking_over_from_the_original_changes_only_a_tag() {
    let mut test = Harness::new();
    test.place_originals();
    let service = test.service.clone();
    test.ensure().await.good();
    assert_eq!(
        test.changes(),
        [format!(
            r#"PATCH load-balancers {{"tags":{{"k8s-service":"shop.web","k8s-service-uid":"{UID}"}}}}"#
        )]
    );
    assert_eq!(test.service, service);
    let mut test = Harness::with(&[("CLOUDSCALE_OWNERSHIP_TAGS", "false")]);
    test.place_originals();
    let service = test.service.clone();
    assert!(test.ensure().await.good().plan.is_empty());
    assert_eq!(test.writes(), [""; 0]);
    assert_eq!(test.service, service);
}

#[tokio::test(start_paused = true)]
async fn cloudscale_case_73_tags_say_whose_it_is_and_leave_others_alone() {
    let mut test = Harness::new();
    test.cluster_name = "prod-1".into();
    test.cluster_uid = Some("uid-1".into());
    test.ensure().await.good();
    let balancer = test.balancer();
    let own = json!({"k8s-service-uid": UID, "k8s-cluster-name": "prod-1",
                     "k8s-cluster-uid": "uid-1", "k8s-service": "shop.web"});
    assert_eq!(json!(balancer.tags), own);
    let call = test.calls().into_iter().find(Entry::is_mutating).unwrap();
    assert_eq!(call.body["tags"], own, "from the beginning");
    let child = json!({"k8s-cluster-name": "prod-1"});
    let pool = test.pool();
    let mut tags = vec![&pool.tags, &pool.listeners[0].tags];
    tags.extend(pool.members.iter().map(|it| &it.tags));
    tags.extend(pool.monitor.iter().map(|it| &it.tags));
    assert!(tags.into_iter().all(|tags| json!(tags) == child));

    let mut test = Harness::new();
    test.place(json!({"name": NAME, "tags": {"team": "a"}}));
    test.ensure().await.good();
    let wanted = format!(
        r#"PATCH load-balancers {{"tags":{{"k8s-service":"shop.web","k8s-service-uid":"{UID}","team":"a"}}}}"#
    );
    assert!(test.changes().contains(&wanted));

    let mut test = Harness::new();
    for (node, name) in test.nodes.iter_mut().zip(["one", "two"]) {
        let key = "cluster.x-k8s.io/cluster-name".to_owned();
        node.annotations.insert(key, name.to_owned());
    }
    let outcome = test.ensure().await;
    assert_eq!(outcome.good().reasons(), ["ClusterNameTagAmbiguous"]);
    let own = json!({"k8s-service-uid": UID, "k8s-service": "shop.web"});
    assert_eq!(json!(test.balancer().tags), own);
    test.nodes.pop();
    test.ensure().await.good();
    assert_eq!(test.balancer().tags["k8s-cluster-name"], "one");
}

/// Case 74 of cloudscale; cases 16 and 30 of the proof override what is reported.
#[tokio::test(start_paused = true)]
async fn cloudscale_case_74_proof_case_30_anothers_load_balancer_is_left_alone() {
    for by_uuid in [false, true] {
        let mut test = Harness::new();
        let uuid = if by_uuid {
            let uuid = test.place(json!({"name": "x", "tags": {"k8s-service-uid": OTHER_UID}}));
            test.set("uuid", &uuid);
            uuid
        } else {
            test.place(tagged(OTHER_UID, None))
        };
        let before = test.balancer();
        let outcome = test.ensure().await;
        let problem = outcome.problem_of("LoadBalancerNotOurs");
        assert_eq!(problem.contains(&uuid), by_uuid, "{problem}");
        assert!(!problem.contains(OTHER_UID), "{problem}");
        assert!(problem.contains("operator"), "{problem}");
        let annotated = if by_uuid { uuid.as_str() } else { "" };
        assert_eq!(test.get("uuid"), annotated, "nothing of it is published");
        let outcome = test.delete().await;
        assert_eq!(outcome.good().reasons(), ["LoadBalancerNotOurs"]);
        assert!(outcome.plan.is_empty(), "the finalizer may go");
        assert_eq!(test.writes(), [""; 0]);
        assert_eq!(test.balancer(), before);
    }
    // Without the other's mark it is this Service's by its name.
    let mut test = Harness::new();
    let uuid = test.place(tagged(OTHER_UID, None));
    test.ensure().await.problem_of("LoadBalancerNotOurs");
    let free = json!({"tags": {}});
    let edited = test.sim.edit(&uuid, free.as_object().unwrap());
    edited.unwrap();
    test.settle().await;
    test.ensure().await.good();
    assert_eq!(test.balancer().tags["k8s-service-uid"], UID);
    assert_eq!(test.balancer().uuid, uuid);
}

#[tokio::test(start_paused = true)]
async fn cloudscale_case_78_floating_ips_and_private_addresses_do_not_go_together() {
    let mut test = Harness::new();
    test.set("floating-ips", r#"["203.0.113.77"]"#).set(
        "vip-addresses",
        r#"[{"subnet":"7d1f0c9a-2b34-4c56-8d78-9e0f1a2b3c4d"}]"#,
    );
    let outcome = test.ensure().await;
    let problem = outcome.problem_of("InvalidLoadBalancerConfig");
    for suffix in ["floating-ips", "vip-addresses"] {
        assert!(problem.contains(&key(suffix)), "{problem}");
    }
    assert_eq!(test.writes(), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn cloudscale_case_84_the_services_source_ranges_filter_unless_switched_off() {
    let ranges = || vec!["192.0.2.0/24".to_owned()];
    let mut test = Harness::new();
    test.service.source_ranges = ranges();
    let outcome = test.ensure().await;
    assert_eq!(outcome.good().reasons(), ["SourceRangesApplied"]);
    assert_eq!(test.pool().listeners[0].allowed_cidrs, ["192.0.2.0/24"]);
    assert_eq!(test.ensure().await.good().reasons(), [""; 0], "once");
    test.calls();
    test.set("listener-allowed-cidrs", "[]")
        .ensure()
        .await
        .good();
    assert_eq!(
        test.changes(),
        [r#"PATCH load-balancers/listeners {"allowed_cidrs":[]}"#]
    );
    test.set("listener-allowed-cidrs", " ")
        .ensure()
        .await
        .good();
    assert_eq!(
        test.pool().listeners[0].allowed_cidrs,
        ["192.0.2.0/24"],
        "blank is absent"
    );
    let mut test = Harness::with(&[("CLOUDSCALE_SERVICE_SOURCE_RANGES", "false")]);
    test.service.source_ranges = ranges();
    assert_eq!(test.ensure().await.good().reasons(), [""; 0]);
    assert_eq!(test.pool().listeners[0].allowed_cidrs, [""; 0]);
    let mut test = Harness::new();
    test.service.source_ranges = vec!["here".to_owned()];
    test.refused("loadBalancerSourceRanges").await;
}

/// Case 91 of cloudscale took names of clusters for proof, and a tenant's annotation; case 23 of
/// the proof does not.
#[tokio::test(start_paused = true)]
async fn cloudscale_case_91_proof_case_23_an_orphan_returns_to_its_name_in_the_same_cluster() {
    // (cluster and Service of the mark, our cluster, take-over annotation, taken over)
    let rows = [
        (Some("a"), "shop.web", Some("a"), false, true),
        (Some("a"), "shop.web", Some("a"), true, true),
        (Some("a"), "infra.web", Some("a"), false, false),
        (Some("a"), "infra.web", Some("a"), true, false),
        (Some("b"), "shop.web", Some("a"), true, false),
        (None, "shop.web", Some("a"), false, false),
        (Some("a"), "shop.web", None, false, false),
        (None, "shop.web", None, true, false),
    ];
    for (theirs, name, ours, reported, taken) in rows {
        let mut test = Harness::new();
        test.cluster_uid = ours.map(str::to_owned);
        let mut tags = json!({"k8s-service-uid": OTHER_UID, "k8s-service": name});
        if let Some(theirs) = theirs {
            tags["k8s-cluster-uid"] = theirs.into();
        }
        let uuid = test.place(json!({"name": "old", "tags": tags}));
        test.set("uuid", &uuid);
        if reported {
            test.set("bowline.dev/take-over", &uuid);
        }
        let outcome = test.ensure().await;
        if taken {
            assert_eq!(outcome.good().reasons(), ["LoadBalancerTakenOver"]);
            let writes = test.changes();
            begins(&writes[0], "PATCH load-balancers {\"tags\":");
            assert_eq!(test.balancer().tags["k8s-service-uid"], UID);
            assert_eq!(test.pool().members.len(), 2);
        } else {
            outcome.problem_of("LoadBalancerNotOurs");
            assert_eq!(
                test.writes(),
                [""; 0],
                "{theirs:?} {name} {ours:?} {reported}"
            );
        }
    }
    // As long as the Service with that uid exists it is its own, or may exist: some Service cannot
    // be read.
    let mut test = Harness::new();
    test.cluster_uid = Some("a".into());
    let tags =
        json!({"k8s-service-uid": OTHER_UID, "k8s-cluster-uid": "a", "k8s-service": "shop.web"});
    let uuid = test.place(json!({"name": "old", "tags": tags}));
    test.set("uuid", &uuid).others = vec![named("api", OTHER_UID)];
    test.ensure().await.problem_of("LoadBalancerNotOurs");
    test.others.clear();
    test.all_known = false;
    assert!(test.ensure().await.error.is_some());
    assert_eq!(test.writes(), [""; 0]);
    test.all_known = true;
    test.ensure().await.good();
}

#[tokio::test(start_paused = true)]
async fn a_load_balancer_that_was_lost_is_made_again_and_reported() {
    let mut test = Harness::new();
    test.ensure().await.good();
    let lost = test.balancer().uuid;
    test.sim.remove(&lost).unwrap();
    test.settle().await;
    let outcome = test.ensure().await;
    assert_eq!(outcome.good().reasons(), ["LoadBalancerRecreated"]);
    let new = test.balancer();
    assert_eq!(test.get("uuid"), new.uuid);
    assert_eq!(
        test.service.ingress[0].ip,
        Some(new.vip_addresses[0].to_string())
    );
    // Not so for a Service that was of another type for a while.
    test.delete().await.good();
    test.service.ingress.clear();
    assert_eq!(test.ensure().await.good().reasons(), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn orphans_are_found_by_their_mark_and_removed_only_with_it() {
    let mut test = Harness::new();
    let mut spec = tagged(OTHER_UID, Some("prod-1"));
    spec["tags"]["k8s-cluster-uid"] = "a".into();
    let uuid = test.place(spec.clone());
    test.place(json!({"name": "unmarked"}));
    // One that was there before its Service outlives it.
    spec["tags"]["bowline-adopted"] = "true".into();
    let adopted = test.place(spec);
    let marked = test.marked().await;
    let unsure = matches!(
        marked[0].cluster,
        ClusterMatch::Unclear(_) | ClusterMatch::Foreign
    );
    assert!(unsure, "names are given twice: {marked:?}");
    test.calls();
    test.cluster_uid = Some("a".into());
    let marked = test.marked().await;
    let [orphan] = marked.as_slice() else {
        panic!("{marked:?}");
    };
    assert_eq!((&orphan.id, &*orphan.service_uid), (&uuid, OTHER_UID));
    assert_eq!(orphan.cluster, ClusterMatch::Ours);
    assert_eq!(test.calls().len(), 1);
    let mut changed = orphan.clone();
    changed.service_uid = UID.into();
    assert!(test.balancers().remove_orphan(&changed).await.is_err());
    test.sim.freeze_balancer(&uuid).unwrap();
    assert!(test.balancers().remove_orphan(orphan).await.is_err());
    assert_eq!(test.writes(), [""; 0]);
    test.sim.thaw_balancer(&uuid).unwrap();
    test.balancers().remove_orphan(orphan).await.unwrap();
    test.balancers().remove_orphan(orphan).await.unwrap();
    let mut changed = orphan.clone();
    changed.id = adopted;
    assert!(test.balancers().remove_orphan(&changed).await.is_err());
    assert_eq!(test.all().len(), 2);
    let test = Harness::with(&[("CLOUDSCALE_OWNERSHIP_TAGS", "false")]);
    test.place(tagged(OTHER_UID, None));
    assert_eq!(test.marked().await, []);
}
