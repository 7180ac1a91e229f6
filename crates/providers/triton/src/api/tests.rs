//! Calls over pipes with a paused clock.

use std::collections::BTreeMap;
use std::time::Duration;

use bowline_core::CloudErrorKind;
use bowline_simulator::faults::{Action, Rule};
use bytes::Bytes;
use http::Request;
use serde_json::{Value, json};
use tokio::time::Instant;
use uuid::Uuid;

use super::*;
use crate::testing::{Harness, refusal, reply, with};

const ID: Uuid = Uuid::from_u128(0x5b1e_2d3c_0000_4000_8000_0000_0000_0001);
const ACCOUNT: &str = r#"{"id":"aaaaaaaa-0000-4000-8000-00000000000a","login":"acme"}"#;

fn account() -> Value {
    serde_json::from_str(ACCOUNT).unwrap()
}

fn query(request: &Request<Bytes>, name: &str) -> usize {
    let query = request.uri().query().unwrap();
    let mut pairs = query.split('&').filter_map(|it| it.split_once('='));
    let (_, value) = pairs.find(|(key, _)| *key == name).unwrap();
    value.parse().unwrap()
}

#[tokio::test(start_paused = true)]
async fn triton_case_06_a_clock_that_is_off_is_corrected_once() {
    for skew in [600, -600] {
        let clock = std::sync::Arc::new(std::sync::OnceLock::<bowline_http::Clock>::new());
        let servers_clock = clock.clone();
        let test = Harness::new(move |request| {
            let date = request.headers()["date"].to_str().unwrap();
            let sent = jiff::fmt::rfc2822::parse(date).unwrap().timestamp();
            let ours = servers_clock.get().unwrap().now();
            let servers = ours + jiff::SignedDuration::from_secs(skew);
            if (sent.as_second() - servers.as_second()).abs() > 300 {
                let text =
                    "Authorization header invalid: clock skew of 600.6s was greater than 300s";
                let printer = jiff::fmt::rfc2822::DateTimePrinter::new();
                let date = printer.timestamp_to_rfc9110_string(&servers).unwrap();
                return with(refusal(400, "InvalidHeader", text), "date", &date);
            }
            reply(200, &account())
        });
        clock.set(test.world.clock.clone()).unwrap();
        let api = test.api(&[]);
        api.account().await.unwrap();
        assert_eq!(test.lines(), ["GET /acme", "GET /acme"]);
        api.account().await.unwrap();
        assert_eq!(test.lines().len(), 3, "later calls use what was learned");
    }
}

#[tokio::test(start_paused = true)]
async fn triton_case_06_a_second_refusal_in_a_row_is_reported() {
    let text = "Authorization header invalid: clock skew of 600.6s was greater than 300s";
    let test = Harness::new(move |_| {
        let refused = refusal(400, "InvalidHeader", text);
        with(refused, "date", "Tue, 04 Aug 2026 10:20:30 GMT")
    });
    let api = test.api(&[]);
    let error = api.account().await.unwrap_err();
    assert_eq!(test.lines().len(), 2);
    assert!(error.to_string().contains("clock skew"), "{error}");
    assert_eq!(error.kind(), CloudErrorKind::Invalid);
}

#[tokio::test(start_paused = true)]
async fn triton_case_77_a_skew_error_without_request_id_is_handled() {
    let mut first = true;
    let test = Harness::new(move |_| {
        if std::mem::take(&mut first) {
            let refused = refusal(400, "RequestExpired", "too old");
            return with(refused, "date", "Tue, 04 Aug 2026 10:20:30 GMT");
        }
        with(refusal(403, "NotAuthorized", "no"), "request-id", "r-1")
    });
    let error = test.api(&[]).account().await.unwrap_err();
    assert_eq!(error.kind(), CloudErrorKind::Denied);
    // Where there is a request id, the error has it.
    let words = "NotAuthorized: no (request id r-1)";
    assert!(error.to_string().ends_with(words), "{error}");
    let test = Harness::new(|_| refusal(400, "InvalidHeader", "clock skew"));
    let error = test.api(&[]).account().await.unwrap_err();
    assert!(!error.to_string().contains("request id"), "{error}");
}

fn machines(range: std::ops::Range<usize>) -> Value {
    let machine = |n: usize| json!({"id": Uuid::from_u128(n as u128), "name": format!("m-{n}")});
    range.map(machine).collect()
}

