//! The scripted story of the sandbox, chapter by chapter, and what is expected in each.

mod extras;
mod nodes;
mod pools;
mod services;
mod several;

use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use tokio::time::{Instant, MissedTickBehavior};

use super::display::{Display, Mark};
use super::harness::Harness;
use super::observer::{Observer, Views};
use super::selection::Selection;

/// How long a single expectation may take. The slowest is the deletion, which waits for the
/// kubelet's silence (10 s here), the node's least age (60 s) and two looks (10 s apart).
const PATIENCE: Duration = Duration::from_secs(180);
/// How often the live line is redrawn.
const REDRAW: Duration = Duration::from_secs(1);

/// Runs the story and judges it.
pub(super) struct Story {
    harness: Harness,
    observer: Observer,
    display: Arc<Display>,
    nodes: usize,
    begun: Instant,
    chapter: usize,
    failures: usize,
}

impl Story {
    pub(super) fn new(
        harness: Harness,
        observer: Observer,
        display: Arc<Display>,
        nodes: usize,
    ) -> Self {
        Self {
            harness,
            observer,
            display,
            nodes,
            begun: Instant::now(),
            chapter: 0,
            failures: 0,
        }
    }

    /// Runs it from beginning to end, or until the manager ends, which it should not; gives how
    /// many expectations failed.
    pub(super) async fn run(&mut self) -> Result<usize> {
        let ended = self.harness.manager_ended();
        tokio::select! {
            biased;
            error = ended => Err(error),
            ended = self.chapters() => ended,
        }
    }

    pub(super) fn into_harness(self) -> Harness {
        self.harness
    }

    async fn chapters(&mut self) -> Result<usize> {
        match self.harness.selection() {
            Selection::One(_) => self.of_one_cloud().await?,
            Selection::Several => self.of_several_clouds().await?,
        }
        self.summary();
        Ok(self.failures)
    }

    /// A cloud without load balancers, or without what only some have, has a shorter story.
    async fn of_one_cloud(&mut self) -> Result<()> {
        let (kind, cloud) = (self.harness.kind(), self.harness.cloud());
        let balancer = kind.balancer;
        self.nodes_join().await?;
        if let Some(balancer) = balancer {
            self.a_service_is_created(balancer).await?;
        }
        if let Some(extras) = cloud.extras() {
            self.the_name_is_answered(&extras);
            self.a_service_gets_a_machine(&extras).await?;
            self.pods_are_routed().await?;
            self.prometheus_is_led_to_machines(&extras).await?;
        }
        if let Some(pools) = cloud.pools() {
            self.a_machine_moves(pools).await?;
        }
        if kind.knows_power {
            self.a_machine_stops().await?;
        }
        self.a_node_is_replaced(balancer).await?;
        if let Some(pools) = cloud.pools() {
            self.the_pool_is_disconnected(pools).await?;
        }
        if kind.knows_power {
            self.a_machine_is_destroyed(balancer).await?;
        } else {
            self.a_machine_falls_silent().await?;
        }
        if cloud.extras().is_some() {
            self.routes_have_followed().await;
            self.the_machine_goes().await?;
        }
        if let Some(balancer) = balancer {
            self.the_service_is_deleted(balancer).await?;
        }
        Ok(())
    }

    fn summary(&mut self) {
        self.display.chapter("What it took");
        let costs = self.harness.costs();
        let calls = match costs.cloud_calls.as_slice() {
            [(_, calls)] => format!("{calls} calls to the cloud"),
            several => {
                let each = several
                    .iter()
                    .map(|(name, calls)| format!("{name} {calls}"));
                format!("calls to clouds: {}", each.collect::<Vec<_>>().join(", "))
            }
        };
        self.display.line(
            Mark::Happened,
            &format!(
                "{calls}; by Bowline {} writes to Node objects, {} to Services, {} events",
                costs.node_writes, costs.service_writes, costs.events
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

    /// Begins a chapter, and says what the reader should know beforehand.
    fn begin(&mut self, heading: &str, notes: &[&str]) {
        self.chapter += 1;
        self.display
            .chapter(&format!("{}. {heading}", self.chapter));
        for note in notes {
            self.display.note(note);
        }
    }

    async fn expect(&mut self, what: &str, holds: impl Fn(&Views) -> bool) {
        let met = self.comes_to(what, PATIENCE, holds).await;
        let seconds = PATIENCE.as_secs();
        self.judge(met, what, &format!("not within {seconds} s: {what}"));
    }

    /// Expects that something holds all the time.
    async fn expect_throughout(
        &mut self,
        time: Duration,
        what: &str,
        holds: impl Fn(&Views) -> bool,
    ) {
        let broken = self.comes_to(what, time, |views| !holds(views)).await;
        self.judge(!broken, what, &format!("no longer so: {what}"));
    }

    /// Whether it comes to that in this time; meanwhile people see what is waited for.
    async fn comes_to(
        &self,
        what: &str,
        patience: Duration,
        holds: impl Fn(&Views) -> bool,
    ) -> bool {
        let begun = Instant::now();
        let mut redraw = tokio::time::interval(REDRAW);
        redraw.set_missed_tick_behavior(MissedTickBehavior::Skip);
        let condition = self.observer.until(|views| holds(views).then_some(()));
        let mut condition = std::pin::pin!(tokio::time::timeout(patience, condition));
        loop {
            tokio::select! {
                biased;
                ended = &mut condition => return ended.is_ok(),
                _ = redraw.tick() => self.display.waiting(what, begun.elapsed()),
            }
        }
    }

    fn judge(&mut self, good: bool, what: &str, otherwise: &str) {
        if good {
            self.display.line(Mark::Good, what);
        } else {
            self.failures += 1;
            self.display.line(Mark::Bad, otherwise);
        }
    }
}
