//! The control handle: what tests and the sandbox do to pools, hosts, VMs and users directly.
//!
//! Nothing here takes time, unless it says so. Things are named by their id, or by a name that only
//! one of their kind has.

use bowline_simulator::KubeletSpec;
use bowline_simulator::control::{ControlError, ControlResult};
use serde_json::{Map, Value};

use super::actions::Action;
use super::config::{Quirks, Timings, User};
use super::guest;
use super::load::forever;
use super::model::{Cloud, Connection, Heard, Host, Kind, Pool, PowerState, Vm};
use super::tasks::{Effect, Planned, Task};
use super::{XenOrchestra, machine_id};

impl XenOrchestra {
    /// Finds something and does something to it.
    fn change<T>(
        &self,
        task: &'static str,
        kind: Kind,
        name: &str,
        work: impl FnOnce(&mut Cloud, &str) -> Option<T>,
    ) -> ControlResult<T> {
        let done = self.with(|cloud| {
            let id = cloud.find(kind, name)?;
            work(cloud, &id)
        });
        done.ok_or_else(|| ControlError::unknown(task, kind.word(), name))
    }

    fn change_vm(&self, task: &'static str, vm: &str, work: impl FnOnce(&mut Vm)) -> ControlResult {
        self.change(task, Kind::Vm, vm, |cloud, id| cloud.change_vm(id, work))
    }

    fn change_host(
        &self,
        task: &'static str,
        host: &str,
        work: impl FnOnce(&mut Host),
    ) -> ControlResult {
        self.change(task, Kind::Host, host, |cloud, id| {
            cloud.touch(Kind::Host, id);
            cloud.hosts.get_mut(id).map(work)
        })
    }

    fn change_pool(
        &self,
        task: &'static str,
        pool: &str,
        work: impl FnOnce(&mut Pool),
    ) -> ControlResult {
        self.change(task, Kind::Pool, pool, |cloud, id| {
            cloud.touch_pool(id);
            cloud.pools.get_mut(id).map(work)
        })
    }

    /// Starts a VM at once, on the host with the fewest VMs; its guest tools tell its addresses later.
    pub fn start(&self, vm: &str) -> ControlResult {
        let now = self.now();
        self.change("start", Kind::Vm, vm, |cloud, id| {
            let pool = cloud.vms.get(id)?.pool.clone();
            let host = cloud.free_host(&pool)?;
            cloud.act(now, id, Action::Start, Some(host));
            Some(())
        })
    }

    fn act(&self, task: &'static str, vm: &str, action: Action) -> ControlResult {
        let now = self.now();
        self.change(task, Kind::Vm, vm, |cloud, id| {
            cloud.act(now, id, action, None);
            Some(())
        })
    }

    /// Switches a VM off.
    pub fn halt(&self, vm: &str) -> ControlResult {
        self.act("halt", vm, Action::HardShutdown)
    }

    pub fn pause(&self, vm: &str) -> ControlResult {
        self.act("pause", vm, Action::Pause)
    }

    /// Lets a paused VM go on.
    pub fn unpause(&self, vm: &str) -> ControlResult {
        self.act("unpause", vm, Action::Unpause)
    }

    pub fn suspend(&self, vm: &str) -> ControlResult {
        self.act("suspend", vm, Action::Suspend)
    }

    /// Brings a VM into that state.
    pub fn set_power(&self, vm: &str, state: PowerState) -> ControlResult {
        match state {
            PowerState::Running => self.start(vm),
            PowerState::Halted => self.halt(vm),
            PowerState::Paused => self.pause(vm),
            PowerState::Suspended => self.suspend(vm),
        }
    }

    /// Moves a VM to that host (by id or name) at once, also to one of another pool.
    pub fn migrate(&self, vm: &str, host: &str) -> ControlResult {
        let host = self.host_id("migrate to", host)?;
        self.change("migrate", Kind::Vm, vm, |cloud, id| {
            cloud.arrive(id, &host);
            Some(())
        })
    }

