//! The language of filters: which objects of a list are meant.
//!
//! Terms side by side must all hold. A term is `name:term`, `name?`, `!term`, `|(terms)`, `(terms)`, a
//! comparison such as `>=2`, a `/pattern/`, a `"text"`, or a word, in which `*` stands for anything. Texts
//! and words are looked for anywhere in a value, in either case, also inside lists and objects.

use regex::bytes::{Regex, RegexBuilder};
use serde_json::Value;

/// How deep terms may lie in each other: far more than people write, far less than a stack holds.
const DEEPEST: usize = 64;

/// What an object must be like.
#[derive(Clone, Debug)]
pub(super) enum Term {
    All(Vec<Self>),
    Any(Vec<Self>),
    Not(Box<Self>),
    Property(String, Box<Self>),
    Truthy(String),
    /// The wanted order of the value and the number, and whether they may be equal.
    Compared(std::cmp::Ordering, bool, f64),
    /// A word that may be a number; texts have none.
    Text(String, Option<f64>),
    Pattern(Regex),
}

/// Reads a filter; the error is what the API says about it.
pub(super) fn parse(text: &str) -> Result<Term, String> {
    let mut reader = Reader {
        text: text.chars().collect(),
        at: 0,
        no_number: false,
    };
    reader.blanks();
    let terms = reader.terms(0);
    if reader.no_number {
        return Err("value must be a number".to_owned());
    }
    if reader.at < reader.text.len() {
        let at = reader.at;
        return Err(format!(
            "parse error: expected end of input at position {at}"
        ));
    }
    Ok(Term::All(terms))
}

struct Reader {
    text: Vec<char>,
    at: usize,
    /// Something was to be compared with what is no number.
    no_number: bool,
}

impl Reader {
    fn peek(&self) -> Option<char> {
        self.text.get(self.at).copied()
    }

    fn take(&mut self, wanted: char) -> Option<()> {
        (self.peek()? == wanted).then(|| self.at += 1)
    }

    fn blanks(&mut self) {
        while self.peek().is_some_and(char::is_whitespace) {
            self.at += 1;
        }
    }

    /// As many terms as there are.
    fn terms(&mut self, depth: usize) -> Vec<Term> {
        let mut found = Vec::new();
        while let Some(term) = self.attempt(|reader| reader.term(depth)) {
            found.push(term);
            self.blanks();
        }
        found
    }

    /// Reads something, or goes back to where it was.
    fn attempt<T>(&mut self, read: impl FnOnce(&mut Self) -> Option<T>) -> Option<T> {
        let before = self.at;
        let found = read(self);
        if found.is_none() {
            self.at = before;
        }
        found
    }

    fn term(&mut self, depth: usize) -> Option<Term> {
        if depth > DEEPEST {
            return None;
        }
        self.attempt(|it| it.group(depth).map(Term::All))
            .or_else(|| {
                self.attempt(|it| {
                    it.take('|')?;
                    it.blanks();
                    it.group(depth).map(Term::Any)
                })
            })
            .or_else(|| {
                self.attempt(|it| {
                    it.take('!')?;
                    it.blanks();
                    it.term(depth + 1).map(|term| Term::Not(Box::new(term)))
                })
            })
            .or_else(|| self.attempt(Self::comparison))
            .or_else(|| self.attempt(|it| it.property(depth)))
            .or_else(|| self.attempt(Self::value))
    }

    /// Terms in parentheses, at least one.
    fn group(&mut self, depth: usize) -> Option<Vec<Term>> {
        self.take('(')?;
        self.blanks();
        let terms = self.terms(depth + 1);
        self.take(')')?;
        (!terms.is_empty()).then_some(terms)
    }

    fn comparison(&mut self) -> Option<Term> {
        let order = match self.peek()? {
            '<' => std::cmp::Ordering::Less,
            '>' => std::cmp::Ordering::Greater,
            _ => return None,
        };
        self.at += 1;
        let equal = self.take('=').is_some();
        let number = self.word(is_plain)?.parse().ok();
        self.no_number |= number.is_none();
        let number = number?;
        Some(Term::Compared(order, equal, number))
    }

    fn property(&mut self, depth: usize) -> Option<Term> {
        let name = self.attempt(Self::quoted).or_else(|| self.word(is_plain))?;
        if self.take('?').is_some() {
            return Some(Term::Truthy(name));
        }
        self.blanks();
        self.take(':')?;
        self.blanks();
        let term = self.term(depth + 1)?;
        Some(Term::Property(name, Box::new(term)))
    }

    fn value(&mut self) -> Option<Term> {
        if let Some(text) = self.attempt(Self::quoted) {
            return Some(Term::Text(text.to_lowercase(), None));
        }
        if let Some(pattern) = self.attempt(Self::pattern) {
            return Some(Term::Pattern(pattern));
        }
        let word = self.word(|letter| letter == '*' || is_plain(letter))?;
        if let Ok(number) = word.parse() {
            return Some(Term::Text(word.to_lowercase(), Some(number)));
        }
        if !word.contains('*') {
            return Some(Term::Text(word.to_lowercase(), None));
        }
        let parts: Vec<String> = word.split('*').map(regex::escape).collect();
        compiled(&parts.join(".*"), true).map(Term::Pattern)
    }

    fn word(&mut self, fits: impl Fn(char) -> bool) -> Option<String> {
        let mut word = String::new();
        while let Some(letter) = self.peek().filter(|letter| fits(*letter)) {
            self.at += 1;
            word.push(letter);
        }
        (!word.is_empty()).then_some(word)
    }

