//! Tells a story: the whole manager, one or two of it, between the simulated API server and simulated clouds.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use anyhow::Result;
use bowline_controllers::manager::CloudRules;
use bowline_controllers::metrics::Metrics;
use bowline_controllers::{ActiveConfig, ActiveConfigChanger};
use bowline_core::{Cloud as Provider, EXCLUSION_LABEL, Selector};
use bowline_provider::CloudRegistry;
use bowline_scenarios::log::Log;
use bowline_scenarios::objects::{service, text};
use bowline_scenarios::{Replica, Setup, TestCluster};
use bowline_simulator::faults::{Action, Rule};
use bowline_simulator_kubernetes::fleet::{Fleet, Settings};
use bowline_simulator_kubernetes::monitor::{self, Monitor};
use serde_json::{Value, json};
use std::sync::Arc;
use tempfile::TempDir;
use tokio::time::Instant;

use crate::act::{Act, Machine, Server, rule};
use crate::clouds::Cloud;
use crate::invariants::{FOREIGN, Invariants, MANAGER, Seen, balancers_of, wants_balancer};
use crate::story::Story;

/// Simulated time between two looks at the invariants.
pub(crate) const LOOK: Duration = Duration::from_secs(5);
/// The namespace of all Services here.
const NAMESPACE: &str = "shop";
/// The label that tells whose a node is.
const SITE: &str = "site";
/// The command line of managers.
const FLAGS: [&str; 2] = ["--leader-elect=true", "--allow-untagged-cloud"];

/// Machines that are made again are new ones.
type Incarnation = u8;

/// A manager that runs.
struct Running {
    replica: Replica,
    changer: ActiveConfigChanger,
    /// All clouds, whether they are configured now or not.
    clouds: Vec<Arc<dyn Provider>>,
}

/// One of the managers that compete for the lease.
#[derive(Default)]
struct Slot {
    running: Option<Running>,
    /// When it is started again.
    restart: Option<Instant>,
}

pub(crate) struct Storm {
    pub(crate) cluster: TestCluster,
    pub(crate) clouds: Vec<Cloud>,
    fleet: Fleet,
    _monitor: Monitor,
    slots: Vec<Slot>,
    rules: CloudRules,
    /// The cloud that the configuration lacks now.
    lacking: Option<usize>,
    /// Rules that kill a replica when they strike.
    deadly: BTreeMap<String, usize>,
    machines: BTreeMap<Machine, Incarnation>,
    /// The clouds of Services.
    pub(crate) classes: BTreeMap<u8, usize>,
    pub(crate) invariants: Invariants,
    pub(crate) transcript: String,
    log: Log,
    _folder: TempDir,
}

impl Storm {
    /// The clouds and managers of a story.
    pub(crate) async fn set_up(story: &Story, log: Log) -> Result<Self> {
        let mut cluster = TestCluster::set_up(Setup {
            seed: story.seed,
            clouds: &[],
            ..Setup::default()
        })
        .await;
        cluster.cluster.let_users_call_apart();
        let folder = tempfile::tempdir()?;
        let mut clouds: Vec<Cloud> = Vec::new();
        for (number, kind) in story.clouds.iter().enumerate() {
            let same = clouds.iter().filter(|it| it.kind == *kind).count();
            let name = match same {
                0 => kind.name().to_owned(),
                _ => format!("{}-{}", kind.name(), same + 1),
            };
            let cloud = Cloud::start(&cluster.world, *kind, number, &name, folder.path()).await?;
            cloud.simulated().add_balancer(FOREIGN)?;
            clouds.push(cloud);
        }
        let fleet = cluster.cluster.fleet(Settings {
            // Half as often as usual, so that most of the calls are the managers'.
            renew_interval: Duration::from_secs(20),
            ..Settings::default()
        });
        let mut selectors = BTreeMap::new();
        if story.has_selectors {
            for cloud in &clouds {
                let selector = Selector::parse(&format!("{SITE}={}", cloud.name))?;
                selectors.insert(cloud.name.clone(), selector);
            }
        }
        let monitor = cluster.cluster.monitor(monitor::Settings::default());
        let mut storm = Self {
            invariants: Invariants::new(clouds.iter().flat_map(|it| it.secrets.clone()).collect()),
            cluster,
            clouds,
            fleet,
            _monitor: monitor,
            slots: Vec::new(),
            rules: CloudRules {
                selectors,
                ..CloudRules::default()
            },
            lacking: None,
            deadly: BTreeMap::new(),
            machines: BTreeMap::new(),
            classes: BTreeMap::new(),
            transcript: String::new(),
            log,
            _folder: folder,
        };
        for number in 0..story.replicas {
            storm.slots.push(Slot::default());
            storm.start(number.into()).await;
        }
        Ok(storm)
    }

