//! Paths, protocols, certificates, starting and stopping.

use super::*;

#[tokio::test]
async fn unknown_paths_are_404_after_authorization() {
    let running = start(options(), Backend::Good).await;
    assert_eq!(running.get("/nothing").await.status, 403);
    for path in [
        "/nothing",
        "/debug/pprof",
        "/debug/pprof/heap",
        "/healthz/bogus",
        "/",
    ] {
        let said = running.get_with_token(path, "master").await;
        assert_eq!(
            (said.status, said.body.as_str()),
            (404, "404 page not found\n"),
            "{path}"
        );
    }
    let said = running.get_with_token("/healthz/ping", "master").await;
    assert_eq!((said.status, said.body.as_str()), (200, "ok"));
}

#[tokio::test]
async fn a_cloud_shows_pages_of_its_own_to_those_who_may_read_them() {
    let reviewer = Reviewer::new(Backend::Good);
    let mut parts = parts(Some(&reviewer));
    parts.pages = Arc::new(|path| match path {
        "/sd/demo" => Some(PageAnswer::Shown {
            content_type: "application/json",
            body: "[]".to_owned(),
        }),
        "/metrics/demo" => Some(PageAnswer::NotNow("not leading".to_owned())),
        "/metrics" | "/healthz" => Some(PageAnswer::NotNow(
            "a cloud hides nothing of ours".to_owned(),
        )),
        _ => None,
    });
    let running = start_with(options(), parts, reviewer).await;
    assert_eq!(running.get("/sd/demo").await.status, 403);
    for (path, status, body) in [
        ("/sd/demo", 200, "[]"),
        ("/metrics/demo", 503, "not leading\n"),
        ("/sd/other", 404, "404 page not found\n"),
        ("/healthz", 200, "ok"),
    ] {
        let said = running.get_with_token(path, "master").await;
        assert_eq!((said.status, said.body.as_str()), (status, body), "{path}");
    }
    let metrics = running.get_with_token("/metrics", "master").await;
    assert_eq!(metrics.status, 200);
}

#[tokio::test]
async fn verbosity_is_set_by_put_when_profiling_is_on() {
    let levels: Arc<Mutex<Vec<i32>>> = Arc::default();
    let reviewer = Reviewer::new(Backend::Good);
    let mut parts = parts(Some(&reviewer));
    let set = Arc::clone(&levels);
    parts.set_verbosity = Arc::new(move |level| {
        set.lock().unwrap().push(level);
        Ok(())
    });
    let put = |body: &'static str| Ask {
        method: Some(Method::PUT),
        body,
        ..Ask::default()
    };
    let running = start_with(open(&["*"]), parts.clone(), reviewer.clone()).await;
    let said = running.ask("/debug/flags/v", put("5")).await.unwrap();
    let text = "successfully set klog.logging.verbosity to 5";
    assert_eq!((said.status, said.body.as_str()), (200, text));
    assert_eq!(
        running
            .ask("/debug/flags/v", put("x"))
            .await
            .unwrap()
            .status,
        400
    );
    assert_eq!(running.get("/debug/flags/v").await.status, 406);
    assert_eq!(*levels.lock().unwrap(), [5]);
    let mut off = open(&["*"]);
    off.profiling = false;
    let running = start_with(off, parts, reviewer).await;
    assert_eq!(
        running
            .ask("/debug/flags/v", put("5"))
            .await
            .unwrap()
            .status,
        404
    );
}

#[tokio::test]
async fn http_2_is_spoken_unless_switched_off_and_openmetrics_on_request() {
    let ask = || Ask {
        alpn: &["h2", "http/1.1"],
        headers: vec![("accept", "application/openmetrics-text; version=1.0.0")],
        ..Ask::default()
    };
    let running = start(open(&["/metrics"]), Backend::Good).await;
    let said = running.ask("/metrics", ask()).await.unwrap();
    assert_eq!((said.status, said.version), (200, http::Version::HTTP_2));
    assert!(said.body.ends_with("# EOF\n"));
    let mut options = open(&["/metrics"]);
    options.disable_http2 = true;
    let running = start(options, Backend::Good).await;
    let said = running.ask("/metrics", ask()).await.unwrap();
    assert_eq!((said.status, said.version), (200, http::Version::HTTP_11));
}

#[tokio::test]
async fn a_minimum_version_refuses_older_callers() {
    let mut options = options();
    options.tls.min_version = "VersionTLS13".to_owned();
    let running = start(options, Backend::Good).await;
    let ask = |tls12| Ask {
        tls12,
        ..Ask::default()
    };
    assert!(running.ask("/healthz", ask(true)).await.is_err());
    assert_eq!(
        running.ask("/healthz", ask(false)).await.unwrap().status,
        200
    );
}

