//! The control handle as a server of its own: the API itself wants a client certificate and HTTP/2.

use std::sync::Arc;

use bowline_simulator::control::Control;
use bowline_simulator::serve::{Answer, Api, Peer, text};
use bytes::Bytes;
use futures::FutureExt;
use futures::future::BoxFuture;
use http::{Request, StatusCode};

use super::{NAME, Talos};

/// Answers what is under `/_sim/`, and nothing else.
#[derive(Debug)]
pub struct ControlServer(Arc<Talos>);

impl ControlServer {
    /// The control handle of that cluster.
    pub fn new(talos: &Arc<Talos>) -> Arc<Self> {
        Arc::new(Self(talos.clone()))
    }
}

impl Api for ControlServer {
    fn name(&self) -> &'static str {
        NAME
    }

    fn answer<'a>(&'a self, _: Request<Bytes>, _: &'a Peer) -> BoxFuture<'a, Answer> {
        async {
            Answer {
                response: text(StatusCode::NOT_FOUND, "only /_sim/ is here\n"),
                caller: String::new(),
            }
        }
        .boxed()
    }

    fn control(&self) -> Option<&dyn Control> {
        Some(&*self.0)
    }
}
