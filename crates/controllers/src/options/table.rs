//! The table of flags. Parser, help, reference page, defaults, options and what may change while the manager runs all
//! come from its rows.

use super::settings::{OptionValue as _, Options};
use super::value::{Kind, Value};

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
    /// Whether a configuration file can change it while the manager runs; the others are of the process itself.
    pub is_live: bool,
    /// Enters its value into the options.
    pub(super) set: fn(&mut Options, &Value),
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
        Self {
            name,
            short: None,
            kind,
            default,
            category,
            help,
            effect: FlagEffect::Used,
            deprecated: None,
            is_live: false,
            set: |_, _| {},
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

    const fn live(mut self) -> Self {
        self.is_live = true;
        self
    }

    const fn removed(mut self) -> Self {
        self.effect = FlagEffect::Removed;
        self
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

/// One row for each flag: kind, name, default, heading, what else there is to know, the option that it sets, help.
macro_rules! flags {
    ($(
        $kind:ident $name:literal = $default:literal, $category:ident
            $(, $more:ident $(($argument:literal))?)* $(=> $($option:ident).+)?: $help:literal;
    )*) => {
        /// Every flag that is accepted, in the order of the help text.
        pub const FLAGS: &[Flag] = &[$(
            Flag {
                $(set: |options, value| options.$($option).+.take(value),)?
                ..Flag::new($name, Kind::$kind, $default, Category::$category, $help)
            }
            $(.$more($($argument)?))*
        ),*];
    };
}

flags! {
    // What cloud, what cluster.
    Text "config" = "", Cloud => cloud.config:
        "Path of Bowline's own configuration: several clouds, and all of these flags, in one file. Then neither --cloud-provider nor --cloud-config is given. Flags on the command line take precedence over those of the file.";
    Text "cloud-provider" = "", Cloud => cloud.provider:
        "Name of the cloud provider. Must not be empty.";
    Text "cloud-config" = "", Cloud => cloud.config_file:
        "Path of the cloud provider's configuration file. Empty for none.";
    Text "account-fingerprint" = "", Cloud => cloud.account_fingerprint:
        "The fingerprint that event AccountUnproven or AccountContradicted on the lease shows: with it you confirm that the cloud's credentials see the account of this cluster. With --config, set account of the cloud instead.";
    Text "cluster-name" = "kubernetes", Cloud => cloud.cluster_name:
        "Name of the cluster, handed to the cloud with every load balancer and route.";
    Text "cluster-uid" = "", Cloud, live => cloud.cluster_uid:
        "Distinguishes this cluster from others in the tags of its load balancers. Empty for the uid of namespace kube-system. Give one where clusters were cloned from one etcd, since those share all uids.";
    Text "cluster-cidr" = "", Cloud, live => cloud.cluster_cidr:
        "Range of the pods' addresses: one CIDR, or two of different families, comma separated.";
    Switch "allow-untagged-cloud" = "false", Cloud, live, deprecated("no provider here needs it, and it can be left out") => cloud.allow_untagged:
        "Start although the cloud cannot tell clusters apart. No provider here needs it.";
    Text "external-cloud-volume-plugin" = "", Cloud, ignored => cloud.external_volume_plugin:
        "Volume plugin of an in-tree cloud; never had an effect in a cloud controller manager.";

    // The client and the controllers in general.
    Text "kubeconfig" = "", Generic => client.kubeconfig:
        "Path of a kubeconfig file. If neither this nor --master is given, the service account of the pod is used.";
    Text "master" = "", Generic => client.master:
        "URL of the API server; overrides the one in the kubeconfig.";
    Text "mode" = "manage", Generic => controllers.mode:
        "'manage' does the work. 'observe' reads, decides and logs what it would do, and writes nothing: no Node, no Service, no event, no lease, nothing in the cloud. An observer can run beside the manager that works.";
    List "controllers" = "*", Generic, live => controllers.selection:
        "Which controllers to run. '*' means all that are on by default, 'name' turns one on, '-name' turns one off; the first item that names a controller counts.";
    // The framework's 20 would initialise seven nodes a second; the API server itself knows how much it takes.
    Float "kube-api-qps" = "-1", Generic => client.qps:
        "Requests per second to the API server, for each controller. Negative for no limit but the API server's own, which is obeyed; 0 for 5.";
    Integer32 "kube-api-burst" = "30", Generic => client.burst:
        "Requests to the API server that each controller may make at once, ahead of its rate.";
    Text "kube-api-content-type" = "application/vnd.kubernetes.protobuf", Generic, ignored => client.content_type:
        "Encoding of requests to the API server. Bowline writes JSON and reads nodes in protobuf.";
    Duration "min-resync-period" = "12h0m0s", Generic => controllers.min_resync_period:
        "Shortest time after which watched objects are looked at again unchanged; the real one is random between this and twice this.";
    Duration "controller-start-interval" = "0s", Generic, live => controllers.start_interval:
        "Pause between starting one controller and the next.";
    Switch "use-service-account-credentials" = "false", Generic => client.use_service_account_credentials:
        "Give every controller a service account of its own in kube-system.";

    // Nodes.
    Integer32 "concurrent-node-syncs" = "-1", Nodes, live => controllers.node_syncs:
        "How many nodes of one cloud are initialised at the same time. -1 adapts: 8 writes are in flight at first, of all controllers, up to 64 while the API server answers as fast, and half as many whenever it slows down or refuses.";
    Integer32 "concurrent-node-status-updates" = "0", Nodes, live => controllers.node_status_updates:
        "How many nodes of one cloud have their addresses refreshed at the same time. 0 means as many as --concurrent-node-syncs.";
    Integer32 "concurrent-node-lifecycle-syncs" = "1", Nodes, live => controllers.lifecycle_syncs:
        "How many nodes of one cloud are checked against it at the same time. Must be positive.";
    Duration "node-status-update-frequency" = "5m0s", Nodes, live => controllers.node_status_update_frequency:
        "How often the nodes' addresses are refreshed from the cloud.";
    Duration "node-monitor-period" = "5s", Nodes, live => controllers.node_monitor_period:
        "How often nodes are checked for machines that were stopped or are gone.";
    Duration "node-sync-period" = "0s", Nodes, ignored, deprecated("it has no effect and can be left out") => controllers.node_sync_period:
        "Never had an effect since controllers moved out of tree.";
    Text "show-owners" = "none", Nodes, live => controllers.show_owners:
        "Show on each Node which cloud owns it: 'annotation' or 'label' keeps bowline.dev/owner there, and bowline.dev/describer where another cloud describes the node. Nodes without an owner are not written to. 'none' removes what was shown.";
    List "reserved-names" = "", Nodes, live => controllers.reserved_names:
        "DNS names, addresses and ranges of addresses that no node gets a serving certificate for, such as the names of a load balancer in front of the API server. What the API server's certificate shows is reserved without being named.";
    // The framework's 1 lets every Service wait for the slowest. A plan is carried out one call at a time, so that five
    // stay below what the clients of the clouds allow at once, and leave room for the nodes.
    Integer32 "concurrent-service-syncs" = "5", Services, live => controllers.service_syncs:
        "How many Services of one cloud are reconciled at the same time; each cloud has workers of its own. More means faster load balancers and more load on API server and cloud. Calls to a cloud stay within its own limits in any case.";
    Namespaces "load-balancer-adoption" = "never", Services => controllers.adoption:
        "Namespaces whose Services may adopt a load balancer that no Service of this cluster owns, by annotation bowline.dev/take-over: 'never', 'any', or a list of namespaces. For a single cloud; with --config, loadBalancers.adoption of each cloud takes precedence.";
    Switch "remove-orphaned-load-balancers" = "false", Services, live => controllers.remove_orphans:
        "Remove load balancers that carry this cluster's mark (the uid of namespace kube-system, or --cluster-uid) and whose Service does not exist. Without it they are only reported: Warning OrphanedLoadBalancer on the lease, and a metric.";
    Switch "configure-cloud-routes" = "true", Routes, live => controllers.configure_routes:
        "Make routes in the cloud from each node's pod range to the node, where the provider can.";
    Duration "route-reconciliation-period" = "10s", Routes, live => controllers.route_reconciliation_period:
        "The least time from one comparison of routes with nodes to the next. Routes are compared when a node changes, when something is to be tried again, and every five minutes.";
    Switch "allocate-node-cidrs" = "false", NodeIpam, live => ipam.allocate:
        "Allocate the nodes' pod ranges.";
    Text "cidr-allocator-type" = "RangeAllocator", NodeIpam, live => ipam.allocator:
        "How pod ranges are allocated: RangeAllocator, or CloudAllocator where the provider has one.";
    Text "service-cluster-ip-range" = "", NodeIpam, live => ipam.service_range:
        "Range of the Services' addresses, left out when pod ranges are allocated; up to two CIDRs, comma separated.";
    Integer32 "node-cidr-mask-size" = "0", NodeIpam, live => ipam.mask_size:
        "Mask size of a node's pod range in a cluster of one family. 0 for the default of the family.";
    Integer32 "node-cidr-mask-size-ipv4" = "0", NodeIpam, live => ipam.mask_size_ipv4:
        "Mask size of a node's IPv4 pod range. 0 for the default.";
    Integer32 "node-cidr-mask-size-ipv6" = "0", NodeIpam, live => ipam.mask_size_ipv6:
        "Mask size of a node's IPv6 pod range. 0 for the default.";

    // Leader election.
    Switch "leader-elect" = "true", LeaderElection => election.enabled:
        "Compete for a Lease before doing anything, so that one replica is active and the others are on standby.";
    Duration "leader-elect-lease-duration" = "15s", LeaderElection => election.lease_duration:
        "How long the others wait after the last renewal they saw before they take the Lease over.";
    Duration "leader-elect-renew-deadline" = "10s", LeaderElection => election.renew_deadline:
        "How long the leader works on without a successful renewal. Must be shorter than the lease duration.";
    Duration "leader-elect-retry-period" = "2s", LeaderElection => election.retry_period:
        "How long to wait between two attempts to acquire or renew.";
    Text "leader-elect-resource-lock" = "leases", LeaderElection => election.resource_lock:
        "Kind of object that is locked. Only 'leases' exists.";
    Text "leader-elect-resource-name" = "cloud-controller-manager", LeaderElection => election.resource_name:
        "Name of the Lease.";
    Text "leader-elect-resource-namespace" = "kube-system", LeaderElection => election.resource_namespace:
        "Namespace of the Lease.";
    Leases "hold-leases" = "", LeaderElection => election.hold:
        "Further leases to hold before anything is done: those of the controller managers that this one replaces, so that none of them is ever active at the same time. NAMESPACE/NAME, or NAME in --leader-elect-resource-namespace; 16 at most. Losing one ends the process; all are released at the end.";
    Switch "enable-leader-migration" = "false", LeaderElection => election.migration:
        "Run some controllers under a second Lease, shared with another controller manager, while they move from one to the other.";
    Text "leader-migration-config" = "", LeaderElection => election.migration_file:
        "Path of the leader migration file. Empty for the built-in one.";

    // Serving.
    Address "bind-address" = "0.0.0.0", SecureServing => serving.address:
        "Address to listen on for health checks, metrics and configuration.";
    Integer "secure-port" = "10258", SecureServing => serving.port:
        "Port to serve HTTPS on. 0 for no server at all.";
    Text "cert-dir" = "", SecureServing => serving.tls.certificate_directory:
        "Directory in which a made serving certificate is kept. Empty: only in memory.";
    Text "tls-cert-file" = "", SecureServing => serving.tls.certificate_file:
        "Path of the serving certificate (PEM), followed by its chain. Read again when it changes.";
    Text "tls-private-key-file" = "", SecureServing => serving.tls.private_key_file:
        "Path of the private key of --tls-cert-file.";
    List "tls-cipher-suites" = "", SecureServing => serving.tls.cipher_suites:
        "Cipher suites to allow, by the names Go gives them. Empty for the library's choice.";
    IntegerList "tls-curve-preferences" = "", SecureServing => serving.tls.curve_preferences:
        "Key exchange groups to allow, by their numbers. Empty for the library's choice.";
    Text "tls-min-version" = "", SecureServing => serving.tls.min_version:
        "Oldest TLS version to accept: VersionTLS10, VersionTLS11, VersionTLS12 or VersionTLS13. Versions before 1.2 are never spoken.";
    Repeated "tls-sni-cert-key" = "", SecureServing => serving.tls.named_certificates:
        "A further certificate and key with the names it is for; may be repeated.";
    Switch "disable-http2-serving" = "false", SecureServing => serving.http1_only:
        "Serve HTTP/1.1 only.";
    Integer "http2-max-streams-per-connection" = "0", SecureServing => serving.http2_max_streams:
        "Most requests at the same time on one HTTP/2 connection. 0 for the library's choice.";
    Switch "permit-port-sharing" = "false", SecureServing => serving.share_port:
        "Let other processes listen on the same port (SO_REUSEPORT).";
    Switch "permit-address-sharing" = "false", SecureServing => serving.share_address:
        "Listen although old connections of the port linger (SO_REUSEADDR).";
    Text "authentication-kubeconfig" = "", Authentication => authentication.kubeconfig:
        "Path of a kubeconfig that may create TokenReviews. Empty: the pod's service account, or all callers are anonymous.";
    Duration "authentication-token-webhook-cache-ttl" = "10s", Authentication => authentication.token_cache:
        "How long the answer of a TokenReview is remembered.";
    Switch "authentication-skip-lookup" = "false", Authentication => authentication.skip_lookup:
        "Do not read the cluster's authentication settings from kube-system.";
    Switch "authentication-tolerate-lookup-failure" = "false", Authentication => authentication.tolerate_lookup_failure:
        "Start although the cluster's authentication settings cannot be read.";
    Text "client-ca-file" = "", Authentication => authentication.client_ca_file:
        "Path of the certificate authorities whose client certificates are accepted.";
    Text "requestheader-client-ca-file" = "", Authentication => authentication.proxy_ca_file:
        "Path of the certificate authorities of front proxies that name the user in headers.";
    List "requestheader-allowed-names" = "", Authentication => authentication.proxy_names:
        "Common names of front proxies to trust. Empty: any that the authority signed.";
    List "requestheader-username-headers" = "x-remote-user", Authentication => authentication.username_headers:
        "Headers in which a front proxy names the user.";
    List "requestheader-group-headers" = "x-remote-group", Authentication => authentication.group_headers:
        "Headers in which a front proxy names the user's groups.";
    List "requestheader-uid-headers" = "", Authentication => authentication.uid_headers:
        "Headers in which a front proxy gives the user's uid.";
    List "requestheader-extra-headers-prefix" = "x-remote-extra-", Authentication => authentication.extra_header_prefixes:
        "Prefixes of headers in which a front proxy passes further attributes of the user.";
    Text "authorization-kubeconfig" = "", Authorization => authorization.kubeconfig:
        "Path of a kubeconfig that may create SubjectAccessReviews. Empty: the pod's service account, or nothing but the allowed paths is served.";
    Duration "authorization-webhook-cache-authorized-ttl" = "10s", Authorization => authorization.allowed_cache:
        "How long a yes of a SubjectAccessReview is remembered.";
    Duration "authorization-webhook-cache-unauthorized-ttl" = "10s", Authorization => authorization.denied_cache:
        "How long a no of a SubjectAccessReview is remembered.";
    List "authorization-always-allow-paths" = "/healthz,/readyz,/livez", Authorization => authorization.always_allow_paths:
        "Paths that everybody may read; a trailing '*' stands for any rest.";

    // Webhooks: the framework has the flags, no controller manager ships one.
    List "webhooks" = "", Webhook => webhook.selection:
        "Which webhooks to serve, in the syntax of --controllers. There are none yet.";
    Address "webhook-bind-address" = "0.0.0.0", Webhook, ignored:
        "Address to listen on for webhooks.";
    Integer "webhook-secure-port" = "10260", Webhook => webhook.port:
        "Port to serve webhooks on. 0 for none.";
    Text "webhook-cert-dir" = "", Webhook, ignored:
        "As --cert-dir, for webhooks.";
    Text "webhook-tls-cert-file" = "", Webhook, ignored:
        "As --tls-cert-file, for webhooks.";
    Text "webhook-tls-private-key-file" = "", Webhook, ignored:
        "As --tls-private-key-file, for webhooks.";
    List "webhook-tls-cipher-suites" = "", Webhook, ignored:
        "As --tls-cipher-suites, for webhooks.";
    IntegerList "webhook-tls-curve-preferences" = "", Webhook, ignored:
        "As --tls-curve-preferences, for webhooks.";
    Text "webhook-tls-min-version" = "", Webhook, ignored:
        "As --tls-min-version, for webhooks.";
    Repeated "webhook-tls-sni-cert-key" = "", Webhook, ignored:
        "As --tls-sni-cert-key, for webhooks.";
    Switch "webhook-disable-http2-serving" = "false", Webhook, ignored:
        "As --disable-http2-serving, for webhooks.";

    // Debugging and logs.
    Switch "profiling" = "true", Debugging => debugging.profiling:
        "Serve /debug/flags/v, where the log verbosity can be changed.";
    Switch "contention-profiling" = "false", Debugging => debugging.contention_profiling:
        "Profile blocking; Go only. Shown in /configz.";
    Integer32 "v" = "0", Logs, live, short('v') => logging.verbosity:
        "How much to log: 0 for what an operator should know, higher for more.";
    Levels "vmodule" = "", Logs => logging.modules:
        "Other verbosity for parts of the program, by pattern of their names.";
    Text "logging-format" = "text", Logs => logging.format:
        "'text' for lines to read, 'json' for one object per line.";
    Duration "log-flush-frequency" = "5s", Logs, ignored:
        "Longest time between flushes of the log. Bowline does not hold lines back.";
    Switch "log-text-split-stream" = "false", Logs, ignored:
        "Write errors and the rest to different streams.";
    Size "log-text-info-buffer-size" = "0", Logs, ignored:
        "Buffer of the text log.";
    Switch "log-json-split-stream" = "false", Logs, ignored:
        "Write errors and the rest to different streams.";
    Size "log-json-info-buffer-size" = "0", Logs, ignored:
        "Buffer of the JSON log.";
    Gates "feature-gates" = "", Global => feature_gates:
        "Switches of alpha and beta features, as Name=true or Name=false.";
    Version "version" = "false", Global:
        "Print the version and exit; =raw prints all that is known about the build.";
    Switch "help" = "false", Global, short('h'):
        "Print this text and exit.";

    // Gone upstream, still in manifests. Their kind only says whether they may stand alone.
    Text "port" = "", Removed, removed:
        "Port without TLS; there is none any more.";
    Text "address" = "", Removed, removed:
        "Address of the port without TLS.";
    Text "service-account-private-key-file" = "", Removed, removed:
        "Signing key of an old way to make service accounts.";
    Text "cloud-provider-gce-lb-src-cidrs" = "", Removed, removed:
        "For Google's in-tree provider.";
    Text "cloud-provider-gce-l7lb-src-cidrs" = "", Removed, removed:
        "For Google's in-tree provider.";
    Switch "add-dir-header" = "", Removed, removed:
        "Log option of old releases.";
    Switch "alsologtostderr" = "", Removed, removed:
        "Log option of old releases.";
    Text "log-backtrace-at" = "", Removed, removed:
        "Log option of old releases.";
    Text "log-dir" = "", Removed, removed:
        "Log option of old releases.";
    Text "log-file" = "", Removed, removed:
        "Log option of old releases.";
    Text "log-file-max-size" = "", Removed, removed:
        "Log option of old releases.";
    Switch "logtostderr" = "", Removed, removed:
        "Log option of old releases.";
    Switch "one-output" = "", Removed, removed:
        "Log option of old releases.";
    Switch "skip-headers" = "", Removed, removed:
        "Log option of old releases.";
    Switch "skip-log-headers" = "", Removed, removed:
        "Log option of old releases.";
    Text "stderrthreshold" = "", Removed, removed:
        "Log option of old releases.";
}
