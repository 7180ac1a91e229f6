//! The table of flags. Parser, help, reference page and defaults all come from its rows.

use super::value::{Kind, Value};

/// Services of one cloud that are reconciled at the same time unless somebody says otherwise. The framework's 1 lets
/// every Service wait for the slowest. A plan is carried out one call at a time, so that five stay below what the
/// clients of the clouds allow at once, and leave room for the nodes.
const SERVICE_SYNCS: &str = "5";

#[derive(Clone, Copy, Debug)]
pub struct Flag {
    /// Its name, without dashes in front.
    pub name: &'static str,
    /// Its short form, if it has one.
    pub short: Option<char>,
    /// What it takes.
    pub kind: Kind,
    /// Its default, written as on the command line.
    pub default: &'static str,
    /// Under which heading the help shows it.
    pub category: Category,
    /// What it does.
    pub help: &'static str,
    /// What became of it: used, ignored, removed.
    pub effect: FlagEffect,
    /// For a flag that works but should go from command lines: what to do instead.
    pub deprecated: Option<&'static str>,
}

/// What giving a flag does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlagEffect {
    /// It does what its text says.
    Used,
    /// It is read and checked, and then changes nothing.
    Ignored,
    /// It is gone from today's controller managers; its value is not even looked at.
    Removed,
}

/// The headings of the help text, in its order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Category {
    Cloud,
    /// What only one cloud has; the title is its name.
    Own(&'static str),
    Generic,
    Nodes,
    Services,
    Routes,
    NodeIpam,
    LeaderElection,
    SecureServing,
    Authentication,
    Authorization,
    Webhook,
    Debugging,
    Logs,
    Global,
    Removed,
}

impl Category {
    /// All headings in order, but for those of single clouds, which come after the first.
    pub const ALL: [Self; 15] = [
        Self::Cloud,
        Self::Generic,
        Self::Nodes,
        Self::Services,
        Self::Routes,
        Self::NodeIpam,
        Self::LeaderElection,
        Self::SecureServing,
        Self::Authentication,
        Self::Authorization,
        Self::Webhook,
        Self::Debugging,
        Self::Logs,
        Self::Global,
        Self::Removed,
    ];

    /// The heading.
    pub const fn title(self) -> &'static str {
        match self {
            Self::Cloud => "Cloud provider",
            Self::Own(cloud) => cloud,
            Self::Generic => "Generic",
            Self::Nodes => "Node controller",
            Self::Services => "Service controller",
            Self::Routes => "Route controller",
            Self::NodeIpam => "Node IPAM controller",
            Self::LeaderElection => "Leader election",
            Self::SecureServing => "Secure serving",
            Self::Authentication => "Authentication",
            Self::Authorization => "Authorization",
            Self::Webhook => "Webhook",
            Self::Debugging => "Debugging",
            Self::Logs => "Logs",
            Self::Global => "Global",
            Self::Removed => "Removed",
        }
    }
}

impl Flag {
    /// Whether it takes that text, or why not.
    pub fn check(&self, text: &str) -> Result<(), String> {
        self.kind.read(text, None).map(drop)
    }

    const fn new(
        name: &'static str,
        kind: Kind,
        default: &'static str,
        category: Category,
        help: &'static str,
    ) -> Self {
        let (short, effect, deprecated) = (None, FlagEffect::Used, None);
        Self {
            name,
            short,
            kind,
            default,
            category,
            help,
            effect,
            deprecated,
        }
    }

    /// A flag that only one cloud has. What it means is for the cloud to say; if it is not given, it has no
    /// default, but nothing.
    pub const fn own(
        cloud: &'static str,
        name: &'static str,
        is_switch: bool,
        help: &'static str,
    ) -> Self {
        let (kind, default) = if is_switch {
            (Kind::Switch, "false")
        } else {
            (Kind::Text, "")
        };
        Self::new(name, kind, default, Category::Own(cloud), help)
    }

    const fn ignored(mut self) -> Self {
        self.effect = FlagEffect::Ignored;
        self
    }

