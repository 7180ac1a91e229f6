use serde_json::{Value, json};

use super::*;
use crate::kinds::{KINDS, named as kind};

const NOW: &str = "2026-05-01T12:00:00Z";

fn rows(name: &str, objects: &[Value]) -> Value {
    table(
        kind(name),
        objects,
        IncludeObject::None,
        NOW.parse().unwrap(),
    )
}

fn cells(name: &str, mut object: Value) -> Value {
    object["metadata"]["name"] = "x".into();
    object["metadata"]["creationTimestamp"] = "2026-05-01T11:56:48Z".into();
    rows(name, &[object])["rows"][0]["cells"].clone()
}

#[test]
fn spans_read_as_people_say_them() {
    for (seconds, text) in [
        (-5, "<invalid>"),
        (-1, "0s"),
        (0, "0s"),
        (119, "119s"),
        (120, "2m"),
        (192, "3m12s"),
        (599, "9m59s"),
        (600, "10m"),
        (10_799, "179m"),
        (10_800, "3h"),
        (11_000, "3h3m"),
        (28_800, "8h"),
        (172_799, "47h"),
        (172_800, "2d"),
        (180_000, "2d2h"),
        (691_200, "8d"),
        (5 * 86_400, "5d"),
        (700 * 86_400, "700d"),
        (730 * 86_400, "2y"),
        (800 * 86_400, "2y70d"),
        (3000 * 86_400, "8y"),
    ] {
        assert_eq!(human_duration(seconds), text, "{seconds}");
    }
}

#[test]
fn every_row_has_a_cell_for_every_column() {
    for kind in KINDS {
        let table = rows(kind.kind, &[json!({ "metadata": {} })]);
        assert_eq!(
            table["columnDefinitions"].as_array().unwrap().len(),
            table["rows"][0]["cells"].as_array().unwrap().len(),
            "{}",
            kind.kind
        );
    }
}

#[test]
fn events_show_when_they_were_seen() {
    for (event, last, first, count) in [
        (
            json!({ "firstTimestamp": "2026-05-01T11:00:00Z", "lastTimestamp": "2026-05-01T11:59:30Z", "count": 3 }),
            "30s",
            "60m",
            3,
        ),
        (
            json!({ "eventTime": "2026-05-01T11:59:00.500000Z", "lastTimestamp": null, "firstTimestamp": null }),
            "59s",
            "59s",
            1,
        ),
        (
            json!({ "eventTime": "2026-05-01T11:00:00.000000Z",
                    "series": { "count": 7, "lastObservedTime": "2026-05-01T11:59:58.000000Z" } }),
            "2s",
            "60m",
            7,
        ),
    ] {
        let row = cells("Event", event);
        assert_eq!(
            [&row[0], &row[7], &row[8]],
            [&json!(last), &json!(first), &json!(count)]
        );
    }
}

#[test]
fn the_last_restart_of_a_pod_has_an_age() {
    let crashed = json!({ "restartCount": 4, "state": { "waiting": { "reason": "CrashLoopBackOff" } },
        "lastState": { "terminated": { "finishedAt": "2026-05-01T11:58:00Z" } } });
    let pod =
        json!({ "spec": { "containers": [{}] }, "status": { "containerStatuses": [crashed] } });
    assert_eq!(cells("Pod", pod)[3], "4 (2m ago)");
}
