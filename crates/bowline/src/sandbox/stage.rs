//! The stage: a simulated cluster and cloud on loopback, with the real manager at work on them.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use bowline_controllers::options::{self, Request};
use bowline_controllers::{Stop, StopHandle, stop_signal};
use bowline_http::{Clock, Random};
use bowline_simulator::World;
use bowline_simulator::cloudscale::{Cloudscale, Config, DEFAULT_TOKEN, MachineSpec};
use bowline_simulator::cluster::Cluster;
use bowline_simulator::fleet::{self, Fleet, Kubelet, Network};
use bowline_simulator::journal::Filter;
use bowline_simulator::kubernetes::auth::originals;
use bowline_simulator::kubernetes::kinds;
use bowline_simulator::machines::Power;
use bowline_simulator::monitor::{self, Monitor};
use bowline_simulator::serve::Server;
use futures::FutureExt;
use futures::future::{BoxFuture, Shared};

use crate::providers::Environment;
use crate::run;

/// The command name of the controller manager that the sandbox's manager stands in for.
const COMMAND: &str = "cloudscale-cloud-controller-manager";
/// The service account of its manifest.
const ACCOUNT: (&str, &str) = ("kube-system", "cloud-controller-manager");
/// The lease of every cloud controller manager, unless told otherwise.
const LEASE: (&str, &str) = ("kube-system", "cloud-controller-manager");
/// Who writes in the journal when the manager does.
const MANAGER: &str = "system:serviceaccount:kube-system:cloud-controller-manager";

/// A kubelet that is silent for so long makes its node NotReady. A real cluster waits 50 s; the
/// people in front of a sandbox should not.
pub(super) const SILENCE: Duration = Duration::from_secs(10);
/// How often the sandbox's kubelets show that they live; well inside [`SILENCE`].
const HEARTBEAT: Duration = Duration::from_secs(2);

/// How the manager ended; anybody may wait for it.
type Ended = Shared<BoxFuture<'static, Result<(), Arc<anyhow::Error>>>>;

/// What the story cost.
pub(super) struct Costs {
    /// Calls to the cloud's API.
    pub cloud_calls: usize,
    /// Writes to Node objects by the manager.
    pub node_writes: usize,
    /// Events it made.
    pub events: usize,
}

/// Everything that is up.
pub(super) struct Stage {
    world: World,
    cluster: Cluster,
    cloud: Arc<Cloudscale>,
    cloud_server: Server,
    fleet: Fleet,
    _monitor: Monitor,
    folder: PathBuf,
    secure_port: u16,
    machines: Vec<(String, String)>,
    stranger: String,
    stop: StopHandle,
    manager: Ended,
}

impl Stage {
    /// Brings everything up in a folder of its own.
    pub(super) async fn set_up(folder: &Path, seed: Option<u64>, port: u16) -> Result<Self> {
        let random = seed.map_or_else(Random::from_system, Random::seeded);
        let world = World::with(Clock::system(), random);
        let listen = |port| SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let cluster = Cluster::on_socket(&world, listen(port)).await?;
        cluster.install(originals::cloudscale())?;
        let cloud = Cloudscale::new(&world, Config::default());
        let cloud_server = Server::builder(&world, cloud.clone())
            .plain(listen(0))
            .await?;
        let admin = cluster.admin()?;
        let fleet = Fleet::new(&world, admin.clone(), kubelets());
        let patience = monitor::Settings {
            grace_period: SILENCE,
            ..Default::default()
        };
        let monitor = Monitor::start(&world, admin, patience);
        write(folder, "kubeconfig", &cluster.admin_kubeconfig()?)?;
        write(
            folder,
            "manager.kubeconfig",
            &cluster.account_kubeconfig(ACCOUNT.0, ACCOUNT.1)?,
        )?;
        write(folder, "token", DEFAULT_TOKEN)?;
        let secure_port = free_port().await?;
        let (stop, stopped) = stop_signal();
        let address = cloud_server
            .local_addr()
            .context("the cloud has no address")?;
        let manager = start_manager(folder, address, secure_port, stopped)?;
        Ok(Self {
            world,
            cluster,
            cloud,
            cloud_server,
            fleet,
            _monitor: monitor,
            folder: folder.to_owned(),
            secure_port,
            machines: Vec::new(),
            stranger: String::new(),
            stop,
            manager,
        })
    }

