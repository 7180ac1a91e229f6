use bowline_core::{HAND_OVER, NamespaceRule, TAKE_OVER};
use serde_json::{Value, json};

use super::*;
use crate::balancer::examples::{
    Around, L1, OTHER, P1, P2, UID, annotated, balancer, listener, named, port, read_listener,
    service,
};

/// A uid that no Service has.
const GONE: &str = "22222222-6a53-4f6e-9a3d-1f2e3d4c5b6a";

fn claim_in(around: &Around, found: &LoadBalancer) -> Result<Claim, Lack> {
    let (settings, faults) = Settings::read(&around.wish.service);
    assert_eq!(faults, []);
    around.family().claim(found, &settings)
}

fn ours(port: u16) -> Value {
    listener(1, &format!("{UID}-{port}"), port, 30080)
}

fn shows_address(service: &mut Service) {
    service.ingress = vec![bowline_core::Ingress {
        ip: Some("203.0.113.80".into()),
        ..bowline_core::Ingress::default()
    }];
}

#[test]
fn marks_and_names_say_whose_it_is() {
    let default = format!("k8s-{UID}");
    let (mark, name) = (Claim::Managed(By::Mark), Claim::Managed(By::Name));
    for (what, name, labels, wanted) in [
        (
            "the default name",
            default.as_str(),
            json!({}),
            name.clone(),
        ),
        (
            "others' labels",
            default.as_str(),
            json!({"team": "a"}),
            name,
        ),
        (
            "the default name, marked for another",
            default.as_str(),
            json!({SERVICE_LABEL: OTHER}),
            Claim::NotOurs,
        ),
        ("the wanted name alone", "edge", json!({}), Claim::NotOurs),
        ("our mark", "x", json!({SERVICE_LABEL: UID}), mark.clone()),
        (
            "our mark in this cluster",
            "x",
            json!({SERVICE_LABEL: UID, CLUSTER_UID_MARK: "blue-uid", CLUSTER_LABEL: "renamed"}),
            mark.clone(),
        ),
        (
            "our mark in another cluster of this name",
            "x",
            json!({SERVICE_LABEL: UID, CLUSTER_UID_MARK: "green-uid", CLUSTER_LABEL: "blue"}),
            Claim::NotOurs,
        ),
        (
            "our mark in another cluster, by name",
            "x",
            json!({SERVICE_LABEL: UID, CLUSTER_LABEL: "green"}),
            Claim::NotOurs,
        ),
        (
            "another Service's mark",
            "edge",
            json!({SERVICE_LABEL: OTHER}),
            Claim::NotOurs,
        ),
        (
            "the mark of a Service that is gone",
            "edge",
            json!({SERVICE_LABEL: GONE}),
            Claim::NotOurs,
        ),
    ] {
        let service = annotated(&[("name", "edge"), ("id", L1)]);
        let all = [Arc::new(service.clone()), Arc::new(named("other", OTHER))];
        let around = Around::new(&service, &all);
        let found = balancer(name, &labels, &[]);
        assert_eq!(claim_in(&around, &found), Ok(wanted), "{what}");
    }
}

#[test]
fn what_the_original_made_with_a_name_of_its_users_is_known_by_what_is_on_it() {
    let proven = Claim::Managed(By::Services);
    let named_x = |node_port| listener(1, "x", 80, node_port);
    let elsewhere = || {
        let mut it = ours(80);
        it["instance-pool"] = json!({"id": P2});
        it
    };
    for (what, service_name, listeners, shown, wanted) in [
        ("our uid, our pool", "", vec![ours(80)], false, true),
        ("our uid, another pool", "", vec![elsewhere()], false, false),
        ("another pool, shown", "", vec![elsewhere()], true, true),
        ("nothing on it", "", vec![], true, false),
        (
            "something foreign",
            "",
            vec![ours(80), listener(2, "api", 6443, 30643)],
            true,
            false,
        ),
        ("a chosen name", "x", vec![named_x(30080)], false, false),
        (
            "a chosen name, shown",
            "x",
            vec![named_x(30080)],
            true,
            true,
        ),
        (
            "another node port, shown",
            "x",
            vec![named_x(30081)],
            true,
            false,
        ),
        (
            "another name, shown",
            "y",
            vec![named_x(30080)],
            true,
            false,
        ),
    ] {
        let mut service =
            annotated(&[("name", "edge"), ("id", L1), ("service-name", service_name)]);
        if shown {
            shows_address(&mut service);
        }
        let mut around = Around::new(&service, &[]);
        let found = balancer("edge", &json!({}), &listeners);
        let verdict = if wanted {
            proven.clone()
        } else {
            Claim::NotOurs
        };
        assert_eq!(claim_in(&around, &found), Ok(verdict), "{what}");
        // Nobody who was attached to it.
        around.record.attached.insert(L1.parse().unwrap());
        assert_eq!(claim_in(&around, &found), Ok(Claim::Attached), "{what}");
    }
    // Another name, another id.
    for pairs in [
        [("name", "edg"), ("id", L1)],
        [("name", "edge"), ("id", P1)],
    ] {
        let mut service = annotated(&pairs);
        shows_address(&mut service);
        let found = balancer("edge", &json!({}), &[ours(80)]);
        let claim = claim_in(&Around::new(&service, &[]), &found);
        assert_eq!(claim, Ok(Claim::NotOurs), "{pairs:?}");
    }
    // Which pools the nodes are in is read only here.
    let service = annotated(&[("name", "edge"), ("id", L1)]);
    let mut around = Around::new(&service, &[]);
    around.pools = None;
    let found = balancer("edge", &json!({}), &[ours(80)]);
    assert_eq!(claim_in(&around, &found), Err(Lack::Pools));
}

