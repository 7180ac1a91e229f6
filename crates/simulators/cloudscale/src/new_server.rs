//! What a server to be made is to be like: read from a request and checked.

use std::collections::BTreeMap;
use std::time::Duration;

use super::catalog;
use super::fields::Fields;
use super::interfaces::Wanted;
use super::model::Cloud;
use super::refusals::{OrRefusal, Refusal};

/// Characters of a name at creation: it becomes the host name.
const HOST_NAME: usize = 63;
/// The size of a root volume if none is asked for.
const ROOT_GB: u64 = 10;

/// A server to be made.
pub(super) struct NewServer {
    pub(super) uuid: Option<String>,
    pub(super) name: String,
    pub(super) zone: String,
    pub(super) flavor: String,
    pub(super) image: String,
    /// Type and size of each volume, the root volume first.
    pub(super) volumes: Vec<(String, u64)>,
    pub(super) interfaces: Vec<Wanted>,
    pub(super) ipv6: bool,
    pub(super) groups: Vec<String>,
    pub(super) tags: BTreeMap<String, String>,
    pub(super) runs: bool,
    /// How long it is being made; none: it is there at once, and seen at once.
    pub(super) takes: Option<Duration>,
}

impl NewServer {
    /// From the body of a POST.
    pub(super) fn parse(fields: &Fields, takes: Duration) -> OrRefusal<Self> {
        let name = fields.required("name")?.to_owned();
        check_host_name(&name)?;
        let choice = |key: &str, known: fn(&str) -> bool| {
            let slug = fields.required(key)?;
            if known(slug) {
                Ok(slug.to_owned())
            } else {
                Err(Refusal::field(
                    key,
                    format!("\"{slug}\" is not a valid choice."),
                ))
            }
        };
        let wanted = match fields.list("interfaces")? {
            Some(list) => Wanted::parse(list)?,
            None if fields.flag("use_public_network", true)? => vec![Wanted::public()],
            None => Vec::new(),
        };
        Ok(Self {
            uuid: None,
            name,
            zone: fields.zone()?,
            flavor: choice("flavor", |slug| catalog::flavor(slug).is_some())?,
            image: choice("image", |slug| catalog::image(slug).is_some())?,
            volumes: parse_volumes(fields)?,
            interfaces: wanted,
            ipv6: fields.flag("use_ipv6", true)?,
            groups: fields.texts("server_groups")?.unwrap_or_default(),
            tags: fields.tags()?,
            runs: true,
            takes: Some(takes),
        })
    }
}

/// The private network that is meant when a request only says that it wants one.
pub(super) fn default_private(cloud: &Cloud, project: &str, zone: &str) -> OrRefusal<Wanted> {
    let networks = cloud
        .projects
        .get(project)
        .into_iter()
        .flat_map(|p| p.networks.all());
    let first = networks
        .filter(|network| network.zone == zone)
        .map(|n| n.uuid.clone())
        .next();
    let missing = "There is no private network in this zone.";
    let network = first.ok_or_else(|| Refusal::field("use_private_network", missing))?;
    Ok(Wanted {
        network: Some(network),
        addresses: None,
    })
}

/// The root volume, then the further ones.
fn parse_volumes(fields: &Fields) -> OrRefusal<Vec<(String, u64)>> {
    const SIZES: std::ops::RangeInclusive<u64> = 1..=102_400;
    let root = fields.number("volume_size_gb", SIZES)?.unwrap_or(ROOT_GB);
    let mut volumes = vec![("ssd".to_owned(), root)];
    for value in fields.list("volumes")?.into_iter().flatten() {
        let volume = Fields::within("volumes", value)?;
        let kind = volume.text("type")?.unwrap_or("ssd").to_owned();
        let size = volume
            .number("size_gb", SIZES)?
            .ok_or_else(|| Refusal::required("size_gb"))?;
        volumes.push((kind, size));
    }
    if let Some(size) = fields.number("bulk_volume_size_gb", SIZES)? {
        volumes.push(("bulk".to_owned(), size));
    }
    Ok(volumes)
}

fn check_host_name(name: &str) -> OrRefusal {
    let allowed = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '.';
    if name.len() > HOST_NAME {
        let message = format!("Ensure this field has no more than {HOST_NAME} characters.");
        return Err(Refusal::field("name", message));
    }
    if !name.chars().all(allowed) {
        return Err(Refusal::field(
            "name",
            "Only letters, digits, - and . are allowed.",
        ));
    }
    Ok(())
}
