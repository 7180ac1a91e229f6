//! The controller needs no more than the originals' roles give.

use std::collections::BTreeSet;

use bowline_simulator::kubernetes::auth::{User, originals};
use bowline_simulator::kubernetes::fixture;
use serde_json::{Value, json};

use crate::bench::{Bench, balancer, kind};

/// A Service's whole life under these roles: refused nothing, and never read by itself.
async fn whole_life(account: &str, objects: Vec<Value>) {
    let user = User::new(&format!("system:serviceaccount:kube-system:{account}"), &[]);
    let mut bench = Bench::under(7, &["demo"], &[], user.clone());
    bench.cluster.install(objects).unwrap();
    bench.start();
    bench.ensured("web").await;
    let bad = json!({ "metadata": { "annotations": { "demo.test/size": "bad" } } });
    bench.patch("web", bad).await;
    bench.until_told("web", "InvalidLoadBalancerConfig").await;
    bench.delete("web").await;
    bench.until_gone("web").await;
    let entries = bench.world.journal.entries().into_iter();
    let ours: Vec<_> = entries.filter(|it| it.caller == user.name).collect();
    assert!(ours.len() > 5, "the journal knows the caller");
    let refused: BTreeSet<String> = ours
        .iter()
        .filter(|it| it.status == 403)
        .map(|it| format!("{} {}", it.method, it.path))
        .collect();
    assert_eq!(refused, BTreeSet::new(), "{account}");
    let one_by_one = ours
        .iter()
        .filter(|it| it.method == "GET" && it.path.contains("/services/"));
    assert_eq!(one_by_one.count(), 0);
}

#[tokio::test(start_paused = true)]
async fn the_life_of_a_service_fits_into_the_originals_roles_and_into_ours() {
    let shipped = include_str!("../../../../deploy/rbac.yaml");
    let shipped = fixture::parse("deploy/rbac.yaml", shipped).unwrap();
    // cloudscale.ch's may not read one Service; the framework's may write nothing but its status.
    for (account, objects) in [
        ("cloud-controller-manager", originals::cloudscale()),
        ("cloud-controller-manager", originals::exoscale()),
        ("bowline", originals::framework("bowline", false)),
        ("bowline", shipped),
    ] {
        whole_life(account, objects).await;
    }
}

#[tokio::test(start_paused = true)]
async fn framework_case_143_services_are_written_by_the_account_of_the_service_controller() {
    let bench = Bench::with(&["--use-service-account-credentials"]);
    bench.ensured("web").await;
    bench.delete("web").await;
    bench.until_gone("web").await;
    let account =
        bench
            .cluster
            .api()
            .get(kind("ServiceAccount"), "kube-system", "service-controller");
    assert!(account.is_some());
    let entries = bench.world.journal.entries().into_iter();
    let writers: BTreeSet<String> = entries
        .filter(|it| it.is_mutating() && it.path.contains("/services/web/status"))
        .map(|it| it.caller)
        .collect();
    let account = "system:serviceaccount:kube-system:service-controller".to_owned();
    assert_eq!(writers, BTreeSet::from([account]));
    let entries = bench.world.journal.entries().into_iter();
    let refused: Vec<String> = entries
        .filter(|it| it.status == 403)
        .map(|it| format!("{} {}", it.method, it.path))
        .collect();
    assert_eq!(refused, [""; 0], "its own role is enough");
}

#[tokio::test(start_paused = true)]
async fn framework_case_142_without_load_balancers_the_controller_does_not_start() {
    for (clouds, runs) in [(&["demo"][..], Some(1.0)), (&[][..], None)] {
        let mut bench = Bench::idle(7, clouds, &[]);
        bench.put_service(balancer("web"));
        bench.start();
        bench.seconds(10).await;
        let series =
            "running_managed_controllers{manager=\"cloud-controller-manager\",name=\"service\"}";
        assert_eq!(bench.metric(series), runs);
        let held = bench.finalizers("web") != Value::Null;
        assert_eq!(held, runs.is_some());
    }
}
