//! A plan as text, for people.

use std::fmt::Write as _;

use serde_json::{Map, Value};

use super::{Change, Plan, ResourceState, Step, Verb};

/// Lines that list attributes are broken before they are longer than this, where that can be.
const WIDTH: usize = 100;
/// So many things of one kind in a row are listed; further ones are counted. Two hundred members
/// would hide the rest.
const LISTED: usize = 12;

impl Plan {
    /// The plan in sections: what exists, what is wanted, steps, problems, notices. Each line ends
    /// with a line feed.
    pub fn text(&self) -> String {
        let mut text = String::new();
        section(&mut text, "Exists", &self.exists());
        section(&mut text, "Wanted", &self.wishes());
        let steps = self.steps.iter().enumerate();
        let steps: Vec<String> = steps.flat_map(|(at, step)| step.lines(at + 1)).collect();
        section(&mut text, "Steps", &steps);
        let problems = self.problems.iter();
        let problems: Vec<String> = problems
            .map(|it| format!("  {}: {}", it.reason, it.message))
            .collect();
        section(&mut text, "Problems", &problems);
        let notices = self.notices.iter().map(|it| {
            let warning = if it.warning { "warning " } else { "" };
            format!("  {warning}{}: {}", it.reason, it.message)
        });
        section(&mut text, "Notices", &notices.collect::<Vec<_>>());
        text
    }

    fn exists(&self) -> Vec<String> {
        if self.unread {
            return vec!["  not looked at while there are problems".into()];
        }
        if self.found.is_empty() {
            return vec!["  nothing".into()];
        }
        listed(&self.found.iter().collect::<Vec<_>>())
    }

    /// What differs from what exists is listed, the rest counted.
    fn wishes(&self) -> Vec<String> {
        let exists = |wanted: &&ResourceState| self.found.iter().any(|it| it.is_as(wanted));
        let (same, other): (Vec<&ResourceState>, Vec<&ResourceState>) =
            self.wanted.iter().partition(exists);
        let mut lines = listed(&other);
        match (same.len(), other.len()) {
            (0, 0) if self.problems.is_empty() => lines.push("  nothing".into()),
            (0, 0) => lines.push("  unknown until the problems are fixed".into()),
            (0, _) => {}
            (_, 0) => lines.push("  all of it as it exists".into()),
            (1, _) => lines.push("  and 1 thing as it exists".into()),
            (count, _) => lines.push(format!("  and {count} things as they exist")),
        }
        lines
    }
}

/// A title and lines under it; nothing if there are none.
pub(crate) fn section(text: &mut String, title: &str, lines: &[String]) {
    if lines.is_empty() {
        return;
    }
    let _ = writeln!(text, "\n{title}:");
    for line in lines {
        let _ = writeln!(text, "{line}");
    }
}

fn listed(things: &[&ResourceState]) -> Vec<String> {
    let mut lines = Vec::new();
    for row in things.chunk_by(|one, next| one.object.kind == next.object.kind) {
        lines.extend(row.iter().take(LISTED).flat_map(|thing| thing.lines()));
        if row.len() > LISTED {
            let kind = row[0].object.kind;
            lines.push(format!("  {kind}: {} more", row.len() - LISTED));
        }
    }
    lines
}

impl ResourceState {
    fn lines(&self) -> Vec<String> {
        let mut lines = vec![format!(
            "  {}{}",
            self.object,
            id(self.object.id.as_deref())
        )];
        lines.extend(attributes(&self.attributes));
        lines
    }
}

impl Step {
    fn lines(&self, number: usize) -> Vec<String> {
        let object = &self.object;
        let mut line = format!("{number:>3}. {} {object}", self.verb);
        line.push_str(&id(object.id.as_deref()));
        let mut remarks = Vec::new();
        if self.verb != Verb::Wait {
            remarks.push(self.impact.to_string());
        }
        remarks.extend(self.reason.clone());
        if !self.needs.is_empty() {
            let needs: Vec<String> = self.needs.iter().map(|it| (it + 1).to_string()).collect();
            remarks.push(format!("after {}", needs.join(", ")));
        }
        if !remarks.is_empty() {
            let _ = write!(line, ": {}", remarks.join("; "));
        }
        let mut lines = vec![line];
        if self.verb == Verb::Create {
            let made = self
                .changes
                .iter()
                .map(|it| (it.field.clone(), it.after.clone()));
            lines.extend(attributes(&made.collect()));
        } else {
            lines.extend(self.changes.iter().map(Change::line));
        }
        lines
    }
}

impl Change {
    /// From what it is to what it becomes, indented.
    pub(crate) fn line(&self) -> String {
        format!("       {}: {} → {}", self.field, self.before, self.after)
    }
}

fn id(id: Option<&str>) -> String {
    id.map_or_else(String::new, |id| format!(" ({id})"))
}

/// All attributes, several to a line.
fn attributes(all: &Map<String, Value>) -> Vec<String> {
    const INDENT: &str = "       ";
    let mut lines: Vec<String> = Vec::new();
    for (key, value) in all {
        let word = format!("{key}={value}");
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + word.chars().count() <= WIDTH => {
                line.push(' ');
                line.push_str(&word);
            }
            _ => lines.push(format!("{INDENT}{word}")),
        }
    }
    lines
}
