//! The table, row by row.
#![allow(
    clippy::disallowed_methods,
    reason = "any moment will do; only distances count"
)]

mod any_order;

use std::collections::BTreeMap;
use std::time::Instant;

use super::*;
use crate::load_balancer::service::examples::web;
use crate::node::examples::fresh_node;
use crate::{
    CLEANUP_FINALIZER, CloudError, CloudErrorKind, DraftError, Fingerprint, Impact, Node,
    NodeOwner, Notice, Plan, PlanProgress, Problem, ResourceRef, Roster, Step, TargetGuard,
};

fn cloud(name: &str) -> CloudName {
    CloudName::parse(name).unwrap()
}

fn ensure(name: &str) -> Responsibility {
    Responsibility::Ensure(cloud(name))
}

fn held() -> Arc<Service> {
    Arc::new(Service {
        finalizers: vec![CLEANUP_FINALIZER.into()],
        ..web()
    })
}

fn other() -> Arc<Service> {
    Arc::new(Service {
        uid: "another".into(),
        ..(*held()).clone()
    })
}

fn observed(service: &Arc<Service>, responsibility: Responsibility) -> Observed<'_> {
    Observed {
        service: ServicePresence::There(service),
        responsibility,
        former: None,
        is_lost: false,
        serves: true,
        own_annotations: &[],
        published: BTreeMap::new(),
        targets_changed: false,
        targets: None,
        is_observing: false,
        is_stopping: false,
        audit: None,
        now: Instant::now() + secs(1),
    }
}

fn node(name: &str) -> Node {
    Node {
        name: name.into(),
        ..fresh_node()
    }
}

/// A plan of steps with these impacts, in cloud `a`.
fn plan(goal: Goal, impacts: &[Impact], problems: &[&str]) -> PlanState {
    let mut plan = Plan::default();
    for &impact in impacts {
        plan.push(Step {
            verb: Verb::Create,
            object: ResourceRef {
                kind: "thing",
                name: "x".into(),
                id: None,
            },
            changes: Vec::new(),
            impact,
            reason: None,
            needs: Vec::new(),
        });
    }
    plan.problems = problems.iter().map(|text| problem(text)).collect();
    let about = (goal, cloud("a"), held());
    let targets = Fingerprint::of([&node("n1")], []);
    PlanState::new(about, targets, PlanProgress::new(plan), Instant::now())
}

fn problem(text: &str) -> Problem {
    Problem {
        reason: "Wrong",
        message: text.into(),
    }
}

fn small(goal: Goal) -> PlanState {
    plan(goal, &[Impact::None, Impact::None], &[])
}

fn remembering(clouds: &[&str]) -> State {
    let clouds = clouds.iter().map(|name| cloud(name)).collect();
    let service = held();
    State {
        remembered: Some(Remembered { service, clouds }),
        ..State::default()
    }
}

/// What is said about a state in which that has happened.
fn after(state: State, events: Vec<Event>, observed: &Observed<'_>) -> Next {
    let mut state = state;
    for event in events {
        record(&mut state, event);
    }
    reconcile(&state, observed)
}

fn held_in(name: &str) -> Event {
    let clouds = vec![cloud(name)];
    let service = held();
    Event::Held(Remembered { service, clouds })
}

fn removing(kind: RemovalKind) -> Event {
    Event::Removing(BalancerRemoval::new(
        held(),
        kind,
        vec![cloud("a"), cloud("b")],
    ))
}

fn stepped(outcome: StepOutcome) -> Event {
    Event::Stepped(Some(outcome), Timestamp::UNIX_EPOCH)
}

fn skipped() -> Event {
    let (warning, reason, message) = (true, "InUse", String::new());
    stepped(StepOutcome::Skipped(Notice {
        warning,
        reason,
        message,
    }))
}

fn waits(after: Duration) -> StepOutcome {
    let what = "it".into();
    StepOutcome::Wait { what, after }
}

fn begun(plan: PlanState) -> Vec<Event> {
    vec![held_in("a"), Event::Drafted(Box::new(plan)), Event::Begun]
}

fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn not_drafted(error: &DraftError) -> Event {
    Event::NotDrafted(NotDrafted::from(error))
}

fn cloud_error() -> DraftError {
    DraftError::Cloud(CloudError::new(CloudErrorKind::Unavailable, "down"))
}

fn later(seconds: u64) -> DraftError {
    let (what, after) = ("it".into(), secs(seconds));
    DraftError::Later { what, after }
}

fn removes(kind: RemovalKind, clouds: &[&str]) -> impl Fn(&Next) -> bool {
    let wanted: Vec<CloudName> = clouds.iter().map(|name| cloud(name)).collect();
    move |next| matches!(next, Next::Remove(it) if it.kind == kind && it.clouds == wanted)
}

#[test]
fn row_01_any_unreadable_ends_and_the_load_balancer_stays() {
    let service = held();
    for state in [State::default(), remembering(&["a"])] {
        let mut seen = observed(&service, Responsibility::Nothing);
        seen.service = ServicePresence::Unreadable;
        assert_eq!(reconcile(&state, &seen), Next::End);
    }
    // Nobody deleted what a restored API server lacks: it is forgotten, and nothing is removed.
    let mut seen = observed(&service, Responsibility::Nothing);
    (seen.service, seen.is_lost) = (ServicePresence::Lost, true);
    assert_eq!(reconcile(&remembering(&["a"]), &seen), Next::ForgetLost);
    assert_eq!(
        after(remembering(&["a"]), vec![Event::Forgotten], &seen),
        Next::End
    );
}

#[test]
fn row_02_any_doubtful_waits_for_a_consistent_read() {
    let service = held();
    let seen = observed(&service, ensure("a"));
    let doubtful = || not_drafted(&DraftError::NeedsServices);
    let next = after(State::default(), vec![held_in("a"), doubtful()], &seen);
    assert_eq!(next, Next::Later(SERVICES_PAUSE));
    let events = vec![
        removing(RemovalKind::FormerService),
        doubtful(),
        Event::AllLooked,
    ];
    assert_eq!(
        after(State::default(), events, &seen),
        Next::Later(SERVICES_PAUSE)
    );
}

#[test]
fn row_03_remembered_clouds_to_leave_are_removed_first() {
    let (same, another) = (held(), other());
    let mut gone = observed(&same, Responsibility::Nothing);
    gone.service = ServicePresence::Gone;
    for (seen, clouds) in [
        (gone, &["a", "b"][..]),
        (observed(&another, ensure("a")), &["a", "b"]),
        (observed(&same, Responsibility::Nothing), &["a", "b"]),
        (observed(&same, ensure("a")), &["b"]),
    ] {
        let next = reconcile(&remembering(&["a", "b"]), &seen);
        assert!(
            removes(RemovalKind::FormerService, clouds)(&next),
            "{next:?}"
        );
    }
    let left = || {
        vec![
            removing(RemovalKind::FormerService),
            Event::AllLooked,
            Event::Forgotten,
        ]
    };
    let next = |name| {
        after(
            remembering(&["a", "b"]),
            left(),
            &observed(&same, ensure(name)),
        )
    };
    assert_eq!(
        next("c"),
        Next::Restart,
        "another cloud's workers do the rest"
    );
    assert_eq!(next("b"), Next::AddFinalizer(cloud("b")));
    let mut moved = observed(&same, ensure("b"));
    moved.former = Some(cloud("a"));
    let next = reconcile(&State::default(), &moved);
    assert!(
        removes(RemovalKind::MovedService, &["a"])(&next),
        "{next:?}"
    );
    let events = || vec![removing(RemovalKind::MovedService), Event::AllLooked];
    assert_eq!(after(State::default(), events(), &moved), Next::Move);
    let events = [events(), vec![Event::Moved]].concat();
    assert_eq!(
        after(State::default(), events, &moved),
        Next::AddFinalizer(cloud("b"))
    );
}

