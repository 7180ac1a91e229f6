//! Talos machines at another cloud: they describe themselves, and their cloud looks after them, whichever of the two
//! fails.

use bowline_scenarios::objects::is_uninitialized;
use bowline_scenarios::{TestCluster, scenario, status};
use bowline_simulator::faults::{Action, Rule};

use crate::stage::{EXOSCALE, Stage, TALOS, Telling};

impl Stage {
    /// Lets all calls to a cloud end like that.
    fn answer(&self, cloud: &str, action: Action) {
        let rule = Rule::new(action).server(cloud).named("failing");
        self.world.faults.add(rule).unwrap();
    }
}

#[scenario]
async fn while_talos_is_down_exoscale_takes_the_nodes_of_its_lost_talos_machines_away() {
    let mut stage = Stage::idle(Telling::Selectors).await;
    let (lost, kept) = (stage.talos_instance(38), stage.talos_instance(39));
    stage.put(lost.old_node("Unknown")).await;
    stage.put(kept.old_node("Unknown")).await;
    stage.answer(TALOS, Action::Reset);
    stage.start().await;
    stage.destroy(&lost);
    stage.until_deleted(&lost.name).await;
    stage.settle().await;
    assert!(stage.find(&kept.name).is_some(), "its machine is there");
    assert_eq!(stage.told(&lost.name, "DeletingNode"), 1);
    stage.stop().await;
}

#[scenario]
async fn while_exoscale_denies_a_new_talos_machine_there_is_described_by_itself() {
    let mut stage = Stage::idle(Telling::Selectors).await;
    stage.start().await;
    stage.answer(EXOSCALE, status(403));
    let (talos, other) = (stage.talos_instance(38), stage.machine(EXOSCALE, 39));
    stage.create(other.node()).await;
    stage.create(talos.node()).await;
    stage.until_initialized(&talos.name).await;
    stage.assert_right(&talos);
    assert!(is_uninitialized(&stage.node(&other.name)));
    stage.world.faults.clear();
    stage.until_initialized(&other.name).await;
    stage.assert_right(&other);
    // Neither asked the other's machines about what is not theirs.
    let about = |bench: &TestCluster, machine: &str| {
        let all = bench.entries().into_iter();
        let asked = all.filter(|it| it.server == TALOS);
        asked.filter(|it| it.query.contains(machine)).count()
    };
    assert_eq!(about(&stage, "198.51.100.39"), 0);
    stage.stop().await;
}
