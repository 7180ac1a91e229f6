//! The options, typed and grouped by concern.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::time::Duration;

use bowline_core::NamespaceRule;
use bowline_core::ipam::IpamFlags;
use bowline_core::owner_annotation::Showing;

use super::Values;
use super::controllers::ControllerSet;
use crate::kube::election::LeaseName;

/// Everything the manager can be told on its command line.
#[derive(Clone, Debug, PartialEq)]
pub struct Options {
    /// Which cloud, which cluster.
    pub cloud: CloudOptions,
    /// How the API server is reached.
    pub client: ClientOptions,
    /// Which controllers run, and how.
    pub controllers: ControllerOptions,
    /// Allocation of pod ranges.
    pub ipam: IpamOptions,
    /// Leader election and migration.
    pub election: ElectionOptions,
    /// The HTTPS server.
    pub serving: ServingOptions,
    /// Who the HTTPS server's callers are.
    pub authentication: AuthenticationOptions,
    /// What the HTTPS server's callers may read.
    pub authorization: AuthorizationOptions,
    /// Webhooks; only checked.
    pub webhook: WebhookOptions,
    /// Profiling.
    pub debugging: DebuggingOptions,
    /// What is logged.
    pub logging: LoggingOptions,
    /// Feature gates that were set.
    pub feature_gates: BTreeMap<String, bool>,
}

/// Which cloud, which cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CloudOptions {
    /// `--config`; empty for none.
    pub config: String,
    /// `--cloud-provider`.
    pub provider: String,
    /// `--cloud-config`; empty for none.
    pub config_file: String,
    /// `--cluster-name`.
    pub cluster_name: String,
    /// `--account-fingerprint`.
    pub account_fingerprint: String,
    /// `--cluster-uid`; empty for that of a namespace.
    pub cluster_uid: String,
    /// `--cluster-cidr`, as written.
    pub cluster_cidr: String,
    /// `--allow-untagged-cloud`.
    pub allow_untagged: bool,
    /// `--external-cloud-volume-plugin`; only shown.
    pub external_volume_plugin: String,
    /// What was given of the flags that only single clouds have, by name.
    pub own: BTreeMap<String, String>,
}

impl CloudOptions {
    /// What the operator says that the cluster's uid is.
    pub fn cluster_uid(&self) -> Option<&str> {
        Some(self.cluster_uid.trim()).filter(|it| !it.is_empty())
    }
}

/// How the API server is reached.
#[derive(Clone, Debug, PartialEq)]
pub struct ClientOptions {
    /// `--kubeconfig`; empty for none.
    pub kubeconfig: String,
    /// `--master`; empty for none.
    pub master: String,
    /// `--kube-api-qps`.
    pub qps: f32,
    /// `--kube-api-burst`.
    pub burst: i32,
    /// `--kube-api-content-type`; only shown.
    pub content_type: String,
    /// `--use-service-account-credentials`.
    pub use_service_account_credentials: bool,
}

/// Whether the manager acts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Mode {
    /// It does its work.
    Manage,
    /// It reads, decides, and tells what it would do.
    Observe,
    /// Something else was written; [`Options::validate`] refuses it.
    Unknown(String),
}

impl From<String> for Mode {
    fn from(text: String) -> Self {
        match text.as_str() {
            "manage" => Self::Manage,
            "observe" => Self::Observe,
            _ => Self::Unknown(text),
        }
    }
}

/// How it is shown on nodes whose they are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ShowOwners {
    /// In a way that there is.
    Known(Showing),
    /// Something else was written; [`Options::validate`] refuses it.
    Unknown(String),
}

impl From<String> for ShowOwners {
    fn from(text: String) -> Self {
        match text.as_str() {
            "none" => Self::Known(Showing::Nothing),
            "annotation" => Self::Known(Showing::Annotations),
            "label" => Self::Known(Showing::Labels),
            _ => Self::Unknown(text),
        }
    }
}

