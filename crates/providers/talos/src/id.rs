//! Provider ids: what a machine reports, what replaces it, and which cloud an id belongs to.
//!
//! A machine reports the id of its cloud (`hcloud://4711`). Where the platform has none the id is
//! made of platform and address: `talos://metal/10.0.0.5`.

use std::net::IpAddr;

use bowline_core::Claim;
use bowline_templates::GoRegex;
use thiserror::Error;

use crate::instances::machine::PlatformMetadata;

/// What stands before `://` in the ids that this provider makes.
pub const SCHEME: &str = "talos";

/// Platforms that never report a provider id, so that there is nothing to wait for.
const WITHOUT_ID: [&str; 5] = ["nocloud", "metal", "vmware", "opennebula", "container"];
/// Platforms that always report one, sooner or later.
const WITH_ID: [&str; 15] = [
    "exoscale",
    "openstack",
    "aws",
    "gcp",
    "azure",
    "hcloud",
    "digital-ocean",
    "equinixMetal",
    "akamai",
    "scaleway",
    "upcloud",
    "vultr",
    "cloudstack",
    "oracle",
    "alibabacloud",
];

/// What Azure's ids look like.
const AZURE_FORM: &str = ".*/subscriptions/(?:.*)/resourceGroups/(.+)/providers/(?:.*)";

#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum IdError {
    /// The platform is Azure, but the id is not one of its.
    #[error(
        "error converting resource group name to lower case: {0:?} isn't in Azure resource ID \
         format \"{AZURE_FORM}\""
    )]
    Azure(String),
}

/// The id of a machine whose platform has none.
pub fn fallback(platform: &str, node_ip: IpAddr) -> String {
    format!("{SCHEME}://{platform}/{node_ip}")
}

/// The id before any rule: what the machine reports, or else the fallback; Azure's in lower case
/// where Azure itself does not mind.
pub fn provider_id(metadata: &PlatformMetadata, node_ip: IpAddr) -> Result<String, IdError> {
    let id = if metadata.provider_id.is_empty() {
        fallback(&metadata.platform, node_ip)
    } else {
        metadata.provider_id.clone()
    };
    if metadata.platform == "azure" {
        lower_resource_group(&id)
    } else {
        Ok(id)
    }
}

/// Azure's interfaces disagree about the case of a resource group; ids are compared as texts.
fn lower_resource_group(id: &str) -> Result<String, IdError> {
    let form = GoRegex::new(AZURE_FORM).ok();
    let group = form.as_ref().and_then(|form| form.group(id, 1));
    let group = group.ok_or_else(|| IdError::Azure(id.to_owned()))?;
    Ok(id.replacen(group, &group.to_lowercase(), 1))
}

/// Whether the platform's metadata has arrived: right after boot a machine knows only its platform,
/// and an id made of that would stay for ever. A rule that sets the id makes waiting needless.
pub fn is_ready(metadata: &PlatformMetadata, a_rule_sets_the_id: bool) -> bool {
    let id = metadata.provider_id.as_str();
    let hollow = id.is_empty() || id.ends_with('/') || id == ".";
    let waits = WITH_ID.contains(&metadata.platform.as_str())
        && !WITHOUT_ID.contains(&metadata.platform.as_str());
    !(waits && metadata.instance_id.is_empty() && hollow) || a_rule_sets_the_id
}

