//! Calls that go wrong.

use std::time::Duration;

use bowline_simulator::faults::{Action, Rule};

use super::{PATIENCE, REAL_PATIENCE, TestCluster};
use crate::cache::expired;
use crate::run::is_real;

impl TestCluster {
    /// Lets calls go wrong. On a real server only the manager's can.
    pub fn fault(&self, rule: Rule) -> Fault<'_> {
        let rule = self.cluster.names().rule(rule);
        Fault(self, self.world.faults.add(rule).unwrap())
    }

    /// Lets changes of Services happen that no manager sees one by one: its watch breaks before, and
    /// has to begin with a new list when they are done.
    pub async fn unseen(&self, changes: impl AsyncFnOnce()) {
        if !self.is_running() {
            return changes().await;
        }
        let action = Action::Events {
            events: vec![expired()],
        };
        let expired = Rule::new(action)
            .server("kubernetes")
            .on("GET", "/api/v1/services");
        let fault = self.fault(expired);
        self.world.faults.cut_streams("kubernetes");
        fault.struck(1).await;
        changes().await;
        let Fault(_, name) = fault;
        self.world.faults.remove(&name);
    }
}

/// A fault on the bench.
pub struct Fault<'a>(&'a TestCluster, String);

impl Fault<'_> {
    /// Waits until it has struck so many calls; a slow one is on its way then, and not written down.
    pub async fn struck(&self, times: u64) {
        let Self(bench, name) = self;
        let patience = if is_real() { REAL_PATIENCE } else { PATIENCE };
        let struck = bench.world.faults.struck(name, times);
        let is_struck = tokio::time::timeout(patience, struck).await.is_ok();
        assert!(
            is_struck,
            "there were never {times} calls for the fault {name}"
        );
    }
}

/// A rule on the API server that answers with that status.
pub fn refuse(code: u16, method: &str, path: &str) -> Rule {
    Rule::new(status(code))
        .server("kubernetes")
        .on(method, path)
}

/// A rule on the API server that lets calls wait before they are handled, long enough for
/// something else to happen meanwhile.
pub fn slow(method: &str, path: &str) -> Rule {
    let wait = Duration::from_secs(if is_real() { 4 } else { 1 });
    let action = Action::Delay {
        least: wait,
        most: wait,
    };
    Rule::new(action).server("kubernetes").on(method, path)
}

/// One answer of that status.
pub fn status(code: u16) -> Action {
    let (headers, body) = Default::default();
    Action::Status {
        code,
        headers,
        body,
    }
}
