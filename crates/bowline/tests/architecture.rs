//! The arrows between the crates point one way, as ARCHITECTURE.md draws them.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may")]

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

/// Which folders each crate of a folder may use in its own code: `*` is one crate each, whatever it is called.
const ARROWS: &[(&str, &[&str])] = &[
    ("crates/core", &[]),
    ("crates/http", &["crates/core"]),
    ("crates/provider", &["crates/core", "crates/http"]),
    (
        "crates/controllers",
        &["crates/core", "crates/http", "crates/provider"],
    ),
    ("crates/templates", &[]),
    ("crates/talos-api", &[]),
    ("crates/json-path", &[]),
    (
        "crates/providers/*",
        &[
            "crates/core",
            "crates/http",
            "crates/provider",
            "crates/talos-api",
            "crates/templates",
        ],
    ),
    ("crates/simulator", &["crates/http"]),
    (
        "crates/simulator-kubernetes",
        &["crates/http", "crates/simulator"],
    ),
    (
        "crates/simulators/*",
        &["crates/http", "crates/simulator", "crates/talos-api"],
    ),
    (
        "crates/test-kit",
        &["crates/core", "crates/http", "crates/simulator"],
    ),
    (
        "crates/bowline",
        &[
            "crates/controllers",
            "crates/core",
            "crates/http",
            "crates/provider",
            "crates/providers/*",
            "crates/simulator",
            "crates/simulator-kubernetes",
            "crates/simulators/*",
        ],
    ),
    (
        "e2e/control-plane",
        &[
            "crates/core",
            "crates/http",
            "crates/simulator",
            "crates/simulator-kubernetes",
        ],
    ),
    ("e2e/scenario-macro", &[]),
    (
        "e2e/scenarios",
        &[
            "crates/controllers",
            "crates/core",
            "crates/http",
            "crates/providers/*",
            "crates/simulator",
            "crates/simulator-kubernetes",
            "crates/simulators/*",
            "e2e/scenario-macro",
        ],
    ),
    (
        "e2e/storm",
        &[
            "crates/bowline",
            "crates/controllers",
            "crates/core",
            "crates/http",
            "crates/simulator",
            "crates/simulator-kubernetes",
            "crates/simulators/*",
            "e2e/scenarios",
        ],
    ),
    (
        "e2e/fuzz",
        &[
            "crates/bowline",
            "crates/controllers",
            "crates/core",
            "crates/http",
            "crates/provider",
            "crates/providers/*",
            "crates/talos-api",
            "crates/templates",
        ],
    ),
    (
        "bench",
        &[
            "crates/http",
            "crates/simulator",
            "crates/simulator-kubernetes",
            "crates/simulators/*",
            "e2e/control-plane",
            "e2e/scenarios",
        ],
    ),
];

/// What tests may use besides. Those of a provider see the simulator of their own cloud alone.
const ARROWS_OF_TESTS: &[(&str, &[&str])] = &[
    (
        "crates/controllers",
        &["crates/simulator", "crates/simulator-kubernetes"],
    ),
    (
        "crates/providers/*",
        &[
            "crates/simulator",
            "crates/simulators/<same>",
            "crates/test-kit",
        ],
    ),
    ("crates/bowline", &["e2e/scenarios"]),
];

/// What must never be reachable from a crate of a folder, however far down.
const FORBIDDEN: &[(&str, &[&str])] = &[
    ("crates/core", &["tokio", "hyper", "kube", "rustls"]),
    ("crates/provider", KUBERNETES),
    ("crates/providers/*", KUBERNETES),
    ("crates/simulator", KUBERNETES),
    ("crates/simulators/*", KUBERNETES),
    ("crates/test-kit", KUBERNETES),
    ("crates/talos-api", &["hyper", "kube", "rustls"]),
    ("crates/templates", &["tokio", "hyper", "kube", "rustls"]),
];

/// Clients of Kubernetes: their tests do without them, too, so that they are built quickly.
const KUBERNETES: &[&str] = &["kube", "kube-client", "k8s-openapi"];

struct Crate {
    name: String,
    uses: BTreeSet<String>,
    tests_use: BTreeSet<String>,
}

