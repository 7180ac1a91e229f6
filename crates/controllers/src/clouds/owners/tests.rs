use std::sync::atomic::{AtomicUsize, Ordering};

use bowline_core::{
    BoxFuture, Claim, Cloud, CloudErrorKind, Evidence, Instance, Instances, NodeMatch,
    NodeMetadata, Power, ProviderId, Selector, Taint, UNINITIALIZED_TAINT,
};

use super::*;
use crate::clouds::resolver::CloudRules;
use crate::kube::election::Fence;
use crate::kube::objects::NodeObject;
use tokio_util::sync::CancellationToken;

/// What an account answer about every machine.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Answer {
    Has,
    Gone,
    Silent,
    Nothing,
}

/// An account of a cloud whose provider ids do not distinguish accounts.
struct Account {
    name: CloudName,
    answer: Answer,
    belongs_elsewhere: bool,
    questions: AtomicUsize,
}

impl Cloud for Account {
    fn name(&self) -> &CloudName {
        &self.name
    }

    fn provider(&self) -> &'static str {
        "demo"
    }

    fn match_node(&self, _: &Node) -> NodeMatch {
        NodeMatch {
            other_account: self.belongs_elsewhere,
            ..Claim::Mine.into()
        }
    }

    fn instances(&self) -> Option<&dyn Instances> {
        Some(self)
    }
}

impl Instances for Account {
    fn lookup<'a>(&'a self, nodes: &'a [Arc<Node>]) -> BoxFuture<'a, Vec<Lookup>> {
        self.questions.fetch_add(1, Ordering::Relaxed);
        if self.answer == Answer::Nothing {
            return Box::pin(std::future::pending());
        }
        let answer = |_| match self.answer {
            Answer::Has => Lookup::Found(Box::new(Instance {
                provider_id: ProviderId::parse("demo://1").ok(),
                instance_type: String::new(),
                zone: String::new(),
                region: String::new(),
                addresses: Vec::new(),
                power: Power::On,
                extra_labels: BTreeMap::new(),
                marks: NodeMetadata::default(),
            })),
            Answer::Gone => Lookup::Gone(Evidence {
                text: "404".into(),
                at: jiff::Timestamp::UNIX_EPOCH,
            }),
            Answer::Silent | Answer::Nothing => {
                Lookup::CannotTell(CloudError::new(CloudErrorKind::Unavailable, "down"))
            }
        };
        let answers = nodes.iter().map(answer).collect();
        Box::pin(async move { answers })
    }

    fn canary(&self) -> BoxFuture<'_, Result<(), CloudError>> {
        Box::pin(async { Ok(()) })
    }
}

fn name(text: &str) -> CloudName {
    CloudName::parse(text).unwrap()
}

fn account(cloud: &str, answer: Answer) -> Account {
    Account {
        name: name(cloud),
        answer,
        belongs_elsewhere: false,
        questions: AtomicUsize::new(0),
    }
}

/// An initialised node with an id that every account could have given.
fn node(labels: &[(&str, &str)]) -> Arc<Node> {
    let labels: BTreeMap<&str, &str> = labels.iter().copied().collect();
    let object = serde_json::json!({
        "metadata": {"name": "n1", "uid": "uid-1", "resourceVersion": "7", "labels": labels},
        "spec": {"providerID": "demo://1"},
    });
    Arc::new(serde_json::from_value::<NodeObject>(object).unwrap().into())
}

fn owners(accounts: Vec<Account>, rules: CloudRules, stop: &CancellationToken) -> OwnerDiscovery {
    let clouds: Vec<Arc<dyn Cloud>> = accounts
        .into_iter()
        .map(|it| Arc::new(it) as Arc<dyn Cloud>)
        .collect();
    let resolver = OwnershipResolver::new(&clouds, Arc::new(rules));
    let batcher = clouds
        .into_iter()
        .map(|cloud| InstanceBatcher::start(cloud, Fence::open(), stop));
    OwnerDiscovery::new(batcher, resolver)
}

