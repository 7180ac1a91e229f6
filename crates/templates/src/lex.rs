//! From a template's text to tokens.

use crate::ParseError;
use crate::number::{Number, unquote};

/// A piece of a template and where it begins.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Token {
    pub(crate) kind: Kind,
    pub(crate) at: usize,
}

/// What a piece is.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Kind {
    /// Text outside of actions.
    Literal(String),
    Open,
    Close,
    Space,
    Assign,
    Declare,
    Pipe,
    OpenParen,
    CloseParen,
    Comma,
    Dot,
    /// `.Name`, without the dot.
    Field(String),
    /// `$name`, with the dollar.
    Variable(String),
    Identifier(String),
    Keyword(Keyword),
    Bool(bool),
    Nil,
    Number(Number),
    Text(String),
    End,
}

/// The words with a meaning of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Keyword {
    Block,
    Break,
    Continue,
    Define,
    Else,
    End,
    If,
    Range,
    Template,
    With,
}

impl Keyword {
    fn of(word: &str) -> Option<Self> {
        Some(match word {
            "block" => Self::Block,
            "break" => Self::Break,
            "continue" => Self::Continue,
            "define" => Self::Define,
            "else" => Self::Else,
            "end" => Self::End,
            "if" => Self::If,
            "range" => Self::Range,
            "template" => Self::Template,
            "with" => Self::With,
            _ => return None,
        })
    }
}

const OPEN: &str = "{{";
const CLOSE: &str = "}}";
const TRIM: char = '-';

fn is_space(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\r' | '\n')
}

fn is_word(c: char) -> bool {
    c == '_' || c.is_alphanumeric()
}

/// Cuts a template into tokens; the last is always the end.
pub(crate) fn lex(source: &str) -> Result<Vec<Token>, ParseError> {
    let mut lexer = Lexer {
        source,
        at: 0,
        tokens: Vec::new(),
        parens: 0,
    };
    lexer.literal()?;
    let at = lexer.at;
    lexer.tokens.push(Token {
        kind: Kind::End,
        at,
    });
    Ok(lexer.tokens)
}

struct Lexer<'a> {
    source: &'a str,
    at: usize,
    tokens: Vec<Token>,
    parens: usize,
}

