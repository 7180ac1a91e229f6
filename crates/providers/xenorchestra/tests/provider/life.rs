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
    let stage = Harness::new().await;
    stage.sim.destroy(VM1).unwrap();
    let evidence = gone(stage.presence(&w1()).await);
    assert_eq!(
        evidence.text,
        format!("GET vms/{VM1} answered 404 no such VM, and pool {PA} is loaded")
    );
    assert_eq!(
        stage.calls(),
        [
            format!("GET /rest/v0/vms/{VM1} 404"),
            format!("GET /rest/v0/pools/{PA} 200"),
            "GET /rest/v0/hosts 200".to_owned(),
        ]
    );
    gone(stage.ask_one(&w1()).await);
    stage.cloud.instances().unwrap().canary().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn power_is_what_the_server_says_of_that_very_machine() {
    let stage = Harness::new().await;
    for (state, wanted) in [
        (PowerState::Halted, Power::Off),
        (PowerState::Paused, Power::Off),
        (PowerState::Suspended, Power::Off),
        (PowerState::Running, Power::On),
    ] {
        stage.sim.set_power(VM1, state).unwrap();
        stage.calls();
        assert_eq!(found(stage.presence(&w1()).await).power, wanted);
        assert_eq!(stage.calls(), [format!("GET /rest/v0/vms/{VM1} 200")]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_pool_that_is_not_there_proves_nothing() {
    let stage = Harness::new().await;
    for state in [Connection::Disconnected, Connection::Connecting] {
        stage.sim.set_connection(PA, state).unwrap();
        let error = cannot_tell(stage.presence(&w1()).await);
        says(&error, "not connected");
        cannot_tell(stage.ask_one(&w1()).await);
    }
}

#[tokio::test(start_paused = true)]
async fn no_other_answer_proves_anything() {
    let stage = Harness::new().await;
    stage.sim.destroy(VM1).unwrap();
    for action in [
        Action::Html { code: 404 },
        answer(404, json!("no such VM")),
        status(404, "no such VM"),
        status(404, &format!("no such VM {PA}")),
        status(503, "because"),
        Action::Truncated,
        Action::Hang,
    ] {
        stage.fault("/rest/v0/vms/*", action);
        cannot_tell(stage.presence(&w1()).await);
    }
}

#[tokio::test(start_paused = true)]
async fn xenorchestra_case_66_both_pools_that_a_machine_was_in_have_to_be_there() {
    let stage = Harness::new().await;
    let mut node = w1();
    node.labels.insert(POOL_ID.into(), PB.into());
    stage.sim.migrate(VM1, H3).unwrap();
    assert_eq!(found(stage.presence(&node).await).power, Power::On);
    stage.sim.disconnect_pool(PB).unwrap();
    cannot_tell(stage.presence(&node).await);
    stage.sim.set_connection(PB, Connection::Connected).unwrap();
    wait(Duration::from_secs(10)).await;
    stage.sim.destroy(VM1).unwrap();
    gone(stage.presence(&node).await);
}

#[tokio::test(start_paused = true)]
async fn xenorchestra_case_67_a_pool_without_vm_records_proves_nothing() {
    let stage = Harness::new().await;
    stage.sim.lose_vm_records(PA, true).unwrap();
    let error = cannot_tell(stage.presence(&w1()).await);
    says(&error, "shows no VM at all");
    stage.sim.lose_vm_records(PA, false).unwrap();
    found(stage.presence(&w1()).await);
}

#[tokio::test(start_paused = true)]
async fn xenorchestra_case_68_without_a_pool_all_pools_have_to_be_there() {
    let stage = Harness::new().await;
    let node = known("w1", &format!("xenorchestra:///{VM1}"));
    stage.sim.destroy(VM1).unwrap();
    for state in [Connection::Disconnected, Connection::Connecting] {
        stage.sim.set_connection(PA, state).unwrap();
        cannot_tell(stage.presence(&node).await);
    }
    stage.sim.set_connection(PA, Connection::Connected).unwrap();
    wait(Duration::from_secs(10)).await;
    // It shows `connected` before it shows the pool.
    let loading = json!([
        { "enabled": true, "status": "connected", "poolId": PB },
        { "enabled": true, "status": "connected", "poolId": "11111111-1111-4111-8111-111111111111" },
    ]);
    stage.fault("/rest/v0/servers", answer(200, loading));
    cannot_tell(stage.presence(&node).await);
    // Rights to read servers are not needed.
    stage.fault("/rest/v0/servers", status(403, "not enough privileges"));
    gone(stage.presence(&node).await);
    stage.world.faults.clear();
    let evidence = gone(stage.presence(&node).await);
    ends(&evidence.text, "and all pools are loaded");
}

#[tokio::test(start_paused = true)]
async fn xenorchestra_case_69_a_template_is_no_machine_any_more() {
    let stage = Harness::new().await;
    stage.sim.halt(VM1).unwrap();
    stage.sim.make_template(VM1).unwrap();
    gone(stage.presence(&w1()).await);
}

#[tokio::test(start_paused = true)]
async fn xenorchestra_case_70_who_may_not_see_pools_proves_nothing() {
    let stage = Harness::new().await;
    stage.sim.destroy(VM1).unwrap();
    stage
        .sim
        .set_user("svc", User::with("x", &[Privilege::read("vm")]));
    stage.sim.set_token(DEFAULT_TOKEN, "svc");
    let error = cannot_tell(stage.presence(&w1()).await);
    says(&error, "403");
    stage.sim.set_user(
        "svc",
        User::with("x", &["vm", "pool", "host"].map(Privilege::read)),
    );
    gone(stage.presence(&w1()).await);
}

#[tokio::test(start_paused = true)]
async fn xenorchestra_case_74_a_page_to_sign_in_is_no_answer() {
    let stage = Harness::new().await;
    let action = Action::Status {
        code: 302,
        headers: [("Location".to_owned(), "/signin".to_owned())].into(),
        body: None,
    };
    stage.fault("/rest/v0/vms/*", action);
    let error = cannot_tell(stage.presence(&w1()).await);
    says(&error, "not understood");
    cannot_tell(stage.ask_one(&w1()).await);
}

#[tokio::test(start_paused = true)]
async fn xenorchestra_case_42_and_77_a_malformed_id_is_never_gone() {
    let stage = Harness::new().await;
    let nil = "00000000-0000-0000-0000-000000000000";
    for id in [
        "xenorchestra://not-a-uuid/x",
        &format!("xenorchestra://{nil}/{VM1}"),
    ] {
        let node = known("w1", id);
        assert!(matches!(stage.presence(&node).await, Lookup::CannotTell(_)));
        assert!(matches!(stage.ask_one(&node).await, Lookup::CannotTell(_)));
    }
    assert_eq!(stage.calls().len(), 0);
}

#[tokio::test(start_paused = true)]
async fn when_very_many_are_missing_only_some_are_asked_for_and_always_the_same() {
    let stage = Harness::new().await;
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
        let answers = stage.cloud.instances().unwrap().presence(&shared).await;
        for (number, answer) in answers.iter().enumerate() {
            let is_gone = matches!(answer, Lookup::Gone(_));
            assert_eq!(
                is_gone,
                number < bowline_xenorchestra::CONFIRMATIONS,
                "{number}"
            );
        }
        let calls = stage.calls();
        let pools = calls.iter().filter(|it| it.contains("/pools/")).count();
        assert_eq!(pools, 1, "a pool is proven once in a look");
    }
}
