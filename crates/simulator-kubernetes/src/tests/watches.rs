use super::*;
use std::time::Duration;

/// An open watch, read event by event.
struct Events {
    body: Body,
    rest: String,
}

impl Events {
    async fn open(api: &KubernetesApi, uri: &str) -> Self {
        let response = open(api, "GET", uri, "", Bytes::new()).await;
        assert_eq!(response.status(), 200);
        Self {
            body: response.into_body(),
            rest: String::new(),
        }
    }

    async fn next(&mut self) -> Option<Value> {
        loop {
            if let Some((line, rest)) = self.rest.split_once('\n') {
                let event = serde_json::from_str(line).unwrap();
                self.rest = rest.to_owned();
                return Some(event);
            }
            let frame = self.body.frame().await?.unwrap();
            let bytes = frame.into_data().unwrap();
            self.rest.push_str(&String::from_utf8_lossy(&bytes));
        }
    }

    async fn brief(&mut self) -> String {
        match self.next().await {
            None => "end".to_owned(),
            Some(event) => format!(
                "{} {}",
                event["type"].as_str().unwrap(),
                event["object"]["metadata"]["name"].as_str().unwrap_or("-")
            ),
        }
    }

    /// Whether nothing comes for a while of simulated time.
    async fn is_silent(&mut self) -> bool {
        tokio::time::timeout(Duration::from_secs(5), self.next())
            .await
            .is_err()
    }
}

#[tokio::test(start_paused = true)]
async fn a_watch_from_nothing_shows_what_is_and_what_happens() {
    let api = api();
    post(&api, NODES, &named("a")).await;
    let mut events = Events::open(&api, "/api/v1/nodes?watch=true").await;
    assert_eq!(events.brief().await, "ADDED a");
    post(&api, NODES, &named("b")).await;
    assert_eq!(events.brief().await, "ADDED b");
    patch(
        &api,
        "/api/v1/nodes/a",
        "merge-patch+json",
        &json!({"metadata": {"labels": {"x": "y"}}}),
    )
    .await;
    assert_eq!(events.brief().await, "MODIFIED a");
    delete(&api, "/api/v1/nodes/a").await;
    let event = events.next().await.unwrap();
    assert_eq!(event["type"], "DELETED");
    let revision = api.store().revision().to_string();
    assert_eq!(event["object"]["metadata"]["resourceVersion"], revision);
    assert!(events.is_silent().await);
}

#[tokio::test(start_paused = true)]
async fn a_watch_from_a_version_shows_only_later_changes() {
    let api = api();
    let first = post(&api, NODES, &named("a")).await;
    post(&api, NODES, &named("b")).await;
    let uri = format!("/api/v1/nodes?watch=1&resourceVersion={}", first.version());
    let mut events = Events::open(&api, &uri).await;
    assert_eq!(events.brief().await, "ADDED b");
    assert!(events.is_silent().await);
}

#[tokio::test(start_paused = true)]
async fn the_old_watch_paths_work() {
    let api = api();
    post(&api, NODES, &named("a")).await;
    post(&api, NODES, &named("b")).await;
    let mut events = Events::open(&api, "/api/v1/watch/nodes/b").await;
    assert_eq!(events.brief().await, "ADDED b");
    assert!(events.is_silent().await);
}

#[tokio::test(start_paused = true)]
async fn an_object_that_stops_matching_disappears() {
    let api = api();
    let uri = "/api/v1/nodes?watch=1&labelSelector=zone%3Da";
    let mut events = Events::open(&api, uri).await;
    post(
        &api,
        NODES,
        &json!({"metadata": {"name": "n", "labels": {"zone": "b"}}}),
    )
    .await;
    let label = |zone: &str| json!({"metadata": {"labels": {"zone": zone}}});
    for zone in ["a", "a", "b", "c"] {
        patch(&api, "/api/v1/nodes/n", "merge-patch+json", &label(zone)).await;
    }
    patch(&api, "/api/v1/nodes/n", "merge-patch+json", &label("a")).await;
    delete(&api, "/api/v1/nodes/n").await;
    for expected in ["ADDED n", "DELETED n", "ADDED n", "DELETED n"] {
        assert_eq!(events.brief().await, expected);
    }
    assert!(events.is_silent().await);
}

#[tokio::test(start_paused = true)]
async fn a_namespace_is_watched_alone() {
    let api = api();
    let mut events = Events::open(&api, &format!("{MAPS}?watch=1")).await;
    post(
        &api,
        "/api/v1/namespaces/kube-system/configmaps",
        &named("other"),
    )
    .await;
    post(&api, MAPS, &named("mine")).await;
    assert_eq!(events.brief().await, "ADDED mine");
}

