//! Plans of random Services on random clouds: carrying them out gives what is wanted, whatever
//! happens in between, and touches nothing else.

mod fixtures;
mod model;
mod paths;

use bowline_core::Impact;
use bowline_test_kit::rows;
use proptest::prelude::*;

use super::*;
use crate::balancer::examples::{host, service};
use crate::balancer::settings::Settings;
use crate::balancer::{desire::desire, ownership};
use fixtures::{Case, case};
use model::Model;
use paths::Paths;

fn around(model: &Model) -> Circumstances<'_> {
    Circumstances {
        scope: Scope::Everything,
        marking: false,
        floating_ips: &model.floating_ips,
    }
}

fn planned(wanted: &Wanted, model: &Model) -> PlanBuilder {
    match &model.there {
        Some(there) => reconcile(wanted, there, around(model)),
        None => build(wanted, "rma1", &model.floating_ips),
    }
}

/// Carries out as many steps, and checks after each whether traffic goes on.
fn carry_out(wanted: &Wanted, model: &mut Model, steps: usize) {
    let builder = planned(wanted, model);
    let before = model.members_by_pool();
    let paths = Paths::of(wanted, model);
    for (number, action) in builder.actions.iter().enumerate().take(steps) {
        let refused = model.apply(number, action);
        assert_eq!(
            refused, None,
            "step {number} {action:?} of {:#?}",
            builder.plan.steps
        );
        paths.check(model, number);
        for (pool, count) in model.members_by_pool() {
            let had = before.get(&pool).copied().unwrap_or_default();
            let wants = model.wanted_members(wanted, pool);
            if had >= 2 && wants >= 2 {
                assert!(count >= 1, "pool {pool} lost all members in step {number}");
            }
            if had >= wants && wants > 1 {
                assert!(
                    count + 1 >= wants,
                    "pool {pool} lost more than one in step {number}"
                );
            }
        }
    }
}

fn carry_all_out(wanted: &Wanted, model: &mut Model) {
    carry_out(wanted, model, usize::MAX);
}

#[track_caller]
fn check(wanted: &Wanted, model: &Model, before: &Model) {
    model.check_equals(wanted);
    model.check_foreign(wanted, before);
    let again = planned(wanted, model);
    assert_eq!(again.plan.steps, [], "a second plan is empty");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn carrying_out_a_plan_gives_what_is_wanted(case in case()) {
        let Case { wanted, mut model } = case;
        let before = model.clone();
        carry_all_out(&wanted, &mut model);
        check(&wanted, &model, &before);
    }

    #[test]
    fn a_crash_between_any_two_steps_is_healed_by_the_next_plan(
        case in case(),
        crashes in proptest::collection::vec(0_usize..12, 0..4),
    ) {
        let Case { wanted, mut model } = case;
        let before = model.clone();
        for steps in crashes {
            carry_out(&wanted, &mut model, steps);
        }
        carry_all_out(&wanted, &mut model);
        check(&wanted, &model, &before);
    }

    #[test]
    fn another_wish_on_what_the_first_left_comes_true_too(first in case(), second in case()) {
        let mut model = first.model;
        carry_all_out(&first.wanted, &mut model);
        let before = model.clone();
        carry_all_out(&second.wanted, &mut model);
        check(&second.wanted, &model, &before);
    }

    #[test]
    fn members_alone_change_nothing_else(case in case()) {
        let Case { wanted, mut model } = case;
        let Some(there) = model.there.clone() else {
            return Ok(());
        };
        let around = Circumstances { scope: Scope::Members, ..around(&model) };
        let builder = reconcile(&wanted, &there, around);
        let before = model.clone();
        for (number, action) in builder.actions.iter().enumerate() {
            prop_assert_eq!(model.apply(number, action), None);
        }
        prop_assert!(builder.plan.impact() <= Impact::InPlace);
        let (mut was, mut is) = (before, model);
        for pool in was.pools_mut().chain(is.pools_mut()) {
            pool.members.clear();
        }
        prop_assert_eq!((was.there, was.floating_ips), (is.there, is.floating_ips));
    }

    #[test]
    fn steps_only_need_what_comes_before_and_say_what_they_change(case in case()) {
        let builder = planned(&case.wanted, &case.model);
        prop_assert_eq!(builder.plan.steps.len(), builder.actions.len());
        for (number, step) in builder.plan.steps.iter().enumerate() {
            prop_assert!(step.needs.iter().all(|need| *need < number));
            let says = match step.verb {
                bowline_core::Verb::Create => !step.changes.is_empty(),
                bowline_core::Verb::Update => step.changes.len() == 1,
                _ => step.changes.is_empty(),
            };
            prop_assert!(says, "{:?}", step);
        }
    }
}

