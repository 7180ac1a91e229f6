//! Operations: every change is answered with one, which ends later, well or badly.

use std::fmt;
use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::Exoscale;
use super::model::{Cloud, Zone};
use super::refusals::{OrRefusal, Refusal};

/// For how long an operation can be read after it ended.
const KEPT: Duration = Duration::from_secs(2 * 3600);

/// What the API calls the state of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Progress {
    Pending,
    Success,
    Failure,
    Timeout,
}

impl Progress {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Success => "success",
            Self::Failure => "failure",
            Self::Timeout => "timeout",
        }
    }
}

/// How an operation ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ending {
    state: Progress,
    reason: String,
    message: String,
    applied: bool,
    takes: Option<Duration>,
    reference: bool,
}

impl Ending {
    /// Well.
    pub fn success() -> Self {
        Self {
            state: Progress::Success,
            reason: String::new(),
            message: String::new(),
            applied: true,
            takes: None,
            reference: true,
        }
    }

    /// Badly, and without effect: `busy`, `conflict`, `fault`, …, and a text.
    pub fn failure(reason: &str, message: &str) -> Self {
        Self {
            state: Progress::Failure,
            reason: reason.to_owned(),
            message: message.to_owned(),
            applied: false,
            ..Self::success()
        }
    }

    /// Because the cloud lost patience, without effect.
    pub fn timeout() -> Self {
        Self {
            state: Progress::Timeout,
            ..Self::failure("unknown", "")
        }
    }

    /// Not at all: it stays pending.
    pub fn never() -> Self {
        Self {
            state: Progress::Pending,
            ..Self::success()
        }
    }
}

bowline_simulator::setters! { Ending:
    /// What it was to do happens all the same.
    applied() |spec| spec.applied = true;
    /// After that time instead of the usual one; zero: in the first answer.
    after(takes: Duration) |spec| spec.takes = Some(takes);
    /// Without telling what it is about.
    without_reference() |spec| spec.reference = false;
}

/// How coming operations of one id end.
#[derive(Clone, Debug)]
pub(super) struct Planned {
    pub(super) operation: String,
    pub(super) ending: Ending,
    /// How many of them; none: all.
    pub(super) times: Option<u64>,
}

type Change = Box<dyn FnOnce(&mut Zone, Timestamp) + Send>;

/// What happens when an operation ends, and what if it does not succeed.
pub(super) struct Effect {
    done: Change,
    undone: Change,
}

impl fmt::Debug for Effect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Effect")
    }
}

/// What a mutation is called, and what it is about.
#[derive(Clone, Copy, Debug)]
pub(super) struct About<'a> {
    pub(super) zone: &'a str,
    /// The id of the operation: `create-load-balancer`.
    pub(super) operation: &'static str,
    /// The kind of thing in paths and commands: `load-balancer`.
    pub(super) kind: &'static str,
    pub(super) id: &'a str,
}

#[derive(Debug)]
pub(super) struct Operation {
    pub(super) id: String,
    number: u64,
    reference: Option<(&'static str, String)>,
    ending: Ending,
    state: Progress,
    ended_at: Option<Timestamp>,
    effect: Option<Effect>,
}

impl Operation {
    /// As the API shows it.
    pub(super) fn show(&self) -> Value {
        let mut shown = json!({ "id": self.id, "state": self.state.as_str() });
        if let Some((kind, id)) = &self.reference {
            shown["reference"] = json!({
                "id": id, "link": format!("/v2/{kind}/{id}"), "command": format!("get-{kind}"),
            });
        }
        if matches!(self.state, Progress::Failure | Progress::Timeout) {
            shown["reason"] = json!(self.ending.reason);
            shown["message"] = json!(self.ending.message);
        }
        shown
    }
}

impl Cloud {
    /// How the next operation of that id ends.
    fn plan(&mut self, operation: &str) -> Ending {
        let meant = |planned: &&mut Planned| {
            bowline_simulator::glob::fits(&planned.operation, operation) && planned.times != Some(0)
        };
        let Some(planned) = self.planned.iter_mut().find(meant) else {
            return Ending::success();
        };
        planned.times = planned.times.map(|times| times - 1);
        planned.ending.clone()
    }
}

impl Exoscale {
    /// Begins an operation, and shows it: `done` happens when it succeeds, `undone` if it does not.
    pub(super) fn begin(
        &self,
        cloud: &mut Cloud,
        about: About<'_>,
        done: impl FnOnce(&mut Zone, Timestamp) + Send + 'static,
        undone: impl FnOnce(&mut Zone, Timestamp) + Send + 'static,
    ) -> OrRefusal<Value> {
        let effect = Effect {
            done: Box::new(done),
            undone: Box::new(undone),
        };
        let ending = cloud.plan(about.operation);
        self.begin_with(cloud, about, Some(effect), ending)
    }

