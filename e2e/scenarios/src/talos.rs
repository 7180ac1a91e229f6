//! Talos machines in scenarios: the real provider, a simulated cluster of them, and the role of the
//! original's chart.

use std::ops::Deref;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use bowline_controllers::metrics::Metrics;
use bowline_core::{Cloud, CloudName};
use bowline_simulator::World;
use bowline_simulator::control::Control as _;
use bowline_simulator::serve::Server;
use bowline_simulator_talos::{Access, ControlServer, Fixture, MachineSpec, PlatformSpec, Talos};
use bowline_talos::{BuildError, Environment, PROVIDER, Setup};
use futures::FutureExt as _;
use serde_json::{Value, json};
use tempfile::TempDir;

pub use bowline_talos::Need;

use crate::cloud_harness::{Called, Original, Served};
use crate::{Sharing, TestCluster};

/// The chart's command line, without what a bench gives each manager: ports and names of leases. The first
/// is the default of managers, though not of a bench's.
pub const FLAGS: [&str; 3] = [
    "--leader-elect=true",
    "--v=2",
    "--authorization-always-allow-paths=/healthz,/livez,/readyz,/metrics",
];
/// The controllers that the chart switches on.
pub const CONTROLLERS: &str = "--controllers=cloud-node,node-csr-approval";
/// Where the machine `cp1` answers, the control plane of every cluster.
pub const ENDPOINT: &str = "10.0.0.1";
/// The chart's service account.
pub const ACCOUNT: &str = "talos-cloud-controller-manager";

const TALOSCONFIG: &str = "config";
const CLOUD_CONFIG: &str = "ccm-config.yaml";

/// What the manager may do to the API server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// What the role of the chart says.
    Chart,
    /// The same, and it may delete nodes, which the chart leaves to another account.
    Deleting,
    /// The same, and it may read what is the cluster's own, as our chart allows it.
    Reading,
}

/// How a site begins.
#[derive(Clone, Copy, Debug)]
pub struct Beginning<'a> {
    /// Of the simulated world.
    pub seed: u64,
    /// The cluster without its control plane, as a fixture.
    pub cluster: &'a str,
    /// The cloud config file.
    pub config: &'a str,
    /// The manager's flags besides [`FLAGS`].
    pub flags: &'a [&'a str],
    /// Whether machines have to be asked.
    pub need: Need,
    /// What the manager may do.
    pub role: Role,
    /// Whether others can be on the same server.
    pub sharing: Sharing,
}

impl Default for Beginning<'_> {
    fn default() -> Self {
        Self {
            seed: crate::Setup::default().seed,
            cluster: "",
            config: "",
            flags: &[CONTROLLERS],
            need: Need::Machines,
            role: Role::Chart,
            sharing: Sharing::Shared,
        }
    }
}

/// A simulated cluster, where it is served, and the files that a manager finds about it.
pub struct Machines {
    talos: Arc<Talos>,
    servers: Mutex<Vec<Server>>,
    folder: TempDir,
}

impl Deref for Machines {
    type Target = Arc<Talos>;

    fn deref(&self) -> &Arc<Talos> {
        &self.talos
    }
}

impl Machines {
    /// A cluster with what the fixture describes and the machine `cp1`, which is not served yet, and a
    /// talosconfig for it.
    pub fn open(world: &World, cluster: &str, config: &str) -> Self {
        let fixture: Fixture = match cluster {
            "" => Fixture::default(),
            text => bowline_simulator::fixture::parse("fixture", text).unwrap(),
        };
        let machines = Self {
            talos: Talos::from_fixture(world, fixture).unwrap(),
            servers: Mutex::default(),
            folder: tempfile::tempdir().unwrap(),
        };
        let first = format!("eth0/{ENDPOINT}/24");
        let first = MachineSpec::named("cp1", &[&first]).control_plane();
        machines.add_machine(&first).unwrap();
        machines.give(&Access::reader(&[ENDPOINT]));
        machines.configure(config);
        machines
    }

    /// Lets machines say the names of their Nodes as that bench's server knows them.
    pub fn name_nodes_for(&self, bench: &TestCluster) {
        let prefix = bench.cluster.names().own("");
        self.set_node_prefix(&prefix).unwrap();
    }

    /// Adds a worker on that platform.
    pub fn add(&self, name: &str, addresses: &[&str], platform: PlatformSpec) {
        let machine = MachineSpec::named(name, addresses).platform(platform);
        self.add_machine(&machine).unwrap();
    }

    /// Lets a machine be called at an address.
    pub fn serve(&self, machine: &str, address: &str) {
        let server = self.on_pipe(machine, &format!("{address}:50000"));
        self.servers.lock().unwrap().push(server);
    }

    /// Writes another talosconfig.
    pub fn give(&self, access: &Access) {
        self.write(TALOSCONFIG, &self.talosconfig(access).unwrap());
    }

    /// Takes the talosconfig away.
    pub fn take_credentials(&self) {
        std::fs::remove_file(self.path(TALOSCONFIG)).unwrap();
    }

