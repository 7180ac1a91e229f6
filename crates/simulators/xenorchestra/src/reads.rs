//! Reading: one object, or a list of those that the caller may see; and tags, the one thing that is written
//! in the same way on all of them.

use serde_json::{Value, json};

use super::auth::Caller;
use super::lists::{chosen, written};
use super::model::{Cloud, Kind};
use super::refusals::{OrRefusal, Refusal};
use super::render::show_server;
use super::routes::{Asked, Flow, done, ok};
use super::tasks::Task;

impl Cloud {
    /// Fails if rights are not licensed, and the caller needs some.
    fn licensed(&self, caller: &Caller) -> OrRefusal {
        if self.quirks.unlicensed && !caller.user.admin {
            return Err(Refusal::unlicensed());
        }
        Ok(())
    }

    /// Fails if there is no such object, or the caller may not do that to it.
    pub(super) fn may(&self, asked: &Asked<'_>, kind: Kind, action: &str) -> OrRefusal {
        self.may_on(&asked.caller, kind, action, asked.id())
    }

    pub(super) fn may_on(&self, caller: &Caller, kind: Kind, action: &str, id: &str) -> OrRefusal {
        if !self.shows(kind, id) {
            return Err(Refusal::no_such(kind.word(), id));
        }
        self.licensed(caller)?;
        if caller.user.may(kind.resource(), action, id) {
            Ok(())
        } else {
            Err(Refusal::privileges(kind.resource(), action, id))
        }
    }

    pub(super) fn one(&self, asked: &Asked<'_>, kind: Kind) -> OrRefusal<Flow> {
        self.may(asked, kind, "read")?;
        let shown = self.show(kind, asked.id());
        ok(&shown.ok_or_else(|| Refusal::no_such(kind.word(), asked.id()))?)
    }

    pub(super) fn list(&self, asked: &Asked<'_>, kind: Kind) -> OrRefusal<Flow> {
        self.licensed(&asked.caller)?;
        let ids = self.shown(kind).into_iter();
        let ids = ids.filter(|id| asked.caller.user.may(kind.resource(), "read", id));
        let all = ids.filter_map(|id| self.show(kind, &id)).collect();
        written(asked, all).map(Flow::Now)
    }

    pub(super) fn servers(&self, asked: &Asked<'_>) -> OrRefusal<Flow> {
        let all = self.pools.all();
        if asked.operation == "GetServer" {
            let mut all = all.filter(|pool| pool.server == asked.id());
            let found = all
                .next()
                .ok_or_else(|| Refusal::no_such("xenServer", asked.id()))?;
            self.licensed(&asked.caller)?;
            if !asked.caller.user.may("server", "read", asked.id()) {
                return Err(Refusal::privileges("server", "read", asked.id()));
            }
            return ok(&show_server(found));
        }
        self.licensed(&asked.caller)?;
        let may = |server: &str| asked.caller.user.may("server", "read", server);
        let all = all.filter(|pool| may(&pool.server)).map(show_server);
        written(asked, all.collect()).map(Flow::Now)
    }

    pub(super) fn read_tasks(&self, asked: &Asked<'_>) -> OrRefusal<Flow> {
        let may = |task: &Task| asked.caller.user.may("task", "read", &task.id);
        if asked.operation == "GetTasks" {
            self.licensed(&asked.caller)?;
            let all = self.tasks.all().filter(|task| may(task));
            let all = all.map(|task| Value::Object(task.show()));
            return written(asked, all.collect()).map(Flow::Now);
        }
        let found = self.tasks.get(asked.id());
        let found = found.ok_or_else(|| Refusal::no_such("task", asked.id()))?;
        self.licensed(&asked.caller)?;
        if !may(found) {
            return Err(Refusal::privileges("task", "read", asked.id()));
        }
        if asked.flag("wait")? {
            let task = found.id.clone();
            return Ok(Flow::After { task, shown: true });
        }
        ok(&Value::Object(found.show()))
    }

    pub(super) fn read_users(&self, asked: &Asked<'_>) -> OrRefusal<Flow> {
        let shown = self.users.iter().map(|(name, user)| {
            let permission = if user.admin { "admin" } else { "none" };
            let shown = json!({
                "id": user.id, "name": name, "email": name, "permission": permission,
                "groups": [], "preferences": {}, "authProviders": {},
            });
            (user.id.clone(), shown)
        });
        let me = &asked.caller.user;
        if asked.operation == "GetUsers" {
            self.licensed(&asked.caller)?;
            let all = shown
                .filter(|(id, _)| me.may("user", "read", id))
                .map(|(_, it)| it);
            return written(asked, all.collect()).map(Flow::Now);
        }
        let mut shown = shown;
        let found = shown.find(|(id, _)| id == asked.id());
        let (id, found) = found.ok_or_else(|| Refusal::no_such("user", asked.id()))?;
        if id != me.id && !me.may("user", "read", &id) {
            return Err(Refusal::privileges("user", "read", &id));
        }
        ok(&found)
    }

    pub(super) fn read_tokens(&self, asked: &Asked<'_>) -> OrRefusal<Flow> {
        if !self.users.values().any(|user| user.id == asked.id()) {
            return Err(Refusal::no_such("user", asked.id()));
        }
        if asked.id() != asked.caller.user.id {
            let reason = "can only see own authentication tokens";
            return Err(Refusal::forbidden("get authentication tokens", reason));
        }
        let own = self
            .tokens
            .values()
            .filter(|token| token.user == asked.caller.name);
        let own = own.map(|token| token.show(asked.id())).collect();
        ok(&Value::Array(chosen(asked, own)?))
    }

    pub(super) fn tag(&mut self, asked: &Asked<'_>, kind: Kind) -> OrRefusal<Flow> {
        self.may(asked, kind, "update:tags")?;
        let (id, tag) = (asked.id(), asked.second());
        let tags = match kind {
            Kind::Vm => self.vms.get_mut(id).map(|it| &mut it.tags),
            Kind::Host => self.hosts.get_mut(id).map(|it| &mut it.tags),
            Kind::Pool => self.pools.get_mut(id).map(|it| &mut it.tags),
        };
        if let Some(tags) = tags {
            tags.retain(|known| known != tag);
            if asked.operation.starts_with("Put") {
                tags.push(tag.to_owned());
            }
        }
        self.touch(kind, id);
        done()
    }
}
