//! `bowline simulate`, used over the network as a stranger would.

use std::io::{Read, Write};
use std::net::TcpStream;

use serde_json::{Value, json};

use crate::process::{Running, bowline, run};

const FIXTURE: &str = "\
tokens: [{value: abc}]
machines:
- {name: worker-a, uuid: 3f9b1c52-6a7d-4e08-9c41-d2f0a8b7e613}
- {name: worker-b, status: stopped}
";

/// One request, one answer: status and body.
fn call(address: &str, method: &str, path: &str, body: &Value) -> (u16, String) {
    let mut stream = TcpStream::connect(address).unwrap();
    let body = if body.is_null() {
        String::new()
    } else {
        body.to_string()
    };
    let length = body.len();
    write!(
        stream,
        "{method} {path} HTTP/1.1\r\nhost: {address}\r\nauthorization: Bearer abc\r\n\
         content-type: application/json\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{body}"
    )
    .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    (status, body.to_owned())
}

fn json(address: &str, method: &str, path: &str, body: &Value) -> Value {
    let (status, text) = call(address, method, path, body);
    assert_eq!(status, 200, "{method} {path}: {text}");
    serde_json::from_str(&text).unwrap()
}

/// The `host:port` in a greeting such as `…, simulated, on http://127.0.0.1:1234/v1`.
fn address(greeting: &str) -> String {
    let (_, rest) = greeting.split_once("://").unwrap();
    rest.trim().trim_end_matches("/v1").to_owned()
}

#[test]
fn cloudscale_as_a_server_greets_serves_records_and_obeys() {
    let folder = tempfile::tempdir().unwrap();
    let fixture = folder.path().join("cloud.yaml");
    std::fs::write(&fixture, FIXTURE).unwrap();
    let fixture = fixture.to_str().unwrap();
    let mut running = Running::start(bowline(&[
        "simulate",
        "cloudscale",
        "--listen",
        "127.0.0.1:0",
        "--fixture",
        fixture,
    ]));
    let address = address(&running.says("cloudscale.ch, simulated, on http://127.0.0.1:"));
    running.says("machines  2");
    running.says("token     abc");
    running.says("journal");
    running.says("state");

    let servers = json(&address, "GET", "/v1/servers", &Value::Null);
    let names: Vec<&Value> = servers
        .as_array()
        .unwrap()
        .iter()
        .map(|s| &s["name"])
        .collect();
    assert_eq!(names, ["worker-a", "worker-b"]);
    let one = |uuid: &str| {
        json(
            &address,
            "GET",
            &format!("/v1/servers/{uuid}"),
            &Value::Null,
        )
    };
    let a = "3f9b1c52-6a7d-4e08-9c41-d2f0a8b7e613";
    json(
        &address,
        "POST",
        "/_sim/stop",
        &json!({ "machine": "worker-a" }),
    );
    assert_eq!(one(a)["status"], "stopped");
    json(
        &address,
        "POST",
        "/_sim/rename",
        &json!({ "machine": a, "name": "worker-z" }),
    );
    json(
        &address,
        "POST",
        "/_sim/migrate",
        &json!({ "machine": a, "zone": "lpg1" }),
    );
    let moved = one(a);
    assert_eq!(
        (&moved["name"], &moved["zone"]["slug"]),
        (&json!("worker-z"), &json!("lpg1"))
    );
    json(
        &address,
        "POST",
        "/_sim/add",
        &json!({ "name": "worker-c" }),
    );
    json(
        &address,
        "POST",
        "/_sim/destroy",
        &json!({ "machine": "worker-b" }),
    );
    let state = json(&address, "GET", "/_sim/state", &Value::Null).to_string();
    assert!(
        state.contains("worker-c") && !state.contains("worker-b"),
        "{state}"
    );
    let fault = json!({ "name": "busy", "path": "/v1/*", "action": "status", "code": 503 });
    json(&address, "POST", "/_sim/faults", &fault);
    assert_eq!(call(&address, "GET", "/v1/servers", &Value::Null).0, 503);
    let (status, text) = call(
        &address,
        "POST",
        "/_sim/stop",
        &json!({ "machine": "nobody" }),
    );
    assert_eq!(status, 400);
    assert!(text.contains("nobody"), "{text}");
    let (status, text) = call(&address, "POST", "/_sim/fly", &Value::Null);
    assert_eq!(status, 400);
    assert!(
        text.contains("fly") && text.contains("destroy"),
        "what is allowed: {text}"
    );

    let (_, journal) = call(&address, "GET", "/_sim/journal", &Value::Null);
    let calls: Vec<Value> = journal
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let last = calls.last().unwrap();
    assert_eq!(
        (&last["path"], &last["status"]),
        (&json!("/v1/servers"), &json!(503))
    );
    assert_eq!(
        (&last["fault"], &last["method"]),
        (&json!("busy"), &json!("GET"))
    );
    for key in ["time", "query", "body", "caller"] {
        assert!(last.get(key).is_some(), "{key} is not in {last}");
    }
    json(&address, "POST", "/_sim/reset", &Value::Null);
    assert_eq!(
        json(&address, "GET", "/v1/servers", &Value::Null)[1]["name"],
        "worker-b"
    );

    let taken = run(bowline(&["simulate", "cloudscale", "--listen", &address]));
    taken.failed_with(&[&address, "another program already does"]);
    running.signal("INT");
    assert_eq!(running.end().code, Some(0), "Ctrl-C is the way to end it");
}

