//! Routes need no right that the role we ship does not give.

use bowline_core::CloudErrorKind;
use bowline_scenarios::scenario;
use bowline_simulator::journal::Filter;
use bowline_simulator_kubernetes::fixture;

use crate::routes::harness::{UP, routes_of, until, with_two};

#[scenario]
async fn routes_fit_into_the_role_we_ship() {
    let text = include_str!("../../../../deploy/rbac.yaml");
    let objects = fixture::parse("deploy/rbac.yaml", text).unwrap();
    let mut bench = with_two([]).await;
    let granted = bench.cluster.grant("bowline", &objects).await;
    bench.act_as(granted.config);
    let denied = CloudErrorKind::Denied;
    routes_of(&bench).fail("10.120.0.0/24", denied, "quota", 1);
    bench.start();
    bench.until_event("a", "FailedToCreateRoute").await;
    until(&bench, &["a", "b"], UP).await;
    let calls = bench.matching(&Filter::any().caller(&granted.user));
    assert!(!calls.is_empty());
    let refused: Vec<_> = calls.into_iter().filter(|it| it.status == 403).collect();
    assert!(refused.is_empty(), "{refused:#?}");
}
