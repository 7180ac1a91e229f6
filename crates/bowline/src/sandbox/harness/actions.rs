//! What users do in the sandbox: create and delete Services and Nodes, and ask the manager.

use anyhow::{Context, Result};
use k8s_openapi::api::core::v1::{ConfigMap, Node, Secret, Service, ServicePort, ServiceSpec};
use kube::Api;
use kube::api::{DeleteParams, ObjectMeta, PostParams};

use super::{Harness, LEASE};

impl Harness {
    /// Takes a node out of the cluster by hand, as its operator would, and then its machine.
    pub(in crate::sandbox) async fn retire(&mut self, machine: &str) -> Result<()> {
        let nodes: Api<Node> = Api::all(self.admin()?);
        let deleted = nodes.delete(machine, &DeleteParams::default()).await;
        deleted.with_context(|| format!("deleting the Node {machine}"))?;
        self.destroy(machine)
    }

    /// Creates a Service of type `LoadBalancer` in the default namespace.
    pub(in crate::sandbox) async fn create_service(&self, name: &str) -> Result<()> {
        self.create_service_of(name, None).await
    }

    /// Creates one of that class.
    pub(in crate::sandbox) async fn create_service_of(
        &self,
        name: &str,
        class: Option<&str>,
    ) -> Result<()> {
        let service = Service {
            metadata: ObjectMeta {
                name: Some(name.to_owned()),
                ..ObjectMeta::default()
            },
            spec: Some(ServiceSpec {
                type_: Some("LoadBalancer".to_owned()),
                load_balancer_class: class.map(str::to_owned),
                ports: Some(vec![ServicePort {
                    name: Some("http".to_owned()),
                    port: 80,
                    ..ServicePort::default()
                }]),
                selector: Some([("app".to_owned(), name.to_owned())].into()),
                ..ServiceSpec::default()
            }),
            ..Service::default()
        };
        let services = self.services()?;
        let created = services.create(&PostParams::default(), &service).await;
        created.with_context(|| format!("creating the Service {name}"))?;
        Ok(())
    }

    pub(in crate::sandbox) async fn delete_service(&self, name: &str) -> Result<()> {
        let services = self.services()?;
        let deleted = services.delete(name, &DeleteParams::default()).await;
        deleted.with_context(|| format!("deleting the Service {name}"))?;
        Ok(())
    }

    /// What the manager answers at a path, and whether it says that all is well.
    pub(in crate::sandbox) async fn page(&self, path: &str) -> Result<(bool, String)> {
        let address = format!("https://127.0.0.1:{}", self.secure_port);
        let mut config = kube::Config::new(address.parse()?);
        // It makes its certificate by itself.
        config.accept_invalid_certs = true;
        let client = kube::Client::try_from(config)?;
        let request = http::Request::get(path).body(kube::client::Body::empty())?;
        let answer = client.send(request).await?;
        let good = answer.status().is_success();
        let body = answer.into_body().collect_bytes().await?;
        Ok((good, String::from_utf8_lossy(&body).into_owned()))
    }

    /// Whether that Secret and that ConfigMap are in the manager's namespace.
    pub(in crate::sandbox) async fn is_kept(&self, (secret, map): (&str, &str)) -> Result<bool> {
        let secrets: Api<Secret> = Api::namespaced(self.admin()?, LEASE.0);
        let maps: Api<ConfigMap> = Api::namespaced(self.admin()?, LEASE.0);
        let (secret, map) = (secrets.get_opt(secret).await?, maps.get_opt(map).await?);
        Ok(secret.is_some() && map.is_some())
    }

    fn services(&self) -> Result<Api<Service>> {
        Ok(Api::default_namespaced(self.admin()?))
    }
}