/// The request of fixture F with two nodes, changed by `change`.
fn fixture(change: impl FnOnce(&mut bowline_core::Service)) -> Wanted {
    let mut service = service();
    change(&mut service);
    let (settings, _) = Settings::read(&service);
    let hosts = [
        host(1, "rma1", &["10.20.0.11"]),
        host(2, "rma1", &["10.20.0.12"]),
    ];
    let mut wanted = desire(&service, &settings, &hosts, true).wanted;
    (wanted.tags, wanted.child_tags) = ownership::tags(&service, None, None);
    wanted
}

fn impacts(wanted: &Wanted, model: &Model) -> Vec<String> {
    let steps = planned(wanted, model).plan.steps;
    let real = steps
        .iter()
        .filter(|step| step.verb != bowline_core::Verb::Wait);
    real.map(|step| format!("{} {}: {}", step.verb, step.object, step.impact))
        .collect()
}

/// A row's steps: `MONITOR` and `POOL` stand for new ones that replace those of the pool.
fn expected(steps: &str, pool: &str, port: u16, node_port: u16) -> String {
    let monitor =
        format!("delete health monitor {pool}: in place, create health monitor {pool}: no impact");
    let whole = format!(
        "create pool {pool}: no impact, \
         create member 10.20.0.11:{node_port} in {pool}: no impact, \
         create member 10.20.0.12:{node_port} in {pool}: no impact, \
         delete listener tcp/{port}: interrupts traffic, \
         create listener tcp/{port}: no impact, \
         create health monitor {pool}: no impact, \
         delete pool {pool}: no impact"
    );
    steps.replace("MONITOR", &monitor).replace("POOL", &whole)
}

#[test]
fn steps_say_what_they_mean_for_traffic() {
    let mut model = Model::default();
    let wanted = fixture(|_| {});
    assert!(
        impacts(&wanted, &model)
            .iter()
            .all(|it| it.ends_with("no impact"))
    );
    carry_all_out(&wanted, &mut model);
    let annotate = |suffix: &'static str, value: &'static str| {
        move |service: &mut bowline_core::Service| {
            let key = format!("k8s.cloudscale.ch/loadbalancer-{suffix}");
            service.annotations = Some([(key, value.to_owned())].into());
        }
    };
    let renamed = fixture(annotate("name", "x"));
    assert_eq!(
        impacts(&renamed, &model),
        [format!("update load balancer {}: no impact", wanted.name)]
    );
    for (suffix, value, steps) in [
        (
            "timeout-client-data-ms",
            "9",
            "update listener tcp/80: in place",
        ),
        (
            "health-monitor-delay-s",
            "9",
            "update health monitor tcp/http: in place",
        ),
        ("health-monitor-type", "ping", "MONITOR"),
        ("pool-algorithm", "source_ip", "POOL"),
    ] {
        let impacts = impacts(&fixture(annotate(suffix, value)), &model).join(", ");
        assert_eq!(impacts, expected(steps, "tcp/http", 80, 31080));
    }
    let gone = fixture(|service| service.ports[0].name = "x".into());
    assert_eq!(planned(&gone, &model).plan.impact(), Impact::Interrupts);
    let balancer = &model.there.as_ref().unwrap().balancer;
    let mut builder = PlanBuilder::default();
    remove(&mut builder, balancer);
    assert_eq!(builder.plan.impact(), Impact::Destroys);
}

#[test]
fn settings_of_a_single_port_touch_only_what_belongs_to_it() {
    let two_ports = |text: &str| {
        fixture(|service| {
            let port = crate::balancer::examples::port("api", "TCP", 8080, 31081);
            service.ports.push(port);
            let key = "k8s.cloudscale.ch/loadbalancer-port-settings";
            service.annotations = Some([(key.to_owned(), text.to_owned())].into());
        })
    };
    let mut model = Model::default();
    carry_all_out(&two_ports("{}"), &mut model);
    for [text, steps] in rows(
        r#"{"api": {}} |
           {"api": {"listener-allowed-cidrs": ["10.0.0.0/8"]}} | update listener tcp/8080: in place
           {"http": {"timeout-member-data-ms": 9, "health-monitor-up-threshold": 9}} | BOTH
           {"8080": {"health-monitor-type": "http"}} | MONITOR
           {"8080/tcp": {"pool-protocol": "proxy"}} | POOL"#,
    ) {
        let both = "update listener tcp/80: in place, update health monitor tcp/http: in place";
        let steps = &steps.replace("BOTH", both);
        let impacts = impacts(&two_ports(text), &model).join(", ");
        assert_eq!(impacts, expected(steps, "tcp/api", 8080, 31081), "{text}");
    }
}

