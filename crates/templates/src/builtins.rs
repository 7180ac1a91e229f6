//! The language's own functions. `and` and `or` are here by name alone: they do not evaluate all of
//! their arguments, which only the interpreter can do.

use std::cmp::Ordering;

use crate::buffer::Buffer;
use crate::functions::{Function, Kind};
use crate::{Value, escape, format};

const ANY: Kind = Kind::Anything;
const NONE: &[Kind] = &[];
const ONE: &[Kind] = &[ANY];
const TWO: &[Kind] = &[ANY, ANY];

type Answer = Result<Value, String>;

/// Their names and what they take.
pub(crate) const FUNCTIONS: &[(&str, Function)] = &[
    ("and", Function::with_rest(ONE, ANY, last)),
    ("or", Function::with_rest(ONE, ANY, last)),
    (
        "not",
        Function::new(ONE, |args| Ok(Value::Bool(!args[0].is_true()))),
    ),
    (
        "eq",
        Function::with_rest(ONE, ANY, |args| equal(args).map(Value::Bool)),
    ),
    (
        "ne",
        Function::new(TWO, |args| Ok(Value::Bool(!equal(args)?))),
    ),
    (
        "lt",
        Function::new(TWO, |args| Ok(Value::Bool(order(args)?.is_lt()))),
    ),
    (
        "le",
        Function::new(TWO, |args| Ok(Value::Bool(order(args)?.is_le()))),
    ),
    (
        "gt",
        Function::new(TWO, |args| Ok(Value::Bool(order(args)?.is_gt()))),
    ),
    (
        "ge",
        Function::new(TWO, |args| Ok(Value::Bool(order(args)?.is_ge()))),
    ),
    ("len", Function::new(ONE, length)),
    ("index", Function::with_rest(ONE, ANY, index)),
    ("slice", Function::with_rest(ONE, ANY, slice)),
    (
        "print",
        Function::with_rest(NONE, ANY, |args| print(args).map(text)),
    ),
    ("println", Function::with_rest(NONE, ANY, print_line)),
    (
        "printf",
        Function::with_rest(&[Kind::Text], ANY, |args| match args {
            [Value::Text(layout), values @ ..] => format::printf(layout, values).map(text),
            _ => Err("expected a format".to_owned()),
        }),
    ),
    (
        "html",
        Function::with_rest(NONE, ANY, |args| Ok(text(escape::html(&joined(args)?)))),
    ),
    (
        "js",
        Function::with_rest(NONE, ANY, |args| Ok(text(escape::js(&joined(args)?)))),
    ),
    (
        "urlquery",
        Function::with_rest(NONE, ANY, |args| Ok(text(escape::query(&joined(args)?)))),
    ),
    ("call", Function::with_rest(ONE, ANY, call)),
];

fn text(text: String) -> Value {
    Value::Text(text.into())
}

#[expect(clippy::unnecessary_wraps, reason = "the form that all functions have")]
fn last(args: &[Value]) -> Answer {
    Ok(args.last().cloned().unwrap_or(Value::Nothing))
}

/// No value of ours is a function.
fn call(args: &[Value]) -> Answer {
    match &args[0] {
        Value::Nothing => Err("call of nil".to_owned()),
        other => Err(format!("non-function of type {}", other.type_name())),
    }
}

/// Whether the first equals any of the others. Different kinds do not compare, but for a byte with a
/// number, and for nothing, which equals only itself.
fn equal(args: &[Value]) -> Result<bool, String> {
    let (first, others) = args
        .split_first()
        .ok_or("missing argument for comparison")?;
    if others.is_empty() {
        return Err("missing argument for comparison".to_owned());
    }
    for other in others {
        let same = match (first, other) {
            (Value::Nothing, Value::Nothing) => true,
            // A map without entries is nil itself.
            (Value::Map(map), Value::Nothing) | (Value::Nothing, Value::Map(map)) => map.is_empty(),
            (Value::Nothing, _) | (_, Value::Nothing) => false,
            (Value::Map(a), Value::Map(b)) if a.is_empty() || b.is_empty() => {
                a.is_empty() && b.is_empty()
            }
            (Value::Map(_), Value::Map(_)) => {
                return Err("non-comparable type map[string]string".to_owned());
            }
            (Value::Record(_), Value::Record(_)) => {
                return Err(format!("non-comparable type {}", first.type_name()));
            }
            _ => basic(first, other)? == Some(Ordering::Equal),
        };
        if same {
            return Ok(true);
        }
    }
    Ok(false)
}

/// How two values of one basic kind are ordered; not at all if one is not a number.
fn basic(a: &Value, b: &Value) -> Result<Option<Ordering>, String> {
    let whole = |value: &Value| match value {
        Value::Int(value) => Some(*value),
        Value::Byte(value) => Some(i64::from(*value)),
        _ => None,
    };
    match (a, b) {
        (Value::Text(a), Value::Text(b)) => Ok(Some(a.cmp(b))),
        (Value::Bool(a), Value::Bool(b)) => Ok(Some(a.cmp(b))),
        (Value::Float(a), Value::Float(b)) => Ok(a.partial_cmp(b)),
        _ => match (whole(a), whole(b)) {
            (Some(a), Some(b)) => Ok(Some(a.cmp(&b))),
            _ => Err("incompatible types for comparison".to_owned()),
        },
    }
}

