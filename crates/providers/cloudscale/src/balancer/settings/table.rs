//! The annotations of Services, one row each. The reader asks for them by row; the reference page,
//! the error texts and the guesses about misspelled keys come from them.

pub use super::page::reference;

/// What all keys begin with.
pub const PREFIX: &str = "k8s.cloudscale.ch/";
/// What comes before the words by which settings go among those of single ports.
const BEFORE_WORDS: &str = "k8s.cloudscale.ch/loadbalancer-";

/// What a change of the value does to a load balancer that is in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Nothing in the cloud.
    Nothing,
    /// The Service gets to another load balancer.
    Relinks,
    /// Changed in place, without an outage.
    InPlace,
    /// Members come, then others go.
    Members,
    /// The health monitor is changed in place.
    MonitorChanged,
    /// The health monitor is replaced.
    MonitorReplaced,
    /// The listener is replaced: an outage of seconds on its port.
    ListenerReplaced,
    /// The pool is replaced: its port moves to a new one, an outage of seconds.
    PoolReplaced,
    /// It cannot be changed and is refused.
    Refused,
    /// It depends on which of the others it stands in for.
    AsTheOther,
}

impl Effect {
    pub(super) const fn words(self) -> &'static str {
        match self {
            Self::Nothing => "none in the cloud",
            Self::Relinks => "another load balancer",
            Self::InPlace => "in place",
            Self::Members => "members are replaced, new ones first",
            Self::MonitorChanged => "monitor changed in place",
            Self::MonitorReplaced => "monitor replaced",
            Self::ListenerReplaced => "listener replaced, seconds of outage",
            Self::PoolReplaced => "pool replaced, seconds of outage",
            Self::Refused => "refused",
            Self::AsTheOther => "as of the same setting for all ports",
        }
    }
}

/// One annotation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Annotation {
    /// Its whole key.
    pub key: &'static str,
    /// The type of its value.
    pub kind: &'static str,
    /// What holds when it is absent.
    pub default: &'static str,
    /// Which values are taken.
    pub allowed: &'static str,
    /// What it is for.
    pub meaning: &'static str,
    /// What a change of it does.
    pub effect: Effect,
    /// Whether the manager writes it.
    pub written_back: bool,
    /// Whether it can be said for single ports as well.
    pub per_port: bool,
    /// Whether a wrong value leaves it open which members are wanted.
    pub(super) about_members: bool,
}

const fn row(key: &'static str, kind: &'static str) -> Annotation {
    Annotation {
        key,
        kind,
        default: "",
        allowed: "",
        meaning: "",
        effect: Effect::InPlace,
        written_back: false,
        per_port: false,
        about_members: false,
    }
}

/// A row of something that can be said for single ports as well.
const fn port_row(key: &'static str, kind: &'static str) -> Annotation {
    Annotation {
        per_port: true,
        ..row(key, kind)
    }
}

impl Annotation {
    /// Its key without what all of them begin with.
    pub fn word(&self) -> &'static str {
        self.key.strip_prefix(BEFORE_WORDS).unwrap_or(self.key)
    }
}

// The types of values.
pub(super) const TEXT: &str = "text";
pub(super) const NUMBER: &str = "number";
pub(super) const TEXTS: &str = "JSON list of texts";
pub(super) const OBJECT: &str = "JSON object";
const POSITIVE: &str = "a whole number above 0";

/// Which load balancer it is.
pub const UUID: Annotation = Annotation {
    allowed: "a uuid",
    meaning: "The load balancer of the Service. Written by the manager; not for people.",
    effect: Effect::Relinks,
    written_back: true,
    ..row("k8s.cloudscale.ch/loadbalancer-uuid", TEXT)
};

/// The version of the defaults.
pub const CONFIG_VERSION: Annotation = Annotation {
    default: "1",
    allowed: "1",
    meaning: "The version of the defaults below. What is there is overwritten.",
    effect: Effect::Nothing,
    written_back: true,
    ..row("k8s.cloudscale.ch/loadbalancer-config-version", TEXT)
};

/// Where it is.
pub const ZONE: Annotation = Annotation {
    default: "the one zone of the nodes",
    allowed: "a zone, such as rma1 or lpg1",
    meaning: "Zone of the load balancer.",
    effect: Effect::Refused,
    written_back: true,
    ..row("k8s.cloudscale.ch/loadbalancer-zone", TEXT)
};

/// What it is called.
pub const NAME: Annotation = Annotation {
    default: "k8s-service-<uid of the Service>",
    allowed: "any text that is not empty, and not the default name of another Service's load balancer",
    meaning: "Name of the load balancer. An existing one of that name is used only if it is this \
              Service's already.",
    ..row("k8s.cloudscale.ch/loadbalancer-name", TEXT)
};

/// How large it is.
pub const FLAVOR: Annotation = Annotation {
    default: "lb-standard",
    allowed: "a flavour of load balancers, such as lb-standard",
    meaning: "Flavour of the load balancer.",
    effect: Effect::Refused,
    ..row("k8s.cloudscale.ch/loadbalancer-flavor", TEXT)
};

