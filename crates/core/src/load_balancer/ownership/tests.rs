use std::collections::BTreeSet;

use super::*;
use crate::load_balancer::service::examples::web;
use crate::{BalancerRules, NamespaceRule};

const OURS: &str = "cluster-a";
const OTHER: &str = "uid-of-another";

fn key(text: &str) -> ServiceKey {
    let (namespace, name) = text.split_once('/').unwrap();
    ServiceKey {
        namespace: namespace.into(),
        name: name.into(),
    }
}

/// The Service `shop/web` in cluster a.
fn request() -> BalancerRequest {
    BalancerRequest {
        service: Arc::new(web()),
        all: Arc::new(vec![Arc::new(web())]),
        all_known: true,
        cluster_name: "kubernetes".into(),
        has_ip_mode: true,
        cluster_uid: Some(OURS.into()),
        ..BalancerRequest::default()
    }
}

/// Another Service lives, which may hand its load balancer over.
fn with_owner(mut request: BalancerRequest, hand_over: Option<&str>) -> BalancerRequest {
    let mut owner = web();
    owner.key = key("infra/edge");
    owner.uid = OTHER.into();
    owner.annotations = hand_over.map(|to| [(HAND_OVER.into(), to.into())].into());
    let mut all = request.all.to_vec();
    all.push(Arc::new(owner));
    request.all = Arc::new(all);
    with_living(request, &[OTHER])
}

fn with_living(mut request: BalancerRequest, uids: &[&str]) -> BalancerRequest {
    let mut uids: BTreeSet<String> = uids.iter().map(|it| (*it).to_owned()).collect();
    uids.insert(web().uid);
    request.living = Some(Arc::new(uids));
    request
}

fn with_adoption(mut request: BalancerRequest, adoption: NamespaceRule) -> BalancerRequest {
    request.rules = Arc::new(BalancerRules {
        adoption,
        ..BalancerRules::default()
    });
    request
}

fn marked(uid: &str, cluster: Option<&str>, service: &str) -> Candidature<'static> {
    Candidature {
        mark: Some(BalancerMark {
            service_uid: uid.into(),
            cluster_uid: cluster.map(str::to_owned),
            service: Some(service.into()),
        }),
        asked_for: true,
        ..Candidature::default()
    }
}

fn judged(candidate: &Candidature<'_>, request: &BalancerRequest) -> OwnershipVerdict {
    standing(candidate, request).unwrap()
}

#[test]
fn proof_case_17_the_uid_in_mark_or_name_says_whose_it_is() {
    let uid = web().uid;
    for (cluster, wanted) in [
        (Some(OURS), OwnershipVerdict::Ours),
        (None, OwnershipVerdict::Ours),
        // A clone of this cluster.
        (Some("cluster-b"), OwnershipVerdict::NotOurs),
    ] {
        let candidate = marked(&uid, cluster, "shop.web");
        assert_eq!(judged(&candidate, &request()), wanted, "{cluster:?}");
    }
    let mut unnamed = request();
    unnamed.cluster_uid = None;
    let candidate = marked(&uid, Some("cluster-b"), "shop.web");
    assert_eq!(judged(&candidate, &unnamed), OwnershipVerdict::Ours);
    let named = Candidature {
        uid_in_name: Some(&uid),
        ..Candidature::default()
    };
    assert_eq!(judged(&named, &request()), OwnershipVerdict::Ours);
    assert_eq!(
        judged(&Candidature::default(), &request()),
        OwnershipVerdict::Unproven
    );
}

#[test]
fn proof_case_19_a_living_owner_alone_can_hand_it_over() {
    let any = || NamespaceRule::Any;
    for (to, wanted) in [
        (None, OwnershipVerdict::NotOurs),
        (Some("shop/other"), OwnershipVerdict::NotOurs),
        (Some("web"), OwnershipVerdict::NotOurs),
        (
            Some("shop/web"),
            OwnershipVerdict::HandedOver(key("infra/edge")),
        ),
    ] {
        // Not even the operator's adoption covers it.
        let request = with_adoption(with_owner(request(), to), any());
        let by_mark = marked(OTHER, Some(OURS), "infra.edge");
        assert_eq!(judged(&by_mark, &request), wanted, "{to:?}");
        let by_name = Candidature {
            uid_in_name: Some(OTHER),
            asked_for: true,
            ..Candidature::default()
        };
        assert_eq!(judged(&by_name, &request), wanted, "{to:?}, by name");
        let by_use = Candidature {
            asked_for: true,
            used_by: request.all.get(1),
            ..Candidature::default()
        };
        assert_eq!(
            unproven(&by_use, &request),
            wanted,
            "{to:?}, by what is on it"
        );
    }
}

