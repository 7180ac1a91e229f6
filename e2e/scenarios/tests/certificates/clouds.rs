//! Whose word counts: rules that deny, clouds that are on by themselves, several clouds.

use bowline_core::{ApprovalRules, Counted, NodePart, Words};
use bowline_scenarios::certificates::Ask;
use bowline_scenarios::cloud::{Script, runs};
use bowline_scenarios::objects::known;
use bowline_scenarios::{Setup, TestCluster, scenario};

use crate::certificates::harness::{self, ALONE, APPROVED, right};

/// Rules of a cloud that denies what can never be right.
const STRICT: ApprovalRules = ApprovalRules {
    node: NodePart::Needed,
    one_dns_name: false,
    denies_faults: true,
    approval: Words {
        reason: "Yes",
        message: "fine",
    },
    denial: Words {
        reason: "No",
        message: "Reason: ",
    },
};

#[scenario]
async fn a_cloud_whose_rules_say_so_denies_what_can_never_be_right_and_nothing_else() {
    let mut bench = harness::idle(&[ALONE]).await;
    bench.cloud().offer_certificates(STRICT);
    bench.start();
    let faulty = right("faulty").with(|it| it.usages.push("client auth"));
    bench.put_request(&faulty).await;
    let early = right("early").with(|it| it.addresses = vec!["10.0.0.9".into()]);
    bench.put_request(&early).await;
    bench.put_request(&right("c")).await;
    assert_eq!(
        bench.until_decided("faulty").await,
        ["Denied No: Reason: key usage does not match"]
    );
    assert_eq!(bench.until_decided("c").await, ["Approved Yes: fine"]);
    bench.until_event("faulty", "CertificateDenied").await;
    bench.until_event("early", "CertificateNotApproved").await;
    bench.settle().await;
    assert_eq!(bench.decided("early"), [""; 0]);
    let mut counted = bench.cloud().counted();
    counted.sort_by_key(|it| format!("{it:?}"));
    assert_eq!(counted, [Counted::Approved, Counted::Denied]);
}

#[scenario]
async fn what_a_cloud_positively_refuses_is_denied() {
    let bench = harness::new().await;
    bench
        .cloud()
        .refuse_certificates("n1", "the machine was stolen");
    bench.put_request(&right("c")).await;
    let denied = "Denied DeniedByBowline: This CSR was denied by Bowline: the machine was stolen";
    assert_eq!(bench.until_decided("c").await, [denied]);
}

#[scenario]
async fn a_cloud_that_is_on_by_itself_needs_no_flag_and_a_dash_turns_it_off() {
    for (flag, approves) in [
        ("--controllers=service", true),
        ("--controllers=*", true),
        ("--controllers=*,-node-csr-approval", false),
    ] {
        let mut bench = harness::idle(&[flag]).await;
        bench.cloud().approve_by_default();
        bench.put_request(&right("c")).await;
        bench.start();
        if approves {
            assert_eq!(bench.until_decided("c").await, [APPROVED], "{flag}");
        } else {
            bench.settle().await;
            assert_eq!(bench.decided("c"), [""; 0], "{flag}");
        }
    }
}

async fn two(flags: &[&str]) -> TestCluster {
    harness::set_up(Setup {
        clouds: &[("demo", "demo"), ("other", "other")],
        flags,
        ..Setup::default()
    })
    .await
}

#[scenario]
async fn only_the_cloud_of_the_node_is_asked() {
    let mut bench = two(&[ALONE]).await;
    bench.clouds[1].say("n1", runs("n1", "10.0.0.5"));
    bench.start();
    bench.put_request(&right("c")).await;
    assert_eq!(bench.until_decided("c").await, [APPROVED]);
    assert_eq!(bench.clouds[1].asked_for_certificates(), [""; 0]);
}

#[scenario]
async fn without_a_provider_id_one_cloud_alone_must_have_the_machine() {
    let mut bench = two(&[ALONE]).await;
    for cloud in &bench.clouds {
        cloud.offer_certificates(ApprovalRules {
            node: NodePart::Optional,
            ..ApprovalRules::default()
        });
        cloud.say("n9", runs("n9", "10.0.0.9"));
    }
    bench.start();
    let ask = Ask::new("c", "n9", &["10.0.0.9"]);
    bench.put_request(&ask).await;
    bench.until_event("c", "CertificateNotApproved").await;
    // An outage of one cloud hands nobody to the other.
    bench.clouds[1].say("n9", Script::Error("down"));
    bench.settle().await;
    assert_eq!(bench.decided("c"), [""; 0]);
    bench.clouds[1].say("n9", Script::None);
    assert_eq!(bench.until_decided("c").await, [APPROVED]);
}

#[scenario]
async fn a_cloud_that_speaks_for_all_speaks_for_nodes_of_nobody_here() {
    let mut bench = two(&[ALONE]).await;
    bench
        .put(known(
            "n2",
            "elsewhere://1",
            "True",
            &["InternalIP:10.0.0.6"],
        ))
        .await;
    for cloud in &bench.clouds {
        cloud.say("n2", runs("n2", "10.0.0.6"));
    }
    bench.start();
    let ask = Ask::new("c", "n2", &["10.0.0.6"]);
    bench.put_request(&ask).await;
    let faulty = Ask::new("faulty", "n2", &[]).with(|it| it.usages = vec!["client auth"]);
    bench.put_request(&faulty).await;
    bench.put_request(&right("own")).await;
    assert_eq!(bench.until_decided("own").await, [APPROVED]);
    bench.settle().await;
    for name in ["c", "faulty"] {
        assert_eq!(bench.decided(name), [""; 0], "it is nobody's");
        assert!(
            bench.cluster.events(name).is_empty(),
            "and nobody is bothered"
        );
    }
    bench.stop().await;
    bench.clouds[1].speak_for_all();
    bench.clouds[1].offer_certificates(STRICT);
    bench.start();
    assert_eq!(bench.until_decided("c").await, ["Approved Yes: fine"]);
    let denied = ["Denied No: Reason: key usage does not match"];
    assert_eq!(bench.until_decided("faulty").await, denied);
    bench.put_request(&right("mine")).await;
    assert_eq!(
        bench.until_decided("mine").await,
        [APPROVED],
        "its own cloud's words"
    );
}

#[scenario]
async fn requests_of_one_clouds_nodes_do_not_wait_for_another_that_hangs() {
    let mut bench = two(&[ALONE]).await;
    bench.start();
    // More than are worked on at once.
    for number in 0..20 {
        let name = format!("d{number}");
        bench.clouds[0].say(&name, Script::Hang);
        bench
            .put(harness::node(&name, &["InternalIP:10.0.0.7"]))
            .await;
        bench
            .put_request(&Ask::new(&name, &name, &["10.0.0.7"]))
            .await;
    }
    bench.settle().await;
    let addresses = ["InternalIP:10.0.0.9", "Hostname:o1"];
    bench
        .put(known("o1", "other://o1", "True", &addresses))
        .await;
    bench.clouds[1].say("o1", runs("o1", "10.0.0.9"));
    let begun = bench.world.clock.now();
    bench.put_request(&Ask::new("o", "o1", &["10.0.0.9"])).await;
    assert_eq!(bench.until_decided("o").await, [APPROVED]);
    let took = bench.since(begun);
    assert!(
        took <= std::time::Duration::from_secs(1) + bench.slack(),
        "{took:?}"
    );
}