    /// The same with an ending of the caller's choice.
    pub(super) fn begin_with(
        &self,
        cloud: &mut Cloud,
        about: About<'_>,
        effect: Option<Effect>,
        ending: Ending,
    ) -> OrRefusal<Value> {
        let now = self.now();
        let usual = cloud.timings.of(about.operation);
        let takes = ending.takes.unwrap_or(usual);
        cloud.counted += 1;
        let (id, number) = (self.world.random.uuid(), cloud.counted);
        let reference =
            (ending.reference && !about.id.is_empty()).then(|| (about.kind, about.id.to_owned()));
        let endless = ending.state == Progress::Pending;
        let operation = Operation {
            id: id.clone(),
            number,
            reference,
            ending,
            state: Progress::Pending,
            ended_at: None,
            effect,
        };
        let zone = cloud.zone_mut(about.zone)?;
        zone.forget_operations(now);
        zone.operations.insert(&id, operation);
        if !endless {
            let due = now.saturating_add(takes).unwrap_or(now);
            zone.due.insert((due, number), id.clone());
            zone.settle(now);
            if !takes.is_zero() {
                self.wake_after(takes);
            }
        }
        let begun = zone.operations.get(&id).map(Operation::show);
        begun.ok_or_else(Refusal::not_found)
    }

    /// Looks again after that time. Whoever looks in between sees what is true by then all the same;
    /// this is for those who watch the register of machines.
    fn wake_after(&self, takes: Duration) {
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            let cloud = self.me.clone();
            runtime.spawn(async move {
                tokio::time::sleep(takes).await;
                if let Some(cloud) = cloud.upgrade() {
                    cloud.with(|_| ());
                }
            });
        }
    }

    /// Says how the next operations of that id (or of all that fit a pattern with `*`) end; without
    /// `times`, all of them do. What was said first goes first.
    pub fn plan(&self, operation: &str, ending: Ending, times: Option<u64>) {
        self.with(|cloud| {
            cloud.planned.push(Planned {
                operation: operation.to_owned(),
                ending,
                times,
            });
        });
    }

    /// Takes back all that was said about endings.
    pub fn forget_plans(&self) {
        self.with(|cloud| cloud.planned.clear());
    }

    /// Lets all operations that are pending end now: those that never would, and the others too.
    pub fn end_operations(&self) {
        let now = self.now();
        self.with(|cloud| {
            for zone in cloud.zones.values_mut() {
                let pending = zone.operations.all().filter(|it| it.effect.is_some());
                let pending = pending.map(|it| ((now, it.number), it.id.clone()));
                zone.due = pending.collect();
                zone.settle(now);
            }
        });
    }
}

impl Zone {
    /// Ends what is due.
    pub(super) fn settle(&mut self, now: Timestamp) {
        while let Some(entry) = self.due.first_entry() {
            if entry.key().0 > now {
                return;
            }
            let ((at, _), id) = entry.remove_entry();
            self.end(&id, at);
        }
    }

    fn end(&mut self, id: &str, at: Timestamp) {
        let Some(operation) = self.operations.get_mut(id) else {
            return;
        };
        operation.ended_at = Some(at);
        operation.state = match operation.ending.state {
            // One that would never have ended, and was made to.
            Progress::Pending => Progress::Success,
            state => state,
        };
        let applied = operation.ending.applied;
        if let Some(effect) = operation.effect.take() {
            let change = if applied { effect.done } else { effect.undone };
            change(self, at);
        }
    }

    /// Forgets what ended long ago.
    fn forget_operations(&mut self, now: Timestamp) {
        let long_ago = now.saturating_sub(KEPT).unwrap_or(Timestamp::MIN);
        self.operations
            .retain(|operation| operation.ended_at.is_none_or(|at| at > long_ago));
    }
}
