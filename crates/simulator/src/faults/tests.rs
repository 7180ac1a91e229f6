use super::*;
use serde_json::Value;

fn call<'a>(method: &'a str, path: &'a str) -> Call<'a> {
    Call {
        server: "cloudscale",
        method,
        path,
        query: "tag%3Aa=b",
        operation: "list-servers",
    }
}

fn rule(text: &str) -> Result<Rule, String> {
    let raw: RawRule = serde_json::from_str(text).map_err(|error| error.to_string())?;
    Rule::try_from(raw).map_err(|error| error.to_string())
}

fn reset() -> Rule {
    Rule::new(Action::Reset)
}

#[test]
fn a_rule_means_the_calls_that_fit_all_its_parts() {
    for (rule, method, path, expected) in crate::table![
        reset(), "GET", "/v1/servers", true;
        reset().server("kubernetes"), "GET", "/v1/servers", false;
        reset().server("cloudscale"), "GET", "/v1/servers", true;
        reset().on("POST", "*"), "GET", "/v1/servers", false;
        reset().on("get", "*"), "GET", "/v1/servers", true;
        reset().on("*", "/v1/servers/*"), "GET", "/v1/servers", false;
        reset().on("*", "/v1/servers/*"), "PATCH", "/v1/servers/1", true;
        reset().query("*a=b*"), "GET", "/", true;
        reset().query("limit=*"), "GET", "/", false;
    ] {
        assert_eq!(rule.means(&call(method, path)), expected, "{rule:?}");
    }
}

#[test]
fn a_rule_strikes_after_some_calls_and_only_so_often() {
    let faults = Faults::default();
    faults.add(reset().after(2).times(3).named("cut")).unwrap();
    let struck: Vec<bool> = (0..7)
        .map(|_| faults.strike(&call("GET", "/")).fate == Some(Fate::Reset))
        .collect();
    assert_eq!(struck, [false, false, true, true, true, false, false]);
    assert_eq!(faults.rules()[0].1, 3);
}

#[test]
fn a_probability_is_drawn_from_the_seed() {
    let run = |seed| {
        let faults = Faults::new(Random::seeded(seed));
        faults.add(reset().probability(0.5)).unwrap();
        let strikes = (0..64).map(|_| faults.strike(&call("GET", "/")).fate.is_some());
        strikes.collect::<Vec<_>>()
    };
    assert_eq!(run(1), run(1));
    assert_ne!(run(1), run(2));
    assert!(run(1).contains(&true) && run(1).contains(&false));
}

