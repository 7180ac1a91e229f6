//! From what travels to what decisions are made of.

use bowline_core::ipam::ClusterRanges;
use bowline_talos_api::Kind;
use bowline_talos_api::machine::VersionResponse;
use bowline_talos_api::resource::Resource;
use bowline_talos_api::specs::{
    AddressStatusSpec, ControllerManagerConfigSpec, MachineType, MemberSpec, PlatformMetadataSpec,
    SystemInformationSpec,
};
use ipnet::IpNet;
use tonic::Status;
use tracing::debug;

use super::error::ApiError;
use crate::endpoint::Endpoint;
use crate::instances::machine::{MachineAddress, PlatformMetadata, SystemInformation};

/// The content of the one resource that was asked for.
pub(super) fn one<K: Kind>(found: &[Resource]) -> Result<K, ApiError> {
    let Some(resource) = found.first() else {
        return Err(ApiError::Unreadable(
            "there is no resource in it".to_owned(),
        ));
    };
    let read = resource.read();
    read.map_err(|error| ApiError::Unreadable(bowline_core::error_chain(&error)))
}

/// What those resources say that can be read: one that cannot spoils no list.
fn all<K: Kind>(found: &[Resource]) -> impl Iterator<Item = K> {
    found.iter().filter_map(|resource| {
        let read = resource.read();
        read.inspect_err(|error| debug!(%error, "leaving a resource out of a list"))
            .ok()
    })
}

pub(super) fn addresses(found: &[Resource]) -> Vec<MachineAddress> {
    let read = all::<AddressStatusSpec>(found).filter_map(|spec| {
        let (address, prefix_length) = spec.address.as_ref()?.address()?;
        Some(MachineAddress {
            link: spec.link_name,
            address,
            prefix_length,
            flags: spec.flags,
        })
    });
    read.collect()
}

pub(super) fn control_planes(found: &[Resource]) -> Vec<Endpoint> {
    let of_the_plane = all::<MemberSpec>(found).filter(|member| {
        matches!(
            member.machine_type(),
            MachineType::Init | MachineType::ControlPlane
        )
    });
    let addresses = of_the_plane.flat_map(|member| member.addresses);
    let addresses = addresses.filter_map(|it| it.address());
    addresses.map(Endpoint::of).collect()
}

/// The cluster's ranges. A text that is none spoils them all: a range that is overlooked would be
/// given away.
pub(super) fn ranges(spec: &ControllerManagerConfigSpec) -> Result<ClusterRanges, ApiError> {
    let read = |texts: &[String]| -> Result<Vec<IpNet>, ApiError> {
        let read = texts.iter().map(|text| {
            text.trim()
                .parse()
                .map_err(|_| ApiError::Unreadable(format!("{text:?} is no CIDR")))
        });
        read.collect()
    };
    Ok(ClusterRanges {
        pods: read(&spec.pod_cidrs)?,
        services: read(&spec.service_cidrs)?,
    })
}

/// An answer may hold errors of those that it was passed on to.
pub(super) fn version(answer: VersionResponse) -> Result<(), Status> {
    let mut metadata = answer.messages.into_iter().filter_map(|it| it.metadata);
    match metadata.find(|it| !it.error.is_empty()) {
        None => Ok(()),
        Some(wrong) => Err(Status::unavailable(wrong.error)),
    }
}

impl From<PlatformMetadataSpec> for PlatformMetadata {
    fn from(spec: PlatformMetadataSpec) -> Self {
        Self {
            platform: spec.platform,
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

impl From<SystemInformationSpec> for SystemInformation {
    fn from(spec: SystemInformationSpec) -> Self {
        Self {
            manufacturer: spec.manufacturer,
            product_name: spec.product_name,
            version: spec.version,
            serial_number: spec.serial_number,
            uuid: spec.uuid,
            wake_up_type: spec.wake_up_type,
            sku_number: spec.sku_number,
            bios_version: spec.bios_version,
        }
    }
}
