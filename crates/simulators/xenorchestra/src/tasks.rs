//! Actions: what somebody asked for, what comes of it, and when.

use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Map, Value, json};

use super::actions::Action;
use super::model::{Cloud, Kind, PowerState, Vm};
use super::refusals::{OrRefusal, Refusal};

/// Tasks that are kept; beyond it the oldest go. The real one keeps a thousand.
const MOST_TASKS: usize = 1_000;

/// Something that was asked for and takes its time.
#[derive(Clone, Debug)]
pub(super) struct Task {
    pub(super) id: String,
    /// Who asked, by id.
    pub(super) user: String,
    /// What for: `start VM`.
    pub(super) name: &'static str,
    pub(super) object: String,
    pub(super) params: Option<Value>,
    pub(super) start: Timestamp,
    pub(super) end: Option<Timestamp>,
    /// Why it failed: the pool's word for it, and what the word is about.
    pub(super) failure: Option<(&'static str, Vec<String>)>,
}

impl Task {
    pub(super) fn status(&self) -> &'static str {
        match (&self.end, &self.failure) {
            (None, _) => "pending",
            (Some(_), None) => "success",
            (Some(_), Some(_)) => "failure",
        }
    }

    /// As the API shows it.
    pub(super) fn show(&self) -> Map<String, Value> {
        let mut properties = json!({
            "name": format!("REST API: {}", self.name),
            "type": "xo:rest-api:action",
            "objectType": "VM",
            "objectId": self.object,
            "userId": self.user,
        });
        if let Some(params) = &self.params {
            properties["params"] = params.clone();
        }
        let updated = self.end.unwrap_or(self.start).as_millisecond();
        let mut shown = Map::new();
        shown.insert("id".to_owned(), json!(self.id));
        shown.insert("properties".to_owned(), properties);
        shown.insert("start".to_owned(), json!(self.start.as_millisecond()));
        shown.insert("status".to_owned(), json!(self.status()));
        shown.insert("updatedAt".to_owned(), json!(updated));
        if let Some(end) = self.end {
            shown.insert("end".to_owned(), json!(end.as_millisecond()));
        }
        if let Some((word, about)) = &self.failure {
            let result = json!({
                "code": word,
                "params": about,
                "message": message(word, about),
                "name": "XapiError",
                "stack": format!("XapiError: {}", message(word, about)),
            });
            shown.insert("result".to_owned(), result);
        }
        shown
    }

    /// The refusal that a caller gets who waits for it.
    pub(super) fn refusal(&self) -> Option<Refusal> {
        let (word, about) = self.failure.as_ref()?;
        Some(Refusal::pool(message(word, about)))
    }
}

fn message(word: &str, about: &[String]) -> String {
    format!("{word}({})", about.join(", "))
}

/// What will happen.
#[derive(Clone, Debug)]
pub(super) enum Effect {
    /// An action on a VM is done, on that host if it leads to one.
    Done {
        vm: String,
        action: Action,
        host: Option<String>,
    },
    /// A VM is there again, on that host.
    Arrive { vm: String, host: String },
    /// The guest tools of that run tell the addresses.
    Tell { vm: String, run: u64 },
    /// The objects of a pool are shown.
    Load { pool: String },
}

/// Something that will happen, and the task that it ends.
#[derive(Clone, Debug)]
pub(super) struct Planned {
    pub(super) task: Option<String>,
    pub(super) effect: Effect,
}

impl Cloud {
    /// Lets something happen after some time.
    pub(super) fn plan(&mut self, at: Timestamp, after: Duration, planned: Planned) {
        let due = at.saturating_add(after).unwrap_or(at);
        self.planned += 1;
        self.due.insert((due, self.planned), planned);
    }

    /// Lets happen what is due.
    pub(super) fn settle(&mut self, now: Timestamp) {
        while let Some(entry) = self.due.first_entry() {
            if entry.key().0 > now {
                return;
            }
            let ((at, _), planned) = entry.remove_entry();
            let ended = self.happen(at, planned.effect, planned.task.as_deref());
            if let Some(task) = planned.task.filter(|_| ended) {
                self.end_task(&task, at);
            }
        }
    }

