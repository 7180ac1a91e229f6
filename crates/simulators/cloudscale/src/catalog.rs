//! What every project can choose from: zones, flavors, images.

use serde_json::{Value, json};

/// Zones with their regions.
pub(super) const ZONES: [(&str, &str); 2] = [("rma1", "rma"), ("lpg1", "lpg")];

/// The zone that is taken when a request names none.
pub(super) const DEFAULT_ZONE: &str = "rma1";

/// A family of flavors: slug, name, and memory in GiB and CPUs of each.
type Family = (&'static str, &'static str, &'static [(u32, u32)]);

const SIZES: [Family; 2] = [
    (
        "flex",
        "Flex",
        &[
            (4, 1),
            (4, 2),
            (4, 4),
            (8, 2),
            (8, 4),
            (16, 4),
            (16, 8),
            (32, 8),
            (64, 16),
        ],
    ),
    (
        "plus",
        "Plus",
        &[
            (8, 2),
            (12, 4),
            (16, 4),
            (32, 8),
            (64, 16),
            (128, 32),
            (192, 96),
        ],
    ),
];

/// Slug, name, operating system and user of each image.
const IMAGES: [(&str, &str, &str, &str); 6] = [
    ("debian-11", "Debian 11", "Debian", "debian"),
    ("debian-12", "Debian 12", "Debian", "debian"),
    ("debian-13", "Debian 13", "Debian", "debian"),
    ("ubuntu-22.04", "Ubuntu 22.04 LTS", "Ubuntu", "ubuntu"),
    ("ubuntu-24.04", "Ubuntu 24.04 LTS", "Ubuntu", "ubuntu"),
    ("flatcar", "Flatcar", "Flatcar", "core"),
];

/// The slugs of all zones, for messages.
pub(super) fn zone_slugs() -> String {
    ZONES.map(|(zone, _)| zone).join(", ")
}

pub(super) fn region_of(zone: &str) -> Option<&'static str> {
    let found = ZONES.iter().find(|(slug, _)| *slug == zone);
    found.map(|(_, region)| *region)
}

fn zones() -> Vec<Value> {
    ZONES
        .iter()
        .map(|(zone, _)| json!({ "slug": zone }))
        .collect()
}

/// `GET /v1/regions`.
pub(super) fn regions() -> Vec<Value> {
    let regions = ZONES.iter();
    regions
        .map(|(zone, region)| json!({"slug": region, "zones": [{"slug": zone}]}))
        .collect()
}

/// Slug, name, CPUs and memory of the flavor with graphics cards.
const GRAPHICS: (&str, &str, u32, u32) = ("gpu2-128-16-1-200", "GPU2-128-16-1-200", 16, 128);

/// `GET /v1/flavors`.
pub(super) fn flavors() -> Vec<Value> {
    let sized = SIZES.iter().flat_map(|(slug, _, sizes)| {
        sizes
            .iter()
            .map(move |(memory, cpus)| format!("{slug}-{memory}-{cpus}"))
    });
    let sized = sized.filter_map(|slug| {
        let mut shown = flavor(&slug)?;
        shown["gpu"] = Value::Null;
        shown["zones"] = zones().into();
        Some(shown)
    });
    let graphics = flavor(GRAPHICS.0).map(|mut shown| {
        shown["gpu"] = json!({
            "name": "GPU2", "count": 1, "vram_per_gpu_gb": 200, "total_vram_gb": 200,
        });
        shown["zones"] = json!([{"slug": "lpg1"}]);
        shown
    });
    sized.chain(graphics).collect()
}

/// The flavor as it stands in a server; none if there is no such flavor. Called once per server
/// of every list, so it looks at the tables only.
pub(super) fn flavor(slug: &str) -> Option<Value> {
    let shown = |name: &str, cpus: u32, memory: u32| json!({"slug": slug, "name": name, "vcpu_count": cpus, "memory_gb": memory});
    if slug == GRAPHICS.0 {
        return Some(shown(GRAPHICS.1, GRAPHICS.2, GRAPHICS.3));
    }
    let (family, size) = slug.split_once('-')?;
    let (memory, cpus) = size.split_once('-')?;
    let (memory, cpus) = (memory.parse().ok()?, cpus.parse().ok()?);
    let (_, name, sizes) = SIZES.iter().find(|(known, ..)| *known == family)?;
    let exists = sizes.contains(&(memory, cpus));
    // Numbers can be written in several ways, slugs cannot.
    let exists = exists && slug == format!("{family}-{memory}-{cpus}");
    exists.then(|| shown(&format!("{name}-{memory}-{cpus}"), cpus, memory))
}

/// `GET /v1/images`.
pub(super) fn images() -> Vec<Value> {
    let images = IMAGES.iter().map(|(slug, name, system, user)| {
        json!({
            "slug": slug, "name": name, "operating_system": system, "default_username": user,
            "zones": zones(),
        })
    });
    images.collect()
}

/// The image as it stands in a server; none if there is no such image.
pub(super) fn image(slug: &str) -> Option<Value> {
    let found = IMAGES.iter().find(|(image, ..)| *image == slug);
    found.map(|(slug, name, system, user)| {
        json!({"slug": slug, "name": name, "operating_system": system, "default_username": user})
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_catalogue_has_what_official_clients_ask_for() {
        for slug in [
            "flex-4-1",
            "flex-4-2",
            "flex-4-4",
            "plus-192-96",
            "gpu2-128-16-1-200",
        ] {
            assert!(flavor(slug).is_some(), "{slug}");
        }
        assert_eq!(flavor("flex-8-4").unwrap()["memory_gb"], 8);
        assert!(flavor("flex-5-5").is_none() && flavor("flex-04-1").is_none());
        assert_eq!(flavors().last().unwrap()["gpu"]["count"], 1);
        assert_eq!(flavors()[0]["gpu"], Value::Null);
        assert!(image("plan9").is_none());
        assert_eq!(image("debian-11").unwrap()["default_username"], "debian");
        assert_eq!(regions()[0]["zones"][0]["slug"], "rma1");
        assert_eq!(region_of("lpg1"), Some("lpg"));
    }
}
