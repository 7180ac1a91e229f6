//! Ages, the way people read them: `3m12s`, `5d`.

use jiff::Timestamp;
use serde_json::Value;

/// A span in at most two units, coarser as it grows.
pub fn human_duration(seconds: i64) -> String {
    const MINUTE: i64 = 60;
    const HOUR: i64 = 60 * MINUTE;
    const DAY: i64 = 24 * HOUR;
    const YEAR: i64 = 365 * DAY;
    let pair = |unit: i64, name: &str, small: i64, small_name: &str| {
        let (big, rest) = (seconds / unit, seconds % unit / small);
        if rest == 0 {
            format!("{big}{name}")
        } else {
            format!("{big}{name}{rest}{small_name}")
        }
    };
    match seconds {
        // Clocks may disagree a little; more than that is an error somewhere.
        ..-1 => "<invalid>".to_owned(),
        -1 => "0s".to_owned(),
        0..120 => format!("{seconds}s"),
        120..600 => pair(MINUTE, "m", 1, "s"),
        600..10_800 => format!("{}m", seconds / MINUTE),
        10_800..28_800 => pair(HOUR, "h", MINUTE, "m"),
        28_800..172_800 => format!("{}h", seconds / HOUR),
        172_800..691_200 => pair(DAY, "d", HOUR, "h"),
        _ if seconds < 2 * YEAR => format!("{}d", seconds / DAY),
        _ if seconds < 8 * YEAR => pair(YEAR, "y", DAY, "d"),
        _ => format!("{}y", seconds / YEAR),
    }
}

/// The age of a moment that an object carries.
pub(super) fn since(moment: &Value, now: Timestamp) -> String {
    let moment = moment
        .as_str()
        .and_then(|text| text.parse::<Timestamp>().ok());
    moment.map_or_else(
        || "<unknown>".to_owned(),
        |moment| human_duration(now.duration_since(moment).as_secs()),
    )
}