/// Which controllers run, and how.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ControllerOptions {
    /// `--mode`.
    pub mode: Mode,
    /// `--controllers`, as written.
    pub selection: Vec<String>,
    /// `--controller-start-interval`.
    pub start_interval: Duration,
    /// `--min-resync-period`.
    pub min_resync_period: Duration,
    /// `--concurrent-node-syncs`.
    pub node_syncs: i32,
    /// `--concurrent-node-status-updates`; see [`status_updates`](Self::status_updates).
    pub node_status_updates: i32,
    /// `--concurrent-node-lifecycle-syncs`.
    pub lifecycle_syncs: i32,
    /// `--concurrent-service-syncs`.
    pub service_syncs: i32,
    /// `--load-balancer-adoption`.
    pub adoption: NamespaceRule,
    /// `--remove-orphaned-load-balancers`.
    pub remove_orphans: bool,
    /// `--node-status-update-frequency`.
    pub node_status_update_frequency: Duration,
    /// `--node-monitor-period`.
    pub node_monitor_period: Duration,
    /// `--reserved-names`.
    pub reserved_names: Vec<String>,
    /// `--show-owners`.
    pub show_owners: ShowOwners,
    /// `--node-sync-period`; only shown.
    pub node_sync_period: Duration,
    /// `--configure-cloud-routes`.
    pub configure_routes: bool,
    /// Whether somebody gave that flag: it is on by default, also where no cloud has routes.
    pub routes_asked_for: bool,
    /// `--route-reconciliation-period`.
    pub route_reconciliation_period: Duration,
}

impl ControllerOptions {
    /// The controllers that shall run.
    pub fn set(&self) -> ControllerSet {
        ControllerSet::evaluate(&self.selection)
    }

    /// Workers of the address loop: its own number, or that of the node workers.
    pub fn status_updates(&self) -> i32 {
        match self.node_status_updates {
            0 => self.node_syncs,
            number => number,
        }
    }
}

/// Allocation of pod ranges.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IpamOptions {
    /// `--allocate-node-cidrs`.
    pub allocate: bool,
    /// `--cidr-allocator-type`.
    pub allocator: String,
    /// `--service-cluster-ip-range`, as written.
    pub service_range: String,
    /// `--node-cidr-mask-size`; 0 for the default.
    pub mask_size: i32,
    /// `--node-cidr-mask-size-ipv4`; 0 for the default.
    pub mask_size_ipv4: i32,
    /// `--node-cidr-mask-size-ipv6`; 0 for the default.
    pub mask_size_ipv6: i32,
}

/// Leader election and migration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ElectionOptions {
    /// `--leader-elect`.
    pub enabled: bool,
    /// `--leader-elect-lease-duration`.
    pub lease_duration: Duration,
    /// `--leader-elect-renew-deadline`.
    pub renew_deadline: Duration,
    /// `--leader-elect-retry-period`.
    pub retry_period: Duration,
    /// `--leader-elect-resource-lock`.
    pub resource_lock: String,
    /// `--leader-elect-resource-name`.
    pub resource_name: String,
    /// `--leader-elect-resource-namespace`.
    pub resource_namespace: String,
    /// `--hold-leases`, as written; see [`held_leases`](Self::held_leases).
    pub hold: Vec<String>,
    /// `--enable-leader-migration`.
    pub migration: bool,
    /// `--leader-migration-config`; empty for the built-in one.
    pub migration_file: String,
}

impl ElectionOptions {
    /// The Lease that replicas compete for.
    pub fn lease(&self) -> LeaseName {
        LeaseName {
            namespace: self.resource_namespace.clone(),
            name: self.resource_name.clone(),
        }
    }

    /// The Leases that are held besides, each once and in order. What is no Lease was refused when the flag was
    /// read.
    pub fn held_leases(&self) -> BTreeSet<LeaseName> {
        let named = self.hold.iter();
        let named = named.filter_map(|text| LeaseName::parse(text, &self.resource_namespace).ok());
        named.filter(|lease| *lease != self.lease()).collect()
    }
}

/// Certificates and TLS of the HTTPS server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsOptions {
    /// `--cert-dir`; empty for none.
    pub certificate_directory: String,
    /// `--tls-cert-file`; empty for none.
    pub certificate_file: String,
    /// `--tls-private-key-file`; empty for none.
    pub private_key_file: String,
    /// `--tls-cipher-suites`.
    pub cipher_suites: Vec<String>,
    /// `--tls-curve-preferences`.
    pub curve_preferences: Vec<i64>,
    /// `--tls-min-version`; empty for 1.2.
    pub min_version: String,
    /// `--tls-sni-cert-key`, each `cert,key[:domains]`.
    pub named_certificates: Vec<String>,
}

/// The HTTPS server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServingOptions {
    /// `--bind-address`.
    pub address: IpAddr,
    /// `--secure-port`; checked to be a port, 0 for no server.
    pub port: i64,
    /// Certificates and TLS.
    pub tls: TlsOptions,
    /// `--disable-http2-serving`, turned around.
    pub http2: bool,
    /// `--http2-max-streams-per-connection`; 0 for the default.
    pub http2_max_streams: i64,
    /// `--permit-port-sharing`.
    pub share_port: bool,
    /// `--permit-address-sharing`.
    pub share_address: bool,
}

