use super::*;
use crate::api::Api;
use crate::testing::{Harness, Log, status};
use bowline_test_kit::says;
use std::path::Path;
use tempfile::TempDir;
use tokio::time::sleep;

struct Bench {
    test: Harness,
    folder: TempDir,
    http: HttpClient,
}

impl Bench {
    fn new() -> Self {
        let test = Harness::new();
        let http = test.client(None);
        let folder = tempfile::tempdir().unwrap();
        Self { test, folder, http }
    }

    /// Two pairs are valid, the file holds the older one, and that is in use.
    async fn started() -> (Self, CredentialsFile) {
        let bench = Self::new();
        bench.test.sim.allow("EXOold", "old", &[]);
        bench.test.sim.allow("EXOnew", "new", &[]);
        bench.write("first", "EXOold", "old");
        let file = bench.follow().await;
        (bench, file)
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("credentials.json")
    }

    fn write(&self, name: &str, key: &str, secret: &str) {
        put(&self.path(), name, key, secret);
    }

    async fn follow(&self) -> CredentialsFile {
        CredentialsFile::follow(self.path(), self.http.clone(), |_| {}).await
    }

    /// The key that the next call carries; none if it fails.
    async fn key(&self) -> Option<String> {
        let listed = Api::new(self.http.clone()).instances().await;
        let entry = self.test.world.journal.entries().pop()?;
        listed.is_ok().then_some(entry.caller)
    }

    async fn until_key(&self, key: &str, within: u64) {
        let found = timeout(Duration::from_secs(within), async {
            while self.key().await.as_deref() != Some(key) {
                sleep(Duration::from_secs(1)).await;
            }
        });
        assert!(
            found.await.is_ok(),
            "{key} is not used: {:?}",
            self.test.calls()
        );
    }
}

fn put(path: &Path, name: &str, key: &str, secret: &str) {
    let text = serde_json::json!({"name": name, "api_key": key, "api_secret": secret});
    std::fs::write(path, text.to_string()).unwrap();
}

const A_WHILE: Duration = Duration::from_secs(120);

#[tokio::test(start_paused = true)]
async fn exoscale_case_15_a_wrong_pair_is_not_used_and_a_right_one_is() {
    let (log, _guard) = Log::keep();
    let (bench, file) = Bench::started().await;
    assert_eq!(file.ready(), Ok(()));
    assert_eq!(bench.key().await.as_deref(), Some("EXOold"));
    bench.write("wrong", "EXOnew", "hunter2");
    sleep(A_WHILE).await;
    assert_eq!(bench.key().await.as_deref(), Some("EXOold"));
    assert_eq!(file.ready(), Ok(()), "the last good pair still works");
    let text = log.text();
    let refused = "failed to switch client zone: wrong (EXOnew) is refused";
    assert_eq!(text.matches(refused).count(), 1, "{text}");
    bench.write("valid", "EXOnew", "new");
    bench.until_key("EXOnew", 10).await;
    let text = log.text();
    for name in ["first (EXOold)", "valid (EXOnew)"] {
        let wanted = format!("Exoscale API credentials refreshed, now using {name}");
        assert_eq!(text.matches(&wanted).count(), 1, "{text}");
    }
    assert!(!text.contains("hunter2"), "{text}");
}

#[tokio::test(start_paused = true)]
async fn exoscale_case_16_a_mounted_secret_is_followed() {
    let bench = Bench::new();
    bench.test.sim.allow("EXOold", "old", &[]);
    bench.test.sim.allow("EXOnew", "new", &[]);
    let folder = bench.folder.path();
    for (version, key, secret) in [("..v1", "EXOold", "old"), ("..v2", "EXOnew", "new")] {
        std::fs::create_dir(folder.join(version)).unwrap();
        put(
            &folder.join(version).join("credentials.json"),
            version,
            key,
            secret,
        );
    }
    let link = |to: &str, at: &str| std::os::unix::fs::symlink(to, folder.join(at)).unwrap();
    link("..v1", "..data");
    link("..data/credentials.json", "credentials.json");
    let _file = bench.follow().await;
    assert_eq!(bench.key().await.as_deref(), Some("EXOold"));
    link("..v2", "..tmp");
    std::fs::rename(folder.join("..tmp"), folder.join("..data")).unwrap();
    bench.until_key("EXOnew", 60).await;
}

#[tokio::test(start_paused = true)]
async fn exoscale_case_98_a_refused_pair_at_the_start_is_waited_out() {
    let (log, _guard) = Log::keep();
    let bench = Bench::new();
    bench.test.sim.allow("EXOk", "right", &[]);
    bench.write("first", "EXOk", "wrong");
    let file = bench.follow().await;
    let reason = file.ready().unwrap_err();
    assert_eq!(reason, "the API credentials first (EXOk) are refused");
    let error = Api::new(bench.http.clone()).instances().await.unwrap_err();
    assert_eq!(error.kind(), CloudErrorKind::Unavailable);
    says(&error.chain(), "no valid API credentials yet");
    sleep(A_WHILE).await;
    assert!(file.ready().is_err());
    bench.write("second", "EXOk", "right");
    bench.until_key("EXOk", 10).await;
    assert_eq!(file.ready(), Ok(()));
    let wanted = "Exoscale API credentials refreshed, now using second (EXOk)";
    says(&log.text(), wanted);
}

