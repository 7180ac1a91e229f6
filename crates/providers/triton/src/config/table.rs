//! Every value that can be configured, one row each. The readers ask for values by row, flags are made
//! of rows, and the reference page is made of the rows.

use std::fmt::Write as _;

use bowline_core::{Variable, variable_table};

/// The part of the file that a value stands in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Section {
    Global,
    Nodes,
    /// `[LoadBalancer]`, `loadBalancer:`.
    LoadBalancer,
    Routes,
    Metrics,
}

impl Section {
    /// All of them.
    pub const ALL: [Self; 5] = [
        Self::Global,
        Self::Nodes,
        Self::LoadBalancer,
        Self::Routes,
        Self::Metrics,
    ];

    /// Its name in a file of the original's form.
    pub const fn gcfg(self) -> &'static str {
        match self {
            Self::Global => "Global",
            Self::Nodes => "Nodes",
            Self::LoadBalancer => "LoadBalancer",
            Self::Routes => "Routes",
            Self::Metrics => "Metrics",
        }
    }

    /// Its name in YAML.
    pub const fn yaml(self) -> &'static str {
        match self {
            Self::Global => "global",
            Self::Nodes => "nodes",
            Self::LoadBalancer => "loadBalancer",
            Self::Routes => "routes",
            Self::Metrics => "metrics",
        }
    }
}

/// How a value is given as a flag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlagForm {
    /// Not at all.
    None,
    Text,
    /// It is true or false, and may stand alone.
    Switch,
}

/// One value: where it can stand, and what it may be.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    /// Where it stands in the file.
    pub section: Section,
    /// Its key in the file, meaning, default and what is allowed.
    pub variable: Variable,
    /// The environment variables for it; the first that is not empty wins.
    pub environment: &'static [&'static str],
    /// The keys of the Secret for it; the first that is present wins.
    pub secret: &'static [&'static str],
    /// Whether `--<key>` is a flag.
    pub flag: FlagForm,
    /// Whether it is a list: separated by commas, or a list in YAML.
    pub list: bool,
    /// Whether each profile has its own.
    pub connection: bool,
}

impl Row {
    const fn new(
        section: Section,
        name: &'static str,
        default: &'static str,
        allowed: &'static str,
        meaning: &'static str,
    ) -> Self {
        let variable = Variable {
            name,
            meaning,
            default,
            allowed,
        };
        Self {
            section,
            variable,
            environment: &[],
            secret: &[],
            flag: FlagForm::None,
            list: false,
            connection: false,
        }
    }

    /// A value about how CloudAPI is reached.
    const fn reaching(
        name: &'static str,
        default: &'static str,
        allowed: &'static str,
        meaning: &'static str,
    ) -> Self {
        let mut row = Self::new(Section::Global, name, default, allowed, meaning);
        row.connection = true;
        row.flag = FlagForm::Text;
        row
    }

    const fn environment(mut self, names: &'static [&'static str]) -> Self {
        self.environment = names;
        self
    }

    const fn secret(mut self, keys: &'static [&'static str]) -> Self {
        self.secret = keys;
        self
    }

    const fn no_flag(mut self) -> Self {
        self.flag = FlagForm::None;
        self
    }

    const fn switch(mut self) -> Self {
        self.flag = FlagForm::Switch;
        self
    }

    const fn list(mut self) -> Self {
        self.list = true;
        self
    }

    /// Whether `--<key>` is a flag.
    pub fn is_flag(&self) -> bool {
        self.flag != FlagForm::None
    }

    /// Its key in the file: `triton-key-id`.
    pub const fn key(&self) -> &'static str {
        self.variable.name
    }

    /// Its key in YAML: `tritonKeyId`.
    pub fn yaml_key(&self) -> String {
        let mut parts = self.key().split('-');
        let mut name = parts.next().unwrap_or_default().to_owned();
        for part in parts {
            let mut letters = part.chars();
            name.extend(letters.next().map(|first| first.to_ascii_uppercase()));
            name.push_str(letters.as_str());
        }
        name
    }
}

