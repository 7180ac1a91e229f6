//! The names that users rely on stay: flags, settings, annotations, labels, events, conditions, metrics and JSON keys.
//!
//! `names.txt` records them. A name may be added to it (`BOWLINE_WRITE_NAMES=1`), and goes only by hand, with an entry in
//! CHANGELOG.md.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may")]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use regex::Regex;

fn root() -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    root.canonicalize().unwrap()
}

/// Files of that kind under a folder.
fn files(folder: &Path, ending: &str, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files(&path, ending, found);
        } else if path.to_string_lossy().ends_with(ending) {
            found.push(path);
        }
    }
}

/// The program's own sources: no tests, and nothing of the simulators.
fn sources() -> String {
    let (root, mut all) = (root(), Vec::new());
    files(&root.join("crates"), ".rs", &mut all);
    let is_source = |path: &&PathBuf| {
        // Whatever the folders above are called.
        let text = path.strip_prefix(&root).unwrap().to_string_lossy();
        let has = |part: &str| text.contains(part);
        !has("/tests/") && !has("/tests.rs") && !has("/simulator") && !has("/sandbox/")
    };
    let read = |path: &PathBuf| {
        let text = std::fs::read_to_string(path).unwrap();
        let code = text.split("#[cfg(test)]\nmod tests {").next().unwrap();
        code.to_owned()
    };
    all.iter().filter(is_source).map(read).collect()
}

/// All names there are now, each with what it is.
fn names() -> BTreeSet<String> {
    // How our own types are shown is no name of users.
    let shown = Regex::new(r#"(debug_struct|debug_tuple|write_str)\("[A-Za-z]+"#).unwrap();
    let sources = shown.replace_all(&sources(), "").into_owned();
    let reference = {
        let mut pages = Vec::new();
        files(&root().join("docs/reference"), "", &mut pages);
        let pages = pages
            .iter()
            .map(|page| std::fs::read_to_string(page).unwrap());
        pages.collect::<String>()
    };
    let mut names = BTreeSet::new();
    let mut take = |what: &str, text: &str, pattern: &str| {
        for found in Regex::new(pattern).unwrap().captures_iter(text) {
            names.insert(format!("{what} {}", &found[1]));
        }
    };
    take("flag", &reference, r"`(--[a-z0-9][a-z0-9-]+)");
    take("setting", &reference, r#""([a-z][A-Za-z0-9-]+)": \{"#);
    take("variable", &reference, r"`([A-Z][A-Z0-9]+_[A-Z0-9_]+)`");
    take(
        "key",
        &sources,
        r#""((?:[a-z0-9-]+\.)+[a-z]+/[A-Za-z0-9._-]+)""#,
    );
    take(
        "metric",
        &sources,
        r#""((?:bowline|triton|node|service|route|cloudprovider|leader|rest|workqueue)_[a-z0-9_]+)""#,
    );
    take(
        "reason",
        &sources,
        r#""([A-Z][a-z0-9]+(?:[A-Z]+[a-z0-9]*)+)""#,
    );
    take("json", &sources, r#"\n +"([a-z][A-Za-z0-9]+)": "#);
    names
}

#[test]
fn no_name_of_users_is_lost() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/names.txt");
    let now = names();
    let recorded = std::fs::read_to_string(&file).unwrap_or_default();
    let recorded: BTreeSet<String> = recorded.lines().map(str::to_owned).collect();
    let lost: Vec<&String> = recorded.difference(&now).collect();
    assert!(
        lost.is_empty(),
        "names that users rely on are gone: {lost:#?}"
    );
    if std::env::var_os("BOWLINE_WRITE_NAMES").is_some() {
        let all: Vec<String> = now.into_iter().collect();
        std::fs::write(&file, all.join("\n") + "\n").unwrap();
        return;
    }
    let new: Vec<&String> = now.difference(&recorded).collect();
    assert!(
        new.is_empty(),
        "record them with BOWLINE_WRITE_NAMES=1: {new:#?}"
    );
}
