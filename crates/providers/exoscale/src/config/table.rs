//! The environment variables and file keys of this provider, one row each. The reader asks for
//! variables by row, and the reference page is made of the rows.

use bowline_core::{Variable, variable_table};
use bowline_provider::row as key;

pub const API_KEY: Variable = Variable {
    name: "EXOSCALE_API_KEY",
    meaning: "API key. Replaces `global.apiKey`, even when it is set to nothing.",
    default: "`global.apiKey`",
    allowed: "an API key (`EXO` and hexadecimal digits)",
};

pub const API_SECRET: Variable = Variable {
    name: "EXOSCALE_API_SECRET",
    meaning: "API secret. Replaces `global.apiSecret`, even when it is set to nothing.",
    default: "`global.apiSecret`",
    allowed: "an API secret",
};

pub const API_CREDENTIALS_FILE: Variable = Variable {
    name: "EXOSCALE_API_CREDENTIALS_FILE",
    meaning: "JSON file with `name`, `api_key` and `api_secret`, used when key or secret are not \
              given otherwise. It is read again every few seconds; a new pair is tried before it \
              is used. Replaces `global.apiCredentialsFile`, even when it is set to \
              nothing.",
    default: "`global.apiCredentialsFile`",
    allowed: "a path",
};

pub const API_ENDPOINT: Variable = Variable {
    name: "EXOSCALE_API_ENDPOINT",
    meaning: "Root of an API with its version, where the zones are listed; each zone is then served \
              where that list says. Set to nothing, it clears `global.apiEndpoint`, and \
              EXOSCALE_API_ENVIRONMENT is not looked at.",
    default: "the API of the zone, `https://api-<zone>.exoscale.com/v2`",
    allowed: "an http or https URL without credentials, query and fragment",
};

pub const API_ENVIRONMENT: Variable = Variable {
    name: "EXOSCALE_API_ENVIRONMENT",
    meaning: "The vendor's environment: `ppapi` lists the zones at \
              `https://ppapi-ch-gva-2.exoscale.com/v2`, another name but `api` means \
              `https://<name>-<zone>.exoscale.com/v2`.",
    default: "`global.apiEnvironment`, then `api`",
    allowed: "lower-case letters, digits and dashes",
};

pub const API_ZONE: Variable = Variable {
    name: "EXOSCALE_API_ZONE",
    meaning: "The zone. Empty counts as unset.",
    default: "EXOSCALE_ZONE, then `global.zone`, then the machine's metadata",
    allowed: "a zone such as `ch-gva-2`",
};

/// The older name of the zone.
pub const ZONE: Variable = Variable {
    name: "EXOSCALE_ZONE",
    meaning: "Older name of EXOSCALE_API_ZONE.",
    default: "none",
    allowed: API_ZONE.allowed,
};

pub const SKS_AGENT_RUNNERS: Variable = Variable {
    name: "EXOSCALE_SKS_AGENT_RUNNERS",
    meaning: "What else runs, separated by commas: `node-csr-validation` approves serving \
              certificates of kubelets.",
    default: "none",
    allowed: "`node-csr-validation`",
};

pub const TRACE: Variable = Variable {
    name: "EXOSCALE_TRACE",
    meaning: "Any value but nothing logs requests and answers of the API, without credentials.",
    default: "none",
    allowed: "anything",
};

/// All variables, in the order of the reference page.
pub const VARIABLES: [Variable; 9] = [
    API_KEY,
    API_SECRET,
    API_CREDENTIALS_FILE,
    API_ENDPOINT,
    API_ENVIRONMENT,
    API_ZONE,
    ZONE,
    SKS_AGENT_RUNNERS,
    TRACE,
];

const TEXT: &str = "a text";
const BOOLEAN: &str = "`true` or `false`";

/// All keys of the file, in the order of the reference page.
pub const KEYS: [Variable; 18] = [
    key("global.apiKey", "none", API_KEY.allowed, "API key."),
    key(
        "global.apiSecret",
        "none",
        API_SECRET.allowed,
        "API secret.",
    ),
    key(
        "global.apiCredentialsFile",
        "none",
        "a path",
        "JSON file with the credentials; not looked at when key and secret are given. Read again every few \
         seconds.",
    ),
    key(
        "global.apiEndpoint",
        "none",
        API_ENDPOINT.allowed,
        "As EXOSCALE_API_ENDPOINT.",
    ),
    key(
        "global.apiEnvironment",
        "none",
        API_ENVIRONMENT.allowed,
        "As EXOSCALE_API_ENVIRONMENT.",
    ),
    key(
        "global.zone",
        "none",
        API_ZONE.allowed,
        "As EXOSCALE_API_ZONE.",
    ),
    key(
        "instances.disabled",
        "false",
        BOOLEAN,
        "Nodes are not managed.",
    ),
    key(
        "instances.externalOnly",
        "false",
        BOOLEAN,
        "The API is never asked about nodes; only overrides count.",
    ),
    key(
        "instances.overrides",
        "none",
        "a list",
        "What is known about nodes without asking.",
    ),
    key(
        "instances.overrides[].name",
        "none",
        "a text, or a regular expression between slashes",
        "Name of the node, or an expression that matches names anywhere.",
    ),
    key(
        "instances.overrides[].external",
        "false",
        BOOLEAN,
        "The node is no instance of this cloud.",
    ),
    key(
        "instances.overrides[].externalID",
        "made from the name",
        TEXT,
        "What follows `exoscale://` in the provider id of an external node.",
    ),
    key(
        "instances.overrides[].type",
        "`external`, or as the API answers",
        "a label value",
        "Instance type of the node.",
    ),
    key(
        "instances.overrides[].region",
        "`external`",
        "a label value",
        "Zone and region of an external node.",
    ),
    key(
        "instances.overrides[].addresses",
        "those of the kubelet, or as the API answers",
        "a list of `{type, address}`; types are Hostname, InternalIP, ExternalIP, InternalDNS, \
         ExternalDNS",
        "Addresses of the node.",
    ),
    key(
        "loadBalancer.disabled",
        "false",
        BOOLEAN,
        "Services are not managed.",
    ),
    key(
        "loadBalancer.defaultInstancePoolID",
        "none",
        "a uuid",
        "The instance pool of Services whose pool is neither given nor to be inferred.",
    ),
    key(
        "loadBalancer.localPolicyHealthCheck",
        "tcp",
        "`tcp` or `http`",
        "How Services with `externalTrafficPolicy: Local` are checked unless they say it.",
    ),
];

pub fn reference() -> String {
    let variables = variable_table("Variable", &VARIABLES);
    let keys = variable_table("Key of the file", &KEYS);
    format!("{variables}\n{keys}\n")
}
