//! Which types and namespaces machines know, and the resources that tell it.

use bowline_talos_api::Kind;
use bowline_talos_api::resource::Spec;
use bowline_talos_api::resource::meta::resource_definition_spec::{PrintColumn, Sensitivity};
use bowline_talos_api::resource::meta::{NamespaceSpec, ResourceDefinitionSpec};
use bowline_talos_api::specs::{
    AddressStatusSpec, ControllerManagerConfigSpec, MemberSpec, NodenameSpec, PlatformMetadataSpec,
    SystemInformationSpec,
};
use prost_types::Timestamp;

use super::model::{Stored, metadata};
use super::published::Lines;

/// The namespace of the resources about resources.
pub(super) const META: &str = "meta";
const NAMESPACES: &str = "Namespaces.meta.cosi.dev";
const DEFINITIONS: &str = "ResourceDefinitions.meta.cosi.dev";

/// A type that machines know.
pub(super) struct Definition {
    name: &'static str,
    namespace: &'static str,
    /// The word for one.
    display: &'static str,
    aliases: &'static [&'static str],
    /// Title and path of columns.
    columns: &'static [(&'static str, &'static str)],
    pub(super) sensitive: bool,
}

const fn of<K: Kind>(
    display: &'static str,
    aliases: &'static [&'static str],
    columns: &'static [(&'static str, &'static str)],
) -> Definition {
    Definition {
        name: K::TYPE,
        namespace: K::NAMESPACE,
        display,
        aliases,
        columns,
        sensitive: false,
    }
}

/// All that is simulated, and one that only an administrator may see.
static ALL: [Definition; 7] = [
    of::<PlatformMetadataSpec>(
        "PlatformMetadata",
        &["platformmetadata", "pm", "pms"],
        &[("Platform", "{.platform}"), ("Zone", "{.zone}")],
    ),
    of::<SystemInformationSpec>(
        "SystemInformation",
        &["systeminformation", "si", "sis"],
        &[("Manufacturer", "{.manufacturer}"), ("UUID", "{.uuid}")],
    ),
    of::<AddressStatusSpec>(
        "AddressStatus",
        &["address", "addresses", "addressstatus", "as"],
        &[("Address", "{.address}"), ("Link", "{.linkName}")],
    ),
    of::<ControllerManagerConfigSpec>(
        "ControllerManagerConfig",
        &["controllermanagerconfig", "cmc", "cmcs"],
        &[],
    ),
    of::<NodenameSpec>("Nodename", &["nodename"], &[("Nodename", "{.nodename}")]),
    of::<MemberSpec>(
        "Member",
        &["member"],
        &[("Hostname", "{.hostname}"), ("OS", "{.operatingSystem}")],
    ),
    Definition {
        name: "MachineConfigs.config.talos.dev",
        namespace: "config",
        display: "MachineConfig",
        aliases: &["machineconfig", "mc", "mcs"],
        columns: &[],
        sensitive: true,
    },
];

/// The type of that name, if machines know it; upper and lower case do not matter.
pub(super) fn definition(name: &str) -> Option<&'static Definition> {
    ALL.iter().find(|one| one.name.eq_ignore_ascii_case(name))
}

/// Whether machines know that namespace.
pub(super) fn is_namespace(name: &str) -> bool {
    name == META || ALL.iter().any(|one| one.namespace == name)
}

/// The resources of the meta namespace of that type, ordered by id.
pub(super) fn about(kind: &str, since: Timestamp) -> Vec<Stored> {
    let mut all: Vec<Stored> = match kind {
        NAMESPACES => {
            let mut names: Vec<&str> = ALL.iter().map(|one| one.namespace).collect();
            names.push(META);
            names.sort_unstable();
            names.dedup();
            let stored = names.into_iter().map(|name| {
                let description = format!("The namespace {name}.");
                let yaml = Lines::default().always("description", &description).text();
                let spec = NamespaceSpec { description };
                stored(NAMESPACES, name, &spec, yaml, since)
            });
            stored.collect()
        }
        DEFINITIONS => ALL.iter().map(|one| one.stored(since)).collect(),
        _ => Vec::new(),
    };
    all.sort_by(|a, b| a.metadata.id.cmp(&b.metadata.id));
    all
}

fn stored<M: prost::Message>(
    kind: &str,
    id: &str,
    spec: &M,
    yaml_spec: String,
    since: Timestamp,
) -> Stored {
    Stored {
        metadata: metadata(META, kind, id, "", since),
        spec: Spec {
            proto_spec: spec.encode_to_vec(),
            yaml_spec,
        },
    }
}

impl Definition {
    fn stored(&self, since: Timestamp) -> Stored {
        let texts = |texts: &[&str]| {
            texts
                .iter()
                .map(|one| (*one).to_owned())
                .collect::<Vec<_>>()
        };
        let plural = self.name.split('.').next().unwrap_or_default();
        let aliases = texts(self.aliases);
        let mut all_aliases = vec![plural.to_lowercase()];
        all_aliases.extend(aliases.clone());
        let yaml = Lines::default()
            .always("type", self.name)
            .always("displayType", self.display)
            .always("defaultNamespace", self.namespace)
            .list("aliases", &aliases)
            .list("allAliases", &all_aliases)
            .text();
        let columns = self.columns.iter().map(|(name, path)| PrintColumn {
            name: (*name).to_owned(),
            json_path: (*path).to_owned(),
        });
        let sensitivity = if self.sensitive {
            Sensitivity::Sensitive
        } else {
            Sensitivity::NonSensitive
        };
        let spec = ResourceDefinitionSpec {
            resource_type: self.name.to_owned(),
            display_type: self.display.to_owned(),
            default_namespace: self.namespace.to_owned(),
            aliases,
            all_aliases,
            print_columns: columns.collect(),
            sensitivity: sensitivity.into(),
        };
        stored(DEFINITIONS, &self.name.to_lowercase(), &spec, yaml, since)
    }
}
