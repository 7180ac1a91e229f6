//! The stage: a simulated cluster and cloud on loopback, with the real manager at work on them.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use bowline_controllers::options::Request;
use bowline_controllers::{Stop, StopHandle, stop_signal};
use bowline_http::{Clock, Random};
use bowline_simulator::World;
use bowline_simulator::cluster::Cluster;
use bowline_simulator::fleet::{self, Fleet, Kubelet, Network};
use bowline_simulator::journal::Filter;
use bowline_simulator::kubernetes::kinds;
use bowline_simulator::machines::Power;
use bowline_simulator::monitor::{self, Monitor};
use futures::FutureExt;
use futures::future::{BoxFuture, Shared};
use k8s_openapi::api::core::v1::{ConfigMap, Node, Secret, Service, ServicePort, ServiceSpec};
use kube::Api;
use kube::api::{DeleteParams, ObjectMeta, PostParams};

use super::clouds::{Entry, Running, Settings, SimulatedCloud};
use crate::invocation::Invocation;
use crate::providers::{self, Environment};
use crate::run::{self, Job};

/// The lease of every cloud controller manager, unless told otherwise.
const LEASE: (&str, &str) = ("kube-system", "cloud-controller-manager");

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
    /// Writes to Services by the manager.
    pub service_writes: usize,
    /// Events it made.
    pub events: usize,
}

/// Everything that is up.
pub(super) struct Stage {
    entry: &'static Entry,
    world: World,
    cluster: Cluster,
    cloud: Running,
    fleet: Fleet,
    _monitor: Monitor,
    folder: PathBuf,
    secure_port: u16,
    /// The machines there are, by name.
    machines: Vec<String>,
    /// How many there ever were.
    booted: usize,
    stranger: String,
    stop: StopHandle,
    manager: Ended,
}

impl Stage {
    /// Brings everything up in a folder of its own.
    pub(super) async fn set_up(
        entry: &'static Entry,
        folder: &Path,
        seed: Option<u64>,
        port: u16,
    ) -> Result<Self> {
        let random = seed.map_or_else(Random::from_system, Random::seeded);
        let world = World::with(Clock::system(), random);
        let listen = |port| SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let cluster = Cluster::on_socket(&world, listen(port)).await?;
        (entry.grant)(&cluster)?;
        let cloud = (entry.start)(&world, listen(0)).await?;
        let admin = cluster.admin()?;
        let fleet = Fleet::new(&world, admin.clone(), kubelets());
        let patience = monitor::Settings {
            grace_period: SILENCE,
            ..Default::default()
        };
        let monitor = Monitor::start(&world, admin, patience);
        let (namespace, account) = entry.account;
        let kubeconfig = cluster.account_kubeconfig(namespace, account)?;
        write(folder, "kubeconfig", &cluster.admin_kubeconfig()?)?;
        write(folder, "manager.kubeconfig", &kubeconfig)?;
        let secure_port = free_port().await?;
        let (stop, stopped) = stop_signal();
        let settings = cloud.cloud.settings(folder);
        let manager = start_manager(entry, folder, settings, secure_port, stopped)?;
        Ok(Self {
            entry,
            world,
            cluster,
            cloud,
            fleet,
            _monitor: monitor,
            folder: folder.to_owned(),
            secure_port,
            machines: Vec::new(),
            booted: 0,
            stranger: String::new(),
            stop,
            manager,
        })
    }

