//! What people see of a refusal.

use std::sync::Arc;

use bowline_controllers::election::LeaseName;
use bowline_controllers::{PreviewParts, PreviewScope, preview};
use bowline_controllers::{explain_node, explain_service};
use bowline_core::ServiceKey;

use super::{LEASE, TestCluster};
use crate::mirror::LEASES;

impl TestCluster {
    /// What `bowline explain` prints about the Node or Service of that name, with the clouds of the manager that was
    /// started last.
    pub async fn explained(&self, name: &str) -> String {
        let present = self.changer.borrow().as_ref().unwrap().present();
        let (client, rules) = (self.reader().await, Arc::new(present.rules.clone()));
        let lease = self.managers_lease();
        if self.find(name).is_some() {
            let own = self.cluster.names().own(name);
            let said = explain_node(&client, &present.clouds, rules, &own, &lease).await;
            return said.unwrap().to_string();
        }
        let key = self.key(name);
        match explain_service(&client, &present.clouds, rules, &key, &lease).await {
            Ok(said) => said.to_string(),
            Err(error) => error.to_string(),
        }
    }

    /// Somebody who sees all of this scenario, and nothing of those beside it on the same server: their Nodes may show the
    /// same machines.
    async fn reader(&self) -> kube::Client {
        self.cluster.client(self.cluster.manager("reader").await)
    }

    /// The lease of the manager.
    pub fn managers_lease(&self) -> LeaseName {
        LeaseName {
            namespace: LEASES.to_owned(),
            name: self.cluster.names().own(LEASE),
        }
    }

    fn key(&self, service: &str) -> ServiceKey {
        ServiceKey {
            namespace: "shop".to_owned(),
            name: self.cluster.names().own(service),
        }
    }

    /// What `bowline plan` prints about these Services, with the clouds of the manager that was started last.
    pub async fn planned(&self, names: &[&str]) -> String {
        let present = self.changer.borrow().as_ref().unwrap().present();
        let parts = PreviewParts {
            client: self.reader().await,
            clouds: present.clouds.clone(),
            rules: Arc::new(present.rules.clone()),
            cluster_name: present.options.cloud.cluster_name.clone(),
            cluster_uid: None,
            lease: self.managers_lease(),
            clock: self.world.clock.clone(),
        };
        let asked = PreviewScope::Named(names.iter().map(|name| self.key(name)).collect());
        let previews = preview(&parts, &asked, &[]).await;
        previews.unwrap().text()
    }

    /// Whether a refusal is visible in each place: waits for the event about `object`, and then looks at the metric
    /// and at what is explained about `name`, a Node or Service.
    pub async fn assert_visible(&self, object: &str, reason: &str, name: &str) {
        self.until_event(object, reason).await;
        let reason_label = format!("reason=\"{reason}\",type=\"Warning\"");
        let text = self.metrics.text();
        let mut counts = text
            .lines()
            .filter(|line| line.starts_with("bowline_events_total{"));
        assert!(counts.any(|line| line.contains(&reason_label)), "{text}");
        let explained = self.explained(name).await;
        assert!(explained.contains(reason), "{explained}");
    }
}
