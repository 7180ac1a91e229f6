//! Talos machines at another cloud: they describe themselves, and their cloud looks after them, whichever of the two
//! fails.

use bowline_scenarios::objects::is_uninitialized;
use bowline_scenarios::{TestCluster, scenario, status};
use bowline_simulator::faults::{Action, Rule};

use crate::many::harness::{EXOSCALE, Harness, TALOS, Telling};

impl Harness {
    /// Lets all calls to a cloud end like that.
    fn answer(&self, cloud: &str, action: Action) {
        let rule = Rule::new(action).server(cloud).named("failing");
        self.world.faults.add(rule).unwrap();
    }
}

#[scenario]
async fn while_talos_is_down_exoscale_takes_the_nodes_of_its_lost_talos_machines_away() {
    let mut test = Harness::idle(Telling::Selectors).await;
    let (lost, kept) = (test.talos_instance(38), test.talos_instance(39));
    test.put(lost.old_node("Unknown")).await;
    test.put(kept.old_node("Unknown")).await;
    test.answer(TALOS, Action::Reset);
    test.start().await;
    test.destroy(&lost);
    test.until_deleted(&lost.name).await;
    test.settle().await;
    assert!(test.find(&kept.name).is_some(), "its machine is there");
    assert_eq!(test.event_count(&lost.name, "DeletingNode"), 1);
    test.stop().await;
}

#[scenario]
async fn while_exoscale_denies_a_new_talos_machine_there_is_described_by_itself() {
    let mut test = Harness::idle(Telling::Selectors).await;
    test.start().await;
    test.answer(EXOSCALE, status(403));
    let (talos, other) = (test.talos_instance(38), test.machine(EXOSCALE, 39));
    test.create(other.node()).await;
    test.create(talos.node()).await;
    test.until_initialized(&talos.name).await;
    test.assert_right(&talos);
    assert!(is_uninitialized(&test.node(&other.name)));
    test.world.faults.clear();
    test.until_initialized(&other.name).await;
    test.assert_right(&other);
    // Neither asked the other's machines about what is not theirs.
    let about = |bench: &TestCluster, machine: &str| {
        let all = bench.entries().into_iter();
        let asked = all.filter(|it| it.server == TALOS);
        asked.filter(|it| it.query.contains(machine)).count()
    };
    assert_eq!(about(&test, "198.51.100.39"), 0);
    test.stop().await;
}
