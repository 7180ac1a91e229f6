//! Defects of the original that only the whole manager can show to have none of.

use bowline_scenarios::objects::{finalizers, service};
use bowline_scenarios::{scenario, slow};
use serde_json::json;

use super::service_harness::{CONFIG_VERSION, FINALIZER, ServiceHarness, UUID, ZONE, annotation};

const PORT_SETTINGS: &str = "k8s.cloudscale.ch/loadbalancer-port-settings";

#[scenario]
async fn cloudscale_defect_d18_annotations_of_others_survive_ours_and_a_service_without_any_gets_them(
    test: ServiceHarness,
) {
    let path = "/api/v1/namespaces/shop/services/web/status";
    let mut bare = service("web");
    bare["metadata"]
        .as_object_mut()
        .unwrap()
        .remove("annotations");
    // The first patch is the finalizer's; the second one is on its way when somebody else writes.
    let held = test.fault(slow("PATCH", path).after(1).times(1));
    test.create_service(bare).await;
    held.struck(1).await;
    test.annotate("web", "example.org/note", Some("mine")).await;
    test.until_ensured("web").await;
    let shown = test
        .until_service("web", "it has all annotations", |it| {
            !annotation(it, ZONE).is_empty()
        })
        .await;
    assert_eq!(annotation(&shown, "example.org/note"), "mine");
    assert_eq!(annotation(&shown, UUID), test.balancer().uuid);
    assert_eq!(annotation(&shown, CONFIG_VERSION), "1");
    assert_eq!(test.count_of("POST load-balancers"), 1);
}

#[scenario]
async fn cloudscale_defect_d21_each_port_has_its_settings_and_a_wrong_one_concerns_only_itself(
    mut test: ServiceHarness,
) {
    let mut two = service("web");
    let second = json!({"name": "dns", "protocol": "UDP", "port": 53, "targetPort": 53});
    two["spec"]["ports"].as_array_mut().unwrap().push(second);
    let said = r#"{"80": {"pool-protocol": "proxyv2", "health-monitor-type": "ping"},
                       "53/udp": {"health-monitor-type": "udp-connect"}}"#;
    two["metadata"]["annotations"][PORT_SETTINGS] = said.into();
    test.create_service(two).await;
    test.until_ensured("web").await;
    let made = test.balancer();
    let pools = made.pools.iter();
    let seen: Vec<[&str; 3]> = pools
        .map(|it| {
            [
                &*it.name,
                &*it.protocol,
                &*it.monitor.as_ref().unwrap().kind,
            ]
        })
        .collect();
    assert_eq!(
        seen,
        [
            ["tcp/http", "proxyv2", "ping"],
            ["udp/dns", "udp", "udp-connect"]
        ]
    );
    // A port that is not there: told, and members follow the nodes all the same.
    let mark = test.mark();
    let wrong = r#"{"81": {"pool-protocol": "proxy"}}"#;
    test.annotate("web", PORT_SETTINGS, Some(wrong)).await;
    let message = test.message("web", "InvalidLoadBalancerConfig").await;
    assert!(
        message.contains(PORT_SETTINGS) && message.contains("80/tcp (http), 53/udp (dns)"),
        "{message}"
    );
    test.delete("worker-b").await;
    test.until_members(&["11"]).await;
    test.until("both pools follow", |_| {
        let pools = test.balancer().pools;
        pools.iter().all(|it| it.members.len() == 1)
    })
    .await;
    assert_eq!(
        test.changes_from(mark),
        ["DELETE members", "DELETE members"]
    );
    // Put right, it holds also for the next manager, which changes nothing.
    test.annotate("web", PORT_SETTINGS, Some(said)).await;
    let before = test.mark();
    test.restart().await;
    test.until_looked(before).await;
    assert_eq!(
        test.changes_from(mark),
        ["DELETE members", "DELETE members"]
    );
}

