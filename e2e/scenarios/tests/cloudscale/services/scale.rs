//! Fifty Services and two hundred nodes: what it costs when some nodes are replaced.

use std::collections::BTreeMap;
use std::time::Duration;

use bowline_scenarios::{only_in_memory, scenario, tell};
use bowline_simulator::cloudscale::MachineSpec;
use bowline_simulator::faults::{Action, Rule};
use bowline_simulator::journal::{Entry, Filter};

use super::shop::Shop;

const SERVICES: usize = 50;
const NODES: u32 = 200;
const REPLACED: usize = 20;
/// What is promised: member updates of one load balancer.
const ROUNDS: usize = 3;

/// A node: its name, its server, the last part of its address.
type Worker = (String, String, u8);

/// Servers of that name and their nodes.
fn workers(shop: &Shop, name: &str, count: u32) -> Vec<Worker> {
    let mut spec = MachineSpec::named(name).interface("k8s", None);
    spec.count = Some(count);
    let made = shop.cloud.add_servers(&spec).unwrap();
    let all = shop.cloud.servers();
    let mut workers = Vec::new();
    for (server, number) in made.into_iter().zip(1..) {
        let info = all.iter().find(|it| it.uuid == server).unwrap();
        let address = info.addresses.iter().find(|it| it.is_ipv4()).unwrap();
        let last = address.to_string().rsplit('.').next().unwrap().parse();
        workers.push((format!("{name}-{number}"), server, last.unwrap()));
    }
    workers
}

async fn add(shop: &Shop, (name, server, number): &Worker) {
    shop.add_node(name, server, *number).await;
}

/// Reads of the members of each load balancer: there is one for each plan.
fn rounds(calls: &[Entry]) -> usize {
    let mut reads: BTreeMap<&str, usize> = BTreeMap::new();
    for call in calls {
        if call.method == "GET" && call.path.ends_with("/members") {
            *reads.entry(&call.path).or_default() += 1;
        }
    }
    reads.into_values().max().unwrap_or_default()
}

/// Every load balancer has these members, by the last parts of their addresses.
fn assert_members(shop: &Shop, wanted: &[u8]) {
    let last = |text: String| text.rsplit('.').next().unwrap().parse().unwrap();
    for balancer in shop.cloud.balancers() {
        let members = balancer.pools[0].members.iter();
        let mut hosts: Vec<u8> = members.map(|it| last(it.address.to_string())).collect();
        hosts.sort_unstable();
        assert_eq!(hosts, wanted, "{}", balancer.name);
    }
}

#[test]
fn twenty_of_two_hundred_nodes_are_replaced_in_at_most_three_rounds_for_each_load_balancer() {
    if !only_in_memory("it measures simulated time") {
        return;
    }
    scenario!(async || {
        let mut shop = Shop::idle(&[("CLOUDSCALE_DRIFT_CHECK_PERIOD", "0")], &[]).await;
        let old = workers(&shop, "old", NODES - 2);
        for worker in &old {
            add(&shop, worker).await;
        }
        let hosts: Vec<u8> = [11, 12]
            .into_iter()
            .chain(old.iter().map(|it| it.2))
            .collect();
        for number in 0..SERVICES {
            shop.leave(&format!("web-{number}"), &hosts).await;
        }
        let call = Duration::from_millis(100);
        let slow = Action::Delay {
            least: call,
            most: call,
        };
        shop.fault(Rule::new(slow).server("cloudscale"));
        shop.start();
        shop.seconds(180).await;
        let taken_over = vec!["PATCH load-balancers".to_owned(); SERVICES];
        assert_eq!(shop.changes(), taken_over, "but for a tag all is right");
        let (mark, begun) = (shop.mark(), tokio::time::Instant::now());
        let new = workers(&shop, "new", u32::try_from(REPLACED).unwrap());
        for (come, go) in new.iter().zip(&old) {
            add(&shop, come).await;
            shop.delete(&go.0).await;
            shop.pass(Duration::from_millis(300)).await;
        }
        let mut wanted: Vec<u8> = hosts.clone();
        wanted.retain(|host| !old[..REPLACED].iter().any(|it| it.2 == *host));
        wanted.extend(new.iter().map(|it| it.2));
        wanted.sort_unstable();
        let writes = SERVICES * REPLACED * 2;
        // The entries themselves are not asked for: there are thousands, and this is asked often.
        let written = Filter::any().server("cloudscale").mutating();
        shop.until("the members are replaced", |it| {
            it.world.journal.count(&written) >= SERVICES + writes
        })
        .await;
        shop.seconds(30).await;
        assert_members(&shop, &wanted);
        let calls: Vec<Entry> = shop
            .entries()
            .into_iter()
            .skip(mark)
            .filter(|it| it.server == "cloudscale" && it.path.starts_with("/v1/load-balancers"))
            .collect();
        let last = calls.iter().rfind(|it| it.is_mutating()).unwrap().time;
        let took = begun.elapsed().saturating_sub(shop.since(last));
        let reads = calls.iter().filter(|it| !it.is_mutating()).count();
        let most = rounds(&calls);
        tell(&format!(
            "{SERVICES} Services, {NODES} nodes, {REPLACED} replaced: all members after {took:?}, \
             {most} rounds at most, {} writes, {reads} reads of load balancers",
            calls.len() - reads
        ));
        assert!(most <= ROUNDS, "{most} rounds");
        assert_eq!(calls.len() - reads, writes);
        shop.close().await;
    });
}
