//! The managers of a storm, and what they are configured with.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use bowline_controllers::manager::CloudRules;
use bowline_controllers::metrics::Metrics;
use bowline_controllers::{ActiveConfig, ActiveConfigChanger};
use bowline_core::{Cloud as Provider, CloudName, Selector};
use bowline_provider::CloudRegistry;
use bowline_scenarios::Replica;
use tokio::time::Instant;

use crate::clouds::Identity;
use crate::invariants::MANAGER;
use crate::storm::Storm;

/// The label that node selectors match.
pub(crate) const SITE: &str = "site";
/// The command line of managers, but for controllers and lease.
const FLAGS: [&str; 2] = ["--leader-elect=true", "--allow-untagged-cloud"];
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
    changer: ActiveConfigChanger,
    /// The clouds as they are meant to be, whatever is configured now.
    own: Vec<Arc<dyn Provider>>,
    metrics: Arc<Metrics>,
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

/// What is configured about a cloud.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Configured {
    #[default]
    Own,
    /// With the credentials of another account.
    Swapped,
    Renamed,
    Not,
}

impl Configured {
    fn identity(self) -> Option<Identity> {
        match self {
            Self::Own => Some(Identity::Own),
            Self::Swapped => Some(Identity::Swapped),
            Self::Renamed => Some(Identity::Renamed),
            Self::Not => None,
        }
    }
}

/// Clouds in configured order, and what is configured about them.
type Configuration = (Vec<Arc<dyn Provider>>, CloudRules);

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
        self.slots[number].restart = Some(Instant::now() + RESTART);
        let (metrics, mut own) = (Metrics::new(), Vec::new());
        let mut registries = Vec::new();
        for at in 0..self.clouds.len() {
            let registry = CloudRegistry::new(Some(self.clouds[at].name.as_str()));
            let Ok(built) = self.build(at, Identity::Own, &registry).await else {
                return;
            };
            own.push(built);
            registries.push(registry);
        }
        metrics.show_clouds(registries);
        let Ok(configuration) = self.configuration(&own).await else {
            return;
        };
        let mut flags = [FLAGS.as_slice(), &self.pace.lease].concat();
        flags.extend(if self.has_ranges {
            RANGES.as_slice()
        } else {
            CONTROLLERS.as_slice()
        });
        let slot = &mut self.slots[number];
        let (replica, changer) = self.cluster.replica_of(
            metrics.clone(),
            &slot.name,
            &slot.config,
            &flags,
            configuration,
        );
        slot.restart = None;
        slot.running = Some(Running {
            replica,
            changer,
            own,
            metrics,
        });
    }

    async fn build(
        &self,
        at: usize,
        identity: Identity,
        metrics: &CloudRegistry,
    ) -> Result<Arc<dyn Provider>> {
        let world = &self.cluster.world;
        self.clouds[at].build(world, identity, metrics).await
    }

    /// The clouds that are configured now, of which these are as they are meant to be.
    async fn configuration(&self, own: &[Arc<dyn Provider>]) -> Result<Configuration> {
        let (mut clouds, mut selectors) = (Vec::new(), BTreeMap::new());
        for (at, own) in own.iter().enumerate() {
            let Some(identity) = self.configured[at].identity() else {
                continue;
            };
            let cloud = match identity {
                Identity::Own => own.clone(),
                other => self.build(at, other, &CloudRegistry::new(None)).await?,
            };
            if self.has_selectors {
                let selector = Selector::parse(&format!("{SITE}={}", self.clouds[at].name))?;
                selectors.insert(cloud.name().clone(), selector);
            }
            clouds.push(cloud);
        }
        let rules = CloudRules {
            selectors,
            ..CloudRules::default()
        };
        Ok((clouds, rules))
    }

    /// Configures that of a cloud, and lets managers read their configuration again. There is always one cloud.
    pub(crate) async fn configure(&mut self, cloud: usize, now: Configured) {
        let others = self.configured.iter().enumerate();
        let mut others = others.filter(|(at, _)| *at != cloud);
        let is_last = others.all(|(_, it)| *it == Configured::Not);
        if now == Configured::Not && is_last {
            return;
        }
        let before = std::mem::replace(&mut self.configured[cloud], now);
        self.reload(cloud, before).await;
    }

    /// Everything is configured as it is meant to be.
    pub(crate) async fn configure_all(&mut self) {
        for cloud in 0..self.clouds.len() {
            self.configure(cloud, Configured::Own).await;
        }
    }

    async fn reload(&mut self, cloud: usize, before: Configured) {
        let mut renamed = BTreeMap::new();
        if let (Some(before), Some(now)) = (before.identity(), self.configured[cloud].identity()) {
            let cloud = &self.clouds[cloud];
            let (before, now) = (cloud.called(before), cloud.called(now));
            if before != now {
                renamed.insert(before, now);
            }
        }
        for slot in &self.slots {
            if let Some(running) = &slot.running {
                // One whose clouds cannot be built now goes on with what it has.
                if let Ok(configuration) = self.configuration(&running.own).await {
                    running.change(configuration, renamed.clone());
                }
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

impl Running {
    fn change(&self, (clouds, rules): Configuration, renamed: BTreeMap<CloudName, CloudName>) {
        let present = self.changer.present();
        self.changer.change(ActiveConfig {
            generation: present.generation + 1,
            clouds,
            rules,
            renamed,
            ..ActiveConfig::clone(&present)
        });
    }
}
