//! What load balancers cost stays within its bounds; `bench/` prints it.

use bowline_scenarios::measure::{MOST_ROUNDS, MOST_TIME, Members, first_address};
use bowline_scenarios::scenario;

#[scenario(only_in_memory = "it measures simulated time")]
async fn twenty_of_two_hundred_nodes_are_replaced_in_at_most_three_rounds_for_each_load_balancer() {
    let members = Members::default();
    let measured = members.measure().await;
    assert!(measured.most_rounds() <= MOST_ROUNDS, "{measured:?}");
    assert_eq!(measured.writes, members.least_writes(), "{measured:?}");
}

#[scenario(only_in_memory = "it measures simulated time")]
async fn a_new_service_on_an_idle_cloud_shows_its_address_in_under_four_seconds() {
    let measured = first_address().await;
    assert!(measured.time < MOST_TIME, "{measured:?}");
    assert_eq!(measured.members, 2);
    // The rest is done then too: nothing follows.
    assert_eq!(measured.later_writes, 0);
}
