//! The kinds of things that the API has: found by path, listed, shown, filtered.

use percent_encoding::percent_decode_str;
use serde_json::Value;

use super::catalog;
use super::render::View;
use super::shelf::shelf;

/// The kinds of things that the API has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind<'a> {
    Regions,
    Flavors,
    Images,
    Servers,
    Volumes,
    Networks,
    Subnets,
    Groups,
    FloatingIps,
    Balancers,
    Pools,
    /// The members of one pool.
    Members(&'a str),
    Listeners,
    Monitors,
    /// Collections that can be listed and are always empty.
    Empty,
}

/// The kind that a path begins with, and what follows it.
pub(super) fn kind_of<'a, 'b>(segments: &'a [&'b str]) -> Option<(Kind<'b>, &'a [&'b str])> {
    let (first, rest) = segments.split_first()?;
    let kind = match *first {
        "regions" => Kind::Regions,
        "flavors" => Kind::Flavors,
        "images" => Kind::Images,
        "servers" => Kind::Servers,
        "volumes" => Kind::Volumes,
        "networks" => Kind::Networks,
        "subnets" => Kind::Subnets,
        "server-groups" => Kind::Groups,
        "floating-ips" => Kind::FloatingIps,
        "volume-snapshots" | "objects-users" | "custom-images" => Kind::Empty,
        "load-balancers" => return Some(balancer_kind(rest)),
        _ => return None,
    };
    Some((kind, rest))
}

/// The words of the children come before `load-balancers/<uuid>`.
fn balancer_kind<'a, 'b>(rest: &'a [&'b str]) -> (Kind<'b>, &'a [&'b str]) {
    match rest {
        ["pools", pool, "members", rest @ ..] => (Kind::Members(pool), rest),
        ["pools", rest @ ..] => (Kind::Pools, rest),
        ["listeners", rest @ ..] => (Kind::Listeners, rest),
        ["health-monitors", rest @ ..] => (Kind::Monitors, rest),
        rest => (Kind::Balancers, rest),
    }
}

/// The id by which a thing is kept: the same address can be written in several ways.
pub(super) fn canonical(kind: Kind<'_>, id: &str) -> String {
    let address = id.parse::<std::net::IpAddr>().ok();
    match (kind, address) {
        (Kind::FloatingIps, Some(address)) => address.to_string(),
        _ => id.to_owned(),
    }
}

pub(super) fn list(view: &View<'_>, kind: Kind<'_>) -> Vec<Value> {
    let project = view.cloud.projects.get(view.project);
    match (kind, project) {
        (Kind::Regions, _) => catalog::regions(),
        (Kind::Flavors, _) => catalog::flavors(),
        (Kind::Images, _) => catalog::images(),
        (Kind::Empty, _) | (_, None) => Vec::new(),
        (Kind::Servers, Some(project)) => {
            let alive = project
                .servers
                .all()
                .filter(|server| server.visible_from <= view.now);
            let ghosts = project.ghosts.iter().map(|(_, server)| server);
            alive
                .chain(ghosts)
                .map(|server| view.server(server))
                .collect()
        }
        (Kind::Volumes, Some(project)) => {
            let volumes = project.servers.all().flat_map(|server| {
                server
                    .volumes
                    .iter()
                    .map(|volume| view.volume(server, volume))
            });
            volumes.collect()
        }
        (Kind::Members(pool), _) => view.members(pool).unwrap_or_default(),
        (kind, Some(project)) => {
            shelf(kind).map_or_else(Vec::new, |shelf| shelf.list(view, project))
        }
    }
}

/// Whether lags of visibility count.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Sight {
    /// As a reader sees it.
    Reader,
    All,
}

pub(super) fn show(view: &View<'_>, kind: Kind<'_>, id: &str, sight: Sight) -> Option<Value> {
    let project = view.cloud.projects.get(view.project)?;
    match kind {
        Kind::Servers => {
            let seen = |from: jiff::Timestamp| sight == Sight::All || from <= view.now;
            let alive = project
                .servers
                .get(id)
                .filter(|server| seen(server.visible_from));
            let mut ghosts = project.ghosts.iter().filter(|(until, server)| {
                sight == Sight::Reader && view.now < *until && server.uuid == id
            });
            let server = alive.or_else(|| ghosts.next().map(|(_, server)| server))?;
            Some(view.server(server))
        }
        Kind::Volumes => {
            let mut volumes = project
                .servers
                .all()
                .flat_map(|server| server.volumes.iter().map(move |volume| (server, volume)));
            let (server, volume) = volumes.find(|(_, volume)| volume.uuid == id)?;
            Some(view.volume(server, volume))
        }
        Kind::Members(pool) => view.member_of(pool, id),
        kind => shelf(kind)?.show(view, project, id),
    }
}

/// Keys and values of a query, decoded.
pub(super) fn filters(query: &str) -> Vec<(String, String)> {
    let decode = |text: &str| {
        let spaced = text.replace('+', " ");
        percent_decode_str(&spaced).decode_utf8_lossy().into_owned()
    };
    let pairs = query.split('&').filter(|pair| !pair.is_empty());
    let pairs = pairs.map(|pair| pair.split_once('=').unwrap_or((pair, "")));
    pairs
        .map(|(key, value)| (decode(key), decode(value)))
        .collect()
}

/// Whether a thing passes one filter. Filters that the API does not have are ignored.
pub(super) fn fits(thing: &Value, key: &str, value: &str) -> bool {
    if let Some(tag) = key.strip_prefix("tag:") {
        let tag = thing["tags"].get(tag);
        return tag.is_some_and(|tag| value.is_empty() || tag == value);
    }
    key != "name" || thing["name"] == value
}
