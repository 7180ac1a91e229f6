//! The forms that the values of annotations have.

use std::collections::BTreeMap;

use bowline_core::parse_duration;
use uuid::Uuid;

use crate::id::hyphenated;

/// The most characters of a name, a description or a path.
const LONGEST: usize = 255;

/// The most characters of a label's key or value.
const LONGEST_LABEL: usize = 63;
/// What the keys of our own labels begin with.
const MARKS: [&str; 2] = ["bowline", "k8s-"];

pub(super) fn text(text: &str) -> Option<String> {
    (text.chars().count() <= LONGEST).then(|| text.to_owned())
}

/// A uuid as the API writes it, in any case.
pub(super) fn uuid(text: &str) -> Option<Uuid> {
    hyphenated(text.trim())
}

/// Labels as `key=value,…`: none that begin as marks do, which show the owner of a load balancer.
pub(super) fn labels(text: &str) -> Option<BTreeMap<String, String>> {
    let pairs = text.split(',').map(|pair| {
        let (key, value) = pair.split_once('=')?;
        let (key, value) = (key.trim(), value.trim());
        let is_short = |text: &str| text.chars().count() <= LONGEST_LABEL;
        let is_mark = MARKS.iter().any(|mark| key.starts_with(mark));
        let fits = !key.is_empty() && is_short(key) && is_short(value) && !is_mark;
        fits.then(|| (key.to_owned(), value.to_owned()))
    });
    pairs.collect()
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
