//! One machine, one Node: whoever registers with the id of another Node's machine is left alone, at every cloud.

use bowline_scenarios::objects::is_uninitialized;
use bowline_scenarios::{TestCluster, scenario};
use serde_json::Value;

use crate::many::harness::{CLOUDS, Harness, TALOS, Telling};
use crate::many::machines::Machine;

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
    let mut test = Harness::idle(Telling::Selectors).await;
    let machines: Vec<Machine> = CLOUDS
        .iter()
        .zip(1..)
        .map(|(cloud, tens)| test.machine(cloud, 10 * tens + 1))
        .collect();
    test.start().await;
    for machine in &machines {
        test.create(machine.node()).await;
        test.until_initialized(&machine.name).await;
    }
    test.seconds(2).await;
    for machine in &machines {
        let (name, node) = thief(machine);
        test.create(node).await;
        test.set_ready(&name, "True").await;
    }
    for machine in &machines {
        let (name, _) = thief(machine);
        test.until_event(&name, TWICE).await;
        test.until_event(&machine.name, TWICE).await;
    }
    test.settle().await;
    for machine in &machines {
        let (name, _) = thief(machine);
        assert!(test.writes(&name).is_empty(), "{:?}", test.writes(&name));
        assert!(is_uninitialized(&test.node(&name)), "{name}");
        assert_eq!(test.event_count(&name, TWICE), 1, "{name}");
        test.assert_right(machine);
    }
    // The machines are really gone; Talos cannot tell.
    let gone: Vec<&Machine> = machines.iter().filter(|it| it.owner != TALOS).collect();
    for machine in &gone {
        test.destroy(machine);
        test.set_ready(&machine.name, "Unknown").await;
    }
    for machine in &gone {
        let is_gone = |it: &TestCluster| it.find(&machine.name).is_none();
        test.until(&format!("{} goes", machine.name), is_gone).await;
        let (name, _) = thief(machine);
        assert!(test.find(&name).is_some(), "{name} stays");
    }
    test.stop().await;
}