#[test]
fn row_04_idle_gone_ends() {
    let service = held();
    let mut seen = observed(&service, Responsibility::Nothing);
    seen.service = ServicePresence::Gone;
    assert_eq!(reconcile(&State::default(), &seen), Next::End);
}

#[test]
fn row_05_idle_not_ours_is_reported() {
    let service = held();
    let seen = observed(&service, Responsibility::Nothing);
    assert_eq!(reconcile(&State::default(), &seen), Next::Report);
}

#[test]
fn row_06_idle_clean_up_removes_from_remembered_clouds_else_named_ones() {
    let service = held();
    let seen = observed(
        &service,
        Responsibility::CleanUp(vec![cloud("a"), cloud("b")]),
    );
    let next = reconcile(&State::default(), &seen);
    assert!(
        removes(RemovalKind::CurrentService, &["a", "b"])(&next),
        "{next:?}"
    );
    let next = reconcile(&remembering(&["b"]), &seen);
    assert!(
        removes(RemovalKind::CurrentService, &["b"])(&next),
        "{next:?}"
    );
    // Whose the finalizer is that a Service of another type has is only known if a cloud tells.
    let changed = Arc::new(Service {
        is_load_balancer: false,
        ..(*service).clone()
    });
    let seen = observed(&changed, Responsibility::CleanUp(vec![cloud("a")]));
    let next = |events| after(State::default(), events, &seen);
    assert_eq!(next(vec![]), Next::Prove(vec![cloud("a")]));
    assert_eq!(next(vec![Event::Proven(false)]), Next::Report);
    assert!(removes(RemovalKind::CurrentService, &["a"])(&next(vec![
        Event::Proven(true)
    ])));
}

#[test]
fn row_07_idle_unheld_in_a_cloud_that_does_not_serve_it_ends() {
    let (free, held) = (Arc::new(web()), held());
    for (service, expected) in [(&free, Next::End), (&held, Next::AddFinalizer(cloud("a")))] {
        let mut seen = observed(service, ensure("a"));
        seen.serves = false;
        assert_eq!(reconcile(&State::default(), &seen), expected);
    }
}

#[test]
fn row_08_idle_ensure_is_remembered_held_and_drafted() {
    let service = Arc::new(web());
    let seen = observed(&service, ensure("a"));
    assert_eq!(
        reconcile(&State::default(), &seen),
        Next::AddFinalizer(cloud("a"))
    );
    assert_eq!(
        after(State::default(), vec![held_in("a")], &seen),
        Next::Draft
    );
}

fn waiting(plan: PlanState) -> State {
    let plan = Some(plan);
    State {
        plan,
        ..State::default()
    }
}

#[test]
fn row_09_a_plan_that_waits_is_discarded_when_what_it_is_for_has_changed() {
    let service = held();
    let next = |state, seen: &Observed<'_>| after(state, vec![held_in("a")], seen);
    let good = observed(&service, ensure("a"));
    assert_eq!(next(waiting(small(Goal::Present)), &good), Next::Begin);
    let mut settled = good.clone();
    settled.targets_changed = true;
    let changed = Arc::new(Service {
        requested_ip: Some("192.0.2.1".into()),
        ..(*service).clone()
    });
    for seen in [
        observed(&service, ensure("b")),
        observed(&changed, ensure("a")),
        settled,
    ] {
        assert_eq!(next(waiting(small(Goal::Present)), &seen), Next::Discard);
    }
    let mut with_targets = small(Goal::Present);
    with_targets.targets_changed = true;
    assert_eq!(next(waiting(with_targets), &good), Next::Discard);
    assert_eq!(next(waiting(small(Goal::Absent)), &good), Next::Discard);
    let events = vec![held_in("a"), Event::Discarded];
    assert_eq!(
        after(waiting(small(Goal::Absent)), events, &good),
        Next::Draft
    );
}

#[test]
fn row_10_a_plan_that_waits_and_is_not_due_is_put_aside_again() {
    let service = held();
    let seen = observed(&service, ensure("a"));
    let mut plan = small(Goal::Present);
    plan.due = seen.now + secs(7);
    let next = after(waiting(plan), vec![held_in("a")], &seen);
    assert_eq!(next, Next::Wait(secs(7)));
}

