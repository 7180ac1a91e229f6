//! What the sandbox runs on: a simulated cluster and one or several simulated clouds on loopback, with the
//! real manager at work on them.

mod actions;
mod cloud;
mod manager;

use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use bowline_http::{Clock, Random};
use bowline_simulator::journal::Filter;
use bowline_simulator::machines::Power;
use bowline_simulator::sandbox::{SimulatedCloud, SimulatorKind};
use bowline_simulator::{KubeletSpec, World};
use bowline_simulator_kubernetes::cluster::Cluster;
use bowline_simulator_kubernetes::fleet::{self, Fleet, Network};
use bowline_simulator_kubernetes::kinds;
use bowline_simulator_kubernetes::monitor::{self, Monitor};
use tokio_util::sync::CancellationToken;

pub(super) use self::cloud::SandboxCloud;
use self::manager::Ended;
use super::LOG;
use super::selection::{GUEST, JOINING, ManagerConfiguration, SITE_LABEL, Selection};

/// The lease of every cloud controller manager by default.
const LEASE: (&str, &str) = ("kube-system", "cloud-controller-manager");

/// A kubelet that is silent for so long makes its node NotReady. A real cluster waits 50 s; the
/// people in front of a sandbox should not.
pub(super) const SILENCE: Duration = Duration::from_secs(10);
/// How often the sandbox's kubelets show that they live; well inside [`SILENCE`].
const HEARTBEAT: Duration = Duration::from_secs(2);

/// The configuration of a manager of several clouds.
const CONFIGURATION: &str = "bowline.yaml";

/// What the story cost.
pub(super) struct Costs {
    /// Calls to each cloud's API.
    pub cloud_calls: Vec<(&'static str, usize)>,
    /// Writes to Node objects by the manager.
    pub node_writes: usize,
    /// Writes to Services by the manager.
    pub service_writes: usize,
    /// Events it made.
    pub events: usize,
}

/// Everything that is up.
pub(super) struct Harness {
    selection: Selection,
    world: World,
    cluster: Cluster,
    /// At least one.
    clouds: Vec<SandboxCloud>,
    fleet: Fleet,
    _monitor: Monitor,
    folder: PathBuf,
    /// Of a manager of several clouds.
    manager_configuration: Option<ManagerConfiguration>,
    secure_port: u16,
    foreign: Vec<String>,
    stop: CancellationToken,
    manager: Ended,
}

impl Harness {
    /// Brings everything up in a folder of its own.
    pub(super) async fn set_up(
        selection: Selection,
        folder: &Path,
        seed: Option<u64>,
        port: u16,
    ) -> Result<Self> {
        let random = seed.map_or_else(Random::from_system, Random::seeded);
        let world = World::with(Clock::system(), random);
        let listen = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let cluster = Cluster::on_socket(&world, listen).await?;
        selection.grant(&cluster)?;
        let clouds = clouds(&world, selection).await?;
        let admin = cluster.admin()?;
        let fleet = Fleet::new(&world, admin.clone(), kubelets());
        let patience = monitor::Settings {
            grace_period: SILENCE,
            ..Default::default()
        };
        let monitor = Monitor::start(&world, admin, patience);
        let (namespace, account) = selection.account();
        let kubeconfig = cluster.account_kubeconfig(namespace, account)?;
        write(folder, "kubeconfig", &cluster.admin_kubeconfig()?)?;
        write(folder, "manager.kubeconfig", &kubeconfig)?;
        let secure_port = free_port().await?;
        let stop = CancellationToken::new();
        let (manager, manager_configuration) =
            manager(selection, &clouds, folder, secure_port, stop.clone())?;
        Ok(Self {
            selection,
            world,
            cluster,
            clouds,
            fleet,
            _monitor: monitor,
            folder: folder.to_owned(),
            manager_configuration,
            secure_port,
            foreign: Vec::new(),
            stop,
            manager,
        })
    }

    pub(super) fn selection(&self) -> Selection {
        self.selection
    }

    /// The clouds.
    pub(super) fn clouds(&self) -> &[SandboxCloud] {
        &self.clouds
    }

    /// The cloud of that name.
    pub(super) fn cloud_named(&self, name: &str) -> Result<&SandboxCloud> {
        let found = self.clouds.iter().find(|it| it.name == name);
        found.with_context(|| format!("the sandbox has no cloud {name}"))
    }

    fn cloud_mut(&mut self, name: &str) -> Result<&mut SandboxCloud> {
        let found = self.clouds.iter_mut().find(|it| it.name == name);
        found.with_context(|| format!("the sandbox has no cloud {name}"))
    }

    /// Which cloud is simulated; the first of several.
    pub(super) fn kind(&self) -> &'static SimulatorKind {
        self.first().kind
    }

    /// That cloud behind its API.
    pub(super) fn cloud(&self) -> std::sync::Arc<dyn SimulatedCloud> {
        self.first().simulated().clone()
    }

    fn first(&self) -> &SandboxCloud {
        // There is always a cloud.
        &self.clouds[0]
    }

