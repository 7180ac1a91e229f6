use super::*;
use crate::node::examples::fresh_node;
use proptest::prelude::*;

fn name(text: &str) -> CloudName {
    CloudName::parse(text).unwrap()
}

fn by_provider_id(claims: &[(CloudName, Claim)]) -> Ownership {
    let mut node = fresh_node();
    node.provider_id = Some("a://1".into());
    by_claims(&node, claims).unwrap()
}

#[test]
fn the_provider_id_decides_alone() {
    let claims = [(name("a"), Claim::Foreign), (name("b"), Claim::Mine)];
    let owned = Ownership::Owned {
        by: name("b"),
        because: Basis::ProviderId,
    };
    assert_eq!(by_provider_id(&claims), owned);
    assert_eq!(
        by_provider_id(&claims[..1]),
        Ownership::Nobody(Unowned::ForeignProviderId)
    );
    assert_eq!(
        by_provider_id(&[]),
        Ownership::Nobody(Unowned::ForeignProviderId)
    );
    let leftover = [(name("a"), Claim::Fallback), (name("b"), Claim::Foreign)];
    assert_eq!(
        by_provider_id(&leftover).to_string(),
        "owned by a, because no other cloud has its provider id"
    );
    let with_owner = [(name("a"), Claim::Fallback), (name("b"), Claim::Mine)];
    assert_eq!(by_provider_id(&with_owner), owned);
    let with_malformed = [
        (name("a"), Claim::Fallback),
        (name("b"), Claim::Malformed("no uuid".into())),
    ];
    assert_eq!(
        by_provider_id(&with_malformed).to_string(),
        "left alone: its provider id is not one of b: no uuid"
    );
    let presumed = [
        (name("a"), Claim::FallbackIfAlone),
        (name("b"), Claim::Foreign),
    ];
    assert_eq!(
        by_provider_id(&presumed),
        Ownership::Nobody(Unowned::ForeignProviderId)
    );
    assert_eq!(
        by_provider_id(&presumed[..1]).to_string(),
        "owned by a, because no other cloud has its provider id"
    );
    let mut not_meant = candidates(&[
        ("a", Claim::Fallback, false, Selection::NotMeant),
        ("b", Claim::FallbackIfAlone, false, Selection::Unsaid),
    ]);
    let mut node = fresh_node();
    node.provider_id = Some("elsewhere://1".into());
    let orphan = Some(Ownership::Nobody(Unowned::ForeignProviderId));
    assert_eq!(decide(&node, &not_meant, None), orphan);
    not_meant[1].selection = Selection::Meant;
    assert_eq!(
        decide(&node, &not_meant, None).unwrap().to_string(),
        "owned by b, because no other cloud has its provider id"
    );
    let two = [(name("a"), Claim::Fallback), (name("b"), Claim::Fallback)];
    assert!(matches!(by_provider_id(&two), Ownership::Contested(_)));
    let bad = [(name("a"), Claim::Malformed("no uuid".into()))];
    assert_eq!(
        by_provider_id(&bad).to_string(),
        "left alone: its provider id is not one of a: no uuid"
    );
}

#[test]
fn without_a_provider_id_the_only_cloud_may_know_a_node_by_its_machine() {
    let fresh = fresh_node();
    let (mut settled, mut identified) = (fresh.clone(), fresh.clone());
    settled.taints.clear();
    identified.provider_id = Some("a://1".into());
    let mine = [(name("a"), Claim::Mine)];
    let foreign = [(name("b"), Claim::Foreign)];
    let both = [mine.clone(), foreign.clone()].concat();
    let by_machine = Some("owned by a, the only cloud, by its machine's id");
    let by_provider_id = Some("owned by a, by its provider id");
    for (node, claims, wanted) in [
        (&settled, &mine[..], by_machine),
        (&settled, &both, None),
        (&settled, &foreign, None),
        (&fresh, &mine, None),
        (&identified, &both, by_provider_id),
    ] {
        let decided = by_claims(node, claims).map(|it| it.to_string());
        assert_eq!(decided.as_deref(), wanted, "{claims:?}");
    }
}

