//! What the guest tools of a VM tell about its addresses, and what Xen Orchestra makes of it.

use std::collections::BTreeMap;
use std::net::IpAddr;

/// What a key of the guest's data is about: its network card, and whether IPv4 or IPv6.
fn parts(key: &str) -> Option<(u32, bool)> {
    let (card, rest) = key.split_once('/')?;
    let card = card.parse().ok()?;
    let numbered = |number: &str| number.parse::<u32>().is_ok();
    if rest == "ip" || rest.strip_prefix("ipv4/").is_some_and(numbered) {
        Some((card, true))
    } else if rest.strip_prefix("ipv6/").is_some_and(numbered) {
        Some((card, false))
    } else {
        None
    }
}

/// `mainIpAddress`: the first value of IPv4 in the order of the keys as texts, whatever it is, else the
/// first of IPv6.
pub(super) fn main_address(raw: &BTreeMap<String, String>) -> Option<&str> {
    let first = |wanted: bool| {
        let mut all = raw.iter();
        let found = all.find(|(key, _)| parts(key).is_some_and(|(_, v4)| v4 == wanted));
        found.map(|(_, value)| value.as_str())
    };
    first(true).or_else(|| first(false))
}

/// `addresses`: what are addresses, once for each card, numbered anew.
pub(super) fn addresses(raw: &BTreeMap<String, String>) -> BTreeMap<String, String> {
    let mut found: BTreeMap<(u32, bool), Vec<String>> = BTreeMap::new();
    for (key, value) in raw {
        let Some((card, v4)) = parts(key) else {
            continue;
        };
        let known = found.entry((card, v4)).or_default();
        for word in value.split_whitespace() {
            let Ok(address) = word.parse::<IpAddr>() else {
                continue;
            };
            let address = address.to_string();
            if !known.contains(&address) {
                known.push(address);
            }
        }
    }
    let named = found.into_iter().flat_map(|((card, v4), all)| {
        let version = if v4 { "ipv4" } else { "ipv6" };
        let numbered = all.into_iter().enumerate();
        numbered.map(move |(number, address)| (format!("{card}/{version}/{number}"), address))
    });
    named.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_made_of_what_the_guest_tells() {
        type Pairs<'a> = &'a [(&'a str, &'a str)];
        let rows: [(Pairs<'_>, Option<&str>, Pairs<'_>); 7] = bowline_simulator::table![
            &[("0/ip", "10.20.0.11"), ("0/ipv4/0", "10.20.0.11"), ("0/ipv6/0", "2001:db8::11")],
                Some("10.20.0.11"), &[("0/ipv4/0", "10.20.0.11"), ("0/ipv6/0", "2001:db8::11")];
            &[("0/ip", "10.20.0.11 10.20.0.100")], Some("10.20.0.11 10.20.0.100"),
                &[("0/ipv4/0", "10.20.0.11"), ("0/ipv4/1", "10.20.0.100")];
            &[("0/ip", ""), ("1/ip", "10.9.9.9")], Some(""), &[("1/ipv4/0", "10.9.9.9")];
            &[("0/ipv6/0", "fe80::1"), ("0/ipv6/1", "2001:DB8::5")], Some("fe80::1"),
                &[("0/ipv6/0", "fe80::1"), ("0/ipv6/1", "2001:db8::5")];
            &[("2/ip", "10.0.2.1"), ("10/ip", "10.0.10.1")], Some("10.0.10.1"),
                &[("10/ipv4/0", "10.0.10.1"), ("2/ipv4/0", "10.0.2.1")];
            &[], None, &[];
            &[("name", "10.0.0.1"), ("0/mac", "x")], None, &[];
        ];
        let map = |pairs: Pairs<'_>| -> BTreeMap<String, String> {
            let owned = pairs
                .iter()
                .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
            owned.collect()
        };
        for (raw, main, clean) in rows {
            let raw = map(raw);
            assert_eq!(main_address(&raw), main, "{raw:?}");
            assert_eq!(addresses(&raw), map(clean), "{raw:?}");
        }
    }
}
