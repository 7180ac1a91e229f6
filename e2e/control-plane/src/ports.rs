//! The ports of the servers.

use std::net::{Ipv4Addr, TcpListener};

use bowline_http::Random;

use crate::server::Server;

/// Ports are drawn from below the range that Linux and macOS give to outgoing connections, so that
/// nobody gets the port while the server that owns it is being restarted.
const FIRST: u16 = 20_000;
/// How many ports are drawn from: up to 29 999.
const COUNT: u16 = 10_000;
/// How often a port is drawn. With half of them taken, a hundred draws fail once in 2^100 runs.
const DRAWS: usize = 100;

#[derive(Debug, thiserror::Error)]
#[error("no free port on loopback after {DRAWS} draws from {FIRST} on")]
pub struct NoPort;

/// A port for each server, on which nobody listened when they were drawn.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ports {
    etcd: u16,
    api_server: u16,
    controller_manager: u16,
}

impl Ports {
    pub(crate) fn draw(random: &Random) -> Result<Self, NoPort> {
        let mut free = Vec::new();
        for _ in 0..DRAWS {
            let drawn = u16::try_from(random.below(u64::from(COUNT))).unwrap_or_default();
            let port = FIRST + drawn;
            if !free.contains(&port) && TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok() {
                free.push(port);
            }
            if let [etcd, api_server, controller_manager] = free[..] {
                return Ok(Self {
                    etcd,
                    api_server,
                    controller_manager,
                });
            }
        }
        Err(NoPort)
    }

    pub(crate) fn of(self, server: Server) -> u16 {
        match server {
            Server::Etcd => self.etcd,
            Server::ApiServer => self.api_server,
            Server::ControllerManager => self.controller_manager,
        }
    }

    pub(crate) fn url(self, server: Server) -> String {
        format!("https://127.0.0.1:{}", self.of(server))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_taken_port_is_passed_over() {
        let first = Ports::draw(&Random::seeded(1)).unwrap();
        let held = TcpListener::bind((Ipv4Addr::LOCALHOST, first.etcd)).unwrap();
        let second = Ports::draw(&Random::seeded(1)).unwrap();
        for server in Server::ALL {
            assert_ne!(second.of(server), held.local_addr().unwrap().port());
        }
        assert!((FIRST..FIRST + COUNT).contains(&second.etcd));
    }
}
