//! Durations as Go programs take them: `10m`, `1h30m`, `1.5h`, `0`.

use std::time::Duration;

/// Units by name, the longer name first where one begins another.
const UNITS: [(&str, f64); 8] = [
    ("ms", 1e-3),
    ("us", 1e-6),
    ("µs", 1e-6),
    ("μs", 1e-6),
    ("ns", 1e-9),
    ("h", 3600.0),
    ("m", 60.0),
    ("s", 1.0),
];

/// Reads such a duration; none if it is not one, or negative, or beyond `longest`.
pub(super) fn parse(text: &str, longest: Duration) -> Option<Duration> {
    let mut rest = text.strip_prefix('+').unwrap_or(text);
    if rest == "0" {
        return Some(Duration::ZERO);
    }
    let mut seconds = 0.0;
    if rest.is_empty() {
        return None;
    }
    while !rest.is_empty() {
        let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let number: f64 = rest[..end].parse().ok()?;
        let (unit, factor) = UNITS
            .iter()
            .find(|(unit, _)| rest[end..].starts_with(unit))?;
        seconds += number * factor;
        rest = &rest[end + unit.len()..];
    }
    Duration::try_from_secs_f64(seconds)
        .ok()
        .filter(|duration| *duration <= longest)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn durations_are_read_as_go_reads_them() {
        let seconds = |s: f64| Some(Duration::from_secs_f64(s));
        for (text, wanted) in [
            ("10m", seconds(600.0)),
            ("1h30m", seconds(5400.0)),
            ("1.5h", seconds(5400.0)),
            (".5s", seconds(0.5)),
            ("250ms", seconds(0.25)),
            ("1m0.5s", seconds(60.5)),
            ("+3s", seconds(3.0)),
            ("0", seconds(0.0)),
            ("0s", seconds(0.0)),
            ("10us", seconds(0.00001)),
            ("24h", seconds(86400.0)),
            ("24h1s", None),
            ("10", None),
            ("m", None),
            ("-5m", None),
            ("5 m", None),
            ("1.2.3s", None),
            (".s", None),
            ("5d", None),
            ("+", None),
            ("", None),
        ] {
            assert_eq!(parse(text, Duration::from_secs(86400)), wanted, "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn no_text_is_too_strange(text in "[0-9.hmsuµn+ -]{0,40}") {
            let longest = Duration::from_secs(100);
            prop_assert!(parse(&text, longest).is_none_or(|read| read <= longest));
        }
    }
}
