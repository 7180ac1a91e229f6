//! Reads `types.txt`.

use std::collections::BTreeMap;

use serde_json::Value;

use super::{Catalogue, Field, ListShape, PatchStrategy, Struct, Type, Written};

/// Reads the text: names first, then fields, because types name one another in any order.
pub(super) fn read(text: &'static str) -> Result<Catalogue, String> {
    let packages = packages(text);
    let places = places(text)?;
    let mut catalogue = Catalogue {
        structs: Vec::new(),
        places,
    };
    let mut alias = "";
    for (number, line) in lines(text) {
        let fail = |what: &str| format!("line {number}: {what}: {line}");
        if let Some(rest) = line.strip_prefix("package ") {
            alias = rest.split(' ').next().unwrap_or_default();
        } else if let Some(rest) = line.strip_prefix(' ') {
            let names = Names {
                places: &catalogue.places,
                packages: &packages,
                alias,
            };
            let field = names.field(rest).map_err(|error| fail(&error))?;
            let owner = catalogue.structs.last_mut();
            owner
                .ok_or_else(|| fail("a field without a type"))?
                .fields
                .push(field);
        } else {
            let mut words = line.split(' ');
            catalogue.structs.push(Struct {
                name: words.next().unwrap_or_default(),
                package: packages.get(alias).copied().unwrap_or_default(),
                atomic: words.next() == Some("atomic"),
                fields: Vec::new(),
            });
        }
    }
    Ok(catalogue)
}

fn lines(text: &'static str) -> impl Iterator<Item = (usize, &'static str)> {
    text.lines()
        .enumerate()
        .map(|(index, line)| (index + 1, line))
        .filter(|(_, line)| !line.is_empty() && !line.starts_with('#'))
}

fn packages(text: &'static str) -> BTreeMap<&'static str, &'static str> {
    lines(text)
        .filter_map(|(_, line)| line.strip_prefix("package ")?.split_once(' '))
        .collect()
}

fn places(text: &'static str) -> Result<BTreeMap<String, usize>, String> {
    let mut places = BTreeMap::new();
    let mut prefix = "";
    for (number, line) in lines(text) {
        if let Some(rest) = line.strip_prefix("package ") {
            let (_, name) = rest
                .split_once(' ')
                .ok_or_else(|| format!("line {number}: a package needs two names"))?;
            prefix = name;
        } else if !line.starts_with(' ') {
            let name = line.split(' ').next().unwrap_or_default();
            let place = places.len();
            if places.insert(format!("{prefix}.{name}"), place).is_some() {
                return Err(format!("line {number}: {name} is there twice"));
            }
        }
    }
    Ok(places)
}

struct Names<'a> {
    places: &'a BTreeMap<String, usize>,
    packages: &'a BTreeMap<&'static str, &'static str>,
    alias: &'static str,
}

impl Names<'_> {
    fn field(&self, line: &'static str) -> Result<Field, String> {
        let mut words = line.split(' ');
        let (name, required, written) = marks(words.next().unwrap_or_default());
        let text = words.next().ok_or("a field needs a type")?;
        let mut field = Field {
            name,
            kind: self.kind(text.trim_end_matches('?'))?,
            optional: text.ends_with('?'),
            required,
            written,
            list: ListShape::Atomic,
            atomic: false,
            patch: PatchStrategy::default(),
            default: None,
            go: None,
        };
        if field.written == Written::Always && !field.optional {
            field.default = zero(&field.kind);
        }
        for word in words {
            option(&mut field, word)?;
        }
        Ok(field)
    }

    fn kind(&self, text: &str) -> Result<Type, String> {
        let inner = |open, close| text.strip_prefix(open).and_then(|t| t.strip_suffix(close));
        if let Some(element) = inner('[', ']') {
            return Ok(Type::List(Box::new(self.kind(element)?)));
        }
        if let Some(element) = inner('{', '}') {
            return Ok(Type::Map(Box::new(self.kind(element)?)));
        }
        Ok(match text {
            "string" => Type::Text,
            "bool" => Type::Boolean,
            "int32" => Type::Integer32,
            "int64" => Type::Integer64,
            "quantity" => Type::Quantity,
            "int-or-string" => Type::IntOrString,
            "time" => Type::Time,
            "microtime" => Type::MicroTime,
            "bytes" => Type::Bytes,
            "raw" => Type::Raw,
            name => {
                let (alias, name) = name.split_once('.').unwrap_or((self.alias, name));
                let package = self.packages.get(alias).ok_or("no such package")?;
                let place = self.places.get(&format!("{package}.{name}"));
                Type::Struct(*place.ok_or("no such type")?)
            }
        })
    }
}

fn marks(word: &'static str) -> (&'static str, bool, Written) {
    let (word, written) = if let Some(word) = word.strip_suffix('+') {
        (word, Written::Always)
    } else if let Some(word) = word.strip_suffix('0') {
        (word, Written::WhenNotZero)
    } else {
        (word, Written::WhenSet)
    };
    let name = word.strip_suffix('!');
    (name.unwrap_or(word), name.is_some(), written)
}

/// What stands for a scalar that is missing.
fn zero(kind: &Type) -> Option<Value> {
    match kind {
        Type::Text => Some("".into()),
        Type::Boolean => Some(false.into()),
        Type::Integer32 | Type::Integer64 => Some(0.into()),
        _ => None,
    }
}

fn option(field: &mut Field, word: &'static str) -> Result<(), String> {
    match word.split_once('=').unwrap_or((word, "")) {
        ("set", "") => field.list = ListShape::Set,
        ("map", keys) => field.list = ListShape::Map(keys.split(',').collect()),
        ("atomic", "") => field.atomic = true,
        ("patch", strategies) => {
            for strategy in strategies.split(',') {
                match strategy {
                    "merge" => field.patch.merge = true,
                    "retainKeys" => field.patch.retain_keys = true,
                    _ => return Err(format!("unknown patch strategy {strategy}")),
                }
            }
        }
        ("key", key) => field.patch.key = Some(key),
        ("default", json) => {
            field.default = Some(serde_json::from_str(json).map_err(|error| error.to_string())?);
        }
        ("go", name) => field.go = Some(name),
        _ => return Err(format!("unknown word {word}")),
    }
    Ok(())
}
