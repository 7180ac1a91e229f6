//! Which cloud speaks for the node that requests a certificate, and its answer.

use std::sync::Arc;
use std::time::Duration;

use bowline_core::ownership::{self, Recognition};
use bowline_core::{
    ApprovalRules, Cloud, CloudName, Finding, MachineAnswer, Names, Node, Ownership,
    ServingCertificates,
};
use futures::future::join_all;

use crate::clouds::caller::CloudCaller;
use crate::clouds::cloud_health::{CloudHealth, Purpose, answers_apart};
use crate::clouds::resolver::OwnershipResolver;
use crate::kube::election::Fence;

/// How long the ranges of Services are waited for: without them the other rules decide.
const RANGES_DEADLINE: Duration = Duration::from_secs(10);

/// The clouds that approve, among all that own nodes.
#[derive(Clone)]
pub(super) struct CertificateClouds {
    resolver: OwnershipResolver,
    approving: Arc<[Arc<dyn Cloud>]>,
    caller: CloudCaller,
    cloud_health: CloudHealth,
}

/// Who speaks for a node.
enum Speakers<'a> {
    /// This one, by what the Node carries.
    Owner(&'a Arc<dyn Cloud>),
    /// Whichever of these has its machine.
    Among(Vec<&'a Arc<dyn Cloud>>),
}

impl CertificateClouds {
    /// Those that are switched on: all if the controller was asked for by name, else those that
    /// are on by themselves.
    pub(super) fn new(resolver: &OwnershipResolver, is_named: bool, fence: Fence) -> Self {
        let is_on = |cloud: &&Arc<dyn Cloud>| {
            let capability = cloud.serving_certificates();
            capability.is_some_and(|it| is_named || it.is_default_on())
        };
        Self {
            approving: resolver.clouds().iter().filter(is_on).cloned().collect(),
            resolver: resolver.clone(),
            caller: CloudCaller::new(fence),
            cloud_health: CloudHealth::default(),
        }
    }

    /// The same, noting there how clouds are.
    pub(super) fn noting(self, cloud_health: CloudHealth) -> Self {
        Self {
            cloud_health,
            ..self
        }
    }

    /// Those that approve.
    pub(super) fn names(&self) -> impl Iterator<Item = CloudName> {
        self.approving.iter().map(|it| it.name().clone())
    }

    /// The rules that hold before anybody knows which cloud owns the node.
    pub(super) fn first_rules(&self) -> ApprovalRules {
        match &*self.approving {
            [only] => rules(only),
            _ => ApprovalRules::default(),
        }
    }

    /// Whether the node is of no cloud that approves, so that its requests are somebody else's matter.
    pub(super) fn is_foreign(&self, node: Option<&Node>) -> bool {
        matches!(self.speakers(node), Speakers::Among(clouds) if clouds.is_empty())
    }

    /// Who has a say about requests of that node that nobody has to be asked about; none if
    /// several could.
    pub(super) fn spokesman(&self, node: Option<&Node>) -> Option<&Arc<dyn Cloud>> {
        match self.speakers(node) {
            Speakers::Owner(cloud) => Some(cloud),
            Speakers::Among(clouds) => match clouds.as_slice() {
                [only] => Some(*only),
                _ => None,
            },
        }
    }

    /// The cloud of the node of that name, and its answer.
    pub(super) async fn ask(
        &self,
        name: &str,
        node: Option<&Node>,
    ) -> Result<(Arc<dyn Cloud>, MachineAnswer), Finding> {
        match self.speakers(node) {
            Speakers::Owner(cloud) => Ok((cloud.clone(), self.question(cloud, name, node).await)),
            Speakers::Among(clouds) => {
                // Those that know machines come first; who speaks for every node stands back.
                let (for_all, own): (Vec<_>, Vec<_>) =
                    clouds.into_iter().partition(|it| speaks_for_all(it));
                match self.one_of(own, name, node).await {
                    Err(Finding::NoMachine | Finding::Foreign)
                    | Ok((_, MachineAnswer::Unknown))
                        if !for_all.is_empty() =>
                    {
                        self.one_of(for_all, name, node).await
                    }
                    found => found,
                }
            }
        }
    }

    /// The only one of these that has the machine.
    async fn one_of(
        &self,
        clouds: Vec<&Arc<dyn Cloud>>,
        name: &str,
        node: Option<&Node>,
    ) -> Result<(Arc<dyn Cloud>, MachineAnswer), Finding> {
        let answers = join_all(clouds.iter().map(|it| self.question(it, name, node))).await;
        let mut answers: Vec<_> = clouds.into_iter().cloned().zip(answers).collect();
        if answers.len() <= 1 {
            return answers.pop().ok_or(Finding::Foreign);
        }
        let recognitions: Vec<(CloudName, Recognition)> = answers
            .iter()
            .map(|(cloud, answer)| (cloud.name().clone(), recognition(answer)))
            .collect();
        match ownership::by_recognition(&recognitions) {
            Ownership::Owned { by, .. } => {
                let mut answers = answers.into_iter();
                let own = answers.find(|(cloud, _)| *cloud.name() == by);
                own.ok_or(Finding::NoMachine)
            }
            Ownership::Nobody(_) => Err(Finding::NoMachine),
            Ownership::Contested(names) => {
                let names: Vec<&str> = names.iter().map(CloudName::as_str).collect();
                Err(Finding::Contested(names.join(", ")))
            }
            undecided @ Ownership::Undecided(_) => Err(Finding::CannotTell(undecided.to_string())),
        }
    }

    /// The ranges of Service addresses that clouds which approve know of; who cannot say says nothing.
    pub(super) async fn service_ranges(&self) -> Names {
        let caller = self.caller.within(RANGES_DEADLINE);
        let asked = self.approving.iter().filter_map(|it| it.networks());
        let asked = asked.map(|it| caller.read("reading ranges", it.cluster_ranges()));
        let mut ranges = Names::default();
        for answer in join_all(asked).await {
            if let Ok(Ok(known)) = answer {
                for range in known.services {
                    ranges.insert_range(range);
                }
            }
        }
        ranges
    }

    fn speakers(&self, node: Option<&Node>) -> Speakers<'_> {
        let Some(ownership) = node.and_then(|node| self.resolver.ownership(node)) else {
            return Speakers::Among(self.askable(node));
        };
        if let Ownership::Nobody(ownership::Unowned::ClaimedTwice(_)) = ownership {
            // Whatever was said would be about another Node's machine.
            return Speakers::Among(Vec::new());
        }
        let owner = match &ownership {
            Ownership::Owned { by, .. } => self.approving.iter().find(|it| it.name() == by),
            Ownership::Nobody(_) | Ownership::Contested(_) | Ownership::Undecided(_) => None,
        };
        match owner {
            Some(owner) => Speakers::Owner(owner),
            None => Speakers::Among(
                self.approving
                    .iter()
                    .filter(|it| speaks_for_all(it))
                    .collect(),
            ),
        }
    }

    /// Who could speak for a node that nothing else decides about, as far as node selectors leave them.
    fn askable(&self, node: Option<&Node>) -> Vec<&Arc<dyn Cloud>> {
        let askable = node.map(|node| self.resolver.askable(node));
        let is_left = |cloud: &&Arc<dyn Cloud>| {
            let named = askable.as_ref().is_none_or(|it| it.contains(cloud.name()));
            named || speaks_for_all(cloud)
        };
        self.approving.iter().filter(is_left).collect()
    }

    async fn question(
        &self,
        cloud: &Arc<dyn Cloud>,
        name: &str,
        node: Option<&Node>,
    ) -> MachineAnswer {
        let Some(certificates) = cloud.serving_certificates() else {
            return MachineAnswer::Unknown;
        };
        let question = async { certificates.machine(name, node).await };
        let what = format!("asking {} for a machine", cloud.name());
        let answer = self.caller.read(what, question).await;
        let answer = answer.unwrap_or_else(MachineAnswer::CannotTell);
        // Trouble with one machine is not the cloud's.
        if !answers_apart(cloud) {
            let trouble = match &answer {
                MachineAnswer::CannotTell(error) => Some(error),
                _ => None,
            };
            self.cloud_health
                .note(cloud, Purpose::Certificates, trouble);
        }
        answer
    }
}

