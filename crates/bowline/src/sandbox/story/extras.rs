//! The chapters about what only some clouds have: Services with machines of their own, routes to pods, metrics of
//! machines.

use std::time::Duration;

use anyhow::Result;
use bowline_simulator::sandbox::Extras;
use tokio::time::{Instant, sleep};

use super::services::{SERVICE, addresses_of, targets_of};
use super::{PATIENCE, Story};
use crate::sandbox::observer::Views;

/// The Service with machines of its own.
const SHOP: &str = "shop";
/// How often a page is asked for.
const BETWEEN: Duration = Duration::from_millis(500);

impl Story {
    /// The name that a Service shows is one that its cloud's DNS knows, with an address for each node.
    pub(super) fn the_name_is_answered(&mut self, extras: &Extras) {
        let addresses = addresses_of(&self.observer.now(), SERVICE);
        let Some(name) = addresses.first() else {
            return;
        };
        let (answer, machines) = (
            self.harness.cloud().addresses_of(name),
            self.harness.machines(),
        );
        let (count, dig) = (machines.len(), &extras.dig);
        let what = format!("its name is answered with {count} addresses: {dig} {name}");
        let otherwise = format!("the DNS answers with {answer:?}");
        self.judge(answer.len() == count, &what, &otherwise);
    }

    pub(super) async fn a_service_gets_a_machine(&mut self, extras: &Extras) -> Result<()> {
        let class = extras.class;
        self.begin(
            &format!("A Service of the class {class} is created: {SHOP}"),
            &[
                "Bowline creates a machine that only forwards to the nodes, and",
                "publishes the machine's address once it runs.",
            ],
        );
        self.harness.create_service_of(SHOP, Some(class)).await?;
        self.expect("the Service gets the address of its machine", |views| {
            !addresses_of(views, SHOP).is_empty() && views.has_event(SHOP, "EnsuredLoadBalancer")
        })
        .await;
        let machines = self.harness.machines().to_vec();
        self.expect("the machine forwards to every node", move |views| {
            targets_of(views, SHOP).is_some_and(|it| it.iter().eq(sorted(&machines)))
        })
        .await;
        Ok(())
    }

    pub(super) async fn the_machine_goes(&mut self) -> Result<()> {
        self.begin(
            &format!("The Service {SHOP} is deleted"),
            &["It stays until its machine is gone."],
        );
        let before = self.observer.now();
        let id = before.balancer_of(SHOP).map(|(id, _)| id.clone());
        self.harness.delete_service(SHOP).await?;
        self.expect(
            "the machine is deleted, and then the Service",
            move |views| {
                let gone = |id: &String| !views.has_balancer(id);
                !views.services.contains_key(SHOP) && id.as_ref().is_none_or(gone)
            },
        )
        .await;
        Ok(())
    }

    pub(super) async fn pods_are_routed(&mut self) -> Result<()> {
        self.begin(
            "The fabric network gets routes to pods",
            &[
                "Each node has a pod CIDR; Bowline adds a route for each of them, and",
                "leaves the routes of others as they are.",
            ],
        );
        let machines = self.harness.machines().len();
        self.expect(
            "there is one route for each node, and somebody else's is still there",
            move |views| routes_to_pods(views) == machines && views.routes.len() == machines + 1,
        )
        .await;
        Ok(())
    }

    pub(super) async fn routes_have_followed(&mut self) {
        let machines = self.harness.machines().len();
        self.expect("routes have followed the nodes", move |views| {
            routes_to_pods(views) == machines && views.routes.len() == machines + 1
        })
        .await;
    }

    pub(super) async fn prometheus_is_led_to_machines(&mut self, extras: &Extras) -> Result<()> {
        let page = extras.page;
        self.begin(
            "Prometheus asks where to find metrics of machines",
            &[&format!(
                "Bowline lists them at {page}, and manages the certificate that the data center requires."
            )],
        );
        let nodes = self.observer.now().nodes;
        let machines = self.harness.machines().iter();
        let ids: Vec<String> = machines
            .filter_map(|name| nodes.get(name))
            .filter_map(|node| Some(node.provider_id.split_once("://")?.1.to_owned()))
            .collect();
        let named = self.page_names(page, &ids).await;
        let what = format!("{page} lists the {} machines of nodes", ids.len());
        self.judge(named, &what, &format!("{page} does not list all machines"));
        let kept = self.harness.is_kept(extras.kept).await?;
        let (secret, scrape) = extras.kept;
        let what = format!("Secret {secret} and ConfigMap {scrape} exist");
        self.judge(kept, &what, &format!("{secret} or {scrape} is missing"));
        Ok(())
    }

    /// Whether a page names all of these, soon.
    async fn page_names(&self, page: &str, ids: &[String]) -> bool {
        let begun = Instant::now();
        while begun.elapsed() < PATIENCE {
            self.display.waiting(page, begun.elapsed());
            if let Ok((true, text)) = self.harness.page(page).await
                && !ids.is_empty()
                && ids.iter().all(|id| text.contains(id.as_str()))
            {
                return true;
            }
            sleep(BETWEEN).await;
        }
        false
    }
}

fn sorted(names: &[String]) -> impl Iterator<Item = &String> {
    let mut names: Vec<&String> = names.iter().collect();
    names.sort();
    names.into_iter()
}

/// Routes that are ours.
fn routes_to_pods(views: &Views) -> usize {
    let routes = views.routes.keys();
    routes.filter(|range| range.starts_with("10.244.")).count()
}
