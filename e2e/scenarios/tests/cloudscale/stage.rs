//! A cluster, a simulated cloudscale.ch, kubelets on its servers, and the manager between them: the
//! real provider under the role of the original's manifest.

use std::collections::BTreeMap;
use std::ops::Deref;

use bowline_scenarios::cloudscale::Site;
use bowline_scenarios::objects::{is_uninitialized, known, taints};
use bowline_scenarios::{Bench, LEASE, Setup};
use bowline_simulator::cloudscale::MachineSpec;
use bowline_simulator::faults::{Action, Rule};
use bowline_simulator::fleet::{Fleet, Kubelet, Settings};
use bowline_simulator::journal::{Entry, Filter};
use bowline_simulator::monitor::{self, Monitor};
use serde_json::{Value, json};

/// Server `worker-a` of the cases.
pub(crate) const A: &str = "3f9b1c52-6a7d-4e08-9c41-d2f0a8b7e613";
/// Server `worker-b` of the cases.
pub(crate) const B: &str = "b7e4d0a1-95c3-4f62-8a17-0c6e2d9f4b58";
/// A server that never was.
pub(crate) const NOBODY: &str = "00000000-0000-0000-0000-000000000000";

/// The fixture F of the cases.
const FIXTURE: &str = "
networks:
- name: k8s
  subnets:
  - {cidr: 10.20.0.0/24, uuid: 7d1f0c9a-2b34-4c56-8d78-9e0f1a2b3c4d}
machines:
- name: worker-a
  uuid: 3f9b1c52-6a7d-4e08-9c41-d2f0a8b7e613
  flavor: flex-8-4
  interfaces:
  - {network: public, addresses: [203.0.113.11, '2001:db8:1:1101::11']}
  - {network: k8s, addresses: [10.20.0.11]}
- name: worker-b
  uuid: b7e4d0a1-95c3-4f62-8a17-0c6e2d9f4b58
  flavor: flex-8-4
  interfaces:
  - {network: public, addresses: [203.0.113.12, '2001:db8:1:1101::12']}
  - {network: k8s, addresses: [10.20.0.12]}
";

/// Everything that is up.
pub(crate) struct Stage {
    site: Site,
    fleet: Fleet,
    _monitor: Monitor,
}

impl Deref for Stage {
    type Target = Site;

    fn deref(&self) -> &Site {
        &self.site
    }
}

impl Stage {
    /// With servers A and B, the command line of the original's manifest, and its environment.
    pub(crate) async fn new() -> Self {
        Self::with(&[], &[]).await
    }

    /// The same with further variables and arguments.
    pub(crate) async fn with(environment: &[(&str, &str)], arguments: &[&str]) -> Self {
        let mut stage = Self::idle(environment, arguments).await;
        stage.start();
        stage
    }

    /// The same without the manager, for [`Stage::start`].
    pub(crate) async fn idle(environment: &[(&str, &str)], arguments: &[&str]) -> Self {
        Self::seeded(Setup::default().seed, environment, arguments).await
    }

    /// The same with a seed for everything that is random.
    pub(crate) async fn seeded(
        seed: u64,
        environment: &[(&str, &str)],
        arguments: &[&str],
    ) -> Self {
        let site = Site::set_up(seed, FIXTURE, environment, arguments).await;
        Self {
            fleet: site.cluster.fleet(Settings::default()),
            _monitor: site.cluster.monitor(monitor::Settings::default()),
            site,
        }
    }

    /// Starts the manager.
    pub(crate) fn start(&mut self) {
        self.site.start();
    }

    /// Stops the manager and starts it again.
    pub(crate) async fn restart(&mut self) {
        self.site.stop().await;
        self.site.start();
    }

    /// Stops the manager, for another start.
    pub(crate) async fn halt(&mut self) {
        self.site.stop().await;
    }

    /// Kills the manager in the middle of whatever it does.
    pub(crate) async fn kill(&mut self) {
        self.site.kill().await;
    }

    /// Makes a server, under the scenario's name of it.
    pub(crate) fn add_server(&self, spec: &MachineSpec) -> String {
        self.cloud.add_server(&self.own(spec)).unwrap()
    }

    /// Makes several: `fleet-1`, `fleet-2` and so on, each with a kubelet.
    pub(crate) fn join_fleet(&self, count: u32) {
        let mut spec = self.own(&MachineSpec::named("fleet"));
        spec.count = Some(count);
        for (uuid, number) in self.cloud.add_servers(&spec).unwrap().iter().zip(1..) {
            self.join(&format!("fleet-{number}"), uuid);
        }
    }

    fn own(&self, spec: &MachineSpec) -> MachineSpec {
        let mut spec = spec.clone();
        spec.name = self.cluster.names().own(&spec.name);
        spec
    }

    /// A kubelet on that server, as the node of that name.
    pub(crate) fn join(&self, name: &str, uuid: &str) {
        self.join_as(Kubelet {
            node_name: name.to_owned(),
            machine_id: format!("cloudscale://{uuid}"),
            ..Kubelet::default()
        });
    }

    /// A kubelet with settings of its own.
    pub(crate) fn join_as(&self, kubelet: Kubelet) {
        self.cluster.join_as(&self.fleet, kubelet);
    }

