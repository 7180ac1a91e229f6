//! The provider as a whole, before a small API.

use std::collections::BTreeMap;

use bowline_core::CloudErrorKind;
use bowline_simulator::faults::{Action, Rule};
use bowline_simulator::serve::Server;
use serde_json::json;

use super::*;
use crate::api::{Api, LoadBalancerChange, NewLoadBalancer};
use crate::testing::{ENDPOINT, Harness, Log, status};

const ID: &str = "7d2f7f4e-22d1-4b38-8f0b-94c8a54d6d01";

fn config(pairs: &[(&str, &str)]) -> Config {
    let map: BTreeMap<&str, &str> = pairs.iter().copied().collect();
    let read = Config::read(|name| map.get(name).map(|it| (*it).to_owned()), None);
    read.unwrap()
}

const KEYED: [(&str, &str); 3] = [
    ("EXOSCALE_API_KEY", "EXOk"),
    ("EXOSCALE_API_SECRET", "s"),
    ("EXOSCALE_API_ZONE", "ch-gva-2"),
];

#[tokio::test(start_paused = true)]
async fn exoscale_case_11_the_zone_is_served_where_the_configured_api_says() {
    let test = Harness::new();
    let zone = Server::builder(&test.world, test.sim.clone()).pipe("gva.sim:80");
    test.sim.allow("EXOk", "s", &[]);
    let zones = json!([{"name": "ch-gva-2", "api-endpoint": "http://gva.sim/v2"}]);
    test.sim.set_zones(zones);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("credentials.json");
    let pair = json!({"name": "n", "api_key": "EXOk", "api_secret": "s"});
    std::fs::write(&path, pair.to_string()).unwrap();
    let config = config(&[
        ("EXOSCALE_API_CREDENTIALS_FILE", path.to_str().unwrap()),
        ("EXOSCALE_API_ZONE", "ch-gva-2"),
        ("EXOSCALE_API_ENDPOINT", ENDPOINT),
    ]);
    let cloud = build(&config, test.seams()).await.unwrap();
    // The list is asked for without a signature, then the pair is tried where the zone is.
    assert_eq!(test.calls(), ["GET /v2/zone 200", "GET /v2/zone 200 EXOk"]);
    assert_eq!(cloud.ready(), Ok(()));
    assert_eq!(
        (cloud.name().as_str(), cloud.provider()),
        ("exoscale", "exoscale")
    );
    assert!(cloud.has_cluster_id());
    let foreign = cloud
        .match_node(&crate::testing::node("n", "hcloud://42"))
        .claim;
    assert_eq!(foreign, bowline_core::Claim::Foreign);
    // Without the zone's own host the same is not ready, so that was where the pair was tried.
    zone.shutdown().await;
    let cloud = build(&config, test.seams()).await.unwrap();
    assert!(cloud.ready().is_err());
}

#[tokio::test(start_paused = true)]
async fn exoscale_case_12_a_zone_that_is_not_listed_stops_the_start() {
    let test = Harness::new();
    test.sim
        .set_zones(json!([{"name": "at-vie-1", "api-endpoint": "http://x/v2"}]));
    let config = config(&[&KEYED[..], &[("EXOSCALE_API_ENDPOINT", ENDPOINT)]].concat());
    let error = build(&config, test.seams()).await.err().unwrap();
    let text = error.to_string();
    assert!(text.contains("\"ch-gva-2\" not found"), "{text}");
    assert!(text.contains("at-vie-1"), "{text}");
}

#[tokio::test(start_paused = true)]
async fn exoscale_case_13_pre_production_lists_its_zones() {
    let test = Harness::new();
    let authority = "ppapi-ch-gva-2.exoscale.com:443";
    let _server = Server::builder(&test.world, test.sim.clone()).pipe(authority);
    let zones = json!([{"name": "ch-gva-2", "api-endpoint": "https://api.localhost/v2"}]);
    test.sim.set_zones(zones);
    let config = config(&[&KEYED[..], &[("EXOSCALE_API_ENVIRONMENT", "ppapi")]].concat());
    build(&config, test.seams()).await.unwrap();
    assert_eq!(test.calls(), ["GET /v2/zone 200"]);
}

#[tokio::test(start_paused = true)]
async fn given_credentials_need_no_call_at_the_start() {
    let test = Harness::new();
    let cloud = build(&config(&KEYED), test.seams()).await.unwrap();
    assert_eq!(cloud.ready(), Ok(()));
    assert_eq!(test.calls(), [""; 0]);
    assert!(cloud.instances().is_some() && cloud.balancers().is_some());
}

fn failing(code: u16, method: &str, times: u64) -> Rule {
    let rule = status(code, None).named("failing");
    rule.on(method, "/v2/load-balancer*").times(times)
}