    /// Writes another cloud config.
    pub fn configure(&self, config: &str) {
        self.write(CLOUD_CONFIG, config);
    }

    /// Does something to the cluster that the sandbox has a verb for.
    pub fn carry_out(&self, verb: &str, body: &Value) {
        self.talos.carry_out(verb, body).unwrap();
    }

    fn write(&self, name: &str, text: &str) {
        // As a mounted Secret changes: whole or not at all.
        let (path, next) = (self.path(name), self.path("next"));
        std::fs::write(&next, text).unwrap();
        std::fs::rename(next, path).unwrap();
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The cloud that a manager makes of it.
    pub fn cloud(
        &self,
        world: &World,
        metrics: &Arc<Metrics>,
        need: Need,
    ) -> Result<Arc<dyn Cloud>, BuildError> {
        let counted = metrics.register(bowline_talos::register_metrics);
        let name = CloudName::parse(PROVIDER).unwrap();
        self.named_cloud(&name, world, counted, need)
    }

    fn named_cloud(
        &self,
        name: &CloudName,
        world: &World,
        counted: bowline_talos::Metrics,
        need: Need,
    ) -> Result<Arc<dyn Cloud>, BuildError> {
        let setup = Setup {
            environment: Environment {
                endpoints: Vec::new(),
                candidates: vec![self.path(TALOSCONFIG)],
            },
            config_file: self.path(CLOUD_CONFIG).to_str().unwrap().to_owned(),
            config_text: None,
            need,
        };
        let seams = Called::seams(name, world, None);
        bowline_talos::build(setup, seams, Some(counted))
    }
}

/// A test cluster whose managers work with simulated Talos machines.
pub type CloudHarness = crate::cloud_harness::CloudHarness<Machines>;

impl CloudHarness {
    /// A cluster whose control plane answers, and the manager with the chart's command line and role; it is
    /// not started yet.
    pub async fn set_up(beginning: Beginning<'_>) -> Self {
        let harness = Self::without_endpoint(beginning).await;
        harness.cloud.serve("cp1", ENDPOINT);
        harness
    }

    /// The same, and nobody answers.
    pub async fn without_endpoint(beginning: Beginning<'_>) -> Self {
        let Beginning {
            seed,
            cluster,
            config,
            flags,
            need,
            role,
            sharing,
        } = beginning;
        let original = Original {
            command: "talos-cloud-controller-manager",
            provider: PROVIDER,
            account: ACCOUNT,
            manifest: &manifest(role),
        };
        let open = |bench: &TestCluster| serve(bench, None, cluster, config, need);
        let flags = [&FLAGS, flags].concat();
        Self::open_on(sharing, seed, &flags, &original, open).await
    }
}

/// A cluster with what the fixture describes and the machine `cp1`, which does not answer yet, for managers with that
/// cloud config; of that name where there are several clouds.
pub fn serve(
    bench: &TestCluster,
    name: Option<&str>,
    cluster: &str,
    config: &str,
    need: Need,
) -> Served<Machines> {
    let called = Called::only(name, PROVIDER, "talos.sim");
    let cloud = Arc::new(Machines::open(&bench.world, cluster, config));
    cloud.name_nodes_for(bench);
    // What the sandbox shows; the API itself is where its endpoints are.
    let server = called.serve(&bench.world, ControlServer::new(&cloud.talos));
    let machines = Arc::clone(&cloud);
    let (name, label) = (called.name(), called.label());
    let factory = move |world: World, metrics: Arc<Metrics>| {
        let metrics = metrics.register_for(label.as_deref(), bowline_talos::register_metrics);
        let made = machines.named_cloud(&name, &world, metrics, need);
        async { made.map_err(|error| error.to_string()) }.boxed_local()
    };
    Served {
        cloud,
        server,
        factory: Box::new(factory),
    }
}

/// The objects of the chart, and what else the role has.
fn manifest(role: Role) -> Vec<Value> {
    let mut objects = bowline_simulator_talos::manifest();
    let rule = |group: &str, resource: &str, verb: &str| json!({ "apiGroups": [group], "resources": [resource], "verbs": [verb] });
    let rules = match role {
        Role::Chart => return objects,
        Role::Deleting => vec![rule("", "nodes", "delete")],
        Role::Reading => vec![
            rule("", "services", "get"),
            rule("discovery.k8s.io", "endpointslices", "list"),
            rule("networking.k8s.io", "servicecidrs", "list"),
        ],
    };
    let name = "further-rights";
    let group = "rbac.authorization.k8s.io";
    let version = format!("{group}/v1");
    objects.push(json!({
        "apiVersion": version, "kind": "ClusterRole", "metadata": { "name": name },
        "rules": rules,
    }));
    objects.push(json!({
        "apiVersion": version, "kind": "ClusterRoleBinding", "metadata": { "name": name },
        "roleRef": { "apiGroup": group, "kind": "ClusterRole", "name": name },
        "subjects": [{
            "kind": "ServiceAccount", "name": ACCOUNT, "namespace": "kube-system",
        }],
    }));
    objects
}
