//! Builds a plan: steps for people, and beside each the action of the cloud's executor.

use serde_json::{Map, Value};

use crate::{Change, Impact, Plan, ResourceRef, Step, StepId, Verb};

/// A plan and, for each step, the action behind it.
#[derive(Debug)]
pub struct PlanBuilder<A> {
    /// What people see.
    pub plan: Plan,
    /// What is done, one for each step.
    pub actions: Vec<A>,
}

impl<A> Default for PlanBuilder<A> {
    fn default() -> Self {
        Self {
            plan: Plan::default(),
            actions: Vec::new(),
        }
    }
}

/// What is said about a step beside what it does.
#[derive(Clone, Copy, Debug)]
pub struct StepNote<'a> {
    /// What it means for traffic.
    pub impact: Impact,
    /// Why, where the change does not say it by itself.
    pub reason: Option<&'a str>,
    /// The steps that must be done before it.
    pub needs: &'a [StepId],
}

impl<A> PlanBuilder<A> {
    /// Adds a step.
    pub fn push(
        &mut self,
        verb: Verb,
        object: ResourceRef,
        changes: Vec<Change>,
        remark: &StepNote<'_>,
        action: A,
    ) -> StepId {
        self.actions.push(action);
        self.plan.push(Step {
            verb,
            object,
            changes,
            impact: remark.impact,
            reason: remark.reason.map(str::to_owned),
            needs: remark.needs.to_vec(),
        })
    }

    /// Makes something out of `body`, which is also what is shown.
    pub fn create(
        &mut self,
        object: ResourceRef,
        body: &Map<String, Value>,
        remark: &StepNote<'_>,
        action: A,
    ) -> StepId {
        let changes = body.iter().map(|(field, after)| Change {
            field: field.clone(),
            before: Value::Null,
            after: after.clone(),
        });
        self.push(Verb::Create, object, changes.collect(), remark, action)
    }

    /// Changes attributes.
    pub fn change(
        &mut self,
        object: ResourceRef,
        changes: Vec<Change>,
        remark: &StepNote<'_>,
        action: A,
    ) -> StepId {
        self.push(Verb::Update, object, changes, remark, action)
    }

    /// Removes something.
    pub fn delete(&mut self, object: ResourceRef, remark: &StepNote<'_>, action: A) -> StepId {
        self.push(Verb::Delete, object, Vec::new(), remark, action)
    }

    /// Waits.
    pub fn wait(&mut self, object: ResourceRef, remark: &StepNote<'_>, action: A) -> StepId {
        self.push(Verb::Wait, object, Vec::new(), remark, action)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn every_step_has_its_action() {
        let mut builder = PlanBuilder::default();
        let object = |name: &str| ResourceRef {
            kind: "thing",
            name: name.into(),
            id: None,
        };
        let plain = StepNote {
            impact: Impact::None,
            reason: None,
            needs: &[],
        };
        let body = json!({"size": 3});
        let body = body.as_object().unwrap();
        let made = builder.create(object("a"), body, &plain, "make a");
        let after = StepNote {
            impact: Impact::Destroys,
            reason: Some("nobody wants it"),
            needs: &[made],
        };
        builder.delete(object("b"), &after, "end b");
        builder.wait(object("b"), &plain, "look at b");
        assert_eq!(builder.actions, ["make a", "end b", "look at b"]);
        let [first, second, third] = builder.plan.steps.as_slice() else {
            panic!("{:?}", builder.plan);
        };
        assert_eq!(
            (first.verb, &first.changes[0].after),
            (Verb::Create, &json!(3))
        );
        assert_eq!((second.impact, &second.needs), (Impact::Destroys, &vec![0]));
        assert_eq!((third.verb, third.changes.len()), (Verb::Wait, 0));
    }
}
