//! The control handle as a server of its own: the API itself wants a client certificate and HTTP/2.

use std::sync::Arc;

use bowline_simulator::serve::{Answer, Api, Peer, text};
use bytes::Bytes;
use futures::FutureExt;
use futures::future::BoxFuture;
use http::{Request, StatusCode};
use serde_json::{Value, json};

use super::{NAME, Talos};

/// Answers what is under `/_sim/`, and nothing else.
#[derive(Debug)]
pub struct Control(Arc<Talos>);

impl Control {
    /// The control handle of that cluster.
    pub fn new(talos: &Arc<Talos>) -> Arc<Self> {
        Arc::new(Self(talos.clone()))
    }
}

impl Talos {
    /// Everything, for people.
    pub(super) fn everything(&self) -> Value {
        self.with(|cluster| {
            let machines = cluster.machines.values().map(|it| {
                let resources = it.resources.all().map(|one| {
                    json!({
                        "namespace": one.metadata.namespace,
                        "type": one.metadata.r#type,
                        "id": one.metadata.id,
                        "version": one.metadata.version,
                        "spec": one.spec.yaml_spec,
                    })
                });
                json!({
                    "name": it.name,
                    "control_plane": it.control_plane,
                    "stage": it.stage.as_str(),
                    "hangs": it.hangs,
                    "node_ips": it.node_ips,
                    "machine_id": it.register,
                    "resources": resources.collect::<Vec<_>>(),
                })
            });
            json!({ "machines": machines.collect::<Vec<_>>() })
        })
    }
}

impl Api for Control {
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

    fn state(&self) -> Value {
        self.0.everything()
    }

    fn control(&self, verb: &str, body: &Value) -> Result<Value, String> {
        self.0.carry_out(verb, body)
    }

    fn reset(&self) {
        self.0.reset();
    }
}
