//! The chapters about a Service and what is behind it.

use std::collections::BTreeSet;

use anyhow::Result;
use bowline_simulator::sandbox::Words;

use super::Story;
use crate::sandbox::observer::Views;

/// The Service of the story.
pub(super) const SERVICE: &str = "web";

impl Story {
    pub(super) async fn a_service_is_created(&mut self, words: Words) -> Result<()> {
        let (balancer, behind) = (words.name, words.behind);
        self.begin(
            &format!("A Service of type LoadBalancer is created: {SERVICE}"),
            &[
                "Bowline adds its finalizer,",
                &format!("creates a {balancer} {behind},"),
                "and publishes the address once the cloud reports that all of it works.",
            ],
        );
        self.harness.create_service(SERVICE).await?;
        self.expect(
            "the Service gets its address, and an event reports it",
            |views| !addresses(views).is_empty() && views.has_event(SERVICE, "EnsuredLoadBalancer"),
        )
        .await;
        let machines = self.harness.machines().to_vec();
        self.expect(
            &format!("every node is a target of its {balancer}; the foreign one is not"),
            move |views| has_targets(views, &machines),
        )
        .await;
        Ok(())
    }

    /// The oldest machine makes room for a new one.
    pub(super) async fn a_node_is_replaced(&mut self, balancer: Option<Words>) -> Result<()> {
        let Some(old) = self.harness.machines().first().cloned() else {
            return Ok(());
        };
        let note = balancer.map(|words| {
            let follows = words.follows;
            format!("{follows}, and the address stays what it is.")
        });
        let notes: Vec<&str> = note.as_deref().into_iter().collect();
        self.begin(&format!("{old} is replaced by a new machine"), &notes);
        let before = addresses(&self.observer.now());
        let new = self.harness.boot_machine()?;
        self.expect(&format!("{new} joins, and is Ready"), |views| {
            views.nodes.get(&new).is_some_and(|it| it.ready == "True")
        })
        .await;
        if balancer.is_some() {
            let machines = self.harness.machines().to_vec();
            self.expect(
                &format!("{new} is a target while {old} still is one"),
                move |views| has_targets(views, &machines),
            )
            .await;
        }
        self.harness.retire(&old).await?;
        self.expect(&format!("{old} is gone from the cluster"), |views| {
            !views.nodes.contains_key(&old)
        })
        .await;
        if balancer.is_some() {
            let machines = self.harness.machines().to_vec();
            self.expect(
                &format!("{old} is no longer a target, and the address is the same"),
                move |views| has_targets(views, &machines) && addresses(views) == before,
            )
            .await;
        }
        Ok(())
    }

    pub(super) async fn the_service_is_deleted(&mut self, words: Words) -> Result<()> {
        let balancer = words.name;
        self.begin(
            "The Service is deleted",
            &[&format!(
                "It stays until the cloud has shown that its {balancer} is gone, so that nothing is \
                 forgotten."
            )],
        );
        let before = self.observer.now();
        let id = before.balancer_of(SERVICE).map(|(id, _)| id.clone());
        self.harness.delete_service(SERVICE).await?;
        self.expect(
            &format!("the {balancer} is deleted, and then the Service"),
            move |views| {
                let gone = |id: &String| !views.has_balancer(id);
                !views.services.contains_key(SERVICE)
                    && id.as_ref().is_none_or(gone)
                    && views.has_event(SERVICE, "DeletedLoadBalancer")
            },
        )
        .await;
        Ok(())
    }
}

/// The addresses that the Service shows.
fn addresses(views: &Views) -> Vec<String> {
    addresses_of(views, SERVICE)
}

/// The addresses that a Service shows.
pub(super) fn addresses_of(views: &Views, service: &str) -> Vec<String> {
    let service = views.services.get(service);
    service.map(|it| it.addresses.clone()).unwrap_or_default()
}

/// The machines behind a Service; none if there is no load balancer for it.
pub(super) fn targets_of<'a>(views: &'a Views, service: &str) -> Option<&'a BTreeSet<String>> {
    views.balancer_of(service).map(|(_, it)| &it.targets)
}

/// Whether these machines, and no others, are behind the Service.
pub(super) fn has_targets(views: &Views, machines: &[String]) -> bool {
    views.balancer_of(SERVICE).is_some_and(|(_, balancer)| {
        balancer.targets.len() == machines.len()
            && machines.iter().all(|it| balancer.targets.contains(it))
    })
}
