//! The store of EndpointSlices: which nodes have endpoints of which Service.

use std::collections::BTreeSet;

use bowline_core::{Endpoints, Service, ServiceKey, TrafficPolicy};

use crate::kube::objects::SliceObject;
use crate::kube::store::{Store, StoreChange, StoreView, Stored};

/// The slices as last seen, by namespace and name.
pub type Slices = Store<Slice>;

pub type SliceChange = StoreChange<Slice>;

/// An EndpointSlice, as far as it is used. There are many: it holds no addresses, and each node once.
#[derive(Clone, Debug, PartialEq)]
pub struct Slice {
    /// Its namespace and name.
    pub key: ServiceKey,
    /// `metadata.uid`.
    pub uid: String,
    /// `metadata.resourceVersion`.
    pub resource_version: String,
    /// The Service whose endpoints these are.
    pub service: Option<ServiceKey>,
    /// The nodes with an endpoint that is ready and not terminating, sorted.
    pub nodes: Vec<String>,
}

impl Stored for Slice {
    type Key = ServiceKey;
    type Object = SliceObject;
    const PLURAL: &'static str = "endpoint slices";

    crate::kube::store::versioned!(key);
}

/// Whether it matters where the endpoints of that Service are.
pub(crate) fn depends_on_endpoints(service: &Service) -> bool {
    service.is_load_balancer && service.traffic_policy == TrafficPolicy::Local
}

/// Where the endpoints of those Services are that `asks` names. A slice that cannot be read counts as
/// it was last known.
pub(crate) fn endpoints(
    slices: &StoreView<Slice>,
    asks: impl Fn(&ServiceKey) -> bool,
) -> Endpoints {
    let mut all = Endpoints::new();
    let last_known = slices.unreadable.values().flatten();
    for slice in slices.objects.values().chain(last_known) {
        if let Some(service) = slice.service.as_ref().filter(|it| asks(it))
            && !slice.nodes.is_empty()
        {
            let nodes: &mut BTreeSet<String> = all.entry(service.clone()).or_default();
            nodes.extend(slice.nodes.iter().cloned());
        }
    }
    all
}

/// The Services whose nodes a change may have changed.
pub(crate) fn concerned(change: &SliceChange) -> impl Iterator<Item = &ServiceKey> {
    let (before, after) = (change.before.as_deref(), change.after.as_deref());
    let counts = |slice: &Slice| (slice.service.clone(), slice.nodes.clone());
    let differs = before.map(counts) != after.map(counts);
    let both = [before, after].into_iter().flatten();
    let services = both.filter_map(|it| it.service.as_ref());
    services.filter(move |_| differs)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    fn slice(name: &str, service: &str, nodes: &[&str]) -> Arc<Slice> {
        let key = |name: &str| ServiceKey {
            namespace: "shop".to_owned(),
            name: name.to_owned(),
        };
        Arc::new(Slice {
            key: key(name),
            uid: name.to_owned(),
            resource_version: "1".to_owned(),
            service: (!service.is_empty()).then(|| key(service)),
            nodes: nodes.iter().map(|&it| it.to_owned()).collect(),
        })
    }

    #[test]
    fn the_slices_of_a_service_are_one_set_of_nodes() {
        let mut seen = StoreView::default();
        for it in [
            slice("a", "web", &["n1", "n2"]),
            slice("b", "web", &["n2", "n3"]),
            slice("c", "api", &[]),
            slice("d", "", &["n5"]),
            slice("e", "other", &["n6"]),
        ] {
            seen.objects.insert(it.key.clone(), it);
        }
        let lost = slice("f", "web", &["n4"]);
        seen.unreadable.insert(lost.key.clone(), Some(lost));
        seen.unreadable
            .insert(slice("g", "web", &[]).key.clone(), None);
        let found = endpoints(&seen, |key| key.name != "other");
        let found: Vec<String> = found.iter().map(|it| format!("{it:?}")).collect();
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(
            found[0].ends_with(r#"{"n1", "n2", "n3", "n4"})"#),
            "{found:?}"
        );
    }

    #[test]
    fn only_a_change_of_nodes_concerns_a_service() {
        let (one, two) = (slice("a", "web", &["n1"]), slice("a", "web", &["n2"]));
        let version = Arc::new(Slice::clone(&one).at_version("9"));
        let moved = slice("a", "api", &["n1"]);
        for (before, after, concerned) in [
            (Some(&one), Some(&version), &[][..]),
            (Some(&one), Some(&two), &["web", "web"]),
            (None, Some(&one), &["web"]),
            (Some(&one), None, &["web"]),
            (Some(&one), Some(&moved), &["web", "api"]),
            (None, None, &[]),
        ] {
            let change = StoreChange {
                key: one.key.clone(),
                before: before.cloned(),
                after: after.cloned(),
            };
            let names: Vec<&str> = super::concerned(&change).map(|it| &*it.name).collect();
            assert_eq!(names, concerned);
        }
    }
}