#[test]
fn row_11_drafting_without_a_requirement_waits_five_seconds() {
    let service = held();
    let seen = observed(&service, ensure("a"));
    let events = vec![held_in("a"), not_drafted(&later(5))];
    assert_eq!(after(State::default(), events, &seen), Next::Later(secs(5)));
}

#[test]
fn row_12_drafting_elsewhere_ends_later_waits_and_an_error_fails() {
    let service = held();
    let seen = observed(&service, ensure("a"));
    for (error, expected) in [
        (DraftError::Elsewhere, Next::End),
        (later(0), Next::Later(secs(1))),
        (later(60), Next::Later(secs(60))),
        (later(3600), Next::Later(secs(600))),
        (cloud_error(), Next::Fail),
    ] {
        let events = vec![held_in("a"), not_drafted(&error)];
        assert_eq!(after(State::default(), events, &seen), expected);
    }
}

#[test]
fn row_13_drafted_by_an_observer_is_shown_and_audited() {
    let service = held();
    let mut seen = observed(&service, ensure("a"));
    (seen.is_observing, seen.audit) = (true, Some(secs(300)));
    let drafted = || vec![held_in("a"), Event::Drafted(Box::new(small(Goal::Present)))];
    assert_eq!(after(State::default(), drafted(), &seen), Next::Show);
    let events = [drafted(), vec![Event::Shown(Some(secs(60)))]].concat();
    assert_eq!(
        after(State::default(), events, &seen),
        Next::Audit(Some(secs(60)))
    );
}

#[test]
fn row_14_drafted_targets_are_removed_by_the_target_guard_alone() {
    let start = Instant::now();
    let node = Arc::new(Node {
        provider_id: Some("demo://n1".into()),
        addresses: crate::node::examples::addresses(&["InternalIP:10.0.0.5"]),
        taints: Vec::new(),
        ..node("n1")
    });
    let uid = node.uid.as_str();
    let held = |guard: &TargetGuard| {
        let owner = if guard.holds(uid) {
            NodeOwner::Unowned
        } else {
            NodeOwner::Foreign
        };
        let roster = Roster::new([&node], &BTreeMap::new(), |_| owner);
        roster.targets().1.held.len()
    };
    let mut guard = TargetGuard::default();
    guard.look([uid], start);
    assert_eq!(held(&guard), 1, "one look");
    guard.confirm(&[uid].into(), start + secs(10));
    assert_eq!(held(&guard), 0, "two looks, ten seconds apart");
}

#[test]
fn row_15_executing_stops_before_the_next_step() {
    let service = held();
    let mut seen = observed(&service, ensure("a"));
    seen.is_stopping = true;
    assert_eq!(
        after(State::default(), begun(small(Goal::Present)), &seen),
        Next::Stop
    );
}

#[test]
fn row_16_executing_overtaken_or_interrupting_with_other_targets_begins_again() {
    let service = held();
    let mut seen = observed(&service, ensure("a"));
    let next = |impact, seen: &Observed<'_>| {
        let plan = plan(Goal::Present, &[impact], &[]);
        after(State::default(), begun(plan), seen)
    };
    assert_eq!(next(Impact::Interrupts, &seen), Next::Restart);
    assert_eq!(next(Impact::InPlace, &seen), Next::Step(0));
    seen.targets = Some(Fingerprint::of([&node("n1")], []));
    assert_eq!(next(Impact::Destroys, &seen), Next::Step(0));
    seen.targets_changed = true;
    assert_eq!(next(Impact::None, &seen), Next::Restart);
}

#[test]
fn row_17_executing_goes_on_after_a_step_that_is_done_or_skipped() {
    let service = held();
    let seen = observed(&service, ensure("a"));
    for event in [stepped(StepOutcome::Done), skipped()] {
        let events = [begun(small(Goal::Present)), vec![event]].concat();
        assert_eq!(after(State::default(), events, &seen), Next::Step(1));
    }
}

