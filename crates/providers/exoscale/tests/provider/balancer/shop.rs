//! The Service of the specification's cases, and the loop that carries out its plans.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bowline_core::{
    BalancerRequest, BalancerRules, Balancers, DraftError, ExcludedNodes, Goal, Node, Notice, Plan,
    PlanProgress, PreparedPlan, Protocol, Publication, Service, ServiceKey, ServicePort,
    StepOutcome, TrafficPolicy, Verb,
};
use bowline_simulator::faults::{Action, Rule};
use bowline_simulator::journal::Entry;
use bowline_simulator_exoscale::{BalancerInfo, BalancerSpec, ServiceInfo, ServiceSpec};
use serde_json::Value;
use tokio::time::Instant;

use crate::stage::{I1, I2, P1, Stage, of};

pub(crate) const UID: &str = "5c7b1f0e-6a53-4f6e-9a3d-1f2e3d4c5b6a";
pub(crate) const NAME: &str = "k8s-5c7b1f0e-6a53-4f6e-9a3d-1f2e3d4c5b6a";
pub(crate) const L1: &str = "7d2f7f4e-22d1-4b38-8f0b-94c8a54d6d01";
/// The uid of another Service.
pub(crate) const OTHER: &str = "11111111-6a53-4f6e-9a3d-1f2e3d4c5b6a";
/// What a controller would wait for a step at most.
const PATIENCE: Duration = Duration::from_secs(660);

/// A Service before the simulated cloud.
pub(crate) struct Shop {
    pub(crate) stage: Stage,
    pub(crate) service: Service,
    pub(crate) nodes: Vec<Node>,
    /// The other Services of the cluster.
    pub(crate) others: Vec<Service>,
    /// The uids of Services that cannot be read.
    pub(crate) unreadable: Vec<String>,
    /// Whether no Service is missing.
    pub(crate) all_known: bool,
    pub(crate) cluster_name: String,
    pub(crate) cluster_uid: Option<String>,
    /// What the operator allows.
    pub(crate) rules: BalancerRules,
}

/// What came of one try.
pub(crate) struct Outcome {
    pub(crate) plan: Plan,
    /// The notices of the plan and of what was skipped.
    pub(crate) notices: Vec<Notice>,
    /// Why it did not end well.
    pub(crate) error: Option<String>,
    /// The annotations that are to be removed.
    pub(crate) withdrawn: Vec<String>,
}

impl Outcome {
    pub(crate) fn reasons(&self) -> Vec<&str> {
        self.notices.iter().map(|notice| notice.reason).collect()
    }

    /// The text of the one problem.
    #[track_caller]
    pub(crate) fn problem(&self) -> &str {
        let [problem] = self.plan.problems.as_slice() else {
            panic!(
                "not one problem: {:?}, {:?}",
                self.plan.problems, self.error
            );
        };
        &problem.message
    }

    #[track_caller]
    pub(crate) fn good(&self) -> &Self {
        assert_eq!(self.error, None);
        assert_eq!(self.plan.problems, []);
        self
    }
}

impl Shop {
    pub(crate) async fn new() -> Self {
        Self::with("").await
    }

    /// With that cloud config file.
    pub(crate) async fn with(file: &str) -> Self {
        Self::seeded(7, file).await
    }

    pub(crate) async fn seeded(seed: u64, file: &str) -> Self {
        Self {
            stage: Stage::with(seed, file).await,
            service: named("web", UID),
            nodes: vec![of(I1), of(I2)],
            others: Vec::new(),
            unreadable: Vec::new(),
            all_known: true,
            cluster_name: "kubernetes".into(),
            cluster_uid: Some("blue".into()),
            rules: BalancerRules::default(),
        }
    }

    pub(crate) fn balancers(&self) -> &dyn Balancers {
        self.stage.cloud.balancers().unwrap()
    }

    /// Sets an annotation, by its suffix.
    pub(crate) fn set(&mut self, suffix: &str, value: &str) -> &mut Self {
        set(&mut self.service, suffix, value);
        self
    }

