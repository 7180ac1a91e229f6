//! One machine, one Node: whoever registers with the id of another Node's machine is left alone, at every cloud.

use bowline_scenarios::objects::is_uninitialized;
use bowline_scenarios::{TestCluster, scenario};
use serde_json::Value;

use crate::machines::Machine;
use crate::stage::{CLOUDS, Stage, TALOS, Telling};

const TWICE: &str = "ProviderIDClaimedTwice";

fn thief(machine: &Machine) -> (String, Value) {
    let name = format!("thief-{}", machine.name);
    let mut node = machine.node();
    node["metadata"]["name"] = name.as_str().into();
    node["spec"]["providerID"] = machine.provider_id.as_str().into();
    (name, node)
}

#[scenario]
async fn proof_case_48_a_second_node_of_a_machine_gets_nothing_of_it_at_any_cloud() {
    let mut stage = Stage::idle(Telling::Selectors).await;
    let machines: Vec<Machine> = CLOUDS
        .iter()
        .zip(1..)
        .map(|(cloud, tens)| stage.machine(cloud, 10 * tens + 1))
        .collect();
    stage.start().await;
    for machine in &machines {
        stage.create(machine.node()).await;
        stage.until_initialized(&machine.name).await;
    }
    stage.seconds(2).await;
    for machine in &machines {
        let (name, node) = thief(machine);
        stage.create(node).await;
        stage.set_ready(&name, "True").await;
    }
    for machine in &machines {
        let (name, _) = thief(machine);
        stage.until_told(&name, TWICE).await;
        stage.until_told(&machine.name, TWICE).await;
    }
    stage.settle().await;
    for machine in &machines {
        let (name, _) = thief(machine);
        assert!(stage.writes(&name).is_empty(), "{:?}", stage.writes(&name));
        assert!(is_uninitialized(&stage.node(&name)), "{name}");
        assert_eq!(stage.told(&name, TWICE), 1, "{name}");
        stage.assert_right(machine);
    }
    // The machines are really gone; Talos cannot tell.
    let gone: Vec<&Machine> = machines.iter().filter(|it| it.owner != TALOS).collect();
    for machine in &gone {
        stage.destroy(machine);
        stage.set_ready(&machine.name, "Unknown").await;
    }
    for machine in &gone {
        let is_gone = |it: &TestCluster| it.find(&machine.name).is_none();
        stage
            .until(&format!("{} goes", machine.name), is_gone)
            .await;
        let (name, _) = thief(machine);
        assert!(stage.find(&name).is_some(), "{name} stays");
    }
    stage.stop().await;
}
