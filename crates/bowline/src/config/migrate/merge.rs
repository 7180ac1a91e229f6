//! Adding a cloud to a configuration that is there.

use std::collections::BTreeSet;

use anyhow::{Result, anyhow, bail};
use bowline_controllers::options::ElectionOptions;
use serde_json::{Map, Value as Json, json};

use super::hold;
use crate::config::reference::Reference;
use crate::config::{Configuration, read};
use crate::providers::PROVIDERS;

/// The configuration that is there.
pub(super) struct Before {
    understood: Configuration,
    document: Map<String, Json>,
}

impl Before {
    /// Reads a configuration, which has to be right.
    pub(super) fn read(text: &str) -> Result<Self> {
        let understood = read(text).map_err(|problems| {
            let all: Vec<String> = problems.iter().map(ToString::to_string).collect();
            anyhow!(
                "the configuration to add to is not valid: {}",
                all.join("; ")
            )
        })?;
        match serde_saphyr::from_str(text) {
            Ok(Json::Object(document)) => Ok(Self {
                understood,
                document,
            }),
            _ => bail!("the configuration to add to is no map"),
        }
    }

    /// The variables that its secrets are in.
    pub(super) fn variables(&self) -> BTreeSet<String> {
        let mentions = self.understood.clouds.iter().flat_map(|it| &it.mentions);
        let names = mentions.filter_map(|it| match &it.reference {
            Reference::Environment(name) => Some(name.clone()),
            Reference::File(_) | Reference::Secret { .. } => None,
        });
        names.collect()
    }

    /// The same with another cloud. What it says about the manager stays, and is reported where the original says
    /// otherwise.
    pub(super) fn with(
        mut self,
        cloud: Json,
        (manager, election): (Map<String, Json>, &ElectionOptions),
        remarks: &mut Vec<String>,
    ) -> Result<Map<String, Json>> {
        let name = &cloud["name"];
        if self
            .understood
            .clouds
            .iter()
            .any(|it| *name == json!(it.name))
        {
            bail!("there is a cloud of the name {name} already: give this one another with --name");
        }
        self.settle_default(&cloud, remarks);
        match self.document.get_mut("clouds") {
            Some(Json::Array(clouds)) => clouds.push(cloud),
            _ => bail!("the configuration to add to has no list of clouds"),
        }
        let section = self.document.entry("manager").or_insert_with(|| json!({}));
        if section.is_null() {
            *section = json!({});
        }
        let Json::Object(section) = section else {
            bail!("the configuration to add to has no map manager");
        };
        hold::add(section, election, remarks);
        let others = manager.into_iter();
        for (flag, value) in others.filter(|(flag, _)| !hold::is_about_leases(flag)) {
            match section.get(&flag) {
                None => {
                    section.insert(flag, value);
                }
                Some(there) if *there == value => {}
                Some(there) => remarks.push(format!(
                    "manager.{flag}: stays {there}; this original has {value}"
                )),
            }
        }
        if section.is_empty() {
            self.document.remove("manager");
        }
        Ok(self.document)
    }

    /// Of several clouds with load balancers the first goes on serving Services without a class.
    fn settle_default(&mut self, cloud: &Json, remarks: &mut Vec<String>) {
        let mut serving = PROVIDERS
            .iter()
            .filter(|kind| kind.capabilities.load_balancers);
        let serves = serving.any(|kind| cloud["provider"] == kind.name);
        let services = self.document.get("services");
        let said = services.is_some_and(|it| it.get("defaultCloud").is_some());
        let Some(default) = self.understood.default_cloud.as_ref() else {
            return;
        };
        if serves && !said {
            let services = self.document.entry("services");
            services.or_insert_with(|| json!({}))["defaultCloud"] = json!(default);
            remarks.push(format!(
                "services.defaultCloud: {default} goes on serving Services without a class; those whose status shows a load \
                 balancer of {name} stay there (bowline plan --all tells), and new ones that {name} is to serve need the \
                 class bowline.dev/{name}",
                name = cloud["name"].as_str().unwrap_or_default(),
            ));
        }
    }
}
