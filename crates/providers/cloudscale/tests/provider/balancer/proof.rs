//! Whose is a load balancer? The cases of the proof that one provider can show by itself.

use bowline_core::{NamespaceRule, Verb};
use bowline_simulator_cloudscale::BalancerInfo;
use bowline_test_kit::begins;
use serde_json::{Value, json};

use super::harness::{Harness, UID, named, port, proxied, set, steps};
use crate::harness::A;

const OTHER_UID: &str = "0d9b1f6e-1111-4a3f-8f6e-3b9d2a7c1e55";

/// What somebody made by hand for the API server.
fn kube_api() -> Value {
    json!({"name": "kube-api", "pools": [{
        "name": "kube-api",
        "members": [{"address": "10.20.0.11", "protocol_port": 6443, "name": "cp-1"}],
        "listeners": [{"name": "kube-api", "protocol_port": 6443}],
    }]})
}

/// The load balancer `edge` as the original makes it for a Service with that node port, on that
/// machine.
fn edge(address: &str, node_port: u16) -> Value {
    json!({"name": "edge", "pools": [{
        "name": "tcp/http",
        "members": [{"address": address, "protocol_port": node_port, "monitor_port": node_port,
                     "name": format!("{address}:{node_port}")}],
        "listeners": [{"name": "tcp/80", "protocol_port": 80}],
        "monitor": {"type": "tcp"},
    }]})
}

fn find(test: &Harness, uuid: &str) -> BalancerInfo {
    let all = test.all().into_iter();
    all.clone().find(|it| it.uuid == uuid).unwrap_or_else(|| {
        panic!("{uuid} is gone: {:?}", all.collect::<Vec<_>>());
    })
}

#[tokio::test(start_paused = true)]
async fn proof_case_16_what_was_made_by_hand_is_left_alone_however_it_is_named() {
    for how in ["name", "uuid", "bowline.dev/take-over"] {
        let mut test = Harness::new();
        let uuid = test.place(kube_api());
        let before = test.balancer();
        let value = if how == "name" { "kube-api" } else { &uuid };
        test.set(how, value);
        let outcome = test.ensure().await;
        let problem = outcome.problem_of("LoadBalancerNotOurs");
        assert_eq!(problem.contains(&uuid), how != "name", "{problem}");
        let outcome = test.delete().await;
        assert_eq!(outcome.good().reasons(), ["LoadBalancerNotOurs"], "{how}");
        assert!(outcome.plan.is_empty(), "the Service can go");
        assert_eq!(test.writes(), [""; 0], "{how}");
        assert_eq!(test.balancer(), before);
    }
}

#[tokio::test(start_paused = true)]
async fn proof_case_17_the_originals_custom_name_is_proven_by_status_or_by_targets_and_marked_first()
 {
    for (address, shown) in [("10.20.0.11", false), ("10.20.0.99", true)] {
        let mut test = Harness::new();
        test.nodes.truncate(1);
        let uuid = test.place(edge(address, 31080));
        test.set("name", "edge").set("uuid", &uuid);
        if shown {
            let vips = test.balancer().vip_addresses;
            test.service.ingress = vips.iter().map(|ip| proxied(&ip.to_string())).collect();
        } else {
            test.set("force-hostname", "edge.example.org");
        }
        test.ensure().await.good();
        let writes = test.changes();
        begins(&writes[0], "PATCH load-balancers {\"tags\":");
        let others = writes.iter().filter(|it| !it.contains("members"));
        assert_eq!(others.count(), 1, "{writes:?}");
        assert_eq!(test.balancer().tags["k8s-service-uid"], UID);
    }
    // The type is changed in the very moment of the switch: node ports and status are gone.
    let mut test = Harness::new();
    let uuid = test.place(edge("10.20.0.11", 31080));
    test.set("name", "edge").set("uuid", &uuid);
    test.service.is_load_balancer = false;
    test.service.ports = vec![port("http", "TCP", 80, 0)];
    test.delete().await.good();
    assert_eq!(test.all(), []);
}