const TEXT: &str = "a text";
const BOOLEAN: &str = "`true` or `false`";
const DURATION: &str = "a duration such as `90s`; a number alone is seconds";
const NETWORK: &str = "the UUID or the name of a network";

/// Where CloudAPI is.
pub const ENDPOINT: Row = Row::reaching(
    "triton-endpoint",
    "required",
    "an http or https URL; a path prefix is kept",
    "CloudAPI of one data center.",
)
.environment(&["SDC_ENDPOINT", "TRITON_URL", "SDC_URL"])
.secret(&["SDC_ENDPOINT", "SDC_URL", "TRITON_URL", "triton-url"]);

/// Whose account.
pub const ACCOUNT: Row = Row::reaching(
    "triton-account",
    "required",
    "a login, not a UUID",
    "The account that the key belongs to.",
)
.environment(&["TRITON_ACCOUNT", "SDC_ACCOUNT"])
.secret(&["TRITON_ACCOUNT", "SDC_ACCOUNT", "triton-account"]);

/// A sub-user of the account.
pub const USER: Row = Row::reaching(
    "triton-user",
    "none",
    "a login",
    "The sub-user of the account that the key belongs to. Its role should be a default role. Not \
     together with `triton-act-as`.",
)
.environment(&["TRITON_USER", "SDC_USER"])
.secret(&["TRITON_USER", "SDC_USER", "triton-user"]);

/// Another account.
pub const ACT_AS: Row = Row::reaching(
    "triton-act-as",
    "none",
    "a login",
    "The account whose machines are meant, where it is not the key's own.",
)
.environment(&["TRITON_ACT_AS"])
.secret(&["TRITON_ACT_AS"]);

/// Roles to take on.
pub const ROLES: Row = Row::reaching(
    "triton-roles",
    "the sub-user's default roles",
    "role names, separated by commas",
    "Roles that requests ask for, where the API lets them.",
)
.environment(&["TRITON_ROLE"])
.secret(&["TRITON_ROLE"])
.list();

pub const KEY_ID: Row = Row::reaching(
    "triton-key-id",
    "that of the private key",
    "a fingerprint: hexadecimal with or without colons, `MD5:…` or `SHA256:…`",
    "The fingerprint of the key. When given, it must be that of the private key.",
)
.environment(&["TRITON_KEY_ID", "SDC_KEY_ID"])
.secret(&["TRITON_KEY_ID", "SDC_KEY_ID", "triton-key-id"]);

/// The key itself.
pub const PRIVATE_KEY: Row = Row::reaching(
    "triton-private-key",
    "`triton-private-key-file`",
    "a private key: OpenSSH, PKCS#1, SEC1 or PKCS#8",
    "The private key. `\\n` stands for a line break. The variables `…_KEY_MATERIAL` may also name a \
     file.",
)
.environment(&["SDC_PRIVATE_KEY", "TRITON_KEY_MATERIAL", "SDC_KEY_MATERIAL"])
.secret(&["SDC_PRIVATE_KEY", "TRITON_KEY_MATERIAL", "triton-key"])
.no_flag();

pub const PRIVATE_KEY_FILE: Row = Row::reaching(
    "triton-private-key-file",
    "none",
    "a path",
    "A file with the private key, used where the key itself is not given.",
)
.environment(&["TRITON_KEY_FILE", "SDC_KEY_FILE"]);

/// What opens the key.
pub const KEY_PASSPHRASE: Row = Row::reaching(
    "triton-key-passphrase",
    "none",
    TEXT,
    "The passphrase of an encrypted OpenSSH key.",
)
.environment(&["TRITON_KEY_PASSPHRASE"])
.secret(&["TRITON_KEY_PASSPHRASE"])
.no_flag();

/// Whether certificates are not checked.
pub const TLS_INSECURE: Row = Row::reaching(
    "triton-tls-insecure",
    "false",
    "`true` or `false`; anything but nothing is true in the two variables `…_SKIP_TLS_VERIFY`",
    "The certificate of CloudAPI is not checked.",
)
.environment(&[
    "TRITON_TLS_INSECURE",
    "SDC_TLS_INSECURE",
    "SDC_TESTING",
    "TRITON_SKIP_TLS_VERIFY",
    "SDC_SKIP_TLS_VERIFY",
])
.switch();

