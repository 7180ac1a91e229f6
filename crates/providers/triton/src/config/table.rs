//! Every value that can be configured, one row each. The readers ask for values by row, flags are
//! made of rows, and the reference page is made of the rows.

use std::fmt::Write as _;

use bowline_core::{Variable, variable_table};

/// The part of the file that a value stands in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Section {
    Global,
    Nodes,
    LoadBalancer,
    Routes,
    Metrics,
}

impl Section {
    pub const ALL: [Self; 5] = [
        Self::Global,
        Self::Nodes,
        Self::LoadBalancer,
        Self::Routes,
        Self::Metrics,
    ];

    pub const fn gcfg(self) -> &'static str {
        match self {
            Self::Global => "Global",
            Self::Nodes => "Nodes",
            Self::LoadBalancer => "LoadBalancer",
            Self::Routes => "Routes",
            Self::Metrics => "Metrics",
        }
    }

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

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlagForm {
    None,
    Text,
    /// It is true or false, and may stand alone.
    Switch,
}

/// One value: where it can stand, and what it may be.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    pub section: Section,
    /// Its key in the file, meaning, default and what is allowed.
    pub variable: Variable,
    /// The environment variables for it; the first that is not empty wins.
    pub environment: &'static [&'static str],
    /// The keys of the Secret for it; the first that is present wins.
    pub secret: &'static [&'static str],
    pub flag: FlagForm,
    /// Whether it is a list: separated by commas, or a list in YAML.
    pub list: bool,
    pub connection: bool,
}

