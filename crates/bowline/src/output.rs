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

/// Writes an error with its causes. Libraries often repeat a cause in their own words; what was
/// said is not said again.
pub(crate) fn fail(error: &anyhow::Error) {
    complain(format_args!("Error: {}", causes(error)));
}

fn causes(error: &anyhow::Error) -> String {
    let mut text = error.to_string();
    for cause in error.chain().skip(1) {
        let words = cause.to_string();
        if !text.contains(words.trim_end()) {
            text = format!("{text}: {words}");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug)]
    struct Repeats(std::io::Error);

    impl std::fmt::Display for Repeats {
        fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            write!(f, "reading: {}", self.0)
        }
    }

    impl std::error::Error for Repeats {
        fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
            Some(&self.0)
        }
    }

    #[test]
    fn a_cause_that_was_told_is_not_told_again() {
        let missing = std::io::Error::other("no such file");
        let error = anyhow::Error::new(Repeats(missing)).context("cannot use x");
        assert_eq!(causes(&error), "cannot use x: reading: no such file");
    }
}