#[test]
fn external_and_what_was_attached_once_stay_attached() {
    let own = balancer(
        &format!("k8s-{UID}"),
        &json!({SERVICE_LABEL: UID}),
        &[ours(80)],
    );
    for (said, record, wanted) in [
        ("true", false, Claim::Attached),
        ("TRUE", false, Claim::Attached),
        ("false", false, Claim::Managed(By::Mark)),
        ("yes", false, Claim::Managed(By::Mark)),
        ("", true, Claim::Attached),
        ("no", true, Claim::Attached),
        ("false", true, Claim::Attached),
    ] {
        let service = annotated(&[("external", said), ("id", L1)]);
        let mut around = Around::new(&service, &[]);
        if record {
            around.record.attached.insert(L1.parse().unwrap());
        }
        assert_eq!(
            claim_in(&around, &own),
            Ok(wanted.clone()),
            "{said:?} {record}"
        );
    }
    // Only somebody's consent ends it.
    let service = annotated(&[(TAKE_OVER, L1)]);
    let mut around = Around::new(&service, &[]);
    around.record.attached.insert(L1.parse().unwrap());
    assert_eq!(claim_in(&around, &own), Ok(Claim::Attached));
    Arc::make_mut(&mut around.wish.rules).adoption = NamespaceRule::Any;
    let adopted = Ok(Claim::Managed(By::Consent(OwnershipVerdict::Adopted)));
    assert_eq!(claim_in(&around, &own), adopted);
    let foreign = balancer("x", &json!({}), &[]);
    assert_eq!(claim_in(&around, &foreign), adopted);
}

#[test]
fn owners_hand_over_and_operators_allow() {
    let marked = |uid: &str| balancer("x", &json!({SERVICE_LABEL: uid}), &[]);
    let service = annotated(&[(TAKE_OVER, L1)]);
    let mut owner = named("other", OTHER);
    let all = |owner: &Service| [Arc::new(service.clone()), Arc::new(owner.clone())];
    let mut around = Around::new(&service, &all(&owner));
    let refused = Ok(Claim::NotOurs);
    assert_eq!(claim_in(&around, &marked(OTHER)), refused);
    // The operator's word never covers what a living Service has, whether by mark or without.
    Arc::make_mut(&mut around.wish.rules).adoption = NamespaceRule::Any;
    assert_eq!(claim_in(&around, &marked(OTHER)), refused);
    let mut user = annotated(&[("id", L1)]);
    user.uid = OTHER.into();
    shows_address(&mut user);
    let mut used = Around::new(&service, &all(&user));
    Arc::make_mut(&mut used.wish.rules).adoption = NamespaceRule::Any;
    let plain = balancer("x", &json!({}), &[]);
    assert_eq!(claim_in(&used, &plain), refused);
    // Of one that is gone it does, on proof.
    assert_eq!(claim_in(&around, &marked(GONE)), Err(Lack::Services));
    around.wish.living = Some(Arc::new([UID.to_owned(), GONE.to_owned()].into()));
    assert_eq!(claim_in(&around, &marked(GONE)), refused);
    around.wish.living = Some(Arc::new([UID.to_owned()].into()));
    let adopted = Ok(Claim::Managed(By::Consent(OwnershipVerdict::Adopted)));
    assert_eq!(claim_in(&around, &marked(GONE)), adopted);
    // The owner's word.
    owner.annotations = Some([(HAND_OVER.to_owned(), "default/web".to_owned())].into());
    let around = Around::new(&service, &all(&owner));
    let handed = Claim::Managed(By::Consent(OwnershipVerdict::HandedOver(owner.key.clone())));
    assert_eq!(claim_in(&around, &marked(OTHER)), Ok(handed));
    // Who gave it away does not stay on it.
    let (giver, heir) = (owner, service);
    let around = Around::new(&giver, &[Arc::new(giver.clone()), Arc::new(heir)]);
    assert_eq!(claim_in(&around, &marked(UID)), Ok(Claim::HandedAway));
}

