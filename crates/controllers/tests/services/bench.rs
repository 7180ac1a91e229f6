//! The test bench: a simulated cluster on pipes, clouds with load balancers, and the real manager
//! between them, under a paused clock.

use std::sync::Arc;
use std::time::Duration;

use bowline_controllers::clients::{Agent, Clients, Connection, Limits};
use bowline_controllers::manager::{Manager, ManagerError, Reviews};
use bowline_controllers::metrics::Metrics;
use bowline_controllers::options::{self, Request};
use bowline_controllers::{StopHandle, stop_signal};
use bowline_core::{CLEANUP_FINALIZER, Cloud, GuardPolicy};
use bowline_http::Connector;
use bowline_simulator::World;
use bowline_simulator::cluster::Cluster;
use bowline_simulator::faults::{Action, Rule};
use bowline_simulator::journal::Entry;
use bowline_simulator::kubernetes::auth::User;
use bowline_simulator::kubernetes::kinds::{self, Kind};
use futures::future::select_all;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Service;
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use crate::cloud::DemoCloud;

/// Who the manager is in the journal.
pub(crate) const MANAGER: &str = "bowline";
pub(crate) const FIN: &str = CLEANUP_FINALIZER;
/// Where all Services are.
const NAMESPACE: &str = "default";
/// Simulated time after which a wait is given up: far above every period and back-off.
const PATIENCE: Duration = Duration::from_secs(2 * 3600);

pub(crate) struct Bench {
    pub(crate) world: World,
    pub(crate) cluster: Cluster,
    pub(crate) clouds: Vec<Arc<DemoCloud>>,
    metrics: Arc<Metrics>,
    admin: kube::Client,
    config: kube::Config,
    flags: Vec<String>,
    running: Option<(StopHandle, JoinHandle<Result<(), ManagerError>>)>,
}

impl Bench {
    /// A running manager, the cloud `demo` and the nodes n1, n2, n3.
    pub(crate) fn new() -> Self {
        Self::with(&[])
    }

    /// The same with these flags.
    pub(crate) fn with(flags: &[&str]) -> Self {
        let mut bench = Self::idle(7, &["demo"], flags);
        bench.start();
        bench
    }

    /// Everything but the manager, for [`Bench::start`].
    pub(crate) fn idle(seed: u64, clouds: &[&str], flags: &[&str]) -> Self {
        let user = User::new(MANAGER, &["system:masters"]);
        Self::under(seed, clouds, flags, user)
    }

    /// The same with a manager that is that user.
    pub(crate) fn under(seed: u64, clouds: &[&str], flags: &[&str], user: User) -> Self {
        let world = World::simulated(seed);
        let cluster = Cluster::on_pipe(&world).unwrap();
        let bench = Self {
            clouds: clouds.iter().map(|it| DemoCloud::new(it, &world)).collect(),
            metrics: Metrics::new(),
            admin: cluster.admin().unwrap(),
            config: cluster.config_of(user).unwrap(),
            flags: flags.iter().map(|&flag| flag.to_owned()).collect(),
            running: None,
            cluster,
            world,
        };
        for name in ["n1", "n2", "n3"] {
            bench.add_node(name);
        }
        bench
    }

    /// The next manager has these flags.
    pub(crate) fn use_flags(&mut self, flags: &[&str]) {
        self.flags = flags.iter().map(|&flag| flag.to_owned()).collect();
    }

    /// The only cloud.
    pub(crate) fn cloud(&self) -> &DemoCloud {
        &self.clouds[0]
    }

    /// Starts a manager, as a new process would.
    pub(crate) fn start(&mut self) {
        let basis = [
            "--secure-port=0",
            "--leader-elect=false",
            "--controllers=service",
        ];
        let basis = basis.map(str::to_owned);
        let flags: Vec<String> = basis.into_iter().chain(self.flags.clone()).collect();
        let Ok(Request::Run(line)) = options::parse("bowline", Some("demo"), &flags) else {
            panic!("the flags are wrong: {flags:?}");
        };
        let options = line.options;
        options.validate().unwrap();
        let connector = Connector::simulated(self.world.pipes.clone());
        let agent = Agent {
            program: "bowline".into(),
            version: "v0".into(),
            commit: "test".into(),
        };
        self.metrics = Metrics::new();
        let clouds = self.clouds.iter().map(|it| it.clone() as Arc<dyn Cloud>);
        let manager = Manager {
            clients: Clients::new(
                Connection::over(&self.config, connector).unwrap(),
                agent,
                Limits::from(&options.client),
                self.world.clock.clone(),
                self.metrics.clone(),
                options.client.use_service_account_credentials,
            ),
            options,
            clouds: clouds.collect(),
            reviews: Reviews::default(),
            metrics: self.metrics.clone(),
            clock: self.world.clock.clone(),
            random: self.world.random.fork(),
            guard: GuardPolicy::default(),
            set_verbosity: Arc::new(|_| Ok(())),
        };
        let (handle, stop) = stop_signal();
        self.running = Some((handle, tokio::spawn(manager.run(stop))));
    }

