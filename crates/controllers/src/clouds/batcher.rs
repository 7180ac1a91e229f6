//! Batches questions about instances.
//!
//! Many nodes need their instance at the same time, and one list call of a cloud answers them all.
//! Questions that arrive within a short window, or while an earlier batch is under way, share a batch.
//!
//! - Each cloud has one batch of each kind at a time: what an instance is, and whether it exists. The
//!   kinds never share one: a machine that does not describe itself must not delay the life cycle.
//! - Where machines answer for themselves, each question is a batch of its own: one that does not
//!   answer delays no other.

use std::sync::Arc;
use std::time::Duration;

use bowline_core::{Cloud, CloudError, CloudErrorKind, Lookup, Node};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;
use tracing::debug;

use crate::clouds::accounts::{AccountKey, Accounts};
use crate::clouds::caller::CloudCaller;
use crate::clouds::cloud_health::{CloudHealth, Purpose, answers_apart};
use crate::kube::election::Fence;
use tokio_util::sync::CancellationToken;

/// How long the first question waits for company. A person does not notice it; a cluster whose
/// nodes all come up at once fits into it.
const WINDOW: Duration = Duration::from_millis(20);
/// Nodes in one flight: above the largest supported cluster (5,000 nodes), so that one list
/// answers everybody.
const FLIGHT_LIMIT: usize = 8192;
/// Questions that may wait for the next flight; further callers wait to ask.
const QUEUE_LIMIT: usize = 8192;

/// What is asked about machines.
#[derive(Clone, Copy, Debug)]
enum Kind {
    /// All that is known about them.
    Metadata,
    /// Whether they exist and run.
    Presence,
}

struct Question {
    nodes: Vec<Arc<Node>>,
    reply: oneshot::Sender<Vec<Lookup>>,
}

/// Asks one cloud about machines. Clones share its flights.
#[derive(Clone)]
pub struct InstanceBatcher {
    asked: BatchedCloud,
    metadata: mpsc::Sender<Question>,
    presence: mpsc::Sender<Question>,
}

/// Where questions to one cloud are asked.
#[derive(Clone)]
struct BatchedCloud {
    cloud: Arc<dyn Cloud>,
    caller: CloudCaller,
    cloud_health: CloudHealth,
    accounts: Accounts,
}

impl InstanceBatcher {
    /// Starts the flights to one cloud. They end with `stop`, or when nobody can ask any more.
    pub fn start(cloud: Arc<dyn Cloud>, fence: Fence, stop: &CancellationToken) -> Self {
        let (cloud_health, accounts) = (CloudHealth::default(), Accounts::default());
        Self::noting(cloud_health, accounts, cloud, fence, stop)
    }

    /// The same, noting there how the cloud is, and what is seen of its account.
    pub fn noting(
        cloud_health: CloudHealth,
        accounts: Accounts,
        cloud: Arc<dyn Cloud>,
        fence: Fence,
        stop: &CancellationToken,
    ) -> Self {
        let apart = answers_apart(&cloud);
        let asked = BatchedCloud {
            cloud,
            caller: CloudCaller::new(fence),
            cloud_health,
            accounts,
        };
        let flights = |kind| {
            let (questions, waiting) = mpsc::channel(QUEUE_LIMIT);
            let (asked, stop) = (asked.clone(), stop.clone());
            if apart {
                tokio::spawn(fly_apart(kind, asked, waiting, stop));
            } else {
                tokio::spawn(fly(kind, asked, waiting, stop));
            }
            questions
        };
        Self {
            metadata: flights(Kind::Metadata),
            presence: flights(Kind::Presence),
            asked,
        }
    }

    /// The cloud that is asked.
    pub fn cloud(&self) -> &Arc<dyn Cloud> {
        &self.asked.cloud
    }

    /// What is known about the machines: one answer for each node, in the same order.
    pub async fn ask(&self, nodes: Vec<Arc<Node>>) -> Vec<Lookup> {
        Self::question(&self.metadata, nodes).await
    }

    /// Whether the machines exist and run: one answer for each node, in the same order.
    pub async fn ask_presence(&self, nodes: Vec<Arc<Node>>) -> Vec<Lookup> {
        Self::question(&self.presence, nodes).await
    }

    /// The same beside everything that is asked meanwhile: about machines that was not known about before, so that
    /// nobody else waits for them.
    pub async fn ask_presence_beside(&self, nodes: Vec<Arc<Node>>) -> Vec<Lookup> {
        if nodes.is_empty() {
            return Vec::new();
        }
        self.asked.answers(Kind::Presence, &nodes).await
    }

    async fn question(questions: &mpsc::Sender<Question>, nodes: Vec<Arc<Node>>) -> Vec<Lookup> {
        let count = nodes.len();
        if count == 0 {
            return Vec::new();
        }
        let (reply, answer) = oneshot::channel();
        if questions.send(Question { nodes, reply }).await.is_err() {
            return (0..count).map(|_| stopped()).collect();
        }
        answer
            .await
            .unwrap_or_else(|_| (0..count).map(|_| stopped()).collect())
    }

