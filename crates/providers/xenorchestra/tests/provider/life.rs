//! When a machine is switched off, and when it is gone.

use bowline_core::{Lookup, Power};
use bowline_simulator::faults::Action;
use bowline_simulator_xenorchestra::{Connection, DEFAULT_TOKEN, PowerState, Privilege, User};
use bowline_test_kit::{ends, says};

use crate::harness::{
    H3, Harness, PA, PB, VM1, answer, cannot_tell, found, gone, known, status, w1, wait,
};
use serde_json::json;
use std::time::Duration;

const POOL_ID: &str = "topology.k8s.xenorchestra/pool_id";

#[tokio::test(start_paused = true)]
async fn a_machine_that_was_deleted_is_gone_while_its_pool_is_there() {
    let test = Harness::new().await;
    test.sim.destroy(VM1).unwrap();
    let evidence = gone(test.presence(&w1()).await);
    assert_eq!(
        evidence.text,
        format!("GET vms/{VM1} answered 404 no such VM, and pool {PA} is loaded")
    );
    assert_eq!(
        test.calls(),
        [
            format!("GET /rest/v0/vms/{VM1} 404"),
            format!("GET /rest/v0/pools/{PA} 200"),
            "GET /rest/v0/hosts 200".to_owned(),
        ]
    );
    gone(test.ask_one(&w1()).await);
    test.cloud.instances().unwrap().canary().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn power_is_what_the_server_says_of_that_very_machine() {
    let test = Harness::new().await;
    for (state, wanted) in [
        (PowerState::Halted, Power::Off),
        (PowerState::Paused, Power::Off),
        (PowerState::Suspended, Power::Off),
        (PowerState::Running, Power::On),
    ] {
        test.sim.set_power(VM1, state).unwrap();
        test.calls();
        assert_eq!(found(test.presence(&w1()).await).power, wanted);
        assert_eq!(test.calls(), [format!("GET /rest/v0/vms/{VM1} 200")]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_pool_that_is_not_there_proves_nothing() {
    let test = Harness::new().await;
    for state in [Connection::Disconnected, Connection::Connecting] {
        test.sim.set_connection(PA, state).unwrap();
        let error = cannot_tell(test.presence(&w1()).await);
        says(&error, "not connected");
        cannot_tell(test.ask_one(&w1()).await);
    }
}

#[tokio::test(start_paused = true)]
async fn no_other_answer_proves_anything() {
    let test = Harness::new().await;
    test.sim.destroy(VM1).unwrap();
    for action in [
        Action::Html { code: 404 },
        answer(404, json!("no such VM")),
        status(404, "no such VM"),
        status(404, &format!("no such VM {PA}")),
        status(503, "because"),
        Action::Truncated,
        Action::Hang,
    ] {
        test.fault("/rest/v0/vms/*", action);
        cannot_tell(test.presence(&w1()).await);
    }
}

#[tokio::test(start_paused = true)]
async fn xenorchestra_case_66_both_pools_that_a_machine_was_in_have_to_be_there() {
    let test = Harness::new().await;
    let mut node = w1();
    node.labels.insert(POOL_ID.into(), PB.into());
    test.sim.migrate(VM1, H3).unwrap();
    assert_eq!(found(test.presence(&node).await).power, Power::On);
    test.sim.disconnect_pool(PB).unwrap();
    cannot_tell(test.presence(&node).await);
    test.sim.set_connection(PB, Connection::Connected).unwrap();
    wait(Duration::from_secs(10)).await;
    test.sim.destroy(VM1).unwrap();
    gone(test.presence(&node).await);
}

#[tokio::test(start_paused = true)]
async fn xenorchestra_case_67_a_pool_without_vm_records_proves_nothing() {
    let test = Harness::new().await;
    test.sim.lose_vm_records(PA, true).unwrap();
    let error = cannot_tell(test.presence(&w1()).await);
    says(&error, "shows no VM at all");
    test.sim.lose_vm_records(PA, false).unwrap();
    found(test.presence(&w1()).await);
}

#[tokio::test(start_paused = true)]
async fn xenorchestra_case_68_without_a_pool_all_pools_have_to_be_there() {
    let test = Harness::new().await;
    let node = known("w1", &format!("xenorchestra:///{VM1}"));
    test.sim.destroy(VM1).unwrap();
    for state in [Connection::Disconnected, Connection::Connecting] {
        test.sim.set_connection(PA, state).unwrap();
        cannot_tell(test.presence(&node).await);
    }
    test.sim.set_connection(PA, Connection::Connected).unwrap();
    wait(Duration::from_secs(10)).await;
    // It shows `connected` before it shows the pool.
    let loading = json!([
        { "enabled": true, "status": "connected", "poolId": PB },
        { "enabled": true, "status": "connected", "poolId": "11111111-1111-4111-8111-111111111111" },
    ]);
    test.fault("/rest/v0/servers", answer(200, loading));
    cannot_tell(test.presence(&node).await);
    // Rights to read servers are not needed.
    test.fault("/rest/v0/servers", status(403, "not enough privileges"));
    gone(test.presence(&node).await);
    test.world.faults.clear();
    let evidence = gone(test.presence(&node).await);
    ends(&evidence.text, "and all pools are loaded");
}

#[tokio::test(start_paused = true)]
async fn xenorchestra_case_69_a_template_is_no_machine_any_more() {
    let test = Harness::new().await;
    test.sim.halt(VM1).unwrap();
    test.sim.make_template(VM1).unwrap();
    gone(test.presence(&w1()).await);
}

#[tokio::test(start_paused = true)]
async fn xenorchestra_case_70_who_may_not_see_pools_proves_nothing() {
    let test = Harness::new().await;
    test.sim.destroy(VM1).unwrap();
    test.sim
        .set_user("svc", User::with("x", &[Privilege::read("vm")]));
    test.sim.set_token(DEFAULT_TOKEN, "svc");
    let error = cannot_tell(test.presence(&w1()).await);
    says(&error, "403");
    test.sim.set_user(
        "svc",
        User::with("x", &["vm", "pool", "host"].map(Privilege::read)),
    );
    gone(test.presence(&w1()).await);
}

#[tokio::test(start_paused = true)]
async fn xenorchestra_case_74_a_page_to_sign_in_is_no_answer() {
    let test = Harness::new().await;
    let action = Action::Status {
        code: 302,
        headers: [("Location".to_owned(), "/signin".to_owned())].into(),
        body: None,
    };
    test.fault("/rest/v0/vms/*", action);
    let error = cannot_tell(test.presence(&w1()).await);
    says(&error, "not understood");
    cannot_tell(test.ask_one(&w1()).await);
}

#[tokio::test(start_paused = true)]
async fn xenorchestra_case_42_and_77_a_malformed_id_is_never_gone() {
    let test = Harness::new().await;
    let nil = "00000000-0000-0000-0000-000000000000";
    for id in [
        "xenorchestra://not-a-uuid/x",
        &format!("xenorchestra://{nil}/{VM1}"),
    ] {
        let node = known("w1", id);
        assert!(matches!(test.presence(&node).await, Lookup::CannotTell(_)));
        assert!(matches!(test.ask_one(&node).await, Lookup::CannotTell(_)));
    }
    assert_eq!(test.calls().len(), 0);
}

#[tokio::test(start_paused = true)]
async fn when_very_many_are_missing_only_some_are_asked_for_and_always_the_same() {
    let test = Harness::new().await;
    let nodes: Vec<_> = (0..300)
        .map(|n| {
            known(
                &format!("x{n}"),
                &format!("xenorchestra://{PA}/{}", uuid::Uuid::from_u128(n + 1)),
            )
        })
        .collect();
    let shared: Vec<_> = nodes.iter().cloned().map(std::sync::Arc::new).collect();
    for _ in 0..2 {
        let answers = test.cloud.instances().unwrap().presence(&shared).await;
        for (number, answer) in answers.iter().enumerate() {
            let is_gone = matches!(answer, Lookup::Gone(_));
            assert_eq!(
                is_gone,
                number < bowline_xenorchestra::CONFIRMATIONS,
                "{number}"
            );
        }
        let calls = test.calls();
        let pools = calls.iter().filter(|it| it.contains("/pools/")).count();
        assert_eq!(pools, 1, "a pool is proven once in a look");
    }
}
