//! What ends a start before anything is called.

use bowline_controllers::manager::ManagerError;
use bowline_simulator::journal::Filter;

use crate::harness::{Harness, Replica, parse};

#[test]
fn framework_case_134_problems_are_told_together_in_their_order() {
    let flags = [
        "--controllers=bogus,-foo",
        "--leader-elect-resource-lock=endpoints",
    ];
    assert_eq!(
        parse(&flags).validate().unwrap_err().to_string(),
        "[resourceLock value must be \"leases\", \"bogus\" is not in the list of known \
         controllers, \"foo\" is not in the list of known controllers]"
    );
}

#[tokio::test]
async fn a_port_that_is_taken_ends_the_start() {
    let test = Harness::on_socket().await;
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port();
    let flags = crate::https::serving_flags(port);
    let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
    let manager = test.manager(&test.administrator("a"), &flags);
    let ended = Replica::of(manager).ended().await.unwrap_err();
    assert!(matches!(ended, ManagerError::Serving(_)), "{ended:?}");
    let leases = Filter::any().path("*/leases*");
    assert_eq!(test.world.journal.count(&leases), 0, "before it competes");
}