#[tokio::test(start_paused = true)]
async fn proof_case_18_a_node_port_that_another_cluster_uses_proves_nothing() {
    let mut test = Harness::new();
    let uuid = test.place(edge("10.20.0.99", 31080));
    test.set("name", "edge").set("uuid", &uuid);
    test.ensure().await.problem_of("LoadBalancerNotOurs");
    assert_eq!(
        test.delete().await.good().reasons(),
        ["LoadBalancerNotOurs"]
    );
    assert_eq!(test.writes(), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn proof_case_17_without_tags_a_condition_remembers_what_was_proven() {
    let mut test = Harness::with(&[("CLOUDSCALE_OWNERSHIP_TAGS", "false")]);
    let uuid = test.place(edge("10.20.0.11", 31080));
    test.set("name", "edge").set("uuid", &uuid);
    let draft = test.draft(bowline_core::Goal::Present).await.unwrap();
    let records = draft.executor.publication(false).records;
    assert_eq!(records[0].message, uuid);
    // Its ports change: what is on it proves nothing any more.
    test.service.ports = vec![port("http", "TCP", 80, 32_000)];
    test.ensure().await.problem_of("LoadBalancerNotOurs");
    test.service.conditions = records;
    test.ensure().await.good();
    assert_eq!(test.balancer().uuid, uuid);
    assert!(test.balancer().tags.is_empty());
}

#[tokio::test(start_paused = true)]
async fn proof_case_19_a_living_services_load_balancer_moves_by_its_own_word_alone() {
    let mut test = Harness::new();
    test.ensure().await.good();
    let web_s = test.balancer();
    let mut thief = named("thief", OTHER_UID);
    thief.key.namespace = "infra".into();
    thief.ports[0].node_port = 31081;
    set(&mut thief, "bowline.dev/take-over", &web_s.uuid);
    let web = std::mem::replace(&mut test.service, thief);
    test.others = vec![web];
    test.rules.adoption = NamespaceRule::Any;
    test.calls();
    test.settle().await;
    test.ensure().await.problem_of("LoadBalancerNotOurs");
    test.delete().await.good();
    assert_eq!(test.writes(), [""; 0]);
    assert_eq!(test.balancer().tags, web_s.tags);
    // The owner hands it over.
    set(&mut test.others[0], "bowline.dev/hand-over", "infra/thief");
    // What is not taken yet does not go with the other.
    assert!(test.delete().await.good().plan.is_empty());
    let outcome = test.ensure().await;
    assert_eq!(outcome.good().reasons(), ["LoadBalancerTakenOver"]);
    assert_eq!(test.balancer().uuid, web_s.uuid);
    assert_eq!(test.balancer().tags["k8s-service-uid"], OTHER_UID);
    // The former owner gets a new one, and leaves the other alone when it goes.
    let web = test.others.remove(0);
    let thief = std::mem::replace(&mut test.service, web);
    test.others = vec![thief];
    test.settle().await;
    test.ensure().await.good();
    assert_eq!(test.all().len(), 2);
    assert_ne!(test.get("uuid"), web_s.uuid);
    test.delete().await.good();
    assert_eq!(test.balancer().uuid, web_s.uuid);
}

#[tokio::test(start_paused = true)]
async fn proof_case_20_an_adopted_load_balancer_keeps_what_others_made_on_it() {
    let mut test = Harness::new();
    let uuid = test.place(kube_api());
    let before = test.balancer();
    test.set("bowline.dev/take-over", &uuid);
    test.rules.adoption = NamespaceRule::Only(["infra".to_owned()].into());
    test.ensure().await.problem_of("LoadBalancerNotOurs");
    test.rules.adoption = NamespaceRule::Only(["shop".to_owned()].into());
    let outcome = test.ensure().await;
    assert_eq!(outcome.good().reasons(), ["LoadBalancerAdopted"]);
    let writes = test.changes();
    begins(&writes[0], "PATCH load-balancers {\"tags\":");
    let adopted = test.balancer();
    assert_eq!(adopted.tags["bowline-adopted"], "true");
    assert_eq!(adopted.name, "kube-api");
    assert_eq!(adopted.pools[0], before.pools[0], "untouched");
    assert_eq!(adopted.pools[1].listeners[0].protocol_port, 80);
    // Nothing is left to be done, also without the operator's word.
    test.rules.adoption = NamespaceRule::Never;
    test.settle().await;
    assert!(test.ensure().await.good().plan.is_empty());
    // With its Service only what was made for it goes.
    let plan = test.delete().await.good().plan.clone();
    assert!(
        !steps(&plan)
            .iter()
            .any(|it| it.starts_with("delete load balancer"))
    );
    let after = test.balancer();
    assert_eq!((after.pools, after.tags), (before.pools, before.tags));
}

#[tokio::test(start_paused = true)]
async fn proof_case_20_a_foreign_listener_at_a_wanted_port_gives_way_and_its_pool_stays() {
    let mut test = Harness::new();
    let uuid = test.place(edge("10.20.0.99", 31999));
    test.set("bowline.dev/take-over", &uuid);
    test.rules.adoption = NamespaceRule::Any;
    test.ensure().await.good();
    let pools = test.balancer().pools;
    assert_eq!(pools.len(), 2);
    assert_eq!(pools[0].members.len(), 1, "the other's pool stays as it is");
    assert_eq!((pools[0].listeners.len(), pools[1].listeners.len()), (0, 1));
}

#[tokio::test(start_paused = true)]
async fn proof_case_21_two_clusters_of_one_name_with_one_manifest_do_not_meet() {
    let mut test = Harness::new();
    test.cluster_uid = Some("a".into());
    test.set("name", "fixed").ensure().await.good();
    let first = test.balancer();
    // The same manifest in the other cluster; also a clone, where the Service has the same uid.
    for uid in [OTHER_UID, UID] {
        let mut service = named("web", uid);
        set(&mut service, "name", "fixed");
        test.service = service;
        test.cluster_uid = Some("b".into());
        test.settle().await;
        test.calls();
        test.ensure().await.problem_of("LoadBalancerNotOurs");
        test.delete().await.good();
        assert_eq!(test.writes(), [""; 0]);
        let marked = test.marked().await;
        assert_eq!(marked[0].cluster, bowline_core::ClusterMatch::Foreign);
    }
    assert_eq!(test.balancer().tags, first.tags);
}

#[tokio::test(start_paused = true)]
async fn proof_case_24_the_default_name_of_anothers_is_refused_as_a_setting() {
    let mut test = Harness::new();
    let uuid = test.place(json!({"name": format!("k8s-service-{OTHER_UID}")}));
    test.set("name", &format!("k8s-service-{OTHER_UID}"));
    test.refused("loadbalancer-name").await;
    assert!(test.delete().await.good().plan.is_empty());
    assert_eq!(test.writes(), [""; 0]);
    assert_eq!(test.balancer().uuid, uuid);
    test.set("name", &format!("k8s-service-{UID}"));
    test.ensure().await.good();
}

#[tokio::test(start_paused = true)]
async fn proof_case_25_a_floating_ip_on_a_server_is_not_moved_unless_the_operator_says_so() {
    let mut test = Harness::new();
    let address = "203.0.113.77".parse().unwrap();
    test.sim.assign_floating_ip(address, Some(A)).unwrap();
    test.set("floating-ips", r#"["203.0.113.77"]"#);
    let outcome = test.ensure().await;
    let problem = outcome.problem_of("FloatingIPInUse");
    assert!(
        problem.contains("203.0.113.77") && !problem.contains(A),
        "{problem}"
    );
    assert_eq!(test.pool().members.len(), 2, "the rest goes on");
    assert_eq!(test.balancer().floating_ips.len(), 0);
    test.rules.floating_ips = NamespaceRule::Only(["shop".to_owned()].into());
    test.ensure().await.good();
    assert_eq!(test.balancer().floating_ips.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn proof_case_29_doubles_with_our_own_mark_go_when_the_one_in_use_is_good() {
    let mut test = Harness::new();
    test.cluster_uid = Some("a".into());
    test.ensure().await.good();
    let ours = test.balancer();
    let double = json!({"name": ours.name, "tags": ours.tags});
    let late = test.place(double.clone());
    test.settle().await;
    test.calls();
    let outcome = test.ensure().await;
    assert_eq!(outcome.good().reasons(), ["DuplicateLoadBalancer"]);
    let last = outcome
        .plan
        .steps
        .iter()
        .rfind(|it| it.verb == Verb::Delete);
    assert_eq!(last.unwrap().object.id.as_deref(), Some(late.as_str()));
    assert_eq!(test.writes(), [format!("DELETE /v1/load-balancers/{late}")]);
    assert_eq!(find(&test, &ours.uuid).uuid, ours.uuid);
    // With the Service all of them go.
    test.place(double);
    test.settle().await;
    test.delete().await.good();
    assert_eq!(test.all(), []);
}
