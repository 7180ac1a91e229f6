//! Which Service each label on nodes belongs to, over all Services of the cluster. Pure.

use std::collections::BTreeSet;
use std::sync::Arc;

use bowline_core::{BalancerRequest, Goal, Service};

use crate::balancer::naming::{label_of, nodes_label, selected_nodes_label};
use crate::balancer::settings::{Mode, Settings};
use crate::config::LoadBalancerConfig;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Reader<'a> {
    pub(crate) config: &'a LoadBalancerConfig,
    pub(crate) cluster_name: &'a str,
    pub(crate) cluster: &'a str,
}

impl Reader<'_> {
    fn label(&self, service: &Service, settings: &Settings) -> String {
        let style = self.config.cns_label_style;
        label_of(service, settings, style, self.cluster_name)
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Sharer {
    pub(crate) service: Arc<Service>,
    pub(crate) settings: Settings,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Claims {
    wanted: BTreeSet<String>,
    shown: BTreeSet<String>,
    /// Whether every Service is known and has valid settings.
    complete: bool,
    /// The others with the label of this one, on nodes.
    pub(crate) sharers: Vec<Sharer>,
}

impl Claims {
    /// The claims of all Services; of this one only if it is to be present.
    pub(crate) fn gather(
        request: &BalancerRequest,
        goal: Goal,
        label: &str,
        reader: Reader<'_>,
    ) -> Self {
        let mut claims = Self {
            complete: request.all_known,
            ..Self::default()
        };
        if goal == Goal::Present {
            claims.wanted.insert(label.to_owned());
        }
        for service in request.all.iter().filter(|it| concerns_us(it)) {
            let own = service.uid == request.service.uid;
            if own && goal == Goal::Absent {
                continue;
            }
            let (settings, faults) = Settings::read(service, reader.config);
            if !faults.is_empty() {
                // A label on record may be its own.
                claims.complete = false;
            }
            let Some(mode) = settings.mode_or(reader.config) else {
                continue;
            };
            let names = service.ingress.iter();
            claims
                .shown
                .extend(names.filter_map(|it| it.hostname.clone()));
            let its = reader.label(service, &settings);
            let shares = mode == Mode::Cns && its == label && !service.deleting;
            claims.wanted.insert(its);
            if mode == Mode::Clb {
                let is_backend = if settings.node_selector.is_everything() {
                    nodes_label(reader.cluster)
                } else {
                    selected_nodes_label(&service.uid)
                };
                claims.wanted.insert(is_backend);
            }
            if shares && !own && faults.is_empty() {
                claims.sharers.push(Sharer {
                    service: service.clone(),
                    settings,
                });
            }
        }
        claims
    }

    /// Whether a label on record is certainly unwanted.
    pub(crate) fn is_stale(&self, label: &str) -> bool {
        let begin = format!("{label}.svc.");
        self.complete
            && !self.wanted.contains(label)
            // It goes when another name is published in its place.
            && !self.shown.iter().any(|name| name.starts_with(&begin))
    }

    /// Those of these labels that some Service wants or shows; none: not known.
    pub(crate) fn of(&self, labels: impl Iterator<Item = String>) -> Option<BTreeSet<String>> {
        self.complete
            .then(|| labels.filter(|it| !self.is_stale(it)).collect())
    }

    pub(crate) fn is_shown(&self, label: &str) -> bool {
        let begin = format!("{label}.svc.");
        self.shown.iter().any(|name| name.starts_with(&begin))
    }
}

fn concerns_us(service: &Service) -> bool {
    service.is_load_balancer || service.has_finalizer()
}

/// The labels of a Service that is no longer served: its own, and those of names that it shows.
pub(crate) fn former<'a>(
    service: &Service,
    label: &'a str,
    recorded: &BTreeSet<&'a str>,
) -> BTreeSet<&'a str> {
    let mut labels = BTreeSet::from([label]);
    let names = service
        .ingress
        .iter()
        .filter_map(|it| it.hostname.as_deref());
    for name in names {
        let shown = recorded.iter().filter(|label| {
            let rest = name.strip_prefix(**label);
            rest.is_some_and(|rest| rest.starts_with(".svc."))
        });
        labels.extend(shown);
    }
    labels
}
