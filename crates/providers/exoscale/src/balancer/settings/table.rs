//! The annotations of Services, one row each. The reader asks for them by row; the reference page,
//! the error texts and the guesses about misspelled keys come from them.

use bowline_core::Allowed::{self, Number, OneOf, Words};
use bowline_core::{AnnotationTable, Spaces, annotation_rows};

/// The ids of services of load balancers that are a Service's although not by their names, as they
/// were remembered before there was a condition for it. It proves nothing; it is emptied.
pub const OWNED_SERVICES: &str = "bowline.dev/exoscale-nlb-service-ids";

const NUMBER: &str = "number";
const DURATION: &str = "duration";
const UUID: &str = "uuid";
const A_UUID: Allowed = Words("a uuid with dashes");
const SHORT_TEXT: Allowed = Words("a text of up to 255 characters");

// What a change does.
const NONE: &str = "none in the cloud";
const RELINKS: &str = "another load balancer";
const SERVICES_REPLACED: &str = "services replaced port by port, seconds of outage each";

annotation_rows! { "service.beta.kubernetes.io/exoscale-loadbalancer-";
    ID = "service.beta.kubernetes.io/exoscale-loadbalancer-id" {
        kind: UUID,
        allowed: A_UUID,
        meaning: "The load balancer of the Service; goes before `name`. Written when one was made, adopted, \
                  or found by its name.",
        change: RELINKS,
        written_back: true,
    }
    NAME = "service.beta.kubernetes.io/exoscale-loadbalancer-name" {
        allowed: SHORT_TEXT,
        default: "k8s-<uid of the Service>",
        meaning: "Name of the load balancer. With `external` and without `id`: name or id of the one to use.",
    }
    DESCRIPTION = "service.beta.kubernetes.io/exoscale-loadbalancer-description" {
        allowed: SHORT_TEXT,
        meaning: "Description of the load balancer; not with `external`.",
    }
    LABELS = "service.beta.kubernetes.io/exoscale-loadbalancer-labels" {
        allowed: Words("key=value pairs separated by commas, such as team=shop,env=prod; keys of 1 to 63 and values of up to \
                        63 characters; keys that begin with bowline or k8s- are not allowed"),
        meaning: "Labels of the load balancer; not with `external`. Other labels stay, and so do those that are taken \
                  out of the annotation. Unknown to the original.",
    }
    EXTERNAL = "service.beta.kubernetes.io/exoscale-loadbalancer-external" {
        default: "false",
        allowed: Words("true or false in any case; anything else is reported and changes nothing"),
        meaning: "The load balancer is somebody else's: it is never made, renamed, described or deleted. Bowline \
                  manages only the services of this Service's ports, on ports that are free. Dropping it later does \
                  not change that.",
        change: RELINKS,
    }
    STRATEGY = "service.beta.kubernetes.io/exoscale-loadbalancer-service-strategy" {
        default: "round-robin",
        allowed: OneOf(&["round-robin", "source-hash", "maglev-hash"]),
        meaning: "How connections are spread over the instances, for all ports.",
    }
    SERVICE_NAME = "service.beta.kubernetes.io/exoscale-loadbalancer-service-name" {
        allowed: SHORT_TEXT,
        default: "<uid>-<port>, or <uid>-<port>-udp",
        meaning: "Name of the load balancer's service; only with exactly one port.",
    }
    SERVICE_DESCRIPTION = "service.beta.kubernetes.io/exoscale-loadbalancer-service-description" {
        allowed: SHORT_TEXT,
        meaning: "Description of the load balancer's service; only with exactly one port.",
    }
    INSTANCE_POOL = "service.beta.kubernetes.io/exoscale-loadbalancer-service-instancepool-id" {
        kind: UUID,
        default: "inferred from the nodes",
        allowed: A_UUID,
        meaning: "The instance pool that gets the traffic of all ports. Written when it was inferred, and \
                  overwritten by what the SKS nodepool says.",
        change: SERVICES_REPLACED,
        written_back: true,
    }
    SKS_CLUSTER = "service.beta.kubernetes.io/exoscale-loadbalancer-sks-cluster-name" {
        allowed: SHORT_TEXT,
        meaning: "Name or id of the SKS cluster of `service-sks-nodepool-name`.",
        change: SERVICES_REPLACED,
    }
    SKS_NODEPOOL = "service.beta.kubernetes.io/exoscale-loadbalancer-service-sks-nodepool-name" {
        allowed: SHORT_TEXT,
        meaning: "Name of an SKS nodepool, in any case; its instance pool gets the traffic of all ports. Needs \
                  `sks-cluster-name`.",
        change: SERVICES_REPLACED,
    }
    CHECK_MODE = "service.beta.kubernetes.io/exoscale-loadbalancer-service-healthcheck-mode" {
        default: "tcp, or what `loadBalancer.localPolicyHealthCheck` says for `externalTrafficPolicy: Local`",
        allowed: OneOf(&["tcp", "http", "https"]),
        meaning: "How instances are checked, for all ports.",
    }
    CHECK_PORT = "service.beta.kubernetes.io/exoscale-loadbalancer-service-healthcheck-port" {
        kind: NUMBER,
        default: "the node port, or with `externalTrafficPolicy: Local` the Service's health check port",
        allowed: Number(1, 65535),
        meaning: "The port that is checked, for all ports. A UDP port without it is checked at the node port of \
                  the TCP port of the same number, if there is one.",
    }
    CHECK_URI = "service.beta.kubernetes.io/exoscale-loadbalancer-service-healthcheck-uri" {
        allowed: Words("a path of up to 255 characters that begins with a slash; needed for http and https"),
        meaning: "What is asked for in checks of mode `http` and `https`.",
    }
    CHECK_SNI = "service.beta.kubernetes.io/exoscale-loadbalancer-service-healthcheck-tls-sni" {
        allowed: Words("a name of up to 255 characters; only for https"),
        meaning: "The server name in the TLS handshake of checks of mode `https`. Unknown to the original.",
    }
    CHECK_INTERVAL = "service.beta.kubernetes.io/exoscale-loadbalancer-service-healthcheck-interval" {
        kind: DURATION,
        default: "10s",
        allowed: Words("a duration such as 10s or 1m30s, or whole seconds, from 5s to 300s, not below the timeout"),
        meaning: "Time between two checks.",
    }
    CHECK_TIMEOUT = "service.beta.kubernetes.io/exoscale-loadbalancer-service-healthcheck-timeout" {
        kind: DURATION,
        default: "5s",
        allowed: Words("a duration such as 5s, or whole seconds, from 2s to 60s"),
        meaning: "How long a check may take.",
    }
    CHECK_RETRIES = "service.beta.kubernetes.io/exoscale-loadbalancer-service-healthcheck-retries" {
        kind: NUMBER,
        default: "1",
        allowed: Number(1, 20),
        meaning: "After how many bad checks an instance gets no more traffic.",
    }
    ZONE = "service.beta.kubernetes.io/exoscale-loadbalancer-zone" {
        allowed: Words("anything"),
        meaning: "Means nothing since version 0.6.0 of the original.",
        change: NONE,
    }
}

/// What the rows mean together.
pub const TABLE: AnnotationTable = AnnotationTable {
    prefix: PREFIX,
    rows: ANNOTATIONS,
    spaces: Spaces::BlankIsAbsent,
    kind: "Type",
    last: None,
};

/// The reference page's table, in Markdown.
pub fn reference() -> String {
    TABLE.reference()
}
