//! Every node is described by its own cloud and no other, and those of nobody are left alone.

use bowline_scenarios::{is_real, scenario};

use crate::many::harness::{Harness, Telling};

async fn everybody_is_right(telling: Telling) {
    let mut test = Harness::idle(telling).await;
    let foreign = test.put_foreign().await;
    let machines = test.populate().await;
    test.start().await;
    for machine in &machines {
        test.until_initialized(&machine.name).await;
    }
    // Two rounds of addresses, and many looks at nodes that are not Ready.
    test.seconds(if is_real() { 15 } else { 900 }).await;
    for machine in &machines {
        test.assert_right(machine);
    }
    test.assert_untouched(&foreign);
    test.stop().await;
}

#[scenario]
async fn with_selectors_every_node_is_described_by_its_own_cloud_and_nobody_elses_is_touched() {
    everybody_is_right(Telling::Selectors).await;
}

#[scenario]
async fn without_selectors_every_node_is_described_by_its_own_cloud_and_nobody_elses_is_touched() {
    everybody_is_right(Telling::Claims).await;
}
