//! Machines: listed, shown, changed and destroyed.

use serde_json::{Value, json};

use super::jobs::Work;
use super::model::{Cloud, Machine, State, stamp};
use super::refusals::{OrRefusal, Refusal, Reply};
use super::routes::Asked;
use super::{Triton, render};

/// The most machines of one page.
const PAGE: usize = 1000;

impl Triton {
    /// Carries out a call about machines, if it is one.
    pub(super) fn machine_call(
        &self,
        cloud: &mut Cloud,
        asked: &Asked<'_>,
    ) -> OrRefusal<Option<Reply>> {
        let reply = match asked.operation {
            "listmachines" => list(cloud, asked)?,
            "createmachine" => self.create_machine(cloud, asked)?,
            "getmachine" => show(cloud, asked)?,
            "updatemachine" => act(cloud, asked)?,
            "deletemachine" => delete(cloud, asked)?,
            "machineaudit" => audit(cloud, asked)?,
            "listnics" => {
                let machine = cloud.loaded(asked)?;
                Reply::list(machine.nics.iter().map(render::nic).collect())
            }
            "getnic" => {
                let wanted = asked.text("mac").replace(':', "");
                let mut nics = cloud.loaded(asked)?.nics.iter();
                let found = nics.find(|nic| nic.mac.replace(':', "") == wanted);
                Reply::ok(render::nic(
                    found.ok_or_else(|| Refusal::not_found("NIC not found"))?,
                ))
            }
            "listmachinesnapshots" | "listmachinedisks" => {
                cloud.loaded(asked)?;
                Reply::list(Vec::new())
            }
            _ => return self.label_call(cloud, asked),
        };
        Ok(Some(reply))
    }
}

impl Cloud {
    /// The machine of a call. With it, its image and its DNS names are loaded, which may fail.
    pub(super) fn loaded(&self, asked: &Asked<'_>) -> OrRefusal<&Machine> {
        let found = self.machines.get(&asked.text("machine"));
        let found = found.filter(|machine| machine.owner == asked.account);
        let machine = found.ok_or_else(|| Refusal::not_found("VM not found"))?;
        if machine.image_lost {
            return Err(Refusal::not_found("Cannot find machine image"));
        }
        let account = self.account(asked)?;
        if account.names_enabled && self.quirks.names_down {
            return Err(Refusal::names_unavailable());
        }
        Ok(machine)
    }

    /// The same, but an error with the machine's remains if it is destroyed.
    fn alive(&self, asked: &Asked<'_>) -> OrRefusal<&Machine> {
        let machine = self.loaded(asked)?;
        if machine.state == State::Deleted {
            let account = self.account(asked)?;
            return Err(Refusal::gone(render::whole_machine(self, machine, account)));
        }
        Ok(machine)
    }

    /// An error if a machine cannot be called that.
    pub(super) fn check_name(&self, name: &str, asked: &Asked<'_>, but: Option<&str>) -> OrRefusal {
        let names = self.account(asked)?.names_enabled;
        let longest = if names { 63 } else { 189 };
        let mut letters = name.bytes();
        let first = letters
            .next()
            .is_some_and(|byte| byte.is_ascii_alphanumeric());
        let good = |byte: u8| byte.is_ascii_alphanumeric() || b"_.-".contains(&byte);
        let message = "Invalid VM parameters: Invalid machine name";
        if !first || !letters.all(good) || name.len() > longest {
            let what = "String does not match regexp: /^[a-zA-Z0-9][a-zA-Z0-9\\_\\.\\-]*$/";
            return Err(Refusal::validation(message, "alias", "Invalid", what));
        }
        let mut others = self.machines.values().filter(|it| {
            it.owner == asked.account && it.state.lives() && Some(it.id.as_str()) != but
        });
        if others.any(|it| it.name == name) {
            let what = format!("Already exists for this owner_uuid: {name}");
            return Err(Refusal::validation(message, "alias", "Duplicate", &what));
        }
        Ok(())
    }
}

