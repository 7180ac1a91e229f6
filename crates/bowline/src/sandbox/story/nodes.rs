//! The chapters about nodes.

use anyhow::Result;
use bowline_core::GuardPolicy;
use bowline_simulator::sandbox::Words;

use super::Story;
use super::services::has_members;
use crate::sandbox::observer::{NodeView, Views};
use crate::sandbox::stage::SILENCE;

/// The foreign node's name and provider id: of a cloud that is not configured.
const STRANGER: &str = "stranger";
const STRANGER_ID: &str = "bigcorp://08d56bfe-40d0-4c68-a915-54f846c28c9e";

impl Story {
    pub(super) async fn nodes_join(&mut self) -> Result<()> {
        let count = self.nodes;
        self.begin(
            &format!("{count} machines boot, and their kubelets register; so does a foreign node"),
            &["Kubelets register with a taint that keeps pods away until Bowline has asked the cloud."],
        );
        for _ in 0..count {
            self.stage.boot_machine()?;
        }
        self.stage.join_stranger(STRANGER, Some(STRANGER_ID))?;
        let provider_id = self.stage.kind().provider_id;
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
        self.expect("the foreign node still waits for its own cloud", |views| {
            let stranger = views.nodes.get(STRANGER);
            stranger.is_some_and(|it| it.uninitialized)
        })
        .await;
        Ok(())
    }

    pub(super) async fn a_machine_stops(&mut self) -> Result<()> {
        let Some(name) = self.stage.machines().first().cloned() else {
            return Ok(());
        };
        let silence = SILENCE.as_secs();
        self.begin(
            &format!("{name} is powered off, and on again"),
            &[
                &format!(
                    "Its kubelet falls silent; after {silence} s the cluster calls the node \
                     NotReady, and Bowline"
                ),
                "asks the cloud why. A machine that is off is no reason to delete its Node.",
            ],
        );
        self.stage.stop(&name)?;
        self.expect("the node is kept, and tainted as shut down", |views| {
            let node = views.nodes.get(&name);
            node.is_some_and(|it| it.shut_down && it.ready != "True")
        })
        .await;
        self.stage.start(&name)?;
        self.expect("the taint goes when the node is Ready again", |views| {
            let node = views.nodes.get(&name);
            node.is_some_and(|it| !it.shut_down && it.ready == "True")
        })
        .await;
        Ok(())
    }

    /// For a cloud that cannot say whether a machine is off, or gone: it cannot be asked then.
    pub(super) async fn a_machine_falls_silent(&mut self) -> Result<()> {
        let Some(name) = self.stage.machines().first().cloned() else {
            return Ok(());
        };
        self.begin(
            &format!("{name} is powered off, and on again"),
            &[
                "The machine itself is what could be asked, so that nobody knows more than that it is",
                "silent. That is no reason to do anything to its Node.",
            ],
        );
        self.stage.stop(&name)?;
        self.expect("the node is NotReady", |views| {
            views.nodes.get(&name).is_some_and(|it| it.ready != "True")
        })
        .await;
        self.stage.start(&name)?;
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
            &format!("{name} is destroyed for good, and the foreign node's machine falls silent"),
            &[
                &format!(
                    "Bowline deletes a Node on proof only: it is NotReady and at least {age} s old, \
                     the cloud"
                ),
                &format!(
                    "said twice, {apart} s apart, that this very machine is gone, and answered a \
                     check between."
                ),
            ],
        );
        let before = self.observer.now();
        let stranger = before.nodes.get(STRANGER).cloned().unwrap_or_default();
        self.stage.silence_strangers();
        self.stage.destroy(&name)?;
        self.expect(
            "the Node goes, once two looks and a check between them have proven it",
            |views| !views.nodes.contains_key(&name),
        )
        .await;
        if let Some(words) = balancer {
            let machines = self.stage.machines().to_vec();
            self.expect(
                &format!("{name} is no longer behind the {}", words.name),
                move |views| has_members(views, &machines),
            )
            .await;
        }
        self.expect(
            "the foreign node is NotReady, and nobody touched it",
            move |views| {
                views.nodes.get(STRANGER).is_some_and(|view| {
                    view.ready == "Unknown"
                        && view.content == stranger.content
                        && view.uninitialized
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
    all.filter(|(name, _)| *name != STRANGER)
        .map(|(_, view)| view)
}