    /// The cloud's check read; without a valid lease it is not made.
    pub async fn canary(&self) -> Result<(), CloudError> {
        let asked = &self.asked;
        let Some(instances) = asked.cloud.instances() else {
            return Ok(());
        };
        let what = format!("the check read of {}", asked.cloud.name());
        let check = async { instances.canary().await };
        let checked = asked.caller.read(what, check).await.flatten();
        asked.note(checked.as_ref().err());
        checked
    }

    /// The answer for one node.
    pub async fn ask_one(&self, node: Arc<Node>) -> Lookup {
        self.ask(vec![node]).await.pop().unwrap_or_else(stopped)
    }
}

/// Lets each question travel by itself, to a cloud whose machines answer for themselves.
async fn fly_apart(
    kind: Kind,
    asked: BatchedCloud,
    mut waiting: mpsc::Receiver<Question>,
    stop: CancellationToken,
) {
    let mut flights = JoinSet::new();
    while let Some(Some(Question { nodes, reply })) = stop.run_until_cancelled(waiting.recv()).await
    {
        while flights.try_join_next().is_some() {}
        if flights.len() >= QUEUE_LIMIT {
            flights.join_next().await;
        }
        let (asked, stop) = (asked.clone(), stop.clone());
        flights.spawn(async move {
            let flight = asked.look(kind, &nodes);
            if let Some(answers) = stop.run_until_cancelled(flight).await {
                // Whoever asked may have given up; then nobody reads the answer.
                let _ = reply.send(answers);
            }
        });
    }
}

async fn fly(
    kind: Kind,
    asked: BatchedCloud,
    mut waiting: mpsc::Receiver<Question>,
    stop: CancellationToken,
) {
    loop {
        let Some(Some(first)) = stop.run_until_cancelled(waiting.recv()).await else {
            return;
        };
        tokio::time::sleep(WINDOW).await;
        let mut size = first.nodes.len();
        let mut questions = vec![first];
        while size < FLIGHT_LIMIT
            && let Ok(next) = waiting.try_recv()
        {
            size += next.nodes.len();
            questions.push(next);
        }
        debug!(cloud = %asked.cloud.name(), nodes = size, questions = questions.len(), ?kind, "looking up machines");
        let nodes: Vec<Arc<Node>> = questions.iter().flat_map(|q| q.nodes.clone()).collect();
        let Some(answers) = stop.run_until_cancelled(asked.look(kind, &nodes)).await else {
            return;
        };
        let mut answers = answers.into_iter();
        for Question { nodes, reply } in questions {
            // Whoever asked may have given up; then nobody reads the answer.
            let _ = reply.send(answers.by_ref().take(nodes.len()).collect());
        }
    }
}

impl BatchedCloud {
    /// What the cloud answers, which shows its health.
    async fn look(&self, kind: Kind, nodes: &[Arc<Node>]) -> Vec<Lookup> {
        let answers = self.answers(kind, nodes).await;
        // Trouble with one machine is not the cloud's.
        if !answers_apart(&self.cloud) {
            let trouble = answers.iter().map(|it| match it {
                Lookup::CannotTell(error) => Some(error),
                _ => None,
            });
            let trouble: Option<Vec<&CloudError>> = trouble.collect();
            self.note(trouble.and_then(|all| all.first().copied()));
        }
        answers
    }

    async fn answers(&self, kind: Kind, nodes: &[Arc<Node>]) -> Vec<Lookup> {
        let all = |make: &dyn Fn() -> Lookup| (0..nodes.len()).map(|_| make()).collect::<Vec<_>>();
        let Some(instances) = self.cloud.instances() else {
            return all(&|| Lookup::NotMine);
        };
        let name = self.cloud.name();
        let flight = async {
            match kind {
                Kind::Metadata => instances.lookup(nodes).await,
                Kind::Presence => instances.presence(nodes).await,
            }
        };
        let account = AccountKey::of(&self.cloud);
        let what = format!("looking up machines in {name}");
        let mut answers = match self.caller.read(what, flight).await {
            Ok(answers) => answers,
            Err(error) => all(&|| Lookup::CannotTell(error.copy())),
        };
        // A provider that answers too little has not answered about the rest.
        while answers.len() < nodes.len() {
            let text = format!("{name} gave no answer about this node");
            let error = CloudError::new(CloudErrorKind::Unknown, text);
            answers.push(Lookup::CannotTell(error));
        }
        self.accounts.saw(&self.cloud, account, nodes, &answers);
        answers
    }

    fn note(&self, trouble: Option<&CloudError>) {
        self.cloud_health
            .note(&self.cloud, Purpose::Machines, trouble);
    }
}