#[tokio::test(start_paused = true)]
async fn the_only_account_that_has_the_machine_owns_a_node_that_several_claim() {
    let stop = CancellationToken::new();
    let node = node(&[]);
    for (a, b, wanted, left) in [
        (Answer::Has, Answer::Gone, Some("a"), None),
        (Answer::Gone, Answer::Has, Some("b"), None),
        // Nobody: left alone. Both: left alone. One of them silent: it may be that one's.
        (
            Answer::Gone,
            Answer::Gone,
            None,
            Some("left alone: no configured cloud has a machine for it"),
        ),
        (
            Answer::Has,
            Answer::Has,
            None,
            Some("left alone: claimed by several clouds (a, b)"),
        ),
        (
            Answer::Has,
            Answer::Silent,
            None,
            Some("cloud b did not answer: down"),
        ),
    ] {
        let owners = owners(
            vec![account("a", a), account("b", b)],
            CloudRules::default(),
            &stop,
        );
        assert_eq!(owners.doubt(&node), None, "nobody has been asked");
        let open = owners.settle_once(std::slice::from_ref(&node)).await;
        let open: Vec<String> = open.iter().map(|(_, why)| why.to_string()).collect();
        assert_eq!(open, Vec::from_iter(left));
        let owning: Vec<&str> = (owners.all().iter())
            .filter(|it| owners.owns(it, &node))
            .map(|it| it.cloud().name().as_str())
            .collect();
        assert_eq!(owning, Vec::from_iter(wanted));
        let found = owners.find_describer(&node).await;
        let found = found.ok().map(|it| it.batcher.cloud().name().to_string());
        assert_eq!(found.as_deref(), wanted);
    }
}

#[tokio::test(start_paused = true)]
async fn an_id_that_was_just_given_is_known_to_be_the_givers() {
    let stop = CancellationToken::new();
    let after = node(&[]);
    let taint = Taint::new(UNINITIALIZED_TAINT, "true", "NoSchedule");
    let before = Arc::new(Node {
        provider_id: None,
        taints: vec![taint],
        ..(*after).clone()
    });
    let accounts = vec![account("a", Answer::Gone), account("b", Answer::Has)];
    let owners = owners(accounts, CloudRules::default(), &stop);
    let found = owners.find_describer(&before).await;
    assert_eq!(found.ok().unwrap().batcher.cloud().name(), &name("b"));
    let owned = owners.doubt(&after).unwrap();
    assert_eq!(
        owned.to_string(),
        "owned by b, the only cloud that has a machine for it"
    );
}

#[tokio::test(start_paused = true)]
async fn selectors_and_accounts_decide_without_any_question() {
    let stop = CancellationToken::new();
    let rules = || CloudRules {
        selectors: BTreeMap::from([(name("b"), Selector::parse("site=b").unwrap())]),
        ..CloudRules::default()
    };
    let elsewhere = |cloud, answer| Account {
        belongs_elsewhere: true,
        ..account(cloud, answer)
    };
    for (accounts, labels, wanted) in [
        (
            [account("a", Answer::Has), account("b", Answer::Gone)],
            &[("site", "b")][..],
            "b",
        ),
        (
            [account("a", Answer::Gone), account("b", Answer::Has)],
            &[],
            "a",
        ),
        (
            [account("a", Answer::Gone), elsewhere("b", Answer::Has)],
            &[("site", "b")],
            "a",
        ),
    ] {
        let owners = owners(accounts.into(), rules(), &stop);
        let node = node(labels);
        owners.settle_once(std::slice::from_ref(&node)).await;
        let owner = owners.all().iter().find(|it| owners.owns(it, &node));
        assert_eq!(owner.unwrap().cloud().name().as_str(), wanted);
    }
}

#[tokio::test(start_paused = true)]
async fn what_was_found_out_is_not_asked_again() {
    let stop = CancellationToken::new();
    let (a, b) = (
        Arc::new(account("a", Answer::Has)),
        Arc::new(account("b", Answer::Gone)),
    );
    let clouds = [a.clone() as Arc<dyn Cloud>, b.clone()];
    let resolver = OwnershipResolver::new(&clouds, Arc::default());
    let batcher = clouds.iter().cloned();
    let batcher = batcher.map(|cloud| InstanceBatcher::start(cloud, Fence::open(), &stop));
    let owners = OwnerDiscovery::new(batcher, resolver.clone());
    let nodes = [node(&[])];
    for _ in 0..3 {
        owners.settle_once(&nodes).await;
    }
    let asked = |it: &Account| it.questions.load(Ordering::Relaxed);
    assert_eq!((asked(&a), asked(&b)), (1, 1));
    // Another node of the same name is another node.
    let mut other = Node::clone(&nodes[0]);
    other.uid = "uid-2".into();
    assert!(matches!(
        resolver.ownership(&other),
        Some(Ownership::Contested(_))
    ));
}

