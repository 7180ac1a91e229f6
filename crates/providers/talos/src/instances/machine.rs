//! Facts that a machine reports: the values that decisions are made of. The client fills them in.

use std::collections::BTreeMap;
use std::net::IpAddr;

/// The metadata of the machine's platform, read at boot. Empty texts: not known.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PlatformMetadata {
    pub platform: String,
    pub hostname: String,
    pub region: String,
    pub zone: String,
    pub instance_type: String,
    pub instance_id: String,
    pub provider_id: String,
    pub spot: bool,
    pub internal_dns: String,
    pub external_dns: String,
    pub tags: BTreeMap<String, String>,
}

/// The machine's firmware facts (SMBIOS). All empty where there are none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SystemInformation {
    pub manufacturer: String,
    pub product_name: String,
    pub version: String,
    pub serial_number: String,
    pub uuid: String,
    pub wake_up_type: String,
    pub sku_number: String,
    pub bios_version: String,
}

/// An address of the machine, as it lists them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MachineAddress {
    /// The link it is on; `external` for those that only the platform knows.
    pub link: String,
    pub address: IpAddr,
    pub prefix_length: u8,
    /// Flag bits of the kernel.
    pub flags: u32,
}

/// The flag of an address that stays.
pub const PERMANENT: u32 = 128;

impl MachineAddress {
    /// Whether it stays, as opposed to one made for privacy.
    pub fn is_permanent(&self) -> bool {
        self.flags & PERMANENT != 0
    }
}
