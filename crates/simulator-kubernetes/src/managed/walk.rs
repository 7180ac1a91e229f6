//! The walks over objects that field ownership needs: which fields does a value have, what differs
//! between two values, merge one into the other, take fields out.

use serde_json::{Map, Value};

use super::fields::{Set, Shape, Step};

type Object = Map<String, Value>;

pub(super) fn fields(shape: Shape, value: &Value) -> Set {
    let mut set = Set::default();
    collect(shape, value, &mut Vec::new(), &mut set);
    set
}

fn collect(shape: Shape, value: &Value, path: &mut Vec<Step>, set: &mut Set) {
    match (shape, value) {
        (Shape::Leaf, _) => set.insert(path),
        (Shape::Struct(_) | Shape::Map(_), Value::Object(map)) => {
            for (name, value) in map {
                path.push(Step::field(name));
                collect(shape.member(name).unwrap_or(Shape::Leaf), value, path, set);
                let empty = value.is_null() || value.as_object().is_some_and(Map::is_empty);
                if empty || !matches!(shape, Shape::Struct(_)) {
                    set.insert(path);
                }
                path.pop();
            }
        }
        (Shape::Set | Shape::Keyed(..), Value::Array(items)) => {
            let steps: Vec<Option<Step>> = items.iter().map(|item| shape.step(item)).collect();
            for (item, step) in items.iter().zip(&steps) {
                let Some(step) = step else { continue };
                path.push(step.clone());
                // Of elements with the same key only the element itself can be owned.
                if steps.iter().flatten().filter(|s| *s == step).count() == 1 {
                    collect(shape.element(), item, path, set);
                }
                set.insert(path);
                path.pop();
            }
        }
        _ => {}
    }
}

/// What differs between two values.
#[derive(Debug, Default)]
pub(super) struct Comparison {
    pub(super) removed: Set,
    pub(super) modified: Set,
    pub(super) added: Set,
}

impl Comparison {
    pub(super) fn new(shape: Shape, before: &Value, after: &Value) -> Self {
        let mut comparison = Self::default();
        comparison.compare(shape, Some(before), Some(after), &mut Vec::new());
        comparison
    }

    /// Without these fields and what is below them.
    pub(super) fn without(self, ignored: &Set) -> Self {
        Self {
            removed: self.removed.without_trees(ignored),
            modified: self.modified.without_trees(ignored),
            added: self.added.without_trees(ignored),
        }
    }

    fn compare(
        &mut self,
        shape: Shape,
        before: Option<&Value>,
        after: Option<&Value>,
        path: &mut Vec<Step>,
    ) {
        let empty = |value: Option<&Value>| match value {
            Some(Value::Object(map)) => map.is_empty(),
            Some(Value::Array(items)) => items.is_empty(),
            _ => true,
        };
        if matches!(shape, Shape::Leaf) || (empty(before) && empty(after)) {
            match (before, after) {
                (Some(before), Some(after)) if before != after => self.modified.insert(path),
                _ => {}
            }
        } else if matches!(shape, Shape::Struct(_) | Shape::Map(_)) {
            self.members(shape, before, after, path);
        } else {
            self.elements(shape, before, after, path);
        }
        match (before, after) {
            (None, Some(_)) => self.added.insert(path),
            (Some(_), None) => self.removed.insert(path),
            _ => {}
        }
    }

    fn members(
        &mut self,
        shape: Shape,
        before: Option<&Value>,
        after: Option<&Value>,
        path: &mut Vec<Step>,
    ) {
        let none = Object::new();
        let before = before.and_then(Value::as_object).unwrap_or(&none);
        let after = after.and_then(Value::as_object).unwrap_or(&none);
        for name in names(before, after) {
            path.push(Step::field(name));
            let inner = shape.member(name).unwrap_or(Shape::Leaf);
            self.compare(inner, before.get(name), after.get(name), path);
            path.pop();
        }
    }

