//! What is asked: stories of requests, written down as data.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde_json::Value;

/// A sequence of requests in a namespace of its own.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Story {
    /// The name of its file.
    #[serde(skip)]
    pub(crate) name: String,
    pub(crate) about: String,
    /// The requests, in order.
    pub(crate) steps: Vec<Step>,
}

/// One request, or one look at an open watch.
///
/// `$ns`, `$run` and kept values are filled into paths, headers and bodies.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Step {
    /// What happens, in words; unique within the story.
    #[serde(rename = "step")]
    pub(crate) what: String,
    /// Method and path with query: `GET /api/v1/nodes?limit=1`.
    pub(crate) send: Option<String>,
    /// Who asks.
    #[serde(default, rename = "as")]
    pub(crate) caller: Caller,
    /// Further headers.
    #[serde(default)]
    pub(crate) headers: BTreeMap<String, String>,
    /// The body, sent as JSON.
    pub(crate) body: Option<Value>,
    /// The body as it is.
    pub(crate) text: Option<String>,
    /// The body in base64, for what is no text.
    pub(crate) base64: Option<String>,
    /// Values of the answer that later steps need: a name and a JSON pointer.
    #[serde(default)]
    pub(crate) keep: BTreeMap<String, String>,
    /// Asks again until the answer has these values: pointers and what they lead to.
    #[serde(default)]
    pub(crate) until: BTreeMap<String, Value>,
    /// Leaves the answer open as a watch of this name.
    pub(crate) watch: Option<String>,
    /// Reads from the watch of this name instead of sending something.
    pub(crate) read: Option<String>,
    /// How many events are read.
    pub(crate) events: Option<usize>,
    /// Reads until the server ends the watch.
    #[serde(default)]
    pub(crate) to_end: bool,
    /// Leaves out of the answer what is not listed.
    #[serde(default)]
    pub(crate) pick: Vec<Pick>,
    /// Looks at these members of the body and no others.
    #[serde(default)]
    pub(crate) only: Vec<String>,
    /// Parts of the answer that differ from server to server by nature.
    #[serde(default)]
    pub(crate) varies: Vec<String>,
}

/// Who asks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Caller {
    /// Somebody who may do everything.
    #[default]
    Admin,
    /// Nobody, unless the headers say who.
    Nobody,
}

/// Keeps those elements of the lists at `at` whose `key` is one of `values`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Pick {
    /// A pointer to lists, in which `*` stands for every element.
    pub(crate) at: String,
    /// A pointer within an element.
    pub(crate) key: String,
    /// What it may be.
    pub(crate) values: Vec<String>,
}

/// The folder of this suite.
pub(crate) fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/conformance")
}

/// All stories, by name.
pub(crate) fn all() -> Vec<Story> {
    let entries = std::fs::read_dir(folder().join("stories")).unwrap();
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    paths.iter().map(|path| read(path)).collect()
}

fn read(path: &Path) -> Story {
    let text = std::fs::read_to_string(path).unwrap();
    let mut story: Story =
        serde_saphyr::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    path.file_stem()
        .unwrap()
        .to_str()
        .unwrap()
        .clone_into(&mut story.name);
    let mut names = BTreeSet::new();
    for step in &story.steps {
        let place = format!("{}: {}", story.name, step.what);
        assert!(
            names.insert(&step.what),
            "{place}: a step of that name twice"
        );
        assert!(
            step.send.is_some() != step.read.is_some(),
            "{place}: send or read, one of them"
        );
    }
    story
}

impl Story {
    /// How many of its steps send a request.
    pub(crate) fn requests(&self) -> usize {
        self.steps.iter().filter(|step| step.send.is_some()).count()
    }
}
