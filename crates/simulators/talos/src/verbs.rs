//! The control handle over HTTP: `POST /_sim/<verb>`.

use bowline_simulator::faults::Span;
use bowline_simulator::handle::read_body;
use serde::Deserialize;
use serde_json::{Value, json};

use super::handle::Failure;
use super::scene::{MachineSpec, PlatformSpec, TimingsSpec};
use super::{Access, HandleError, Stage, Talos};

/// What can be asked of the control handle over HTTP.
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

impl Talos {
    /// Carries out `POST /_sim/<verb>`.
    pub(super) fn carry_out(&self, verb: &str, body: &Value) -> Result<Value, String> {
        match verb {
            "add" => done(self.add_machine(&read_body::<MachineSpec>(body)?)),
            "stage" => {
                let wanted: InStage = read_body(body)?;
                let stage = Stage::parse(&wanted.stage)
                    .ok_or_else(|| format!("{:?} is no stage", wanted.stage))?;
                done(self.set_stage(&wanted.machine, stage))
            }
            "addresses" => {
                let wanted: Addresses = read_body(body)?;
                let all: Vec<&str> = wanted.addresses.iter().map(String::as_str).collect();
                done(self.set_addresses(&wanted.machine, &all))
            }
            "platform" => {
                let wanted: Platform = read_body(body)?;
                let told = wanted.platform.into();
                done(self.edit_platform(&wanted.machine, |platform| *platform = told))
            }
            "remove-resource" => {
                let it: Remove = read_body(body)?;
                done(self.remove_named(&it.machine, &it.namespace, &it.kind, &it.id))
            }
            "hang" => {
                let wanted: Hang = read_body(body)?;
                done(self.hang(&wanted.machine, wanted.on))
            }
            "cut-list" => {
                let wanted: CutList = read_body(body)?;
                done(self.cut_next_list(&wanted.machine, wanted.after))
            }
            "talosconfig" => self.issue(&read_body(body)?),
            _ => self.carry_out_on_all(verb, body),
        }
    }

    /// The verbs that are about the cluster as a whole.
    fn carry_out_on_all(&self, verb: &str, body: &Value) -> Result<Value, String> {
        match verb {
            "fail" => self.fail(read_body::<Fail>(body)?.try_into()?),
            "timings" => {
                let wanted: TimingsSpec = read_body(body)?;
                self.set_timings(|timings| *timings = wanted.over(*timings));
            }
            "server-names" => {
                let wanted = read_body::<Names>(body)?.names;
                let names: Option<Vec<&str>> = wanted
                    .as_ref()
                    .map(|all| all.iter().map(String::as_str).collect());
                self.set_server_names(names.as_deref());
            }
            "rotate-authority" => return done(self.rotate_authority()),
            "finish-rotation" => {
                if !self.finish_rotation() {
                    return Err("no rotation has begun".to_owned());
                }
            }
            "drop-connections" => self.drop_connections(),
            other => return Err(format!("{other:?} is not known; allowed are {VERBS}")),
        }
        Ok(json!({}))
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

fn done(result: Result<(), HandleError>) -> Result<Value, String> {
    result
        .map(|()| json!({}))
        .map_err(|error| error.to_string())
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct InStage {
    machine: String,
    stage: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Addresses {
    machine: String,
    addresses: Vec<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Platform {
    machine: String,
    platform: PlatformSpec,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Remove {
    machine: String,
    namespace: String,
    #[serde(rename = "type")]
    kind: String,
    id: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Hang {
    machine: String,
    on: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CutList {
    machine: String,
    after: usize,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Fail {
    method: Option<String>,
    machine: Option<String>,
    code: String,
    #[serde(default)]
    message: String,
    times: Option<u64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Names {
    names: Option<Vec<String>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Issue {
    endpoints: Vec<String>,
    roles: Option<Vec<String>>,
    lifetime: Option<Span>,
}