    fn quoted(&mut self) -> Option<String> {
        self.take('"')?;
        let mut text = String::new();
        while let Some(mut letter) = self.peek() {
            self.at += 1;
            if letter == '"' {
                break;
            }
            if letter == '\\' {
                letter = self.peek()?;
                self.at += 1;
            }
            text.push(letter);
        }
        Some(text)
    }

    fn pattern(&mut self) -> Option<Regex> {
        self.take('/')?;
        let (mut pattern, mut escaped) = (String::new(), false);
        loop {
            let letter = self.peek()?;
            self.at += 1;
            if letter == '/' && !escaped {
                break;
            }
            escaped = letter == '\\';
            pattern.push(letter);
        }
        let any_case = self.take('i').is_some();
        compiled(&pattern, any_case)
    }
}

fn compiled(pattern: &str, any_case: bool) -> Option<Regex> {
    let mut builder = RegexBuilder::new(pattern);
    let built = builder.unicode(false).case_insensitive(any_case).build();
    built.ok()
}

/// Letters of words that need no quotes.
fn is_plain(letter: char) -> bool {
    letter.is_ascii_digit() || "_-.$".contains(letter) || letter.is_alphabetic()
}

impl Term {
    /// Whether a value is meant; none: there is no such value.
    pub(super) fn fits(&self, value: Option<&Value>) -> bool {
        match self {
            Self::All(terms) => terms.iter().all(|term| term.fits(value)),
            Self::Any(terms) => terms.iter().any(|term| term.fits(value)),
            Self::Not(term) => !term.fits(value),
            Self::Property(name, term) => value
                .is_some_and(|value| !value.is_null() && term.fits(member(value, name).as_ref())),
            Self::Truthy(name) => value
                .and_then(|value| member(value, name))
                .is_some_and(|it| truthy(&it)),
            Self::Compared(order, equal, number) => {
                let found = value
                    .and_then(Value::as_f64)
                    .and_then(|it| it.partial_cmp(number));
                found.is_some_and(|found| found == *order || (*equal && found.is_eq()))
            }
            Self::Text(text, number) => value.is_some_and(|value| {
                within(value, &|value| match value {
                    Value::String(found) => found.to_lowercase().contains(text),
                    Value::Number(found) => number.is_some() && found.as_f64() == *number,
                    _ => false,
                })
            }),
            Self::Pattern(pattern) => value.is_some_and(|value| {
                let matches = |value: &Value| {
                    value
                        .as_str()
                        .is_some_and(|it| pattern.is_match(it.as_bytes()))
                };
                within(value, &matches)
            }),
        }
    }
}

/// Whether something holds for a value, or for anything in it.
fn within(value: &Value, holds: &dyn Fn(&Value) -> bool) -> bool {
    match value {
        Value::Array(all) => all.iter().any(|it| within(it, holds)),
        Value::Object(all) => all.values().any(|it| within(it, holds)),
        plain => holds(plain),
    }
}

/// A member of an object; texts and lists have a length.
fn member(value: &Value, name: &str) -> Option<Value> {
    match value {
        Value::Object(all) => all.get(name).cloned(),
        Value::Array(all) if name == "length" => Some(all.len().into()),
        Value::String(text) if name == "length" => Some(text.encode_utf16().count().into()),
        _ => None,
    }
}

fn truthy(value: &Value) -> bool {
    match value {
        Value::Null => false,
        Value::Bool(value) => *value,
        Value::Number(number) => number.as_f64() != Some(0.0),
        Value::String(text) => !text.is_empty(),
        Value::Array(_) | Value::Object(_) => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_filter_means_some_objects() {
        let object = json!({
            "id": "c1a9d5b2-4e7f-4a63-9b1d-0f2e3d4c5b6a", "$pool": "0b2f7c0e", "power_state": "Running",
            "name_label": "Worker 1", "CPUs": {"max": 4}, "tags": ["k8s", "Prod"], "empty": "",
            "residentVms": [null, "x"],
        });
        for (filter, wanted) in [
            ("", true),
            ("id:c1a9", true),
            ("id:C1A9D5B2", true),
            ("id:c1a8", false),
            ("id:|(zzz c1a9)", true),
            ("id:| ( zzz )", false),
            ("power_state:running", true),
            ("power_state:/^running$/", false),
            ("power_state:/^running$/i", true),
            ("power_state:Run*ng", true),
            ("power_state:Run*x", false),
            ("!power_state:halted $pool:0b2f7c0e", true),
            ("!power_state:running", false),
            ("tags:prod", true),
            ("CPUs:max:>3", true),
            ("CPUs:max:>=4", true),
            ("CPUs:max:<4", false),
            ("CPUs:max:4", true),
            ("CPUs:4", true),
            ("CPUs:max:5", false),
            ("name_label:\"worker 1\"", true),
            ("\"name_label\":worker", true),
            ("worker", true),
            ("tags?", true),
            ("empty?", false),
            ("missing?", false),
            ("missing:x", false),
            ("tags:length:2", true),
            ("(id:c1a9 tags:prod)", true),
        ] {
            let term = parse(filter).unwrap();
            assert_eq!(term.fits(Some(&object)), wanted, "{filter}");
        }
    }

    #[test]
    fn what_is_no_filter_is_refused_with_its_place() {
        for (filter, at) in [
            ("id:|()", 2),
            ("id:", 2),
            ("a )", 2),
            ("(a", 0),
            ("id:/x", 2),
            ("a:[b]", 1),
        ] {
            let said = parse(filter).unwrap_err();
            assert_eq!(
                said,
                format!("parse error: expected end of input at position {at}"),
                "{filter}"
            );
        }
        assert_eq!(parse("a:>x").unwrap_err(), "value must be a number");
        let deep = "(".repeat(10_000);
        assert!(parse(&deep).is_err());
    }
}
