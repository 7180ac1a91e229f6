//! Watches the sandbox's cluster as a user would, tells what happens, and keeps the latest view.

use std::collections::BTreeMap;
use std::pin::pin;
use std::sync::Arc;

use bowline_controllers::Stop;
use bowline_core::{SHUTDOWN_TAINT, UNINITIALIZED_TAINT};
use futures::StreamExt;
use k8s_openapi::api::core::v1::{Event, Node};
use kube::runtime::watcher::{self, Event as Change};
use kube::runtime::{WatchStreamExt, watcher as watch_stream};
use kube::{Api, ResourceExt};
use tokio::sync::watch;

use super::display::{Display, Mark};

/// Above this many nodes only numbers are shown, not every single change.
const NAMED_NODES: usize = 12;

/// A node as the story sees it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct View {
    /// Whether it still waits for its cloud.
    pub uninitialized: bool,
    /// Whether it carries the shutdown taint.
    pub shut_down: bool,
    /// The status of its Ready condition.
    pub ready: String,
    /// Its provider id.
    pub provider_id: String,
    /// Its type, zone and addresses, for people.
    pub facts: String,
    /// Everything a controller could have written: spec, labels, annotations, addresses.
    pub content: String,
}

/// All nodes by name.
pub(super) type Views = BTreeMap<String, View>;

/// The latest view, and a way to wait for a change of it.
#[derive(Clone)]
pub(super) struct Observer(Arc<watch::Sender<Views>>);

impl Observer {
    /// Starts to watch until `stop`.
    pub(super) fn start(
        client: kube::Client,
        display: Arc<Display>,
        nodes: usize,
        stop: Stop,
    ) -> Self {
        let observer = Self(Arc::new(watch::Sender::new(Views::new())));
        let quiet = nodes > NAMED_NODES;
        tokio::spawn({
            let (this, client, display, stop) = (
                observer.clone(),
                client.clone(),
                display.clone(),
                stop.clone(),
            );
            async move { this.watch_nodes(client, &display, quiet, stop).await }
        });
        tokio::spawn(watch_events(client, display, stop));
        observer
    }

    /// Waits until `condition` holds and gives what it gives.
    pub(super) async fn until<T>(&self, condition: impl Fn(&Views) -> Option<T>) -> T {
        let mut views = self.0.subscribe();
        loop {
            if let Some(found) = condition(&views.borrow_and_update()) {
                return found;
            }
            // The sender lives in `self`, so there is always a next change to wait for.
            let _ = views.changed().await;
        }
    }

    /// The nodes now.
    pub(super) fn now(&self) -> Views {
        self.0.borrow().clone()
    }

    async fn watch_nodes(&self, client: kube::Client, display: &Display, quiet: bool, stop: Stop) {
        let api: Api<Node> = Api::all(client);
        let mut changes = pin!(watch_stream(api, watcher::Config::default()).default_backoff());
        while let Some(Some(change)) = stop.unless_given(changes.next()).await {
            let (name, view) = match change {
                Ok(Change::Apply(node) | Change::InitApply(node)) => {
                    (node.name_any(), Some(view(&node)))
                }
                Ok(Change::Delete(node)) => (node.name_any(), None),
                Ok(Change::Init | Change::InitDone) | Err(_) => continue,
            };
            let before = self.0.borrow().get(&name).cloned();
            if !quiet {
                for (mark, text) in differences(&name, before.as_ref(), view.as_ref()) {
                    display.line(mark, &text);
                }
            }
            self.0.send_modify(|views| match view {
                Some(view) => {
                    views.insert(name, view);
                }
                None => {
                    views.remove(&name);
                }
            });
        }
    }
}

/// Shows the manager's warnings and announcements; routine events stay in `kubectl get events`.
async fn watch_events(client: kube::Client, display: Arc<Display>, stop: Stop) {
    let api: Api<Event> = Api::all(client);
    let stream = watch_stream(api, watcher::Config::default()).default_backoff();
    let mut changes = pin!(stream.applied_objects());
    while let Some(Some(change)) = stop.unless_given(changes.next()).await {
        let Ok(event) = change else { continue };
        let reason = event.reason.unwrap_or_default();
        let warning = event.type_.as_deref() == Some("Warning");
        if warning || reason == "DeletingNode" {
            let mark = if warning {
                Mark::Warning
            } else {
                Mark::Happened
            };
            let text = event.message.unwrap_or_default();
            display.line(mark, &format!("event {reason}: {text}"));
        }
    }
}

