//! Token buckets: one for each account and group of endpoints.

use std::collections::BTreeMap;

use jiff::Timestamp;

use super::config::Throttle;

/// A token in thousandths, so that a bucket refills evenly.
const TOKEN: i64 = 1000;

/// The buckets that have been used.
#[derive(Debug, Default)]
pub(super) struct Buckets(BTreeMap<(String, &'static str), (i64, Timestamp)>);

impl Buckets {
    /// Takes a token; false if there is none.
    pub(super) fn take(
        &mut self,
        account: &str,
        group: &'static str,
        limits: Throttle,
        now: Timestamp,
    ) -> bool {
        let full = i64::from(limits.burst) * TOKEN;
        let bucket = self
            .0
            .entry((account.to_owned(), group))
            .or_insert((full, now));
        let passed = (now.as_millisecond() - bucket.1.as_millisecond()).max(0);
        bucket.0 = bucket
            .0
            .saturating_add(passed.saturating_mul(i64::from(limits.rate)))
            .min(full);
        bucket.1 = now;
        let enough = bucket.0 >= TOKEN;
        if enough {
            bucket.0 -= TOKEN;
        }
        enough
    }
}

/// The group of an endpoint, by the first word of its path behind the account.
pub(super) fn group(word: &str) -> &'static str {
    match word {
        "machines" | "fwrules" => "machines",
        "networks" => "networks",
        "fabrics" => "fabrics",
        "packages" => "packages",
        "images" => "images",
        "datacenters" => "datacenters",
        "services" => "services",
        "keys" => "keys",
        "users" | "roles" | "policies" => "users",
        "changefeed" => "changefeed",
        "config" => "config",
        _ => "account",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_holds_its_burst_and_refills_evenly() {
        let mut buckets = Buckets::default();
        let limits = Throttle::default();
        let at = |ms: i64| Timestamp::from_millisecond(1_000_000 + ms).unwrap();
        for _ in 0..30 {
            assert!(buckets.take("acme", "machines", limits, at(0)));
        }
        assert!(!buckets.take("acme", "machines", limits, at(99)));
        assert!(buckets.take("acme", "machines", limits, at(100)));
        assert!(!buckets.take("acme", "machines", limits, at(100)));
        assert!(buckets.take("acme", "networks", limits, at(100)));
        assert!(buckets.take("other", "machines", limits, at(100)));
    }
}
