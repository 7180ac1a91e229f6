//! What these scenarios begin with: the cloud `demo` with load balancers, three of its nodes, and a
//! manager that cares about Services alone.

use bowline_core::CLEANUP_FINALIZER;
use bowline_scenarios::objects::{known, service};
use bowline_scenarios::{Setup, TestCluster};
use serde_json::Value;

pub(crate) const FIN: &str = CLEANUP_FINALIZER;
/// Where the status of the Service `web` is written.
pub(crate) const STATUS: &str = "/api/v1/namespaces/shop/services/web/status";

/// So that nobody initialises nodes nor takes them for gone.
pub(crate) const ALONE: &str = "--controllers=service";

/// A running manager.
pub(crate) async fn new() -> TestCluster {
    with(&[]).await
}

/// The same with these flags.
pub(crate) async fn with(flags: &[&str]) -> TestCluster {
    let mut bench = idle(flags).await;
    bench.start();
    bench
}

/// The same with the Service `web`, which has its load balancer.
pub(crate) async fn settled() -> TestCluster {
    let bench = new().await;
    bench.ensured("web").await;
    bench
}

/// Everything but the manager, for [`TestCluster::start`].
pub(crate) async fn idle(flags: &[&str]) -> TestCluster {
    set_up(Setup {
        flags,
        ..Setup::default()
    })
    .await
}

/// The same in more detail; the controller of Services is the only one in any case.
pub(crate) async fn set_up(setup: Setup<'_>) -> TestCluster {
    let flags = [&[ALONE], setup.flags].concat();
    let bench = TestCluster::set_up(Setup {
        flags: &flags,
        ..setup
    })
    .await;
    for cloud in &bench.clouds {
        cloud.offer_balancers();
    }
    for name in ["n1", "n2", "n3"] {
        join(&bench, name).await;
    }
    bench
}

/// Adds a node of the cloud `demo`.
pub(crate) async fn join(bench: &TestCluster, name: &str) {
    bench.put(node(name, &format!("demo://{name}"))).await;
}

/// A ready node of machine `id`; its number is the end of its address.
pub(crate) fn node(name: &str, id: &str) -> Value {
    let number: String = name.chars().filter(char::is_ascii_digit).collect();
    let number: u8 = number.parse().unwrap();
    known(name, id, "True", &[&format!("InternalIP:10.0.0.{number}")])
}

/// A Service that wants a load balancer, changed like that.
pub(crate) fn changed(name: &str, change: impl FnOnce(&mut Value)) -> Value {
    let mut service = service(name);
    change(&mut service);
    service
}

/// Removes a Service at once, whatever finalizers it has, and before the manager learns of it.
pub(crate) async fn strip(bench: &TestCluster, name: &str) {
    bench.unseen(async || vanish(bench, name).await).await;
}

/// What [`strip`] lets happen.
pub(crate) async fn vanish(bench: &TestCluster, name: &str) {
    let free = serde_json::json!({ "metadata": { "finalizers": null } });
    bench.patch_service(name, free).await;
    bench.delete_service(name).await;
}
