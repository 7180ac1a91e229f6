//! The arrows between the crates point one way, as ARCHITECTURE.md draws them.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may")]

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

/// Which workspace crates each crate may use in its own code. Tests may also use the simulator, and
/// the program's tests the handle of the scenarios.
const ARROWS: &[(&str, &[&str])] = &[
    ("bowline-core", &[]),
    ("bowline-http", &["bowline-core"]),
    ("bowline-controllers", &["bowline-core", "bowline-http"]),
    ("bowline-templates", &[]),
    ("bowline-talos-api", &[]),
    ("bowline-cloudscale", &["bowline-core", "bowline-http"]),
    ("bowline-exoscale", &["bowline-core", "bowline-http"]),
    (
        "bowline-talos",
        &[
            "bowline-core",
            "bowline-http",
            "bowline-talos-api",
            "bowline-templates",
        ],
    ),
    ("bowline-triton", &["bowline-core", "bowline-http"]),
    ("bowline-xenorchestra", &["bowline-core", "bowline-http"]),
    ("bowline-simulator", &["bowline-http", "bowline-talos-api"]),
    (
        "bowline-control-plane",
        &["bowline-core", "bowline-http", "bowline-simulator"],
    ),
    (
        "bowline-bench",
        &["bowline-http", "bowline-scenarios", "bowline-simulator"],
    ),
    (
        "bowline-scenarios",
        &[
            "bowline-cloudscale",
            "bowline-controllers",
            "bowline-core",
            "bowline-exoscale",
            "bowline-http",
            "bowline-simulator",
            "bowline-talos",
            "bowline-triton",
            "bowline-xenorchestra",
        ],
    ),
    (
        "bowline",
        &[
            "bowline-cloudscale",
            "bowline-controllers",
            "bowline-core",
            "bowline-exoscale",
            "bowline-http",
            "bowline-simulator",
            "bowline-talos",
            "bowline-xenorchestra",
            "bowline-triton",
        ],
    ),
];

/// What must never be reachable from a crate, however far down.
const FORBIDDEN: &[(&str, &[&str])] = &[
    ("bowline-core", &["tokio", "hyper", "kube", "rustls"]),
    ("bowline-cloudscale", &["kube", "k8s-openapi"]),
    ("bowline-exoscale", &["kube", "k8s-openapi"]),
    ("bowline-talos", &["kube", "k8s-openapi"]),
    ("bowline-xenorchestra", &["kube", "k8s-openapi"]),
    ("bowline-talos-api", &["hyper", "kube", "rustls"]),
    ("bowline-triton", &["kube", "k8s-openapi"]),
    ("bowline-templates", &["tokio", "hyper", "kube", "rustls"]),
];

struct Crate {
    uses: BTreeSet<String>,
    tests_use: BTreeSet<String>,
}

fn workspace() -> BTreeMap<String, Crate> {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version=1", "--no-deps", "--offline"])
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let metadata: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    metadata["packages"]
        .as_array()
        .unwrap()
        .iter()
        .map(|package| {
            let of_kind = |dev: bool| {
                package["dependencies"]
                    .as_array()
                    .unwrap()
                    .iter()
                    .filter(|dependency| (dependency["kind"] == "dev") == dev)
                    .map(|dependency| dependency["name"].as_str().unwrap().to_owned())
                    .filter(|name| name.starts_with("bowline"))
                    .collect()
            };
            let name = package["name"].as_str().unwrap().to_owned();
            (
                name,
                Crate {
                    uses: of_kind(false),
                    tests_use: of_kind(true),
                },
            )
        })
        .collect()
}

#[test]
fn every_arrow_is_drawn() {
    let crates = workspace();
    let drawn: BTreeMap<&str, &[&str]> = ARROWS.iter().copied().collect();
    for (name, found) in &crates {
        let allowed = drawn.get(name.as_str()).unwrap_or_else(|| {
            panic!("crate {name} is not in the picture: draw it here and in ARCHITECTURE.md")
        });
        for used in &found.uses {
            assert!(
                allowed.contains(&used.as_str()),
                "{name} must not use {used}"
            );
        }
        for used in &found.tests_use {
            let fine = allowed.contains(&used.as_str())
                || used == "bowline-simulator"
                || (name == "bowline" && used == "bowline-scenarios");
            assert!(fine, "the tests of {name} must not use {used}");
        }
    }
    for name in drawn.keys() {
        assert!(
            crates.contains_key(*name),
            "crate {name} is drawn but does not exist"
        );
    }
}

#[test]
fn core_has_no_runtime_and_providers_see_no_kubernetes_client() {
    for (name, forbidden) in FORBIDDEN {
        let output = Command::new(env!("CARGO"))
            .args([
                "tree",
                "--offline",
                "--edges=normal",
                "--prefix=none",
                "--package",
                name,
            ])
            .output()
            .unwrap();
        assert!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
        let tree = String::from_utf8(output.stdout).unwrap();
        let reached: BTreeSet<&str> = tree
            .lines()
            .filter_map(|line| line.split_whitespace().next())
            .collect();
        for crate_name in *forbidden {
            assert!(!reached.contains(crate_name), "{name} reaches {crate_name}");
        }
    }
}