    /// Begins to move a VM as somebody at the console would: it takes [`Timings::migration`], and to another
    /// pool [`Timings::gap`] more. Returns the id of the task.
    pub fn begin_migration(&self, vm: &str, host: &str) -> ControlResult<String> {
        let host = self.host_id("migrate to", host)?;
        let task = self.world.random.uuid();
        let now = self.now();
        self.change("migrate", Kind::Vm, vm, |cloud, id| {
            let made = Task {
                id: task.clone(),
                user: String::new(),
                name: Action::Migrate.name(),
                object: id.to_owned(),
                params: None,
                start: now,
                end: None,
                failure: None,
            };
            cloud.begin(made, Action::Migrate, Some(&host));
            Some(())
        })?;
        Ok(task)
    }

    fn host_id(&self, task: &'static str, host: &str) -> ControlResult<String> {
        self.change(task, Kind::Host, host, |_, id| Some(id.to_owned()))
    }

    pub fn rename(&self, vm: &str, name: &str) -> ControlResult {
        self.change_vm("rename", vm, |vm| name.clone_into(&mut vm.name))
    }

    pub fn rename_host(&self, host: &str, name: &str) -> ControlResult {
        self.change_host("rename", host, |host| name.clone_into(&mut host.name))
    }

    pub fn rename_pool(&self, pool: &str, name: &str) -> ControlResult {
        self.change_pool("rename", pool, |pool| name.clone_into(&mut pool.name))
    }

    /// Gives a VM so many processors at most, and so many bytes of memory.
    pub fn resize(&self, vm: &str, cpus: u32, memory: u64) -> ControlResult {
        self.change_vm("resize", vm, |vm| {
            vm.cpus_max = cpus;
            vm.cpus = cpus;
            vm.memory = memory;
            vm.dynamic = (memory, memory);
            vm.fixed = (memory, memory);
        })
    }

    /// Lets the memory that a running VM has now shrink or grow within its limits.
    pub fn balloon(&self, vm: &str, memory: u64) -> ControlResult {
        self.change_vm("change the memory of", vm, |vm| vm.memory = memory)
    }

    /// Lets the guest tools of a VM tell this, and nothing else; nothing at all: it has none.
    pub fn set_guest(&self, vm: &str, pairs: &[(&str, &str)]) -> ControlResult {
        let owned = pairs
            .iter()
            .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
        self.change_vm("change the guest of", vm, |vm| {
            vm.guest = owned.collect();
            vm.reported = !vm.guest.is_empty() && vm.power.resides();
        })
    }

    /// Gives a VM these tags and no others.
    pub fn set_tags(&self, vm: &str, tags: &[&str]) -> ControlResult {
        self.change_vm("tag", vm, |vm| {
            vm.tags = tags.iter().map(ToString::to_string).collect();
        })
    }

    /// Lets a host fail, or run again. Its VMs are shown as before, and so are their kubelets: those of a
    /// host that failed have to be silenced by halting the VMs.
    pub fn set_host_running(&self, host: &str, runs: bool) -> ControlResult {
        self.change_host("switch", host, |host| {
            host.power = if runs { "Running" } else { "Halted" };
        })
    }

    /// Puts a disk of a VM on storage that only that host has; none: all its storage is shared.
    pub fn set_local_disk(&self, vm: &str, host: Option<&str>) -> ControlResult {
        let host = host.map(|host| self.host_id("use", host)).transpose()?;
        self.change_vm("change the disk of", vm, |vm| vm.local_disk = host)
    }

    /// Makes a template of a VM: it is no longer among the VMs.
    pub fn make_template(&self, vm: &str) -> ControlResult {
        self.change_vm("make a template of", vm, |vm| {
            vm.leave_host(PowerState::Halted);
            vm.template = true;
        })
    }