    const fn short(mut self, short: char) -> Self {
        self.short = Some(short);
        self
    }

    const fn deprecated(mut self, instead: &'static str) -> Self {
        self.deprecated = Some(instead);
        self
    }

    /// A removed flag. `kind` only says whether it may stand alone.
    const fn removed(name: &'static str, kind: Kind, help: &'static str) -> Self {
        let mut flag = Self::new(name, kind, "", Category::Removed, help);
        flag.effect = FlagEffect::Removed;
        flag
    }

    /// The default as a value. A text that does not parse gives an empty one; a test reads all rows.
    pub fn default_value(&self) -> Value {
        let empty = || Value::Text(String::new());
        match self.kind {
            Kind::Repeated if self.default.is_empty() => Value::Repeated(Vec::new()),
            kind => kind.read(self.default, None).unwrap_or_else(|_| empty()),
        }
    }
}

/// The flags of a program: [`FLAGS`], and those that its clouds have of their own.
#[derive(Clone, Copy, Debug, Default)]
pub struct Table {
    own: &'static [Flag],
}

impl Table {
    /// With flags made by [`Flag::own`].
    pub const fn with(own: &'static [Flag]) -> Self {
        Self { own }
    }

    pub fn flags(self) -> impl Iterator<Item = &'static Flag> {
        FLAGS.iter().chain(self.own)
    }

    /// Those of clouds.
    pub(super) fn own(self) -> &'static [Flag] {
        self.own
    }

    /// All headings in order.
    pub(super) fn categories(self) -> Vec<Category> {
        let mut all = Category::ALL.to_vec();
        for flag in self.own.iter().rev() {
            if !all.contains(&flag.category) {
                all.insert(1, flag.category);
            }
        }
        all
    }

    /// The row of that name; underscores count as hyphens.
    pub(super) fn find(self, name: &str) -> Option<&'static Flag> {
        let name = name.replace('_', "-");
        self.flags().find(|flag| flag.name == name)
    }
}

use Category as C;
use Kind as K;

