use super::*;
use crate::api::MachineState;
use crate::testing::{machine, node};
use tokio::time::Instant;

const CLUSTER: &str = "cccccccc-0000-4000-8000-00000000000c";

fn id(number: u128) -> Uuid {
    Uuid::from_u128(number)
}

/// Three nodes that are Ready, with machines that run and carry the label `web.prod`.
fn three() -> (Vec<Node>, Vec<Machine>) {
    let numbers = [1u128, 2, 3];
    let nodes = numbers.map(|number| {
        let mut node = node(&format!("n{number}"), &format!("triton://{}", id(number)));
        node.ready = Ready::True;
        node
    });
    let machines = numbers.map(|number| {
        let mut machine = machine(id(number), &format!("m{number}"));
        let tags = [("bowline.cns", "web.prod"), ("bowline.node", CLUSTER)];
        machine.tags = tags
            .map(|(key, value)| (key.to_owned(), value.into()))
            .into();
        machine
    });
    (nodes.into(), machines.into())
}

fn nodes_of(nodes: Vec<Node>, machines: Vec<Machine>) -> Nodes {
    let listing = Listing {
        machines: machines.into_iter().map(|it| (it.id, it)).collect(),
        unreadable: BTreeSet::new(),
        nameless: false,
        pages: 1,
        asked: Instant::now(),
    };
    let nodes: Vec<Arc<Node>> = nodes.into_iter().map(Arc::new).collect();
    Nodes::new(&nodes, &listing, CLUSTER)
}

fn chosen(nodes: &Nodes, serving: Option<&[&str]>, not_ready: &[(&str, u64)]) -> Chosen {
    let serving = serving.map(|it| it.iter().map(ToString::to_string).collect());
    let not_ready = not_ready
        .iter()
        .map(|(name, seconds)| ((*name).to_owned(), Duration::from_secs(*seconds)));
    let here = Circumstances {
        settings: &Settings::default(),
        label: "web.prod",
        serving: serving.as_ref(),
        not_ready: &not_ready.collect(),
    };
    choose(nodes, here)
}

fn names(chosen: &Chosen) -> Vec<&str> {
    let targets = chosen.targets.values();
    targets.map(|it| it.node.name.as_str()).collect()
}

#[tokio::test(start_paused = true)]
async fn targets_are_ready_and_run_and_are_not_hidden() {
    type Row = (fn(&mut Node, &mut Machine), bool);
    let rows: &[Row] = &[
        (|_, _| {}, true),
        (|_, machine| machine.state = MachineState::Stopped, false),
        (|_, machine| machine.state = MachineState::Offline, false),
        (|node, _| node.provider_id = None, false),
        (
            |_, machine| {
                let hidden = TagValue::Boolean(false);
                machine.tags.insert(HIDDEN.to_owned(), hidden);
            },
            true,
        ),
        (
            |_, machine| {
                machine.tags.insert(HIDDEN.to_owned(), "false".into());
            },
            false,
        ),
        (
            |_, machine| {
                machine.tags.insert(NODE.to_owned(), "other".into());
            },
            false,
        ),
        (
            |node, machine| {
                machine.tags.insert(NODE.to_owned(), "other".into());
                node.annotations
                    .insert(TAKE_OVER.to_owned(), "true".to_owned());
            },
            true,
        ),
        (
            |node, machine| {
                node.ready = Ready::Unknown;
                machine.tags.clear();
            },
            false,
        ),
    ];
    for (number, (change, is_target)) in rows.iter().enumerate() {
        let (mut nodes, mut machines) = three();
        change(&mut nodes[1], &mut machines[1]);
        let chosen = chosen(&nodes_of(nodes, machines), None, &[]);
        let wanted: &[&str] = if *is_target {
            &["n1", "n2", "n3"]
        } else {
            &["n1", "n3"]
        };
        assert_eq!(names(&chosen), wanted, "row {number}");
    }
}

#[tokio::test(start_paused = true)]
async fn who_is_not_ready_any_more_has_five_seconds() {
    let (mut nodes, machines) = three();
    nodes[0].ready = Ready::False;
    nodes[1].ready = Ready::Unknown;
    let nodes = nodes_of(nodes, machines);
    let first = chosen(&nodes, None, &[("n1", 3), ("n2", 1)]);
    assert_eq!(names(&first), ["n1", "n2", "n3"]);
    assert_eq!(first.again, Some(Duration::from_secs(2)));
    let then = chosen(&nodes, None, &[("n1", 5), ("n2", 3)]);
    assert_eq!(names(&then), ["n2", "n3"]);
}

#[tokio::test(start_paused = true)]
async fn without_endpoints_who_served_before_stays_for_half_a_minute() {
    let (nodes, mut machines) = three();
    machines[2].tags.clear();
    let nodes = nodes_of(nodes, machines);
    let served = chosen(&nodes, Some(&["n3", "gone"]), &[]);
    assert_eq!(names(&served), ["n3"]);
    assert!(!served.lacks_endpoints);
    let before = chosen(&nodes, Some(&["gone"]), &[]);
    assert!(before.lacks_endpoints);
    for (seconds, wanted, again) in [(0, 2, Some(30)), (29, 2, Some(1)), (30, 0, None)] {
        let mut chosen = before.clone();
        chosen.without_endpoints_for(Duration::from_secs(seconds));
        assert_eq!(chosen.targets.len(), wanted);
        assert_eq!(chosen.again, again.map(Duration::from_secs));
    }
}
