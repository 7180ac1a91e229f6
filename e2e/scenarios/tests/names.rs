//! The names of a scenario on a server that it shares. No scenarios: they need no server, and `e2e/run` leaves them out.

use bowline_scenarios::names::Names;
use bowline_scenarios::objects::known;

#[test]
fn what_goes_out_comes_back_as_it_was() {
    let names = Names::unique();
    let node = known(
        "n1",
        "demo://m-1",
        "True",
        &["InternalIP:10.0.0.5", "Hostname:n1"],
    );
    let out = names.outgoing(node.clone());
    assert_eq!(out["metadata"]["name"], names.own("n1"));
    assert_eq!(out["spec"]["providerID"], "demo://m-1");
    assert_eq!(out["status"]["addresses"][1]["address"], names.own("n1"));
    assert_eq!(names.incoming(out), node);
}

#[test]
fn no_two_scenarios_have_the_same_names() {
    let (one, other) = (Names::unique(), Names::unique());
    assert_ne!(one.own("n1"), other.own("n1"));
    assert!(!other.is_own(&one.own("n1")));
    assert_eq!(one.plain(&other.own("n1")), other.own("n1"));
}

#[test]
fn alone_nothing_is_renamed() {
    let names = Names::alone();
    let node = known("n1", "demo://m-1", "True", &[]);
    assert_eq!(names.outgoing(node.clone()), node);
    assert_eq!(names.incoming(node.clone()), node);
    assert_eq!(names.selector(), None);
}
