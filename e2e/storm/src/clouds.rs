//! The clouds of a storm: each a simulator and the provider for it, as the program has them.

use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use bowline_core::{BoxFuture, Cloud as Provider, CloudName};
use bowline_http::Connector;
use bowline_provider::{
    CloudRegistry, FollowedSecret, ProviderContext, ProviderInput, ProviderKind, SecretReader,
    SecretRequest, first_document,
};
use bowline_simulator::World;
use bowline_simulator::sandbox::{Account, Place, Running, Section, SimulatedCloud, SimulatorKind};
use serde_json::Value;

use crate::act::Claim;
use crate::invariants::FOREIGN;

/// A kind of cloud.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    Cloudscale,
    Exoscale,
    Static,
    Talos,
    Triton,
    Xenorchestra,
}

/// All of them.
pub const KINDS: [Kind; 6] = [
    Kind::Cloudscale,
    Kind::Exoscale,
    Kind::Static,
    Kind::Talos,
    Kind::Triton,
    Kind::Xenorchestra,
];

/// By which a Service asks for a load balancer that exists.
const TAKE_OVER: &str = "bowline.dev/take-over";

/// An annotation of Services, and values for it, right and wrong.
type Annotation = (&'static str, &'static [&'static str]);

impl Kind {
    /// The name of its provider.
    pub fn name(self) -> &'static str {
        self.provider().name
    }

    /// The kind of that name.
    pub fn named(name: &str) -> Result<Self> {
        match KINDS.into_iter().find(|it| it.name() == name) {
            Some(kind) => Ok(kind),
            None => bail!(
                "--clouds: {name:?} is no cloud; allowed are {}",
                KINDS.map(Self::name).join(", ")
            ),
        }
    }

    pub(crate) fn simulator(self) -> &'static SimulatorKind {
        match self {
            Self::Cloudscale => &bowline_simulator_cloudscale::KIND,
            Self::Exoscale => &bowline_simulator_exoscale::KIND,
            Self::Static => &bowline_simulator_static::KIND,
            Self::Talos => &bowline_simulator_talos::KIND,
            Self::Triton => &bowline_simulator_triton::KIND,
            Self::Xenorchestra => &bowline_simulator_xenorchestra::KIND,
        }
    }

    fn provider(self) -> &'static ProviderKind {
        match self {
            Self::Cloudscale => &bowline_cloudscale::KIND,
            Self::Exoscale => &bowline_exoscale::KIND,
            Self::Static => &bowline_static::KIND,
            Self::Talos => &bowline_talos::KIND,
            Self::Triton => &bowline_triton::KIND,
            Self::Xenorchestra => &bowline_xenorchestra::KIND,
        }
    }

    /// Whether several accounts of it can be in one cluster.
    pub(crate) fn has_accounts(self) -> bool {
        // Machines of Talos are called at their own addresses.
        self != Self::Talos
    }

    /// Whether its load balancers are looked at. Triton's are DNS names of machines, which have no owner of their own.
    pub(crate) fn has_balancers(self) -> bool {
        !self.annotations().is_empty()
    }

    /// Whether it says which names and addresses a kubelet may have in its certificate.
    pub(crate) fn certifies(self) -> bool {
        matches!(self, Self::Exoscale | Self::Talos)
    }

    /// The annotation by which a Service names a load balancer in that way.
    pub(crate) fn claim(self, claim: Claim) -> Option<&'static str> {
        match (self, claim) {
            (Self::Cloudscale | Self::Exoscale, Claim::TakeOver) => Some(TAKE_OVER),
            (Self::Cloudscale, Claim::Id) => Some("k8s.cloudscale.ch/loadbalancer-uuid"),
            (Self::Cloudscale, Claim::Name) => Some("k8s.cloudscale.ch/loadbalancer-name"),
            (Self::Exoscale, Claim::Name) => {
                Some("service.beta.kubernetes.io/exoscale-loadbalancer-name")
            }
            // Whoever names one of Exoscale's by id is attached to it, which is allowed.
            _ => None,
        }
    }

    /// Annotations of its Services.
    pub(crate) fn annotations(self) -> &'static [Annotation] {
        match self {
            Self::Cloudscale => &[
                (
                    "k8s.cloudscale.ch/loadbalancer-pool-algorithm",
                    &["round_robin", "source_ip", "robin_round"],
                ),
                (
                    "k8s.cloudscale.ch/loadbalancer-listener-allowed-cidrs",
                    &[r#"["198.51.100.0/24"]"#, "[]", "wrong"],
                ),
                (
                    "k8s.cloudscale.ch/loadbalancer-health-monitor-delay-s",
                    &["2", "10", "-1"],
                ),
            ],
            Self::Exoscale => &[
                (
                    "service.beta.kubernetes.io/exoscale-loadbalancer-service-strategy",
                    &["round-robin", "source-hash", "by-chance"],
                ),
                (
                    "service.beta.kubernetes.io/exoscale-loadbalancer-service-healthcheck-interval",
                    &["10s", "30s", "never"],
                ),
                (
                    "service.beta.kubernetes.io/exoscale-loadbalancer-description",
                    &["a", "b", ""],
                ),
            ],
            Self::Static | Self::Talos | Self::Triton | Self::Xenorchestra => &[],
        }
    }
}

/// One cloud: its account, and perhaps another one whose credentials may be confused with its own.
pub(crate) struct Cloud {
    pub(crate) kind: Kind,
    pub(crate) name: CloudName,
    own: Served,
    other: Option<Served>,
}

/// An account, its API, and what its provider is given.
struct Served {
    running: Running,
    input: ProviderInput,
    /// What nobody may tell: lines of the files of its provider.
    secrets: Vec<String>,
}

