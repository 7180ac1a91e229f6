//! Answers of the clouds that speak HTTP.

use std::collections::BTreeMap;
use std::sync::Arc;

use bowline_core::{
    BalancerRequest, Claim, Cloud, CloudError, CloudName, ClusterMarks, DraftError, Goal, Instance,
    Lookup, MachineAnswer, Node, PreparedPlan, Service, StepOutcome, routes,
};
use bowline_http::{Clock, Connector, Pipes, Random};
use bowline_provider::{CloudRegistry, NoSecrets, ProviderContext, ProviderInput, ProviderKind};
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::answers::{Script, run};
use crate::kubernetes::read;

/// Where the cloud listens. TLS is left out in memory.
pub(crate) const AUTHORITY: &str = "cloud:443";
/// The credential, which must never be in an error, whatever the cloud answers.
const SECRET: &str = "correct-horse-battery-staple";
/// The key for Triton. It was made for this file, opens nothing, and is never sent.
const KEY: &str = "MC4CAQAwBQYDK2VwBCIEIEQjRQEJeILG/rJRZVrJUIc7oAQBu/QT4zmfLLE+tYwG";
/// How often a step is tried that waits.
const TRIES: usize = 3;
/// The machine of the first node, in every cloud.
const MACHINE: &str = "11111111-1111-4111-8111-111111111111";
/// What the second node, which has no provider ID, calls its machine.
const SYSTEM: &str = "22222222-2222-4222-8222-222222222222";
const POOL: &str = "33333333-3333-4333-8333-333333333333";

/// An account of a cloud that nobody else has.
pub(crate) struct Account {
    pub(crate) kind: &'static ProviderKind,
    pub(crate) settings: Value,
    /// What follows the scheme in the provider ID of the first node.
    pub(crate) machine: String,
}

pub(crate) fn cloudscale(bytes: &[u8]) {
    play(&cloudscale_account(), &Script::read(bytes));
}

pub(crate) fn exoscale(bytes: &[u8]) {
    play(&exoscale_account(), &Script::read(bytes));
}

pub(crate) fn triton(bytes: &[u8]) {
    play(&triton_account(), &Script::read(bytes));
}

pub(crate) fn xenorchestra(bytes: &[u8]) {
    play(&xenorchestra_account(false), &Script::read(bytes));
}

/// The event stream of Xen Orchestra: the bytes are its body, and lists are as the stream finds them.
pub(crate) fn sse(bytes: &[u8]) {
    let vm = json!([{"id": MACHINE, "uuid": MACHINE, "name_label": "worker-1", "power_state": "Running",
        "$pool": POOL, "$container": SYSTEM, "CPUs": {"number": 2}, "memory": {"size": 4_294_967_296_u64}}]);
    let named = json!([{"id": POOL, "uuid": POOL, "name_label": "pool"}]);
    let head = format!(
        "nodes\n> 200 GET /rest/v0/vms/\n{}\n> 200 GET /rest/v0/vms\n{vm}\n> 200 GET /rest/v0/hosts\n{named}\n> 200 GET /rest/v0/pools\n{named}\n\
         > 204 POST /rest/v0/events\n> 200 GET /rest/v0/events\n> content-type: text/event-stream\n",
        vm[0]
    );
    let script = Script::read(&[head.as_bytes(), bytes].concat());
    play(&xenorchestra_account(true), &script);
}

pub(crate) fn cloudscale_account() -> Account {
    let settings = json!({"apiUrl": "https://cloud/", "accessToken": SECRET});
    account(&bowline_cloudscale::KIND, settings, MACHINE)
}

pub(crate) fn exoscale_account() -> Account {
    let settings = json!({"global": {
        "zone": "ch-gva-2", "apiEndpoint": "https://cloud/v2",
        "apiKey": "EXO0123456789abcdef01234567", "apiSecret": SECRET,
    }});
    account(&bowline_exoscale::KIND, settings, MACHINE)
}

pub(crate) fn triton_account() -> Account {
    let settings = json!({"global": {
        "tritonEndpoint": "https://cloud", "tritonAccount": "fuzz",
        "tritonPrivateKey": format!("-----BEGIN PRIVATE KEY-----\n{KEY}\n-----END PRIVATE KEY-----\n"),
    }, "loadBalancer": {"clbPackage": "g4-highcpu-1G"}});
    account(&bowline_triton::KIND, settings, MACHINE)
}

fn xenorchestra_account(events: bool) -> Account {
    let settings = json!({"url": "https://cloud", "token": SECRET, "events": events});
    let machine = format!("{POOL}/{MACHINE}");
    account(&bowline_xenorchestra::KIND, settings, &machine)
}

fn account(kind: &'static ProviderKind, settings: Value, machine: &str) -> Account {
    let machine = machine.to_owned();
    Account {
        kind,
        settings,
        machine,
    }
}

