//! Calls to the clouds that have load balancers.

use std::sync::Arc;

use bowline_core::{
    BalancerRequest, BalancerRules, Balancers, Cloud, CloudError, CloudErrorKind, CloudName,
    ClusterMarks, DraftError, Executor, Goal, LoadBalancerClasses, Needs, PreparedPlan, Service,
    Step, StepId, StepOutcome, TaggedBalancer, TargetGuard, targets,
};
use tokio::sync::{Notify, watch};

use crate::clouds::caller::CloudCaller;
use crate::clouds::cloud_health::{CloudHealth, Purpose};
use crate::clouds::per_cloud::PerCloud;
use crate::clouds::resolver::{DefaultCloud, OwnershipResolver};
use crate::kube::election::Fence;

/// All configured clouds, those without load balancers included: they own nodes too.
#[derive(Clone)]
pub(crate) struct ServiceClouds {
    pub(super) resolver: OwnershipResolver,
    names: Arc<LoadBalancerClasses>,
    caller: CloudCaller,
    cloud_health: CloudHealth,
    pub(super) guards: PerCloud<TargetGuard>,
    /// A node has lost its owner, and is to be looked at again.
    pub(super) doubts: Arc<Notify>,
}

/// What may be wrong with the cloud itself.
trait Trouble {
    fn trouble(&self) -> Option<&CloudError>;
}

impl Trouble for CloudError {
    fn trouble(&self) -> Option<&CloudError> {
        Some(self)
    }
}

impl Trouble for DraftError {
    fn trouble(&self) -> Option<&CloudError> {
        match self {
            Self::Cloud(error) => Some(error),
            Self::Elsewhere | Self::NeedsServices | Self::Account { .. } | Self::Later { .. } => {
                None
            }
        }
    }
}

/// The clouds that have load balancers, with their classes and the configured default.
pub(crate) fn balancer_clouds(resolver: &OwnershipResolver) -> LoadBalancerClasses {
    let clouds = resolver.clouds();
    let serving = clouds.iter().filter(|it| it.balancers().is_some());
    let mut names = LoadBalancerClasses::new(serving.map(|it| it.name().clone()));
    for cloud in clouds {
        let classes = cloud.balancers().map_or(&[][..], Balancers::classes);
        names = names.with_classes(cloud.name(), classes);
    }
    for (before, now) in resolver.former() {
        names = names.formerly(before, now);
    }
    match &resolver.rules().default_cloud {
        DefaultCloud::First => names,
        DefaultCloud::Named(cloud) => names.by_default(Some(cloud.clone())),
        DefaultCloud::None => names.by_default(None),
    }
}

impl ServiceClouds {
    pub(crate) fn new(resolver: &OwnershipResolver, fence: Fence) -> Self {
        Self {
            names: Arc::new(balancer_clouds(resolver)),
            resolver: resolver.clone(),
            caller: CloudCaller::new(fence),
            cloud_health: CloudHealth::default(),
            guards: PerCloud::default(),
            doubts: Arc::default(),
        }
    }

    /// The same, knowing which nodes have lost their owners.
    pub(crate) fn guarding(self, guards: PerCloud<TargetGuard>) -> Self {
        Self { guards, ..self }
    }

    /// The same, noting there how clouds are.
    pub(crate) fn noting(self, cloud_health: CloudHealth) -> Self {
        Self {
            cloud_health,
            ..self
        }
    }

    /// Whether nothing may be changed, by whomever.
    pub(crate) fn is_observing(&self) -> bool {
        self.caller.is_observing()
    }

    /// Those with load balancers.
    pub(crate) fn names(&self) -> &LoadBalancerClasses {
        &self.names
    }

    /// Whether a Service's load balancer may be in an account that is not configured any more: nothing about it says in
    /// which cloud it is.
    pub(crate) fn may_have_departed(&self, service: &Service) -> bool {
        self.resolver.has_departed() && self.names.names_no_cloud(service)
    }

    pub(crate) fn balancers(&self, name: &CloudName) -> Option<&dyn Balancers> {
        self.cloud(name)?.balancers()
    }

    pub(crate) fn cloud(&self, name: &CloudName) -> Option<&Arc<dyn Cloud>> {
        let mut clouds = self.resolver.clouds().iter();
        clouds.find(|it| it.name() == name)
    }

    /// What that cloud needs to know besides Services and nodes.
    pub(crate) fn needs(&self, name: &CloudName) -> Needs {
        self.balancers(name)
            .map_or(Needs::default(), Balancers::needs)
    }

    /// What all of them need together.
    pub(crate) fn all_needs(&self) -> Needs {
        let all = self.names.all().iter().map(|name| self.needs(name));
        all.fold(Needs::default(), Needs::and)
    }

