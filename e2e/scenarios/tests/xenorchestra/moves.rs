//! VMs that move: the place of their nodes follows.

use bowline_scenarios::scenario;

use super::harness::{
    BETA_REGION, BETA_TYPE, BETA_ZONE, FIRST_HOST, FIRST_POOL, H1, H2, H3, HOST_ID, HOST_NAME,
    Harness, NODE, PA, PB, POOL_ID, POOL_NAME, REGION, TYPE, VM_NAME, VM1, ZONE, assert_labels,
    assert_without, id1,
};

const GIB: u64 = 1 << 30;

fn zone_changed(old: &str, new: &str) -> String {
    let words = "Node w1 zone changed (node VM host changed)";
    format!("Warning NodeZoneChanged: {words}: old={old}, new={new}")
}

fn type_changed(old: &str, new: &str) -> String {
    let words = "Node w1 instance type has changed (node VM memory and/or CPUs changed)";
    format!("Normal NodeInstanceTypeHasChanged: {words}: old={old}, new={new}")
}

/// A node whose VM has moved from H1 to H2, and whose labels have followed.
async fn moved(settings: &str) -> Harness {
    let test = Harness::configured(settings).await;
    test.joined().await;
    test.cloud.migrate(VM1, H2).unwrap();
    test.until_label(ZONE, H2).await;
    test
}

#[scenario]
async fn xenorchestra_case_55_the_zone_follows_and_the_first_is_remembered() {
    let story = async |settings: &str| {
        let test = moved(settings).await;
        let node = test.node(NODE);
        assert_labels(&node, &[(BETA_ZONE, H2), (HOST_ID, H2)]);
        assert_labels(&node, &[(HOST_NAME, "xcp-2"), (FIRST_HOST, H1)]);
        assert_without(&node, &[FIRST_POOL]);
        assert_eq!(test.until_synced(1).await, [zone_changed(H1, H2)]);
        test.end().await;
    };
    futures::join!(story(""), story("events: no\n"));
}

#[scenario]
async fn xenorchestra_case_56_the_zone_follows_back_and_the_first_stays() {
    let story = async |settings: &str| {
        let test = moved(settings).await;
        test.until_synced(1).await;
        test.cloud.migrate(VM1, H1).unwrap();
        test.until_label(ZONE, H1).await;
        let node = test.node(NODE);
        assert_labels(&node, &[(BETA_ZONE, H1), (HOST_ID, H1)]);
        assert_labels(&node, &[(HOST_NAME, "xcp-1"), (FIRST_HOST, H1)]);
        let reported = test.until_synced(2).await;
        assert_eq!(reported, [zone_changed(H1, H2), zone_changed(H2, H1)]);
        test.end().await;
    };
    futures::join!(story(""), story("events: no\n"));
}

#[scenario]
async fn a_migration_is_followed_within_seconds_where_there_are_events(test: Harness) {
    test.joined().await;
    let begun = test.world.clock.now();
    test.cloud.migrate(VM1, H2).unwrap();
    test.until_label(ZONE, H2).await;
    let took = test.since(begun);
    let most = std::time::Duration::from_secs(5) + test.slack();
    assert!(took <= most, "{took:?}");
}

#[scenario]
async fn xenorchestra_case_57_the_region_follows_to_another_pool_and_the_id_stays() {
    let story = async |settings: &str| {
        let test = Harness::configured(settings).await;
        test.joined().await;
        test.cloud.migrate(VM1, H3).unwrap();
        test.until_label(REGION, PB).await;
        let node = test.node(NODE);
        assert_labels(&node, &[(BETA_REGION, PB), (POOL_ID, PB)]);
        assert_labels(&node, &[(POOL_NAME, "dr-pool"), (FIRST_POOL, PA)]);
        assert_labels(&node, &[(ZONE, H3), (BETA_ZONE, H3), (FIRST_HOST, H1)]);
        assert_eq!(node["spec"]["providerID"], id1());
        let mut reported = test.until_synced(2).await;
        reported.sort();
        let words = "Node w1 region changed (node VM pool changed)";
        let region = format!("Warning NodeRegionChanged: {words}: old={PA}, new={PB}");
        assert_eq!(reported, [region, zone_changed(H1, H3)]);
        test.end().await;
    };
    futures::join!(story(""), story("events: no\n"));
}

#[scenario]
async fn xenorchestra_case_58_a_vm_that_grows_has_another_type(test: Harness) {
    test.joined().await;
    test.cloud.resize(VM1, 4, 8 * GIB).unwrap();
    test.until_label(TYPE, "4vCPU-8GB").await;
    assert_labels(&test.node(NODE), &[(BETA_TYPE, "4vCPU-8GB")]);
    let reported = test.until_synced(1).await;
    assert_eq!(reported, [type_changed("4vCPU-4GB", "4vCPU-8GB")]);
}

#[scenario]
async fn xenorchestra_case_83_all_that_changed_is_one_write_and_an_event_for_each_fact() {
    // The events of a server would tell one after the other.
    let test = Harness::polling().await;
    test.joined().await;
    test.settle().await;
    let writes = test.writes_to("*").len();
    test.cloud.migrate(VM1, H2).unwrap();
    test.cloud.rename(VM1, "worker one").unwrap();
    test.cloud.resize(VM1, 2, 8 * GIB).unwrap();
    test.until_label(ZONE, H2).await;
    let node = test.node(NODE);
    assert_labels(&node, &[(VM_NAME, "worker-one"), (TYPE, "2vCPU-8GB")]);
    assert_labels(&node, &[(HOST_NAME, "xcp-2"), (FIRST_HOST, H1)]);
    test.until_synced(2).await;
    test.rounds().await;
    assert_eq!(test.writes_to("*").len(), writes + 1);
    let mut reported = test.synced();
    reported.sort();
    let wanted = [type_changed("4vCPU-4GB", "2vCPU-8GB"), zone_changed(H1, H2)];
    assert_eq!(reported, wanted);
    test.end().await;
}