#[test]
fn a_bad_fixture_is_told_with_its_place_and_what_is_allowed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("cloud.yaml");
    let fixture = path.to_str().unwrap();
    let simulate = || {
        let line = [
            "simulate",
            "cloudscale",
            "--listen",
            "127.0.0.1:0",
            "--fixture",
            fixture,
        ];
        run(bowline(&line))
    };
    simulate().failed_with(&["cloud.yaml", "No such file or directory"]);
    for (text, words) in [
        (
            "machines:\n  - name: a\n    flavour: b\n",
            &["cloud.yaml", "line 3", "column 5", "flavour", "flavor"][..],
        ),
        ("tokens: 7\n", &["cloud.yaml", "line 1", "column 9"]),
        (
            "machines:\n- {name: a, flavor: huge}\n",
            &["machine a", "there is no flavor \"huge\""],
        ),
        (
            "faults:\n- {action: explode}\n",
            &["explode", "allowed are", "lost-answer"],
        ),
    ] {
        std::fs::write(&path, text).unwrap();
        simulate().failed_with(words);
    }
}

#[test]
fn bad_arguments_of_simulate_are_told() {
    for (arguments, words) in [
        (
            &["simulate", "cloudscale", "--listen", "here"][..],
            &["'here'", "--listen"][..],
        ),
        (&["simulate", "clouscale"], &["clouscale", "cloudscale"]),
        (
            &["simulate", "cloudscale", "--sed", "1"],
            &["--sed", "--seed"],
        ),
        (&["simulate"], &["cloudscale", "kubernetes"]),
    ] {
        let ended = run(bowline(arguments));
        assert_eq!(ended.code, Some(1), "{ended:?}");
        for word in words {
            assert!(
                ended.stderr.contains(word),
                "{word} is not in {}",
                ended.stderr
            );
        }
    }
}

#[tokio::test]
async fn kubernetes_as_a_server_writes_a_kubeconfig_that_works() {
    use k8s_openapi::api::core::v1::Namespace;

    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("kubeconfig");
    let kubeconfig = path.to_str().unwrap();
    let line = [
        "simulate",
        "kubernetes",
        "--listen",
        "127.0.0.1:0",
        "--kubeconfig",
        kubeconfig,
    ];
    let mut running = Running::start(bowline(&line));
    let address = address(&running.says("Kubernetes API, simulated, on https://127.0.0.1:"));
    running.says(&format!("kubectl --kubeconfig {kubeconfig}"));
    let config = bowline_controllers::clients::load_config(kubeconfig, "")
        .await
        .unwrap();
    let client = kube::Client::try_from(config).unwrap();
    let namespaces: kube::Api<Namespace> = kube::Api::all(client);
    namespaces.get("kube-system").await.unwrap();
    let taken = run(bowline(&[
        "simulate",
        "kubernetes",
        "--listen",
        &address,
        "--kubeconfig",
        "/dev/null",
    ]));
    taken.failed_with(&[&address, "another program already does"]);
    let unwritable = run(bowline(&[
        "simulate",
        "kubernetes",
        "--listen",
        "127.0.0.1:0",
        "--kubeconfig",
        "/nonexistent/x",
    ]));
    unwritable.failed_with(&["/nonexistent/x", "No such file or directory"]);
    running.signal("INT");
    assert_eq!(running.end().code, Some(0));
}
