//! The chapters about machines on hosts of pools, which move, and which may be out of sight.

use anyhow::Result;
use bowline_core::GuardPolicy;
use bowline_simulator::sandbox::Pools;

use super::Story;

/// Two looks, each at the machine and at its pool: so much would have proven a deletion.
const LOOKS: usize = 4;

impl Story {
    pub(super) async fn a_machine_moves(&mut self, pools: &dyn Pools) -> Result<()> {
        let Some(name) = self.harness.machines().first().cloned() else {
            return Ok(());
        };
        self.begin(
            &format!("{name} migrates to another host"),
            &[
                "The host is the zone of its node. Bowline follows the cloud's events, so that",
                "the labels follow within seconds.",
            ],
        );
        let zone = pools.migrate(&name)?;
        self.expect(&format!("the zone of {name} is its new host"), |views| {
            let node = views.nodes.get(&name);
            node.is_some_and(|it| it.facts.contains(&zone))
        })
        .await;
        Ok(())
    }

    /// A machine falls silent while the cloud cannot see it: this looks as if it were gone.
    pub(super) async fn the_pool_is_disconnected(&mut self, pools: &dyn Pools) -> Result<()> {
        let Some(name) = self.harness.machines().first().cloned() else {
            return Ok(());
        };
        self.begin(
            &format!("The cloud loses the connection to the pool, and {name} is powered off"),
            &[
                "The cloud now answers that the pool's machines do not exist. That is no proof:",
                "the pool is not there either.",
            ],
        );
        let before = self.harness.not_found();
        pools.disconnect()?;
        self.harness.stop(&name)?;
        self.expect(&format!("{name} is NotReady"), |views| {
            let node = views.nodes.get(&name);
            node.is_some_and(|it| it.ready != "True")
        })
        .await;
        let guard = GuardPolicy::default();
        // Time enough for the node to be old enough to be deleted, and for two looks then.
        let looks = guard.looks_apart * 2;
        let time = looks + guard.node_age.saturating_sub(self.begun.elapsed());
        let all: Vec<String> = self.harness.machines().to_vec();
        self.expect_throughout(time, "nothing is deleted, and nothing tainted", |views| {
            all.iter().all(|name| {
                let node = views.nodes.get(name);
                node.is_some_and(|it| !it.shut_down)
            })
        })
        .await;
        let said = self.harness.not_found() - before;
        let what = format!("although the cloud answered 404 {said} times");
        self.judge(said >= LOOKS, &what, "nobody asked the cloud about it");
        pools.connect()?;
        self.expect(
            "once the pool is back, the node is tainted as shut down",
            |views| views.nodes.get(&name).is_some_and(|it| it.shut_down),
        )
        .await;
        self.harness.start(&name)?;
        self.expect(&format!("{name} is Ready again"), |views| {
            let node = views.nodes.get(&name);
            node.is_some_and(|it| !it.shut_down && it.ready == "True")
        })
        .await;
        Ok(())
    }
}