    /// Stops the manager the way a signal does.
    pub(crate) async fn stop(&mut self) {
        let (handle, task) = self.running.take().unwrap();
        handle.stop();
        task.await.unwrap().unwrap();
        // No process takes the place of another one within the same nanosecond.
        self.seconds(1).await;
    }

    /// Kills the manager in the middle of whatever it does.
    pub(crate) async fn kill(&mut self) {
        let (handle, task) = self.running.take().unwrap();
        task.abort();
        assert!(task.await.unwrap_err().is_cancelled());
        // Its detached tasks see the dropped handle as the signal.
        drop(handle);
        self.seconds(20).await;
    }

    // Services.

    fn api(&self) -> Api<Service> {
        Api::namespaced(self.admin.clone(), NAMESPACE)
    }

    /// Creates the Service `web`, type LoadBalancer with port 80, changed like that.
    pub(crate) async fn create_with(&self, name: &str, change: impl FnOnce(&mut Value)) {
        let mut service = balancer(name);
        change(&mut service);
        let service: Service = serde_json::from_value(service).unwrap();
        let created = self.api().create(&PostParams::default(), &service).await;
        created.unwrap();
    }

    pub(crate) async fn create(&self, name: &str) {
        self.create_with(name, |_| {}).await;
    }

    /// A Service with its load balancer, all told.
    pub(crate) async fn ensured(&self, name: &str) {
        self.create(name).await;
        self.until_told(name, "EnsuredLoadBalancer").await;
    }

    /// Changes a Service by a merge patch, as a person would; once more if a fault struck it.
    pub(crate) async fn patch(&self, name: &str, change: Value) {
        let (params, patch) = (PatchParams::default(), Patch::Merge(&change));
        for _ in 0..20 {
            if self.api().patch(name, &params, &patch).await.is_ok() {
                return;
            }
        }
        panic!("{name} cannot be changed");
    }

    /// Asks for a Service to be deleted.
    pub(crate) async fn delete(&self, name: &str) {
        let deleted = self.api().delete(name, &DeleteParams::default()).await;
        deleted.unwrap();
    }

    /// Removes a Service at once, whatever finalizers it has.
    pub(crate) fn strip(&self, name: &str) {
        assert!(self.cluster.api().delete(kind("Service"), NAMESPACE, name));
    }

    pub(crate) fn service(&self, name: &str) -> Option<Value> {
        self.cluster.api().get(kind("Service"), NAMESPACE, name)
    }

    /// Stores a Service as it is.
    pub(crate) fn put_service(&self, service: Value) {
        self.cluster.api().put(kind("Service"), service);
    }

    pub(crate) fn finalizers(&self, name: &str) -> Value {
        self.service(name).unwrap()["metadata"]["finalizers"].clone()
    }

    pub(crate) fn ingress(&self, name: &str) -> Value {
        let service = self.service(name).unwrap();
        service["status"]["loadBalancer"]["ingress"].clone()
    }

    /// The condition as `Status Reason: message`; none if there is none.
    pub(crate) fn condition(&self, name: &str) -> Option<String> {
        let service = self.service(name)?;
        let all = service["status"]["conditions"].as_array()?;
        let ours = all
            .iter()
            .find(|it| it["type"] == "bowline.dev/LoadBalancerReady")?;
        let text = |field: &str| ours[field].as_str().unwrap_or_default().to_owned();
        let (status, reason, message) = (text("status"), text("reason"), text("message"));
        Some(
            format!("{status} {reason}: {message}")
                .trim_end_matches(": ")
                .to_owned(),
        )
    }

    // Events.

    /// The events about an object: `Type Reason: message`.
    pub(crate) fn events(&self, name: &str) -> Vec<String> {
        let about = self.all_events().into_iter();
        let about = about.filter(|it| it["involvedObject"]["name"] == name);
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        about
            .map(|it| {
                assert_eq!(it["source"]["component"], "service-controller");
                let (kind, reason) = (text(&it["type"]), text(&it["reason"]));
                format!("{kind} {reason}: {}", text(&it["message"]))
            })
            .collect()
    }

    /// Their reasons.
    pub(crate) fn reasons(&self, name: &str) -> Vec<String> {
        let events = self.events(name).into_iter();
        let reason = |it: String| it.split([' ', ':']).nth(1).unwrap().to_owned();
        events.map(reason).collect()
    }

    /// The counts of that reason's events about an object.
    pub(crate) fn told(&self, name: &str, reason: &str) -> usize {
        let all = self.all_events();
        let meant = |it: &&Value| it["involvedObject"]["name"] == name && it["reason"] == reason;
        let counts = all
            .iter()
            .filter(meant)
            .map(|it| it["count"].as_u64().unwrap());
        usize::try_from(counts.sum::<u64>()).unwrap()
    }

    fn all_events(&self) -> Vec<Value> {
        let mut all = self.cluster.api().list(kind("Event"), None);
        let version = |it: &Value| {
            let text = it["metadata"]["name"]
                .as_str()
                .unwrap_or_default()
                .to_owned();
            text.rsplit('.').next().unwrap_or_default().to_owned()
        };
        all.sort_by_key(version);
        all
    }