#[test]
fn what_a_service_of_the_same_name_left_returns_on_proof() {
    let labels =
        json!({SERVICE_LABEL: GONE, CLUSTER_UID_MARK: "blue-uid", SERVICE_MARK: "default.web"});
    let found = balancer(&format!("k8s-{GONE}"), &labels, &[]);
    let mut around = Around::new(&service(), &[]);
    assert_eq!(claim_in(&around, &found), Err(Lack::Services));
    around.wish.living = Some(Arc::new([UID.to_owned()].into()));
    let returned = Ok(Claim::Managed(By::Consent(OwnershipVerdict::Returned)));
    assert_eq!(claim_in(&around, &found), returned);
    around.wish.cluster_uid = None;
    assert_eq!(claim_in(&around, &found), Ok(Claim::NotOurs));
    let mut other = Around::new(&named("other", UID), &[]);
    other.wish.living = Some(Arc::new([UID.to_owned()].into()));
    assert_eq!(claim_in(&other, &found), Ok(Claim::NotOurs));
}

#[test]
#[expect(clippy::too_many_lines, reason = "one table")]
fn a_service_of_a_load_balancer_is_known_by_its_name_the_record_or_what_it_serves() {
    let remember = |service: &mut Service| {
        let record = Record {
            services: [read_listener(ours(80)).id].into(),
            ..Record::default()
        };
        service.conditions.extend(record.condition(service));
    };
    let (plain, other) = (service(), named("other", OTHER));
    let (mut listed, mut listing) = (plain.clone(), other.clone());
    remember(&mut listed);
    remember(&mut listing);
    let mut foreign = listing.clone();
    foreign.class = Some("vendor.test/lb".into());
    // What the annotation said before there was a record proves nothing.
    let id = read_listener(ours(80)).id.to_string();
    let claiming = annotated(&[(crate::balancer::settings::table::OWNED_SERVICES, &id)]);
    let at = |name: &str, port, node_port, pool: &str| {
        let mut it = listener(1, name, port, node_port);
        it["instance-pool"] = json!({"id": pool});
        read_listener(it)
    };
    let ours = format!("{UID}-80");
    let theirs = format!("{OTHER}-80");
    for (what, me, them, listener, wanted) in [
        ("our name", &plain, &other, at(&ours, 81, 1, P2), "ours"),
        (
            "our name, listed there",
            &plain,
            &listing,
            at(&ours, 80, 30080, P1),
            "ours",
        ),
        (
            "their name",
            &plain,
            &other,
            at(&theirs, 80, 30080, P1),
            "another",
        ),
        (
            "their name, listed here",
            &listed,
            &other,
            at(&theirs, 80, 30080, P1),
            "another",
        ),
        ("listed here", &listed, &other, at("x", 81, 1, P2), "ours"),
        (
            "listed there",
            &plain,
            &listing,
            at("x", 80, 30080, P1),
            "another",
        ),
        (
            "listed by somebody else's",
            &plain,
            &foreign,
            at("x", 81, 1, P1),
            "foreign",
        ),
        (
            "a name like ours",
            &plain,
            &other,
            at(&format!("{UID}80"), 81, 1, P1),
            "foreign",
        ),
        (
            "it serves us",
            &plain,
            &other,
            at("x", 80, 30080, P1),
            "ours",
        ),
        (
            "another port",
            &plain,
            &other,
            at("x", 81, 30080, P1),
            "foreign",
        ),
        (
            "another node port",
            &plain,
            &other,
            at("x", 80, 30081, P1),
            "foreign",
        ),
        (
            "another cluster's pool",
            &plain,
            &other,
            at("x", 80, 30080, P2),
            "foreign",
        ),
        (
            "claimed by annotation",
            &claiming,
            &other,
            at("x", 81, 1, P1),
            "foreign",
        ),
        (
            "a Service that is gone",
            &plain,
            &other,
            at(&format!("{GONE}-80"), 80, 1, P1),
            "left over",
        ),
        (
            "gone, another pool",
            &plain,
            &other,
            at(&format!("{GONE}-80"), 80, 1, P2),
            "foreign",
        ),
        (
            "gone, another port",
            &plain,
            &other,
            at(&format!("{GONE}-81"), 81, 1, P1),
            "foreign",
        ),
    ] {
        let all = [Arc::new(me.clone()), Arc::new(them.clone())];
        let mut around = Around::new(me, &all);
        around.wish.living = Some(Arc::new([UID.to_owned(), OTHER.to_owned()].into()));
        let verdict = match around.family().judge(&listener) {
            Ok(ServiceOwner::Ours) => "ours",
            Ok(ServiceOwner::Another(_)) => "another",
            Ok(ServiceOwner::LeftOver) => "left over",
            Ok(ServiceOwner::Foreign) => "foreign",
            Err(lack) => panic!("{what}: {lack:?}"),
        };
        assert_eq!(verdict, wanted, "{what}");
    }
}

