//! Which machine a call is for, and whether that one answers.

use std::net::IpAddr;
use std::time::Duration;

use http::HeaderMap;
use tonic::Status;

use super::{Stage, Talos};

/// What becomes of a call.
pub(super) enum Reach {
    /// That machine answers it.
    Machine(String),
    /// It is refused, after so long.
    Refused(Status, Duration),
    /// Nobody ever answers it.
    Nobody,
}

/// The machine that the headers of a call name: none for the endpoint itself.
pub(super) fn target(headers: &HeaderMap, path: &str) -> Result<Option<String>, Status> {
    if headers.contains_key("nodes") {
        return Err(Status::invalid_argument(format!(
            "one-2-many proxying is not supported for method {path}"
        )));
    }
    let mut nodes = headers.get_all("node").iter();
    let Some(node) = nodes.next() else {
        return Ok(None);
    };
    if nodes.next().is_some() {
        let text = "node metadata must be single-valued";
        return Err(Status::invalid_argument(text));
    }
    let node = node.to_str().unwrap_or_default();
    if node.is_empty() || has_port(node) {
        return Err(Status::internal(format!("invalid target {node:?}")));
    }
    Ok(Some(node.to_owned()))
}

/// Whether an address has a port, or the brackets that go with one.
fn has_port(node: &str) -> bool {
    if node.parse::<IpAddr>().is_ok() {
        return false;
    }
    node.starts_with('[') || node.contains(':')
}

fn dialling(ip: IpAddr, problem: &str) -> Status {
    let place = match ip {
        IpAddr::V4(ip) => format!("{ip}:50000"),
        IpAddr::V6(ip) => format!("[{ip}]:50000"),
    };
    unavailable(&format!("dial tcp {place}: {problem}"))
}

fn unavailable(problem: &str) -> Status {
    Status::unavailable(format!(
        "connection error: desc = \"transport: Error while dialing: {problem}\""
    ))
}

impl Talos {
    /// Where a call to an endpoint goes.
    pub(super) fn reach(&self, endpoint: &str, target: Option<&str>) -> Reach {
        let Some(target) = target else {
            return self.answering(endpoint);
        };
        let ip: Option<IpAddr> = target.parse().ok();
        let found = ip.and_then(|ip| self.found(ip));
        if found.as_ref().is_some_and(|(name, _)| name == endpoint) {
            return self.answering(endpoint);
        }
        if !self.forwards(endpoint) {
            let status = Status::permission_denied("no request forwarding");
            return Reach::Refused(status, Duration::ZERO);
        }
        let Some(ip) = ip else {
            let status = unavailable(&format!("dial tcp: lookup {target}: no such host"));
            return Reach::Refused(status, Duration::ZERO);
        };
        let timings = self.with(|cluster| cluster.timings);
        match found {
            Some((name, Stage::Ready | Stage::MetadataPartial)) => self.answering(&name),
            Some((_, Stage::Booting)) => {
                let status = dialling(ip, "connect: connection refused");
                Reach::Refused(status, Duration::ZERO)
            }
            Some((_, Stage::Down)) => Reach::Refused(dialling(ip, "i/o timeout"), timings.down),
            Some((_, Stage::Absent)) | None => {
                let status = dialling(ip, "connect: no route to host");
                Reach::Refused(status, timings.unknown)
            }
        }
    }

    /// The machine of that address, and how far it is.
    fn found(&self, ip: IpAddr) -> Option<(String, Stage)> {
        self.with(|cluster| {
            let machine = cluster.by_ip(ip)?;
            let off = machine.owned_elsewhere && !self.runs(&machine.register);
            let stage = if off { Stage::Down } else { machine.stage };
            Some((machine.name.clone(), stage))
        })
    }

    /// Whether a machine passes calls on to others: only the control plane does.
    fn forwards(&self, machine: &str) -> bool {
        self.with(|cluster| {
            let machine = cluster.machines.get(machine);
            machine.is_some_and(|machine| machine.control_plane)
        })
    }

    fn answering(&self, machine: &str) -> Reach {
        let hangs = self.with(|cluster| {
            let machine = cluster.machines.get(machine);
            machine.is_some_and(|machine| machine.hangs)
        });
        if hangs {
            Reach::Nobody
        } else {
            Reach::Machine(machine.to_owned())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Headers = &'static [(&'static str, &'static str)];
    type Named = Result<Option<&'static str>, &'static str>;

    #[test]
    fn headers_name_one_machine_or_none() {
        let rows: [(Headers, Named); 10] = bowline_simulator::table![
            &[], Ok(None);
            &[("node", "10.0.0.5")], Ok(Some("10.0.0.5"));
            &[("node", "fd00::5")], Ok(Some("fd00::5"));
            &[("node", "worker-1")], Ok(Some("worker-1"));
            &[("node", "10.0.0.5"), ("node", "10.0.0.6")],
                Err("node metadata must be single-valued");
            &[("node", "")], Err("invalid target \"\"");
            &[("node", "10.0.0.5:50000")], Err("invalid target \"10.0.0.5:50000\"");
            &[("node", "[fd00::5]:50000")], Err("invalid target \"[fd00::5]:50000\"");
            &[("node", "[fd00::5]")], Err("invalid target \"[fd00::5]\"");
            &[("nodes", "10.0.0.5")], Err("one-2-many proxying is not supported for method /a.B/C");
        ];
        for (given, wanted) in rows {
            let mut headers = HeaderMap::new();
            for (name, value) in given {
                headers.append(*name, value.parse().unwrap());
            }
            let found = target(&headers, "/a.B/C");
            let found = found.as_ref().map_err(Status::message);
            assert_eq!(found.map(Option::as_deref), wanted, "{given:?}");
        }
    }
}