/// Every flag that is accepted, in the order of the help text.
pub const FLAGS: &[Flag] = &[
    // What cloud, what cluster.
    Flag::new(
        "config",
        Kind::Text,
        "",
        Category::Cloud,
        "Path of Bowline's own configuration: several clouds, and all of these flags, in one file. Then neither --cloud-provider nor --cloud-config is given. Flags on the command line go before those of the file.",
    ),
    Flag::new(
        "cloud-provider",
        K::Text,
        "",
        C::Cloud,
        "Name of the cloud provider. Must not be empty.",
    ),
    Flag::new(
        "cloud-config",
        K::Text,
        "",
        C::Cloud,
        "Path of the cloud provider's configuration file. Empty for none.",
    ),
    Flag::new(
        "account-fingerprint",
        K::Text,
        "",
        C::Cloud,
        "The fingerprint that event AccountUnproven or AccountContradicted on the lease shows: with it you confirm that the cloud's credentials see the account of this cluster. With --config, set account of the cloud instead.",
    ),
    Flag::new(
        "cluster-name",
        K::Text,
        "kubernetes",
        C::Cloud,
        "Name of the cluster, handed to the cloud with every load balancer and route.",
    ),
    Flag::new(
        "cluster-uid",
        K::Text,
        "",
        C::Cloud,
        "What tells this cluster from others in the marks of its load balancers. Empty for the uid of namespace kube-system. Give one where clusters were cloned from one etcd, since those share all uids.",
    ),
    Flag::new(
        "cluster-cidr",
        K::Text,
        "",
        C::Cloud,
        "Range of the pods' addresses: one CIDR, or two of different families, comma separated.",
    ),
    Flag::new(
        "allow-untagged-cloud",
        K::Switch,
        "false",
        C::Cloud,
        "Start although the cloud cannot tell clusters apart. No provider here needs it.",
    )
    .deprecated("no provider here needs it, and it can be left out"),
    Flag::new(
        "external-cloud-volume-plugin",
        K::Text,
        "",
        C::Cloud,
        "Volume plugin of an in-tree cloud; never had an effect in a cloud controller manager.",
    )
    .ignored(),
    // The client and the controllers in general.
    Flag::new(
        "kubeconfig",
        K::Text,
        "",
        C::Generic,
        "Path of a kubeconfig file. If neither this nor --master is given, the service account of the pod is used.",
    ),
    Flag::new(
        "master",
        K::Text,
        "",
        C::Generic,
        "URL of the API server; takes the place of the one in the kubeconfig.",
    ),
    Flag::new(
        "mode",
        K::Text,
        "manage",
        C::Generic,
        "'manage' does the work. 'observe' reads, decides and logs what it would do, and writes nothing: no Node, no Service, no event, no lease, nothing in the cloud. An observer can run beside the manager that works.",
    ),
    Flag::new(
        "controllers",
        K::List,
        "*",
        C::Generic,
        "Which controllers to run. '*' means all that are on by default, 'name' turns one on, '-name' turns one off; the first item that names a controller counts.",
    ),
    Flag::new(
        "kube-api-qps",
        K::Float,
        "20",
        C::Generic,
        "Requests per second to the API server, for each controller. Negative for no limit.",
    ),
    Flag::new(
        "kube-api-burst",
        K::Integer32,
        "30",
        C::Generic,
        "Requests to the API server that each controller may make at once, ahead of its rate.",
    ),
    Flag::new(
        "kube-api-content-type",
        K::Text,
        "application/vnd.kubernetes.protobuf",
        C::Generic,
        "Encoding of requests to the API server. Bowline always speaks JSON.",
    )
    .ignored(),
    Flag::new(
        "min-resync-period",
        K::Duration,
        "12h0m0s",
        C::Generic,
        "Shortest time after which watched objects are looked at again unchanged; the real one is random between this and twice this.",
    ),
    Flag::new(
        "controller-start-interval",
        K::Duration,
        "0s",
        C::Generic,
        "Pause between starting one controller and the next.",
    ),
    Flag::new(
        "use-service-account-credentials",
        K::Switch,
        "false",
        C::Generic,
        "Give every controller a service account of its own in kube-system.",
    ),
    // Nodes.
    Flag::new(
        "concurrent-node-syncs",
        K::Integer32,
        "1",
        C::Nodes,
        "How many nodes of one cloud are initialised at the same time. Must be positive.",
    ),
    Flag::new(
        "concurrent-node-status-updates",
        K::Integer32,
        "0",
        C::Nodes,
        "How many nodes of one cloud have their addresses refreshed at the same time. 0 means as many as --concurrent-node-syncs.",
    ),
    Flag::new(
        "concurrent-node-lifecycle-syncs",
        K::Integer32,
        "1",
        C::Nodes,
        "How many nodes of one cloud are checked against it at the same time. Must be positive.",
    ),
    Flag::new(
        "node-status-update-frequency",
        K::Duration,
        "5m0s",
        C::Nodes,
        "How often the nodes' addresses are refreshed from the cloud.",
    ),
    Flag::new(
        "node-monitor-period",
        K::Duration,
        "5s",
        C::Nodes,
        "How often nodes are checked for machines that were stopped or are gone.",
    ),
    Flag::new(
        "node-sync-period",
        K::Duration,
        "0s",
        C::Nodes,
        "Never had an effect since controllers moved out of tree.",
    )
    .ignored()
    .deprecated("it has no effect and can be left out"),
    Flag::new(
        "show-owners",
        K::Text,
        "none",
        C::Nodes,
        "Show on each Node whose it is: 'annotation' or 'label' keeps bowline.dev/owner there, and bowline.dev/describer where another cloud describes the node. Nodes of nobody are not written to. 'none' takes back what was shown.",
    ),
    Flag::new(
        "reserved-names",
        K::List,
        "",
        C::Nodes,
        "DNS names, addresses and ranges of addresses that no node gets a serving certificate for, such as the names of a load balancer in front of the API server. What the API server's certificate shows is reserved without being named.",
    ),
    Flag::new(
        "concurrent-service-syncs",
        K::Integer32,
        SERVICE_SYNCS,
        C::Services,
        "How many Services of one cloud are reconciled at the same time; each cloud has workers of its own. More means faster load balancers and more load on API server and cloud. Calls to a cloud stay within its own limits in any case.",
    ),
    Flag::new(
        "load-balancer-adoption",
        K::Namespaces,
        "never",
        C::Services,
        "Whose Services may adopt a load balancer that no Service of this cluster owns, by annotation bowline.dev/take-over: 'never', 'any', or a list of namespaces. For a single cloud; with --config, loadBalancers.adoption of each cloud goes before.",
    ),
    Flag::new(
        "remove-orphaned-load-balancers",
        K::Switch,
        "false",
        C::Services,
        "Remove load balancers that carry this cluster's mark (the uid of namespace kube-system, or --cluster-uid) and whose Service does not exist. Without it they are only reported: Warning OrphanedLoadBalancer on the lease, and a metric.",
    ),
    Flag::new(
        "configure-cloud-routes",
        K::Switch,
        "true",
        C::Routes,
        "Make routes in the cloud from each node's pod range to the node, where the provider can.",
    ),
    Flag::new(
        "route-reconciliation-period",
        K::Duration,
        "10s",
        C::Routes,
        "The least time from one comparison of routes with nodes to the next. Routes are compared when a node changes, when something is to be tried again, and every five minutes.",
    ),
    Flag::new(
        "allocate-node-cidrs",
        K::Switch,
        "false",
        C::NodeIpam,
        "Allocate the nodes' pod ranges.",
    ),
    Flag::new(
        "cidr-allocator-type",
        K::Text,
        "RangeAllocator",
        C::NodeIpam,
        "How pod ranges are allocated: RangeAllocator, or CloudAllocator where the provider has one.",
    ),
    Flag::new(
        "service-cluster-ip-range",
        K::Text,
        "",
        C::NodeIpam,
        "Range of the Services' addresses, left out when pod ranges are allocated; up to two CIDRs, comma separated.",
    ),
    Flag::new(
        "node-cidr-mask-size",
        K::Integer32,
        "0",
        C::NodeIpam,
        "Mask size of a node's pod range in a cluster of one family. 0 for the default of the family.",
    ),
    Flag::new(
        "node-cidr-mask-size-ipv4",
        K::Integer32,
        "0",
        C::NodeIpam,
        "Mask size of a node's IPv4 pod range. 0 for the default.",
    ),
    Flag::new(
        "node-cidr-mask-size-ipv6",
        K::Integer32,
        "0",
        C::NodeIpam,
        "Mask size of a node's IPv6 pod range. 0 for the default.",
    ),
    // Leader election.
    Flag::new(
        "leader-elect",
        K::Switch,
        "true",
        C::LeaderElection,
        "Compete for a Lease before doing anything, so that of several replicas one works and the others stand by.",
    ),
    Flag::new(
        "leader-elect-lease-duration",
        K::Duration,
        "15s",
        C::LeaderElection,
        "How long the others wait after the last renewal they saw before they take the Lease over.",
    ),
    Flag::new(
        "leader-elect-renew-deadline",
        K::Duration,
        "10s",
        C::LeaderElection,
        "How long the leader works on without a successful renewal. Must be shorter than the lease duration.",
    ),
    Flag::new(
        "leader-elect-retry-period",
        K::Duration,
        "2s",
        C::LeaderElection,
        "How long to wait between two attempts to acquire or renew.",
    ),
    Flag::new(
        "leader-elect-resource-lock",
        K::Text,
        "leases",
        C::LeaderElection,
        "Kind of object that is locked. Only 'leases' exists.",
    ),
    Flag::new(
        "leader-elect-resource-name",
        K::Text,
        "cloud-controller-manager",
        C::LeaderElection,
        "Name of the Lease.",
    ),
    Flag::new(
        "leader-elect-resource-namespace",
        K::Text,
        "kube-system",
        C::LeaderElection,
        "Namespace of the Lease.",
    ),
    Flag::new(
        "hold-leases",
        K::Leases,
        "",
        C::LeaderElection,
        "Leases to have besides, before anything is done: those of the controller managers that this one takes the place of, so that none of them ever works at the same time. NAMESPACE/NAME, or NAME in --leader-elect-resource-namespace; 16 at most. Losing one ends the process; at the end all are given back.",
    ),
    Flag::new(
        "enable-leader-migration",
        K::Switch,
        "false",
        C::LeaderElection,
        "Run some controllers under a second Lease, shared with another controller manager, while they move from one to the other.",
    ),
    Flag::new(
        "leader-migration-config",
        K::Text,
        "",
        C::LeaderElection,
        "Path of the leader migration file. Empty for the built-in one.",
    ),
    // Serving.
    Flag::new(
        "bind-address",
        K::Address,
        "0.0.0.0",
        C::SecureServing,
        "Address to listen on for health checks, metrics and configuration.",
    ),
    Flag::new(
        "secure-port",
        K::Integer,
        "10258",
        C::SecureServing,
        "Port to serve HTTPS on. 0 for no server at all.",
    ),
    Flag::new(
        "cert-dir",
        K::Text,
        "",
        C::SecureServing,
        "Directory in which a made serving certificate is kept. Empty: only in memory.",
    ),
    Flag::new(
        "tls-cert-file",
        K::Text,
        "",
        C::SecureServing,
        "Path of the serving certificate (PEM), followed by its chain. Read again when it changes.",
    ),
    Flag::new(
        "tls-private-key-file",
        K::Text,
        "",
        C::SecureServing,
        "Path of the private key of --tls-cert-file.",
    ),
    Flag::new(
        "tls-cipher-suites",
        K::List,
        "",
        C::SecureServing,
        "Cipher suites to allow, by the names Go gives them. Empty for the library's choice.",
    ),
    Flag::new(
        "tls-curve-preferences",
        K::IntegerList,
        "",
        C::SecureServing,
        "Key exchange groups to allow, by their numbers. Empty for the library's choice.",
    ),
    Flag::new(
        "tls-min-version",
        K::Text,
        "",
        C::SecureServing,
        "Oldest TLS version to accept: VersionTLS10, VersionTLS11, VersionTLS12 or VersionTLS13. Versions before 1.2 are never spoken.",
    ),
    Flag::new(
        "tls-sni-cert-key",
        K::Repeated,
        "",
        C::SecureServing,
        "A further certificate and key with the names it is for; may be repeated.",
    ),
    Flag::new(
        "disable-http2-serving",
        K::Switch,
        "false",
        C::SecureServing,
        "Serve HTTP/1.1 only.",
    ),
    Flag::new(
        "http2-max-streams-per-connection",
        K::Integer,
        "0",
        C::SecureServing,
        "Most requests at the same time on one HTTP/2 connection. 0 for the library's choice.",
    ),
    Flag::new(
        "permit-port-sharing",
        K::Switch,
        "false",
        C::SecureServing,
        "Let other processes listen on the same port (SO_REUSEPORT).",
    ),
    Flag::new(
        "permit-address-sharing",
        K::Switch,
        "false",
        C::SecureServing,
        "Listen although old connections of the port linger (SO_REUSEADDR).",
    ),
    Flag::new(
        "authentication-kubeconfig",
        K::Text,
        "",
        C::Authentication,
        "Path of a kubeconfig that may create TokenReviews. Empty: the pod's service account, or all callers are anonymous.",
    ),
    Flag::new(
        "authentication-token-webhook-cache-ttl",
        K::Duration,
        "10s",
        C::Authentication,
        "How long the answer of a TokenReview is remembered.",
    ),
    Flag::new(
        "authentication-skip-lookup",
        K::Switch,
        "false",
        C::Authentication,
        "Do not read the cluster's authentication settings from kube-system.",
    ),
    Flag::new(
        "authentication-tolerate-lookup-failure",
        K::Switch,
        "false",
        C::Authentication,
        "Start although the cluster's authentication settings cannot be read.",
    ),
    Flag::new(
        "client-ca-file",
        K::Text,
        "",
        C::Authentication,
        "Path of the certificate authorities whose client certificates are accepted.",
    ),
    Flag::new(
        "requestheader-client-ca-file",
        K::Text,
        "",
        C::Authentication,
        "Path of the certificate authorities of front proxies that name the user in headers.",
    ),
    Flag::new(
        "requestheader-allowed-names",
        K::List,
        "",
        C::Authentication,
        "Common names of front proxies to trust. Empty: any that the authority signed.",
    ),
    Flag::new(
        "requestheader-username-headers",
        K::List,
        "x-remote-user",
        C::Authentication,
        "Headers in which a front proxy names the user.",
    ),
    Flag::new(
        "requestheader-group-headers",
        K::List,
        "x-remote-group",
        C::Authentication,
        "Headers in which a front proxy names the user's groups.",
    ),
    Flag::new(
        "requestheader-uid-headers",
        K::List,
        "",
        C::Authentication,
        "Headers in which a front proxy gives the user's uid.",
    ),
    Flag::new(
        "requestheader-extra-headers-prefix",
        K::List,
        "x-remote-extra-",
        C::Authentication,
        "Prefixes of headers in which a front proxy tells more about the user.",
    ),
    Flag::new(
        "authorization-kubeconfig",
        K::Text,
        "",
        C::Authorization,
        "Path of a kubeconfig that may create SubjectAccessReviews. Empty: the pod's service account, or nothing but the allowed paths is served.",
    ),
    Flag::new(
        "authorization-webhook-cache-authorized-ttl",
        K::Duration,
        "10s",
        C::Authorization,
        "How long a yes of a SubjectAccessReview is remembered.",
    ),
    Flag::new(
        "authorization-webhook-cache-unauthorized-ttl",
        K::Duration,
        "10s",
        C::Authorization,
        "How long a no of a SubjectAccessReview is remembered.",
    ),
    Flag::new(
        "authorization-always-allow-paths",
        K::List,
        "/healthz,/readyz,/livez",
        C::Authorization,
        "Paths that everybody may read; a trailing '*' stands for any rest.",
    ),
    // Webhooks: the framework has the flags, no controller manager ships one.
    Flag::new(
        "webhooks",
        K::List,
        "",
        C::Webhook,
        "Which webhooks to serve, in the syntax of --controllers. There are none yet.",
    ),
    Flag::new(
        "webhook-bind-address",
        K::Address,
        "0.0.0.0",
        C::Webhook,
        "Address to listen on for webhooks.",
    )
    .ignored(),
    Flag::new(
        "webhook-secure-port",
        K::Integer,
        "10260",
        C::Webhook,
        "Port to serve webhooks on. 0 for none.",
    ),
    Flag::new(
        "webhook-cert-dir",
        K::Text,
        "",
        C::Webhook,
        "As --cert-dir, for webhooks.",
    )
    .ignored(),
    Flag::new(
        "webhook-tls-cert-file",
        K::Text,
        "",
        C::Webhook,
        "As --tls-cert-file, for webhooks.",
    )
    .ignored(),
    Flag::new(
        "webhook-tls-private-key-file",
        K::Text,
        "",
        C::Webhook,
        "As --tls-private-key-file, for webhooks.",
    )
    .ignored(),
    Flag::new(
        "webhook-tls-cipher-suites",
        K::List,
        "",
        C::Webhook,
        "As --tls-cipher-suites, for webhooks.",
    )
    .ignored(),
    Flag::new(
        "webhook-tls-curve-preferences",
        K::IntegerList,
        "",
        C::Webhook,
        "As --tls-curve-preferences, for webhooks.",
    )
    .ignored(),
    Flag::new(
        "webhook-tls-min-version",
        K::Text,
        "",
        C::Webhook,
        "As --tls-min-version, for webhooks.",
    )
    .ignored(),
    Flag::new(
        "webhook-tls-sni-cert-key",
        K::Repeated,
        "",
        C::Webhook,
        "As --tls-sni-cert-key, for webhooks.",
    )
    .ignored(),
    Flag::new(
        "webhook-disable-http2-serving",
        K::Switch,
        "false",
        C::Webhook,
        "As --disable-http2-serving, for webhooks.",
    )
    .ignored(),
    // Debugging and logs.
    Flag::new(
        "profiling",
        K::Switch,
        "true",
        C::Debugging,
        "Serve /debug/flags/v, where the log verbosity can be changed.",
    ),
    Flag::new(
        "contention-profiling",
        K::Switch,
        "false",
        C::Debugging,
        "Profile blocking; Go only. Shown in /configz.",
    ),
    Flag::new(
        "v",
        K::Integer32,
        "0",
        C::Logs,
        "How much to log: 0 for what an operator should know, higher for more.",
    )
    .short('v'),
    Flag::new(
        "vmodule",
        K::Levels,
        "",
        C::Logs,
        "Other verbosity for parts of the program, by pattern of their names.",
    ),
    Flag::new(
        "logging-format",
        K::Text,
        "text",
        C::Logs,
        "'text' for lines to read, 'json' for one object per line.",
    ),
    Flag::new(
        "log-flush-frequency",
        K::Duration,
        "5s",
        C::Logs,
        "Longest time between flushes of the log. Bowline does not hold lines back.",
    )
    .ignored(),
    Flag::new(
        "log-text-split-stream",
        K::Switch,
        "false",
        C::Logs,
        "Write errors and the rest to different streams.",
    )
    .ignored(),
    Flag::new(
        "log-text-info-buffer-size",
        K::Size,
        "0",
        C::Logs,
        "Buffer of the text log.",
    )
    .ignored(),
    Flag::new(
        "log-json-split-stream",
        K::Switch,
        "false",
        C::Logs,
        "Write errors and the rest to different streams.",
    )
    .ignored(),
    Flag::new(
        "log-json-info-buffer-size",
        K::Size,
        "0",
        C::Logs,
        "Buffer of the JSON log.",
    )
    .ignored(),
    Flag::new(
        "feature-gates",
        K::Gates,
        "",
        C::Global,
        "Switches of alpha and beta features, as Name=true or Name=false.",
    ),
    Flag::new(
        "version",
        K::Version,
        "false",
        C::Global,
        "Print the version and exit; =raw prints all that is known about the build.",
    ),
    Flag::new(
        "help",
        K::Switch,
        "false",
        C::Global,
        "Print this text and exit.",
    )
    .short('h'),
    // Gone upstream, still in manifests.
    Flag::removed("port", K::Text, "Port without TLS; there is none any more."),
    Flag::removed("address", K::Text, "Address of the port without TLS."),
    Flag::removed(
        "service-account-private-key-file",
        K::Text,
        "Signing key of an old way to make service accounts.",
    ),
    Flag::removed(
        "cloud-provider-gce-lb-src-cidrs",
        K::Text,
        "For Google's in-tree provider.",
    ),
    Flag::removed(
        "cloud-provider-gce-l7lb-src-cidrs",
        K::Text,
        "For Google's in-tree provider.",
    ),
    Flag::removed("add-dir-header", K::Switch, "Log option of old releases."),
    Flag::removed("alsologtostderr", K::Switch, "Log option of old releases."),
    Flag::removed("log-backtrace-at", K::Text, "Log option of old releases."),
    Flag::removed("log-dir", K::Text, "Log option of old releases."),
    Flag::removed("log-file", K::Text, "Log option of old releases."),
    Flag::removed("log-file-max-size", K::Text, "Log option of old releases."),
    Flag::removed("logtostderr", K::Switch, "Log option of old releases."),
    Flag::removed("one-output", K::Switch, "Log option of old releases."),
    Flag::removed("skip-headers", K::Switch, "Log option of old releases."),
    Flag::removed("skip-log-headers", K::Switch, "Log option of old releases."),
    Flag::removed("stderrthreshold", K::Text, "Log option of old releases."),
];