#[test]
fn proof_case_20_adoption_is_the_operator_s_word_and_has_to_be_asked_for() {
    let only = |name: &str| NamespaceRule::Only([name.to_owned()].into());
    for (adoption, asked_for, wanted) in [
        (NamespaceRule::Never, true, OwnershipVerdict::NotOurs),
        (only("infra"), true, OwnershipVerdict::NotOurs),
        (only("shop"), true, OwnershipVerdict::Adopted),
        (only("shop"), false, OwnershipVerdict::NotOurs),
        (NamespaceRule::Any, true, OwnershipVerdict::Adopted),
    ] {
        let text = format!("{adoption:?} {asked_for}");
        let request = with_adoption(with_living(request(), &[]), adoption);
        let mut hand_made = Candidature {
            asked_for,
            ..Candidature::default()
        };
        assert_eq!(unproven(&hand_made, &request), wanted, "{text}");
        hand_made.uid_in_name = Some(OTHER);
        assert_eq!(judged(&hand_made, &request), wanted, "{text}, named");
        let mut of_others = marked(OTHER, Some("cluster-b"), "shop.web");
        of_others.asked_for = asked_for;
        assert_eq!(judged(&of_others, &request), wanted, "{text}, marked");
    }
    // One whose Service lives, although nobody could read it.
    let request = with_adoption(with_living(request(), &[OTHER]), NamespaceRule::Any);
    let candidate = marked(OTHER, None, "infra.edge");
    assert_eq!(judged(&candidate, &request), OwnershipVerdict::NotOurs);
}

#[test]
fn proof_case_23_a_restored_service_gets_back_what_was_made_for_its_name() {
    for (cluster, service, wanted) in [
        (Some(OURS), "shop.web", OwnershipVerdict::Returned),
        (Some(OURS), "infra.web", OwnershipVerdict::NotOurs),
        (Some("cluster-b"), "shop.web", OwnershipVerdict::NotOurs),
        (None, "shop.web", OwnershipVerdict::NotOurs),
    ] {
        let candidate = marked(OTHER, cluster, service);
        let gone = with_living(request(), &[]);
        assert_eq!(judged(&candidate, &gone), wanted, "{cluster:?} {service}");
        let living = with_living(request(), &[OTHER]);
        assert_eq!(judged(&candidate, &living), OwnershipVerdict::NotOurs);
        let mut nameless = gone;
        nameless.cluster_uid = None;
        assert_eq!(judged(&candidate, &nameless), OwnershipVerdict::NotOurs);
    }
    // Nobody concludes from a store that may lag behind.
    let candidate = marked(OTHER, Some(OURS), "shop.web");
    let asked = standing(&candidate, &request());
    assert!(matches!(asked, Err(DraftError::NeedsServices)));
}

#[test]
fn marks_of_services_fit_into_63_characters_and_stay_apart() {
    assert_eq!(service_mark(&key("shop/web")), "shop.web");
    let long = |last: &str| key(&format!("{}/{}{last}", "n".repeat(40), "s".repeat(40)));
    let (a, b) = (service_mark(&long("a")), service_mark(&long("b")));
    assert_eq!((a.len(), b.len()), (63, 63));
    assert_ne!(a, b);
    assert!(a.starts_with("sha256-") && !a.contains('.'), "{a}");
}

#[test]
fn proof_case_30_a_refusal_tells_nothing_that_the_service_did_not_name() {
    let reported = not_ours("bowline.dev/take-over", "my guess");
    assert_eq!(reported.reason, "LoadBalancerNotOurs");
    assert!(reported.message.contains("\"my guess\"") && reported.message.contains("operator"));
}
