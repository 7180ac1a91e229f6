//! Who stays, who comes and who goes.

use serde_json::json;

use super::*;
use crate::balancer::clb::examples::UID;

const CLUSTER: &str = "cccccccc-0000-4000-8000-00000000000c";
const PUBLIC: Uuid = Uuid::from_u128(0x11);
const PRIVATE: Uuid = Uuid::from_u128(0x22);
const IMAGE: Uuid = Uuid::from_u128(0x33);

fn networks() -> BTreeMap<Uuid, Network> {
    let network = |id: Uuid, public: bool| -> Network {
        serde_json::from_value(json!({"id": id, "public": public})).unwrap()
    };
    [
        (PUBLIC, network(PUBLIC, true)),
        (PRIVATE, network(PRIVATE, false)),
    ]
    .into()
}

fn blueprint(replicas: u8) -> Blueprint {
    let wire = |network, public| Wire {
        network,
        public,
        address: None,
    };
    let tags = [
        (CLUSTER_TAG, CLUSTER),
        (UID_TAG, UID),
        (NAMES_TAG, "web.prod"),
    ];
    Blueprint {
        stem: stem("kubernetes", UID),
        tags: tags
            .map(|(key, value)| (key.to_owned(), value.to_owned()))
            .into(),
        replicas,
        image: IMAGE,
        images: BTreeSet::from([IMAGE]),
        package: "lb1.small".to_owned(),
        wires: vec![wire(PUBLIC, true), wire(PRIVATE, false)],
        firewall: true,
        protection: None,
    }
}

fn machine(id: u128, name: &str) -> Machine {
    let nics = json!([
        {"ip": "203.0.113.9", "network": PUBLIC, "primary": true},
        {"ip": "10.20.0.9", "network": PRIVATE},
    ]);
    let body = json!({"id": Uuid::from_u128(id), "name": name, "state": "running", "image": IMAGE,
                      "package": "lb1.small", "nics": nics,
                      "tags": {CLUSTER_TAG: CLUSTER, UID_TAG: UID}});
    serde_json::from_value(body).unwrap()
}

/// `kept | missing | leaving`, by ids and seats.
fn sorted(blueprint: &Blueprint, found: &[Machine]) -> String {
    let diff = blueprint.diff(found, &networks());
    let id = |machine: &Machine| machine.id.as_u128();
    let kept = diff.kept.iter();
    let kept: Vec<_> = kept
        .map(|(ordinal, it)| format!("{ordinal}:{}", id(it)))
        .collect();
    let leaving = diff.leaving.iter().map(|it| {
        let mark = if it.is_replaced { "!" } else { "" };
        format!("{}{mark}", id(&it.machine))
    });
    let (kept, leaving) = (kept.join(" "), leaving.collect::<Vec<_>>().join(" "));
    format!("{kept} | {:?} | {leaving}", diff.missing)
}

#[test]
fn seats_stand_in_names() {
    let blueprint = blueprint(2);
    assert_eq!(blueprint.name(0), "kubernetes-clb-3f0c2a9e-0");
    let former = blueprint.former_name(1, Uuid::from_u128(0xabcd_ef01 << 96));
    assert_eq!(former, "kubernetes-clb-3f0c2a9e-1-abcdef");
    for (name, ordinal) in [
        ("kubernetes-clb-3f0c2a9e-0", Some(0)),
        ("kubernetes-clb-3f0c2a9e-7", Some(7)),
        ("kubernetes-clb-3f0c2a9e-07", None),
        ("kubernetes-clb-3f0c2a9e-0-abcdef", None),
        ("kubernetes-clb-3f0c2a9e", None),
        ("web", None),
    ] {
        assert_eq!(blueprint.ordinal(&machine(1, name)), ordinal, "{name}");
    }
    let mut longest = blueprint;
    longest.stem = stem(&"c".repeat(40), UID);
    assert!(longest.former_name(7, Uuid::from_u128(1)).len() <= 63);
}

