//! Machines from a file, simulated: a rack, and the file that its operator keeps.
//!
//! ```text
//!  add · stop · start · destroy ─▶ inventory ─┬─▶ the file, replaced as a whole ─▶ provider
//!                                              └─▶ the world's machines ─▶ kubelets
//! ```
//!
//! The provider reads the file and calls nobody. The server is for people: it shows the file under
//! `GET /machines.yaml`, and has the control handle.

mod inventory;
mod sandbox;
mod simulate;

use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bowline_simulator::World;
use bowline_simulator::control::{Control, ControlError, ControlResult, read_body};
use bowline_simulator::machines::Power;
use bowline_simulator::serve::{Answer, Api, Peer, json, of_type};
use bytes::Bytes;
use futures::FutureExt;
use futures::future::BoxFuture;
use http::{Method, Request, StatusCode};
use serde::Deserialize;
use serde_json::{Value, json};

pub use inventory::{Inventory, Machine, State};
pub use sandbox::KIND;

/// The name in the journal and in fault rules, and the scheme of provider IDs.
pub const NAME: &str = "static";
/// Where the server shows the file.
const PATH: &str = "/machines.yaml";
const VERBS: &str = "add, stop, start, destroy";

#[derive(Debug)]
pub struct Rack {
    world: World,
    /// What a reset goes back to.
    fixture: Inventory,
    kept: Mutex<Kept>,
}

#[derive(Debug, Default)]
struct Kept {
    inventory: Inventory,
    /// Where the file is; none as long as nobody reads one.
    file: Option<PathBuf>,
}

impl Rack {
    /// A rack with these machines, and no file yet.
    pub fn new(world: &World, fixture: Inventory) -> ControlResult<Arc<Self>> {
        let rack = Self {
            world: world.clone(),
            fixture,
            kept: Mutex::default(),
        };
        rack.load()?;
        Ok(Arc::new(rack))
    }

    /// From now on every change is written to that file; gives what it has to contain until then.
    pub fn keep_in(&self, file: PathBuf) -> String {
        let mut kept = self.kept();
        kept.file = Some(file);
        kept.inventory.text()
    }

    /// The machines, in the order of the file.
    pub fn inventory(&self) -> Inventory {
        self.kept().inventory.clone()
    }

    /// Enters a machine.
    pub fn add(&self, machine: Machine) -> ControlResult {
        let name = machine.name.clone();
        self.change("add the machine", &name, |all| all.add(machine))
    }

    /// Switches a machine off.
    pub fn stop(&self, machine: &str) -> ControlResult {
        self.change("stop the machine", machine, |all| {
            all.present(machine).map(|it| it.state = State::Stopped)
        })
    }

    /// Switches a machine on.
    pub fn start(&self, machine: &str) -> ControlResult {
        self.change("start the machine", machine, |all| {
            all.present(machine).map(|it| it.state = State::Running)
        })
    }

    /// Takes a machine out for good. Its entry stays, and says so.
    pub fn destroy(&self, machine: &str) -> ControlResult {
        self.change("destroy the machine", machine, |all| {
            all.present(machine).map(|it| it.gone = true)
        })
    }

    /// Lets the world's register of machines follow one entry.
    fn follow(&self, name: &str) {
        let mut kept = self.kept();
        let Ok(machine) = kept.inventory.present(name) else {
            let id = kept.inventory.id(name);
            return self.world.machines.destroy(&id);
        };
        let power = match machine.state {
            State::Running => Power::Running,
            State::Stopped => Power::Off,
        };
        self.world.machines.set(&machine.id(), power);
    }

    fn change(
        &self,
        task: &'static str,
        name: &str,
        edit: impl FnOnce(&mut Inventory) -> Result<(), String>,
    ) -> ControlResult {
        let failed = |reason: String| ControlError::new(task, name, reason);
        {
            let mut kept = self.kept();
            edit(&mut kept.inventory).map_err(failed)?;
            kept.write().map_err(failed)?;
        }
        self.follow(name);
        Ok(())
    }

    fn load(&self) -> ControlResult {
        let machines = self.fixture.machines.iter();
        machines.cloned().try_for_each(|machine| self.add(machine))
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Kept {
    /// Nobody reads half of it.
    fn write(&self) -> Result<(), String> {
        let Some(file) = &self.file else {
            return Ok(());
        };
        let next = file.with_extension("next");
        let written = std::fs::write(&next, self.inventory.text());
        let replaced = written.and_then(|()| std::fs::rename(&next, file));
        replaced.map_err(|error| format!("writing {}: {error}", file.display()))
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Which {
    machine: String,
}

impl Api for Rack {
    fn name(&self) -> &'static str {
        NAME
    }

    fn answer<'a>(&'a self, request: Request<Bytes>, _peer: &'a Peer) -> BoxFuture<'a, Answer> {
        let response = match (request.method(), request.uri().path()) {
            (&Method::GET, PATH) => {
                let text = self.kept().inventory.text();
                of_type(StatusCode::OK, "application/yaml", text)
            }
            _ => json(
                StatusCode::NOT_FOUND,
                &json!({ "detail": format!("there is only GET {PATH}") }),
            ),
        };
        let caller = String::new();
        async move { Answer { response, caller } }.boxed()
    }

    fn control(&self) -> Option<&dyn Control> {
        Some(self)
    }
}

impl Control for Rack {
    fn state(&self) -> Value {
        json!(self.kept().inventory)
    }

    fn carry_out(&self, verb: &str, body: &Value) -> Result<Value, String> {
        let which = || read_body::<Which>(body).map(|it| it.machine);
        let done = match verb {
            "add" => self.add(read_body(body)?),
            "stop" => self.stop(&which()?),
            "start" => self.start(&which()?),
            "destroy" => self.destroy(&which()?),
            other => return Err(format!("{other:?} is not known; allowed are {VERBS}")),
        };
        done.map(|()| json!({})).map_err(|error| error.to_string())
    }

    fn reset(&self) -> ControlResult {
        let all = std::mem::take(&mut self.kept().inventory);
        for machine in all.machines {
            self.world.machines.destroy(&machine.id());
        }
        // A fixture without machines is a file, too.
        self.load()?;
        let written = self.kept().write();
        written.map_err(|reason| ControlError::new("reset", "the rack", reason))
    }
}
