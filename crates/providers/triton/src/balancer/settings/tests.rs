use super::*;
use crate::balancer::examples::{annotated, web};
use crate::testing::config;

fn only(key: &str, value: &str) -> (Settings, Vec<Fault>) {
    Settings::read(
        &annotated(&[(key, value)]),
        &config(&[], None).load_balancer,
    )
}

#[test]
fn a_service_without_annotations_has_the_defaults() {
    assert_eq!(
        Settings::read(&web(), &config(&[], None).load_balancer),
        (Settings::default(), Vec::new())
    );
}