fn stopped() -> Lookup {
    let error = CloudError::new(CloudErrorKind::Unavailable, "the manager is stopping");
    Lookup::CannotTell(error)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use bowline_core::{BoxFuture, Instances};
    use bowline_http::Clock;

    use super::*;
    use crate::clouds::test_cloud::test_cloud;
    use crate::kube::objects::NodeObject;
    use tokio_util::sync::CancellationToken;

    /// Counts its calls: those for metadata and check reads, and those for presence.
    #[derive(Default)]
    struct Counting(AtomicUsize, AtomicUsize);

    test_cloud!(Counting {
        fn instances(&self) -> Option<&dyn Instances> {
            Some(self)
        }
    });

    impl Instances for Counting {
        fn lookup<'a>(&'a self, nodes: &'a [Arc<Node>]) -> BoxFuture<'a, Vec<Lookup>> {
            self.0.fetch_add(1, Ordering::Relaxed);
            Box::pin(async { nodes.iter().map(|_| Lookup::NotMine).collect() })
        }

        fn presence<'a>(&'a self, nodes: &'a [Arc<Node>]) -> BoxFuture<'a, Vec<Lookup>> {
            self.1.fetch_add(1, Ordering::Relaxed);
            Box::pin(async { nodes.iter().map(|_| stopped()).collect() })
        }

        fn canary(&self) -> BoxFuture<'_, Result<(), CloudError>> {
            self.0.fetch_add(1, Ordering::Relaxed);
            Box::pin(async { Ok(()) })
        }
    }

    #[tokio::test(start_paused = true)]
    async fn no_cloud_is_called_without_a_valid_lease() {
        let date = "2026-01-01T00:00:00Z".parse().unwrap();
        let second = Duration::from_secs(1);
        let shut = Fence::closed("l".into(), second, second, Clock::simulated(date));
        for (fence, calls) in [(shut, 0), (Fence::open(), 2)] {
            let cloud = Arc::new(Counting::default());
            let stop = CancellationToken::new();
            let batcher = InstanceBatcher::start(cloud.clone(), fence, &stop);
            let node = Node::from(NodeObject::default());
            let answer = batcher.ask_one(Arc::new(node)).await;
            assert_eq!(matches!(answer, Lookup::CannotTell(_)), calls == 0);
            assert_eq!(batcher.canary().await.is_err(), calls == 0);
            assert_eq!(cloud.0.load(Ordering::Relaxed), calls);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn questions_of_two_kinds_are_two_flights_and_those_of_one_kind_one() {
        let cloud = Arc::new(Counting::default());
        let stop = CancellationToken::new();
        let batcher = InstanceBatcher::start(cloud.clone(), Fence::open(), &stop);
        let node = Arc::new(Node::from(NodeObject::default()));
        let (first, second, third) = tokio::join!(
            batcher.ask(vec![node.clone()]),
            batcher.ask_presence(vec![node.clone(), node.clone()]),
            batcher.ask(vec![node.clone()]),
        );
        assert!(matches!(first[..], [Lookup::NotMine]));
        assert!(matches!(
            second[..],
            [Lookup::CannotTell(_), Lookup::CannotTell(_)]
        ));
        assert!(matches!(third[..], [Lookup::NotMine]));
        let counted = [&cloud.0, &cloud.1].map(|it| it.load(Ordering::Relaxed));
        assert_eq!(counted, [1, 1]);
    }

    /// Its machines answer for themselves, and that of one node never does.
    struct Apart;

    test_cloud!(Apart {
        fn instances(&self) -> Option<&dyn Instances> {
            Some(self)
        }
    });

    impl Instances for Apart {
        fn lookup<'a>(&'a self, nodes: &'a [Arc<Node>]) -> BoxFuture<'a, Vec<Lookup>> {
            Box::pin(async {
                if nodes.iter().any(|node| node.name == "dead") {
                    std::future::pending::<()>().await;
                }
                nodes.iter().map(|_| Lookup::NotMine).collect()
            })
        }

        fn answers_apart(&self) -> bool {
            true
        }

        fn canary(&self) -> BoxFuture<'_, Result<(), CloudError>> {
            Box::pin(async { Ok(()) })
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_machine_that_never_answers_holds_up_no_other_question() {
        let cloud = Arc::new(Apart);
        let stop = CancellationToken::new();
        let batcher = InstanceBatcher::start(cloud, Fence::open(), &stop);
        let mut dead = Node::from(NodeObject::default());
        dead.name = "dead".into();
        let living = Arc::new(Node::from(NodeObject::default()));
        let begun = tokio::time::Instant::now();
        let (dead, soon) = tokio::join!(batcher.ask_one(Arc::new(dead)), async {
            let answer = batcher.ask_one(living).await;
            assert!(matches!(answer, Lookup::NotMine));
            begun.elapsed()
        });
        assert!(soon < Duration::from_millis(10), "{soon:?}");
        assert!(matches!(dead, Lookup::CannotTell(_)));
        assert_eq!(
            begun.elapsed().as_secs(),
            crate::clouds::caller::DEADLINE.as_secs()
        );
    }
}