    /// Shows a VM without saying where it is, as while Xen Orchestra loads.
    pub fn hide_container(&self, vm: &str, hidden: bool) -> ControlResult {
        self.change_vm("hide", vm, |vm| vm.nowhere = hidden)
    }

    pub fn destroy(&self, vm: &str) -> ControlResult {
        self.change("destroy", Kind::Vm, vm, |cloud, id| {
            cloud.lose_vm(id);
            Some(())
        })
    }

    /// Loses the connection to a pool: it is gone from all answers with everything in it.
    pub fn disconnect_pool(&self, pool: &str) -> ControlResult {
        self.set_connection(pool, Connection::Disconnected)
    }

    /// Connects to a pool; what is in it is shown after [`Timings::load`].
    pub fn connect_pool(&self, pool: &str) -> ControlResult {
        self.set_connection(pool, Connection::Connected)
    }

    /// Brings the connection to a pool into that state.
    pub fn set_connection(&self, pool: &str, state: Connection) -> ControlResult {
        let now = self.now();
        self.change("connect", Kind::Pool, pool, |cloud, id| {
            let found = cloud.pools.get_mut(id)?;
            found.connection = state;
            found.loaded = false;
            if state == Connection::Connected {
                load(cloud, id, now);
            }
            cloud.touch_pool(id);
            Some(())
        })
    }

    /// Whether the records of a pool's VMs cannot be read: then pool and hosts are shown, and no VM is.
    pub fn lose_vm_records(&self, pool: &str, lost: bool) -> ControlResult {
        self.change_pool("lose the records of", pool, |pool| {
            pool.records_missing = lost;
        })
    }

    /// Takes a pool away for good, with its hosts and VMs.
    pub fn remove_pool(&self, pool: &str) -> ControlResult {
        self.change("remove", Kind::Pool, pool, |cloud, id| {
            let vms = cloud.vms.all().filter(|vm| vm.pool == id);
            let vms: Vec<String> = vms.map(|vm| vm.id.clone()).collect();
            for vm in &vms {
                cloud.lose_vm(vm);
            }
            cloud.touch_pool(id);
            cloud.hosts.retain(|host| host.pool != id);
            cloud.pools.remove(id).map(|_| ())
        })
    }

    /// Restarts Xen Orchestra: streams and sockets end, connections are there at once, and what is in the
    /// pools is shown after [`Timings::load`]. Tokens stay.
    pub fn restart(&self) {
        let now = self.now();
        self.with(|cloud| {
            let all = cloud
                .pools
                .all()
                .filter(|pool| pool.connection == Connection::Connected);
            let all: Vec<String> = all.map(|pool| pool.id.clone()).collect();
            cloud.hang_up();
            for id in &all {
                if let Some(pool) = cloud.pools.get_mut(id) {
                    pool.loaded = false;
                }
                load(cloud, id, now);
                cloud.touch_pool(id);
            }
        });
    }

    /// Replaces members of the JSON of something (by its id) in every answer, to see how callers bear
    /// bad data. `null` takes a member away; an empty map makes it whole again.
    pub fn deform(&self, id: &str, members: Map<String, Value>) {
        self.with(|cloud| {
            cloud.deformed.insert(id.to_owned(), members);
            for kind in Kind::ALL {
                cloud.touch(kind, id);
            }
        });
    }

    /// Adds a user, or changes one; an id is drawn if there is none.
    pub fn set_user(&self, name: &str, user: User) {
        let drawn = self.world.random.uuid();
        self.with(|cloud| {
            let known = cloud.users.get(name).map(|user| user.id.clone());
            let mut user = user;
            if user.id.is_empty() {
                user.id = known.unwrap_or(drawn);
            }
            cloud.users.insert(name.to_owned(), user);
        });
    }

    /// Takes a user away; false if there was none.
    pub fn remove_user(&self, name: &str) -> bool {
        self.with(|cloud| cloud.users.remove(name).is_some())
    }

