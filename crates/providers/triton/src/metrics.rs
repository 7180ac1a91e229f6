//! What is counted about Triton, beside its calls.

use std::fmt;

use bowline_http::{CallMetrics, DEFAULT_BUCKETS};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use uuid::Uuid;

use crate::PROVIDER;
use crate::api::{Limit, Machine};

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct StateLabels {
    node: String,
    machine: String,
    state: String,
}

/// Names and values of labels.
type Labels<const N: usize> = [(&'static str, String); N];
type Amount = Gauge<f64, std::sync::atomic::AtomicU64>;

/// The metric families of Triton. Clones share them.
#[derive(Clone, Default)]
pub struct TritonMetrics {
    pub calls: Option<CallMetrics>,
    pub(crate) throttled: Counter,
    pub(crate) mass_disappearances: Counter,
    pub(crate) reload_failures: Counter,
    pub(crate) tag_repairs: Counter,
    pub(crate) cmon_dropped: Counter,
    connected: Family<Labels<1>, Gauge>,
    published: Family<Labels<1>, Gauge>,
    states: Family<StateLabels, Gauge>,
    routes: Family<Labels<1>, Gauge>,
    limits: Family<Labels<2>, Amount>,
    used: Family<Labels<2>, Amount>,
    /// The state that each machine was last shown with.
    shown: std::sync::Arc<std::sync::Mutex<std::collections::BTreeMap<String, StateLabels>>>,
}

/// Machines whose state is shown: more than a cluster has nodes.
const MOST_SHOWN: usize = 10_000;

impl TritonMetrics {
    /// Registers the families, once per process.
    pub fn register(registry: &mut Registry) -> Self {
        let calls = CallMetrics::register(registry, "triton_api", PROVIDER, &DEFAULT_BUCKETS);
        let metrics = Self {
            calls: Some(calls),
            ..Self::default()
        };
        registry.register(
            "triton_api_throttled",
            "Requests that CloudAPI refused because there were too many",
            metrics.throttled.clone(),
        );
        registry.register(
            "triton_mass_disappearances",
            "Times that too many machines were gone at once to be believed",
            metrics.mass_disappearances.clone(),
        );
        registry.register(
            "triton_credentials_reload_failures",
            "Times that changed credentials could not be used",
            metrics.reload_failures.clone(),
        );
        registry.register(
            "triton_cmon_series_dropped",
            "Series of the metrics service that could not be read",
            metrics.cmon_dropped.clone(),
        );
        registry.register(
            "triton_tag_repairs",
            "Times that tags of ours which somebody had taken away were put back",
            metrics.tag_repairs.clone(),
        );
        registry.register(
            "triton_changefeed_connected",
            "Whether the change feed is followed",
            metrics.connected.clone(),
        );
        registry.register(
            "triton_cns_published",
            "Whether the name service shows the DNS name of a Service",
            metrics.published.clone(),
        );
        registry.register(
            "triton_machine_state",
            "The state that the machine of a node is in",
            metrics.states.clone(),
        );
        registry.register(
            "triton_route_entries",
            "Routes of a fabric network, those of others included",
            metrics.routes.clone(),
        );
        registry.register(
            "triton_account_limit",
            "How much the account may have (machines, ram in MiB, quota in GiB)",
            metrics.limits.clone(),
        );
        registry.register(
            "triton_account_used",
            "How much of that it has",
            metrics.used.clone(),
        );
        metrics
    }

    /// The gauge of the change feed. Its label is empty and stays for whoever asks by it.
    pub(crate) fn connected(&self) -> Gauge {
        let labels = [("datacenter", String::new())];
        let gauge = self.connected.get_or_create(&labels).clone();
        gauge.set(0);
        gauge
    }

    pub(crate) fn published(&self, service: &str, published: bool) {
        let gauge = self
            .published
            .get_or_create(&[("service", service.to_owned())]);
        gauge.set(i64::from(published));
    }

    pub(crate) fn forget_service(&self, service: &str) {
        self.published.remove(&[("service", service.to_owned())]);
    }

    pub(crate) fn state(&self, node: &str, machine: &Machine) {
        let labels = StateLabels {
            node: node.to_owned(),
            machine: machine.id.to_string(),
            state: machine.state.as_str().to_owned(),
        };
        let mut shown = crate::lock(&self.shown);
        if let Some(former) = shown.get(&labels.machine) {
            if *former == labels {
                return;
            }
            self.states.remove(former);
        } else if shown.len() >= MOST_SHOWN {
            shown.clear();
            self.states.clear();
        }
        self.states.get_or_create(&labels).set(1);
        shown.insert(labels.machine.clone(), labels);
    }

    pub(crate) fn route_entries(&self, network: Uuid, entries: usize) {
        let labels = [("network", network.to_string())];
        let entries = i64::try_from(entries).unwrap_or(i64::MAX);
        self.routes.get_or_create(&labels).set(entries);
    }

    pub(crate) fn limits(&self, limits: &[Limit]) {
        self.limits.clear();
        self.used.clear();
        for limit in limits {
            let by = match limit.by.as_str() {
                by @ ("ram" | "quota") => by,
                _ => "machines",
            };
            let labels = [("by", by.to_owned()), ("check", limit.check.clone())];
            self.limits.get_or_create(&labels).set(limit.value);
            self.used.get_or_create(&labels).set(limit.used);
        }
    }
}

impl fmt::Debug for TritonMetrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TritonMetrics")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_families_have_the_promised_names() {
        let mut registry = Registry::default();
        let metrics = TritonMetrics::register(&mut registry);
        let mut machine = crate::testing::machine(Uuid::from_u128(1), "m");
        metrics.state("n", &machine);
        machine.state = crate::api::MachineState::Stopped;
        metrics.state("n", &machine);
        metrics.connected().set(1);
        metrics.throttled.inc();
        metrics.route_entries(Uuid::from_u128(2), 3);
        metrics.published("prod/web", true);
        metrics.published("prod/old", true);
        metrics.forget_service("prod/old");
        metrics.tag_repairs.inc();
        metrics.limits(&[Limit {
            value: 8.0,
            used: 3.0,
            ..Limit::default()
        }]);
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
        let id = Uuid::from_u128(1);
        for line in [
            format!(r#"triton_machine_state{{node="n",machine="{id}",state="stopped"}} 1"#),
            r#"triton_changefeed_connected{datacenter=""} 1"#.to_owned(),
            r#"triton_account_limit{by="machines",check=""} 8.0"#.to_owned(),
            r#"triton_account_used{by="machines",check=""} 3.0"#.to_owned(),
            "triton_api_throttled_total 1".to_owned(),
            format!(
                r#"triton_route_entries{{network="{}"}} 3"#,
                Uuid::from_u128(2)
            ),
            r#"triton_cns_published{service="prod/web"} 1"#.to_owned(),
            "triton_tag_repairs_total 1".to_owned(),
        ] {
            assert!(text.lines().any(|got| got == line), "{line} in\n{text}");
        }
        assert!(!text.contains(r#"state="running""#), "{text}");
        assert!(!text.contains("prod/old"), "{text}");
    }
}
