//! What the manager does with the API server, and that the originals' roles, and ours, allow all
//! of it: as a service account with exactly these rules, refused nothing.

mod story;

use bowline_scenarios::cloud::{Script, machine};
use bowline_scenarios::objects::fresh;
use bowline_scenarios::rights::used::{Right, is_granted, right};
use bowline_scenarios::{refuse, scenario};
use bowline_simulator_kubernetes::auth::framework;
use bowline_simulator_kubernetes::fixture;
use serde_json::Value;

use Extent::{Nodes, NodesAndServices};
use story::Harness;

/// The rights a manager without the serving port and without load balancers uses.
const FOR_NODES: &[(&str, &str)] = &[
    ("create", "events"),
    ("create", "leases.coordination.k8s.io"),
    ("delete", "nodes"),
    ("get", "/healthz"),
    ("get", "leases.coordination.k8s.io"),
    ("get", "nodes"),
    ("patch", "events"),
    ("patch", "nodes"),
    ("patch", "nodes/status"),
    ("update", "leases.coordination.k8s.io"),
    ("watch", "nodes"),
];

/// What it uses for Services besides. What we ship can be read off here and above.
const FOR_SERVICES: &[(&str, &str)] = &[
    ("get", "/version"),
    ("patch", "services/status"),
    ("watch", "services"),
];

/// What tells clusters apart. Only our own role allows it; under the others work goes on without it.
const CLUSTER: &str = "/api/v1/namespaces/kube-system";

fn shipped() -> Vec<Value> {
    let text = include_str!("../../../deploy/rbac.yaml");
    fixture::parse("deploy/rbac.yaml", text).unwrap()
}

/// The rights that the original with that role has a use for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Extent {
    Nodes,
    NodesAndServices,
}

async fn check(account: &str, objects: Vec<Value>, extent: Extent) {
    let mut test = Harness::new(account, &objects).await;
    let mut needed = FOR_NODES.to_vec();
    if extent == Extent::NodesAndServices {
        test.add_load_balancers();
        needed.extend(FOR_SERVICES);
        needed.sort_unstable();
    }
    test.whole_story().await;
    let refused: Vec<_> = test
        .calls()
        .into_iter()
        .filter(|it| it.status == 403 && it.path != CLUSTER)
        .collect();
    assert!(refused.is_empty(), "{refused:#?}");
    let used: Vec<Right> = {
        let calls = test.calls();
        let calls = calls.iter().filter(|it| it.path != CLUSTER);
        let all: std::collections::BTreeSet<_> = calls.map(right).collect();
        all.into_iter().collect()
    };
    let needed: Vec<Right> = needed
        .iter()
        .map(|(verb, what)| ((*verb).to_owned(), (*what).to_owned()))
        .collect();
    assert_eq!(used, needed);
    for right in &used {
        assert!(is_granted(&objects, right), "{right:?}");
    }
}

#[scenario]
async fn the_whole_story_of_a_node_and_a_service_fits_into_cloudscales_role() {
    let account = "cloud-controller-manager";
    check(
        account,
        bowline_simulator_cloudscale::manifest(),
        NodesAndServices,
    )
    .await;
}

#[scenario]
async fn the_whole_story_of_a_node_and_a_service_fits_into_exoscales_role() {
    let account = "cloud-controller-manager";
    check(
        account,
        bowline_simulator_exoscale::manifest(),
        NodesAndServices,
    )
    .await;
}

#[scenario]
async fn the_whole_story_of_a_node_fits_into_xen_orchestras_role() {
    let account = "xenorchestra-cloud-controller-manager";
    check(account, bowline_simulator_xenorchestra::manifest(), Nodes).await;
}

#[scenario]
async fn the_whole_story_of_a_node_and_a_service_fits_into_the_frameworks_role() {
    let objects = framework("bowline", false);
    check("bowline", objects, NodesAndServices).await;
}

#[scenario]
async fn the_whole_story_of_a_node_and_a_service_fits_into_the_role_we_ship() {
    check("bowline", shipped(), NodesAndServices).await;
}

#[scenario]
async fn a_server_without_streaming_lists_needs_the_right_to_list_services_too() {
    let objects = bowline_simulator_cloudscale::manifest();
    let mut test = Harness::new("cloud-controller-manager", &objects).await;
    test.add_load_balancers();
    let old = refuse(422, "GET", "/api/v1/services").query("*sendInitialEvents=true*");
    test.bench.fault(old);
    test.bench.start();
    test.service().await;
    test.bench.stop().await;
    let list = ("list".to_owned(), "services".to_owned());
    let used: Vec<Right> = test.calls().iter().map(right).collect();
    assert!(used.contains(&list), "{used:?}");
    for objects in [
        bowline_simulator_cloudscale::manifest(),
        bowline_simulator_exoscale::manifest(),
        framework("bowline", false),
        shipped(),
    ] {
        assert!(is_granted(&objects, &list));
    }
    let calls = test.calls();
    let mut refused = calls.iter().filter(|it| it.status == 403);
    assert!(refused.all(|it| it.path == CLUSTER), "{calls:#?}");
}

#[scenario]
async fn under_the_role_of_talos_everything_works_but_the_deletion_of_nodes() {
    let objects = bowline_simulator_talos::manifest();
    let mut test = Harness::new("talos-cloud-controller-manager", &objects).await;
    test.until_gone_for_good(403).await;
    let refused: Vec<Right> = test
        .calls()
        .iter()
        .filter(|it| it.status == 403)
        .map(right)
        .collect();
    assert!(!refused.is_empty());
    for right in refused {
        assert_eq!(right, ("delete".to_owned(), "nodes".to_owned()));
    }
}

#[scenario]
async fn a_server_without_streaming_lists_needs_the_right_to_list_which_all_roles_have() {
    let objects = bowline_simulator_cloudscale::manifest();
    let mut test = Harness::new("cloud-controller-manager", &objects).await;
    let old = refuse(422, "GET", "/api/v1/nodes").query("*sendInitialEvents=true*");
    let bench = &mut test.bench;
    bench.fault(old);
    let found = machine("demo://m-1", &["InternalIP:10.0.0.1"]);
    bench.cloud().say("n1", Script::Machine(found));
    bench.create(fresh("n1")).await;
    bench.start();
    bench.until_initialized("n1").await;
    bench.stop().await;
    let list = ("list".to_owned(), "nodes".to_owned());
    let used: Vec<Right> = test.calls().iter().map(right).collect();
    assert!(used.contains(&list), "{used:?}");
    for objects in [
        bowline_simulator_cloudscale::manifest(),
        bowline_simulator_exoscale::manifest(),
        bowline_simulator_talos::manifest(),
        bowline_simulator_xenorchestra::manifest(),
        shipped(),
    ] {
        assert!(is_granted(&objects, &list));
    }
    assert!(test.calls().iter().all(|it| it.status != 403));
}
