//! What is written, for which tags and wishes.

use super::super::*;

const CLUSTER: &str = "cccccccc-0000-4000-8000-00000000000c";
const OTHER: &str = "dddddddd-0000-4000-8000-00000000000d";

fn tags(pairs: &[(&str, &str)]) -> Tags {
    let pair = |(key, value): &(&str, &str)| ((*key).to_owned(), (*value).into());
    pairs.iter().map(pair).collect()
}

#[expect(
    clippy::unnecessary_wraps,
    reason = "a label without ports is wanted nowhere"
)]
fn ports(ports: &[u16]) -> Option<Ports> {
    Some(ports.iter().copied().map(Some).collect())
}

fn wanted(labels: &[(&str, Option<Ports>)]) -> Wanted {
    Wanted {
        labels: labels
            .iter()
            .map(|(label, ports)| ((*label).to_owned(), ports.clone()))
            .collect(),
        ..Wanted::default()
    }
}

fn grouped(groups: &[&str]) -> Wanted {
    Wanted {
        groups: Some(groups.iter().map(ToString::to_string).collect()),
        ..Wanted::default()
    }
}

/// Applies changes until there are none; each as it was.
fn reconcile(start: &Tags, wanted: &Wanted) -> (Tags, Vec<Change>) {
    let (mut tags, mut changes) = (start.clone(), Vec::new());
    loop {
        let change = change(&tags, wanted, CLUSTER).unwrap();
        if change.is_empty() {
            return (tags, changes);
        }
        assert!(changes.len() < 5, "it does not end: {changes:?}");
        for value in change.set.values() {
            assert_ne!(value.as_text(), Some(""), "{change:?}");
        }
        tags.extend(change.set.clone());
        tags.retain(|key, _| !change.delete.contains(&key.as_str()));
        changes.push(change);
    }
}

#[track_caller]
fn one_post(start: &Tags, wanted: &Wanted) -> Tags {
    let (end, changes) = reconcile(start, wanted);
    assert_eq!(changes.len(), 1, "{changes:?}");
    assert!(changes[0].delete.is_empty(), "{changes:?}");
    end
}

#[test]
fn triton_case_29_others_entries_stay_in_front_as_they_are() {
    let start = tags(&[(SERVICES, "k8s-api:6443,OLD:1:weight=5"), ("env", "prod")]);
    let end = one_post(&start, &wanted(&[("web.prod", ports(&[30080]))]));
    let expected = tags(&[
        (SERVICES, "k8s-api:6443,OLD:1:weight=5,web.prod:30080"),
        (SERVICES_RECORD, "web.prod"),
        (NODE, CLUSTER),
        ("env", "prod"),
    ]);
    assert_eq!(end, expected);
}

#[test]
fn triton_case_30_ours_are_sorted_by_label_and_then_by_port() {
    let start = tags(&[
        (SERVICES, "k8s-api:6443,OLD:1:weight=5,web.prod:30080"),
        (SERVICES_RECORD, "web.prod"),
        (NODE, CLUSTER),
    ]);
    let both = wanted(&[
        ("web.prod", ports(&[30080])),
        ("api.prod", ports(&[30443, 30081])),
    ]);
    let end = one_post(&start, &both);
    let list = "k8s-api:6443,OLD:1:weight=5,api.prod:30081,api.prod:30443,web.prod:30080";
    assert_eq!(end[SERVICES], list.into());
    assert_eq!(end[SERVICES_RECORD], "api.prod,web.prod".into());
    // A process that has just started wants nothing of the first one yet: the same.
    let end = one_post(&start, &wanted(&[("api.prod", ports(&[30443, 30081]))]));
    assert_eq!(end[SERVICES], list.into());
}