/// Who the HTTPS server's callers are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuthenticationOptions {
    /// `--authentication-kubeconfig`; empty for none.
    pub kubeconfig: String,
    /// `--authentication-token-webhook-cache-ttl`.
    pub token_cache: Duration,
    /// `--authentication-skip-lookup`.
    pub skip_lookup: bool,
    /// `--authentication-tolerate-lookup-failure`.
    pub tolerate_lookup_failure: bool,
    /// `--client-ca-file`; empty for none.
    pub client_ca_file: String,
    /// `--requestheader-client-ca-file`; empty for none.
    pub proxy_ca_file: String,
    /// `--requestheader-allowed-names`.
    pub proxy_names: Vec<String>,
    /// `--requestheader-username-headers`.
    pub username_headers: Vec<String>,
    /// `--requestheader-group-headers`.
    pub group_headers: Vec<String>,
    /// `--requestheader-uid-headers`.
    pub uid_headers: Vec<String>,
    /// `--requestheader-extra-headers-prefix`.
    pub extra_header_prefixes: Vec<String>,
}

/// What the HTTPS server's callers may read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuthorizationOptions {
    /// `--authorization-kubeconfig`; empty for none.
    pub kubeconfig: String,
    /// `--authorization-webhook-cache-authorized-ttl`.
    pub allowed_cache: Duration,
    /// `--authorization-webhook-cache-unauthorized-ttl`.
    pub denied_cache: Duration,
    /// `--authorization-always-allow-paths`.
    pub always_allow_paths: Vec<String>,
}

/// Webhooks; only checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WebhookOptions {
    /// `--webhooks`.
    pub selection: Vec<String>,
    /// `--webhook-secure-port`.
    pub port: i64,
}

/// Profiling.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DebuggingOptions {
    /// `--profiling`.
    pub profiling: bool,
    /// `--contention-profiling`; only shown.
    pub contention_profiling: bool,
}

/// What is logged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoggingOptions {
    /// `--v`.
    pub verbosity: i32,
    /// `--vmodule`: patterns and their verbosity.
    pub modules: Vec<(String, i64)>,
    /// `--logging-format`: `text` or `json`.
    pub format: String,
}

impl Options {
    /// What the command line says about pod ranges.
    pub fn ipam_flags(&self) -> IpamFlags {
        IpamFlags {
            allocator: self.ipam.allocator.clone(),
            cluster: self.cloud.cluster_cidr.clone(),
            services: self.ipam.service_range.clone(),
            mask: self.ipam.mask_size,
            mask_ipv4: self.ipam.mask_size_ipv4,
            mask_ipv6: self.ipam.mask_size_ipv6,
        }
    }

    /// The options that those values mean.
    pub fn from_values(values: &Values) -> Self {
        Self {
            cloud: cloud(values),
            client: client(values),
            controllers: controllers(values),
            ipam: ipam(values),
            election: election(values),
            serving: serving(values),
            authentication: authentication(values),
            authorization: authorization(values),
            webhook: WebhookOptions {
                selection: values.list("webhooks"),
                port: values.integer("webhook-secure-port"),
            },
            debugging: DebuggingOptions {
                profiling: values.switch("profiling"),
                contention_profiling: values.switch("contention-profiling"),
            },
            logging: LoggingOptions {
                verbosity: small(values, "v"),
                modules: values.levels("vmodule"),
                format: values.text("logging-format"),
            },
            feature_gates: values.gates("feature-gates"),
        }
    }
}

/// A number that its row already limits to 32 bits.
fn small(values: &Values, name: &str) -> i32 {
    i32::try_from(values.integer(name)).unwrap_or_default()
}

fn cloud(values: &Values) -> CloudOptions {
    CloudOptions {
        config: values.text("config"),
        provider: values.text("cloud-provider"),
        config_file: values.text("cloud-config"),
        cluster_name: values.text("cluster-name"),
        account_fingerprint: values.text("account-fingerprint"),
        cluster_uid: values.text("cluster-uid"),
        cluster_cidr: values.text("cluster-cidr"),
        allow_untagged: values.switch("allow-untagged-cloud"),
        external_volume_plugin: values.text("external-cloud-volume-plugin"),
        own: BTreeMap::new(),
    }
}

fn client(values: &Values) -> ClientOptions {
    ClientOptions {
        kubeconfig: values.text("kubeconfig"),
        master: values.text("master"),
        qps: values.float("kube-api-qps"),
        burst: small(values, "kube-api-burst"),
        content_type: values.text("kube-api-content-type"),
        use_service_account_credentials: values.switch("use-service-account-credentials"),
    }
}

