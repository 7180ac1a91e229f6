//! Every Service is served by the cloud that its class names, with that cloud's nodes, and those of others are left
//! alone.

use bowline_scenarios::objects::{entrances, finalizers, service};
use bowline_scenarios::{TestCluster, scenario};
use serde_json::{Value, json};

use crate::many::harness::{BALANCING, DEFAULT, EXOSCALE, Harness, POOL, TRITON, Telling};
use crate::many::machines::Machine;

/// A class that somebody else serves, and classes that name no cloud with load balancers.
const FOREIGN: [(&str, &str); 4] = [
    ("metal", "metallb.io/metallb"),
    ("nowhere", "bowline.dev/nowhere"),
    ("talos", "bowline.dev/talos"),
    ("xen", "bowline.dev/xenorchestra"),
];

/// A Service of that class.
pub(crate) fn classed(name: &str, class: &str) -> Value {
    let mut it = service(name);
    it["spec"]["loadBalancerClass"] = class.into();
    it
}

impl Harness {
    /// Creates a Service for that cloud.
    pub(crate) async fn order(&self, name: &str, cloud: &str) {
        let class = format!("bowline.dev/{cloud}");
        self.create_service(classed(name, &class)).await;
    }

    /// Waits until a Service shows its address, and checks that it is the cloud's own and that its members are these
    /// machines and no others.
    pub(crate) async fn served(&self, name: &str, cloud: &str, machines: &[Machine]) {
        self.until_published(name).await;
        self.until_event(name, "EnsuredLoadBalancer").await;
        let is = |it: &TestCluster| self.is_served(it, name, cloud, machines);
        self.until(&format!("{name} has the nodes of {cloud}"), is)
            .await;
    }

    fn is_served(
        &self,
        bench: &TestCluster,
        name: &str,
        cloud: &str,
        machines: &[Machine],
    ) -> bool {
        let service = bench.service(name);
        let own: Vec<&Machine> = machines.iter().filter(|it| it.owner == cloud).collect();
        let shown = entrances(&service);
        match cloud {
            EXOSCALE => {
                let uid = service["metadata"]["uid"].as_str().unwrap();
                let all = self.exoscale.balancers();
                let it = all.iter().find(|it| it.name == format!("k8s-{uid}"));
                // Its members are the pool's.
                it.is_some_and(|it| {
                    shown == [format!("{} VIP", it.ip)]
                        && it.services.len() == 1
                        && it.services.iter().all(|it| it.pool == POOL)
                })
            }
            TRITON => {
                let label = format!("{}.shop", self.cluster.names().own(name));
                let carries = |it: &bowline_simulator_triton::MachineInfo| {
                    let tag = it.tag("triton.cns.services").unwrap_or_default();
                    tag.split(',')
                        .any(|it| it.split(':').next() == Some(&label))
                };
                let all = self.triton.machines().into_iter();
                let mut carrying: Vec<String> = all.filter(carries).map(|it| it.id).collect();
                carrying.sort();
                let mut own: Vec<String> = own.iter().map(|it| it.id.clone()).collect();
                own.sort();
                carrying == own && shown[0].starts_with(&format!("{name}.shop.svc."))
            }
            account => {
                let uid = service["metadata"]["uid"].as_str().unwrap();
                let all = self.account(account).balancers();
                let it = all
                    .iter()
                    .find(|it| it.name == format!("k8s-service-{uid}"));
                it.is_some_and(|it| {
                    let members = it.pools.iter().flat_map(|pool| &pool.members);
                    let mut members: Vec<String> =
                        members.map(|member| member.address.to_string()).collect();
                    members.sort();
                    let mut own: Vec<String> = own.iter().map(|it| it.inside()).collect();
                    own.sort();
                    let vip = it.vip_addresses.iter().map(|ip| format!("{ip} Proxy"));
                    members == own && shown == vip.collect::<Vec<_>>()
                })
            }
        }
    }

    /// How many load balancers each cloud with some has.
    pub(crate) fn balancer_counts(&self) -> [usize; 3] {
        [
            self.east.balancers().len(),
            self.west.balancers().len(),
            self.exoscale.balancers().len(),
        ]
    }
}

#[scenario]
async fn every_service_is_served_by_its_own_cloud_with_that_clouds_nodes() {
    let mut test = Harness::idle(Telling::Selectors).await;
    let foreign = test.put_foreign().await;
    let machines = test.populate().await;
    test.start().await;
    for machine in &machines {
        test.until_initialized(&machine.name).await;
    }
    for (name, class) in FOREIGN {
        test.create_service(classed(name, class)).await;
    }
    // What MetalLB does.
    test.change_service("metal", |it| {
        it["status"]["loadBalancer"]["ingress"] = json!([{ "ip": "192.0.2.7" }]);
    })
    .await;
    let untouched = FOREIGN.map(|(name, _)| test.service(name));
    for cloud in BALANCING {
        test.order(&format!("on-{cloud}"), cloud).await;
    }
    test.create_service(service("plain")).await;
    for cloud in BALANCING {
        test.served(&format!("on-{cloud}"), cloud, &machines).await;
    }
    test.served("plain", DEFAULT, &machines).await;
    assert_eq!(test.balancer_counts(), [1, 2, 1]);
    test.settle().await;
    let names = FOREIGN.map(|(name, _)| name);
    assert_eq!(names.map(|name| test.service(name)), untouched);
    for name in names {
        assert!(test.service_writes(name).is_empty(), "{name}");
        let reported = test.reasons(name);
        // Only a class of ours can be a mistake.
        let wanted: &[&str] = if name == "metal" {
            &[]
        } else {
            &["UnknownCloud"]
        };
        assert_eq!(reported, wanted, "{name}");
    }
    for cloud in BALANCING {
        let name = format!("on-{cloud}");
        assert_eq!(finalizers(&test.service(&name)).len(), 1);
        test.delete_service(&name).await;
        test.until_service_gone(&name).await;
    }
    assert_eq!(test.balancer_counts(), [0, 1, 0]);
    test.served("plain", DEFAULT, &machines).await;
    test.assert_untouched(&foreign);
    test.stop().await;
}
