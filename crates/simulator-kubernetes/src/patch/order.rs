//! The order of merged lists.

use serde_json::Value;

use super::{
    go_text,
    strategic::{DIRECTIVE, Problem, as_map, key_of, position},
};

/// Removes later duplicates by moving the last element into their place: order comes afterwards.
pub(super) fn deduplicate(mut list: Vec<Value>) -> Vec<Value> {
    let mut index = 0;
    while index < list.len() {
        let mut other = index + 1;
        while other < list.len() {
            if list[index] == list[other] {
                list.swap_remove(other);
            } else {
                other += 1;
            }
        }
        index += 1;
    }
    list
}

/// Orders a merged list: elements named by the patch among themselves as the patch has them, the
/// others as the object had them, and the two merged by the object's order.
pub(super) fn arrange(
    merged: Vec<Value>,
    patch_order: &[Value],
    object_order: &[Value],
    key: Option<&str>,
) -> Result<Vec<Value>, Problem> {
    if let Some(key) = key {
        for item in merged.iter().chain(patch_order).chain(object_order) {
            key_of(item, key)?;
        }
    }
    let (mut patched, mut others): (Vec<Value>, Vec<Value>) = merged
        .into_iter()
        .partition(|item| place(patch_order, item, key).is_some());
    sort_by_order(&mut patched, patch_order, key);
    sort_by_order(&mut others, object_order, key);
    Ok(interleave(others, patched, object_order, key))
}

fn place(order: &[Value], item: &Value, key: Option<&str>) -> Option<usize> {
    match key {
        Some(key) => order
            .iter()
            .position(|other| other.get(key) == item.get(key)),
        None => order.iter().position(|other| other == item),
    }
}

/// Insertion sort on purpose: the comparison calls an element that the order does not know smaller
/// than any other, which is no order at all, and the result depends on the algorithm.
fn sort_by_order(list: &mut [Value], order: &[Value], key: Option<&str>) {
    let less =
        |left: &Value, right: &Value| match (place(order, left, key), place(order, right, key)) {
            (Some(left), Some(right)) => left < right,
            _ => true,
        };
    for start in 1..list.len() {
        let mut index = start;
        while index > 0 && less(&list[index], &list[index - 1]) {
            list.swap(index, index - 1);
            index -= 1;
        }
    }
}

fn interleave(
    others: Vec<Value>,
    patched: Vec<Value>,
    order: &[Value],
    key: Option<&str>,
) -> Vec<Value> {
    let mut result = Vec::with_capacity(others.len() + patched.len());
    let (mut others, mut patched) = (
        others.into_iter().peekable(),
        patched.into_iter().peekable(),
    );
    while let (Some(other), Some(patch)) = (others.peek(), patched.peek()) {
        let first = match (place(order, other, key), place(order, patch, key)) {
            (Some(other), Some(patch)) => other < patch,
            _ => false,
        };
        result.extend(if first { others.next() } else { patched.next() });
    }
    result.extend(others);
    result.extend(patched);
    result
}

/// The patched elements must come in the order that the patch itself prescribes.
pub(super) fn check_order(
    patch: &[Value],
    order: &[Value],
    key: Option<&str>,
) -> Result<(), Problem> {
    if patch.is_empty() || order.is_empty() {
        return Ok(());
    }
    let mut wanted = Vec::new();
    for item in patch {
        let deletes = key.is_some() && as_map(item)?.get(DIRECTIVE) == Some(&"delete".into());
        if !deletes {
            wanted.push(item);
        }
    }
    let (mut wanted, mut slots) = (wanted.into_iter().peekable(), order.iter().peekable());
    while let (Some(item), Some(slot)) = (wanted.peek(), slots.peek()) {
        if item.get(DIRECTIVE).is_some() {
            wanted.next();
            continue;
        }
        let same = match key {
            Some(key) => key_of(item, key)? == key_of(slot, key)?,
            None => item == slot,
        };
        if same {
            wanted.next();
        }
        slots.next();
    }
    if wanted.peek().is_none() {
        return Ok(());
    }
    Err(Problem::Other(format!(
        "The order in patch list:\n{}\n doesn't match $setElementOrder list:\n{}\n",
        go_text(&patch.to_vec().into()),
        go_text(&order.to_vec().into())
    )))
}

/// The object's order as the reference implementation reads it after it has merged in place:
/// deletions have shifted the list to the left, and new elements have taken the room.
pub(super) fn overwritten(
    mut list: Vec<Value>,
    patch: &[Value],
    key: &str,
) -> Result<Vec<Value>, Problem> {
    let mut length = list.len();
    let (special, plain): (Vec<&Value>, Vec<&Value>) =
        patch.iter().partition(|item| item.get(DIRECTIVE).is_some());
    let is = |item: &&Value, directive: &str| item[DIRECTIVE] == directive;
    for item in special.iter().filter(|item| is(item, "delete")) {
        let wanted = key_of(item, key)?;
        while let Some(index) = position(&list[..length], key, wanted)? {
            list[index..length].rotate_left(1);
            length -= 1;
            if length > 0 {
                list[length] = list[length - 1].clone();
            }
        }
    }
    if !special.iter().any(|item| is(item, "replace")) {
        for item in plain {
            if length == list.len() {
                break;
            }
            if position(&list[..length], key, key_of(item, key)?)?.is_none() {
                list[length] = item.clone();
                length += 1;
            }
        }
    }
    Ok(list)
}
