//! The annotations of Services, one row each. The reader asks for them by row; the reference page,
//! the error texts and the guesses about misspelled keys come from them.

use std::fmt::Write as _;

/// What all keys begin with.
pub const PREFIX: &str = "cloud.tritoncompute/";

/// Which modes an annotation is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Modes {
    /// Both.
    Both,
    /// DNS names of nodes alone.
    Cns,
    /// Load balancer machines alone.
    Clb,
}

impl Modes {
    const fn words(self) -> &'static str {
        match self {
            Self::Both => "both",
            Self::Cns => "`cns`",
            Self::Clb => "`clb`",
        }
    }
}

/// What a change of the value does to a load balancer that is in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Changed in place, without an outage.
    InPlace,
    /// Another name or address is published; the old one goes afterwards.
    Renamed,
    /// Machines are replaced one by one.
    Replaced,
    /// We write it.
    Written,
}

impl Effect {
    const fn words(self) -> &'static str {
        match self {
            Self::InPlace => "in place",
            Self::Renamed => "published anew; what was before goes afterwards",
            Self::Replaced => "machines are replaced",
            Self::Written => "written back",
        }
    }
}

/// One annotation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Annotation {
    /// Its whole key.
    pub key: &'static str,
    /// What holds when it is absent or empty.
    pub default: &'static str,
    /// Which values are taken.
    pub allowed: &'static str,
    /// The modes that it is for.
    pub modes: Modes,
    /// What it is for.
    pub meaning: &'static str,
    /// What a change of it does.
    pub effect: Effect,
}

macro_rules! key {
    ($suffix:literal) => {
        concat!("cloud.tritoncompute/", $suffix)
    };
}

const YES_OR_NO: &str = "true or false";

const fn row(key: &'static str, allowed: &'static str, modes: Modes) -> Annotation {
    Annotation {
        key,
        default: "",
        allowed,
        modes,
        meaning: "",
        effect: Effect::InPlace,
    }
}

/// How the Service is served.
pub const MODE: Annotation = Annotation {
    default: "`loadBalancer.mode` of the configuration",
    meaning: "How the Service is served: by a DNS name of the nodes, or by load balancer machines. A \
              `loadBalancerClass` of `cloud.tritoncompute/cns` or `cloud.tritoncompute/clb` counts more.",
    effect: Effect::Renamed,
    ..row(key!("mode"), "cns or clb", Modes::Both)
};

/// The label of the DNS name.
pub const CNS_SERVICE: Annotation = Annotation {
    default: "`<service>.<namespace>`, with the cluster's name unless that is `kubernetes`",
    meaning: "The beginning of the DNS name. Machines outside of the cluster may carry it too.",
    effect: Effect::Renamed,
    ..row(
        key!("cns_service"),
        "lower-case DNS labels joined by dots, 63 characters in all, not beginning with k8s-nodes- or be-",
        Modes::Both,
    )
};

/// The network whose zone is published.
pub const CNS_NETWORK: Annotation = Annotation {
    default: "chosen among those that all members are on",
    meaning: "The network whose DNS zone is published.",
    effect: Effect::Renamed,
    ..row(
        key!("cns_network"),
        "the id or the name of a network",
        Modes::Both,
    )
};

/// Which port is reached at the nodes.
pub const CNS_PORT_MODE: Annotation = Annotation {
    default: "nodeport",
    meaning: "Which port clients reach at the nodes: the node port; the Service's port, which pods must have \
              on the host; or the Service's port, which kube-proxy answers because the nodes' addresses are \
              published (not with kube-proxy in IPVS mode).",
    ..row(
        key!("cns_port_mode"),
        "nodeport, service or direct",
        Modes::Cns,
    )
};

/// Whether it is for the private network.
pub const INTERNAL: Annotation = Annotation {
    default: "false",
    meaning: "Whether the private network and its zone are used instead of the public ones.",
    effect: Effect::Replaced,
    ..row(key!("internal"), YES_OR_NO, Modes::Both)
};

/// Which nodes may be members.
pub const NODE_SELECTOR: Annotation = Annotation {
    default: "all nodes",
    meaning: "Which nodes may be members.",
    ..row(
        key!("node_selector"),
        "a label selector such as pool=web,!spot",
        Modes::Both,
    )
};

/// Slots of servers.
pub const MAX_RS: Annotation = Annotation {
    default: "as many as the members need",
    meaning: "How many servers the load balancer has room for.",
    ..row(key!("max_rs"), "a whole number from 32 to 1024", Modes::Clb)
};

/// Subjects of a certificate.
pub const CERTIFICATE_NAME: Annotation = Annotation {
    meaning: "The subjects of a certificate that the machines get from Let's Encrypt.",
    ..row(
        key!("certificate_name"),
        "host names separated by commas",
        Modes::Clb,
    )
};

/// Who may read metrics.
pub const METRICS_ACL: Annotation = Annotation {
    meaning: "Who may read the machines' metrics; without it nobody.",
    ..row(
        key!("metrics_acl"),
        "networks such as 192.0.2.0/24 separated by commas or spaces",
        Modes::Clb,
    )
};

/// Where metrics are.
pub const METRICS_PORT: Annotation = Annotation {
    default: "8405",
    meaning: "The port of the machines' metrics.",
    ..row(
        key!("metrics_port"),
        "a whole number from 1 to 65534",
        Modes::Clb,
    )
};

/// Where the log goes.
pub const SYSLOG: Annotation = Annotation {
    meaning: "Where the machines send their log; needs a recent image.",
    ..row(key!("syslog"), "<host>:<port>", Modes::Clb)
};

/// How long things may take.
pub const TIMEOUTS: Annotation = Annotation {
    default: "the image's",
    meaning: "How long the machines wait; needs a recent image.",
    ..row(
        key!("timeouts"),
        "queue, connect, client and server, each at most once, such as connect:5000,client:60000, in \
         milliseconds",
        Modes::Clb,
    )
};