    /// Where everything is, in lines for people.
    pub(super) fn addresses(&self) -> Vec<String> {
        let (namespace, account) = self.selection.account();
        let mut lines = vec![format!(
            "Kubernetes API   {}  (in memory)",
            self.cluster.url()
        )];
        for cloud in &self.clouds {
            let (api, url) = (cloud.kind.api, cloud.simulated().url());
            lines.push(match self.selection {
                Selection::One(_) => format!("{api:<16} {url}  (simulated)"),
                Selection::Several => format!("{:<16} {url}  ({api}, simulated)", cloud.name),
            });
        }
        let (port, folder) = (self.secure_port, self.folder.display());
        lines.push(format!(
            "Bowline          as service account {namespace}/{account}"
        ));
        lines.push(format!("                 https://127.0.0.1:{port}/healthz"));
        lines.push(format!("files and log    {folder}"));
        lines
    }

    /// Where the log is.
    pub(super) fn log(&self) -> PathBuf {
        self.folder.join(LOG)
    }

    /// Where the manager reports whether it is ready.
    pub(super) fn readiness_url(&self) -> String {
        format!("https://127.0.0.1:{}/readyz?verbose", self.secure_port)
    }

    /// Where the configuration of a manager of several clouds is.
    pub(super) fn configuration(&self) -> PathBuf {
        self.folder.join(CONFIGURATION)
    }

    /// What the configuration of a manager of several clouds is made of.
    pub(super) fn manager_configuration(&self) -> Result<&ManagerConfiguration> {
        let manager_configuration = self.manager_configuration.as_ref();
        manager_configuration.context("the manager of one cloud has no configuration of several")
    }

    /// Changes that configuration, as its operator would.
    pub(super) fn reconfigure(&self, text: &str) -> Result<()> {
        // Nobody reads half of it.
        let next = format!("{CONFIGURATION}.next");
        write(&self.folder, &next, text)?;
        let (next, path) = (self.folder.join(next), self.configuration());
        std::fs::rename(&next, &path).with_context(|| format!("writing {}", path.display()))
    }

    /// How to look at the cluster.
    pub(super) fn kubectl(&self) -> String {
        format!(
            "kubectl --kubeconfig {}",
            self.folder.join("kubeconfig").display()
        )
    }

    /// A client that may do everything.
    pub(super) fn admin(&self) -> Result<kube::Client> {
        Ok(self.cluster.admin()?)
    }

    /// Makes a machine in the first cloud, starts a kubelet on it, and gives its name.
    pub(super) fn boot_machine(&mut self) -> Result<String> {
        self.boot_machine_in(self.first().name)
    }

    /// Makes a machine in that cloud, starts a kubelet on it, and gives its name.
    pub(super) fn boot_machine_in(&mut self, cloud: &str) -> Result<String> {
        let cloud = self.clouds.iter_mut().find(|it| it.name == cloud);
        cloud.context("there is no such cloud")?.boot(&self.fleet)
    }

    /// Makes a machine in that cloud whose system is a cloud of its own here, and gives its name.
    pub(super) fn boot_guest_in(&mut self, cloud: &str) -> Result<String> {
        let system = self.cloud_named(GUEST)?.simulated().clone();
        let cloud = self.clouds.iter_mut().find(|it| it.name == cloud);
        let cloud = cloud.context("there is no such cloud")?;
        cloud.boot_guest(&self.fleet, &system)
    }

    /// Lets a node join that no cloud here owns; it may have a provider ID.
    pub(super) fn join_foreign(&mut self, name: &str, provider_id: Option<&str>) -> Result<()> {
        let machine = provider_id.map_or_else(|| format!("nobody://{name}"), str::to_owned);
        self.world.machines.set(&machine, Power::Running);
        self.fleet.join(KubeletSpec {
            node_name: name.to_owned(),
            machine_id: machine.clone(),
            provider_id: provider_id.map(str::to_owned),
            system_uuid: self.world.random.uuid(),
            os_image: String::new(),
            ..KubeletSpec::default()
        })?;
        self.foreign.push(machine);
        Ok(())
    }

    /// The machines of the first cloud, by name, the oldest first.
    pub(super) fn machines(&self) -> &[String] {
        self.first().machines()
    }

    /// Powers a machine of the first cloud off.
    pub(super) fn stop(&self, machine: &str) -> Result<()> {
        self.cloud().stop(machine)
    }

    /// Powers a machine of the first cloud on.
    pub(super) fn start(&self, machine: &str) -> Result<()> {
        self.cloud().start(machine)
    }

    /// Destroys a machine of the first cloud.
    pub(super) fn destroy(&mut self, machine: &str) -> Result<()> {
        self.destroy_in(self.first().name, machine)
    }

    /// Destroys a machine of that cloud.
    pub(super) fn destroy_in(&mut self, cloud: &str, machine: &str) -> Result<()> {
        self.cloud_mut(cloud)?.destroy(machine)
    }

    /// Lets the API of that cloud fail, or work again.
    pub(super) fn set_down(&self, cloud: &str, down: bool) -> Result<()> {
        self.cloud_named(cloud)?.set_down(&self.world, down)
    }

    /// Destroys the machines of foreign nodes.
    pub(super) fn stop_foreign(&self) {
        for machine in &self.foreign {
            self.world.machines.destroy(machine);
        }
    }