fn show(cloud: &Cloud, asked: &Asked<'_>) -> OrRefusal<Reply> {
    let machine = cloud.alive(asked)?;
    Ok(Reply::ok(render::whole_machine(
        cloud,
        machine,
        cloud.account(asked)?,
    )))
}

fn list(cloud: &Cloud, asked: &Asked<'_>) -> OrRefusal<Reply> {
    let owned = cloud
        .machines
        .values()
        .filter(|it| it.owner == asked.account);
    if asked.parameters.text("tags").as_deref() == Some("*") {
        let tagged = owned.filter(|it| !it.tags.is_empty());
        return Ok(Reply::list(
            tagged.map(|it| render::machine(cloud, it)).collect(),
        ));
    }
    let limit = number(asked, "limit")?.unwrap_or(PAGE);
    if !(1..=PAGE).contains(&limit) {
        return Err(Refusal::argument(format!(
            "limit must be between 1 and {PAGE}"
        )));
    }
    let offset = number(asked, "offset")?.unwrap_or(0);
    let filter = Filter::of(asked)?;
    let page = owned.filter(|it| filter.fits(it)).skip(offset).take(limit);
    let page: Vec<Value> = page.map(|it| render::machine(cloud, it)).collect();
    Ok(Reply::list(page).header("x-query-limit", limit.to_string()))
}

fn number(asked: &Asked<'_>, name: &str) -> OrRefusal<Option<usize>> {
    let Some(text) = asked.parameters.text(name) else {
        return Ok(None);
    };
    let number = text.parse().map(Some);
    number.map_err(|_| Refusal::argument(format!("{name} must be a number")))
}

/// Which machines a list is about.
struct Filter {
    states: Option<Vec<State>>,
    texts: Vec<(&'static str, String)>,
    tags: Vec<(String, String)>,
}

impl Filter {
    fn of(asked: &Asked<'_>) -> OrRefusal<Self> {
        let parameters = &asked.parameters;
        let live = || {
            use State::{Offline, Provisioning, Ready, Running, Stopped, Stopping, Unknown};
            vec![
                Provisioning,
                Ready,
                Running,
                Stopping,
                Stopped,
                Offline,
                Unknown,
            ]
        };
        let states = match parameters.text("state").as_deref() {
            None if parameters.get("tombstone").is_some() => None,
            None | Some("provisioning" | "stopping" | "active") => Some(live()),
            Some("running") => Some(vec![State::Running]),
            Some("stopped") => Some(vec![State::Stopped]),
            Some("destroyed") => Some(vec![State::Deleted]),
            Some(other) => {
                let what = format!("{other} is no state");
                return Err(Refusal::validation(
                    "Invalid Parameters",
                    "state",
                    "Invalid",
                    &what,
                ));
            }
        };
        let texts = ["name", "brand", "image", "memory", "docker", "type"];
        let texts = texts
            .into_iter()
            .filter_map(|name| Some((name, parameters.text(name)?)));
        let tags = parameters.0.iter().filter_map(|(key, value)| {
            let key = key.strip_prefix("tag.")?.to_owned();
            Some((key, value.as_str()?.to_owned()))
        });
        Ok(Self {
            states,
            texts: texts.collect(),
            tags: tags.collect(),
        })
    }

