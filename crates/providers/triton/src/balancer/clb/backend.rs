//! The DNS name of the nodes behind load balancer machines. Pure.
//!
//! The name within one network is the better one: it has no addresses that a load balancer cannot
//! reach. Not every data center has such names; only the name service itself shows that.

use std::collections::BTreeMap;
use std::time::Duration;

use uuid::Uuid;

use super::state::MISSED;
use crate::api::{Machine, Network};
use crate::instances::dnsify;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Form {
    /// Of all networks of the zone.
    #[default]
    Plain,
    /// Of one network.
    Qualified,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Names {
    pub(crate) plain: String,
    pub(crate) qualified: String,
}

impl Names {
    /// `suffix` is what follows labels: `svc.<account>.<zone>`.
    pub(crate) fn new(label: &str, network: Option<&Network>, suffix: &str) -> Self {
        let plain = format!("{label}.{suffix}");
        let qualified = network.map(|it| format!("{}.{plain}", dnsify(&it.name)));
        Self {
            qualified: qualified.unwrap_or_else(|| plain.clone()),
            plain,
        }
    }

    /// Whether the better one is among the names of machines, if those are known.
    pub(crate) fn shown(&self, names: &BTreeMap<Uuid, Vec<String>>) -> Option<bool> {
        let mut all = names.values().flatten();
        (!names.is_empty()).then(|| all.any(|it| *it == self.qualified))
    }

    pub(crate) fn of(&self, form: Form) -> &str {
        match form {
            Form::Plain => &self.plain,
            Form::Qualified => &self.qualified,
        }
    }

    pub(crate) fn used_in(&self, portmap: &str) -> Option<Form> {
        let uses = |name: &str| portmap.contains(&format!(":{name}:"));
        if uses(&self.qualified) {
            Some(Form::Qualified)
        } else {
            uses(&self.plain).then_some(Form::Plain)
        }
    }
}

/// Which name to use for load balancers that exist. `shown` is whether a target shows the name of
/// the one network, if that is known; `missed` for how long none has. The second value is when to
/// look again.
pub(crate) fn choose(
    shown: Option<bool>,
    used: Option<Form>,
    missed: Duration,
) -> (Form, Option<Duration>) {
    match (shown, used) {
        (Some(true), _) | (None, Some(Form::Qualified)) => (Form::Qualified, None),
        (Some(false), Some(Form::Qualified)) if missed < MISSED => {
            (Form::Qualified, Some(MISSED.saturating_sub(missed)))
        }
        _ => (Form::Plain, None),
    }
}

/// How many addresses a name stands for: those of the targets on the one network, or on all
/// networks of the same suffix. A target without known cards counts once.
pub(crate) fn addresses(
    targets: &[&Machine],
    form: Form,
    network: Uuid,
    suffix: &str,
    networks: &BTreeMap<Uuid, Network>,
) -> usize {
    let in_zone = |id: Uuid| {
        let suffixes = networks.get(&id).and_then(|it| it.suffixes.as_ref());
        suffixes.is_some_and(|it| it.iter().any(|it| it == suffix))
    };
    let counts = |machine: &&Machine| {
        let nics = machine.nics.iter().flatten().filter_map(|nic| nic.network);
        let here = nics.filter(|id| match form {
            Form::Qualified => *id == network,
            Form::Plain => in_zone(*id),
        });
        here.count().max(1)
    };
    targets.iter().map(counts).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_name_is_taken_up_at_once_and_given_up_after_a_while() {
        use Form::{Plain, Qualified};
        let minute = Duration::from_secs(60);
        for (shown, used, missed, form, again) in [
            (Some(true), None, Duration::ZERO, Qualified, None),
            (Some(true), Some(Plain), Duration::ZERO, Qualified, None),
            (Some(false), None, Duration::ZERO, Plain, None),
            (Some(false), Some(Plain), MISSED, Plain, None),
            (
                Some(false),
                Some(Qualified),
                minute,
                Qualified,
                Some(4 * minute),
            ),
            (Some(false), Some(Qualified), MISSED, Plain, None),
            (None, Some(Qualified), MISSED, Qualified, None),
            (None, Some(Plain), MISSED, Plain, None),
            (None, None, Duration::ZERO, Plain, None),
        ] {
            assert_eq!(
                choose(shown, used, missed),
                (form, again),
                "{shown:?} {used:?}"
            );
        }
    }

    #[test]
    fn names_are_recognised_in_port_maps() {
        let id = Uuid::from_u128(2);
        let network: Network =
            serde_json::from_value(json!({"id": id, "name": "My-Fabric"})).unwrap();
        let names = Names::new("k8s-nodes-cccccccc", Some(&network), "svc.a.z");
        assert_eq!(names.qualified, "my-fabric.k8s-nodes-cccccccc.svc.a.z");
        let map = |form| format!("tcp://80:{}:30080", names.of(form));
        assert_eq!(names.used_in(&map(Form::Plain)), Some(Form::Plain));
        assert_eq!(names.used_in(&map(Form::Qualified)), Some(Form::Qualified));
        assert_eq!(names.used_in("tcp://80:x:1"), None);
    }

    #[test]
    fn addresses_are_counted_under_the_name_that_is_used() {
        let (one, two) = (Uuid::from_u128(1), Uuid::from_u128(2));
        let network = |id| -> Network {
            serde_json::from_value(json!({"id": id, "suffixes": ["svc.a.z", "inst.a.z"]})).unwrap()
        };
        let networks = BTreeMap::from([(one, network(one)), (two, network(two))]);
        let machine: Machine = serde_json::from_value(json!({"id": Uuid::from_u128(9), "nics": [
            {"ip": "10.0.0.1", "network": one}, {"ip": "10.0.1.1", "network": two}]}))
        .unwrap();
        let bare: Machine = serde_json::from_value(json!({"id": Uuid::from_u128(8)})).unwrap();
        let targets = [&machine, &bare];
        let count = |form| addresses(&targets, form, one, "svc.a.z", &networks);
        assert_eq!((count(Form::Plain), count(Form::Qualified)), (3, 2));
    }
}
