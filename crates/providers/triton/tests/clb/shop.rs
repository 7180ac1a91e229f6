//! The Service of the specification's cases before a simulated data center, and the loop that carries out its
//! plans.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bowline_core::{
    AddressKind, BalancerRequest, Balancers, Cloud, CloudName, DraftError, Endpoints,
    ExcludedNodes, Goal, Node, NodeAddress, Notice, Plan, PlanProgress, PreparedPlan, Protocol,
    Ready, Service, ServiceKey, ServicePort, StepOutcome, TrafficPolicy, Verb,
};
use bowline_http::Connector;
use bowline_simulator::World;
use bowline_simulator::faults::{Action, Rule};
use bowline_simulator::journal::Entry;
use bowline_simulator::serve::Server;
use bowline_simulator_triton::{
    DEFAULT_PRIVATE_KEY, Fixture, MachineInfo, MachineSpec, RuleInfo, Triton as Simulated,
};
use bowline_triton::{Sources, Surroundings, Triton, TritonMetrics, build};
use serde_json::Value;
use tokio::time::Instant;

pub(crate) const CLUSTER: &str = "cccccccc-0000-4000-8000-00000000000c";
pub(crate) const UID: &str = "3f0c2a9e-7d11-4c55-9a0e-5b2f6f1f0a01";
pub(crate) const ACCOUNT: &str = "aaaaaaaa-0000-4000-8000-00000000000a";
pub(crate) const NAME: &str = "kubernetes-clb-3f0c2a9e-0";
const AUTHORITY: &str = "cloudapi.sim:80";
const PREFIX: &str = "cloud.tritoncompute/";
/// What a controller would wait for a step at most.
const PATIENCE: Duration = Duration::from_secs(660);

/// A Service before the simulated cloud.
pub(crate) struct Shop {
    pub(crate) world: World,
    pub(crate) sim: Arc<Simulated>,
    pub(crate) cloud: Arc<Triton>,
    pub(crate) service: Service,
    /// The other Services of the cluster.
    pub(crate) others: Vec<Service>,
    pub(crate) nodes: Vec<Node>,
    file: String,
    /// Where the file is, which the provider follows.
    folder: tempfile::TempDir,
    _server: Server,
}

/// What came of one try.
pub(crate) struct Outcome {
    pub(crate) plan: Plan,
    /// The notices of the plan and of what was skipped.
    pub(crate) notices: Vec<Notice>,
    /// Why it did not end well.
    pub(crate) error: Option<String>,
    /// When the cloud asks to be tried again after an error.
    pub(crate) hint: Option<Duration>,
    /// When time alone changes what is wanted.
    pub(crate) again: Option<Duration>,
}

impl Outcome {
    fn new(plan: Plan) -> Self {
        Self {
            notices: plan.notices.clone(),
            plan,
            error: None,
            hint: None,
            again: None,
        }
    }

    pub(crate) fn reasons(&self) -> Vec<&str> {
        self.notices.iter().map(|notice| notice.reason).collect()
    }

    pub(crate) fn problems(&self) -> Vec<&str> {
        self.plan.problems.iter().map(|it| it.reason).collect()
    }

    #[track_caller]
    pub(crate) fn good(&self) -> &Self {
        assert_eq!(self.error, None);
        assert_eq!(self.plan.problems, []);
        self
    }
}

/// The id of the node machine with that number.
pub(crate) fn node_id(number: u32) -> String {
    format!("5b1e2d3c-0000-4000-8000-{number:012}")
}

impl Shop {
    pub(crate) fn new() -> Self {
        Self::with("")
    }

    /// With these further lines about load balancers.
    pub(crate) fn with(lines: &str) -> Self {
        Self::staged(Fixture::default(), 3, lines)
    }

