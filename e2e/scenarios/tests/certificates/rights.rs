//! Which rights it uses: those of the originals' roles, and of ours with its optional part.

use std::collections::BTreeSet;

use bowline_scenarios::cloud_harness::OPTIONAL_READS;
use bowline_scenarios::{TestCluster, scenario};
use bowline_simulator_kubernetes::fixture;
use serde_json::Value;

use crate::certificates::harness::{self, ALONE, APPROVED, right};

/// Approves under that account; the calls about requests, as `METHOD` and the end of the path.
async fn approve_as(account: &str, objects: &[Value]) -> BTreeSet<String> {
    let mut bench = harness::idle(&[ALONE, "--leader-elect=true"]).await;
    let granted = bench.cluster.grant(account, objects).await;
    bench.act_as(granted.config);
    bench.put_request(&right("c")).await;
    bench.start();
    assert_eq!(bench.until_decided("c").await, [APPROVED]);
    bench.until_event("c", "CertificateApproved").await;
    bench.stop().await;
    let own = |bench: &TestCluster| {
        let all = bench.entries().into_iter();
        all.filter(|it| it.caller == granted.user)
            .collect::<Vec<_>>()
    };
    let refused: Vec<_> = own(&bench)
        .into_iter()
        .filter(|it| it.status == 403)
        // Those of the originals do without what is the cluster's own.
        .filter(|it| account == "bowline" || !OPTIONAL_READS.contains(&it.path.as_str()))
        .collect();
    assert!(refused.is_empty(), "{refused:#?}");
    let about = own(&bench).into_iter();
    let about = about.filter(|it| it.path.starts_with("/apis/certificates.k8s.io/"));
    about
        .map(|it| {
            let is_watch = it.query.contains("watch=true");
            let verb = if is_watch {
                "WATCH"
            } else {
                it.method.as_str()
            };
            format!("{verb} {}", it.path.rsplit('/').next().unwrap())
        })
        .collect()
}

#[scenario]
async fn the_roles_of_the_originals_and_ours_with_its_optional_part_are_enough() {
    let ours: Vec<Value> = [
        (
            "deploy/rbac.yaml",
            include_str!("../../../../deploy/rbac.yaml"),
        ),
        (
            "deploy/rbac-certificates.yaml",
            include_str!("../../../../deploy/rbac-certificates.yaml"),
        ),
    ]
    .iter()
    .flat_map(|(name, text)| fixture::parse(name, text).unwrap())
    .collect();
    for (account, objects) in [
        (
            "cloud-controller-manager",
            bowline_simulator_exoscale::manifest(),
        ),
        (
            "talos-cloud-controller-manager",
            bowline_simulator_talos::manifest(),
        ),
        ("bowline", ours),
    ] {
        let used = approve_as(account, &objects).await;
        let wanted = ["PUT approval", "WATCH certificatesigningrequests"];
        assert_eq!(used, wanted.map(str::to_owned).into(), "{account}");
    }
}
