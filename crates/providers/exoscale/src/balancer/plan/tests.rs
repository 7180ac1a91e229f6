use std::sync::Arc;

use bowline_core::{Service, Verb};
use bowline_test_kit::rows;
use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::balancer::desire::desire;
use crate::balancer::examples::{
    Around, L1, OTHER, P1, P2, UID, annotated, balancer, listener, named, port,
};
use crate::balancer::settings::Settings;
use crate::config::LocalPolicyHealthCheck;

/// `verb kind name: impact` of every step.
fn steps(builder: &PlanBuilder) -> Vec<String> {
    let all = builder.plan.steps.iter();
    all.map(|it| format!("{} {}: {}", it.verb, it.object, it.impact))
        .collect()
}

fn services(service: &Service) -> Vec<WantedService> {
    let (settings, faults) = Settings::read(service);
    assert_eq!(faults, []);
    desire(service, &settings, LocalPolicyHealthCheck::Tcp).services
}

fn managed(service: &Service) -> Managed {
    let (settings, _) = Settings::read(service);
    Managed {
        name: settings.balancer_name(service),
        description: settings.description,
        asked_labels: BTreeMap::new(),
        labels: BTreeMap::from([("bowline-service-uid".to_owned(), service.uid.clone())]),
        mark_first: false,
    }
}

fn plan(
    service: &Service,
    all: &[Arc<Service>],
    there: &LoadBalancer,
    manages: bool,
) -> PlanBuilder {
    let around = Around::new(service, all);
    plan_in(&around, there, manages)
}

fn plan_in(around: &Around, there: &LoadBalancer, manages: bool) -> PlanBuilder {
    let managed = managed(&around.request.service);
    plan_of(around, there, manages.then_some(&managed), P1, true)
}

fn plan_of(
    around: &Around,
    there: &LoadBalancer,
    managed: Option<&Managed>,
    pool: &str,
    may_reset: bool,
) -> PlanBuilder {
    let wanted = Wanted {
        context: around.context(),
        managed,
        services: &services(&around.request.service),
        pool: pool.parse().unwrap(),
        may_reset,
    };
    reconcile(&wanted, there)
}

fn ours(port: u16) -> Value {
    listener(1, &format!("{UID}-{port}"), port, 30080)
}

#[test]
fn what_is_as_wanted_needs_nothing() {
    let service = annotated(&[]);
    let there = balancer(&format!("k8s-{UID}"), &json!({}), &[ours(80)]);
    assert_eq!(steps(&plan(&service, &[], &there, true)), [""; 0]);
}

#[test]
fn each_difference_has_its_impact() {
    let name = format!("k8s-{UID}");
    for [what, path, value, wanted] in rows(
        r#"target           | /target-port        | 1             | update
           strategy         | /strategy           | "maglev-hash" | update
           check            | /healthcheck/uri    | "/h"          | update
           no check         | /healthcheck        | null          | update
           unasked words    | /description        | "d"           | nothing
           more of the pool | /instance-pool/name | "workers"     | nothing
           pool             | /instance-pool/id   | "P2"          | replace"#,
    ) {
        let (parent, key) = path.rsplit_once('/').unwrap();
        let mut listener = ours(80);
        let value = value.replace("P2", P2);
        listener.pointer_mut(parent).unwrap()[key] = serde_json::from_str(&value).unwrap();
        let wanted = match wanted {
            "update" => vec![format!("update service {UID}-80: in place")],
            "replace" => vec![
                format!("delete service {UID}-80: interrupts traffic"),
                format!("create service {UID}-80: no impact"),
            ],
            _ => vec![],
        };
        let there = balancer(&name, &json!({}), &[listener]);
        let builder = plan(&annotated(&[]), &[], &there, true);
        assert_eq!(steps(&builder), wanted, "{what}");
        assert_eq!(builder.actions.len(), builder.plan.steps.len());
    }
}