    fn elements(
        &mut self,
        shape: Shape,
        before: Option<&Value>,
        after: Option<&Value>,
        path: &mut Vec<Step>,
    ) {
        let before = Indexed::new(shape, before);
        let after = Indexed::new(shape, after);
        let new = after.order.iter().filter(|step| !before.contains(step));
        for step in before.order.iter().chain(new) {
            let (left, right) = (before.all(step), after.all(step));
            path.push(step.clone());
            let inner = shape.element();
            match (left.as_slice(), right.as_slice()) {
                ([_, _, ..], [_, _, ..]) => {
                    if left != right {
                        self.modified.insert(path);
                    }
                }
                ([_, _, ..], right) => {
                    if let Some(right) = right.first() {
                        self.compare(inner, None, Some(right), path);
                    }
                    self.removed.insert(path);
                }
                (left, [_, _, ..]) => {
                    if let Some(left) = left.first() {
                        self.compare(inner, Some(left), None, path);
                    }
                    self.added.insert(path);
                }
                (left, right) => {
                    let (left, right) = (left.first().copied(), right.first().copied());
                    self.compare(inner, left, right, path);
                }
            }
            path.pop();
        }
    }
}

fn names<'a>(left: &'a Object, right: &'a Object) -> Vec<&'a String> {
    let mut names: Vec<&String> = left.keys().chain(right.keys()).collect();
    names.sort();
    names.dedup();
    names
}

/// A granular list with the steps to its elements.
struct Indexed<'a> {
    /// Each step once, in order of first appearance.
    order: Vec<Step>,
    /// Every element with its step.
    items: Vec<(Step, &'a Value)>,
}

impl<'a> Indexed<'a> {
    fn new(shape: Shape, list: Option<&'a Value>) -> Self {
        let items: Vec<(Step, &Value)> = list
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
            .filter_map(|item| Some((shape.step(item)?, item)))
            .collect();
        let mut order: Vec<Step> = Vec::new();
        for (step, _) in &items {
            if !order.contains(step) {
                order.push(step.clone());
            }
        }
        Self { order, items }
    }

    fn contains(&self, step: &Step) -> bool {
        self.order.contains(step)
    }

    fn all(&self, step: &Step) -> Vec<&'a Value> {
        let items = self.items.iter().filter(|(other, _)| other == step);
        items.map(|(_, value)| *value).collect()
    }

    /// The element with that step; duplicates count as null, so that they do not survive a merge.
    fn one(&self, step: &Step) -> Option<&'a Value> {
        match self.all(step).as_slice() {
            [] => None,
            [one] => Some(one),
            _ => Some(&Value::Null),
        }
    }
}

/// Merges `applied` into `live`.
pub(super) fn merge(shape: Shape, live: Option<&Value>, applied: Option<&Value>) -> Option<Value> {
    let filled = |value: Option<&Value>| match value {
        Some(Value::Object(map)) => !map.is_empty(),
        Some(Value::Array(items)) => !items.is_empty(),
        _ => false,
    };
    if matches!(shape, Shape::Leaf) || !(filled(live) || filled(applied)) {
        return applied.or(live).cloned();
    }
    if !matches!(shape, Shape::Struct(_) | Shape::Map(_)) {
        return merge_lists(shape, live, applied);
    }
    let none = Object::new();
    let live = live.and_then(Value::as_object).unwrap_or(&none);
    let applied = applied.and_then(Value::as_object).unwrap_or(&none);
    let merged: Object = names(live, applied)
        .into_iter()
        .filter_map(|name| {
            let inner = shape.member(name).unwrap_or(Shape::Leaf);
            Some((
                name.clone(),
                merge(inner, live.get(name), applied.get(name))?,
            ))
        })
        .collect();
    (!merged.is_empty()).then_some(merged.into())
}

