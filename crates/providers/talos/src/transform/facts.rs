//! What rules see of a machine: one view for selectors, one for templates.

use std::collections::BTreeMap;
use std::sync::Arc;

use bowline_templates::{Record, Value};

use crate::instances::machine::{PlatformMetadata, SystemInformation};

/// The fields of [`SystemInformation`] by the names that templates know.
const SYSTEM_FIELDS: [&str; 8] = [
    "Manufacturer",
    "ProductName",
    "Version",
    "SerialNumber",
    "UUID",
    "WakeUpType",
    "SKUNumber",
    "BIOSVersion",
];
const SYSTEM_GROUP: &str = "SystemInformationSpec";

/// Whether a template can look at the firmware's facts.
pub(super) fn reads_system(template: &bowline_templates::Template) -> bool {
    template.reads(SYSTEM_GROUP) || SYSTEM_FIELDS.iter().any(|field| template.reads(field))
}

/// What selectors compare: only what is known, by lower-case names.
pub(super) fn selector_map(metadata: &PlatformMetadata) -> BTreeMap<&'static str, String> {
    let mut map: BTreeMap<&'static str, String> = [
        ("platform", &metadata.platform),
        ("hostname", &metadata.hostname),
        ("region", &metadata.region),
        ("zone", &metadata.zone),
        ("instancetype", &metadata.instance_type),
        ("instanceid", &metadata.instance_id),
        ("providerid", &metadata.provider_id),
        ("internaldns", &metadata.internal_dns),
        ("externaldns", &metadata.external_dns),
    ]
    .into_iter()
    .filter(|(_, value)| !value.is_empty())
    .map(|(key, value)| (key, value.clone()))
    .collect();
    map.insert("spot", metadata.spot.to_string());
    map
}

/// What templates see of a machine that reports nothing, and of one that reports everything.
pub(super) fn extremes() -> [Value; 2] {
    let text = || "x".to_owned();
    let metadata = PlatformMetadata {
        platform: text(),
        hostname: text(),
        region: text(),
        zone: text(),
        instance_type: text(),
        instance_id: text(),
        provider_id: text(),
        spot: true,
        internal_dns: text(),
        external_dns: text(),
        tags: BTreeMap::from([(text(), text())]),
    };
    let system = SystemInformation {
        manufacturer: text(),
        product_name: text(),
        version: text(),
        serial_number: text(),
        uuid: text(),
        wake_up_type: text(),
        sku_number: text(),
        bios_version: text(),
    };
    let nothing = (PlatformMetadata::default(), SystemInformation::default());
    [nothing, (metadata, system)].map(|(metadata, system)| template_values(&metadata, &system))
}

pub(super) fn template_values(metadata: &PlatformMetadata, system: &SystemInformation) -> Value {
    let group = |name, fields| Value::Record(Arc::new(Record { name, fields }));
    let text = |text: &String| Value::text(text);
    let platform = vec![
        ("Platform", text(&metadata.platform)),
        ("Hostname", text(&metadata.hostname)),
        ("Region", text(&metadata.region)),
        ("Zone", text(&metadata.zone)),
        ("InstanceType", text(&metadata.instance_type)),
        ("InstanceID", text(&metadata.instance_id)),
        ("ProviderID", text(&metadata.provider_id)),
        ("Spot", Value::Bool(metadata.spot)),
        ("InternalDNS", text(&metadata.internal_dns)),
        ("ExternalDNS", text(&metadata.external_dns)),
        ("Tags", Value::Map(Arc::new(metadata.tags.clone()))),
    ];
    let values = [
        &system.manufacturer,
        &system.product_name,
        &system.version,
        &system.serial_number,
        &system.uuid,
        &system.wake_up_type,
        &system.sku_number,
        &system.bios_version,
    ];
    let firmware = SYSTEM_FIELDS.into_iter().zip(values.map(text)).collect();
    group(
        "the facts about the machine",
        vec![
            (
                "PlatformMetadataSpec",
                group("PlatformMetadataSpec", platform),
            ),
            (SYSTEM_GROUP, group(SYSTEM_GROUP, firmware)),
        ],
    )
}
