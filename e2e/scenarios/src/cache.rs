//! A cache of the API server that lags behind: whatever may be answered from it is, and nothing newer is reported.
//!
//! Lists without a version are not its business: a server answers those from its storage.

use bowline_simulator::faults::{Action, Faults, Rule};
use k8s_openapi::api::core::v1::{Node, Service};
use kube::Api;
use kube::api::ListParams;
use kube::core::{ApiResource, DynamicObject};
use serde_json::{Value, json};

use crate::test_cluster::TestCluster;

/// What such a cache holds of one kind.
#[derive(Clone, Debug)]
pub struct Cache {
    path: &'static str,
    /// As the server names them.
    items: Vec<Value>,
    pub version: u64,
}

/// It answers. Dropping it lets the server catch up.
pub struct Lagging {
    faults: Faults,
    rules: Vec<String>,
}

impl Drop for Lagging {
    fn drop(&mut self) {
        for rule in &self.rules {
            self.faults.remove(rule);
        }
    }
}

impl Cache {
    /// Of all Services, as they are now.
    pub async fn of_services(bench: &TestCluster) -> Self {
        let resource = ApiResource::erase::<Service>(&());
        Self::of(bench, &resource, "/api/v1/services").await
    }

    /// Of all nodes, as they are now.
    pub async fn of_nodes(bench: &TestCluster) -> Self {
        let resource = ApiResource::erase::<Node>(&());
        Self::of(bench, &resource, "/api/v1/nodes").await
    }

    async fn of(bench: &TestCluster, resource: &ApiResource, path: &'static str) -> Self {
        let api: Api<DynamicObject> = Api::all_with(bench.admin(), resource);
        let params = ListParams {
            label_selector: bench.cluster.names().selector(),
            ..ListParams::default()
        };
        let listed = api.list(&params).await.unwrap();
        let version = listed.metadata.resource_version.unwrap();
        let items = listed.items.iter();
        Self {
            path,
            items: items.map(|it| serde_json::to_value(it).unwrap()).collect(),
            version: version.parse().unwrap(),
        }
    }

    /// The same without these objects.
    #[must_use]
    pub fn without(mut self, bench: &TestCluster, names: &[&str]) -> Self {
        for name in names {
            let own = bench.cluster.names().own(name);
            let before = self.items.len();
            self.items.retain(|it| it["metadata"]["name"] != *own);
            assert_eq!(self.items.len(), before - 1, "{name}");
        }
        self
    }

    /// The same without what is not there any more, and it says that it is of now: objects may be missing or old, but none is
    /// left that was deleted.
    pub async fn that_says_it_is_new(mut self, bench: &TestCluster) -> Self {
        let now = match self.path {
            "/api/v1/nodes" => Self::of_nodes(bench).await,
            _ => Self::of_services(bench).await,
        };
        let is_there = |it: &Value| {
            let uid = &it["metadata"]["uid"];
            now.items
                .iter()
                .any(|other| other["metadata"]["uid"] == *uid)
        };
        self.items.retain(is_there);
        self.version = now.version;
        self
    }

    /// Lets lists that ask for any version, or for one not older than another, be answered from it, and watches from
    /// a version find that forgotten, so that the manager lists again.
    pub fn answer(&self, bench: &TestCluster) -> Lagging {
        self.answer_at("kubernetes", bench)
    }

    /// The same for those who call at that door.
    pub fn answer_at(&self, door: &str, bench: &TestCluster) -> Lagging {
        let mut rules = Vec::new();
        let mut add = |action: Action, query: &str| {
            let rule = Rule::new(action).server(door);
            let rule = rule.on("GET", self.path).query(query);
            rules.push(bench.world.faults.add(rule).unwrap());
        };
        // A version is a number; without one a list is not for the cache.
        for digit in 0..10 {
            let streamed = format!("*sendInitialEvents=true*&resourceVersion={digit}*");
            add(
                Action::Events {
                    events: self.as_events(),
                },
                &streamed,
            );
            let page = Action::Status {
                code: 200,
                headers: std::collections::BTreeMap::new(),
                body: Some(self.as_page()),
            };
            add(page, &format!("*limit=500&resourceVersion={digit}*"));
        }
        let forgotten = Action::Events {
            events: vec![expired()],
        };
        add(forgotten, "*allowWatchBookmarks=true&resourceVersion=*");
        bench.cluster.break_watches();
        Lagging {
            faults: bench.world.faults.clone(),
            rules,
        }
    }

    fn as_events(&self) -> Vec<Value> {
        let items = self.items.iter();
        let mut events: Vec<Value> = items
            .map(|it| json!({ "type": "ADDED", "object": it }))
            .collect();
        events.push(
            json!({ "type": "BOOKMARK", "object": { "kind": "Bookmark", "apiVersion": "v1",
            "metadata": { "resourceVersion": self.version.to_string(),
                          "annotations": { "k8s.io/initial-events-end": "true" } } } }),
        );
        events
    }

    fn as_page(&self) -> Value {
        json!({ "kind": "List", "apiVersion": "v1", "items": self.items,
                "metadata": { "resourceVersion": self.version.to_string() } })
    }
}

impl Lagging {
    /// Waits until so many lists were answered from it.
    pub async fn answered(&self, bench: &TestCluster, times: u64) {
        let is_list = |name: &String| self.rules[..self.rules.len() - 1].contains(name);
        bench
            .until("lists are answered from the cache", |_| {
                let rules = self.faults.rules().into_iter();
                let struck = rules.filter(|(rule, _)| is_list(&rule.name));
                struck.map(|(_, times)| times).sum::<u64>() >= times
            })
            .await;
    }
}

/// What a server says to a watch from a version that it has forgotten.
pub(crate) fn expired() -> Value {
    json!({ "type": "ERROR", "object": {
        "kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 410,
        "reason": "Expired", "message": "too old resource version",
    } })
}