impl Account {
    /// The provider of that account.
    pub(crate) async fn build(&self, pipes: &Pipes) -> Result<Arc<dyn Cloud>, String> {
        let context = ProviderContext {
            name: CloudName::parse(self.kind.name).unwrap(),
            input: self.input(),
            connector: Connector::simulated(pipes.clone()),
            clock: Clock::simulated(Timestamp::from_second(1_800_000_000).unwrap()),
            random: Random::seeded(1),
            metrics: CloudRegistry::new(None),
            secrets: Arc::new(NoSecrets),
            cluster_name: "fuzz".to_owned(),
            needs_machines: true,
            waits_for_secrets: false,
        };
        let built = (self.kind.build)(&context).await;
        built.map_err(|error| bowline_core::error_chain(&error))
    }

    fn input(&self) -> ProviderInput {
        (self.kind.input)(&self.settings)
    }

    /// One with a provider ID of this cloud, and one without any.
    pub(crate) fn nodes(&self) -> Vec<Arc<Node>> {
        let id = format!("{}://{}", self.kind.name, self.machine);
        let known = json!({
            "metadata": {"name": "worker-1", "uid": "a", "creationTimestamp": "2026-01-01T00:00:00Z",
                "annotations": {"alpha.kubernetes.io/provided-node-ip": "10.0.0.5"}},
            "spec": {"providerID": id, "podCIDRs": ["10.244.1.0/24"]},
            "status": {"addresses": [{"type": "InternalIP", "address": "10.0.0.5"}],
                "nodeInfo": {"osImage": "Talos (v1.10.0)"}},
        });
        let new = json!({
            "metadata": {"name": "worker-2", "uid": "b", "creationTimestamp": "2026-01-01T00:00:00Z",
                "annotations": {"alpha.kubernetes.io/provided-node-ip": "10.0.0.6"}},
            "spec": {"podCIDRs": ["10.244.2.0/24"]},
            "status": {"addresses": [{"type": "InternalIP", "address": "10.0.0.6"}],
                "nodeInfo": {"systemUUID": SYSTEM, "osImage": "Talos (v1.10.0)"}},
        });
        let nodes = [known, new].map(|node| read::<Node>(node.to_string().as_bytes()));
        nodes.into_iter().flatten().map(Arc::new).collect()
    }
}

/// Asks the cloud what the script says, while a server answers as it says.
fn play(account: &Account, script: &Script) {
    script.refusals_alone_show(SECRET);
    run(async {
        let pipes = Pipes::default();
        script.serve(&pipes, AUTHORITY);
        if let Ok(cloud) = account.build(&pipes).await {
            ask(account, &*cloud, &script.question).await;
        }
    });
}

/// Asks a cloud.
pub(crate) async fn ask(account: &Account, cloud: &dyn Cloud, question: &str) {
    let nodes = account.nodes();
    // A Service may have an annotation: `present KEY=VALUE`.
    let (question, annotation) = question.split_once(' ').unwrap_or((question, ""));
    let annotation = annotation.split_once('=');
    let annotations = annotation.map(|(key, value)| (key.to_owned(), value.to_owned()));
    let request = |goal| request(&nodes, goal, annotations.clone());
    match question {
        "present" => plan(cloud, &request(Goal::Present)).await,
        "absent" => plan(cloud, &request(Goal::Absent)).await,
        "marks" => marks(cloud, &nodes).await,
        "routes" => routes(cloud, nodes).await,
        "networks" => networks(cloud, &nodes).await,
        "certificates" => certificates(cloud, &nodes).await,
        _ => look_up(account, cloud, &nodes).await,
    }
}

async fn look_up(account: &Account, cloud: &dyn Cloud, nodes: &[Arc<Node>]) {
    let Some(instances) = cloud.instances() else {
        return;
    };
    // Events, where there are some, arrive meanwhile.
    tokio::time::sleep(std::time::Duration::from_secs(5)).await;
    let found = instances.lookup(nodes).await;
    assert_eq!(found.len(), nodes.len(), "one answer for each node");
    let present = instances.presence(nodes).await;
    assert_eq!(present.len(), nodes.len(), "one answer for each node");
    for lookup in found.into_iter().chain(present) {
        match lookup {
            Lookup::Found(instance) => is_of_this_cloud(account, &instance),
            Lookup::CannotTell(error) => no_secret_in(&error),
            Lookup::Gone(evidence) => shows_no_secret(&evidence.text),
            Lookup::NotMine => {}
        }
    }
    if let Err(error) = instances.canary().await {
        no_secret_in(&error);
    }
}

/// What a cloud calls its instance, it recognises as its own.
fn is_of_this_cloud(account: &Account, instance: &Instance) {
    let node = Node {
        provider_id: instance.provider_id.as_ref().map(ToString::to_string),
        ..Node::default()
    };
    let is_named = node.provider_id.is_some();
    let claim = (account.kind.match_node)(&node).claim;
    // Machines of Talos have the ids of whatever they run on.
    let is_own = claim == Claim::Mine || account.kind.name == bowline_talos::PROVIDER;
    assert!(!is_named || is_own, "{:?}: {claim:?}", node.provider_id);
}