/// The variables in which anything but nothing is true.
pub const ANYTHING_IS_TRUE: [&str; 2] = ["TRITON_SKIP_TLS_VERIFY", "SDC_SKIP_TLS_VERIFY"];

/// Whom to trust beside the usual authorities.
pub const CA_FILE: Row = Row::reaching(
    "triton-ca-file",
    "none",
    "a path; in the Secret, certificates in PEM form",
    "Further authorities that CloudAPI's certificate may be signed by.",
)
.environment(&["TRITON_CA_FILE"])
.secret(&["ca.crt"]);

/// What the data center is called.
pub const DATACENTER: Row = Row::reaching(
    "triton-datacenter",
    "what CloudAPI says",
    "a label value",
    "The name of the data center.",
)
.environment(&["TRITON_DC"]);

/// The region of nodes.
pub const REGION: Row = Row::reaching(
    "region",
    "the data center",
    "a label value",
    "The region of nodes.",
);

/// The zone of nodes.
pub const ZONE: Row = Row::reaching(
    "zone",
    "the data center",
    "a label value",
    "The zone of nodes.",
);

const fn global(
    name: &'static str,
    default: &'static str,
    allowed: &'static str,
    meaning: &'static str,
) -> Row {
    Row::new(Section::Global, name, default, allowed, meaning)
}

const fn balancer(
    name: &'static str,
    default: &'static str,
    allowed: &'static str,
    meaning: &'static str,
) -> Row {
    Row::new(Section::LoadBalancer, name, default, allowed, meaning)
}

