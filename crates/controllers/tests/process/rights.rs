//! What the manager does with the API server, and that the originals' roles allow all of it.

use std::collections::BTreeSet;

use bowline_simulator::faults::{Action, Rule};
use bowline_simulator::journal::{Entry, Filter};
use bowline_simulator::kubernetes::auth::originals;
use bowline_simulator::kubernetes::fixture;
use serde_json::{Value, json};

use crate::cloud::Answer;
use crate::stage::{LEASE, Stage, has_taint, pass, set_ready};

/// Verb and resource, as a role has them.
pub(crate) type Right = (String, String);

const SHUTDOWN: &str = "node.cloudprovider.kubernetes.io/shutdown";

/// The rights that calls of that user needed.
pub(crate) fn used(stage: &Stage, user: &str) -> BTreeSet<Right> {
    stage.calls_of(user, 0).iter().map(right).collect()
}

/// The right that a call needs.
fn right(call: &Entry) -> Right {
    let pieces: Vec<&str> = call.path.trim_matches('/').split('/').collect();
    let (group, rest) = match &pieces[..] {
        ["api", _, rest @ ..] => ("", rest),
        ["apis", group, _, rest @ ..] => (*group, rest),
        _ => return (call.method.to_lowercase(), call.path.clone()),
    };
    let rest = match rest {
        ["namespaces", _, rest @ ..] if !rest.is_empty() => rest,
        rest => rest,
    };
    let (resource, named) = match rest {
        [resource] => ((*resource).to_owned(), false),
        [resource, _] => ((*resource).to_owned(), true),
        [resource, _, sub] => (format!("{resource}/{sub}"), true),
        other => panic!("{other:?}"),
    };
    let verb = match (call.method.as_str(), named) {
        ("GET", _) if call.query.contains("watch=true") => "watch",
        ("GET", true) => "get",
        ("GET", false) => "list",
        ("POST", _) => "create",
        ("PUT", _) => "update",
        ("PATCH", _) => "patch",
        ("DELETE", true) => "delete",
        other => panic!("{other:?}"),
    };
    (verb.to_owned(), with_group(&resource, group))
}

fn with_group(resource: &str, group: &str) -> String {
    if group.is_empty() {
        resource.to_owned()
    } else {
        format!("{resource}.{group}")
    }
}

/// Whether one of the roles among these objects grants it.
fn is_granted(objects: &[Value], (verb, resource): &Right) -> bool {
    let texts = |value: &Value| -> Vec<String> {
        let list = value.as_array().cloned().unwrap_or_default();
        list.iter()
            .filter_map(|text| text.as_str().map(str::to_owned))
            .collect()
    };
    let rules = objects
        .iter()
        .filter_map(|object| object["rules"].as_array())
        .flatten();
    let mut rules = rules.map(|rule| {
        let groups = texts(&rule["apiGroups"]);
        let resources = texts(&rule["resources"]);
        let names: Vec<String> = groups
            .iter()
            .flat_map(|group| resources.iter().map(|resource| with_group(resource, group)))
            .collect();
        (texts(&rule["verbs"]), names)
    });
    // Everybody who is signed in may ask whether the server is well.
    resource == "/healthz"
        || rules.any(|(verbs, names)| {
            names.contains(resource) && (verbs.contains(verb) || verbs.contains(&"*".to_owned()))
        })
}

/// Everything that happens to nodes, one thing after the other, and an election.
async fn whole_story(stage: &Stage, config: &kube::Config) {
    let flags = ["--secure-port=0", "--node-status-update-frequency=30s"];
    stage.cloud.say("n1", Answer::Runs("10.0.0.1"));
    stage.join("n1");
    // One conflict on the way: the node is read again.
    let conflict = Action::Status {
        code: 409,
        headers: [].into(),
        body: None,
    };
    let conflict = Rule::new(conflict).on("PATCH", "/api/v1/nodes/n1").times(1);
    stage.world.faults.add(conflict).unwrap();
    let manager = stage.start_as(config, &flags);
    stage.until_initialized("n1").await;
    stage.cloud.say("n1", Answer::Runs("10.0.0.9"));
    stage
        .until("the new address", || {
            let addresses = stage.node("n1")?["status"]["addresses"].to_string();
            addresses.contains("10.0.0.9").then_some(())
        })
        .await;
    stage.change_node("n1", |node| {
        node["metadata"]["labels"]["failure-domain.beta.kubernetes.io/zone"] = json!("z2");
    });
    stage
        .until("the repaired label", || {
            let node = stage.node("n1")?;
            (node["metadata"]["labels"]["topology.kubernetes.io/zone"] == "z2").then_some(())
        })
        .await;
    let tainted = |wanted: bool| {
        let now = has_taint(&stage.node("n1").unwrap(), SHUTDOWN);
        (now == wanted).then_some(())
    };
    stage.cloud.say("n1", Answer::IsOff("10.0.0.9"));
    stage.change_node("n1", |node| set_ready(node, "Unknown"));
    stage.until("the shutdown taint", || tainted(true)).await;
    stage.cloud.say("n1", Answer::Runs("10.0.0.9"));
    stage.change_node("n1", |node| set_ready(node, "True"));
    stage.until("the taint's removal", || tainted(false)).await;
    stage.cloud.say("n1", Answer::Gone);
    stage.change_node("n1", |node| set_ready(node, "Unknown"));
    stage
        .until("the deletion", || stage.node("n1").is_none().then_some(()))
        .await;
    // A trouble that is told again and again: the event is counted up.
    stage.cloud.say("n2", Answer::Fails);
    stage.join("n2");
    pass(300).await;
    manager.stop().await.0.unwrap();
    assert_eq!(stage.holder(LEASE), "");
    let reasons: BTreeSet<String> = ["Synced", "DeletingNode", "LeaderElection"]
        .into_iter()
        .filter(|reason| !stage.events(reason).is_empty() || was_posted(stage, reason))
        .map(str::to_owned)
        .collect();
    assert_eq!(reasons.len(), 3, "{reasons:?}");
}

