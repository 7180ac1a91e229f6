//! Routes on the fabric networks of a simulated Triton, with the whole manager.

use std::collections::BTreeMap;
use std::sync::Arc;

use bowline_core::{Cloud, CloudName};
use bowline_http::Connector;
use bowline_scenarios::log::Log;
use bowline_scenarios::{Setup, TestCluster, is_real, scenario};
use bowline_simulator::journal::{Entry, Filter};
use bowline_simulator::serve::Server;
use bowline_simulator_triton::{
    DEFAULT_PRIVATE_KEY, EXTERNAL, FABRIC, Fixture, MachineSpec, Triton,
};
use bowline_triton::{Seams, Sources, TritonMetrics};
use serde_json::{Value, json};

use crate::routes::harness::{DOWN, UP, network, node, until};

const NETWORK: &str = "/acme/fabrics/default/vlans/2/networks/";

/// A cluster on a data center, with these routes on its fabric network.
struct Yard {
    bench: TestCluster,
    cloud: Arc<Triton>,
    _server: Server,
    _folder: tempfile::TempDir,
}

fn id(name: &str) -> String {
    let number: u32 = name.bytes().map(u32::from).sum();
    format!("5b1e2d3c-0000-4000-8000-{number:012}")
}

impl Yard {
    async fn with(routes: &[(&str, &str)]) -> Self {
        let mut flags = vec!["--controllers=route", "--cluster-cidr=10.244.0.0/16"];
        if is_real() {
            flags.push("--route-reconciliation-period=1s");
        }
        let mut bench = TestCluster::set_up(Setup {
            clouds: &[],
            flags: &flags,
            program: ("bowline", "triton"),
            ..Setup::default()
        })
        .await;
        let cloud = Triton::from_fixture(&bench.world, Fixture::default()).unwrap();
        cloud.set_throttle(None);
        cloud.set_routes(FABRIC, routes).unwrap();
        let server = Server::builder(&bench.world, cloud.clone()).pipe("cloudapi.sim:80");
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("cloud.conf");
        std::fs::write(&file, "[Routes]\nenabled = true\n").unwrap();
        let (world, pod) = (bench.world.clone(), bench.cluster.names().own("bowline-0"));
        bench.add_provider(move |metrics| {
            let variables: BTreeMap<String, String> = [
                ("SDC_ENDPOINT", "http://cloudapi.sim"),
                ("SDC_ACCOUNT", "acme"),
                ("SDC_PRIVATE_KEY", DEFAULT_PRIVATE_KEY),
                ("POD_NAMESPACE", "kube-system"),
                ("POD_NAME", &pod),
            ]
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .into();
            let sources = Sources {
                flags: BTreeMap::new(),
                environment: Arc::new(move |name| variables.get(name).cloned()),
                file: Some(file.clone()),
                text: None,
                secret: None,
                cluster_name: "kubernetes".to_owned(),
            };
            let seams = Seams {
                name: CloudName::parse("triton").unwrap(),
                connector: Connector::simulated(world.pipes.clone()),
                clock: world.clock.clone(),
                random: world.random.fork(),
                metrics: None,
            };
            let metrics = metrics.register(TritonMetrics::register);
            let cloud = bowline_triton::build(sources, &seams, &metrics).unwrap();
            cloud as Arc<dyn Cloud>
        });
        Self {
            bench,
            cloud,
            _server: server,
            _folder: folder,
        }
    }

    /// A node with that range, and its machine with that address on that network.
    async fn add(&self, name: &str, range: &str, network: &str, address: &str) {
        let machine = MachineSpec::named(name).id(&id(name));
        let machine = machine.networks(&[network]).addresses(&[address]);
        self.cloud.add_machine(&machine).unwrap();
        let mut node = node(name, &[range]);
        node["spec"]["providerID"] = format!("triton://{}", id(name)).into();
        self.bench.create(node).await;
    }

    /// The two nodes of the specification.
    async fn with_two(routes: &[(&str, &str)]) -> Self {
        let yard = Self::with(routes).await;
        yard.add("k8s-1", "10.244.0.0/24", FABRIC, "10.20.0.5")
            .await;
        yard.add("k8s-2", "10.244.1.0/24", FABRIC, "10.20.0.6")
            .await;
        yard
    }

    fn calls(&self, method: &str) -> Vec<Entry> {
        let path = format!("{NETWORK}{FABRIC}");
        let filter = Filter::any().server("triton").method(method).path(&path);
        self.bench.matching(&filter)
    }

    /// The bodies of all writes of the network.
    fn writes(&self) -> Vec<Value> {
        let calls = self.calls("PUT").into_iter();
        calls.map(|call| call.body["routes"].clone()).collect()
    }

    async fn until_written(&self, times: usize) {
        let wait = self
            .bench
            .until("the network is written", |_| self.writes().len() == times);
        wait.await;
    }
}

