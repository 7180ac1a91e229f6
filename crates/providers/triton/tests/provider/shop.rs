//! A cluster before a simulated data center, and the loop that carries out plans for its Services.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use bowline_core::{
    AddressKind, BalancerRequest, Balancers, Cloud, CloudName, DraftError, Endpoints,
    ExcludedNodes, Goal, Node, NodeAddress, Notice, Plan, PlanProgress, PreparedPlan, Protocol,
    Ready, Service, ServiceKey, ServicePort, StepOutcome, TrafficPolicy, Verb,
};
use bowline_http::Connector;
use bowline_simulator::World;
use bowline_simulator::journal::Entry;
use bowline_simulator::serve::Server;
use bowline_simulator_triton::{
    DEFAULT_ACCOUNT_ID, DEFAULT_PRIVATE_KEY, Fixture, MachineInfo, MachineSpec, Triton as Simulated,
};
use bowline_triton::{Sources, Surroundings, Triton, TritonMetrics, build};
use prometheus_client::registry::Registry;
use tempfile::TempDir;
use tokio::time::Instant;

/// Where the simulated API listens in the pipes.
const AUTHORITY: &str = "cloudapi.sim:80";
/// The uid of the cluster.
pub(crate) const CLUSTER: &str = "cccccccc-0000-4000-8000-00000000000c";
/// What a controller would wait for a step at most.
const PATIENCE: Duration = Duration::from_secs(660);
/// Another look that is due so soon belongs to the same change.
const SOON: Duration = Duration::from_secs(1);
/// Plans that one change takes at most.
const MOST_PLANS: usize = 10;

/// The zone of the public network.
pub(crate) fn outside(label: &str) -> String {
    format!("{label}.svc.{DEFAULT_ACCOUNT_ID}.eg-1.cns.example.com")
}

/// The zone of the fabric network.
pub(crate) fn inside(label: &str) -> String {
    format!("{label}.svc.{DEFAULT_ACCOUNT_ID}.int.eg-1.example.com")
}

/// The id of the machine with that number.
pub(crate) fn id(number: u32) -> String {
    format!("5b1e2d3c-0000-4000-8000-{number:012}")
}

/// A cluster of nodes `k8s-1`, … before a data center.
pub(crate) struct Shop {
    pub(crate) world: World,
    pub(crate) cloud: Arc<Simulated>,
    pub(crate) provider: Arc<Triton>,
    pub(crate) registry: Registry,
    pub(crate) nodes: Vec<Node>,
    pub(crate) excluded: ExcludedNodes,
    /// By name; all are in the namespace `prod`.
    pub(crate) services: BTreeMap<String, Service>,
    pub(crate) endpoints: Endpoints,
    pub(crate) has_ip_mode: bool,
    file: TempDir,
    _server: Server,
}

/// What came of one try, or of all that one change took.
#[derive(Debug, Default)]
pub(crate) struct Outcome {
    /// Of the first.
    pub(crate) plan: Plan,
    /// The notices of plans and of what was skipped.
    pub(crate) notices: Vec<Notice>,
    /// Why it did not end well.
    pub(crate) error: Option<String>,
    /// When to look again, although nothing is known to have changed.
    pub(crate) again: Option<Duration>,
    /// The annotations that are to be removed.
    pub(crate) withdrawn: BTreeSet<String>,
}

impl Outcome {
    /// The reasons of all events, each once.
    pub(crate) fn reasons(&self) -> BTreeSet<&str> {
        let problems = self.plan.problems.iter().map(|it| it.reason);
        let notices = self.notices.iter().map(|it| it.reason);
        notices.chain(problems).collect()
    }

    /// The one problem's reason.
    #[track_caller]
    pub(crate) fn problem(&self) -> &'static str {
        let [problem] = self.plan.problems.as_slice() else {
            panic!("not one problem: {self:?}");
        };
        problem.reason
    }

    #[track_caller]
    pub(crate) fn good(&self) -> &Self {
        assert_eq!(self.error, None);
        assert_eq!(self.plan.problems, []);
        self
    }
}

impl Shop {
    /// With three nodes.
    pub(crate) fn new() -> Self {
        Self::with("", Fixture::default())
    }

    /// With a cloud config file of that text.
    pub(crate) fn configured(text: &str) -> Self {
        Self::with(text, Fixture::default())
    }

