//! Nodes that cannot be read keep their members.

use bowline_scenarios::scenario;
use bowline_simulator_cloudscale::MachineSpec;
use serde_json::{Value, json};

use super::service_harness::{C, ServiceHarness};

const WHY: &str = "no API server stores a Node that cannot be read";

/// Makes a Node of another form than any Kubernetes has, or puts it right.
async fn break_node(test: &ServiceHarness, name: &str, broken: bool) {
    test.change(name, |node| {
        node["spec"]["taints"] = if broken { json!("odd") } else { json!([]) };
    })
    .await;
}

/// Status and reason of the condition of `web`.
fn condition(service: &Value) -> Option<(&str, &str)> {
    let all = service["status"]["conditions"].as_array()?;
    let mut all = all.iter();
    let ours = all.find(|it| it["type"] == "bowline.dev/LoadBalancerReady")?;
    ours["status"].as_str().zip(ours["reason"].as_str())
}

fn third() -> MachineSpec {
    MachineSpec::named("worker-c")
        .uuid(C)
        .interface("k8s", Some(vec!["10.20.0.13".parse().unwrap()]))
}

#[scenario(only_in_memory = WHY)]
async fn a_node_that_can_no_longer_be_read_stays_a_member_until_it_is_gone(test: ServiceHarness) {
    test.serve().await;
    let mark = test.mark();
    break_node(&test, "worker-b", true).await;
    assert_eq!(
        test.message("web", "NodeUnreadable").await,
        "nodes [worker-b] cannot be read; what was last known of them holds for their targets"
    );
    test.long(600).await;
    assert_eq!(test.changes_from(mark), [""; 0]);
    assert_eq!(condition(&test.service("web")), Some(("True", "Ready")));
    // Others come and go meanwhile.
    test.add_server(&third());
    test.add_node("worker-c", C, 13).await;
    test.until_members(&["11", "12", "13"]).await;
    test.delete("worker-a").await;
    test.until_members(&["12", "13"]).await;
    test.delete("worker-b").await;
    test.until_members(&["13"]).await;
}

#[scenario(only_in_memory = WHY)]
async fn a_node_that_never_could_be_read_costs_no_member(mut test: ServiceHarness) {
    test.serve().await;
    test.stop().await;
    break_node(&test, "worker-b", true).await;
    let mark = test.mark();
    test.start().await;
    test.until_service("web", "the doubt is reported", |it| {
        condition(it) == Some(("False", "NodeUnreadable"))
    })
    .await;
    test.long(600).await;
    assert_eq!(test.changes_from(mark), [""; 0]);
    assert_eq!(test.members().len(), 2);
    // New members come all the same.
    test.add_server(&third());
    test.add_node("worker-c", C, 13).await;
    test.until_members(&["11", "12", "13"]).await;
    // It can be read again.
    break_node(&test, "worker-b", false).await;
    test.until_service("web", "all is well", |it| {
        condition(it) == Some(("True", "Ready"))
    })
    .await;
    assert_eq!(test.changes_from(mark), ["POST members"]);
    // Or it goes for good.
    test.stop().await;
    break_node(&test, "worker-b", true).await;
    test.start().await;
    test.until_service("web", "the doubt is reported", |it| {
        condition(it) == Some(("False", "NodeUnreadable"))
    })
    .await;
    test.delete("worker-b").await;
    test.until_members(&["11", "13"]).await;
    test.until_service("web", "all is well", |it| {
        condition(it) == Some(("True", "Ready"))
    })
    .await;
}
