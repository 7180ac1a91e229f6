//! A Service before a simulated cloud.

use std::sync::Arc;
use std::time::Duration;

use bowline_core::{
    BalancerRequest, BalancerRules, Balancers, Cloud, DraftError, Endpoints, ExcludedNodes, Goal,
    Node, PreparedPlan, Service,
};
use bowline_simulator::faults::{Action, Rule};
use bowline_simulator::journal::Entry;
use serde_json::Value;
use tokio::time::Instant;

use crate::drive::{Outcome, PATIENCE, drive, steps};
use crate::harness::Harness;
use crate::table::says;

#[expect(clippy::struct_excessive_bools, reason = "each is a switch of its own")]
pub struct ServiceHarness<S, C: ?Sized = dyn Cloud> {
    pub harness: Harness<S, C>,
    /// What the cloud's annotations begin with.
    prefix: &'static str,
    pub service: Service,
    pub nodes: Vec<Node>,
    /// How it is with the other nodes.
    pub excluded: ExcludedNodes,
    /// The other Services of the cluster.
    pub others: Vec<Service>,
    /// The uids of Services that exist and cannot be read.
    pub unreadable: Vec<String>,
    /// Whether these are all.
    pub all_known: bool,
    pub cluster_name: String,
    pub cluster_uid: Option<String>,
    /// What the operator allows.
    pub rules: BalancerRules,
    pub has_ip_mode: bool,
    pub endpoints: Option<Endpoints>,
    /// A draft is asked for again when the cloud wants it later.
    pub patient: bool,
    /// A removal is planned without a look at nodes.
    pub removes_blindly: bool,
}

impl<S, C: ?Sized> std::ops::Deref for ServiceHarness<S, C> {
    type Target = Harness<S, C>;

    fn deref(&self) -> &Self::Target {
        &self.harness
    }
}

impl<S, C: Cloud + ?Sized> ServiceHarness<S, C> {
    pub fn new(
        harness: Harness<S, C>,
        prefix: &'static str,
        service: Service,
        nodes: Vec<Node>,
    ) -> Self {
        Self {
            harness,
            prefix,
            service,
            nodes,
            excluded: ExcludedNodes::default(),
            others: Vec::new(),
            unreadable: Vec::new(),
            all_known: true,
            cluster_name: "kubernetes".to_owned(),
            cluster_uid: None,
            rules: BalancerRules::default(),
            has_ip_mode: true,
            endpoints: None,
            patient: false,
            removes_blindly: false,
        }
    }

    pub fn balancers(&self) -> &dyn Balancers {
        self.harness.cloud.balancers().unwrap()
    }

    /// Sets an annotation, by its suffix or its whole key.
    pub fn set(&mut self, suffix: &str, value: &str) -> &mut Self {
        set(&mut self.service, self.prefix, suffix, value);
        self
    }

    pub fn unset(&mut self, suffix: &str) -> &mut Self {
        if let Some(annotations) = &mut self.service.annotations {
            annotations.remove(&key(self.prefix, suffix));
        }
        self
    }

    /// An annotation, by its suffix or its whole key.
    pub fn get(&self, suffix: &str) -> &str {
        let value = self.service.annotation(&key(self.prefix, suffix));
        value.unwrap_or_default()
    }

    pub fn request(&self, goal: Goal) -> BalancerRequest {
        let mut all: Vec<Arc<Service>> = self.others.iter().cloned().map(Arc::new).collect();
        all.push(Arc::new(self.service.clone()));
        let blind = self.removes_blindly && goal == Goal::Absent;
        let nodes = self.nodes.iter().filter(|_| !blind);
        BalancerRequest {
            service: Arc::new(self.service.clone()),
            goal,
            nodes: nodes.cloned().map(Arc::new).collect(),
            excluded: self.excluded.clone(),
            all: Arc::new(all),
            all_known: self.all_known,
            cluster_name: self.cluster_name.clone(),
            has_ip_mode: self.has_ip_mode,
            cluster_uid: self.cluster_uid.clone(),
            living: None,
            rules: Arc::new(self.rules.clone()),
            endpoints: self.endpoints.clone().map(Arc::new),
        }
    }

