//! Tells a story to its end: everything happens, then everything comes to rest.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::panic::{self, AssertUnwindSafe, PanicHookInfo};
use std::sync::Once;
use std::time::Duration;

use anyhow::Result;
use bowline_scenarios::log::Log;
use bowline_scenarios::objects::{is_uninitialized, readiness, text};
use bowline_simulator::machines::Power;
use serde_json::Value;
use tokio::time::Instant;

use crate::clouds::Kind;
use crate::invariants::{
    FOREIGN, POD_RANGES, Seen, balancers_of, is_of, pod_ranges, published, wants_balancer,
};
use crate::storm::{Pace, Storm, USERS};
use crate::story::Story;

/// Simulated time within which everything is as it should be once nothing goes wrong any more: the deletion guard
/// lets three nodes go in ten minutes.
const SETTLING: Duration = Duration::from_secs(90 * 60);
/// Between two looks whether that is so.
const SETTLED_LOOK: Duration = Duration::from_secs(30);
/// Rounds that find no difference to what they wrote begin within so long.
const PERIODS: Duration = Duration::from_secs(11 * 60);
/// The same for Triton, whose DNS names are read less often.
const SLOW_PERIODS: Duration = Duration::from_secs(20 * 60);
/// Then nothing is written for so long: a period of addresses and labels.
const REST: Duration = Duration::from_secs(6 * 60);

/// What came of a story.
#[derive(Clone, Debug, Default)]
pub struct Told {
    /// Every act and every call, in order.
    pub transcript: String,
    /// What must not be.
    pub broken: Vec<String>,
    /// How long it took, in simulated time.
    pub simulated: Duration,
}

thread_local! {
    /// What panicked on this thread, in whichever task.
    static PANICS: RefCell<Vec<String>> = const { RefCell::new(Vec::new()) };
}

/// Tells a story, in a runtime of its own under a paused clock.
pub fn tell(story: &Story) -> Result<Told> {
    in_simulated_time(|log| to_its_end(story, log))
}

/// Runs that in a runtime of its own under a paused clock, and notes what panics.
pub(crate) fn in_simulated_time<F: Future<Output = Result<Told>>>(
    run: impl FnOnce(Log) -> F,
) -> Result<Told> {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| panic::set_hook(Box::new(note)));
    PANICS.take();
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = runtime.enable_all().start_paused(true).build()?;
    let (log, _guard) = Log::keep();
    let ended = panic::catch_unwind(AssertUnwindSafe(|| runtime.block_on(run(log))));
    let mut told = match ended {
        Ok(told) => told?,
        Err(_) => Told::default(),
    };
    told.broken.extend(PANICS.take());
    Ok(told)
}

fn note(info: &PanicHookInfo<'_>) {
    let line = info.to_string().replace('\n', " ");
    PANICS.with_borrow_mut(|all| all.push(line));
}

async fn to_its_end(story: &Story, log: Log) -> Result<Told> {
    let begun = Instant::now();
    let mut storm = Storm::set_up(story, Pace::default(), log).await?;
    for (pause, act) in &story.acts {
        storm.pass(Duration::from_millis(*pause)).await;
        if !storm.invariants.broken().is_empty() {
            break;
        }
        let _ = writeln!(storm.transcript, "# {act:?}");
        storm.play(act).await?;
    }
    if storm.invariants.broken().is_empty() {
        storm.transcript.push_str("# everything comes to rest\n");
        storm.calm_down().await?;
        storm.rest().await;
    }
    Ok(Told {
        broken: storm.invariants.broken().to_vec(),
        transcript: storm.transcript,
        simulated: begun.elapsed(),
    })
}

impl Storm {
    /// Everything becomes as it should be, and stays so.
    pub(crate) async fn rest(&mut self) {
        let mut end = Instant::now() + SETTLING;
        let mut may_restart = true;
        loop {
            self.pass(SETTLED_LOOK).await;
            let open = self.open();
            if open.is_empty() || !self.invariants.broken().is_empty() {
                break;
            }
            if Instant::now() < end {
                continue;
            }
            if !(self.invariants.is_restored && may_restart) {
                return self.invariants.find(open);
            }
            // A restored lease may not say which account was proven. The next process believes what nodes say; the one that
            // gave them their IDs does not.
            may_restart = false;
            end += SETTLING;
            self.kill_all().await;
        }
        if self.is_watched_at_rest {
            self.watch_at_rest().await;
        }
        if self.invariants.tells_secret(&self.metrics()) {
            self.invariants
                .find(["a secret is in the metrics".to_owned()]);
        }
    }

