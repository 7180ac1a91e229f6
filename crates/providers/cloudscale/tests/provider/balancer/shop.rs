//! The Service of the specification's cases, and the loop that carries out its plans.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bowline_core::{
    BalancerRequest, BalancerRules, Balancers, ClusterMarks, DraftError, ExcludedNodes, Goal,
    Ingress, IpMode, Node, Notice, Plan, PlanProgress, PreparedPlan, Protocol, Service, ServiceKey,
    ServicePort, StepOutcome, TaggedBalancer, TrafficPolicy, Verb,
};
use bowline_simulator::faults::{Action, Rule};
use bowline_simulator::journal::Entry;
use bowline_simulator_cloudscale::{BalancerInfo, BalancerSpec, PoolInfo};
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::stage::{A, B, Stage, node};

pub(crate) const UID: &str = "5a4f2b10-0c67-4a3f-8f6e-3b9d2a7c1e55";
pub(crate) const NAME: &str = "k8s-service-5a4f2b10-0c67-4a3f-8f6e-3b9d2a7c1e55";
pub(crate) const S1: &str = "7d1f0c9a-2b34-4c56-8d78-9e0f1a2b3c4d";
pub(crate) const S2: &str = "c0a80101-77aa-4b1e-9f10-2d3e4f5a6b7c";
/// What a controller would wait for a cloud at most.
const PATIENCE: Duration = Duration::from_secs(300);

/// A Service before the simulated cloud.
pub(crate) struct Shop {
    pub(crate) stage: Stage,
    pub(crate) service: Service,
    pub(crate) nodes: Vec<Node>,
    /// How it is with the other nodes.
    pub(crate) excluded: ExcludedNodes,
    /// The other Services of the cluster.
    pub(crate) others: Vec<Service>,
    /// Whether these are all.
    pub(crate) all_known: bool,
    pub(crate) cluster_name: String,
    pub(crate) cluster_uid: Option<String>,
    /// What the operator allows.
    pub(crate) rules: BalancerRules,
    pub(crate) has_ip_mode: bool,
}

/// What came of one try.
pub(crate) struct Outcome {
    pub(crate) plan: Plan,
    /// The notices of the plan and of what was skipped.
    pub(crate) notices: Vec<Notice>,
    /// Why it did not end well.
    pub(crate) error: Option<String>,
}

impl Outcome {
    pub(crate) fn reasons(&self) -> Vec<&str> {
        self.notices.iter().map(|notice| notice.reason).collect()
    }

