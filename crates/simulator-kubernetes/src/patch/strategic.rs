//! Strategic merge patch: a merge patch that knows how lists merge, with directives.
//!
//! Lists whose field says so merge by key (or by value, for primitives); others are replaced. The
//! order of a merged list keeps the patch's order among patched elements and the object's order
//! among the rest, and lets the object's order decide between the two wherever it knows both.

use serde_json::{Map, Value};

use super::{
    go_text,
    order::{arrange, check_order, deduplicate, overwritten},
    unprocessable,
};
use crate::{
    kinds::Kind,
    schema::{self, Catalogue, Field, Struct, Type, catalogue},
    status::Refusal,
};

pub(super) const DIRECTIVE: &str = "$patch";
const RETAIN_KEYS: &str = "$retainKeys";
const DELETE_PRIMITIVES: &str = "$deleteFromPrimitiveList";
const ELEMENT_ORDER: &str = "$setElementOrder";

type Object = Map<String, Value>;
type Scope = Option<&'static Struct>;

/// Applies a strategic merge patch to an object of a served kind.
pub fn strategic_patch(kind: &Kind, object: &Value, patch: &Value) -> Result<Value, Refusal> {
    let (Value::Object(object), Value::Object(patch)) = (object, patch) else {
        return Err(Refusal::bad_request("invalid JSON document"));
    };
    let merger = Merger {
        catalogue: catalogue(),
    };
    let scope = merger.catalogue.structure(&schema::type_of(kind));
    merger
        .merge_map(object.clone(), patch.clone(), scope)
        .map(Value::Object)
        .map_err(Refusal::from)
}

/// What is wrong with a patch.
#[derive(Debug, thiserror::Error)]
pub(super) enum Problem {
    #[error("invalid patch format of primitive list")]
    PrimitiveList,
    #[error("invalid patch format of retainKeys")]
    RetainKeys,
    #[error("invalid patch format of setElementOrder list")]
    ElementOrder,
    #[error("lists of lists are not supported")]
    ListOfLists,
    #[error("map: {} does not contain declared merge key: {key}", go_text(.map))]
    NoMergeKey { map: Value, key: String },
    #[error("unknown patch type: {} in map: {}", go_text(.directive), go_text(.map))]
    UnknownDirective { directive: Value, map: Value },
    #[error("expected a {wanted}, but received a {found}")]
    BadType {
        wanted: &'static str,
        found: &'static str,
    },
    #[error("{0}")]
    Other(String),
}

impl From<Problem> for Refusal {
    fn from(problem: Problem) -> Self {
        match problem {
            Problem::PrimitiveList | Problem::RetainKeys | Problem::ElementOrder => {
                Self::bad_request(problem.to_string())
            }
            Problem::ListOfLists => unprocessable(),
            // The real server has no better answer for the rest either.
            other => Self::new(500, "", other.to_string()),
        }
    }
}

fn go_type(value: &Value) -> &'static str {
    match value {
        Value::Null => "%!s(<nil>)",
        Value::Bool(_) => "bool",
        Value::Number(number) if number.is_f64() => "float64",
        Value::Number(_) => "int64",
        Value::String(_) => "string",
        Value::Array(_) => "[]interface {}",
        Value::Object(_) => "map[string]interface {}",
    }
}

pub(super) fn as_map(value: &Value) -> Result<&Object, Problem> {
    value.as_object().ok_or(Problem::BadType {
        wanted: "map[string]interface {}",
        found: go_type(value),
    })
}

fn into_list(value: Value) -> Result<Vec<Value>, Problem> {
    match value {
        Value::Array(items) => Ok(items),
        other => Err(Problem::BadType {
            wanted: "[]interface {}",
            found: go_type(&other),
        }),
    }
}

struct Merger {
    catalogue: &'static Catalogue,
}

impl Merger {
    fn merge_map(
        &self,
        mut original: Object,
        mut patch: Object,
        scope: Scope,
    ) -> Result<Object, Problem> {
        if let Some(directive) = patch.remove(DIRECTIVE) {
            return match directive.as_str() {
                Some("replace") => Ok(patch),
                Some("delete") => Ok(Object::new()),
                _ => {
                    patch.insert(DIRECTIVE.to_owned(), directive.clone());
                    Err(Problem::UnknownDirective {
                        directive,
                        map: patch.into(),
                    })
                }
            };
        }
        retain_keys(&mut original, &mut patch)?;
        self.merge_ordered_lists(&mut original, &mut patch, scope)?;
        for (key, value) in patch {
            self.merge_entry(&mut original, &key, value, scope)?;
        }
        Ok(original)
    }

