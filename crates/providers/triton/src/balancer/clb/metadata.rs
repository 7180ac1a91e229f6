//! The metadata of load balancer machines. Pure.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use crate::api::TagValue;
use crate::balancer::settings::ClbSettings;

/// What all keys of the appliance begin with.
macro_rules! key {
    ($name:literal) => {
        concat!("cloud.tritoncompute:", $name)
    };
}

/// Makes a machine set itself up as a load balancer when it boots.
pub(crate) const LOADBALANCER: &str = key!("loadbalancer");
pub(crate) const PORTMAP: &str = key!("portmap");
/// How many backends a port may have.
pub(crate) const MAX_RS: &str = key!("max_rs");
const CERTIFICATE_NAME: &str = key!("certificate_name");
const METRICS_ACL: &str = key!("metrics_acl");
const METRICS_PORT: &str = key!("metrics_port");
const SYSLOG: &str = key!("syslog");
const TIMEOUTS: &str = key!("timeouts");
/// The designations in a shared port map that are ours.
pub(crate) const OURS: &str = "bowline:portmap";

/// Keys that are removed when they are not wanted.
const OPTIONAL: [&str; 5] = [
    CERTIFICATE_NAME,
    METRICS_ACL,
    METRICS_PORT,
    SYSLOG,
    TIMEOUTS,
];

/// How many backends a port can have.
const SLOTS: RangeInclusive<u64> = 32..=1024;
/// They come in multiples of this.
const SLOT_STEP: u64 = 32;

pub(crate) fn slots(backends: usize) -> u64 {
    let backends = u64::try_from(backends)
        .unwrap_or(u64::MAX)
        .min(*SLOTS.end());
    let slots = backends.div_ceil(SLOT_STEP) * SLOT_STEP;
    slots.clamp(*SLOTS.start(), *SLOTS.end())
}

/// The wanted metadata. `backends` is how many there are now; `there` what a machine has already:
/// surplus slots are never taken back, because that interrupts what uses them.
pub(crate) fn wanted(
    portmap: &str,
    settings: &ClbSettings,
    backends: usize,
    there: Option<&BTreeMap<String, TagValue>>,
) -> BTreeMap<String, String> {
    let mut wanted = BTreeMap::from([
        (LOADBALANCER.to_owned(), "true".to_owned()),
        (PORTMAP.to_owned(), portmap.to_owned()),
    ]);
    let before = there.and_then(|there| there.get(MAX_RS)?.to_string().parse().ok());
    let before = before.filter(|it| SLOTS.contains(it));
    let max_rs = match settings.max_rs {
        Some(ordered) => u64::from(ordered),
        None => slots(backends).max(before.unwrap_or_default()),
    };
    wanted.insert(MAX_RS.to_owned(), max_rs.to_string());
    let list = |items: Vec<String>| (!items.is_empty()).then(|| items.join(","));
    let readers = settings.metrics_acl.iter().map(ToString::to_string);
    let metrics_port = settings.metrics_port.map(|it| it.to_string());
    let timeouts = settings.timeouts.as_ref();
    let optional = [
        (CERTIFICATE_NAME, list(settings.certificate_names.clone())),
        (METRICS_ACL, list(readers.collect())),
        (METRICS_PORT, metrics_port),
        (SYSLOG, settings.syslog.clone()),
        (TIMEOUTS, timeouts.map(|it| format!("{{{it}}}"))),
    ];
    for (key, value) in optional {
        wanted.extend(value.map(|value| (key.to_owned(), value)));
    }
    wanted
}

/// What is to be written to metadata, and which keys go.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Difference {
    pub(crate) set: BTreeMap<String, String>,
    pub(crate) removed: Vec<&'static str>,
}

impl Difference {
    pub(crate) fn between(
        wanted: &BTreeMap<String, String>,
        there: &BTreeMap<String, TagValue>,
    ) -> Self {
        let differs = |key: &str, value: &str| {
            let there = there.get(key).map(ToString::to_string);
            there.as_deref() != Some(value)
        };
        let set = wanted.iter().filter(|(key, value)| differs(key, value));
        let stale = |key: &&str| there.contains_key(*key) && !wanted.contains_key(*key);
        Self {
            set: set
                .map(|(key, value)| (key.clone(), value.clone()))
                .collect(),
            removed: OPTIONAL.into_iter().filter(stale).collect(),
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.set.is_empty() && self.removed.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn there(pairs: &[(&str, &str)]) -> BTreeMap<String, TagValue> {
        let pairs = pairs.iter();
        pairs
            .map(|(key, value)| ((*key).to_owned(), TagValue::from(*value)))
            .collect()
    }

    #[test]
    fn slots_are_rounded_up_and_only_raised() {
        for (backends, wanted) in [(0, 32), (1, 32), (32, 32), (33, 64), (40, 64), (2000, 1024)] {
            assert_eq!(slots(backends), wanted, "{backends}");
        }
        let max_rs = |ordered, backends, before: &str| {
            let settings = ClbSettings {
                max_rs: ordered,
                ..ClbSettings::default()
            };
            wanted("", &settings, backends, Some(&there(&[(MAX_RS, before)])))[MAX_RS].clone()
        };
        assert_eq!(max_rs(None, 40, "32"), "64");
        assert_eq!(max_rs(None, 40, "96"), "96");
        assert_eq!(max_rs(None, 40, "many"), "64");
        assert_eq!(max_rs(None, 40, "9999"), "64");
        assert_eq!(max_rs(Some(48), 40, "96"), "48", "what is ordered counts");
    }

    #[test]
    fn only_three_keys_are_written_unless_more_is_said() {
        let plain = wanted("tcp://80:a:1", &ClbSettings::default(), 3, None);
        assert_eq!(
            plain
                .iter()
                .map(|(key, value)| (&**key, &**value))
                .collect::<Vec<_>>(),
            [
                ("cloud.tritoncompute:loadbalancer", "true"),
                ("cloud.tritoncompute:max_rs", "32"),
                ("cloud.tritoncompute:portmap", "tcp://80:a:1"),
            ]
        );
        let settings = ClbSettings {
            certificate_names: vec!["shop.example.com".to_owned(), "x".to_owned()],
            metrics_acl: ["10.0.0.0/8".parse().unwrap()].into(),
            metrics_port: Some(9000),
            syslog: Some("log:514".to_owned()),
            timeouts: Some("connect:5000,client:60000".to_owned()),
            ..ClbSettings::default()
        };
        let all = wanted("", &settings, 3, None);
        assert_eq!(all.len(), 8);
        assert_eq!(all[TIMEOUTS], "{connect:5000,client:60000}");
        assert_eq!(all[CERTIFICATE_NAME], "shop.example.com,x");
    }

    #[test]
    fn only_what_differs_is_written_and_only_what_we_wrote_goes() {
        let wanted = wanted("tcp://80:a:1", &ClbSettings::default(), 3, None);
        let mut found = there(&[
            (LOADBALANCER, "true"),
            (PORTMAP, "tcp://80:a:1"),
            (METRICS_ACL, "10.0.0.0/8"),
            ("user-script", "echo"),
            ("cloud.tritoncompute:newer", "x"),
        ]);
        found.insert(MAX_RS.to_owned(), TagValue::Number(32.into()));
        let difference = Difference::between(&wanted, &found);
        assert_eq!(
            (difference.set.len(), difference.removed),
            (0, vec![METRICS_ACL])
        );
        found.insert(PORTMAP.to_owned(), "tcp://80:a:2".into());
        let difference = Difference::between(&wanted, &found);
        assert!(difference.set.keys().eq([PORTMAP]) && !difference.is_empty());
    }
}
