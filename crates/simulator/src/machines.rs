//! The machines of a world, as far as clouds and kubelets both care: which exist and which run.
//!
//! A simulated cloud writes here when a machine is made, stopped, renamed or destroyed; the
//! kubelet fleet watches, so that a kubelet falls silent when its machine does.

use std::collections::BTreeMap;
use std::sync::Arc;

use tokio::sync::watch;

/// Whether a machine runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Power {
    /// It runs, and so does its kubelet.
    Running,
    /// It exists but does not run.
    Off,
}

/// The shared register of machines, by the cloud's id of each (`<cloud>://<id>`).
#[derive(Clone, Debug)]
pub struct Machines(Arc<watch::Sender<BTreeMap<String, Power>>>);

impl Default for Machines {
    fn default() -> Self {
        Self(Arc::new(watch::Sender::new(BTreeMap::new())))
    }
}

impl Machines {
    /// Notes that the machine exists and whether it runs.
    pub fn set(&self, id: &str, power: Power) {
        self.0
            .send_if_modified(|all| all.insert(id.to_owned(), power) != Some(power));
    }

    /// Notes that the machine is no more.
    pub fn destroy(&self, id: &str) {
        self.0.send_if_modified(|all| all.remove(id).is_some());
    }

    /// Whether the machine runs; none if it does not exist.
    pub fn power(&self, id: &str) -> Option<Power> {
        self.0.borrow().get(id).copied()
    }

    /// Sees every later change.
    pub fn subscribe(&self) -> watch::Receiver<BTreeMap<String, Power>> {
        self.0.subscribe()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_watcher_sees_only_real_changes() {
        let machines = Machines::default();
        let mut seen = machines.subscribe();
        machines.set("demo://1", Power::Running);
        assert!(seen.has_changed().unwrap());
        seen.mark_unchanged();
        machines.set("demo://1", Power::Running);
        assert!(!seen.has_changed().unwrap());
        machines.destroy("demo://1");
        assert!(seen.has_changed().unwrap());
        assert_eq!(machines.power("demo://1"), None);
    }
}
