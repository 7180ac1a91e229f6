use super::*;
use crate::node::examples::fresh_node;
use crate::ownership::{Basis, Unowned};

fn name(text: &str) -> CloudName {
    CloudName::parse(text).unwrap()
}

fn owned(by: &str) -> Ownership {
    Ownership::Owned {
        by: name(by),
        because: Basis::ProviderId,
    }
}

fn map<T: FromIterator<(String, String)>>(pairs: &[(&str, &str)]) -> T {
    let own = |(key, value): &(&str, &str)| ((*key).to_owned(), (*value).to_owned());
    pairs.iter().map(own).collect()
}

fn annotated(pairs: &[(&str, &str)]) -> Node {
    Node {
        annotations: map(pairs),
        ..fresh_node()
    }
}

fn annotations(pairs: &[(&str, &str)]) -> Applied {
    Applied {
        annotations: map(pairs),
        ..Applied::default()
    }
}

fn labels(pairs: &[(&str, &str)]) -> Applied {
    Applied {
        labels: map(pairs),
        ..Applied::default()
    }
}

#[test]
fn an_owned_node_names_its_owner_and_who_else_describes_it() {
    let node = fresh_node();
    let (east, west) = (owned("east"), owned("west"));
    for (owner, describer, shown) in [
        (&east, Some(&east), &[(OWNER, "east")][..]),
        (&east, None, &[(OWNER, "east")]),
        (&east, Some(&west), &[(OWNER, "east"), (DESCRIBER, "west")]),
        (
            &Ownership::Nobody(Unowned::ForeignProviderId),
            Some(&west),
            &[(DESCRIBER, "west")],
        ),
    ] {
        let showing = |how| wanted(&node, Some(owner), describer, how);
        assert_eq!(showing(Showing::Annotations), Some(annotations(shown)));
        assert_eq!(showing(Showing::Labels), Some(labels(shown)));
        assert_eq!(showing(Showing::Nothing), Some(Applied::default()));
    }
}

#[test]
fn what_is_shown_stays_while_it_may_be_true() {
    let contested = Ownership::Contested(vec![name("east"), name("west")]);
    let undecided = Ownership::Undecided(vec![(name("east"), "down".into())]);
    let nobody = Ownership::Nobody(Unowned::ForeignProviderId);
    for (shown, owner, stays) in [
        ("east", Some(&contested), true),
        ("north", Some(&contested), false),
        ("east", Some(&undecided), true),
        ("east", None, true),
        ("east", Some(&nobody), false),
    ] {
        let found = wanted(
            &annotated(&[(OWNER, shown)]),
            owner,
            None,
            Showing::Annotations,
        );
        let expected = if stays {
            None
        } else {
            Some(Applied::default())
        };
        assert_eq!(found, expected, "{shown} {owner:?}");
    }
}

#[test]
fn a_node_is_written_to_only_where_something_differs() {
    let east = annotations(&[(OWNER, "east")]);
    let nothing = Applied::default();
    for (node, wanted, last, needed) in [
        // Foreign: nothing there, nothing wanted.
        (annotated(&[]), &nothing, None, false),
        (annotated(&[("theirs", "1")]), &nothing, None, false),
        // Not there yet, another value, right.
        (annotated(&[]), &east, None, true),
        (annotated(&[(OWNER, "west")]), &east, Some(&east), true),
        (annotated(&[(OWNER, "east")]), &east, None, false),
        // Too much: once; what is there after that is somebody else's.
        (annotated(&[(OWNER, "east")]), &nothing, None, true),
        (annotated(&[(OWNER, "east")]), &nothing, Some(&east), true),
        (annotated(&[(OWNER, "x")]), &nothing, Some(&nothing), false),
        // From annotations to labels.
        (
            annotated(&[(OWNER, "east")]),
            &labels(&[(OWNER, "east")]),
            None,
            true,
        ),
        (
            annotated(&[(OWNER, "east"), (DESCRIBER, "west")]),
            &east,
            None,
            true,
        ),
    ] {
        assert_eq!(
            is_needed(&node, wanted, last),
            needed,
            "{node:?} {wanted:?}"
        );
    }
}
