//! The interpreter.

use std::sync::Arc;

use crate::buffer::Buffer;
use crate::functions::{Function, Kind};
use crate::tree::{Body, Command, Node, Operand, Pipeline, Word};
use crate::{RenderError, Template, Value};

/// How many nodes and calls one rendering may take. A rule has tens; a loop over all tags of a
/// machine has hundreds.
const MOST_STEPS: usize = 10_000;
/// How deep templates may call templates. Each level costs stack, and rules have one.
const DEEPEST_CALL: usize = 32;

/// What went wrong, and where if that is known yet.
pub(crate) struct Fault {
    message: String,
    at: Option<usize>,
}

impl From<String> for Fault {
    fn from(message: String) -> Self {
        Self { message, at: None }
    }
}

impl Fault {
    fn at(mut self, at: usize) -> Self {
        self.at.get_or_insert(at);
        self
    }
}

fn fault<T>(message: impl Into<String>) -> Result<T, Fault> {
    Err(Fault::from(message.into()))
}

/// Whether a loop goes on.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Flow {
    On,
    Break,
    Continue,
}

pub(crate) fn render(template: &Template, data: &Value) -> Result<String, RenderError> {
    let mut state = State {
        template,
        out: Buffer::default(),
        variables: vec![("$".to_owned(), data.clone())],
        steps: 0,
        depth: 0,
    };
    match state.body(&template.parsed.main, data) {
        Ok(_) => Ok(state.out.finish()),
        Err(Fault { message, at }) => {
            Err(RenderError::at(&template.source, at.unwrap_or(0), message))
        }
    }
}

struct State<'a> {
    template: &'a Template,
    out: Buffer,
    variables: Vec<(String, Value)>,
    steps: usize,
    depth: usize,
}

impl<'a> State<'a> {
    fn step(&mut self) -> Result<(), Fault> {
        self.steps += 1;
        if self.steps > MOST_STEPS {
            return fault(format!("the template takes more than {MOST_STEPS} steps"));
        }
        Ok(())
    }

    fn body(&mut self, body: &'a Body, dot: &Value) -> Result<Flow, Fault> {
        for node in body {
            self.step()?;
            let flow = self.node(node, dot)?;
            if flow != Flow::On {
                return Ok(flow);
            }
        }
        Ok(Flow::On)
    }

    fn node(&mut self, node: &'a Node, dot: &Value) -> Result<Flow, Fault> {
        match node {
            Node::Text(text) => self.out.push(text)?,
            Node::Action(pipeline) => {
                let value = self.pipeline(pipeline, dot)?;
                if pipeline.declares.is_empty() && value != Value::Nothing {
                    self.out.push(&value.to_string())?;
                }
            }
            Node::If(branches, otherwise) | Node::With(branches, otherwise) => {
                let mark = self.variables.len();
                let moves = matches!(node, Node::With(..));
                let flow = self.branches(branches, otherwise, dot, moves);
                self.variables.truncate(mark);
                return flow;
            }
            Node::Range(pipeline, body, otherwise) => {
                let mark = self.variables.len();
                let flow = self.range(pipeline, body, otherwise, dot);
                self.variables.truncate(mark);
                return flow;
            }
            Node::Template { name, pipeline, at } => {
                self.call_template(name, pipeline.as_ref(), dot)
                    .map_err(|fault| fault.at(*at))?;
            }
            Node::Break => return Ok(Flow::Break),
            Node::Continue => return Ok(Flow::Continue),
        }
        Ok(Flow::On)
    }

    /// The first branch whose value is true; `with` hands the value on as the dot.
    fn branches(
        &mut self,
        branches: &'a [(Pipeline, Body)],
        otherwise: &'a Body,
        dot: &Value,
        moves: bool,
    ) -> Result<Flow, Fault> {
        for (pipeline, body) in branches {
            self.step()?;
            let value = self.pipeline(pipeline, dot)?;
            if value.is_true() {
                return self.body(body, if moves { &value } else { dot });
            }
        }
        self.body(otherwise, dot)
    }

    fn range(
        &mut self,
        pipeline: &'a Pipeline,
        body: &'a Body,
        otherwise: &'a Body,
        dot: &Value,
    ) -> Result<Flow, Fault> {
        let at = first_position(pipeline);
        let value = self.pipeline(pipeline, dot)?;
        let mark = self.variables.len();
        let mut ran = false;
        let mut turns: Box<dyn Iterator<Item = (Value, Value)>> = match value {
            Value::Map(map) => Box::new(
                Arc::unwrap_or_clone(map)
                    .into_iter()
                    .map(|(key, value)| (Value::text(&key), Value::text(&value))),
            ),
            Value::Int(_) | Value::Byte(_) if pipeline.declares.len() > 1 => {
                let message = format!("can't use {value} to iterate over more than one variable");
                return Err(Fault::from(message).at(at));
            }
            Value::Int(count) => Box::new((0..count).map(|n| (Value::Nothing, Value::Int(n)))),
            Value::Byte(count) => Box::new((0..count).map(|n| (Value::Nothing, Value::Byte(n)))),
            Value::Nothing => Box::new(std::iter::empty()),
            other => return Err(Fault::from(format!("range can't iterate over {other}")).at(at)),
        };
        for (key, element) in turns.by_ref() {
            ran = true;
            self.step()?;
            self.bind(pipeline, key, &element)?;
            let flow = self.body(body, &element)?;
            self.variables.truncate(mark);
            if flow == Flow::Break {
                break;
            }
        }
        if ran {
            Ok(Flow::On)
        } else {
            self.body(otherwise, dot)
        }
    }

