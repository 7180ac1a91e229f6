//! Nodes that were deleted although their machines were there.

use bowline_core::CLEANUP_FINALIZER as FINALIZER;
use bowline_scenarios::objects::{SHUTDOWN, has_taint};
use bowline_scenarios::scenario;
use bowline_simulator::faults::{Action, Rule};

use super::harness::{A_WHILE, BALANCING, CLOUDS, Field, nothing, on};

/// cloud-provider-vsphere#479: credentials expired, machines were rebooted or switched off meanwhile, and all nodes that
/// were not Ready were deleted in production. Now nothing is deleted and the trouble is reported; with good credentials a
/// machine that is off is off, and only the Node of one that is gone goes.
#[scenario]
async fn expired_credentials_while_machines_are_off_delete_no_node() {
    let field = Field::new(3).await;
    field.expire();
    let (off, gone) = (field.each(|it| it == 0), field.each(|it| it == 1));
    for machine in &off {
        field.power_off(machine);
    }
    for machine in &gone {
        field.destroy(machine);
    }
    field.silence(field.each(|_| true)).await;
    for cloud in CLOUDS {
        field.until_in_trouble(cloud).await;
    }
    field.long(A_WHILE).await;
    field.assert_all_kept();
    for machine in field.each(|_| true) {
        assert!(!has_taint(&field.node(&machine.name), SHUTDOWN));
    }
    field.renew();
    for machine in &gone {
        field.until_deleted(&machine.name).await;
    }
    for machine in &off {
        field.shutdown_taint(&machine.name, true).await;
    }
    field.settle().await;
    for machine in field.each(|it| it != 1) {
        assert!(field.find(&machine.name).is_some(), "{}", machine.name);
    }
}

/// oracle/oci-cloud-controller-manager#57: half of the network failed, and half of the cluster's nodes were deleted. Now
/// neither calls that fail by chance nor machines that cannot be asked about take a Node away, or a target.
#[scenario]
async fn half_a_network_takes_no_node_and_no_target() {
    let by_chance = async {
        let field = Field::serving(4).await;
        for cloud in CLOUDS {
            for (action, probability) in [(Action::Hang, 0.25), (Action::Reset, 0.4)] {
                let rule = Rule::new(action).server(cloud);
                field.fault(rule.probability(probability));
            }
        }
        half_is_silent(&field).await;
    };
    let by_machine = async {
        let field = Field::serving(4).await;
        for machine in field.each(|it| it < 2) {
            let rule = Rule::new(Action::Hang).server(machine.owner);
            field.fault(rule.on("*", &format!("*{}*", machine.id)));
        }
        half_is_silent(&field).await;
    };
    futures::join!(by_chance, by_machine);
}

async fn half_is_silent(field: &Field) {
    field.silence(field.each(|it| it < 2)).await;
    field.long(A_WHILE).await;
    field.assert_all_kept();
    field.world.faults.clear();
    for cloud in BALANCING {
        field.is_serving(cloud).await;
    }
    field.settle().await;
    field.assert_all_kept();
}

/// kubernetes-sigs/cloud-provider-azure#2880: a refresh that was rate-limited left an empty cache, and the nodes that were
/// not in it were deleted. Now a list that fails proves nothing, and neither does one that lacks machines: what is gone is
/// asked for by itself.
#[scenario]
async fn a_rate_limited_refresh_and_an_empty_list_delete_no_node() {
    let limited = Action::Status {
        code: 429,
        headers: [("Retry-After".to_owned(), "30".to_owned())].into(),
        body: None,
    };
    let story = async |answer: &dyn Fn(&str) -> Action| {
        let field = Field::new(5).await;
        field.lists(answer);
        field.silence(field.each(|_| true)).await;
        field.long(A_WHILE).await;
        field.assert_all_kept();
        let gone = field.each(|it| it == 4);
        for it in &gone {
            field.destroy(it);
        }
        field.world.faults.clear();
        for machine in gone {
            field.until_deleted(&machine.name).await;
        }
    };
    let throttled = |_: &str| limited.clone();
    futures::join!(story(&throttled), story(&nothing));
}

/// oracle/oci-cloud-controller-manager#434: a permission that was taken away is answered as if nothing were there, and
/// the nodes that were not Ready at that moment were deleted. Now a cloud that does not know the machines of Ready nodes
/// either is not believed: no Node goes, no Service is let go, and both are reported; with the permission back all goes on.
#[scenario]
async fn a_lost_permission_that_looks_like_absence_deletes_nothing() {
    let field = Field::serving(2).await;
    field.lists(nothing);
    field.hide_machines();
    field.hide_balancers();
    let rebooting = field.each(|it| it == 0);
    field.silence(rebooting.clone()).await;
    for cloud in BALANCING {
        field.delete_service(&on(cloud)).await;
    }
    for machine in &rebooting {
        let message = field.message(&machine.name, "NodeDeletionHeld").await;
        assert!(message.contains("AccountContradicted"), "{message}");
    }
    for cloud in BALANCING {
        field.message(&on(cloud), "AccountContradicted").await;
    }
    field.long(A_WHILE).await;
    field.assert_all_kept();
    for cloud in BALANCING {
        assert_eq!(field.finalizers(&on(cloud)), [FINALIZER], "{cloud}");
    }
    assert_eq!(field.balancer_counts(), [1, 0, 1]);
    for cloud in CLOUDS {
        field.until_account(cloud, "contradicted").await;
    }
    // One of the machines is gone after all.
    let gone = field.each(|it| it == 0);
    for it in &gone {
        field.destroy(it);
    }
    field.world.faults.clear();
    for cloud in BALANCING {
        field.until_service_gone(&on(cloud)).await;
    }
    assert_eq!(field.balancer_counts(), [0, 0, 0]);
    for machine in gone {
        field.until_deleted(&machine.name).await;
    }
    for cloud in CLOUDS {
        field.until_account(cloud, "proven").await;
    }
}