    /// Where everything is, in lines for people.
    pub(super) fn addresses(&self) -> Vec<String> {
        let cloud = self.cloud_server.local_addr();
        let cloud = cloud.map_or_else(String::new, |address| format!("http://{address}"));
        vec![
            format!("Kubernetes API   {}  (in memory)", self.cluster.url()),
            format!("cloudscale API   {cloud}/v1  (simulated)"),
            format!(
                "Bowline          as service account {}/{}",
                ACCOUNT.0, ACCOUNT.1
            ),
            format!(
                "                 https://127.0.0.1:{}/healthz",
                self.secure_port
            ),
            format!("files and log    {}", self.folder.display()),
        ]
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

    /// Makes machines in the cloud, and starts a kubelet on each.
    pub(super) fn boot_machines(&mut self, count: usize) -> Result<()> {
        for number in 1..=count {
            let name = format!("worker-{number}");
            let uuid = self.cloud.add_server(&MachineSpec::named(&name))?;
            self.fleet.join(Kubelet {
                node_name: name.clone(),
                machine_id: format!("cloudscale://{uuid}"),
                system_uuid: self.world.random.uuid(),
                ..Kubelet::default()
            })?;
            self.machines.push((name, uuid));
        }
        Ok(())
    }

    /// Lets a node of another cloud join.
    pub(super) fn join_stranger(&mut self, name: &str, provider_id: &str) -> Result<()> {
        provider_id.clone_into(&mut self.stranger);
        self.world.machines.set(provider_id, Power::Running);
        self.fleet.join(Kubelet {
            node_name: name.to_owned(),
            machine_id: provider_id.to_owned(),
            provider_id: Some(provider_id.to_owned()),
            system_uuid: self.world.random.uuid(),
            ..Kubelet::default()
        })?;
        Ok(())
    }

    /// The name of the machine with that number.
    pub(super) fn machine(&self, number: usize) -> String {
        self.machines
            .get(number)
            .map(|(name, _)| name.clone())
            .unwrap_or_default()
    }

    /// Powers a machine off.
    pub(super) fn stop(&self, name: &str) -> Result<()> {
        Ok(self.cloud.stop(self.uuid(name)?)?)
    }

    /// Powers a machine on.
    pub(super) fn start(&self, name: &str) -> Result<()> {
        Ok(self.cloud.start(self.uuid(name)?)?)
    }

    /// Destroys a machine.
    pub(super) fn destroy(&self, name: &str) -> Result<()> {
        Ok(self.cloud.destroy(self.uuid(name)?)?)
    }

    /// Destroys the stranger's machine, in a cloud nobody here knows.
    pub(super) fn silence_stranger(&self) {
        self.world.machines.destroy(&self.stranger);
    }

    /// What was done so far.
    pub(super) fn costs(&self) -> Costs {
        let count = |filter: Filter| self.world.journal.count(&filter);
        let writes = |path| {
            Filter::any()
                .server("kubernetes")
                .caller(MANAGER)
                .mutating()
                .path(path)
        };
        Costs {
            cloud_calls: count(Filter::any().server("cloudscale")),
            node_writes: count(writes("/api/v1/nodes*")),
            events: count(writes("/api/v1/namespaces/*/events*")),
        }
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
        self.stop.stop();
        let ended = self.manager.clone().await;
        let holder = self.lease_holder();
        drop(self.fleet);
        self.cloud_server.shutdown().await;
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

    fn uuid(&self, name: &str) -> Result<&str> {
        let found = self.machines.iter().find(|(machine, _)| machine == name);
        found
            .map(|(_, uuid)| uuid.as_str())
            .with_context(|| format!("no machine {name}"))
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

/// Starts the real manager: the original's command line, environment and files.
fn start_manager(folder: &Path, cloud: SocketAddr, secure_port: u16, stop: Stop) -> Result<Ended> {
    let kubeconfig = folder.join("manager.kubeconfig");
    let arguments = [
        "--allow-untagged-cloud".to_owned(),
        "--v=4".to_owned(),
        format!("--kubeconfig={}", kubeconfig.display()),
        "--bind-address=127.0.0.1".to_owned(),
        format!("--secure-port={secure_port}"),
    ];
    let Request::Run(line) = options::parse(COMMAND, Some("cloudscale"), &arguments)
        .map_err(|error| anyhow::anyhow!(error.message))?
    else {
        bail!("the sandbox's own command line does not run a manager");
    };
    let variables = BTreeMap::from([
        ("CLOUDSCALE_API_URL".to_owned(), format!("http://{cloud}/")),
        (
            "CLOUDSCALE_ACCESS_TOKEN_FILE".to_owned(),
            folder.join("token").display().to_string(),
        ),
    ]);
    let environment: Environment = Arc::new(move |name| variables.get(name).cloned());
    let quiet = Arc::new(|_| Ok(()));
    let manager = tokio::spawn(run::manage(COMMAND, *line, environment, quiet, stop));
    let ended = async move {
        manager
            .await
            .context("the manager's task")?
            .map_err(Into::into)
    };
    Ok(ended
        .map(|ended: Result<()>| ended.map_err(Arc::new))
        .boxed()
        .shared())
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
