//! The story the sandbox plays, and what it expects at every turn.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use bowline_core::GuardPolicy;
use tokio::time::{Instant, MissedTickBehavior};

use super::display::{Display, Mark};
use super::observer::{Observer, View, Views};
use super::stage::{SILENCE, Stage};

/// How long a single expectation may take. The slowest is the deletion, which waits for the
/// kubelet's silence (10 s here), the node's least age (60 s) and two looks (10 s apart).
const PATIENCE: Duration = Duration::from_secs(180);
/// How often the live line is redrawn.
const REDRAW: Duration = Duration::from_secs(1);

/// The foreign node's name and provider id: of a cloud that is not configured.
const STRANGER: &str = "stranger";
const STRANGER_ID: &str = "bigcorp://08d56bfe-40d0-4c68-a915-54f846c28c9e";

/// Plays the story and judges it.
pub(super) struct Story {
    stage: Stage,
    observer: Observer,
    display: Arc<Display>,
    nodes: usize,
    failures: usize,
}

impl Story {
    /// A story on that stage.
    pub(super) fn new(
        stage: Stage,
        observer: Observer,
        display: Arc<Display>,
        nodes: usize,
    ) -> Self {
        Self {
            stage,
            observer,
            display,
            nodes,
            failures: 0,
        }
    }

    /// Plays it from beginning to end, or until the manager ends, which it should not; gives how
    /// many expectations failed.
    pub(super) async fn play(&mut self) -> Result<usize> {
        let ended = self.stage.manager_ended();
        tokio::select! {
            biased;
            error = ended => Err(error),
            played = self.chapters() => played,
        }
    }

    /// What the story was played on.
    pub(super) fn into_stage(self) -> Stage {
        self.stage
    }

    async fn chapters(&mut self) -> Result<usize> {
        self.nodes_join().await?;
        self.a_machine_stops().await?;
        self.a_machine_is_destroyed().await?;
        self.summary();
        Ok(self.failures)
    }

    async fn nodes_join(&mut self) -> Result<()> {
        let count = self.nodes;
        self.display.chapter(&format!(
            "1. {count} machines boot, and their kubelets register; so does a foreign node"
        ));
        self.display.note(
            "Kubelets register with a taint that keeps pods away until Bowline has asked the cloud.",
        );
        self.stage.boot_machines(count)?;
        self.stage.join_stranger(STRANGER, STRANGER_ID)?;
        let ours = move |views: &Views| -> Vec<View> {
            views
                .iter()
                .filter(|(name, _)| *name != STRANGER)
                .map(|(_, v)| v.clone())
                .collect()
        };
        self.expect(
            "every node gets its provider id, labels and addresses, and loses the taint",
            move |views| {
                let ours = ours(views);
                ours.len() == count && ours.iter().all(|v| !v.uninitialized && is_complete(v))
            },
        )
        .await;
        self.expect("every node is Ready: pods can be scheduled", move |views| {
            let ours = ours(views);
            ours.len() == count && ours.iter().all(|view| view.ready == "True")
        })
        .await;
        self.expect("the foreign node still waits for its own cloud", |views| {
            views.get(STRANGER).is_some_and(|view| view.uninitialized)
        })
        .await;
        Ok(())
    }

    async fn a_machine_stops(&mut self) -> Result<()> {
        let name = self.stage.machine(0);
        self.display
            .chapter(&format!("2. {name} is powered off, and on again"));
        self.display.note(&format!(
            "Its kubelet falls silent; after {} s the cluster calls the node NotReady, and Bowline",
            SILENCE.as_secs()
        ));
        self.display
            .note("asks the cloud why. A machine that is off is no reason to delete its Node.");
        self.stage.stop(&name)?;
        let watched = name.clone();
        self.expect("the node is kept, and tainted as shut down", move |views| {
            views
                .get(&watched)
                .is_some_and(|view| view.shut_down && view.ready != "True")
        })
        .await;
        self.stage.start(&name)?;
        self.expect(
            "the taint goes when the node is Ready again",
            move |views| {
                views
                    .get(&name)
                    .is_some_and(|view| !view.shut_down && view.ready == "True")
            },
        )
        .await;
        Ok(())
    }

    async fn a_machine_is_destroyed(&mut self) -> Result<()> {
        let name = self.stage.machine(self.nodes.saturating_sub(1));
        self.display.chapter(&format!(
            "3. {name} is destroyed for good, and the foreign node's machine falls silent"
        ));
        let guard = GuardPolicy::default();
        self.display.note(&format!(
            "Bowline deletes a Node on proof only: it is NotReady and at least {} s old, the cloud",
            guard.node_age.as_secs()
        ));
        self.display.note(&format!(
            "said twice, {} s apart, that this very machine is gone, and answered a check between.",
            guard.looks_apart.as_secs()
        ));
        let stranger = self
            .observer
            .now()
            .get(STRANGER)
            .cloned()
            .unwrap_or_default();
        self.stage.silence_stranger();
        self.stage.destroy(&name)?;
        self.expect(
            "the Node goes, once two looks and a check between them have proven it",
            move |views| !views.contains_key(&name),
        )
        .await;
        self.expect(
            "the foreign node is NotReady, and nobody touched it",
            move |views| {
                views.get(STRANGER).is_some_and(|view| {
                    view.ready == "Unknown"
                        && view.content == stranger.content
                        && view.uninitialized
                })
            },
        )
        .await;
        let left = self.nodes - 1;
        self.expect("all other nodes are as they were", move |views| {
            let well = |(name, view): &(&String, &View)| *name != STRANGER && view.ready == "True";
            views.iter().filter(well).count() == left
        })
        .await;
        Ok(())
    }

    fn summary(&mut self) {
        self.display.chapter("What it took");
        let costs = self.stage.costs();
        self.display.line(
            Mark::Happened,
            &format!(
                "{} calls to the cloud, {} writes to Node objects by Bowline, {} events",
                costs.cloud_calls, costs.node_writes, costs.events
            ),
        );
        if self.failures == 0 {
            self.display
                .line(Mark::Good, "everything happened as expected");
        } else {
            let text = format!("{} expectations were not met", self.failures);
            self.display.line(Mark::Bad, &text);
        }
    }

    async fn expect(&mut self, what: &str, holds: impl Fn(&Views) -> bool) {
        let begun = Instant::now();
        let mut redraw = tokio::time::interval(REDRAW);
        redraw.set_missed_tick_behavior(MissedTickBehavior::Skip);
        let condition = self.observer.until(|views| holds(views).then_some(()));
        let mut condition = std::pin::pin!(tokio::time::timeout(PATIENCE, condition));
        let met = loop {
            tokio::select! {
                biased;
                ended = &mut condition => break ended.is_ok(),
                _ = redraw.tick() => self.display.waiting(what, begun.elapsed()),
            }
        };
        if met {
            self.display.line(Mark::Good, what);
        } else {
            self.failures += 1;
            let seconds = PATIENCE.as_secs();
            self.display
                .line(Mark::Bad, &format!("not within {seconds} s: {what}"));
        }
    }
}

/// Whether a node has what its cloud gives.
fn is_complete(view: &View) -> bool {
    view.provider_id.starts_with("cloudscale://") && view.facts.contains("IP ")
}
