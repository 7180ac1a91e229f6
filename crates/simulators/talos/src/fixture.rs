//! The fixture: what a cluster contains at the beginning, as people write it (`cluster.yaml`).

use std::collections::BTreeMap;
use std::net::IpAddr;

use bowline_simulator::faults::RawRule;
use bowline_simulator::timings::Timed;
use bowline_talos_api::specs::{PlatformMetadataSpec, SystemInformationSpec};
use serde::Deserialize;

use super::authorities::Algorithm;
use super::config::{Config, TimingsSpec};

/// The whole fixture file.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Fixture {
    /// How certificates are signed.
    pub algorithm: Algorithm,
    /// The name of the cluster in what it issues.
    pub cluster_name: String,
    pub timings: TimingsSpec,
    /// The ranges that control planes tell.
    pub networks: NetworksSpec,
    pub machines: Vec<MachineSpec>,
    /// What goes wrong from the beginning.
    pub faults: Vec<RawRule>,
}

/// Ranges of the cluster.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct NetworksSpec {
    /// Of pods; the usual one if left out.
    pub pods: Option<Vec<String>>,
    /// Of Services; the usual one if left out.
    pub services: Option<Vec<String>>,
}

/// What a machine's platform tells it.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct PlatformSpec {
    /// The platform's name; `metal` if left out.
    pub platform: String,
    /// The machine's name there.
    pub hostname: String,
    /// Where it is.
    pub region: String,
    /// Where it is, closer.
    pub zone: String,
    pub instance_type: String,
    pub instance_id: String,
    /// The id that its Node is to have.
    pub provider_id: String,
    /// It may be taken away at any time.
    pub spot: bool,
    /// Its name inside.
    pub internal_dns: String,
    /// Its name outside.
    pub external_dns: String,
    pub tags: BTreeMap<String, String>,
}

impl From<PlatformSpec> for PlatformMetadataSpec {
    fn from(spec: PlatformSpec) -> Self {
        Self {
            platform: if spec.platform.is_empty() {
                "metal".to_owned()
            } else {
                spec.platform
            },
            hostname: spec.hostname,
            region: spec.region,
            zone: spec.zone,
            instance_type: spec.instance_type,
            instance_id: spec.instance_id,
            provider_id: spec.provider_id,
            spot: spec.spot,
            internal_dns: spec.internal_dns,
            external_dns: spec.external_dns,
            tags: spec.tags,
        }
    }
}

/// What a machine's firmware tells.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct SystemSpec {
    /// Who made it.
    pub manufacturer: String,
    pub product_name: String,
    pub version: String,
    pub serial_number: String,
    /// Its id; one is drawn if left out.
    pub uuid: String,
    /// What started it.
    pub wake_up_type: String,
    /// What it is sold as.
    pub sku_number: String,
}

impl From<SystemSpec> for SystemInformationSpec {
    fn from(spec: SystemSpec) -> Self {
        Self {
            manufacturer: spec.manufacturer,
            product_name: spec.product_name,
            version: spec.version,
            serial_number: spec.serial_number,
            uuid: spec.uuid,
            wake_up_type: spec.wake_up_type,
            sku_number: spec.sku_number,
            bios_version: String::new(),
        }
    }
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct MachineSpec {
    /// Its name, and that of its Node.
    pub name: String,
    /// It is one of the control plane: it passes calls on to others, and knows the cluster's ranges.
    pub control_plane: bool,
    /// `ready` if left out; or `absent`, `booting`, `metadata-partial`, `down`.
    pub stage: Option<String>,
    /// `<link>/<address>/<prefix length>`, with flags in brackets.
    pub addresses: Vec<String>,
    /// The addresses of its Node; the first own one of each family if left out.
    pub node_ips: Vec<IpAddr>,
    /// What its platform tells it.
    pub platform: PlatformSpec,
    /// What its firmware tells; something ordinary if left out.
    pub system: Option<SystemSpec>,
    /// Its firmware tells nothing: that resource does not exist.
    pub without_system: bool,
    /// Its key in the register of machines, if another simulated cloud says whether it runs.
    pub machine_id: Option<String>,
}

bowline_simulator::setters! {
    /// A worker of that name with these addresses.
    MachineSpec::named(name: &str, addresses: &[&str]) |spec| {
        name.clone_into(&mut spec.name);
        spec.addresses = addresses.iter().map(|one| (*one).to_owned()).collect();
    };
    control_plane() |spec| spec.control_plane = true;
    platform(platform: PlatformSpec) |spec| spec.platform = platform;
    /// With that firmware.
    system(system: SystemSpec) |spec| spec.system = Some(system);
    /// Whose firmware tells nothing.
    without_system() |spec| spec.without_system = true;
    /// Whose Node has these addresses.
    node_ips(ips: &[IpAddr]) |spec| spec.node_ips = ips.to_vec();
    stage(stage: super::Stage) |spec| spec.stage = Some(stage.as_str().to_owned());
    /// A machine of another simulated cloud, by its key in the register of machines.
    machine_id(id: &str) |spec| spec.machine_id = Some(id.to_owned());
}

impl Fixture {
    /// The part that says what the cluster is like.
    pub fn config(&self) -> Config {
        let default = Config::default();
        Config {
            algorithm: self.algorithm,
            timings: default.timings.or_as(&self.timings),
            pods: self.networks.pods.clone().unwrap_or(default.pods),
            services: self.networks.services.clone().unwrap_or(default.services),
            cluster_name: self.cluster_name.clone(),
        }
    }
}
