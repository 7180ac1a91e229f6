//! The chapters about nodes.

use anyhow::Result;
use bowline_core::GuardPolicy;
use bowline_simulator::sandbox::Words;

use super::Story;
use super::services::has_targets;
use crate::sandbox::harness::SILENCE;
use crate::sandbox::observer::{NodeView, Views};

/// The foreign node's name and provider id: of a cloud that is not configured.
const FOREIGN: &str = "stranger";
const FOREIGN_ID: &str = "bigcorp://08d56bfe-40d0-4c68-a915-54f846c28c9e";

impl Story {
    pub(super) async fn nodes_join(&mut self) -> Result<()> {
        let count = self.nodes;
        self.begin(
            &format!("{count} machines boot, and their kubelets register; so does a foreign node"),
            &["Kubelets register with a taint that keeps pods away until Bowline has asked the cloud."],
        );
        for _ in 0..count {
            self.harness.boot_machine()?;
        }
        self.harness.join_foreign(FOREIGN, Some(FOREIGN_ID))?;
        let provider_id = self.harness.kind().provider_id;
        self.expect(
            "every node gets its provider id, labels and addresses, and loses the taint",
            move |views| {
                let complete = |it: &NodeView| {
                    it.provider_id.starts_with(provider_id) && it.facts.contains("IP ")
                };
                ours(views).count() == count
                    && ours(views).all(|it| !it.uninitialized && complete(it))
            },
        )
        .await;
        self.expect("every node is Ready: pods can be scheduled", move |views| {
            ours(views).filter(|it| it.ready == "True").count() == count
        })
        .await;
        self.expect(
            "the foreign node stays uninitialized: its cloud is not configured",
            |views| {
                let foreign = views.nodes.get(FOREIGN);
                foreign.is_some_and(|it| it.uninitialized)
            },
        )
        .await;
        Ok(())
    }

    pub(super) async fn a_machine_stops(&mut self) -> Result<()> {
        let Some(name) = self.harness.machines().first().cloned() else {
            return Ok(());
        };
        let silence = SILENCE.as_secs();
        self.begin(
            &format!("{name} is powered off, and on again"),
            &[
                &format!(
                    "Its kubelet stops reporting; after {silence} s the node is NotReady, and \
                     Bowline asks"
                ),
                "the cloud. A machine that is off is no reason to delete its Node.",
            ],
        );
        self.harness.stop(&name)?;
        self.expect("the node is kept, and tainted as shut down", |views| {
            let node = views.nodes.get(&name);
            node.is_some_and(|it| it.shut_down && it.ready != "True")
        })
        .await;
        self.harness.start(&name)?;
        self.expect(
            "the taint is removed when the node is Ready again",
            |views| {
                let node = views.nodes.get(&name);
                node.is_some_and(|it| !it.shut_down && it.ready == "True")
            },
        )
        .await;
        Ok(())
    }

    /// For a cloud that cannot say whether a machine is off, or gone: it cannot be asked then.
    pub(super) async fn a_machine_falls_silent(&mut self) -> Result<()> {
        let Some(name) = self.harness.machines().first().cloned() else {
            return Ok(());
        };
        self.begin(
            &format!("{name} is powered off, and on again"),
            &[
                "Only the machine itself could be asked, and it does not answer. That proves nothing:",
                "its Node stays as it is.",
            ],
        );
        self.harness.stop(&name)?;
        self.expect("the node is NotReady", |views| {
            views.nodes.get(&name).is_some_and(|it| it.ready != "True")
        })
        .await;
        self.harness.start(&name)?;
        self.expect("it was kept, and is Ready again", |views| {
            let node = views.nodes.get(&name);
            node.is_some_and(|it| !it.shut_down && it.ready == "True")
        })
        .await;
        Ok(())
    }

    pub(super) async fn a_machine_is_destroyed(&mut self, balancer: Option<Words>) -> Result<()> {
        let name = format!("worker-{}", self.nodes);
        let guard = GuardPolicy::default();
        let (age, apart) = (guard.node_age.as_secs(), guard.looks_apart.as_secs());
        self.begin(
            &format!("{name} is destroyed for good, and the foreign node's machine stops"),
            &[
                &format!(
                    "Bowline deletes a Node on proof only: it is NotReady and at least {age} s old, \
                     the cloud"
                ),
                &format!(
                    "reported twice, {apart} s apart, that this very machine is gone, and answered \
                     a check in between."
                ),
            ],
        );
        let before = self.observer.now();
        let foreign = before.nodes.get(FOREIGN).cloned().unwrap_or_default();
        self.harness.stop_foreign();
        self.harness.destroy(&name)?;
        self.expect(
            "the Node is deleted, after two looks and a check between them have proven it",
            |views| !views.nodes.contains_key(&name),
        )
        .await;
        if let Some(words) = balancer {
            let machines = self.harness.machines().to_vec();
            self.expect(
                &format!("{name} is no longer behind the {}", words.name),
                move |views| has_targets(views, &machines),
            )
            .await;
        }
        self.expect(
            "the foreign node is NotReady, and Bowline has not changed it",
            move |views| {
                views.nodes.get(FOREIGN).is_some_and(|view| {
                    view.ready == "Unknown" && view.content == foreign.content && view.uninitialized
                })
            },
        )
        .await;
        let left = self.nodes - 1;
        self.expect("all other nodes are as they were", move |views| {
            ours(views).filter(|it| it.ready == "True").count() == left
        })
        .await;
        Ok(())
    }
}

/// The nodes of the simulated cloud.
fn ours(views: &Views) -> impl Iterator<Item = &NodeView> {
    let all = views.nodes.iter();
    all.filter(|(name, _)| *name != FOREIGN)
        .map(|(_, view)| view)
}
