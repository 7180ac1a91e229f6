//! What Go itself makes of templates and regular expressions, and that we make the same of them.
//! `judge/` made the vectors.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test may"
)]

use std::collections::BTreeMap;
use std::sync::Arc;

use bowline_templates::{Functions, GoRegex, Record, Template, Value};
use serde::Deserialize;

#[derive(Deserialize)]
struct Vectors {
    templates: Vec<Rendering>,
    expressions: Vec<Expression>,
}

#[derive(Deserialize)]
struct Rendering {
    template: String,
    text: Option<String>,
    #[serde(default)]
    error: String,
}

#[derive(Deserialize)]
struct Expression {
    pattern: String,
    text: String,
    replacement: String,
    valid: bool,
    #[serde(default)]
    groups: Vec<String>,
    replaced: String,
}

fn vectors() -> Vectors {
    serde_json::from_str(include_str!("vectors.json")).unwrap()
}

/// The data of the judge.
fn data() -> Value {
    let tags: BTreeMap<String, String> = [("team", "core"), ("a-b", "x y"), ("zero", "")]
        .map(|(key, value)| (key.to_owned(), value.to_owned()))
        .into();
    let inner = Record {
        name: "main.inner",
        fields: vec![("Name", Value::text("n")), ("Empty", Value::text(""))],
    };
    Value::Record(Arc::new(Record {
        name: "main.data",
        fields: vec![
            ("Region", Value::text("eu-1")),
            ("Zone", Value::text("")),
            ("Long", Value::text("11111111-2222")),
            ("Spot", Value::Bool(true)),
            ("Count", Value::Int(3)),
            ("Tags", Value::Map(Arc::new(tags))),
            ("None", Value::Map(Arc::default())),
            ("Inner", Value::Record(Arc::new(inner))),
        ],
    }))
}

/// What we make of a template: the text, or which kind of error.
fn outcome(source: &str, functions: &Arc<Functions>, data: &Value) -> Result<String, &'static str> {
    let template = Template::parse(source, functions).map_err(|_| "parse")?;
    template.render(data).map_err(|_| "render")
}

/// The one thing that we take differently on purpose: half a character, which is no text.
fn is_half_a_character(
    template: &str,
    go: Result<&String, &str>,
    ours: Result<&String, &str>,
) -> bool {
    let sliced = template.contains("slice") && template.contains('é');
    sliced && go.is_ok() && ours == Err("render")
}

#[test]
fn templates_render_as_in_go() {
    let (functions, data) = (Arc::new(Functions::builtin()), data());
    let mut wrong = Vec::new();
    for vector in vectors().templates {
        let wanted = vector.text.ok_or(vector.error.as_str());
        let found = outcome(&vector.template, &functions, &data);
        let found = found.as_ref().map_err(|kind| *kind);
        let wanted = wanted.as_ref().map_err(|kind| *kind);
        if found != wanted && !is_half_a_character(&vector.template, wanted, found) {
            wrong.push(format!(
                "{:?}\n   go {wanted:?}\n we {found:?}",
                vector.template
            ));
        }
    }
    assert!(
        wrong.is_empty(),
        "{} differ:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}

#[test]
fn expressions_match_as_in_go() {
    let mut wrong = Vec::new();
    for vector in vectors().expressions {
        let Expression {
            pattern,
            text,
            replacement,
            valid,
            groups,
            replaced,
        } = vector;
        let ours = match GoRegex::new(&pattern) {
            Err(error) if valid => Some(error.to_string()),
            Err(_) => None,
            Ok(_) if !valid => Some("accepted".to_owned()),
            Ok(regex) => {
                let found: Vec<String> = if regex.is_match(&text) {
                    let group = |n| regex.group(&text, n).unwrap_or("").to_owned();
                    (0..groups.len().max(1)).map(group).collect()
                } else {
                    Vec::new()
                };
                let new = regex.replace_all(&text, &replacement).unwrap();
                (found != groups || new != replaced).then(|| format!("{found:?} {new:?}"))
            }
        };
        if let Some(ours) = ours {
            wrong.push(format!(
                "{pattern:?} on {text:?}: go {groups:?} {replaced:?}, we {ours}"
            ));
        }
    }
    assert!(
        wrong.is_empty(),
        "{} differ:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}