    /// With that many nodes in that scene.
    pub(crate) fn staged(scene: Fixture, nodes: u32, lines: &str) -> Self {
        let world = World::simulated(7);
        let sim = Simulated::from_fixture(&world, scene).unwrap();
        sim.set_throttle(None);
        for number in 1..=nodes {
            let machine = MachineSpec::named(&format!("k8s-{number}")).id(&node_id(number));
            sim.add_machine(&machine).unwrap();
        }
        let server = Server::builder(&world, sim.clone()).pipe(AUTHORITY);
        let allowed = "allowed-packages = g4-highcpu-1G\nallowed-images = nonesuch, \
                       33333333-3333-4333-8333-444444444444";
        let file =
            format!("[LoadBalancer]\nmode = clb\nclb-package = lb1.small\n{allowed}\n{lines}\n");
        let folder = tempfile::tempdir().unwrap();
        Self {
            cloud: provider(&world, &file, &folder),
            folder,
            world,
            sim,
            service: named("web", UID, &[(80, 30080), (443, 30443)]),
            others: Vec::new(),
            nodes: (1..=nodes).map(node).collect(),
            file,
            _server: server,
        }
    }

    /// The provider begins anew; the cloud goes on.
    pub(crate) fn restart(&mut self) {
        self.cloud = provider(&self.world, &self.file, &self.folder);
    }

    pub(crate) fn balancers(&self) -> &dyn Balancers {
        self.cloud.balancers().unwrap()
    }

    /// Sets an annotation, by its name behind the prefix.
    pub(crate) fn set(&mut self, name: &str, value: &str) -> &mut Self {
        set(&mut self.service, name, value);
        self
    }

    pub(crate) fn unset(&mut self, name: &str) -> &mut Self {
        if let Some(annotations) = &mut self.service.annotations {
            annotations.remove(&format!("{PREFIX}{name}"));
        }
        self
    }

    pub(crate) fn get(&self, name: &str) -> &str {
        let key = format!("{PREFIX}{name}");
        self.service.annotation(&key).unwrap_or_default()
    }

    pub(crate) fn wish(&self, goal: Goal) -> BalancerRequest {
        let mut all: Vec<Arc<Service>> = self.others.iter().cloned().map(Arc::new).collect();
        all.push(Arc::new(self.service.clone()));
        let nodes = self.nodes.iter().filter(|_| goal == Goal::Present);
        BalancerRequest {
            service: Arc::new(self.service.clone()),
            goal,
            nodes: nodes.cloned().map(Arc::new).collect(),
            excluded: ExcludedNodes::default(),
            all: Arc::new(all),
            all_known: true,
            cluster_name: "kubernetes".to_owned(),
            has_ip_mode: true,
            cluster_uid: Some(CLUSTER.to_owned()),
            living: None,
            rules: Arc::default(),
            endpoints: Some(Arc::new(Endpoints::new())),
        }
    }

    pub(crate) async fn draft(&self, goal: Goal) -> Result<PreparedPlan, DraftError> {
        self.balancers().draft(&self.wish(goal)).await
    }

    /// Plans and carries out once; what is to be published is written to the Service.
    pub(crate) async fn ensure(&mut self) -> Outcome {
        self.go(Goal::Present, None).await
    }

    /// The same for a Service that goes.
    pub(crate) async fn delete(&mut self) -> Outcome {
        self.service.deleting = true;
        self.go(Goal::Absent, None).await
    }

    /// The same, until the process dies after that many looks at steps.
    pub(crate) async fn until_crash(&mut self, goal: Goal, looks: u64) -> Outcome {
        self.go(goal, Some(looks)).await
    }

    /// Plans and carries out until time alone changes nothing any more.
    pub(crate) async fn settle(&mut self) -> Outcome {
        loop {
            let outcome = self.ensure().await;
            match outcome.again {
                Some(again) => tokio::time::sleep(again).await,
                None => return outcome,
            }
        }
    }

