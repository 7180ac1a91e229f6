//! Several clouds in one cluster: whose Service, whose node.

use std::sync::Arc;
use std::time::Duration;

use bowline_controllers::manager::{CloudRules, DefaultCloud};
use bowline_controllers::{PreviewParts, PreviewScope, preview};
use bowline_core::{Cloud, CloudName, NODE_UNREADABLE, Previews, READY_CONDITION};
use bowline_scenarios::cloud::runs;
use bowline_scenarios::{LEASE, Setup, TestCluster, is_real, scenario};
use futures::future::join_all;
use serde_json::{Value, json};

use crate::services::harness::{FIN, changed, node, set_up, settled};

async fn two_clouds() -> TestCluster {
    let mut bench = set_up(Setup {
        clouds: &[("demo", "demo"), ("west", "west")],
        ..Setup::default()
    })
    .await;
    bench.put(node("w1", "west://w1")).await;
    bench.put(node("x1", "elsewhere://x1")).await;
    bench.start();
    bench
}

async fn create(bench: &TestCluster, name: &str, class: Option<&str>) {
    let service = changed(name, |it| {
        if let Some(class) = class {
            it["spec"]["loadBalancerClass"] = class.into();
        }
    });
    bench.create_service(service).await;
}

/// Faster than anybody looks: another type, and back with another class.
async fn reclassify(bench: &TestCluster, name: &str, class: &str) {
    bench
        .unseen(async || {
            let plain = json!({ "spec": { "type": "ClusterIP" } });
            bench.patch_service(name, plain).await;
            let other = json!({ "spec": { "type": "LoadBalancer", "loadBalancerClass": class } });
            bench.patch_service(name, other).await;
        })
        .await;
}

#[scenario]
async fn the_class_says_which_cloud_serves_a_service_and_each_has_its_own_nodes() {
    let bench = two_clouds().await;
    create(&bench, "plain", None).await;
    create(&bench, "east", Some("bowline.dev/demo")).await;
    create(&bench, "west", Some("bowline.dev/west")).await;
    for name in ["plain", "east", "west"] {
        bench.until_event(name, "EnsuredLoadBalancer").await;
    }
    assert_eq!(bench.clouds[0].balancers().all().len(), 2);
    assert_eq!(bench.clouds[0].balancers().count("(n1 n2 n3)"), 2);
    assert_eq!(bench.clouds[1].balancers().members(), ["w1"]);
}

#[scenario]
async fn a_change_of_one_clouds_nodes_does_not_concern_the_other() {
    let bench = two_clouds().await;
    create(&bench, "plain", None).await;
    bench.until_event("plain", "EnsuredLoadBalancer").await;
    bench.balancers().clear();
    bench.put(node("w2", "west://w2")).await;
    bench.put(node("x2", "elsewhere://x2")).await;
    bench.settle().await;
    assert_eq!(bench.balancers().calls(), [""; 0]);
}

#[scenario]
async fn a_service_that_lost_its_class_with_its_type_is_cleaned_up_where_it_was() {
    let story = async |restart: bool| {
        let mut bench = two_clouds().await;
        create(&bench, "web", Some("bowline.dev/west")).await;
        bench.until_event("web", "EnsuredLoadBalancer").await;
        if restart {
            bench.stop().await;
        }
        let change = json!({ "spec": { "type": "ClusterIP" } });
        bench.patch_service("web", change).await;
        let service = bench.service("web");
        assert_eq!(service["spec"]["loadBalancerClass"], Value::Null);
        if restart {
            bench.start();
        }
        bench.until_event("web", "DeletedLoadBalancer").await;
        assert_eq!(bench.clouds[1].balancers().all(), []);
        assert_eq!(bench.finalizers("web"), [""; 0]);
        // A process that does not remember has to ask everybody.
        let looks = bench.clouds[0].balancers().count("look at");
        assert_eq!(looks, usize::from(restart));
    };
    join_all([false, true].map(story)).await;
}

#[scenario]
async fn a_service_that_becomes_somebody_elses_is_let_go_and_not_written() {
    let bench = settled().await;
    reclassify(&bench, "web", "vendor.test/lb").await;
    let writes = bench.all_service_writes().len();
    bench
        .until("ours is removed", |it| it.balancers().all().is_empty())
        .await;
    bench.settle().await;
    assert_eq!(bench.all_service_writes().len(), writes);
    assert_eq!(bench.finalizers("web"), [FIN]);
}

