use super::*;

async fn five() -> Arc<KubernetesApi> {
    let api = api();
    for name in ["e", "b", "d", "a", "c"] {
        post(
            &api,
            MAPS,
            &json!({"metadata": {"name": name, "labels": {"odd": (name > "b").to_string()}}}),
        )
        .await;
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
async fn lists_are_sorted_and_items_carry_no_kind() {
    let api = five().await;
    let got = get(&api, MAPS).await;
    assert_eq!(names(&got), ["a", "b", "c", "d", "e"]);
    assert_eq!(got.body["kind"], "ConfigMapList");
    assert_eq!(got.body["apiVersion"], "v1");
    assert!(got.body["items"][0].get("kind").is_none());
    assert_eq!(got.version(), api.store().revision().to_string());
    let everywhere = get(&api, "/api/v1/configmaps").await;
    assert_eq!(names(&everywhere).len(), 5);
    let elsewhere = get(&api, "/api/v1/namespaces/kube-system/configmaps").await;
    assert_eq!(elsewhere.body["items"], json!([]));
}

#[tokio::test]
async fn pages_are_of_one_version() {
    let api = five().await;
    let first = get(&api, &format!("{MAPS}?limit=2")).await;
    assert_eq!(names(&first), ["a", "b"]);
    assert_eq!(first.body["metadata"]["remainingItemCount"], 3);
    delete(&api, &format!("{MAPS}/c")).await;
    post(&api, MAPS, &named("bb")).await;
    let token = first.body["metadata"]["continue"].as_str().unwrap();
    let second = get(&api, &format!("{MAPS}?limit=2&continue={token}")).await;
    assert_eq!(names(&second), ["c", "d"], "as it was");
    assert_eq!(second.version(), first.version());
    let token = second.body["metadata"]["continue"].as_str().unwrap();
    let third = get(&api, &format!("{MAPS}?limit=2&continue={token}")).await;
    assert_eq!(names(&third), ["e"]);
    assert!(third.body["metadata"].get("continue").is_none());
}

#[tokio::test]
async fn a_page_of_a_forgotten_version_offers_to_go_on() {
    let api = five().await;
    let first = get(&api, &format!("{MAPS}?limit=2")).await;
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
    let bad = get(&api, &format!("{MAPS}?continue=!!")).await;
    assert_eq!(bad.code, 400);
    assert!(
        bad.message()
            .starts_with("invalid continue token: continue key is not valid")
    );
}

#[tokio::test]
async fn selectors_and_pages_work_together() {
    let api = five().await;
    let first = get(&api, &format!("{MAPS}?limit=2&labelSelector=odd%3Dtrue")).await;
    assert_eq!(names(&first), ["c", "d"]);
    assert!(first.body["metadata"].get("remainingItemCount").is_none());
    let token = first.body["metadata"]["continue"].as_str().unwrap();
    let second = get(
        &api,
        &format!("{MAPS}?limit=2&labelSelector=odd%3Dtrue&continue={token}"),
    )
    .await;
    assert_eq!(names(&second), ["e"]);
    let one = get(&api, &format!("{MAPS}?fieldSelector=metadata.name%3Dd")).await;
    assert_eq!(names(&one), ["d"]);
    let bad = get(&api, &format!("{MAPS}?fieldSelector=x%3Dd")).await;
    assert_eq!((bad.code, bad.reason()), (400, "BadRequest"));
}

#[tokio::test(start_paused = true)]
async fn versions_are_chosen_by_number_and_match() {
    let api = five().await;
    let now = api.store().revision();
    let ask = |query: String| {
        let api = Arc::clone(&api);
        async move { get(&api, &format!("{MAPS}?{query}")).await }
    };
    let exact = ask(format!(
        "resourceVersion={}&resourceVersionMatch=Exact",
        now - 1
    ))
    .await;
    assert_eq!(names(&exact), ["a", "b", "d", "e"]);
    assert_eq!(exact.version(), (now - 1).to_string());
    let newer = ask(format!(
        "resourceVersion={}&resourceVersionMatch=NotOlderThan",
        now - 1
    ))
    .await;
    assert_eq!(
        (names(&newer).len(), newer.version()),
        (5, now.to_string().as_str())
    );
    assert_eq!(names(&ask("resourceVersion=0".into()).await).len(), 5);
    let start = tokio::time::Instant::now();
    let future = ask(format!("resourceVersion={}", now + 9)).await;
    assert_eq!((future.code, future.reason()), (504, "Timeout"));
    assert_eq!(
        future.message(),
        format!(
            "Timeout: Too large resource version: {}, current: {now}",
            now + 9
        )
    );
    assert_eq!(
        future.body["details"]["causes"][0]["reason"],
        "ResourceVersionTooLarge"
    );
    assert_eq!(future.headers["retry-after"], "1");
    assert_eq!(start.elapsed().as_secs(), 3);
    let wrong = ask("resourceVersionMatch=Exact".into()).await;
    assert_eq!(
        (wrong.code, wrong.message()),
        (
            422,
            "ListOptions.meta.k8s.io \"\" is invalid: resourceVersionMatch: Forbidden: resourceVersionMatch is forbidden unless resourceVersion is provided"
        )
    );
    api.compact();
    post(&api, MAPS, &named("z")).await;
    let old = ask("resourceVersion=3&resourceVersionMatch=Exact".into()).await;
    assert_eq!(
        (old.code, old.message()),
        (410, "The resourceVersion for the provided list is too old.")
    );
}

#[tokio::test]
async fn lists_and_objects_are_shown_as_tables_and_metadata() {
    let api = five().await;
    let ask = |uri: String, accept: &'static str| {
        let api = Arc::clone(&api);
        async move {
            let request = request("GET", &uri).header("accept", accept);
            let request = request.body(Bytes::new()).unwrap();
            let body = api
                .answer(request, &Peer::default())
                .await
                .response
                .into_body();
            let bytes = body.collect().await.unwrap().to_bytes();
            serde_json::from_slice::<Value>(&bytes).unwrap()
        }
    };
    let table = "application/json;as=Table;v=v1;g=meta.k8s.io";
    let list = ask(MAPS.into(), table).await;
    assert_eq!(
        (&list["kind"], list["rows"].as_array().unwrap().len()),
        (&json!("Table"), 5)
    );
    assert_eq!(
        list["metadata"]["resourceVersion"],
        api.store().revision().to_string()
    );
    assert_eq!(list["rows"][0]["object"]["kind"], "PartialObjectMetadata");
    let whole = ask(format!("{MAPS}?includeObject=Object"), table).await;
    assert_eq!(whole["rows"][0]["object"]["kind"], "ConfigMap");
    let one = ask(format!("{MAPS}/a?includeObject=Object"), table).await;
    assert_eq!(one["rows"][0]["object"]["kind"], "ConfigMap");
    let partial = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io";
    let list = ask(MAPS.into(), partial).await;
    assert_eq!(list["kind"], "PartialObjectMetadataList");
    assert_eq!(list["items"][0]["kind"], "PartialObjectMetadata");
    let missing = ask(format!("{MAPS}/zz"), table).await;
    assert_eq!(missing["kind"], "Status", "refusals are never shaped");
}