    /// One variable gets the element, two get key and element.
    fn bind(&mut self, pipeline: &Pipeline, key: Value, element: &Value) -> Result<(), Fault> {
        let values = match pipeline.declares.as_slice() {
            [] => return Ok(()),
            [one] => vec![(one, element.clone())],
            [first, second, ..] => vec![(first, key), (second, element.clone())],
        };
        for (name, value) in values {
            self.set(name, value)?;
        }
        Ok(())
    }

    fn call_template(
        &mut self,
        name: &str,
        pipeline: Option<&'a Pipeline>,
        dot: &Value,
    ) -> Result<(), Fault> {
        let Some(body) = self.template.parsed.defined.get(name) else {
            return fault(format!("template {name:?} not defined"));
        };
        if self.depth == DEEPEST_CALL {
            return fault(format!(
                "templates call each other more than {DEEPEST_CALL} levels deep"
            ));
        }
        let data = match pipeline {
            Some(pipeline) => self.pipeline(pipeline, dot)?,
            None => Value::Nothing,
        };
        let inner = vec![("$".to_owned(), data.clone())];
        let outer = std::mem::replace(&mut self.variables, inner);
        self.depth += 1;
        let result = self.body(body, &data);
        self.depth -= 1;
        self.variables = outer;
        result.map(|_| ())
    }

    fn pipeline(&mut self, pipeline: &'a Pipeline, dot: &Value) -> Result<Value, Fault> {
        let mut value = None;
        for command in &pipeline.commands {
            self.step()?;
            value = Some(self.command(command, dot, value)?);
        }
        let value = value.unwrap_or(Value::Nothing);
        for name in &pipeline.declares {
            if pipeline.assigns {
                self.set(name, value.clone())?;
            } else {
                self.variables.push((name.clone(), value.clone()));
            }
        }
        Ok(value)
    }

    fn set(&mut self, name: &str, value: Value) -> Result<(), Fault> {
        let found = self
            .variables
            .iter_mut()
            .rev()
            .find(|(known, _)| known == name);
        match found {
            Some((_, old)) => {
                *old = value;
                Ok(())
            }
            None => fault(format!("undefined variable: {name}")),
        }
    }

    /// One command; `last` is the value of the one before.
    fn command(
        &mut self,
        command: &'a Command,
        dot: &Value,
        last: Option<Value>,
    ) -> Result<Value, Fault> {
        let Some((first, arguments)) = command.words.split_first() else {
            return fault("empty command");
        };
        let has_arguments = !arguments.is_empty() || last.is_some();
        let value = match &first.operand {
            Operand::Function(name) => self.function(name, arguments, dot, last),
            Operand::Nil => fault("nil is not a command"),
            Operand::Field(_) | Operand::Chain(..) if has_arguments => self.called(first, dot),
            Operand::Variable(_, path) if has_arguments && !path.is_empty() => {
                self.called(first, dot)
            }
            _ if has_arguments => fault("can't give argument to non-function"),
            _ => self.operand(first, dot),
        };
        value.map_err(|fault| fault.at(first.at))
    }

    /// A field that is given arguments: an error, as there are no methods, but not even looked at where
    /// there is nothing to have it.
    fn called(&mut self, word: &'a Word, dot: &Value) -> Result<Value, Fault> {
        let (base, path) = match &word.operand {
            Operand::Field(path) => (dot.clone(), path),
            Operand::Chain(inner, path) => (self.operand(inner, dot)?, path),
            Operand::Variable(name, path) => (self.variable(name)?, path),
            _ => return fault("can't give argument to non-function"),
        };
        let Some((last, before)) = path.split_last() else {
            return fault("can't give argument to non-function");
        };
        match walk(base, before)? {
            Value::Nothing => Ok(Value::Nothing),
            _ => fault(format!(
                "{last} has arguments but cannot be invoked as function"
            )),
        }
    }

    fn variable(&self, name: &str) -> Result<Value, Fault> {
        let mut known = self.variables.iter().rev();
        let found = known.find(|(known, _)| known == name);
        match found {
            Some((_, value)) => Ok(value.clone()),
            None => fault(format!("undefined variable: {name}")),
        }
    }