    /// The annotation that names a load balancer of this cloud.
    pub(crate) fn naming_annotation(&self, name: &CloudName) -> Option<&'static str> {
        self.balancers(name)?.naming_annotation()
    }

    /// The annotations that this cloud writes by itself.
    pub(crate) fn own_annotations(&self, name: &CloudName) -> &'static [&'static str] {
        self.balancers(name).map_or(&[], |it| it.own_annotations())
    }

    /// Hears of it when the owners of nodes were found out.
    pub(crate) fn changes(&self) -> watch::Receiver<u64> {
        self.resolver.changes()
    }

    /// What is to be done, and what there is to report about nodes that cannot be read.
    pub(crate) async fn draft(
        &self,
        name: &CloudName,
        request: &BalancerRequest,
    ) -> Result<PreparedPlan, DraftError> {
        let balancers = self.named(name)?;
        let call = async { balancers.draft(request).await };
        let what = "looking at the load balancer";
        let mut draft = self.noted(name, self.caller.read(what, call).await)?;
        if request.goal == Goal::Present {
            draft.plan.notices.extend(request.excluded.notices());
            let held = targets::held_notice(&draft.plan.held);
            draft.plan.notices.extend(held);
        }
        Ok(draft)
    }

    /// Whether the load balancer that the Service's status shows is there.
    pub(crate) async fn recognises(
        &self,
        name: &CloudName,
        request: &BalancerRequest,
    ) -> Result<bool, DraftError> {
        let balancers = self.named(name)?;
        let call = async { balancers.recognises(request).await };
        let what = "looking for the load balancer of a Service";
        self.noted(name, self.caller.read(what, call).await)
    }

    /// What the operator allows Services to do there.
    pub(crate) fn rules(&self, name: &CloudName) -> Arc<BalancerRules> {
        self.resolver.rules().balancers_of(name)
    }

    pub(crate) async fn carry_out(
        &self,
        name: &CloudName,
        executor: &mut dyn Executor,
        (id, step): (StepId, &Step),
    ) -> Result<StepOutcome, CloudError> {
        let call = async { executor.carry_out(id, step).await };
        self.noted(name, self.caller.write("a step", call).await)
    }

    pub(crate) async fn marked(
        &self,
        name: &CloudName,
        cluster: ClusterMarks<'_>,
    ) -> Result<Vec<TaggedBalancer>, CloudError> {
        let balancers = self.named(name)?;
        let call = async { balancers.marked(cluster).await };
        let what = "listing load balancers";
        self.noted(name, self.caller.read(what, call).await)
    }

    pub(crate) async fn remove_orphan(
        &self,
        name: &CloudName,
        orphan: &TaggedBalancer,
    ) -> Result<(), CloudError> {
        let balancers = self.named(name)?;
        let call = async { balancers.remove_orphan(orphan).await };
        let what = "removing a load balancer";
        self.noted(name, self.caller.write(what, call).await)
    }

    fn named(&self, name: &CloudName) -> Result<&dyn Balancers, CloudError> {
        self.balancers(name).ok_or_else(|| {
            let text = format!("cloud {name} has no load balancers");
            CloudError::new(CloudErrorKind::Invalid, text)
        })
    }

    /// What came of a call, which says how the cloud is.
    fn noted<T, E: From<CloudError> + Trouble>(
        &self,
        name: &CloudName,
        done: Result<Result<T, E>, CloudError>,
    ) -> Result<T, E> {
        let done = done.unwrap_or_else(|error| Err(error.into()));
        if let Some(cloud) = self.cloud(name) {
            let trouble = done.as_ref().err().and_then(Trouble::trouble);
            self.cloud_health.note(cloud, Purpose::Balancers, trouble);
        }
        done
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::Duration;

    use bowline_core::{BoxFuture, Cloud, ClusterMatch};
    use bowline_http::Clock;

    use super::*;
    use crate::clouds::test_cloud::{DEMO, test_cloud};

    /// Counts its calls.
    #[derive(Default)]
    struct Counting(AtomicUsize);

    impl Counting {
        fn count<T>(&self, answer: T) -> T {
            self.0.fetch_add(1, Ordering::Relaxed);
            answer
        }
    }

    test_cloud!(Counting {
        fn balancers(&self) -> Option<&dyn Balancers> {
            Some(self)
        }
    });

    impl Balancers for Counting {
        fn draft<'a>(
            &'a self,
            _: &'a BalancerRequest,
        ) -> BoxFuture<'a, Result<PreparedPlan, DraftError>> {
            Box::pin(async { self.count(Err(DraftError::Elsewhere)) })
        }

        fn own_annotations(&self) -> &'static [&'static str] {
            &[]
        }

        fn audit_period(&self) -> Option<Duration> {
            None
        }

        fn marked<'a>(
            &'a self,
            _: ClusterMarks<'a>,
        ) -> BoxFuture<'a, Result<Vec<TaggedBalancer>, CloudError>> {
            Box::pin(async { self.count(Ok(Vec::new())) })
        }

        fn remove_orphan<'a>(
            &'a self,
            _: &'a TaggedBalancer,
        ) -> BoxFuture<'a, Result<(), CloudError>> {
            Box::pin(async { self.count(Ok(())) })
        }
    }

    #[tokio::test(start_paused = true)]
    async fn no_cloud_is_called_without_a_valid_lease_and_an_observer_only_reads() {
        let clock = Clock::simulated("2026-01-01T00:00:00Z".parse().unwrap());
        let second = Duration::from_secs(1);
        let shut = Fence::closed("l".into(), second, second, clock);
        for (fence, calls) in [(shut, 0), (Fence::observing(), 2), (Fence::open(), 3)] {
            let counting = Arc::new(Counting::default());
            let resolver =
                OwnershipResolver::new(&[counting.clone() as Arc<dyn Cloud>], Arc::default());
            let clouds = ServiceClouds::new(&resolver, fence);
            let request = BalancerRequest::default();
            let orphan = TaggedBalancer {
                id: "1".into(),
                name: "lb".into(),
                service_uid: "u".into(),
                cluster: ClusterMatch::Ours,
            };
            let drafted = clouds.draft(&DEMO, &request).await;
            assert_eq!(matches!(drafted, Err(DraftError::Elsewhere)), calls > 0);
            assert_eq!(
                clouds.marked(&DEMO, ClusterMarks::default()).await.is_ok(),
                calls > 0
            );
            assert_eq!(
                clouds.remove_orphan(&DEMO, &orphan).await.is_ok(),
                calls > 2
            );
            assert_eq!(counting.0.load(Ordering::Relaxed), calls);
        }
    }
}
