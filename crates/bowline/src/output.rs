//! Writing to the user. A reader that has gone away is no error.

use std::fmt::Display;
use std::io::Write;

use bowline_core::error_chain;

/// Writes lines to standard output.
pub(crate) fn tell(text: impl Display) {
    let _ = writeln!(std::io::stdout(), "{text}");
}

/// Writes lines to standard error.
pub(crate) fn complain(text: impl Display) {
    let _ = writeln!(std::io::stderr(), "{text}");
}

/// Writes an error with its causes.
pub(crate) fn fail(error: &anyhow::Error) {
    complain(format_args!("Error: {}", error_chain(error.as_ref())));
}