#[test]
fn only_what_is_ours_goes_from_a_load_balancer_managed_or_not() {
    let service = annotated(&[]);
    let all = [Arc::new(service.clone()), Arc::new(named("other", OTHER))];
    let there = balancer(
        "shared",
        &json!({}),
        &[
            ours(80),
            listener(2, &format!("{UID}-81"), 81, 30081),
            listener(3, &format!("{OTHER}-82"), 82, 30082),
            listener(4, "theirs", 83, 30083),
        ],
    );
    let deleted = |builder: &PlanBuilder| -> Vec<u16> {
        let steps = builder.plan.steps.iter();
        let deletions = steps.filter(|it| it.verb == Verb::Delete);
        let names = deletions.map(|it| it.object.name.clone());
        let at = |name: String| {
            let mut all = there.services.items.iter();
            all.find(|it| it.name == name).map_or(0, |it| it.port)
        };
        names.map(at).collect()
    };
    assert_eq!(deleted(&plan(&service, &all, &there, false)), [81]);
    assert_eq!(deleted(&plan(&service, &all, &there, true)), [81]);
    for manages in [true, false] {
        let mut builder = PlanBuilder::default();
        let around = Around::new(&service, &all);
        remove(&mut builder, around.context(), &there, manages);
        assert_eq!(deleted(&builder), [80, 81]);
        assert_eq!(builder.plan.notices.len(), usize::from(manages));
    }
}

#[test]
fn a_mark_that_is_needed_comes_before_everything_else() {
    let service = annotated(&[("name", "edge"), ("description", "d")]);
    let there = balancer("other", &json!({"team": "a"}), &[ours(80)]);
    let around = Around::new(&service, &[]);
    let reconciled = |mark_first, there: &LoadBalancer| {
        let managed = Managed {
            mark_first,
            ..managed(&service)
        };
        plan_of(&around, there, Some(&managed), P2, true)
    };
    let unhurried = reconciled(false, &there);
    let Action::ChangeBalancer(change) = &unhurried.actions[0] else {
        panic!("{:?}", unhurried.actions);
    };
    assert_eq!(change.labels.as_ref().map(BTreeMap::len), Some(2));
    let builder = reconciled(true, &there);
    let Action::MarkBalancer(labels) = &builder.actions[0] else {
        panic!("{:?}", builder.actions);
    };
    assert_eq!((labels["team"].as_str(), labels.len()), ("a", 2));
    assert!(
        builder.plan.steps[1..]
            .iter()
            .all(|it| it.needs.contains(&0))
    );
    assert_eq!(builder.actions.len(), 4);
    let marked = balancer("edge", &json!(labels), &[ours(80)]);
    let builder = reconciled(true, &marked);
    assert!(
        !builder
            .actions
            .iter()
            .any(|it| matches!(it, Action::MarkBalancer(_)))
    );
}

#[test]
fn a_port_that_somebody_else_has_is_refused_and_the_others_are_served() {
    let mut service = annotated(&[]);
    service.ports = vec![
        port("TCP", 80, 30080),
        port("TCP", 81, 30081),
        port("TCP", 82, 30082),
    ];
    let all = [Arc::new(service.clone()), Arc::new(named("other", OTHER))];
    let there = balancer(
        &format!("k8s-{UID}"),
        &json!({}),
        &[
            listener(1, "theirs", 80, 31111),
            listener(2, &format!("{OTHER}-81"), 81, 30081),
        ],
    );
    let mut around = Around::new(&service, &all);
    for manages in [true, false] {
        let builder = plan_in(&around, &there, manages);
        assert_eq!(
            steps(&builder),
            [format!("create service {UID}-82: no impact")]
        );
        let reasons: Vec<&str> = builder.plan.problems.iter().map(|it| it.reason).collect();
        assert_eq!(reasons, ["PortInUse"; 2]);
        for problem in &builder.plan.problems {
            let text = &problem.message;
            assert!(
                !text.contains("theirs") && !text.contains(L1) && !text.contains(OTHER),
                "{text}"
            );
        }
    }
    // The operator lets the namespace adopt: what no Service has is replaced.
    let rules = Arc::make_mut(&mut around.request.rules);
    rules.adoption = bowline_core::NamespaceRule::Only(["default".to_owned()].into());
    let builder = plan_in(&around, &there, false);
    assert_eq!(builder.plan.problems.len(), 1);
    assert!(builder.plan.problems[0].message.contains("default/other"));
    assert_eq!(steps(&builder)[0], "update service theirs: in place");
}

