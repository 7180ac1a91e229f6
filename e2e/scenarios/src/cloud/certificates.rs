//! What the scripted cloud says to requests for certificates.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard};

use bowline_core::{
    ApprovalRules, BoxFuture, Counted, MachineAnswer, MachineIdentity, Node, ServingCertificates,
};

use super::{Script, ScriptedCloud, unavailable};

/// How it approves.
#[derive(Default)]
pub(super) struct Approval {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    is_offered: bool,
    is_default_on: bool,
    speaks_for_all: bool,
    rules: ApprovalRules,
    refusals: BTreeMap<String, &'static str>,
    counted: Vec<Counted>,
    questions: Vec<String>,
}

impl Approval {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    pub(super) fn is_offered(&self) -> bool {
        self.state().is_offered
    }
}

impl ScriptedCloud {
    /// From the next start of a manager on it says to requests for certificates what its scripts
    /// say about machines.
    pub fn offer_certificates(&self, rules: ApprovalRules) {
        let mut state = self.approval.state();
        state.is_offered = true;
        state.rules = rules;
    }

    /// It approves without being asked to on the command line.
    pub fn approve_by_default(&self) {
        self.approval.state().is_default_on = true;
    }

    /// It also speaks for nodes of other clouds.
    pub fn speak_for_all(&self) {
        self.approval.state().speaks_for_all = true;
    }

    /// It positively says that this node may not have what it asks for.
    pub fn refuse_certificates(&self, node: &str, why: &'static str) {
        self.approval.state().refusals.insert(node.to_owned(), why);
    }

    /// What it was told about requests.
    pub fn counted(&self) -> Vec<Counted> {
        self.approval.state().counted.clone()
    }

    /// The nodes it was asked about for certificates.
    pub fn asked_for_certificates(&self) -> Vec<String> {
        self.approval.state().questions.clone()
    }
}

impl ServingCertificates for ScriptedCloud {
    fn rules(&self) -> ApprovalRules {
        self.approval.state().rules
    }

    fn is_default_on(&self) -> bool {
        self.approval.state().is_default_on
    }

    fn speaks_for_all(&self) -> bool {
        self.approval.state().speaks_for_all
    }

    fn machine<'a>(&'a self, name: &'a str, _: Option<&'a Node>) -> BoxFuture<'a, MachineAnswer> {
        Box::pin(async move {
            let name = self.names.plain(name);
            let refusal = {
                let mut state = self.approval.state();
                state.questions.push(name.clone());
                state.refusals.get(&name).copied()
            };
            self.asked.send_modify(|asked| *asked += 1);
            if let Some(why) = refusal {
                return MachineAnswer::Refused(why.to_owned());
            }
            match self.scripted(&name).unwrap_or(Script::None) {
                Script::Machine(instance) => {
                    let addresses = instance.addresses.iter();
                    let addresses = addresses.filter_map(|it| it.address.parse().ok());
                    MachineAnswer::Machines(vec![MachineIdentity {
                        addresses: addresses.collect(),
                        ..MachineIdentity::default()
                    }])
                }
                Script::Hang => std::future::pending().await,
                Script::None | Script::Gone => MachineAnswer::Unknown,
                Script::Error(text) => MachineAnswer::CannotTell(unavailable(text)),
            }
        })
    }

    fn count(&self, counted: Counted) {
        self.approval.state().counted.push(counted);
    }
}
