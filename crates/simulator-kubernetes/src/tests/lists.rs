use super::*;

async fn five() -> Arc<KubernetesApi> {
    let api = api();
    for name in ["e", "b", "d", "a", "c"] {
        post(&api, MAPS, &named(name)).await;
    }
    api
}

fn names(got: &Got) -> Vec<&str> {
    got.body["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|item| item["metadata"]["name"].as_str().unwrap())
        .collect()
}

#[tokio::test]
async fn a_page_of_a_forgotten_version_offers_to_go_on() {
    let api = five().await;
    let first = get(&api, &format!("{MAPS}?limit=2")).await;
    assert_eq!(first.version(), api.store().revision().to_string());
    post(&api, MAPS, &named("bb")).await;
    api.compact();
    let token = first.body["metadata"]["continue"].as_str().unwrap();
    let expired = get(&api, &format!("{MAPS}?limit=9&continue={token}")).await;
    assert_eq!((expired.code, expired.reason()), (410, "Expired"));
    assert!(
        expired
            .message()
            .starts_with("The provided continue parameter is too old")
    );
    let token = expired.body["metadata"]["continue"].as_str().unwrap();
    let rest = get(&api, &format!("{MAPS}?limit=9&continue={token}")).await;
    assert_eq!(names(&rest), ["bb", "c", "d", "e"]);
}

#[tokio::test(start_paused = true)]
async fn a_version_of_the_future_is_awaited_and_a_forgotten_one_is_gone() {
    let api = five().await;
    let now = api.store().revision();
    let start = tokio::time::Instant::now();
    let future = get(&api, &format!("{MAPS}?resourceVersion={}", now + 9)).await;
    assert_eq!((future.code, future.reason()), (504, "Timeout"));
    assert_eq!(start.elapsed().as_secs(), 3);
    api.compact();
    post(&api, MAPS, &named("z")).await;
    let uri = format!("{MAPS}?resourceVersion=3&resourceVersionMatch=Exact");
    let old = get(&api, &uri).await;
    assert_eq!(
        (old.code, old.message()),
        (410, "The resourceVersion for the provided list is too old.")
    );
}
