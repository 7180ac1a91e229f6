//! Fields that a cloud's answers have no more.

use bowline_scenarios::objects::{SHUTDOWN, addresses, has_taint, is_uninitialized};
use bowline_scenarios::scenario;
use bowline_simulator::faults::{Action, Rule};
use futures::future::join_all;

use super::harness::{Field, list_path};
use crate::many::harness::{EAST, EXOSCALE, TRITON, WEST, XEN};

/// Longer than several rounds and back-offs.
const SOME_MINUTES: u64 = 400;

/// hetznercloud/hcloud-cloud-controller-manager (README, July 2026): the vendor removed a field of its API, and every
/// older release panics at start. Now each field that is read of machines is left out in turn, of all answers: the manager
/// starts and goes on, no Node is deleted, tainted or left without an address, the other clouds work, and where a node cannot be described without
/// the field, its event says what is missing.
async fn without(cloud: &'static str, fields: &[(&str, Option<&str>)]) {
    let story = async |(member, reported): &(&str, Option<&str>)| {
        let what = format!("{cloud} without {member}");
        let mut field = Field::new(2).await;
        field.stop().await;
        let gone = Action::Without {
            member: (*member).to_owned(),
        };
        let path = format!("{}*", list_path(cloud));
        field.fault(Rule::new(gone).server(cloud).on("*", &path));
        field.start().await;
        field.silence(field.each(|it| it == 0)).await;
        let new = field.machine(cloud, 95);
        field.create(new.node()).await;
        let other = field.machine(WEST, 96);
        field.create(other.node()).await;
        field.until_initialized(&other.name).await;
        field.assert_right(&other);
        if let Some(words) = reported {
            let message = field.message(&new.name, "NodeInitializationFailed").await;
            assert!(message.contains(words), "{what}: {message}");
            field.long(SOME_MINUTES).await;
            assert!(is_uninitialized(&field.node(&new.name)), "{what}");
        } else {
            field.until_initialized(&new.name).await;
            field.long(SOME_MINUTES).await;
        }
        field.assert_all_kept();
        assert!(field.is_running(), "{what}");
        for machine in field.each(|_| true) {
            let node = field.node(&machine.name);
            assert!(!has_taint(&node, SHUTDOWN), "{what}: {}", machine.name);
            let is_address =
                |it: &String| it.starts_with("InternalIP") || it.starts_with("ExternalIP");
            assert!(
                addresses(&node).iter().any(is_address),
                "{what}: {}",
                machine.name
            );
        }
        field.world.faults.clear();
        field.until_initialized(&new.name).await;
        if reported.is_some() {
            field.assert_right(&new);
        }
    };
    join_all(fields.iter().map(story)).await;
}

#[scenario(only_in_memory = "as many clusters as fields, and nothing is about the API server")]
async fn a_field_that_vanished_from_cloudscale() {
    let fields = [
        ("uuid", Some("no valid uuid")),
        ("name", Some("without their names")),
        ("status", None),
        ("zone", None),
        ("flavor", None),
        ("slug", None),
        ("interfaces", None),
        ("addresses", None),
        ("address", None),
        ("type", None),
    ];
    without(EAST, &fields).await;
}

#[scenario(only_in_memory = "as many clusters as fields, and nothing is about the API server")]
async fn a_field_that_vanished_from_exoscale() {
    let fields = [
        ("id", Some("missing field `id`")),
        ("instances", None),
        ("name", Some("answered without name")),
        ("state", None),
        ("public-ip", None),
        ("instance-type", Some("answered without instance-type")),
        ("manager", None),
        ("size", None),
        ("family", None),
    ];
    without(EXOSCALE, &fields).await;
}

#[scenario(only_in_memory = "as many clusters as fields, and nothing is about the API server")]
async fn a_field_that_vanished_from_xen_orchestra() {
    let fields = [
        ("id", Some("missing field `id`")),
        ("name_label", None),
        ("power_state", None),
        ("CPUs", None),
        ("memory", None),
        ("addresses", None),
        ("$container", None),
        ("$pool", None),
    ];
    without(XEN, &fields).await;
}

#[scenario(only_in_memory = "as many clusters as fields, and nothing is about the API server")]
async fn a_field_that_vanished_from_triton() {
    let fields = [
        ("id", Some("without their ids")),
        ("name", None),
        ("state", None),
        ("package", None),
        ("nics", None),
        ("ips", None),
        ("primaryIp", None),
        ("networks", None),
        ("brand", None),
        ("tags", None),
    ];
    without(TRITON, &fields).await;
}