#[test]
fn row_18_executing_a_wait_is_put_aside_and_a_long_one_fails() {
    let service = held();
    let seen = observed(&service, ensure("a"));
    for (pause, expected) in [(0, SHORTEST_WAIT), (30, secs(30)), (9000, WAIT_LIMIT)] {
        let events = [
            begun(small(Goal::Present)),
            vec![stepped(waits(secs(pause)))],
        ]
        .concat();
        assert_eq!(after(State::default(), events, &seen), Next::Wait(expected));
    }
    let at = |second| Timestamp::from_second(second).unwrap();
    let wait = |second| Event::Stepped(Some(waits(secs(5))), at(second));
    let events = [begun(small(Goal::Present)), vec![wait(0), wait(660)]].concat();
    assert_eq!(
        after(State::default(), events, &seen),
        Next::FailWaiting(WAIT_LIMIT)
    );
}

#[test]
fn row_19_executing_an_error_fails() {
    let service = held();
    let seen = observed(&service, ensure("a"));
    let error = Event::Stepped(None, Timestamp::UNIX_EPOCH);
    let events = [begun(small(Goal::Present)), vec![error]].concat();
    assert_eq!(after(State::default(), events, &seen), Next::Fail);
}

#[test]
fn row_20_ended_with_the_service_replaced_begins_again() {
    let another = other();
    let seen = observed(&another, ensure("a"));
    let events = begun(plan(Goal::Present, &[], &[]));
    assert_eq!(after(State::default(), events, &seen), Next::Restart);
}

#[test]
fn row_21_ended_with_problems_or_gaps_is_published_and_fails() {
    let service = held();
    let seen = observed(&service, ensure("a"));
    let gaps = [
        begun(plan(Goal::Present, &[Impact::None], &[])),
        vec![skipped()],
    ]
    .concat();
    for events in [begun(plan(Goal::Present, &[], &["port"])), gaps] {
        assert_eq!(
            after(State::default(), events.clone(), &seen),
            Next::Publish
        );
        let events = [events, vec![Event::Published(None)]].concat();
        assert_eq!(after(State::default(), events, &seen), Next::FailIncomplete);
    }
}

#[test]
fn row_22_ended_well_is_published_and_audited_at_the_earlier_time() {
    let service = held();
    let mut seen = observed(&service, ensure("a"));
    let ended = || begun(plan(Goal::Present, &[], &[]));
    assert_eq!(after(State::default(), ended(), &seen), Next::Publish);
    for (audit, again, expected) in [
        (None, None, None),
        (Some(300), None, Some(300)),
        (Some(300), Some(60), Some(60)),
        (Some(300), Some(0), Some(1)),
        (Some(30), Some(60), Some(30)),
    ] {
        seen.audit = audit.map(secs);
        let events = [ended(), vec![Event::Published(again.map(secs))]].concat();
        assert_eq!(
            after(State::default(), events, &seen),
            Next::Audit(expected.map(secs))
        );
    }
}

#[test]
fn row_23_removing_goes_on_in_other_clouds_and_ends_with_what_is_open() {
    let service = held();
    let seen = observed(&service, Responsibility::CleanUp(vec![cloud("a")]));
    let next = |events: Vec<Event>| {
        let events = [vec![removing(RemovalKind::CurrentService)], events].concat();
        after(State::default(), events, &seen)
    };
    let wrong = || not_drafted(&cloud_error());
    let elsewhere = || not_drafted(&DraftError::Elsewhere);
    let run = |problems: &[&str]| {
        let plan = plan(Goal::Absent, &[], problems);
        vec![Event::Drafted(Box::new(plan)), Event::Begun]
    };
    assert_eq!(next(vec![wrong()]), Next::Draft, "others go on");
    assert_eq!(
        next(vec![elsewhere(), elsewhere(), Event::AllLooked]),
        Next::RemoveFinalizer
    );
    assert_eq!(
        next(vec![not_drafted(&later(9)), wrong(), Event::AllLooked]),
        Next::Later(secs(9))
    );
    assert_eq!(
        next(vec![wrong(), elsewhere(), Event::AllLooked]),
        Next::Fail
    );
    assert_eq!(next(run(&[])), Next::FinishCloud);
    assert_eq!(next(run(&["port"])), Next::FailIncomplete);
    let finished = [run(&[]), vec![Event::Finished]].concat();
    assert_eq!(next(finished.clone()), Next::Draft);
    let (what, after) = ("proof".into(), secs(30));
    let unproven = not_drafted(&DraftError::Account { what, after });
    let events = [finished, vec![unproven, Event::AllLooked]].concat();
    assert_eq!(next(events), Next::Later(secs(30)));
}

