//! Label selectors, equality-based and set-based.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::status::Refusal;
use crate::strategy::names;

/// One requirement on labels.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum LabelRule {
    Exists(String),
    Missing(String),
    In(String, BTreeSet<String>),
    NotIn(String, BTreeSet<String>),
    Greater(String, i64),
    Less(String, i64),
}

impl LabelRule {
    pub(super) fn matches(&self, labels: &Value) -> bool {
        let value = |key: &str| labels.get(key).and_then(Value::as_str);
        let number = |key: &str| value(key).and_then(|text| text.parse::<i64>().ok());
        match self {
            Self::Exists(key) => value(key).is_some(),
            Self::Missing(key) => value(key).is_none(),
            Self::In(key, set) => value(key).is_some_and(|value| set.contains(value)),
            Self::NotIn(key, set) => value(key).is_none_or(|value| !set.contains(value)),
            Self::Greater(key, bound) => number(key).is_some_and(|value| value > *bound),
            Self::Less(key, bound) => number(key).is_some_and(|value| value < *bound),
        }
    }
}

/// A piece of a label selector.
#[derive(Clone, Debug, PartialEq)]
enum Token {
    Word(String),
    Sign(&'static str),
}

const SIGNS: [&str; 9] = ["!=", "==", "=", "!", "<", ">", ",", "(", ")"];

fn tokens(selector: &str) -> Vec<Token> {
    let mut rest = selector.trim_start();
    let mut found = Vec::new();
    while !rest.is_empty() {
        if let Some(sign) = SIGNS.iter().find(|sign| rest.starts_with(**sign)) {
            found.push(Token::Sign(sign));
            rest = rest[sign.len()..].trim_start();
        } else {
            let end = rest
                .find(|letter: char| letter.is_whitespace() || "!=<>,()".contains(letter))
                .unwrap_or(rest.len());
            found.push(Token::Word(rest[..end].to_owned()));
            rest = rest[end..].trim_start();
        }
    }
    found
}

struct LabelParser {
    tokens: Vec<Token>,
    at: usize,
}

/// Reads a label selector.
pub(super) fn parse(selector: &str) -> Result<Vec<LabelRule>, Refusal> {
    let mut parser = LabelParser {
        tokens: tokens(selector),
        at: 0,
    };
    let mut rules = Vec::new();
    let mut expected = "!, identifier, or 'end of string'";
    while !parser.tokens.is_empty() {
        match parser.tokens.get(parser.at) {
            Some(Token::Word(_) | Token::Sign("!")) => rules.push(parser.rule()?),
            other => return Err(between(other, expected)),
        }
        expected = "identifier after ','";
        match parser.next() {
            None => break,
            Some(Token::Sign(",")) => {}
            other => return Err(between(other.as_ref(), "',' or 'end of string'")),
        }
    }
    Ok(rules)
}

/// Between requirements the server does not say which it was reading.
fn between(token: Option<&Token>, expected: &str) -> Refusal {
    let mut refusal = unexpected(token, expected);
    let start = "unable to parse requirement: ";
    refusal.message = refusal.message.trim_start_matches(start).to_owned();
    refusal
}

fn unexpected(token: Option<&Token>, expected: &str) -> Refusal {
    let found = match token {
        Some(Token::Word(word)) => word.as_str(),
        Some(Token::Sign(sign)) => sign,
        None => "",
    };
    // The one message that the server writes without a comma.
    let comma = if expected == "'('" { "" } else { "," };
    Refusal::bad_request(format!(
        "unable to parse requirement: found '{found}'{comma} expected: {expected}"
    ))
}

impl LabelParser {
    fn next(&mut self) -> Option<Token> {
        let token = self.tokens.get(self.at).cloned();
        self.at += 1;
        token
    }

    fn key(&mut self) -> Result<String, Refusal> {
        match self.next() {
            Some(Token::Word(word)) => {
                if let Some(fault) = names::qualified_name(&word).first() {
                    return Err(Refusal::bad_request(format!(
                        "unable to parse requirement: <nil>: Invalid value: {word:?}: {fault}"
                    )));
                }
                Ok(word)
            }
            other => Err(unexpected(other.as_ref(), "identifier")),
        }
    }

    fn rule(&mut self) -> Result<LabelRule, Refusal> {
        if self.tokens.get(self.at) == Some(&Token::Sign("!")) {
            self.at += 1;
            return Ok(LabelRule::Missing(self.key()?));
        }
        let key = self.key()?;
        match self.tokens.get(self.at).cloned() {
            None | Some(Token::Sign(",")) => Ok(LabelRule::Exists(key)),
            Some(Token::Sign("=" | "==")) => self.single().map(|set| LabelRule::In(key, set)),
            Some(Token::Sign("!=")) => self.single().map(|set| LabelRule::NotIn(key, set)),
            Some(Token::Sign(">")) => self.bound().map(|bound| LabelRule::Greater(key, bound)),
            Some(Token::Sign("<")) => self.bound().map(|bound| LabelRule::Less(key, bound)),
            Some(Token::Word(word)) if word == "in" => {
                self.set().map(|set| LabelRule::In(key, set))
            }
            Some(Token::Word(word)) if word == "notin" => {
                self.set().map(|set| LabelRule::NotIn(key, set))
            }
            other => Err(unexpected(other.as_ref(), "in, notin, =, ==, !=, gt, lt")),
        }
    }

    /// The value after `=`; it may be missing, which means the empty text.
    fn single(&mut self) -> Result<BTreeSet<String>, Refusal> {
        self.at += 1;
        let value = match self.tokens.get(self.at) {
            Some(Token::Word(word)) => {
                self.at += 1;
                word.clone()
            }
            None | Some(Token::Sign(",")) => String::new(),
            other => return Err(unexpected(other, "identifier")),
        };
        Ok([value].into())
    }

    fn bound(&mut self) -> Result<i64, Refusal> {
        self.at += 1;
        match self.next() {
            Some(Token::Word(word)) => word.parse().map_err(|_| {
                Refusal::bad_request(format!(
                    "unable to parse requirement: values[0]: Invalid value: {word:?}: for 'Gt', 'Lt' operators, the value must be an integer"
                ))
            }),
            other => Err(unexpected(other.as_ref(), "identifier")),
        }
    }

    fn set(&mut self) -> Result<BTreeSet<String>, Refusal> {
        self.at += 1;
        match self.next() {
            Some(Token::Sign("(")) => {}
            other => return Err(unexpected(other.as_ref(), "'('")),
        }
        let mut values = BTreeSet::new();
        let mut last_was_word = false;
        loop {
            match self.next() {
                Some(Token::Word(word)) if !last_was_word => {
                    values.insert(word);
                    last_was_word = true;
                }
                Some(Token::Sign(",")) => {
                    if !last_was_word {
                        values.insert(String::new());
                    }
                    last_was_word = false;
                }
                Some(Token::Sign(")")) => {
                    if !last_was_word {
                        values.insert(String::new());
                    }
                    return Ok(values);
                }
                other => return Err(unexpected(other.as_ref(), "',' or ')'")),
            }
        }
    }
}