    /// Nothing is written any more.
    async fn watch_at_rest(&mut self) {
        let is_slow = self.clouds.iter().any(|it| it.kind == Kind::Triton);
        self.pass(if is_slow { SLOW_PERIODS } else { PERIODS })
            .await;
        let quiet = self.transcript.len();
        self.pass(REST).await;
        let written = self.transcript[quiet..].lines().filter(|it| is_write(it));
        let written: Vec<String> = written.map(|it| format!("written at rest: {it}")).collect();
        self.invariants.find(written);
        let open = self.open();
        self.invariants.find(open);
    }

    /// What is not yet as it should be.
    fn open(&self) -> Vec<String> {
        let mut open = Vec::new();
        for (name, id) in &self.invariants.machines {
            let power = self.cluster.world.machines.power(id);
            match (power, self.cluster.find(name)) {
                (None, Some(node)) if self.can_miss(&node) => {
                    open.push(format!("Node {name} has no machine any more"));
                }
                (Some(_), None) => open.push(format!("machine {name} has no Node")),
                (Some(power), Some(node))
                    if is_uninitialized(&node)
                        && (power == Power::Running || self.knows_power(name)) =>
                {
                    open.push(format!("Node {name} is not initialized"));
                }
                (Some(Power::Running), Some(node)) if readiness(&node) != "True" => {
                    open.push(format!("Node {name} is not Ready"));
                }
                _ => {}
            }
        }
        for (request, asked) in &self.invariants.asked {
            let machine = self.invariants.machines.get(&asked.by);
            let power = machine.and_then(|it| self.cluster.world.machines.power(it));
            let is_there = self.cluster.cluster.find_request(request).is_some();
            // A Talos machine that is off confirms nothing.
            let can_be = is_there && power == Some(Power::Running);
            if asked.is_own && can_be && !self.is_approved(request) {
                open.push(format!("request {request} of {} is not approved", asked.by));
            }
        }
        let (services, seen) = (self.services(), self.seen());
        open.extend(services.iter().filter_map(|it| self.open_about(it, &seen)));
        let uids = services.iter().map(|it| text(&it["metadata"]["uid"]));
        let uids: Vec<&str> = uids.collect();
        for it in seen.values().flat_map(|it| it.values()) {
            let has_service = uids.iter().any(|uid| is_of(it, uid));
            let lost = &self.invariants.lost;
            let is_lost = lost.iter().any(|uid| is_of(it, uid));
            if !has_service && !is_lost && it.name != FOREIGN {
                open.push(format!("load balancer {} has no Service", it.name));
            }
        }
        open.extend(self.open_about_routes());
        open
    }

    /// Nodes with pod ranges have routes, and nobody else has.
    fn open_about_routes(&self) -> Vec<String> {
        let (mut open, mut known) = (Vec::new(), BTreeSet::new());
        let routes = self.routes();
        for (name, machine) in &self.invariants.machines {
            let Some(node) = self.cluster.find(name) else {
                continue;
            };
            let exists = self.cluster.world.machines.power(machine).is_some();
            let cloud = name.split('.').next().unwrap_or_default();
            let routes = routes.get(cloud).filter(|_| exists && self.has_ranges);
            for range in pod_ranges(&node) {
                known.insert(range.to_owned());
                if routes.is_some_and(|it| !it.contains_key(range)) {
                    open.push(format!("there is no route to {range} of Node {name}"));
                }
            }
        }
        for (cloud, routes) in &routes {
            let ours = routes.keys().filter(|it| it.starts_with(POD_RANGES));
            let left = ours.filter(|it| !known.contains(*it) && !self.invariants.is_restored);
            open.extend(
                left.map(|it| format!("no Node has {it}, and there is a route in {cloud}")),
            );
        }
        open
    }

