//! The Service `web` of the cases, its nodes, and short forms of what the cloud has and was asked.

use std::net::IpAddr;
use std::time::Duration;

pub(crate) use bowline_scenarios::cloudscale::{CONFIG_VERSION, FINALIZER, UUID, ZONE};
use bowline_scenarios::objects::{known, service, text};
use bowline_scenarios::{TestCluster, cloudscale};
use bowline_simulator::journal::{Entry, Filter};
use bowline_simulator_cloudscale::{BalancerInfo, BalancerTimings, PoolSpec};
use serde_json::Value;

use crate::cloudscale::harness::{A, B, Harness};

pub(crate) const SELECTOR: &str = "k8s.cloudscale.ch/loadbalancer-node-selector";
/// Server and node that joins later.
pub(crate) const C: &str = "c3a5e7f9-1b2d-4c6e-8f0a-9b8c7d6e5f40";
const PATH: &str = "/v1/load-balancers*";

/// A test with two nodes, whose kubelets nobody asks about: that a node is ready does not matter to
/// a load balancer.
pub(crate) struct ServiceHarness(Harness);

bowline_scenarios::harness!(ServiceHarness, 0: Harness);

impl ServiceHarness {
    /// With both nodes, and a running manager.
    pub(crate) async fn new() -> Self {
        Self::with(&[], &[]).await
    }

    /// The same with further variables and arguments.
    pub(crate) async fn with(environment: &[(&str, &str)], arguments: &[&str]) -> Self {
        let mut test = Self::idle(environment, arguments).await;
        test.start().await;
        test
    }

    /// The same without the manager.
    pub(crate) async fn idle(environment: &[(&str, &str)], arguments: &[&str]) -> Self {
        Self::on(Harness::idle(environment, arguments).await).await
    }

    /// The same on another test.
    pub(crate) async fn on(test: Harness) -> Self {
        test.cloud
            .set_balancer_timings(BalancerTimings::each(Duration::from_millis(500)));
        let test = Self(test);
        test.add_node("worker-a", A, 11).await;
        test.add_node("worker-b", B, 12).await;
        test
    }

    /// Puts an initialised node there, with the addresses that its server has: worker A or B is 11
    /// or 12 everywhere, and others are only in the private network.
    pub(crate) async fn add_node(&self, name: &str, server: &str, number: u8) {
        let mut addresses = vec![format!("Hostname:{name}")];
        if [A, B].contains(&server) {
            addresses.push(format!("ExternalIP:203.0.113.{number}"));
            addresses.push(format!("ExternalIP:2001:db8:1:1101::{number}"));
        }
        addresses.push(format!("InternalIP:10.20.0.{number}"));
        let addresses: Vec<&str> = addresses.iter().map(String::as_str).collect();
        let id = format!("cloudscale://{server}");
        self.put(known(name, &id, "True", &addresses)).await;
    }

    /// Creates `web`, and waits until it shows its addresses.
    pub(crate) async fn serve(&self) -> Value {
        self.create_service(service("web")).await;
        self.until_ensured("web").await
    }

    /// Waits until a Service shows its addresses and that is reported.
    pub(crate) async fn until_ensured(&self, name: &str) -> Value {
        self.until_published(name).await;
        self.message(name, "EnsuredLoadBalancer").await;
        self.0.service(name)
    }

    /// What the original leaves behind: a Service as it wrote it, and its load balancer for nodes
    /// with these last parts of addresses, whose uuid is returned.
    pub(crate) async fn leave(&self, name: &str, hosts: &[u8]) -> String {
        self.0.leave(name, &addresses(hosts)).await
    }

    // The cloud.

    /// The only load balancer.
    pub(crate) fn balancer(&self) -> BalancerInfo {
        let mut all = self.cloud.balancers();
        assert_eq!(all.len(), 1, "{all:?}");
        all.remove(0)
    }

    /// Addresses and ports of the members of its first pool, sorted.
    pub(crate) fn members(&self) -> Vec<String> {
        members(&self.balancer())
    }

    /// Waits until these are the members of the only load balancer: the last parts of addresses.
    pub(crate) async fn until_members(&self, wanted: &[&str]) {
        let cloud = self.cloud.clone();
        self.until(&format!("the members are {wanted:?}"), |_| {
            let all = cloud.balancers();
            let [balancer] = all.as_slice() else {
                return false;
            };
            let hosts = members(balancer).into_iter();
            let hosts: Vec<String> = hosts
                .map(|it| it.split_once(':').unwrap().0.replace("10.20.0.", ""))
                .collect();
            hosts == wanted
        })
        .await;
    }