#[test]
fn without_a_provider_id_exactly_one_claim_decides() {
    let (mine, not) = (Recognition::Mine, Recognition::NotMine);
    let silent = Recognition::CannotTell("timeout".into());
    let ask = |answers: &[&Recognition]| {
        let named: Vec<_> = ["a", "b"]
            .into_iter()
            .map(name)
            .zip(answers.iter().map(|a| (*a).clone()))
            .collect();
        by_recognition(&named)
    };
    let owned = Ownership::Owned {
        by: name("a"),
        because: Basis::OnlyClaim,
    };
    assert_eq!(ask(&[&mine, &not]), owned);
    assert_eq!(ask(&[&not, &not]), Ownership::Nobody(Unowned::Unrecognized));
    assert_eq!(
        ask(&[&mine, &mine]),
        Ownership::Contested(vec![name("a"), name("b")])
    );
    assert_eq!(
        ask(&[&mine, &silent]).to_string(),
        "cloud b did not answer: timeout"
    );
}

fn owned_by(by: &str) -> Ownership {
    Ownership::Owned {
        by: name(by),
        because: Basis::ProviderId,
    }
}

#[test]
fn who_always_describes_goes_before_the_owner() {
    use DescribePolicy::{Always, Never, Owner};
    let orphan = Ownership::Nobody(Unowned::ForeignProviderId);
    let alone = Some("described by a, whoever owns it");
    for (voices, ownership, wanted) in [
        (
            &[Owner, Owner][..],
            Some(owned_by("b")),
            Some("owned by b, by its provider id"),
        ),
        (&[Owner, Owner], None, None),
        (&[Always, Owner], Some(owned_by("b")), alone),
        (&[Always, Never], Some(orphan.clone()), alone),
        (&[Always], None, alone),
        (
            &[Always, Always],
            Some(owned_by("b")),
            Some("left alone: claimed by several clouds (a, b)"),
        ),
        (
            &[Never, Owner],
            Some(owned_by("b")),
            Some("owned by b, by its provider id"),
        ),
        (
            &[Owner, Never],
            Some(owned_by("b")),
            Some("left alone: b owns it and does not describe it"),
        ),
        (
            &[Never, Never],
            Some(orphan),
            Some("left alone: its provider id is of no configured cloud"),
        ),
        (&[Never, Owner], None, None),
    ] {
        let voices: Vec<_> = ["a", "b"]
            .map(name)
            .into_iter()
            .zip(voices.to_vec())
            .collect();
        let decided = describer(&voices, ownership.clone()).map(|it| it.to_string());
        assert_eq!(decided.as_deref(), wanted, "{voices:?} {ownership:?}");
    }
}

/// Clouds of one scheme, each with whether it disclaims and what its selector says.
fn candidates(all: &[(&str, Claim, bool, Selection)]) -> Vec<CloudCandidate> {
    let one = |(cloud, claim, belongs_elsewhere, selection): &(&str, Claim, bool, Selection)| {
        CloudCandidate {
            name: name(cloud),
            claim: claim.clone(),
            belongs_elsewhere: *belongs_elsewhere,
            selection: *selection,
        }
    };
    all.iter().map(one).collect()
}

#[test]
fn among_clouds_of_one_scheme_account_then_selectors_then_the_machine_decide() {
    use Claim::{Foreign, Mine};
    use Selection::{Meant, NotMeant, Unsaid};
    let mut node = fresh_node();
    node.provider_id = Some("exoscale://1".into());
    for (all, machine, wanted) in [
        (
            [
                ("a", Mine, true, Unsaid),
                ("b", Mine, false, Unsaid),
                ("c", Foreign, false, Unsaid),
            ],
            None,
            "owned by b, by its provider id, which is of no other account",
        ),
        (
            [
                ("a", Mine, true, Meant),
                ("b", Mine, true, Unsaid),
                ("c", Foreign, false, Unsaid),
            ],
            Some("a"),
            "left alone: its provider id is of the kind of a, b, and none of them has such nodes",
        ),
        (
            [
                ("a", Mine, false, Meant),
                ("b", Mine, false, Unsaid),
                ("c", Foreign, false, Meant),
            ],
            Some("b"),
            "owned by a, by the configured node selectors",
        ),
        (
            [
                ("a", Mine, false, NotMeant),
                ("b", Mine, false, Unsaid),
                ("c", Foreign, false, Unsaid),
            ],
            None,
            "owned by b, by the configured node selectors",
        ),
        (
            [
                ("a", Mine, false, NotMeant),
                ("b", Mine, false, NotMeant),
                ("c", Foreign, false, Unsaid),
            ],
            Some("a"),
            "left alone: its provider id is of the kind of a, b, and none of them has such nodes",
        ),
        (
            [
                ("a", Mine, false, Meant),
                ("b", Mine, false, Meant),
                ("c", Mine, false, Unsaid),
            ],
            None,
            "left alone: claimed by several clouds (a, b)",
        ),
        (
            [
                ("a", Mine, false, Meant),
                ("b", Mine, false, Meant),
                ("c", Mine, false, Unsaid),
            ],
            Some("b"),
            "owned by b, the only cloud that has a machine for it",
        ),
        // Whoever was found to have it must still be one of those that are left.
        (
            [
                ("a", Mine, false, Unsaid),
                ("b", Mine, false, Unsaid),
                ("c", Mine, true, Unsaid),
            ],
            Some("c"),
            "left alone: claimed by several clouds (a, b)",
        ),
        // A cloud with a selector has no nodes but those that it means, nor has the only one of its scheme.
        (
            [
                ("a", Mine, true, NotMeant),
                ("b", Foreign, false, Meant),
                ("c", Foreign, false, Unsaid),
            ],
            None,
            "left alone: its provider id is of the kind of a, and none of them has such nodes",
        ),
    ] {
        let decided = decide(&node, &candidates(&all), machine.map(name).as_ref()).unwrap();
        assert_eq!(decided.to_string(), wanted, "{all:?}");
    }
}

