//! What is still to happen: jobs of machines, one after the other, and the turns of the name service.

use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Map, Value};

use super::model::{Cloud, Deed, Rights, State};

/// How long a job waits for a compute node that does not answer.
const PATIENCE: Duration = Duration::from_secs(120);

/// Something that happens at its time.
#[derive(Debug)]
pub(super) enum Event {
    /// A job of a machine.
    Job(Job),
    /// The name service publishes what has changed.
    Commit,
    /// A load balancer reads its metadata.
    Appliance(String),
    /// Users, roles and policies take effect.
    Rights {
        account: String,
        rights: Box<Rights>,
    },
}

/// A job of a machine, which runs on its compute node.
#[derive(Debug)]
pub(super) struct Job {
    pub(super) machine: String,
    pub(super) begun: Timestamp,
    /// Which entry of the machine's audit it is, if it is one.
    pub(super) deed: Option<usize>,
    pub(super) work: Work,
}

/// A card that a new machine gets: on which network or pool, and with which address if one was asked for.
#[derive(Clone, Debug)]
pub(super) struct Card {
    pub(super) network: String,
    pub(super) address: Option<std::net::Ipv4Addr>,
}

/// What a job does.
#[derive(Clone, Debug)]
pub(super) enum Work {
    SetTags(Map<String, Value>),
    ReplaceTags(Map<String, Value>),
    RemoveTag(String),
    SetMetadata(Map<String, Value>),
    ReplaceMetadata(Map<String, Value>),
    RemoveMetadata(String),
    Provisioned { cards: Vec<Card>, failed: bool },
    Become(State),
    Rename(String),
    Resize(String),
    Firewall(bool),
    Protect(bool),
    Destroy,
}

impl Cloud {
    /// Puts an event on the calendar.
    pub(super) fn schedule(&mut self, at: Timestamp, event: Event) {
        self.counter += 1;
        self.events.insert((at, self.counter), event);
    }

