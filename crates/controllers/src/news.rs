//! News of clouds as events: each is taken once, by who leads, and written as any other event.

use std::sync::Arc;

use bowline_core::{About, Cloud, News};
use k8s_openapi::api::core::v1::ObjectReference;
use tracing::{info, warn};

use crate::events::{EventType, Recorder, core_reference, lease_reference, node_reference};
use crate::stop::Stop;

/// Tells the news of a cloud until it is time to stop. `lease` is what stands for the manager as a whole: an
/// object that is there, in a namespace where operators look.
pub(crate) async fn tell(
    cloud: Arc<dyn Cloud>,
    recorder: Recorder,
    lease: (String, String),
    stop: Stop,
) {
    while let Some(news) = stop.unless_given(cloud.next_news()).await {
        let News {
            about,
            is_warning,
            reason,
            message,
        } = news;
        let (cloud, object) = (cloud.name(), reference(&about, &lease));
        let kind = if is_warning {
            warn!(%cloud, reason, "{message}");
            EventType::Warning
        } else {
            info!(%cloud, reason, "{message}");
            EventType::Normal
        };
        recorder.event(&object, kind, reason, message);
    }
}

fn reference(about: &About, (namespace, name): &(String, String)) -> ObjectReference {
    match about {
        About::Manager => lease_reference(namespace, name, None, None),
        About::Node { name, uid } => node_reference(name, uid, None),
        About::Pod { namespace, name } => core_reference("Pod", namespace, name, ""),
        About::Secret {
            namespace,
            name,
            uid,
        } => core_reference("Secret", namespace, name, uid),
    }
}