#[scenario]
async fn a_service_that_moves_to_another_cloud_leaves_nothing_behind() {
    let bench = two_clouds().await;
    create(&bench, "web", Some("bowline.dev/west")).await;
    bench.until_event("web", "EnsuredLoadBalancer").await;
    reclassify(&bench, "web", "bowline.dev/demo").await;
    bench
        .until("it is served anew", |it| {
            it.event_count("web", "EnsuredLoadBalancer") == 2
        })
        .await;
    assert_eq!(bench.clouds[1].balancers().all(), []);
    assert_eq!(bench.clouds[0].balancers().members(), ["n1", "n2", "n3"]);
    assert_eq!(bench.finalizers("web"), [FIN]);
}

/// That cloud serves Services without a class, or none does.
fn by_default(cloud: Option<&str>) -> CloudRules {
    let named = |name| DefaultCloud::Named(CloudName::parse(name).unwrap());
    CloudRules {
        default_cloud: cloud.map_or(DefaultCloud::None, named),
        ..CloudRules::default()
    }
}

/// The Service `web` without a class, served by the cloud `demo`; then a manager with another default.
async fn served_then(default: Option<&str>) -> TestCluster {
    let mut bench = two_clouds().await;
    for cloud in &bench.clouds {
        let period = Duration::from_secs(if is_real() { 4 } else { 600 });
        cloud.balancers().audit_every(period);
    }
    create(&bench, "web", None).await;
    bench.until_event("web", "EnsuredLoadBalancer").await;
    bench.stop().await;
    bench.use_rules(by_default(default));
    bench.start();
    bench
}

#[scenario]
async fn a_load_balancer_that_another_default_leaves_behind_is_told_with_the_way_out_and_never_removed()
 {
    let mut bench = served_then(Some("west")).await;
    bench.use_flags(&[
        crate::services::harness::ALONE,
        "--remove-orphaned-load-balancers",
    ]);
    bench.stop().await;
    bench.start();
    bench
        .until("it is served anew", |it| {
            it.event_count("web", "EnsuredLoadBalancer") == 2
        })
        .await;
    assert_eq!(bench.clouds[1].balancers().members(), ["w1"]);
    bench.until_event(LEASE, "MisplacedLoadBalancer").await;
    let reported = bench.message(LEASE, "MisplacedLoadBalancer").await;
    for words in [
        "in cloud demo was made for Service shop/web, which cloud west serves now",
        "services.defaultCloud",
    ] {
        assert!(reported.contains(words), "{reported}");
    }
    let orphans = |cloud: &str| format!("bowline_orphaned_load_balancers{{cloud=\"{cloud}\"}}");
    assert_eq!(bench.metric(&orphans("demo")), Some(1.0));
    bench.long(1800).await;
    assert_eq!(bench.clouds[0].balancers().all().len(), 1);
    assert_eq!(bench.event_count(LEASE, "MisplacedLoadBalancer"), 1);
    assert!(bench.metric(&orphans("west")).unwrap_or(0.0) < 0.5);
}

#[scenario]
async fn without_a_default_a_service_that_was_served_can_still_go() {
    let bench = served_then(None).await;
    let conditions = bench.service("web")["status"]["conditions"].to_string();
    assert!(conditions.contains(READY_CONDITION), "{conditions}");
    bench.settle().await;
    assert_eq!(bench.clouds[0].balancers().all().len(), 1);
    bench.delete_service("web").await;
    bench
        .until("it is gone", |it| it.find_service("web").is_none())
        .await;
    assert_eq!(bench.clouds[0].balancers().all(), []);
}

#[scenario(only_in_memory = "it waits for five minutes")]
async fn without_a_default_a_service_that_others_hold_is_left_to_them_and_told_after_a_while() {
    let mut bench = set_up(Setup::default()).await;
    bench.use_rules(by_default(None));
    bench.start();
    let held = changed("web", |it| it["metadata"]["finalizers"] = json!([FIN]));
    bench.create_service(held).await;
    bench.settle().await;
    let writes = bench.all_service_writes().len();
    bench.delete_service("web").await;
    bench.seconds(290).await;
    assert_eq!(bench.event_count("web", "DeletionHeld"), 0);
    bench.until_event("web", "DeletionHeld").await;
    bench.long(3600).await;
    let reported = bench.message("web", "DeletionHeld").await;
    assert!(
        reported.contains("services.defaultCloud") && reported.contains(FIN),
        "{reported}"
    );
    assert_eq!(bench.event_count("web", "DeletionHeld"), 1);
    assert_eq!(bench.all_service_writes().len(), writes);
    assert_eq!(bench.finalizers("web"), [FIN]);
    assert_eq!(bench.balancers().calls(), [""; 0]);
}

