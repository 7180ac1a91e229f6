use bowline_simulator::faults::{Action, Rule};
use bowline_simulator::journal::Filter;
use bowline_talos_api::specs::{AddressStatusSpec, PlatformMetadataSpec};
use tokio::time::{Instant, timeout};

use super::*;

#[tokio::test(start_paused = true)]
async fn the_journal_says_what_was_asked_of_whom() {
    let sim = Harness::new();
    let caller = sim.reader().await;
    sim.world.journal.clear();
    caller
        .single::<PlatformMetadataSpec>("10.0.0.5")
        .await
        .unwrap();
    caller.ids::<AddressStatusSpec>("fd00::5").await.unwrap();
    caller.version(&[]).await.unwrap();
    let _ = caller.single::<PlatformMetadataSpec>("10.0.0.99").await;
    let entries = sim.world.journal.entries();
    let lines: Vec<String> = entries
        .iter()
        .map(|it| {
            format!(
                "{} {} {} {} {}",
                it.operation, it.path, it.query, it.status, it.caller
            )
        })
        .collect();
    assert_eq!(
        lines,
        [
            "Get /cosi.resource.State/Get endpoint=cp-1&node=10.0.0.5&\
             type=PlatformMetadatas.talos.dev&id=platformmetadata 200 os:reader",
            "List /cosi.resource.State/List endpoint=cp-1&node=fd00::5&\
             type=AddressStatuses.net.talos.dev 200 os:reader",
            "Version /machine.MachineService/Version endpoint=cp-1 200 os:reader",
            "Get /cosi.resource.State/Get endpoint=cp-1&node=10.0.0.99&\
             type=PlatformMetadatas.talos.dev&id=platformmetadata 503 os:reader",
        ]
    );
    assert_eq!(entries[0].body["namespace"], "runtime");
    assert_eq!(sim.world.journal.count(&Filter::any().mutating()), 0);
}

#[tokio::test(start_paused = true)]
async fn the_next_calls_fail_as_planned() {
    let sim = Harness::new();
    let caller = sim.reader().await;
    let failure = Failure::next(Code::Unavailable, "not now")
        .method("Get")
        .machine("worker-1")
        .times(2);
    sim.talos.fail(failure);
    caller.version(&[]).await.unwrap();
    caller
        .single::<PlatformMetadataSpec>("10.0.0.6")
        .await
        .unwrap();
    for _ in 0..2 {
        let failed = caller.single::<PlatformMetadataSpec>("fd00::5").await;
        assert_eq!(reported(failed), (Code::Unavailable, "not now".to_owned()));
    }
    caller
        .single::<PlatformMetadataSpec>("10.0.0.5")
        .await
        .unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_machine_may_hang_while_others_answer() {
    let sim = Harness::new();
    let caller = sim.reader().await;
    sim.talos.hang("worker-1", true).unwrap();
    let wait = Duration::from_secs(3600);
    let hung = timeout(wait, caller.single::<PlatformMetadataSpec>("10.0.0.5")).await;
    assert!(hung.is_err());
    caller
        .single::<PlatformMetadataSpec>("10.0.0.6")
        .await
        .unwrap();
    let hung = Filter::any().query("*node=10.0.0.5*").status(0);
    assert_eq!(sim.world.journal.count(&hung), 1);
    sim.talos.hang("worker-1", false).unwrap();
    caller
        .single::<PlatformMetadataSpec>("10.0.0.5")
        .await
        .unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_list_breaks_off_with_its_connection() {
    let sim = Harness::new();
    let caller = sim.reader().await;
    sim.talos.cut_next_list("worker-1", 2).unwrap();
    let request = with(AddressStatusSpec::list(), &[("node", "10.0.0.5")]);
    let mut stream = caller
        .state
        .clone()
        .list(request)
        .await
        .unwrap()
        .into_inner();
    for _ in 0..2 {
        assert!(stream.message().await.unwrap().is_some());
    }
    assert!(stream.message().await.is_err());
    assert!(caller.version(&[]).await.is_err(), "the connection is gone");
    let again = sim.reader().await;
    assert_eq!(
        again
            .ids::<AddressStatusSpec>("10.0.0.5")
            .await
            .unwrap()
            .len(),
        3
    );
}

#[tokio::test(start_paused = true)]
async fn rules_mean_methods_machines_and_types() {
    let sim = Harness::new();
    let caller = sim.reader().await;
    let delay = Duration::from_secs(3);
    let slow = Rule::new(Action::Delay {
        least: delay,
        most: delay,
    });
    let slow = slow.server(NAME).operation("List").query("*node=10.0.0.5*");
    sim.world.faults.add(slow).unwrap();
    let begin = Instant::now();
    caller.ids::<AddressStatusSpec>("10.0.0.6").await.unwrap();
    assert_eq!(begin.elapsed(), Duration::ZERO);
    caller.ids::<AddressStatusSpec>("10.0.0.5").await.unwrap();
    assert_eq!(begin.elapsed(), delay);
    let cut = Rule::new(Action::Reset)
        .server(NAME)
        .operation("Version")
        .times(1);
    sim.world.faults.add(cut).unwrap();
    assert!(caller.version(&[]).await.is_err());
    assert!(caller.version(&[]).await.is_err(), "the connection is gone");
    assert!(sim.reader().await.version(&[]).await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn reads_fail_when_all_do() {
    let sim = Harness::new();
    let caller = sim.reader().await;
    sim.world.faults.fail_reads(NAME, true);
    assert!(caller.version(&[]).await.is_err());
    sim.world.faults.fail_reads(NAME, false);
    caller.version(&[]).await.unwrap();
}