    /// What was done so far.
    pub(super) fn costs(&self) -> Costs {
        let calls = self.clouds.iter();
        Costs {
            cloud_calls: calls
                .map(|it| (it.name, self.world.journal.count(&it.calls())))
                .collect(),
            node_writes: self.writes("/api/v1/nodes*"),
            service_writes: self.writes("/api/v1/namespaces/*/services*"),
            events: self.writes("/api/v1/namespaces/*/events*"),
        }
    }

    /// Writes of the manager to paths like that.
    pub(super) fn writes(&self, path: &str) -> usize {
        let (namespace, account) = self.selection.account();
        let manager = format!("system:serviceaccount:{namespace}:{account}");
        let writes = Filter::any().server("kubernetes").caller(&manager);
        self.world.journal.count(&writes.mutating().path(path))
    }

    /// How often the first cloud answered 404.
    pub(super) fn not_found(&self) -> usize {
        let filter = self.first().calls().status(404);
        self.world.journal.count(&filter)
    }

    /// Waits until the manager ends by itself, which it should not; gives the reason.
    pub(super) fn manager_ended(&self) -> impl Future<Output = anyhow::Error> + use<> {
        let manager = self.manager.clone();
        async move {
            match manager.await {
                Ok(()) => anyhow!("the manager ended by itself"),
                Err(error) => anyhow!("the manager ended: {error:#}"),
            }
        }
    }

    /// Takes everything down, the manager first.
    pub(super) async fn tear_down(self) -> Result<()> {
        self.stop.cancel();
        let ended = self.manager.clone().await;
        let holder = self.lease_holder();
        drop(self.fleet);
        for cloud in self.clouds {
            cloud.shutdown().await;
        }
        self.cluster.shutdown().await;
        ended.map_err(|error| anyhow!("{error:#}"))?;
        match holder.as_deref() {
            None | Some("") => Ok(()),
            Some(holder) => bail!("the lease is still held by {holder}"),
        }
    }

    /// Who holds the manager's lease, if it was ever made.
    fn lease_holder(&self) -> Option<String> {
        let kind = kinds::by_kind("coordination.k8s.io", "v1", "Lease")?;
        let (namespace, name) = LEASE;
        let lease = self.cluster.api().get(kind, namespace, name)?;
        lease["spec"]["holderIdentity"].as_str().map(str::to_owned)
    }
}

fn kubelets() -> fleet::Settings {
    fleet::Settings {
        renew_interval: HEARTBEAT,
        check_interval: HEARTBEAT,
        network: Network::AfterInitialization(Duration::from_secs(1)),
        ..fleet::Settings::default()
    }
}

async fn clouds(world: &World, selection: Selection) -> Result<Vec<SandboxCloud>> {
    let mut clouds = Vec::new();
    for (number, (name, kind)) in selection.clouds().into_iter().enumerate() {
        let prefix = selection.machines_of(name);
        let mut cloud = SandboxCloud::start(world, (name, kind), number, prefix).await?;
        if matches!(selection, Selection::Several) {
            cloud.label(SITE_LABEL, name);
        }
        clouds.push(cloud);
    }
    Ok(clouds)
}

/// Starts the real manager; one of several clouds comes with what its configuration is made of.
fn manager(
    selection: Selection,
    clouds: &[SandboxCloud],
    folder: &Path,
    port: u16,
    stop: CancellationToken,
) -> Result<(Ended, Option<ManagerConfiguration>)> {
    let kubeconfig = folder.join("manager.kubeconfig");
    if let (Selection::One(kind), [cloud]) = (selection, clouds) {
        let settings = cloud.simulated().settings(folder);
        let at = (kubeconfig.as_path(), port);
        let ended = manager::start_as_original(kind, folder, settings, at, stop)?;
        return Ok((ended, None));
    }
    let mut sections = Vec::new();
    for cloud in clouds {
        let section = cloud.simulated().section(cloud.name, folder);
        for (name, content) in &section.files {
            write(folder, name, content)?;
        }
        sections.push((cloud.name, section));
    }
    let manager_configuration = ManagerConfiguration {
        sections,
        kubeconfig,
        port,
    };
    write(
        folder,
        CONFIGURATION,
        &manager_configuration.configuration(|it| it != JOINING),
    )?;
    let ended = manager::start_with(&folder.join(CONFIGURATION), stop)?;
    Ok((ended, Some(manager_configuration)))
}

async fn free_port() -> Result<u16> {
    let listener = tokio::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
    Ok(listener.local_addr()?.port())
}

fn write(folder: &Path, name: &str, text: &str) -> Result<()> {
    use std::os::unix::fs::OpenOptionsExt;

    let path = folder.join(name);
    let mut options = std::fs::OpenOptions::new();
    // They hold credentials, if only simulated ones.
    let options = options.write(true).create(true).truncate(true).mode(0o600);
    let mut file = options
        .open(&path)
        .with_context(|| format!("writing {}", path.display()))?;
    std::io::Write::write_all(&mut file, text.as_bytes())
        .with_context(|| format!("writing {}", path.display()))
}
