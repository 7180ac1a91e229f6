//! How machines publish what they know: who writes it, and its text for people.

use std::fmt::Write as _;
use std::net::IpAddr;

use bowline_talos_api::Kind;
use bowline_talos_api::common::NetIp;
use bowline_talos_api::specs::{
    AddressStatusSpec, ControllerManagerConfigSpec, Family, MachineType, MemberSpec, NodenameSpec,
    PlatformMetadataSpec, Scope, SystemInformationSpec,
};

use super::notation;

/// A type of resource that machines have.
pub trait Published: Kind {
    /// The controller that writes it.
    const OWNER: &'static str;

    /// What it says, as YAML.
    fn yaml(&self) -> String;
}

/// The flags of an address, from the lowest bit.
const FLAGS: [&str; 12] = [
    "temporary",
    "nodad",
    "optimistic",
    "dadfailed",
    "home",
    "deprecated",
    "tentative",
    "permanent",
    "mngmtmpaddr",
    "noprefixroute",
    "mcautojoin",
    "stableprivacy",
];

/// A mapping in the making.
#[derive(Default)]
pub(super) struct Lines(String);

impl Lines {
    /// A text, also an empty one.
    pub(super) fn always(mut self, key: &str, value: &str) -> Self {
        let _ = writeln!(self.0, "{key}: {}", scalar(value));
        self
    }

    /// A text, left out if empty.
    fn some(self, key: &str, value: &str) -> Self {
        if value.is_empty() {
            self
        } else {
            self.always(key, value)
        }
    }

    /// A number or truth value.
    fn plain(mut self, key: &str, value: impl std::fmt::Display) -> Self {
        let _ = writeln!(self.0, "{key}: {value}");
        self
    }

    pub(super) fn list(mut self, key: &str, values: &[String]) -> Self {
        if values.is_empty() {
            let _ = writeln!(self.0, "{key}: []");
            return self;
        }
        let _ = writeln!(self.0, "{key}:");
        for value in values {
            let _ = writeln!(self.0, "    - {}", scalar(value));
        }
        self
    }

    pub(super) fn text(self) -> String {
        if self.0.is_empty() {
            "{}\n".to_owned()
        } else {
            self.0
        }
    }
}

/// A text as YAML has it: plain where that cannot be taken for something else.
fn scalar(value: &str) -> String {
    let plain = value.starts_with(|first: char| first.is_ascii_alphabetic())
        && value
            .chars()
            .all(|one| one.is_ascii_alphanumeric() || "-_./:".contains(one))
        && !value.ends_with(':')
        && !matches!(
            value.to_ascii_lowercase().as_str(),
            "true" | "false" | "yes" | "no" | "on" | "off" | "y" | "n" | "null"
        );
    if plain {
        value.to_owned()
    } else {
        serde_json::Value::from(value).to_string()
    }
}

impl Published for PlatformMetadataSpec {
    const OWNER: &'static str = "network.PlatformConfigApplyController";

    fn yaml(&self) -> String {
        let mut lines = Lines::default()
            .some("platform", &self.platform)
            .some("hostname", &self.hostname)
            .some("region", &self.region)
            .some("zone", &self.zone)
            .some("instanceType", &self.instance_type)
            .some("instanceId", &self.instance_id)
            .some("providerId", &self.provider_id);
        if self.spot {
            lines = lines.plain("spot", true);
        }
        lines = lines
            .some("internalDNS", &self.internal_dns)
            .some("externalDNS", &self.external_dns);
        if !self.tags.is_empty() {
            lines.0 += "tags:\n";
            for (key, value) in &self.tags {
                let _ = writeln!(lines.0, "    {}: {}", scalar(key), scalar(value));
            }
        }
        lines.text()
    }
}

impl Published for SystemInformationSpec {
    const OWNER: &'static str = "hardware.SystemInfoController";

    fn yaml(&self) -> String {
        Lines::default()
            .some("manufacturer", &self.manufacturer)
            .some("productName", &self.product_name)
            .some("version", &self.version)
            .some("serialnumber", &self.serial_number)
            .some("uuid", &self.uuid)
            .some("wakeUpType", &self.wake_up_type)
            .some("skuNumber", &self.sku_number)
            .text()
    }
}

