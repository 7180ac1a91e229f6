//! Tables of calls: which operation of an API a method and a path mean.

use crate::glob;

/// One call that an API serves.
#[derive(Clone, Copy, Debug)]
pub struct Call {
    pub method: &'static str,
    /// Its path. Braces stand for one part of it: `instance/{id}:start`.
    pub pattern: &'static str,
    /// The API's own name of it.
    pub operation: &'static str,
}

/// All calls that an API serves; the first that fits counts.
#[derive(Debug)]
pub struct Calls(Vec<Call>);

impl Calls {
    /// Lines of a method, a path and an operation.
    pub fn new(table: &'static str) -> Self {
        let row = |line: &'static str| {
            let mut words = line.split_whitespace();
            Some(Call {
                method: words.next()?,
                pattern: words.next()?,
                operation: words.next()?,
            })
        };
        Self(table.lines().filter_map(row).collect())
    }

    pub fn all(&self) -> impl Iterator<Item = Call> {
        self.0.iter().copied()
    }

    /// The operation of a call, and what stands for the braces of its path.
    pub fn find<'a>(&self, method: &str, path: &'a str) -> Option<(&'static str, Vec<&'a str>)> {
        let mut all = self.all().filter(|call| call.method == method);
        all.find_map(|call| {
            let parts = call.fit(path)?.into_iter();
            Some((call.operation, parts.map(|(_, part)| part).collect()))
        })
    }

    /// Whether an operation of that name exists, or some fit a pattern with `*`.
    pub fn has(&self, pattern: &str) -> bool {
        self.all().any(|call| glob::fits(pattern, call.operation))
    }
}

impl Call {
    /// What stands for the braces, by what is in them, if the path fits.
    pub fn fit<'a>(&self, path: &'a str) -> Option<Vec<(&'static str, &'a str)>> {
        let mut found = Vec::new();
        let mut parts = path.split('/');
        for wanted in self.pattern.split('/') {
            let part = parts.next()?;
            let braces = wanted.strip_prefix('{');
            match braces.and_then(|rest| rest.split_once('}')) {
                Some((name, ending)) => {
                    let value = part.strip_suffix(ending)?;
                    if value.is_empty() {
                        return None;
                    }
                    found.push((name, value));
                }
                None if wanted == part => {}
                None => return None,
            }
        }
        parts.next().is_none().then_some(found)
    }
}
