use super::table::{ANNOTATIONS, PREFIX, reference};
use super::*;
use crate::balancer::examples::{L1, annotated, port, service};
use bowline_test_kit::{pairs, rows, says};

fn read(suffix: &str, value: &str) -> (Settings, Vec<Problem>) {
    Settings::read(&annotated(&[(suffix, value)]))
}

#[test]
fn without_annotations_the_defaults_are_those_of_the_original() {
    let (settings, faults) = Settings::read(&service());
    assert_eq!(faults, []);
    assert_eq!(
        settings.balancer_name(&service()),
        format!("k8s-{}", service().uid)
    );
    assert_eq!(
        (&*settings.strategy, settings.external),
        ("round-robin", External::No)
    );
    let check = &settings.check;
    assert_eq!((check.interval, check.timeout, check.retries), (10, 5, 1));
    assert_eq!((&check.mode, check.port, &*check.uri), (&None, None, ""));
    assert_eq!(settings.pool, PoolSetting::default());
}

#[test]
fn what_the_original_takes_is_taken() {
    let longest = "x".repeat(255);
    let others = [
        ("id", L1),
        ("name", longest.as_str()),
        ("description", &longest),
        ("service-instancepool-id", L1),
    ];
    let table = pairs(
        "id = 7D2F7F4E-22D1-4B38-8F0B-94C8A54D6D01
         name = a b/ü
         labels = team=shop, env=,a/b.c=x y
         external = no
         service-strategy = source-hash ¦ maglev-hash
         service-name = x
         service-description = y
         sks-cluster-name = prod
         service-healthcheck-mode = tcp
         service-healthcheck-port = 65535
         service-healthcheck-uri = no-slash-but-no-http
         service-healthcheck-interval = 1m30s ¦ 5999ms ¦ 300
         service-healthcheck-timeout = 2s
         service-healthcheck-retries = 20
         zone = anything",
    );
    for (suffix, value) in table.into_iter().chain(others) {
        assert_eq!(read(suffix, value).1, [], "{suffix}={value:?}");
        assert_eq!(read(suffix, "").1, [], "an empty {suffix}");
    }
    assert_eq!(
        read("service-healthcheck-interval", "5999ms")
            .0
            .check
            .interval,
        5
    );
    for (text, wanted) in [
        ("TrUe", External::Yes),
        (" true ", External::Yes),
        ("False", External::No),
        ("", External::No),
        ("yes", External::Misread),
        ("1", External::Misread),
    ] {
        assert_eq!(read("external", text).0.external, wanted, "{text:?}");
        let reported = external_notice(&annotated(&[("external", text)])).is_some();
        assert_eq!(reported, wanted == External::Misread, "{text:?}");
    }
}

#[test]
fn what_cannot_be_used_is_reported_with_key_and_value() {
    let longer = "x".repeat(256);
    let too_long = [
        "name",
        "description",
        "service-name",
        "service-healthcheck-uri",
    ];
    let too_long = too_long.map(|suffix| (suffix, longer.as_str()));
    let table = pairs(
        "id = L1 ¦ 7d2f7f4e22d14b388f0b94c8a54d6d01
         service-strategy = least-connections ¦ Round-Robin
         service-instancepool-id = workers
         service-healthcheck-mode = ping
         service-healthcheck-port = 0 ¦ 65536 ¦ http
         service-healthcheck-interval = 4s ¦ 301 ¦ -10s ¦ 10 s
         service-healthcheck-timeout = 1999ms ¦ 61s
         service-healthcheck-retries = 0 ¦ 21
         service-healthcheck-tls-sni = web.example.test
         labels = env ¦ env=prod,bowline-cluster=x",
    );
    for (suffix, value) in table.into_iter().chain(too_long) {
        let (_, faults) = read(suffix, value);
        let [fault] = faults.as_slice() else {
            panic!("{suffix}={value:?}: {faults:?}");
        };
        says(&fault.message, &format!("{PREFIX}{suffix}"));
        says(&fault.message, &format!("{value:?}"));
        assert_eq!(fault.reason, INVALID);
    }
}