    pub(crate) fn with(text: &str, scene: Fixture) -> Self {
        let world = World::simulated(7);
        let cloud = Simulated::from_fixture(&world, scene).unwrap();
        cloud.set_throttle(None);
        for number in 1..=3 {
            let machine = MachineSpec::named(&format!("k8s-{number}")).id(&id(number));
            cloud.add_machine(&machine).unwrap();
        }
        let server = Server::builder(&world, cloud.clone()).pipe(AUTHORITY);
        let file = tempfile::tempdir().unwrap();
        std::fs::write(file.path().join("cloud.conf"), text).unwrap();
        let (provider, registry) = provider(&world, &file);
        Self {
            world,
            cloud,
            provider,
            registry,
            nodes: (1..=3).map(node).collect(),
            excluded: ExcludedNodes::default(),
            services: BTreeMap::new(),
            endpoints: Endpoints::new(),
            has_ip_mode: true,
            file,
            _server: server,
        }
    }

    /// The provider begins anew; the cloud goes on.
    pub(crate) fn restart(&mut self) {
        (self.provider, self.registry) = provider(&self.world, &self.file);
    }

    /// Another configuration, and so a restart.
    pub(crate) fn configure(&mut self, text: &str) {
        std::fs::write(self.file.path().join("cloud.conf"), text).unwrap();
        self.restart();
    }

    /// Adds a Service of the namespace `prod` with port 80, which nodes have at 30080.
    pub(crate) fn add(&mut self, name: &str) -> &mut Service {
        let number = self.services.len() + 1;
        let mut service = service(name);
        if name != "web" {
            service.uid = format!("3f0c2a9e-7d11-4c55-9a0e-5b2f6f1f0b{number:02}");
        }
        self.services.entry(name.to_owned()).or_insert(service)
    }

    pub(crate) fn service(&mut self, name: &str) -> &mut Service {
        self.services.get_mut(name).unwrap()
    }

    /// Sets an annotation of our prefix.
    pub(crate) fn annotate(&mut self, name: &str, key: &str, value: &str) {
        let annotations = self.service(name).annotations.get_or_insert_default();
        annotations.insert(format!("cloud.tritoncompute/{key}"), value.to_owned());
    }

    /// An annotation of our prefix.
    pub(crate) fn annotation(&self, name: &str, key: &str) -> &str {
        let key = format!("cloud.tritoncompute/{key}");
        self.services[name].annotation(&key).unwrap_or_default()
    }

    pub(crate) fn balancers(&self) -> &dyn Balancers {
        self.provider.balancers().unwrap()
    }

    pub(crate) fn wish(&self, name: &str, goal: Goal) -> BalancerRequest {
        let all = self.services.values().cloned().map(Arc::new);
        // A removal is planned without a look at nodes.
        let nodes = match goal {
            Goal::Present => self.nodes.iter().cloned().map(Arc::new).collect(),
            Goal::Absent => Vec::new(),
        };
        BalancerRequest {
            service: Arc::new(self.services[name].clone()),
            goal,
            nodes,
            excluded: self.excluded.clone(),
            all: Arc::new(all.collect()),
            all_known: true,
            cluster_name: "kubernetes".to_owned(),
            has_ip_mode: self.has_ip_mode,
            cluster_uid: Some(CLUSTER.to_owned()),
            living: None,
            rules: Arc::default(),
            endpoints: Some(Arc::new(self.endpoints.clone())),
        }
    }

    pub(crate) async fn draft(&self, name: &str, goal: Goal) -> Result<PreparedPlan, DraftError> {
        self.balancers().draft(&self.wish(name, goal)).await
    }

    /// Plans and carries out once; what is to be published is written to the Service.
    pub(crate) async fn once(&mut self, name: &str) -> Outcome {
        self.go(name, Goal::Present).await
    }

    /// The same, and again for as long as another look is due at once.
    pub(crate) async fn ensure(&mut self, name: &str) -> Outcome {
        let mut all = self.once(name).await;
        for _ in 0..MOST_PLANS {
            let Some(pause) = all.again.filter(|it| *it <= SOON) else {
                return all;
            };
            tokio::time::sleep(pause).await;
            let next = self.once(name).await;
            all.notices.extend(next.notices);
            all.plan.problems.extend(next.plan.problems);
            (all.error, all.again) = (next.error, next.again);
        }
        panic!("it never ends: {all:?}");
    }

