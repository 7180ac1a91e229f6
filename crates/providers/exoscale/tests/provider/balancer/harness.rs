//! The Service of the specification's cases.

use bowline_core::Service;
use bowline_simulator_exoscale::{BalancerInfo, BalancerSpec, Exoscale, ServiceInfo, ServiceSpec};
use bowline_test_kit::{ServiceHarness, service, wraps};
pub(crate) use bowline_test_kit::{port, status, steps};

use crate::harness::{I1, I2, P1, of, provider, test};

pub(crate) const UID: &str = "5c7b1f0e-6a53-4f6e-9a3d-1f2e3d4c5b6a";
pub(crate) const NAME: &str = "k8s-5c7b1f0e-6a53-4f6e-9a3d-1f2e3d4c5b6a";
pub(crate) const L1: &str = "7d2f7f4e-22d1-4b38-8f0b-94c8a54d6d01";
pub(crate) const OTHER: &str = "11111111-6a53-4f6e-9a3d-1f2e3d4c5b6a";
const PREFIX: &str = "service.beta.kubernetes.io/exoscale-loadbalancer-";

pub(crate) struct Harness {
    harness: ServiceHarness<Exoscale>,
    file: String,
}

wraps!(Harness => harness: ServiceHarness<Exoscale>);

impl Harness {
    pub(crate) async fn new() -> Self {
        Self::with("").await
    }

    pub(crate) async fn with(file: &str) -> Self {
        Self::seeded(7, file).await
    }

    pub(crate) async fn seeded(seed: u64, file: &str) -> Self {
        let (test, nodes) = (test(seed, file).await, vec![of(I1), of(I2)]);
        let mut harness = ServiceHarness::new(test, PREFIX, named("web", UID), nodes);
        harness.cluster_uid = Some("blue".into());
        harness.patient = true;
        Self {
            harness,
            file: file.to_owned(),
        }
    }

    pub(crate) async fn restart(&mut self) {
        self.harness.harness.cloud = provider(&self.world, &self.file).await;
        self.world.journal.clear();
    }

    /// What the Service's status remembers.
    pub(crate) fn record(&self) -> &str {
        let mut all = self.service.conditions.iter();
        let record = all.find(|it| it.kind == bowline_exoscale::RECORD);
        record.map(|it| it.message.as_str()).unwrap_or_default()
    }

    pub(crate) fn all(&self) -> Vec<BalancerInfo> {
        self.harness.harness.sim.balancers()
    }

    #[track_caller]
    pub(crate) fn balancer(&self) -> BalancerInfo {
        let mut all = self.all();
        assert_eq!(all.len(), 1, "{all:?}");
        all.remove(0)
    }

    #[track_caller]
    pub(crate) fn listener(&self) -> ServiceInfo {
        let mut balancer = self.balancer();
        assert_eq!(balancer.services.len(), 1, "{balancer:?}");
        balancer.services.remove(0)
    }

    /// `name port/protocol→target check` of every service of the only load balancer.
    #[track_caller]
    pub(crate) fn listeners(&self) -> Vec<String> {
        let services = self.balancer().services;
        services.iter().map(line).collect()
    }

    pub(crate) fn address(&self) -> String {
        let ips = self.service.ingress.iter().filter_map(|it| it.ip.clone());
        ips.collect::<Vec<_>>().join(" ")
    }

    /// Adds load balancer L1 that nobody made, with a service at each of these ports.
    pub(crate) fn place(&self, name: &str, services: &[(&str, u16)]) {
        let ip = "203.0.113.80".parse().unwrap();
        let mut spec = BalancerSpec::named(name).id(L1).ip(ip);
        for (name, port) in services {
            spec = spec.service(ServiceSpec::new(name, P1, *port, 30_000 + port % 1000));
        }
        self.harness.harness.sim.add_balancer(&spec).unwrap();
    }
}

/// A test whose load balancer is there, and whose calls are forgotten.
pub(crate) async fn open() -> Harness {
    let mut test = Harness::new().await;
    test.ensure().await.good();
    test.calls();
    test
}

pub(crate) fn line(service: &ServiceInfo) -> String {
    let ServiceInfo {
        name,
        port,
        protocol,
        target_port,
        healthcheck,
        ..
    } = service;
    format!(
        "{name} {port}/{protocol}→{target_port} {}:{}",
        healthcheck.mode, healthcheck.port
    )
}

pub(crate) fn key(suffix: &str) -> String {
    bowline_test_kit::key(PREFIX, suffix)
}

pub(crate) fn set(service: &mut Service, suffix: &str, value: &str) {
    bowline_test_kit::set(service, PREFIX, suffix, value);
}

pub(crate) fn named(name: &str, uid: &str) -> Service {
    Service {
        ports: vec![port("TCP", 80, 30080)],
        ..service("default", name, uid)
    }
}