#[test]
fn a_load_balancer_without_an_address_is_waited_for_first() {
    let mut there = balancer(&format!("k8s-{UID}"), &json!({}), &[]);
    there.ip = None;
    let builder = plan(&annotated(&[]), &[], &there, true);
    assert_eq!(builder.actions[0], Action::AwaitAddress);
    assert!(builder.plan.steps[1..].iter().all(|it| it.needs == [0]));
}

#[test]
fn a_load_balancer_that_is_being_deleted_is_waited_for() {
    let mut there = balancer("x", &json!({}), &[ours(80)]);
    there.state = LoadBalancerState::Deleting;
    let mut builder = PlanBuilder::default();
    let around = Around::new(&annotated(&[]), &[]);
    remove(&mut builder, around.context(), &there, true);
    assert_eq!(builder.actions, [Action::AwaitEnd(L1.parse().unwrap())]);
}

#[test]
fn descriptions_stay_where_they_cannot_be_emptied() {
    let service = annotated(&[]);
    let mut there = balancer(&format!("k8s-{UID}"), &json!({}), &[ours(80)]);
    there.description = "d".into();
    let managed = managed(&service);
    let mut around = Around::new(&service, &[]);
    let builder =
        |around: &Around, may_reset| plan_of(around, &there, Some(&managed), P1, may_reset);
    // Nobody knows whose words these are.
    let unasked = builder(&around, true);
    assert!(unasked.plan.is_empty() && unasked.plan.notices.is_empty());
    around.record.describes_balancer = true;
    assert_eq!(builder(&around, true).actions, [Action::ResetDescription]);
    let denied = builder(&around, false);
    assert!(denied.plan.is_empty());
    assert_eq!(denied.plan.notices[0].reason, "DescriptionStays");
}

/// What the cloud does with an action, as far as plans can see it.
fn apply(there: &mut LoadBalancer, action: &Action, number: &mut u8) {
    let listing = &mut there.services.items;
    match action {
        Action::ChangeBalancer(change) => {
            there.name = change.name.clone().unwrap_or_else(|| there.name.clone());
            let text = change.description.clone();
            there.description = text.unwrap_or_else(|| there.description.clone());
            if let Some(labels) = &change.labels {
                there.labels.clone_from(labels);
            }
        }
        Action::ResetDescription => there.description.clear(),
        Action::AddService(body) => {
            let taken = listing
                .iter()
                .any(|it| it.port == body.port && it.protocol == body.protocol);
            assert!(!taken, "two services on one port");
            *number += 1;
            let mut made = fields(body);
            made.insert(
                "id".into(),
                json!(format!("00000000-0000-4000-8000-{number:012}")),
            );
            listing.push(serde_json::from_value(Value::Object(made)).unwrap());
        }
        Action::ChangeService { id, change } => {
            let one = listing.iter_mut().find(|it| it.id == *id).unwrap();
            one.name = change.name.clone().unwrap_or_else(|| one.name.clone());
            let text = change.description.clone();
            one.description = text.unwrap_or_else(|| one.description.clone());
            one.target_port = change.target_port.unwrap_or(one.target_port);
            let strategy = change.strategy.clone();
            one.strategy = strategy.unwrap_or_else(|| one.strategy.clone());
            if change.healthcheck.is_some() {
                one.healthcheck.clone_from(&change.healthcheck);
            }
        }
        Action::ResetServiceDescription(id) => {
            let one = listing.iter_mut().find(|it| it.id == *id).unwrap();
            one.description.clear();
        }
        Action::DeleteService { id, .. } => listing.retain(|it| it.id != *id),
        other => panic!("{other:?}"),
    }
}

