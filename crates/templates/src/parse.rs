//! From tokens to the tree of a template.

mod pipeline;

use std::collections::{BTreeMap, BTreeSet};

use crate::ParseError;
use crate::lex::{Keyword, Kind, Token, lex};
use crate::tree::{Body, Node};

/// How deep blocks and parentheses may be nested: rules have two or three levels, and each costs a
/// few stack frames here and at rendering.
const DEEPEST: usize = 64;

/// What was found in a template's text.
pub(crate) struct Parsed {
    pub(crate) main: Body,
    pub(crate) defined: BTreeMap<String, Body>,
    /// Every field that is named anywhere.
    pub(crate) fields: BTreeSet<String>,
    /// Whether the whole of the data is used as a value.
    pub(crate) whole: bool,
}

/// Reads a template. `is_function` says which names are functions.
pub(crate) fn parse(
    source: &str,
    is_function: &dyn Fn(&str) -> bool,
) -> Result<Parsed, ParseError> {
    let mut parser = Parser {
        source,
        tokens: lex(source)?,
        next: 0,
        is_function,
        variables: vec!["$".to_owned()],
        ranges: 0,
        moved: 0,
        depth: 0,
        parsed: Parsed {
            main: Vec::new(),
            defined: BTreeMap::new(),
            fields: BTreeSet::new(),
            whole: false,
        },
    };
    let main = parser.top()?;
    parser.parsed.main = main;
    Ok(parser.parsed)
}

struct Parser<'a> {
    source: &'a str,
    tokens: Vec<Token>,
    next: usize,
    is_function: &'a dyn Fn(&str) -> bool,
    variables: Vec<String>,
    /// How many `range` we are in.
    ranges: usize,
    /// How many blocks we are in that give the dot another meaning.
    moved: usize,
    depth: usize,
    parsed: Parsed,
}

/// What ended a list of nodes.
enum Ending {
    End,
    Else,
}

enum Step {
    Node(Node),
    Ending(Ending),
    /// A definition: nothing here.
    Elsewhere,
}

