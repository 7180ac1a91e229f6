//! The environment.

use std::path::{Path, PathBuf};

use bowline_core::{Variable, variable_table};

const TALOS_ENDPOINTS: Variable = Variable {
    name: "TALOS_ENDPOINTS",
    meaning: "Endpoints of the Talos API, separated by commas; they replace those of the talosconfig.",
    default: "none",
    allowed: "addresses, host names or URLs, each with or without a port",
};
const TALOSCONFIG: Variable = Variable {
    name: "TALOSCONFIG",
    meaning: "Path of the talosconfig, before all other places.",
    default: "none",
    allowed: "a path",
};
const TALOS_HOME: Variable = Variable {
    name: "TALOS_HOME",
    meaning: "Directory with a talosconfig called `config`, if the path is absolute.",
    default: "`$HOME/.talos`",
    allowed: "an absolute path",
};
const SERVICE_ACCOUNT: Variable = Variable {
    name: "SERVICE_ACCOUNT",
    meaning: "Taken and not needed: everything is written under the pod's own account.",
    default: "talos-cloud-controller-manager",
    allowed: "a name",
};

/// All of them, in the order of the reference page.
pub const VARIABLES: [Variable; 4] = [TALOS_ENDPOINTS, TALOSCONFIG, TALOS_HOME, SERVICE_ACCOUNT];

/// Where a pod finds its credentials.
const MOUNTED: &str = "/var/run/secrets/talos.dev/config";

/// What the environment says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Environment {
    /// Endpoints, as they are written; empty if the file's count.
    pub endpoints: Vec<String>,
    /// Where the talosconfig may be; the first that exists counts. Nothing is ever written there.
    pub candidates: Vec<PathBuf>,
}

impl Environment {
    /// Reads the variables. An empty one counts as unset.
    pub fn read(environment: impl Fn(&str) -> Option<String>) -> Self {
        let set = |name: &str| environment(name).filter(|value| !value.is_empty());
        let endpoints = set(TALOS_ENDPOINTS.name).unwrap_or_default();
        let endpoints = match endpoints.as_str() {
            "" => Vec::new(),
            // As it is: a blank belongs to the name beside it.
            list => list.split(',').map(str::to_owned).collect(),
        };
        let home = set(TALOS_HOME.name)
            .map(PathBuf::from)
            .filter(|path| path.is_absolute());
        let home = home.or_else(|| set("HOME").map(|home| Path::new(&home).join(".talos")));
        let candidates = [
            set(TALOSCONFIG.name).map(PathBuf::from),
            home.map(|home| home.join("config")),
            Some(PathBuf::from(MOUNTED)),
        ];
        Self {
            endpoints,
            candidates: candidates.into_iter().flatten().collect(),
        }
    }
}

/// The reference page's table, in Markdown.
pub fn reference() -> String {
    variable_table("Variable", &VARIABLES)
}