pub fn claim(provider_id: &str) -> Claim {
    let Some(rest) = provider_id.strip_prefix("talos://") else {
        return Claim::Foreign;
    };
    let well_formed = rest.split_once('/').is_some_and(|(platform, address)| {
        let plain = |b: u8| b.is_ascii_hexdigit() || b == b'.' || b == b':';
        !platform.is_empty() && !address.is_empty() && address.bytes().all(plain)
    });
    if well_formed {
        Claim::Mine
    } else {
        Claim::Malformed(format!(
            "provider id {provider_id:?} is not {SCHEME}://<platform>/<address>"
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bowline_test_kit::{begins, says};

    fn azure(id: &str) -> Result<String, IdError> {
        let metadata = PlatformMetadata {
            platform: "azure".into(),
            provider_id: id.into(),
            ..PlatformMetadata::default()
        };
        provider_id(&metadata, "10.0.0.5".parse().unwrap())
    }

    fn machine(platform: &str, instance_id: &str, provider_id: &str) -> PlatformMetadata {
        PlatformMetadata {
            platform: platform.into(),
            instance_id: instance_id.into(),
            provider_id: provider_id.into(),
            ..PlatformMetadata::default()
        }
    }

    #[test]
    fn an_id_without_a_cloud_is_made_of_platform_and_address() {
        for (platform, ip, id) in [
            ("metal", "10.8.0.11", "talos://metal/10.8.0.11"),
            ("metal", "fd00:8:0::11", "talos://metal/fd00:8::11"),
            ("nocloud", "10.0.0.5", "talos://nocloud/10.0.0.5"),
        ] {
            let made = provider_id(&machine(platform, "", ""), ip.parse().unwrap()).unwrap();
            assert_eq!(made, id);
            assert_eq!(claim(&made), Claim::Mine);
        }
        let reported = machine("hcloud", "4711", "hcloud://4711");
        let id = provider_id(&reported, "10.0.0.5".parse().unwrap()).unwrap();
        assert_eq!(id, "hcloud://4711");
        assert_eq!(claim(&id), Claim::Foreign);
    }

    #[test]
    fn talos_case_19_the_resource_group_of_azure_is_in_lower_case() {
        let tail = "providers/Microsoft.Compute/virtualMachines/vm0";
        assert_eq!(
            azure(&format!(
                "azure:///subscriptions/1111/resourceGroups/MyGroup-RG/{tail}"
            ))
            .unwrap(),
            format!("azure:///subscriptions/1111/resourceGroups/mygroup-rg/{tail}")
        );
        // The first occurrence of the name in the whole id is what changes.
        assert_eq!(
            azure("azure:///subscriptions/RG/resourceGroups/RG/providers/x").unwrap(),
            "azure:///subscriptions/rg/resourceGroups/RG/providers/x"
        );
    }

    #[test]
    fn talos_case_20_azure_without_an_id_is_an_error() {
        for id in [
            "",
            "azure://",
            "azure:///subscriptions/1/resourceGroups//providers/x",
        ] {
            let error = azure(id).unwrap_err().to_string();
            begins(&error, "error converting resource group name");
            says(&error, "isn't in Azure resource ID format");
        }
    }

    #[test]
    fn talos_case_25_metadata_that_will_come_is_waited_for() {
        for (platform, instance_id, id, ready) in [
            ("hcloud", "", "", false),
            ("hcloud", "", "hcloud://", false),
            ("exoscale", "", "exoscale://", false),
            ("alibabacloud", "", ".", false),
            ("scaleway", "", "scaleway://instance//", false),
            ("azure", "", "", false),
            ("hcloud", "4711", "hcloud://4711", true),
            ("hcloud", "4711", "", true),
            ("hcloud", "", "hcloud://4711", true),
            ("nocloud", "", "", true),
            ("metal", "", "", true),
            ("vmware", "", "", true),
            ("something-new", "", "", true),
        ] {
            let metadata = machine(platform, instance_id, id);
            assert_eq!(
                is_ready(&metadata, false),
                ready,
                "{platform} {instance_id:?} {id:?}"
            );
            assert!(is_ready(&metadata, true));
        }
    }

    #[test]
    fn talos_case_26_nocloud_does_not_wait() {
        let metadata = machine("nocloud", "abc", "");
        assert!(is_ready(&metadata, false));
        let id = provider_id(&metadata, "10.0.0.5".parse().unwrap()).unwrap();
        assert_eq!(id, "talos://nocloud/10.0.0.5");
    }

    #[test]
    fn whose_an_id_is_can_be_seen() {
        for (id, mine) in [
            ("talos://metal/10.0.0.5", true),
            ("talos://metal/fd00::5", true),
            ("talos://metal", false),
            ("talos:///10.0.0.5", false),
            ("talos://metal/", false),
            ("talos://metal/a/b", false),
            ("talos://metal/node-1", false),
        ] {
            assert_eq!(claim(id) == Claim::Mine, mine, "{id}");
            assert_ne!(claim(id), Claim::Foreign);
        }
        for foreign in ["exoscale://9f", "", "talosx://a/1", "aws:///z/i-4"] {
            assert_eq!(claim(foreign), Claim::Foreign);
        }
    }
}