#[scenario]
async fn a_class_of_a_cloud_that_is_not_configured_is_told_and_what_to_do_when_it_cannot_go() {
    let mut bench = two_clouds().await;
    create(&bench, "web", Some("bowline.dev/west")).await;
    bench.until_event("web", "EnsuredLoadBalancer").await;
    bench.stop().await;
    bench.clouds.pop();
    bench.start();
    let reported = bench.message("web", "UnknownCloud").await;
    assert!(
        reported.contains("bowline.dev/west") && reported.contains("there are demo"),
        "{reported}"
    );
    bench.delete_service("web").await;
    bench
        .until("the way out is reported", |it| {
            let reported = it.messages("web", "UnknownCloud");
            reported
                .iter()
                .any(|it| it.contains("Configure cloud west again") && it.contains(FIN))
        })
        .await;
    bench.settle().await;
    assert_eq!(bench.event_count("web", "UnknownCloud"), 2);
    assert_eq!(bench.finalizers("web"), [FIN]);
}

/// Two accounts of one kind, each with its machines, and a Service of each; no manager.
async fn two_accounts() -> TestCluster {
    let bench = set_up(Setup {
        clouds: &[("demo", "demo"), ("west", "demo")],
        ..Setup::default()
    })
    .await;
    bench.put(node("n4", "demo://n4")).await;
    for (account, nodes) in [(0, &["n1", "n3"]), (1, &["n2", "n4"])] {
        for node in nodes {
            let address = node.replace('n', "10.0.0.");
            bench.clouds[account].say(node, runs(node, &address));
        }
    }
    create(&bench, "east", Some("bowline.dev/demo")).await;
    create(&bench, "west", Some("bowline.dev/west")).await;
    bench
}

async fn previews(bench: &TestCluster) -> Previews {
    let clouds = bench.clouds.iter().cloned();
    let parts = PreviewParts {
        rules: Arc::default(),
        client: bench.cluster.client(bench.cluster.manager("planner").await),
        clouds: clouds.map(|it| it as Arc<dyn Cloud>).collect(),
        cluster_name: "kubernetes".to_owned(),
        cluster_uid: None,
        lease: bench.managers_lease(),
        clock: bench.world.clock.clone(),
    };
    preview(&parts, &PreviewScope::All, &[]).await.unwrap()
}

/// The members of each Service that is planned, without the names around them.
fn planned(bench: &TestCluster, previews: &Previews) -> Vec<Vec<String>> {
    let services = previews.services.iter().zip(["east", "west"]);
    let members = services.map(|(it, service)| {
        let steps = it.plan.steps.iter();
        let members = steps.filter(|it| it.object.kind == "member");
        let all = members.map(|it| it.object.name.clone());
        let plain = ["n1", "n2", "n3", "n4"].into_iter().filter(|node| {
            let own = bench.cluster.names().own(&format!("{service} {node}"));
            all.clone().any(|it| it == format!("shop/{own}"))
        });
        let plain: Vec<String> = plain.map(str::to_owned).collect();
        assert_eq!(plain.len(), all.count());
        plain
    });
    members.collect()
}

#[scenario]
async fn a_preview_asks_which_of_two_accounts_has_which_nodes() {
    let bench = two_accounts().await;
    let previews = previews(&bench).await;
    assert_eq!(planned(&bench, &previews), [["n1", "n3"], ["n2", "n4"]]);
    assert_eq!(previews.remarks, [""; 0]);
    let notices = previews.services.iter().flat_map(|it| &it.plan.notices);
    assert!(notices.clone().all(|it| it.reason != NODE_UNREADABLE));
    // One question to each, whatever the number of Services and nodes.
    assert_eq!(bench.clouds.iter().map(|it| it.calls()).sum::<usize>(), 2);
    assert_eq!(bench.all_service_writes().len(), 0);
}

#[scenario]
async fn a_preview_says_that_it_cannot_tell_whose_nodes_are_while_an_account_does_not_answer() {
    let bench = two_accounts().await;
    bench.clouds[1].fail_with(1.0);
    let previews = previews(&bench).await;
    assert_eq!(planned(&bench, &previews), [[""; 0], [""; 0]]);
    let [remark] = &previews.remarks[..] else {
        panic!("{:?}", previews.remarks);
    };
    for words in [
        "the owner is unknown of nodes [",
        "cloud west did not answer: trouble",
    ] {
        assert!(remark.contains(words), "{remark}");
    }
    for node in ["n1", "n2", "n3", "n4"] {
        assert!(
            remark.contains(&bench.cluster.names().own(node)),
            "{remark}"
        );
    }
    assert!(previews.text().contains(remark), "{}", previews.text());
}