    fn open_about(&self, service: &Value, seen: &Seen) -> Option<String> {
        let name = text(&service["metadata"]["name"]);
        let own: Vec<(&str, &str)> =
            balancers_of(text(&service["metadata"]["uid"]), seen).collect();
        if !service["metadata"]["deletionTimestamp"].is_null() {
            return Some(format!("Service {name} is not gone"));
        }
        if !wants_balancer(service) {
            // The finalizer stays where nothing says that a manager of ours had set it.
            let is_lost = self
                .invariants
                .lost
                .contains(text(&service["metadata"]["uid"]));
            let is_clean = own.is_empty() && published(service).is_empty();
            return (!is_clean && !is_lost)
                .then(|| format!("Service {name} still has a load balancer"));
        }
        let [(cloud, id)] = own[..] else {
            return Some(format!("Service {name} has {} load balancers", own.len()));
        };
        let balancer = &seen[cloud][id];
        let published = published(service);
        // A load balancer machine also has an address inside.
        if published.is_empty() || !published.is_subset(&balancer.addresses) {
            return Some(format!(
                "Service {name} does not show {:?}",
                balancer.addresses
            ));
        }
        let ports = service["spec"]["ports"].as_array().map_or(0, Vec::len);
        let is_port = |it: &&String| {
            ["listener ", "service ", "entry "]
                .iter()
                .any(|kind| it.starts_with(kind))
        };
        let shown = balancer.parts.iter().filter(is_port).count();
        // One that was made for a lost Service of that name is taken over with what it has.
        if shown != ports && !(shown > ports && self.invariants.is_restored) {
            return Some(format!(
                "the load balancer of {name} has {:?}",
                balancer.parts
            ));
        }
        let has_targets = balancer.parts.iter().any(|it| it.starts_with("listener "));
        let targets = self.targets(cloud);
        // Whose a Node is may be open if its machine is gone.
        let exists = |node: &&String| {
            let machine = self.invariants.machines.get(*node);
            machine.is_some_and(|it| self.cluster.world.machines.power(it).is_some())
        };
        let needed: BTreeSet<String> = targets.iter().filter(exists).cloned().collect();
        // Accounts of one provider may use the same addresses inside: a Node whose owner is open keeps the targets at its own.
        let may_be_held = self.has_open_owner(cloud) || balancer.targets.is_subset(&targets);
        let is_right = needed.is_subset(&balancer.targets) && may_be_held;
        (has_targets && !is_right).then(|| {
            format!(
                "the load balancer of {name} has targets {:?}: needed are {needed:?}, allowed {targets:?}",
                balancer.targets
            )
        })
    }
}

impl Storm {
    /// Whether there is a Node, in an account like that cloud's, of which nobody can know that its machine is gone.
    fn has_open_owner(&self, cloud: &str) -> bool {
        let kind = self.clouds.iter().find(|it| it.name.as_str() == cloud);
        let alike = self
            .clouds
            .iter()
            .filter(|it| Some(it.kind) == kind.map(|it| it.kind));
        let alike: Vec<String> = alike.map(|it| format!("{}.", it.name)).collect();
        let mut machines = self.invariants.machines.iter();
        machines.any(|(name, id)| {
            let is_gone = self.cluster.world.machines.power(id).is_none();
            let is_alike = alike.iter().any(|it| name.starts_with(it));
            let node = self.cluster.find(name).filter(|_| is_gone && is_alike);
            node.is_some_and(|it| !self.can_miss(&it))
        })
    }
}

/// Whether a line of the transcript is a write of a manager, its lease and its events apart.
fn is_write(line: &str) -> bool {
    let mut words = line.split(' ').skip(1);
    let mut word = || words.next().unwrap_or_default();
    let (server, method, path) = (word(), word(), word());
    let is_read = matches!(method, "GET" | "HEAD" | "OPTIONS");
    let is_managers = server != USERS;
    let is_expected = path.contains("/leases") || path.contains("/events");
    !line.starts_with('#') && !is_read && is_managers && !is_expected
}
