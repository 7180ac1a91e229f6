//! Stands in for a cloud that cannot be built yet, so that the others can work: it knows its own nodes, and answers
//! nothing about them. Nothing of its is another's meanwhile, and nothing is concluded.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bowline_core::ipam::{ClusterRanges, MachineAddress, Networks};
use bowline_core::{
    BalancerRequest, Balancers, BoxFuture, CLASS_PREFIX, Cloud, CloudError, CloudErrorKind,
    CloudName, ClusterMarks, DraftError, Instances, Lookup, Node, NodeMatch, PreparedPlan, Service,
    TaggedBalancer,
};

use bowline_provider::ProviderKind;

/// A cloud that cannot be built yet.
pub(crate) struct PlaceholderCloud {
    name: CloudName,
    provider: &'static ProviderKind,
    why: Mutex<String>,
}

impl PlaceholderCloud {
    /// In the place of that cloud.
    pub(crate) fn new(name: CloudName, provider: &'static ProviderKind, why: String) -> Self {
        Self {
            name,
            provider,
            why: Mutex::new(why),
        }
    }

    /// Why it cannot be built.
    pub(crate) fn why(&self) -> String {
        let why = self.why.lock();
        why.unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// It still cannot be built. Says whether that is for another reason than before.
    pub(crate) fn still(&self, why: String) -> bool {
        let mut known = self.why.lock().unwrap_or_else(PoisonError::into_inner);
        let is_new = *known != why;
        *known = why;
        is_new
    }

    fn error(&self) -> CloudError {
        let message = format!("cloud {} cannot be built yet: {}", self.name, self.why());
        CloudError::new(CloudErrorKind::Unavailable, message)
    }
}

impl Cloud for PlaceholderCloud {
    fn name(&self) -> &CloudName {
        &self.name
    }

    fn provider(&self) -> &'static str {
        self.provider.name
    }

    fn match_node(&self, node: &Node) -> NodeMatch {
        (self.provider.match_node)(node)
    }

    fn ready(&self) -> Result<(), String> {
        Err(format!("it cannot be built yet: {}", self.why()))
    }

    fn instances(&self) -> Option<&dyn Instances> {
        Some(self)
    }

    /// No range is guessed while a cloud that knows cannot be asked.
    fn networks(&self) -> Option<&dyn Networks> {
        let knows_networks = self.provider.capabilities.networks;
        knows_networks.then_some(self as &dyn Networks)
    }

    fn balancers(&self) -> Option<&dyn Balancers> {
        let has_balancers = self.provider.capabilities.load_balancers;
        has_balancers.then_some(self as &dyn Balancers)
    }
}

impl Networks for PlaceholderCloud {
    fn cluster_ranges(&self) -> BoxFuture<'_, Result<ClusterRanges, CloudError>> {
        Box::pin(async { Err(self.error()) })
    }

    fn machine_addresses<'a>(
        &'a self,
        _: &'a Node,
    ) -> BoxFuture<'a, Result<Vec<MachineAddress>, CloudError>> {
        Box::pin(async { Err(self.error()) })
    }
}

impl Instances for PlaceholderCloud {
    fn lookup<'a>(&'a self, nodes: &'a [Arc<Node>]) -> BoxFuture<'a, Vec<Lookup>> {
        let answer = |_| Lookup::CannotTell(self.error());
        Box::pin(async move { nodes.iter().map(answer).collect() })
    }

    fn canary(&self) -> BoxFuture<'_, Result<(), CloudError>> {
        Box::pin(async { Err(self.error()) })
    }
}

