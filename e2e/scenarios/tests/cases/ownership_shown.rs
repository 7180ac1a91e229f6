//! Whose a node is, shown on the node where that is asked for.

use bowline_core::DescribePolicy;
use bowline_core::owner_annotation::{DESCRIBER, FIELD_MANAGER, OWNER};
use bowline_scenarios::cloud::{Script, ScriptedCloud, machine};
use bowline_scenarios::objects::{fresh, known};
use bowline_scenarios::{Setup, TestCluster, scenario};
use bowline_simulator::journal::Entry;
use serde_json::Value;

const INTERNAL: &str = "InternalIP:10.0.0.5";
const ANNOTATION: &[&str] = &["--show-owners=annotation"];
const LABEL: &[&str] = &["--show-owners=label"];

fn found(id: &str) -> Script {
    Script::Machine(machine(id, &[INTERNAL]))
}

/// Two clouds, and no manager yet.
async fn two(first: &'static str, second: &'static str, flags: &[&str]) -> TestCluster {
    TestCluster::set_up(Setup {
        clouds: &[("east", first), ("west", second)],
        flags,
        ..Setup::default()
    })
    .await
}

/// What a node shows: owner and describer.
fn shown(bench: &TestCluster, node: &str, place: &str) -> (Option<String>, Option<String>) {
    let node = bench.node(node);
    let text = |key: &str| node["metadata"][place][key].as_str().map(str::to_owned);
    (text(OWNER), text(DESCRIBER))
}

fn owner(name: &str) -> (Option<String>, Option<String>) {
    (Some(name.to_owned()), None)
}

/// The writes of a node that show whose it is.
fn applies(bench: &TestCluster, node: &str) -> Vec<Entry> {
    let ours = |it: &Entry| it.query.contains(&format!("fieldManager={FIELD_MANAGER}"));
    bench.writes(node).into_iter().filter(ours).collect()
}

/// The node n1 of the cloud `east`, and n2 that is nobody's.
async fn one_and_a_foreign_one(bench: &TestCluster) -> Value {
    bench.clouds[0].say("n1", found("east://m-1"));
    let of_east = known("n1", "east://m-1", "True", &[INTERNAL, "Hostname:n1"]);
    bench.put(of_east).await;
    let foreign = known("n2", "other://m-2", "True", &[INTERNAL]);
    bench.put(foreign).await;
    bench.node("n2")
}

#[scenario]
async fn an_owner_is_shown_once_and_nothing_is_written_on_a_foreign_node() {
    for (flags, place) in [(ANNOTATION, "annotations"), (LABEL, "labels")] {
        let mut bench = two("east", "west", flags).await;
        let foreign = one_and_a_foreign_one(&bench).await;
        bench.start();
        bench
            .until("the owner is shown", |it| {
                shown(it, "n1", place) == owner("east")
            })
            .await;
        bench.live("n1", 3).await;
        bench.long(1800).await;
        assert_eq!(applies(&bench, "n1").len(), 1);
        assert_eq!(bench.calls("n2"), []);
        assert_eq!(bench.node("n2"), foreign);
        // Another manager finds it as it should be.
        bench.stop().await;
        bench.start();
        bench.long(600).await;
        assert_eq!(applies(&bench, "n1").len(), 1);
    }
}

#[scenario]
async fn a_new_node_shows_its_owner_once_it_is_initialised() {
    let mut bench = two("east", "west", ANNOTATION).await;
    bench.clouds[1].say("n1", found("west://m-1"));
    bench.start();
    bench.create(fresh("n1")).await;
    bench.until_initialized("n1").await;
    bench
        .until("the owner is shown", |it| {
            shown(it, "n1", "annotations") == owner("west")
        })
        .await;
    assert_eq!(applies(&bench, "n1").len(), 1);
}

#[scenario]
async fn who_describes_a_node_is_shown_where_it_is_another_cloud() {
    let mut bench = two("east", "self", ANNOTATION).await;
    bench.clouds[1].speak("n1", DescribePolicy::Always);
    bench.clouds[1].say("n1", found("east://m-1"));
    bench
        .put(known(
            "n1",
            "east://m-1",
            "True",
            &[INTERNAL, "Hostname:n1"],
        ))
        .await;
    bench.start();
    let both = (Some("east".to_owned()), Some("west".to_owned()));
    bench
        .until("both are shown", |it| {
            shown(it, "n1", "annotations") == both
        })
        .await;
}