    /// The text of the one problem.
    #[track_caller]
    pub(crate) fn problem(&self, reason: &str) -> &str {
        let [problem] = self.plan.problems.as_slice() else {
            panic!("not one problem: {:?}", self.plan.problems);
        };
        assert_eq!(problem.reason, reason, "{}", problem.message);
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
    /// Fixture F.
    pub(crate) fn new() -> Self {
        Self::with(&[])
    }

    /// The same with further variables in the provider's environment.
    pub(crate) fn with(environment: &[(&str, &str)]) -> Self {
        Self::on(Stage::with(environment))
    }

    /// The same on another stage.
    pub(crate) fn on(stage: Stage) -> Self {
        Self {
            stage,
            service: web(),
            nodes: vec![node("worker-a", Some(A)), node("worker-b", Some(B))],
            excluded: ExcludedNodes::default(),
            others: Vec::new(),
            all_known: true,
            cluster_name: "kubernetes".into(),
            cluster_uid: None,
            rules: BalancerRules::default(),
            has_ip_mode: true,
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
            excluded: self.excluded.clone(),
            all: Arc::new(all),
            all_known: self.all_known,
            cluster_name: self.cluster_name.clone(),
            has_ip_mode: self.has_ip_mode,
            cluster_uid: self.cluster_uid.clone(),
            living: None,
            rules: Arc::new(self.rules.clone()),
            endpoints: None,
        }
    }

    /// The load balancers that carry the mark of a Service.
    pub(crate) async fn marked(&self) -> Vec<TaggedBalancer> {
        let wish = self.wish(Goal::Present);
        let marks = ClusterMarks {
            name: &wish.cluster_name,
            uid: wish.cluster_uid.as_deref(),
            nodes: &wish.nodes,
        };
        let marked = self.balancers().marked(marks).await;
        marked.unwrap()
    }

    pub(crate) async fn draft(&self, goal: Goal) -> Result<PreparedPlan, DraftError> {
        let mut wish = self.wish(goal);
        match self.balancers().draft(&wish).await {
            // As the controller does it: all that are known exist.
            Err(DraftError::NeedsServices) if self.all_known => {
                let uids = wish.all.iter().map(|it| it.uid.clone());
                wish.living = Some(Arc::new(uids.collect()));
                self.balancers().draft(&wish).await
            }
            drafted => drafted,
        }
    }

    /// Plans and carries out; what is to be published is written to the Service.
    pub(crate) async fn ensure(&mut self) -> Outcome {
        let draft = match self.draft(Goal::Present).await {
            Ok(draft) => draft,
            Err(error) => return failed(&error),
        };
        self.carry_out(draft).await
    }

    /// The same for a Service that goes.
    pub(crate) async fn delete(&mut self) -> Outcome {
        let draft = match self.draft(Goal::Absent).await {
            Ok(draft) => draft,
            Err(error) => return failed(&error),
        };
        self.carry_out(draft).await
    }

    pub(crate) async fn carry_out(&mut self, draft: PreparedPlan) -> Outcome {
        let PreparedPlan {
            plan, mut executor, ..
        } = draft;
        let mut outcome = Outcome {
            notices: plan.notices.clone(),
            plan: plan.clone(),
            error: None,
        };
        let mut run = PlanProgress::new(plan);
        let start = Instant::now();
        self.publish(&executor.publication().annotations);
        while let Some(step) = run.next_step() {
            match executor.carry_out(step).await {
                Ok(StepOutcome::Done) => run.done(step),
                Ok(StepOutcome::Wait { what, after }) => {
                    run.wait(step, what.clone(), self.stage.world.clock.now());
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
            self.publish(&executor.publication().annotations);
        }
        self.service.ingress = executor.publication().ingress;
        outcome
    }

    fn publish(&mut self, annotations: &BTreeMap<String, String>) {
        let map = self.service.annotations.get_or_insert_default();
        map.extend(annotations.clone());
    }

    /// Waits until monitors have found out about their members.
    pub(crate) async fn settle(&self) {
        self.stage.wait(Duration::from_secs(10)).await;
    }

    /// The load balancers of the project.
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

    /// The only pool of the only load balancer.
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

    /// All calls since the last time this was asked.
    pub(crate) fn calls(&self) -> Vec<Entry> {
        let calls = self.stage.world.journal.entries();
        self.stage.world.journal.clear();
        calls
    }

    pub(crate) fn fault(&self, method: &str, path: &str, times: u64, action: Action) {
        let mut rule = Rule::new(action)
            .on(method, path)
            .named(&format!("{method} {path}"));
        rule.times = Some(times);
        self.stage.world.faults.add(rule).unwrap();
    }

    /// Adds a load balancer that nobody made.
    pub(crate) fn place(&self, spec: Value) -> String {
        let spec: BalancerSpec = serde_json::from_value(spec).unwrap();
        self.stage.sim.add_balancer(&spec).unwrap()
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

/// A shop whose load balancer is there, and whose calls are forgotten.
pub(crate) async fn open() -> Shop {
    let mut shop = Shop::new();
    shop.ensure().await.good();
    shop.settle().await;
    shop.calls();
    shop
}

fn failed(error: &DraftError) -> Outcome {
    let chain = match error {
        DraftError::Cloud(error) => error.chain(),
        other => other.to_string(),
    };
    Outcome {
        plan: Plan::default(),
        notices: Vec::new(),
        error: Some(chain),
    }
}

fn uuid_like(part: &str) -> Option<&str> {
    (part.len() == 36 && part.matches('-').count() == 4).then_some(part)
}

pub(crate) fn key(suffix: &str) -> String {
    if suffix.contains('/') {
        return suffix.to_owned();
    }
    format!("k8s.cloudscale.ch/loadbalancer-{suffix}")
}

pub(crate) fn set(service: &mut Service, suffix: &str, value: &str) {
    let annotations = service.annotations.get_or_insert_default();
    annotations.insert(key(suffix), value.to_owned());
}

pub(crate) fn proxied(ip: &str) -> Ingress {
    Ingress {
        ip: Some(ip.to_owned()),
        hostname: None,
        ip_mode: Some(IpMode::Proxy),
    }
}

/// A port of a Service.
pub(crate) fn port(name: &str, protocol: &str, port: u16, node_port: u16) -> ServicePort {
    ServicePort {
        name: name.to_owned(),
        protocol: Protocol::from(protocol),
        port,
        node_port,
        target_port: port.to_string(),
        application_protocol: None,
    }
}

/// The Service `shop/web`.
pub(crate) fn web() -> Service {
    named("web", UID)
}

/// Another Service of that shop.
pub(crate) fn named(name: &str, uid: &str) -> Service {
    Service {
        key: ServiceKey {
            namespace: "shop".into(),
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
        ports: vec![port("http", "TCP", 80, 31080)],
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

/// The names of the members of a pool, sorted.
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

/// The steps of a plan in words: `create pool tcp/http`.
pub(crate) fn steps(plan: &Plan) -> Vec<String> {
    let real = plan.steps.iter().filter(|step| step.verb != Verb::Wait);
    real.map(|step| format!("{} {}", step.verb, step.object))
        .collect()
}