/// Its private addresses.
pub const VIP_ADDRESSES: Annotation = Annotation {
    default: "[]",
    allowed: "a JSON list of {\"subnet\": \"<uuid>\", \"address\": \"<IP, optional>\"}",
    meaning: "Addresses of the load balancer in private subnets; with none it has a public IPv4 and a \
              public IPv6 address. Not together with floating IPs.",
    effect: Effect::Refused,
    ..row(
        "k8s.cloudscale.ch/loadbalancer-vip-addresses",
        "JSON list of objects",
    )
};

/// Floating IPs that point to it.
pub const FLOATING_IPS: Annotation = Annotation {
    default: "[]",
    allowed: "a JSON list of addresses, with or without a prefix length",
    meaning: "Floating IPs that are moved to the load balancer. One that is taken out of the list stays \
              where it is: the cloud cannot unassign it.",
    ..row("k8s.cloudscale.ch/loadbalancer-floating-ips", TEXTS)
};

/// How connections are spread.
pub const POOL_ALGORITHM: Annotation = Annotation {
    default: "round_robin",
    allowed: "round_robin, least_connections or source_ip",
    meaning: "How connections are spread over the members.",
    effect: Effect::PoolReplaced,
    ..port_row("k8s.cloudscale.ch/loadbalancer-pool-algorithm", TEXT)
};

/// How members are spoken to.
pub const POOL_PROTOCOL: Annotation = Annotation {
    default: "tcp",
    allowed: "tcp, proxy or proxyv2",
    meaning: "Protocol towards the members of TCP ports; `proxy` and `proxyv2` tell them the client's \
              address. UDP ports always use `udp`.",
    effect: Effect::PoolReplaced,
    ..port_row("k8s.cloudscale.ch/loadbalancer-pool-protocol", TEXT)
};

/// How clients are spoken to.
pub const LISTENER_PROTOCOL: Annotation = Annotation {
    default: "tcp",
    allowed: "tcp",
    meaning: "Protocol of the listeners of TCP ports. UDP ports always use `udp`.",
    effect: Effect::ListenerReplaced,
    ..row("k8s.cloudscale.ch/loadbalancer-listener-protocol", TEXT)
};

/// Who may connect.
pub const ALLOWED_CIDRS: Annotation = Annotation {
    default: "spec.loadBalancerSourceRanges, or everybody",
    allowed: "a JSON list of networks in CIDR notation, or of addresses",
    meaning: "Who may connect; `[]` is everybody. Wins over \
              `spec.loadBalancerSourceRanges`.",
    ..port_row(
        "k8s.cloudscale.ch/loadbalancer-listener-allowed-cidrs",
        TEXTS,
    )
};

/// Through which subnets members are reached.
pub const ALLOWED_SUBNETS: Annotation = Annotation {
    default: "[]",
    allowed: "a JSON list of uuids of subnets",
    meaning: "Only addresses of nodes in these subnets become members; `[]` is all private ones.",
    effect: Effect::Members,
    about_members: true,
    ..row(
        "k8s.cloudscale.ch/loadbalancer-listener-allowed-subnets",
        TEXTS,
    )
};

/// How long a client may be silent.
pub const TIMEOUT_CLIENT_DATA: Annotation = Annotation {
    default: "50000",
    allowed: POSITIVE,
    meaning: "How long a client may be silent, in milliseconds.",
    ..port_row(
        "k8s.cloudscale.ch/loadbalancer-timeout-client-data-ms",
        NUMBER,
    )
};

/// How long connecting to a member may take.
pub const TIMEOUT_MEMBER_CONNECT: Annotation = Annotation {
    default: "5000",
    allowed: POSITIVE,
    meaning: "How long connecting to a member may take, in milliseconds.",
    ..port_row(
        "k8s.cloudscale.ch/loadbalancer-timeout-member-connect-ms",
        NUMBER,
    )
};

/// How long a member may be silent.
pub const TIMEOUT_MEMBER_DATA: Annotation = Annotation {
    default: "50000",
    allowed: POSITIVE,
    meaning: "How long a member may be silent, in milliseconds.",
    ..port_row(
        "k8s.cloudscale.ch/loadbalancer-timeout-member-data-ms",
        NUMBER,
    )
};

/// How often members are checked.
pub const MONITOR_DELAY: Annotation = Annotation {
    default: "2; 3 for udp-connect",
    allowed: POSITIVE,
    meaning: "Seconds between two health checks of a member.",
    effect: Effect::MonitorChanged,
    ..port_row(
        "k8s.cloudscale.ch/loadbalancer-health-monitor-delay-s",
        NUMBER,
    )
};

/// How long a check may take.
pub const MONITOR_TIMEOUT: Annotation = Annotation {
    default: "1; 2 for udp-connect",
    allowed: POSITIVE,
    meaning: "How long a health check may take, in seconds.",
    effect: Effect::MonitorChanged,
    ..port_row(
        "k8s.cloudscale.ch/loadbalancer-health-monitor-timeout-s",
        NUMBER,
    )
};