fn controllers(values: &Values) -> ControllerOptions {
    ControllerOptions {
        mode: values.text("mode").into(),
        selection: values.list("controllers"),
        start_interval: values.duration("controller-start-interval"),
        min_resync_period: values.duration("min-resync-period"),
        node_syncs: small(values, "concurrent-node-syncs"),
        node_status_updates: small(values, "concurrent-node-status-updates"),
        lifecycle_syncs: small(values, "concurrent-node-lifecycle-syncs"),
        service_syncs: small(values, "concurrent-service-syncs"),
        // What cannot be read was refused with the flag.
        adoption: NamespaceRule::parse(&values.text("load-balancer-adoption"))
            .unwrap_or(NamespaceRule::Never),
        remove_orphans: values.switch("remove-orphaned-load-balancers"),
        node_status_update_frequency: values.duration("node-status-update-frequency"),
        node_monitor_period: values.duration("node-monitor-period"),
        reserved_names: values.list("reserved-names"),
        show_owners: values.text("show-owners").into(),
        node_sync_period: values.duration("node-sync-period"),
        configure_routes: values.switch("configure-cloud-routes"),
        routes_asked_for: values.given("configure-cloud-routes"),
        route_reconciliation_period: values.duration("route-reconciliation-period"),
    }
}

fn ipam(values: &Values) -> IpamOptions {
    IpamOptions {
        allocate: values.switch("allocate-node-cidrs"),
        allocator: values.text("cidr-allocator-type"),
        service_range: values.text("service-cluster-ip-range"),
        mask_size: small(values, "node-cidr-mask-size"),
        mask_size_ipv4: small(values, "node-cidr-mask-size-ipv4"),
        mask_size_ipv6: small(values, "node-cidr-mask-size-ipv6"),
    }
}

fn election(values: &Values) -> ElectionOptions {
    ElectionOptions {
        enabled: values.switch("leader-elect"),
        lease_duration: values.duration("leader-elect-lease-duration"),
        renew_deadline: values.duration("leader-elect-renew-deadline"),
        retry_period: values.duration("leader-elect-retry-period"),
        resource_lock: values.text("leader-elect-resource-lock"),
        resource_name: values.text("leader-elect-resource-name"),
        resource_namespace: values.text("leader-elect-resource-namespace"),
        hold: values.list("hold-leases"),
        migration: values.switch("enable-leader-migration"),
        migration_file: values.text("leader-migration-config"),
    }
}

fn serving(values: &Values) -> ServingOptions {
    ServingOptions {
        address: values.address("bind-address"),
        port: values.integer("secure-port"),
        tls: TlsOptions {
            certificate_directory: values.text("cert-dir"),
            certificate_file: values.text("tls-cert-file"),
            private_key_file: values.text("tls-private-key-file"),
            cipher_suites: values.list("tls-cipher-suites"),
            curve_preferences: values.integers("tls-curve-preferences"),
            min_version: values.text("tls-min-version"),
            named_certificates: values.list("tls-sni-cert-key"),
        },
        http2: !values.switch("disable-http2-serving"),
        http2_max_streams: values.integer("http2-max-streams-per-connection"),
        share_port: values.switch("permit-port-sharing"),
        share_address: values.switch("permit-address-sharing"),
    }
}

fn authentication(values: &Values) -> AuthenticationOptions {
    AuthenticationOptions {
        kubeconfig: values.text("authentication-kubeconfig"),
        token_cache: values.duration("authentication-token-webhook-cache-ttl"),
        skip_lookup: values.switch("authentication-skip-lookup"),
        tolerate_lookup_failure: values.switch("authentication-tolerate-lookup-failure"),
        client_ca_file: values.text("client-ca-file"),
        proxy_ca_file: values.text("requestheader-client-ca-file"),
        proxy_names: values.list("requestheader-allowed-names"),
        username_headers: values.list("requestheader-username-headers"),
        group_headers: values.list("requestheader-group-headers"),
        uid_headers: values.list("requestheader-uid-headers"),
        extra_header_prefixes: values.list("requestheader-extra-headers-prefix"),
    }
}

fn authorization(values: &Values) -> AuthorizationOptions {
    AuthorizationOptions {
        kubeconfig: values.text("authorization-kubeconfig"),
        allowed_cache: values.duration("authorization-webhook-cache-authorized-ttl"),
        denied_cache: values.duration("authorization-webhook-cache-unauthorized-ttl"),
        always_allow_paths: values.list("authorization-always-allow-paths"),
    }
}
