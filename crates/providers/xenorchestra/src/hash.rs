//! Names that are always the same for the same object.

use std::fmt::Write as _;

/// The first twelve hexadecimal digits of the SHA-256 of a text.
pub(crate) fn short_hash(text: &str) -> String {
    let digest = ring::digest::digest(&ring::digest::SHA256, text.as_bytes());
    let mut hex = String::new();
    for byte in &digest.as_ref()[..6] {
        // Writing to a string cannot fail.
        let _ = write!(hex, "{byte:02x}");
    }
    hex
}
