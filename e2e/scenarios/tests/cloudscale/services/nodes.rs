//! Nodes come, go, and change their labels.

use bowline_scenarios::objects::annotated;
use bowline_scenarios::scenario;
use bowline_simulator_cloudscale::MachineSpec;

use super::service_harness::{C, SELECTOR, ServiceHarness};

const EXCLUSION: &str = "node.kubernetes.io/exclude-from-external-load-balancers";

fn third() -> MachineSpec {
    MachineSpec::named("worker-c")
        .uuid(C)
        .interface("k8s", Some(vec!["10.20.0.13".parse().unwrap()]))
}

#[scenario]
async fn cloudscale_case_53_a_node_is_one_call_for_each_pool_and_comes_before_another_goes(
    test: ServiceHarness,
) {
    test.add_server(&third());
    test.serve().await;
    let mark = test.mark();
    test.add_node("worker-c", C, 13).await;
    test.until_members(&["11", "12", "13"]).await;
    assert_eq!(test.changes_from(mark), ["POST members"]);
    let mark = test.mark();
    test.delete("worker-b").await;
    test.until_members(&["11", "13"]).await;
    assert_eq!(test.changes_from(mark), ["DELETE members"]);
    let mark = test.mark();
    test.delete("worker-c").await;
    test.add_node("worker-b", crate::cloudscale::harness::B, 12)
        .await;
    test.until_members(&["11", "12"]).await;
    let changes = test.changes_from(mark);
    assert_eq!(changes, ["POST members", "DELETE members"]);
    test.message("web", "UpdatedLoadBalancer").await;
}

#[scenario]
async fn cloudscale_case_54_the_exclusion_label_takes_the_members_of_a_node_out_and_back(
    test: ServiceHarness,
) {
    test.serve().await;
    test.change("worker-b", |node| {
        node["metadata"]["labels"][EXCLUSION] = "".into();
    })
    .await;
    test.until_members(&["11"]).await;
    test.change("worker-b", |node| {
        let labels = node["metadata"]["labels"].as_object_mut().unwrap();
        labels.remove(EXCLUSION);
    })
    .await;
    test.until_members(&["11", "12"]).await;
}

#[scenario]
async fn cloudscale_case_85_labels_count_when_they_change_what_a_selector_chooses(
    test: ServiceHarness,
) {
    let label = async |name: &str, key: &str, value: &str| {
        test.change(name, |node| {
            node["metadata"]["labels"][key] = value.into();
        })
        .await;
    };
    label("worker-a", "env", "prod").await;
    label("worker-b", "env", "staging").await;
    test.create_service(annotated("web", &[(SELECTOR, "env=prod")]))
        .await;
    test.until_ensured("web").await;
    test.until_members(&["11"]).await;
    label("worker-b", "env", "prod").await;
    test.until_members(&["11", "12"]).await;
    label("worker-a", "env", "staging").await;
    test.until_members(&["12"]).await;
    test.seconds(10).await;
    let (mark, calls) = (test.mark(), test.cloud_calls("/v1/load-balancers*").len());
    label("worker-a", "env", "testing").await;
    label("worker-b", "colour", "blue").await;
    test.seconds(20).await;
    assert_eq!(test.changes_from(mark), [""; 0]);
    assert_eq!(test.cloud_calls("/v1/load-balancers*").len(), calls);
}

#[scenario]
async fn a_machine_that_joins_becomes_a_member_and_one_that_is_destroyed_is_none_any_more(
    test: ServiceHarness,
) {
    test.serve().await;
    let mark = test.mark();
    // Its node is nobody's until it has its id.
    test.add_server(&third());
    test.join("worker-c", C);
    test.until_members(&["11", "12", "13"]).await;
    assert!(test.is_initialized("worker-c"));
    assert_eq!(test.changes_from(mark), ["POST members"]);
    let mark = test.mark();
    test.cloud.destroy(C).unwrap();
    test.until_deleted("worker-c").await;
    test.until_members(&["11", "12"]).await;
    assert_eq!(test.changes_from(mark), ["DELETE members"]);
}
