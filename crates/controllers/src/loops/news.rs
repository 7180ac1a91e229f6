//! News of clouds as events: each is taken once, by who leads, and written as any other event.

use std::sync::Arc;

use bowline_core::{Cloud, News, Regarding};
use k8s_openapi::api::core::v1::ObjectReference;
use tracing::{info, warn};

use crate::kube::events::{EventType, Recorder, lease_reference};
use crate::stop::Stop;

/// Tells the news of a cloud until it is time to stop. The lease, by namespace and name, stands for the manager
/// as a whole: an object that is there, in a namespace where operators look.
pub(crate) async fn tell(
    cloud: Arc<dyn Cloud>,
    recorder: Recorder,
    lease: (String, String),
    stop: Stop,
) {
    while let Some(news) = stop.unless_given(cloud.next_news()).await {
        let (name, reason) = (cloud.name(), news.reason);
        if news.is_warning {
            warn!(cloud = %name, reason, "{}", news.message);
        } else {
            info!(cloud = %name, reason, "{}", news.message);
        }
        record(&recorder, news, &lease);
    }
}

/// Writes the event.
pub(crate) fn record(recorder: &Recorder, news: News, (namespace, name): &(String, String)) {
    let object = if news.regarding.is_manager() {
        lease_reference(namespace, name, None, None)
    } else {
        reference(&news.regarding)
    };
    let kind = if news.is_warning {
        EventType::Warning
    } else {
        EventType::Normal
    };
    recorder.event(&object, kind, news.reason, news.message);
}

fn reference(regarding: &Regarding) -> ObjectReference {
    let text = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
    ObjectReference {
        api_version: text("v1"),
        kind: text(regarding.kind),
        namespace: text(&regarding.namespace),
        name: text(&regarding.name),
        uid: text(&regarding.uid),
        ..ObjectReference::default()
    }
}
