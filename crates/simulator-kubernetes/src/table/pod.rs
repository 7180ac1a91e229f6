//! The row of a pod: its status is reported by its containers.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::{age::since, cells::or};
use crate::object::{list, text};

/// Marks a row whose pod has ended.
pub(super) fn conditions(pod: &Value) -> Option<Value> {
    let (reason, message) = match text(pod, "/status/phase") {
        "Succeeded" => ("Succeeded", "The pod has completed successfully."),
        "Failed" => ("Failed", "The pod failed."),
        _ => return None,
    };
    Some(json!([{ "type": "Completed", "status": "True", "reason": reason, "message": message }]))
}

pub(super) fn cells(pod: &Value, name: &str, age: String, now: Timestamp) -> Vec<String> {
    let state = State::of(pod);
    let restarts = match state.last_restart {
        Some(moment) if state.restarts != 0 => {
            format!("{} ({} ago)", state.restarts, since(moment, now))
        }
        _ => state.restarts.to_string(),
    };
    let address = list(pod, "/status/podIPs").first();
    let none = |text: &str| or(text, "<none>").to_owned();
    vec![
        name.to_owned(),
        format!("{}/{}", state.ready, state.containers),
        state.reason,
        restarts,
        age,
        none(address.map_or("", |address| text(address, "/ip"))),
        none(text(pod, "/spec/nodeName")),
        none(text(pod, "/status/nominatedNodeName")),
        gates(pod),
    ]
}

fn condition<'a>(pod: &'a Value, kind: &str) -> Option<&'a Value> {
    let mut conditions = list(pod, "/status/conditions").iter();
    conditions.find(|condition| condition["type"] == kind)
}

fn is_true(pod: &Value, kind: &str) -> bool {
    condition(pod, kind).is_some_and(|condition| condition["status"] == "True")
}

fn gates(pod: &Value) -> String {
    let gates = list(pod, "/spec/readinessGates");
    if gates.is_empty() {
        return "<none>".to_owned();
    }
    let met = gates
        .iter()
        .filter(|gate| is_true(pod, text(gate, "/conditionType")))
        .count();
    format!("{met}/{}", gates.len())
}

/// What a terminated or waiting container says.
fn ended(terminated: &Value) -> String {
    match (text(terminated, "/reason"), terminated["signal"].as_i64()) {
        ("", Some(signal)) if signal != 0 => format!("Signal:{signal}"),
        ("", _) => format!("ExitCode:{}", terminated["exitCode"].as_i64().unwrap_or(0)),
        (reason, _) => reason.to_owned(),
    }
}

#[derive(Default)]
struct State<'a> {
    reason: String,
    ready: usize,
    containers: usize,
    restarts: i64,
    last_restart: Option<&'a Value>,
}

impl<'a> State<'a> {
    fn of(pod: &'a Value) -> Self {
        let (phase, given) = (text(pod, "/status/phase"), text(pod, "/status/reason"));
        let mut state = Self {
            reason: or(given, phase).to_owned(),
            ..Self::default()
        };
        if condition(pod, "PodScheduled").is_some_and(|c| c["reason"] == "SchedulingGated") {
            "SchedulingGated".clone_into(&mut state.reason);
        }
        let sidecars = list(pod, "/spec/initContainers")
            .iter()
            .filter(|container| is_sidecar(container));
        state.containers = list(pod, "/spec/containers").len() + sidecars.count();
        let initializing = state.initialize(pod);
        if !initializing || is_true(pod, "Initialized") {
            state.run(pod);
        }
        if pod
            .pointer("/metadata/deletionTimestamp")
            .is_some_and(Value::is_string)
        {
            if given == "NodeLost" {
                "Unknown".clone_into(&mut state.reason);
            } else if phase != "Succeeded" && phase != "Failed" {
                "Terminating".clone_into(&mut state.reason);
            }
        }
        state
    }

    /// Reads the init containers; true while the pod waits for one.
    fn initialize(&mut self, pod: &'a Value) -> bool {
        let declared = list(pod, "/spec/initContainers");
        for (index, status) in list(pod, "/status/initContainerStatuses")
            .iter()
            .enumerate()
        {
            self.count_restarts(status);
            let sidecar = declared
                .iter()
                .any(|c| c["name"] == status["name"] && is_sidecar(c));
            let terminated = status.pointer("/state/terminated");
            if terminated.is_some_and(|t| t["exitCode"].as_i64().unwrap_or(0) == 0) {
                continue;
            }
            if sidecar && status["started"] == true {
                self.ready += usize::from(status["ready"] == true);
                continue;
            }
            let waiting = text(status, "/state/waiting/reason");
            self.reason = match terminated {
                Some(terminated) => format!("Init:{}", ended(terminated)),
                None if !waiting.is_empty() && waiting != "PodInitializing" => {
                    format!("Init:{waiting}")
                }
                None => format!("Init:{index}/{}", declared.len()),
            };
            return true;
        }
        false
    }

    /// Reads the containers: the first that has something to say wins.
    fn run(&mut self, pod: &'a Value) {
        self.restarts = 0;
        self.last_restart = None;
        let sidecars = list(pod, "/spec/initContainers").iter();
        for sidecar in sidecars.filter(|container| is_sidecar(container)) {
            let mut statuses = list(pod, "/status/initContainerStatuses").iter();
            if let Some(status) = statuses.find(|status| status["name"] == sidecar["name"]) {
                self.count_restarts(status);
            }
        }
        let (mut running, mut failure) = (false, String::new());
        for status in list(pod, "/status/containerStatuses").iter().rev() {
            self.count_restarts(status);
            let waiting = text(status, "/state/waiting/reason");
            if !waiting.is_empty() {
                waiting.clone_into(&mut self.reason);
            } else if let Some(terminated) = status.pointer("/state/terminated") {
                self.reason = ended(terminated);
                if terminated["exitCode"].as_i64().unwrap_or(0) != 0 {
                    self.reason.clone_into(&mut failure);
                }
            } else if status["ready"] == true && status.pointer("/state/running").is_some() {
                running = true;
                self.ready += 1;
            }
        }
        if self.reason == "Completed" {
            if running && is_true(pod, "Ready") {
                "Running".clone_into(&mut self.reason);
            } else if !failure.is_empty() {
                self.reason = failure;
            } else if running {
                "NotReady".clone_into(&mut self.reason);
            }
        }
    }

    fn count_restarts(&mut self, status: &'a Value) {
        self.restarts += status["restartCount"].as_i64().unwrap_or(0);
        if let Some(finished) = status.pointer("/lastState/terminated/finishedAt")
            // Times are written alike: their texts compare.
            && finished.as_str() > self.last_restart.and_then(Value::as_str)
        {
            self.last_restart = Some(finished);
        }
    }
}

fn is_sidecar(container: &Value) -> bool {
    container["restartPolicy"] == "Always"
}