impl Row {
    const fn new(section: Section, [name, default, allowed, meaning]: [&'static str; 4]) -> Self {
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
    const fn reaching(mut self) -> Self {
        self.connection = true;
        self.flag = FlagForm::Text;
        self
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

/// Defines rows: section, key, default, what is allowed, meaning. `ROWS` are all of them, in the
/// order of the reference page.
macro_rules! rows {
    ($($name:ident = $section:ident $texts:tt $(.$more:ident $names:tt)*;)*) => {
        $(pub const $name: Row = Row::new(Section::$section, $texts)$(.$more $names)*;)*

        pub const ROWS: [Row; [$(stringify!($name)),*].len()] = [$($name),*];
    };
}

rows! {
    ENDPOINT = Global ["triton-endpoint", "required", "an http or https URL; a path prefix is kept",
        "CloudAPI of one data center."].reaching()
            .environment(&["SDC_ENDPOINT", "TRITON_URL", "SDC_URL"])
            .secret(&["SDC_ENDPOINT", "SDC_URL", "TRITON_URL", "triton-url"]);
    ACCOUNT = Global ["triton-account", "required", "a login, not a UUID",
        "The account that the key belongs to."].reaching()
            .environment(&["TRITON_ACCOUNT", "SDC_ACCOUNT"])
            .secret(&["TRITON_ACCOUNT", "SDC_ACCOUNT", "triton-account"]);
    USER = Global ["triton-user", "none", "a login",
        "The sub-user of the account that the key belongs to. Its role should be a default \
         role. Not together with `triton-act-as`."].reaching()
            .environment(&["TRITON_USER", "SDC_USER"])
            .secret(&["TRITON_USER", "SDC_USER", "triton-user"]);
    ACT_AS = Global ["triton-act-as", "none", "a login",
        "The account whose machines are meant, where it is not the key's own."].reaching()
            .environment(&["TRITON_ACT_AS"]).secret(&["TRITON_ACT_AS"]);
    ROLES = Global ["triton-roles", "the sub-user's default roles",
        "role names, separated by commas",
        "Roles that requests ask for, where the API lets them."].reaching()
            .environment(&["TRITON_ROLE"]).secret(&["TRITON_ROLE"]).list();
    KEY_ID = Global ["triton-key-id", "that of the private key",
        "a fingerprint: hexadecimal with or without colons, `MD5:…` or `SHA256:…`",
        "The fingerprint of the key. When given, it must be that of the private key."].reaching()
            .environment(&["TRITON_KEY_ID", "SDC_KEY_ID"])
            .secret(&["TRITON_KEY_ID", "SDC_KEY_ID", "triton-key-id"]);
    PRIVATE_KEY = Global ["triton-private-key", "`triton-private-key-file`",
        "a private key: OpenSSH, PKCS#1, SEC1 or PKCS#8",
        "The private key. `\\n` stands for a line break. The variables `…_KEY_MATERIAL` may \
         also name a file."].reaching()
            .environment(&["SDC_PRIVATE_KEY", "TRITON_KEY_MATERIAL", "SDC_KEY_MATERIAL"])
            .secret(&["SDC_PRIVATE_KEY", "TRITON_KEY_MATERIAL", "triton-key"]).no_flag();
    PRIVATE_KEY_FILE = Global ["triton-private-key-file", "none", "a path",
        "A file with the private key, used where the key itself is not given."].reaching()
            .environment(&["TRITON_KEY_FILE", "SDC_KEY_FILE"]);
    KEY_PASSPHRASE = Global ["triton-key-passphrase", "none", TEXT,
        "The passphrase of an encrypted OpenSSH key."].reaching()
            .environment(&["TRITON_KEY_PASSPHRASE"]).secret(&["TRITON_KEY_PASSPHRASE"]).no_flag();
    TLS_INSECURE = Global ["triton-tls-insecure", "false",
        "`true` or `false`; anything but nothing is true in the two variables `…_SKIP_TLS_VERIFY`",
        "The certificate of CloudAPI is not checked."].reaching()
            .environment(&["TRITON_TLS_INSECURE", "SDC_TLS_INSECURE", "SDC_TESTING",
                "TRITON_SKIP_TLS_VERIFY", "SDC_SKIP_TLS_VERIFY"]).switch();
    CA_FILE = Global ["triton-ca-file", "none", "a path; in the Secret, certificates in PEM form",
        "Further authorities that CloudAPI's certificate may be signed by."].reaching()
            .environment(&["TRITON_CA_FILE"]).secret(&["ca.crt"]);
    DATACENTER = Global ["triton-datacenter", "as CloudAPI reports", "a label value",
        "The name of the data center."].reaching().environment(&["TRITON_DC"]);
    REGION = Global ["region", "the data center", "a label value",
        "The region of nodes."].reaching();
    ZONE = Global ["zone", "the data center", "a label value",
        "The zone of nodes."].reaching();
    CLUSTER_NAME = Global ["cluster-name", "`--cluster-name`",
        "up to 40 lower-case letters, digits and inner dashes",
        "The name of the cluster in names of machines and groups."];
    API_VERSION = Global ["api-version", "`~9||~8`", "a range of versions",
        "`Accept-Version` of requests."];
    REQUEST_TIMEOUT = Global ["request-timeout", "60s", DURATION,
        "The limit for one request."];
    QPS = Global ["qps", "5", "a whole number from 1",
        "Requests per second in the long run. The account's other tools share the server's limit."];
    BURST = Global ["burst", "15", "a whole number from 1",
        "Requests that may follow each other at once."];
    SIGN_REQUEST_TARGET = Global ["sign-request-target", "true", BOOLEAN,
        "Method and path are signed beside the date. `false` where a proxy rewrites paths."];
    CHANGEFEED = Global ["changefeed", "auto", "`auto` or `off`",
        "The change feed is followed where there is one; machines are listed every `resync` in \
         any case."];
    RESYNC = Global ["resync", "60s", DURATION,
        "How often all machines are listed."];
    NAME_MATCH = Nodes ["name-match", "true", BOOLEAN,
        "Machines of nodes without provider id are found by name, machine id and address, too."];
    LABELS_FROM_TAGS = Nodes ["labels-from-tags", "none", "tag keys, separated by commas",
        "Tags of machines that become labels `tag.cloud.tritoncompute/<key>` of their nodes."]
            .list();
    MODE = LoadBalancer ["mode", "cns", "`cns`, `clb` or `none`",
        "What Services get that do not say it: a DNS name of all nodes, load balancer machines, \
         or nothing."];
    PUBLIC_NETWORK = LoadBalancer ["public-network", "found", NETWORK,
        "The network of names and addresses of Services."];
    PRIVATE_NETWORK = LoadBalancer ["private-network", "found", NETWORK,
        "The network of internal Services, and between load balancers and nodes."];
    CNS_SUFFIX_PUBLIC = LoadBalancer ["cns-suffix-public", "found", "a DNS zone",
        "The zone of public names where the API does not tell it."];
    CNS_SUFFIX_PRIVATE = LoadBalancer ["cns-suffix-private", "found", "a DNS zone",
        "The zone of internal names where the API does not tell it."];
    CNS_LABEL_STYLE = LoadBalancer ["cns-label-style", "dotted", "`dotted` or `flat`",
        "Names of Services as `<service>.<namespace>`, or without dots for old installations."];
    ADOPT_LEGACY = LoadBalancer ["adopt-legacy", "false", BOOLEAN,
        "Load balancer machines of triton-loadbalancer-controller are taken over."];
    CNS_ENABLE_ACCOUNT = LoadBalancer ["cns-enable-account", "false", BOOLEAN,
        "The name service is switched on for the account if it is off."];
    FIREWALL = LoadBalancer ["firewall", "auto", "`auto` or `never`",
        "Firewall rules for Services are kept where machines have their firewall on."];
    CLB_IMAGE = LoadBalancer ["clb-image", "`cloud-load-balancer`",
        "the name or the UUID of an image",
        "The image of load balancer machines."].environment(&["TRITON_LB_IMAGE"]);
    CLB_PACKAGE = LoadBalancer ["clb-package", "none, required in mode `clb`",
        "the name or the UUID of a package",
        "The package of load balancer machines."].environment(&["TRITON_LB_PACKAGE"]);
    CLB_REPLICAS = LoadBalancer ["clb-replicas", "1", "1 to 8",
        "Load balancer machines of each Service."];
    ALLOWED_IMAGES = LoadBalancer ["allowed-images", "none but `clb-image`",
        "names or UUIDs of images, separated by commas",
        "The images that Services may ask for beside the configured one."]
            .environment(&["TRITON_LB_ALLOWED_IMAGES"]).list();
    ALLOWED_PACKAGES = LoadBalancer ["allowed-packages", "none but `clb-package`",
        "names or UUIDs of packages, separated by commas",
        "The packages that Services may ask for beside the configured one."]
            .environment(&["TRITON_LB_ALLOWED_PACKAGES"]).list();
    MAX_REPLICAS = LoadBalancer ["max-replicas", "2, or `clb-replicas` if that is more", "1 to 8",
        "The most load balancer machines that a Service may ask for."]
            .environment(&["TRITON_LB_MAX_REPLICAS"]);
    PROVISION_TIMEOUT = LoadBalancer ["provision-timeout", "300s", DURATION,
        "How long a load balancer machine may take to run."]
            .environment(&["TRITON_PROVISION_TIMEOUT"]);
    DELETE_TIMEOUT = LoadBalancer ["delete-timeout", "300s", DURATION,
        "How long a load balancer machine may take to be gone."]
            .environment(&["TRITON_DELETE_TIMEOUT"]);
    CLB_DELETION_PROTECTION = LoadBalancer ["clb-deletion-protection", "false", BOOLEAN,
        "Load balancer machines are protected from deletion."];
    ROUTES_ENABLED = Routes ["enabled", "false", BOOLEAN,
        "Routes to pod ranges are kept on fabric networks."];
    ROUTES_NETWORKS = Routes ["networks", "those that nodes are on",
        "UUIDs or names of fabric networks, separated by commas",
        "The fabric networks that get routes."].list();
    METRICS_MODE = Metrics ["mode", "off", "`off`, `discovery` or `export`",
        "Whether Prometheus is led to the metrics of machines, or gets them from here."];
    CMON_ENDPOINT = Metrics ["cmon-endpoint", "found", "an https URL",
        "The metrics service."];
}

/// The variables in which anything but nothing is true.
pub const ANYTHING_IS_TRUE: [&str; 2] = ["TRITON_SKIP_TLS_VERIFY", "SDC_SKIP_TLS_VERIFY"];

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
