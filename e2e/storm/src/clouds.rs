//! The clouds of a storm: each a simulator, and what is said about it in a configuration.

use std::fmt::Write as _;
use std::path::Path;

use anyhow::{Context, Result, bail};
use bowline_core::CloudName;
use bowline_simulator::World;
use bowline_simulator::sandbox::{Account, Place, Running, Section, SimulatedCloud, SimulatorKind};

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
        self.simulator().server.name
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

    /// Whether several accounts of it can be in one cluster.
    pub(crate) fn has_accounts(self) -> bool {
        // Machines of Talos are called at their own addresses.
        self != Self::Talos
    }

    /// Settings beside those that tell where it is: lines that follow them.
    fn further_settings(self, has_ranges: bool) -> &'static str {
        match self {
            Self::Exoscale => "  sksAgentRunners: [node-csr-validation]\n",
            Self::Triton if has_ranges => concat!(
                "loadBalancer:\n  mode: clb\n  clbPackage: g4-highcpu-1G\n",
                "routes:\n  enabled: true\n"
            ),
            Self::Triton => "loadBalancer:\n  mode: clb\n  clbPackage: g4-highcpu-1G\n",
            _ => "",
        }
    }

    /// Whether it has load balancers.
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
            (Self::Cloudscale | Self::Exoscale, Claim::TakeOver | Claim::TakeOverNeighbours) => {
                Some(TAKE_OVER)
            }
            (Self::Cloudscale, Claim::Id | Claim::NeighboursId) => {
                Some("k8s.cloudscale.ch/loadbalancer-uuid")
            }
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
            Self::Triton => &[
                ("cloud.tritoncompute/max_rs", &["64", "128", "1"]),
                ("cloud.tritoncompute/protocol", &["tcp", "http", "smoke"]),
                (
                    "cloud.tritoncompute/timeouts",
                    &["connect:5000", "client:60000", "soon"],
                ),
            ],
            Self::Static | Self::Talos | Self::Xenorchestra => &[],
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

/// An account, its API, and what is said about it in a configuration.
struct Served {
    running: Running,
    section: Section,
}

/// What is configured about a cloud.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Configured {
    Own,
    /// With the credentials of another account.
    Swapped,
    Renamed,
    Not,
}

/// What clouds of a storm have in common.
#[derive(Clone, Copy)]
pub(crate) struct Ground<'a> {
    /// Where files of their settings go.
    pub(crate) folder: &'a Path,
    /// Whether nodes get pod ranges.
    pub(crate) has_ranges: bool,
}

/// Shorter lines may be anywhere.
const SHORTEST_SECRET: usize = 16;

/// Numbers of other accounts begin here.
const OTHERS: usize = 10;

impl Served {
    /// Starts it on a pipe of the world.
    async fn start(
        world: &World,
        kind: Kind,
        number: usize,
        name: String,
        ground: Ground<'_>,
    ) -> Result<Self> {
        let account = Account {
            name: name.clone(),
            number,
            place: Place::Pipe,
        };
        let running = (kind.simulator().start)(world, account).await?;
        running.cloud.add_balancer(FOREIGN)?;
        let mut section = running.cloud.section(&name, ground.folder);
        let further = kind.further_settings(ground.has_ranges);
        section.settings.push_str(further);
        for (file, content) in &section.files {
            write(&ground.folder.join(file), content)?;
        }
        Ok(Self { running, section })
    }
}

impl Cloud {
    /// Starts a cloud of that name, the so-many-eth of a storm.
    pub(crate) async fn start(
        world: &World,
        kind: Kind,
        number: usize,
        name: &str,
        ground: Ground<'_>,
    ) -> Result<Self> {
        let own = Served::start(world, kind, number, name.to_owned(), ground).await?;
        let mut other = None;
        if kind.has_accounts() {
            let name = format!("{name}-other");
            let served = Served::start(world, kind, OTHERS + number, name, ground).await?;
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

    /// Files with credentials: names and contents.
    fn secret_files(&self) -> impl Iterator<Item = &(String, String)> {
        let accounts = [Some(&self.own), self.other.as_ref()];
        let accounts = accounts.into_iter().flatten();
        // The file of a static cloud is its list of machines.
        let accounts = accounts.filter(|_| self.kind != Kind::Static);
        accounts.flat_map(|it| &it.section.files)
    }

    /// What nobody may tell: lines of files with credentials.
    pub(crate) fn secrets(&self) -> impl Iterator<Item = &str> {
        let lines = self.secret_files().flat_map(|(_, content)| content.lines());
        lines
            .map(str::trim)
            .filter(|it| it.len() >= SHORTEST_SECRET)
    }

    /// Writes files with credentials as they should be.
    pub(crate) fn write_secrets(&self, folder: &Path) -> Result<()> {
        let mut files = self.secret_files();
        files.try_for_each(|(file, content)| write(&folder.join(file), content))
    }

    /// Writes something else into files with credentials, or takes them away.
    pub(crate) fn break_secrets(&self, folder: &Path, content: Option<&str>) -> Result<()> {
        for (file, _) in self.secret_files() {
            let path = folder.join(file);
            match content {
                Some(content) => write(&path, content)?,
                None if path.exists() => std::fs::remove_file(&path)?,
                None => {}
            }
        }
        Ok(())
    }

    /// Its entry in a configuration, if it is there.
    pub(crate) fn entry(&self, configured: Configured, selector: Option<String>) -> Option<String> {
        let (suffix, served) = match configured {
            Configured::Own => ("", &self.own),
            Configured::Swapped => ("", self.other.as_ref().unwrap_or(&self.own)),
            Configured::Renamed => ("-renamed", &self.own),
            Configured::Not => return None,
        };
        let (name, provider) = (&self.name, self.kind.name());
        let mut entry = format!("- name: {name}{suffix}\n  provider: {provider}\n");
        if let Some(selector) = selector {
            let _ = writeln!(entry, "  nodeSelector: {selector}");
        }
        entry.push_str("  settings:\n");
        for line in served.section.settings.lines() {
            let _ = writeln!(entry, "    {line}");
        }
        Some(entry)
    }
}

fn write(path: &Path, content: &str) -> Result<()> {
    std::fs::write(path, content).with_context(|| format!("writing {}", path.display()))
}