impl<'a> Lexer<'a> {
    fn rest(&self) -> &'a str {
        &self.source[self.at..]
    }

    fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    fn error(&self, message: impl Into<String>) -> ParseError {
        ParseError::at(self.source, self.at, message.into())
    }

    fn emit(&mut self, kind: Kind, length: usize) {
        let at = self.at;
        self.tokens.push(Token { kind, at });
        self.at += length;
    }

    fn skip_spaces(&mut self) {
        let rest = self.rest();
        self.at += rest.len() - rest.trim_start_matches(is_space).len();
    }

    /// Text, then actions, until the text ends.
    fn literal(&mut self) -> Result<(), ParseError> {
        loop {
            let rest = self.rest();
            let Some(open) = rest.find(OPEN) else {
                self.text(rest);
                self.at = self.source.len();
                return Ok(());
            };
            let after = &rest[open + OPEN.len()..];
            let trims = after.starts_with(TRIM) && after[1..].starts_with(is_space);
            let text = &rest[..open];
            self.text(if trims {
                text.trim_end_matches(is_space)
            } else {
                text
            });
            self.at += open;
            let marker = if trims { 2 } else { 0 };
            if after[marker..].starts_with("/*") {
                self.at += OPEN.len() + marker;
                self.comment()?;
            } else {
                self.emit(Kind::Open, OPEN.len() + marker);
                self.action()?;
            }
        }
    }

    fn text(&mut self, text: &str) {
        if !text.is_empty() {
            let kind = Kind::Literal(text.to_owned());
            self.tokens.push(Token { kind, at: self.at });
        }
    }

    fn comment(&mut self) -> Result<(), ParseError> {
        let Some(end) = self.rest().find("*/") else {
            return Err(self.error("unclosed comment"));
        };
        self.at += end + 2;
        match self.closing() {
            None => Err(self.error("comment ends before closing delimiter")),
            Some(closing) => {
                self.at += closing;
                if closing > CLOSE.len() {
                    self.skip_spaces();
                }
                Ok(())
            }
        }
    }

    /// How long the closing delimiter is that begins here, with its trim marker.
    fn closing(&self) -> Option<usize> {
        let rest = self.rest();
        if rest.starts_with(CLOSE) {
            return Some(CLOSE.len());
        }
        let mut chars = rest.chars();
        let marked = chars.next().is_some_and(is_space)
            && chars.next() == Some(TRIM)
            && chars.as_str().starts_with(CLOSE);
        marked.then_some(CLOSE.len() + 2)
    }

    fn action(&mut self) -> Result<(), ParseError> {
        self.parens = 0;
        loop {
            if let Some(closing) = self.closing() {
                if self.parens > 0 {
                    return Err(self.error("unclosed left paren"));
                }
                self.emit(Kind::Close, closing);
                if closing > CLOSE.len() {
                    self.skip_spaces();
                }
                return Ok(());
            }
            self.token()?;
        }
    }

    fn token(&mut self) -> Result<(), ParseError> {
        let Some(first) = self.peek() else {
            return Err(self.error("unclosed action"));
        };
        match first {
            c if is_space(c) => self.spaces(),
            '=' => self.emit(Kind::Assign, 1),
            ':' if self.rest().starts_with(":=") => self.emit(Kind::Declare, 2),
            ':' => return Err(self.error("expected :=")),
            '|' => self.emit(Kind::Pipe, 1),
            ',' => self.emit(Kind::Comma, 1),
            '(' => {
                self.emit(Kind::OpenParen, 1);
                self.parens += 1;
            }
            ')' => {
                let left = self.parens.checked_sub(1);
                self.parens = left.ok_or_else(|| self.error("unexpected right paren"))?;
                self.emit(Kind::CloseParen, 1);
            }
            '"' => return self.quoted(),
            '`' => return self.raw(),
            '\'' => return self.character(),
            '$' | '.' if !self.starts_a_number() => return self.field_or_variable(),
            '.' | '+' | '-' | '0'..='9' => return self.number(),
            c if is_word(c) => return self.word(),
            c => return Err(self.error(format!("unexpected {c:?} in action"))),
        }
        Ok(())
    }

    /// `.5`, as opposed to a field.
    fn starts_a_number(&self) -> bool {
        let mut chars = self.rest().chars();
        chars.next() == Some('.') && chars.next().is_some_and(|c| c.is_ascii_digit())
    }

    /// One token for all of them, but for the one that a marked closing delimiter begins with.
    fn spaces(&mut self) {
        let start = self.at;
        self.skip_spaces();
        if self.rest().starts_with("-}}") {
            self.at -= 1;
        }
        if self.at > start {
            let kind = Kind::Space;
            self.tokens.push(Token { kind, at: start });
        }
    }

    /// The length of the word from here on, which something must end.
    fn word_length(&self, skip: usize) -> Result<usize, ParseError> {
        let rest = &self.rest()[skip..];
        let after = rest.trim_start_matches(is_word);
        let ends = after
            .chars()
            .next()
            .is_none_or(|c| is_space(c) || matches!(c, '.' | ',' | '|' | ':' | ')' | '('))
            || after.starts_with(CLOSE);
        if ends {
            Ok(skip + rest.len() - after.len())
        } else {
            let c = after.chars().next().unwrap_or_default();
            Err(self.error(format!("bad character {c:?}")))
        }
    }

    fn field_or_variable(&mut self) -> Result<(), ParseError> {
        let length = self.word_length(1)?;
        let text = &self.rest()[..length];
        let kind = match (text.starts_with('$'), length) {
            (true, _) => Kind::Variable(text.to_owned()),
            (false, 1) => Kind::Dot,
            (false, _) => Kind::Field(text[1..].to_owned()),
        };
        self.emit(kind, length);
        Ok(())
    }

    fn word(&mut self) -> Result<(), ParseError> {
        let length = self.word_length(0)?;
        let text = &self.rest()[..length];
        let kind = match (text, Keyword::of(text)) {
            (_, Some(keyword)) => Kind::Keyword(keyword),
            ("true", _) => Kind::Bool(true),
            ("false", _) => Kind::Bool(false),
            ("nil", _) => Kind::Nil,
            _ => Kind::Identifier(text.to_owned()),
        };
        self.emit(kind, length);
        Ok(())
    }

    /// The text up to an unescaped `quote`, which is not part of it.
    fn until(&self, quote: char) -> Option<&'a str> {
        let rest = &self.rest()[1..];
        let mut escaped = false;
        for (at, c) in rest.char_indices() {
            match c {
                '\n' => return None,
                _ if escaped => escaped = false,
                '\\' => escaped = true,
                c if c == quote => return Some(&rest[..at]),
                _ => {}
            }
        }
        None
    }

    fn quoted(&mut self) -> Result<(), ParseError> {
        let inner = self
            .until('"')
            .ok_or_else(|| self.error("unterminated quoted string"))?;
        let text = unquote(inner).ok_or_else(|| self.error("invalid syntax in quoted string"))?;
        self.emit(Kind::Text(text), inner.len() + 2);
        Ok(())
    }

    fn raw(&mut self) -> Result<(), ParseError> {
        let rest = &self.rest()[1..];
        let end = rest
            .find('`')
            .ok_or_else(|| self.error("unterminated raw quoted string"))?;
        // Go drops carriage returns inside.
        self.emit(Kind::Text(rest[..end].replace('\r', "")), end + 2);
        Ok(())
    }

    fn character(&mut self) -> Result<(), ParseError> {
        let inner = self
            .until('\'')
            .ok_or_else(|| self.error("unterminated character constant"))?;
        let length = inner.len() + 2;
        let number = Number::character(&self.rest()[..length]).map_err(|e| self.error(e))?;
        self.emit(Kind::Number(number), length);
        Ok(())
    }

    fn number(&mut self) -> Result<(), ParseError> {
        let rest = self.rest();
        let length = number_length(rest);
        let text = &rest[..length];
        if rest[length..].starts_with(|c| is_word(c) || c == '+' || c == '-') {
            return Err(self.error(format!("bad number syntax: {text:?}")));
        }
        let number = Number::parse(text).map_err(|e| self.error(e))?;
        self.emit(Kind::Number(number), length);
        Ok(())
    }
}

/// How far a number goes: a sign, a prefix, digits, a fraction, an exponent.
fn number_length(text: &str) -> usize {
    let after =
        |text: &str, set: &dyn Fn(char) -> bool| text.len() - text.trim_start_matches(set).len();
    let mut at = usize::from(text.starts_with(['+', '-']));
    let prefix = text[at..].get(..2).map(str::to_ascii_lowercase);
    let hexadecimal = prefix.as_deref() == Some("0x");
    if hexadecimal || matches!(prefix.as_deref(), Some("0b" | "0o")) {
        at += 2;
    }
    let digit = |c: char| c == '_' || c.is_ascii_digit() || (hexadecimal && c.is_ascii_hexdigit());
    at += after(&text[at..], &digit);
    if text[at..].starts_with('.') {
        at += 1;
        at += after(&text[at..], &digit);
    }
    let exponent: &[char] = if hexadecimal {
        &['p', 'P']
    } else {
        &['e', 'E']
    };
    if text[at..].starts_with(exponent) {
        at += 1;
        at += usize::from(text[at..].starts_with(['+', '-']));
        at += after(&text[at..], &|c| c == '_' || c.is_ascii_digit());
    }
    at
}