fn any_listener(number: u8) -> impl Strategy<Value = Value> {
    let name = prop_oneof![
        Just(format!("{UID}-{number}")),
        Just(format!("{OTHER}-{number}")),
        Just("theirs".to_owned()),
        Just("x".to_owned())
    ];
    (
        name,
        80_u16..84,
        any::<bool>(),
        any::<bool>(),
        any::<bool>(),
    )
        .prop_map(move |(name, port, udp, pool, described)| {
            let mut it = listener(number, &name, port, 30080);
            if udp {
                it["protocol"] = json!("udp");
            }
            if pool {
                it["instance-pool"] = json!({"id": P2});
            }
            if described {
                it["description"] = json!("d");
            }
            it
        })
}

fn any_there() -> impl Strategy<Value = LoadBalancer> {
    let listeners = (
        any_listener(1),
        any_listener(2),
        any_listener(3),
        0_usize..4,
    );
    (listeners, any::<bool>()).prop_map(|((a, b, c, count), described)| {
        let mut seen = std::collections::BTreeSet::new();
        let mut list = vec![a, b, c];
        list.truncate(count);
        list.retain(|it| seen.insert((it["port"].to_string(), it["protocol"].to_string())));
        let mut there = balancer("whatever", &json!({"team": "a"}), &list);
        if described {
            there.description = "old".into();
        }
        there
    })
}

fn any_service() -> impl Strategy<Value = Service> {
    let ports = prop::collection::btree_set((80_u16..84, any::<bool>()), 1..4);
    (ports, any::<bool>(), any::<bool>()).prop_map(|(ports, named, described)| {
        let name = if named { "x" } else { "" };
        let text = if described { "d" } else { "" };
        let mut service = annotated(&[
            ("service-name", name),
            ("service-description", text),
            ("description", text),
        ]);
        let ports = ports
            .into_iter()
            .map(|(number, udp)| port(if udp { "UDP" } else { "TCP" }, number, 30_000 + number));
        service.ports = ports.collect();
        service
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    /// Carried out as far as a crash allows, and planned anew, it ends as wanted; others keep
    /// theirs.
    #[test]
    fn from_anywhere_and_after_any_crash_it_ends_as_wanted(
        service in any_service(), there in any_there(), manages: bool, crash in 0_usize..6,
    ) {
        let all = [Arc::new(service.clone()), Arc::new(named("other", OTHER))];
        let around = Around::new(&service, &all);
        let foreign: Vec<LoadBalancerService> = there.services.items.iter()
            .filter(|it| around.context().owner(it) != ServiceOwner::Ours).cloned().collect();
        let mut number = 100;
        let mut now = there.clone();
        for action in plan(&service, &all, &now, manages).actions.iter().take(crash) {
            apply(&mut now, action, &mut number);
        }
        let second = plan(&service, &all, &now, manages);
        for action in &second.actions {
            apply(&mut now, action, &mut number);
        }
        let last = plan(&service, &all, &now, manages);
        prop_assert!(last.plan.is_empty(), "{:?}", last.plan.steps);
        for it in &foreign {
            prop_assert!(now.services.items.contains(it), "{it:?}");
        }
        if !manages {
            prop_assert_eq!(&now.name, &there.name);
            prop_assert_eq!(&now.description, &there.description);
        }
        prop_assert_eq!(&now.labels["team"], "a");
        let refused = last.plan.problems.len();
        let wanted = services(&service);
        let served = wanted.iter().filter(|it| {
            let mut all = now.services.items.iter();
            all.any(|there| is_at(there, &it.entrance) && there.name == it.name && !foreign.contains(there))
        });
        prop_assert_eq!(served.count() + refused, wanted.len());
    }
}