    fn merge_entry(
        &self,
        original: &mut Object,
        key: &str,
        patch: Value,
        scope: Scope,
    ) -> Result<(), Problem> {
        let (key, deleting) = match key.strip_prefix(DELETE_PRIMITIVES) {
            Some(rest) => (rest.strip_prefix('/').ok_or(Problem::PrimitiveList)?, true),
            None => (key, false),
        };
        if patch.is_null() {
            original.remove(key);
            return Ok(());
        }
        let merged = match (original.remove(key), patch) {
            (Some(Value::Object(before)), Value::Object(patch)) => {
                let field = find(scope, key)?;
                let inner = self.catalogue.structure(&field.kind);
                Some(self.merge_map(before, patch, inner)?.into())
            }
            (Some(Value::Array(before)), Value::Array(patch)) => {
                let field = find(scope, key)?;
                Some(self.merge_field(before, patch, field, deleting)?.into())
            }
            // What is deleted from is not there, or not a list.
            (before, _) if deleting => before,
            (Some(Value::String(_) | Value::Bool(_) | Value::Number(_)), patch)
                if !patch.is_object() && !patch.is_array() =>
            {
                Some(patch)
            }
            (_, mut patch) => {
                discard_nulls(&mut patch);
                without_directives(patch)
            }
        };
        if let Some(merged) = merged {
            original.insert(key.to_owned(), merged);
        }
        Ok(())
    }

    fn merge_field(
        &self,
        original: Vec<Value>,
        patch: Vec<Value>,
        field: &'static Field,
        deleting: bool,
    ) -> Result<Vec<Value>, Problem> {
        let element = match &field.kind {
            Type::List(element) => self.catalogue.structure(element),
            _ => None,
        };
        if field.patch.merge || deleting {
            self.merge_list(original, patch, element, field.patch.key, deleting)
        } else {
            Ok(patch)
        }
    }

    fn merge_list(
        &self,
        original: Vec<Value>,
        patch: Vec<Value>,
        element: Scope,
        key: Option<&str>,
        deleting: bool,
    ) -> Result<Vec<Value>, Problem> {
        if original.is_empty() && patch.is_empty() {
            return Ok(original);
        }
        if !are_maps(&[&original, &patch])? {
            if deleting {
                return Ok(original
                    .into_iter()
                    .filter(|item| !patch.contains(item))
                    .collect());
            }
            let both = original.iter().chain(&patch).cloned().collect();
            return arrange(deduplicate(both), &patch, &original, None);
        }
        let Some(key) = key else {
            return Err(Problem::Other(
                "cannot merge lists without merge key for struct".to_owned(),
            ));
        };
        let (original, patch) = special_elements(original, patch, key)?;
        let merged = self.merge_elements(original.clone(), &patch, key, element)?;
        arrange(merged, &patch, &original, Some(key))
    }

    fn merge_elements(
        &self,
        mut original: Vec<Value>,
        patch: &[Value],
        key: &str,
        element: Scope,
    ) -> Result<Vec<Value>, Problem> {
        for item in patch {
            let wanted = key_of(item, key)?;
            match position(&original, key, wanted)? {
                Some(index) => {
                    let before = as_map(&original[index])?.clone();
                    let patch = as_map(item)?.clone();
                    original[index] = self.merge_map(before, patch, element)?.into();
                }
                None => original.push(item.clone()),
            }
        }
        Ok(original)
    }

    /// Lists that come with `$setElementOrder/x`: merged, then brought into that order.
    fn merge_ordered_lists(
        &self,
        original: &mut Object,
        patch: &mut Object,
        scope: Scope,
    ) -> Result<(), Problem> {
        let marked = patch.keys().filter(|key| key.starts_with(ELEMENT_ORDER));
        let marked: Vec<String> = marked.cloned().collect();
        for marker in marked {
            let order = into_list(patch.remove(&marker).unwrap_or_default())?;
            let (_, name) = marker.split_once('/').ok_or(Problem::ElementOrder)?;
            let before = original.get(name).cloned().map(into_list).transpose()?;
            let wanted = patch.get(name).cloned().map(into_list).transpose()?;
            let field = find(scope, name)?;
            let key = field.patch.key;
            check_order(wanted.as_deref().unwrap_or_default(), &order, key)?;
            let merged = match (before.clone(), wanted.clone()) {
                (None, None) => continue,
                (Some(before), None) => before,
                (None, Some(wanted)) => {
                    let kept = wanted.into_iter().filter_map(without_directives);
                    kept.collect()
                }
                (Some(before), Some(wanted)) => self.merge_field(before, wanted, field, false)?,
            };
            let (before, wanted) = (before.unwrap_or_default(), wanted.unwrap_or_default());
            are_maps(&[&before, &wanted])?;
            let before = match key {
                Some(key) if field.patch.merge => overwritten(before, &wanted, key)?,
                _ => before,
            };
            let arranged = arrange(merged, &order, &before, key)?;
            original.insert(name.to_owned(), arranged.into());
            patch.remove(name);
        }
        Ok(())
    }
}

