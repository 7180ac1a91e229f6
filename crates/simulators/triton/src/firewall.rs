//! Firewall rules: kept as the server writes them, and evaluated on demand.

mod parse;

use std::net::IpAddr;

use serde_json::{Value, json};

use super::Triton;
use super::model::{Cloud, Machine};
use super::refusals::{OrRefusal, Refusal, Reply};
use super::render;
use super::routes::Asked;
pub(super) use parse::{Parsed, Protocol, Target};

#[derive(Clone, Debug)]
pub(super) struct Rule {
    pub(super) id: String,
    /// The account that it belongs to; none: it holds for everybody.
    pub(super) owner: Option<String>,
    pub(super) parsed: Parsed,
    pub(super) enabled: bool,
    pub(super) log: bool,
    pub(super) description: Option<String>,
}

impl Rule {
    fn show(&self) -> Value {
        let mut shown = json!({
            "id": self.id, "rule": self.parsed.to_string(), "enabled": self.enabled,
            "log": self.log,
        });
        if let Some(text) = &self.description {
            shown["description"] = text.as_str().into();
        }
        if self.owner.is_none() {
            shown["global"] = true.into();
        }
        shown
    }

    fn is_seen_by(&self, account: &str) -> bool {
        self.owner.as_deref().is_none_or(|owner| owner == account)
    }

    /// Whether it is about a machine, on either side.
    fn concerns(&self, machine: &Machine) -> bool {
        let sides = self.parsed.from.iter().chain(&self.parsed.to);
        self.is_seen_by(&machine.owner) && sides.into_iter().any(|target| target.is(machine))
    }
}

impl Target {
    /// Whether it names a machine of its own account.
    fn is(&self, machine: &Machine) -> bool {
        match self {
            Self::AllVms => true,
            Self::Vm(id) => *id == machine.id,
            Self::Tag(key, value) => match (machine.tags.get(key), value) {
                (None, _) => false,
                (Some(_), None) => true,
                (Some(Value::String(seen)), Some(wanted)) => seen == wanted,
                (Some(seen), Some(wanted)) => {
                    let seen = seen.to_string();
                    seen == *wanted
                }
            },
            Self::Any | Self::Ip(_) | Self::Subnet(_) => false,
        }
    }

    /// Whether it names an address, or the machine that has it.
    fn covers(&self, address: IpAddr, machine: Option<&Machine>) -> bool {
        match self {
            Self::Any => true,
            Self::Ip(ip) => *ip == address,
            Self::Subnet(net) => net.contains(&address),
            _ => machine.is_some_and(|machine| self.is(machine)),
        }
    }
}

impl Triton {
    /// Carries out a call about firewall rules, if it is one.
    pub(super) fn firewall_call(
        &self,
        cloud: &mut Cloud,
        asked: &Asked<'_>,
    ) -> OrRefusal<Option<Reply>> {
        let reply = match asked.operation {
            "listfirewallrules" => {
                let rules = cloud
                    .rules
                    .values()
                    .filter(|it| it.is_seen_by(&asked.account));
                Reply::list(rules.map(Rule::show).collect())
            }
            "listmachinefirewallrules" => {
                let machine = cloud.loaded(asked)?;
                let rules = cloud.rules.values().filter(|it| it.concerns(machine));
                Reply::list(rules.map(Rule::show).collect())
            }
            "createfirewallrule" => {
                let rule = Rule {
                    id: self.world.random.uuid(),
                    owner: Some(asked.account.clone()),
                    parsed: given(cloud, asked)?
                        .ok_or_else(|| Refusal::missing("rule is required"))?,
                    enabled: asked.parameters.flag("enabled").unwrap_or(false),
                    log: asked.parameters.flag("log").unwrap_or(false),
                    description: asked.parameters.text("description"),
                };
                let reply =
                    Reply::created(rule.show(), asked.place(&format!("fwrules/{}", rule.id)));
                cloud.rules.insert(rule.id.clone(), rule);
                reply
            }
            "getfirewallrule" => Reply::ok(cloud.rule(asked)?.show()),
            "listfirewallrulemachines" => {
                let rule = cloud.rule(asked)?;
                let all = cloud
                    .machines
                    .values()
                    .filter(|it| it.owner == asked.account);
                let all = all.filter(|it| it.state.lives() && rule.concerns(it));
                Reply::list(all.map(|it| render::machine(cloud, it)).collect())
            }
            "updatefirewallrule" | "enablefirewallrule" | "disablefirewallrule" => {
                let id = cloud.own_rule(asked)?;
                let parsed = given(cloud, asked)?;
                let enabled = match asked.operation {
                    "enablefirewallrule" => Some(true),
                    "disablefirewallrule" => Some(false),
                    _ => asked.parameters.flag("enabled"),
                };
                let rule = cloud.rules.get_mut(&id).ok_or_else(no_rule)?;
                rule.parsed = parsed.unwrap_or_else(|| rule.parsed.clone());
                rule.enabled = enabled.unwrap_or(rule.enabled);
                rule.log = asked.parameters.flag("log").unwrap_or(rule.log);
                let text = asked.parameters.text("description");
                rule.description = text.or_else(|| rule.description.clone());
                Reply::ok(rule.show())
            }
            "deletefirewallrule" => {
                let id = cloud.own_rule(asked)?;
                cloud.rules.remove(&id);
                Reply::no_content()
            }
            _ => return Ok(None),
        };
        Ok(Some(reply))
    }
}

