use bowline_core::{HAND_OVER, NamespaceRule, TAKE_OVER};
use bowline_test_kit::rows;
use serde_json::{Value, json};

use super::*;
use crate::balancer::examples::{
    Around, L1, OTHER, P1, P2, UID, annotated, balancer, listener, named, port, read_listener,
    service,
};

/// A uid that no Service has.
const GONE: &str = "22222222-6a53-4f6e-9a3d-1f2e3d4c5b6a";

fn claim_in(around: &Around, found: &LoadBalancer) -> Result<Claim, Lack> {
    let (settings, faults) = Settings::read(&around.request.service);
    assert_eq!(faults, []);
    around.context().claim(found, &settings)
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

/// Labels by short names: `of=UID in=blue`.
fn labels(text: &str) -> Value {
    let pairs = text.split_whitespace().map(|pair| {
        let (key, value) = pair.split_once('=').unwrap();
        let key = match key {
            "of" => SERVICE_LABEL,
            "uid" => CLUSTER_UID_MARK,
            "in" => CLUSTER_LABEL,
            other => other,
        };
        (key.to_owned(), json!(uid(value)))
    });
    Value::Object(pairs.collect())
}

fn uid(word: &str) -> &str {
    match word {
        "UID" => UID,
        "OTHER" => OTHER,
        "GONE" => GONE,
        other => other,
    }
}

#[test]
fn marks_and_names_show_the_owner() {
    for [what, name, marks, wanted] in rows(
        "the default name                   | k8s-UID |                                | name
         others' labels                     | k8s-UID | team=a                         | name
         default name, marked for another   | k8s-UID | of=OTHER                       | not ours
         the wanted name alone              | edge    |                                | not ours
         our mark                           | x       | of=UID                         | mark
         our mark in this cluster           | x       | of=UID uid=blue-uid in=renamed | mark
         our mark, another cluster so named | x       | of=UID uid=green-uid in=blue   | not ours
         our mark, another cluster by name  | x       | of=UID in=green                | not ours
         another Service's mark             | edge    | of=OTHER                       | not ours
         the mark of a Service that is gone | edge    | of=GONE                        | not ours",
    ) {
        let service = annotated(&[("name", "edge"), ("id", L1)]);
        let all = [Arc::new(service.clone()), Arc::new(named("other", OTHER))];
        let around = Around::new(&service, &all);
        let found = balancer(&name.replace("UID", UID), &labels(marks), &[]);
        let wanted = match wanted {
            "mark" => Claim::Managed(By::Mark),
            "name" => Claim::Managed(By::Name),
            _ => Claim::NotOurs,
        };
        assert_eq!(claim_in(&around, &found), Ok(wanted), "{what}");
    }
}

#[test]
fn what_the_original_made_with_a_name_of_its_users_is_known_by_what_is_on_it() {
    let named_x = |node_port| listener(1, "x", 80, node_port);
    let elsewhere = || {
        let mut it = ours(80);
        it["instance-pool"] = json!({"id": P2});
        it
    };
    for [what, service_name, on_it, shown, wanted] in rows(
        "our uid, our pool        |   | ours      | hidden | proven
         our uid, another pool    |   | elsewhere | hidden | not
         another pool, shown      |   | elsewhere | shown  | proven
         nothing on it            |   | nothing   | shown  | not
         something foreign        |   | foreign   | shown  | not
         a chosen name            | x | x 30080   | hidden | not
         a chosen name, shown     | x | x 30080   | shown  | proven
         another node port, shown | x | x 30081   | shown  | not
         another name, shown      | y | x 30080   | shown  | not",
    ) {
        let listeners = match on_it {
            "ours" => vec![ours(80)],
            "elsewhere" => vec![elsewhere()],
            "foreign" => vec![ours(80), listener(2, "api", 6443, 30643)],
            "x 30080" => vec![named_x(30080)],
            "x 30081" => vec![named_x(30081)],
            _ => Vec::new(),
        };
        let mut service =
            annotated(&[("name", "edge"), ("id", L1), ("service-name", service_name)]);
        if shown == "shown" {
            shows_address(&mut service);
        }
        let mut around = Around::new(&service, &[]);
        let found = balancer("edge", &json!({}), &listeners);
        let verdict = match wanted {
            "proven" => Claim::Managed(By::Services),
            _ => Claim::NotOurs,
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
    Arc::make_mut(&mut around.request.rules).adoption = NamespaceRule::Any;
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
    Arc::make_mut(&mut around.request.rules).adoption = NamespaceRule::Any;
    assert_eq!(claim_in(&around, &marked(OTHER)), refused);
    let mut user = annotated(&[("id", L1)]);
    user.uid = OTHER.into();
    shows_address(&mut user);
    let mut used = Around::new(&service, &all(&user));
    Arc::make_mut(&mut used.request.rules).adoption = NamespaceRule::Any;
    let plain = balancer("x", &json!({}), &[]);
    assert_eq!(claim_in(&used, &plain), refused);
    // Of one that is gone it does, on proof.
    assert_eq!(claim_in(&around, &marked(GONE)), Err(Lack::Services));
    around.request.living = Some(Arc::new([UID.to_owned(), GONE.to_owned()].into()));
    assert_eq!(claim_in(&around, &marked(GONE)), refused);
    around.request.living = Some(Arc::new([UID.to_owned()].into()));
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
    around.request.living = Some(Arc::new([UID.to_owned()].into()));
    let returned = Ok(Claim::Managed(By::Consent(OwnershipVerdict::Returned)));
    assert_eq!(claim_in(&around, &found), returned);
    around.request.cluster_uid = None;
    assert_eq!(claim_in(&around, &found), Ok(Claim::NotOurs));
    let mut other = Around::new(&named("other", UID), &[]);
    other.request.living = Some(Arc::new([UID.to_owned()].into()));
    assert_eq!(claim_in(&other, &found), Ok(Claim::NotOurs));
}

#[test]
fn a_service_of_a_load_balancer_is_known_by_its_name_the_record_or_what_it_serves() {
    let remember = |mut service: Service| {
        let record = Record {
            services: [read_listener(ours(80)).id].into(),
            ..Record::default()
        };
        service.conditions.extend(record.condition(&service));
        service
    };
    let listing = || remember(named("other", OTHER));
    let foreign = || Service {
        class: Some("vendor.test/lb".into()),
        ..listing()
    };
    // What the annotation said before there was a record proves nothing.
    let id = read_listener(ours(80)).id.to_string();
    let claiming = annotated(&[(crate::balancer::settings::table::OWNED_SERVICES, &id)]);
    for [what, me, them, name, ports, pool, wanted] in rows(
        "our name                  |          |         | UID-80   | 81 1     | P2 | ours
         our name, listed there    |          | listing | UID-80   | 80 30080 | P1 | ours
         their name                |          |         | OTHER-80 | 80 30080 | P1 | another
         their name, listed here   | listed   |         | OTHER-80 | 80 30080 | P1 | another
         listed here               | listed   |         | x        | 81 1     | P2 | ours
         listed there              |          | listing | x        | 80 30080 | P1 | another
         listed by somebody else's |          | foreign | x        | 81 1     | P1 | foreign
         a name like ours          |          |         | UID80    | 81 1     | P1 | foreign
         it serves us              |          |         | x        | 80 30080 | P1 | ours
         another port              |          |         | x        | 81 30080 | P1 | foreign
         another node port         |          |         | x        | 80 30081 | P1 | foreign
         another cluster's pool    |          |         | x        | 80 30080 | P2 | foreign
         claimed by annotation     | claiming |         | x        | 81 1     | P1 | foreign
         a Service that is gone    |          |         | GONE-80  | 80 1     | P1 | left over
         gone, another pool        |          |         | GONE-80  | 80 1     | P2 | foreign
         gone, another port        |          |         | GONE-81  | 81 1     | P1 | foreign",
    ) {
        let me = &match me {
            "listed" => remember(service()),
            "claiming" => claiming.clone(),
            _ => service(),
        };
        let them = match them {
            "listing" => listing(),
            "foreign" => foreign(),
            _ => named("other", OTHER),
        };
        let owner = ["UID", "OTHER", "GONE"]
            .into_iter()
            .find(|it| name.starts_with(it));
        let name = owner.map_or(name.to_owned(), |owner| name.replace(owner, uid(owner)));
        let (port, node_port) = ports.split_once(' ').unwrap();
        let (port, node_port) = (port.parse().unwrap(), node_port.parse().unwrap());
        let mut listener = listener(1, &name, port, node_port);
        listener["instance-pool"] = json!({"id": if pool == "P1" { P1 } else { P2 }});
        let listener = read_listener(listener);
        let all = [Arc::new(me.clone()), Arc::new(them.clone())];
        let mut around = Around::new(me, &all);
        around.request.living = Some(Arc::new([UID.to_owned(), OTHER.to_owned()].into()));
        let verdict = match around.context().judge(&listener) {
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
    assert_eq!(around.context().judge(&left), Err(Lack::Services));
    assert_eq!(around.context().owner(&left), ServiceOwner::Foreign);
    around.request.living = Some(Arc::new([UID.to_owned(), GONE.to_owned()].into()));
    assert_eq!(around.context().judge(&left), Ok(ServiceOwner::Foreign));
    let serving = read_listener(listener(1, "x", 80, 30080));
    around.pools = None;
    assert_eq!(around.context().judge(&serving), Err(Lack::Pools));
    let elsewhere = OwnershipContext {
        by_ports: false,
        ..around.context()
    };
    assert_eq!(elsewhere.judge(&serving), Ok(ServiceOwner::Foreign));
    assert!(!around.context().is_surely_ours(&serving));
    // A node port of none is no node port.
    let mut portless = service();
    portless.ports = vec![port("TCP", 80, 0)];
    let around = Around::new(&portless, &[]);
    let nowhere = read_listener(listener(1, "x", 80, 0));
    assert_eq!(around.context().judge(&nowhere), Ok(ServiceOwner::Foreign));
}

#[test]
fn labels_hold_only_what_labels_can() {
    let mut service = service();
    service.key.name = "a".repeat(80);
    let mut around = Around::new(&service, &[]);
    around.request.cluster_name = "Zürich 1/a".into();
    around.request.cluster_uid = Some("a/b".into());
    let labels = around.context().labels();
    assert_eq!(labels[CLUSTER_LABEL], "Z-rich-1-a");
    assert_eq!(labels[SERVICE_LABEL], UID);
    assert_eq!(labels[NAME_LABEL].len(), 63);
    assert!(labels[SERVICE_MARK].starts_with("sha256-"));
    let marked = balancer("x", &json!(labels), &[]);
    assert_eq!(claim_in(&around, &marked), Ok(Claim::Managed(By::Mark)));
    around.request.cluster_name = String::new();
    around.request.cluster_uid = None;
    let labels = around.context().labels();
    assert!(!labels.contains_key(CLUSTER_LABEL) && !labels.contains_key(CLUSTER_UID_MARK));
}

#[test]
fn the_labels_say_whose_cluster_it_is() {
    use bowline_core::ClusterMatch as Cluster;
    for [uid, marks, wanted] in rows(
        "u | uid=u in=green | ours
         u | uid=v in=blue  | foreign
         u | in=blue        | a name is not a proof
           | uid=u in=blue  | unclear
           | in=green       | foreign
           | in=kubernetes  | unclear
           |                | unclear",
    ) {
        let uid = Some(uid).filter(|uid| !uid.is_empty());
        let labels = labels(marks);
        let verdict = cluster_match("blue", uid, &balancer("x", &labels, &[]));
        match wanted {
            "ours" => assert_eq!(verdict, Cluster::Ours, "{uid:?} {labels}"),
            "foreign" => assert_eq!(verdict, Cluster::Foreign, "{uid:?} {labels}"),
            _ => assert!(matches!(verdict, Cluster::Unclear(_)), "{uid:?} {labels}"),
        }
    }
}
