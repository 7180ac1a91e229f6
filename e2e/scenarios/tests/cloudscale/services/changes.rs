//! A Service changes: its type, its floating IPs, annotations that others write.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use bowline_scenarios::objects::{annotated, entrances, finalizers, service, text};
use bowline_scenarios::scenario;
use bowline_simulator_cloudscale::{BalancerInfo, FloatingIpSpec, MemberInfo};
use serde_json::{Value, json};

use super::service_harness::{FINALIZER, ServiceHarness, UUID, annotation};

const FLOATING_IPS: &str = "k8s.cloudscale.ch/loadbalancer-floating-ips";

#[scenario]
async fn cloudscale_case_64_another_type_takes_the_load_balancer_away_and_back_makes_a_new_one(
    test: ServiceHarness,
) {
    test.serve().await;
    let first = test.balancer().uuid;
    test.change_service("web", |it| {
        it["spec"]["type"] = "ClusterIP".into();
        let spec = it["spec"].as_object_mut().unwrap();
        spec.remove("allocateLoadBalancerNodePorts");
        spec.remove("externalTrafficPolicy");
        spec["ports"][0].as_object_mut().unwrap().remove("nodePort");
        it["status"]["loadBalancer"] = serde_json::json!({});
    })
    .await;
    let plain = test
        .until_service("web", "it is let go", |it| finalizers(it).is_empty())
        .await;
    test.message("web", "DeletedLoadBalancer").await;
    assert_eq!(test.cloud.balancers(), []);
    assert_eq!(entrances(&plain), [""; 0]);
    test.change_service("web", |it| it["spec"]["type"] = "LoadBalancer".into())
        .await;
    let shown = test.until_published("web").await;
    let second = test.balancer();
    assert_ne!(second.uuid, first);
    assert_eq!(annotation(&shown, UUID), second.uuid);
    assert_eq!(finalizers(&shown), [FINALIZER]);
    assert_eq!(test.members().len(), 2);
}

