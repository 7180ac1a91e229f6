//! The metrics of Bowline: one registry, the framework's names, and our own beside them.
//!
//! A labelled family appears with its first observation. Families of later controllers go where
//! [`Metrics::new`] says so; a cloud's HTTP client registers its own through
//! [`CloudRegistry`].

mod accounts;
mod calls;
mod certificates;
mod cloud_health;
mod configuration;
mod families;
mod ipam;
mod labels;
mod process;
mod queues;
mod routes;
mod services;
mod stores;
mod text;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use prometheus_client::registry::Registry;

pub use bowline_provider::CloudRegistry;

use crate::clouds::accounts::Accounts;
use crate::clouds::cloud_health::CloudHealth;

pub use calls::{BuildInfo, DelegatedMetrics, EventMetrics, HealthMetrics, RestMetrics};
pub use certificates::CertificateMetrics;
pub use configuration::ConfigurationMetrics;
pub use families::{
    CloudMetrics, ControllerMetrics, ElectionMetrics, LifecycleMetrics, NodeMetrics,
};
pub use ipam::IpamMetrics;
pub use labels::LabelMetrics;
pub use queues::{QueueMetrics, QueueSeries, UnfinishedWork};
pub use routes::RouteMetrics;
pub use services::ServiceMetrics;
pub use stores::StoreMetrics;
pub use text::Format;

/// Every family of the process.
#[derive(Debug)]
pub struct Metrics {
    registry: Mutex<Registry>,
    slis: Mutex<Registry>,
    /// The clouds' own families.
    shown: Mutex<Vec<CloudRegistry>>,
    /// Initialisation of nodes.
    pub nodes: NodeMetrics,
    /// The life-cycle loop.
    pub lifecycle: LifecycleMetrics,
    /// What is known of the cluster.
    pub stores: StoreMetrics,
    /// Load balancers of Services.
    pub services: ServiceMetrics,
    /// Pod ranges of nodes.
    pub ipam: IpamMetrics,
    /// Routes to pods.
    pub routes: RouteMetrics,
    /// Labels that follow machines.
    pub labels: LabelMetrics,
    /// Serving certificates of kubelets.
    pub certificates: CertificateMetrics,
    /// What each cloud owns and what is held back there.
    pub clouds: CloudMetrics,
    /// How each cloud is.
    pub cloud_health: CloudHealth,
    /// Whose accounts the clouds' credentials see.
    pub accounts: Accounts,
    /// Which controllers run.
    pub controllers: ControllerMetrics,
    /// Which configuration is in use.
    pub configuration: ConfigurationMetrics,
    /// Leader election.
    pub election: ElectionMetrics,
    /// Work queues.
    pub queues: QueueMetrics,
    /// Calls to the Kubernetes API.
    pub rest: RestMetrics,
    /// Token and access reviews.
    pub delegated: DelegatedMetrics,
    /// Events that were not written.
    pub events: EventMetrics,
    /// Health checks, shown on `/metrics/slis`.
    pub health: HealthMetrics,
}

impl Metrics {
    /// All families, registered.
    pub fn new() -> Arc<Self> {
        let mut registry = Registry::default();
        let mut slis = Registry::default();
        let metrics = Self {
            nodes: NodeMetrics::register(&mut registry),
            lifecycle: LifecycleMetrics::register(&mut registry),
            stores: StoreMetrics::register(&mut registry),
            services: ServiceMetrics::register(&mut registry),
            ipam: IpamMetrics::register(&mut registry),
            routes: RouteMetrics::register(&mut registry),
            labels: LabelMetrics::register(&mut registry),
            certificates: CertificateMetrics::register(&mut registry),
            clouds: CloudMetrics::register(&mut registry),
            cloud_health: cloud_health::register(&mut registry),
            accounts: accounts::register(&mut registry),
            controllers: ControllerMetrics::register(&mut registry),
            configuration: ConfigurationMetrics::register(&mut registry),
            election: ElectionMetrics::register(&mut registry),
            queues: QueueMetrics::register(&mut registry),
            rest: RestMetrics::register(&mut registry),
            delegated: DelegatedMetrics::register(&mut registry),
            events: EventMetrics::register(&mut registry),
            // Later controllers add their families here, one struct each in a file beside
            // `families`.
            health: HealthMetrics::register(&mut slis),
            registry: Mutex::new(registry),
            slis: Mutex::new(slis),
            shown: Mutex::default(),
        };
        metrics.register(|registry| {
            registry.register_collector(Box::new(process::ProcessMetrics::all()));
        });
        let start_only = Box::new(process::ProcessMetrics::start_only());
        lock(&metrics.slis).register_collector(start_only);
        Arc::new(metrics)
    }

    /// Lets another part register families of its own in the same registry.
    pub fn register<T>(&self, add: impl FnOnce(&mut Registry) -> T) -> T {
        add(&mut lock(&self.registry))
    }

    /// Lets a cloud that stays register its families, which are shown at once; with a label if that has a name.
    pub fn register_for<T>(&self, cloud: Option<&str>, add: impl FnOnce(&mut Registry) -> T) -> T {
        let families = CloudRegistry::new(cloud);
        lock(&self.shown).push(families.clone());
        families.register(add)
    }

    /// Shows the families of these clouds, and of no others.
    pub fn show_clouds(&self, registries: Vec<CloudRegistry>) {
        *lock(&self.shown) = registries;
    }

    /// Publishes `kubernetes_build_info`.
    pub fn build_info(&self, info: &BuildInfo) {
        self.register(|registry| calls::register_build_info(registry, info));
    }

    /// Everything on `/metrics`, in that format.
    pub fn encode(&self, format: Format) -> String {
        let mut raw = text::raw(&lock(&self.registry));
        for cloud in lock(&self.shown).iter() {
            raw.push_str(&cloud.register(|families| text::raw(families)));
        }
        text::encode(&raw, format)
    }

    /// Everything on `/metrics/slis`, in that format.
    pub fn encode_slis(&self, format: Format) -> String {
        text::encode(&text::raw(&lock(&self.slis)), format)
    }

    /// Everything on `/metrics` as Prometheus text 0.0.4.
    pub fn text(&self) -> String {
        self.encode(Format::Prometheus)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
