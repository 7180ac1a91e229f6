//! What docs/simulators.md says about this suite.

use std::fmt::Write as _;

use crate::compare::{Known, Whose};
use crate::story::Story;

const START: &str = "<!-- conformance: written by its test -->";
const END: &str = "<!-- /conformance -->";

/// The page with its part about this suite replaced.
pub(crate) fn with(page: &str, part: &str) -> String {
    let (before, rest) = page
        .split_once(START)
        .expect("the mark where the part starts");
    let (_, after) = rest.split_once(END).expect("the mark where the part ends");
    format!("{before}{START}\n\n{part}\n{END}{after}")
}

/// The tables of stories and of differences.
pub(crate) fn tables(stories: &[Story], table: &[Known]) -> String {
    let mut text = String::from("| Story | Requests | About |\n|---|---|---|\n");
    for story in stories {
        let _ = writeln!(
            text,
            "| {} | {} | {} |",
            story.name,
            story.requests(),
            story.about
        );
    }
    let count: usize = stories.iter().map(Story::requests).sum();
    let _ = writeln!(text, "| | {count} | |\n");
    text.push_str("| Where the server in memory differs | Why |\n|---|---|\n");
    rows(&mut text, table, |known| known.server == Whose::InMemory);
    text.push_str("\n| Where older real servers differ | Why |\n|---|---|\n");
    rows(&mut text, table, |known| known.server != Whose::InMemory);
    text
}

fn rows(text: &mut String, table: &[Known], wanted: fn(&Known) -> bool) {
    for known in table.iter().filter(|known| wanted(known)) {
        let versions = match known.server {
            Whose::InMemory => String::new(),
            Whose::Real(first, last) if first == last => format!("1.{first}, "),
            Whose::Real(first, last) => format!("1.{first} to 1.{last}, "),
        };
        let steps = known.steps.join("; ");
        let _ = writeln!(
            text,
            "| {versions}{}: {steps} | {} |",
            known.story, known.reason
        );
    }
}