#[test]
fn settings_are_compared_with_each_other() {
    for [pairs, text] in rows(
        "check-interval=5 check-timeout=6 | 5 s is less than the timeout of 6 s
         check-mode=http                            | begins with a slash
         check-mode=https check-uri=h | begins with a slash
         check-tls-sni=a check-mode=http check-uri=/ | only for https
         service-sks-nodepool-name=web                            | without SKS cluster name
         external=true                                            | but no ID or name specified
         name=k8s-11111111-6a53-4f6e-9a3d-1f2e3d4c5b6a            | another Service",
    ) {
        let pairs = pairs.replace("check-", "service-healthcheck-");
        let pairs = pairs.split(' ').filter_map(|pair| pair.split_once('='));
        let pairs: Vec<(&str, &str)> = pairs.collect();
        let (_, faults) = Settings::read(&annotated(&pairs));
        let [fault] = faults.as_slice() else {
            panic!("{pairs:?}: {faults:?}");
        };
        says(&fault.message, text);
    }
}

#[test]
fn proof_case_24_the_name_of_another_services_load_balancer_is_refused() {
    let own = format!("k8s-{}", service().uid);
    let others = "k8s-11111111-6a53-4f6e-9a3d-1f2e3d4c5b6a";
    assert_eq!(read("name", &own).1, []);
    assert_eq!(read("name", "k8s-edge").1, []);
    assert!(
        read("name", others).1[0]
            .message
            .contains("another Service")
    );
    // To use one as it is, any may be named.
    let external = annotated(&[("name", others), ("external", "true")]);
    assert_eq!(Settings::read(&external).1, []);
}

#[test]
fn all_that_is_wrong_is_reported_at_once() {
    let pairs = [
        ("id", "x"),
        ("service-strategy", "x"),
        ("service-healthcheck-port", "x"),
    ];
    assert_eq!(Settings::read(&annotated(&pairs)).1.len(), 3);
}

#[test]
fn what_only_one_port_can_have_is_not_read_with_several() {
    let longer = "x".repeat(256);
    let mut service = annotated(&[("service-name", &longer), ("service-description", "y")]);
    service.ports.push(port("TCP", 443, 30443));
    let (settings, faults) = Settings::read(&service);
    assert_eq!(
        (settings.service_name, &*settings.service_description),
        (None, "")
    );
    assert_eq!(faults, []);
}

#[test]
fn what_a_person_asks_for_is_read_as_far_as_it_can_be() {
    assert_eq!(
        take_over(&annotated(&[(TAKE_OVER, L1)])),
        Some(L1.parse().unwrap())
    );
    assert_eq!(take_over(&annotated(&[(TAKE_OVER, "this")])), None);
}

#[test]
fn every_key_is_in_the_table_once_and_on_the_page() {
    let page = reference();
    let mut keys: Vec<&str> = ANNOTATIONS.iter().map(|row| row.key).collect();
    for key in &keys {
        let suffix = key.strip_prefix(PREFIX).unwrap();
        assert!(page.contains(&format!("| `{suffix}` |")), "{suffix}");
    }
    keys.sort_unstable();
    keys.dedup();
    assert_eq!(keys.len(), ANNOTATIONS.len());
    let written = ANNOTATIONS.iter().filter(|row| row.written_back);
    let written: Vec<&str> = written.map(|row| row.key).collect();
    assert_eq!(written, [ID.key, INSTANCE_POOL.key]);
}

#[test]
fn a_misspelled_key_is_reported() {
    let service = annotated(&[("service-healthcheck-prot", "80"), ("name", "a")]);
    let notices = TABLE.unknown(&service);
    assert_eq!(notices.len(), 1);
    assert!(
        notices[0].message.contains("did you mean"),
        "{}",
        notices[0].message
    );
}