impl Balancers for PlaceholderCloud {
    fn draft<'a>(
        &'a self,
        _: &'a BalancerRequest,
    ) -> BoxFuture<'a, Result<PreparedPlan, DraftError>> {
        Box::pin(async { Err(self.error().into()) })
    }

    fn own_annotations(&self) -> &'static [&'static str] {
        &[]
    }

    /// Only a Service that names it is held for it: it may have its load balancers switched off, and then a Service
    /// without a class is somebody else's. What is held already waits, and is told why.
    fn serves(&self, service: &Service) -> bool {
        let class = service.class.as_deref();
        class.and_then(|it| it.strip_prefix(CLASS_PREFIX)) == Some(self.name.as_str())
    }

    /// Whether they are is not known, and nothing would be done about it.
    fn has_members(&self) -> bool {
        false
    }

    fn audit_period(&self) -> Option<Duration> {
        None
    }

    fn recognises<'a>(&'a self, _: &'a BalancerRequest) -> BoxFuture<'a, Result<bool, DraftError>> {
        Box::pin(async { Err(self.error().into()) })
    }

    fn marked<'a>(
        &'a self,
        _: ClusterMarks<'a>,
    ) -> BoxFuture<'a, Result<Vec<TaggedBalancer>, CloudError>> {
        Box::pin(async { Err(self.error()) })
    }

    fn remove_orphan<'a>(&'a self, _: &'a TaggedBalancer) -> BoxFuture<'a, Result<(), CloudError>> {
        Box::pin(async { Err(self.error()) })
    }
}

#[cfg(test)]
mod tests {
    use bowline_core::{Claim, Ready, StringMap};
    use k8s_openapi::jiff::Timestamp;

    use super::*;

    fn placeholder(provider: &str) -> PlaceholderCloud {
        let provider = crate::providers::named(provider).unwrap();
        PlaceholderCloud::new(CloudName::parse("east").unwrap(), provider, "no key".into())
    }

    fn node(provider_id: &str) -> Node {
        Node {
            name: "n".into(),
            uid: "u".into(),
            resource_version: "1".into(),
            created: Timestamp::UNIX_EPOCH,
            deleting: false,
            labels: StringMap::new(),
            annotations: StringMap::new(),
            provider_id: (!provider_id.is_empty()).then(|| provider_id.to_owned()),
            pod_cidrs: Vec::new(),
            taints: Vec::new(),
            addresses: Vec::new(),
            ready: Ready::True,
            network: None,
            system_uuid: String::new(),
            os_image: String::new(),
        }
    }

    #[test]
    fn it_claims_the_nodes_of_its_kind_and_no_others() {
        let uuid = "5b1e2d3c-0000-4000-8000-000000000001";
        for (provider, id) in [
            ("cloudscale", format!("cloudscale://{uuid}")),
            ("exoscale", format!("exoscale://{uuid}")),
            ("exoscale", uuid.to_owned()),
            ("talos", "talos://metal/10.0.0.5".to_owned()),
            ("triton", format!("triton://{uuid}")),
            ("xenorchestra", format!("xenorchestra://{uuid}/{uuid}")),
        ] {
            assert_eq!(
                placeholder(provider).match_node(&node(&id)).claim,
                Claim::Mine,
                "{id}"
            );
        }
        for provider in ["cloudscale", "exoscale", "triton", "xenorchestra"] {
            for id in ["", "aws:///eu-1/i-1", "tritonic://x", "cloudscale-2://x"] {
                let claim = placeholder(provider).match_node(&node(id)).claim;
                assert_eq!(claim, Claim::Foreign, "{provider}: {id:?}");
            }
        }
    }

    #[tokio::test]
    async fn it_can_tell_nothing_and_says_why() {
        let cloud = placeholder("exoscale");
        let nodes = [Arc::new(node("exoscale://x"))];
        let instances = cloud.instances().unwrap();
        let answers = instances.lookup(&nodes).await;
        let [Lookup::CannotTell(error)] = answers.as_slice() else {
            panic!("{answers:?}");
        };
        assert_eq!(error.kind(), CloudErrorKind::Unavailable);
        assert!(error.chain().contains("no key"), "{error}");
        assert!(instances.canary().await.is_err());
        let balancers = cloud.balancers().unwrap();
        assert!(balancers.marked(ClusterMarks::default()).await.is_err());
        assert!(!cloud.still("no key".into()) && cloud.still("no zone".into()));
        assert!(cloud.ready().unwrap_err().contains("no zone"));
        assert!(placeholder("talos").balancers().is_none());
    }

    #[tokio::test]
    async fn proof_case_44_it_guesses_no_range_of_pods() {
        let cloud = placeholder("talos");
        let networks = cloud.networks().unwrap();
        assert!(networks.cluster_ranges().await.is_err());
        let node = node("");
        assert!(networks.machine_addresses(&node).await.is_err());
        assert!(placeholder("cloudscale").networks().is_none());
    }
}