    // Managers.

    /// Starts a manager as a new process; one that cannot is started again, as a Deployment does.
    async fn start(&mut self, number: usize) {
        self.slots[number].restart = Some(Instant::now() + LOOK);
        let (metrics, mut registries, mut clouds) = (Metrics::new(), Vec::new(), Vec::new());
        for cloud in &self.clouds {
            let registry = CloudRegistry::new(Some(cloud.name.as_str()));
            let Ok(built) = cloud.build(&self.cluster.world, &registry).await else {
                return;
            };
            clouds.push(built);
            registries.push(registry);
        }
        metrics.show_clouds(registries);
        let name = format!("{MANAGER}{number}");
        let config = self.cluster.cluster.manager(&name).await;
        let configured = self.configured(&clouds);
        let (replica, changer) = self.cluster.replica_of(
            metrics,
            &name,
            &config,
            &FLAGS,
            (configured, self.rules.clone()),
        );
        self.slots[number] = Slot {
            running: Some(Running {
                replica,
                changer,
                clouds,
            }),
            restart: None,
        };
    }

    /// The clouds that are configured now.
    fn configured(&self, all: &[Arc<dyn Provider>]) -> Vec<Arc<dyn Provider>> {
        let all = all.iter().enumerate();
        all.filter(|(at, _)| Some(*at) != self.lacking)
            .map(|(_, it)| it.clone())
            .collect()
    }

    /// Lets managers read their configuration again.
    fn reload(&mut self, lacking: Option<usize>) {
        if self.clouds.len() > 1 || lacking.is_none() {
            self.lacking = lacking;
        }
        for running in self.slots.iter().filter_map(|it| it.running.as_ref()) {
            let present = running.changer.present();
            running.changer.change(ActiveConfig {
                generation: present.generation + 1,
                clouds: self.configured(&running.clouds),
                ..ActiveConfig::clone(&present)
            });
        }
    }

    /// Starts managers whose time has come, and those that gave up.
    async fn restart(&mut self) {
        for number in 0..self.slots.len() {
            let slot = &mut self.slots[number];
            if slot
                .running
                .take_if(|it| !it.replica.is_running())
                .is_some()
            {
                slot.restart = Some(Instant::now() + LOOK);
            }
            if slot.restart.is_some_and(|at| at <= Instant::now()) {
                self.start(number).await;
            }
        }
    }

    /// Takes a manager that runs; it is started again after so many seconds.
    fn end(&mut self, number: u8, seconds: u8) -> Option<Replica> {
        let slot = self.slots.get_mut(usize::from(number))?;
        let running = slot.running.take_if(|it| it.replica.is_running())?;
        let pause = Duration::from_secs(u64::from(seconds) + 1);
        slot.restart = Some(Instant::now() + pause);
        Some(running.replica)
    }

    async fn kill(&mut self, number: u8, seconds: u8) {
        if let Some(replica) = self.end(number, seconds) {
            replica.kill().await;
        }
    }

    /// The metrics of all managers.
    pub(crate) fn metrics(&self) -> String {
        let running = self.slots.iter().filter_map(|it| it.running.as_ref());
        running.map(|it| it.replica.metrics()).collect()
    }

    // Time.

