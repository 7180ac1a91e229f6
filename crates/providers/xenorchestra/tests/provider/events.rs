//! Following a server's events.

use std::time::Duration;

use bowline_core::Lookup;
use bowline_simulator_xenorchestra::{Connection, NAME, Quirks, VmSpec};

use crate::harness::{H1, H2, Harness, PA, VM1, cannot_tell, found, fresh, gone, id1, w1, wait};

/// With events, followed since the first question.
async fn followed() -> Harness {
    let test = Harness::configured("").await;
    found(test.ask_one(&w1()).await);
    wait(Duration::from_secs(5)).await;
    assert_eq!(test.sim.listening(), 1);
    test.calls();
    test
}

#[tokio::test(start_paused = true)]
async fn while_events_are_followed_nothing_is_asked() {
    let test = followed().await;
    for _ in 0..10 {
        assert_eq!(found(test.ask_one(&w1()).await).zone, H1);
        wait(Duration::from_secs(60)).await;
    }
    assert_eq!(test.calls(), [""; 0]);
    test.sim.migrate(VM1, H2).unwrap();
    test.sim.rename_host(H2, "renamed").unwrap();
    wait(Duration::from_secs(2)).await;
    let moved = found(test.ask_one(&w1()).await);
    assert_eq!(moved.zone, H2);
    assert_eq!(
        moved.extra_labels["topology.k8s.xenorchestra/host_name_label"],
        "renamed"
    );
    assert_eq!(test.calls(), [""; 0]);
    // Before a node is tainted or deleted, its VM is asked for.
    found(test.presence(&w1()).await);
    assert_eq!(test.calls(), [format!("GET /rest/v0/vms/{VM1} 200")]);
}

#[tokio::test(start_paused = true)]
async fn a_new_vm_is_found_before_and_after_its_event() {
    let test = followed().await;
    let id = test
        .sim
        .add_vm(&VmSpec::named("worker-3").host(H1))
        .unwrap();
    found(test.ask_one(&fresh("w3", &id)).await);
}

#[tokio::test(start_paused = true)]
async fn xenorchestra_case_85_what_is_removed_is_asked_for_and_after_a_break_all_is_listed() {
    let test = followed().await;
    test.sim
        .set_connection(PA, Connection::Disconnected)
        .unwrap();
    wait(Duration::from_secs(2)).await;
    for _ in 0..2 {
        let error = cannot_tell(test.ask_one(&w1()).await);
        assert!(error.contains("not connected"), "{error}");
        cannot_tell(test.presence(&w1()).await);
    }
    // The stream breaks, and the pool comes back, with another name, while nobody listens.
    test.world.faults.cut_streams(NAME);
    test.sim.set_connection(PA, Connection::Connected).unwrap();
    test.sim.rename(VM1, "renamed").unwrap();
    test.calls();
    wait(Duration::from_secs(30)).await;
    let calls = test.calls();
    let position = |call: &str| calls.iter().position(|it| it.starts_with(call)).unwrap();
    assert!(
        position("GET /rest/v0/events") < position("POST /rest/v0/events/"),
        "{calls:?}"
    );
    assert!(
        position("POST /rest/v0/events/") < position("GET /rest/v0/vms"),
        "{calls:?}"
    );
    let instance = found(test.ask_one(&w1()).await);
    assert_eq!(
        instance.extra_labels["vm.k8s.xenorchestra/name_label"],
        "renamed"
    );
    assert_eq!(test.calls(), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn a_vm_that_is_deleted_is_gone_by_proof_and_not_by_its_event() {
    let test = followed().await;
    test.sim.destroy(VM1).unwrap();
    wait(Duration::from_secs(2)).await;
    gone(test.presence(&w1()).await);
    assert_eq!(test.calls().len(), 3, "the VM, its pool, its hosts");
}

#[tokio::test(start_paused = true)]
async fn a_server_without_events_is_asked() {
    let quirks = Quirks {
        no_events: true,
        ..Quirks::default()
    };
    let file = format!(
        "url: http://xo.sim\ntoken: {}\n",
        bowline_simulator_xenorchestra::DEFAULT_TOKEN
    );
    let test = Harness::of(&file, quirks).await;
    found(test.ask_one(&w1()).await);
    wait(Duration::from_secs(1800)).await;
    let events = |calls: Vec<String>| calls.iter().filter(|it| it.contains("/events")).count();
    assert_eq!(events(test.calls()), 1);
    test.sim.migrate(VM1, H2).unwrap();
    assert_eq!(found(test.ask_one(&w1()).await).zone, H2);
    // It may be a newer one an hour later.
    test.sim.set_quirks(|quirks| quirks.no_events = false);
    wait(Duration::from_secs(3600)).await;
    assert_eq!(test.sim.listening(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_thousand_nodes_at_rest_cost_nothing() {
    let test = followed().await;
    let ids = test
        .sim
        .add_vms(&VmSpec::named("many").count(1000).host(H1))
        .unwrap();
    wait(Duration::from_secs(5)).await;
    let nodes: Vec<_> = ids
        .iter()
        .map(|id| {
            let mut node = w1();
            node.name = format!("n-{id}");
            node.provider_id = Some(id1().replace(VM1, id));
            node
        })
        .collect();
    test.calls();
    let answers = test.ask(&nodes).await;
    assert!(answers.iter().all(|it| matches!(it, Lookup::Found(_))));
    assert_eq!(test.calls(), [""; 0]);
}
