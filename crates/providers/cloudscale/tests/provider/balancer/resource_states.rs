//! What a plan shows of what exists and what is wanted.

use bowline_core::{Goal, Plan, ResourceState};

use crate::balancer::harness::{Harness, open, port};

fn names(things: &[ResourceState]) -> Vec<String> {
    things.iter().map(|it| it.object.to_string()).collect()
}

/// What is wanted and does not exist as it is wanted.
fn missing(plan: &Plan) -> Vec<String> {
    let exists = |wanted: &&ResourceState| plan.found.iter().any(|it| it.is_as(wanted));
    let missing = plan.wanted.iter().filter(|it| !exists(it));
    missing.map(|it| it.object.to_string()).collect()
}

#[tokio::test(start_paused = true)]
async fn what_was_carried_out_exists_as_it_is_wanted() {
    let settings: &[&[(&str, &str)]] = &[
        &[],
        &[("health-monitor-type", "http"), ("pool-protocol", "proxy")],
        &[
            ("listener-allowed-cidrs", r#"["192.0.2.0/24"]"#),
            ("timeout-client-data-ms", "1000"),
            ("floating-ips", r#"["203.0.113.77"]"#),
        ],
    ];
    for settings in settings {
        let mut test = Harness::new();
        for (suffix, value) in *settings {
            test.set(suffix, value);
        }
        test.service.ports.push(port("dns", "UDP", 53, 31053));
        let new = test.draft(Goal::Present).await.unwrap().plan;
        assert_eq!(names(&new.found), [""; 0]);
        assert_eq!(missing(&new), names(&new.wanted));
        test.ensure().await.good();
        test.settle().await;
        let plan = test.draft(Goal::Present).await.unwrap().plan;
        assert!(plan.is_empty(), "{plan:?}");
        assert_eq!(missing(&plan), [""; 0], "{:#?}", plan.found);
        assert_eq!(names(&plan.wanted), names(&new.wanted));
        let (mut found, mut wanted) = (names(&plan.found), names(&plan.wanted));
        found.sort();
        wanted.sort();
        assert_eq!(found, wanted);
        assert!(plan.found.iter().all(|it| {
            let named = it.object.kind == "floating IP";
            it.object.id.is_some() != named
        }));
    }
}

#[tokio::test(start_paused = true)]
async fn a_problem_leaves_open_what_is_wanted_but_not_what_exists() {
    let mut test = open().await;
    test.set("pool-algorithm", "fastest");
    let plan = test.draft(Goal::Present).await.unwrap().plan;
    assert_eq!(names(&plan.wanted), [""; 0]);
    assert_eq!(plan.found.len(), 6);
    let plan = test.draft(Goal::Absent).await.unwrap().plan;
    assert_eq!(names(&plan.wanted), [""; 0]);
    let [balancer] = plan.found.as_slice() else {
        panic!("{:?}", plan.found);
    };
    assert_eq!(balancer.object.kind, "load balancer");
}