#[tokio::test(start_paused = true)]
async fn a_cloud_that_hangs_keeps_only_that_open_in_which_it_has_a_part() {
    for (belongs_elsewhere, wanted) in [(true, true), (false, false)] {
        let stop = CancellationToken::new();
        let hanging = Account {
            belongs_elsewhere,
            ..account("c", Answer::Nothing)
        };
        let accounts = vec![
            account("a", Answer::Gone),
            account("b", Answer::Has),
            hanging,
        ];
        let owners = owners(accounts, CloudRules::default(), &stop);
        let nodes = [node(&[])];
        // All of them are asked at the same time, and the last one is given up only after two minutes.
        let round = owners.settle_once(&nodes);
        let second = std::time::Duration::from_secs(1);
        assert_eq!(tokio::time::timeout(second, round).await.is_ok(), wanted);
        let b = &owners.all()[1];
        assert_eq!(owners.owns(b, &nodes[0]), wanted);
    }
}

#[tokio::test(start_paused = true)]
async fn a_node_is_of_one_lane_if_only_one_cloud_is_to_be_asked() {
    let stop = CancellationToken::new();
    let rules = CloudRules {
        selectors: BTreeMap::from([(name("b"), Selector::parse("site=b").unwrap())]),
        ..CloudRules::default()
    };
    let accounts = ["a", "b", "c"].map(|it| account(it, Answer::Has));
    let owners = owners(accounts.into(), rules, &stop);
    let fresh = |labels: &[(&str, &str)]| {
        let mut fresh = Node::clone(&node(labels));
        fresh.provider_id = None;
        fresh.taints = vec![bowline_core::Taint::new(
            bowline_core::UNINITIALIZED_TAINT,
            "true",
            "NoSchedule",
        )];
        fresh
    };
    let sole = |node: &Node| owners.sole_describer(node).map(|it| it.to_string());
    assert_eq!(sole(&fresh(&[("site", "b")])).as_deref(), Some("b"));
    assert_eq!(sole(&node(&[("site", "b")])).as_deref(), Some("b"));
    assert_eq!(sole(&fresh(&[])), None, "a or c");
    assert_eq!(sole(&node(&[])), None, "a or c");
    owners.resolver.found_at(&node(&[]), &name("c"));
    assert_eq!(sole(&node(&[])).as_deref(), Some("c"));
}

/// What a process decides about a node of the account `leaves` that is only told that `stays` is configured, and that
/// the lease names this account.
fn after_leaving(noted: &str, provider: &str) -> Option<Ownership> {
    let stays: Arc<dyn Cloud> = Arc::new(account("stays", Answer::Gone));
    let before = OwnershipResolver::new(&[], Arc::default());
    let departed = vec![(name(noted), provider.to_owned())];
    let seen = (Machines::default(), departed);
    let after = before.followed_by(&[stays], Arc::default(), &BTreeMap::new(), &[], seen);
    let node = node(&[]);
    let decided = after.ownership(&node);
    after.found_at(&node, &name("stays"));
    let seen = after.ownership(&node);
    assert!(matches!(seen, Some(Ownership::Owned { .. })), "{seen:?}");
    decided
}

#[test]
fn what_an_account_that_left_may_have_is_not_the_others_until_that_is_seen_to_have_it() {
    let provider = account("stays", Answer::Gone).provider();
    let departed = Ownership::Nobody(Unowned::Departed(name("leaves")));
    assert_eq!(after_leaving("leaves", provider), Some(departed));
    let owned = after_leaving("leaves", "another provider");
    assert!(matches!(owned, Some(Ownership::Owned { .. })), "{owned:?}");
}

#[test]
fn what_departed_clouds_had_is_remembered_however_much_is_found_out_after() {
    let cloud = |name| -> Arc<dyn Cloud> { Arc::new(account(name, Answer::Gone)) };
    let (stays, leaves) = (cloud("stays"), cloud("leaves"));
    let node = node(&[]);
    let before = OwnershipResolver::new(&[stays.clone(), leaves.clone()], Arc::default());
    before.found_at(&node, leaves.name());
    let (left, nodes) = ([stays.clone()], [node.clone()]);
    let after = before.followed_by(
        &left,
        Arc::default(),
        &BTreeMap::new(),
        &nodes,
        (Machines::default(), Vec::new()),
    );
    for number in 0..=crate::clouds::resolver::REMEMBERED {
        let other = Node {
            uid: number.to_string(),
            ..Node::clone(&node)
        };
        after.found_at(&other, stays.name());
    }
    let departed = Ownership::Nobody(Unowned::Departed(leaves.name().clone()));
    assert_eq!(after.ownership(&node), Some(departed));
}