/// The cluster's name.
pub const CLUSTER_NAME: Row = global(
    "cluster-name",
    "`--cluster-name`",
    "up to 40 lower-case letters, digits and inner dashes",
    "The name of the cluster in names of machines and groups.",
);
pub const API_VERSION: Row = global(
    "api-version",
    "`~9||~8`",
    "a range of versions",
    "`Accept-Version` of requests.",
);
/// How long a request may take.
pub const REQUEST_TIMEOUT: Row = global(
    "request-timeout",
    "60s",
    DURATION,
    "The limit for one request.",
);
/// How often CloudAPI is asked.
pub const QPS: Row = global(
    "qps",
    "5",
    "a whole number from 1",
    "Requests per second in the long run. The account's other tools share the server's limit.",
);
/// How often at once.
pub const BURST: Row = global(
    "burst",
    "15",
    "a whole number from 1",
    "Requests that may follow each other at once.",
);
/// What signatures cover.
pub const SIGN_REQUEST_TARGET: Row = global(
    "sign-request-target",
    "true",
    BOOLEAN,
    "Method and path are signed beside the date. `false` where a proxy rewrites paths.",
);
/// Whether the change feed is used.
pub const CHANGEFEED: Row = global(
    "changefeed",
    "auto",
    "`auto` or `off`",
    "The change feed is followed where there is one; machines are listed every `resync` in any case.",
);
/// How old the list of machines may be.
pub const RESYNC: Row = global(
    "resync",
    "60s",
    DURATION,
    "How often all machines are listed.",
);
/// Whether names count.
pub const NAME_MATCH: Row = Row::new(
    Section::Nodes,
    "name-match",
    "true",
    BOOLEAN,
    "Machines of nodes without provider id are found by name, machine id and address, too.",
);
pub const LABELS_FROM_TAGS: Row = Row::new(
    Section::Nodes,
    "labels-from-tags",
    "none",
    "tag keys, separated by commas",
    "Tags of machines that become labels `tag.cloud.tritoncompute/<key>` of their nodes.",
)
.list();
/// How Services are served.
pub const MODE: Row = balancer(
    "mode",
    "cns",
    "`cns`, `clb` or `none`",
    "What Services get that do not say it: a DNS name of all nodes, load balancer machines, or nothing.",
);
/// The network outside.
pub const PUBLIC_NETWORK: Row = balancer(
    "public-network",
    "found",
    NETWORK,
    "The network of names and addresses of Services.",
);
/// The network inside.
pub const PRIVATE_NETWORK: Row = balancer(
    "private-network",
    "found",
    NETWORK,
    "The network of internal Services, and between load balancers and nodes.",
);
/// The zone outside.
pub const CNS_SUFFIX_PUBLIC: Row = balancer(
    "cns-suffix-public",
    "found",
    "a DNS zone",
    "The zone of public names where the API does not tell it.",
);
/// The zone inside.
pub const CNS_SUFFIX_PRIVATE: Row = balancer(
    "cns-suffix-private",
    "found",
    "a DNS zone",
    "The zone of internal names where the API does not tell it.",
);
/// How names are made.
pub const CNS_LABEL_STYLE: Row = balancer(
    "cns-label-style",
    "dotted",
    "`dotted` or `flat`",
    "Names of Services as `<service>.<namespace>`, or without dots for old installations.",
);
/// Machines of another controller.
pub const ADOPT_LEGACY: Row = balancer(
    "adopt-legacy",
    "false",
    BOOLEAN,
    "Load balancer machines of triton-loadbalancer-controller are taken over.",
);
/// Whether the account may be changed.
pub const CNS_ENABLE_ACCOUNT: Row = balancer(
    "cns-enable-account",
    "false",
    BOOLEAN,
    "The name service is switched on for the account if it is off.",
);
/// Whether firewall rules are made.
pub const FIREWALL: Row = balancer(
    "firewall",
    "auto",
    "`auto` or `never`",
    "Firewall rules for Services are kept where machines have their firewall on.",
);
/// The appliance's image.
pub const CLB_IMAGE: Row = balancer(
    "clb-image",
    "`cloud-load-balancer`",
    "the name or the UUID of an image",
    "The image of load balancer machines.",
)
.environment(&["TRITON_LB_IMAGE"]);
/// The appliance's size.
pub const CLB_PACKAGE: Row = balancer(
    "clb-package",
    "none, required in mode `clb`",
    "the name or the UUID of a package",
    "The package of load balancer machines.",
)
.environment(&["TRITON_LB_PACKAGE"]);
/// How many appliances.
pub const CLB_REPLICAS: Row = balancer(
    "clb-replicas",
    "1",
    "1 to 8",
    "Load balancer machines of each Service.",
);
/// Images that Services may name.
pub const ALLOWED_IMAGES: Row = balancer(
    "allowed-images",
    "none but `clb-image`",
    "names or UUIDs of images, separated by commas",
    "The images that Services may ask for beside the configured one.",
)
.environment(&["TRITON_LB_ALLOWED_IMAGES"])
.list();
/// Packages that Services may name.
pub const ALLOWED_PACKAGES: Row = balancer(
    "allowed-packages",
    "none but `clb-package`",
    "names or UUIDs of packages, separated by commas",
    "The packages that Services may ask for beside the configured one.",
)
.environment(&["TRITON_LB_ALLOWED_PACKAGES"])
.list();
/// How many appliances a Service may have.
pub const MAX_REPLICAS: Row = balancer(
    "max-replicas",
    "2, or `clb-replicas` if that is more",
    "1 to 8",
    "The most load balancer machines that a Service may ask for.",
)
.environment(&["TRITON_LB_MAX_REPLICAS"]);
/// How long a machine may take to come up.
pub const PROVISION_TIMEOUT: Row = balancer(
    "provision-timeout",
    "300s",
    DURATION,
    "How long a load balancer machine may take to run.",
)
.environment(&["TRITON_PROVISION_TIMEOUT"]);
/// How long a machine may take to go.
pub const DELETE_TIMEOUT: Row = balancer(
    "delete-timeout",
    "300s",
    DURATION,
    "How long a load balancer machine may take to be gone.",
)
.environment(&["TRITON_DELETE_TIMEOUT"]);
/// Whether appliances are protected.
pub const CLB_DELETION_PROTECTION: Row = balancer(
    "clb-deletion-protection",
    "false",
    BOOLEAN,
    "Load balancer machines are protected from deletion.",
);
/// Whether there are routes.
pub const ROUTES_ENABLED: Row = Row::new(
    Section::Routes,
    "enabled",
    "false",
    BOOLEAN,
    "Routes to pod ranges are kept on fabric networks.",
);
pub const ROUTES_NETWORKS: Row = Row::new(
    Section::Routes,
    "networks",
    "those that nodes are on",
    "UUIDs or names of fabric networks, separated by commas",
    "The fabric networks that get routes.",
)
.list();
/// What is done about metrics.
pub const METRICS_MODE: Row = Row::new(
    Section::Metrics,
    "mode",
    "off",
    "`off`, `discovery` or `export`",
    "Whether Prometheus is led to the metrics of machines, or gets them from here.",
);
/// Where the metrics are.
pub const CMON_ENDPOINT: Row = Row::new(
    Section::Metrics,
    "cmon-endpoint",
    "found",
    "an https URL",
    "The metrics service.",
);