    async fn go(&mut self, goal: Goal, looks: Option<u64>) -> Outcome {
        match self.draft(goal).await {
            Ok(draft) => self.carry_out(draft, looks).await,
            Err(error) => {
                let mut outcome = Outcome::new(Plan::default());
                outcome.hint = match &error {
                    DraftError::Later { after, .. } | DraftError::Account { after, .. } => {
                        Some(*after)
                    }
                    DraftError::Cloud(error) => error.retry_hint(),
                    DraftError::Elsewhere | DraftError::NeedsServices => None,
                };
                outcome.error = Some(match error {
                    DraftError::Cloud(error) => error.chain(),
                    other => other.to_string(),
                });
                outcome
            }
        }
    }

    async fn carry_out(&mut self, draft: PreparedPlan, looks: Option<u64>) -> Outcome {
        let PreparedPlan {
            plan, mut executor, ..
        } = draft;
        let mut outcome = Outcome::new(plan.clone());
        let mut run = PlanProgress::new(plan);
        let mut left = looks;
        let start = Instant::now();
        self.publish(&executor.publication().annotations);
        while let Some(step) = run.next_step() {
            if left == Some(0) {
                outcome.error = Some("the process died".to_owned());
                return outcome;
            }
            left = left.map(|left| left - 1);
            match executor.carry_out(step).await {
                Ok(StepOutcome::Done) => run.done(step),
                Ok(StepOutcome::Wait { what, after }) => {
                    run.wait(step, what.clone(), self.world.clock.now());
                    self.publish(&executor.publication().annotations);
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
                    outcome.hint = error.retry_hint();
                    outcome.error = Some(error.chain());
                    return outcome;
                }
            }
            self.publish(&executor.publication().annotations);
        }
        if run.has_gaps() {
            outcome.error = Some("some steps could not be done".to_owned());
        }
        let publication = executor.publication();
        self.publish(&publication.annotations);
        if outcome.error.is_none() || !publication.ingress.is_empty() {
            self.service.ingress = publication.ingress;
        }
        outcome.again = executor.again();
        outcome
    }

    fn publish(&mut self, annotations: &BTreeMap<String, String>) {
        let map = self.service.annotations.get_or_insert_default();
        map.extend(annotations.clone());
    }

    pub(crate) async fn wait(&self, seconds: u64) {
        tokio::time::sleep(Duration::from_secs(seconds)).await;
    }

    /// The load balancer machines, by name.
    pub(crate) fn machines(&self) -> Vec<MachineInfo> {
        let mut all = self.sim.machines();
        all.retain(|it| it.tags.contains_key("bowline.clb"));
        all.sort_by(|one, other| one.name.cmp(&other.name));
        all
    }

    /// The only one.
    #[track_caller]
    pub(crate) fn machine(&self) -> MachineInfo {
        let mut all = self.machines();
        assert_eq!(all.len(), 1, "{all:?}");
        all.remove(0)
    }

    pub(crate) fn names(&self) -> Vec<String> {
        self.machines().into_iter().map(|it| it.name).collect()
    }

    /// Metadata of the only machine, by its name behind the prefix.
    #[track_caller]
    pub(crate) fn metadata(&self, name: &str) -> Option<String> {
        let key = format!("cloud.tritoncompute:{name}");
        let value = self.machine().metadata.get(&key).cloned()?;
        value.as_str().map(str::to_owned)
    }

    /// What the Service shows.
    pub(crate) fn shown(&self) -> String {
        let all = self.service.ingress.iter().map(ToString::to_string);
        all.collect::<Vec<_>>().join(" ")
    }

    /// `kind: text` of every rule of ours, by kind.
    pub(crate) fn rules(&self) -> Vec<(String, RuleInfo)> {
        let kind = |rule: &RuleInfo| {
            let description = rule.description.clone().unwrap_or_default();
            description.split(':').nth(3).unwrap_or_default().to_owned()
        };
        let rules = self.sim.rules().into_iter().map(|it| (kind(&it), it));
        let mut rules: Vec<(String, RuleInfo)> = rules.collect();
        rules.sort_by(|one, other| one.0.cmp(&other.0));
        rules
    }

    /// All calls since the last time this was asked.
    pub(crate) fn calls(&self) -> Vec<Entry> {
        let calls = self.world.journal.entries();
        self.world.journal.clear();
        calls
    }