    /// The value of an operand that stands alone.
    fn operand(&mut self, word: &'a Word, dot: &Value) -> Result<Value, Fault> {
        let value = match &word.operand {
            Operand::Dot => Ok(dot.clone()),
            Operand::Nil => Ok(Value::Nothing),
            Operand::Bool(value) => Ok(Value::Bool(*value)),
            Operand::Number(number) => match (number.float, number.int) {
                (Some(float), _) => Ok(Value::Float(float)),
                (None, Some(int)) => Ok(Value::Int(int)),
                (None, None) => fault(format!("{} overflows int", number.text)),
            },
            Operand::Text(text) => Ok(Value::Text(Arc::clone(text))),
            Operand::Field(path) => walk(dot.clone(), path),
            Operand::Variable(name, path) => {
                let value = self.variable(name)?;
                walk(value, path)
            }
            Operand::Function(name) => self.function(name, &[], dot, None),
            Operand::Pipeline(pipeline) => self.pipeline(pipeline, dot),
            Operand::Chain(inner, path) => {
                let value = self.operand(inner, dot)?;
                walk(value, path)
            }
        };
        value.map_err(|fault| fault.at(word.at))
    }

    fn function(
        &mut self,
        name: &str,
        arguments: &'a [Word],
        dot: &Value,
        last: Option<Value>,
    ) -> Result<Value, Fault> {
        self.step()?;
        let functions = self.template.functions.clone();
        let Some(function) = functions.get(name) else {
            return fault(format!("{name:?} is not a defined function"));
        };
        function.check_count(name, arguments.len() + usize::from(last.is_some()))?;
        if matches!(name, "and" | "or") {
            return self.deciding(name == "or", arguments, dot, last);
        }
        let mut values = Vec::with_capacity(arguments.len() + 1);
        for (place, word) in arguments.iter().enumerate() {
            let value = self.argument(function, place, word, dot);
            values.push(value.map_err(|fault| fault.at(word.at))?);
        }
        if let Some(last) = last {
            check(function.kind_at(arguments.len()), &last)?;
            values.push(last);
        }
        (function.call)(&values).or_else(|error| fault(format!("error calling {name}: {error}")))
    }

    /// `and` and `or`: the first argument that decides, or the last; what follows is not evaluated.
    fn deciding(
        &mut self,
        wanted: bool,
        arguments: &'a [Word],
        dot: &Value,
        last: Option<Value>,
    ) -> Result<Value, Fault> {
        let mut value = Value::Nothing;
        for word in arguments {
            value = self.operand(word, dot)?;
            if value.is_true() == wanted {
                return Ok(value);
            }
        }
        Ok(last.unwrap_or(value))
    }

    /// An argument, as the function wants it. Literals are taken for what is wanted where they can be:
    /// `1e0` is a whole number if one is asked for.
    fn argument(
        &mut self,
        function: &Function,
        place: usize,
        word: &'a Word,
        dot: &Value,
    ) -> Result<Value, Fault> {
        let kind = function.kind_at(place);
        match (&word.operand, kind) {
            (Operand::Nil, Kind::Text | Kind::Integer | Kind::Boolean) => {
                fault(format!("cannot assign nil to {}", kind.name()))
            }
            (Operand::Number(number), Kind::Integer) => match number.int {
                Some(int) => Ok(Value::Int(int)),
                None => fault(format!("expected integer; found {}", number.text)),
            },
            _ => {
                let value = self.operand(word, dot)?;
                check(kind, &value)?;
                Ok(value)
            }
        }
    }
}

fn first_position(pipeline: &Pipeline) -> usize {
    let first = pipeline.commands.first();
    first
        .and_then(|command| command.words.first())
        .map_or(0, |word| word.at)
}

fn check(kind: Kind, value: &Value) -> Result<(), Fault> {
    if kind.takes(value) {
        return Ok(());
    }
    let wanted = kind.name();
    if *value == Value::Nothing {
        fault(format!("invalid value; expected {wanted}"))
    } else {
        let found = value.type_name();
        fault(format!(
            "wrong type for value; expected {wanted}; got {found}"
        ))
    }
}

/// Field after field.
fn walk(mut value: Value, path: &[String]) -> Result<Value, Fault> {
    for name in path {
        value = match &value {
            // Nothing has nothing.
            Value::Nothing => Value::Nothing,
            Value::Map(map) => map
                .get(name)
                .map_or(Value::Nothing, |text| Value::text(text)),
            Value::Record(record) => match record.field(name) {
                Some(field) => field.clone(),
                None => return fault(no_field(name, record.name)),
            },
            other => return fault(no_field(name, other.type_name())),
        };
    }
    Ok(value)
}

fn no_field(name: &str, kind: &str) -> String {
    format!("can't evaluate field {name} in type {kind}")
}