#[scenario]
async fn cloudscale_defect_d23_a_status_that_is_right_is_not_written_again() {
    let period = ("CLOUDSCALE_DRIFT_CHECK_PERIOD", "10s");
    let mut test = ServiceHarness::with(&[period], &[]).await;
    let shown = test.serve().await;
    let ingress = &shown["status"]["loadBalancer"]["ingress"][0];
    assert_eq!(ingress["ipMode"], "Proxy");
    let mark = test.mark();
    for value in ["one", "two", "three"] {
        let mark = test.mark();
        test.annotate("web", "example.org/note", Some(value)).await;
        test.until_looked(mark).await;
    }
    let before = test.mark();
    test.restart().await;
    test.until_looked(before).await;
    test.seconds(30).await;
    assert_eq!(test.written_from(mark), []);
    assert_eq!(test.service("web")["status"], shown["status"]);
    test.end().await;
}

#[scenario]
async fn cloudscale_defect_d26_corrections_and_deletions_are_heard_while_the_cloud_is_at_work(
    test: ServiceHarness,
) {
    test.serve().await;
    let id = test.balancer().uuid;
    // It would be changing for ever.
    test.cloud.freeze_balancer(&id).unwrap();
    let mark = test.mark();
    for port in [8080, 8081, 8082] {
        test.change_service("web", |it| it["spec"]["ports"][0]["port"] = port.into())
            .await;
        test.seconds(4).await;
    }
    // Meanwhile nobody else waits.
    test.create_service(service("other")).await;
    test.until_ensured("other").await;
    test.cloud.thaw_balancer(&id).unwrap();
    let has_port = |port: u16| {
        let all = test.cloud.balancers();
        let own = all.iter().find(|it| it.uuid == id);
        own.is_some_and(|it| {
            let listeners = it.pools.iter().flat_map(|pool| &pool.listeners);
            let ports: Vec<u16> = listeners.map(|it| it.protocol_port).collect();
            ports == [port]
        })
    };
    test.until("the last port is served", |_| has_port(8082))
        .await;
    let listeners = test.cloud_calls("/v1/load-balancers/listeners");
    let made = listeners.iter().filter(|it| it.method == "POST");
    let made: Vec<u64> = made
        .map(|it| it.body["protocol_port"].as_u64().unwrap())
        .filter(|port| *port != 80)
        .collect();
    assert_eq!(made, [8082]);
    // The same for a deletion.
    test.seconds(3).await;
    test.cloud.freeze_balancer(&id).unwrap();
    test.change_service("web", |it| it["spec"]["ports"][0]["port"] = 9090.into())
        .await;
    test.seconds(4).await;
    test.delete_service("web").await;
    test.message("web", "DeletingLoadBalancer").await;
    test.cloud.thaw_balancer(&id).unwrap();
    test.until_service_gone("web").await;
    let all = test.cloud.balancers();
    assert!(all.iter().all(|it| it.uuid != id), "{all:?}");
    assert_eq!(
        test.changes_from(mark).last().unwrap(),
        "DELETE load-balancers"
    );
}

#[scenario]
async fn cloudscale_defect_d29_the_finalizer_of_a_foreign_class_survives_deletions_and_restarts(
    mut test: ServiceHarness,
) {
    for (name, class) in [("old", "example.org/foo"), ("new", "bowline.dev/elsewhere")] {
        let mut foreign = service(name);
        foreign["spec"]["loadBalancerClass"] = class.into();
        foreign["metadata"]["finalizers"] = json!([FINALIZER]);
        test.create_service(foreign).await;
        test.delete_service(name).await;
    }
    test.serve().await;
    test.restart().await;
    test.delete_service("web").await;
    test.until_service_gone("web").await;
    test.seconds(10).await;
    for name in ["old", "new"] {
        assert_eq!(finalizers(&test.service(name)), [FINALIZER], "{name}");
        assert_eq!(test.service_writes(name), [], "{name}");
        // A class of ours without a cloud is told of; another's is none of our business.
        let events = test.events(name);
        let reported = events.iter().filter(|it| it.contains("UnknownCloud"));
        assert_eq!(reported.count(), events.len(), "{events:?}");
        assert_eq!(events.is_empty(), name == "old", "{events:?}");
    }
}
