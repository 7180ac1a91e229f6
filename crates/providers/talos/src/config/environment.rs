//! The environment.

use std::path::{Path, PathBuf};

use bowline_core::{Variable, variable_table};
use bowline_provider::row as key;

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

/// The keys of the cloud config, in the order of the reference page.
pub(super) const KEYS: [Variable; 15] = [
    key(
        "global.clusterName",
        "`cluster` of the talosconfig's context",
        "a label value",
        "Value of the label `node.cloudprovider.kubernetes.io/clustername`; without any, nodes have none.",
    ),
    key(
        "global.preferIPv6",
        "false",
        "`true` or `false`, without quotes",
        "IPv6 comes first: when machines are asked, and among external addresses.",
    ),
    key(
        "global.enforceTransformations",
        "false",
        "`true` or `false`, without quotes",
        "Rules own the labels, annotations and taints that they set: what no rule sets any more goes, but \
         for what was there before. The \
         original has no such key.",
    ),
    key(
        "global.endpoints",
        "none",
        "a list",
        "A key of old files, used while TALOS_ENDPOINTS is not set.",
    ),
    key(
        "transformations",
        "none",
        "a list",
        "Rules. All that match a machine apply, in this order; later values win.",
    ),
    key(
        "transformations[].name",
        "none",
        "a text",
        "Stands in messages about the rule.",
    ),
    key(
        "transformations[].nodeSelector",
        "every machine",
        "a list",
        "The rule is for machines that one of these terms matches. `name` of a term has no effect.",
    ),
    key(
        "transformations[].nodeSelector[].matchExpressions",
        "none",
        "a list",
        "A term matches if all of these do; one without any matches nothing.",
    ),
    key(
        "transformations[].nodeSelector[].matchExpressions[].key",
        "none",
        "`platform`, `hostname`, `region`, `zone`, `instanceType`, `instanceID`, `providerID`, `spot`, \
         `internalDNS`, `externalDNS` in any case",
        "What is compared.",
    ),
    key(
        "transformations[].nodeSelector[].matchExpressions[].operator",
        "none",
        "`In`, `NotIn`, `Exists`, `DoesNotExist`, `Gt`, `Lt`, `Regexp`",
        "How.",
    ),
    key(
        "transformations[].nodeSelector[].matchExpressions[].values",
        "none",
        "a list of texts",
        "With what: some for `In` and `NotIn`, one for `Gt`, `Lt` and `Regexp`, none for the others.",
    ),
    key(
        "transformations[].annotations`, `.labels",
        "none",
        "a map of templates",
        "For the node, also in name spaces of Kubernetes.",
    ),
    key(
        "transformations[].taints",
        "none",
        "a map of templates that give `Effect` or `value:Effect`",
        "For the node while it is initialised.",
    ),
    key(
        "transformations[].platformMetadata",
        "none",
        "a map of templates for `Region`, `Zone`, `InstanceType`, `InstanceID`, `ProviderID`, `Spot`, \
         `InternalDNS`, `ExternalDNS` in any case",
        "Replaces what the machine reports.",
    ),
    key(
        "transformations[].features.publicIPDiscovery",
        "false",
        "`true` or `false`, without quotes",
        "Public addresses are also looked for on the machine's own links.",
    ),
];

pub fn reference() -> String {
    let variables = variable_table("Variable", &VARIABLES);
    let keys = variable_table("Key of the file", &KEYS);
    format!("{variables}\n{keys}")
}
