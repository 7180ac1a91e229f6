//! The annotations of Services, one row each. The reader asks for them by row; the reference page,
//! the error texts and the guesses about misspelled keys come from them.

use std::fmt::Write as _;

/// What all keys begin with.
pub const PREFIX: &str = "service.beta.kubernetes.io/exoscale-loadbalancer-";

/// The ids of services of load balancers that are a Service's although their names do not say so, as they were remembered
/// before there was a condition for it. What it says proves nothing; it is emptied.
pub const OWNED_SERVICES: &str = "bowline.dev/exoscale-nlb-service-ids";

/// What a change of the value does to a load balancer that is in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Nothing in the cloud.
    Nothing,
    /// The Service gets to another load balancer.
    Relinks,
    /// Changed in place, without an outage.
    InPlace,
    /// The service of every port is replaced: an outage of seconds on each.
    ServicesReplaced,
}

impl Effect {
    const fn words(self) -> &'static str {
        match self {
            Self::Nothing => "none in the cloud",
            Self::Relinks => "another load balancer",
            Self::InPlace => "in place",
            Self::ServicesReplaced => "services replaced port by port, seconds of outage each",
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
    /// What holds when it is absent or empty.
    pub default: &'static str,
    /// Which values are taken.
    pub allowed: &'static str,
    /// What it is for.
    pub meaning: &'static str,
    /// What a change of it does.
    pub effect: Effect,
    /// Whether the manager writes it.
    pub written_back: bool,
}

const TEXT: &str = "text";
const NUMBER: &str = "number";
const DURATION: &str = "duration";
const UUID: &str = "uuid";
const A_UUID: &str = "a uuid with dashes";
const SHORT_TEXT: &str = "a text of up to 255 characters";

macro_rules! key {
    ($suffix:literal) => {
        concat!("service.beta.kubernetes.io/exoscale-loadbalancer-", $suffix)
    };
}

const fn row(key: &'static str, kind: &'static str) -> Annotation {
    Annotation {
        key,
        kind,
        default: "",
        allowed: SHORT_TEXT,
        meaning: "",
        effect: Effect::InPlace,
        written_back: false,
    }
}

/// Which load balancer it is.
pub const ID: Annotation = Annotation {
    allowed: A_UUID,
    meaning: "The load balancer of the Service; goes before `name`. Written when one was made, adopted, \
              or found by its name.",
    effect: Effect::Relinks,
    written_back: true,
    ..row(key!("id"), UUID)
};

/// What it is called.
pub const NAME: Annotation = Annotation {
    default: "k8s-<uid of the Service>",
    meaning: "Name of the load balancer. With `external` and without `id`: name or id of the one to use.",
    ..row(key!("name"), TEXT)
};

/// What is said about it.
pub const DESCRIPTION: Annotation = Annotation {
    meaning: "Description of the load balancer; not with `external`.",
    ..row(key!("description"), TEXT)
};

/// Whether somebody else looks after it.
pub const EXTERNAL: Annotation = Annotation {
    default: "false",
    allowed: "true or false in any case; anything else is reported and changes nothing",
    meaning: "The load balancer is somebody else's: it is never made, renamed, described or deleted. Bowline \
              manages only the services of this Service's ports, on ports that are free. Dropping it later does \
              not change that.",
    effect: Effect::Relinks,
    ..row(key!("external"), TEXT)
};

/// How connections are spread.
pub const STRATEGY: Annotation = Annotation {
    default: "round-robin",
    allowed: "round-robin, source-hash or maglev-hash",
    meaning: "How connections are spread over the instances, for all ports.",
    ..row(key!("service-strategy"), TEXT)
};

/// What a service is called.
pub const SERVICE_NAME: Annotation = Annotation {
    default: "<uid>-<port>, or <uid>-<port>-udp",
    meaning: "Name of the load balancer's service; only with exactly one port.",
    ..row(key!("service-name"), TEXT)
};

/// What is said about a service.
pub const SERVICE_DESCRIPTION: Annotation = Annotation {
    meaning: "Description of the load balancer's service; only with exactly one port.",
    ..row(key!("service-description"), TEXT)
};

/// The target.
pub const INSTANCE_POOL: Annotation = Annotation {
    default: "inferred from the nodes",
    allowed: A_UUID,
    meaning: "The instance pool that gets the traffic of all ports. Written when it was inferred, and \
              overwritten by what the SKS nodepool says.",
    effect: Effect::ServicesReplaced,
    written_back: true,
    ..row(key!("service-instancepool-id"), UUID)
};

/// The cluster of the nodepool.
pub const SKS_CLUSTER: Annotation = Annotation {
    meaning: "Name or id of the SKS cluster of `service-sks-nodepool-name`.",
    effect: Effect::ServicesReplaced,
    ..row(key!("sks-cluster-name"), TEXT)
};

/// The nodepool that is the target.
pub const SKS_NODEPOOL: Annotation = Annotation {
    meaning: "Name of an SKS nodepool, in any case; its instance pool gets the traffic of all ports. Needs \
              `sks-cluster-name`.",
    effect: Effect::ServicesReplaced,
    ..row(key!("service-sks-nodepool-name"), TEXT)
};

/// How instances are checked.
pub const CHECK_MODE: Annotation = Annotation {
    default: "tcp, or what `loadBalancer.localPolicyHealthCheck` says for `externalTrafficPolicy: Local`",
    allowed: "tcp, http or https",
    meaning: "How instances are checked, for all ports.",
    ..row(key!("service-healthcheck-mode"), TEXT)
};

/// Which port is checked.
pub const CHECK_PORT: Annotation = Annotation {
    default: "the node port, or with `externalTrafficPolicy: Local` the Service's health check port",
    allowed: "a whole number from 1 to 65535",
    meaning: "The port that is checked, for all ports. A UDP port without it is checked at the node port of \
              the TCP port of the same number, if there is one.",
    ..row(key!("service-healthcheck-port"), NUMBER)
};

/// What is asked for.
pub const CHECK_URI: Annotation = Annotation {
    allowed: "a path of up to 255 characters that begins with a slash; needed for http and https",
    meaning: "What is asked for in checks of mode `http` and `https`.",
    ..row(key!("service-healthcheck-uri"), TEXT)
};

/// The name in the TLS handshake.
pub const CHECK_SNI: Annotation = Annotation {
    allowed: "a name of up to 255 characters; only for https",
    meaning: "The server name in the TLS handshake of checks of mode `https`. Unknown to the original.",
    ..row(key!("service-healthcheck-tls-sni"), TEXT)
};

/// How often.
pub const CHECK_INTERVAL: Annotation = Annotation {
    default: "10s",
    allowed: "a duration such as 10s or 1m30s, or whole seconds, from 5s to 300s, not below the timeout",
    meaning: "Time between two checks.",
    ..row(key!("service-healthcheck-interval"), DURATION)
};

/// How long one may take.
pub const CHECK_TIMEOUT: Annotation = Annotation {
    default: "5s",
    allowed: "a duration such as 5s, or whole seconds, from 2s to 60s",
    meaning: "How long a check may take.",
    ..row(key!("service-healthcheck-timeout"), DURATION)
};

/// How many may fail.
pub const CHECK_RETRIES: Annotation = Annotation {
    default: "1",
    allowed: "a whole number from 1 to 20",
    meaning: "After how many bad checks an instance gets no more traffic.",
    ..row(key!("service-healthcheck-retries"), NUMBER)
};

/// Where it was, once.
pub const ZONE: Annotation = Annotation {
    allowed: "anything",
    meaning: "Means nothing since version 0.6.0 of the original.",
    effect: Effect::Nothing,
    ..row(key!("zone"), TEXT)
};

/// All of them, in the order of the reference page.
pub const ANNOTATIONS: [Annotation; 18] = [
    ID,
    NAME,
    DESCRIPTION,
    EXTERNAL,
    STRATEGY,
    SERVICE_NAME,
    SERVICE_DESCRIPTION,
    INSTANCE_POOL,
    SKS_CLUSTER,
    SKS_NODEPOOL,
    CHECK_MODE,
    CHECK_PORT,
    CHECK_URI,
    CHECK_SNI,
    CHECK_INTERVAL,
    CHECK_TIMEOUT,
    CHECK_RETRIES,
    ZONE,
];

/// The reference page's table, in Markdown.
pub fn reference() -> String {
    let mut page = String::from(
        "| Annotation | Type | Default | Allowed | Meaning | A change |\n|---|---|---|---|---|---|\n",
    );
    for row in ANNOTATIONS {
        let suffix = row.key.trim_start_matches(PREFIX);
        let default = if row.default.is_empty() {
            "none"
        } else {
            row.default
        };
        let written = if row.written_back {
            " Written back."
        } else {
            ""
        };
        let (kind, allowed, meaning) = (row.kind, row.allowed, row.meaning);
        // Writing to a string cannot fail.
        let _ = writeln!(
            page,
            "| `{suffix}` | {kind} | {default} | {allowed} | {meaning}{written} | {} |",
            row.effect.words(),
        );
    }
    page
}
