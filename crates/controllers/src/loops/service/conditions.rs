//! The condition on a Service that shows the state of its load balancer.
//!
//! A Service that is fine and has no such condition gets none: taking over a cluster writes
//! nothing. It appears with the first address, or with the first trouble.

use bowline_core::{Condition, PlanProgress, Service, StepId, Verb};
use jiff::Timestamp;

pub(crate) use bowline_core::READY_CONDITION as READY;
use bowline_core::REMOVED_REASON;

/// All is as wanted.
pub(crate) fn ready() -> Condition {
    condition("True", "Ready", String::new())
}

/// All is as wanted, but traffic goes nowhere. `reasons` say why nodes are no targets.
pub(crate) fn no_targets(reasons: &[String]) -> Condition {
    let why = if reasons.is_empty() {
        String::new()
    } else {
        format!(" (nodes left out: {})", reasons.join(", "))
    };
    let message = format!("The load balancer has no targets{why}");
    condition("False", "NoTargets", message)
}

/// There is no load balancer any more.
pub(crate) fn removed() -> Condition {
    condition("False", REMOVED_REASON, "There is no load balancer".into())
}

/// The reason that announces a removal.
const REMOVING: &str = "Removing";

/// The load balancer is about to be removed.
pub(crate) fn removing() -> Condition {
    condition("False", REMOVING, "Deleting load balancer".into())
}

/// Whether a Service shows that the removal of its load balancer was announced.
pub(crate) fn is_removing(service: &Service) -> bool {
    let mut all = service.conditions.iter();
    all.any(|it| it.kind == READY && it.reason == REMOVING)
}

/// Something is being waited for.
pub(crate) fn waiting(message: String) -> Condition {
    condition("False", "Waiting", message)
}

/// Steps are being made.
pub(crate) fn progressing(message: String) -> Condition {
    condition("False", "Progressing", message)
}

/// Something went wrong. `known` says whether the state of the cloud is.
pub(crate) fn failing(
    known: bool,
    reason: &str,
    message: &str,
    next_try: Option<Timestamp>,
) -> Condition {
    let status = if known { "False" } else { "Unknown" };
    let next = next_try.and_then(|it| Timestamp::from_second(it.as_second()).ok());
    let next = next.map_or_else(String::new, |time| format!("; next try at {time}"));
    condition(status, reason, format!("{message}{next}"))
}

fn condition(status: &str, reason: &str, message: String) -> Condition {
    Condition {
        kind: READY.into(),
        status: status.into(),
        reason: reason.into(),
        message,
    }
}

/// The condition, if the Service does not say the same already.
pub(crate) fn if_changed(service: &Service, condition: Condition) -> Option<Condition> {
    (!service.conditions.contains(&condition)).then_some(condition)
}

/// The condition, if the Service has one that says something else.
pub(crate) fn if_there(service: &Service, condition: Condition) -> Option<Condition> {
    let there = service.conditions.iter().any(|it| it.kind == READY);
    if_changed(service, condition).filter(|_| there)
}

/// How far a run is and what it is at: `3 of 9 steps done: creating pool tcp/http`.
pub(crate) fn progress(run: &PlanProgress, step: StepId) -> String {
    let (done, all) = run.progress();
    let step = run.step(step);
    let doing = match step.verb {
        Verb::Create => "creating",
        Verb::Update => "changing",
        Verb::Delete => "removing",
        Verb::Wait => "waiting for",
    };
    format!("{done} of {all} steps done: {doing} {}", step.object)
}

/// How far a run is and what it waits for.
pub(crate) fn pause(run: &PlanProgress, what: &str) -> String {
    let (done, all) = run.progress();
    format!("{done} of {all} steps done: waiting for {what}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kube::objects::ServiceObject;

    #[test]
    fn a_condition_is_written_when_it_says_something_new() {
        let mut service = Service::from(ServiceObject::default());
        assert_eq!(if_there(&service, ready()), None);
        assert_eq!(if_changed(&service, ready()), Some(ready()));
        service.conditions = vec![waiting("a".into())];
        assert_eq!(if_there(&service, ready()), Some(ready()));
        assert_eq!(if_changed(&service, waiting("a".into())), None);
        assert!(if_changed(&service, waiting("b".into())).is_some());
        service.conditions = vec![ready()];
        assert_eq!(if_there(&service, ready()), None);
    }

    #[test]
    fn a_failure_says_when_the_next_try_is() {
        let at = "2026-01-02T03:04:05.9Z".parse().unwrap();
        let failing = failing(false, "SyncLoadBalancerFailed", "in use", Some(at));
        assert_eq!(failing.status, "Unknown");
        assert_eq!(failing.message, "in use; next try at 2026-01-02T03:04:05Z");
    }
}
