//! Differences between two answers, and the table of those that have a reason.

use serde::Deserialize;
use serde_json::Value;

use crate::story::{Story, folder};

/// A row of `differences.yaml`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Known {
    /// Whose answers differ from the records.
    pub(crate) server: Whose,
    pub(crate) story: String,
    /// Steps of it, each of which differs.
    pub(crate) steps: Vec<String>,
    /// Where: JSON pointers; everything below is meant too.
    pub(crate) at: Vec<String>,
    /// Why.
    pub(crate) reason: String,
}

/// Whose answers a row is about.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub(crate) enum Whose {
    /// The in-memory server.
    InMemory,
    /// Real servers of these minor versions.
    Real(u32, u32),
}

impl TryFrom<String> for Whose {
    type Error = String;

    /// `in-memory`, `1.35`, or `1.34 to 1.35`.
    fn try_from(text: String) -> Result<Self, String> {
        if text == "in-memory" {
            return Ok(Self::InMemory);
        }
        let minor = |text: &str| {
            let digits = text.strip_prefix("1.").unwrap_or(text);
            digits.parse::<u32>().map_err(|_| {
                format!("{text:?}: in-memory, a version such as 1.35, or 1.34 to 1.35")
            })
        };
        let (first, last) = text.split_once(" to ").unwrap_or((&text, &text));
        Ok(Self::Real(minor(first)?, minor(last)?))
    }
}

/// Who answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answering {
    /// The in-memory server.
    InMemory,
    /// A real server of this minor version.
    Real(u32),
}

impl Known {
    fn is_about(&self, answering: Answering) -> bool {
        match (&self.server, answering) {
            (Whose::InMemory, Answering::InMemory) => true,
            (Whose::Real(first, last), Answering::Real(minor)) => (*first..=*last).contains(&minor),
            _ => false,
        }
    }
}

/// The table; its rows name steps that exist.
pub(crate) fn table(stories: &[Story]) -> Vec<Known> {
    let text = std::fs::read_to_string(folder().join("differences.yaml")).unwrap();
    let table: Vec<Known> = serde_saphyr::from_str(&text).unwrap();
    for known in &table {
        let story = stories.iter().find(|story| story.name == known.story);
        let story = story.unwrap_or_else(|| panic!("no such story: {known:?}"));
        for name in &known.steps {
            let known_step = story.steps.iter().any(|step| step.what == *name);
            assert!(known_step, "no such step: {} / {name}", known.story);
        }
    }
    table
}

/// A place where two answers differ.
#[derive(Debug)]
pub(crate) struct Difference {
    pub(crate) story: String,
    pub(crate) step: String,
    pub(crate) at: String,
    pub(crate) recorded: Value,
    pub(crate) found: Value,
}

impl std::fmt::Display for Difference {
    fn fmt(&self, out: &mut std::fmt::Formatter) -> std::fmt::Result {
        write!(
            out,
            "{} / {}: {}\n  recorded {}\n  found    {}",
            self.story, self.step, self.at, self.recorded, self.found
        )
    }
}

/// The outcome of a comparison.
#[derive(Debug, Default)]
pub(crate) struct Outcome {
    pub(crate) explained: usize,
    pub(crate) unexplained: Vec<Difference>,
    /// Rows of the table that explain nothing any more.
    pub(crate) stale: Vec<String>,
}

/// Compares the answers of all stories with their records.
pub(crate) fn compare(
    stories: &[Story],
    recorded: &[Vec<Value>],
    found: &[Vec<Value>],
    table: &[Known],
    answering: Answering,
) -> Outcome {
    let mut differences = Vec::new();
    for ((story, recorded), found) in stories.iter().zip(recorded).zip(found) {
        for (index, step) in story.steps.iter().enumerate() {
            let record = recorded.get(index).unwrap_or(&Value::Null);
            let mut places = Vec::new();
            differ("", record, &found[index], &mut places);
            differences.extend(places.into_iter().map(|(at, recorded, found)| Difference {
                story: story.name.clone(),
                step: step.what.clone(),
                at,
                recorded,
                found,
            }));
        }
    }
    let known: Vec<&Known> = table
        .iter()
        .filter(|known| known.is_about(answering))
        .collect();
    let mut stale = Vec::new();
    for known in &known {
        let used = |step: &&String| {
            differences
                .iter()
                .any(|difference| difference.step == **step && known.explains(difference))
        };
        let unused = known.steps.iter().filter(|step| !used(step));
        stale.extend(unused.map(|step| format!("{} / {step}", known.story)));
    }
    let (explained, unexplained): (Vec<_>, Vec<_>) = differences
        .into_iter()
        .partition(|difference| known.iter().any(|known| known.explains(difference)));
    Outcome {
        explained: explained.len(),
        unexplained,
        stale,
    }
}

impl Known {
    fn explains(&self, difference: &Difference) -> bool {
        let covers = |at: &String| {
            let below = difference.at.strip_prefix(at.as_str());
            below.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        self.story == difference.story
            && self.steps.contains(&difference.step)
            && self.at.iter().any(covers)
    }
}

type Place = (String, Value, Value);

/// Finds the places where two documents differ, as deep as can be told.
fn differ(at: &str, recorded: &Value, found: &Value, places: &mut Vec<Place>) {
    match (recorded, found) {
        (Value::Object(left), Value::Object(right)) => {
            let keys = left
                .keys()
                .chain(right.keys().filter(|key| !left.contains_key(*key)));
            for key in keys {
                let at = format!("{at}/{}", key.replace('~', "~0").replace('/', "~1"));
                let (left, right) = (left.get(key), right.get(key));
                // What is missing is not the same as what is null.
                let missing = Value::String("<missing>".to_owned());
                differ(
                    &at,
                    left.unwrap_or(&missing),
                    right.unwrap_or(&missing),
                    places,
                );
            }
        }
        (Value::Array(left), Value::Array(right)) if left.len() == right.len() => {
            for (index, (left, right)) in left.iter().zip(right).enumerate() {
                differ(&format!("{at}/{index}"), left, right, places);
            }
        }
        _ if recorded == found => {}
        _ => places.push((at.to_owned(), recorded.clone(), found.clone())),
    }
}