#[scenario]
async fn cloudscale_case_58_a_service_in_a_conflict_can_go_and_the_other_one_proceeds(
    test: ServiceHarness,
) {
    let address: IpAddr = "203.0.113.77".parse().unwrap();
    let spec = FloatingIpSpec {
        address: Some(address),
        ip_version: None,
        project: "default".into(),
        region: Some("rma".into()),
        global: false,
        machine: None,
        load_balancer: None,
        tags: BTreeMap::new(),
    };
    test.cloud.add_floating_ip(&spec).unwrap();
    let wish = (FLOATING_IPS, r#"["203.0.113.77/32"]"#);
    test.serve().await;
    test.create_service(service("other")).await;
    test.until_ensured("other").await;
    test.annotate("web", wish.0, Some(wish.1)).await;
    test.until("the address is moved", |_| {
        test.cloud
            .balancers()
            .iter()
            .any(|it| it.floating_ips == [address])
    })
    .await;
    test.create_service(annotated("third", &[wish])).await;
    test.annotate("other", wish.0, Some(wish.1)).await;
    for name in ["third", "other"] {
        let message = test.message(name, "FloatingIPConflict").await;
        assert!(message.contains("assigned to another service"), "{message}");
    }
    // The one that has the address goes in the middle of the conflict, and so does another.
    test.delete_service("third").await;
    test.until_service_gone("third").await;
    test.delete_service("web").await;
    test.until_service_gone("web").await;
    let other = test.service("other");
    test.until("the other one gets the address", |_| {
        let all = test.cloud.balancers();
        all.len() == 1 && all[0].floating_ips == [address]
    })
    .await;
    assert_eq!(test.balancer().uuid, annotation(&other, UUID));
}

#[scenario]
async fn a_bad_annotation_is_told_with_its_key_and_members_go_on_being_updated(
    test: ServiceHarness,
) {
    let shown = test.serve().await;
    let mark = test.mark();
    let key = "k8s.cloudscale.ch/loadbalancer-timeout-client-data-ms";
    test.annotate("web", key, Some("5s")).await;
    let message = test.message("web", "InvalidLoadBalancerConfig").await;
    assert!(message.contains(key) && message.contains("5s"), "{message}");
    let troubled = test
        .until_service("web", "its condition tells", |it| {
            condition(it)["status"] == "False"
        })
        .await;
    assert!(text(&condition(&troubled)["message"]).contains(key));
    test.delete("worker-b").await;
    test.until_members(&["11"]).await;
    assert_eq!(test.changes_from(mark), ["DELETE members"]);
    test.annotate("web", key, Some("60000")).await;
    let healed = test
        .until_service("web", "its condition is good", |it| {
            condition(it)["status"] == "True"
        })
        .await;
    let listener = &test.balancer().pools[0].listeners[0];
    assert_eq!(listener.timeout_client_data_ms, 60_000);
    assert_eq!(entrances(&healed), entrances(&shown));
}

#[scenario]
async fn cloudscale_case_55_another_traffic_policy_never_takes_more_than_one_member_away(
    test: ServiceHarness,
) {
    test.serve().await;
    test.change_service("web", |it| {
        it["spec"]["externalTrafficPolicy"] = "Local".into();
    })
    .await;
    let port = test.service("web")["spec"]["healthCheckNodePort"].as_u64();
    assert!(port.is_some_and(|port| port > 0));
    let mut fewest = usize::MAX;
    test.until("the members are checked on the other port", |_| {
        let pools = test.balancer().pools;
        let members = pools.iter().map(|it| it.members.len()).min();
        fewest = fewest.min(members.unwrap_or_default());
        let [pool] = pools.as_slice() else {
            return false;
        };
        let checked = |it: &MemberInfo| it.monitor_port.map(u64::from) == port;
        let http = pool.monitor.as_ref().is_some_and(|it| it.kind == "http");
        http && pool.members.len() == 2 && pool.members.iter().all(checked)
    })
    .await;
    assert!(fewest >= 1, "{fewest}");
}

/// What the Service says about its load balancer.
fn condition(service: &Value) -> Value {
    let all = service["status"]["conditions"].as_array();
    let mut all = all.into_iter().flatten();
    let own = all.find(|it| it["type"] == "bowline.dev/LoadBalancerReady");
    own.cloned().unwrap_or_default()
}

/// Names of ports are exchanged: pools are called by them, and while a listener leads to a pool, no targets of another
/// port come there.
#[scenario]
async fn exchanged_port_names_never_lead_a_port_to_the_targets_of_the_other(test: ServiceHarness) {
    let mut web = service("web");
    let port = |name: &str, port: u16| json!({ "name": name, "port": port, "targetPort": 8080 });
    web["spec"]["ports"] = json!([port("http", 80), port("https", 443)]);
    test.create_service(web).await;
    test.until_ensured("web").await;
    let (before, mark) = (test.balancer(), test.mark());
    test.change_service("web", |it| {
        it["spec"]["ports"][0]["name"] = "https".into();
        it["spec"]["ports"][1]["name"] = "http".into();
    })
    .await;
    let targets = |balancer: &BalancerInfo| -> BTreeMap<u16, BTreeSet<u16>> {
        let pools = balancer.pools.iter();
        let targets = pools.flat_map(|pool| {
            let ports: BTreeSet<u16> = pool.members.iter().map(|it| it.protocol_port).collect();
            let listeners = pool.listeners.iter();
            listeners.map(move |it| (it.protocol_port, ports.clone()))
        });
        targets.collect()
    };
    let names = |balancer: &BalancerInfo| -> BTreeSet<(String, u16)> {
        let pools = balancer.pools.iter();
        let named = pools.flat_map(|pool| {
            let listeners = pool.listeners.iter();
            listeners.map(|it| (pool.name.clone(), it.protocol_port))
        });
        named.collect()
    };
    let wanted = [("tcp/https".to_owned(), 80), ("tcp/http".to_owned(), 443)];
    test.until("the names are exchanged", |_| {
        names(&test.balancer()) == wanted.clone().into() && test.balancer().pools.len() == 2
    })
    .await;
    // Each port leads where it led.
    assert_eq!(targets(&test.balancer()), targets(&before));
    let old: Vec<&str> = before.pools.iter().map(|it| it.uuid.as_str()).collect();
    let entries = test.entries().into_iter().skip(mark);
    let brought = entries.filter(|it| it.method == "POST" && it.path.ends_with("/members"));
    let brought: Vec<String> = brought.map(|it| it.path).collect();
    assert_eq!(brought.len(), 4, "{brought:?}");
    let to_old = |path: &&String| old.iter().any(|id| path.contains(id));
    assert_eq!(brought.iter().find(to_old), None);
}

/// The health check port is served only while the policy is `Local`: whatever checks targets there goes before they are
/// checked elsewhere, and its successor comes when all of them are.
#[scenario]
async fn another_traffic_policy_moves_the_targets_between_the_old_monitor_and_the_new_one(
    test: ServiceHarness,
) {
    let mut web = service("web");
    web["spec"]["externalTrafficPolicy"] = "Local".into();
    test.create_service(web).await;
    let shown = test.until_ensured("web").await;
    let health = shown["spec"]["healthCheckNodePort"].as_u64();
    let checked = |test: &ServiceHarness| -> BTreeSet<Option<u64>> {
        let pool = test.balancer().pools.remove(0);
        let ports = pool.members.iter().map(|it| it.monitor_port.map(u64::from));
        ports.collect()
    };
    assert_eq!(checked(&test), [health].into());
    let replaced = ["DELETE members", "POST members"].repeat(2);
    for (policy, first, last) in [
        (
            "Cluster",
            &["DELETE health-monitors"][..],
            &["POST health-monitors"][..],
        ),
        (
            "Local",
            &[],
            &["DELETE health-monitors", "POST health-monitors"],
        ),
    ] {
        let mark = test.mark();
        let change = json!({ "spec": { "externalTrafficPolicy": policy } });
        test.patch_service("web", change).await;
        test.until_asked(mark, "POST health-monitors").await;
        test.settle().await;
        let mut changes = test.changes_from(mark);
        // What takes the place of something waits until that has gone.
        changes.retain(|it| !it.ends_with(" -> 400"));
        assert_eq!(changes, [first, &replaced, last].concat());
    }
    let monitor = test.balancer().pools.remove(0).monitor;
    assert_eq!(monitor.unwrap().kind, "http");
}
