//! Label selectors, in the whole grammar of Kubernetes: `env=prod,tier in (web,api),!old,rank>5`.

use std::collections::BTreeSet;

use thiserror::Error;

use crate::{StringMap, is_label_key, is_label_value};

/// The longest selector that is read; a Service's annotations together are at most 256 KiB.
const LONGEST: usize = 16 * 1024;

/// Which labels are meant: all requirements must hold. The empty one means everything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selector(Vec<Requirement>);

/// Why a text is not a selector.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("unable to parse selector {text:?}: {reason}")]
pub struct SelectorError {
    /// The text.
    pub text: String,
    /// What is wrong with it.
    pub reason: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Requirement {
    key: String,
    test: Test,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Test {
    Exists,
    Missing,
    In(BTreeSet<String>),
    /// Also holds where the key is missing.
    NotIn(BTreeSet<String>),
    Above(i64),
    Below(i64),
}

impl Selector {
    /// Reads a selector.
    pub fn parse(text: &str) -> Result<Self, SelectorError> {
        let wrong = |reason: String| SelectorError {
            text: text.chars().take(100).collect(),
            reason,
        };
        if text.len() > LONGEST {
            return Err(wrong(format!("it is longer than {LONGEST} bytes")));
        }
        let mut parser = Parser {
            tokens: tokens(text),
            next: 0,
        };
        parser.selector().map(Self).map_err(wrong)
    }

    /// Whether these labels are meant.
    pub fn matches(&self, labels: &StringMap) -> bool {
        self.0.iter().all(|requirement| requirement.matches(labels))
    }

    /// Whether everything is meant.
    pub fn is_everything(&self) -> bool {
        self.0.is_empty()
    }
}

impl Requirement {
    fn matches(&self, labels: &StringMap) -> bool {
        let value = labels.get(&self.key);
        let number = || value?.parse::<i64>().ok();
        match &self.test {
            Test::Exists => value.is_some(),
            Test::Missing => value.is_none(),
            Test::In(values) => value.is_some_and(|value| values.contains(value)),
            Test::NotIn(values) => value.is_none_or(|value| !values.contains(value)),
            Test::Above(least) => number().is_some_and(|number| number > *least),
            Test::Below(most) => number().is_some_and(|number| number < *most),
        }
    }
}

/// What a selector is made of. `in` and `notin` are words; the place tells what they mean.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Token {
    Word(String),
    Sign(&'static str),
    End,
}

impl Token {
    fn shown(&self) -> String {
        match self {
            Self::Word(word) => format!("{word:?}"),
            Self::Sign(sign) => format!("{sign:?}"),
            Self::End => "the end".to_owned(),
        }
    }
}

/// The signs, the longer ones first.
const SIGNS: [&str; 9] = ["==", "!=", "=", "!", "(", ")", ",", ">", "<"];

fn tokens(text: &str) -> Vec<Token> {
    let mut tokens = Vec::new();
    let mut rest = text.trim_start();
    while !rest.is_empty() {
        if let Some(sign) = SIGNS.into_iter().find(|sign| rest.starts_with(sign)) {
            tokens.push(Token::Sign(sign));
            rest = &rest[sign.len()..];
        } else {
            let ends = |c: char| c.is_whitespace() || "=!(),><".contains(c);
            let (word, after) = rest.split_at(rest.find(ends).unwrap_or(rest.len()));
            tokens.push(Token::Word(word.to_owned()));
            rest = after;
        }
        rest = rest.trim_start();
    }
    tokens.push(Token::End);
    tokens
}

struct Parser {
    tokens: Vec<Token>,
    next: usize,
}

impl Parser {
    fn peek(&self) -> &Token {
        self.tokens.get(self.next).unwrap_or(&Token::End)
    }

    fn take(&mut self) -> Token {
        let token = self.peek().clone();
        self.next += 1;
        token
    }

    fn selector(&mut self) -> Result<Vec<Requirement>, String> {
        let mut requirements = Vec::new();
        if *self.peek() == Token::End {
            return Ok(requirements);
        }
        loop {
            requirements.push(self.requirement()?);
            match self.take() {
                Token::End => return Ok(requirements),
                Token::Sign(",") => {}
                other => {
                    let found = other.shown();
                    return Err(format!("found {found} where a comma or the end belongs"));
                }
            }
        }
    }

    fn requirement(&mut self) -> Result<Requirement, String> {
        let negated = *self.peek() == Token::Sign("!");
        if negated {
            self.take();
        }
        let key = match self.take() {
            Token::Word(key) if is_label_key(&key) => key,
            Token::Word(key) => return Err(format!("{key:?} is not a label key")),
            other => return Err(format!("found {} where a key belongs", other.shown())),
        };
        if negated {
            let test = Test::Missing;
            return Ok(Requirement { key, test });
        }
        let test = self.test()?;
        Ok(Requirement { key, test })
    }

    fn test(&mut self) -> Result<Test, String> {
        if matches!(self.peek(), Token::End | Token::Sign(",")) {
            return Ok(Test::Exists);
        }
        let operator = match self.take() {
            Token::Word(word) => word,
            Token::Sign(sign) => sign.to_owned(),
            Token::End => String::new(),
        };
        match operator.as_str() {
            "=" | "==" => Ok(Test::In([self.value()?].into())),
            "!=" => Ok(Test::NotIn([self.value()?].into())),
            ">" => Ok(Test::Above(number(&self.value()?)?)),
            "<" => Ok(Test::Below(number(&self.value()?)?)),
            "in" => Ok(Test::In(self.values()?)),
            "notin" => Ok(Test::NotIn(self.values()?)),
            other => Err(format!("{other:?} is not an operator")),
        }
    }

    /// One value; nothing at all is the empty value.
    fn value(&mut self) -> Result<String, String> {
        if matches!(self.peek(), Token::End | Token::Sign(",")) {
            return Ok(String::new());
        }
        match self.take() {
            Token::Word(value) if is_label_value(&value) => Ok(value),
            Token::Word(value) => Err(format!("{value:?} is not a label value")),
            other => Err(format!("found {} where a value belongs", other.shown())),
        }
    }

    /// Values in parentheses. Nothing between two commas is the empty value; nothing at all is wrong.
    fn values(&mut self) -> Result<BTreeSet<String>, String> {
        if self.take() != Token::Sign("(") {
            return Err("a list of values begins with a parenthesis".to_owned());
        }
        if *self.peek() == Token::Sign(")") {
            return Err("the list of values is empty".to_owned());
        }
        let mut values = BTreeSet::new();
        loop {
            values.insert(match self.peek() {
                Token::Sign("," | ")") => String::new(),
                _ => self.value()?,
            });
            match self.take() {
                Token::Sign(",") => {}
                Token::Sign(")") => return Ok(values),
                other => {
                    let found = other.shown();
                    return Err(format!("found {found} in a list of values"));
                }
            }
        }
    }
}

fn number(value: &str) -> Result<i64, String> {
    let wrong = |_| format!("{value:?} is not a whole number");
    value.parse().map_err(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn labels(pairs: &[(&str, &str)]) -> StringMap {
        let pairs = pairs.iter();
        pairs.copied().collect()
    }

    #[test]
    fn every_form_of_the_grammar_means_what_kubernetes_means() {
        let prod = [("env", "prod"), ("tier", "web"), ("rank", "7"), ("x/y", "")];
        for (text, wanted) in [
            ("", true),
            ("   ", true),
            ("env=prod", true),
            ("env==prod", true),
            (" env = prod ", true),
            ("env=staging", false),
            ("env!=staging", true),
            ("env!=prod", false),
            ("other!=prod", true),
            ("env in (prod,staging)", true),
            ("env in (a, b)", false),
            ("env notin (a,b)", true),
            ("other notin (a,b)", true),
            ("env notin(prod)", false),
            ("env", true),
            ("other", false),
            ("!other", true),
            ("!env", false),
            ("! other", true),
            ("rank>5", true),
            ("rank>7", false),
            ("rank<10", true),
            ("rank < 7", false),
            ("env>5", false),
            ("other<5", false),
            ("env=prod,tier=web", true),
            ("env=prod,tier=db", false),
            ("env=prod , !other,rank>1", true),
            ("x/y=", true),
            ("x/y=,env", true),
            ("x/y in (,a)", true),
            ("x/y in (a,)", true),
            ("x/y in (,)", true),
            ("in in (in)", false),
            ("in notin (in)", true),
            ("notin", false),
        ] {
            let selector = Selector::parse(text).unwrap();
            assert_eq!(selector.matches(&labels(&prod)), wanted, "{text:?}");
        }
        assert!(Selector::parse(" ").unwrap().is_everything());
        assert!(!Selector::parse("a").unwrap().is_everything());
    }

    #[test]
    fn what_kubernetes_refuses_is_refused() {
        for text in [
            "invalid===syntax",
            "a=b=c",
            "a b",
            "a=b,",
            ",a",
            "a,,b",
            "!",
            "!a=b",
            "!!a",
            "=a",
            "a in",
            "a in b",
            "a in ()",
            "a in (b",
            "a in (b c)",
            "a in (b))",
            "a>b",
            "a>",
            "a>1.5",
            "a=b!",
            "-a=b",
            "a/b/c=d",
            "a=-b",
            "a=b/c",
            "a@b",
            "(a)",
            "a=>b",
        ] {
            let error = Selector::parse(text).unwrap_err().to_string();
            assert!(error.contains("unable to parse selector"), "{error}");
            assert!(error.contains(text), "{error}");
        }
        let long = "a,".repeat(LONGEST);
        assert!(Selector::parse(&long).is_err());
    }

    proptest! {
        #[test]
        fn no_text_does_any_harm(text in "[a-c=!(),<> in]{0,30}") {
            if let Ok(selector) = Selector::parse(&text) {
                selector.matches(&labels(&[("a", "1"), ("b", "c")]));
            }
        }

        #[test]
        fn a_selector_and_its_negation_never_agree(
            value in "[a-c]",
            on_node in proptest::option::of("[a-c]"),
        ) {
            let labels: StringMap =
                on_node.into_iter().map(|value| ("k".to_owned(), value)).collect();
            for (yes, no) in [("k={}", "k!={}"), ("k in ({})", "k notin ({})"), ("k", "!k")] {
                let read = |form: &str| Selector::parse(&form.replace("{}", &value)).unwrap();
                prop_assert_ne!(read(yes).matches(&labels), read(no).matches(&labels));
            }
        }
    }
}