/// As what a cloud is configured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Identity {
    Own,
    /// With the credentials of the other account.
    Swapped,
    Renamed,
}

/// Shorter lines may be anywhere.
const SHORTEST_SECRET: usize = 16;

/// Numbers of other accounts begin here.
const OTHERS: usize = 10;

impl Served {
    /// Starts it on a pipe of the world. Files of its provider go into that folder.
    async fn start(
        world: &World,
        kind: Kind,
        number: usize,
        name: String,
        folder: &Path,
    ) -> Result<Self> {
        let account = Account {
            name: name.clone(),
            number,
            place: Place::Pipe,
        };
        let running = (kind.simulator().start)(world, account).await?;
        let section = running.cloud.section(&name, folder);
        running.cloud.add_balancer(FOREIGN)?;
        let mut input = input(kind.provider(), &section, folder)?;
        if kind == Kind::Exoscale {
            let (name, what) = ("EXOSCALE_SKS_AGENT_RUNNERS", "node-csr-validation");
            input.environment.set(name, Some(what.to_owned()));
        }
        Ok(Self {
            running,
            input,
            secrets: match kind {
                Kind::Static => Vec::new(),
                _ => secrets(&section),
            },
        })
    }
}

impl Cloud {
    /// Starts a cloud of that name, the so-many-eth of a storm.
    pub(crate) async fn start(
        world: &World,
        kind: Kind,
        number: usize,
        name: &str,
        folder: &Path,
    ) -> Result<Self> {
        let own = Served::start(world, kind, number, name.to_owned(), folder).await?;
        let mut other = None;
        if kind.has_accounts() {
            let name = format!("{name}-other");
            let served = Served::start(world, kind, OTHERS + number, name, folder).await?;
            served.running.cloud.boot("somebody-else")?;
            other = Some(served);
        }
        Ok(Self {
            kind,
            name: CloudName::parse(name)?,
            own,
            other,
        })
    }

    /// What people do to it, and see of it.
    pub(crate) fn simulated(&self) -> &dyn SimulatedCloud {
        &*self.own.running.cloud
    }

    /// The other account, if there is one.
    pub(crate) fn other(&self) -> Option<&dyn SimulatedCloud> {
        Some(&*self.other.as_ref()?.running.cloud)
    }

    /// Its name in the journal and in fault rules.
    pub(crate) fn server(&self) -> &str {
        &self.own.running.recorded_as
    }

    /// What nobody may tell.
    pub(crate) fn secrets(&self) -> impl Iterator<Item = &String> {
        [Some(&self.own), self.other.as_ref()]
            .into_iter()
            .flatten()
            .flat_map(|it| &it.secrets)
    }

    /// Its name in a configuration.
    pub(crate) fn called(&self, identity: Identity) -> CloudName {
        match identity {
            Identity::Own | Identity::Swapped => self.name.clone(),
            Identity::Renamed => {
                let name = CloudName::parse(&format!("{}-renamed", self.name));
                name.unwrap_or_else(|_| self.name.clone())
            }
        }
    }

    /// The provider of one manager, which keeps its metrics there.
    pub(crate) async fn build(
        &self,
        world: &World,
        identity: Identity,
        metrics: &CloudRegistry,
    ) -> Result<Arc<dyn Provider>> {
        let served = match identity {
            Identity::Own | Identity::Renamed => &self.own,
            Identity::Swapped => self.other.as_ref().unwrap_or(&self.own),
        };
        let context = ProviderContext {
            name: self.called(identity),
            input: served.input.clone(),
            connector: Connector::simulated(world.pipes.clone()),
            clock: world.clock.clone(),
            random: world.random.fork(),
            metrics: metrics.clone(),
            secrets: Arc::new(NoSecrets),
            cluster_name: "storm".to_owned(),
            needs_machines: true,
            waits_for_secrets: false,
        };
        Ok((self.kind.provider().build)(&context).await?)
    }
}

/// What a provider is given by its section of a configuration.
fn input(provider: &ProviderKind, section: &Section, folder: &Path) -> Result<ProviderInput> {
    for (file, content) in &section.files {
        let path = folder.join(file);
        std::fs::write(&path, content).with_context(|| format!("writing {}", path.display()))?;
    }
    let mut settings: Value = first_document(&section.settings)?.unwrap_or_default();
    for setting in settings
        .as_object_mut()
        .into_iter()
        .flat_map(|it| it.values_mut())
    {
        resolve(setting)?;
    }
    Ok((provider.input)(&settings))
}

fn secrets(section: &Section) -> Vec<String> {
    let lines = section
        .files
        .iter()
        .flat_map(|(_, content)| content.lines());
    let lines = lines
        .map(str::trim)
        .filter(|it| it.len() >= SHORTEST_SECRET);
    lines.map(str::to_owned).collect()
}

/// Puts secrets where settings name their files.
fn resolve(setting: &mut Value) -> Result<()> {
    let Some(fields) = setting.as_object_mut() else {
        return Ok(());
    };
    if let (1, Some(path)) = (fields.len(), fields.get("file").and_then(Value::as_str)) {
        *setting = std::fs::read_to_string(path)?.trim_end().into();
        return Ok(());
    }
    fields.values_mut().try_for_each(resolve)
}

/// The Secrets of a cluster: no provider here asks for one.
struct NoSecrets;

impl SecretReader for NoSecrets {
    fn follow<'a>(
        &'a self,
        request: SecretRequest<'a>,
    ) -> BoxFuture<'a, Result<FollowedSecret, Box<dyn std::error::Error + Send + Sync>>> {
        Box::pin(async move { Err(format!("there is no Secret {}", request.name).into()) })
    }
}
