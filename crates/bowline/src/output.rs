//! Writing to the user. A reader that has gone away is no error.

use std::fmt::Display;
use std::io::Write;

/// Writes lines to standard output.
pub(crate) fn tell(text: impl Display) {
    let _ = writeln!(std::io::stdout(), "{text}");
}

/// Writes lines to standard error.
pub(crate) fn complain(text: impl Display) {
    let _ = writeln!(std::io::stderr(), "{text}");
}
