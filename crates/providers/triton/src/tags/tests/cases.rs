//! The reconciler and a simulated data center: the cases of the specification.

use std::time::Duration;

use bowline_core::CloudError;
use bowline_simulator::faults::Rule;
use serde_json::{Map, json};
use tokio::time::Instant;

use super::super::*;
use super::harness::{CLUSTER, Harness, OTHER, all_done, id, ids, port, put, put_done, reconcile};

/// A list of all machines that is new.
async fn listed(reconciler: &TagReconciler, number: u32) -> Tags {
    let listing = reconciler
        .data_center()
        .machines()
        .since(Instant::now())
        .await
        .unwrap();
    listing.machines[&id(number)].tags.clone()
}

/// One look at one machine.
async fn one(
    reconciler: &TagReconciler,
    number: u32,
    label: &str,
) -> Result<TagOutcome, CloudError> {
    let about = About::Label(label);
    reconciler.reconcile(CLUSTER, id(number), about).await
}

fn refuse(path: &str, code: u16, message: &str) -> Rule {
    let mut rule = Rule::new(bowline_test_kit::answer(
        code,
        json!({
            "code": "ValidationFailed",
            "message": "error adding tags: Invalid tag parameters",
            "errors": [{"field": "tags", "code": "Invalid", "message": message}],
        }),
    ));
    path.clone_into(&mut rule.path);
    rule.method = Some("POST".to_owned());
    rule
}

#[tokio::test(start_paused = true)]
async fn one_post_brings_a_machine_its_label_its_record_and_its_mark() {
    let test = Harness::new(1, 7);
    let reconciler = test.reconciler();
    reconciler.want(id(1), "web.prod", port(30080));
    let settled = one(&reconciler, 1, "web.prod").await;
    let after = Duration::from_millis(500);
    assert_eq!(settled.unwrap(), TagOutcome::Working { after });
    assert_eq!(test.tag(1, SERVICES), None, "it takes a second");
    assert_eq!(reconciler.unreconciled(), ids([1]));
    all_done(&reconcile(&reconciler, &ids([1]), About::Machine).await);
    assert_eq!(test.writes_to(1), ["POST tags"]);
    let body = json!({SERVICES: "web.prod:30080", SERVICES_RECORD: "web.prod", NODE: CLUSTER});
    assert_eq!(test.writes()[0].body, body);
    assert!(reconciler.unreconciled().is_empty());
}

#[tokio::test(start_paused = true)]
async fn triton_case_31_the_last_of_ours_goes_by_deletion_and_others_stay() {
    let test = Harness::new(2, 7);
    test.set_tag(1, SERVICES, "k8s-api:6443");
    let reconciler = test.reconciler();
    let machines = ids([1, 2]);
    put_done(&reconciler, &machines, "api.prod", port(30081)).await;
    put_done(&reconciler, &machines, "web.prod", port(30080)).await;
    put_done(&reconciler, &machines, "web.prod", None).await;
    let shared = test.tag(1, SERVICES).unwrap();
    assert_eq!(shared, "k8s-api:6443,api.prod:30081");
    assert_eq!(test.tag(2, SERVICES).unwrap(), "api.prod:30081");
    assert_eq!(test.tag(2, SERVICES_RECORD).unwrap(), "api.prod");
    let before = test.writes().len();
    put_done(&reconciler, &machines, "api.prod", None).await;
    assert_eq!(test.tag(1, SERVICES).unwrap(), "k8s-api:6443");
    assert_eq!(test.tag(2, SERVICES), None);
    for number in [1, 2] {
        assert_eq!(test.tag(number, SERVICES_RECORD), None);
        assert_eq!(test.tag(number, NODE).unwrap(), CLUSTER, "still a node");
    }
    let writes = test.writes_to(2);
    let deletions = ["DELETE triton.cns.services", "DELETE bowline.cns"];
    assert!(writes.iter().rev().take(2).rev().eq(&deletions));
    let posts = test.writes().split_off(before);
    let posts: Vec<_> = posts.iter().filter(|it| it.method == "POST").collect();
    assert_eq!(posts.len(), 1);
    assert_eq!(posts[0].body, json!({SERVICES: "k8s-api:6443"}));
}

