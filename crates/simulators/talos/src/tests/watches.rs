use bowline_talos_api::resource::{
    EventType, LabelQuery, WatchOptions, WatchRequest, WatchResponse,
};
use bowline_talos_api::specs::{AddressStatusSpec, PlatformMetadataSpec};

use super::*;

fn addresses(options: WatchOptions) -> WatchRequest {
    WatchRequest {
        namespace: AddressStatusSpec::NAMESPACE.to_owned(),
        r#type: AddressStatusSpec::TYPE.to_owned(),
        id: None,
        options: Some(options),
        api_version: 1,
    }
}

/// The events of a message: what happened to which id.
fn events(message: &WatchResponse) -> Vec<(EventType, String)> {
    let events = message.event.iter().map(|one| {
        let metadata = one.resource.as_ref().and_then(|it| it.metadata.clone());
        (one.event_type(), metadata.unwrap_or_default().id)
    });
    events.collect()
}

impl Caller {
    async fn watch(
        &self,
        request: WatchRequest,
    ) -> Result<tonic::Streaming<WatchResponse>, Status> {
        let request = with(request, &[("node", "10.0.0.5")]);
        Ok(self.state.clone().watch(request).await?.into_inner())
    }
}

#[tokio::test(start_paused = true)]
async fn a_watch_tells_what_there_is_and_what_changes() {
    let sim = Harness::new();
    let (talos, caller) = (&sim.talos, sim.reader().await);
    let options = WatchOptions {
        bootstrap_contents: true,
        ..WatchOptions::default()
    };
    let mut watch = caller.watch(addresses(options)).await.unwrap();
    let mut seen = Vec::new();
    for _ in 0..5 {
        seen.push(events(&watch.message().await.unwrap().unwrap()));
    }
    let one = |kind, id: &str| vec![(kind, id.to_owned())];
    assert_eq!(
        seen,
        [
            vec![],
            one(EventType::Created, "eth0/10.0.0.5/24"),
            one(EventType::Created, "eth0/fd00::5/64"),
            one(EventType::Created, "external/203.0.113.5/32"),
            one(EventType::Bootstrapped, ""),
        ]
    );
    talos.add_address("worker-1", "eth1/10.1.0.5/24").unwrap();
    let next = watch.message().await.unwrap().unwrap();
    assert_eq!(events(&next), one(EventType::Created, "eth1/10.1.0.5/24"));
    talos
        .add_address("worker-1", "eth1/10.1.0.5/24(128)")
        .unwrap();
    let next = watch.message().await.unwrap().unwrap();
    assert_eq!(events(&next), one(EventType::Updated, "eth1/10.1.0.5/24"));
    let old = next.event[0].old.as_ref().unwrap();
    assert_eq!(old.metadata.as_ref().unwrap().version, "1");
    talos
        .remove::<AddressStatusSpec>("worker-1", "eth1/10.1.0.5/24")
        .unwrap();
    let next = watch.message().await.unwrap().unwrap();
    assert_eq!(events(&next), one(EventType::Destroyed, "eth1/10.1.0.5/24"));
}

#[tokio::test(start_paused = true)]
async fn one_resource_is_watched_from_nothing_to_its_end() {
    let sim = Harness::new();
    let (talos, caller) = (&sim.talos, sim.reader().await);
    let id = PlatformMetadataSpec::ID;
    talos
        .remove::<PlatformMetadataSpec>("worker-1", id)
        .unwrap();
    let mut watch = caller
        .watch(WatchRequest {
            namespace: PlatformMetadataSpec::NAMESPACE.to_owned(),
            r#type: PlatformMetadataSpec::TYPE.to_owned(),
            id: Some(id.to_owned()),
            options: None,
            api_version: 1,
        })
        .await
        .unwrap();
    assert!(watch.message().await.unwrap().unwrap().event.is_empty());
    let mut next = async || events(&watch.message().await.unwrap().unwrap());
    assert_eq!(next().await, [(EventType::Destroyed, id.to_owned())]);
    talos.edit_platform("worker-1", |_| {}).unwrap();
    assert_eq!(next().await, [(EventType::Created, id.to_owned())]);
    talos
        .edit_platform("worker-1", |it| it.zone.clear())
        .unwrap();
    assert_eq!(next().await, [(EventType::Updated, id.to_owned())]);
    talos.set_stage("worker-1", Stage::Down).unwrap();
    assert_eq!(reported(watch.message().await).0, Code::Unavailable);
}

#[tokio::test(start_paused = true)]
async fn events_come_together_where_that_is_wanted() {
    let sim = Harness::new();
    let caller = sim.reader().await;
    let options = WatchOptions {
        aggregated: true,
        bootstrap_contents: true,
        ..WatchOptions::default()
    };
    let mut watch = caller.watch(addresses(options)).await.unwrap();
    watch.message().await.unwrap().unwrap();
    assert_eq!(watch.message().await.unwrap().unwrap().event.len(), 4);
}

#[tokio::test(start_paused = true)]
async fn what_is_not_simulated_is_refused() {
    let sim = Harness::new();
    let caller = sim.reader().await;
    for options in [
        WatchOptions {
            tail_events: 1,
            ..WatchOptions::default()
        },
        WatchOptions {
            start_from_bookmark: vec![1],
            ..WatchOptions::default()
        },
        WatchOptions {
            label_query: vec![LabelQuery::default()],
            ..WatchOptions::default()
        },
    ] {
        let refused = caller.watch(addresses(options)).await;
        assert_eq!(refused.unwrap_err().code(), Code::Unimplemented);
    }
}