fn no_rule() -> Refusal {
    Refusal::not_found("fwrule not found")
}

/// The rule that a call carries, if it does.
fn given(cloud: &Cloud, asked: &Asked<'_>) -> OrRefusal<Option<Parsed>> {
    let Some(text) = asked.parameters.text("rule") else {
        return Ok(None);
    };
    let most_ports = if cloud.quirks.eight_ports { 8 } else { 24 };
    let parsed = Parsed::parse(&text, most_ports);
    let parsed =
        parsed.map_err(|problem| Refusal::parameters("Invalid parameters", "rule", &problem));
    parsed.map(Some)
}

impl Cloud {
    fn rule(&self, asked: &Asked<'_>) -> OrRefusal<&Rule> {
        let rule = self.rules.get(&asked.text("id")).ok_or_else(no_rule)?;
        if rule.is_seen_by(&asked.account) {
            Ok(rule)
        } else {
            Err(Refusal::forbidden("Forbidden"))
        }
    }

    fn own_rule(&self, asked: &Asked<'_>) -> OrRefusal<String> {
        let rule = self.rule(asked)?;
        if rule.owner.is_none() {
            return Err(Refusal::forbidden("global rules cannot be changed"));
        }
        Ok(rule.id.clone())
    }

    /// Whether a packet from an address would reach a port of a machine. Inwards, what nothing allows is
    /// blocked and one permission is enough; outwards it is the other way round.
    pub(super) fn would_reach(
        &self,
        from: IpAddr,
        machine: &Machine,
        protocol: Protocol,
        port: u16,
    ) -> bool {
        let text = from.to_string();
        let mut live = self.machines.values().filter(|it| it.state.lives());
        let source = live.find(|it| it.nics.iter().any(|nic| nic.ip == text));
        let own = machine
            .nics
            .iter()
            .filter_map(|nic| nic.ip.parse().ok())
            .collect::<Vec<IpAddr>>();
        let fits = |rule: &&Rule| {
            let parsed = &rule.parsed;
            let from = parsed.from.iter().any(|it| it.covers(from, source));
            let to = parsed
                .to
                .iter()
                .any(|target| target.is(machine) || own.iter().any(|it| target.covers(*it, None)));
            rule.enabled && from && to && parsed.protocol == protocol && parsed.ports.contain(port)
        };
        let of = |account: &str| {
            let rules = self.rules.values().filter(|rule| rule.is_seen_by(account));
            rules
                .filter(fits)
                .map(|rule| rule.parsed.allow)
                .collect::<Vec<_>>()
        };
        let inward = !machine.firewall || of(&machine.owner).contains(&true);
        let outward = source.is_none_or(|it| !it.firewall || !of(&it.owner).contains(&false));
        inward && outward
    }
}
