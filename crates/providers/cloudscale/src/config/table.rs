//! The environment variables of this provider, one row each. The reader asks for them by row, and
//! the reference page is made of them.

use bowline_core::{Variable, variable_table};

pub const ACCESS_TOKEN: Variable = Variable {
    name: "CLOUDSCALE_ACCESS_TOKEN",
    meaning: "API token of the project, with read and write permission. Spaces and line breaks \
              around it do not matter.",
    default: "none; it or CLOUDSCALE_ACCESS_TOKEN_FILE is required",
    allowed: "a token without spaces or control characters inside",
};

pub const ACCESS_TOKEN_FILE: Variable = Variable {
    name: "CLOUDSCALE_ACCESS_TOKEN_FILE",
    meaning: "File that holds the API token. It is read again every few seconds, so that a rotated \
              secret is used without a restart. It wins over CLOUDSCALE_ACCESS_TOKEN, which then \
              only serves as long as the file cannot be used at the start.",
    default: "none",
    allowed: "a path",
};

pub const API_URL: Variable = Variable {
    name: "CLOUDSCALE_API_URL",
    meaning: "Root of the API. A path in front of `/v1` is kept; `/v1` itself may be there or not.",
    default: "https://api.cloudscale.ch/",
    allowed: "an http or https URL without credentials, query and fragment",
};

pub const API_TIMEOUT: Variable = Variable {
    name: "CLOUDSCALE_API_TIMEOUT",
    meaning: "Limit of one HTTP request in seconds, from connecting to the last byte. A value that \
              cannot be used is reported and the default holds.",
    default: "20",
    allowed: "a whole number of seconds from 1 to 3600",
};

pub const OWNERSHIP_TAGS: Variable = Variable {
    name: "CLOUDSCALE_OWNERSHIP_TAGS",
    meaning: "Whether load balancers carry tags that say which Service and cluster they belong to; \
              without, no tag is read or written.",
    default: "true",
    allowed: BOOLEAN,
};

pub const SERVICE_SOURCE_RANGES: Variable = Variable {
    name: "CLOUDSCALE_SERVICE_SOURCE_RANGES",
    meaning: "Whether `spec.loadBalancerSourceRanges` of a Service filters its sources; without, \
              only the annotation does.",
    default: "true",
    allowed: BOOLEAN,
};

/// How often load balancers are compared with what they should be.
pub const DRIFT_CHECK_PERIOD: Variable = Variable {
    name: "CLOUDSCALE_DRIFT_CHECK_PERIOD",
    meaning: "How often load balancers are compared with what they should be, without any event; \
              `0` switches it off.",
    default: "10m",
    allowed: "a duration such as 90s, 10m or 1h30m, up to 720h, or 0",
};

pub const MATCH_BY_ADDRESS: Variable = Variable {
    name: "CLOUDSCALE_MATCH_BY_ADDRESS",
    meaning: "Whether the server of a node without a provider id is looked for by the node's \
              addresses when no server has the node's name.",
    default: "false",
    allowed: BOOLEAN,
};

pub const CLUSTER_NAME_ANNOTATION: Variable = Variable {
    name: "CLOUDSCALE_CLUSTER_NAME_ANNOTATION",
    meaning: "Annotation of nodes that holds the name of the cluster, for the ownership tags, when \
              --cluster-name does not say it.",
    default: "cluster.x-k8s.io/cluster-name",
    allowed: "an annotation key",
};

const BOOLEAN: &str = "true or false";

/// All of them, in the order of the reference page.
pub const VARIABLES: [Variable; 9] = [
    ACCESS_TOKEN,
    ACCESS_TOKEN_FILE,
    API_URL,
    API_TIMEOUT,
    MATCH_BY_ADDRESS,
    OWNERSHIP_TAGS,
    SERVICE_SOURCE_RANGES,
    DRIFT_CHECK_PERIOD,
    CLUSTER_NAME_ANNOTATION,
];

pub fn reference() -> String {
    variable_table("Variable", &VARIABLES)
}