    pub async fn draft(&self, goal: Goal) -> Result<PreparedPlan, DraftError> {
        let start = Instant::now();
        let mut request = self.request(goal);
        let can_list = self.all_known || self.patient;
        loop {
            match self.balancers().draft(&request).await {
                // As the controller does it: all that are known exist.
                Err(DraftError::NeedsServices) if can_list && request.living.is_none() => {
                    let uids = request.all.iter().map(|it| it.uid.clone());
                    let uids = uids.chain(self.unreadable.iter().cloned());
                    request.living = Some(Arc::new(uids.collect()));
                }
                Err(DraftError::Later { after, .. })
                    if self.patient && start.elapsed() < PATIENCE =>
                {
                    tokio::time::sleep(after).await;
                }
                result => return result,
            }
        }
    }

    /// Plans and carries out; what is to be published is written to the Service.
    pub async fn ensure(&mut self) -> Outcome {
        self.go(Goal::Present, None).await
    }

    /// The same, with just these steps and no trouble.
    pub async fn does<T: AsRef<str>>(&mut self, wanted: &[T]) -> Outcome {
        let outcome = self.ensure().await;
        let wanted: Vec<&str> = wanted.iter().map(AsRef::as_ref).collect();
        assert_eq!(steps(&outcome.good().plan), wanted);
        outcome
    }

    /// The same for a Service with a setting that cannot be used, of which the only problem says these words.
    pub async fn refused(&mut self, words: &str) {
        let outcome = self.ensure().await;
        says(outcome.problem_of("InvalidLoadBalancerConfig"), words);
    }

    /// The same for a Service that goes.
    pub async fn delete(&mut self) -> Outcome {
        self.go(Goal::Absent, None).await
    }

    /// The same, until the process dies after that many looks at steps.
    pub async fn until_crash(&mut self, goal: Goal, looks: u64) -> Outcome {
        self.go(goal, Some(looks)).await
    }

    async fn go(&mut self, goal: Goal, looks: Option<u64>) -> Outcome {
        match self.draft(goal).await {
            Ok(draft) => drive(&mut self.service, draft, looks).await,
            Err(error) => Outcome::not_drafted(&error),
        }
    }

    pub async fn carry_out(&mut self, draft: PreparedPlan) -> Outcome {
        drive(&mut self.service, draft, None).await
    }

    pub async fn wait(&self, seconds: u64) {
        tokio::time::sleep(Duration::from_secs(seconds)).await;
    }

    /// What the Service shows.
    pub fn shown(&self) -> String {
        let all = self.service.ingress.iter().map(ToString::to_string);
        all.collect::<Vec<_>>().join(" ")
    }

    /// All calls since the last time this was asked.
    pub fn calls(&self) -> Vec<Entry> {
        self.harness.entries()
    }

    /// The changes among them, by the API's names, with bodies.
    pub fn changes(&self) -> Vec<(String, Value)> {
        let calls = self.calls().into_iter().filter(Entry::is_mutating);
        calls.map(|it| (it.operation, it.body)).collect()
    }

    /// The same without bodies.
    pub fn writes(&self) -> Vec<String> {
        self.changes().into_iter().map(|(name, _)| name).collect()
    }

    pub fn fault(&self, operation: &str, times: u64, action: Action) {
        let rule = Rule::new(action).operation(operation).times(times);
        self.world.faults.add(rule.named(operation)).unwrap();
    }
}

/// The key of an annotation, by its suffix or as it is.
pub fn key(prefix: &str, suffix: &str) -> String {
    if suffix.contains('/') {
        suffix.to_owned()
    } else {
        format!("{prefix}{suffix}")
    }
}

pub fn set(service: &mut Service, prefix: &str, suffix: &str, value: &str) {
    let annotations = service.annotations.get_or_insert_default();
    annotations.insert(key(prefix, suffix), value.to_owned());
}
