//! How long a new Service waits for its address, and what that costs.

use std::collections::BTreeMap;
use std::time::Duration;

use bowline_scenarios::objects::service;
use bowline_scenarios::{only_in_memory, scenario, tell};
use bowline_simulator::cloudscale::BalancerTimings;
use bowline_simulator::faults::{Action, Rule};
use bowline_simulator::journal::Filter;

use super::shop::Shop;

/// What the issue of the load balancers promises.
const LIMIT: Duration = Duration::from_secs(4);

#[test]
fn a_new_service_on_an_idle_cloud_shows_its_address_in_under_four_seconds() {
    if !only_in_memory("it measures simulated time") {
        return;
    }
    scenario!(async || {
        let shop = Shop::open().await;
        // Every call takes 100 ms, and what goes on after an answer takes a second.
        let call = Duration::from_millis(100);
        let slow = Action::Delay {
            least: call,
            most: call,
        };
        shop.fault(Rule::new(slow).server("cloudscale"));
        shop.cloud
            .set_balancer_timings(BalancerTimings::each(Duration::from_secs(1)));
        shop.seconds(60).await;
        let (mark, begun) = (shop.mark(), tokio::time::Instant::now());
        shop.create_service(service("web")).await;
        shop.until_published("web").await;
        let took = begun.elapsed();
        let asked = Filter::any().server("cloudscale");
        let entries = shop.entries().into_iter().skip(mark);
        let calls: Vec<_> = entries.filter(|it| asked.matches(it)).collect();
        let mut kinds: BTreeMap<&str, usize> = BTreeMap::new();
        for call in &calls {
            *kinds.entry(&call.method).or_default() += 1;
        }
        tell(&format!(
            "a new Service: address after {took:?}, {} calls to the cloud: {kinds:?}",
            calls.len()
        ));
        for call in &calls {
            let at = call.time.duration_since(calls[0].arrived);
            let at = Duration::try_from(at).unwrap().as_millis();
            tell(&format!(
                "  {at:>5} ms  {} {} -> {}",
                call.method, call.path, call.status
            ));
        }
        assert!(took < LIMIT, "{took:?}");
        assert_eq!(shop.members().len(), 2);
        // The rest is done then too: nothing follows.
        let mark = shop.mark();
        shop.seconds(30).await;
        assert_eq!(shop.changes_from(mark), [""; 0]);
        shop.close().await;
    });
}