fn find(scope: Scope, name: &str) -> Result<&'static Field, Problem> {
    let structure = scope.ok_or_else(|| {
        Problem::Other(
            "merging an object in json but data type is not struct, instead is: map".to_owned(),
        )
    })?;
    structure.field(name).ok_or_else(|| {
        Problem::Other(format!(
            "unable to find api field in struct {} for the json field \"{name}\"",
            structure.name
        ))
    })
}

fn retain_keys(original: &mut Object, patch: &mut Object) -> Result<(), Problem> {
    let Some(keys) = patch.remove(RETAIN_KEYS) else {
        return Ok(());
    };
    let Value::Array(keys) = keys else {
        return Err(Problem::RetainKeys);
    };
    let listed = |name: &str| keys.iter().any(|key| key.as_str() == Some(name));
    let directive =
        |name: &str| name.starts_with(DELETE_PRIMITIVES) || name.starts_with(ELEMENT_ORDER);
    if patch
        .iter()
        .any(|(name, value)| !value.is_null() && !directive(name) && !listed(name))
    {
        return Err(Problem::RetainKeys);
    }
    original.retain(|name, _| listed(name));
    Ok(())
}

/// Elements that are directives: deletes happen, a replacement makes the patch the original.
fn special_elements(
    mut original: Vec<Value>,
    patch: Vec<Value>,
    key: &str,
) -> Result<(Vec<Value>, Vec<Value>), Problem> {
    let mut plain = Vec::new();
    let mut replace = false;
    for item in patch {
        let Some(directive) = as_map(&item)?.get(DIRECTIVE) else {
            plain.push(item);
            continue;
        };
        match directive.as_str() {
            Some("delete") => {
                let wanted = key_of(&item, key)?;
                while let Some(index) = position(&original, key, wanted)? {
                    original.remove(index);
                }
            }
            Some("replace") => replace = true,
            Some("merge") => {
                return Err(Problem::Other(
                    "merging lists cannot yet be specified in the patch".to_owned(),
                ));
            }
            _ => {
                return Err(Problem::UnknownDirective {
                    directive: directive.clone(),
                    map: item.clone(),
                });
            }
        }
    }
    Ok(if replace {
        (plain, Vec::new())
    } else {
        (original, plain)
    })
}

pub(super) fn key_of<'a>(item: &'a Value, key: &str) -> Result<&'a Value, Problem> {
    as_map(item)?.get(key).ok_or_else(|| Problem::NoMergeKey {
        map: item.clone(),
        key: key.to_owned(),
    })
}

pub(super) fn position(
    list: &[Value],
    key: &str,
    wanted: &Value,
) -> Result<Option<usize>, Problem> {
    for (index, item) in list.iter().enumerate() {
        let map = item
            .as_object()
            .ok_or_else(|| Problem::Other(format!("value for key {index} is not a map")))?;
        if map.get(key) == Some(wanted) {
            return Ok(Some(index));
        }
    }
    Ok(None)
}

/// Whether the elements are maps; they must all be of one type.
fn are_maps(lists: &[&[Value]]) -> Result<bool, Problem> {
    let mut first = None;
    for item in lists.iter().copied().flatten() {
        if item.is_array() && first.is_none() {
            return Err(Problem::ListOfLists);
        }
        if go_type(item) != *first.get_or_insert(go_type(item)) {
            let texts: Vec<String> = lists.iter().map(|l| go_text(&l.to_vec().into())).collect();
            return Err(Problem::Other(format!(
                "list element types are not identical: [{}]",
                texts.join(" ")
            )));
        }
    }
    first
        .map(|name| name.starts_with("map"))
        .ok_or_else(|| Problem::Other("no elements in any of the given slices".to_owned()))
}

fn discard_nulls(value: &mut Value) {
    match value {
        Value::Object(map) => {
            map.retain(|_, value| !value.is_null());
            map.values_mut().for_each(discard_nulls);
        }
        Value::Array(items) => items.iter_mut().for_each(discard_nulls),
        _ => {}
    }
}

/// A patch that becomes a value: maps that carry a directive vanish whole.
fn without_directives(value: Value) -> Option<Value> {
    match value {
        Value::Object(map) if map.contains_key(DIRECTIVE) => None,
        Value::Object(map) => Some(
            map.into_iter()
                .filter_map(|(key, value)| Some((key, without_directives(value)?)))
                .collect::<Object>()
                .into(),
        ),
        Value::Array(items) => Some(items.into_iter().filter_map(without_directives).collect()),
        other => Some(other),
    }
}