#[scenario]
async fn triton_case_60_one_write_for_all_routes_and_foreign_ones_stay() {
    let mut yard = Yard::with_two(&[("10.99.0.0/16", "10.20.0.1")]).await;
    yard.bench.start();
    until(&yard.bench, &["k8s-1", "k8s-2"], UP).await;
    let both = json!({"10.99.0.0/16": "10.20.0.1", "10.244.0.0/24": "10.20.0.5",
            "10.244.1.0/24": "10.20.0.6"});
    assert_eq!(yard.writes(), std::slice::from_ref(&both));
    let entries = format!("triton_route_entries{{network=\"{FABRIC}\"}}");
    assert_eq!(yard.bench.metric(&entries), Some(3.0));
    yard.bench.delete("k8s-2").await;
    yard.until_written(2).await;
    let one = json!({"10.99.0.0/16": "10.20.0.1", "10.244.0.0/24": "10.20.0.5"});
    assert_eq!(yard.writes(), [both, one]);
    yard.bench.settle().await;
    assert_eq!(yard.writes().len(), 2);
}

#[scenario]
async fn triton_case_61_an_entry_to_nobody_goes() {
    let mut yard = Yard::with_two(&[("10.244.7.0/24", "10.20.0.200")]).await;
    yard.bench.start();
    until(&yard.bench, &["k8s-1", "k8s-2"], UP).await;
    let both = json!({"10.244.0.0/24": "10.20.0.5", "10.244.1.0/24": "10.20.0.6"});
    assert_eq!(yard.writes(), [both]);
}

#[scenario]
async fn triton_case_62_a_node_without_a_fabric_card_has_no_network() {
    let mut yard = Yard::with_two(&[]).await;
    yard.add("edge", "10.244.2.0/24", EXTERNAL, "203.0.113.77")
        .await;
    yard.bench.start();
    until(&yard.bench, &["k8s-1", "k8s-2"], UP).await;
    until(&yard.bench, &["edge"], DOWN).await;
    yard.bench.until_event("edge", "NoFabricNIC").await;
    yard.bench.settle().await;
    assert_eq!(yard.bench.event_count("edge", "NoFabricNIC"), 1);
    assert_eq!(network(&yard.bench, "edge"), DOWN);
    assert_eq!(yard.writes().len(), 1);
    assert_eq!(yard.writes()[0].as_object().unwrap().len(), 2);
}

#[scenario(only_in_memory = "it takes minutes, and the log of one thread is kept")]
async fn triton_case_63_without_fabrics_the_reason_is_told_and_nothing_is_done() {
    let (log, _kept) = Log::keep();
    let mut yard = Yard::with_two(&[]).await;
    yard.cloud.set_quirks(|quirks| quirks.no_fabrics = true);
    yard.bench.start();
    yard.bench.seconds(100).await;
    yard.add("k8s-3", "10.244.3.0/24", FABRIC, "10.20.0.7")
        .await;
    yard.bench.seconds(100).await;
    assert_eq!(yard.calls("GET").len(), 1, "asked once");
    assert_eq!(yard.calls("PUT").len(), 0);
    assert_eq!(network(&yard.bench, "k8s-1"), "");
    yard.cloud.set_quirks(|quirks| quirks.no_fabrics = false);
    until(&yard.bench, &["k8s-1", "k8s-2", "k8s-3"], UP).await;
    let reported = "fabric networks are switched off in this data center";
    assert_eq!(log.text().matches(reported).count(), 1, "{}", log.text());
}

#[scenario]
async fn triton_case_79_what_nobody_understands_is_kept_as_it_is() {
    let mut yard = Yard::with_two(&[("10.98.0.0/16", "linklocal")]).await;
    yard.bench.start();
    until(&yard.bench, &["k8s-1", "k8s-2"], UP).await;
    yard.bench.delete("k8s-2").await;
    yard.until_written(2).await;
    for routes in yard.writes() {
        assert_eq!(routes["10.98.0.0/16"], "linklocal", "{routes}");
    }
}

#[scenario]
async fn what_an_operator_has_to_allow_is_told_once_on_the_manager_s_own_pod() {
    let mut yard = Yard::with_two(&[]).await;
    yard.bench.start();
    until(&yard.bench, &["k8s-1", "k8s-2"], UP).await;
    let reported = |bench: &TestCluster| bench.events_of("RoutesNeedSpoofing").len() == 1;
    yard.bench.until("it is reported", reported).await;
    yard.bench.settle().await;
    let event = &yard.bench.events_of("RoutesNeedSpoofing")[0];
    assert_eq!(event["involvedObject"]["kind"], "Pod");
    assert_eq!(event["involvedObject"]["name"], "bowline-0");
    assert_eq!(event["metadata"]["namespace"], "kube-system");
    assert_eq!(event["count"], 1);
}

#[scenario]
async fn a_machine_that_cannot_be_found_keeps_its_routes() {
    let kept = [
        ("10.244.1.0/24", "10.20.0.6"),
        ("10.244.7.0/24", "10.20.0.200"),
    ];
    let mut yard = Yard::with_two(&kept).await;
    yard.cloud.destroy("k8s-2").unwrap();
    yard.bench.seconds(3).await;
    yard.bench.start();
    until(&yard.bench, &["k8s-1"], UP).await;
    let all = json!({"10.244.0.0/24": "10.20.0.5", "10.244.1.0/24": "10.20.0.6",
            "10.244.7.0/24": "10.20.0.200"});
    assert_eq!(yard.writes(), [all]);
    assert_eq!(network(&yard.bench, "k8s-2"), "", "nobody can tell");
    yard.bench.delete("k8s-2").await;
    let one = json!({"10.244.0.0/24": "10.20.0.5"});
    yard.bench
        .until("what is proven to be nobody's goes", |_| {
            yard.writes().last() == Some(&one)
        })
        .await;
}