/// The kinds of the steps, in their order: `create member`.
fn kinds(wanted: &Wanted, model: &Model) -> Vec<String> {
    let steps = planned(wanted, model).plan.steps;
    let real = steps
        .iter()
        .filter(|step| step.verb != bowline_core::Verb::Wait);
    real.map(|step| format!("{} {}", step.verb, step.object.kind))
        .collect()
}

/// A page is served only at the health check port of a Service with the policy `Local`: it is asked
/// for neither before the members are checked there, nor once they no longer are. A connection can
/// be made to any port.
#[test]
fn a_new_monitor_comes_after_the_members_that_it_is_for() {
    let local = fixture(|service| {
        service.traffic_policy = bowline_core::TrafficPolicy::Local;
        service.health_check_node_port = Some(32100);
    });
    let cluster = fixture(|_| {});
    let members = ["delete member", "create member"].repeat(2);
    let (gone, made) = (["delete health monitor"], ["create health monitor"]);
    let last = [&members[..], &gone, &made].concat();
    let around = [&gone[..], &members, &made].concat();
    for (from, to, expected) in [(&cluster, &local, last), (&local, &cluster, around)] {
        let mut model = Model::default();
        carry_all_out(from, &mut model);
        assert_eq!(kinds(to, &model), expected);
        carry_all_out(to, &mut model);
        check(to, &model, &model);
    }
}

fn two_ports(names: [&str; 2], numbers: [u16; 2]) -> Wanted {
    fixture(|service| {
        let port = crate::balancer::examples::port;
        service.ports = vec![
            port(names[0], "TCP", numbers[0], 31080),
            port(names[1], "TCP", numbers[1], 31443),
        ];
    })
}

#[test]
fn exchanged_port_names_lead_to_new_pools_and_exchanged_numbers_to_new_listeners() {
    let (names, numbers) = (["http", "https"], [80, 443]);
    let before = two_ports(names, numbers);
    let pools = ["create pool"; 2];
    let filled = [
        "create member",
        "create member",
        "delete listener",
        "create listener",
        "create health monitor",
    ];
    let emptied = ["delete pool"; 2];
    let renamed = [&pools[..], &filled, &filled, &emptied].concat();
    let moved = vec![
        "delete listener",
        "delete listener",
        "create listener",
        "create listener",
    ];
    for (after, expected) in [
        (two_ports(["https", "http"], numbers), renamed),
        (two_ports(names, [443, 80]), moved),
    ] {
        let mut model = Model::default();
        carry_all_out(&before, &mut model);
        assert_eq!(kinds(&after, &model), expected);
        // Whatever is done by then, the next plan goes on from there.
        for crash in 0..expected.len() {
            let mut model = model.clone();
            carry_out(&after, &mut model, crash);
            carry_all_out(&after, &mut model);
            check(&after, &model, &model);
        }
    }
}

/// Another setting is wrong: of pools that would have to be replaced, members of nodes that are
/// gone leave, and no other comes.
#[test]
fn exchanged_port_names_beside_a_wrong_setting_bring_no_members() {
    let mut model = Model::default();
    carry_all_out(&two_ports(["http", "https"], [80, 443]), &mut model);
    let mut after = two_ports(["https", "http"], [80, 443]);
    for pool in &mut after.pools {
        pool.members.truncate(1);
    }
    let there = model.there.clone().unwrap();
    let around = Circumstances {
        scope: Scope::Members,
        ..around(&model)
    };
    let steps = reconcile(&after, &there, around).plan.steps;
    let steps: Vec<String> = steps
        .iter()
        .map(|step| format!("{} {}", step.verb, step.object))
        .collect();
    assert_eq!(
        &steps[..steps.len() - 1],
        [
            "delete member 10.20.0.12:31443 in tcp/https",
            "delete member 10.20.0.12:31080 in tcp/http",
        ]
    );
}