    /// Puts a Node there whose kubelet is silent: not Ready, and initialised long ago.
    pub(crate) async fn silent_node(&self, name: &str, provider_id: Option<&str>) {
        self.put(silent(name, provider_id)).await;
    }

    /// Everything about a Node that a controller could have written.
    pub(crate) fn content(&self, name: &str) -> Value {
        let node = self.node(name);
        let mut taints = taints(&node);
        // These follow from conditions and are the node monitor's.
        taints.retain(|taint| !taint.starts_with("node.kubernetes.io/"));
        json!({
            "providerID": node["spec"]["providerID"],
            "labels": node["metadata"]["labels"],
            "annotations": node["metadata"]["annotations"],
            "taints": taints,
            "addresses": node["status"]["addresses"],
        })
    }

    /// Waits until that node is initialised, and returns it.
    pub(crate) async fn initialized(&self, name: &str) -> Value {
        let what = format!("{name} is initialised");
        let done = |it: &Bench| it.find(name).is_some_and(|node| !is_uninitialized(&node));
        self.until(&what, done).await;
        self.node(name)
    }

    /// Waits until that node's Ready condition has this status.
    pub(crate) async fn until_ready(&self, name: &str, status: &str) {
        let what = format!("{name} has Ready={status}");
        let is = |it: &Bench| it.find(name).is_some_and(|node| ready(&node) == status);
        self.until(&what, is).await;
    }

    /// Waits until that node has the shutdown taint, or has it no more.
    pub(crate) async fn shutdown_taint(&self, name: &str, there: bool) {
        let what = format!("the shutdown taint of {name}: {there}");
        let is = |it: &Bench| has_taint(&it.node(name), bowline_core::SHUTDOWN_TAINT) == there;
        self.until(&what, is).await;
    }

    /// Waits for an event of that reason about that node, and returns its message.
    pub(crate) async fn message(&self, name: &str, reason: &str) -> String {
        let what = format!("event {reason} about {name}");
        self.until(&what, |it| it.told(name, reason) > 0).await;
        self.messages(name, reason).remove(0)
    }

    /// The messages of the events of that reason about that node.
    pub(crate) fn messages(&self, name: &str, reason: &str) -> Vec<String> {
        let events = self.cluster.events(name).into_iter();
        events
            .filter(|event| event["reason"] == reason)
            .map(|event| text(&event["message"]).to_owned())
            .collect()
    }

    /// The manager's calls that could have changed what that path means.
    pub(crate) fn writes_to(&self, path: &str) -> Vec<Entry> {
        let filter = Filter::any()
            .server("kubernetes")
            .caller(&self.user)
            .mutating();
        self.matching(&filter.path(path))
    }

    /// The calls to the cloud whose path fits.
    pub(crate) fn cloud_calls(&self, path: &str) -> Vec<Entry> {
        calls_of_cloud(self, path)
    }

    /// Waits for so many calls to the cloud.
    pub(crate) async fn until_cloud_calls(&self, count: usize) {
        let done = |it: &Bench| calls_of_cloud(it, "*").len() >= count;
        self.until("the cloud is asked again", done).await;
    }

    /// Makes the cloud go wrong, instead of what went wrong before.
    pub(crate) fn fail(&self, path: &str, action: Action) {
        let rule = Rule::new(action).server("cloudscale").on("*", path);
        self.fault(rule.named("fault"));
    }

    /// Stops the manager, which must end well, and checks that nobody refused it anything: the
    /// original's role was enough.
    pub(crate) async fn end(mut self) {
        self.site.stop().await;
        for status in [401, 403] {
            let filter = Filter::any().server("kubernetes").caller(&self.user);
            let refused = self.matching(&filter.status(status));
            assert!(refused.is_empty(), "refused: {refused:?}");
        }
        let lease = self.cluster.lease(LEASE).expect("there is a lease");
        let holder = text(&lease["spec"]["holderIdentity"]);
        assert_eq!(holder, "", "the lease is released");
    }
}

fn calls_of_cloud(bench: &Bench, path: &str) -> Vec<Entry> {
    let filter = Filter::any().server("cloudscale").path(path);
    bench.matching(&filter)
}

/// A Node that is initialised and not Ready.
pub(crate) fn silent(name: &str, provider_id: Option<&str>) -> Value {
    let host = format!("Hostname:{name}");
    let mut node = known(name, provider_id.unwrap_or_default(), "False", &[&host]);
    if provider_id.is_none() {
        node["spec"] = json!({});
    }
    node
}

/// A JSON text; empty if it is none.
pub(crate) fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// Whether a Node has a taint of that key.
pub(crate) fn has_taint(node: &Value, key: &str) -> bool {
    let taints = taints(node);
    let is = |taint: &String| {
        taint
            .strip_prefix(key)
            .is_some_and(|it| it.starts_with([':', '=']))
    };
    taints.iter().any(is)
}

/// The status of a Node's Ready condition.
fn ready(node: &Value) -> &str {
    let conditions = node["status"]["conditions"].as_array();
    let mut conditions = conditions.into_iter().flatten();
    let ready = conditions.find(|condition| condition["type"] == "Ready");
    ready.map_or("", |condition| text(&condition["status"]))
}

/// One answer of that status.
pub(crate) fn status(code: u16) -> Action {
    Action::Status {
        code,
        headers: BTreeMap::new(),
        body: None,
    }
}
