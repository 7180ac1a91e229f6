//! A data center, the provider, and a way to ask it about nodes.

use std::sync::Arc;

use bowline_core::{Lookup, Node};
use bowline_http::Seams;
use bowline_simulator_triton::{Fixture, Triton as Simulated};
use bowline_test_kit::{Simulation, wraps};
pub(crate) use bowline_test_kit::{cannot_tell as unclear, found, lookups, presence};
use bowline_triton::{SecretContent, SecretSource, Sources, Triton, TritonMetrics, build};
use tokio::sync::watch;

pub(crate) use crate::common::{id, known, named as node};

pub(crate) struct Harness(Simulation<Simulated>);

wraps!(Harness => 0: Simulation<Simulated>);

impl Harness {
    /// With machines `k8s-1` to `k8s-<count>`.
    pub(crate) fn new(count: u32) -> Self {
        Self(crate::common::simulation(Fixture::default(), count))
    }

    pub(crate) fn sources(further: &[(&str, &str)]) -> Sources {
        crate::common::sources(further, None)
    }

    pub(crate) fn seams(&self) -> Seams {
        self.0.seams("triton")
    }

    pub(crate) fn provider_of(&self, sources: Sources) -> Arc<Triton> {
        build(sources, &self.seams(), &TritonMetrics::default()).unwrap()
    }

    pub(crate) fn provider(&self) -> Arc<Triton> {
        self.provider_of(Self::sources(&[]))
    }

    pub(crate) fn provider_with_file(&self, text: &str) -> (Arc<Triton>, tempfile::TempDir) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("cloud.conf");
        std::fs::write(&path, text).unwrap();
        let mut sources = Self::sources(&[]);
        sources.file = Some(path);
        (self.provider_of(sources), folder)
    }

    /// Forgets the five machines that there are, after they were found; answers with their nodes.
    pub(crate) async fn lose_five(&self, provider: &Arc<Triton>) -> Vec<Node> {
        let nodes: Vec<Node> = (1..=5).map(known).collect();
        for answer in lookups(provider, &nodes).await {
            found(answer);
        }
        for number in 1..=5 {
            self.sim.forget(&format!("k8s-{number}")).unwrap();
        }
        nodes
    }

    pub(crate) fn provider_with_secret(
        &self,
        content: SecretContent,
    ) -> (Arc<Triton>, watch::Sender<Option<SecretContent>>) {
        let (sender, receiver) = watch::channel(Some(content));
        let mut sources = Self::sources(&[]);
        sources.secret = Some(SecretSource {
            namespace: "kube-system".to_owned(),
            name: "triton-credentials".to_owned(),
            content: receiver,
        });
        (self.provider_of(sources), sender)
    }
}

pub(crate) async fn lookup(cloud: &Arc<Triton>, node: &Node) -> Lookup {
    lookups(cloud, std::slice::from_ref(node)).await.remove(0)
}

#[track_caller]
pub(crate) fn gone(lookup: Lookup) -> String {
    bowline_test_kit::gone(lookup).text
}