#[test]
fn row_24_removed_by_an_observer_ends() {
    let service = held();
    let mut seen = observed(&service, Responsibility::CleanUp(vec![cloud("a")]));
    seen.is_observing = true;
    let events = vec![removing(RemovalKind::CurrentService), Event::AllLooked];
    assert_eq!(after(State::default(), events, &seen), Next::End);
}

#[test]
fn row_25_removed_from_a_service_that_lives_releases_it() {
    let service = held();
    let seen = observed(&service, Responsibility::CleanUp(vec![cloud("a")]));
    let events = vec![removing(RemovalKind::CurrentService), Event::AllLooked];
    assert_eq!(
        after(State::default(), events, &seen),
        Next::RemoveFinalizer
    );
}

#[test]
fn row_26_removed_from_an_old_service_is_forgotten() {
    let another = other();
    let seen = observed(&another, ensure("a"));
    let events = vec![removing(RemovalKind::FormerService), Event::AllLooked];
    assert_eq!(after(remembering(&["a"]), events, &seen), Next::Forget);
}

/// What is tried next after a failure.
fn retry(targets_alone: bool, failure: ReconcileFailure) -> Next {
    let service = held();
    let state = State {
        targets_alone,
        ..State::default()
    };
    after(
        state,
        vec![Event::Failed(failure)],
        &observed(&service, ensure("a")),
    )
}

#[test]
fn row_27_a_failed_write_of_what_is_gone_ends() {
    let of_the_past = true;
    assert_eq!(
        retry(
            false,
            ReconcileFailure {
                of_the_past,
                ..ReconcileFailure::default()
            }
        ),
        Next::End
    );
}

#[test]
fn row_28_a_failure_with_a_hint_is_tried_again_then() {
    for (asked, given) in [(0, 1), (60, 60), (3600, 600)] {
        let hint = Some(secs(asked));
        let next = retry(
            true,
            ReconcileFailure {
                hint,
                ..ReconcileFailure::default()
            },
        );
        assert_eq!(next, Next::Retry(Retry::After(secs(given))));
    }
}

#[test]
fn row_29_a_failure_of_targets_alone_is_tried_again_as_the_whole_service() {
    assert_eq!(
        retry(true, ReconcileFailure::default()),
        Next::Retry(Retry::AsService)
    );
}

#[test]
fn row_30_any_other_failure_backs_off_from_the_start_again_after_progress() {
    assert_eq!(
        retry(false, ReconcileFailure::default()),
        Next::Retry(Retry::BackOff)
    );
    let reported = true;
    let next = retry(
        true,
        ReconcileFailure {
            reported,
            ..ReconcileFailure::default()
        },
    );
    assert_eq!(next, Next::Retry(Retry::BackOff));
    for (verb, progress) in [(Verb::Create, true), (Verb::Wait, false)] {
        let mut steps = Plan::default();
        steps.push(Step {
            verb,
            ..small(Goal::Present).run.step(0).clone()
        });
        let mut plan = small(Goal::Present);
        (plan.run, plan.step) = (PlanProgress::new(steps), Some(0));
        let mut state = waiting(plan);
        record(&mut state, stepped(StepOutcome::Done));
        assert_eq!(state.phase, Phase::Executing(Stepped::Over { progress }));
    }
}