impl Parser<'_> {
    fn token(&self) -> &Token {
        // The last token is the end, and nothing steps over it.
        let last = self.tokens.len() - 1;
        &self.tokens[self.next.min(last)]
    }

    fn kind(&self) -> &Kind {
        &self.token().kind
    }

    fn take(&mut self) -> Token {
        let token = self.token().clone();
        self.next += 1;
        token
    }

    fn skip_space(&mut self) {
        while *self.kind() == Kind::Space {
            self.next += 1;
        }
    }

    fn error(&self, message: impl Into<String>) -> ParseError {
        ParseError::at(self.source, self.token().at, message.into())
    }

    fn unexpected(&self, context: &str) -> ParseError {
        self.error(format!("unexpected {} in {context}", describe(self.kind())))
    }

    fn close(&mut self, context: &str) -> Result<(), ParseError> {
        self.skip_space();
        if *self.kind() == Kind::Close {
            self.next += 1;
            Ok(())
        } else {
            Err(self.unexpected(context))
        }
    }

    fn deeper<T>(
        &mut self,
        inner: impl FnOnce(&mut Self) -> Result<T, ParseError>,
    ) -> Result<T, ParseError> {
        if self.depth == DEEPEST {
            return Err(self.error(format!("nested more than {DEEPEST} levels deep")));
        }
        self.depth += 1;
        let result = inner(self);
        self.depth -= 1;
        result
    }

    fn top(&mut self) -> Result<Body, ParseError> {
        let mut body = Vec::new();
        while *self.kind() != Kind::End {
            match self.step(true)? {
                Step::Node(node) => body.push(node),
                Step::Elsewhere => {}
                Step::Ending(Ending::End) => return Err(self.error("unexpected {{end}}")),
                Step::Ending(Ending::Else) => return Err(self.error("unexpected {{else}}")),
            }
        }
        Ok(body)
    }

    fn list(&mut self) -> Result<(Body, Ending), ParseError> {
        self.deeper(|this| {
            let mut body = Vec::new();
            while *this.kind() != Kind::End {
                match this.step(false)? {
                    Step::Node(node) => body.push(node),
                    Step::Elsewhere => {}
                    Step::Ending(ending) => return Ok((body, ending)),
                }
            }
            Err(this.error("unexpected EOF"))
        })
    }

    /// A list that only `end` may end.
    fn list_to_end(&mut self, context: &str) -> Result<Body, ParseError> {
        match self.list()? {
            (body, Ending::End) => Ok(body),
            (_, Ending::Else) => Err(self.error(format!("unexpected {{{{else}}}} in {context}"))),
        }
    }

    fn step(&mut self, top: bool) -> Result<Step, ParseError> {
        let token = self.take();
        if let Kind::Literal(text) = token.kind {
            return Ok(Step::Node(Node::Text(text)));
        }
        // Between actions there is nothing but literals: this is an opening delimiter.
        self.skip_space();
        let Kind::Keyword(keyword) = *self.kind() else {
            let pipeline = self.pipeline("command", &Kind::Close)?;
            return Ok(Step::Node(Node::Action(pipeline)));
        };
        if keyword == Keyword::Define && !top {
            return Err(self.unexpected("command"));
        }
        self.next += 1;
        Ok(match keyword {
            Keyword::If => Step::Node(self.control(Keyword::If)?),
            Keyword::With => Step::Node(self.control(Keyword::With)?),
            Keyword::Range => Step::Node(self.control(Keyword::Range)?),
            Keyword::End => {
                self.close("end")?;
                Step::Ending(Ending::End)
            }
            Keyword::Else => self.otherwise()?,
            Keyword::Break => self.leave(Node::Break, "{{break}}")?,
            Keyword::Continue => self.leave(Node::Continue, "{{continue}}")?,
            Keyword::Template => Step::Node(self.template(token.at)?),
            Keyword::Block => Step::Node(self.block(token.at)?),
            Keyword::Define => {
                self.define()?;
                Step::Elsewhere
            }
        })
    }

    /// `{{else if` and `{{else with` are left at their second word.
    fn otherwise(&mut self) -> Result<Step, ParseError> {
        self.skip_space();
        if !matches!(self.kind(), Kind::Keyword(Keyword::If | Keyword::With)) {
            self.close("else")?;
        }
        Ok(Step::Ending(Ending::Else))
    }

    fn leave(&mut self, node: Node, name: &str) -> Result<Step, ParseError> {
        if self.ranges == 0 {
            return Err(self.error(format!("{name} outside {{{{range}}}}")));
        }
        self.close(name)?;
        Ok(Step::Node(node))
    }

    fn control(&mut self, keyword: Keyword) -> Result<Node, ParseError> {
        let known = self.variables.len();
        let context = match keyword {
            Keyword::Range => "range",
            Keyword::With => "with",
            _ => "if",
        };
        let mut branches = Vec::new();
        let otherwise = loop {
            let pipeline = self.pipeline(context, &Kind::Close)?;
            let (body, ending) = self.branch(keyword)?;
            branches.push((pipeline, body));
            match (ending, self.kind()) {
                (Ending::End, _) => break Vec::new(),
                // Of the same kind, one `end` ends all: no deeper for being long.
                (Ending::Else, Kind::Keyword(second @ (Keyword::If | Keyword::With))) => {
                    if *second != keyword {
                        return Err(self.unexpected("else"));
                    }
                    self.next += 1;
                }
                (Ending::Else, _) => match self.list()? {
                    (body, Ending::End) => break body,
                    (_, Ending::Else) => return Err(self.error("expected end; found {{else}}")),
                },
            }
        };
        self.variables.truncate(known);
        Ok(match keyword {
            Keyword::With => Node::With(branches, otherwise),
            Keyword::Range => match branches.pop() {
                Some((pipeline, body)) => Node::Range(pipeline, body, otherwise),
                None => return Err(self.unexpected(context)),
            },
            _ => Node::If(branches, otherwise),
        })
    }

    /// What happens if a branch is taken.
    fn branch(&mut self, keyword: Keyword) -> Result<(Body, Ending), ParseError> {
        let moves = usize::from(keyword != Keyword::If);
        let loops = usize::from(keyword == Keyword::Range);
        self.ranges += loops;
        self.moved += moves;
        let list = self.list();
        self.ranges -= loops;
        self.moved -= moves;
        list
    }

    fn name(&mut self, context: &str) -> Result<String, ParseError> {
        self.skip_space();
        match self.kind().clone() {
            Kind::Text(name) => {
                self.next += 1;
                Ok(name)
            }
            _ => Err(self.unexpected(context)),
        }
    }

    fn template(&mut self, at: usize) -> Result<Node, ParseError> {
        let name = self.name("template clause")?;
        self.skip_space();
        let pipeline = if *self.kind() == Kind::Close {
            self.next += 1;
            None
        } else {
            Some(self.pipeline("template clause", &Kind::Close)?)
        };
        Ok(Node::Template { name, pipeline, at })
    }

    fn block(&mut self, at: usize) -> Result<Node, ParseError> {
        let name = self.name("block clause")?;
        let pipeline = Some(self.pipeline("block clause", &Kind::Close)?);
        let body = self.apart(|this| this.list_to_end("block clause"))?;
        self.add(&name, body)?;
        Ok(Node::Template { name, pipeline, at })
    }

    fn define(&mut self) -> Result<(), ParseError> {
        let name = self.name("define clause")?;
        self.close("define clause")?;
        let body = self.apart(|this| this.list_to_end("define clause"))?;
        self.add(&name, body)
    }

    /// Reads what has variables, loops and a dot of its own.
    fn apart<T>(
        &mut self,
        inner: impl FnOnce(&mut Self) -> Result<T, ParseError>,
    ) -> Result<T, ParseError> {
        let variables = std::mem::replace(&mut self.variables, vec!["$".to_owned()]);
        let ranges = std::mem::take(&mut self.ranges);
        // Whoever hands the whole data on names it where the template is called.
        self.moved += 1;
        let result = inner(self);
        self.moved -= 1;
        (self.variables, self.ranges) = (variables, ranges);
        result
    }

    /// A definition that says nothing gives way to one that does.
    fn add(&mut self, name: &str, body: Body) -> Result<(), ParseError> {
        let empty = |body: &Body| {
            body.iter()
                .all(|node| matches!(node, Node::Text(text) if text.trim().is_empty()))
        };
        match self.parsed.defined.get(name) {
            Some(old) if !empty(old) && !empty(&body) => {
                Err(self.error(format!("multiple definition of template {name:?}")))
            }
            Some(old) if !empty(old) => Ok(()),
            _ => {
                self.parsed.defined.insert(name.to_owned(), body);
                Ok(())
            }
        }
    }
}

fn describe(kind: &Kind) -> String {
    match kind {
        Kind::Literal(_) => "text".to_owned(),
        Kind::Open => "{{".to_owned(),
        Kind::Close => "}}".to_owned(),
        Kind::Space => "space".to_owned(),
        Kind::Assign => "\"=\"".to_owned(),
        Kind::Declare => "\":=\"".to_owned(),
        Kind::Pipe => "\"|\"".to_owned(),
        Kind::OpenParen => "\"(\"".to_owned(),
        Kind::CloseParen => "\")\"".to_owned(),
        Kind::Comma => "\",\"".to_owned(),
        Kind::Dot => "<.>".to_owned(),
        Kind::Field(name) => format!("<.{name}>"),
        Kind::Variable(name) | Kind::Identifier(name) => format!("<{name}>"),
        Kind::Keyword(keyword) => format!("<{}>", format!("{keyword:?}").to_lowercase()),
        Kind::Bool(value) => format!("<{value}>"),
        Kind::Nil => "<nil>".to_owned(),
        Kind::Number(number) => format!("<{}>", number.text),
        Kind::Text(text) => format!("{text:?}"),
        Kind::End => "EOF".to_owned(),
    }
}