    fn end_task(&mut self, id: &str, at: Timestamp) {
        if let Some(task) = self.tasks.get_mut(id) {
            task.end = Some(at);
            let object = task.object.clone();
            self.change_vm(&object, |vm| vm.operations.remove(id));
        }
    }

    /// What came of it; false if something else ends the task.
    fn happen(&mut self, at: Timestamp, effect: Effect, task: Option<&str>) -> bool {
        match effect {
            Effect::Done {
                vm,
                action: Action::Migrate,
                host: Some(host),
            } => {
                return self.leave(at, &vm, &host, task);
            }
            Effect::Done { vm, action, host } => self.act(at, &vm, action, host),
            Effect::Arrive { vm, host } => self.arrive(&vm, &host),
            Effect::Tell { vm, run } => {
                self.change_vm(&vm, |vm| {
                    vm.reported |= vm.runs == run && vm.power.resides();
                });
            }
            Effect::Load { pool } => {
                if let Some(found) = self.pools.get_mut(&pool) {
                    found.loaded = true;
                }
                self.touch_pool(&pool);
            }
        }
        true
    }

    /// Does to a VM what was asked, whatever state it is in.
    pub(super) fn act(&mut self, at: Timestamp, id: &str, action: Action, host: Option<String>) {
        let begins = matches!(
            action,
            Action::Start | Action::Resume | Action::CleanReboot | Action::HardReboot
        );
        let run = self.change_vm(id, |vm| {
            match action {
                Action::Start | Action::Resume => vm.run_on(host),
                Action::CleanShutdown | Action::HardShutdown => vm.leave_host(PowerState::Halted),
                Action::Suspend => vm.leave_host(PowerState::Suspended),
                Action::Pause => vm.power = PowerState::Paused,
                Action::Unpause => vm.power = PowerState::Running,
                Action::CleanReboot | Action::HardReboot => {
                    let host = vm.host.take();
                    vm.run_on(host);
                }
                Action::Migrate => {}
            }
            vm.runs
        });
        if let Some(run) = run.filter(|_| begins) {
            let effect = Effect::Tell {
                vm: id.to_owned(),
                run,
            };
            self.plan(at, self.timings.guest, Planned { task: None, effect });
        }
    }

    /// A VM leaves its host; true if it has arrived too.
    fn leave(&mut self, at: Timestamp, id: &str, host: &str, task: Option<&str>) -> bool {
        let across = self.vms.get(id).zip(self.hosts.get(host));
        let across = across.is_some_and(|(vm, host)| vm.pool != host.pool);
        if !across || self.timings.gap.is_zero() {
            self.arrive(id, host);
            return true;
        }
        self.change_vm(id, |vm| vm.away = true);
        let effect = Effect::Arrive {
            vm: id.to_owned(),
            host: host.to_owned(),
        };
        let task = task.map(str::to_owned);
        self.plan(at, self.timings.gap, Planned { task, effect });
        false
    }

    /// A VM is on that host now.
    pub(super) fn arrive(&mut self, id: &str, host: &str) {
        let Some(pool) = self.hosts.get(host).map(|host| host.pool.clone()) else {
            return;
        };
        self.change_vm(id, |vm| {
            vm.pool = pool;
            vm.away = false;
            if vm.power.resides() {
                vm.host = Some(host.to_owned());
            }
            if vm.local_disk.is_some() {
                vm.local_disk = Some(host.to_owned());
            }
        });
    }

    /// A host of that pool for one more VM: one that runs, with the fewest VMs.
    pub(super) fn free_host(&self, pool: &str) -> Option<String> {
        let hosts = self.hosts.all();
        let good = hosts.filter(|it| it.pool == pool && it.enabled && it.power == "Running");
        let load = |id: &str| {
            self.vms
                .all()
                .filter(|vm| vm.host.as_deref() == Some(id))
                .count()
        };
        good.min_by_key(|host| load(&host.id))
            .map(|host| host.id.clone())
    }

