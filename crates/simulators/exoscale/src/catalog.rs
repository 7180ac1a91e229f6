//! What every zone offers: instance types and templates, with the ids that they have.

use serde_json::{Value, json};

/// An instance type: id, family, size, processors, GPUs, GiB of memory.
pub(super) type Kind = (&'static str, &'static str, &'static str, u64, u64, u64);

/// The instance types.
pub(super) const TYPES: [Kind; 12] = bowline_simulator::table![
    "71004023-bb72-4a97-b1e9-bc66dfce9470", "standard", "micro", 1, 0, 0;
    "b6e9d1e8-89fc-4db3-aaa4-9b4c5b1d0844", "standard", "tiny", 1, 0, 1;
    "21624abb-764e-4def-81d7-9fc54b5957fb", "standard", "small", 2, 0, 2;
    "b6cd1ff5-3a2f-4e9d-a4d1-8988c1191fe8", "standard", "medium", 2, 0, 4;
    "c6f99499-7f59-4138-9427-a09db13af2bc", "standard", "large", 4, 0, 8;
    "350dc5ea-fe6d-42ba-b6c0-efb8b75617ad", "standard", "extra-large", 4, 0, 16;
    "a216b0d1-370f-4e21-a0eb-3dfc6302b564", "standard", "huge", 8, 0, 32;
    "5e5fb3c6-e076-429d-9b6c-b71f7b27760b", "memory", "extra-large", 4, 0, 32;
    "d21f5a1b-0e5c-4c6a-9a53-6a1d8a5f2c01", "cpu", "extra-large", 8, 0, 16;
    "d21f5a1b-0e5c-4c6a-9a53-6a1d8a5f2c02", "storage", "large", 4, 0, 8;
    "d21f5a1b-0e5c-4c6a-9a53-6a1d8a5f2c03", "gpua30", "small", 12, 1, 56;
    "d21f5a1b-0e5c-4c6a-9a53-6a1d8a5f2c04", "gpu3080ti", "medium", 24, 2, 112;
];

/// The template of instances for which none is named: id and name.
pub(super) const TEMPLATES: [(&str, &str); 2] = [
    (
        "c1a11e5d-7e3b-4a3d-8f51-3b1d0ef60001",
        "Linux Ubuntu 24.04 LTS 64-bit",
    ),
    (
        "c1a11e5d-7e3b-4a3d-8f51-3b1d0ef60002",
        "Linux Debian 13 (Trixie) 64-bit",
    ),
];

/// The type of instances for which none is named.
pub(super) const DEFAULT_TYPE: &str = "standard.medium";

/// A type by its id or as `family.size`.
pub(super) fn kind(name: &str) -> Option<&'static Kind> {
    TYPES.iter().find(|(id, family, size, ..)| {
        *id == name
            || name
                .split_once('.')
                .is_some_and(|(left, right)| left == *family && right == *size)
    })
}

/// An instance type as the API shows it.
pub(super) fn show_kind(kind: &Kind, zones: &[String]) -> Value {
    let (id, family, size, cpus, gpus, gib) = kind;
    let memory = if *gib == 0 { 512 << 20 } else { gib << 30 };
    let mut shown = json!({
        "id": id, "family": family, "size": size, "cpus": cpus, "memory": memory,
        "authorized": true, "zones": zones,
    });
    if *gpus > 0 {
        shown["gpus"] = json!(gpus);
    }
    shown
}

/// A template as the API shows it.
pub(super) fn show_template((id, name): (&str, &str), zones: &[String]) -> Value {
    json!({
        "id": id, "name": name, "family": name, "visibility": "public", "boot-mode": "uefi",
        "default-user": "root", "size": 10_u64 << 30, "ssh-key-enabled": true,
        "password-enabled": true, "zones": zones, "build": "2026-01-05",
        "created-at": "2026-01-05T00:00:00Z",
    })
}

/// The id of a zone: the same in every run.
pub(super) fn zone_id(name: &str) -> String {
    let digest = ring::digest::digest(&ring::digest::SHA256, name.as_bytes());
    let mut bytes = [0; 16];
    for (to, from) in bytes.iter_mut().zip(digest.as_ref()) {
        *to = *from;
    }
    let made = uuid::Builder::from_random_bytes(bytes);
    made.into_uuid().to_string()
}
