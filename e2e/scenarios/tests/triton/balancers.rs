//! Services by load balancer machines, from the first call to the last.

use bowline_scenarios::objects::{annotated, service};
use bowline_scenarios::triton::section;
use bowline_scenarios::{TestCluster, scenario};
use bowline_simulator::journal::Filter;
use bowline_simulator_triton::MachineInfo;
use serde_json::{Value, json};

use crate::triton::service_harness::{PREFIX, ServiceHarness, outside};

const PORTMAP: &str = "cloud.tritoncompute:portmap";

async fn open() -> ServiceHarness {
    let lines = [("clb-package", "lb1.small")];
    ServiceHarness::configured(&section("LoadBalancer", &lines)).await
}

/// The Service `web`, before machines of its own.
fn balanced() -> Value {
    annotated("web", &[(&*mode(), "clb")])
}

fn mode() -> String {
    format!("{PREFIX}mode")
}

/// The machines that were made for Services.
fn machines(test: &ServiceHarness) -> Vec<MachineInfo> {
    let mut machines = test.cloud.machines();
    machines.retain(|it| it.tag("bowline.uid").is_some());
    machines
}

fn portmap(machine: &MachineInfo) -> &str {
    machine.metadata[PORTMAP].as_str().unwrap()
}

#[scenario]
async fn a_service_has_a_load_balancer_machine_until_it_is_deleted() {
    let test = open().await;
    let web = test.serve_as(balanced()).await;
    let all = machines(&test);
    let [machine] = &all[..] else {
        panic!("{all:?}")
    };
    assert_eq!(machine.tag("bowline.uid"), web["metadata"]["uid"].as_str());
    assert_eq!(
        test.entrances("web"),
        [format!("{} Proxy", machine.addresses[0])]
    );
    let written = &web["metadata"]["annotations"][format!("{PREFIX}instances")];
    assert_eq!(*written, machine.id);
    let port = &web["spec"]["ports"][0]["nodePort"];
    let map = portmap(machine);
    assert!(map.starts_with("tcp://80:"), "{map}");
    assert!(map.ends_with(&format!(":{port}")), "{map}");
    // The nodes are found by a name of their own.
    let cluster = machine.tag("bowline.clb").unwrap();
    let nodes = format!("k8s-nodes-{}", &cluster[..8]);
    assert_eq!(test.carried(), [1, 2, 3].map(|_| vec![nodes.clone()]));
    assert!(!test.cloud.rules().is_empty(), "people are let in");
    test.delete_service("web").await;
    test.until_service_gone("web").await;
    assert_eq!(machines(&test), []);
    assert_eq!(test.cloud.rules(), []);
    test.until_carried([&[], &[], &[]]).await;
    test.end().await;
}

#[scenario]
async fn another_port_is_one_change_of_the_same_machine() {
    let test = open().await;
    test.serve_as(balanced()).await;
    let before = machines(&test);
    let port = json!({ "spec": { "ports": [
            { "name": "http", "port": 8080, "protocol": "TCP", "targetPort": 8080 },
        ] } });
    test.patch_service("web", port).await;
    let cloud = test.cloud.clone();
    let is_changed = |_: &TestCluster| {
        let machine = cloud.machine(&before[0].id);
        machine.is_some_and(|it| portmap(&it).starts_with("tcp://8080:"))
    };
    test.until("its port map has the new port", is_changed)
        .await;
    let ids = |all: Vec<MachineInfo>| all.into_iter().map(|it| it.id).collect::<Vec<_>>();
    assert_eq!(ids(machines(&test)), ids(before));
    test.end().await;
}

#[scenario]
async fn a_manager_that_dies_after_a_machine_was_asked_for_leaves_no_second_one() {
    let mut test = open().await;
    test.create_service(balanced()).await;
    let creation = Filter::any()
        .server("triton")
        .method("POST")
        .path("/acme/machines");
    test.until_called("a machine is made", &creation).await;
    test.kill().await;
    test.start().await;
    test.until_published("web").await;
    assert_eq!(machines(&test).len(), 1);
    assert_eq!(test.count(&creation), 1);
    test.end().await;
}

#[scenario]
async fn a_service_that_changes_its_mode_is_never_without_an_entrance() {
    let test = open().await;
    test.serve_as(service("web")).await;
    let name = outside("web.shop");
    assert_eq!(test.entrances("web"), [&*name]);
    test.annotate("web", &mode(), Some("clb")).await;
    let shows_address = |it: &TestCluster| {
        let shown = it.entrances("web");
        assert!(!shown.is_empty());
        shown.iter().all(|it| it.ends_with("Proxy"))
    };
    test.until("it shows the machine", shows_address).await;
    let is_clean = |_: &TestCluster| test.carried().iter().flatten().all(|it| it != "web.shop");
    test.until("its name leaves the nodes", is_clean).await;
    test.annotate("web", &mode(), None).await;
    test.until("it shows the name again", |it| {
        it.entrances("web") == [&*name]
    })
    .await;
    test.until("the machine goes", |_| machines(&test).is_empty())
        .await;
    let web: &[&str] = &["web.shop"];
    test.until_carried([web, web, web]).await;
    test.end().await;
}