/// How all ports are balanced.
pub const PROTOCOL: Annotation = Annotation {
    default: "tcp",
    meaning: "How connections are understood, for all ports.",
    ..row(
        key!("protocol"),
        "tcp, http, https, https+insecure or https-http",
        Modes::Clb,
    )
};

/// How single ports are balanced.
pub const PROTOCOLS: Annotation = Annotation {
    meaning: "The same for single ports, by number or name.",
    ..row(
        key!("protocols"),
        "ports of the Service with their protocols, such as 80=http,443=https-http",
        Modes::Clb,
    )
};

/// Whether the client's address is passed on.
pub const PROXY_PROTOCOL: Annotation = Annotation {
    default: "false",
    meaning: "Whether nodes are told the client's address by the PROXY protocol; only with `tcp`, and a \
              recent image.",
    ..row(key!("proxy_protocol"), YES_OR_NO, Modes::Clb)
};

/// How nodes are checked.
pub const HEALTH_CHECK: Annotation = Annotation {
    default: "with `externalTrafficPolicy: Local` the Service's health check port, else a connection",
    meaning: "How nodes are checked. Without `path` by a connection.",
    ..row(
        key!("health_check"),
        "off, or path, port, rise (1 to 1000) and fall (1 to 1000), such as path=/healthz,port=9000,rise=2",
        Modes::Clb,
    )
};

/// How many machines.
pub const REPLICAS: Annotation = Annotation {
    default: "`loadBalancer.clbReplicas` of the configuration",
    meaning: "How many machines the load balancer has.",
    ..row(key!("replicas"), "a whole number from 1 to 8", Modes::Clb)
};

/// Their size.
pub const PACKAGE: Annotation = Annotation {
    default: "`loadBalancer.clbPackage` of the configuration",
    meaning: "The package of the machines.",
    effect: Effect::Replaced,
    ..row(
        key!("package"),
        "the id or the name of a package",
        Modes::Clb,
    )
};

/// Their image.
pub const IMAGE: Annotation = Annotation {
    default: "`loadBalancer.clbImage` of the configuration",
    meaning: "The image of the machines.",
    effect: Effect::Replaced,
    ..row(key!("image"), "the id or the name of an image", Modes::Clb)
};

/// A fixed address.
pub const IPV4: Annotation = Annotation {
    meaning: "The address of the machine on the private network; with `internal` and one replica.",
    effect: Effect::Replaced,
    ..row(key!("ipv4"), "an IPv4 address", Modes::Clb)
};

/// A machine of somebody else's.
pub const LB_INSTANCE: Annotation = Annotation {
    meaning: "A load balancer machine that exists and is used instead of an own one. It is never made, \
              deleted, renamed or tagged.",
    effect: Effect::Renamed,
    ..row(
        key!("lb_instance"),
        "the id or the name of a machine",
        Modes::Clb,
    )
};

/// What is published.
pub const PUBLISH: Annotation = Annotation {
    default: "hostname in mode `cns`, ip in mode `clb`",
    meaning: "What the Service's status shows.",
    ..row(key!("publish"), "ip, hostname or both", Modes::Both)
};

/// Another name for it.
pub const HOSTNAME: Annotation = Annotation {
    meaning: "A name that is published instead of the DNS name; it is for you to let it lead there.",
    ..row(key!("hostname"), "a DNS name", Modes::Both)
};

/// Whether machines are protected.
pub const DELETION_PROTECTION: Annotation = Annotation {
    default: "`loadBalancer.clbDeletionProtection` of the configuration",
    meaning: "Whether the machines are protected from deletion.",
    ..row(key!("deletion_protection"), YES_OR_NO, Modes::Clb)
};

/// The result in words.
pub const STATUS: Annotation = Annotation {
    meaning: "The result in a line.",
    effect: Effect::Written,
    ..row(key!("status"), "anything", Modes::Both)
};

/// The machines.
pub const INSTANCES: Annotation = Annotation {
    meaning: "The ids of the load balancer machines.",
    effect: Effect::Written,
    ..row(key!("instances"), "anything", Modes::Clb)
};

/// All of them, in the order of the reference page.
pub const ANNOTATIONS: [Annotation; 26] = [
    MODE,
    CNS_SERVICE,
    CNS_NETWORK,
    CNS_PORT_MODE,
    INTERNAL,
    NODE_SELECTOR,
    MAX_RS,
    CERTIFICATE_NAME,
    METRICS_ACL,
    METRICS_PORT,
    SYSLOG,
    TIMEOUTS,
    PROTOCOL,
    PROTOCOLS,
    PROXY_PROTOCOL,
    HEALTH_CHECK,
    REPLICAS,
    PACKAGE,
    IMAGE,
    IPV4,
    LB_INSTANCE,
    PUBLISH,
    HOSTNAME,
    DELETION_PROTECTION,
    STATUS,
    INSTANCES,
];

/// The reference page's table, in Markdown.
pub fn reference() -> String {
    let mut page = String::from(
        "| Annotation | Modes | Default | Allowed | Meaning | A change |\n|---|---|---|---|---|---|\n",
    );
    for row in ANNOTATIONS {
        let suffix = row.key.trim_start_matches(PREFIX);
        let default = if row.default.is_empty() {
            "none"
        } else {
            row.default
        };
        let (modes, effect) = (row.modes.words(), row.effect.words());
        let (allowed, meaning) = (row.allowed, row.meaning);
        // Writing to a string cannot fail.
        let _ = writeln!(
            page,
            "| `{suffix}` | {modes} | {default} | {allowed} | {meaning} | {effect} |",
        );
    }
    page
}