#[test]
fn what_is_as_wanted_is_left_alone_in_whatever_order() {
    let start = tags(&[
        (SERVICES, "web.prod:30080,mail:25"),
        (SERVICES_RECORD, "web.prod"),
        (NODE, CLUSTER),
    ]);
    for request in [
        Wanted::default(),
        wanted(&[("web.prod", ports(&[30080]))]),
        wanted(&[("mail", None)]),
        grouped(&[]),
    ] {
        assert!(change(&start, &request, CLUSTER).unwrap().is_empty());
    }
    for (cluster, label, there, expected) in [
        (CLUSTER, "web.prod", ports(&[30080]), true),
        (CLUSTER, "web.prod", ports(&[1, 30080]), false),
        (CLUSTER, "web.prod", None, false),
        (OTHER, "web.prod", ports(&[30080]), false),
        // What is not on record is not ours.
        (CLUSTER, "mail", None, true),
        (CLUSTER, "mail", ports(&[25]), false),
    ] {
        assert_eq!(holds(&start, cluster, label, there.as_ref()), expected);
    }
    // Without its mark it would not be found again.
    let mut unmarked = start.clone();
    unmarked.remove(NODE);
    let end = one_post(&unmarked, &wanted(&[("web.prod", ports(&[30080]))]));
    assert_eq!(end, start);
}

#[test]
fn what_is_ours_goes_before_its_record_and_the_mark_at_last() {
    let start = tags(&[
        (SERVICES, "api:1,web:2"),
        (SERVICES_RECORD, "api,web"),
        (GROUPS, "k8s-kubernetes"),
        (GROUPS_RECORD, "k8s-kubernetes"),
        (NODE, CLUSTER),
        ("env", "prod"),
    ]);
    // One of two: one POST.
    let end = one_post(&start, &wanted(&[("web", None)]));
    assert_eq!(end[SERVICES], "api:1".into());
    assert_eq!(end[SERVICES_RECORD], "api".into());
    // Both.
    let (end, changes) = reconcile(&start, &wanted(&[("web", None), ("api", None)]));
    let deleted: Vec<_> = changes.iter().map(|it| it.delete.clone()).collect();
    assert_eq!(deleted, [vec![SERVICES], vec![SERVICES_RECORD]]);
    assert!(changes.iter().all(|it| it.set.is_empty()));
    assert!(end.contains_key(NODE) && end.contains_key(GROUPS));
    // Others' entries make it a POST of the list alone.
    let mut shared = start.clone();
    shared.insert(SERVICES.to_owned(), "api:1,mail,web:2".into());
    let (end, changes) = reconcile(&shared, &wanted(&[("web", None), ("api", None)]));
    assert_eq!(changes[0].set, tags(&[(SERVICES, "mail")]));
    assert_eq!(changes[1].delete, [SERVICES_RECORD]);
    assert_eq!((changes.len(), &end[SERVICES]), (2, &"mail".into()));
    // The machine has left.
    let left = Wanted {
        released: true,
        ..wanted(&[("api", ports(&[1]))])
    };
    let (end, changes) = reconcile(&start, &left);
    let deleted: Vec<_> = changes.iter().map(|it| it.delete.as_slice()).collect();
    let (lists, records) = ([SERVICES, GROUPS], [SERVICES_RECORD, GROUPS_RECORD]);
    assert_eq!(deleted, [&lists[..], &records, &[NODE]]);
    assert_eq!(end, tags(&[("env", "prod")]));
}

#[test]
fn groups_and_labels_travel_together_and_do_not_mix() {
    let start = tags(&[(GROUPS, "db"), (SERVICES, "mail")]);
    let request = Wanted {
        groups: Some(BTreeSet::from(["k8s-kubernetes".to_owned()])),
        ..wanted(&[("web", ports(&[80]))])
    };
    let end = one_post(&start, &request);
    let expected = tags(&[
        (GROUPS, "db,k8s-kubernetes"),
        (GROUPS_RECORD, "k8s-kubernetes"),
        (SERVICES, "mail,web:80"),
        (SERVICES_RECORD, "web"),
        (NODE, CLUSTER),
    ]);
    assert_eq!(end, expected);
    assert!(holds_groups(&end, &request.groups.unwrap()));
    let (end, _) = reconcile(&end, &grouped(&[]));
    assert_eq!((&end[GROUPS], end.get(GROUPS_RECORD)), (&"db".into(), None));
    assert_eq!(end[SERVICES], "mail,web:80".into());
    // A load balancer has its own mark, and gets no other.
    let mut request = grouped(&["k8s-kubernetes"]);
    request.role = Role::Balancer;
    let end = one_post(&tags(&[(BALANCER, CLUSTER)]), &request);
    assert_eq!(end.get(NODE), None);
    let unmarked = change(&Tags::new(), &request, CLUSTER).unwrap();
    assert!(unmarked.is_empty() && unmarked.bad.len() == 1);
    assert!(change(&tags(&[(BALANCER, OTHER)]), &request, CLUSTER).is_err());
}

