//! A real client on top: `kube`, with a tower service instead of a connection.

use super::*;
use futures::{Stream, StreamExt};
use k8s_openapi::api::core::v1::Node;
use kube::runtime::watcher::{self, Event};
use kube::{Api as Objects, Client};
use std::pin::pin;

fn client(api: &Arc<KubernetesApi>) -> Client {
    let api = Arc::clone(api);
    let service = tower::service_fn(move |request: Request<kube::client::Body>| {
        let api = Arc::clone(&api);
        async move {
            let (mut head, body) = request.into_parts();
            let token = format!("Bearer {TOKEN}").parse().unwrap();
            head.headers.insert("authorization", token);
            let bytes = body.collect().await?.to_bytes();
            let request = Request::from_parts(head, bytes);
            let answer = api.answer(request, &Peer::default()).await;
            Ok::<_, kube::Error>(answer.response)
        }
    });
    Client::new(service, "default")
}

/// The next events of a watcher, in short.
async fn follow(
    events: &mut (impl Stream<Item = watcher::Result<Event<Node>>> + Unpin),
    count: usize,
) -> Vec<String> {
    let mut seen = Vec::new();
    while seen.len() < count {
        let name = |node: Node| node.metadata.name.unwrap_or_default();
        seen.push(match events.next().await.unwrap() {
            Ok(Event::Init) => "init".to_owned(),
            Ok(Event::InitApply(node)) => format!("init {}", name(node)),
            Ok(Event::InitDone) => "done".to_owned(),
            Ok(Event::Apply(node)) => format!("apply {}", name(node)),
            Ok(Event::Delete(node)) => format!("delete {}", name(node)),
            Err(error) => format!("error {error}"),
        });
    }
    seen
}

#[tokio::test(start_paused = true)]
async fn a_watcher_follows_by_list_and_by_stream_through_breaks_and_compaction() {
    for config in [
        watcher::Config::default(),
        watcher::Config::default().streaming_lists(),
    ] {
        let api = api();
        post(&api, NODES, &named("a")).await;
        let nodes: Objects<Node> = Objects::all(client(&api));
        let mut events = pin!(watcher::watcher(nodes, config));
        assert_eq!(follow(&mut events, 3).await, ["init", "init a", "done"]);
        post(&api, NODES, &named("b")).await;
        delete(&api, "/api/v1/nodes/a").await;
        assert_eq!(follow(&mut events, 2).await, ["apply b", "delete a"]);

        api.break_watches();
        post(&api, NODES, &named("c")).await;
        assert_eq!(
            follow(&mut events, 1).await,
            ["apply c"],
            "goes on where it was"
        );

        api.break_watches();
        post(&api, NODES, &named("d")).await;
        api.compact();
        let mut seen = follow(&mut events, 1).await;
        assert!(seen[0].starts_with("error"), "{seen:?}");
        seen = follow(&mut events, 5).await;
        assert_eq!(seen, ["init", "init b", "init c", "init d", "done"]);
    }
}