#[tokio::test(start_paused = true)]
async fn triton_case_07_pages_are_read_until_one_is_not_full() {
    for (total, requests) in [(2500, 3), (2000, 3), (999, 1), (0, 1)] {
        let test = Harness::new(move |request| {
            assert_eq!(query(request, "limit"), 1000);
            let offset = query(request, "offset");
            let end = total.min(offset + 1000);
            let page = machines(offset.min(end)..end);
            let count = page.as_array().unwrap().len().to_string();
            with(reply(200, &page), "x-resource-count", &count)
        });
        let api = test.api(&[]);
        let list = api.machines(&MachineQuery::default()).await.unwrap();
        assert_eq!((list.items.len(), list.pages), (total, requests));
        let wanted: Vec<String> = (0..requests)
            .map(|page| format!("GET /acme/machines?limit=1000&offset={}", page * 1000))
            .collect();
        assert_eq!(test.lines(), wanted);
    }
}

#[tokio::test(start_paused = true)]
async fn a_machine_on_two_pages_is_one_and_an_unreadable_one_is_reported() {
    let test = Harness::new(|request| {
        let page = if query(request, "offset") == 0 {
            machines(0..1000)
        } else {
            let mut page = machines(999..1001);
            page.as_array_mut().unwrap().push(json!({"id": 7}));
            page
        };
        reply(200, &page)
    });
    let api = test.api(&[]);
    let list = api.machines(&MachineQuery::default()).await.unwrap();
    assert_eq!((list.items.len(), list.bad.len(), list.pages), (1001, 1, 2));
}

#[tokio::test(start_paused = true)]
async fn triton_case_08_throttled_reads_are_tried_again_and_a_creation_never_blindly() {
    let mut left = 2;
    let test = Harness::new(move |_| {
        if left > 0 {
            left -= 1;
            let text = "You have exceeded your request rate of 10 r/s.";
            return refusal(429, "TooManyRequestsError", text);
        }
        reply(200, &account())
    });
    let start = Instant::now();
    test.api(&[]).account().await.unwrap();
    assert_eq!(test.lines().len(), 3);
    // 0.25 to 0.5 s, then 0.5 to 1 s.
    let waited = start.elapsed();
    assert!(waited >= Duration::from_millis(750) && waited <= Duration::from_millis(1500));

    let test = Harness::new(|_| reply(200, &Value::Null));
    let mut breaks = Rule::new(Action::LostAnswer);
    breaks.method = Some("POST".to_owned());
    test.world.faults.add(breaks).unwrap();
    let new = NewMachine::default();
    let error = test.api(&[]).create_machine(&new).await.unwrap_err();
    assert_eq!(error.kind(), CloudErrorKind::Unknown, "{error}");
    let calls = test.world.journal.entries().len();
    assert_eq!(calls, 1, "one POST, and the caller looks for its tags");
}

