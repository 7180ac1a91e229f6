//! The control handle over HTTP: the verbs, the whole state, and the reset.

use bowline_simulator::control::{Control, ControlResult, Done, done, read_body};
use bowline_simulator::faults::Span;
use bowline_simulator::timings::Timed;
use serde_json::{Value, json};

use super::config::TimingsSpec;
use super::control::Failure;
use super::fixture::{MachineSpec, PlatformSpec};
use super::model::Resources;
use super::{Access, Stage, Talos};

const VERBS: &str = "add, stage, addresses, platform, remove-resource, hang, cut-list, fail, timings, \
    server-names, rotate-authority, finish-rotation, drop-connections, talosconfig";

/// The codes of gRPC that make sense as errors, by name.
const CODES: [(&str, tonic::Code); 10] = [
    ("unknown", tonic::Code::Unknown),
    ("invalid-argument", tonic::Code::InvalidArgument),
    ("deadline-exceeded", tonic::Code::DeadlineExceeded),
    ("not-found", tonic::Code::NotFound),
    ("permission-denied", tonic::Code::PermissionDenied),
    ("resource-exhausted", tonic::Code::ResourceExhausted),
    ("unimplemented", tonic::Code::Unimplemented),
    ("internal", tonic::Code::Internal),
    ("unavailable", tonic::Code::Unavailable),
    ("unauthenticated", tonic::Code::Unauthenticated),
];

impl Control for Talos {
    fn state(&self) -> Value {
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

    fn carry_out(&self, verb: &str, body: &Value) -> Result<Value, String> {
        match verb {
            "add" => done(body, |spec: MachineSpec| self.add_machine(&spec)),
            "stage" => done(body, |to: InStage| {
                let stage = Stage::parse(&to.stage);
                let stage = stage.ok_or_else(|| format!("{:?} is no stage", to.stage))?;
                self.set_stage(&to.machine, stage).done()
            }),
            "addresses" => done(body, |to: Addresses| {
                let all: Vec<&str> = to.addresses.iter().map(String::as_str).collect();
                self.set_addresses(&to.machine, &all)
            }),
            "platform" => done(body, |to: Platform| {
                let reported = to.platform.into();
                self.edit_platform(&to.machine, |platform| *platform = reported)
            }),
            "remove-resource" => done(body, |to: Remove| {
                self.remove_named(&to.machine, &to.namespace, &to.kind, &to.id)
            }),
            "hang" => done(body, |to: Hang| self.hang(&to.machine, to.on)),
            "cut-list" => done(body, |to: CutList| {
                self.cut_next_list(&to.machine, to.after)
            }),
            "talosconfig" => self.issue(&read_body(body)?),
            _ => self.carry_out_on_all(verb, body),
        }
    }

    fn reset(&self) -> ControlResult {
        let now = self.now();
        self.with(|cluster| {
            let names: Vec<String> = cluster.machines.keys().cloned().collect();
            for name in names {
                if let Some(machine) = cluster.machines.get_mut(&name) {
                    machine.stage = Stage::Absent;
                }
                cluster.announce(&name, now);
            }
            cluster.machines.clear();
            cluster.members = Resources::default();
            cluster.failures.clear();
            cluster.timings = self.config.timings;
            cluster.server_names = None;
        });
        self.load()
    }
}

impl Talos {
    /// The verbs that are about the cluster as a whole.
    fn carry_out_on_all(&self, verb: &str, body: &Value) -> Result<Value, String> {
        match verb {
            "fail" => done(body, |to: Fail| {
                to.try_into().map(|failure| self.fail(failure))
            }),
            "timings" => done(body, |to: TimingsSpec| {
                self.set_timings(|timings| *timings = timings.or_as(&to));
            }),
            "server-names" => done(body, |Names { names }| {
                let names = names.as_ref().map(|all| all.iter().map(String::as_str));
                let names: Option<Vec<&str>> = names.map(Iterator::collect);
                self.set_server_names(names.as_deref());
            }),
            "rotate-authority" => done(body, |_: Value| self.rotate_authority()),
            "finish-rotation" => done(body, |_: Value| {
                let finished = self.finish_rotation().then_some(());
                finished.ok_or("no rotation has begun")
            }),
            "drop-connections" => done(body, |_: Value| self.drop_connections()),
            other => Err(format!("{other:?} is not known; allowed are {VERBS}")),
        }
    }

    fn issue(&self, wanted: &Issue) -> Result<Value, String> {
        let endpoints: Vec<&str> = wanted.endpoints.iter().map(String::as_str).collect();
        let mut access = Access::reader(&endpoints);
        if let Some(roles) = &wanted.roles {
            access.roles.clone_from(roles);
        }
        if let Some(lifetime) = wanted.lifetime {
            access.lifetime = lifetime.least;
        }
        let issued = self.talosconfig(&access);
        let issued = issued.map_err(|error| error.to_string())?;
        Ok(json!({ "talosconfig": issued }))
    }
}

impl TryFrom<Fail> for Failure {
    type Error = String;

    fn try_from(wanted: Fail) -> Result<Self, String> {
        let code = CODES.iter().find(|(name, _)| *name == wanted.code);
        let (_, code) = code.ok_or_else(|| {
            let allowed: Vec<&str> = CODES.iter().map(|(name, _)| *name).collect();
            let allowed = allowed.join(", ");
            format!("code {:?} is not known; allowed are {allowed}", wanted.code)
        })?;
        Ok(Self {
            method: wanted.method,
            machine: wanted.machine,
            code: *code,
            message: wanted.message,
            times: wanted.times.unwrap_or(1),
        })
    }
}

bowline_simulator::bodies! {
    InStage { machine: String, stage: String }
    Addresses { machine: String, addresses: Vec<String> }
    Platform { machine: String, platform: PlatformSpec }
    Remove {
        machine: String, namespace: String, #[serde(rename = "type")] kind: String, id: String
    }
    Hang { machine: String, on: bool }
    CutList { machine: String, after: usize }
    Fail {
        method: Option<String>,
        machine: Option<String>,
        code: String,
        #[serde(default)] message: String,
        times: Option<u64>
    }
    Names { names: Option<Vec<String>> }
    Issue { endpoints: Vec<String>, roles: Option<Vec<String>>, lifetime: Option<Span> }
}