/// The crates of the workspace, by folder.
fn workspace() -> BTreeMap<String, Crate> {
    let output = cargo(&["metadata", "--format-version=1", "--no-deps"]);
    let metadata: serde_json::Value = serde_json::from_str(&output).unwrap();
    let root = metadata["workspace_root"].as_str().unwrap().to_owned();
    let folder = |path: &str| path.strip_prefix(&root).unwrap()[1..].to_owned();
    let packages = metadata["packages"].as_array().unwrap().iter();
    packages
        .map(|package| {
            let of_kind = |dev: bool| {
                let all = package["dependencies"].as_array().unwrap().iter();
                all.filter(|dependency| (dependency["kind"] == "dev") == dev)
                    .filter_map(|dependency| dependency["path"].as_str())
                    .map(folder)
                    .collect()
            };
            let manifest = package["manifest_path"].as_str().unwrap();
            let found = Crate {
                name: package["name"].as_str().unwrap().to_owned(),
                uses: of_kind(false),
                tests_use: of_kind(true),
            };
            (folder(manifest.strip_suffix("/Cargo.toml").unwrap()), found)
        })
        .collect()
}

fn cargo(arguments: &[&str]) -> String {
    let mut command = Command::new(env!("CARGO"));
    let output = command.args(arguments).arg("--offline").output().unwrap();
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{complaint}");
    String::from_utf8(output.stdout).unwrap()
}

/// Whether a folder is meant by a pattern that stands beside `from`.
fn fits(pattern: &str, folder: &str, from: &str) -> bool {
    let last = |path: &str| path.rsplit('/').next().unwrap_or_default().to_owned();
    match pattern.strip_suffix("/*") {
        Some(parent) => {
            let inside = folder.strip_prefix(parent);
            inside.is_some_and(|rest| rest.starts_with('/') && !rest[1..].contains('/'))
        }
        None => pattern.replace("<same>", &last(from)) == folder,
    }
}

/// The row of a table that a folder belongs to.
fn row<'a>(table: &[(&str, &'a [&'a str])], folder: &str) -> Option<&'a [&'a str]> {
    let mut rows = table.iter();
    let found = rows.find(|(pattern, _)| fits(pattern, folder, folder));
    found.map(|(_, allowed)| *allowed)
}

/// Controllers poll a provider's calls behind the fence of the lease; a task of its own is outside.
#[test]
fn a_task_of_a_provider_says_why_it_may_be_outside_the_fence() {
    let providers = concat!(env!("CARGO_MANIFEST_DIR"), "/../providers");
    let mut folders = vec![std::path::PathBuf::from(providers)];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.file_stem().is_some_and(|it| it == "tests") {
                continue;
            }
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|it| it == "rs") {
                let text = std::fs::read_to_string(&path).unwrap();
                let code = text.split("\n#[cfg(test)]\nmod tests {").next().unwrap();
                let starts = ["tokio::spawn(", "Background::start("];
                let is_start = |line: &str| starts.iter().any(|it| line.contains(it));
                let explained = "utside the fence";
                assert!(
                    !code.lines().any(is_start) || code.contains(explained),
                    "{}: say in a comment why the task may be outside the fence: it only reads",
                    path.display()
                );
            }
        }
    }
}

#[test]
fn every_arrow_is_drawn() {
    let crates = workspace();
    for (folder, found) in &crates {
        let allowed = row(ARROWS, folder).unwrap_or_else(|| {
            panic!("crate {folder} is not in the picture: draw it here and in ARCHITECTURE.md")
        });
        let more = row(ARROWS_OF_TESTS, folder).unwrap_or_default();
        let any = |allowed: &[&str], used| allowed.iter().any(|it| fits(it, used, folder));
        for used in &found.uses {
            assert!(any(allowed, used), "{folder} must not use {used}");
        }
        for used in &found.tests_use {
            let fine = any(allowed, used) || any(more, used);
            assert!(fine, "the tests of {folder} must not use {used}");
        }
    }
    for (pattern, _) in ARROWS.iter().chain(ARROWS_OF_TESTS).chain(FORBIDDEN) {
        let exists = crates.keys().any(|folder| fits(pattern, folder, folder));
        assert!(exists, "crate {pattern} is drawn but does not exist");
    }
}

#[test]
fn core_has_no_runtime_and_providers_see_no_kubernetes_client() {
    for (folder, found) in workspace() {
        let Some(forbidden) = row(FORBIDDEN, &folder) else {
            continue;
        };
        let edges = if forbidden == KUBERNETES {
            "--edges=normal,dev"
        } else {
            "--edges=normal"
        };
        let tree = cargo(&["tree", edges, "--prefix=none", "--package", &found.name]);
        let reached: BTreeSet<&str> = tree
            .lines()
            .filter_map(|line| line.split_whitespace().next())
            .collect();
        for name in forbidden {
            assert!(!reached.contains(name), "{folder} reaches {name}");
        }
    }
}