/// Events live for an hour; the journal remembers longer.
fn was_posted(stage: &Stage, reason: &str) -> bool {
    let posts = Filter::any().method("POST").path("*/events").status(201);
    let posts = stage.world.journal.matching(&posts);
    posts.iter().any(|call| call.body["reason"] == reason)
}

/// The rights a manager without the serving port uses. What we ship can be read off here.
const NEEDED: &[(&str, &str)] = &[
    ("create", "events"),
    ("create", "leases.coordination.k8s.io"),
    ("delete", "nodes"),
    ("get", "/healthz"),
    ("get", "leases.coordination.k8s.io"),
    ("get", "nodes"),
    ("patch", "events"),
    ("patch", "nodes"),
    ("patch", "nodes/status"),
    ("update", "leases.coordination.k8s.io"),
    ("watch", "nodes"),
];

async fn check(seed: u64, account: &str, objects: &[Value]) {
    let stage = Stage::on_pipe(seed);
    stage.cluster.install(objects.to_vec()).unwrap();
    let user = format!("system:serviceaccount:kube-system:{account}");
    whole_story(&stage, &stage.account(account)).await;
    let refused = stage.world.journal.matching(&Filter::any().status(403));
    assert!(refused.is_empty(), "{refused:#?}");
    let used = used(&stage, &user);
    let needed = NEEDED
        .iter()
        .map(|(verb, what)| ((*verb).to_owned(), (*what).to_owned()));
    assert_eq!(used, needed.collect());
    for right in &used {
        assert!(is_granted(objects, right), "{right:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_whole_story_of_a_node_fits_into_cloudscales_role() {
    check(1, "cloud-controller-manager", &originals::cloudscale()).await;
}

#[tokio::test(start_paused = true)]
async fn the_whole_story_of_a_node_fits_into_exoscales_role() {
    check(4, "cloud-controller-manager", &originals::exoscale()).await;
}

#[tokio::test(start_paused = true)]
async fn the_whole_story_of_a_node_fits_into_xen_orchestras_role() {
    let account = "xenorchestra-cloud-controller-manager";
    check(5, account, &originals::xenorchestra()).await;
}

#[tokio::test(start_paused = true)]
async fn the_whole_story_of_a_node_fits_into_the_frameworks_role() {
    check(2, "bowline", &originals::framework("bowline", false)).await;
}

#[tokio::test(start_paused = true)]
async fn the_whole_story_of_a_node_fits_into_the_role_we_ship() {
    let shipped = include_str!("../../../../deploy/rbac.yaml");
    let objects = fixture::parse("deploy/rbac.yaml", shipped).unwrap();
    check(6, "bowline", &objects).await;
}

#[tokio::test(start_paused = true)]
async fn a_server_without_streaming_lists_needs_the_right_to_list_which_both_roles_have() {
    let objects = originals::cloudscale();
    let stage = Stage::on_pipe(3);
    let config = stage.cloudscale_account();
    let old = Action::Status {
        code: 422,
        headers: [].into(),
        body: None,
    };
    let old = Rule::new(old)
        .on("GET", "/api/v1/nodes")
        .query("*sendInitialEvents=true*");
    stage.world.faults.add(old).unwrap();
    stage.cloud.say("n1", Answer::Runs("10.0.0.1"));
    stage.join("n1");
    let user = "system:serviceaccount:kube-system:cloud-controller-manager";
    let manager = stage.start_as(&config, &["--secure-port=0"]);
    stage.until_initialized("n1").await;
    manager.stop().await.0.unwrap();
    let list = ("list".to_owned(), "nodes".to_owned());
    assert!(used(&stage, user).contains(&list));
    assert!(is_granted(&objects, &list));
    assert_eq!(stage.world.journal.count(&Filter::any().status(403)), 0);
}
