//! Nodes come, go, and change their labels.

use bowline_scenarios::objects::annotated;
use bowline_scenarios::scenario;
use bowline_simulator_cloudscale::MachineSpec;

use super::shop::{C, SELECTOR, Shop};

const EXCLUSION: &str = "node.kubernetes.io/exclude-from-external-load-balancers";

fn third() -> MachineSpec {
    MachineSpec::named("worker-c")
        .uuid(C)
        .interface("k8s", Some(vec!["10.20.0.13".parse().unwrap()]))
}

#[scenario]
async fn cloudscale_case_53_a_node_is_one_call_for_each_pool_and_comes_before_another_goes(
    shop: Shop,
) {
    shop.add_server(&third());
    shop.serve().await;
    let mark = shop.mark();
    shop.add_node("worker-c", C, 13).await;
    shop.until_members(&["11", "12", "13"]).await;
    assert_eq!(shop.changes_from(mark), ["POST members"]);
    let mark = shop.mark();
    shop.delete("worker-b").await;
    shop.until_members(&["11", "13"]).await;
    assert_eq!(shop.changes_from(mark), ["DELETE members"]);
    let mark = shop.mark();
    shop.delete("worker-c").await;
    shop.add_node("worker-b", crate::stage::B, 12).await;
    shop.until_members(&["11", "12"]).await;
    let changes = shop.changes_from(mark);
    assert_eq!(changes, ["POST members", "DELETE members"]);
    shop.message("web", "UpdatedLoadBalancer").await;
}

#[scenario]
async fn cloudscale_case_54_the_exclusion_label_takes_the_members_of_a_node_out_and_back(
    shop: Shop,
) {
    shop.serve().await;
    shop.change("worker-b", |node| {
        node["metadata"]["labels"][EXCLUSION] = "".into();
    })
    .await;
    shop.until_members(&["11"]).await;
    shop.change("worker-b", |node| {
        let labels = node["metadata"]["labels"].as_object_mut().unwrap();
        labels.remove(EXCLUSION);
    })
    .await;
    shop.until_members(&["11", "12"]).await;
}

#[scenario]
async fn cloudscale_case_85_labels_count_when_they_change_what_a_selector_chooses(shop: Shop) {
    let label = async |name: &str, key: &str, value: &str| {
        shop.change(name, |node| {
            node["metadata"]["labels"][key] = value.into();
        })
        .await;
    };
    label("worker-a", "env", "prod").await;
    label("worker-b", "env", "staging").await;
    shop.create_service(annotated("web", &[(SELECTOR, "env=prod")]))
        .await;
    shop.until_ensured("web").await;
    shop.until_members(&["11"]).await;
    label("worker-b", "env", "prod").await;
    shop.until_members(&["11", "12"]).await;
    label("worker-a", "env", "staging").await;
    shop.until_members(&["12"]).await;
    shop.seconds(10).await;
    let (mark, calls) = (shop.mark(), shop.cloud_calls("/v1/load-balancers*").len());
    label("worker-a", "env", "testing").await;
    label("worker-b", "colour", "blue").await;
    shop.seconds(20).await;
    assert_eq!(shop.changes_from(mark), [""; 0]);
    assert_eq!(shop.cloud_calls("/v1/load-balancers*").len(), calls);
}

#[scenario]
async fn a_machine_that_joins_becomes_a_member_and_one_that_is_destroyed_is_none_any_more(
    shop: Shop,
) {
    shop.serve().await;
    let mark = shop.mark();
    // Its node is nobody's until it has its id.
    shop.add_server(&third());
    shop.join("worker-c", C);
    shop.until_members(&["11", "12", "13"]).await;
    assert!(shop.is_initialized("worker-c"));
    assert_eq!(shop.changes_from(mark), ["POST members"]);
    let mark = shop.mark();
    shop.cloud.destroy(C).unwrap();
    shop.until_deleted("worker-c").await;
    shop.until_members(&["11", "12"]).await;
    assert_eq!(shop.changes_from(mark), ["DELETE members"]);
}