#[test]
fn delays_add_up_and_the_first_other_action_decides() {
    let faults = Faults::default();
    let second = Duration::from_secs(1);
    let delay = |most| {
        Rule::new(Action::Delay {
            least: second,
            most,
        })
    };
    faults.add(delay(second).named("slow")).unwrap();
    faults.add(delay(3 * second)).unwrap();
    faults
        .add(rule(r#"{"action": "html", "name": "page"}"#).unwrap())
        .unwrap();
    faults.add(reset()).unwrap();
    let strike = faults.strike(&call("GET", "/"));
    assert!(strike.delay >= 2 * second && strike.delay < 4 * second);
    assert_eq!(strike.rule, "page");
    assert!(matches!(
        strike.fate,
        Some(Fate::Answer {
            code: 502,
            body: Some(FaultBody::Html(_)),
            ..
        })
    ));
    assert_eq!(
        faults.rules().last().unwrap().1,
        0,
        "a decided call meets no further rule"
    );
}

#[tokio::test(start_paused = true)]
async fn throttling_lets_a_rate_pass_and_says_when_to_come_back() {
    let faults = Faults::default();
    faults
        .add(rule(r#"{"action": "throttle", "per_second": 0.5}"#).unwrap())
        .unwrap();
    let retry_after = |faults: &Faults| match faults.strike(&call("GET", "/")).fate {
        Some(Fate::Answer {
            code: 429, headers, ..
        }) => Some(headers[0].1.clone()),
        _ => None,
    };
    assert_eq!(retry_after(&faults), None);
    assert_eq!(retry_after(&faults).as_deref(), Some("2"));
    tokio::time::sleep(Duration::from_millis(1500)).await;
    assert_eq!(retry_after(&faults).as_deref(), Some("1"));
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert_eq!(retry_after(&faults), None);
    assert_eq!(faults.rules()[0].1, 2, "only refused calls count as struck");
}

#[test]
fn a_stale_list_has_the_age_of_its_rule() {
    let faults = Faults::default();
    let stale = r#"{"action": "stale-list", "age": "30s", "path": "/v1/servers", "times": 1}"#;
    faults.add(rule(stale).unwrap()).unwrap();
    let fate = |path| faults.strike(&call("GET", path)).fate;
    assert_eq!(fate("/v1/networks"), None);
    let age = Duration::from_secs(30);
    assert_eq!(fate("/v1/servers"), Some(Fate::StaleList(age)));
    assert_eq!(fate("/v1/servers"), None);
}

#[test]
fn reads_can_be_made_to_fail_while_everything_else_works() {
    let faults = Faults::default();
    faults.fail_reads("cloudscale", true);
    let strike = faults.strike(&call("GET", "/v1/servers"));
    assert!(matches!(strike.fate, Some(Fate::Answer { code: 500, .. })));
    assert_eq!(strike.rule, READS_FAIL);
    assert_eq!(faults.strike(&call("POST", "/v1/servers")).fate, None);
    faults.fail_reads("cloudscale", false);
    assert_eq!(faults.strike(&call("GET", "/v1/servers")).fate, None);
}

#[test]
fn rules_are_listed_replaced_by_name_and_removed() {
    let faults = Faults::default();
    assert_eq!(faults.add(reset()).unwrap(), "fault-1");
    assert_eq!(faults.add(reset().named("a")).unwrap(), "a");
    faults.add(Rule::new(Action::Hang).named("a")).unwrap();
    let names: Vec<_> = faults
        .rules()
        .into_iter()
        .map(|(rule, _)| rule.name)
        .collect();
    assert_eq!(names, ["fault-1", "a"]);
    assert_eq!(faults.rules()[1].0.action, Action::Hang);
    assert!(faults.remove("a") && !faults.remove("a"));
    faults.clear();
    assert!(faults.rules().is_empty());
}

#[test]
fn every_action_survives_being_written_and_read() {
    for text in [
        r#"{"name":"x","action":"status","code":503,"headers":{"Retry-After":"7"},"body":{"a":1}}"#,
        r#"{"action":"events","events":[{"type":"BOOKMARK"},{"type":"ERROR"}]}"#,
        r#"{"action":"delay","delay":"1s..3s","times":2}"#,
        r#"{"action":"delay","delay":"500ms","times":"unlimited"}"#,
        r#"{"action":"reset","probability":0.25}"#,
        r#"{"action":"lost-answer","method":"POST","path":"/v1/*"}"#,
        r#"{"action":"twice","method":"POST"}"#,
        r#"{"action":"empty-list"}"#,
        r#"{"action":"without","member":"zone","path":"/v1/*"}"#,
        r#"{"action":"html","code":504}"#,
        r#"{"action":"hang","query":"*","server":"kubernetes"}"#,
        r#"{"action":"stale-list","age":"1m 30s"}"#,
        r#"{"action":"throttle","per_second":2.5,"after":9}"#,
        r#"{"action":"cut-stream","delay":"10s"}"#,
    ] {
        let first = rule(text).unwrap();
        let written = serde_json::to_string(&RawRule::from(&first)).unwrap();
        assert_eq!(rule(&written).unwrap(), first, "{written}");
    }
    let faults = Faults::default();
    faults
        .add(rule(r#"{"action":"delay","delay":"1s..3s"}"#).unwrap())
        .unwrap();
    let shown = faults.to_json();
    assert_eq!(shown["rules"][0]["delay"], "1s..3s");
    assert_eq!(shown["rules"][0]["times"], "unlimited");
    assert_eq!(shown["rules"][0]["struck"], Value::from(0));
}

#[test]
fn a_bad_rule_is_refused_with_what_is_allowed() {
    for (text, fragment) in [
        (
            r#"{"action":"explode"}"#,
            "allowed are status, events, delay",
        ),
        ("{}", "action \"\" is not known"),
        (r#"{"action":"status"}"#, "needs the key code"),
        (
            r#"{"action":"status","code":42}"#,
            "42 is not an HTTP status",
        ),
        (
            r#"{"action":"status","code":503,"headers":{"a b":"c"}}"#,
            "header \"a b\"",
        ),
        (r#"{"action":"without"}"#, "needs the key member"),
        (r#"{"action":"delay"}"#, "needs the key delay"),
        (
            r#"{"action":"delay","delay":"soon"}"#,
            "\"soon\" is not a length of time",
        ),
        (
            r#"{"action":"delay","delay":"3s..1s"}"#,
            "ends before it begins",
        ),
        (
            r#"{"action":"reset","code":500}"#,
            "does not take the key code",
        ),
        (r#"{"action":"reset","times":-1}"#, "cannot be negative"),
        (r#"{"action":"reset","times":"often"}"#, "\"unlimited\""),
        (r#"{"action":"reset","probability":2}"#, "between 0 and 1"),
        (r#"{"action":"throttle","per_second":0}"#, "greater than 0"),
        (
            r#"{"action":"reset","colour":"red"}"#,
            "unknown field `colour`",
        ),
    ] {
        let message = rule(text).unwrap_err();
        assert!(message.contains(fragment), "{text}: {message}");
    }
}

#[tokio::test]
async fn a_strike_can_be_waited_for() {
    let faults = Faults::default();
    faults.add(reset().on("PATCH", "*").named("cut")).unwrap();
    let waiting = tokio::spawn({
        let faults = faults.clone();
        async move { faults.struck("cut", 2).await }
    });
    for method in ["PATCH", "GET"] {
        faults.strike(&call(method, "/"));
        tokio::task::yield_now().await;
    }
    assert!(!waiting.is_finished());
    faults.strike(&call("PATCH", "/"));
    waiting.await.unwrap();
}