    /// Begins a job: it ends `delay` after the machine's earlier jobs, or from now.
    pub(super) fn begin(
        &mut self,
        machine: &str,
        now: Timestamp,
        delay: Duration,
        deed: Option<(&'static str, Value)>,
        work: Work,
    ) {
        let Some(one) = self.machines.get_mut(machine) else {
            return;
        };
        let deed = deed.map(|(action, caller)| {
            one.deeds.push(Deed {
                action,
                time: now,
                caller,
                success: None,
            });
            one.deeds.len() - 1
        });
        let end = later(now.max(one.busy_until), delay);
        one.busy_until = end;
        let machine = machine.to_owned();
        let job = Job {
            machine,
            begun: now,
            deed,
            work,
        };
        self.schedule(end, Event::Job(job));
        // What takes no time has happened when the call is answered.
        self.settle(now);
    }

    /// Lets happen what is due.
    pub(super) fn settle(&mut self, now: Timestamp) {
        while let Some(entry) = self.events.first_entry() {
            let due = entry.key().0;
            if due > now {
                return;
            }
            match entry.remove() {
                Event::Commit => self.publish(due),
                Event::Appliance(id) => self.read_metadata(&id),
                Event::Rights { account, rights } => {
                    if let Some(account) = self.accounts.get_mut(&account) {
                        account.effective = *rights;
                    }
                }
                Event::Job(job) => {
                    let node = self.machines.get(&job.machine);
                    let node = node.and_then(|it| it.compute_node.as_ref());
                    if node.is_some_and(|node| self.dead.contains_key(node)) {
                        self.stalled.push(Event::Job(job));
                    } else {
                        self.carry_out(job, due);
                    }
                }
            }
        }
    }

    /// Lets the jobs go on that waited for a compute node, as far as they have not given up.
    pub(super) fn go_on(&mut self, now: Timestamp) {
        for event in std::mem::take(&mut self.stalled) {
            let Event::Job(job) = event else { continue };
            let node = self.machines.get(&job.machine);
            let node = node.and_then(|it| it.compute_node.as_ref());
            if node.is_some_and(|node| self.dead.contains_key(node)) {
                self.stalled.push(Event::Job(job));
            } else if now > later(job.begun, PATIENCE) {
                self.finish(&job, false);
            } else {
                self.carry_out(job, now);
            }
        }
    }

    /// Whether a job has waited for its compute node for too long.
    pub(super) fn has_given_up(&self, machine: &str, deed: usize, now: Timestamp) -> bool {
        self.stalled.iter().any(|event| match event {
            Event::Job(job) => {
                let meant = job.machine == machine && job.deed == Some(deed);
                meant && now > later(job.begun, PATIENCE)
            }
            _ => false,
        })
    }

    fn finish(&mut self, job: &Job, success: bool) {
        let machine = self.machines.get_mut(&job.machine);
        if let (Some(machine), Some(deed)) = (machine, job.deed)
            && let Some(deed) = machine.deeds.get_mut(deed)
        {
            deed.success = Some(success);
        }
    }

    fn carry_out(&mut self, job: Job, now: Timestamp) {
        let lives = self
            .machines
            .get(&job.machine)
            .is_some_and(|it| it.state.lives());
        self.finish(&job, lives);
        if !lives {
            return;
        }
        let parts = self.apply(&job.machine, job.work, now);
        if !parts.is_empty() {
            self.touch(&job.machine, parts, now);
        }
    }

    /// Does the work, and says which parts of the machine it changed.
    fn apply(&mut self, id: &str, work: Work, now: Timestamp) -> &'static [&'static str] {
        let package = match &work {
            Work::Resize(name) => self.find_package(name).cloned(),
            _ => None,
        };
        let nics = match &work {
            Work::Provisioned { cards, .. } => self.nics(cards),
            _ => Vec::new(),
        };
        let Some(machine) = self.machines.get_mut(id) else {
            return &[];
        };
        match work {
            Work::SetTags(tags) => {
                machine.tags.extend(tags);
                &["tags"]
            }
            Work::ReplaceTags(tags) => {
                machine.tags = tags;
                &["tags"]
            }
            Work::RemoveTag(key) => {
                machine.tags.remove(&key);
                &["tags"]
            }
            Work::SetMetadata(metadata) => {
                machine.metadata.extend(metadata);
                &["customer_metadata"]
            }
            Work::ReplaceMetadata(metadata) => {
                machine.metadata = metadata;
                &["customer_metadata"]
            }
            Work::RemoveMetadata(key) => {
                machine.metadata.remove(&key);
                &["customer_metadata"]
            }
            Work::Provisioned { failed, .. } => {
                if failed {
                    machine.state = State::Failed;
                    return &["state", "zone_state"];
                }
                machine.state = State::Running;
                machine.nics = nics;
                &["state", "zone_state", "nics", "pid", "boot_timestamp"]
            }
            Work::Become(state) => {
                machine.state = state;
                &["state", "zone_state", "pid", "boot_timestamp", "tags"]
            }
            Work::Rename(name) => {
                machine.name = name;
                &["alias"]
            }
            Work::Resize(_) => {
                if let Some(package) = package {
                    machine.memory = package.memory.into();
                    machine.disk = package.disk.into();
                    machine.package = package.name;
                }
                &["max_physical_memory"]
            }
            Work::Firewall(on) => {
                machine.firewall = on;
                &["firewall_enabled"]
            }
            Work::Protect(on) => {
                machine.protected = on;
                &["indestructible_zoneroot"]
            }
            Work::Destroy => {
                self.destroy(id, now);
                &[]
            }
        }
    }

    /// Destroys a machine: it stays as a tombstone.
    pub(super) fn destroy(&mut self, id: &str, now: Timestamp) {
        if let Some(machine) = self.machines.get_mut(id) {
            machine.state = State::Deleted;
            self.touch(id, &["state", "zone_state", "destroyed"], now);
        }
    }
}

/// A time after another.
pub(super) fn later(time: Timestamp, by: Duration) -> Timestamp {
    time.saturating_add(by).unwrap_or(Timestamp::MAX)
}