#[tokio::test(start_paused = true)]
async fn bookmarks_come_every_minute_and_at_the_end() {
    let api = api();
    let uri = "/api/v1/nodes?watch=1&allowWatchBookmarks=true&timeoutSeconds=90";
    let mut events = Events::open(&api, uri).await;
    post(&api, MAPS, &named("elsewhere")).await;
    let start = tokio::time::Instant::now();
    let event = events.next().await.unwrap();
    assert_eq!(event["type"], "BOOKMARK");
    let revision = api.store().revision().to_string();
    let object = &event["object"];
    assert_eq!(
        (&object["kind"], &object["spec"]),
        (&json!("Node"), &json!({}))
    );
    assert_eq!(object["metadata"], json!({ "resourceVersion": revision }));
    assert_eq!(start.elapsed(), Duration::from_secs(60));
    assert_eq!(events.brief().await, "BOOKMARK -");
    assert_eq!(events.brief().await, "end");
    assert_eq!(start.elapsed(), Duration::from_secs(90));
}

#[tokio::test(start_paused = true)]
async fn a_streaming_list_ends_with_a_marked_bookmark() {
    let api = api();
    post(&api, NODES, &named("a")).await;
    let uri = "/api/v1/nodes?watch=1&allowWatchBookmarks=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan";
    let mut events = Events::open(&api, uri).await;
    assert_eq!(events.brief().await, "ADDED a");
    let event = events.next().await.unwrap();
    assert_eq!(event["type"], "BOOKMARK");
    assert_eq!(
        event["object"]["metadata"]["annotations"]["k8s.io/initial-events-end"],
        "true"
    );
    post(&api, NODES, &named("b")).await;
    assert_eq!(events.brief().await, "ADDED b");
}

#[tokio::test(start_paused = true)]
async fn watch_options_are_checked() {
    let api = api();
    let rows = [
        (
            "sendInitialEvents=true",
            "ListOptions.meta.k8s.io \"\" is invalid: resourceVersionMatch: Forbidden: sendInitialEvents requires setting resourceVersionMatch to NotOlderThan",
        ),
        (
            "resourceVersionMatch=NotOlderThan&resourceVersion=1",
            "ListOptions.meta.k8s.io \"\" is invalid: resourceVersionMatch: Forbidden: resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided",
        ),
    ];
    for (query, message) in rows {
        let got = get(&api, &format!("/api/v1/nodes?watch=1&{query}")).await;
        assert_eq!((got.code, got.message()), (422, message));
    }
}

#[tokio::test(start_paused = true)]
async fn a_forgotten_version_is_an_error_event_and_the_end() {
    let api = api();
    post(&api, NODES, &named("a")).await;
    api.compact();
    let mut events = Events::open(&api, "/api/v1/nodes?watch=1&resourceVersion=2").await;
    let event = events.next().await.unwrap();
    assert_eq!(event["type"], "ERROR");
    assert_eq!(event["object"]["code"], 410);
    assert_eq!(event["object"]["reason"], "Expired");
    let revision = api.store().revision();
    assert_eq!(
        event["object"]["message"],
        format!("too old resource version: 2 ({revision})")
    );
    assert_eq!(events.brief().await, "end");
}

#[tokio::test(start_paused = true)]
async fn a_compaction_does_not_disturb_a_watcher_that_keeps_up() {
    let api = api();
    let mut events = Events::open(&api, "/api/v1/nodes?watch=1").await;
    assert!(events.is_silent().await);
    post(&api, MAPS, &named("elsewhere")).await;
    api.compact();
    post(&api, NODES, &named("a")).await;
    assert_eq!(events.brief().await, "ADDED a");
}

#[tokio::test(start_paused = true)]
async fn a_watcher_that_falls_behind_the_history_is_cut_off() {
    let api = api();
    let mut events = Events::open(&api, "/api/v1/nodes?watch=1").await;
    post(&api, NODES, &named("a")).await;
    api.compact();
    assert_eq!(events.brief().await, "end");
}

#[tokio::test(start_paused = true)]
async fn all_watches_can_be_broken() {
    let api = api();
    let mut events = Events::open(&api, "/api/v1/nodes?watch=1").await;
    assert!(events.is_silent().await);
    api.break_watches();
    assert_eq!(events.brief().await, "end");
    let mut events = Events::open(&api, "/api/v1/nodes?watch=1").await;
    assert!(events.is_silent().await, "a new watch works");
}

#[tokio::test(start_paused = true)]
async fn tables_and_metadata_are_watched_too() {
    let api = api();
    post(&api, NODES, &named("a")).await;
    post(&api, NODES, &named("b")).await;
    for (accept, kind) in [
        ("application/json;as=Table;v=v1;g=meta.k8s.io", "Table"),
        (
            "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io",
            "PartialObjectMetadata",
        ),
    ] {
        let request = request("GET", "/api/v1/nodes?watch=1")
            .header("accept", accept)
            .body(Bytes::new())
            .unwrap();
        let body = api
            .answer(request, &Peer::default())
            .await
            .response
            .into_body();
        let mut events = Events {
            body,
            rest: String::new(),
        };
        let first = events.next().await.unwrap();
        assert_eq!(first["object"]["kind"], kind);
        let second = events.next().await.unwrap();
        if kind == "Table" {
            assert!(first["object"]["columnDefinitions"].is_array());
            assert!(second["object"]["columnDefinitions"].is_null());
            assert_eq!(second["object"]["rows"][0]["cells"][0], "b");
        } else {
            assert_eq!(second["object"]["metadata"]["name"], "b");
            assert!(second["object"].get("spec").is_none());
        }
    }
}