impl Published for AddressStatusSpec {
    const OWNER: &'static str = "network.AddressStatusController";

    fn yaml(&self) -> String {
        let (ip, length) = notation::ip_of(self);
        let family = match Family::try_from(self.family) {
            Ok(Family::Inet6) => "inet6",
            _ => "inet4",
        };
        let scope = match Scope::try_from(self.scope) {
            Ok(Scope::Site) => "site",
            Ok(Scope::Link) => "link",
            Ok(Scope::Host) => "host",
            Ok(Scope::Nowhere) => "nowhere",
            Ok(Scope::Global) | Err(_) => "global",
        };
        let flags: Vec<&str> = FLAGS
            .iter()
            .enumerate()
            .filter(|(bit, _)| self.flags >> bit & 1 == 1)
            .map(|(_, name)| *name)
            .collect();
        Lines::default()
            .plain("address", format_args!("{ip}/{length}"))
            .plain("linkIndex", self.link_index)
            .always("linkName", &self.link_name)
            .plain("family", family)
            .plain("scope", scope)
            .always("flags", &flags.join(","))
            .plain("priority", self.priority)
            .text()
    }
}

impl Published for ControllerManagerConfigSpec {
    const OWNER: &'static str = "k8s.ControlPlaneControllerManagerController";

    fn yaml(&self) -> String {
        Lines::default()
            .plain("enabled", self.enabled)
            .always("image", &self.image)
            .always("cloudProvider", &self.cloud_provider)
            .list("podCIDRs", &self.pod_cidrs)
            .list("serviceCIDRs", &self.service_cidrs)
            .text()
    }
}

impl Published for NodenameSpec {
    const OWNER: &'static str = "k8s.NodenameController";

    fn yaml(&self) -> String {
        Lines::default()
            .always("nodename", &self.nodename)
            .always("hostnameVersion", &self.hostname_version)
            .plain("skipNodeRegistration", self.skip_node_registration)
            .text()
    }
}

impl Published for MemberSpec {
    const OWNER: &'static str = "cluster.MemberController";

    fn yaml(&self) -> String {
        let addresses = self.addresses.iter().filter_map(NetIp::address);
        let addresses: Vec<String> = addresses.map(|one: IpAddr| one.to_string()).collect();
        let kind = match MachineType::try_from(self.machine_type) {
            Ok(MachineType::Init) => "init",
            Ok(MachineType::ControlPlane) => "controlplane",
            Ok(MachineType::Worker) => "worker",
            Ok(MachineType::Unknown) | Err(_) => "unknown",
        };
        let mut lines = Lines::default()
            .always("nodeId", &self.node_id)
            .list("addresses", &addresses)
            .always("hostname", &self.hostname)
            .plain("machineType", kind)
            .always("operatingSystem", &self.operating_system);
        if let Some(control_plane) = &self.control_plane {
            let _ = write!(
                lines.0,
                "controlPlane:\n    port: {}\n",
                control_plane.api_server_port
            );
        }
        lines.text()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_quoted_where_yaml_would_take_them_for_something_else() {
        for (text, wanted) in [
            ("hcloud", "hcloud"),
            ("hcloud://4711", "hcloud://4711"),
            ("4711", "\"4711\""),
            ("no", "\"no\""),
            ("", "\"\""),
            ("a b", "\"a b\""),
            ("a:", "\"a:\""),
            ("fd00::5", "fd00::5"),
        ] {
            assert_eq!(scalar(text), wanted);
        }
    }

    #[test]
    fn an_address_names_its_flags() {
        let spec = notation::address("eth0/fd00::5/64(129)").unwrap();
        assert_eq!(
            spec.yaml(),
            "address: fd00::5/64\nlinkIndex: 1\nlinkName: eth0\nfamily: inet6\nscope: global\n\
             flags: \"temporary,permanent\"\npriority: 0\n"
        );
    }
}
