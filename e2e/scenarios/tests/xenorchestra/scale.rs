//! Many VMs: what they cost while nothing happens.

use bowline_scenarios::measure::Resting;
use bowline_scenarios::scenario;

const ONLY: &str = "it measures an hour";

#[scenario(only_in_memory = ONLY)]
async fn a_thousand_vms_at_rest_cost_a_list_for_each_pool() {
    let many = Resting::default();
    assert_eq!((many.vms, many.pools), (1000, 3));
    let polling = many.measure(false).await;
    assert!(polling.lists_each_period() <= 3.0, "{polling:?}");
    assert!(!polling.requests.contains_key("GET vms/*"), "{polling:?}");
    assert!(polling.each_period() <= 9.0, "{polling:?}");
    assert_eq!(polling.writes, 0);
}

#[scenario(only_in_memory = ONLY)]
async fn a_thousand_vms_at_rest_cost_almost_nothing_with_events() {
    let many = Resting::default();
    assert_eq!((many.vms, many.pools), (1000, 3));
    let events = many.measure(true).await;
    assert!(events.each_period() <= 1.0, "{events:?}");
    assert_eq!(events.writes, 0);
}
