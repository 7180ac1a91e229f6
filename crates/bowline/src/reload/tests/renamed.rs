//! A cloud that is called otherwise is the same cloud.

use bowline_simulator::faults::{Action, Rule};

use super::*;

fn targets(test: &Harness) -> usize {
    let balancers = test.clouds["a"].balancers();
    let pools = balancers.iter().flat_map(|it| &it.pools);
    pools.map(|it| it.members.len()).sum()
}

#[tokio::test(start_paused = true)]
async fn proof_case_05_a_renamed_cloud_keeps_its_targets_while_its_servers_cannot_be_listed() {
    let plan = Plan {
        clouds: ["a"].into(),
        ..Plan::new()
    };
    let mut test = Harness::new(5, &plan).await;
    for _ in 0..3 {
        test.add_server("a");
        test.add_service("a");
    }
    sleep(Duration::from_secs(180)).await;
    assert_eq!(targets(&test), 9);

    let unavailable = Action::Status {
        code: 503,
        headers: BTreeMap::default(),
        body: None,
    };
    let down = Rule::new(unavailable).server("a").on("GET", "/v1/servers*");
    test.world.faults.add(down.named("down")).unwrap();
    test.world.journal.clear();
    let text = plan.text(test.folder.path());
    let text = text.replace("- name: a\n", "- name: zurich\n");
    assert_eq!(test.write(&text).await, Looked::Changed);
    let present = test.reload.parts.changer.present();
    assert!(present.summary.starts_with("renamed a to zurich"));
    sleep(Duration::from_secs(600)).await;
    assert_eq!(targets(&test), 9, "none went");
    let deleted = Filter::any().server("a").method("DELETE");
    assert_eq!(test.world.journal.count(&deleted), 0);

    // Their class has the former name, and cannot be changed.
    test.world.faults.clear();
    test.add_server("a");
    sleep(Duration::from_secs(300)).await;
    assert_eq!(targets(&test), 12);
    test.stop.cancel();
    test.manager.await.unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_cloud_with_other_credentials_is_another_one() {
    let plan = Plan {
        clouds: ["a", "b"].into(),
        ..Plan::new()
    };
    let mut test = Harness::new(6, &plan).await;
    let text = plan.text(test.folder.path());
    let text = text.replace("- name: a\n", "- name: zurich\n");
    let text = text.replacen("/token}", "/other-token}", 1);
    assert_eq!(test.write(&text).await, Looked::Changed);
    let present = test.reload.parts.changer.present();
    assert!(present.summary.starts_with("added zurich; removed a"));
    assert!(present.renamed.is_empty());
    test.stop.cancel();
    test.manager.await.unwrap().unwrap();
}