    /// Removes a Service, and what the cloud has of it.
    pub(crate) async fn delete(&mut self, name: &str) -> Outcome {
        self.service(name).deleting = true;
        let outcome = self.go(name, Goal::Absent).await;
        if outcome.error.is_none() {
            self.services.remove(name);
        }
        outcome
    }

    /// The same until the process dies after that many looks at steps. Says whether it ended before.
    pub(crate) async fn until_crash(&mut self, name: &str, goal: Goal, looks: u64) -> bool {
        let PreparedPlan {
            plan, mut executor, ..
        } = self.draft(name, goal).await.unwrap();
        let mut run = PlanProgress::new(plan);
        for _ in 0..looks {
            let Some(step) = run.next_step() else {
                return true;
            };
            match executor.carry_out(step).await.unwrap() {
                StepOutcome::Done => run.done(step),
                StepOutcome::Wait { after, .. } => tokio::time::sleep(after).await,
                StepOutcome::Skipped(notice) => panic!("{notice:?}"),
            }
        }
        run.next_step().is_none()
    }

    async fn go(&mut self, name: &str, goal: Goal) -> Outcome {
        match self.draft(name, goal).await {
            Ok(draft) => self.carry_out(name, draft).await,
            Err(error) => Outcome {
                error: Some(match error {
                    DraftError::Cloud(error) => error.chain(),
                    other => other.to_string(),
                }),
                ..Outcome::default()
            },
        }
    }

    async fn carry_out(&mut self, name: &str, draft: PreparedPlan) -> Outcome {
        let PreparedPlan {
            plan, mut executor, ..
        } = draft;
        let mut outcome = Outcome {
            notices: plan.notices.clone(),
            plan: plan.clone(),
            ..Outcome::default()
        };
        let mut run = PlanProgress::new(plan);
        let start = Instant::now();
        while let Some(step) = run.next_step() {
            match executor.carry_out(step).await {
                Ok(StepOutcome::Done) => run.done(step),
                Ok(StepOutcome::Wait { what, after }) => {
                    run.wait(step, what.clone(), self.world.clock.now());
                    if start.elapsed() > PATIENCE {
                        outcome.error = Some(format!("still waiting for {what}"));
                        return outcome;
                    }
                    tokio::time::sleep(after).await;
                }
                Ok(StepOutcome::Skipped(notice)) => {
                    outcome.notices.push(notice);
                    run.skip(step);
                }
                Err(error) => {
                    outcome.error = Some(error.chain());
                    return outcome;
                }
            }
        }
        let publication = executor.publication();
        let service = self.service(name);
        let annotations = service.annotations.get_or_insert_default();
        annotations.extend(publication.annotations);
        // What works is not taken away because something else is wrong.
        if outcome.plan.problems.is_empty() && !run.has_gaps() || !publication.ingress.is_empty() {
            service.ingress = publication.ingress;
        }
        if run.has_gaps() {
            outcome.error = Some("some steps could not be done".to_owned());
        }
        outcome.withdrawn = publication.withdrawn;
        outcome.again = executor.again();
        outcome
    }

    pub(crate) async fn wait(&self, seconds: u64) {
        tokio::time::sleep(Duration::from_secs(seconds)).await;
    }

    /// What the status shows, in order.
    pub(crate) fn status(&self, name: &str) -> Vec<String> {
        let entrances = self.services[name].ingress.iter();
        entrances.map(ToString::to_string).collect()
    }

    pub(crate) fn machine(&self, number: u32) -> MachineInfo {
        self.cloud.machine(&id(number)).unwrap()
    }

    /// The tag of a machine that drives the name service; empty if there is none.
    pub(crate) fn tag(&self, number: u32) -> String {
        let machine = self.machine(number);
        let tag = machine.tag("triton.cns.services");
        tag.unwrap_or_default().to_owned()
    }

    /// The same of the three nodes.
    pub(crate) fn tags(&self) -> [String; 3] {
        [1, 2, 3].map(|number| self.tag(number))
    }

    /// The changes since the last time this was asked: `METHOD path body`.
    pub(crate) fn changes(&self) -> Vec<String> {
        let calls = self.world.journal.entries();
        self.world.journal.clear();
        let calls = calls.into_iter().filter(Entry::is_mutating);
        calls
            .map(|it| format!("{} {} {}", it.method, it.path, it.body))
            .collect()
    }