#[test]
fn what_nobody_understands_is_left_alone() {
    let request = Wanted {
        groups: Some(BTreeSet::from(["g".to_owned()])),
        ..wanted(&[("web", ports(&[80]))])
    };
    for value in [TagValue::Boolean(true), "web prod".into(), "web,".into()] {
        let mut start = tags(&[(GROUPS, "db")]);
        start.insert(SERVICES.to_owned(), value);
        let change = change(&start, &request, CLUSTER).unwrap();
        assert_eq!(change.bad[0].tag, SERVICES);
        assert!(!change.set.contains_key(SERVICES) && !change.set.contains_key(SERVICES_RECORD));
        let groups = &change.set[GROUPS];
        assert_eq!(*groups, "db,g".into(), "the other list is not to blame");
    }
    let change = change(&tags(&[(GROUPS, "a b")]), &request, CLUSTER).unwrap();
    let bad = "tag triton.cmon.groups has the group \"a b\", which is none or is there twice";
    assert_eq!(change.bad[0].to_string(), bad);
    assert_eq!(change.set[SERVICES], "web:80".into());
    // A machine that has left keeps its mark as long as something of ours may be on it.
    let left = Wanted {
        released: true,
        ..Wanted::default()
    };
    let start = tags(&[(SERVICES, "a b"), (SERVICES_RECORD, "a"), (NODE, CLUSTER)]);
    let change = super::super::change(&start, &left, CLUSTER).unwrap();
    assert!(change.is_empty() && change.bad.len() == 1);
}

#[test]
fn another_clusters_machine_is_untouched_unless_it_is_taken_over() {
    let start = tags(&[
        (SERVICES, "mail,old:1,web:3"),
        (SERVICES_RECORD, "old,web"),
        (GROUPS, "k8s-other"),
        (GROUPS_RECORD, "k8s-other"),
        (NODE, OTHER),
    ]);
    let mut request = wanted(&[("web", ports(&[80]))]);
    let other = Err(OtherCluster(OTHER.to_owned()));
    assert_eq!(change(&start, &request, CLUSTER), other);
    request.take_over = true;
    let (end, changes) = reconcile(&start, &request);
    assert_eq!(changes[0].set[NODE], CLUSTER.into());
    let web = [
        (SERVICES, "mail,web:80"),
        (SERVICES_RECORD, "web"),
        (NODE, CLUSTER),
    ];
    assert_eq!(end, tags(&web));
    // Nothing of ours is wanted yet: its labels go all the same, and their record with them.
    let taken = Wanted {
        take_over: true,
        ..Wanted::default()
    };
    let (end, _) = reconcile(&start, &taken);
    assert_eq!(end, tags(&[(SERVICES, "mail"), (NODE, CLUSTER)]));
    // A machine that has left is not taken over.
    request.released = true;
    assert!(change(&start, &request, CLUSTER).is_err());
}

#[test]
fn an_entry_that_a_write_of_ours_came_on_top_of_is_put_back() {
    use super::super::arithmetic::{Overwritten, change_after};
    let web = [
        (SERVICES, "mail,web:80"),
        (SERVICES_RECORD, "web"),
        (NODE, CLUSTER),
    ];
    let now = tags(&web);
    let request = wanted(&[("web", ports(&[80]))]);
    let overwritten = |written: &str| Overwritten {
        key: SERVICES,
        written: Some(written.into()),
        before: Some("ftp:21,web:79".into()),
    };
    let change = change_after(&now, &request, CLUSTER, &[overwritten("mail,web:80")]).unwrap();
    let list = &change.set[SERVICES];
    assert_eq!(
        *list,
        "ftp:21,web:80".into(),
        "theirs is the last they wrote"
    );
    let change = change_after(&now, &request, CLUSTER, &[overwritten("web:80")]).unwrap();
    assert!(change.is_empty(), "somebody has written since");
}