#[scenario]
async fn an_owner_is_shown_when_it_gets_known_and_stays_while_nobody_knows_better() {
    let mut bench = two("demo", "demo", ANNOTATION).await;
    // Both accounts could have it, and one does not answer.
    bench.clouds[0].say("n1", Script::Error("east is down"));
    bench.clouds[1].say("n1", found("demo://m-1"));
    bench
        .put(known(
            "n1",
            "demo://m-1",
            "True",
            &[INTERNAL, "Hostname:n1"],
        ))
        .await;
    bench.start();
    bench.long(600).await;
    assert_eq!(bench.writes("n1"), []);
    bench.clouds[0].say("n1", Script::None);
    bench
        .until("the owner is shown", |it| {
            shown(it, "n1", "annotations") == owner("west")
        })
        .await;
    // A manager that does not know it yet leaves what may be true.
    bench.clouds[0].say("n1", Script::Error("east is down"));
    bench.stop().await;
    bench.start();
    bench.long(600).await;
    assert_eq!(shown(&bench, "n1", "annotations"), owner("west"));
    assert_eq!(applies(&bench, "n1").len(), 1);
}

#[scenario]
async fn what_is_shown_follows_a_node_that_becomes_another_cloud_s_or_nobody_s() {
    let mut bench = two("east", "west", ANNOTATION).await;
    one_and_a_foreign_one(&bench).await;
    bench.start();
    bench
        .until("the owner is shown", |it| {
            shown(it, "n1", "annotations") == owner("east")
        })
        .await;
    // What somebody else wrote over it is put right.
    let write = |text: &'static str| {
        move |node: &mut Value| node["metadata"]["annotations"][OWNER] = text.into()
    };
    bench.change("n1", write("west")).await;
    bench
        .until("it is put right", |it| {
            shown(it, "n1", "annotations") == owner("east")
        })
        .await;
    assert_eq!(applies(&bench, "n1").len(), 2);
    // Its cloud gets another name, and then it goes.
    bench.stop().await;
    let (names, world) = (bench.cluster.names().clone(), bench.world.clone());
    bench.clouds[0] = ScriptedCloud::new("north", "east", &names, &world);
    bench.clouds[0].say("n1", found("east://m-1"));
    bench.start();
    bench
        .until("the new name is shown", |it| {
            shown(it, "n1", "annotations") == owner("north")
        })
        .await;
    bench.stop().await;
    bench.clouds.remove(0);
    bench.start();
    bench
        .until("nobody is shown", |it| {
            shown(it, "n1", "annotations") == (None, None)
        })
        .await;
    bench.long(600).await;
    assert_eq!(applies(&bench, "n1").len(), 4);
    assert_eq!(bench.calls("n2"), []);
}

#[scenario]
async fn what_was_shown_goes_when_it_is_not_wanted_and_what_others_wrote_stays() {
    let mut bench = two("east", "west", ANNOTATION).await;
    one_and_a_foreign_one(&bench).await;
    bench.start();
    bench
        .until("the owner is shown", |it| {
            shown(it, "n1", "annotations") == owner("east")
        })
        .await;
    bench.stop().await;
    // From annotations to labels.
    bench.use_flags(LABEL);
    bench.start();
    bench
        .until("the owner is a label", |it| {
            shown(it, "n1", "labels") == owner("east")
        })
        .await;
    assert_eq!(shown(&bench, "n1", "annotations"), (None, None));
    bench.stop().await;
    // By hand, on a node that we never wrote to.
    let by_hand = |node: &mut Value| node["metadata"]["annotations"][OWNER] = "me".into();
    bench.change("n2", by_hand).await;
    bench.use_flags(&[]);
    bench.start();
    bench
        .until("nothing is shown", |it| {
            shown(it, "n1", "labels") == (None, None)
        })
        .await;
    bench.long(600).await;
    assert_eq!(applies(&bench, "n1").len(), 3);
    assert_eq!(shown(&bench, "n2", "annotations"), owner("me"));
    assert_eq!(
        applies(&bench, "n2").len(),
        1,
        "asked once, and it is not ours"
    );
}

#[scenario]
async fn an_observer_shows_nothing() {
    let flags = ["--show-owners=annotation", "--mode=observe"];
    let mut bench = two("east", "west", &flags).await;
    one_and_a_foreign_one(&bench).await;
    bench.start();
    bench.long(600).await;
    assert_eq!(bench.node_writes(), [""; 0]);
}