    /// Lets time pass, and looks at the invariants meanwhile.
    pub(crate) async fn pass(&mut self, time: Duration) {
        let end = Instant::now() + time;
        loop {
            self.restart().await;
            let next = end.min(Instant::now() + LOOK);
            let killed = tokio::select! {
                biased;
                number = self.struck() => Some(number),
                () = tokio::time::sleep_until(next) => None,
            };
            if let Some((rule, number)) = killed {
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
                (rule.clone(), u8::try_from(*number).unwrap_or(0))
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
        for entry in &entries {
            self.transcript.push_str(&entry.line());
            self.transcript.push('\n');
        }
        let (services, seen) = (self.services(), self.seen());
        let Some(simulated) = self.cluster.cluster.simulated() else {
            return;
        };
        let (world, store) = (&self.cluster.world, simulated.api().store());
        self.invariants
            .look(world, store, &services, &seen, &entries);
        if self.invariants.tells_secret(&self.log.take()) {
            self.invariants.find(["a secret was logged".to_owned()]);
        }
    }

    /// The Services of tenants.
    pub(crate) fn services(&self) -> Vec<Value> {
        let all = self.cluster.cluster.services().into_iter();
        all.filter(|it| it["metadata"]["namespace"] == NAMESPACE)
            .collect()
    }

    /// The load balancers of the clouds that have some.
    pub(crate) fn seen(&self) -> Seen {
        let all = self.clouds.iter().filter(|it| it.kind.has_balancers());
        all.map(|it| (it.name.to_string(), it.simulated().balancers()))
            .collect()
    }

    // Acts.

    /// Lets that happen.
    pub(crate) async fn play(&mut self, act: &Act) -> Result<()> {
        match *act {
            Act::Boot(machine) => self.boot(machine)?,
            Act::PowerOff(machine) => {
                if let Some((cloud, name)) = self.existing(machine) {
                    cloud.simulated().stop(&name)?;
                }
            }
            Act::PowerOn(machine) => {
                if let Some((cloud, name)) = self.existing(machine) {
                    cloud.simulated().start(&name)?;
                }
            }
            Act::Destroy(machine) => {
                if let Some((cloud, name)) = self.existing(machine) {
                    cloud.simulated().destroy(&name)?;
                }
            }
            Act::Exclude(machine, is_excluded) => self.exclude(machine, is_excluded).await,
            Act::CreateService(number, cloud, ports) => {
                self.create(number, cloud.into(), ports).await;
            }
            Act::WantBalancer(number, wants) => self.want(number, wants).await,
            Act::Ports(number, count) => {
                if self.living(number).is_some_and(|it| wants_balancer(&it)) {
                    let change = |it: &mut Value| it["spec"]["ports"] = ports(count);
                    let name = service_name(number);
                    self.cluster.change_service(&name, change).await;
                }
            }
            Act::Annotate(number, key, value) => self.annotate(number, key, value).await,
            Act::DeleteService(number) => {
                if self.living(number).is_some() {
                    self.cluster.delete_service(&service_name(number)).await;
                }
            }
            Act::RemoveBalancer(number) => self.remove_balancer(number)?,
            Act::Fault {
                server,
                method,
                wrong,
                times,
                percent,
            } => {
                let server = self.server(server);
                self.cluster
                    .fault(rule(&server, method, wrong, times, percent));
            }
            Act::ClearFaults => self.clear_faults(),
            Act::BreakWatches => self.cluster.cluster.break_watches(),
            Act::Compact => {
                self.cluster.cluster.forget_history().await;
                self.cluster.world.faults.cut_streams("kubernetes");
            }
            Act::Restart(seconds) => {
                let faults = self.cluster.world.faults.clone();
                self.cluster
                    .fault(Rule::new(Action::Reset).server("kubernetes").named("away"));
                faults.cut_streams("kubernetes");
                self.pass(Duration::from_secs(seconds.into())).await;
                faults.remove("away");
            }
            Act::Kill(number, seconds) => self.kill(number, seconds).await,
            Act::KillAtCall {
                replica,
                server,
                method,
                after,
                is_done,
            } => self.kill_at(replica, server, method, after, is_done),
            Act::Stop(number, seconds) => {
                if let Some(replica) = self.end(number, seconds) {
                    // Whatever it says: it may have lost the lease meanwhile.
                    let _ = replica.stop().await;
                }
            }
            Act::Freeze(seconds) => tokio::time::advance(Duration::from_secs(seconds.into())).await,
            Act::SetClock(seconds) => self.cluster.world.clock.set_by(seconds.into()),
            Act::Reload(lacking) => self.reload(lacking.map(usize::from)),
        }
        Ok(())
    }

    fn server(&self, server: Server) -> String {
        match server {
            Server::Kubernetes => "kubernetes".to_owned(),
            Server::Cloud(at) => self.clouds[usize::from(at)].server().to_owned(),
        }
    }

    fn clear_faults(&mut self) {
        self.cluster.world.faults.clear();
        self.deadly.clear();
    }

    fn kill_at(&mut self, replica: u8, server: Server, method: &str, after: u8, is_done: bool) {
        let action = if is_done {
            Action::Silence
        } else {
            Action::Hang
        };
        let name = format!("kill-{}", self.deadly.len());
        let rule = Rule::new(action).server(&self.server(server)).times(1);
        let rule = rule.on(method, "*").after(after.into()).named(&name);
        self.cluster.fault(rule);
        self.deadly.insert(name, replica.into());
    }

    /// A machine that exists: its cloud and its name, which is also that of its Node.
    fn existing(&self, machine: Machine) -> Option<(&Cloud, String)> {
        let cloud = self.clouds.get(usize::from(machine.0))?;
        let name = name(cloud, machine, *self.machines.get(&machine)?);
        let id = self.invariants.machines.get(&name)?;
        self.cluster.world.machines.power(id)?;
        Some((cloud, name))
    }

    fn boot(&mut self, machine: Machine) -> Result<()> {
        if self.existing(machine).is_some() {
            return Ok(());
        }
        let last = self.machines.entry(machine).or_default();
        *last += 1;
        let cloud = &self.clouds[usize::from(machine.0)];
        let name = name(cloud, machine, *last);
        let mut kubelet = cloud.simulated().boot(&name)?;
        let site = (SITE.to_owned(), cloud.name.to_string());
        kubelet.labels.extend([site]);
        let id = kubelet.machine_id.clone();
        self.invariants.machines.insert(name, id);
        self.cluster.cluster.join_as(&self.fleet, kubelet);
        Ok(())
    }

    async fn exclude(&self, machine: Machine, is_excluded: bool) {
        let Some((_, name)) = self.existing(machine) else {
            return;
        };
        if self.cluster.find(&name).is_none() {
            return;
        }
        self.cluster
            .change(&name, |node| {
                let labels = &mut node["metadata"]["labels"];
                if is_excluded {
                    labels[EXCLUSION_LABEL] = "true".into();
                } else if let Some(labels) = labels.as_object_mut() {
                    labels.remove(EXCLUSION_LABEL);
                }
            })
            .await;
    }

    /// That Service, unless it is being deleted.
    pub(crate) fn living(&self, number: u8) -> Option<Value> {
        let there = self.cluster.find_service(&service_name(number));
        there.filter(|it| it["metadata"]["deletionTimestamp"].is_null())
    }

    async fn create(&mut self, number: u8, cloud: usize, count: u8) {
        let name = service_name(number);
        if !self.clouds[cloud].kind.has_balancers() || self.cluster.find_service(&name).is_some() {
            return;
        }
        self.classes.insert(number, cloud);
        let mut it = service(&name);
        it["spec"]["ports"] = ports(count);
        it["spec"]["loadBalancerClass"] = class(&self.clouds[cloud]).into();
        self.cluster.create_service(it).await;
    }

    async fn want(&self, number: u8, wants: bool) {
        let (Some(there), Some(cloud)) = (self.living(number), self.classes.get(&number)) else {
            return;
        };
        if wants_balancer(&there) == wants {
            return;
        }
        let class = class(&self.clouds[*cloud]);
        let change = |it: &mut Value| {
            if wants {
                it["spec"]["type"] = "LoadBalancer".into();
                it["spec"]["loadBalancerClass"] = class.as_str().into();
                return;
            }
            it["spec"]["type"] = "ClusterIP".into();
            let Some(spec) = it["spec"].as_object_mut() else {
                return;
            };
            for key in [
                "allocateLoadBalancerNodePorts",
                "externalTrafficPolicy",
                "loadBalancerClass",
            ] {
                spec.remove(key);
            }
            let ports = spec["ports"].as_array_mut().into_iter().flatten();
            for port in ports.filter_map(Value::as_object_mut) {
                port.remove("nodePort");
            }
        };
        self.cluster
            .change_service(&service_name(number), change)
            .await;
    }

    async fn annotate(&self, number: u8, key: u8, value: u8) {
        let (Some(cloud), Some(_)) = (self.classes.get(&number), self.living(number)) else {
            return;
        };
        let all = self.clouds[*cloud].kind.annotations();
        let (key, values) = all[usize::from(key) % all.len()];
        let value = values[usize::from(value) % values.len()];
        let name = service_name(number);
        self.cluster.annotate(&name, key, Some(value)).await;
    }

    fn remove_balancer(&mut self, number: u8) -> Result<()> {
        let Some(service) = self.living(number) else {
            return Ok(());
        };
        let seen = self.seen();
        let own: Vec<(&str, &str)> =
            balancers_of(text(&service["metadata"]["uid"]), &seen).collect();
        for (cloud, id) in own {
            let mut clouds = self.clouds.iter();
            if let Some(cloud) = clouds.find(|it| it.name.as_str() == cloud) {
                cloud.simulated().remove_balancer(id)?;
                self.invariants.removed.insert(id.to_owned());
            }
        }
        Ok(())
    }

    /// Nothing goes wrong any more, and everything that is asked for can be had.
    pub(crate) async fn calm_down(&mut self) -> Result<()> {
        self.clear_faults();
        self.reload(None);
        for cloud in 0..self.clouds.len() {
            let machine = Machine(u8::try_from(cloud)?, 0);
            self.boot(machine)?;
            self.play(&Act::PowerOn(machine)).await?;
            self.exclude(machine, false).await;
        }
        for (number, cloud) in self.classes.clone() {
            if self.living(number).is_some() {
                for (key, _) in self.clouds[cloud].kind.annotations() {
                    let name = service_name(number);
                    self.cluster.annotate(&name, key, None).await;
                }
            }
        }
        Ok(())
    }

    /// The cloud of that Node.
    pub(crate) fn cloud_of(&self, node: &str) -> Option<&Cloud> {
        let name = node.split('.').next()?;
        self.clouds.iter().find(|it| it.name.as_str() == name)
    }

    /// Whether it can be known that the machine of that Node is gone: its cloud says so, and no other account could have
    /// it.
    pub(crate) fn can_miss(&self, node: &str) -> bool {
        let Some(own) = self.cloud_of(node) else {
            return false;
        };
        let alike = self.clouds.iter().filter(|it| it.kind == own.kind).count();
        own.kind.simulator().knows_power && (alike == 1 || !self.rules.selectors.is_empty())
    }

    /// The Nodes of a cloud that are to be targets.
    pub(crate) fn targets(&self, cloud: &str) -> BTreeSet<String> {
        let names = self.invariants.machines.keys();
        let names = names.filter(|it| it.starts_with(&format!("{cloud}.")));
        let is_target = |name: &&String| {
            let node = self.cluster.find(name);
            node.is_some_and(|it| it["metadata"]["labels"][EXCLUSION_LABEL].is_null())
        };
        names.filter(is_target).cloned().collect()
    }
}

fn name(cloud: &Cloud, machine: Machine, incarnation: Incarnation) -> String {
    format!("{}.{}-{incarnation}", cloud.name, machine.1)
}

fn service_name(number: u8) -> String {
    format!("web-{number}")
}

fn class(cloud: &Cloud) -> String {
    format!("bowline.dev/{}", cloud.name)
}

fn ports(count: u8) -> Value {
    let ports = (0..u16::from(count)).map(|number| {
        json!({ "name": format!("p{number}"), "protocol": "TCP", "port": 80 + number, "targetPort": 8080 })
    });
    ports.collect()
}
