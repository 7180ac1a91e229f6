//! The controller needs no more than the originals' roles give.

use std::collections::BTreeSet;

use bowline_simulator::kubernetes::auth::{User, originals};
use serde_json::json;

use crate::bench::{Bench, MANAGER};

#[tokio::test(start_paused = true)]
async fn services_are_served_under_the_role_of_cloudscale_which_may_not_read_one_service() {
    let user = User::new(
        "system:serviceaccount:kube-system:cloud-controller-manager",
        &[],
    );
    let mut bench = Bench::under(7, &["demo"], &[], user.clone());
    bench.cluster.install(originals::cloudscale()).unwrap();
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
    assert_ne!(user.name, MANAGER);
    let refused: BTreeSet<String> = ours
        .iter()
        .filter(|it| it.status == 403)
        .map(|it| format!("{} {}", it.method, it.path))
        .collect();
    assert_eq!(refused, BTreeSet::new());
    let one_by_one = ours
        .iter()
        .filter(|it| it.method == "GET" && it.path.contains("/services/"));
    assert_eq!(one_by_one.count(), 0);
}
