//! What scenarios of routes begin with.

use bowline_core::routes::PodRoute;
use bowline_scenarios::cloud::ScriptedRoutes;
use bowline_scenarios::objects::known;
use bowline_scenarios::{Setup, TestCluster, is_real};
use serde_json::Value;

pub(crate) const RANGE: &str = "--cluster-cidr=10.120.0.0/16";

/// Everything but the manager, which will have nothing but routes, with these flags. On the real clock
/// rounds are closer together: no scenario waits long.
pub(crate) async fn idle(flags: &[&str]) -> TestCluster {
    let basis: &[&str] = if is_real() {
        &["--controllers=route", "--route-reconciliation-period=1s"]
    } else {
        &["--controllers=route"]
    };
    let flags: Vec<&str> = basis.iter().chain(flags).copied().collect();
    let bench = TestCluster::set_up(Setup {
        flags: &flags,
        ..Setup::default()
    })
    .await;
    bench.cloud().offer_routes();
    bench
}

/// The same with nodes `a` (10.120.0.0/24) and `b` (10.120.1.0/24), and these routes.
pub(crate) async fn with_two(routes: impl IntoIterator<Item = PodRoute>) -> TestCluster {
    let bench = idle(&[RANGE]).await;
    bench.create(node("a", &["10.120.0.0/24"])).await;
    bench.create(node("b", &["10.120.1.0/24"])).await;
    routes_of(&bench).have(routes);
    bench
}

pub(crate) fn routes_of(bench: &TestCluster) -> &ScriptedRoutes {
    bench.cloud().routes()
}

/// A node of the cloud, with these ranges.
pub(crate) fn node(name: &str, ranges: &[&str]) -> Value {
    let id = format!("demo://{name}");
    let mut node = known(name, &id, "True", &["InternalIP:10.0.1.1"]);
    if let Some(first) = ranges.first() {
        node["spec"]["podCIDR"] = (*first).into();
        node["spec"]["podCIDRs"] = ranges.to_vec().into();
    }
    node
}

/// The condition of a node's network: `False RouteCreated`, or nothing.
pub(crate) fn network(bench: &TestCluster, name: &str) -> String {
    let Some(condition) = condition(&bench.node(name)) else {
        return String::new();
    };
    let text = |field: &str| condition[field].as_str().unwrap().to_owned();
    format!("{} {}", text("status"), text("reason"))
}

pub(crate) fn condition(node: &Value) -> Option<Value> {
    let all = node["status"]["conditions"]
        .as_array()
        .into_iter()
        .flatten();
    let mut network = all.filter(|it| it["type"] == "NetworkUnavailable");
    network.next().cloned()
}

pub(crate) const UP: &str = "False RouteCreated";
pub(crate) const DOWN: &str = "True NoRouteCreated";

/// Waits until the network of these nodes is as it is to be.
pub(crate) async fn until(bench: &TestCluster, names: &[&str], wanted: &str) {
    let what = format!("the network of {names:?} is {wanted}");
    let all = |bench: &TestCluster| names.iter().all(|name| network(bench, name) == wanted);
    bench.until(&what, all).await;
}

/// How often routes were compared with nodes.
pub(crate) fn rounds(bench: &TestCluster) -> f64 {
    bench.metric("route_controller_route_sync_total").unwrap()
}
