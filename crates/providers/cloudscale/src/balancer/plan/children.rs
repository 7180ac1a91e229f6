//! Listeners and monitors.

use bowline_core::{Impact, StepId};

use super::builder::{Action, new, seen};
use super::{LISTENER, MONITOR, Planner, PoolDiff, SeenPool, note};
use crate::api::{Listener, Monitor};
use crate::balancer::desire::WantedMonitor;

impl<'a> Planner<'a> {
    /// Listeners without a pool that hold a port we want; the others are somebody's.
    pub(super) fn loose_listeners(&mut self) {
        let loose = self.there.map_or(&[][..], |there| &there.loose);
        for listener in loose {
            let wanted = &self.wanted.pools;
            if wanted.iter().any(|pool| pool.listener.is(listener)) {
                let why = "it has no pool and holds a port of the Service";
                // One that has a pool is somebody's, on a load balancer that was adopted.
                let (why, impact) = match listener.pool {
                    None => (why, Impact::None),
                    Some(_) => ("it holds a port of the Service", Impact::Interrupts),
                };
                self.delete_listener(listener, why, impact);
            }
        }
    }

    pub(super) fn delete_listener(
        &mut self,
        listener: &Listener,
        why: &str,
        impact: Impact,
    ) -> StepId {
        if let Some(step) = self.deleted.get(&listener.uuid) {
            return *step;
        }
        let object = seen(LISTENER, &listener.name, listener.uuid);
        let why = note(impact, Some(why), &self.base);
        let action = Action::DeleteListener(listener.uuid);
        let step = self.builder.delete(object, &why, action);
        self.deleted.insert(listener.uuid, step);
        step
    }

    /// Everything on that load balancer that listens.
    fn listeners(&self) -> Vec<&'a Listener> {
        let of_pools = self.seen_pools().iter().flat_map(|it| &it.listeners);
        let loose = self.there.iter().flat_map(|there| &there.loose);
        of_pools.chain(loose).collect()
    }

    /// What of a pool does not suit the members that are to come goes before them: listeners of
    /// other ports if these come at another port of the nodes, and a monitor that is replaced
    /// anyway if it asks for more than a connection, which they would not answer where it is not
    /// for them. Without one, all members are up.
    pub(super) fn unfit(&mut self, diff: &PoolDiff<'a>) {
        let Some(there) = diff.there else {
            return;
        };
        let wanted = diff.wanted;
        if wanted.brings_node_port(there) {
            self.other_listeners(diff);
        }
        if wanted.brings_monitor_port(there) && kept_monitor(&wanted.monitor, Some(there)).is_none()
        {
            let suits_all = |it: &&Monitor| matches!(it.kind.as_str(), "tcp" | "ping");
            for monitor in there.monitors.iter().filter(|it| !suits_all(it)) {
                self.delete_monitor(diff, monitor);
            }
        }
    }

    /// The listeners of the pool that are not the wanted one go.
    fn other_listeners(&mut self, diff: &PoolDiff<'a>) {
        let wanted = &diff.wanted.listener;
        let own: &[Listener] = diff.there.map_or(&[], |there| &there.listeners);
        for listener in own.iter().filter(|listener| !wanted.is(listener)) {
            let why = "its port is not a port of the Service";
            self.delete_listener(listener, why, Impact::Interrupts);
        }
    }

    pub(super) fn listener(&mut self, diff: &PoolDiff<'a>) {
        let wanted = &diff.wanted.listener;
        let own: &[Listener] = diff.there.map_or(&[], |there| &there.listeners);
        let kept = own.iter().find(|listener| wanted.is(listener));
        self.other_listeners(diff);
        if kept.is_some() {
            return;
        }
        let mut needs = diff.needs.clone();
        let holders = self.listeners().into_iter().filter(|it| wanted.is(it));
        for holder in holders.collect::<Vec<_>>() {
            let why = "its port moves to another pool";
            needs.push(self.delete_listener(holder, why, Impact::Interrupts));
        }
        let after_delete = needs.len() > diff.needs.len();
        let body = wanted.body(&self.wanted.child_tags);
        let why = note(Impact::None, None, &needs);
        let action = Action::CreateListener {
            pool: diff.pool,
            body: body.clone(),
            after_delete,
        };
        let object = new(LISTENER, &wanted.name);
        self.builder.create(object, &body, &why, action);
    }

    fn delete_monitor(&mut self, diff: &PoolDiff<'a>, monitor: &Monitor) -> StepId {
        if let Some(step) = self.deleted.get(&monitor.uuid) {
            return *step;
        }
        let object = seen(MONITOR, &diff.wanted.name, monitor.uuid);
        let why = note(Impact::InPlace, Some("it cannot be changed"), &diff.needs);
        let action = Action::DeleteMonitor(monitor.uuid);
        let step = self.builder.delete(object, &why, action);
        self.deleted.insert(monitor.uuid, step);
        step
    }

    /// The monitor is replaced where it cannot be changed.
    pub(super) fn monitor(&mut self, diff: &PoolDiff<'a>) {
        let wanted = &diff.wanted.monitor;
        let own: &[Monitor] = diff.there.map_or(&[], |there| &there.monitors);
        let kept = kept_monitor(wanted, diff.there);
        let mut needs = diff.needs.clone();
        for monitor in own {
            if kept.is_some_and(|kept| kept.uuid == monitor.uuid) {
                continue;
            }
            needs.push(self.delete_monitor(diff, monitor));
        }
        if kept.is_some() {
            return;
        }
        let after_delete = needs.len() > diff.needs.len();
        let body = wanted.body(&self.wanted.child_tags);
        let why = note(Impact::None, None, &needs);
        let action = Action::CreateMonitor {
            pool: diff.pool,
            body: body.clone(),
            after_delete,
        };
        let object = new(MONITOR, &diff.wanted.name);
        self.builder.create(object, &body, &why, action);
    }
}

pub(super) fn kept_monitor<'a>(
    wanted: &WantedMonitor,
    there: Option<&'a SeenPool>,
) -> Option<&'a Monitor> {
    there?.monitors.iter().find(|it| wanted.can_become(it))
}

impl WantedMonitor {
    /// Whether a monitor has what cannot be changed: its type, the version of HTTP, and that it
    /// asks for no host if none is wanted.
    pub(super) fn can_become(&self, monitor: &Monitor) -> bool {
        let Some(http) = &self.http else {
            return monitor.kind == self.kind;
        };
        let seen = monitor.http.clone().unwrap_or_default();
        let version = seen.version.as_deref().unwrap_or("1.1");
        monitor.kind == self.kind
            && version == http.version
            && (http.host.is_some() || seen.host.is_none_or(|host| host.is_empty()))
    }
}
