//! Users, roles and policies below an account, and what they allow.
//!
//! A rule is `CAN <action>, <action> and <action>`; its conditions, if it has any, are not evaluated.

use serde_json::{Value, json};

use super::jobs::{Event, later};
use super::model::{Cloud, Policy, Rights, Role, User, stamp};
use super::refusals::{OrRefusal, Refusal, Reply};
use super::routes::Asked;

impl Rights {
    /// The roles that are active for a user: those asked for, else those that are so by default.
    pub(super) fn active(&self, user: &str, asked: Option<String>) -> OrRefusal<Vec<String>> {
        let named = |list: &[String]| list.iter().any(|member| member == user);
        let Some(asked) = asked else {
            let default = self
                .roles
                .values()
                .filter(|role| named(&role.default_members));
            return Ok(default.map(|role| role.name.clone()).collect());
        };
        if asked == "*" {
            let own = self.roles.values().filter(|role| named(&role.members));
            return Ok(own.map(|role| role.name.clone()).collect());
        }
        let mut active = Vec::new();
        for wanted in asked.split(',').map(str::trim) {
            let role = self.roles.values().find(|role| role.name == wanted);
            match role {
                Some(role) if named(&role.members) || named(&role.default_members) => {
                    active.push(role.name.clone());
                }
                _ => {
                    return Err(Refusal::conflict(
                        "InvalidRole",
                        "Invalid or unassumable role",
                    ));
                }
            }
        }
        Ok(active)
    }

    /// Whether a role's policies allow an action.
    fn allows(&self, role: &str, action: &str) -> bool {
        let Some(role) = self.roles.get(role) else {
            return false;
        };
        let policies = role
            .policies
            .iter()
            .filter_map(|name| self.policies.get(name));
        policies
            .flat_map(|policy| &policy.rules)
            .any(|rule| permits(rule, action))
    }
}

/// Whether a rule allows an action.
fn permits(rule: &str, action: &str) -> bool {
    let rule = rule.to_lowercase();
    let Some((_, rest)) = rule.split_once("can ") else {
        return false;
    };
    let end = [" if ", " when ", " to "]
        .iter()
        .filter_map(|word| rest.find(word))
        .min();
    let actions = rest[..end.unwrap_or(rest.len())].replace(" and ", ",");
    actions
        .split(',')
        .any(|allowed| bowline_simulator::glob::fits(allowed.trim(), action))
}

/// The name of a call in policies: the actions of a machine have one each.
fn action(asked: &Asked<'_>) -> String {
    if asked.operation != "updatemachine" {
        return asked.operation.to_owned();
    }
    match asked.text("action").as_str() {
        "enable_firewall" => "enablemachinefirewall".to_owned(),
        "disable_firewall" => "disablemachinefirewall".to_owned(),
        other => format!("{other}machine"),
    }
}

impl Cloud {
    /// An error if whoever asks is a sub-user without the right to.
    pub(super) fn check_rights(&self, asked: &Asked<'_>) -> OrRefusal {
        if asked.user.is_none() {
            return Ok(());
        }
        let rights = &self.account(asked)?.effective;
        let action = action(asked);
        let path = asked.request.uri().path().trim_matches('/');
        let resource: Vec<&str> = path.split('/').skip(1).take(2).collect();
        let machine = match resource.as_slice() {
            ["machines", id] => self.machines.get(*id),
            _ => None,
        };
        let tags = match machine {
            Some(machine) => Some(&machine.role_tags),
            None => rights.tags.get(&resource.join("/")),
        };
        let everywhere = rights.tags.get("*");
        let tagged = |role: &String| {
            let lists = [tags, everywhere].into_iter().flatten();
            lists.flatten().any(|tag| tag == role)
        };
        let mut allowed = asked
            .roles
            .iter()
            .filter(|role| rights.allows(role, &action));
        if allowed.any(tagged) {
            return Ok(());
        }
        let user = asked.user.as_deref().unwrap_or_default();
        let message =
            format!("None of your active roles are able to perform {action} on /{path} ({user})");
        Err(Refusal::denied(message))
    }

    /// Puts the rights of an account into effect, late if they are to be.
    pub(super) fn rights_changed(&mut self, asked: &Asked<'_>) {
        let Some(account) = self.accounts.get(&asked.account) else {
            return;
        };
        let event = Event::Rights {
            account: account.login.clone(),
            rights: Box::new(account.rights.clone()),
        };
        self.schedule(later(asked.now, self.timings.rights), event);
        self.settle(asked.now);
    }

