//! The options, typed and grouped by concern.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::time::Duration;

use bowline_core::NamespaceRule;
use bowline_core::ipam::IpamFlags;
use bowline_core::owner_annotation::Showing;

use super::Values;
use super::controllers::ControllerSet;
use super::table::FLAGS;
use super::value::Value;
use crate::kube::election::LeaseName;

/// Everything that can be set on the command line of the manager.
#[derive(Clone, Debug, Default, PartialEq)]
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
#[derive(Clone, Debug, Default, PartialEq, Eq)]
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
#[derive(Clone, Debug, Default, PartialEq)]
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
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// It does its work.
    #[default]
    Manage,
    /// It reads, decides, and logs what it would do.
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

/// How it is shown on nodes their owners.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ShowOwners {
    /// In a way that there is.
    Known(Showing),
    /// Something else was written; [`Options::validate`] refuses it.
    Unknown(String),
}

impl Default for ShowOwners {
    fn default() -> Self {
        Self::Known(Showing::default())
    }
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
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ControllerOptions {
    /// `--mode`.
    pub mode: Mode,
    /// `--controllers`, as written.
    pub selection: Vec<String>,
    /// `--controller-start-interval`.
    pub start_interval: Duration,
    /// `--min-resync-period`.
    pub min_resync_period: Duration,
    /// `--concurrent-node-syncs`; see [`node_syncs`](Self::node_syncs).
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

    /// Workers that initialise nodes; none if their number adapts.
    pub fn node_syncs(&self) -> Option<i32> {
        (self.node_syncs != -1).then_some(self.node_syncs)
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
#[derive(Clone, Debug, Default, PartialEq, Eq)]
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
#[derive(Clone, Debug, Default, PartialEq, Eq)]
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
#[derive(Clone, Debug, Default, PartialEq, Eq)]
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
    /// `--disable-http2-serving`.
    pub http1_only: bool,
    /// `--http2-max-streams-per-connection`; 0 for the default.
    pub http2_max_streams: i64,
    /// `--permit-port-sharing`.
    pub share_port: bool,
    /// `--permit-address-sharing`.
    pub share_address: bool,
}

impl Default for ServingOptions {
    fn default() -> Self {
        Self {
            address: IpAddr::from([0, 0, 0, 0]),
            port: 0,
            tls: TlsOptions::default(),
            http1_only: false,
            http2_max_streams: 0,
            share_port: false,
            share_address: false,
        }
    }
}

/// Who the HTTPS server's callers are.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
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
#[derive(Clone, Debug, Default, PartialEq, Eq)]
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
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WebhookOptions {
    /// `--webhooks`.
    pub selection: Vec<String>,
    /// `--webhook-secure-port`.
    pub port: i64,
}

/// Profiling.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DebuggingOptions {
    /// `--profiling`.
    pub profiling: bool,
    /// `--contention-profiling`; only shown.
    pub contention_profiling: bool,
}

/// What is logged.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
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
        let mut options = Self::default();
        for flag in FLAGS {
            if let Some(value) = values.get(flag.name) {
                (flag.set)(&mut options, value);
            }
        }
        options.controllers.routes_asked_for = values.given("configure-cloud-routes");
        options
    }
}

/// An option that takes its flag's value; that of another kind leaves it as it is, which a test of all flags excludes.
pub(super) trait OptionValue {
    fn take(&mut self, value: &Value);
}

macro_rules! taken {
    ($($option:ty: $value:pat => $taken:expr;)*) => {
        $(impl OptionValue for $option {
            fn take(&mut self, value: &Value) {
                if let $value = value {
                    *self = $taken;
                }
            }
        })*
    };
}

taken! {
    String: Value::Text(text) => text.clone();
    Mode: Value::Text(text) => text.clone().into();
    ShowOwners: Value::Text(text) => text.clone().into();
    // What cannot be read was refused with the flag.
    NamespaceRule: Value::Text(text) => Self::parse(text).unwrap_or_default();
    i64: Value::Integer(number) => *number;
    // Its row limits it to 32 bits.
    i32: Value::Integer(number) => Self::try_from(*number).unwrap_or_default();
    f32: Value::Float(number) => *number;
    bool: Value::Switch(on) => *on;
    Duration: Value::Duration(duration) => *duration;
    Vec<String>: Value::List(items) | Value::Repeated(items) => items.clone();
    Vec<i64>: Value::IntegerList(items) => items.clone();
    BTreeMap<String, bool>: Value::Gates(gates) => gates.clone();
    Vec<(String, i64)>: Value::Levels(levels) => levels.clone();
    IpAddr: Value::Address(address) => *address;
}