/// A Service with two ports, which had a load balancer before.
pub(crate) fn request(
    nodes: &[Arc<Node>],
    goal: Goal,
    annotations: impl IntoIterator<Item = (String, String)>,
) -> BalancerRequest {
    let annotations: BTreeMap<String, String> = annotations.into_iter().collect();
    let service = json!({
        "metadata": {"name": "web", "namespace": "shop", "uid": "44444444-4444-4444-8444-444444444444",
            "annotations": annotations, "finalizers": ["service.kubernetes.io/load-balancer-cleanup"]},
        "spec": {"type": "LoadBalancer", "ports": [
            {"name": "http", "protocol": "TCP", "port": 80, "nodePort": 30080},
            {"name": "https", "protocol": "TCP", "port": 443, "nodePort": 30443}]},
        "status": {"loadBalancer": {"ingress": [{"ip": "198.51.100.7"}]}},
    });
    let service = read::<Service>(service.to_string().as_bytes()).map(Arc::new);
    let service = service.expect("a Service that can be read");
    BalancerRequest {
        all: Arc::new(vec![service.clone()]),
        all_known: true,
        living: Some(Arc::new([service.uid.clone()].into())),
        service,
        goal,
        nodes: nodes.to_vec(),
        cluster_name: "fuzz".to_owned(),
        cluster_uid: Some("55555555-5555-4555-8555-555555555555".to_owned()),
        ..BalancerRequest::default()
    }
}

/// Drafts a plan and carries it out, as far as that goes.
pub(crate) async fn plan(cloud: &dyn Cloud, request: &BalancerRequest) {
    let Some(balancers) = cloud.balancers() else {
        return;
    };
    let PreparedPlan {
        plan, mut executor, ..
    } = match balancers.draft(request).await {
        Ok(prepared) => prepared,
        Err(error) => return no_secret_in_draft(&error),
    };
    for (number, step) in plan.steps.iter().enumerate() {
        executor.publication(false);
        for _ in 0..TRIES {
            match executor.carry_out(number, step).await {
                Ok(StepOutcome::Wait { after, .. }) => tokio::time::sleep(after).await,
                Ok(StepOutcome::Done | StepOutcome::Skipped(_)) => break,
                Err(error) => return no_secret_in(&error),
            }
        }
    }
    executor.publication(true);
}

async fn marks(cloud: &dyn Cloud, nodes: &[Arc<Node>]) {
    let Some(balancers) = cloud.balancers() else {
        return;
    };
    let cluster = ClusterMarks {
        name: "fuzz",
        uid: Some("55555555-5555-4555-8555-555555555555"),
        nodes,
    };
    match balancers.marked(cluster).await {
        Ok(all) => {
            for orphan in all.iter().take(TRIES) {
                if let Err(error) = balancers.remove_orphan(orphan).await {
                    no_secret_in(&error);
                }
            }
        }
        Err(error) => no_secret_in(&error),
    }
    let recognised = balancers
        .recognises(&request(nodes, Goal::Present, []))
        .await;
    if let Err(error) = recognised {
        no_secret_in_draft(&error);
    }
}

async fn routes(cloud: &dyn Cloud, nodes: Vec<Arc<Node>>) {
    let Some(routes) = cloud.routes() else {
        return;
    };
    let question = routes::Question {
        cluster: "fuzz".to_owned(),
        ranges: vec!["10.244.0.0/16".parse().unwrap()],
        nodes,
        others: Vec::new(),
    };
    if let Err(error) = routes.survey(&question).await {
        no_secret_in(&error);
    }
}

async fn networks(cloud: &dyn Cloud, nodes: &[Arc<Node>]) {
    let Some(networks) = cloud.networks() else {
        return;
    };
    if let Err(error) = networks.cluster_ranges().await {
        no_secret_in(&error);
    }
    for node in nodes {
        if let Err(error) = networks.machine_addresses(node).await {
            no_secret_in(&error);
        }
    }
}

async fn certificates(cloud: &dyn Cloud, nodes: &[Arc<Node>]) {
    let Some(certificates) = cloud.serving_certificates() else {
        return;
    };
    for node in nodes {
        let answer = certificates.machine(&node.name, Some(node)).await;
        if let MachineAnswer::CannotTell(error) = answer {
            no_secret_in(&error);
        }
    }
}

fn no_secret_in_draft(error: &DraftError) {
    match error {
        DraftError::Cloud(error) => no_secret_in(error),
        other => shows_no_secret(&other.to_string()),
    }
}

fn no_secret_in(error: &CloudError) {
    shows_no_secret(&error.chain());
}

fn shows_no_secret(text: &str) {
    assert!(!text.contains(SECRET), "a secret is in the text: {text}");
}
