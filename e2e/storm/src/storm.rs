//! The whole of a storm: the simulated API server, simulated clouds, and managers between them. Time passes here, and
//! the invariants are looked at.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use anyhow::Result;
use bowline_core::EXCLUSION_LABEL;
use bowline_scenarios::certificates::conditions;
use bowline_scenarios::log::Log;
use bowline_scenarios::objects::text;
use bowline_scenarios::{Setup, TestCluster};
use bowline_simulator::sandbox::SimulatedCloud;
use bowline_simulator_kubernetes::fleet::{self, Fleet};
use bowline_simulator_kubernetes::monitor::{self, Monitor};
use serde_json::Value;
use tempfile::TempDir;
use tokio::time::Instant;

use crate::act::Machine;
use crate::clouds::{Cloud, Configured, Ground, Kind};
use crate::invariants::{Asked, Invariants, Routes, Seen};
use crate::managers::Slot;
use crate::play::Saved;
use crate::story::Story;

/// How often everybody does what they do by themselves, in simulated time.
#[derive(Clone, Copy)]
pub(crate) struct Pace {
    /// Between two looks at the invariants.
    pub(crate) look: Duration,
    pub(crate) kubelets: fleet::Settings,
    pub(crate) monitor: monitor::Settings,
    /// The flags of managers about their lease.
    pub(crate) lease: [&'static str; 3],
}

impl Default for Pace {
    /// Kubelets and managers renew their leases less often than usual: that would be most of all calls.
    fn default() -> Self {
        Self {
            look: Duration::from_secs(5),
            kubelets: fleet::Settings {
                renew_interval: Duration::from_secs(20),
                ..fleet::Settings::default()
            },
            monitor: monitor::Settings::default(),
            lease: [
                "--leader-elect-lease-duration=30s",
                "--leader-elect-renew-deadline=20s",
                "--leader-elect-retry-period=5s",
            ],
        }
    }
}

/// The namespace of all Services here.
const NAMESPACE: &str = "shop";
/// Where users and kubelets call the API server.
pub(crate) const USERS: &str = "users";

/// Machines that are made again are new ones.
pub(crate) type Incarnation = u8;

pub(crate) struct Storm {
    pub(crate) cluster: TestCluster,
    pub(crate) clouds: Vec<Cloud>,
    /// What is configured of each.
    pub(crate) configured: Vec<Configured>,
    pub(crate) has_selectors: bool,
    pub(crate) has_ranges: bool,
    pub(crate) is_watched_at_rest: bool,
    pub(crate) slots: Vec<Slot>,
    pub(crate) pace: Pace,
    pub(crate) fleet: Fleet,
    pub(crate) monitor: Monitor,
    /// Rules that kill a replica when they strike.
    pub(crate) deadly: BTreeMap<String, u8>,
    pub(crate) machines: BTreeMap<Machine, Incarnation>,
    /// Clouds with a crowd of machines of others.
    pub(crate) crowded: BTreeSet<u8>,
    /// The clouds of Services.
    pub(crate) classes: BTreeMap<u8, usize>,
    pub(crate) saved: Option<Saved>,
    /// What Nodes whose kubelets report the addresses of others had reported before.
    pub(crate) misreported: BTreeMap<String, Value>,
    pub(crate) invariants: Invariants,
    pub(crate) transcript: String,
    log: Log,
    /// The configuration, and files that it names.
    pub(crate) folder: TempDir,
}

impl Storm {
    /// The clouds and managers of a story.
    pub(crate) async fn set_up(story: &Story, pace: Pace, log: Log) -> Result<Self> {
        let mut cluster = TestCluster::set_up(Setup {
            seed: story.seed,
            clouds: &[],
            ..Setup::default()
        })
        .await;
        cluster.cluster.let_users_call_apart(USERS);
        let folder = tempfile::tempdir()?;
        let mut clouds: Vec<Cloud> = Vec::new();
        for (number, kind) in story.clouds.iter().enumerate() {
            let alike = clouds.iter().filter(|it| it.kind == *kind).count();
            let name = match alike {
                0 => kind.name().to_owned(),
                _ => format!("{}-{}", kind.name(), alike + 1),
            };
            let ground = Ground {
                folder: folder.path(),
                has_ranges: story.has_ranges,
            };
            clouds.push(Cloud::start(&cluster.world, *kind, number, &name, ground).await?);
        }
        let fleet = cluster.cluster.fleet(pace.kubelets);
        let monitor = cluster.cluster.monitor(pace.monitor);
        let secrets = clouds.iter().flat_map(Cloud::secrets).map(str::to_owned);
        let by_dns = clouds.iter().filter(|it| it.kind == Kind::Triton);
        let by_dns = by_dns.map(|it| it.name.to_string());
        let mut storm = Self {
            invariants: Invariants::new(secrets.collect(), by_dns.collect()),
            cluster,
            configured: vec![Configured::Own; clouds.len()],
            clouds,
            has_selectors: story.has_selectors,
            has_ranges: story.has_ranges,
            is_watched_at_rest: story.is_watched_at_rest,
            slots: Vec::new(),
            pace,
            fleet,
            monitor,
            deadly: BTreeMap::new(),
            machines: BTreeMap::new(),
            crowded: BTreeSet::new(),
            classes: BTreeMap::new(),
            saved: None,
            misreported: BTreeMap::new(),
            transcript: String::new(),
            log,
            folder,
        };
        storm.write_configuration()?;
        for _ in 0..story.replicas {
            storm.add_manager();
        }
        Ok(storm)
    }

