//! Cases on which load balancer is whose, on its end, and on failures.

use std::collections::BTreeMap;
use std::time::Duration;

use bowline_core::{Goal, Service};
use bowline_simulator::cloudscale::{BalancerStatus, BalancerTimings};
use bowline_simulator::faults::Action;
use bowline_simulator::journal::Entry;
use serde_json::{Value, json};

use super::shop::{NAME, Shop, UID, key, members, monitor, named, set, steps};
use crate::stage::{NOBODY, node};

const OTHER_UID: &str = "0d9b1f6e-1111-4a3f-8f6e-3b9d2a7c1e55";

fn refused(body: Value) -> Action {
    Action::Status {
        code: 400,
        headers: BTreeMap::new(),
        body: Some(body),
    }
}

fn tagged(service: &str, cluster: Option<&str>) -> Value {
    let mut tags = json!({"k8s-service-uid": service});
    if let Some(cluster) = cluster {
        tags["k8s-cluster-name"] = cluster.into();
    }
    json!({"name": NAME, "tags": tags})
}

#[tokio::test(start_paused = true)]
async fn cloudscale_case_36_a_lost_answer_makes_no_second_load_balancer() {
    for action in [Action::LostAnswer, Action::Html { code: 502 }] {
        let mut shop = Shop::new();
        shop.fault("POST", "/v1/load-balancers", 1, action.clone());
        let outcome = shop.ensure().await;
        if action == Action::LostAnswer {
            outcome.good();
        } else {
            assert!(outcome.error.as_deref().unwrap().contains("502"));
            shop.ensure().await.good();
        }
        assert_eq!(shop.get("uuid"), shop.balancer().uuid);
        assert_eq!(shop.pool().members.len(), 2);
    }
}

