//! Services of type `LoadBalancer` as the story sees them, and what changed about one, in words.

use k8s_openapi::api::core::v1::{Event, Service};
use kube::ResourceExt;

use crate::sandbox::display::Mark;

/// The namespace that nobody has to name.
const DEFAULT_NAMESPACE: &str = "default";

/// A Service as the story sees it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::sandbox) struct ServiceView {
    /// The addresses and host names that it shows.
    pub addresses: Vec<String>,
    /// Whether it was asked to go.
    pub deleting: bool,
}

/// What a Service is called.
pub(super) fn name(service: &Service) -> String {
    called(service.namespace().as_deref(), &service.name_any())
}

/// What the Service is called that an event is about; none if it is about something else.
pub(super) fn service_of(event: &Event) -> Option<String> {
    let about = &event.involved_object;
    let is_service = about.kind.as_deref() == Some("Service");
    let name = about.name.as_deref().filter(|_| is_service)?;
    Some(called(about.namespace.as_deref(), name))
}

/// By its name; outside the default namespace with that.
fn called(namespace: Option<&str>, name: &str) -> String {
    match namespace {
        Some(namespace) if namespace != DEFAULT_NAMESPACE => format!("{namespace}/{name}"),
        _ => name.to_owned(),
    }
}

/// A Service as it is now; none if it wants no load balancer and has none.
pub(super) fn view(service: &Service) -> Option<ServiceView> {
    let status = service.status.clone().unwrap_or_default();
    let ingress = status.load_balancer.and_then(|it| it.ingress);
    let addresses: Vec<String> = ingress
        .into_iter()
        .flatten()
        .filter_map(|it| it.ip.or(it.hostname))
        .collect();
    let kind = service.spec.as_ref().and_then(|spec| spec.type_.as_deref());
    (kind == Some("LoadBalancer") || !addresses.is_empty()).then(|| ServiceView {
        addresses,
        deleting: service.metadata.deletion_timestamp.is_some(),
    })
}

/// What changed, in words.
pub(super) fn differences(
    name: &str,
    before: Option<&ServiceView>,
    after: Option<&ServiceView>,
) -> Vec<(Mark, String)> {
    let mut lines = Vec::new();
    let mut tell = |mark, text: &str| lines.push((mark, format!("Service {name} {text}")));
    let nothing = ServiceView::default();
    match (before, after) {
        (None, Some(_)) => tell(Mark::Happened, "asks for a load balancer"),
        (Some(_), None) => tell(Mark::Happened, "is gone"),
        _ => {}
    }
    if let Some(new) = after {
        let old = before.unwrap_or(&nothing);
        if new.deleting && !old.deleting {
            tell(
                Mark::Happened,
                "is being deleted, and waits for its load balancer",
            );
        }
        match (old.addresses.is_empty(), new.addresses.is_empty()) {
            (false, true) => tell(Mark::Happened, "lost its address"),
            (_, false) if old.addresses != new.addresses => {
                let text = format!("got its address: {}", new.addresses.join(", "));
                tell(Mark::Good, &text);
            }
            _ => {}
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use k8s_openapi::api::core::v1::{
        LoadBalancerIngress, LoadBalancerStatus, ServiceSpec, ServiceStatus,
    };

    fn service(kind: &str, addresses: &[&str]) -> Service {
        let ingress = addresses.iter().map(|ip| LoadBalancerIngress {
            ip: Some((*ip).to_owned()),
            ..LoadBalancerIngress::default()
        });
        let mut service = Service {
            spec: Some(ServiceSpec {
                type_: Some(kind.to_owned()),
                ..ServiceSpec::default()
            }),
            status: Some(ServiceStatus {
                load_balancer: Some(LoadBalancerStatus {
                    ingress: Some(ingress.collect()),
                }),
                ..ServiceStatus::default()
            }),
            ..Service::default()
        };
        service.metadata.name = Some("web".to_owned());
        service
    }

    #[test]
    fn only_services_with_a_load_balancer_are_seen() {
        assert_eq!(view(&service("ClusterIP", &[])), None);
        assert!(view(&service("ClusterIP", &["192.0.2.1"])).is_some());
        assert!(view(&service("LoadBalancer", &[])).is_some());
    }

    #[test]
    fn a_service_outside_the_default_namespace_is_called_by_both_names() {
        let mut web = service("LoadBalancer", &[]);
        assert_eq!(name(&web), "web");
        for (namespace, wanted) in [("default", "web"), ("shop", "shop/web")] {
            web.metadata.namespace = Some(namespace.to_owned());
            assert_eq!(name(&web), wanted);
            let mut event = Event::default();
            event.involved_object.namespace = Some(namespace.to_owned());
            event.involved_object.name = Some("web".to_owned());
            assert_eq!(service_of(&event), None, "it may be about a Node");
            event.involved_object.kind = Some("Service".to_owned());
            assert_eq!(service_of(&event).as_deref(), Some(wanted));
        }
    }

    #[test]
    fn differences_read_as_sentences() {
        let fresh = ServiceView::default();
        let served = ServiceView {
            addresses: vec!["192.0.2.1".into(), "2001:db8::1".into()],
            ..fresh.clone()
        };
        let leaving = ServiceView {
            deleting: true,
            ..served.clone()
        };
        let lines = |before, after| -> Vec<String> {
            let lines = differences("web", before, after).into_iter();
            lines.map(|(_, text)| text).collect()
        };
        for (before, after, wanted) in [
            (
                None,
                Some(&fresh),
                &["Service web asks for a load balancer"][..],
            ),
            (
                Some(&fresh),
                Some(&served),
                &["Service web got its address: 192.0.2.1, 2001:db8::1"],
            ),
            (Some(&served), Some(&served), &[]),
            (
                Some(&served),
                Some(&leaving),
                &["Service web is being deleted, and waits for its load balancer"],
            ),
            (
                Some(&served),
                Some(&fresh),
                &["Service web lost its address"],
            ),
            (Some(&leaving), None, &["Service web is gone"]),
        ] {
            assert_eq!(lines(before, after), wanted);
        }
    }
}