#[tokio::test(start_paused = true)]
async fn a_refused_pair_is_tried_ever_more_rarely_and_a_new_one_at_once() {
    let bench = Bench::new();
    bench.test.sim.allow("EXOk", "right", &[]);
    bench.write("first", "EXOk", "wrong");
    let file = bench.follow().await;
    let calls = |before: usize| bench.test.calls().len() - before;
    assert_eq!(calls(0), 2, "zones, then instances");
    sleep(Duration::from_secs(3600)).await;
    // After 10, 20, 40, 80, 160 s, and then every five minutes.
    let trials = calls(0) / 2;
    assert!((14..=17).contains(&trials), "{trials} trials in an hour");
    bench.write("second", "EXOk", "right");
    sleep(CREDENTIALS_POLL + Duration::from_millis(100)).await;
    assert_eq!(file.ready(), Ok(()));
}

#[tokio::test(start_paused = true)]
async fn a_missing_or_unreadable_file_at_the_start_is_waited_for() {
    let (log, _guard) = Log::keep();
    let bench = Bench::new();
    bench.test.sim.allow("EXOk", "right", &[]);
    let file = bench.follow().await;
    for (content, said) in [
        (None, "No such file"),
        (Some(""), "not a JSON object"),
        (Some(r#"{"api_key": "EXOk", "api_sec"#), "not a JSON object"),
        (
            Some(r#"{"api_key": "EXOk"}"#),
            "api_secret is empty or missing",
        ),
        (
            Some(r#"{"api_key": "EX,k", "api_secret": "hunter2"}"#),
            "characters",
        ),
        (
            Some(r#"{"api_key": 7, "api_secret": "hunter2"}"#),
            "not a JSON object",
        ),
    ] {
        if let Some(content) = content {
            std::fs::write(bench.path(), content).unwrap();
            sleep(CREDENTIALS_POLL * 2).await;
        }
        let reason = file.ready().unwrap_err();
        assert!(reason.contains(said), "{content:?}: {reason}");
        says(&log.text(), said);
    }
    assert!(!log.text().contains("hunter2"), "{}", log.text());
    bench.write("n", "EXOk", "right");
    bench.until_key("EXOk", 10).await;
    assert_eq!(file.ready(), Ok(()));
}

#[tokio::test(start_paused = true)]
async fn exoscale_case_99_a_moment_of_emptiness_is_no_change() {
    let (log, _guard) = Log::keep();
    let (bench, file) = Bench::started().await;
    for content in ["", r#"{"name": "sec"#] {
        std::fs::write(bench.path(), content).unwrap();
        sleep(CREDENTIALS_POLL * 2).await;
        assert_eq!(bench.key().await.as_deref(), Some("EXOold"));
    }
    std::fs::remove_file(bench.path()).unwrap();
    sleep(CREDENTIALS_POLL).await;
    assert_eq!(bench.key().await.as_deref(), Some("EXOold"));
    bench.write("second", "EXOnew", "new");
    bench.until_key("EXOnew", 10).await;
    let text = log.text();
    assert!(!text.contains("WARN") && !text.contains("ERROR"), "{text}");
    // A file that stays unusable is reported, once.
    std::fs::write(bench.path(), "").unwrap();
    sleep(A_WHILE).await;
    assert_eq!(
        log.text().matches("cannot be used").count(),
        1,
        "{}",
        log.text()
    );
    assert_eq!(file.ready(), Ok(()));
    assert_eq!(bench.key().await.as_deref(), Some("EXOnew"));
}

#[tokio::test(start_paused = true)]
async fn exoscale_case_100_a_role_that_denies_the_zones_is_enough() {
    let bench = Bench::new();
    bench.test.sim.allow("EXOk", "s", &["/zone"]);
    bench.write("narrow", "EXOk", "s");
    let file = bench.follow().await;
    assert_eq!(file.ready(), Ok(()));
    let calls = ["GET /v2/zone 403", "GET /v2/instance 200 EXOk"];
    assert_eq!(bench.test.calls(), calls);
}

#[tokio::test(start_paused = true)]
async fn an_api_that_cannot_answer_decides_nothing() {
    let (log, _guard) = Log::keep();
    let (bench, _file) = Bench::started().await;
    let rule = status(503, None).named("down").on("GET", "/v2/zone");
    bench.test.world.faults.add(rule).unwrap();
    bench.write("second", "EXOnew", "new");
    let before = bench.test.calls().len();
    sleep(Duration::from_secs(600)).await;
    let trials = bench.test.calls().len() - before;
    assert!((8..=16).contains(&trials), "{trials} trials in ten minutes");
    assert_eq!(bench.key().await.as_deref(), Some("EXOold"));
    let text = log.text();
    assert_eq!(text.matches("not tried yet").count(), 1, "{text}");
    assert!(!text.contains("failed to switch client zone"), "{text}");
    bench.test.world.faults.clear();
    bench.until_key("EXOnew", 70).await;
}

#[tokio::test(start_paused = true)]
async fn a_call_that_is_under_way_goes_on_with_the_new_pair() {
    let bench = Bench::new();
    bench.test.sim.allow("EXOold", "old", &[]);
    bench.write("first", "EXOold", "old");
    let _file = bench.follow().await;
    // The call waits for its repetitions while the pair changes.
    let rule = status(500, None)
        .named("slow")
        .on("GET", "/v2/load-balancer")
        .times(4);
    bench.test.world.faults.add(rule).unwrap();
    let api = Api::new(bench.http.clone());
    let call = tokio::spawn(async move { api.load_balancers().await.map(|_| ()) });
    sleep(Duration::from_millis(100)).await;
    bench.test.sim.allow("EXOnew", "new", &[]);
    bench.write("second", "EXOnew", "new");
    bench.until_key("EXOnew", 10).await;
    bench.test.sim.revoke("EXOold");
    call.await.unwrap().unwrap();
    let last = bench.test.calls().pop().unwrap();
    assert_eq!(last, "GET /v2/load-balancer 200 EXOnew");
}