#[tokio::test(start_paused = true)]
async fn lost_answers_make_nothing_twice() {
    for path in [
        "/v1/load-balancers/pools",
        "/v1/load-balancers/pools/*/members",
        "/v1/load-balancers/listeners",
        "/v1/load-balancers/health-monitors",
    ] {
        let mut shop = Shop::new();
        shop.fault("POST", path, 1, Action::LostAnswer);
        shop.ensure().await.good();
        let pool = shop.pool();
        assert_eq!((pool.members.len(), pool.listeners.len()), (2, 1), "{path}");
        assert!(shop.ensure().await.good().plan.is_empty(), "{path}");
        // Cut before the API hears of it: an error, and the next try makes it.
        let mut shop = Shop::new();
        shop.fault("POST", path, 1, Action::Reset);
        assert!(shop.ensure().await.error.is_some(), "{path}");
        shop.ensure().await.good();
        let pool = shop.pool();
        assert_eq!((pool.members.len(), pool.listeners.len()), (2, 1), "{path}");
        assert!(shop.ensure().await.good().plan.is_empty(), "{path}");
    }
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
async fn cloudscale_case_63_deletion_waits_while_the_load_balancer_changes() {
    let mut shop = Shop::new();
    let uuid = shop.place_originals();
    shop.stage.sim.freeze_balancer(&uuid).unwrap();
    let draft = shop.draft(Goal::Absent).await.unwrap();
    let sim = shop.stage.sim.clone();
    let frozen = uuid.clone();
    let thaw = tokio::spawn(async move {
        tokio::time::sleep(Duration::from_secs(30)).await;
        sim.thaw_balancer(&frozen).unwrap();
    });
    let before = shop.stage.world.clock.now();
    shop.fault("DELETE", "*", 2, refused(json!({"detail": "not now"})));
    shop.carry_out(draft).await.good();
    thaw.await.unwrap();
    let calls = shop.calls();
    let deletes: Vec<_> = calls.iter().filter(|it| it.is_mutating()).collect();
    let statuses: Vec<u16> = deletes.iter().map(|it| it.status).collect();
    assert_eq!(statuses, [400, 400, 204]);
    assert!(deletes[0].arrived.duration_since(before).as_secs() >= 30);
    assert_eq!(shop.all(), []);
    // Gone meanwhile is as good.
    let mut shop = Shop::new();
    let uuid = shop.place_originals();
    let draft = shop.draft(Goal::Absent).await.unwrap();
    shop.stage.sim.remove(&uuid).unwrap();
    shop.carry_out(draft).await.good();
}

#[tokio::test(start_paused = true)]
async fn cloudscale_case_65_deletion_reads_no_annotations() {
    let mut shop = Shop::new();
    shop.place_originals();
    shop.set("floating-ips", "[")
        .set("ip-mode", "vip")
        .set("vip-addresses", "nothing")
        .set("node-selector", "===")
        .set("name", "");
    let outcome = shop.delete().await;
    assert_eq!(
        steps(&outcome.good().plan),
        [format!("delete load balancer {NAME}")]
    );
    assert_eq!(shop.all(), []);
    assert!(shop.delete().await.good().plan.is_empty());
}

#[tokio::test(start_paused = true)]
async fn cloudscale_case_66_http_options_that_are_none_are_an_error() {
    for bad in [
        "null",
        "",
        "[]",
        r#"{"version":"1.0","host":"a"}"#,
        r#"{"method":"get"}"#,
    ] {
        let mut shop = Shop::new();
        shop.place_originals();
        shop.set("health-monitor-http", bad);
        let outcome = shop.ensure().await;
        let problem = outcome.problem("InvalidLoadBalancerConfig");
        assert!(problem.contains("health-monitor-http"), "{problem}");
        assert_eq!(shop.writes(), [""; 0]);
    }
}

#[tokio::test(start_paused = true)]
async fn cloudscale_case_67_a_node_of_another_cloud_disturbs_nobody() {
    let mut shop = Shop::new();
    let mut foreign = node("elsewhere", None);
    foreign.provider_id = Some("bigcorp://08d56bfe-40d0-4c68-a915-54f846c28c9e".into());
    shop.nodes.insert(0, foreign);
    let outcome = shop.ensure().await;
    assert_eq!(outcome.good().reasons(), [""; 0]);
    assert_eq!(shop.pool().members.len(), 2);
}

#[tokio::test(start_paused = true)]
async fn cloudscale_case_68_members_of_a_server_that_is_gone_go() {
    let mut shop = Shop::new();
    shop.ensure().await.good();
    shop.stage.sim.destroy("worker-b").unwrap();
    shop.settle().await;
    shop.nodes.push(node("stranger", None));
    let mut odd = node("odd", None);
    odd.provider_id = Some("cloudscale://invalid".into());
    shop.nodes.push(odd);
    let outcome = shop.ensure().await;
    assert_eq!(outcome.good().reasons(), ["NodeSkipped"; 3]);
    for (notice, words) in outcome.notices.iter().zip(["404", "no server", "invalid"]) {
        assert!(notice.message.contains(words), "{}", notice.message);
    }
    assert_eq!(members(&shop.pool()), ["10.20.0.11:31080"]);
}

#[tokio::test(start_paused = true)]
async fn cloudscale_case_70_a_monitor_is_made_when_the_old_one_has_made_room() {
    let mut shop = Shop::new();
    shop.ensure().await.good();
    let timings = BalancerTimings {
        removal: Duration::from_secs(8),
        ..BalancerTimings::default()
    };
    shop.stage.sim.set_balancer_timings(timings);
    shop.calls();
    shop.set("health-monitor-type", "http")
        .ensure()
        .await
        .good();
    let tries: Vec<u16> = shop
        .calls()
        .iter()
        .filter(|it| it.method == "POST")
        .map(|it| it.status)
        .collect();
    assert_eq!(tries, [400, 400, 400, 400, 201]);
    assert_eq!(monitor(&shop.pool()), "http 2/1/2/3");
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
async fn cloudscale_case_75_only_changing_is_waited_for() {
    for status in [
        BalancerStatus::Degraded,
        BalancerStatus::Stopped,
        BalancerStatus::Unknown,
    ] {
        let mut shop = Shop::new();
        let uuid = shop.place_originals();
        shop.stage
            .sim
            .set_balancer_status(&uuid, Some(status))
            .unwrap();
        shop.nodes.pop();
        shop.ensure().await.good();
        assert_eq!(shop.pool().members.len(), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn cloudscale_case_76_http_options_of_a_tcp_monitor_are_left_out() {
    let mut shop = Shop::new();
    shop.set("health-monitor-http", r#"{"version":"1.0"}"#)
        .ensure()
        .await
        .good();
    assert_eq!(monitor(&shop.pool()), "tcp 2/1/2/3");
    assert_eq!(shop.pool().monitor.unwrap().http, None);
    shop.calls();
    assert!(shop.ensure().await.good().plan.is_empty());
    assert_eq!(shop.writes(), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn cloudscale_case_77_removed_http_options_are_taken_back() {
    let mut shop = Shop::new();
    shop.set("health-monitor-type", "http")
        .set(
            "health-monitor-http",
            r#"{"url_path":"/ready","method":"HEAD"}"#,
        )
        .ensure()
        .await
        .good();
    shop.calls();
    shop.unset("health-monitor-http").ensure().await.good();
    assert_eq!(
        shop.changes(),
        [
            r#"PATCH load-balancers/health-monitors {"http":{"url_path":"/"}}"#,
            r#"PATCH load-balancers/health-monitors {"http":{"method":"GET"}}"#,
        ]
    );
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
async fn cloudscale_case_79_listeners_without_a_pool_make_room_only_where_they_must() {
    let mut shop = Shop::new();
    shop.place(
        json!({"name": NAME, "listeners": [{"protocol_port": 80}, {"protocol_port": 9999}]}),
    );
    shop.ensure().await.good();
    let balancer = shop.balancer();
    let loose: Vec<u16> = balancer
        .loose_listeners
        .iter()
        .map(|it| it.protocol_port)
        .collect();
    assert_eq!(loose, [9999]);
    assert_eq!(shop.pool().listeners[0].protocol_port, 80);
}

#[tokio::test(start_paused = true)]
async fn cloudscale_case_82_errors_name_the_key_the_value_and_what_the_cloud_said() {
    let mut shop = Shop::new();
    shop.set("timeout-client-data-ms", "5s");
    let outcome = shop.ensure().await;
    let problem = outcome.problem("InvalidLoadBalancerConfig");
    assert!(
        problem.contains("k8s.cloudscale.ch/loadbalancer-timeout-client-data-ms"),
        "{problem}"
    );
    assert!(problem.contains("5s"), "{problem}");
    shop.unset("timeout-client-data-ms");
    let no = refused(json!({"allowed_cidrs": "nobody is allowed"}));
    shop.fault("POST", "/v1/load-balancers/listeners", 1, no);
    let error = shop.ensure().await.error.unwrap();
    for word in ["400", "allowed_cidrs", "nobody is allowed"] {
        assert!(error.contains(word), "{error}");
    }
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
async fn cloudscale_case_87_an_empty_name_is_an_error() {
    for with_uuid in [false, true] {
        let mut shop = Shop::new();
        if with_uuid {
            shop.place_originals();
        }
        shop.set("name", "");
        let outcome = shop.ensure().await;
        assert!(
            outcome
                .problem("InvalidLoadBalancerConfig")
                .contains("loadbalancer-name")
        );
        assert_eq!(shop.writes(), [""; 0]);
    }
}

#[tokio::test(start_paused = true)]
async fn cloudscale_case_90_another_host_in_a_link_replaces_no_member() {
    let mut shop = Shop::new();
    shop.place_originals();
    shop.ensure().await.good();
    shop.calls();
    // The links of the members' subnets and of the servers' name another host than before.
    let body =
        {
            let draft = shop.draft(Goal::Present).await.unwrap();
            assert!(draft.plan.is_empty());
            let calls = shop.calls();
            assert!(calls.iter().any(|call| call.path.ends_with("/members")));
            let members = shop.pool().members;
            json!(members.iter().map(|it| json!({
            "uuid": it.uuid, "name": it.name, "enabled": true, "address": it.address,
            "protocol_port": it.protocol_port, "monitor_port": it.monitor_port,
            "subnet": {"href": "https://other.example.org/v1/subnets/x", "uuid": it.subnet,
                       "cidr": "10.20.0.0/24"},
        })).collect::<Vec<_>>())
        };
    let action = Action::Status {
        code: 200,
        headers: BTreeMap::new(),
        body: Some(body),
    };
    shop.fault("GET", "/v1/load-balancers/pools/*/members", 1, action);
    assert!(shop.ensure().await.good().plan.is_empty());
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
    let shop = Shop::new();
    let uuid = shop.place(tagged(OTHER_UID, Some("prod-1")));
    shop.place(json!({"name": "unmarked"}));
    let marked = shop.balancers().marked().await.unwrap();
    let [orphan] = marked.as_slice() else {
        panic!("{marked:?}");
    };
    assert_eq!((&orphan.id, &*orphan.service_uid), (&uuid, OTHER_UID));
    assert_eq!(orphan.cluster_name.as_deref(), Some("prod-1"));
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
    assert_eq!(shop.balancers().marked().await.unwrap(), []);
}
