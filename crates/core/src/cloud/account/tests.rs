use super::*;
use crate::Ingress;
use crate::load_balancer::service::examples::web;
use crate::node::examples::fresh_node;

fn node(name: &str, ready: Ready) -> Node {
    Node {
        name: name.into(),
        uid: name.into(),
        provider_id: Some(format!("demo://{name}")),
        ready,
        ..fresh_node()
    }
}

fn looked(proof: &mut AccountProof, nodes: &[(&Node, Known)]) {
    let looked = nodes.iter().map(|(node, machine)| Looked {
        node,
        machine: *machine,
    });
    proof.look(&looked.collect::<Vec<_>>());
}

fn shown(uid: &str) -> Service {
    Service {
        uid: uid.into(),
        ingress: vec![Ingress::default()],
        ..web()
    }
}

fn uids(uids: &[&str]) -> BTreeSet<String> {
    uids.iter().map(ToString::to_string).collect()
}

#[test]
fn a_machine_found_by_an_id_that_was_there_before_proves_the_account() {
    use AccountState::{Contradicted, Proven, Unproven};
    use Known::{Found, Missing, Unclear};
    let (up, down) = (node("up", Ready::True), node("down", Ready::Unknown));
    for (nodes, state) in [
        (&[][..], Unproven),
        (&[(&up, Found)], Proven),
        (&[(&down, Found)], Proven),
        (&[(&up, Missing), (&down, Found)], Proven),
        (&[(&up, Missing)], Contradicted),
        (&[(&up, Missing), (&down, Unclear)], Contradicted),
        (&[(&down, Missing)], Unproven),
        (&[(&up, Unclear), (&down, Missing)], Unproven),
    ] {
        let mut proof = AccountProof::default();
        assert!(proof.is_settling());
        looked(&mut proof, nodes);
        assert!(!proof.is_settling());
        assert_eq!(proof.state(), state, "{nodes:?}");
        assert_eq!(proof.is_wanted(), !nodes.is_empty());
    }
}

#[test]
fn what_is_proven_stays_so_and_what_contradicts_may_end() {
    let (up, other) = (node("up", Ready::True), node("other", Ready::True));
    let mut proof = AccountProof::default();
    looked(&mut proof, &[(&up, Known::Missing)]);
    assert_eq!(proof.state(), AccountState::Contradicted);
    assert!(proof.contradiction().contains("Ready nodes up"));
    looked(&mut proof, &[(&node("up", Ready::False), Known::Missing)]);
    assert_eq!(proof.state(), AccountState::Unproven);
    proof.found("demo://up", FoundBy::Name);
    assert_eq!(proof.state(), AccountState::Unproven, "a name is no id");
    proof.found("demo://up", FoundBy::Id);
    assert_eq!(proof.proven_by(), Some(ProvenBy::Machine));
    looked(&mut proof, &[(&other, Known::Missing)]);
    assert_eq!(proof.state(), AccountState::Proven);
}

#[test]
fn a_proven_account_that_denies_all_witnesses_is_contradicted_for_as_long_as_it_does() {
    use AccountState::{Contradicted, Proven};
    use Known::{Found, Missing, Unclear};
    let (one, other) = (node("one", Ready::True), node("other", Ready::True));
    for (by, first, wanted) in [
        (ProvenBy::Machine, Missing, Contradicted),
        (ProvenBy::Fingerprint, Missing, Contradicted),
        (ProvenBy::Operator, Missing, Proven),
        (ProvenBy::Machine, Unclear, Proven),
        (ProvenBy::Machine, Found, Proven),
    ] {
        let mut proof = AccountProof::default();
        proof.believe(by);
        let witness = |proof: &mut AccountProof, answers: &[(&Node, Known)]| {
            let looked = answers.iter().map(|(node, machine)| Looked {
                node,
                machine: *machine,
            });
            proof.witness(&looked.collect::<Vec<_>>());
        };
        witness(&mut proof, &[(&one, first), (&other, Unclear)]);
        assert_eq!(proof.state(), wanted, "{by:?} {first:?}");
        witness(&mut proof, &[(&one, Unclear)]);
        assert_eq!(proof.state(), wanted, "no answer changes nothing");
        if wanted == Contradicted {
            assert!(proof.contradiction().contains("Ready nodes one"));
            proof.found("demo://one", FoundBy::Id);
            assert_eq!(proof.state(), wanted, "it may be remembered");
        }
        witness(&mut proof, &[(&one, Missing), (&other, Found)]);
        assert_eq!(proof.state(), Proven, "one is enough");
        witness(&mut proof, &[(&one, Missing)]);
        witness(&mut proof, &[]);
        assert_eq!(proof.state(), Proven, "nobody is left to deny");
    }
}

