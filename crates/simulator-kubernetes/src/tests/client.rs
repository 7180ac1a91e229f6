//! A real client on top: `kube`, with a tower service instead of a connection.

use super::*;
use futures::{Stream, StreamExt};
use k8s_openapi::api::core::v1::{ConfigMap, Node};
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams, Preconditions};
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

fn map(name: &str) -> ConfigMap {
    serde_json::from_value(json!({"metadata": {"name": name}, "data": {"a": "1"}})).unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_client_writes_patches_and_meets_conflicts() {
    let api = api();
    let maps: Objects<ConfigMap> = Objects::default_namespaced(client(&api));
    let created = maps
        .create(&PostParams::default(), &map("m"))
        .await
        .unwrap();
    let params = PatchParams::default();
    let patch = json!({"data": {"b": "2"}});
    maps.patch("m", &params, &Patch::Merge(&patch))
        .await
        .unwrap();
    let patch = json!({"metadata": {"labels": {"x": "y"}}});
    maps.patch("m", &params, &Patch::Strategic(&patch))
        .await
        .unwrap();
    let operations: json_patch::Patch =
        serde_json::from_value(json!([{"op": "remove", "path": "/data/a"}])).unwrap();
    let patched = maps
        .patch("m", &params, &Patch::Json::<()>(operations))
        .await
        .unwrap();
    assert_eq!(patched.data.unwrap().keys().collect::<Vec<_>>(), ["b"]);
    let config = json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"c": "3"}});
    let params = PatchParams::apply("test").force();
    let applied = maps
        .patch("m", &params, &Patch::Apply(&config))
        .await
        .unwrap();
    assert_eq!(applied.data.unwrap().len(), 2);

    let stale = maps
        .replace("m", &PostParams::default(), &created)
        .await
        .unwrap_err();
    let kube::Error::Api(status) = stale else {
        panic!("{stale}")
    };
    assert_eq!((status.code, status.reason.as_str()), (409, "Conflict"));
    let again = maps
        .create(&PostParams::default(), &map("m"))
        .await
        .unwrap_err();
    let kube::Error::Api(status) = again else {
        panic!("{again}")
    };
    assert_eq!(status.reason, "AlreadyExists");

    let wrong = DeleteParams::default().preconditions(Preconditions {
        uid: Some("other".into()),
        resource_version: None,
    });
    assert!(maps.delete("m", &wrong).await.is_err());
    let gone = maps.delete("m", &DeleteParams::default()).await.unwrap();
    assert!(gone.is_right(), "a Status, not an object");
}

#[tokio::test(start_paused = true)]
async fn a_client_lists_by_page_and_reads_metadata() {
    let api = api();
    for name in ["a", "b", "c"] {
        post(&api, NODES, &named(name)).await;
    }
    let nodes: Objects<Node> = Objects::all(client(&api));
    let first = nodes.list(&ListParams::default().limit(2)).await.unwrap();
    let token = first.metadata.continue_.clone().unwrap();
    assert_eq!(
        (first.items.len(), first.metadata.remaining_item_count),
        (2, Some(1))
    );
    let params = ListParams::default().limit(2).continue_token(&token);
    assert_eq!(nodes.list(&params).await.unwrap().items.len(), 1);
    let metadata = nodes.list_metadata(&ListParams::default()).await.unwrap();
    assert_eq!(metadata.items[2].metadata.name.as_deref(), Some("c"));
    assert!(nodes.get_opt("x").await.unwrap().is_none());
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
