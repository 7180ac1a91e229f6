//! Talos machines at another cloud that is configured too: they describe themselves, and their cloud looks
//! after them.

use std::rc::Rc;

use bowline_scenarios::exoscale::CloudHarness;
use bowline_scenarios::objects::{addresses, labels};
use bowline_scenarios::talos::{ENDPOINT, Machines, Need};
use bowline_scenarios::{Setup, scenario};
use bowline_simulator::journal::Filter;
use bowline_simulator_kubernetes::fleet::Settings;
use bowline_simulator_kubernetes::monitor;
use bowline_simulator_talos::{MachineSpec, PlatformSpec};

use crate::talos::harness::{PLATFORM, cloud_platform};

/// Runs Talos.
const I1: &str = "6f1d2c3b-7a55-4e0c-9b61-2d3e4f5a6b7c";
/// Does not.
const I2: &str = "b7e4d0a1-95c3-4f62-8a17-0c6e2d9f4b58";
const FIXTURE: &str = "
instances:
- {name: talos-1, id: 6f1d2c3b-7a55-4e0c-9b61-2d3e4f5a6b7c, public_ip: 198.51.100.21}
- {name: debian-1, id: b7e4d0a1-95c3-4f62-8a17-0c6e2d9f4b58, public_ip: 198.51.100.22}
";

/// Both clouds and a manager that knows both.
async fn both() -> (CloudHarness, Rc<Machines>) {
    let seed = Setup::default().seed;
    let mut harness = CloudHarness::set_up(seed, FIXTURE, "", &[], &[]).await;
    let rule = "transformations: [{labels: {described-by: talos}}]";
    let machines = Rc::new(Machines::open(&harness.world, "", rule));
    machines.name_nodes_for(&harness);
    machines.serve("cp1", ENDPOINT);
    let reported = PlatformSpec {
        zone: "ch-gva-2".into(),
        region: "ch-gva-2".into(),
        instance_type: "standard.huge".into(),
        ..cloud_platform("exoscale", &format!("exoscale://{I1}"))
    };
    let own = ["eth0/10.1.0.2/24", "external/198.51.100.21/32"];
    let machine = MachineSpec::named("talos-1", &own).platform(reported);
    let machine = machine.machine_id(&harness.cloud.kubelet(I1).unwrap().machine_id);
    machines.add_machine(&machine).unwrap();
    let (world, made) = (harness.world.clone(), Rc::clone(&machines));
    harness.add_provider(move |metrics| made.cloud(&world, metrics, Need::Machines).unwrap());
    harness.start().await;
    (harness, machines)
}

#[scenario]
async fn a_talos_machine_at_exoscale_describes_itself_and_exoscale_looks_after_it() {
    let (harness, machines) = both().await;
    let fleet = harness.cluster.fleet(Settings::default());
    let _monitor = harness.cluster.monitor(monitor::Settings::default());
    let kubelet = machines.kubelet("talos-1").unwrap();
    harness.cluster.join_as(&fleet, kubelet);
    harness
        .cluster
        .join_as(&fleet, harness.cloud.kubelet(I2).unwrap());

    harness.until_initialized("talos-1").await;
    let node = harness.node("talos-1");
    assert_eq!(node["spec"]["providerID"], format!("exoscale://{I1}"));
    let own = [
        "InternalIP:10.1.0.2",
        "ExternalIP:198.51.100.21",
        "Hostname:talos-1",
    ];
    assert_eq!(addresses(&node), own);
    let all = labels(&node);
    assert_eq!(all[PLATFORM], "exoscale");
    assert_eq!(all["described-by"], "talos");
    assert_eq!(all["node.kubernetes.io/instance-type"], "standard.huge");

    harness.until_initialized("debian-1").await;
    let node = harness.node("debian-1");
    assert_eq!(node["spec"]["providerID"], format!("exoscale://{I2}"));
    let all = labels(&node);
    assert!(!all.contains_key(PLATFORM) && !all.contains_key("described-by"));
    let asked = Filter::any().server("talos").query("*node=198.51.100.22*");
    assert_eq!(
        harness.count(&asked),
        0,
        "its machine has no Talos to be asked"
    );

    harness.until_ready("talos-1", "True").await;
    harness.until_ready("debian-1", "True").await;
    harness.cloud.stop(I1).unwrap();
    harness.shutdown_taint("talos-1", true).await;
    harness.cloud.start(I1).unwrap();
    harness.shutdown_taint("talos-1", false).await;
    harness.cloud.destroy(I1).unwrap();
    harness.until_deleted("talos-1").await;
    assert!(harness.find("debian-1").is_some());
    assert_eq!(harness.event_count("talos-1", "DeletingNode"), 1);
    harness.end().await;
}