#[test]
fn ids_that_this_process_gave_prove_the_account_only_where_there_are_no_others() {
    let (given, earlier) = (node("given", Ready::True), node("earlier", Ready::Unknown));
    let mut proof = AccountProof::default();
    proof.gives("demo://given");
    proof.found("demo://given", FoundBy::Id);
    assert_eq!(proof.state(), AccountState::Unproven);
    let both = [(&given, Known::Found), (&earlier, Known::Missing)];
    looked(&mut proof, &both);
    assert_eq!(
        proof.state(),
        AccountState::Unproven,
        "the other is unknown"
    );
    proof.consider_origin(&["demo://given", "demo://earlier"]);
    assert_eq!(proof.state(), AccountState::Unproven);
    proof.consider_origin(&["demo://given"]);
    assert_eq!(proof.proven_by(), Some(ProvenBy::Origin));
    let mut fresh = AccountProof::default();
    fresh.consider_origin(&[]);
    assert_eq!(fresh.state(), AccountState::Unproven, "nothing was given");
    let mut full = AccountProof::default();
    for id in 0..=GIVEN {
        full.gives(&id.to_string());
    }
    assert_eq!(full.given.len(), 1, "the memory began anew");
}

#[test]
fn proof_case_15_a_load_balancer_proves_the_account_where_no_node_has_an_id_and_none_is_missing() {
    let all = uids(&["a", "b"]);
    let mut proof = AccountProof::default();
    proof.balancer(&shown("a"), Known::Found, true, &all);
    assert_eq!(
        proof.state(),
        AccountState::Unproven,
        "nobody looked at nodes"
    );
    looked(&mut proof, &[]);
    proof.balancer(&shown("a"), Known::Found, true, &all);
    assert_eq!(
        proof.state(),
        AccountState::Unproven,
        "b was not looked for"
    );
    assert!(proof.has_looked_for_any(&all));
    let mut other = proof.clone();
    other.balancer(&shown("b"), Known::Missing, false, &all);
    assert_eq!(other.state(), AccountState::Contradicted);
    assert!(other.contradiction().contains("the status of a Service"));
    other.balancer(&shown("a"), Known::Found, true, &uids(&["a"]));
    assert_eq!(other.proven_by(), Some(ProvenBy::Balancer), "b is no more");
    proof.balancer(&shown("b"), Known::Unclear, false, &all);
    assert_eq!(proof.proven_by(), Some(ProvenBy::Balancer));

    let mut with_ids = AccountProof::default();
    looked(
        &mut with_ids,
        &[(&node("n", Ready::Unknown), Known::Unclear)],
    );
    with_ids.balancer(&shown("a"), Known::Found, true, &uids(&["a"]));
    assert_eq!(with_ids.state(), AccountState::Unproven);
}