    /// Carries out a call about users, roles or policies, if it is one.
    pub(super) fn rights_call(
        &mut self,
        asked: &Asked<'_>,
        id: impl Fn() -> String,
    ) -> OrRefusal<Option<Reply>> {
        let operation = asked.operation;
        if operation == "setroletags" {
            return self.set_role_tags(asked).map(Some);
        }
        let rights = &mut self.account_mut(asked)?.rights;
        let reply = if operation.ends_with("user") || operation == "listusers" {
            user_call(rights, asked, &id)?
        } else if operation.ends_with("role") || operation == "listroles" {
            role_call(rights, asked, &id)?
        } else if operation.ends_with("policy") || operation == "listpolicies" {
            policy_call(rights, asked, &id)?
        } else {
            return Ok(None);
        };
        self.rights_changed(asked);
        Ok(Some(reply))
    }

    fn set_role_tags(&mut self, asked: &Asked<'_>) -> OrRefusal<Reply> {
        let given = asked.parameters.get("role-tag").and_then(Value::as_array);
        let given = given.ok_or_else(|| Refusal::argument("role-tag must be an array"))?;
        let roles: Vec<String> = given
            .iter()
            .filter_map(|role| role.as_str().map(str::to_owned))
            .collect();
        let rights = &self.account(asked)?.rights;
        if let Some(unknown) = roles.iter().find(|role| !rights.roles.contains_key(*role)) {
            return Err(Refusal::argument(format!("Role(s) {unknown} not found")));
        }
        let path = asked.request.uri().path().trim_matches('/').to_owned();
        let resource: Vec<&str> = path.split('/').skip(1).collect();
        if let ["machines", id] = resource.as_slice() {
            let machine = self
                .machines
                .get_mut(*id)
                .filter(|it| it.owner == asked.account);
            let machine = machine.ok_or_else(|| Refusal::not_found("VM not found"))?;
            machine.role_tags.clone_from(&roles);
        } else {
            let tags = &mut self.account_mut(asked)?.rights.tags;
            tags.insert(resource.join("/"), roles.clone());
            self.rights_changed(asked);
        }
        Ok(Reply::ok(
            json!({ "name": format!("/{path}"), "role-tag": roles }),
        ))
    }
}

/// The names in a list, given as words or as objects with a login or name.
fn names(asked: &Asked<'_>, parameter: &str) -> Option<Vec<String>> {
    let all = match asked.parameters.get(parameter)? {
        Value::Array(all) => all.clone(),
        Value::String(one) => one.split(',').map(Into::into).collect(),
        _ => return None,
    };
    let name = |one: &Value| {
        let inner = one.get("login").or_else(|| one.get("name")).unwrap_or(one);
        inner.as_str().map(str::to_owned)
    };
    Some(all.iter().filter_map(name).collect())
}

fn missing(name: &str) -> Refusal {
    Refusal::not_found(format!("{name} does not exist"))
}

fn show_user(user: &User) -> Value {
    json!({
        "id": user.id, "login": user.login, "email": user.email,
        "created": stamp(user.created), "updated": stamp(user.created),
    })
}

fn user_call(rights: &mut Rights, asked: &Asked<'_>, id: &impl Fn() -> String) -> OrRefusal<Reply> {
    let wanted = asked.text("user");
    let known = rights
        .users
        .values()
        .find(|it| it.login == wanted || it.id == wanted);
    let known = known
        .map(|it| it.login.clone())
        .ok_or_else(|| missing(&wanted));
    Ok(match asked.operation {
        "listusers" => Reply::list(rights.users.values().map(show_user).collect()),
        "createuser" => {
            let login = asked.parameters.text("login");
            let login = login.ok_or_else(|| Refusal::missing("login is required"))?;
            let email = asked.parameters.text("email");
            let user = User {
                id: id(),
                email: email.ok_or_else(|| Refusal::missing("email is required"))?,
                keys: Vec::new(),
                created: asked.now,
                login,
            };
            let reply =
                Reply::created(show_user(&user), asked.place(&format!("users/{}", user.id)));
            rights.users.insert(user.login.clone(), user);
            reply
        }
        "deleteuser" => {
            rights.users.remove(&known?);
            Reply::no_content()
        }
        _ => {
            let known = known?;
            let user = rights
                .users
                .get_mut(&known)
                .ok_or_else(|| missing(&wanted))?;
            if let Some(email) = asked.parameters.text("email") {
                user.email = email;
            }
            Reply::ok(show_user(user))
        }
    })
}

