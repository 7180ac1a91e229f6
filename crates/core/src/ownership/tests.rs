use super::*;
use crate::node::examples::fresh_node;
use proptest::prelude::*;

fn name(text: &str) -> CloudName {
    CloudName::parse(text).unwrap()
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
        Ownership::Nobody(Orphan::ForeignProviderId)
    );
    assert_eq!(
        by_provider_id(&[]),
        Ownership::Nobody(Orphan::ForeignProviderId)
    );
    let leftover = [(name("a"), Claim::Leftover), (name("b"), Claim::Foreign)];
    assert_eq!(
        by_provider_id(&leftover).to_string(),
        "owned by a, because no other cloud has its provider id"
    );
    let with_owner = [(name("a"), Claim::Leftover), (name("b"), Claim::Mine)];
    assert_eq!(by_provider_id(&with_owner), owned);
    let with_malformed = [
        (name("a"), Claim::Leftover),
        (name("b"), Claim::Malformed("no uuid".into())),
    ];
    assert_eq!(
        by_provider_id(&with_malformed).to_string(),
        "left alone: its provider id is not one of b: no uuid"
    );
    let two = [(name("a"), Claim::Leftover), (name("b"), Claim::Leftover)];
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
    assert_eq!(ask(&[&not, &not]), Ownership::Nobody(Orphan::Unrecognized));
    assert_eq!(
        ask(&[&mine, &mine]),
        Ownership::Contested(vec![name("a"), name("b")])
    );
    assert_eq!(
        ask(&[&mine, &silent]).to_string(),
        "not decided: b could not answer: timeout"
    );
}

fn owned(by: &str) -> Ownership {
    Ownership::Owned {
        by: name(by),
        because: Basis::ProviderId,
    }
}

#[test]
fn who_always_describes_goes_before_the_owner() {
    use Voice::{Always, Never, Owner};
    let orphan = Ownership::Nobody(Orphan::ForeignProviderId);
    let alone = Some("described by a, whoever owns it");
    for (voices, ownership, wanted) in [
        (
            &[Owner, Owner][..],
            Some(owned("b")),
            Some("owned by b, by its provider id"),
        ),
        (&[Owner, Owner], None, None),
        (&[Always, Owner], Some(owned("b")), alone),
        (&[Always, Never], Some(orphan.clone()), alone),
        (&[Always], None, alone),
        (
            &[Always, Always],
            Some(owned("b")),
            Some("left alone: claimed by several clouds (a, b)"),
        ),
        (
            &[Never, Owner],
            Some(owned("b")),
            Some("owned by b, by its provider id"),
        ),
        (
            &[Owner, Never],
            Some(owned("b")),
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

proptest! {
    /// Nobody describes a node against its own word, and nobody but the owner without one.
    #[test]
    fn nobody_describes_who_has_no_voice(
        all in proptest::collection::vec(0..3usize, 0..5),
        owner in proptest::option::of(0..5usize),
    ) {
        let voices: Vec<_> = all.iter().enumerate().map(|(at, voice)| {
            let voice = [Voice::Owner, Voice::Always, Voice::Never][*voice];
            (name(&format!("c{at}")), voice)
        }).collect();
        let owner = owner.filter(|at| *at < all.len());
        let ownership = owner.map(|at| owned(&format!("c{at}")));
        let always = all.iter().filter(|voice| **voice == 1).count();
        match describer(&voices, ownership.clone()) {
            Some(Ownership::Owned { by, because }) => {
                let voice = voices.iter().find(|(it, _)| *it == by).unwrap().1;
                prop_assert_eq!((because == Basis::Voice, always), (voice == Voice::Always, usize::from(voice == Voice::Always)));
                prop_assert!(voice != Voice::Never);
                prop_assert!(voice == Voice::Always || Some(owned(by.as_str())) == ownership);
            }
            Some(Ownership::Contested(clouds)) => prop_assert_eq!(clouds.len(), always),
            Some(Ownership::Nobody(_)) => {
                prop_assert_eq!((always, owner.map(|at| all[at])), (0, Some(2)));
            }
            Some(Ownership::Undecided(_)) => prop_assert!(false),
            None => prop_assert_eq!((always, ownership), (0, None)),
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
