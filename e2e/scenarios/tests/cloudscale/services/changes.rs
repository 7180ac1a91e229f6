//! A Service changes: its type, its floating IPs, annotations that others write.

use std::collections::BTreeMap;
use std::net::IpAddr;

use bowline_scenarios::objects::{annotated, entrances, finalizers, service};
use bowline_scenarios::scenario;
use bowline_simulator::cloudscale::FloatingIpSpec;

use super::shop::{FINALIZER, Shop, UUID, annotation};

const FLOATING_IPS: &str = "k8s.cloudscale.ch/loadbalancer-floating-ips";

#[test]
fn cloudscale_case_64_another_type_takes_the_load_balancer_away_and_back_makes_a_new_one() {
    scenario!(async || {
        let shop = Shop::open().await;
        shop.serve().await;
        let first = shop.balancer().uuid;
        shop.change_service("web", |it| {
            it["spec"]["type"] = "ClusterIP".into();
            let spec = it["spec"].as_object_mut().unwrap();
            spec.remove("allocateLoadBalancerNodePorts");
            spec.remove("externalTrafficPolicy");
            spec["ports"][0].as_object_mut().unwrap().remove("nodePort");
            it["status"]["loadBalancer"] = serde_json::json!({});
        })
        .await;
        let plain = shop
            .until_service("web", "it is let go", |it| finalizers(it).is_empty())
            .await;
        shop.message("web", "DeletedLoadBalancer").await;
        assert_eq!(shop.cloud.balancers(), []);
        assert_eq!(entrances(&plain), [""; 0]);
        shop.change_service("web", |it| it["spec"]["type"] = "LoadBalancer".into())
            .await;
        let shown = shop.until_published("web").await;
        let second = shop.balancer();
        assert_ne!(second.uuid, first);
        assert_eq!(annotation(&shown, UUID), second.uuid);
        assert_eq!(finalizers(&shown), [FINALIZER]);
        assert_eq!(shop.members().len(), 2);
        shop.close().await;
    });
}

#[test]
fn cloudscale_case_58_a_service_in_a_conflict_can_go_and_the_other_one_proceeds() {
    scenario!(async || {
        let shop = Shop::open().await;
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
        shop.cloud.add_floating_ip(&spec).unwrap();
        let wish = (FLOATING_IPS, r#"["203.0.113.77/32"]"#);
        shop.serve().await;
        shop.create_service(service("other")).await;
        shop.until_ensured("other").await;
        shop.annotate("web", wish.0, Some(wish.1)).await;
        shop.until("the address is moved", |_| {
            shop.cloud
                .balancers()
                .iter()
                .any(|it| it.floating_ips == [address])
        })
        .await;
        shop.create_service(annotated("third", &[wish])).await;
        shop.annotate("other", wish.0, Some(wish.1)).await;
        for name in ["third", "other"] {
            let message = shop.message(name, "FloatingIPConflict").await;
            assert!(message.contains("assigned to another service"), "{message}");
        }
        // The one that has the address goes in the middle of the conflict, and so does another.
        shop.delete_service("third").await;
        shop.until_service_gone("third").await;
        shop.delete_service("web").await;
        shop.until_service_gone("web").await;
        let other = shop.service("other");
        shop.until("the other one gets the address", |_| {
            let all = shop.cloud.balancers();
            all.len() == 1 && all[0].floating_ips == [address]
        })
        .await;
        assert_eq!(shop.balancer().uuid, annotation(&other, UUID));
        shop.close().await;
    });
}