    /// Begins an action as a task of that id; what the pool refuses has failed at once.
    pub(super) fn begin(&mut self, mut task: Task, action: Action, to: Option<&str>) {
        let (id, object, now) = (task.id.clone(), task.object.clone(), task.start);
        let host = match self.check(&object, action, to) {
            Ok(host) => host,
            Err(failure) => {
                task.end = Some(now);
                task.failure = Some(failure);
                self.keep(task);
                return;
            }
        };
        self.keep(task);
        let across = host.as_ref().and_then(|host| self.hosts.get(host));
        let across = across
            .zip(self.vms.get(&object))
            .is_some_and(|(host, vm)| host.pool != vm.pool);
        let operation = if across {
            "migrate_send"
        } else {
            action.operation()
        };
        self.change_vm(&object, |vm| vm.operations.insert(id.clone(), operation));
        let takes = match action {
            Action::Migrate => self.timings.migration,
            _ => self.timings.action,
        };
        let effect = Effect::Done {
            vm: object,
            action,
            host,
        };
        let task = Some(id);
        self.plan(now, takes, Planned { task, effect });
    }

    fn keep(&mut self, task: Task) {
        let id = task.id.clone();
        self.tasks.insert(&id, task);
        if self.tasks.len() > MOST_TASKS {
            let oldest = self.tasks.all().find(|task| task.end.is_some());
            if let Some(id) = oldest.map(|task| task.id.clone()) {
                self.tasks.remove(&id);
            }
        }
    }

    /// Where an action leads to, or what the pool says against it.
    fn check(
        &self,
        id: &str,
        action: Action,
        to: Option<&str>,
    ) -> Result<Option<String>, (&'static str, Vec<String>)> {
        let Some(vm) = self.vms.get(id) else {
            return Err(("HANDLE_INVALID", vec!["VM".to_owned(), id.to_owned()]));
        };
        let reference = vm.reference.clone();
        if !vm.operations.is_empty() {
            return Err((
                "OTHER_OPERATION_IN_PROGRESS",
                vec!["VM".to_owned(), reference],
            ));
        }
        let from = action.from();
        if !from.contains(&vm.power) {
            let wanted = from.first().map_or("", |state| state.as_str());
            let states = [wanted, vm.power.as_str()].map(str::to_lowercase);
            let about = std::iter::once(reference).chain(states).collect();
            return Err(("VM_BAD_POWER_STATE", about));
        }
        if matches!(action, Action::CleanShutdown | Action::CleanReboot) && !vm.reported {
            return Err(("VM_LACKS_FEATURE", vec![reference]));
        }
        match (action, to) {
            (Action::Migrate, Some(host)) => Ok(Some(host.to_owned())),
            (Action::Start | Action::Resume, to) => {
                let chosen = to.map(str::to_owned).or_else(|| self.free_host(&vm.pool));
                chosen.map(Some).ok_or(("NO_HOSTS_AVAILABLE", Vec::new()))
            }
            _ => Ok(None),
        }
    }

    /// Removes a VM that is off.
    pub(super) fn delete_vm(&mut self, id: &str) -> OrRefusal {
        let vm = self
            .vms
            .get(id)
            .ok_or_else(|| Refusal::no_such(Kind::Vm.word(), id))?;
        if vm.power != PowerState::Halted {
            let state = vm.power.as_str().to_lowercase();
            let about = [vm.reference.clone(), "halted".to_owned(), state];
            return Err(Refusal::pool(message("VM_BAD_POWER_STATE", &about)));
        }
        self.lose_vm(id);
        Ok(())
    }

    /// Removes a VM, whatever it does.
    pub(super) fn lose_vm(&mut self, id: &str) {
        if let Some(vm) = self.vms.remove(id) {
            if let Some(host) = vm.host {
                self.touch(Kind::Host, &host);
            }
            self.touch(Kind::Vm, id);
            self.switched.insert(id.to_owned());
        }
    }
}

impl Vm {
    /// Runs on that host, and has told nothing yet.
    pub(super) fn run_on(&mut self, host: Option<String>) {
        self.power = PowerState::Running;
        self.host = host;
        self.memory = self.dynamic.1;
        self.reported = false;
        self.runs += 1;
    }

    /// Is on no host any more.
    pub(super) fn leave_host(&mut self, state: PowerState) {
        self.power = state;
        self.host = None;
        self.reported = false;
    }
}