#[test]
fn without_a_provider_id_selectors_and_the_machine_decide_among_several_clouds() {
    use Claim::{Foreign, Mine};
    use Selection::{Meant, NotMeant, Unsaid};
    let fresh = fresh_node();
    let mut settled = fresh.clone();
    settled.taints.clear();
    for (all, machine, wanted) in [
        (
            [("a", Mine, false, Unsaid), ("b", Mine, false, Unsaid)],
            None,
            None,
        ),
        (
            [("a", Mine, false, Unsaid), ("b", Foreign, false, Unsaid)],
            Some("a"),
            Some("owned by a, the only cloud that has a machine for it"),
        ),
        // Who does not know the node by its machine's id could never tell that it is gone.
        (
            [("a", Mine, false, Unsaid), ("b", Foreign, false, Unsaid)],
            Some("b"),
            None,
        ),
        (
            [("a", Mine, false, Meant), ("b", Mine, false, Unsaid)],
            None,
            Some("owned by a, by the configured node selectors"),
        ),
        (
            [("a", Mine, false, NotMeant), ("b", Foreign, false, Unsaid)],
            Some("a"),
            None,
        ),
        (
            [("a", Mine, false, Meant), ("b", Mine, false, Meant)],
            None,
            None,
        ),
    ] {
        let (all, machine) = (candidates(&all), machine.map(name));
        let decided = decide(&settled, &all, machine.as_ref()).map(|it| it.to_string());
        assert_eq!(decided.as_deref(), wanted, "{all:?}");
        assert_eq!(decide(&fresh, &all, machine.as_ref()), None, "{all:?}");
    }
}

