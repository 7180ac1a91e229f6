//! The leader-migration file: which controllers run under which Lease.

use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::options::KnownController;

/// The component we are in such files.
const COMPONENT: &str = "cloud-controller-manager";
const GROUP: &str = "controllermanager.config.k8s.io";
const KIND: &str = "LeaderMigrationConfiguration";

/// Under which Lease a controller runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Placement {
    /// Under the main Lease.
    Main,
    /// Under the second Lease, [`Migration::leader_name`].
    Migrated,
    /// Not in this process.
    Elsewhere,
}

/// A checked leader-migration configuration.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Migration {
    /// Name of the second Lease.
    pub leader_name: String,
    /// Always `leases`.
    pub resource_lock: String,
    /// Who runs what.
    pub controller_leaders: Vec<MigrationEntry>,
}

/// Which component runs a controller.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MigrationEntry {
    /// The controller, by any of its names.
    #[serde(default)]
    pub name: String,
    #[serde(default)]
    pub component: String,
}

/// The file as it is written.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Raw {
    #[serde(default)]
    api_version: String,
    #[serde(default)]
    kind: String,
    #[serde(default)]
    leader_name: String,
    resource_lock: Option<String>,
    #[serde(default)]
    controller_leaders: Vec<MigrationEntry>,
}

/// Why a leader-migration file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum BadMigration {
    /// It cannot be read.
    #[error("reading leader migration configuration {0}")]
    Read(String, #[source] std::io::Error),
    /// It is not what it should be; line and column are in the text where they are known.
    #[error("failed to parse leader migration configuration: {0}")]
    Content(String),
}

impl Default for Migration {
    /// What the originals have built in.
    fn default() -> Self {
        let entry = |name: &str| MigrationEntry {
            name: name.to_owned(),
            component: "*".to_owned(),
        };
        Self {
            leader_name: "cloud-provider-extraction-migration".to_owned(),
            resource_lock: "leases".to_owned(),
            controller_leaders: vec![
                entry("route-controller"),
                entry("service-controller"),
                entry("cloud-node-lifecycle-controller"),
            ],
        }
    }
}

impl Migration {
    /// Reads the file; an empty path means the built-in configuration.
    pub fn load(path: &str) -> Result<Self, BadMigration> {
        if path.is_empty() {
            return Ok(Self::default());
        }
        let text = std::fs::read_to_string(Path::new(path))
            .map_err(|error| BadMigration::Read(path.to_owned(), error))?;
        Self::parse(&text).map_err(|bad| match bad {
            BadMigration::Content(problem) => BadMigration::Content(format!("{path}: {problem}")),
            other @ BadMigration::Read(..) => other,
        })
    }

    /// Reads YAML or JSON, strictly.
    pub fn parse(text: &str) -> Result<Self, BadMigration> {
        // An empty document is an error of its own to the YAML reader; here it lacks its kind.
        let text = if text.trim().is_empty() { "{}" } else { text };
        let raw: Raw = serde_saphyr::from_str(text)
            .map_err(|error| BadMigration::Content(one_line(&error)))?;
        raw.check().map_err(BadMigration::Content)
    }

    /// Under which Lease the controller runs, by its canonical name, its alias or a name of old.
    ///
    /// The originals compare with the canonical name alone, so that their own built-in
    /// configuration misses two of its three controllers.
    pub fn placement(&self, controller: &KnownController) -> Placement {
        let named = |entry: &&MigrationEntry| {
            let name = entry.name.as_str();
            name == controller.name || name == controller.alias || controller.former.contains(&name)
        };
        // Of several entries the last one counts, as in the originals.
        match self.controller_leaders.iter().rev().find(named) {
            None => Placement::Main,
            Some(entry) if entry.component == "*" || entry.component == COMPONENT => {
                Placement::Migrated
            }
            Some(_) => Placement::Elsewhere,
        }
    }
}

impl Raw {
    fn check(self) -> Result<Migration, String> {
        if self.api_version.is_empty() {
            return Err("apiVersion is missing".to_owned());
        }
        if self.kind.is_empty() {
            return Err("kind is missing".to_owned());
        }
        let version = self
            .api_version
            .strip_prefix(GROUP)
            .and_then(|rest| rest.strip_prefix('/'))
            .filter(|version| matches!(*version, "v1alpha1" | "v1beta1" | "v1"));
        let (Some(version), true) = (version, self.kind == KIND) else {
            return Err(format!(
                "no kind {:?} in {:?}; allowed: {KIND} in {GROUP}/v1, v1beta1, v1alpha1",
                self.kind, self.api_version
            ));
        };
        if version == "v1" && self.resource_lock.is_some() {
            return Err("unknown field \"resourceLock\" in version v1".to_owned());
        }
        let problems = self.problems();
        if !problems.is_empty() {
            return Err(problems.join(", "));
        }
        Ok(Migration {
            leader_name: self.leader_name,
            resource_lock: "leases".to_owned(),
            controller_leaders: self.controller_leaders,
        })
    }