#[test]
fn an_annotation_that_a_tenant_can_write_contradicts_nothing() {
    let mut proof = AccountProof::default();
    looked(&mut proof, &[]);
    let mut service = web();
    service.annotations = Some(BTreeMap::from([("uuid".into(), "u".into())]));
    assert!(remembers(&service, Some("uuid")) && !remembers(&web(), Some("uuid")));
    assert!(remembers(&shown("a"), None));
    let all = uids(&[service.uid.as_str()]);
    proof.balancer(&service, Known::Missing, false, &all);
    assert_eq!(proof.state(), AccountState::Unproven);
}

#[test]
fn only_conclusions_from_absence_wait_for_the_proof() {
    use AccountHold::{Contradicted, Settling, Unproven};
    use Goal::{Absent, Present};
    use Known::{Found, Missing, Unclear};
    // Goal, load balancer, remembers, then: unproven, unproven and settling, contradicted.
    for (goal, balancer, remembers, unproven, settling, contradicted) in [
        (Present, Found, true, None, None, None),
        (Present, Unclear, true, None, None, None),
        (
            Present,
            Missing,
            true,
            Some(Unproven),
            Some(Unproven),
            Some(Contradicted),
        ),
        (
            Present,
            Missing,
            false,
            None,
            Some(Settling),
            Some(Contradicted),
        ),
        (Absent, Found, true, None, None, Some(Contradicted)),
        (
            Absent,
            Missing,
            true,
            Some(Unproven),
            Some(Unproven),
            Some(Contradicted),
        ),
        (Absent, Missing, false, None, None, None),
    ] {
        let basis = PlanBasis {
            goal,
            balancer,
            remembers,
            removal_began: false,
            is_settling: false,
            may_have_departed: false,
        };
        let soon = PlanBasis {
            is_settling: true,
            ..basis
        };
        let state = AccountState::Unproven;
        let case = format!("{basis:?}");
        assert_eq!(account_hold(state, basis), unproven, "{case}");
        assert_eq!(account_hold(state, soon), settling, "{case}");
        let state = AccountState::Contradicted;
        assert_eq!(account_hold(state, basis), contradicted, "{case}");
        assert_eq!(account_hold(AccountState::Proven, soon), None, "{case}");
        let elsewhere = PlanBasis {
            may_have_departed: true,
            ..basis
        };
        let forgets = goal == Absent && balancer == Known::Missing && remembers;
        for (basis, wanted) in [
            (basis, None),
            (elsewhere, forgets.then_some(AccountHold::Departed)),
        ] {
            assert_eq!(account_hold(AccountState::Proven, basis), wanted, "{case}");
        }
        let began = PlanBasis {
            removal_began: true,
            ..basis
        };
        if goal == Absent {
            assert_eq!(account_hold(state, began), None, "{case}");
        }
    }
}

#[test]
fn the_guard_trusts_an_account_as_far_as_it_is_proven() {
    use AccountState::{Contradicted, Proven, Unproven};
    let plain = node("n", Ready::Unknown);
    let mut confirmed = plain.clone();
    confirmed
        .annotations
        .insert(CONFIRM_GONE.into(), "true".into());
    for (state, node, all_gone, is_other, trusted) in [
        (Proven, &plain, false, false, Trust::Full),
        (Contradicted, &confirmed, true, false, Trust::Contradicted),
        (Unproven, &plain, false, false, Trust::Unproven),
        (Unproven, &confirmed, false, false, Trust::Unproven),
        (Unproven, &plain, true, false, Trust::Long),
        (Unproven, &plain, true, true, Trust::Unproven),
        (Unproven, &confirmed, true, true, Trust::Confirmed),
    ] {
        let given = trust(state, node, all_gone, is_other);
        assert_eq!(given, trusted, "{state:?} {all_gone} {is_other}");
    }
}

#[test]
fn the_parts_of_an_identity_do_not_run_into_each_other() {
    let one = account_identity(["ab", "c"]);
    assert_ne!(one, account_identity(["a", "bc"]));
    assert_ne!(one, account_identity(["ab,1:c"]));
    assert_eq!(one, account_identity(["ab", "c"]));
}