    /// The value of a metric, with its labels.
    pub(crate) fn metric(&self, line: &str) -> Option<String> {
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &self.registry).unwrap();
        let mut lines = text.lines();
        lines.find_map(|it| it.strip_prefix(line).map(|it| it.trim().to_owned()))
    }

    /// The next event about a node: its name and the reason.
    pub(crate) async fn news(&self) -> Option<(String, &'static str)> {
        let next = tokio::time::timeout(Duration::from_secs(1), self.provider.next_event());
        let news = next.await.ok()?;
        Some((news.regarding.name, news.reason))
    }

    /// Where the endpoints of a Service are.
    pub(crate) fn serve_on(&mut self, name: &str, nodes: &[&str]) {
        let key = self.services[name].key.clone();
        let nodes: BTreeSet<String> = nodes.iter().map(ToString::to_string).collect();
        if nodes.is_empty() {
            self.endpoints.remove(&key);
        } else {
            self.endpoints.insert(key, nodes);
        }
    }
}

fn provider(world: &World, file: &TempDir) -> (Arc<Triton>, Registry) {
    let environment = |name: &str| {
        let value = match name {
            "SDC_ENDPOINT" => "http://cloudapi.sim",
            "SDC_ACCOUNT" => "acme",
            "SDC_PRIVATE_KEY" => DEFAULT_PRIVATE_KEY,
            _ => return None,
        };
        Some(value.to_owned())
    };
    let sources = Sources {
        flags: BTreeMap::new(),
        environment: Arc::new(environment),
        file: Some(file.path().join("cloud.conf")),
        text: None,
        secret: None,
        cluster_name: "kubernetes".to_owned(),
    };
    let surroundings = Surroundings {
        name: CloudName::parse("triton").unwrap(),
        connector: Connector::simulated(world.pipes.clone()),
        clock: world.clock.clone(),
        random: world.random.fork(),
        metrics: None,
    };
    let mut registry = Registry::default();
    let metrics = TritonMetrics::register(&mut registry);
    (build(sources, &surroundings, &metrics).unwrap(), registry)
}

/// The node of the machine with that number.
pub(crate) fn node(number: u32) -> Node {
    let name = format!("k8s-{number}");
    Node {
        uid: format!("uid-{name}"),
        resource_version: "1".to_owned(),
        created: jiff::Timestamp::UNIX_EPOCH,
        deleting: false,
        labels: BTreeMap::new(),
        annotations: BTreeMap::new(),
        provider_id: Some(format!("triton://{}", id(number))),
        pod_cidrs: Vec::new(),
        taints: Vec::new(),
        addresses: vec![NodeAddress::new(AddressKind::Hostname, &name)],
        ready: Ready::True,
        system_uuid: String::new(),
        os_image: String::new(),
        network: None,
        name,
    }
}

/// A port of a Service.
pub(crate) fn port(protocol: &str, port: u16, node_port: u16) -> ServicePort {
    ServicePort {
        name: format!("{protocol}-{port}").to_lowercase(),
        protocol: Protocol::from(protocol),
        port,
        node_port,
        target_port: "8080".to_owned(),
        application_protocol: None,
    }
}

fn service(name: &str) -> Service {
    Service {
        key: ServiceKey {
            namespace: "prod".to_owned(),
            name: name.to_owned(),
        },
        uid: "3f0c2a9e-7d11-4c55-9a0e-5b2f6f1f0a01".to_owned(),
        resource_version: "7".to_owned(),
        created: jiff::Timestamp::UNIX_EPOCH,
        deleting: false,
        annotations: None,
        finalizers: vec![bowline_core::CLEANUP_FINALIZER.to_owned()],
        is_load_balancer: true,
        type_name: "LoadBalancer".into(),
        class: None,
        ports: vec![port("TCP", 80, 30080)],
        client_affinity: None,
        requested_ip: None,
        external_ips: Vec::new(),
        source_ranges: Vec::new(),
        traffic_policy: TrafficPolicy::Cluster,
        health_check_node_port: None,
        ip_families: vec!["IPv4".to_owned()],
        ingress: Vec::new(),
        conditions: Vec::new(),
    }
}

/// The steps of a plan in words: `update machine k8s-1`.
pub(crate) fn steps(plan: &Plan) -> Vec<String> {
    let real = plan.steps.iter().filter(|step| step.verb != Verb::Wait);
    real.map(|step| format!("{} {}", step.verb, step.object))
        .collect()
}