#[tokio::test(start_paused = true)]
async fn triton_case_32_two_services_at_the_same_instant_are_both_there() {
    let test = Harness::new(3, 7);
    let job = Duration::from_secs(5);
    test.sim.set_timings(|timings| timings.job = job);
    let reconciler = test.reconciler();
    let machines = ids(1..=3);
    let (a, b) = tokio::join!(
        put(&reconciler, &machines, "web.prod", port(30080)),
        put(&reconciler, &machines, "api.prod", port(30081)),
    );
    all_done(&a);
    all_done(&b);
    for number in 1..=3 {
        let list = test.tag(number, SERVICES).unwrap();
        assert_eq!(list, "api.prod:30081,web.prod:30080");
        let record = test.tag(number, SERVICES_RECORD).unwrap();
        assert_eq!(record, "api.prod,web.prod");
    }
    // Never two writes to a machine at once.
    for number in 1..=3 {
        let part = id(number).to_string();
        let writes = test.writes();
        let writes = writes.iter().filter(|it| it.path.contains(&part));
        let times: Vec<_> = writes.map(|it| it.time).collect();
        assert!(times.len() <= 2, "{times:?}");
        for pair in times.windows(2) {
            let between = Duration::try_from(pair[1].duration_since(pair[0])).unwrap();
            assert!(between >= job, "{between:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_reported_while_a_write_is_on_its_way_travels_together() {
    let test = Harness::new(1, 7);
    let reconciler = test.reconciler();
    reconciler.want(id(1), "a", port(1));
    one(&reconciler, 1, "a").await.unwrap();
    for number in 2..=9 {
        reconciler.want(id(1), &format!("s{number}"), port(number));
    }
    all_done(&reconcile(&reconciler, &ids([1]), About::Label("s2")).await);
    assert_eq!(test.writes().len(), 2);
    assert_eq!(test.tag(1, SERVICES).unwrap().split(',').count(), 9);
}

#[tokio::test(start_paused = true)]
async fn triton_case_33_what_somebody_takes_away_comes_back_and_is_counted() {
    let test = Harness::new(2, 7);
    let reconciler = test.reconciler();
    let machines = ids([1, 2]);
    put_done(&reconciler, &machines, "web.prod", port(30080)).await;
    put_done(&reconciler, &machines, "api.prod", port(30081)).await;
    assert_eq!(test.repairs.get(), 0);
    let theirs: Map<_, _> = [("env".to_owned(), json!("prod"))].into_iter().collect();
    let machine = id(1).to_string();
    test.sim.replace_tags(&machine, theirs.clone()).unwrap();
    for label in ["web.prod", "api.prod"] {
        let ports = port(if label == "web.prod" { 30080 } else { 30081 });
        let shown = |number| {
            let (reconciler, ports) = (&reconciler, &ports);
            async move {
                let tags = listed(reconciler, number).await;
                reconciler.shows(CLUSTER, (id(number), &tags), label, ports.as_ref())
            }
        };
        assert!(shown(2).await);
        let is_back = label == "api.prod";
        assert_eq!(shown(1).await, is_back, "put back with the first");
        put_done(&reconciler, &machines, label, ports.clone()).await;
    }
    let list = test.tag(1, SERVICES).unwrap();
    assert_eq!(list, "api.prod:30081,web.prod:30080");
    assert_eq!(test.tag(1, "env").unwrap(), "prod");
    assert_eq!(test.repairs.get(), 1);
    assert_eq!(test.writes_to(1).len(), 3);
    assert_eq!(test.writes_to(2).len(), 2);
    // Also by a process that has only seen them.
    let reconciler = test.reconciler();
    let tags = listed(&reconciler, 1).await;
    let ports = port(30080);
    assert!(reconciler.shows(CLUSTER, (id(1), &tags), "web.prod", ports.as_ref()));
    test.sim.replace_tags(&machine, theirs).unwrap();
    put_done(&reconciler, &ids([1]), "web.prod", ports).await;
    assert_eq!(test.repairs.get(), 2);
    // What we change ourselves is no repair.
    put_done(&reconciler, &ids([1]), "web.prod", port(1)).await;
    put_done(&reconciler, &ids([1]), "web.prod", None).await;
    put_done(&reconciler, &ids([1]), "web.prod", port(1)).await;
    assert_eq!(test.repairs.get(), 2);
}

#[tokio::test(start_paused = true)]
async fn triton_case_36_who_leaves_is_cleaned_and_another_clusters_machine_is_untouched() {
    let test = Harness::new(2, 7);
    test.set_tag(1, SERVICES, "mail:25");
    test.set_tag(1, "env", "prod");
    for (key, value) in [
        (NODE, OTHER),
        (SERVICES, "web.prod:1"),
        (SERVICES_RECORD, "web.prod"),
    ] {
        test.set_tag(2, key, value);
    }
    let theirs = test.tags(2);
    let reconciler = test.reconciler();
    let outcomes = put(&reconciler, &ids([1, 2]), "web.prod", port(30080)).await;
    let other = TagOutcome::OtherCluster(OTHER.to_owned());
    assert!(matches!(&outcomes[&id(1)], Ok(TagOutcome::Done)));
    assert!(matches!(&outcomes[&id(2)], Ok(it) if *it == other));
    // Another process cleans up labels that it never wanted itself.
    let reconciler = test.reconciler();
    for machine in [1, 2] {
        reconciler.release(id(machine));
    }
    let settled = reconciler.reconcile(CLUSTER, id(2), About::Machine).await;
    assert_eq!(settled.unwrap(), other);
    all_done(&reconcile(&reconciler, &ids([1]), About::Machine).await);
    let left = [("env", "prod"), (SERVICES, "mail:25")];
    assert_eq!(
        test.tags(1),
        left.map(|(key, value)| (key.to_owned(), value.into()))
            .into()
    );
    let writes = ["POST tags", "DELETE bowline.cns", "DELETE bowline.node"];
    assert_eq!(test.writes_to(1)[1..], writes);
    assert_eq!((test.tags(2), test.writes_to(2).len()), (theirs, 0));
    // Unless it is taken over.
    reconciler.take_over(id(2));
    put_done(&reconciler, &ids([2]), "api.prod", port(30081)).await;
    assert_eq!(test.tag(2, SERVICES).unwrap(), "api.prod:30081");
    assert_eq!(test.tag(2, SERVICES_RECORD).unwrap(), "api.prod");
    assert_eq!(test.tag(2, NODE).unwrap(), CLUSTER);
}

#[tokio::test(start_paused = true)]
async fn triton_case_44_a_refusal_is_told_in_the_servers_words_and_holds_up_nobody_else() {
    let test = Harness::new(3, 7);
    let reconciler = test.reconciler();
    let words = r#"invalid "triton.cns.services" tag: Expected DNS name but "." found."#;
    let rule = refuse(&format!("/acme/machines/{}/tags", id(1)), 409, words);
    let rule = test.world.faults.add(rule).unwrap();
    let outcomes = put(&reconciler, &ids(1..=3), "web.prod", port(30080)).await;
    let Ok(TagOutcome::Refused(message)) = &outcomes[&id(1)] else {
        panic!("{outcomes:?}");
    };
    let wanted = format!("error adding tags: Invalid tag parameters: {words}");
    assert_eq!(*message, wanted);
    for number in [2, 3] {
        assert!(matches!(outcomes[&id(number)], Ok(TagOutcome::Done)));
        assert_eq!(test.tag(number, SERVICES).unwrap(), "web.prod:30080");
    }
    // It is tried again when it is asked for again, and not by itself.
    let before = test.writes().len();
    tokio::time::sleep(Duration::from_secs(600)).await;
    assert_eq!(test.writes().len(), before);
    assert!(test.world.faults.remove(&rule));
    put_done(&reconciler, &ids([1]), "web.prod", port(30080)).await;
    assert_eq!(test.tag(1, SERVICES).unwrap(), "web.prod:30080");
}

#[tokio::test(start_paused = true)]
async fn a_label_that_is_refused_does_not_hold_up_another_on_the_same_machine() {
    let test = Harness::new(1, 7);
    let reconciler = test.reconciler();
    let first = ids([1]);
    let groups = std::collections::BTreeSet::from(["not a group".to_owned()]);
    reconciler.want_groups(id(1), Role::Node, groups);
    // Both in one write are refused, each alone is not; which it is was found out once.
    put_done(&reconciler, &first, "web", port(80)).await;
    assert_eq!(test.writes().len(), 2);
    put_done(&reconciler, &first, "api", port(81)).await;
    assert_eq!(test.writes().len(), 3);
    let outcomes = reconcile(&reconciler, &first, About::Groups).await;
    assert!(matches!(&outcomes[&id(1)], Ok(TagOutcome::Refused(it)) if it.contains("not a group")));
    let outcomes = put(&reconciler, &first, "no label", port(1)).await;
    assert!(matches!(&outcomes[&id(1)], Ok(TagOutcome::Refused(_))));
    assert_eq!(test.tag(1, SERVICES).unwrap(), "api:81,web:80");
}

#[tokio::test(start_paused = true)]
async fn triton_case_69_a_machine_that_cannot_be_written_holds_up_nobody() {
    let test = Harness::new(5, 7);
    let reconciler = test.reconciler();
    let machines = ids(1..=5);
    put_done(&reconciler, &machines, "web.prod", port(30080)).await;
    let dead = "00000000-0000-4000-8000-0000000000dd";
    test.sim.migrate(&id(1).to_string(), dead).unwrap();
    test.sim.kill_compute_node(dead);
    let start = Instant::now();
    for machine in &machines {
        reconciler.want(*machine, "web.prod", None);
    }
    let mut done = std::collections::BTreeSet::new();
    let mut pending = None;
    while pending.is_none() {
        let outcomes = reconciler
            .reconcile_all(CLUSTER, &machines, About::Label("web.prod"))
            .await;
        for (machine, outcome) in outcomes {
            match outcome.unwrap() {
                TagOutcome::Done => drop(done.insert(machine)),
                TagOutcome::Pending { since } => pending = Some((machine, since)),
                TagOutcome::Working { .. } => {}
                other => panic!("{other:?}"),
            }
        }
        if start.elapsed() > Duration::from_secs(15) {
            assert_eq!(done, ids(2..=5), "at normal speed");
        }
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
    assert_eq!(pending.unwrap().0, id(1));
    assert!((60..65).contains(&start.elapsed().as_secs()));
    // Tried once a minute, however often somebody asks, with what is wanted by then.
    let before = test.writes_to(1).len();
    reconciler.want(id(1), "api.prod", port(30081));
    for _ in 0..600 {
        let settled = one(&reconciler, 1, "api.prod").await.unwrap();
        assert!(matches!(settled, TagOutcome::Pending { .. }));
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    let tries = test.writes_to(1).len() - before;
    assert!((9..=11).contains(&tries), "{tries}");
    assert_eq!(test.tag(1, SERVICES).unwrap(), "web.prod:30080");
    assert_eq!(reconciler.unreconciled(), ids([1]));
    reconciler.want(id(1), "api.prod", None);
    // It comes back: what was left on it goes, also without the Service.
    test.sim.revive_compute_node(dead);
    let back = Instant::now();
    loop {
        let settled = reconciler
            .reconcile(CLUSTER, id(1), About::Machine)
            .await
            .unwrap();
        if settled == TagOutcome::Done {
            break;
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    let lasted = back.elapsed();
    assert!(lasted < Duration::from_secs(90), "{lasted:?}");
    assert_eq!(test.tag(1, SERVICES), None);
    assert_eq!(test.tag(1, SERVICES_RECORD), None);
    tokio::time::sleep(Duration::from_secs(300)).await;
    assert_eq!(reconciler.unreconciled(), ids([]));
}

#[tokio::test(start_paused = true)]
async fn triton_case_70_a_destroyed_machine_is_clean_though_its_tags_still_answer() {
    let test = Harness::new(6, 7);
    let reconciler = test.reconciler();
    let machines = ids(1..=6);
    put_done(&reconciler, &machines, "web.prod", port(30080)).await;
    test.sim.destroy(&id(1).to_string()).unwrap();
    test.sim.destroy(&id(2).to_string()).unwrap();
    test.sim.forget(&id(3).to_string()).unwrap();
    let tags = reconciler.data_center().api().tags(id(1)).await.unwrap();
    assert_eq!(tags[SERVICES], "web.prod:30080".into());
    let before = test.writes().len();
    let outcomes = put(&reconciler, &machines, "web.prod", None).await;
    for number in 1..=3 {
        let is_gone = matches!(outcomes[&id(number)], Ok(TagOutcome::Gone));
        assert!(is_gone, "{outcomes:?}");
        assert_eq!(test.writes_to(number).len(), 1, "the one that tagged it");
    }
    for number in 4..=6 {
        assert!(matches!(outcomes[&id(number)], Ok(TagOutcome::Done)));
        assert_eq!(test.tag(number, SERVICES_RECORD), None);
    }
    assert_eq!(test.writes().len(), before + 6);
    // A machine that is listed but cannot be read is not gone.
    test.sim.lose_image(&id(4).to_string(), true).unwrap();
    reconciler.want(id(4), "web.prod", port(30080));
    let error = one(&reconciler, 4, "web.prod").await.unwrap_err().chain();
    assert!(error.contains("Cannot find machine image"), "{error}");
    assert_eq!(test.writes().len(), before + 6);
}

#[tokio::test(start_paused = true)]
async fn triton_case_71_a_process_that_begins_writes_no_tag() {
    let test = Harness::new(5, 7);
    test.set_tag(2, SERVICES, "mail:25,k8s-api:6443");
    let machines = ids(1..=5);
    let reconciler = test.reconciler();
    let labels: Vec<String> = (0..10).map(|it| format!("s{it}.prod")).collect();
    for (number, label) in (30000..).zip(&labels) {
        put_done(&reconciler, &machines, label, port(number)).await;
    }
    drop(reconciler);
    let before = test.writes().len();
    let again = test.reconciler();
    for (number, label) in (30000..30010).zip(&labels).rev() {
        let ports = port(number);
        for machine in 1..=5 {
            let tags = listed(&again, machine).await;
            assert!(again.shows(CLUSTER, (id(machine), &tags), label, ports.as_ref()));
        }
        put_done(&again, &machines, label, ports).await;
    }
    assert_eq!(test.writes().len(), before);
    // Others' changes are no reason either.
    test.set_tag(1, "env", "prod");
    put_done(&again, &machines, "s1.prod", port(30001)).await;
    assert_eq!(test.writes().len(), before);
}

#[tokio::test(start_paused = true)]
async fn labels_that_nobody_has_reported_anything_about_stay() {
    let test = Harness::new(1, 7);
    let reconciler = test.reconciler();
    let first = ids([1]);
    put_done(&reconciler, &first, "frozen.prod", port(1)).await;
    put_done(&reconciler, &first, "b.prod", port(2)).await;
    let reconciler = test.reconciler();
    put_done(&reconciler, &first, "b.prod", port(3)).await;
    assert_eq!(test.tag(1, SERVICES).unwrap(), "b.prod:3,frozen.prod:1");
    put_done(&reconciler, &first, "b.prod", None).await;
    assert_eq!(test.tag(1, SERVICES).unwrap(), "frozen.prod:1");
    assert_eq!(test.tag(1, SERVICES_RECORD).unwrap(), "frozen.prod");
}

#[tokio::test(start_paused = true)]
async fn while_the_name_service_is_down_nothing_is_written_and_the_failure_is_reported() {
    let test = Harness::new(5, 7);
    let reconciler = test.reconciler();
    test.sim.set_quirks(|quirks| quirks.names_down = true);
    let outcomes = put(&reconciler, &ids(1..=5), "web.prod", port(1)).await;
    assert!(outcomes.values().all(Result::is_err));
    assert!(test.writes().is_empty());
    test.sim.set_quirks(|quirks| quirks.names_down = false);
    put_done(&reconciler, &ids(1..=5), "web.prod", port(1)).await;
}

#[tokio::test(start_paused = true)]
async fn a_list_that_nobody_understands_is_reported_and_left_alone() {
    let test = Harness::new(1, 7);
    test.set_tag(1, SERVICES, true);
    let reconciler = test.reconciler();
    let outcomes = put(&reconciler, &ids([1]), "web.prod", port(1)).await;
    let Ok(TagOutcome::Bad(bad)) = &outcomes[&id(1)] else {
        panic!("{outcomes:?}");
    };
    let words = "tag triton.cns.services is true, which is no text";
    assert_eq!(bad.to_string(), words);
    assert!(test.writes().is_empty());
    let groups = std::collections::BTreeSet::from(["k8s-kubernetes".to_owned()]);
    reconciler.want_groups(id(1), Role::Node, groups);
    all_done(&reconcile(&reconciler, &ids([1]), About::Groups).await);
    assert_eq!(test.tag(1, GROUPS).unwrap(), "k8s-kubernetes");
}

#[tokio::test(start_paused = true)]
async fn a_list_that_is_out_of_date_does_not_hide_what_was_reported() {
    let test = Harness::new(1, 7);
    let reconciler = test.reconciler();
    put_done(&reconciler, &ids([1]), "web", port(1)).await;
    let old = listed(&reconciler, 1).await;
    let shows =
        |ports: Option<Ports>| reconciler.shows(CLUSTER, (id(1), &old), "web", ports.as_ref());
    assert!(shows(port(1)));
    reconciler.want(id(1), "web", port(2));
    assert!(!shows(port(1)) && !shows(port(2)));
    one(&reconciler, 1, "web").await.unwrap();
    // Back again, before the change has come about.
    reconciler.want(id(1), "web", port(1));
    assert!(!shows(port(1)), "the list does not show what is on its way");
    all_done(&reconcile(&reconciler, &ids([1]), About::Label("web")).await);
    assert_eq!(test.tag(1, SERVICES).unwrap(), "web:1");
    assert_eq!(test.writes_to(1).len(), 3);
}

#[tokio::test(start_paused = true)]
async fn many_machines_cost_few_calls() {
    let test = Harness::new(50, 7);
    let reconciler = test.reconciler();
    let machines = ids(1..=50);
    let start = Instant::now();
    put_done(&reconciler, &machines, "web", port(1)).await;
    let calls = test.world.journal.entries().len();
    // One read and one write each, and lists.
    assert!(calls <= 100 + 60, "{calls}");
    let lasted = start.elapsed();
    assert!(lasted < Duration::from_secs(45), "{lasted:?}");
    put_done(&reconciler, &machines, "web", port(1)).await;
    assert_eq!(test.world.journal.entries().len(), calls + 1);
}