    pub(crate) fn unset(&mut self, suffix: &str) -> &mut Self {
        if let Some(annotations) = &mut self.service.annotations {
            annotations.remove(&key(suffix));
        }
        self
    }

    /// An annotation, by its suffix.
    pub(crate) fn get(&self, suffix: &str) -> &str {
        self.service.annotation(&key(suffix)).unwrap_or_default()
    }

    pub(crate) fn wish(&self, goal: Goal) -> BalancerRequest {
        let mut all: Vec<Arc<Service>> = self.others.iter().cloned().map(Arc::new).collect();
        all.push(Arc::new(self.service.clone()));
        BalancerRequest {
            service: Arc::new(self.service.clone()),
            goal,
            nodes: self.nodes.iter().cloned().map(Arc::new).collect(),
            excluded: ExcludedNodes::default(),
            all: Arc::new(all),
            all_known: self.all_known,
            cluster_name: self.cluster_name.clone(),
            has_ip_mode: true,
            cluster_uid: self.cluster_uid.clone(),
            living: None,
            rules: Arc::new(self.rules.clone()),
            endpoints: None,
        }
    }

    /// A plan, as soon as the cloud is settled enough for one.
    pub(crate) async fn draft(&self, goal: Goal) -> Result<PreparedPlan, DraftError> {
        let start = Instant::now();
        let mut wish = self.wish(goal);
        loop {
            match self.balancers().draft(&wish).await {
                Err(DraftError::NeedsServices) if wish.living.is_none() => {
                    let uids = wish.all.iter().map(|it| it.uid.clone());
                    let uids = uids.chain(self.unreadable.iter().cloned());
                    wish.living = Some(Arc::new(uids.collect()));
                }
                Err(DraftError::Later { after, .. }) if start.elapsed() < PATIENCE => {
                    tokio::time::sleep(after).await;
                }
                result => return result,
            }
        }
    }

    /// Plans and carries out; what is to be published is written to the Service.
    pub(crate) async fn ensure(&mut self) -> Outcome {
        self.go(Goal::Present, None).await
    }

    /// The same for a Service that goes.
    pub(crate) async fn delete(&mut self) -> Outcome {
        self.go(Goal::Absent, None).await
    }

    /// The same, until the process dies after that many looks at steps.
    pub(crate) async fn until_crash(&mut self, goal: Goal, looks: u64) -> Outcome {
        self.go(goal, Some(looks)).await
    }

    async fn go(&mut self, goal: Goal, looks: Option<u64>) -> Outcome {
        match self.draft(goal).await {
            Ok(draft) => self.carry_out(draft, looks).await,
            Err(error) => Outcome {
                plan: Plan::default(),
                notices: Vec::new(),
                error: Some(match error {
                    DraftError::Cloud(error) => error.chain(),
                    other => other.to_string(),
                }),
                withdrawn: Vec::new(),
            },
        }
    }

    async fn carry_out(&mut self, draft: PreparedPlan, looks: Option<u64>) -> Outcome {
        let PreparedPlan {
            plan, mut executor, ..
        } = draft;
        let mut outcome = Outcome {
            notices: plan.notices.clone(),
            plan: plan.clone(),
            error: None,
            withdrawn: Vec::new(),
        };
        let mut run = PlanProgress::new(plan);
        let mut left = looks;
        let start = Instant::now();
        self.publish(&executor.publication());
        while let Some(step) = run.next_step() {
            if left == Some(0) {
                outcome.error = Some("the process died".to_owned());
                return outcome;
            }
            left = left.map(|left| left - 1);
            match executor.carry_out(step).await {
                Ok(StepOutcome::Done) => run.done(step),
                Ok(StepOutcome::Wait { what, after }) => {
                    run.wait(step, what.clone(), self.stage.world.clock.now());
                    // An id is there before it is waited for.
                    self.publish(&executor.publication());
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
                    self.publish(&executor.publication());
                    outcome.error = Some(error.chain());
                    return outcome;
                }
            }
            self.publish(&executor.publication());
        }
        let publication = executor.publication();
        self.service.ingress = publication.ingress;
        outcome.withdrawn = publication.withdrawn.into_iter().collect();
        outcome
    }