/// Nodes are exchanged: a target that is gone waits for one new target, not for all of them.
/// Without any that stays, traffic needs the old ones until the new ones are there.
#[test]
fn members_leave_beside_those_that_come_if_others_stay() {
    let wanted = fixture(|_| {});
    let mut model = Model::default();
    carry_all_out(&wanted, &mut model);
    let mut others = model.clone();
    let members =
        |model: &mut Model| std::mem::take(&mut model.pools_mut().next().unwrap().members);
    let old = members(&mut others);
    let moved = old.into_iter().map(|mut member| {
        member.address = member.address.replace("10.20.0.1", "10.20.0.9");
        member.uuid = id_of(&member.address);
        member
    });
    let moved: Vec<_> = moved.collect();
    others.pools_mut().next().unwrap().members = moved.clone();
    let (come, leave) = ("create member", "delete member");
    assert_eq!(kinds(&wanted, &others), [come, come, leave, leave]);
    let mut more = wanted.clone();
    for number in ["21", "22"] {
        let mut member = wanted.pools[0].members[0].clone();
        member.address = format!("10.20.0.{number}");
        member.ip = member.address.parse().unwrap();
        member.name = format!("{}:31080", member.address);
        more.pools[0].members.push(member);
    }
    model.pools_mut().next().unwrap().members.extend(moved);
    assert_eq!(kinds(&more, &model), [come, leave, come, leave]);
}

#[test]
fn of_duplicate_pools_the_one_with_the_listener_stays() {
    let wanted = fixture(|_| {});
    let mut model = Model::default();
    carry_all_out(&wanted, &mut model);
    let there = model.there.as_mut().unwrap();
    let right = there.pools[0].pool.uuid;
    there.pools[0].pool.created_at = "2050-01-01".to_owned();
    for created in ["2000-01-01", "2099-01-01"] {
        let mut copy = there.pools[0].clone();
        copy.pool.uuid = id_of(created);
        copy.pool.created_at = created.to_owned();
        copy.listeners.clear();
        copy.monitors.clear();
        copy.members.clear();
        there.pools.insert(0, copy);
    }
    carry_all_out(&wanted, &mut model);
    let pools = &model.there.as_ref().unwrap().pools;
    assert_eq!(pools.len(), 1);
    assert_eq!(pools[0].pool.uuid, right);
}

#[test]
fn without_a_listener_the_oldest_of_duplicate_pools_stays() {
    let wanted = fixture(|_| {});
    let mut model = Model::default();
    carry_all_out(&wanted, &mut model);
    let there = model.there.as_mut().unwrap();
    let mut other = there.pools[0].clone();
    other.pool.uuid = id_of("older");
    other.members.clear();
    other.monitors.clear();
    there.pools[0].pool.created_at = "2050-01-01".to_owned();
    other.pool.created_at = "2000-01-01".to_owned();
    there.pools.push(other);
    for pool in &mut there.pools {
        pool.listeners.clear();
    }
    carry_all_out(&wanted, &mut model);
    let pools = &model.there.as_ref().unwrap().pools;
    assert_eq!(pools.len(), 1);
    assert_eq!(pools[0].pool.uuid, id_of("older"));
}

#[test]
fn a_member_is_replaced_only_when_the_one_before_it_is_back() {
    let mut model = Model::default();
    carry_all_out(&fixture(|_| {}), &mut model);
    let local = fixture(|service| {
        service.traffic_policy = bowline_core::TrafficPolicy::Local;
        service.health_check_node_port = Some(32100);
    });
    let PlanBuilder { plan, actions } = planned(&local, &model);
    let member = |it: &usize| {
        let action = &actions[*it];
        matches!(
            action,
            Action::CreateMember { .. } | Action::DeleteMember { .. }
        )
    };
    let steps: Vec<usize> = (0..actions.len()).filter(member).collect();
    assert_eq!(steps.len(), 4);
    for pair in steps.windows(2) {
        assert!(
            plan.steps[pair[1]].needs.contains(&pair[0]),
            "{:?}",
            plan.steps
        );
    }
}

/// An id made of a text: two texts have two.
fn id_of(text: &str) -> Uuid {
    Uuid::from_u128(text.bytes().fold(7, |sum, b| sum * 257 + u128::from(b)))
}
