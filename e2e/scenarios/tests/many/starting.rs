//! The manager starts while one of its clouds is down: the others are served at once.
//!
//! Not here: Exoscale, which has to be asked where its zone is if its API is at a configured place, as here it is.

use bowline_scenarios::objects::is_uninitialized;
use bowline_scenarios::scenario;
use bowline_simulator::faults::{Action, Rule};
use futures::future::join_all;

use crate::stage::{BALANCING, CLOUDS, EAST, Stage, TALOS, TRITON, Telling, WEST, XEN};

async fn start_without(down: &str) {
    let mut stage = Stage::idle(Telling::Selectors).await;
    let foreign = stage.put_foreign().await;
    let mut machines = stage.populate().await;
    // The machine at Exoscale that describes itself needs both.
    let both = machines.pop().unwrap();
    let reset = Rule::new(Action::Reset).server(down).named("down");
    stage.world.faults.add(reset).unwrap();
    stage.start().await;
    for cloud in BALANCING {
        stage.order(&format!("on-{cloud}"), cloud).await;
    }
    let (own, others): (Vec<_>, Vec<_>) = machines.iter().partition(|it| it.owner == down);
    for machine in others {
        stage.until_initialized(&machine.name).await;
        stage.assert_right(machine);
    }
    let members = [machines.clone(), vec![both]].concat();
    let served = BALANCING.iter().filter(|it| **it != down).map(|cloud| {
        let (stage, members) = (&stage, &members);
        async move { stage.served(&format!("on-{cloud}"), cloud, members).await }
    });
    join_all(served).await;
    for machine in &own {
        assert!(is_uninitialized(&stage.node(&machine.name)));
    }
    stage.assert_untouched(&foreign);
    stage.world.faults.clear();
    for machine in own {
        stage.until_initialized(&machine.name).await;
        stage.assert_right(machine);
    }
    stage.stop().await;
}

#[scenario]
async fn the_first_of_the_clouds_is_down_at_the_start() {
    assert_eq!(CLOUDS[0], EAST);
    start_without(EAST).await;
}

#[scenario]
async fn another_account_of_the_first_is_down_at_the_start() {
    start_without(WEST).await;
}

#[scenario]
async fn talos_is_down_at_the_start() {
    start_without(TALOS).await;
}

#[scenario]
async fn xen_orchestra_is_down_at_the_start() {
    start_without(XEN).await;
}

#[scenario]
async fn triton_is_down_at_the_start() {
    start_without(TRITON).await;
}