#[test]
fn what_is_lacked_is_said_and_elsewhere_ports_prove_nothing() {
    let mut around = Around::new(&service(), &[]);
    let left = read_listener(listener(1, &format!("{GONE}-80"), 80, 30080));
    assert_eq!(around.family().judge(&left), Err(Lack::Services));
    assert_eq!(around.family().whose(&left), ServiceOwner::Foreign);
    around.wish.living = Some(Arc::new([UID.to_owned(), GONE.to_owned()].into()));
    assert_eq!(around.family().judge(&left), Ok(ServiceOwner::Foreign));
    let serving = read_listener(listener(1, "x", 80, 30080));
    around.pools = None;
    assert_eq!(around.family().judge(&serving), Err(Lack::Pools));
    let elsewhere = OwnershipContext {
        by_ports: false,
        ..around.family()
    };
    assert_eq!(elsewhere.judge(&serving), Ok(ServiceOwner::Foreign));
    assert!(!around.family().is_surely_ours(&serving));
    // A node port of none is no node port.
    let mut portless = service();
    portless.ports = vec![port("TCP", 80, 0)];
    let around = Around::new(&portless, &[]);
    let nowhere = read_listener(listener(1, "x", 80, 0));
    assert_eq!(around.family().judge(&nowhere), Ok(ServiceOwner::Foreign));
}

#[test]
fn labels_hold_only_what_labels_can() {
    let mut service = service();
    service.key.name = "a".repeat(80);
    let mut around = Around::new(&service, &[]);
    around.wish.cluster_name = "Zürich 1/a".into();
    around.wish.cluster_uid = Some("a/b".into());
    let labels = around.family().labels();
    assert_eq!(labels[CLUSTER_LABEL], "Z-rich-1-a");
    assert_eq!(labels[SERVICE_LABEL], UID);
    assert_eq!(labels[NAME_LABEL].len(), 63);
    assert!(labels[SERVICE_MARK].starts_with("sha256-"));
    let marked = balancer("x", &json!(labels), &[]);
    assert_eq!(claim_in(&around, &marked), Ok(Claim::Managed(By::Mark)));
    around.wish.cluster_name = String::new();
    around.wish.cluster_uid = None;
    let labels = around.family().labels();
    assert!(!labels.contains_key(CLUSTER_LABEL) && !labels.contains_key(CLUSTER_UID_MARK));
}

#[test]
fn the_labels_say_whose_cluster_it_is() {
    use bowline_core::ClusterMatch as Cluster;
    let (ours, foreign) = (Some(Cluster::Ours), Some(Cluster::Foreign));
    for (uid, labels, wanted) in [
        (
            Some("u"),
            json!({CLUSTER_UID_MARK: "u", CLUSTER_LABEL: "green"}),
            ours,
        ),
        (
            Some("u"),
            json!({CLUSTER_UID_MARK: "v", CLUSTER_LABEL: "blue"}),
            foreign.clone(),
        ),
        // A name is not a proof.
        (Some("u"), json!({CLUSTER_LABEL: "blue"}), None),
        (
            None,
            json!({CLUSTER_UID_MARK: "u", CLUSTER_LABEL: "blue"}),
            None,
        ),
        (None, json!({CLUSTER_LABEL: "green"}), foreign),
        (None, json!({CLUSTER_LABEL: "kubernetes"}), None),
        (None, json!({}), None),
    ] {
        let verdict = whose_cluster("blue", uid, &balancer("x", &labels, &[]));
        match wanted {
            Some(wanted) => assert_eq!(verdict, wanted, "{uid:?} {labels}"),
            None => assert!(matches!(verdict, Cluster::Unclear(_)), "{uid:?} {labels}"),
        }
    }
}
