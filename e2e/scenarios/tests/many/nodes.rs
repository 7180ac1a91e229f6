//! Every node is described by its own cloud and no other, and those of nobody are left alone.

use bowline_scenarios::scenario;

use crate::stage::{Stage, Telling};

async fn everybody_is_right(telling: Telling) {
    let mut stage = Stage::idle(telling).await;
    let foreign = stage.put_foreign().await;
    let machines = stage.populate().await;
    stage.start().await;
    for machine in &machines {
        stage.until_initialized(&machine.name).await;
    }
    stage.settle().await;
    for machine in &machines {
        stage.assert_right(machine);
    }
    stage.assert_untouched(&foreign);
    stage.stop().await;
}

#[test]
fn with_selectors_every_node_is_described_by_its_own_cloud_and_nobody_elses_is_touched() {
    scenario!(async || everybody_is_right(Telling::Selectors).await);
}

#[test]
fn without_selectors_every_node_is_described_by_its_own_cloud_and_nobody_elses_is_touched() {
    scenario!(async || everybody_is_right(Telling::Claims).await);
}
