//! Everything that happens to nodes and Services, one thing after the other, under an account of its own.

use std::collections::BTreeMap;

use bowline_cloudscale::{Config, PROVIDER, Seams};
use bowline_core::{CloudName, SHUTDOWN_TAINT};
use bowline_http::Connector;
use bowline_scenarios::cloud::{Script, machine, stopped};
use bowline_scenarios::objects::{addresses, annotated, fresh, known, labels, taints};
use bowline_scenarios::{TestCluster, refuse};
use bowline_simulator::journal::Entry;
use bowline_simulator::serve::Server;
use bowline_simulator_cloudscale::{Cloudscale, DEFAULT_TOKEN};
use serde_json::Value;

const FIRST: &str = "InternalIP:10.0.0.1";
const SECOND: &str = "InternalIP:10.0.0.9";
/// Where the cloud with load balancers listens in the pipes.
const CLOUD: &str = "cloudscale.sim:80";
const ZONE: &str = "k8s.cloudscale.ch/loadbalancer-zone";

pub(crate) struct Harness {
    pub(crate) bench: TestCluster,
    /// Who the manager is to the API server.
    user: String,
    /// The cloud with load balancers, if the story is about Services too.
    cloud: Option<Server>,
}

impl Harness {
    /// The manager will be this account of `kube-system`, with the rights that these objects give.
    pub(crate) async fn new(account: &str, objects: &[Value]) -> Self {
        let flags = ["--leader-elect=true", "--node-status-update-frequency=10s"];
        let mut bench = TestCluster::idle(&flags).await;
        let renamed = bench.cluster.grant(account, objects).await;
        bench.act_as(renamed.config);
        Self {
            bench,
            user: renamed.user,
            cloud: None,
        }
    }

    /// A second cloud, with load balancers.
    pub(crate) fn add_load_balancers(&mut self) {
        let world = self.bench.world.clone();
        let cloud = Cloudscale::new(&world, bowline_simulator_cloudscale::Config::default());
        self.cloud = Some(Server::builder(&world, cloud).pipe(CLOUD));
        let url = format!("http://{CLOUD}/");
        let variables = BTreeMap::from([
            ("CLOUDSCALE_API_URL", url),
            ("CLOUDSCALE_ACCESS_TOKEN", DEFAULT_TOKEN.to_owned()),
        ]);
        let config = Config::read(|name| variables.get(name).cloned()).unwrap();
        self.bench.add_provider(move |metrics| {
            let seams = Seams {
                name: CloudName::parse(PROVIDER).unwrap(),
                connector: Connector::simulated(world.pipes.clone()),
                clock: world.clock.clone(),
                random: world.random.fork(),
                metrics: Some(metrics.register(bowline_cloudscale::register_metrics)),
            };
            bowline_cloudscale::build(&config, seams).unwrap()
        });
    }

    /// The manager's calls so far.
    pub(crate) fn calls(&self) -> Vec<Entry> {
        let entries = self.bench.entries().into_iter();
        entries.filter(|it| it.caller == self.user).collect()
    }

    fn says(&self, script: Script) {
        self.bench.cloud().say("n1", script);
    }

    async fn until(&self, what: &str, done: impl Fn(&Value) -> bool) {
        let seen = |bench: &TestCluster| bench.find("n1").is_some_and(|node| done(&node));
        self.bench.until(what, seen).await;
    }

    /// From the first sight of a node to its end, and an election.
    pub(crate) async fn whole_story(&mut self) {
        self.says(Script::Machine(machine("demo://m-1", &[FIRST])));
        self.bench.create(fresh("n1")).await;
        // One conflict on the way: the node is read again.
        self.bench
            .fault(refuse(409, "PATCH", "/api/v1/nodes/n1").times(1));
        self.bench.start();
        self.bench.until_initialized("n1").await;
        self.bench.set_ready("n1", "True").await;
        self.says(Script::Machine(machine("demo://m-1", &[SECOND])));
        self.until("the new address", |node| {
            addresses(node).contains(&SECOND.to_owned())
        })
        .await;
        self.bench
            .change("n1", |node| {
                node["metadata"]["labels"]["failure-domain.beta.kubernetes.io/zone"] = "z2".into();
            })
            .await;
        self.until("the repaired label", |node| {
            labels(node)
                .get("topology.kubernetes.io/zone")
                .is_some_and(|it| it == "z2")
        })
        .await;
        let shutdown = format!("{SHUTDOWN_TAINT}:NoSchedule");
        self.says(Script::Machine(stopped("demo://m-1")));
        self.bench.set_ready("n1", "Unknown").await;
        self.until("the shutdown taint", |node| {
            taints(node).contains(&shutdown)
        })
        .await;
        self.says(Script::Machine(machine("demo://m-1", &[SECOND])));
        self.bench.set_ready("n1", "True").await;
        self.until("the taint's removal", |node| {
            !taints(node).contains(&shutdown)
        })
        .await;
        self.says(Script::Gone);
        self.bench.set_ready("n1", "Unknown").await;
        self.bench.until_deleted("n1").await;
        self.trouble().await;
        if self.cloud.is_some() {
            self.service().await;
        }
        self.bench.stop().await;
        for reason in ["Synced", "DeletingNode"] {
            assert_eq!(self.bench.event_count("n1", reason), 1, "{reason}");
        }
    }

    /// A trouble that is reported again and again: the event is counted up.
    async fn trouble(&self) {
        self.bench.cloud().say("n2", Script::Error("no answer"));
        self.bench.create(fresh("n2")).await;
        self.bench
            .until("a trouble is reported twice", |bench| {
                bench.event_count("n2", "NodeInitializationFailed") >= 2
            })
            .await;
    }

    /// From a new Service to its end, with a trouble in between and a status that is refused once.
    pub(crate) async fn service(&self) {
        let path = "/api/v1/namespaces/shop/services/web/status";
        self.bench.fault(refuse(409, "PATCH", path).times(1));
        self.bench
            .create_service(annotated("web", &[(ZONE, "rma1")]))
            .await;
        self.bench.until_published("web").await;
        self.bench.annotate("web", ZONE, Some("lpg1")).await;
        self.bench
            .until("the trouble is reported", |bench| {
                bench.event_count("web", "InvalidLoadBalancerConfig") > 0
            })
            .await;
        self.bench.delete_service("web").await;
        self.bench.until_service_gone("web").await;
        let done = |bench: &TestCluster| bench.event_count("web", "DeletedLoadBalancer") > 0;
        self.bench.until("the end is reported", done).await;
    }

    /// A node whose machine is gone, which the manager may not delete.
    pub(crate) async fn until_gone_for_good(&mut self, status: u16) {
        self.bench.cloud().say("n1", Script::Gone);
        self.bench
            .put(known("n1", "demo://m-1", "Unknown", &[FIRST]))
            .await;
        self.says_also("n2");
        self.bench.start();
        let refused = |bench: &TestCluster| {
            let tried = bench.event_count("n1", "DeletingNodeFailed") > 0;
            tried && bench.is_initialized("n2")
        };
        self.bench.create(fresh("n2")).await;
        self.bench.until("the refusal is reported", refused).await;
        self.bench.stop().await;
        assert!(self.bench.find("n1").is_some());
        let deletions = self.calls().into_iter().filter(|it| it.method == "DELETE");
        for deletion in deletions {
            assert_eq!(deletion.status, status);
        }
    }

    fn says_also(&self, name: &str) {
        let found = machine(&format!("demo://{name}"), &["InternalIP:10.0.0.7"]);
        self.bench.cloud().say(name, Script::Machine(found));
    }
}