#[tokio::test(start_paused = true)]
async fn what_may_be_repeated_is_repeated_four_times() {
    // (method, status of four answers, whether the fifth is asked for)
    for (method, code, repeated) in [
        ("GET", 500, true),
        ("GET", 502, true),
        ("GET", 501, false),
        ("PUT", 500, true),
        ("DELETE", 504, true),
        ("POST", 429, true),
        ("POST", 503, true),
        ("POST", 500, false),
        ("POST", 502, false),
        ("GET", 404, false),
        ("POST", 409, false),
    ] {
        let test = Harness::new();
        test.sim.allow("EXOk", "s", &[]);
        test.world.faults.add(failing(code, method, 4)).unwrap();
        let api = Api::new(test.client(Some(("EXOk", "s"))));
        let id = ID.parse().unwrap();
        let start = tokio::time::Instant::now();
        match method {
            "GET" => drop(api.load_balancers().await),
            "PUT" => drop(
                api.update_load_balancer(id, &LoadBalancerChange::default())
                    .await,
            ),
            "DELETE" => drop(api.delete_load_balancer(id).await),
            _ => drop(api.create_load_balancer(&NewLoadBalancer::default()).await),
        }
        let calls = if repeated { 5 } else { 1 };
        assert_eq!(
            test.calls().len(),
            calls,
            "{method} {code}: {:?}",
            test.calls()
        );
        let waited = start.elapsed().as_secs();
        assert!(
            !repeated || (15..18).contains(&waited),
            "{method} {code}: {waited} s"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_lost_answer_is_asked_for_again_unless_it_was_a_creation() {
    for (action, method, calls, seconds) in [
        (Action::Reset, "GET", 2, 1),
        (Action::LostAnswer, "PUT", 2, 1),
        (Action::LostAnswer, "POST", 1, 0),
        (Action::Hang, "GET", 2, 31),
        (Action::Hang, "POST", 1, 30),
    ] {
        let test = Harness::new();
        test.sim.allow("EXOk", "s", &[]);
        let rule = Rule::new(action.clone()).named("lost");
        let rule = rule.on(method, "/v2/load-balancer*").times(1);
        test.world.faults.add(rule).unwrap();
        let api = Api::new(test.client(Some(("EXOk", "s"))));
        let start = tokio::time::Instant::now();
        match method {
            "GET" => drop(api.load_balancers().await.unwrap()),
            "PUT" => {
                let change = LoadBalancerChange::default();
                let done = api.update_load_balancer(ID.parse().unwrap(), &change).await;
                drop(done.unwrap());
            }
            _ => {
                let made = api.create_load_balancer(&NewLoadBalancer::default()).await;
                assert_eq!(made.unwrap_err().kind(), CloudErrorKind::Unknown);
            }
        }
        assert_eq!(start.elapsed().as_secs(), seconds, "{method} {action:?}");
        assert_eq!(
            test.calls().len(),
            calls,
            "{method} {action:?}: {:?}",
            test.calls()
        );
    }
}

#[tokio::test(start_paused = true)]
async fn every_attempt_is_signed_anew() {
    let test = Harness::new();
    test.sim.allow("EXOk", "s", &[]);
    let rule = Rule::new(Action::LostAnswer).named("lost").times(2);
    test.world.faults.add(rule).unwrap();
    let api = Api::new(test.client(Some(("EXOk", "s"))));
    api.instances().await.unwrap();
    let mut signatures = test.sim.signatures();
    assert_eq!(signatures.len(), 3, "{signatures:?}");
    signatures.dedup();
    assert_eq!(signatures.len(), 3, "{signatures:?}");
}

#[tokio::test(start_paused = true)]
async fn errors_have_their_kinds_and_the_clouds_words() {
    use CloudErrorKind::{Conflict, Denied, Invalid, NotFound, Throttled, Unavailable, Unknown};
    for (code, kind, of_list) in [
        (400, Invalid, Invalid),
        (401, Denied, Denied),
        (403, Denied, Denied),
        (404, NotFound, Unknown),
        (409, Conflict, Conflict),
        (422, Invalid, Invalid),
        (429, Throttled, Throttled),
        (500, Unavailable, Unavailable),
        (503, Unavailable, Unavailable),
    ] {
        let test = Harness::new();
        test.sim.allow("EXOk", "unlikely", &[]);
        let body = json!({"message": "because", "errors": [{"message": "of this"}]});
        let rule = status(code, Some(body)).named("all");
        test.world.faults.add(rule).unwrap();
        let api = Api::new(test.client(Some(("EXOk", "unlikely"))));
        let one = api.load_balancer(ID.parse().unwrap()).await.unwrap_err();
        assert_eq!(one.kind(), kind, "{code}");
        let text = one.to_string();
        let wanted = format!("GET load-balancer/:id (id={ID}) answered {code} ");
        assert!(
            text.contains(&wanted) && text.ends_with("because (of this)"),
            "{text}"
        );
        let list = api.load_balancers().await.unwrap_err();
        assert_eq!(list.kind(), of_list, "{code}");
        let gone = api.delete_load_balancer(ID.parse().unwrap()).await;
        let error = gone.unwrap_err();
        assert_eq!(error.kind(), of_list, "a list that fails proves nothing");
    }
}

#[tokio::test(start_paused = true)]
async fn a_trace_shows_calls_and_no_credentials() {
    let (log, _guard) = Log::keep();
    let test = Harness::new();
    test.sim.allow("EXOk", "hunter2", &[]);
    for (value, traced) in [("", false), ("1", true)] {
        let config = config(&[&KEYED[..], &[("EXOSCALE_TRACE", value)]].concat());
        let base = bowline_http::BaseUrl::parse(ENDPOINT).unwrap();
        let http = client(&config, &test.seams(), base);
        http.set_auth(KeyPair {
            key: "EXOk".to_owned(),
            secret: bowline_core::Secret::new("hunter2"),
        });
        let body = NewLoadBalancer {
            name: "k8s-x".to_owned(),
            ..NewLoadBalancer::default()
        };
        Api::new(http).create_load_balancer(&body).await.unwrap();
        let text = log.text();
        for part in [
            "http://api.localhost/v2/load-balancer",
            "k8s-x",
            "success",
            "bowline/",
        ] {
            assert_eq!(text.contains(part), traced, "{part} in {text}");
        }
        for secret in ["hunter2", "signature=", "EXO2-HMAC"] {
            assert!(!text.contains(secret), "{secret} in {text}");
        }
    }
    let agent = concat!("bowline/", env!("CARGO_PKG_VERSION"), " (exoscale)");
    assert!(log.text().contains(agent), "{}", log.text());
}
