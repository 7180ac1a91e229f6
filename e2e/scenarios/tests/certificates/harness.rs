//! What these scenarios begin with: the cloud `demo`, which speaks about certificates, its node n1, and
//! a manager that cares about requests alone.

use bowline_core::ApprovalRules;
use bowline_scenarios::certificates::Ask;
use bowline_scenarios::cloud::runs;
use bowline_scenarios::objects::known;
use bowline_scenarios::{Setup, TestCluster};
use serde_json::Value;

/// So that nobody initialises nodes nor takes them for gone.
pub(crate) const ALONE: &str = "--controllers=node-csr-approval";
/// What an approval says, as conditions are shown.
pub(crate) const APPROVED: &str = "Approved ApprovedByBowline: This CSR was approved by Bowline: \
                                   all names and addresses are the node's";

/// A running manager.
pub(crate) async fn new() -> TestCluster {
    let mut bench = idle(&[ALONE]).await;
    bench.start();
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

/// The same in more detail.
pub(crate) async fn set_up(setup: Setup<'_>) -> TestCluster {
    let bench = TestCluster::set_up(setup).await;
    for cloud in &bench.clouds {
        cloud.offer_certificates(ApprovalRules::default());
    }
    bench.clouds[0].say("n1", runs("n1", "10.0.0.5"));
    bench.put(node("n1", &["InternalIP:10.0.0.5"])).await;
    bench
}

/// An initialised node of the cloud `demo`.
pub(crate) fn node(name: &str, addresses: &[&str]) -> Value {
    let host = format!("Hostname:{name}");
    let addresses = [addresses, &[&host]].concat();
    known(name, &format!("demo://{name}"), "True", &addresses)
}

/// A right request of n1.
pub(crate) fn right(name: &str) -> Ask {
    Ask::new(name, "n1", &["10.0.0.5"])
}

/// Waits until the manager has looked at everything that was asked so far: it looks in order.
pub(crate) async fn until_looked_at(bench: &TestCluster) {
    bench.put_request(&right("last")).await;
    assert_eq!(bench.until_decided("last").await, [APPROVED]);
    bench.settle().await;
}
