//! The control handle of load balancers over HTTP.

use std::net::IpAddr;

use bowline_simulator::handle::read_body;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::model::{BalancerStatus, Health};
use super::spec::{BalancerSpec, ListenerSpec, MemberSpec, PoolSpec};
use crate::Cloudscale;
use crate::config::Quirks;
use crate::scene::BalancerTimingsSpec;

/// What can be asked, besides the words for machines.
pub(crate) const VERBS: &str = "add-load-balancer, add-pool, add-member, add-listener, edit, \
    remove, freeze, thaw, status, fail, health, timings, quirks, assign";

impl Cloudscale {
    /// Carries out `POST /_sim/<verb>`; none if it is not about load balancers.
    pub(crate) fn carry_out_on_balancers(
        &self,
        verb: &str,
        body: &Value,
    ) -> Option<Result<Value, String>> {
        let added = match verb {
            "add-load-balancer" => {
                read_body(body).map(|spec: BalancerSpec| self.add_balancer(&spec))
            }
            "add-pool" => read_body(body).map(|to: Add<PoolSpec>| self.add_pool(&to.to, &to.add)),
            "add-member" => {
                read_body(body).map(|to: Add<MemberSpec>| self.add_member(&to.to, &to.add))
            }
            "add-listener" => {
                read_body(body).map(|to: Add<ListenerSpec>| self.add_listener(&to.to, &to.add))
            }
            _ => return self.adjust(verb, body).map(|done| done.map(|()| json!({}))),
        };
        let added = added.and_then(|added| added.map_err(|error| error.to_string()));
        Some(added.map(|uuid| json!({ "added": uuid })))
    }

    fn adjust(&self, verb: &str, body: &Value) -> Option<Result<(), String>> {
        let done = match verb {
            "edit" => read_body(body).map(|edit: Edit| self.edit(&edit.id, &edit.attributes)),
            "remove" => read_body(body).map(|which: Which| self.remove(&which.id)),
            "freeze" => read_body(body).map(|which: Which| self.freeze_balancer(&which.id)),
            "thaw" => read_body(body).map(|which: Which| self.thaw_balancer(&which.id)),
            "status" => {
                read_body(body).map(|to: Status| self.set_balancer_status(&to.id, to.status))
            }
            "assign" => read_body(body).map(|assign: Assign| {
                self.assign_floating_ip(assign.address, assign.to.as_deref())
            }),
            "fail" => read_body(body).map(|fail: Fail| {
                self.fail_next_changes(fail.times);
                Ok(())
            }),
            "health" => read_body(body).map(|to: Finding| {
                self.set_health(&to.member, to.health);
                Ok(())
            }),
            "quirks" => read_body(body).map(|quirks: Quirks| {
                self.set_quirks(quirks);
                Ok(())
            }),
            "timings" => read_body(body).map(|timings: BalancerTimingsSpec| {
                let now = self.lock().timings.balancers;
                self.set_balancer_timings(timings.over(now));
                Ok(())
            }),
            _ => return None,
        };
        Some(done.and_then(|done| done.map_err(|error| error.to_string())))
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Add<T> {
    to: String,
    add: T,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Which {
    id: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Edit {
    id: String,
    attributes: Map<String, Value>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Status {
    id: String,
    status: Option<BalancerStatus>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Assign {
    address: IpAddr,
    to: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Fail {
    times: u32,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Finding {
    member: String,
    health: Option<Health>,
}