    /// Lets time pass, and looks at the invariants meanwhile.
    pub(crate) async fn pass(&mut self, time: Duration) {
        let end = Instant::now() + time;
        loop {
            self.restart().await;
            let next = end.min(Instant::now() + self.pace.look);
            let struck = tokio::select! {
                biased;
                struck = self.struck() => Some(struck),
                () = tokio::time::sleep_until(next) => None,
            };
            if let Some((rule, number)) = struck {
                self.deadly.remove(&rule);
                self.kill(number, 10).await;
            }
            self.look();
            if Instant::now() >= end {
                return;
            }
        }
    }

    /// The next rule that kills a replica, and which.
    async fn struck(&self) -> (String, u8) {
        let faults = &self.cluster.world.faults;
        let all = self.deadly.iter().map(|(rule, number)| {
            Box::pin(async move {
                faults.struck(rule, 1).await;
                (rule.clone(), *number)
            })
        });
        let all: Vec<_> = all.collect();
        if all.is_empty() {
            return std::future::pending().await;
        }
        futures::future::select_all(all).await.0
    }

    fn look(&mut self) {
        let entries = self.cluster.world.journal.take();
        let folder = self.folder.path().display().to_string();
        for entry in &entries {
            // Messages may name files.
            self.transcript.push_str(&entry.line().replace(&folder, ""));
            self.transcript.push('\n');
        }
        let (services, seen, routes) = (self.services(), self.seen(), self.routes());
        let Some(simulated) = self.cluster.cluster.simulated() else {
            return;
        };
        let (world, store) = (&self.cluster.world, simulated.api().store());
        self.invariants
            .look(world, store, &services, (&seen, routes), &entries);
        let is_wrong = |(name, asked): &(&String, &Asked)| !asked.is_own && self.is_approved(name);
        let wrong = self.invariants.asked.iter().filter(is_wrong);
        let wrong: Vec<String> = wrong
            .map(|(name, asked)| format!("request {name} of {} was approved", asked.by))
            .collect();
        self.invariants.find(wrong);
        if self.invariants.tells_secret(&self.log.take()) {
            self.invariants.find(["a secret was logged".to_owned()]);
        }
    }

    /// Whether that request for a certificate was approved.
    pub(crate) fn is_approved(&self, request: &str) -> bool {
        let request = self.cluster.cluster.find_request(request);
        request.is_some_and(|it| conditions(&it).iter().any(|it| it.starts_with("Approved ")))
    }

    /// The Services of tenants.
    pub(crate) fn services(&self) -> Vec<Value> {
        let all = self.cluster.cluster.services().into_iter();
        all.filter(|it| it["metadata"]["namespace"] == NAMESPACE)
            .collect()
    }

    /// The load balancers of the clouds that have some, and of their other accounts.
    pub(crate) fn seen(&self) -> Seen {
        let mut seen = Seen::new();
        for cloud in self.clouds.iter().filter(|it| it.kind.has_balancers()) {
            let balancers = |of: &dyn SimulatedCloud| {
                let mut all = of.balancers();
                // DNS names of Triton come and go with the load balancer machines.
                all.retain(|_, it| cloud.kind != Kind::Triton || !it.owner.is_empty());
                all
            };
            seen.insert(cloud.name.to_string(), balancers(cloud.simulated()));
            if let Some(other) = cloud.other() {
                seen.insert(format!("{}-other", cloud.name), balancers(other));
            }
        }
        seen
    }

    /// The routes of the clouds that have some, and of their other accounts.
    pub(crate) fn routes(&self) -> Routes {
        let mut routes = Routes::new();
        for cloud in &self.clouds {
            let other = cloud.other().and_then(SimulatedCloud::routes);
            routes.extend(
                cloud
                    .simulated()
                    .routes()
                    .map(|it| (cloud.name.to_string(), it)),
            );
            routes.extend(other.map(|it| (format!("{}-other", cloud.name), it)));
        }
        routes
    }

    /// The cloud of that Node.
    fn cloud_of(&self, node: &str) -> Option<&Cloud> {
        let name = node.split('.').next()?;
        self.clouds.iter().find(|it| it.name.as_str() == name)
    }

    /// Whether the cloud of that Node knows machines that are off.
    pub(crate) fn knows_power(&self, node: &str) -> bool {
        let cloud = self.cloud_of(node);
        cloud.is_some_and(|it| it.kind.simulator().knows_power)
    }

    /// Whether it can be known that the machine of that Node is gone: it has a provider ID, its cloud says so, and no other
    /// account could have it.
    pub(crate) fn can_miss(&self, node: &Value) -> bool {
        let Some(own) = self.cloud_of(text(&node["metadata"]["name"])) else {
            return false;
        };
        if text(&node["spec"]["providerID"]).is_empty() {
            return false;
        }
        let alike = self.clouds.iter().filter(|it| it.kind == own.kind).count();
        own.kind.simulator().knows_power && (alike == 1 || self.has_selectors)
    }

    /// The Nodes of a cloud that are to be targets: those that are known to be its.
    pub(crate) fn targets(&self, cloud: &str) -> BTreeSet<String> {
        let names = self.invariants.machines.keys();
        let names = names.filter(|it| it.starts_with(&format!("{cloud}.")));
        let is_target = |name: &&String| {
            let node = self.cluster.find(name);
            node.is_some_and(|it| {
                let is_excluded = !it["metadata"]["labels"][EXCLUSION_LABEL].is_null();
                !is_excluded && !text(&it["spec"]["providerID"]).is_empty()
            })
        };
        names.filter(is_target).cloned().collect()
    }
}