proptest! {
    /// Nobody describes a node against its own word, and nobody but the owner without one.
    #[test]
    fn nobody_describes_who_has_no_voice(
        all in proptest::collection::vec(0..3usize, 0..5),
        owner in proptest::option::of(0..5usize),
    ) {
        let voices: Vec<_> = all.iter().enumerate().map(|(at, describe_policy)| {
            let describe_policy = [DescribePolicy::Owner, DescribePolicy::Always, DescribePolicy::Never][*describe_policy];
            (name(&format!("c{at}")), describe_policy)
        }).collect();
        let owner = owner.filter(|at| *at < all.len());
        let ownership = owner.map(|at| owned_by(&format!("c{at}")));
        let always = all.iter().filter(|describe_policy| **describe_policy == 1).count();
        match describer(&voices, ownership.clone()) {
            Some(Ownership::Owned { by, because }) => {
                let describe_policy = voices.iter().find(|(it, _)| *it == by).unwrap().1;
                prop_assert_eq!((because == Basis::DescribePolicy, always), (describe_policy == DescribePolicy::Always, usize::from(describe_policy == DescribePolicy::Always)));
                prop_assert!(describe_policy != DescribePolicy::Never);
                prop_assert!(describe_policy == DescribePolicy::Always || Some(owned_by(by.as_str())) == ownership);
            }
            Some(Ownership::Contested(clouds)) => prop_assert_eq!(clouds.len(), always),
            Some(Ownership::Nobody(_)) => {
                prop_assert_eq!((always, owner.map(|at| all[at])), (0, Some(2)));
            }
            Some(Ownership::Undecided(_)) => prop_assert!(false),
            None => prop_assert_eq!((always, ownership), (0, None)),
        }
    }

    /// The owner of a provider id always claims it, and is never one that disclaims it beside one that does not.
    #[test]
    fn no_provider_id_goes_to_a_cloud_that_does_not_claim_it(
        all in proptest::collection::vec((0..4usize, proptest::bool::ANY, 0..3usize), 0..5),
        machine in proptest::option::of(0..5usize),
    ) {
        let mut node = fresh_node();
        node.provider_id = Some("a://1".into());
        let candidates: Vec<_> = all.iter().enumerate().map(|(at, (claim, belongs_elsewhere, selection))| CloudCandidate {
            name: name(&format!("c{at}")),
            claim: [Claim::Mine, Claim::Foreign, Claim::Fallback, Claim::Malformed("x".into())][*claim].clone(),
            belongs_elsewhere: *belongs_elsewhere,
            selection: [Selection::Unsaid, Selection::Meant, Selection::NotMeant][*selection],
        }).collect();
        let machine = machine.map(|at| name(&format!("c{at}")));
        let decided = decide(&node, &candidates, machine.as_ref());
        if let Some(Ownership::Owned { by, because }) = decided {
            let owner = candidates.iter().find(|it| it.name == by).unwrap();
            prop_assert!(matches!(owner.claim, Claim::Mine | Claim::Fallback));
            if owner.claim == Claim::Mine && because != Basis::ProviderId {
                prop_assert!(!owner.belongs_elsewhere);
                prop_assert!(because == Basis::Account || owner.selection != Selection::NotMeant);
            }
            let mine = candidates.iter().filter(|it| it.claim == Claim::Mine).count();
            prop_assert!(owner.claim == Claim::Mine || mine == 0);
        }
    }

    /// Total, and never an owner who did not claim.
    #[test]
    fn nobody_owns_what_it_did_not_claim(answers in proptest::collection::vec(0..3usize, 0..5)) {
        let named: Vec<_> = answers.iter().enumerate().map(|(at, answer)| {
            let answer = match answer {
                0 => Recognition::Mine,
                1 => Recognition::NotMine,
                _ => Recognition::CannotTell("down".into()),
            };
            (name(&format!("c{at}")), answer)
        }).collect();
        match by_recognition(&named) {
            Ownership::Owned { by, .. } => {
                prop_assert!(named.contains(&(by, Recognition::Mine)));
                prop_assert!(answers.iter().all(|a| *a != 2));
                prop_assert_eq!(answers.iter().filter(|a| **a == 0).count(), 1);
            }
            Ownership::Undecided(_) => prop_assert!(answers.contains(&2)),
            Ownership::Contested(clouds) => prop_assert!(clouds.len() > 1),
            Ownership::Nobody(_) => prop_assert!(!answers.contains(&0)),
        }
    }
}

#[test]
fn what_a_departed_cloud_had_is_anothers_only_if_that_has_the_machine() {
    let mut node = fresh_node();
    node.taints.clear();
    node.provider_id = Some("x://1".into());
    let candidate = |selection| CloudCandidate {
        selection,
        ..CloudCandidate::new(name("a"), Claim::Mine)
    };
    let (a, b) = (name("a"), name("b"));
    let departed = "left alone: its machine may be in b, which is not configured any more, and no other cloud has been \
                    seen to have it";
    for (selection, has_machine, wanted) in [
        (Selection::Unsaid, None, "owned by a, by its provider id"),
        (
            Selection::Unsaid,
            Some(&a),
            "owned by a, by its provider id",
        ),
        (Selection::Unsaid, Some(&b), departed),
        // Somebody says that it is.
        (Selection::Meant, Some(&b), "owned by a, by its provider id"),
    ] {
        let decided = decide(&node, &[candidate(selection)], has_machine).unwrap();
        assert_eq!(decided.to_string(), wanted, "{selection:?} {has_machine:?}");
    }
    // Without a provider id it has to be recognised.
    node.provider_id = None;
    let alone = [candidate(Selection::Unsaid)];
    assert_eq!(decide(&node, &alone, Some(&b)), None);
    assert!(decide(&node, &alone, Some(&a)).is_some());
}

#[test]
fn a_cloud_with_a_selector_has_no_nodes_but_those_it_means() {
    let mut node = fresh_node();
    node.taints.clear();
    let other = [CloudCandidate {
        selection: Selection::NotMeant,
        ..CloudCandidate::new(name("a"), Claim::Mine)
    }];
    assert_eq!(decide(&node, &other, None), None);
    node.provider_id = Some("x://1".into());
    let account = Unowned::ForeignAccount(vec![name("a")]);
    let nobody = Some(Ownership::Nobody(account));
    assert_eq!(decide(&node, &other, None), nobody);
}
