use serde_json::json;

use super::*;
use crate::balancer::examples::{
    L1, OTHER, UID, annotated, balancer, family, listener, named, read_listener, service,
};
use crate::balancer::settings::table::OWNED_SERVICES;

#[test]
fn a_load_balancer_is_managed_only_by_its_own_service() {
    let custom = [("name", "edge")];
    let told = [("name", "edge"), (TAKE_OVER, L1)];
    let ours = format!("k8s-{UID}");
    for (what, name, labels, pairs, manages) in [
        ("default name", ours.as_str(), json!({}), &custom[..], true),
        ("wanted name", "edge", json!({}), &custom, true),
        ("another name", "other", json!({}), &custom, false),
        (
            "labels",
            "other",
            json!({SERVICE_LABEL: UID}),
            &custom,
            true,
        ),
        (
            "labels of this cluster",
            "other",
            json!({SERVICE_LABEL: UID, CLUSTER_LABEL: "blue"}),
            &custom,
            true,
        ),
        (
            "labels of another cluster",
            "other",
            json!({SERVICE_LABEL: UID, CLUSTER_LABEL: "green"}),
            &custom,
            false,
        ),
        (
            "wanted name, of another cluster",
            "edge",
            json!({SERVICE_LABEL: "x", CLUSTER_LABEL: "green"}),
            &custom,
            false,
        ),
        (
            "wanted name, of another Service",
            "edge",
            json!({SERVICE_LABEL: OTHER}),
            &custom,
            false,
        ),
        (
            "wanted name, of a Service that is gone",
            "edge",
            json!({SERVICE_LABEL: "gone"}),
            &custom,
            true,
        ),
        (
            "a person said so",
            "other",
            json!({SERVICE_LABEL: OTHER}),
            &told,
            true,
        ),
    ] {
        let service = annotated(pairs);
        let all = [Arc::new(service.clone()), Arc::new(named("other", OTHER))];
        let found = balancer(name, &labels, &[]);
        let verdict = family(&service, &all).may_manage(&found, "edge");
        assert_eq!(verdict, manages, "{what}");
    }
}

#[test]
fn a_service_of_a_load_balancer_is_its_own_name_first() {
    let mine = "00000000-0000-4000-8000-000000000001";
    let listed = annotated(&[(OWNED_SERVICES, mine)]);
    let plain = service();
    let other = named("other", OTHER);
    let mut listing = named("other", OTHER);
    listing.annotations = Some([(OWNED_SERVICES.to_owned(), mine.to_owned())].into());
    let mut foreign = listing.clone();
    foreign.class = Some("vendor.test/lb".into());
    let (ours, theirs, nobodys) = (Some(true), Some(false), None);
    for (what, me, them, name, wanted) in [
        ("our name", &plain, &other, format!("{UID}-80"), ours),
        (
            "our name, listed there",
            &plain,
            &listing,
            format!("{UID}-80"),
            ours,
        ),
        ("their name", &plain, &other, format!("{OTHER}-80"), theirs),
        (
            "their name, listed here",
            &listed,
            &other,
            format!("{OTHER}-80"),
            theirs,
        ),
        ("listed here", &listed, &other, "x".to_owned(), ours),
        ("listed there", &plain, &listing, "x".to_owned(), theirs),
        // Of the same age, the uid decides: 111… comes first.
        ("listed by both", &listed, &listing, "x".to_owned(), theirs),
        (
            "listed by somebody else's",
            &plain,
            &foreign,
            "x".to_owned(),
            nobodys,
        ),
        (
            "a name like ours",
            &plain,
            &other,
            format!("{UID}80"),
            nobodys,
        ),
        ("nobody's", &plain, &other, "x".to_owned(), nobodys),
    ] {
        let all = [Arc::new(me.clone()), Arc::new(them.clone())];
        let it = read_listener(listener(1, &name, 80, 30080));
        let verdict = match family(me, &all).whose(&it) {
            Whose::Ours => ours,
            Whose::Another(_) => theirs,
            Whose::Foreign => nobodys,
            Whose::Unclear => panic!("{what}: all are known"),
        };
        assert_eq!(verdict, wanted, "{what}");
    }
    let it = read_listener(listener(1, "x", 80, 30080));
    let doubtful = Family {
        all_known: false,
        ..family(&plain, &[])
    };
    assert_eq!(doubtful.whose(&it), Whose::Unclear);
    let labelled = balancer("edge", &json!({SERVICE_LABEL: "gone"}), &[]);
    assert!(!doubtful.may_manage(&labelled, "edge"));
}

#[test]
fn labels_hold_only_what_labels_can() {
    let mut service = service();
    service.key.name = "a".repeat(80);
    let all = [];
    let family = Family {
        cluster_name: "Zürich 1/a",
        ..family(&service, &all)
    };
    let labels = family.labels();
    assert_eq!(labels[CLUSTER_LABEL], "Z-rich-1-a");
    assert_eq!(labels[SERVICE_LABEL], UID);
    assert_eq!(labels["bowline-service"].len(), 63);
    let nameless = Family {
        cluster_name: "",
        ..family
    };
    assert!(!nameless.labels().contains_key(CLUSTER_LABEL));
}

#[test]
fn the_label_says_whose_cluster_it_is() {
    use bowline_core::Whose as Cluster;
    let unclear = |it: &Cluster| matches!(it, Cluster::Unclear(_));
    for (cluster, label, wanted) in [
        ("blue", Some("blue"), Some(Cluster::Ours)),
        ("blue/1", Some("blue-1"), Some(Cluster::Ours)),
        ("blue", Some("green"), Some(Cluster::Foreign)),
        ("kubernetes", Some("green"), Some(Cluster::Foreign)),
        ("kubernetes", Some("kubernetes"), None),
        ("blue", None, None),
    ] {
        let labels = label.map_or(json!({}), |label| json!({CLUSTER_LABEL: label}));
        let verdict = whose_cluster(cluster, &balancer("x", &labels, &[]));
        match wanted {
            Some(wanted) => assert_eq!(verdict, wanted, "{cluster} {label:?}"),
            None => assert!(unclear(&verdict), "{cluster} {label:?}"),
        }
    }
}
