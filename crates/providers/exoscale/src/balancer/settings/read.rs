//! The forms that the values of annotations have.

use bowline_core::parse_duration;
use uuid::Uuid;

use crate::id::hyphenated;

/// The most characters of a name, a description or a path.
const LONGEST: usize = 255;

/// A text that is not too long.
pub(super) fn text(text: &str) -> Option<String> {
    (text.chars().count() <= LONGEST).then(|| text.to_owned())
}

/// A uuid as the API writes it, in any case.
pub(super) fn uuid(text: &str) -> Option<Uuid> {
    hyphenated(text.trim())
}

pub(super) fn number(text: &str) -> Option<i64> {
    text.trim().parse().ok()
}

/// Whole seconds within those limits: what is more is cut off.
pub(super) fn seconds(text: &str, least: i64, most: i64) -> Option<i64> {
    let whole = || i64::try_from(parse_duration(text.trim()).ok()?.as_secs()).ok();
    let seconds = number(text).or_else(whole)?;
    (least..=most).contains(&seconds).then_some(seconds)
}
