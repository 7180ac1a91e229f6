//! The Service `web` of the cases, its nodes, and short forms of what the cloud has.

use std::time::Duration;

use bowline_scenarios::exoscale::PREFIX;
use bowline_scenarios::objects::{known, service, text};
use bowline_simulator::journal::Entry;
use bowline_simulator_exoscale::BalancerInfo;
use serde_json::Value;

use super::harness::{Harness, I1, I2};

pub(crate) const FINALIZER: &str = "service.kubernetes.io/load-balancer-cleanup";

/// A test with two nodes of pool `workers`.
pub(crate) struct ServiceHarness(Harness);

bowline_scenarios::harness!(ServiceHarness, 0: Harness);

impl ServiceHarness {
    /// With both nodes, and a running manager.
    pub(crate) async fn new() -> Self {
        let mut test = Self::idle(&[I1, I2]).await;
        test.start().await;
        test
    }

    /// With the nodes of these instances, without the manager.
    pub(crate) async fn idle(instances: &[&str]) -> Self {
        Self::on(Harness::idle("", &[]).await, instances).await
    }

    /// The same on another test.
    pub(crate) async fn on(test: Harness, instances: &[&str]) -> Self {
        test.cloud
            .set_timings(|it| it.operation = Duration::from_millis(500));
        let test = Self(test);
        for instance in instances {
            test.add_node(instance).await;
        }
        test
    }

    /// Puts the initialised node of an instance there.
    pub(crate) async fn add_node(&self, instance: &str) {
        let name = format!("node-{}", &instance[instance.len() - 2..]);
        let host = format!("Hostname:{name}");
        let id = format!("exoscale://{instance}");
        self.put(known(&name, &id, "True", &[&host])).await;
    }

    /// Creates `web`, and waits until it shows its address.
    pub(crate) async fn serve(&self) -> Value {
        self.create_service(service("web")).await;
        self.until_ensured("web").await
    }

    /// Waits until a Service shows its address and that is reported.
    pub(crate) async fn until_ensured(&self, name: &str) -> Value {
        self.until_published(name).await;
        self.message(name, "EnsuredLoadBalancer").await;
        self.service(name)
    }

    /// Stops the manager and starts it again.
    pub(crate) async fn restart(&mut self) {
        self.stop().await;
        self.start().await;
    }

    /// The only load balancer.
    #[track_caller]
    pub(crate) fn balancer(&self) -> BalancerInfo {
        let mut all = self.cloud.balancers();
        assert_eq!(all.len(), 1, "{all:?}");
        all.remove(0)
    }

    /// What the manager wrote about `web`, from that entry of the journal on: what it set, in order.
    pub(crate) fn written(&self, mark: usize) -> Vec<String> {
        let all = self.entries().into_iter().skip(mark);
        let ours = all.filter(|it| it.is_mutating() && it.caller != "kubernetes-admin");
        let ours = ours.filter(|it| {
            let path = ["/services/web", "/services/web/status"];
            path.iter().any(|path| it.path.ends_with(path))
        });
        ours.map(|it| kind_of(&it)).collect()
    }
}

/// What a write is about.
fn kind_of(write: &Entry) -> String {
    let body = write.body.to_string();
    let has = |text: &str| body.contains(text);
    let kinds = [
        ("finalizer", has("finalizers")),
        ("pool", has("service-instancepool-id")),
        ("id", has("exoscale-loadbalancer-id")),
        ("address", has("ingress")),
        ("condition", has("conditions")),
    ];
    let kinds = kinds.iter().filter(|(_, is)| *is).map(|(kind, _)| *kind);
    kinds.collect::<Vec<_>>().join("+")
}

pub(crate) fn uid(service: &Value) -> String {
    text(&service["metadata"]["uid"]).to_owned()
}

/// An annotation, by its suffix; empty if there is none.
pub(crate) fn annotation<'a>(service: &'a Value, suffix: &str) -> &'a str {
    text(&service["metadata"]["annotations"][key(suffix)])
}

pub(crate) fn key(suffix: &str) -> String {
    format!("{PREFIX}{suffix}")
}
