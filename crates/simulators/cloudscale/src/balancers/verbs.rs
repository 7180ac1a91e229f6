//! The control handle of load balancers over HTTP.

use std::net::IpAddr;

use bowline_simulator::control::{added, done};
use bowline_simulator::timings::Timed;
use serde_json::{Map, Value};

use super::model::{BalancerStatus, Health};
use super::spec::{BalancerSpec, ListenerSpec, MemberSpec, PoolSpec};
use crate::Cloudscale;
use crate::config::{BalancerTimingsSpec, Quirks};

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
        Some(match verb {
            "add-load-balancer" => added(body, |spec: BalancerSpec| self.add_balancer(&spec)),
            "add-pool" => added(body, |to: AddPool| self.add_pool(&to.to, &to.add)),
            "add-member" => added(body, |to: AddMember| self.add_member(&to.to, &to.add)),
            "add-listener" => added(body, |to: AddListener| self.add_listener(&to.to, &to.add)),
            "edit" => done(body, |to: Edit| self.edit(&to.id, &to.attributes)),
            "remove" => done(body, |to: Which| self.remove(&to.id)),
            "freeze" => done(body, |to: Which| self.freeze_balancer(&to.id)),
            "thaw" => done(body, |to: Which| self.thaw_balancer(&to.id)),
            "status" => done(body, |to: Status| {
                self.set_balancer_status(&to.id, to.status)
            }),
            "assign" => done(body, |to: Assign| {
                self.assign_floating_ip(to.address, to.to.as_deref())
            }),
            "fail" => done(body, |to: Fail| self.fail_next_changes(to.times)),
            "health" => done(body, |to: Finding| self.set_health(&to.member, to.health)),
            "quirks" => done(body, |to: Quirks| self.set_quirks(to)),
            "timings" => done(body, |to: BalancerTimingsSpec| {
                let now = self.lock().timings.load_balancers;
                self.set_balancer_timings(now.or_as(&to));
            }),
            _ => return None,
        })
    }
}

bowline_simulator::bodies! {
    AddPool { to: String, add: PoolSpec }
    AddMember { to: String, add: MemberSpec }
    AddListener { to: String, add: ListenerSpec }
    Which { id: String }
    Edit { id: String, attributes: Map<String, Value> }
    Status { id: String, status: Option<BalancerStatus> }
    Assign { address: IpAddr, to: Option<String> }
    Fail { times: u32 }
    Finding { member: String, health: Option<Health> }
}
