//! The annotations of Services, one row each. The reader asks for them by row; the reference page,
//! the error texts and the guesses about misspelled keys come from them.

use bowline_core::Allowed::{self, OneOf, Words};
use bowline_core::{Annotation, AnnotationTable, Spaces, annotation_rows};

pub use super::page::reference;

// The types of values.
pub(super) const TEXT: &str = "text";
pub(super) const NUMBER: &str = "number";
pub(super) const TEXTS: &str = "JSON list of texts";
pub(super) const OBJECT: &str = "JSON object";
const POSITIVE: Allowed = Words("a whole number above 0");

// What a change does.
const NONE: &str = "none in the cloud";
const RELINKS: &str = "another load balancer";
const TARGETS: &str = "members are replaced, new ones first";
const MONITOR_CHANGED: &str = "monitor changed in place";
const MONITOR_REPLACED: &str = "monitor replaced";
const LISTENER_REPLACED: &str = "listener replaced, seconds of outage";
const POOL_REPLACED: &str = "pool replaced, seconds of outage";
const REFUSED: &str = "refused";
const AS_THE_OTHER: &str = "as of the same setting for all ports";

annotation_rows! { "k8s.cloudscale.ch/";
    UUID = "k8s.cloudscale.ch/loadbalancer-uuid" {
        allowed: Words("a uuid"),
        meaning: "The load balancer of the Service. Written by the manager; not for people.",
        change: RELINKS,
        written_back: true,
    }
    CONFIG_VERSION = "k8s.cloudscale.ch/loadbalancer-config-version" {
        default: "1",
        allowed: Words("1"),
        meaning: "The version of the defaults below. What is there is overwritten.",
        change: NONE,
        written_back: true,
    }
    ZONE = "k8s.cloudscale.ch/loadbalancer-zone" {
        default: "the one zone of the nodes",
        allowed: Words("a zone, such as rma1 or lpg1"),
        meaning: "Zone of the load balancer.",
        change: REFUSED,
        written_back: true,
    }
    NAME = "k8s.cloudscale.ch/loadbalancer-name" {
        default: "k8s-service-<uid of the Service>",
        allowed: Words("any text that is not empty, and not the default name of another Service's load balancer"),
        meaning: "Name of the load balancer. An existing one of that name is used only if it is this \
                  Service's already.",
    }
    FLAVOR = "k8s.cloudscale.ch/loadbalancer-flavor" {
        default: "lb-standard",
        allowed: Words("a flavour of load balancers, such as lb-standard"),
        meaning: "Flavour of the load balancer.",
        change: REFUSED,
    }
    VIP_ADDRESSES = "k8s.cloudscale.ch/loadbalancer-vip-addresses" {
        kind: "JSON list of objects",
        default: "[]",
        allowed: Words("a JSON list of {\"subnet\": \"<uuid>\", \"address\": \"<IP, optional>\"}"),
        meaning: "Addresses of the load balancer in private subnets; with none it has a public IPv4 and a \
                  public IPv6 address. Not together with floating IPs.",
        change: REFUSED,
    }
    FLOATING_IPS = "k8s.cloudscale.ch/loadbalancer-floating-ips" {
        kind: TEXTS,
        default: "[]",
        allowed: Words("a JSON list of addresses, with or without a prefix length"),
        meaning: "Floating IPs that are moved to the load balancer. One that is taken out of the list stays \
                  where it is: the cloud cannot unassign it.",
    }
    POOL_ALGORITHM = "k8s.cloudscale.ch/loadbalancer-pool-algorithm" {
        per_port: true,
        default: "round_robin",
        allowed: OneOf(&["round_robin", "least_connections", "source_ip"]),
        meaning: "How connections are spread over the members.",
        change: POOL_REPLACED,
    }
    POOL_PROTOCOL = "k8s.cloudscale.ch/loadbalancer-pool-protocol" {
        per_port: true,
        default: "tcp",
        allowed: OneOf(&["tcp", "proxy", "proxyv2"]),
        meaning: "Protocol towards the members of TCP ports; `proxy` and `proxyv2` tell them the client's \
                  address. UDP ports always use `udp`.",
        change: POOL_REPLACED,
    }
    LISTENER_PROTOCOL = "k8s.cloudscale.ch/loadbalancer-listener-protocol" {
        default: "tcp",
        allowed: OneOf(&["tcp"]),
        meaning: "Protocol of the listeners of TCP ports. UDP ports always use `udp`.",
        change: LISTENER_REPLACED,
    }
    ALLOWED_CIDRS = "k8s.cloudscale.ch/loadbalancer-listener-allowed-cidrs" {
        kind: TEXTS, per_port: true,
        default: "spec.loadBalancerSourceRanges, or everybody",
        allowed: Words("a JSON list of networks in CIDR notation, or of addresses"),
        meaning: "Who may connect; `[]` is everybody. Wins over \
                  `spec.loadBalancerSourceRanges`.",
    }
    ALLOWED_SUBNETS = "k8s.cloudscale.ch/loadbalancer-listener-allowed-subnets" {
        kind: TEXTS,
        default: "[]",
        allowed: Words("a JSON list of uuids of subnets"),
        meaning: "Only addresses of nodes in these subnets become members; `[]` is all private ones.",
        change: TARGETS,
    }
    TIMEOUT_CLIENT_DATA = "k8s.cloudscale.ch/loadbalancer-timeout-client-data-ms" {
        kind: NUMBER, per_port: true,
        default: "50000",
        allowed: POSITIVE,
        meaning: "How long a client may be silent, in milliseconds.",
    }
    TIMEOUT_MEMBER_CONNECT = "k8s.cloudscale.ch/loadbalancer-timeout-member-connect-ms" {
        kind: NUMBER, per_port: true,
        default: "5000",
        allowed: POSITIVE,
        meaning: "How long connecting to a member may take, in milliseconds.",
    }
    TIMEOUT_MEMBER_DATA = "k8s.cloudscale.ch/loadbalancer-timeout-member-data-ms" {
        kind: NUMBER, per_port: true,
        default: "50000",
        allowed: POSITIVE,
        meaning: "How long a member may be silent, in milliseconds.",
    }
    MONITOR_DELAY = "k8s.cloudscale.ch/loadbalancer-health-monitor-delay-s" {
        kind: NUMBER, per_port: true,
        default: "2; 3 for udp-connect",
        allowed: POSITIVE,
        meaning: "Seconds between two health checks of a member.",
        change: MONITOR_CHANGED,
    }
    MONITOR_TIMEOUT = "k8s.cloudscale.ch/loadbalancer-health-monitor-timeout-s" {
        kind: NUMBER, per_port: true,
        default: "1; 2 for udp-connect",
        allowed: POSITIVE,
        meaning: "How long a health check may take, in seconds.",
        change: MONITOR_CHANGED,
    }
    MONITOR_UP = "k8s.cloudscale.ch/loadbalancer-health-monitor-up-threshold" {
        kind: NUMBER, per_port: true,
        default: "2",
        allowed: POSITIVE,
        meaning: "After how many good checks a member gets traffic.",
        change: MONITOR_CHANGED,
    }
    MONITOR_DOWN = "k8s.cloudscale.ch/loadbalancer-health-monitor-down-threshold" {
        kind: NUMBER, per_port: true,
        default: "3",
        allowed: POSITIVE,
        meaning: "After how many bad checks a member gets no more traffic.",
        change: MONITOR_CHANGED,
    }
    MONITOR_TYPE = "k8s.cloudscale.ch/loadbalancer-health-monitor-type" {
        per_port: true,
        default: "tcp",
        allowed: OneOf(&["ping", "tcp", "http", "https", "tls-hello", "udp-connect"]),
        meaning: "How members are checked. `udp-connect` concerns UDP ports; TCP ports then have `tcp`. With \
                  `externalTrafficPolicy: Local` it is always `http`.",
        change: MONITOR_REPLACED,
    }
    MONITOR_HTTP = "k8s.cloudscale.ch/loadbalancer-health-monitor-http" {
        kind: OBJECT, per_port: true,
        default: "{}",
        allowed: Words("a JSON object of expected_codes (a list of codes, or of one range), method, url_path, \
                  version (1.0 or 1.1) and host (not with version 1.0)"),
        meaning: "Options of `http` and `https` checks; what is missing is `[\"200\"]`, `GET`, `/`, `1.1`, no \
                  host. `{}` with `externalTrafficPolicy: Local` is `GET /livez` with version 1.0. A change of \
                  the version, or taking the host away, replaces the monitor.",
        change: MONITOR_CHANGED,
    }
    PORT_SETTINGS = "k8s.cloudscale.ch/loadbalancer-port-settings" {
        kind: OBJECT,
        default: "{}",
        allowed: Words("a JSON object from ports (443, 443/tcp or the port's name) to JSON objects of settings"),
        meaning: "Settings of single ports, which win over those for all ports; see below. Unknown to the \
                  original.",
        change: AS_THE_OTHER,
    }
    FORCE_HOSTNAME = "k8s.cloudscale.ch/loadbalancer-force-hostname" {
        default: "none",
        allowed: Words("a host name in lower case"),
        meaning: "The Service's status shows this name instead of the addresses.",
        change: NONE,
    }
    IP_MODE = "k8s.cloudscale.ch/loadbalancer-ip-mode" {
        default: "Proxy",
        allowed: Words("Proxy or VIP"),
        meaning: "`ipMode` of the addresses in the Service's status, from Kubernetes 1.30 on.",
        change: NONE,
    }
    NODE_SELECTOR = "k8s.cloudscale.ch/loadbalancer-node-selector" {
        default: "all nodes",
        allowed: Words("a label selector"),
        meaning: "Only nodes whose labels match become members.",
        change: TARGETS,
    }
    PUBLISH_FLOATING_IPS = "k8s.cloudscale.ch/loadbalancer-publish-floating-ips" {
        default: "false",
        allowed: Words("true or false"),
        meaning: "Whether the Service's status shows the floating IPs as well. Unknown to the original.",
        change: NONE,
    }
}

/// What the rows mean together.
pub const TABLE: AnnotationTable = AnnotationTable {
    prefix: PREFIX,
    rows: ANNOTATIONS,
    spaces: Spaces::Kept,
    kind: "Type",
    last: Some(("For single ports", for_single_ports)),
};

fn for_single_ports(row: &Annotation) -> String {
    if row.per_port {
        format!("`{}`", word(row))
    } else {
        "no".to_owned()
    }
}

/// By which an annotation goes among settings of single ports.
pub(super) fn word(row: &Annotation) -> &'static str {
    let suffix = row.key.strip_prefix("k8s.cloudscale.ch/loadbalancer-");
    suffix.unwrap_or(row.key)
}

/// Those that can be set for single ports as well.
pub(super) fn of_ports() -> impl Iterator<Item = Annotation> {
    ANNOTATIONS.iter().copied().filter(|row| row.per_port)
}