    /// Which cloud is played.
    pub(super) fn entry(&self) -> &'static Entry {
        self.entry
    }

    /// The cloud behind its API.
    pub(super) fn cloud(&self) -> Arc<dyn SimulatedCloud> {
        self.cloud.cloud.clone()
    }

    /// Where everything is, in lines for people.
    pub(super) fn addresses(&self) -> Vec<String> {
        let (namespace, account) = self.entry.account;
        vec![
            format!("Kubernetes API   {}  (in memory)", self.cluster.url()),
            format!(
                "{:<16} {}  (simulated)",
                self.entry.api,
                self.cloud.cloud.url()
            ),
            format!("Bowline          as service account {namespace}/{account}"),
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

    /// Makes a machine in the cloud, starts a kubelet on it, and gives its name.
    pub(super) fn boot_machine(&mut self) -> Result<String> {
        self.booted += 1;
        let name = format!("worker-{}", self.booted);
        let kubelet = self.cloud.cloud.boot(&name)?;
        self.fleet.join(kubelet)?;
        self.machines.push(name.clone());
        Ok(name)
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
            os_image: String::new(),
            ..Kubelet::default()
        })?;
        Ok(())
    }

    /// The machines there are, by name, the oldest first.
    pub(super) fn machines(&self) -> &[String] {
        &self.machines
    }

    /// Powers a machine off.
    pub(super) fn stop(&self, machine: &str) -> Result<()> {
        self.cloud.cloud.stop(machine)
    }

    /// Powers a machine on.
    pub(super) fn start(&self, machine: &str) -> Result<()> {
        self.cloud.cloud.start(machine)
    }

    /// Destroys a machine.
    pub(super) fn destroy(&mut self, machine: &str) -> Result<()> {
        self.machines.retain(|name| name != machine);
        self.cloud.cloud.destroy(machine)
    }

    /// Takes a node out of the cluster by hand, as its operator would, and then its machine.
    pub(super) async fn retire(&mut self, machine: &str) -> Result<()> {
        let nodes: Api<Node> = Api::all(self.admin()?);
        let deleted = nodes.delete(machine, &DeleteParams::default()).await;
        deleted.with_context(|| format!("deleting the Node {machine}"))?;
        self.destroy(machine)
    }

    /// Creates a Service of type `LoadBalancer` in the default namespace.
    pub(super) async fn create_service(&self, name: &str) -> Result<()> {
        self.create_service_of(name, None).await
    }

    /// Creates one of that class.
    pub(super) async fn create_service_of(&self, name: &str, class: Option<&str>) -> Result<()> {
        let service = Service {
            metadata: ObjectMeta {
                name: Some(name.to_owned()),
                ..ObjectMeta::default()
            },
            spec: Some(ServiceSpec {
                type_: Some("LoadBalancer".to_owned()),
                load_balancer_class: class.map(str::to_owned),
                ports: Some(vec![ServicePort {
                    name: Some("http".to_owned()),
                    port: 80,
                    ..ServicePort::default()
                }]),
                selector: Some([("app".to_owned(), name.to_owned())].into()),
                ..ServiceSpec::default()
            }),
            ..Service::default()
        };
        let services = self.services()?;
        let created = services.create(&PostParams::default(), &service).await;
        created.with_context(|| format!("creating the Service {name}"))?;
        Ok(())
    }

    /// Deletes it.
    pub(super) async fn delete_service(&self, name: &str) -> Result<()> {
        let services = self.services()?;
        let deleted = services.delete(name, &DeleteParams::default()).await;
        deleted.with_context(|| format!("deleting the Service {name}"))?;
        Ok(())
    }

    /// What the manager shows at a path.
    pub(super) async fn page(&self, path: &str) -> Result<String> {
        let address = format!("https://127.0.0.1:{}", self.secure_port);
        let mut config = kube::Config::new(address.parse()?);
        // It makes its certificate by itself.
        config.accept_invalid_certs = true;
        let client = kube::Client::try_from(config)?;
        let request = http::Request::get(path).body(Vec::new())?;
        Ok(client.request_text(request).await?)
    }

    /// Whether that Secret and that ConfigMap are in the manager's namespace.
    pub(super) async fn is_kept(&self, (secret, map): (&str, &str)) -> Result<bool> {
        let secrets: Api<Secret> = Api::namespaced(self.admin()?, LEASE.0);
        let maps: Api<ConfigMap> = Api::namespaced(self.admin()?, LEASE.0);
        let (secret, map) = (secrets.get_opt(secret).await?, maps.get_opt(map).await?);
        Ok(secret.is_some() && map.is_some())
    }

    fn services(&self) -> Result<Api<Service>> {
        Ok(Api::default_namespaced(self.admin()?))
    }

    /// Destroys the stranger's machine, in a cloud nobody here knows.
    pub(super) fn silence_stranger(&self) {
        self.world.machines.destroy(&self.stranger);
    }

    /// What was done so far.
    pub(super) fn costs(&self) -> Costs {
        let count = |filter: Filter| self.world.journal.count(&filter);
        let (namespace, account) = self.entry.account;
        let manager = format!("system:serviceaccount:{namespace}:{account}");
        let writes = |path| {
            Filter::any()
                .server("kubernetes")
                .caller(&manager)
                .mutating()
                .path(path)
        };
        Costs {
            cloud_calls: count(Filter::any().server(self.entry.name)),
            node_writes: count(writes("/api/v1/nodes*")),
            service_writes: count(writes("/api/v1/namespaces/*/services*")),
            events: count(writes("/api/v1/namespaces/*/events*")),
        }
    }

    /// How often the cloud answered that there is no such thing.
    pub(super) fn not_found(&self) -> usize {
        let filter = Filter::any().server(self.entry.name).status(404);
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
        self.stop.stop();
        let ended = self.manager.clone().await;
        let holder = self.lease_holder();
        drop(self.fleet);
        self.cloud.server.shutdown().await;
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

/// Starts the real manager: the original's command line, environment and files.
fn start_manager(
    entry: &Entry,
    folder: &Path,
    settings: Settings,
    secure_port: u16,
    stop: Stop,
) -> Result<Ended> {
    for (name, content) in &settings.files {
        write(folder, name, content)?;
    }
    let kubeconfig = folder.join("manager.kubeconfig");
    let mut arguments = vec![
        "--allow-untagged-cloud".to_owned(),
        "--v=4".to_owned(),
        format!("--kubeconfig={}", kubeconfig.display()),
        "--bind-address=127.0.0.1".to_owned(),
        format!("--secure-port={secure_port}"),
    ];
    arguments.extend(settings.arguments);
    let command = providers::named(entry.name)?.command;
    let invocation = Invocation {
        program: command.to_owned(),
        provider: Some(entry.name.to_owned()),
        arguments,
    };
    let (asked, configuration) = invocation
        .read()
        .map_err(|lines| anyhow::anyhow!(lines.join("\n")))?;
    let Request::Run(line) = asked.map_err(|error| anyhow::anyhow!(error.message))? else {
        bail!("the sandbox's own command line does not run a manager");
    };
    let variables = settings.environment;
    let environment: Environment = Arc::new(move |name| variables.get(name).cloned());
    let quiet = Arc::new(|_| Ok(()));
    let job = Job {
        invocation,
        line: *line,
        configuration,
    };
    let manager = tokio::spawn(run::manage(job, environment, quiet, stop));
    let ended = async move { manager.await.context("the manager's task").flatten() };
    Ok(ended.map(|ended| ended.map_err(Arc::new)).boxed().shared())
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