#[tokio::test]
async fn the_self_signed_chain_is_sent_and_named_certificates_are_chosen_and_reloaded() {
    let directory = tempfile::tempdir().unwrap();
    let (certificate, key) = (directory.path().join("c"), directory.path().join("k"));
    let write = |second: i64| {
        let now = jiff::Timestamp::from_second(second).unwrap();
        let pair = certificates::make(now, Ipv4Addr::LOCALHOST.into()).unwrap();
        std::fs::write(&certificate, &pair.certificate).unwrap();
        std::fs::write(&key, &pair.key).unwrap();
    };
    write(1_767_225_600);
    let mut options = options();
    options.certificates.by_name.push(NamedPair {
        certificate: certificate.clone(),
        key: key.clone(),
        names: vec!["*.a.test".to_owned()],
    });
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let reviewer = Reviewer::new(Backend::Good);
    let parts = parts(Some(&reviewer));
    let server = Server::on(listener, options, parts.clone()).await.unwrap();
    let shared = Arc::clone(&server.shared);
    let address = server.address().unwrap();
    let done = tokio::spawn(server.run(std::future::pending()));
    let running = Running {
        address,
        parts,
        reviewer,
        stop: None,
        done,
    };
    let chain = |host: &'static str| {
        let ask = Ask {
            host: Some(host),
            ..Ask::default()
        };
        let asked = Box::pin(running.ask("/healthz", ask));
        async { asked.await.unwrap().chain }
    };
    let default = chain("localhost").await;
    assert_eq!(default.len(), 2);
    let named = chain("x.a.test").await;
    assert_ne!(named, default);
    write(1_767_225_601);
    shared.certificates.refresh();
    let renewed = chain("x.a.test").await;
    assert!(renewed != named && renewed != default);
    assert_eq!(chain("localhost").await, default);
}

#[tokio::test]
async fn server_side_failures_of_reviews_are_tried_again() {
    let reviewer = Reviewer::new(Backend::Status(500));
    let running = start_with(options(), parts(Some(&reviewer)), reviewer.clone()).await;
    let asking = running.get("/metrics");
    let recover = async {
        while reviewer.asked("subjectaccessreviews") < 2 {
            tokio::task::yield_now().await;
        }
        *reviewer.backend.lock().unwrap() = Backend::Good;
    };
    let (said, ()) = futures::future::join(asking, recover).await;
    assert_eq!(said.status, 403, "{}", said.body);
    let asked = reviewer.asked("subjectaccessreviews");
    assert_eq!(running.get("/metrics").await.status, 403);
    assert_eq!(reviewer.asked("subjectaccessreviews"), asked, "remembered");
}

#[tokio::test]
async fn a_port_in_use_is_an_error_that_names_flag_address_and_port() {
    let taken = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let mut options = options();
    options.port = taken.local_addr().unwrap().port();
    let error = Server::bind(options.clone(), parts(None))
        .await
        .unwrap_err();
    let text = format!(
        "listening on 127.0.0.1:{} (--bind-address, --secure-port)",
        options.port
    );
    assert_eq!(error.to_string(), text);
    let source = std::error::Error::source(&error).unwrap().to_string();
    assert!(source.to_lowercase().contains("in use"), "{source}");
    options.port = 0;
    assert!(Server::bind(options, parts(None)).await.unwrap().is_none());
}

#[tokio::test]
async fn the_server_stops_when_told() {
    let mut running = start(options(), Backend::Good).await;
    assert_eq!(running.get("/healthz").await.status, 200);
    running.stop.take().unwrap().send(()).unwrap();
    running.done.await.unwrap();
    assert!(TcpStream::connect(running.address).await.is_err());
}

#[tokio::test]
async fn head_gets_the_length_and_no_body_in_both_protocols() {
    let running = start(options(), Backend::Good).await;
    let protocols: [&[&str]; 2] = [&["h2"], &["http/1.1"]];
    for alpn in protocols {
        let ask = Ask {
            method: Some(Method::HEAD),
            alpn,
            ..Ask::default()
        };
        let said = running.ask("/healthz", ask).await.unwrap();
        assert_eq!((said.status, said.body.as_str()), (200, ""), "{alpn:?}");
        assert_eq!(said.headers["content-length"], "2", "{alpn:?}");
    }
}
