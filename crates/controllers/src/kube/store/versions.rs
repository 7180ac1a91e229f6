//! Compares resource versions. They are numbers that grow within one resource; what is no number is
//! never older.

use super::Stored;

pub(crate) fn number(version: &str) -> Option<u64> {
    version.parse().ok()
}

/// Whether `a` is a later version of what has that key than `b`; false if that is not known. It need not be the same
/// object: of two that had one name, one came after the other.
pub(super) fn is_newer<T: Stored>(a: &T, b: &T) -> bool {
    let (a, b) = (number(a.resource_version()), number(b.resource_version()));
    a.zip(b).is_some_and(|(a, b)| a > b)
}