#[test]
fn machines_keep_their_seats_and_others_are_missing_or_too_many() {
    let named = |id, ordinal: u8| machine(id, &format!("kubernetes-clb-3f0c2a9e-{ordinal}"));
    let web = || machine(9, "web");
    for (replicas, machines, expected) in [
        (1, vec![], " | [0] | "),
        (1, vec![named(5, 0)], "0:5 | [] | "),
        (2, vec![named(5, 1)], "1:5 | [0] | "),
        (1, vec![named(5, 1), named(6, 0)], "0:6 | [] | 5"),
        (2, vec![web(), named(6, 1)], "0:9 1:6 | [] | "),
        (1, vec![web(), named(6, 0)], "0:6 | [] | 9"),
    ] {
        assert_eq!(sorted(&blueprint(replicas), &machines), expected);
    }
}

#[test]
fn what_cannot_be_changed_is_replaced_and_what_is_not_known_is_not() {
    let plain = || machine(5, "kubernetes-clb-3f0c2a9e-0");
    let (stays, goes) = ("0:5 | [] | ", " | [0] | 5!");
    let seen = |expected: &str, change: &dyn Fn(&mut Machine)| {
        let mut machine = plain();
        change(&mut machine);
        assert_eq!(sorted(&blueprint(1), &[machine]), expected);
    };
    seen(stays, &|_| ());
    seen(goes, &|it| it.package = "lb1.large".to_owned());
    // New machines show none.
    seen(stays, &|it| it.package.clear());
    seen(goes, &|it| it.image = Some(Uuid::from_u128(9)));
    seen(stays, &|it| it.image = None);
    seen(stays, &|it| it.nics = None);
    // It is being made.
    seen(stays, &|it| it.nics = Some(Vec::new()));
    seen(goes, &|it| drop(it.nics.as_mut().unwrap().remove(0)));
    let pool = Some(Uuid::from_u128(0x99));
    seen(stays, &|it| it.nics.as_mut().unwrap()[0].network = pool);
    seen(stays, &|it| it.nics.as_mut().unwrap()[1].network = pool);
    // No address outside.
    seen(goes, &|it| {
        let nic = &mut it.nics.as_mut().unwrap()[0];
        nic.network = pool;
        nic.ip = "10.1.2.3".to_owned();
    });
    let mut fixed = blueprint(1);
    fixed.wires = vec![Wire {
        network: PRIVATE,
        public: false,
        address: Some(Ipv4Addr::new(10, 20, 0, 50)),
    }];
    let mut inside = plain();
    inside.nics.as_mut().unwrap().remove(0);
    assert_eq!(sorted(&fixed, &[inside.clone()]), goes);
    inside.nics.as_mut().unwrap()[0].ip = "10.20.0.50".to_owned();
    assert_eq!(sorted(&fixed, &[inside.clone()]), stays);
    assert!(fixed.has_the_address(&inside) && !fixed.has_the_address(&plain()));
}

#[test]
fn a_machine_is_ours_only_if_it_names_cluster_and_service() {
    let ours = machine(1, "x");
    assert!(is_ours(&ours, CLUSTER, UID));
    assert!(!is_ours(&ours, "other", UID) && !is_ours(&ours, CLUSTER, "other"));
    for tag in [CLUSTER_TAG, UID_TAG] {
        let mut bare = ours.clone();
        bare.tags.remove(tag);
        assert!(!is_ours(&bare, CLUSTER, UID), "{tag}");
        bare.tags.insert(tag.to_owned(), TagValue::Boolean(true));
        assert!(!is_ours(&bare, CLUSTER, UID), "{tag}");
    }
}

#[test]
fn new_machines_keep_away_from_each_other_when_there_are_several() {
    let one = blueprint(1).machine(0, BTreeMap::new());
    assert_eq!(one.affinity, [""; 0]);
    assert_eq!(one.networks, [(PUBLIC, None), (PRIVATE, None)]);
    assert!(one.firewall_enabled && !one.deletion_protection);
    let two = blueprint(2).machine(1, BTreeMap::new());
    assert_eq!(two.affinity, [format!("bowline.uid!=~{UID}")]);
    assert_eq!(two.name, "kubernetes-clb-3f0c2a9e-1");
}

#[test]
fn a_machine_is_reached_outside_or_inside() {
    let machine = machine(1, "x");
    let at = |public| address(&machine, public, &networks()).unwrap().to_string();
    assert_eq!([at(true), at(false)], ["203.0.113.9", "10.20.0.9"]);
}
