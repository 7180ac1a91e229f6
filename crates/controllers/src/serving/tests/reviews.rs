//! How long answers are remembered and how failures are repeated, on a paused clock.

use tokio::time::Instant;

use super::*;
use crate::serving::identity::{User, UserClaim};
use crate::serving::reviews::ReviewCache;

fn reviews(reviewer: &Reviewer, metrics: &Arc<Metrics>) -> ReviewCache {
    let authorization = AuthorizationConfig {
        denied_cache: Duration::from_secs(30),
        ..AuthorizationConfig::default()
    };
    ReviewCache::new(
        Some(reviewer.client()),
        Some(reviewer.client()),
        &AuthenticationConfig::default(),
        &authorization,
        Random::seeded(1),
        Arc::clone(metrics),
    )
}

fn user(name: &str) -> User {
    User {
        name: name.to_owned(),
        ..User::default()
    }
    .authenticated()
}

#[tokio::test(start_paused = true)]
async fn answers_are_remembered_for_their_time() {
    let reviewer = Reviewer::new(Backend::Good);
    let reviews = reviews(&reviewer, &Metrics::new());
    for (seconds, asked) in [(0, 1), (9, 1), (2, 2)] {
        tokio::time::advance(Duration::from_secs(seconds)).await;
        assert!(matches!(reviews.token("good").await, UserClaim::User(_)));
        assert_eq!(reviewer.asked("tokenreviews"), asked, "after {seconds} s");
    }
    let rows = [
        ("scraper", 0, 1, true),
        ("scraper", 9, 1, true),
        ("scraper", 2, 2, true),
        ("other", 0, 3, false),
        ("other", 29, 3, false),
        ("other", 2, 4, false),
    ];
    for (name, seconds, asked, allowed) in rows {
        tokio::time::advance(Duration::from_secs(seconds)).await;
        let verdict = reviews.allowed(&user(name), "get", "/metrics").await;
        assert_eq!(verdict, Ok(allowed), "{name}");
        assert_eq!(
            reviewer.asked("subjectaccessreviews"),
            asked,
            "{name} {seconds}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_failing_server_is_asked_five_times_and_a_refusal_once() {
    let metrics = Metrics::new();
    for (backend, tries) in [
        (Backend::Status(500), 5),
        (Backend::Status(429), 5),
        (Backend::Status(403), 1),
        (Backend::Unreachable, 1),
    ] {
        let reviewer = Reviewer::new(backend);
        let reviews = reviews(&reviewer, &metrics);
        let start = Instant::now();
        assert!(
            reviews
                .allowed(&user("scraper"), "get", "/metrics")
                .await
                .is_err()
        );
        assert_eq!(reviewer.asked("subjectaccessreviews"), tries);
        // 0.5 + 0.75 + 1.125 + 1.6875 s, each up to a fifth longer.
        let waited = start.elapsed().as_secs_f64();
        let expected = if tries == 5 { 4.06..4.88 } else { 0.0..0.01 };
        assert!(expected.contains(&waited), "{waited}");
        assert!(
            matches!(reviews.token("good").await, UserClaim::Bad(_)),
            "failures are not remembered"
        );
        *reviewer.backend.lock().unwrap() = Backend::Good;
        assert!(matches!(reviews.token("good").await, UserClaim::User(_)));
    }
    let text = metrics.text();
    assert!(
        text.contains("apiserver_delegated_authz_request_total{code=\"500\"} 5\n"),
        "{text}"
    );
    assert!(text.contains("apiserver_delegated_authz_request_total{code=\"403\"} 1\n"));
}

#[tokio::test(start_paused = true)]
async fn two_hundred_reviews_a_second_after_a_burst_of_four_hundred() {
    let reviewer = Reviewer::new(Backend::Good);
    let reviews = reviews(&reviewer, &Metrics::new());
    let start = Instant::now();
    for number in 0..600 {
        let path = format!("/{number}");
        assert_eq!(
            reviews.allowed(&user("scraper"), "get", &path).await,
            Ok(false)
        );
    }
    let waited = start.elapsed();
    assert!(
        waited >= Duration::from_millis(900) && waited <= Duration::from_millis(1100),
        "{waited:?}"
    );
}
