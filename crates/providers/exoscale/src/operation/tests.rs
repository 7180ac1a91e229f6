use super::*;
use serde_json::json;

const ID: &str = "b1f5c0de-0000-4000-8000-0000000000a1";

fn operation(value: serde_json::Value) -> Operation {
    serde_json::from_value(value).unwrap()
}

fn pending() -> Operation {
    operation(json!({"id": ID, "state": "pending"}))
}

#[test]
fn looks_come_every_second_at_first_and_then_as_the_vendor_does_it() {
    for (elapsed, wanted) in [
        (0, Some(1_000)),
        (1_000, Some(1_000)),
        (5_999, Some(1_000)),
        (6_000, Some(3_000)),
        (29_999, Some(3_000)),
        (30_000, Some(3_000)),
        (60_999, Some(4_000)),
        (61_000, Some(5_000)),
        (60_000, Some(4_000)),
        (120_000, Some(8_000)),
        (300_000, Some(20_000)),
        (590_000, Some(10_000)),
        (599_999, Some(1)),
        (600_000, None),
        (3_600_000, None),
    ] {
        let wanted = wanted.map(Duration::from_millis);
        assert_eq!(
            next_look(Duration::from_millis(elapsed)),
            wanted,
            "{elapsed}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn an_operation_that_never_ends_is_given_up_after_ten_minutes() {
    let began = Instant::now();
    let mut waiting = Waiting::begin("creation of x", &pending(), began).unwrap();
    let waiting = waiting.as_mut().unwrap();
    let mut after = waiting.after(Instant::now()).unwrap();
    let mut looks = 0;
    let error = loop {
        tokio::time::sleep(after).await;
        looks += 1;
        match waiting.answered(Ok(pending()), Instant::now()) {
            Ok(Waited::Wait(next)) => after = next,
            Ok(Waited::Done) => panic!("it is not done"),
            Err(error) => break error,
        }
    };
    assert_eq!(began.elapsed(), LIMIT);
    assert!(looks < 60, "{looks} looks");
    assert_eq!(error.kind(), CloudErrorKind::Unavailable);
    assert_eq!(
        error.to_string(),
        format!("creation of x (operation {ID}) is not done after 10 minutes")
    );
}

#[tokio::test(start_paused = true)]
async fn the_first_answer_counts() {
    use CloudErrorKind::{Conflict, Denied, Invalid, Unavailable, Unknown};
    let now = Instant::now();
    let begin = |value| Waiting::begin("addition of y", &operation(value), now);
    let done = begin(json!({"id": ID, "state": "success"})).unwrap();
    assert!(done.is_none());
    for state in [json!("pending"), json!("paused"), json!(null)] {
        let waiting = begin(json!({"id": ID, "state": state})).unwrap().unwrap();
        assert_eq!(waiting.id().to_string(), ID);
        assert_eq!(waiting.after(now).unwrap(), Duration::from_secs(1));
    }
    let nameless = begin(json!({"state": "pending"})).unwrap_err();
    assert_eq!(nameless.kind(), Unknown);
    for (reason, wanted) in [
        ("busy", Conflict),
        ("conflict", Conflict),
        ("forbidden", Denied),
        ("incorrect", Invalid),
        ("unsupported", Invalid),
        ("interrupted", Unavailable),
        ("unavailable", Unavailable),
        ("fault", Unknown),
        ("not-found", Unknown),
        ("partial", Unknown),
        ("unknown", Unknown),
        ("something new", Unknown),
    ] {
        let failed = json!({"id": ID, "state": "failure", "reason": reason, "message": "m",
            "reference": {"id": ID, "command": "get-load-balancer"}});
        let error = begin(failed).unwrap_err();
        assert_eq!(error.kind(), wanted, "{reason}");
        assert_eq!(
            error.to_string(),
            format!(
                "addition of y failed: operation {ID} (get-load-balancer {ID}), state failure, \
                 reason {reason}: m"
            )
        );
    }
    let timeout = begin(json!({"state": "timeout", "reason": "busy"})).unwrap_err();
    assert_eq!(timeout.kind(), Unavailable);
}

#[tokio::test(start_paused = true)]
async fn looks_may_fail_four_times_in_a_row() {
    let now = Instant::now();
    let fail = |kind| Err(CloudError::new(kind, "look"));
    let mut waiting = Waiting::begin("x", &pending(), now).unwrap().unwrap();
    for _ in 0..2 {
        for _ in 1..FAILED_LOOKS {
            let answered = waiting.answered(fail(CloudErrorKind::Denied), now);
            assert!(matches!(answered, Ok(Waited::Wait(_))), "{answered:?}");
        }
        let answered = waiting.answered(Ok(pending()), now);
        assert!(matches!(answered, Ok(Waited::Wait(_))), "{answered:?}");
    }
    for _ in 1..FAILED_LOOKS {
        waiting
            .answered(fail(CloudErrorKind::NotFound), now)
            .unwrap();
    }
    let error = waiting.answered(fail(CloudErrorKind::Unavailable), now);
    assert_eq!(error.unwrap_err().to_string(), "look");
    let done = operation(json!({"id": ID, "state": "success"}));
    assert_eq!(waiting.answered(Ok(done), now).unwrap(), Waited::Done);
}