/// The Secret that values are taken from: a flag alone.
pub const CREDENTIALS_SECRET: Variable = Variable {
    name: "triton-credentials-secret",
    meaning: "The Secret with the credentials, as `<namespace>/<name>`. A change of it is taken on without a \
              restart.",
    default: "none",
    allowed: "`<namespace>/<name>`",
};

/// The flags: name, whether it may stand alone, and meaning.
pub fn flags() -> impl Iterator<Item = (&'static str, bool, &'static str)> {
    let rows = ROWS.iter().filter(|row| row.is_flag());
    let is_switch = |row: &Row| row.flag == FlagForm::Switch;
    let of_rows = rows.map(move |row| (row.key(), is_switch(row), row.variable.meaning));
    let secret = CREDENTIALS_SECRET;
    of_rows.chain([(secret.name, false, secret.meaning)])
}

/// All of them, in the order of the reference page.
pub const ROWS: [Row; 46] = [
    ENDPOINT,
    ACCOUNT,
    USER,
    ACT_AS,
    ROLES,
    KEY_ID,
    PRIVATE_KEY,
    PRIVATE_KEY_FILE,
    KEY_PASSPHRASE,
    TLS_INSECURE,
    CA_FILE,
    DATACENTER,
    REGION,
    ZONE,
    CLUSTER_NAME,
    API_VERSION,
    REQUEST_TIMEOUT,
    QPS,
    BURST,
    SIGN_REQUEST_TARGET,
    CHANGEFEED,
    RESYNC,
    NAME_MATCH,
    LABELS_FROM_TAGS,
    MODE,
    PUBLIC_NETWORK,
    PRIVATE_NETWORK,
    CNS_SUFFIX_PUBLIC,
    CNS_SUFFIX_PRIVATE,
    CNS_LABEL_STYLE,
    ADOPT_LEGACY,
    CNS_ENABLE_ACCOUNT,
    FIREWALL,
    CLB_IMAGE,
    CLB_PACKAGE,
    CLB_REPLICAS,
    ALLOWED_IMAGES,
    ALLOWED_PACKAGES,
    MAX_REPLICAS,
    PROVISION_TIMEOUT,
    DELETE_TIMEOUT,
    CLB_DELETION_PROTECTION,
    ROUTES_ENABLED,
    ROUTES_NETWORKS,
    METRICS_MODE,
    CMON_ENDPOINT,
];

/// The reference page's tables, in Markdown.
pub fn reference() -> String {
    let mut text = String::new();
    for section in Section::ALL {
        let rows = ROWS.iter().filter(|row| row.section == section);
        let rows: Vec<Variable> = rows.map(|row| row.variable).collect();
        let title = format!("Key of `[{}]`, `{}`", section.gcfg(), section.yaml());
        let table = variable_table(&title, &rows);
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{table}");
    }
    text.push_str("| Value | Flag | Environment | Key of the Secret |\n|---|---|---|---|\n");
    let names = |names: &[&str]| {
        let names: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
        names.join(", ")
    };
    for row in &ROWS {
        if !row.is_flag() && row.environment.is_empty() && row.secret.is_empty() {
            continue;
        }
        let key = row.key();
        let flag = if row.is_flag() {
            format!("`--{key}`")
        } else {
            String::new()
        };
        let (environment, secret) = (names(row.environment), names(row.secret));
        let _ = writeln!(text, "| `{key}` | {flag} | {environment} | {secret} |");
    }
    text
}
