//! The Service of the specification's cases.

use bowline_core::{ClusterMarks, Goal, Ingress, IpMode, Service, TaggedBalancer};
use bowline_simulator::faults::{Action, Rule};
use bowline_simulator::journal::Entry;
use bowline_simulator_cloudscale::{BalancerInfo, BalancerSpec, Cloudscale, PoolInfo};
use bowline_test_kit::{ServiceHarness, service, wraps};
pub(crate) use bowline_test_kit::{named_port as port, steps};
use serde_json::{Value, json};

use crate::harness::{self, A, B, node};

pub(crate) const UID: &str = "5a4f2b10-0c67-4a3f-8f6e-3b9d2a7c1e55";
pub(crate) const NAME: &str = "k8s-service-5a4f2b10-0c67-4a3f-8f6e-3b9d2a7c1e55";
pub(crate) const S1: &str = "7d1f0c9a-2b34-4c56-8d78-9e0f1a2b3c4d";
pub(crate) const S2: &str = "c0a80101-77aa-4b1e-9f10-2d3e4f5a6b7c";
const PREFIX: &str = "k8s.cloudscale.ch/loadbalancer-";

pub(crate) struct Harness(ServiceHarness<Cloudscale>);

wraps!(Harness => 0: ServiceHarness<Cloudscale>);

impl Harness {
    /// Fixture F.
    pub(crate) fn new() -> Self {
        Self::with(&[])
    }

    pub(crate) fn with(environment: &[(&str, &str)]) -> Self {
        Self::on(harness::Harness::with(environment))
    }

    pub(crate) fn on(test: harness::Harness) -> Self {
        let nodes = vec![node("worker-a", Some(A)), node("worker-b", Some(B))];
        Self(ServiceHarness::new(test.0, PREFIX, web(), nodes))
    }

    pub(crate) async fn marked(&self) -> Vec<TaggedBalancer> {
        let request = self.request(Goal::Present);
        let marks = ClusterMarks {
            name: &request.cluster_name,
            uid: request.cluster_uid.as_deref(),
            nodes: &request.nodes,
        };
        let marked = self.balancers().marked(marks).await;
        marked.unwrap()
    }

    /// Waits until monitors have found out about their members.
    pub(crate) async fn settle(&self) {
        self.wait(10).await;
    }

    pub(crate) fn all(&self) -> Vec<BalancerInfo> {
        self.harness.sim.balancers()
    }

    #[track_caller]
    pub(crate) fn balancer(&self) -> BalancerInfo {
        let mut all = self.all();
        assert_eq!(all.len(), 1, "{all:?}");
        all.remove(0)
    }

    #[track_caller]
    pub(crate) fn pool(&self) -> PoolInfo {
        let mut balancer = self.balancer();
        assert_eq!(balancer.pools.len(), 1, "{balancer:?}");
        balancer.pools.remove(0)
    }

    /// The writes since the last time this was asked: `POST /v1/load-balancers/pools`.
    pub(crate) fn writes(&self) -> Vec<String> {
        let calls = self.calls().into_iter().filter(Entry::is_mutating);
        calls
            .map(|it| format!("{} {}", it.method, it.path))
            .collect()
    }

    /// The same with bodies: `PATCH load-balancers/listeners {"allowed_cidrs":[]}`, ids left out.
    pub(crate) fn changes(&self) -> Vec<String> {
        let calls = self.calls().into_iter().filter(Entry::is_mutating);
        calls
            .map(|it| {
                let kept = |part: &&str| uuid_like(part).is_none();
                let path: Vec<&str> = it.path.split('/').skip(2).filter(kept).collect();
                let body = match it.body {
                    Value::Null => String::new(),
                    body => format!(" {body}"),
                };
                format!("{} {}{body}", it.method, path.join("/"))
            })
            .collect()
    }

    pub(crate) fn fault(&self, method: &str, path: &str, times: u64, action: Action) {
        let mut rule = Rule::new(action)
            .on(method, path)
            .named(&format!("{method} {path}"));
        rule.times = Some(times);
        self.harness.world.faults.add(rule).unwrap();
    }

    /// Adds a load balancer that nobody made.
    pub(crate) fn place(&self, spec: Value) -> String {
        let spec: BalancerSpec = serde_json::from_value(spec).unwrap();
        self.harness.sim.add_balancer(&spec).unwrap()
    }

    /// The load balancer that the original leaves for fixture F.
    pub(crate) fn place_originals(&mut self) -> String {
        let member = |address: &str| {
            json!({"address": address, "protocol_port": 31080, "monitor_port": 31080,
                   "name": format!("{address}:31080")})
        };
        let uuid = self.place(json!({"name": NAME, "pools": [{
            "name": "tcp/http",
            "members": [member("10.20.0.11"), member("10.20.0.12")],
            "listeners": [{"name": "tcp/80", "protocol_port": 80}],
            "monitor": {"type": "tcp"},
        }]}));
        self.set("uuid", &uuid)
            .set("config-version", "1")
            .set("zone", "rma1");
        let vips = self.balancer().vip_addresses;
        self.service.ingress = vips.iter().map(|ip| proxied(&ip.to_string())).collect();
        uuid
    }
}

/// A test whose load balancer is there, and whose calls are forgotten.
pub(crate) async fn open() -> Harness {
    let mut test = Harness::new();
    test.ensure().await.good();
    test.settle().await;
    test.calls();
    test
}

fn uuid_like(part: &str) -> Option<&str> {
    (part.len() == 36 && part.matches('-').count() == 4).then_some(part)
}

pub(crate) fn key(suffix: &str) -> String {
    bowline_test_kit::key(PREFIX, suffix)
}

pub(crate) fn set(service: &mut Service, suffix: &str, value: &str) {
    bowline_test_kit::set(service, PREFIX, suffix, value);
}

pub(crate) fn proxied(ip: &str) -> Ingress {
    Ingress {
        ip: Some(ip.to_owned()),
        hostname: None,
        ip_mode: Some(IpMode::Proxy),
    }
}

pub(crate) fn web() -> Service {
    named("web", UID)
}

pub(crate) fn named(name: &str, uid: &str) -> Service {
    Service {
        ports: vec![port("http", "TCP", 80, 31080)],
        ..service("shop", name, uid)
    }
}

pub(crate) fn members(pool: &PoolInfo) -> Vec<String> {
    let mut names: Vec<String> = pool.members.iter().map(|it| it.name.clone()).collect();
    names.sort();
    names
}

/// `type delay/timeout/up/down` of a pool's monitor.
pub(crate) fn monitor(pool: &PoolInfo) -> String {
    let it = pool.monitor.as_ref().unwrap();
    format!(
        "{} {}/{}/{}/{}",
        it.kind, it.delay_s, it.timeout_s, it.up_threshold, it.down_threshold
    )
}