    /// Gives a user a token without an end.
    pub fn set_token(&self, token: &str, user: &str) {
        self.with(|cloud| cloud.tokens.insert(token.to_owned(), forever(token, user)));
    }

    /// Takes a token away; false if there was none.
    pub fn revoke_token(&self, token: &str) -> bool {
        self.with(|cloud| cloud.tokens.remove(token).is_some())
    }

    /// Takes all tokens away.
    pub fn revoke_tokens(&self) {
        self.with(|cloud| cloud.tokens.clear());
    }

    /// Tokens that are good now, each with the name of its user.
    pub fn tokens(&self) -> Vec<(String, String)> {
        let now = self.now();
        self.with(|cloud| {
            let good = cloud.tokens.values().filter(|token| token.lives(now));
            good.map(|token| (token.id.clone(), token.user.clone()))
                .collect()
        })
    }

    /// Changes how long things take from now on.
    pub fn set_timings(&self, change: impl FnOnce(&mut Timings)) {
        self.with(|cloud| change(&mut cloud.timings));
    }

    /// Changes how it is set up from now on.
    pub fn set_quirks(&self, change: impl FnOnce(&mut Quirks)) {
        self.with(|cloud| change(&mut cloud.quirks));
    }

    /// The heads of all requests so far, beyond ten thousand only of the last; those that a fault answered
    /// are not among them.
    pub fn heard(&self) -> Vec<Heard> {
        self.with(|cloud| cloud.heard.iter().cloned().collect())
    }

    /// How many streams of events and sockets are open.
    pub fn listening(&self) -> usize {
        self.with(|cloud| cloud.listening())
    }

    /// The provider ID of the Node of a VM, as it is now.
    pub fn provider_id(&self, vm: &str) -> ControlResult<String> {
        self.change("find", Kind::Vm, vm, |cloud, id| {
            let pool = &cloud.vms.get(id)?.pool;
            Some(format!("xenorchestra://{pool}/{id}"))
        })
    }

    /// The kubelet of a VM: its Node has the VM's name in lower case with dashes, its firmware tells the VM's
    /// id, and it knows its own addresses.
    pub fn kubelet(&self, vm: &str) -> ControlResult<KubeletSpec> {
        self.change("find", Kind::Vm, vm, |cloud, id| {
            let vm = cloud.vms.get(id)?;
            let name = vm.name.to_lowercase();
            let plain = |letter: char| letter.is_ascii_alphanumeric() || "-.".contains(letter);
            let name = name.replace(|letter| !plain(letter), "-");
            let addresses = guest::addresses(&vm.guest).into_values();
            Some(KubeletSpec {
                node_name: name.trim_matches(['-', '.']).to_owned(),
                machine_id: machine_id(id),
                system_uuid: id.to_owned(),
                own_addresses: addresses.filter_map(|it| it.parse().ok()).collect(),
                ..KubeletSpec::default()
            })
        })
    }

    /// The same on firmware that tells the id with swapped bytes.
    pub fn swapped_kubelet(&self, vm: &str) -> ControlResult<KubeletSpec> {
        let mut kubelet = self.kubelet(vm)?;
        kubelet.system_uuid = swapped(&kubelet.system_uuid);
        Ok(kubelet)
    }
}

/// Lets the objects of a pool be shown when they are loaded, and forgets earlier such plans.
fn load(cloud: &mut Cloud, pool: &str, now: jiff::Timestamp) {
    cloud
        .due
        .retain(|_, planned| !matches!(&planned.effect, Effect::Load { pool: it } if it == pool));
    let effect = Effect::Load {
        pool: pool.to_owned(),
    };
    cloud.plan(now, cloud.timings.load, Planned { task: None, effect });
}

/// A UUID with the bytes of its first three parts in the other order; what is none stays.
pub(super) fn swapped(id: &str) -> String {
    let Ok(id) = id.parse::<uuid::Uuid>() else {
        return id.to_owned();
    };
    uuid::Uuid::from_bytes(id.to_bytes_le()).to_string()
}
