//! cloudscale.ch in scenarios: the real provider, a simulated cloud, and the role of the original's
//! manifest.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use bowline_cloudscale::{Config, PROVIDER};
use bowline_controllers::metrics::Metrics;
use bowline_simulator::World;
use bowline_simulator_cloudscale::{
    BalancerSpec, Cloudscale, DEFAULT_TOKEN, Fixture, ListenerSpec, MemberSpec, MonitorSpec,
    PoolSpec,
};
use futures::FutureExt;
use serde_json::{Value, json};

use crate::TestCluster;
use crate::cloud_harness::{Called, Original, Served};
use crate::objects::service;

/// The annotation with a load balancer's uuid.
pub const UUID: &str = "k8s.cloudscale.ch/loadbalancer-uuid";
/// The annotation with its zone.
pub const ZONE: &str = "k8s.cloudscale.ch/loadbalancer-zone";
/// The annotation with the version of what follows from annotations.
pub const CONFIG_VERSION: &str = "k8s.cloudscale.ch/loadbalancer-config-version";
/// What holds a Service until its load balancer is gone.
pub const FINALIZER: &str = "service.kubernetes.io/load-balancer-cleanup";
/// The original's command line; the first is the default of managers, though not of a bench's.
pub const FLAGS: [&str; 4] = [
    "--leader-elect=true",
    "--allow-untagged-cloud",
    "--v=3",
    "--concurrent-service-syncs=2",
];
/// Where the cloud listens in the pipes.
const HOST: &str = "cloudscale.sim";
/// Who the manager is: the service account of the original's manifest.
const ACCOUNT: &str = "cloud-controller-manager";

/// A test cluster whose managers work with a simulated cloudscale.ch.
pub type CloudHarness = crate::cloud_harness::CloudHarness<Cloudscale>;

impl CloudHarness {
    /// A cloud with what the fixture describes, and the manager with the command line of the
    /// original's manifest and its environment, and with more of both; it is not started yet.
    pub async fn set_up(
        seed: u64,
        fixture: &str,
        environment: &[(&str, &str)],
        arguments: &[&str],
    ) -> Self {
        let original = Original {
            command: "cloudscale-cloud-controller-manager",
            provider: PROVIDER,
            account: ACCOUNT,
            manifest: &bowline_simulator_cloudscale::manifest(),
        };
        let open = |bench: &TestCluster| serve(bench, None, fixture, environment);
        let flags = [&FLAGS, arguments].concat();
        Self::open(seed, &flags, &original, open).await
    }

    /// What the original leaves behind: a Service as it wrote it, and its load balancer, whose uuid
    /// is returned.
    pub async fn leave(&self, name: &str, hosts: &[IpAddr]) -> String {
        let mut it = service(name);
        it["metadata"]["finalizers"] = json!([FINALIZER]);
        self.create_service(it).await;
        let made = self.service(name);
        let port = made["spec"]["ports"][0]["nodePort"].as_u64().unwrap();
        let port = u16::try_from(port).unwrap();
        let uid = made["metadata"]["uid"].as_str().unwrap();
        let spec = BalancerSpec::named(&format!("k8s-service-{uid}"));
        let id = self
            .cloud
            .add_balancer(&spec.pool(pool(port, hosts)))
            .unwrap();
        let all = self.cloud.balancers();
        let found = all.iter().find(|it| it.uuid == id).unwrap();
        let ingress: Vec<Value> = found
            .vip_addresses
            .iter()
            .map(|it| json!({ "ip": it.to_string(), "ipMode": "Proxy" }))
            .collect();
        self.change_service(name, |it| {
            it["metadata"]["annotations"] = json!({ UUID: id, ZONE: "rma1", CONFIG_VERSION: "1" });
            it["status"]["loadBalancer"]["ingress"] = ingress.clone().into();
        })
        .await;
        id
    }
}

/// The pool that the original makes for a Service whose nodes have these addresses.
pub fn pool(node_port: u16, hosts: &[IpAddr]) -> PoolSpec {
    let mut monitor = MonitorSpec::of("tcp");
    (monitor.delay_s, monitor.timeout_s) = (Some(2), Some(1));
    (monitor.up_threshold, monitor.down_threshold) = (Some(2), Some(3));
    let pool = PoolSpec::named("tcp/http")
        .listener(ListenerSpec::on("tcp", 80))
        .monitor(monitor);
    hosts.iter().fold(pool, |pool, host| {
        let mut member = MemberSpec::at(*host, node_port);
        member.monitor_port = Some(node_port);
        pool.member(member)
    })
}

/// A cloud with what the fixture describes, for managers with these variables; of that name where there are several.
pub fn serve(
    bench: &TestCluster,
    name: Option<&str>,
    fixture: &str,
    environment: &[(&str, &str)],
) -> Served<Cloudscale> {
    let called = Called::only(name, PROVIDER, HOST);
    let cloud = cloud(bench, fixture);
    let server = called.serve(&bench.world, cloud.clone());
    let settings = settings(&called.host(), environment);
    let (name, label) = (called.name(), called.label());
    let factory = move |world: World, metrics: Arc<Metrics>| {
        let metrics = metrics.register_for(label.as_deref(), bowline_cloudscale::register_metrics);
        let seams = Called::seams(&name, &world, Some(metrics));
        let made = bowline_cloudscale::build(&settings, seams).unwrap();
        async { Ok(made) }.boxed_local()
    };
    Served {
        cloud,
        server,
        factory: Box::new(factory),
    }
}

/// The cloud of a fixture, whose servers are called what the nodes are called on that API server.
fn cloud(bench: &TestCluster, fixture: &str) -> Arc<Cloudscale> {
    let mut fixture: Fixture = bowline_simulator::fixture::parse("fixture", fixture).unwrap();
    for machine in &mut fixture.machines {
        machine.name = bench.cluster.names().own(&machine.name);
    }
    Cloudscale::from_fixture(&bench.world, fixture).unwrap()
}

fn settings(host: &str, environment: &[(&str, &str)]) -> Config {
    let url = format!("http://{host}/");
    let mut variables = BTreeMap::from([("CLOUDSCALE_API_URL", url.as_str())]);
    variables.insert("CLOUDSCALE_ACCESS_TOKEN", DEFAULT_TOKEN);
    variables.extend(environment.iter().copied());
    Config::read(|name| variables.get(name).map(ToString::to_string)).unwrap()
}
