//! Credentials that change while much is under way.

use std::time::Duration;

use bowline_scenarios::objects::service;
use bowline_scenarios::{TestCluster, scenario};
use bowline_simulator::journal::Filter;
use bowline_simulator_exoscale::{DEFAULT_KEY, DEFAULT_SECRET, Key};
use serde_json::json;

use super::service_harness::ServiceHarness;
use crate::exoscale::harness::{Harness, I1, I2};

/// Services that are made at once.
const SERVICES: usize = 20;
const NEW_KEY: &str = "EXOnew00000000000000000000";

#[scenario]
async fn new_credentials_while_twenty_services_are_made_fail_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("credentials.json");
    let write = |name: &str, key: &str, secret: &str| {
        let pair = json!({"name": name, "api_key": key, "api_secret": secret});
        std::fs::write(&path, pair.to_string()).unwrap();
    };
    write("old", DEFAULT_KEY, DEFAULT_SECRET);
    let environment = [
        ("EXOSCALE_API_KEY", ""),
        ("EXOSCALE_API_SECRET", ""),
        ("EXOSCALE_API_CREDENTIALS_FILE", path.to_str().unwrap()),
    ];
    let mut test = ServiceHarness::on(Harness::with(&environment).await, &[I1, I2]).await;
    // Long enough that every Service waits for something when the pair changes.
    let slow = Duration::from_secs(8);
    test.cloud.set_timings(|it| it.operation = slow);
    test.start().await;
    let names: Vec<String> = (1..=SERVICES).map(|it| format!("web-{it}")).collect();
    for name in &names {
        test.create_service(service(name)).await;
    }
    test.until_asked(0, "get-operation").await;
    test.cloud.set_key(NEW_KEY, Key::new("another-secret"));
    write("new", NEW_KEY, "another-secret");
    let used = Filter::any().server("exoscale").caller(NEW_KEY);
    let in_use = |it: &TestCluster| it.count(&used) > 1;
    test.until("the new pair is in use", in_use).await;
    assert!(test.cloud.remove_key(DEFAULT_KEY));
    for name in &names {
        test.until_ensured(name).await;
        assert_eq!(
            test.event_count(name, "SyncLoadBalancerFailed"),
            0,
            "{name}"
        );
    }
    assert_eq!(test.cloud.balancers().len(), SERVICES);
    for status in [401, 403] {
        let refused = Filter::any().server("exoscale").status(status);
        assert_eq!(test.count(&refused), 0);
    }
    test.end().await;
}