fn order(args: &[Value]) -> Result<Ordering, String> {
    let ordered = |value: &Value| {
        matches!(
            value,
            Value::Int(_) | Value::Byte(_) | Value::Float(_) | Value::Text(_)
        )
    };
    match args {
        [a, b] if ordered(a) && ordered(b) => {
            basic(a, b)?.ok_or_else(|| "not a number does not compare".to_owned())
        }
        [Value::Bool(_), b] if ordered(b) => Err("incompatible types for comparison".to_owned()),
        [a, Value::Bool(_)] if ordered(a) => Err("incompatible types for comparison".to_owned()),
        _ => Err("invalid type for comparison".to_owned()),
    }
}

fn length(args: &[Value]) -> Answer {
    let length = match &args[0] {
        Value::Text(text) => text.len(),
        Value::Map(map) => map.len(),
        Value::Nothing => return Err("len of nil pointer".to_owned()),
        other => return Err(format!("len of type {}", other.type_name())),
    };
    Ok(Value::Int(i64::try_from(length).unwrap_or(i64::MAX)))
}

/// A place in something that long.
fn place(value: &Value, length: usize) -> Result<usize, String> {
    let number = match value {
        Value::Int(number) => *number,
        Value::Byte(number) => i64::from(*number),
        Value::Nothing => return Err("cannot index slice/array with nil".to_owned()),
        other => {
            let name = other.type_name();
            return Err(format!("cannot index slice/array with type {name}"));
        }
    };
    usize::try_from(number)
        .ok()
        .filter(|place| *place <= length)
        .ok_or_else(|| format!("index out of range: {number}"))
}

fn index(args: &[Value]) -> Answer {
    let (first, places) = args.split_first().ok_or("index of untyped nil")?;
    let mut item = first.clone();
    if item == Value::Nothing {
        return Err("index of untyped nil".to_owned());
    }
    for at in places {
        item = match (&item, at) {
            (Value::Text(text), at) => {
                let place = place(at, text.len())?;
                let byte = text.as_bytes().get(place);
                Value::Byte(*byte.ok_or_else(|| format!("index out of range: {place}"))?)
            }
            (Value::Map(map), Value::Text(key)) => {
                Value::text(map.get(&**key).map_or("", String::as_str))
            }
            (Value::Map(_), Value::Nothing) => {
                return Err("value is nil; should be of type string".to_owned());
            }
            (Value::Map(_), at) => {
                let name = at.type_name();
                return Err(format!("value has type {name}; should be string"));
            }
            (other, _) => return Err(format!("can't index item of type {}", other.type_name())),
        };
    }
    Ok(item)
}

/// A part of a text, by bytes. One that would cut a character is an error: what Go would make of it is
/// no text that an API server keeps.
fn slice(args: &[Value]) -> Answer {
    let (item, places) = args.split_first().ok_or("slice of untyped nil")?;
    let whole = match item {
        Value::Text(text) => text,
        Value::Nothing => return Err("slice of untyped nil".to_owned()),
        other => return Err(format!("can't slice item of type {}", other.type_name())),
    };
    if places.len() > 2 {
        return Err("cannot 3-index slice a string".to_owned());
    }
    let mut ends = [0, whole.len()];
    for (end, at) in ends.iter_mut().zip(places) {
        *end = place(at, whole.len())?;
    }
    let [from, to] = ends;
    if from > to {
        return Err(format!("invalid slice index: {from} > {to}"));
    }
    let part = whole.get(from..to);
    part.map(Value::text)
        .ok_or_else(|| format!("the part from {from} to {to} cuts a character"))
}

/// Spaces only between two values of which neither is a text.
pub(crate) fn print(args: &[Value]) -> Result<String, String> {
    let mut buffer = Buffer::default();
    let mut after_text = true;
    for value in args {
        let is_text = matches!(value, Value::Text(_));
        if !after_text && !is_text {
            buffer.push(" ")?;
        }
        buffer.push(&value.to_string())?;
        after_text = is_text;
    }
    Ok(buffer.finish())
}

fn print_line(args: &[Value]) -> Answer {
    let mut buffer = Buffer::default();
    for (at, value) in args.iter().enumerate() {
        if at > 0 {
            buffer.push(" ")?;
        }
        buffer.push(&value.to_string())?;
    }
    buffer.push("\n")?;
    Ok(text(buffer.finish()))
}

/// What the escaping functions work on: their arguments, printed.
fn joined(args: &[Value]) -> Result<String, String> {
    let shown: Vec<Value> = args
        .iter()
        .map(|value| match value {
            Value::Nothing => Value::text("<no value>"),
            other => other.clone(),
        })
        .collect();
    print(&shown)
}