/// The rules of a cloud that approves.
pub(super) fn rules(cloud: &Arc<dyn Cloud>) -> ApprovalRules {
    let certificates = cloud.serving_certificates();
    certificates.map_or_else(ApprovalRules::default, ServingCertificates::rules)
}

fn speaks_for_all(cloud: &Arc<dyn Cloud>) -> bool {
    let certificates = cloud.serving_certificates();
    certificates.is_some_and(ServingCertificates::speaks_for_all)
}

fn recognition(answer: &MachineAnswer) -> Recognition {
    match answer {
        MachineAnswer::Machines(machines) if machines.is_empty() => Recognition::NotMine,
        MachineAnswer::Machines(_) | MachineAnswer::Refused(_) => Recognition::Mine,
        MachineAnswer::Unknown | MachineAnswer::NotItsMachine(_) => Recognition::NotMine,
        MachineAnswer::CannotTell(error) => Recognition::CannotTell(error.chain()),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use bowline_core::BoxFuture;
    use bowline_http::Clock;

    use super::*;
    use crate::clouds::test_cloud::test_cloud;

    fn resolver(cloud: Arc<dyn Cloud>) -> OwnershipResolver {
        OwnershipResolver::new(&[cloud], Arc::default())
    }

    /// Counts the questions, and answers none if it hangs.
    struct Counting {
        questions: AtomicUsize,
        hangs: bool,
    }

    test_cloud!(Counting {
        fn serving_certificates(&self) -> Option<&dyn ServingCertificates> {
            Some(self)
        }
    });

    impl ServingCertificates for Counting {
        fn rules(&self) -> ApprovalRules {
            ApprovalRules::default()
        }

        fn machine<'a>(&'a self, _: &'a str, _: Option<&'a Node>) -> BoxFuture<'a, MachineAnswer> {
            Box::pin(async {
                self.questions.fetch_add(1, Ordering::Relaxed);
                if self.hangs {
                    std::future::pending::<()>().await;
                }
                MachineAnswer::Unknown
            })
        }
    }

    async fn ask(fence: Fence, hangs: bool) -> (usize, MachineAnswer) {
        let cloud = Arc::new(Counting {
            questions: AtomicUsize::new(0),
            hangs,
        });
        let clouds = CertificateClouds::new(&resolver(cloud.clone()), true, fence);
        let (_, answer) = clouds.ask("n1", None).await.unwrap();
        (cloud.questions.load(Ordering::Relaxed), answer)
    }

    #[tokio::test(start_paused = true)]
    async fn no_cloud_is_asked_without_a_valid_lease_nor_without_end() {
        let clock = Clock::simulated("2026-01-01T00:00:00Z".parse().unwrap());
        let second = Duration::from_secs(1);
        let shut = Fence::closed("l".into(), second, second, clock);
        let (questions, answer) = ask(shut, false).await;
        assert!(matches!(
            (questions, answer),
            (0, MachineAnswer::CannotTell(_))
        ));
        for fence in [Fence::observing(), Fence::open()] {
            let (questions, answer) = ask(fence, false).await;
            assert!(matches!((questions, answer), (1, MachineAnswer::Unknown)));
        }
        let (questions, answer) = ask(Fence::open(), true).await;
        assert!(matches!(
            (questions, answer),
            (1, MachineAnswer::CannotTell(_))
        ));
    }

    #[test]
    fn a_cloud_is_asked_only_if_it_is_switched_on() {
        let cloud: Arc<dyn Cloud> = Arc::new(Counting {
            questions: AtomicUsize::new(0),
            hangs: false,
        });
        let off = CertificateClouds::new(&resolver(cloud.clone()), false, Fence::open());
        assert!(off.spokesman(None).is_none());
        let on = CertificateClouds::new(&resolver(cloud), true, Fence::open());
        assert!(on.spokesman(None).is_some());
    }
}
