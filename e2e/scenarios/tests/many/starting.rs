//! The manager starts while one of its clouds is down: the others are served at once.
//!
//! Not here: Exoscale, which has to be asked where its zone is if its API is at a configured place, as here it is.

use bowline_scenarios::objects::is_uninitialized;
use bowline_scenarios::scenario;
use bowline_simulator::faults::{Action, Rule};
use futures::future::join_all;

use crate::many::harness::{BALANCING, CLOUDS, EAST, Harness, TALOS, TRITON, Telling, WEST, XEN};

async fn start_without(down: &str) {
    let mut test = Harness::idle(Telling::Selectors).await;
    let foreign = test.put_foreign().await;
    let mut machines = test.populate().await;
    // The machine at Exoscale that describes itself needs both.
    let both = machines.pop().unwrap();
    let reset = Rule::new(Action::Reset).server(down).named("down");
    test.world.faults.add(reset).unwrap();
    test.start().await;
    for cloud in BALANCING {
        test.order(&format!("on-{cloud}"), cloud).await;
    }
    let (own, others): (Vec<_>, Vec<_>) = machines.iter().partition(|it| it.owner == down);
    for machine in others {
        test.until_initialized(&machine.name).await;
        test.assert_right(machine);
    }
    let members = [machines.clone(), vec![both]].concat();
    let served = BALANCING.iter().filter(|it| **it != down).map(|cloud| {
        let (test, members) = (&test, &members);
        async move { test.served(&format!("on-{cloud}"), cloud, members).await }
    });
    join_all(served).await;
    for machine in &own {
        assert!(is_uninitialized(&test.node(&machine.name)));
    }
    test.assert_untouched(&foreign);
    test.world.faults.clear();
    for machine in own {
        test.until_initialized(&machine.name).await;
        test.assert_right(machine);
    }
    test.stop().await;
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
