//! The environment variables and file keys of this provider, one row each. The reader asks for
//! variables by row, and the reference page is made of the rows.

use bowline_core::{Variable, variable_table};
use bowline_provider::row;

const URL_ALLOWED: &str = "an http or https URL; a path before `/rest/v0` may stand in it";
const TOKEN_ALLOWED: &str = "an authentication token";
const DURATION: &str = "a duration with its unit, such as `60s` or `1m30s`";

pub const XOA_URL: Variable = row("XOA_URL", "none", URL_ALLOWED, "Root of Xen Orchestra.");
pub const XOA_TOKEN: Variable = row("XOA_TOKEN", "none", TOKEN_ALLOWED, "Authentication token.");
pub const XOA_USER: Variable = row("XOA_USER", "none", "a user", "User, instead of a token.");
pub const XOA_PASSWORD: Variable = row(
    "XOA_PASSWORD",
    "none",
    "a password",
    "Password of the user. A token of 30 days is made with it and renewed in time.",
);
pub const XOA_INSECURE: Variable = row(
    "XOA_INSECURE",
    "false",
    "`1`, `t`, `T`, `TRUE`, `true`, `True`, `0`, `f`, `F`, `FALSE`, `false`, `False`",
    "Accept any certificate of the server.",
);
pub const XOA_CLIENT_TIMEOUT: Variable = row(
    "XOA_CLIENT_TIMEOUT",
    "30s",
    DURATION,
    "How long one request may take; `0` means the default.",
);

/// All variables, in the order of the reference page.
pub const VARIABLES: [Variable; 7] = [
    XOA_URL,
    XOA_TOKEN,
    XOA_USER,
    XOA_PASSWORD,
    XOA_INSECURE,
    XOA_CLIENT_TIMEOUT,
    row(
        "POD_NAME, POD_NAMESPACE, POD_UID",
        "none, `kube-system`, none",
        "as the downward API gives them",
        "The pod that the program runs in, for the event that tells when the server does not answer. \
         These count beside a file, too.",
    ),
];

/// All keys of the file, in the order of the reference page.
pub const KEYS: [Variable; 16] = [
    row("url", "none", URL_ALLOWED, "Root of Xen Orchestra."),
    row("token", "none", TOKEN_ALLOWED, "Authentication token."),
    row("username", "none", "a user", "User, instead of a token."),
    row("password", "none", "a password", XOA_PASSWORD.meaning),
    row(
        "insecure",
        "false",
        "`true`, `false`, `yes`, `no`, `on`, `off`, `y`, `n`",
        XOA_INSECURE.meaning,
    ),
    row(
        "clientTimeout",
        "30s",
        DURATION,
        "How long one request may take.",
    ),
    row(
        "addressMode",
        "`compat`",
        "`compat`, `internal`, `classify`",
        "Which addresses of a VM its node gets. `compat`: the main one, as ExternalIP. `internal`: all \
         that the guest reports, as InternalIP. `classify`: all, private ones as InternalIP and others \
         as ExternalIP. What the kubelet was given (`--node-ip`) is always InternalIP. The last two leave \
         out addresses that several nodes have.",
    ),
    row(
        "addressInclude",
        "all",
        "a list of CIDRs",
        "Only these addresses, in the modes `internal` and `classify`.",
    ),
    row(
        "addressExclude",
        "none",
        "a list of CIDRs",
        "None of these addresses, in the modes `internal` and `classify`.",
    ),
    row(
        "zoneSource",
        "`host`",
        "`host`, `hostName`, `pool`",
        "What the zone of a node is: the id of its host, the name of its host, or the id of its pool.",
    ),
    row(
        "typeMemory",
        "`current`",
        "`current`, `static`",
        "Which memory stands in the instance type: what the VM has, which moves with its balloon, or the \
         most it can have.",
    ),
    row(
        "tagLabelPrefix",
        "none",
        "a text, such as `k8s/label=`",
        "Tags of a VM that begin with it become labels of its node: `<prefix><key>:<value>`. Nothing \
         under `kubernetes.io`, `k8s.io` and `k8s.xenorchestra` can be given.",
    ),
    row(
        "events",
        "true",
        "`true` or `false`",
        "Follow the server's events, where it has them, instead of listing again and again.",
    ),
    row(
        "servers",
        "none",
        "a list",
        "Further servers, or all of them: each with the keys `url`, `token`, `username`, `password`, \
         `insecure` and `clientTimeout` as above.",
    ),
    row(
        "servers[].name",
        "none",
        "lower-case letters, digits and inner dashes; each once; not `main`, which the server of the \
         keys above is called",
        "What messages and metrics call the server.",
    ),
    row("servers[].url, …", "as above", "as above", "As above."),
];

pub fn reference() -> String {
    let keys = variable_table("Key of the file", &KEYS);
    let variables = variable_table("Variable", &VARIABLES);
    format!("{keys}\n{variables}\n")
}
