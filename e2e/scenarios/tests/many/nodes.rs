//! Every node is described by its own cloud and no other, and those of nobody are left alone.

use bowline_scenarios::{is_real, scenario};

use crate::stage::{Stage, Telling};

async fn everybody_is_right(telling: Telling) {
    let mut stage = Stage::idle(telling).await;
    let foreign = stage.put_foreign().await;
    let machines = stage.populate().await;
    stage.start().await;
    for machine in &machines {
        stage.until_initialized(&machine.name).await;
    }
    // Two rounds of addresses, and many looks at nodes that are not Ready.
    stage.seconds(if is_real() { 15 } else { 900 }).await;
    for machine in &machines {
        stage.assert_right(machine);
    }
    stage.assert_untouched(&foreign);
    stage.stop().await;
}

#[scenario]
async fn with_selectors_every_node_is_described_by_its_own_cloud_and_nobody_elses_is_touched() {
    everybody_is_right(Telling::Selectors).await;
}

#[scenario]
async fn without_selectors_every_node_is_described_by_its_own_cloud_and_nobody_elses_is_touched() {
    everybody_is_right(Telling::Claims).await;
}