    /// The changes since the last time this was asked, by the API's names, with bodies.
    pub(crate) fn changes(&self) -> Vec<(String, Value)> {
        let calls = self.calls().into_iter().filter(Entry::is_mutating);
        calls.map(|it| (it.operation, it.body)).collect()
    }

    /// The same without bodies.
    pub(crate) fn writes(&self) -> Vec<String> {
        self.changes().into_iter().map(|it| it.0).collect()
    }

    pub(crate) fn fault(&self, operation: &str, times: u64, action: Action) {
        let rule = Rule::new(action).operation(operation).times(times);
        self.world.faults.add(rule.named(operation)).unwrap();
    }
}

/// A shop whose load balancer is there, and whose calls are forgotten.
pub(crate) async fn open() -> Shop {
    let mut shop = Shop::new();
    shop.ensure().await.good();
    shop.calls();
    shop
}

fn provider(world: &World, file: &str, folder: &tempfile::TempDir) -> Arc<Triton> {
    let path = folder.path().join("cloud.conf");
    std::fs::write(&path, file).unwrap();
    let variables = [
        ("SDC_ENDPOINT", "http://cloudapi.sim"),
        ("SDC_ACCOUNT", "acme"),
        ("SDC_PRIVATE_KEY", DEFAULT_PRIVATE_KEY),
    ];
    let variables: BTreeMap<&str, &str> = variables.into_iter().collect();
    let sources = Sources {
        flags: BTreeMap::new(),
        environment: Arc::new(move |name| variables.get(name).map(|it| (*it).to_owned())),
        file: Some(path),
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
    build(sources, &surroundings, &TritonMetrics::default()).unwrap()
}

pub(crate) fn set(service: &mut Service, name: &str, value: &str) {
    let annotations = service.annotations.get_or_insert_default();
    annotations.insert(format!("{PREFIX}{name}"), value.to_owned());
}

/// A port of a Service.
pub(crate) fn port(protocol: &str, port: u16, node_port: u16) -> ServicePort {
    ServicePort {
        name: format!("{protocol}-{port}").to_lowercase(),
        protocol: Protocol::from(protocol),
        port,
        node_port,
        target_port: port.to_string(),
        application_protocol: None,
    }
}

/// A Service of the shop.
pub(crate) fn named(name: &str, uid: &str, ports: &[(u16, u16)]) -> Service {
    Service {
        key: ServiceKey {
            namespace: "prod".into(),
            name: name.into(),
        },
        uid: uid.into(),
        resource_version: "7".into(),
        created: "2026-02-01T00:00:00Z".parse().unwrap(),
        deleting: false,
        annotations: None,
        finalizers: vec![bowline_core::CLEANUP_FINALIZER.to_owned()],
        is_load_balancer: true,
        type_name: "LoadBalancer".into(),
        class: None,
        ports: ports.iter().map(|(a, b)| port("TCP", *a, *b)).collect(),
        client_affinity: None,
        requested_ip: None,
        external_ips: Vec::new(),
        source_ranges: Vec::new(),
        traffic_policy: TrafficPolicy::Cluster,
        health_check_node_port: None,
        ip_families: vec!["IPv4".into()],
        ingress: Vec::new(),
        conditions: Vec::new(),
    }
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
        provider_id: Some(format!("triton://{}", node_id(number))),
        pod_cidrs: Vec::new(),
        taints: Vec::new(),
        addresses: vec![NodeAddress::new(AddressKind::Hostname, &*name)],
        ready: Ready::True,
        network: None,
        system_uuid: String::new(),
        os_image: String::new(),
        name,
    }
}

/// The steps of a plan in words, without waits.
pub(crate) fn steps(plan: &Plan) -> Vec<String> {
    let real = plan.steps.iter().filter(|step| step.verb != Verb::Wait);
    real.map(|step| format!("{} {}", step.verb, step.object))
        .collect()
}
