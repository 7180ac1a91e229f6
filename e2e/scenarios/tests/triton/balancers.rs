//! Services by load balancer machines, from the first call to the last.

use bowline_scenarios::objects::{annotated, service};
use bowline_scenarios::triton::section;
use bowline_scenarios::{TestCluster, scenario};
use bowline_simulator::journal::Filter;
use bowline_simulator_triton::MachineInfo;
use serde_json::{Value, json};

use crate::shop::{PREFIX, Shop, outside};

const PORTMAP: &str = "cloud.tritoncompute:portmap";

async fn open() -> Shop {
    let lines = [("clb-package", "lb1.small")];
    Shop::configured(&section("LoadBalancer", &lines)).await
}

/// The Service `web`, before machines of its own.
fn balanced() -> Value {
    annotated("web", &[(&*mode(), "clb")])
}

fn mode() -> String {
    format!("{PREFIX}mode")
}

/// The machines that were made for Services.
fn machines(shop: &Shop) -> Vec<MachineInfo> {
    let mut machines = shop.cloud.machines();
    machines.retain(|it| it.tag("bowline.uid").is_some());
    machines
}

fn portmap(machine: &MachineInfo) -> &str {
    machine.metadata[PORTMAP].as_str().unwrap()
}

#[scenario]
async fn a_service_has_a_load_balancer_machine_until_it_is_deleted() {
    let shop = open().await;
    let web = shop.serve_as(balanced()).await;
    let all = machines(&shop);
    let [machine] = &all[..] else {
        panic!("{all:?}")
    };
    assert_eq!(machine.tag("bowline.uid"), web["metadata"]["uid"].as_str());
    assert_eq!(
        shop.entrances("web"),
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
    assert_eq!(shop.carried(), [1, 2, 3].map(|_| vec![nodes.clone()]));
    assert!(!shop.cloud.rules().is_empty(), "people are let in");
    shop.delete_service("web").await;
    shop.until_service_gone("web").await;
    assert_eq!(machines(&shop), []);
    assert_eq!(shop.cloud.rules(), []);
    shop.until_carried([&[], &[], &[]]).await;
    shop.end().await;
}

#[scenario]
async fn another_port_is_one_change_of_the_same_machine() {
    let shop = open().await;
    shop.serve_as(balanced()).await;
    let before = machines(&shop);
    let port = json!({ "spec": { "ports": [
            { "name": "http", "port": 8080, "protocol": "TCP", "targetPort": 8080 },
        ] } });
    shop.patch_service("web", port).await;
    let cloud = shop.cloud.clone();
    let is_changed = |_: &TestCluster| {
        let machine = cloud.machine(&before[0].id);
        machine.is_some_and(|it| portmap(&it).starts_with("tcp://8080:"))
    };
    shop.until("its port map has the new port", is_changed)
        .await;
    let ids = |all: Vec<MachineInfo>| all.into_iter().map(|it| it.id).collect::<Vec<_>>();
    assert_eq!(ids(machines(&shop)), ids(before));
    shop.end().await;
}

#[scenario]
async fn a_manager_that_dies_after_a_machine_was_asked_for_leaves_no_second_one() {
    let mut shop = open().await;
    shop.create_service(balanced()).await;
    let creation = Filter::any()
        .server("triton")
        .method("POST")
        .path("/acme/machines");
    shop.until_called("a machine is made", &creation).await;
    shop.kill().await;
    shop.start().await;
    shop.until_published("web").await;
    assert_eq!(machines(&shop).len(), 1);
    assert_eq!(shop.count(&creation), 1);
    shop.end().await;
}

#[scenario]
async fn a_service_that_changes_its_mode_is_never_without_an_entrance() {
    let shop = open().await;
    shop.serve_as(service("web")).await;
    let name = outside("web.shop");
    assert_eq!(shop.entrances("web"), [&*name]);
    shop.annotate("web", &mode(), Some("clb")).await;
    let shows_address = |it: &TestCluster| {
        let shown = it.entrances("web");
        assert!(!shown.is_empty());
        shown.iter().all(|it| it.ends_with("Proxy"))
    };
    shop.until("it shows the machine", shows_address).await;
    let is_clean = |_: &TestCluster| shop.carried().iter().flatten().all(|it| it != "web.shop");
    shop.until("its name leaves the nodes", is_clean).await;
    shop.annotate("web", &mode(), None).await;
    shop.until("it shows the name again", |it| {
        it.entrances("web") == [&*name]
    })
    .await;
    shop.until("the machine goes", |_| machines(&shop).is_empty())
        .await;
    let web: &[&str] = &["web.shop"];
    shop.until_carried([web, web, web]).await;
    shop.end().await;
}
