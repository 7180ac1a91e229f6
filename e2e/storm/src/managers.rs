//! The managers of a storm, and what they are configured with: a file, as the program has it.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use bowline::Outside;
use bowline_controllers::clients::Limits;
use bowline_controllers::metrics::Metrics;
use bowline_http::{Background, Connector};
use bowline_scenarios::Replica;
use tokio::time::Instant;

use crate::act::Broken;
use crate::clouds::Configured;
use crate::invariants::MANAGER;
use crate::storm::Storm;

/// The label that node selectors match.
pub(crate) const SITE: &str = "site";
/// The command line of managers, but for configuration, controllers and lease.
const FLAGS: [&str; 3] = [
    "--secure-port=0",
    "--leader-elect=true",
    "--allow-untagged-cloud",
];
/// Requests to the API server are not limited, as is the default.
const LIMITS: Limits = Limits {
    qps: -1.0,
    burst: 0,
};
/// What died is started again after so long.
const RESTART: Duration = Duration::from_secs(5);
/// The controllers of managers that give no pod ranges.
const CONTROLLERS: [&str; 1] = ["--controllers=*,node-csr-approval"];
/// What gives nodes their pod ranges.
const RANGES: [&str; 3] = [
    "--controllers=*,node-csr-approval,node-ipam-controller",
    "--allocate-node-cidrs",
    "--cluster-cidr=10.244.0.0/16",
];

/// A manager that runs.
struct Running {
    replica: Replica,
    metrics: Arc<Metrics>,
    /// What follows its configuration.
    _following: Background,
}

/// One of the managers that compete for the lease.
pub(crate) struct Slot {
    /// Its name, and that of its door to the API server.
    pub(crate) name: String,
    config: kube::Config,
    running: Option<Running>,
    /// When it is started again.
    restart: Option<Instant>,
}

impl Storm {
    /// One more manager, which is not started yet.
    pub(crate) fn add_manager(&mut self) {
        let name = format!("{MANAGER}{}", self.slots.len());
        let config = self.cluster.cluster.user_apart(&name, &name);
        self.slots.push(Slot {
            name,
            config,
            running: None,
            restart: Some(Instant::now()),
        });
    }

    /// Starts a manager as a new process; one that cannot is started again, as a Deployment does.
    async fn start(&mut self, number: usize) {
        let slot = &mut self.slots[number];
        slot.restart = Some(Instant::now() + RESTART);
        let (world, metrics) = (&self.cluster.world, Metrics::new());
        let outside = Outside {
            environment: Arc::new(|_| None),
            clients: self.cluster.clients(&slot.config, LIMITS, false, &metrics),
            connector: Connector::simulated(world.pipes.clone()),
            clock: world.clock.clone(),
            random: world.random.fork(),
            metrics: metrics.clone(),
        };
        let controllers = if self.has_ranges {
            RANGES.as_slice()
        } else {
            CONTROLLERS.as_slice()
        };
        let flags = [FLAGS.as_slice(), &self.pace.lease, controllers].concat();
        let flags = flags.into_iter().map(str::to_owned);
        let file = format!("--config={}", self.configuration_file().display());
        let arguments: Vec<String> = flags.chain([file]).collect();
        let built = bowline::manager(&arguments, outside).await;
        let slot = &mut self.slots[number];
        let (manager, following) = match built {
            Ok(built) => built,
            Err(error) => {
                let folder = self.folder.path().display().to_string();
                let why = format!("{error:#}").replace(&folder, "");
                let _ = writeln!(self.transcript, "# {} cannot start: {why}", slot.name);
                return;
            }
        };
        slot.restart = None;
        slot.running = Some(Running {
            replica: self.cluster.run_as(&slot.name, manager),
            metrics,
            _following: Background::start(following),
        });
    }

    fn configuration_file(&self) -> PathBuf {
        self.folder.path().join("bowline.yaml")
    }

    /// What managers are configured with now.
    fn configuration(&self) -> String {
        let clouds = self.clouds.iter().zip(&self.configured);
        let entries = clouds.filter_map(|(cloud, configured)| {
            let selector = self.has_selectors.then(|| format!("{SITE}={}", cloud.name));
            cloud.entry(*configured, selector)
        });
        format!(
            "services: {{defaultCloud: none}}\nclouds:\n{}",
            entries.collect::<String>()
        )
    }

    /// Writes the configuration, and the files with credentials.
    pub(crate) fn write_configuration(&self) -> Result<()> {
        for cloud in &self.clouds {
            cloud.write_secrets(self.folder.path())?;
        }
        self.write(&self.configuration())
    }

    fn write(&self, configuration: &str) -> Result<()> {
        std::fs::write(self.configuration_file(), configuration).context("the configuration")
    }

    /// Configures that of a cloud. There is always one cloud.
    pub(crate) fn configure(&mut self, cloud: usize, now: Configured) -> Result<()> {
        let others = self.configured.iter().enumerate();
        let mut others = others.filter(|(at, _)| *at != cloud);
        let is_last = others.all(|(_, it)| *it == Configured::Not);
        if now == Configured::Not && is_last {
            return Ok(());
        }
        self.configured[cloud] = now;
        self.write_configuration()
    }

    /// Everything is configured as it is meant to be.
    pub(crate) fn configure_all(&mut self) -> Result<()> {
        self.configured.fill(Configured::Own);
        self.write_configuration()
    }

    /// Somebody makes a mistake in the configuration, or in what it says about that cloud.
    pub(crate) fn break_configuration(&self, cloud: usize, how: Broken) -> Result<()> {
        match how {
            Broken::Syntax => self.write(&format!("{}]", self.configuration())),
            Broken::UnknownKey => self.write(&format!("{}surprise: 1\n", self.configuration())),
            Broken::NoSecret => self.clouds[cloud].break_secrets(self.folder.path(), None),
            Broken::OtherSecret => {
                self.clouds[cloud].break_secrets(self.folder.path(), Some("no secret\n"))
            }
        }
    }

    /// Starts managers whose time has come, and those that gave up.
    pub(crate) async fn restart(&mut self) {
        for number in 0..self.slots.len() {
            let slot = &mut self.slots[number];
            let gave_up = |it: &mut Running| !it.replica.is_running();
            if slot.running.take_if(gave_up).is_some() {
                slot.restart = Some(Instant::now() + RESTART);
            }
            if slot.restart.is_some_and(|at| at <= Instant::now()) {
                self.start(number).await;
            }
        }
    }

    /// Takes a manager that runs; it is started again after so many seconds.
    pub(crate) fn end(&mut self, number: u8, seconds: u8) -> Option<Replica> {
        let slot = self.slots.get_mut(usize::from(number))?;
        let running = slot.running.take_if(|it| it.replica.is_running())?;
        let pause = Duration::from_secs(u64::from(seconds) + 1);
        slot.restart = Some(Instant::now() + pause);
        Some(running.replica)
    }

    /// The processes of all replicas die, and are started again after a second.
    pub(crate) async fn kill_all(&mut self) {
        for number in 0..self.slots.len() {
            self.kill(u8::try_from(number).unwrap_or(0), 1).await;
        }
    }

    pub(crate) async fn kill(&mut self, number: u8, seconds: u8) {
        if let Some(replica) = self.end(number, seconds) {
            replica.kill().await;
        }
    }

    /// The metrics of all managers.
    pub(crate) fn metrics(&self) -> String {
        let running = self.slots.iter().filter_map(|it| it.running.as_ref());
        running.map(|it| it.metrics.text()).collect()
    }
}