/// How many good checks make a member good.
pub const MONITOR_UP: Annotation = Annotation {
    default: "2",
    allowed: POSITIVE,
    meaning: "After how many good checks a member gets traffic.",
    effect: Effect::MonitorChanged,
    ..port_row(
        "k8s.cloudscale.ch/loadbalancer-health-monitor-up-threshold",
        NUMBER,
    )
};

/// How many bad checks make a member bad.
pub const MONITOR_DOWN: Annotation = Annotation {
    default: "3",
    allowed: POSITIVE,
    meaning: "After how many bad checks a member gets no more traffic.",
    effect: Effect::MonitorChanged,
    ..port_row(
        "k8s.cloudscale.ch/loadbalancer-health-monitor-down-threshold",
        NUMBER,
    )
};

/// How members are checked.
pub const MONITOR_TYPE: Annotation = Annotation {
    default: "tcp",
    allowed: "ping, tcp, http, https, tls-hello or udp-connect",
    meaning: "How members are checked. `udp-connect` concerns UDP ports; TCP ports then have `tcp`. With \
              `externalTrafficPolicy: Local` it is always `http`.",
    effect: Effect::MonitorReplaced,
    ..port_row("k8s.cloudscale.ch/loadbalancer-health-monitor-type", TEXT)
};

/// How members are checked over HTTP.
pub const MONITOR_HTTP: Annotation = Annotation {
    default: "{}",
    allowed: "a JSON object of expected_codes (a list of codes, or of one range), method, url_path, \
              version (1.0 or 1.1) and host (not with version 1.0)",
    meaning: "Options of `http` and `https` checks; what is missing is `[\"200\"]`, `GET`, `/`, `1.1`, no \
              host. `{}` with `externalTrafficPolicy: Local` is `GET /livez` with version 1.0. A change of \
              the version, or taking the host away, replaces the monitor.",
    effect: Effect::MonitorChanged,
    ..port_row("k8s.cloudscale.ch/loadbalancer-health-monitor-http", OBJECT)
};

/// A name instead of the addresses.
pub const FORCE_HOSTNAME: Annotation = Annotation {
    default: "none",
    allowed: "a host name in lower case",
    meaning: "The Service's status shows this name instead of the addresses.",
    effect: Effect::Nothing,
    ..row("k8s.cloudscale.ch/loadbalancer-force-hostname", TEXT)
};

/// How the cluster itself reaches the addresses.
pub const IP_MODE: Annotation = Annotation {
    default: "Proxy",
    allowed: "Proxy or VIP",
    meaning: "`ipMode` of the addresses in the Service's status, from Kubernetes 1.30 on.",
    effect: Effect::Nothing,
    ..row("k8s.cloudscale.ch/loadbalancer-ip-mode", TEXT)
};

/// Which nodes are members.
pub const NODE_SELECTOR: Annotation = Annotation {
    default: "all nodes",
    allowed: "a label selector",
    meaning: "Only nodes whose labels match become members.",
    effect: Effect::Members,
    about_members: true,
    ..row("k8s.cloudscale.ch/loadbalancer-node-selector", TEXT)
};

/// Floating IPs in the status.
pub const PUBLISH_FLOATING_IPS: Annotation = Annotation {
    default: "false",
    allowed: "true or false",
    meaning: "Whether the Service's status shows the floating IPs as well. Unknown to the original.",
    effect: Effect::Nothing,
    ..row("k8s.cloudscale.ch/loadbalancer-publish-floating-ips", TEXT)
};

/// What holds for single ports only.
pub const PORT_SETTINGS: Annotation = Annotation {
    default: "{}",
    allowed: "a JSON object from ports (443, 443/tcp or the port's name) to JSON objects of settings",
    meaning: "Settings of single ports, which win over those for all ports; see below. Unknown to the \
              original.",
    effect: Effect::AsTheOther,
    ..row("k8s.cloudscale.ch/loadbalancer-port-settings", OBJECT)
};

/// All of them, in the order of the reference page.
pub const ANNOTATIONS: [Annotation; 26] = [
    UUID,
    CONFIG_VERSION,
    ZONE,
    NAME,
    FLAVOR,
    VIP_ADDRESSES,
    FLOATING_IPS,
    POOL_ALGORITHM,
    POOL_PROTOCOL,
    LISTENER_PROTOCOL,
    ALLOWED_CIDRS,
    ALLOWED_SUBNETS,
    TIMEOUT_CLIENT_DATA,
    TIMEOUT_MEMBER_CONNECT,
    TIMEOUT_MEMBER_DATA,
    MONITOR_DELAY,
    MONITOR_TIMEOUT,
    MONITOR_UP,
    MONITOR_DOWN,
    MONITOR_TYPE,
    MONITOR_HTTP,
    PORT_SETTINGS,
    FORCE_HOSTNAME,
    IP_MODE,
    NODE_SELECTOR,
    PUBLISH_FLOATING_IPS,
];

/// Those that can be said for single ports as well.
pub(super) fn of_ports() -> impl Iterator<Item = Annotation> {
    ANNOTATIONS.into_iter().filter(|row| row.per_port)
}