    fn problems(&self) -> Vec<String> {
        let mut problems = Vec::new();
        if self.leader_name.is_empty() {
            problems.push("leaderName must be set".to_owned());
        }
        match self.resource_lock.as_deref() {
            None | Some("" | "leases") => {}
            Some("endpoints") => problems
                .push("resourceLock \"endpoints\" no longer exists, use \"leases\"".to_owned()),
            Some(other) => problems.push(format!("resourceLock {other:?} must be \"leases\"")),
        }
        for (index, entry) in self.controller_leaders.iter().enumerate() {
            for (value, key) in [(&entry.name, "name"), (&entry.component, "component")] {
                if value.is_empty() {
                    problems.push(format!("controllerLeaders[{index}].{key} must be set"));
                }
            }
        }
        problems
    }
}

/// The message, which starts with line and column, without the excerpt of the file after it.
fn one_line(error: &serde_saphyr::Error) -> String {
    let text = error.to_string();
    let first = text.lines().next().unwrap_or_default().trim();
    first.strip_prefix("error: ").unwrap_or(first).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::known_controller;

    fn file(version: &str, rest: &str) -> String {
        format!("apiVersion: {GROUP}/{version}\nkind: {KIND}\n{rest}")
    }

    fn placed(migration: &Migration, name: &str) -> Placement {
        migration.placement(known_controller(name).unwrap())
    }

    #[test]
    fn all_three_versions_are_read() {
        let leaders = "leaderName: m\ncontrollerLeaders:\n- {name: route, component: '*'}\n";
        for (version, more) in [
            ("v1", ""),
            ("v1beta1", "resourceLock: leases\n"),
            ("v1alpha1", "resourceLock: leases\n"),
            ("v1alpha1", ""),
        ] {
            let migration = Migration::parse(&file(version, &format!("{more}{leaders}"))).unwrap();
            assert_eq!(migration.leader_name, "m");
            assert_eq!(placed(&migration, "route"), Placement::Migrated);
        }
        let json = format!(r#"{{"apiVersion":"{GROUP}/v1","kind":"{KIND}","leaderName":"m"}}"#);
        assert!(
            Migration::parse(&json)
                .unwrap()
                .controller_leaders
                .is_empty()
        );
    }

    #[test]
    fn a_bad_file_is_refused_with_its_reason() {
        for (text, expected) in [
            (String::new(), "apiVersion is missing"),
            ("apiVersion: v1\n".to_owned(), "kind is missing"),
            (
                "apiVersion: v1\nkind: Pod\n".to_owned(),
                "no kind \"Pod\" in \"v1\"",
            ),
            (
                file("v2", "leaderName: m\n"),
                "no kind \"LeaderMigrationConfiguration\"",
            ),
            (file("v1", ""), "leaderName must be set"),
            (
                file("v1", "leaderName: m\nresourceLock: leases\n"),
                "unknown field \"resourceLock\"",
            ),
            (
                file("v1beta1", "leaderName: m\nresourceLock: endpoints\n"),
                "no longer exists",
            ),
            (
                file("v1beta1", "leaderName: m\nresourceLock: x\n"),
                "resourceLock \"x\" must be",
            ),
            (
                file(
                    "v1",
                    "leaderName: m\ncontrollerLeaders: [{name: a}, {component: b}]\n",
                ),
                "controllerLeaders[0].component must be set, controllerLeaders[1].name must be set",
            ),
            (file("v1", "leaderName: m\nleader: x\n"), "line 4 column 1"),
            (
                file("v1", "leaderName: m\nleaderName: n\n"),
                "line 4 column 1",
            ),
            (file("v1", "leaderName: [m\n"), "line"),
        ] {
            let error = Migration::parse(&text).unwrap_err().to_string();
            assert!(
                error.starts_with("failed to parse leader migration configuration: "),
                "{error}"
            );
            assert!(error.contains(expected), "{error:?} has {expected:?}");
            assert_eq!(error.lines().count(), 1, "{error}");
        }
        let missing = Migration::load("/nonexistent/migration.yaml").unwrap_err();
        assert!(missing.to_string().contains("/nonexistent/migration.yaml"));
    }

    #[test]
    fn the_built_in_file_moves_the_three_controllers_it_means() {
        let migration = Migration::load("").unwrap();
        for (name, expected) in [
            ("cloud-node-controller", Placement::Main),
            ("cloud-node-lifecycle-controller", Placement::Migrated),
            ("service-lb-controller", Placement::Migrated),
            ("node-route-controller", Placement::Migrated),
            ("node-ipam-controller", Placement::Main),
        ] {
            assert_eq!(placed(&migration, name), expected, "{name}");
        }
    }

    #[test]
    fn the_component_decides_and_every_name_of_a_controller_counts() {
        for (name, component, expected) in [
            ("service", "cloud-controller-manager", Placement::Migrated),
            ("service-controller", "*", Placement::Migrated),
            (
                "service-lb-controller",
                "kube-controller-manager",
                Placement::Elsewhere,
            ),
            ("route", "*", Placement::Main),
        ] {
            let entry = MigrationEntry {
                name: name.to_owned(),
                component: component.to_owned(),
            };
            let migration = Migration {
                controller_leaders: vec![entry],
                ..Migration::default()
            };
            assert_eq!(
                placed(&migration, "service"),
                expected,
                "{name} in {component}"
            );
        }
    }
}
