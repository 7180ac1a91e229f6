//! The annotations of Services, one row each. The reader asks for them by row; the reference page,
//! the error texts and the guesses about misspelled keys come from them.

use bowline_core::Allowed::{self, Number, Words};
use bowline_core::{AnnotationTable, Spaces, annotation_rows};

// Which modes an annotation is for.
const BOTH: &str = "both";
const CNS: &str = "`cns`";
const CLB: &str = "`clb`";

const YES_OR_NO: Allowed = Words("true or false");

// What a change does.
const RENAMED: &str = "published anew; what was before goes afterwards";
const REPLACED: &str = "machines are replaced";
const WRITTEN: &str = "written back";

annotation_rows! { "cloud.tritoncompute/";
    MODE = "cloud.tritoncompute/mode" {
        allowed: Words("cns or clb"), kind: BOTH,
        default: "`loadBalancer.mode` of the configuration",
        meaning: "How the Service is served: by a DNS name of the nodes, or by load balancer machines. A \
                  `loadBalancerClass` of `cloud.tritoncompute/cns` or `cloud.tritoncompute/clb` counts more.",
        change: RENAMED,
    }
    CNS_SERVICE = "cloud.tritoncompute/cns_service" {
        allowed: Words("lower-case DNS labels joined by dots, 63 characters in all, not beginning with \
                        k8s-nodes- or be-"),
        kind: BOTH,
        default: "`<service>.<namespace>`, with the cluster's name unless that is `kubernetes`",
        meaning: "The beginning of the DNS name. Machines outside of the cluster may carry it too.",
        change: RENAMED,
    }
    CNS_NETWORK = "cloud.tritoncompute/cns_network" {
        allowed: Words("the id or the name of a network"), kind: BOTH,
        default: "chosen among those that all targets are on",
        meaning: "The network whose DNS zone is published.",
        change: RENAMED,
    }
    CNS_PORT_MODE = "cloud.tritoncompute/cns_port_mode" {
        allowed: Words("nodeport, service or direct"), kind: CNS,
        default: "nodeport",
        meaning: "Which port clients reach at the nodes: the node port; the Service's port, which pods must have \
                  on the host; or the Service's port, which kube-proxy answers because the nodes' addresses are \
                  published (not with kube-proxy in IPVS mode).",
    }
    INTERNAL = "cloud.tritoncompute/internal" {
        allowed: YES_OR_NO, kind: BOTH,
        default: "false",
        meaning: "Whether the private network and its zone are used instead of the public ones.",
        change: REPLACED,
    }
    NODE_SELECTOR = "cloud.tritoncompute/node_selector" {
        allowed: Words("a label selector such as pool=web,!spot"), kind: BOTH,
        default: "all nodes",
        meaning: "Which nodes may be targets.",
    }
    MAX_RS = "cloud.tritoncompute/max_rs" {
        allowed: Number(32, 1024), kind: CLB,
        default: "as many as the targets need",
        meaning: "How many servers the load balancer has room for.",
    }
    CERTIFICATE_NAME = "cloud.tritoncompute/certificate_name" {
        allowed: Words("host names separated by commas"), kind: CLB,
        meaning: "The subjects of a certificate that the machines get from Let's Encrypt.",
    }
    METRICS_ACL = "cloud.tritoncompute/metrics_acl" {
        allowed: Words("networks such as 192.0.2.0/24 separated by commas or spaces"), kind: CLB,
        meaning: "Who may read the machines' metrics; without it nobody.",
    }
    METRICS_PORT = "cloud.tritoncompute/metrics_port" {
        allowed: Number(1, 65534), kind: CLB,
        default: "8405",
        meaning: "The port of the machines' metrics.",
    }
    SYSLOG = "cloud.tritoncompute/syslog" {
        allowed: Words("<host>:<port>"), kind: CLB,
        meaning: "Where the machines send their log; needs a recent image.",
    }
    TIMEOUTS = "cloud.tritoncompute/timeouts" {
        allowed: Words("queue, connect, client and server, each at most once, such as connect:5000,client:60000, in \
                        milliseconds"),
        kind: CLB,
        default: "the image's",
        meaning: "How long the machines wait; needs a recent image.",
    }
    PROTOCOL = "cloud.tritoncompute/protocol" {
        allowed: Words("tcp, http, https, https+insecure or https-http"), kind: CLB,
        default: "tcp",
        meaning: "How connections are understood, for all ports.",
    }
    PROTOCOLS = "cloud.tritoncompute/protocols" {
        allowed: Words("ports of the Service with their protocols, such as 80=http,443=https-http"), kind: CLB,
        meaning: "The same for single ports, by number or name.",
    }
    PROXY_PROTOCOL = "cloud.tritoncompute/proxy_protocol" {
        allowed: YES_OR_NO, kind: CLB,
        default: "false",
        meaning: "Whether nodes get the client's address by the PROXY protocol; only with `tcp`, and a \
                  recent image.",
    }
    HEALTH_CHECK = "cloud.tritoncompute/health_check" {
        allowed: Words("off, or path, port, rise (1 to 1000) and fall (1 to 1000), such as \
                        path=/healthz,port=9000,rise=2"),
        kind: CLB,
        default: "with `externalTrafficPolicy: Local` the Service's health check port, else a connection",
        meaning: "How nodes are checked. Without `path` by a connection.",
    }
    REPLICAS = "cloud.tritoncompute/replicas" {
        allowed: Number(1, 8), kind: CLB,
        default: "`loadBalancer.clbReplicas` of the configuration",
        meaning: "How many machines the load balancer has.",
    }
    PACKAGE = "cloud.tritoncompute/package" {
        allowed: Words("the id or the name of a package"), kind: CLB,
        default: "`loadBalancer.clbPackage` of the configuration",
        meaning: "The package of the machines.",
        change: REPLACED,
    }
    IMAGE = "cloud.tritoncompute/image" {
        allowed: Words("the id or the name of an image"), kind: CLB,
        default: "`loadBalancer.clbImage` of the configuration",
        meaning: "The image of the machines.",
        change: REPLACED,
    }
    IPV4 = "cloud.tritoncompute/ipv4" {
        allowed: Words("an IPv4 address"), kind: CLB,
        meaning: "The address of the machine on the private network; with `internal` and one replica.",
        change: REPLACED,
    }
    LB_INSTANCE = "cloud.tritoncompute/lb_instance" {
        allowed: Words("the id or the name of a machine"), kind: CLB,
        meaning: "A load balancer machine that exists and is used instead of an own one. It is never made, \
                  deleted, renamed or tagged.",
        change: RENAMED,
    }
    PUBLISH = "cloud.tritoncompute/publish" {
        allowed: Words("ip, hostname or both"), kind: BOTH,
        default: "hostname in mode `cns`, ip in mode `clb`",
        meaning: "What the Service's status shows.",
    }
    HOSTNAME = "cloud.tritoncompute/hostname" {
        allowed: Words("a DNS name"), kind: BOTH,
        meaning: "A name that is published instead of the DNS name; it is for you to let it lead there.",
    }
    DELETION_PROTECTION = "cloud.tritoncompute/deletion_protection" {
        allowed: YES_OR_NO, kind: CLB,
        default: "`loadBalancer.clbDeletionProtection` of the configuration",
        meaning: "Whether the machines are protected from deletion.",
    }
    STATUS = "cloud.tritoncompute/status" {
        allowed: Words("anything"), kind: BOTH,
        meaning: "The result in a line.",
        change: WRITTEN,
    }
    INSTANCES = "cloud.tritoncompute/instances" {
        allowed: Words("anything"), kind: CLB,
        meaning: "The ids of the load balancer machines.",
        change: WRITTEN,
    }
}

pub const TABLE: AnnotationTable = AnnotationTable {
    prefix: PREFIX,
    rows: ANNOTATIONS,
    spaces: Spaces::Trimmed,
    kind: "Modes",
    last: None,
};

pub fn reference() -> String {
    TABLE.reference()
}