    /// What the cloud was asked to change, from that entry of the journal on: `POST pools`.
    pub(crate) fn changes_from(&self, mark: usize) -> Vec<String> {
        changes_from(&self.0, mark)
    }

    pub(crate) fn changes(&self) -> Vec<String> {
        self.changes_from(0)
    }

    /// How often the cloud was asked for that: `POST load-balancers`.
    pub(crate) fn count_of(&self, change: &str) -> usize {
        let all = self.changes().into_iter();
        all.filter(|it| it == change).count()
    }

    /// Waits until the cloud was asked for that, from that entry of the journal on.
    pub(crate) async fn until_asked(&self, mark: usize, change: &str) {
        let done = |it: &TestCluster| changes_from(it, mark).iter().any(|it| it == change);
        self.until(&format!("the cloud is asked: {change}"), done)
            .await;
    }

    /// Waits until the cloud was read again, from that entry of the journal on, and everything that
    /// came of it has settled.
    pub(crate) async fn until_looked(&self, mark: usize) {
        let looks = Filter::any().server("cloudscale").method("GET").path(PATH);
        let done = |it: &TestCluster| {
            let entries = it.entries().into_iter().skip(mark);
            entries.filter(|it| looks.matches(it)).count() > 0
        };
        self.until("the cloud is looked at", done).await;
        self.seconds(3).await;
    }

    /// What the manager wrote about `web`, from that entry of the journal on.
    pub(crate) fn written_from(&self, mark: usize) -> Vec<Entry> {
        let all = self.entries().into_iter().skip(mark);
        let path = ["/services/web", "/services/web/status"];
        all.filter(|it| it.is_mutating() && it.caller != "kubernetes-admin")
            .filter(|it| path.iter().any(|path| it.path.ends_with(path)))
            .collect()
    }

    // The Service.

    /// The server's choice.
    pub(crate) fn node_port(&self) -> u64 {
        let service = self.0.service("web");
        service["spec"]["ports"][0]["nodePort"].as_u64().unwrap()
    }

    /// The server's choice.
    pub(crate) fn uid(&self) -> String {
        uid(&self.0.service("web"))
    }
}

pub(crate) fn uid(service: &Value) -> String {
    text(&service["metadata"]["uid"]).to_owned()
}

/// An annotation; empty if there is none.
pub(crate) fn annotation<'a>(service: &'a Value, key: &str) -> &'a str {
    text(&service["metadata"]["annotations"][key])
}

fn members(balancer: &BalancerInfo) -> Vec<String> {
    let pool = balancer.pools.first();
    let all = pool.into_iter().flat_map(|pool| &pool.members);
    let mut all: Vec<String> = all
        .map(|it| format!("{}:{}", it.address, it.protocol_port))
        .collect();
    all.sort();
    all
}

/// The changes that the cloud was asked for, without ids, each with its status if that is no success.
fn changes_from(bench: &TestCluster, mark: usize) -> Vec<String> {
    let asked = Filter::any().server("cloudscale").mutating();
    let entries = bench.entries().into_iter().skip(mark);
    entries
        .filter(|it| asked.matches(it))
        .map(|it| {
            let parts = it.path.trim_start_matches("/v1/").split('/');
            let words: Vec<&str> = parts.filter(|it| !is_id(it)).collect();
            let what = match words.as_slice() {
                ["load-balancers"] => "load-balancers".to_owned(),
                ["load-balancers", rest @ ..] => rest.last().unwrap().to_string(),
                other => other.join("/"),
            };
            let failed = if it.status < 300 {
                String::new()
            } else {
                format!(" -> {}", it.status)
            };
            format!("{} {what}{failed}", it.method)
        })
        .collect()
}

fn is_id(part: &str) -> bool {
    part.len() == 36 && part.matches('-').count() == 4
}

/// The pool that the original makes for a Service whose nodes have these last parts of addresses.
pub(crate) fn pool(node_port: u16, hosts: &[u8]) -> PoolSpec {
    cloudscale::pool(node_port, &addresses(hosts))
}

fn addresses(hosts: &[u8]) -> Vec<IpAddr> {
    hosts.iter().map(|it| [10, 20, 0, *it].into()).collect()
}
