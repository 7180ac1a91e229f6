//! `bowline explain`, for people and for programs.

use bowline_simulator_exoscale::InstanceSpec;
use serde_json::{Value, json};
use tokio::task::spawn_blocking;

use crate::config::Setup;
use crate::process::{Ended, run};

const WAITING: &str = "node.cloudprovider.kubernetes.io/uninitialized";

async fn explain(test: &Setup, words: &[&str]) -> Ended {
    let command = test.command(&[&["explain"], words].concat());
    spawn_blocking(|| run(command)).await.unwrap()
}

/// The same as JSON, with its exit code.
async fn explained(test: &Setup, words: &[&str]) -> (Option<i32>, Value) {
    let ended = explain(test, &[words, &["-o", "json"]].concat()).await;
    let json = serde_json::from_str(&ended.stdout);
    (ended.code, json.unwrap_or_else(|_| panic!("{ended:?}")))
}

fn node(name: &str, provider_id: Option<&str>) -> Value {
    let mut node = json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": {"name": name, "labels": {"pool": name}},
        "spec": {},
    });
    if let Some(id) = provider_id {
        node["spec"]["providerID"] = json!(id);
    } else {
        let taint = json!({"key": WAITING, "value": "true", "effect": "NoSchedule"});
        node["spec"]["taints"] = json!([taint]);
    }
    node
}

fn service(name: &str, class: Option<&str>) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": name, "namespace": "shop"},
        "spec": {"type": "LoadBalancer", "loadBalancerClass": class,
                 "ports": [{"port": 80, "protocol": "TCP", "nodePort": 30080}]},
    })
}

/// Two accounts; the nodes that carry `pool=mine` are the first one's.
async fn test() -> Setup {
    let test = Setup::new().await;
    let text = test.configuration();
    let marked = text.replacen("- name: a\n", "- name: a\n  nodeSelector: pool=mine\n", 1);
    assert_ne!(marked, text);
    std::fs::write(test.path("bowline.yaml"), marked).unwrap();
    test
}

#[tokio::test]
async fn a_node_is_explained_to_people_and_to_programs_with_what_to_do() {
    let test = test().await;
    let id = test.accounts[1].add_instance(&InstanceSpec::named("worker-b"));
    let kubelet = test.accounts[1].kubelet(&id.unwrap()).unwrap();
    let worker = kubelet.node_name.clone();
    test.fleet.join(kubelet).unwrap();
    let foreign = [node("metal-1", None), node("other-1", Some("hcloud://7"))];
    test.cluster.install(foreign).unwrap();

    let (code, reported) = explained(&test, &["node", &worker]).await;
    assert_eq!(code, Some(0), "{reported:#}");
    assert_eq!(reported["owner"]["decision"], "owned");
    assert_eq!(reported["owner"]["cloud"], "b");
    assert_eq!(reported["owner"]["reason"], "OnlyMachine");
    assert_eq!(reported["describer"], reported["owner"]);
    assert_eq!(
        (&reported["waits"], &reported["advice"]),
        (&json!(true), &Value::Null)
    );
    let said = reported["clouds"].as_array().unwrap().iter();
    let said: Vec<_> = said
        .map(|it| (&it["name"], &it["nodeSelector"], &it["answer"]))
        .collect();
    assert_eq!(
        said,
        [
            (&json!("a"), &json!("doesNotMatch"), &json!("noMachine")),
            (&json!("b"), &json!("none"), &json!("hasMachine")),
        ]
    );

    let (code, reported) = explained(&test, &["node", "other-1"]).await;
    assert_eq!(code, Some(2));
    assert_eq!(reported["owner"]["decision"], "nobody");
    assert_eq!(reported["owner"]["reason"], "ForeignProviderID");
    let ended = explain(&test, &["node", "other-1"]).await;
    for words in [
        "Node other-1: left alone: its provider id is of no configured cloud\n",
        "provider id: hcloud://7",
        "b (exoscale): the id is not of its kind; was not asked",
        "What to do\n  Nothing, if no cloud is to look after it",
    ] {
        assert!(ended.stdout.contains(words), "{words}: {}", ended.stdout);
    }

    let ended = explain(&test, &["node", "metal-1"]).await;
    assert_eq!(ended.code, Some(2), "{ended:?}");
    let words = format!("kubectl taint node metal-1 {WAITING}-");
    assert!(ended.stdout.contains(&words), "{}", ended.stdout);

    let ended = explain(&test, &["node", "nobody"]).await;
    ended.failed_with(&["there is no Node nobody"]);
}

#[tokio::test]
async fn a_service_is_explained_by_its_class_and_by_whose_nodes_there_are() {
    let test = test().await;
    let id = "exoscale://6f1d2c3b-7a55-4e0c-9b61-2d3e4f5a6b7c";
    let shop = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}});
    test.cluster
        .install([
            shop,
            node("mine", Some(id)),
            node("other-1", Some("hcloud://7")),
            node("metal-1", None),
            service("classless", None),
            service("web", Some("bowline.dev/a")),
            service("gone", Some("bowline.dev/c")),
            service("foreign", Some("metallb.io/x")),
        ])
        .unwrap();
    for (name, code, decision, words) in [
        (
            "web",
            0,
            "served",
            "served by cloud a, by its class bowline.dev/a",
        ),
        (
            "classless",
            2,
            "noDefault",
            "no cloud is the default (services.defaultCloud)",
        ),
        (
            "gone",
            2,
            "unknownCloud",
            "class bowline.dev/c names no cloud",
        ),
        (
            "foreign",
            2,
            "foreignClass",
            "class metallb.io/x is somebody else's",
        ),
    ] {
        let name = format!("shop/{name}");
        let (found, reported) = explained(&test, &["service", &name]).await;
        assert_eq!(found, Some(code), "{reported:#}");
        assert_eq!(reported["decision"], decision);
        assert_eq!(
            reported["classes"],
            json!(["bowline.dev/a", "bowline.dev/b"])
        );
        let nodes = json!({"byCloud": {"a": 1}, "nobodys": 1, "undecided": 1});
        assert_eq!(reported["nodes"], nodes, "{name}");
        assert_eq!(reported["members"].as_u64(), (code == 0).then_some(1));
        let ended = explain(&test, &["service", &name]).await;
        for words in [words, "Nodes by cloud\n  a: 1\n  unowned: 1\n"] {
            assert!(ended.stdout.contains(words), "{words}: {}", ended.stdout);
        }
    }
    let ended = explain(&test, &["service", "shop/none"]).await;
    ended.failed_with(&["there is no Service shop/none"]);
    let ended = explain(&test, &["service", "a/b/c"]).await;
    ended.failed_with(&["is not NAMESPACE/NAME"]);
}