/// Merges lists: shared elements come in the applied order, elements only of the live list keep
/// their place before the shared element that follows them.
fn merge_lists(shape: Shape, live: Option<&Value>, applied: Option<&Value>) -> Option<Value> {
    let live = Indexed::new(shape, live);
    let applied = Indexed::new(shape, applied);
    let mut shared = applied.order.iter().filter(|step| live.contains(step));
    let mut next_shared = shared.next();
    let mut merged: Vec<&Step> = Vec::new();
    let mut result = Vec::new();
    let inner = shape.element();
    let (mut left, mut right) = (0, 0);
    while left < live.items.len() || right < applied.order.len() {
        if let (Some((step, _)), Some(wanted)) = (live.items.get(left), applied.order.get(right)) {
            if step == wanted {
                merged.push(wanted);
                result.extend(merge(inner, live.one(step), applied.one(step)));
                left += 1;
                right += 1;
                next_shared = shared.next();
                continue;
            }
            if applied.contains(step) && next_shared.is_some_and(|next| next != step) {
                // It moves: its turn comes with the applied list.
                left += 1;
                continue;
            }
        }
        if let Some((step, item)) = live.items.get(left) {
            if !applied.contains(step) {
                result.extend(merge(inner, Some(item), None));
                left += 1;
                continue;
            }
            if merged.contains(&step) {
                left += 1;
            }
        }
        if let Some(step) = applied.order.get(right) {
            merged.push(step);
            result.extend(merge(inner, live.one(step), applied.one(step)));
            right += 1;
            if next_shared == Some(step) {
                next_shared = shared.next();
            }
        }
    }
    (!result.is_empty()).then_some(result.into())
}

/// Takes fields out of a value; what becomes empty becomes null.
pub(super) fn remove(shape: Shape, value: &Value, gone: &Set) -> Value {
    match (shape, value) {
        (Shape::Struct(_) | Shape::Map(_), Value::Object(map)) => {
            let mut kept = Object::new();
            for (name, value) in map {
                let step = Step::field(name);
                if gone.has(&step) {
                    continue;
                }
                let inner = shape.member(name).unwrap_or(Shape::Leaf);
                let value = match gone.below(&step) {
                    Some(gone) => remove(inner, value, gone),
                    None => value.clone(),
                };
                kept.insert(name.clone(), value);
            }
            if kept.is_empty() {
                Value::Null
            } else {
                kept.into()
            }
        }
        (Shape::Set | Shape::Keyed(..), Value::Array(items)) => {
            let kept: Vec<Value> = items
                .iter()
                .filter_map(|item| {
                    let step = shape.step(item)?;
                    if gone.has(&step) {
                        return None;
                    }
                    Some(match gone.below(&step) {
                        Some(gone) => remove(shape.element(), item, gone),
                        None => item.clone(),
                    })
                })
                .collect();
            if kept.is_empty() {
                Value::Null
            } else {
                kept.into()
            }
        }
        (_, value) => value.clone(),
    }
}

/// What keeps a value from being applied: undeclared fields, wrong kinds of value, lists that
/// cannot be told apart. One text per problem.
pub(super) fn problems(shape: Shape, value: &Value) -> Vec<String> {
    let mut found = Vec::new();
    inspect(shape, value, &mut Vec::new(), &mut found);
    found
}

fn inspect(shape: Shape, value: &Value, path: &mut Vec<Step>, found: &mut Vec<String>) {
    let at = |path: &[Step]| super::fields::path_text(path);
    match (shape, value) {
        (Shape::Leaf, _) | (_, Value::Null) => {}
        (Shape::Struct(_) | Shape::Map(_), Value::Object(map)) => {
            for (name, value) in map {
                path.push(Step::field(name));
                match shape.member(name) {
                    Some(inner) => inspect(inner, value, path, found),
                    None => found.push(format!("{}: field not declared in schema", at(path))),
                }
                path.pop();
            }
        }
        (Shape::Struct(_) | Shape::Map(_), other) => {
            found.push(format!("{}: expected map, got {other}", at(path)));
        }
        (_, Value::Array(items)) => {
            let mut seen: Vec<Step> = Vec::new();
            for (index, item) in items.iter().enumerate() {
                match shape.step(item) {
                    None => found.push(format!(
                        "{}: element {index}: associative list has an element without a key",
                        at(path)
                    )),
                    Some(step) if seen.contains(&step) => {
                        found.push(format!("{}: duplicate entries for key {step}", at(path)));
                    }
                    Some(step) => {
                        path.push(step.clone());
                        inspect(shape.element(), item, path, found);
                        path.pop();
                        seen.push(step);
                    }
                }
            }
        }
        (_, other) => found.push(format!("{}: expected list, got {other}", at(path))),
    }
}
