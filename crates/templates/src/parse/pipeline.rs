//! Pipelines: what stands in an action, or after `if`, `with`, `range` and in parentheses.

use super::Parser;
use crate::ParseError;
use crate::lex::Kind;
use crate::tree::{Command, Operand, Pipeline, Word};

impl Parser<'_> {
    pub(super) fn pipeline(&mut self, context: &str, end: &Kind) -> Result<Pipeline, ParseError> {
        self.deeper(|this| {
            let mut pipeline = Pipeline::default();
            this.declarations(context, &mut pipeline)?;
            loop {
                this.skip_space();
                if this.kind() == end {
                    this.check(&pipeline, context)?;
                    this.next += 1;
                    return Ok(pipeline);
                }
                if !starts_an_operand(this.kind()) {
                    return Err(this.unexpected(context));
                }
                let command = this.command()?;
                pipeline.commands.push(command);
            }
        })
    }

    /// `$x :=`, `$x =`, and in `range` also `$k, $v :=`.
    fn declarations(&mut self, context: &str, pipeline: &mut Pipeline) -> Result<(), ParseError> {
        loop {
            self.skip_space();
            let Kind::Variable(name) = self.kind().clone() else {
                return Ok(());
            };
            let back = self.next;
            self.next += 1;
            self.skip_space();
            match self.kind() {
                Kind::Assign | Kind::Declare => {
                    pipeline.assigns = *self.kind() == Kind::Assign;
                    self.next += 1;
                    pipeline.declares.push(name.clone());
                    self.variables.push(name);
                    return Ok(());
                }
                Kind::Comma => {
                    self.next += 1;
                    pipeline.declares.push(name.clone());
                    self.variables.push(name);
                    if context != "range" || pipeline.declares.len() >= 2 {
                        return Err(self.error(format!("too many declarations in {context}")));
                    }
                    self.skip_space();
                    if !matches!(self.kind(), Kind::Variable(_)) {
                        return Err(self.error("range can only initialize variables"));
                    }
                }
                _ => {
                    self.next = back;
                    return Ok(());
                }
            }
        }
    }

    fn check(&self, pipeline: &Pipeline, context: &str) -> Result<(), ParseError> {
        if pipeline.commands.is_empty() {
            return Err(self.error(format!("missing value for {context}")));
        }
        for (stage, command) in pipeline.commands.iter().enumerate().skip(1) {
            let first = command.words.first().map(|word| &word.operand);
            if first.is_some_and(Operand::is_constant) {
                let stage = stage + 1;
                return Err(self.error(format!("non executable command in pipeline stage {stage}")));
            }
        }
        Ok(())
    }

    fn command(&mut self) -> Result<Command, ParseError> {
        let mut words = Vec::new();
        loop {
            self.skip_space();
            if starts_an_operand(self.kind()) {
                words.push(self.word()?);
            }
            match self.kind() {
                Kind::Space => self.next += 1,
                Kind::Pipe => {
                    self.next += 1;
                    break;
                }
                Kind::Close | Kind::CloseParen => break,
                _ => return Err(self.unexpected("operand")),
            }
        }
        if words.is_empty() {
            return Err(self.error("empty command"));
        }
        Ok(Command { words })
    }

    /// An operand and the fields that follow it without a space.
    fn word(&mut self) -> Result<Word, ParseError> {
        let at = self.token().at;
        let mut operand = self.operand()?;
        let mut fields = Vec::new();
        while let Kind::Field(name) = self.kind().clone() {
            self.next += 1;
            self.parsed.fields.insert(name.clone());
            fields.push(name);
        }
        if !fields.is_empty() {
            if operand.is_constant() {
                return Err(self.error("unexpected . after term"));
            }
            match &mut operand {
                Operand::Field(path) | Operand::Variable(_, path) => path.append(&mut fields),
                _ => {
                    let inner = Box::new(Word { operand, at });
                    operand = Operand::Chain(inner, fields);
                }
            }
        }
        match &operand {
            Operand::Dot if self.moved == 0 => self.parsed.whole = true,
            Operand::Variable(name, path) if name == "$" && path.is_empty() => {
                self.parsed.whole = true;
            }
            _ => {}
        }
        Ok(Word { operand, at })
    }

    fn operand(&mut self) -> Result<Operand, ParseError> {
        let kind = self.kind().clone();
        let operand = match kind {
            Kind::Identifier(name) if !(self.is_function)(&name) => {
                return Err(self.error(format!("function {name:?} not defined")));
            }
            Kind::Variable(name) if !self.variables.contains(&name) => {
                return Err(self.error(format!("undefined variable {name:?}")));
            }
            Kind::Identifier(name) => Operand::Function(name),
            Kind::Variable(name) => Operand::Variable(name, Vec::new()),
            Kind::Dot => Operand::Dot,
            Kind::Nil => Operand::Nil,
            Kind::Field(name) => {
                self.parsed.fields.insert(name.clone());
                Operand::Field(vec![name])
            }
            Kind::Bool(value) => Operand::Bool(value),
            Kind::Number(number) => Operand::Number(number),
            Kind::Text(text) => Operand::Text(text.into()),
            Kind::OpenParen => {
                self.next += 1;
                let inner = self.pipeline("parenthesized pipeline", &Kind::CloseParen)?;
                return Ok(Operand::Pipeline(inner));
            }
            _ => return Err(self.unexpected("operand")),
        };
        self.next += 1;
        Ok(operand)
    }
}

fn starts_an_operand(kind: &Kind) -> bool {
    matches!(
        kind,
        Kind::Bool(_)
            | Kind::Dot
            | Kind::Field(_)
            | Kind::Identifier(_)
            | Kind::Number(_)
            | Kind::Nil
            | Kind::Text(_)
            | Kind::Variable(_)
            | Kind::OpenParen
    )
}
