//! Builds the clouds of a configuration. Those that another configuration leaves as they are stay, with all that they
//! know.

use std::collections::BTreeMap;
use std::sync::Arc;

use anyhow::Result;
use bowline_controllers::metrics::{CloudRegistry, Metrics};
use bowline_controllers::options::{CLOUD_NODE, CLOUD_NODE_LIFECYCLE, NODE_IPAM, Options};
use bowline_core::{Cloud, CloudName};

use crate::config::{CloudEntry, Configuration, Resolved};
use crate::providers::{self, Environment, Surroundings};

/// Variables that say which pod this is, and nothing about a cloud.
const POD: [&str; 3] = ["POD_NAME", "POD_NAMESPACE", "POD_UID"];

/// A cloud, and what it was built of.
#[derive(Clone)]
pub(crate) struct Product {
    recipe: Recipe,
    /// The cloud.
    pub(crate) cloud: Arc<dyn Cloud>,
    registry: CloudRegistry,
}

/// Everything that a cloud is built of and that can differ. It holds secrets, and so is never shown.
#[derive(Clone, PartialEq, Eq)]
struct Recipe {
    name: Option<CloudName>,
    provider: String,
    text: Option<String>,
    variables: BTreeMap<String, String>,
    flags: BTreeMap<String, String>,
    needs_machines: bool,
    cluster_name: String,
}

/// Where clouds are built.
pub(crate) struct Workshop {
    /// What all of them have in common.
    pub(crate) surroundings: Surroundings,
    /// Those that are in use.
    pub(crate) products: Vec<Product>,
}

impl Workshop {
    /// The cloud that flags name.
    pub(crate) async fn build_named(&self, options: &Options) -> Result<Product> {
        let recipe = Recipe {
            name: None,
            provider: options.cloud.provider.clone(),
            text: None,
            variables: BTreeMap::new(),
            flags: options.cloud.own.clone(),
            needs_machines: needs_machines(options),
            cluster_name: options.cloud.cluster_name.clone(),
        };
        let environment = self.surroundings.environment.clone();
        self.make(recipe, environment).await
    }

    /// The clouds of a configuration, each with what its original would have been given. Those in use that are made of
    /// the same are among them.
    pub(crate) async fn build(
        &self,
        configuration: &Configuration,
        resolved: &Resolved,
        options: &Options,
    ) -> Result<Vec<Product>> {
        let mut products = Vec::new();
        for entry in &configuration.clouds {
            let recipe = recipe(entry, resolved, options);
            let product = match self.products.iter().find(|it| it.recipe == recipe) {
                Some(product) => product.clone(),
                None => self.make_configured(recipe).await?,
            };
            products.push(product);
        }
        Ok(products)
    }

    /// Uses these from now on.
    pub(crate) fn use_them(&mut self, products: Vec<Product>, metrics: &Metrics) {
        metrics.show_clouds(products.iter().map(|it| it.registry.clone()).collect());
        self.products = products;
    }

    /// What is different about these, for people; empty if nothing is.
    pub(crate) fn differences(&self, products: &[Product]) -> Vec<String> {
        let (before, after) = (by_name(&self.products), by_name(products));
        let said = |what: &str, names: Vec<&str>| {
            (!names.is_empty()).then(|| format!("{what} {}", names.join(", ")))
        };
        let added = after.keys().filter(|it| !before.contains_key(*it));
        let removed = before.keys().filter(|it| !after.contains_key(*it));
        let changed = after.iter().filter(|(name, after)| {
            let before = before.get(*name);
            before.is_some_and(|before| !Arc::ptr_eq(&before.cloud, &after.cloud))
        });
        let all = [
            said("added", added.copied().collect()),
            said("changed", changed.map(|(name, _)| *name).collect()),
            said("removed", removed.copied().collect()),
        ];
        all.into_iter().flatten().collect()
    }

    async fn make_configured(&self, recipe: Recipe) -> Result<Product> {
        let process = self.surroundings.environment.clone();
        let variables = recipe.variables.clone();
        let environment: Environment = Arc::new(move |name| match variables.get(name) {
            Some(value) => Some(value.clone()),
            None if POD.contains(&name) => process(name),
            None => None,
        });
        self.make(recipe, environment).await
    }

    async fn make(&self, recipe: Recipe, environment: Environment) -> Result<Product> {
        let registry = CloudRegistry::new(recipe.name.as_ref().map(CloudName::as_str));
        let surroundings = Surroundings {
            name: recipe.name.clone(),
            environment,
            registry: registry.clone(),
            config_text: recipe.text.clone().map(bowline_core::Secret::new),
            flags: recipe.flags.clone(),
            needs_machines: recipe.needs_machines,
            cluster_name: recipe.cluster_name.clone(),
            ..self.surroundings.clone()
        };
        let cloud = providers::build(&recipe.provider, &surroundings).await?;
        Ok(Product {
            recipe,
            cloud,
            registry,
        })
    }
}

fn by_name(products: &[Product]) -> BTreeMap<&str, &Product> {
    let all = products.iter();
    all.map(|it| (it.cloud.name().as_str(), it)).collect()
}

fn recipe(entry: &CloudEntry, resolved: &Resolved, options: &Options) -> Recipe {
    let given = entry.given(resolved);
    let variables = given.environment.into_iter();
    Recipe {
        name: Some(entry.name.clone()),
        provider: entry.provider.name.to_owned(),
        text: given.file.map(|text| text.reveal().to_owned()),
        variables: variables
            .map(|(name, value)| (name, value.reveal().to_owned()))
            .collect(),
        flags: given.flags,
        needs_machines: needs_machines(options),
        cluster_name: options.cloud.cluster_name.clone(),
    }
}

/// Whether a controller runs that asks the cloud about machines or their networks. Services have members that
/// are machines too, but a cloud without load balancers is not asked about them.
fn needs_machines(options: &Options) -> bool {
    let set = options.controllers.set();
    let runs = |name| set.enabled(name);
    runs(CLOUD_NODE) || runs(CLOUD_NODE_LIFECYCLE) || (runs(NODE_IPAM) && options.ipam.allocate)
}
