//! Reporter and object of events about the connection: the pod that the program runs in, if known.

use bowline_core::{EventSeries, ProviderEvent, Regarding};

use crate::PROVIDER;
use crate::hash::short_hash;

/// The namespace where none is known.
const NAMESPACE: &str = "kube-system";
/// The process where no pod is known.
const INSTANCE: &str = "xenorchestra-cloud-controller-manager";

/// The pod that the program runs in, from the downward API; empty where that is not set up.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reporter {
    /// `POD_NAME`.
    pub pod: String,
    /// `POD_NAMESPACE`.
    pub namespace: String,
    /// `POD_UID`.
    pub uid: String,
}

impl Reporter {
    pub(crate) fn read(environment: impl Fn(&str) -> Option<String>) -> Self {
        let read = |name: &str| environment(name).unwrap_or_default();
        Self {
            pod: read("POD_NAME"),
            namespace: read("POD_NAMESPACE"),
            uid: read("POD_UID"),
        }
    }

    pub(crate) fn event(
        &self,
        action: &'static str,
        reason: &'static str,
        message: String,
    ) -> ProviderEvent {
        let namespace = if self.namespace.is_empty() {
            NAMESPACE
        } else {
            &self.namespace
        };
        let (kind, name, uid) = if self.pod.is_empty() {
            ("Component", PROVIDER, "")
        } else {
            ("Pod", &*self.pod, &*self.uid)
        };
        let instance = if self.pod.is_empty() {
            INSTANCE
        } else {
            &self.pod
        };
        let regarding = Regarding {
            namespace: namespace.to_owned(),
            kind,
            name: name.to_owned(),
            uid: uid.to_owned(),
        };
        ProviderEvent {
            series: Some(EventSeries {
                name: event_name(&[namespace, kind, name, uid, action, reason]),
                reporter: (PROVIDER.to_owned(), instance.to_owned()),
                action,
            }),
            ..ProviderEvent::warning(regarding, reason, message)
        }
    }
}

/// The same for the same trouble of the same pod, so that it is counted.
fn event_name(parts: &[&str]) -> String {
    format!("{PROVIDER}-{}", short_hash(&parts.join("/")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use bowline_test_kit::rows;

    #[test]
    fn events_are_named_as_the_table_says() {
        let uid = "5f0d7b0a-1c5e-4f5a-9a52-0d4d2b8e6f11";
        for [pod, namespace, uid, name, instance] in rows(&format!(
            "       |             |       | ebb451b34d8a | xenorchestra-cloud-controller-manager
             bowline-7d9c5b8f6-x2x4k | kube-system | {uid} | efbb1813965b | bowline-7d9c5b8f6-x2x4k
             ccm-0  | infra       |       | 153e37e008f4 | ccm-0"
        )) {
            let [pod, namespace, uid] = [pod, namespace, uid].map(str::to_owned);
            let reporter = Reporter {
                pod,
                namespace,
                uid,
            };
            let event = reporter.event("CheckClient", "FailedToCheckClient", String::new());
            let series = event.series.unwrap();
            assert_eq!(series.name, format!("xenorchestra-{name}"));
            assert_eq!(series.reporter, ("xenorchestra".into(), instance.into()));
        }
    }
}