    fn publish(&mut self, publication: &Publication) {
        let map = self.service.annotations.get_or_insert_default();
        map.extend(publication.annotations.clone());
        for record in &publication.records {
            self.service.conditions.retain(|it| it.kind != record.kind);
            self.service.conditions.push(record.clone());
        }
    }

    /// What the Service's status remembers.
    pub(crate) fn record(&self) -> &str {
        let mut all = self.service.conditions.iter();
        let record = all.find(|it| it.kind == bowline_exoscale::RECORD);
        record.map(|it| it.message.as_str()).unwrap_or_default()
    }

    pub(crate) async fn wait(&self, seconds: u64) {
        tokio::time::sleep(Duration::from_secs(seconds)).await;
    }

    /// The load balancers of the zone.
    pub(crate) fn all(&self) -> Vec<BalancerInfo> {
        self.stage.sim.balancers()
    }

    /// The only load balancer.
    #[track_caller]
    pub(crate) fn balancer(&self) -> BalancerInfo {
        let mut all = self.all();
        assert_eq!(all.len(), 1, "{all:?}");
        all.remove(0)
    }

    /// The only service of the only load balancer.
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

    /// The address that the Service shows.
    pub(crate) fn address(&self) -> String {
        let ips = self.service.ingress.iter().filter_map(|it| it.ip.clone());
        ips.collect::<Vec<_>>().join(" ")
    }

    /// The changes since the last time this was asked, by the API's names, with bodies.
    pub(crate) fn changes(&self) -> Vec<(String, Value)> {
        let calls = self.calls().into_iter().filter(Entry::is_mutating);
        calls.map(|it| (it.operation, it.body)).collect()
    }

    /// The same without bodies.
    pub(crate) fn writes(&self) -> Vec<String> {
        self.changes().into_iter().map(|(name, _)| name).collect()
    }

    /// All calls since the last time this was asked.
    pub(crate) fn calls(&self) -> Vec<Entry> {
        let calls = self.stage.world.journal.entries();
        self.stage.world.journal.clear();
        calls
    }

    pub(crate) fn fault(&self, operation: &str, times: u64, action: Action) {
        let rule = Rule::new(action).operation(operation).times(times);
        self.stage.world.faults.add(rule.named(operation)).unwrap();
    }

    /// Adds load balancer L1 that nobody made, with a service at each of these ports.
    pub(crate) fn place(&self, name: &str, services: &[(&str, u16)]) {
        let ip = "203.0.113.80".parse().unwrap();
        let mut spec = BalancerSpec::named(name).id(L1).ip(ip);
        for (name, port) in services {
            spec = spec.service(ServiceSpec::new(name, P1, *port, 30_000 + port % 1000));
        }
        self.stage.sim.add_balancer(&spec).unwrap();
    }
}

/// A shop whose load balancer is there, and whose calls are forgotten.
pub(crate) async fn open() -> Shop {
    let mut shop = Shop::new().await;
    shop.ensure().await.good();
    shop.calls();
    shop
}

/// A status as an answer.
pub(crate) fn status(code: u16) -> Action {
    Action::Status {
        code,
        headers: BTreeMap::new(),
        body: None,
    }
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
    if suffix.contains('/') {
        return suffix.to_owned();
    }
    format!("service.beta.kubernetes.io/exoscale-loadbalancer-{suffix}")
}

pub(crate) fn set(service: &mut Service, suffix: &str, value: &str) {
    let annotations = service.annotations.get_or_insert_default();
    annotations.insert(key(suffix), value.to_owned());
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
pub(crate) fn named(name: &str, uid: &str) -> Service {
    Service {
        key: ServiceKey {
            namespace: "default".into(),
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
        ports: vec![port("TCP", 80, 30080)],
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

/// The steps of a plan in words: `create service x`.
pub(crate) fn steps(plan: &Plan) -> Vec<String> {
    let real = plan.steps.iter().filter(|step| step.verb != Verb::Wait);
    real.map(|step| format!("{} {}", step.verb, step.object))
        .collect()
}
