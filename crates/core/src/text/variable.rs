//! Settings of a provider as rows: environment variables and keys of files. Its reader asks for them by
//! row, and its reference page is made of the rows.

use std::fmt::Write as _;

/// One environment variable, or one key of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Variable {
    /// Its name.
    pub name: &'static str,
    /// What it is for.
    pub meaning: &'static str,
    /// What holds without it.
    pub default: &'static str,
    /// Which values are taken.
    pub allowed: &'static str,
}

/// A table of a reference page, in Markdown; `title` says what the rows are.
pub fn variable_table(title: &str, rows: &[Variable]) -> String {
    let mut table = format!("| {title} | Default | Allowed | Meaning |\n|---|---|---|---|\n");
    for row in rows {
        let Variable {
            name,
            meaning,
            default,
            allowed,
        } = row;
        // Writing to a string cannot fail.
        let _ = writeln!(table, "| `{name}` | {default} | {allowed} | {meaning} |");
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_row_is_a_line() {
        let row = Variable {
            name: "DEMO_ZONE",
            meaning: "The zone.",
            default: "none",
            allowed: "a zone",
        };
        assert_eq!(
            variable_table("Variable", &[row]),
            "| Variable | Default | Allowed | Meaning |\n|---|---|---|---|\n\
             | `DEMO_ZONE` | none | a zone | The zone. |\n"
        );
    }
}