    fn fits(&self, machine: &Machine) -> bool {
        let state = self.states.as_ref();
        state.is_none_or(|states| states.contains(&machine.state))
            && self.texts.iter().all(|(name, wanted)| match *name {
                // In practice the beginning of a name is enough.
                "name" => machine.name.starts_with(wanted.as_str()),
                "brand" => machine.brand == *wanted,
                "image" => machine.image == *wanted,
                "memory" => {
                    let memory = machine.memory.to_string();
                    memory == *wanted
                }
                "docker" => machine.docker == (wanted == "true"),
                _ => machine.kind() == wanted,
            })
            && self
                .tags
                .iter()
                .all(|(key, wanted)| match machine.tags.get(key) {
                    Some(Value::String(text)) => bowline_simulator::glob::fits(wanted, text),
                    Some(value) => bowline_simulator::glob::fits(wanted, &value.to_string()),
                    None => false,
                })
    }
}

fn delete(cloud: &mut Cloud, asked: &Asked<'_>) -> OrRefusal<Reply> {
    let machine = cloud.alive(asked)?;
    if machine.protected {
        let message = "deletion_protection must be disabled before deleting machine";
        return Err(Refusal::conflict("CannotDestroyMachineError", message));
    }
    let id = machine.id.clone();
    let delay = cloud.timings.delete;
    let deed = Some(("destroy", asked.caller.clone()));
    cloud.begin(&id, asked.now, delay, deed, Work::Destroy);
    Ok(Reply::no_content())
}

/// The actions of a machine.
fn act(cloud: &mut Cloud, asked: &Asked<'_>) -> OrRefusal<Reply> {
    let id = cloud.alive(asked)?.id.clone();
    let action = asked.text("action");
    let times = cloud.timings.clone();
    let none = std::time::Duration::ZERO;
    let (name, steps) = match action.as_str() {
        "start" => ("start", vec![(times.start, Work::Become(State::Running))]),
        "stop" => {
            let first = (none, Work::Become(State::Stopping));
            (
                "stop",
                vec![first, (times.stop, Work::Become(State::Stopped))],
            )
        }
        "reboot" => {
            let states = [(none, State::Stopping), (times.reboot, State::Ready)];
            let states = states.into_iter().chain([(times.reboot, State::Running)]);
            (
                "reboot",
                states
                    .map(|(after, state)| (after, Work::Become(state)))
                    .collect(),
            )
        }
        "rename" => {
            let name = asked.text("name");
            cloud.check_name(&name, asked, Some(&id))?;
            ("rename", vec![(times.job, Work::Rename(name))])
        }
        "resize" => {
            let package = cloud.find_package(&asked.text("package"));
            let package = package.ok_or_else(|| Refusal::argument("package is invalid"))?;
            (
                "resize",
                vec![(times.job, Work::Resize(package.name.clone()))],
            )
        }
        "enable_firewall" => ("enable_firewall", vec![(times.job, Work::Firewall(true))]),
        "disable_firewall" => ("disable_firewall", vec![(times.job, Work::Firewall(false))]),
        "enable_deletion_protection" => (
            "enable_deletion_protection",
            vec![(times.job, Work::Protect(true))],
        ),
        "disable_deletion_protection" => (
            "disable_deletion_protection",
            vec![(times.job, Work::Protect(false))],
        ),
        "" => return Err(Refusal::missing("action is required")),
        other => return Err(Refusal::argument(format!("{other} is not a valid action"))),
    };
    let last = steps.len() - 1;
    for (number, (delay, work)) in steps.into_iter().enumerate() {
        let deed = (number == last).then(|| (name, asked.caller.clone()));
        cloud.begin(&id, asked.now, delay, deed, work);
    }
    Ok(Reply::empty(http::StatusCode::ACCEPTED))
}

fn audit(cloud: &Cloud, asked: &Asked<'_>) -> OrRefusal<Reply> {
    let machine = cloud.loaded(asked)?;
    let deeds = machine
        .deeds
        .iter()
        .enumerate()
        .rev()
        .filter_map(|(number, deed)| {
            let given_up = cloud.has_given_up(&machine.id, number, asked.now);
            let success = if given_up { Some(false) } else { deed.success };
            Some(json!({
                "action": deed.action,
                "parameters": {},
                "time": stamp(deed.time),
                "success": if success? { "yes" } else { "no" },
                "caller": deed.caller,
            }))
        });
    Ok(Reply::ok(Value::Array(deeds.collect())))
}