fn view(node: &Node) -> View {
    let spec = node.spec.clone().unwrap_or_default();
    let status = node.status.clone().unwrap_or_default();
    let has = |key: &str| spec.taints.iter().flatten().any(|taint| taint.key == key);
    let label = |key: &str| node.labels().get(key).cloned().unwrap_or_default();
    let addresses: Vec<String> = status
        .addresses
        .iter()
        .flatten()
        .filter(|address| address.type_ != "Hostname")
        .map(|address| format!("{} {}", address.type_, address.address))
        .collect();
    let ready = status
        .conditions
        .iter()
        .flatten()
        .find(|condition| condition.type_ == "Ready");
    View {
        uninitialized: has(UNINITIALIZED_TAINT),
        shut_down: has(SHUTDOWN_TAINT),
        ready: ready
            .map(|condition| condition.status.clone())
            .unwrap_or_default(),
        provider_id: spec.provider_id.clone().unwrap_or_default(),
        facts: format!(
            "{}, {}, {}",
            label("node.kubernetes.io/instance-type"),
            label("topology.kubernetes.io/zone"),
            addresses.join(", ")
        ),
        content: format!(
            "{:?} {:?} {:?}",
            spec.provider_id,
            node.labels(),
            status.addresses.unwrap_or_default()
        ),
    }
}

/// What changed, in words.
fn differences(name: &str, before: Option<&View>, after: Option<&View>) -> Vec<(Mark, String)> {
    let mut lines = Vec::new();
    let mut tell = |mark, text: String| lines.push((mark, format!("{name} {text}")));
    match (before, after) {
        (None, Some(new)) if new.uninitialized => {
            tell(
                Mark::Happened,
                "registered, tainted as uninitialized".into(),
            );
        }
        (None, Some(_)) => tell(Mark::Happened, "registered".into()),
        (Some(old), Some(new)) => {
            if old.uninitialized && !new.uninitialized {
                tell(
                    Mark::Good,
                    format!("initialised: {} ({})", new.provider_id, new.facts),
                );
            }
            if old.ready != new.ready {
                let state = if new.ready == "True" {
                    "Ready"
                } else {
                    "NotReady"
                };
                let was = if old.ready == "True" {
                    "Ready"
                } else {
                    "NotReady"
                };
                if state != was {
                    tell(Mark::Happened, format!("is {state}"));
                }
            }
            if old.shut_down != new.shut_down {
                let change = if new.shut_down { "got" } else { "lost" };
                tell(Mark::Good, format!("{change} the shutdown taint"));
            }
        }
        (Some(_), None) => tell(Mark::Happened, "is gone".into()),
        (None, None) => {}
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_read_as_sentences() {
        let fresh = View {
            uninitialized: true,
            ready: "False".into(),
            ..View::default()
        };
        let done = View {
            provider_id: "demo://1".into(),
            facts: "c2, z1, InternalIP 10.0.0.1".into(),
            ready: "True".into(),
            ..View::default()
        };
        let off = View {
            shut_down: true,
            ready: "Unknown".into(),
            ..done.clone()
        };
        let told = |before, after| -> Vec<String> {
            differences("w", before, after)
                .into_iter()
                .map(|(_, text)| text)
                .collect()
        };
        assert_eq!(
            told(None, Some(&fresh)),
            ["w registered, tainted as uninitialized"]
        );
        assert_eq!(
            told(Some(&fresh), Some(&done)),
            [
                "w initialised: demo://1 (c2, z1, InternalIP 10.0.0.1)",
                "w is Ready"
            ]
        );
        assert_eq!(
            told(Some(&done), Some(&off)),
            ["w is NotReady", "w got the shutdown taint"]
        );
        assert_eq!(told(Some(&off), None), ["w is gone"]);
        assert_eq!(told(Some(&done), Some(&done)), [""; 0]);
    }
}
