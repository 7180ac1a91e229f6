//! Requests for certificates, by their names.

use bowline_simulator::journal::Entry;
use serde_json::Value;

use super::TestCluster;
use crate::certificates::{Ask, conditions};

const REQUESTS: &str = "/apis/certificates.k8s.io/v1/certificatesigningrequests";

impl TestCluster {
    /// Makes a request through the API, as its kubelet would.
    pub async fn ask(&self, ask: &Ask) {
        self.cluster.ask(ask).await;
    }

    /// Stores a request as it is, past the rules of the API.
    pub async fn put_request(&self, ask: &Ask) {
        self.cluster.put_request(ask).await;
    }

    pub fn request(&self, name: &str) -> Value {
        let request = self.cluster.find_request(name);
        request.unwrap_or_else(|| panic!("there is no request {name}"))
    }

    /// Its conditions: `Type Reason: message`.
    pub fn decided(&self, name: &str) -> Vec<String> {
        conditions(&self.request(name))
    }

    /// Waits until it is decided, and gives the conditions.
    pub async fn until_decided(&self, name: &str) -> Vec<String> {
        self.until(&format!("{name} is decided"), |bench| {
            !bench.decided(name).is_empty()
        })
        .await;
        self.decided(name)
    }

    /// Waits until it has its certificate.
    pub async fn until_signed(&self, name: &str) {
        self.until(&format!("{name} is signed"), |bench| {
            bench.request(name)["status"]["certificate"].is_string()
        })
        .await;
    }

    /// All calls that would decide about a request of that name, also those that failed.
    pub fn decisions(&self, name: &str) -> Vec<Entry> {
        let path = format!("{REQUESTS}/{name}/approval");
        let all = self.entries().into_iter();
        all.filter(|it| it.path == path).collect()
    }

    /// All writes about requests and to them, by whomever in the journal.
    pub fn request_writes(&self) -> Vec<String> {
        let all = self.entries().into_iter();
        all.filter(|it| it.is_mutating() && it.path.starts_with(REQUESTS))
            .filter(|it| it.method != "POST")
            .map(|it| format!("{} {} {}", it.method, it.path, it.status))
            .collect()
    }
}