#[tokio::test(start_paused = true)]
async fn triton_case_09_roles_are_asked_for_only_where_the_server_takes_them() {
    let test = Harness::new(|request| match request.uri().path() {
        "/acme/machines" | "/acme/networks" | "/acme/fwrules" => reply(200, &json!([])),
        path if path.contains("/fabrics/") => {
            reply(200, &json!({"id": ID, "name": "f", "vlan_id": 2}))
        }
        _ => reply(200, &json!({})),
    });
    let api = test.api(&[("TRITON_ROLE", "ops,dev")]);
    api.machines(&MachineQuery::default()).await.unwrap();
    api.networks().await.unwrap();
    api.firewall_rules().await.unwrap();
    api.delete_firewall_rule(ID).await.unwrap();
    let tags = BTreeMap::from([("a".to_owned(), TagValue::from("b"))]);
    api.add_tags(ID, &tags).await.unwrap();
    api.tags(ID).await.unwrap();
    api.delete_tag(ID, "a/b").await.unwrap();
    api.add_metadata(ID, &BTreeMap::new()).await.unwrap();
    api.set_routes(2, ID, &BTreeMap::new()).await.unwrap();
    api.services().await.unwrap();
    assert_eq!(
        test.lines(),
        [
            "GET /acme/machines?as-role=ops%2Cdev&limit=1000&offset=0".to_owned(),
            "GET /acme/networks?as-role=ops%2Cdev".to_owned(),
            "GET /acme/fwrules?as-role=ops%2Cdev".to_owned(),
            format!("DELETE /acme/fwrules/{ID}?as-role=ops%2Cdev"),
            format!("POST /acme/machines/{ID}/tags"),
            format!("GET /acme/machines/{ID}/tags"),
            format!("DELETE /acme/machines/{ID}/tags/a%2Fb"),
            format!("POST /acme/machines/{ID}/metadata"),
            format!("PUT /acme/fabrics/default/vlans/2/networks/{ID}"),
            "GET /acme/services?as-role=ops%2Cdev".to_owned(),
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn what_every_request_carries() {
    let test = Harness::new(|_| reply(200, &json!({})));
    let api = test.api(&[("TRITON_ACT_AS", "shop")]);
    api.tags(ID).await.unwrap();
    api.add_metadata(ID, &BTreeMap::new()).await.unwrap();
    api.ping().await.unwrap();
    api.delete_key("98:e2").await.unwrap();
    assert_eq!(test.headers("accept-version"), ["~9||~8"; 4]);
    assert_eq!(test.headers("accept"), ["application/json"; 4]);
    let types = test.headers("content-type");
    assert_eq!(types, ["", "application/json", "", ""]);
    let agent = test.headers("user-agent").remove(0);
    assert!(agent.starts_with("bowline/"), "{agent}");
    assert!(agent.ends_with(" triton"), "{agent}");
    let signed = test.headers("authorization");
    let begin = "Signature keyId=\"/acme/keys/98:e2:6b:ef";
    assert!(signed[0].starts_with(begin), "{}", signed[0]);
    assert_eq!(signed[2], "", "nobody needs to be known for a ping");
    // The account acted as stands in paths, but for keys, which belong to the key's own account.
    assert!(test.lines()[0].starts_with("GET /shop/machines/"));
    assert_eq!(test.lines()[3], "DELETE /acme/keys/98:e2");
}

#[tokio::test(start_paused = true)]
async fn what_an_answer_about_one_machine_means() {
    let missing = json!({"code": "ResourceNotFound", "message": "VM not found"});
    for (status, body, wanted) in [
        (200, json!({"id": ID, "state": "running"}), "shown"),
        (200, json!({"id": Uuid::nil()}), "error"),
        (200, json!({"name": "no id"}), "error"),
        (410, json!({"id": ID, "state": "deleted"}), "destroyed"),
        (404, missing, "missing"),
        (404, json!({"error": "no such page"}), "error"),
        (401, json!({"code": "InvalidCredentials"}), "error"),
        (403, json!({"code": "NotAuthorized"}), "error"),
        (409, json!({"code": "InvalidArgument"}), "error"),
    ] {
        let test = Harness::new(move |_| reply(status, &body));
        let got = match test.api(&[]).machine(ID).await {
            Ok(MachineRead::Shown(_)) => "shown",
            Ok(MachineRead::Destroyed) => "destroyed",
            Ok(MachineRead::Missing(words)) => {
                assert_eq!(words, "VM not found");
                "missing"
            }
            Err(_) => "error",
        };
        assert_eq!(got, wanted, "{status}");
        assert_eq!(test.lines().len(), 1, "{status}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_outage_of_the_name_service_is_not_asked_about_again_and_other_errors_are() {
    for (message, requests) in [("Unable to contact the Triton CNS API", 1), ("oops", 6)] {
        let test = Harness::new(move |_| refusal(500, "InternalError", message));
        let api = test.api(&[]);
        let error = api.tags(ID).await.unwrap_err();
        assert_eq!(error.is_cns_down(), requests == 1);
        assert_eq!(error.kind(), CloudErrorKind::Unavailable);
        assert_eq!(test.lines().len(), requests);
    }
}

#[tokio::test(start_paused = true)]
async fn triton_case_76_no_write_before_maintenance_ends_and_reads_go_on() {
    // With an end that is far away.
    let test = Harness::new(|request| {
        if request.method() == http::Method::GET {
            return reply(200, &json!({}));
        }
        let refused = refusal(503, "ServiceUnavailableError", "maintenance");
        with(refused, "retry-after", "600")
    });
    let api = test.api(&[]);
    let error = api.delete_tag(ID, "a").await.unwrap_err();
    assert_eq!(error.retry_hint(), Some(Duration::from_secs(600)));
    assert_eq!(test.lines().len(), 1);
    tokio::time::advance(Duration::from_secs(599)).await;
    let error = api.delete_tag(ID, "a").await.unwrap_err();
    let words = error.to_string();
    assert!(words.contains("in maintenance until"), "{words}");
    assert_eq!(error.kind(), CloudErrorKind::Unavailable);
    assert_eq!(test.lines().len(), 1, "nothing was sent");
    api.tags(ID).await.unwrap();
    assert_eq!(test.lines().len(), 2);
    tokio::time::advance(Duration::from_secs(2)).await;
    api.delete_tag(ID, "a").await.unwrap_err();
    assert_eq!(test.lines().len(), 3, "it is tried again after that");

    // Nor in a short one.
    let test = Harness::new(|_| {
        let refused = refusal(503, "ServiceUnavailableError", "maintenance");
        with(refused, "retry-after", "20")
    });
    let api = test.api(&[]);
    for _ in 0..3 {
        api.delete_tag(ID, "a").await.unwrap_err();
        tokio::time::advance(Duration::from_secs(6)).await;
    }
    assert_eq!(test.lines().len(), 1, "one write, and then none");

    // Without an end it is tried as anything else, and the next write is sent.
    let test = Harness::new(|_| refusal(503, "ServiceUnavailableError", "maintenance"));
    let api = test.api(&[]);
    api.delete_tag(ID, "a").await.unwrap_err();
    assert_eq!(test.lines().len(), 6);
    api.delete_tag(ID, "a").await.unwrap_err();
    assert_eq!(test.lines().len(), 12);
}

#[tokio::test(start_paused = true)]
async fn refusals_have_their_kinds() {
    use CloudErrorKind::{Conflict, Denied, Invalid};
    for (status, code, message, kind) in [
        (403, "NotAuthorized", "Quota exceeded; to have your", Denied),
        (409, "ValidationFailed", "error adding tags", Invalid),
        (409, "InvalidArgument", "bad", Invalid),
        (409, "CannotDestroyMachineError", "protected", Conflict),
        (422, "InvalidParameters", "bad", Invalid),
        (400, "InvalidHeader", "not supported", Invalid),
        (401, "InvalidCredentials", "no", Denied),
    ] {
        let test = Harness::new(move |_| refusal(status, code, message));
        let error = test.api(&[]).delete_machine(ID).await.unwrap_err();
        assert_eq!((error.kind(), error.code()), (kind, code));
        assert_eq!(error.is_quota(), message.starts_with("Quota"));
        let cloud = bowline_core::CloudError::from(error);
        assert!(cloud.chain().contains(code), "{}", cloud.chain());
    }
    let body = json!({"code": "ValidationFailed", "message": "Invalid VM parameters",
        "errors": [{"field": "alias", "code": "Duplicate", "message": "Already exists"}]});
    let test = Harness::new(move |_| reply(409, &body));
    let new = NewMachine::default();
    let error = test.api(&[]).create_machine(&new).await.unwrap_err();
    assert!(error.is_duplicate_name());
    let test = Harness::new(|_| refusal(403, "NotAuthorized", "QuotaExceeded; RAM"));
    assert!(test.api(&[]).account().await.unwrap_err().is_quota());
}

#[tokio::test(start_paused = true)]
async fn names_that_mean_another_thing_are_never_sent() {
    let test = Harness::new(|_| reply(200, &json!({})));
    let api = test.api(&[]);
    for key in [
        "account", "machine", "image", "package", "dataset", "uuid", "as-role",
    ] {
        let tags = BTreeMap::from([(key.to_owned(), TagValue::from("x"))]);
        let error = api.add_tags(ID, &tags).await.unwrap_err();
        assert_eq!(error.kind(), CloudErrorKind::Invalid);
    }
    assert_eq!(test.lines(), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn lists_without_pages_are_read_in_an_order_of_their_own() {
    let (a, b) = (Uuid::from_u128(1), Uuid::from_u128(2));
    let test = Harness::new(move |request| match request.uri().path() {
        "/acme/networks" => {
            let networks = json!([{"id": b, "public": true}, {"id": "x"}, {"id": a}]);
            reply(200, &networks)
        }
        "/acme/images" => {
            let images = json!([{"id": a, "name": "clb"}, {"id": b, "name": "clb-2"}]);
            reply(200, &images)
        }
        "/acme/packages/g4" => reply(200, &json!({"id": a, "name": "g4"})),
        "/acme/limits" => reply(200, &json!([{"value": 3, "used": 1, "by": "ram"}])),
        "/acme/keys" => reply(200, &json!([{"name": "k", "fingerprint": "98:e2"}])),
        "/--ping" => {
            let body = json!({"ping": "pong", "cloudapi": {"versions": ["7.0.0", "9.0.0"]}});
            with(reply(200, &body), "triton-datacenter-name", "eg-1")
        }
        _ => refusal(404, "ResourceNotFound", "none"),
    });
    let api = test.api(&[]);
    let networks = api.networks().await.unwrap();
    let ids: Vec<Uuid> = networks.iter().map(|network| network.id).collect();
    assert_eq!(ids, [a, b]);
    assert_eq!(api.images("clb").await.unwrap().len(), 1);
    assert_eq!(api.package("g4").await.unwrap().unwrap().name, "g4");
    assert_eq!(api.package("g5").await.unwrap(), None);
    assert_eq!(api.network(a).await.unwrap(), None);
    assert_eq!(api.limits().await.unwrap()[0].by, "ram");
    assert_eq!(api.keys().await.unwrap()[0].name, "k");
    let ping = api.ping().await.unwrap();
    assert_eq!(ping.datacenter.as_deref(), Some("eg-1"));
    assert_eq!(ping.versions, ["7.0.0", "9.0.0"]);
    assert_eq!(api.delete_tag(ID, "gone").await.unwrap(), Deleted::Before);
}
