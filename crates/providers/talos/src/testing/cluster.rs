//! A simulated cluster and the cloud that is made of it.

use std::sync::Arc;

use bowline_core::{Cloud, Instance, Lookup, Node};
use bowline_simulator::World;
use bowline_simulator::serve::Server;
use bowline_simulator_talos::{Access, Config, MachineSpec, PlatformSpec, Talos};
use prometheus_client::registry::Registry;
use tempfile::TempDir;

use crate::{BuildError, Environment, Need, Setup, build, register_metrics};

/// Where the first machine of the control plane is.
pub(crate) const FIRST: &str = "10.0.0.1";

/// Simulated machines, and the files for them.
pub(crate) struct Harness {
    pub(crate) world: World,
    pub(crate) talos: Arc<Talos>,
    servers: Vec<Server>,
    folder: TempDir,
    registry: std::sync::Mutex<Registry>,
}

impl Harness {
    /// A control plane of one machine that is served, with a talosconfig for it.
    pub(crate) fn new() -> Self {
        Self::with(Config::default())
    }

    pub(crate) fn with(config: Config) -> Self {
        let world = World::simulated(7);
        let mut harness = Self {
            talos: Talos::new(&world, config).unwrap(),
            world,
            servers: Vec::new(),
            folder: tempfile::tempdir().unwrap(),
            registry: std::sync::Mutex::default(),
        };
        let first = MachineSpec::named("cp1", &["eth0/10.0.0.1/24"]).control_plane();
        harness.add(&first);
        harness.serve("cp1", FIRST);
        harness.give(&Access::reader(&[FIRST]));
        harness
    }

    pub(crate) fn add(&self, machine: &MachineSpec) {
        self.talos.add_machine(machine).unwrap();
    }

    /// The same with the worker `w1`.
    pub(crate) fn with_worker() -> Self {
        let harness = Self::new();
        harness.metal("w1", &["eth0/10.8.0.11/24"]);
        harness
    }

    pub(crate) fn metal(&self, name: &str, addresses: &[&str]) {
        self.on(name, addresses, PlatformSpec::default());
    }

    pub(crate) fn on(&self, name: &str, addresses: &[&str], platform: PlatformSpec) {
        self.add(&MachineSpec::named(name, addresses).platform(platform));
    }

    /// Lets a machine be called at an address.
    pub(crate) fn serve(&mut self, machine: &str, address: &str) {
        let server = self.talos.on_pipe(machine, &format!("{address}:50000"));
        self.servers.push(server);
    }

    /// Lets nobody be called any more.
    pub(crate) async fn silence(&mut self) {
        for server in self.servers.drain(..) {
            server.shutdown().await;
        }
    }

    pub(crate) fn give(&self, access: &Access) {
        let text = self.talos.talosconfig(access).unwrap();
        self.write("config", &text);
    }

    pub(crate) fn write(&self, name: &str, text: &str) {
        // As Kubernetes does it: whole or not at all.
        let (path, next) = (self.path(name), self.path("next"));
        std::fs::write(&next, text).unwrap();
        std::fs::rename(next, path).unwrap();
    }

    pub(crate) fn path(&self, name: &str) -> std::path::PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn cloud(&self, config: &str) -> Arc<dyn Cloud> {
        self.build(config, &[], Need::Machines).unwrap()
    }

    pub(crate) fn build(
        &self,
        config: &str,
        endpoints: &[&str],
        need: Need,
    ) -> Result<Arc<dyn Cloud>, BuildError> {
        self.write("cloud.yaml", config);
        let setup = Setup {
            environment: Environment {
                endpoints: endpoints.iter().map(ToString::to_string).collect(),
                candidates: vec![self.path("config")],
            },
            config_file: self.path("cloud.yaml").to_str().unwrap().to_owned(),
            config_text: None,
            need,
        };
        let seams = bowline_test_kit::seams(&self.world, "talos");
        let metrics = register_metrics(&mut self.registry.lock().unwrap());
        build(setup, seams, Some(metrics))
    }

    /// A node of a machine that waits to be initialised, made now.
    pub(crate) fn node(&self, name: &str, provided_node_ip: &str) -> Arc<Node> {
        let mut node = super::node(name, provided_node_ip);
        node.os_image = bowline_simulator_talos::OS_IMAGE.into();
        node.created = self.world.clock.now();
        Arc::new(node)
    }

    /// The value of a metric; 0 if it is not there.
    pub(crate) fn metric(&self, line: &str) -> u64 {
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &self.registry.lock().unwrap())
            .unwrap();
        let mut values = text.lines().filter_map(|it| it.strip_prefix(line));
        values.next().map_or(0, |it| it.trim().parse().unwrap())
    }

    /// How many calls asked for resources whose type begins so.
    pub(crate) fn asked_for(&self, kind: &str) -> usize {
        let entries = self.world.journal.entries();
        let about = |it: &bowline_simulator::journal::Entry| it.body.to_string().contains(kind);
        entries.iter().filter(|it| about(it)).count()
    }
}

pub(crate) async fn look(cloud: &Arc<dyn Cloud>, node: &Arc<Node>) -> Lookup {
    let nodes = [Arc::clone(node)];
    let instances = cloud.instances().unwrap();
    instances.lookup(&nodes).await.pop().unwrap()
}

pub(crate) async fn found(cloud: &Arc<dyn Cloud>, node: &Arc<Node>) -> Instance {
    bowline_test_kit::found(look(cloud, node).await)
}

/// Why a cloud cannot tell, all causes included.
pub(crate) async fn cannot_tell(cloud: &Arc<dyn Cloud>, node: &Arc<Node>) -> String {
    bowline_test_kit::cannot_tell(look(cloud, node).await)
}

pub(crate) fn id(instance: &Instance) -> String {
    instance.provider_id.as_ref().unwrap().to_string()
}

pub(crate) fn addresses(instance: &Instance) -> Vec<String> {
    instance.addresses.iter().map(ToString::to_string).collect()
}