fn show_role(role: &Role) -> Value {
    let members = |list: &[String], default: bool| -> Vec<Value> {
        let one = |login| json!({ "type": "subuser", "login": login, "default": default });
        list.iter().map(one).collect()
    };
    let policies: Vec<Value> = role
        .policies
        .iter()
        .map(|name| json!({ "name": name }))
        .collect();
    let mut all = members(&role.members, false);
    all.retain(|member| {
        role.default_members
            .iter()
            .all(|login| member["login"] != login.as_str())
    });
    all.extend(members(&role.default_members, true));
    json!({
        "id": role.id, "name": role.name, "members": all, "policies": policies,
        "default_members": role.default_members,
    })
}

fn role_call(rights: &mut Rights, asked: &Asked<'_>, id: &impl Fn() -> String) -> OrRefusal<Reply> {
    let wanted = asked.text("role");
    let known = rights
        .roles
        .values()
        .find(|it| it.name == wanted || it.id == wanted);
    let known = known.cloned().ok_or_else(|| missing(&wanted));
    let mut role = match asked.operation {
        "listroles" => return Ok(Reply::list(rights.roles.values().map(show_role).collect())),
        "getrole" => return Ok(Reply::ok(show_role(&known?))),
        "deleterole" => {
            rights.roles.remove(&known?.name);
            return Ok(Reply::no_content());
        }
        "createrole" => Role {
            id: id(),
            ..Role::default()
        },
        _ => known?,
    };
    rights.roles.remove(&role.name);
    let name = asked
        .parameters
        .text("name")
        .filter(|name| !name.is_empty());
    role.name = name.unwrap_or(role.name);
    if role.name.is_empty() {
        return Err(Refusal::missing("name is required"));
    }
    role.members = names(asked, "members").unwrap_or(role.members);
    role.default_members = names(asked, "default_members").unwrap_or(role.default_members);
    role.policies = names(asked, "policies").unwrap_or(role.policies);
    let shown = show_role(&role);
    let place = asked.place(&format!("roles/{}", role.id));
    rights.roles.insert(role.name.clone(), role);
    Ok(if asked.operation == "createrole" {
        Reply::created(shown, place)
    } else {
        Reply::ok(shown)
    })
}

fn show_policy(policy: &Policy) -> Value {
    json!({
        "id": policy.id, "name": policy.name, "rules": policy.rules,
        "description": policy.description,
    })
}

fn policy_call(
    rights: &mut Rights,
    asked: &Asked<'_>,
    id: &impl Fn() -> String,
) -> OrRefusal<Reply> {
    let wanted = asked.text("policy");
    let known = rights
        .policies
        .values()
        .find(|it| it.name == wanted || it.id == wanted);
    let known = known.cloned().ok_or_else(|| missing(&wanted));
    let mut policy = match asked.operation {
        "listpolicies" => {
            return Ok(Reply::list(
                rights.policies.values().map(show_policy).collect(),
            ));
        }
        "getpolicy" => return Ok(Reply::ok(show_policy(&known?))),
        "deletepolicy" => {
            rights.policies.remove(&known?.name);
            return Ok(Reply::no_content());
        }
        "createpolicy" => Policy {
            id: id(),
            ..Policy::default()
        },
        _ => known?,
    };
    rights.policies.remove(&policy.name);
    let name = asked
        .parameters
        .text("name")
        .filter(|name| !name.is_empty());
    policy.name = name.unwrap_or(policy.name);
    if policy.name.is_empty() {
        return Err(Refusal::missing("name is required"));
    }
    if let Some(rules) = asked.parameters.get("rules") {
        policy.rules = match rules {
            Value::Array(all) => all
                .iter()
                .filter_map(|rule| rule.as_str().map(str::to_owned))
                .collect(),
            Value::String(one) => vec![one.clone()],
            _ => return Err(Refusal::argument("rules must be an array")),
        };
    }
    let text = asked.parameters.text("description");
    policy.description = text.or(policy.description);
    let shown = show_policy(&policy);
    let place = asked.place(&format!("policies/{}", policy.id));
    rights.policies.insert(policy.name.clone(), policy);
    Ok(if asked.operation == "createpolicy" {
        Reply::created(shown, place)
    } else {
        Reply::ok(shown)
    })
}

#[cfg(test)]
mod tests {
    use super::permits;

    #[test]
    fn a_rule_allows_what_it_lists() {
        let rule = "CAN listmachines, getmachine and addmachinetags IF weather = 'fine'";
        assert!(permits(rule, "listmachines"));
        assert!(permits(rule, "getmachine"));
        assert!(permits(rule, "addmachinetags"));
        assert!(!permits(rule, "deletemachine"));
        assert!(permits("CAN *", "deletemachine"));
        assert!(!permits("listmachines", "listmachines"));
    }
}