    // Nodes.

    /// Adds a node of the cloud `demo`.
    pub(crate) fn add_node(&self, name: &str) {
        self.put_node(node(name, &format!("demo://{name}")));
    }

    pub(crate) fn put_node(&self, node: Value) {
        self.cluster.api().put(kind("Node"), node);
    }

    pub(crate) fn change_node(&self, name: &str, change: impl FnOnce(&mut Value)) {
        let mut node = self.cluster.api().get(kind("Node"), "", name).unwrap();
        change(&mut node);
        self.put_node(node);
    }

    pub(crate) fn has_node(&self, name: &str) -> bool {
        self.cluster.api().get(kind("Node"), "", name).is_some()
    }

    pub(crate) fn delete_node(&self, name: &str) {
        assert!(self.cluster.api().delete(kind("Node"), "", name));
    }

    // Calls.

    /// The manager's writes of Services: `PATCH default/services/web/status {…}`.
    pub(crate) fn writes(&self) -> Vec<Entry> {
        let entries = self.world.journal.entries().into_iter();
        let ours = |it: &Entry| it.caller == MANAGER || it.caller.is_empty();
        entries
            .filter(|it| ours(it) && it.is_mutating() && it.path.contains("/services/"))
            .collect()
    }

    pub(crate) fn fault(&self, rule: Rule) {
        self.world.faults.add(rule).unwrap();
    }

    /// The value of a series, by its exact name with labels; none if it is not there.
    pub(crate) fn metric(&self, series: &str) -> Option<f64> {
        let text = self.metrics.text();
        let mut lines = text.lines().filter_map(|line| line.rsplit_once(' '));
        lines
            .find(|(name, _)| *name == series)
            .map(|(_, value)| value.parse().unwrap())
    }

    // Time.

    /// Waits until a call was made after which `done` holds.
    pub(crate) async fn until(&self, what: &str, mut done: impl FnMut(&Self) -> bool) {
        let mut calls = self.world.journal.subscribe();
        let mut looks: Vec<_> = self.clouds.iter().map(|cloud| cloud.subscribe()).collect();
        let wait = async {
            loop {
                calls.mark_unchanged();
                looks
                    .iter_mut()
                    .for_each(tokio::sync::watch::Receiver::mark_unchanged);
                if done(self) {
                    return;
                }
                let asked = select_all(looks.iter_mut().map(|it| Box::pin(it.changed())));
                tokio::select! {
                    biased;
                    _ = calls.changed() => {}
                    _ = asked => {}
                }
            }
        };
        if tokio::time::timeout(PATIENCE, wait).await.is_err() {
            let transcript = self.world.journal.transcript();
            let lines: Vec<&str> = transcript.lines().collect();
            let last = lines[lines.len().saturating_sub(30)..].join("\n");
            let asked = self.cloud().calls().join("\n");
            panic!("it never came to this: {what}; the last calls were\n{last}\n{asked}");
        }
    }

    pub(crate) async fn until_told(&self, name: &str, reason: &str) {
        let what = format!("{reason} is told about {name}");
        self.until(&what, |bench| bench.told(name, reason) > 0)
            .await;
    }

    pub(crate) async fn until_gone(&self, name: &str) {
        self.until(&format!("Service {name} is gone"), |bench| {
            bench.service(name).is_none()
        })
        .await;
    }

    pub(crate) async fn seconds(&self, seconds: u64) {
        tokio::time::sleep(Duration::from_secs(seconds)).await;
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.world.clock.now()
    }
}

pub(crate) fn kind(name: &str) -> &'static Kind {
    kinds::by_kind("", "v1", name).unwrap()
}

/// A Service of type LoadBalancer with port 80.
pub(crate) fn balancer(name: &str) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": { "namespace": NAMESPACE, "name": name },
        "spec": {
            "type": "LoadBalancer",
            "selector": { "app": name },
            "ports": [{ "name": "http", "port": 80, "targetPort": 8080 }],
        },
    })
}

/// A ready node of machine `id`.
pub(crate) fn node(name: &str, id: &str) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": { "name": name },
        "spec": { "providerID": id },
        "status": {
            "addresses": [{ "type": "InternalIP", "address": format!("10.0.0.{}", number(name)) }],
            "conditions": [{ "type": "Ready", "status": "True" }],
        },
    })
}

fn number(name: &str) -> String {
    name.chars().filter(char::is_ascii_digit).collect()
}

/// A rule on the API server that answers with that status.
pub(crate) fn refuse(code: u16, method: &str, path: &str) -> Rule {
    let (headers, body) = Default::default();
    Rule::new(Action::Status {
        code,
        headers,
        body,
    })
    .server("kubernetes")
    .on(method, path)
}

/// The whole seconds between these moments.
pub(crate) fn gaps(times: &[Timestamp]) -> Vec<i64> {
    let gap = |pair: &[Timestamp]| pair[1].duration_since(pair[0]).as_secs();
    times.windows(2).map(gap).collect()
}
