//! Durations as Go writes them: `1h30m`, `1.5s`, `100ms`.

use std::time::Duration;

const NANOSECOND: u128 = 1;
const MICROSECOND: u128 = 1_000;
const MILLISECOND: u128 = 1_000_000;
const SECOND: u128 = 1_000_000_000;
const MINUTE: u128 = 60 * SECOND;
const HOUR: u128 = 60 * MINUTE;
/// Go keeps a duration in 63 bits of nanoseconds, about 292 years.
const LONGEST: u128 = i64::MAX as u128;

/// Reads a duration; the error is the text that Go gives for the same input.
///
/// A negative duration makes no sense for any flag; it is refused here instead of spinning a loop
/// later, as the originals do.
pub fn parse_duration(text: &str) -> Result<Duration, String> {
    let invalid = || format!("time: invalid duration {}", crate::quote(text));
    let (negative, mut rest) = match text.as_bytes().first() {
        Some(b'-') => (true, &text[1..]),
        Some(b'+') => (false, &text[1..]),
        _ => (false, text),
    };
    if rest == "0" {
        return Ok(Duration::ZERO);
    }
    if rest.is_empty() {
        return Err(invalid());
    }
    let mut total: u128 = 0;
    while !rest.is_empty() {
        let number_end = rest
            .find(|c: char| !c.is_ascii_digit() && c != '.')
            .unwrap_or(rest.len());
        let (number, tail) = rest.split_at(number_end);
        let unit_end = tail
            .find(|c: char| c.is_ascii_digit() || c == '.')
            .unwrap_or(tail.len());
        let (unit_name, next) = tail.split_at(unit_end);
        let part = Number::read(number).ok_or_else(invalid)?;
        if unit_name.is_empty() {
            return Err(format!(
                "time: missing unit in duration {}",
                crate::quote(text)
            ));
        }
        let unit = unit(unit_name).ok_or_else(|| {
            let (unit, whole) = (crate::quote(unit_name), crate::quote(text));
            format!("time: unknown unit {unit} in duration {whole}")
        })?;
        total = total
            .checked_add(part.times(unit).ok_or_else(invalid)?)
            .ok_or_else(invalid)?;
        if total > LONGEST {
            return Err(invalid());
        }
        rest = next;
    }
    if negative && total > 0 {
        return Err("must not be negative".to_owned());
    }
    Ok(from_nanoseconds(total))
}

/// Writes a duration the way Go does: `1h0m0s`, `5m0s`, `1.5s`, `100ms`, `0s`.
pub fn format_duration(duration: Duration) -> String {
    let nanoseconds = duration.as_nanos();
    if nanoseconds == 0 {
        return "0s".to_owned();
    }
    if nanoseconds < SECOND {
        let (unit, name) = match nanoseconds {
            n if n < MICROSECOND => (NANOSECOND, "ns"),
            n if n < MILLISECOND => (MICROSECOND, "µs"),
            _ => (MILLISECOND, "ms"),
        };
        return format!("{}{name}", decimal(nanoseconds, unit));
    }
    let (hours, minutes) = (nanoseconds / HOUR, nanoseconds % HOUR / MINUTE);
    let seconds = decimal(nanoseconds % MINUTE, SECOND);
    match (hours, minutes) {
        (0, 0) => format!("{seconds}s"),
        (0, _) => format!("{minutes}m{seconds}s"),
        _ => format!("{hours}h{minutes}m{seconds}s"),
    }
}

/// A decimal number without its point: `digits` / 10^`places`.
struct Number {
    digits: u128,
    places: u32,
}

impl Number {
    fn read(text: &str) -> Option<Self> {
        let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
        if (whole.is_empty() && fraction.is_empty()) || fraction.contains('.') {
            return None;
        }
        // Beyond 15 places nothing reaches a nanosecond any more; Go drops them too.
        let fraction = &fraction[..fraction.len().min(15)];
        let digits = format!("0{whole}{fraction}").parse().ok()?;
        let places = u32::try_from(fraction.len()).ok()?;
        Some(Self { digits, places })
    }

    fn times(&self, unit: u128) -> Option<u128> {
        Some(self.digits.checked_mul(unit)? / 10_u128.pow(self.places))
    }
}

fn unit(name: &str) -> Option<u128> {
    Some(match name {
        "ns" => NANOSECOND,
        "us" | "µs" | "μs" => MICROSECOND,
        "ms" => MILLISECOND,
        "s" => SECOND,
        "m" => MINUTE,
        "h" => HOUR,
        _ => return None,
    })
}

fn from_nanoseconds(total: u128) -> Duration {
    let seconds = u64::try_from(total / SECOND).unwrap_or(u64::MAX);
    Duration::new(seconds, u32::try_from(total % SECOND).unwrap_or_default())
}

/// `value` / `unit` with as many decimal places as it needs.
fn decimal(value: u128, unit: u128) -> String {
    let (whole, rest) = (value / unit, value % unit);
    if rest == 0 {
        return whole.to_string();
    }
    let width = usize::try_from(unit.ilog10()).unwrap_or_default();
    let fraction = format!("{rest:0width$}");
    format!("{whole}.{}", fraction.trim_end_matches('0'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn go_durations_are_read_and_written_the_way_go_does() {
        for (text, nanoseconds, written) in [
            ("0", 0, "0s"),
            ("0s", 0, "0s"),
            ("-0s", 0, "0s"),
            ("5s", 5_000_000_000, "5s"),
            ("+5s", 5_000_000_000, "5s"),
            ("5m", 300_000_000_000, "5m0s"),
            ("1h", 3_600_000_000_000, "1h0m0s"),
            ("12h0m0s", 43_200_000_000_000, "12h0m0s"),
            ("1.5h", 5_400_000_000_000, "1h30m0s"),
            ("1m30s", 90_000_000_000, "1m30s"),
            ("90s", 90_000_000_000, "1m30s"),
            ("1.5s", 1_500_000_000, "1.5s"),
            ("100ms", 100_000_000, "100ms"),
            ("1500ms", 1_500_000_000, "1.5s"),
            ("1us", 1_000, "1µs"),
            ("1500ns", 1_500, "1.5µs"),
            ("7ns", 7, "7ns"),
            (".5s", 500_000_000, "500ms"),
            ("5.s", 5_000_000_000, "5s"),
            ("100h", 360_000_000_000_000, "100h0m0s"),
            ("1h1ms", 3_600_001_000_000, "1h0m0.001s"),
        ] {
            let duration = parse_duration(text).unwrap();
            assert_eq!(duration.as_nanos(), nanoseconds, "{text}");
            assert_eq!(format_duration(duration), written, "{text}");
            assert_eq!(
                parse_duration(written),
                Ok(duration),
                "{text} survives a round trip"
            );
        }
    }

    #[test]
    fn bad_durations_are_refused_with_the_reason_go_gives() {
        for (text, reason) in [
            ("5", r#"time: missing unit in duration "5""#),
            ("", r#"time: invalid duration """#),
            ("-", r#"time: invalid duration "-""#),
            ("x", r#"time: invalid duration "x""#),
            (".s", r#"time: invalid duration ".s""#),
            ("1.2.3s", r#"time: invalid duration "1.2.3s""#),
            ("5x", r#"time: unknown unit "x" in duration "5x""#),
            ("5 s", r#"time: unknown unit " s" in duration "5 s""#),
            ("3d", r#"time: unknown unit "d" in duration "3d""#),
            ("9999999h", r#"time: invalid duration "9999999h""#),
            ("-5s", "must not be negative"),
        ] {
            assert_eq!(parse_duration(text).unwrap_err(), reason, "{text}");
        }
    }
}
