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
