//! The format for others: a JSON schema for editors and checkers, and the reference page.

use std::fmt::Write as _;

use serde_json::{Map, Value as Json, json};

use super::reference;
use super::schema::{Field, Kind};
use super::{MOST_CLOUDS, fields};
use crate::providers::PROVIDERS;

/// The JSON schema, as it is published.
pub(crate) fn json_schema() -> String {
    let mut schema = object(&fields());
    let head = json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Bowline's configuration",
    });
    let mut definitions = Map::new();
    definitions.insert("reference".to_owned(), reference_schema());
    for provider in PROVIDERS {
        let name = format!("settings-{}", provider.name);
        definitions.insert(name, of(&(provider.settings)()));
    }
    let by_provider: Vec<Json> = PROVIDERS
        .iter()
        .map(|provider| {
            let name = provider.name;
            json!({
                "if": {"properties": {"provider": {"const": name}}, "required": ["provider"]},
                "then": {"properties": {"settings": {"$ref": format!("#/$defs/settings-{name}")}}},
            })
        })
        .collect();
    schema["properties"]["clouds"]["minItems"] = json!(1);
    schema["properties"]["clouds"]["maxItems"] = json!(MOST_CLOUDS);
    schema["properties"]["clouds"]["items"]["allOf"] = Json::Array(by_provider);
    if let (Json::Object(schema), Json::Object(head)) = (&mut schema, head) {
        schema.extend(head);
        schema.insert("$defs".to_owned(), Json::Object(definitions));
    }
    format!("{schema:#}\n")
}

fn of(kind: &Kind) -> Json {
    match kind {
        // What is not quoted may look like a number or a switch and still be a text.
        Kind::Text => json!({"type": ["string", "number", "boolean"]}),
        Kind::Words(words) => json!({"enum": words}),
        Kind::Switch => json!({"type": "boolean"}),
        Kind::Whole(least, most) => {
            let mut schema = json!({"type": "integer"});
            if *least > i64::MIN {
                schema["minimum"] = json!(least);
            }
            if *most < i64::MAX {
                schema["maximum"] = json!(most);
            }
            schema
        }
        Kind::Number => json!({"type": "number"}),
        Kind::Duration => json!({"type": ["string", "integer"]}),
        Kind::Name => json!({
            "type": "string", "pattern": "^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$",
        }),
        Kind::Selector => json!({"type": "string"}),
        Kind::Secret => json!({"$ref": "#/$defs/reference"}),
        Kind::TextOrSecret => json!({
            "anyOf": [{"type": ["string", "number"]}, {"$ref": "#/$defs/reference"}],
        }),
        Kind::List(inner) => json!({"type": "array", "items": of(inner)}),
        Kind::Texts | Kind::Namespaces => json!({
            "anyOf": [of(&Kind::Text), {"type": "array", "items": of(&Kind::Text)}],
        }),
        Kind::Map(inner) => json!({"type": "object", "additionalProperties": of(inner)}),
        Kind::Object(fields) => object(fields),
        Kind::Settings => json!({"type": "object"}),
    }
}

fn object(fields: &[Field]) -> Json {
    let mut properties = Map::new();
    for field in fields {
        let mut schema = of(&field.kind);
        schema["description"] = json!(described(field));
        properties.insert(field.name.clone(), schema);
    }
    let mut schema = json!({
        "type": "object",
        "properties": properties,
        "additionalProperties": false,
    });
    let required = fields.iter().filter(|field| field.required);
    let required: Vec<&str> = required.map(|field| field.name.as_str()).collect();
    if !required.is_empty() {
        schema["required"] = json!(required);
    }
    schema
}

fn described(field: &Field) -> String {
    let mut text = field.meaning.clone();
    if !field.allowed.is_empty() {
        let _ = write!(text, " Allowed: {}.", field.allowed.trim_end_matches('.'));
    }
    if !field.default.is_empty() {
        let _ = write!(text, " Default: {}.", field.default.trim_end_matches('.'));
    }
    text.trim().to_owned()
}

fn reference_schema() -> Json {
    let mut schema = object(&reference::fields());
    schema["description"] = json!("Where a secret is: exactly one of the keys.");
    schema["minProperties"] = json!(1);
    schema["maxProperties"] = json!(1);
    schema
}

/// The reference page, in Markdown.
pub(crate) fn reference_page() -> String {
    let mut page = String::from(
        "# Configuration\n\n\
         Written from the tree in the source; do not edit by hand.\n\n\
         `bowline --config=bowline.yaml` runs with Bowline's own configuration: several clouds, of several kinds \
         or of\none, and everything else about the manager, in one file. `bowline config check FILE` checks one, \
         `bowline\nconfig migrate` makes one of an original's flags, environment and file, and\n\
         `bowline.schema.json` beside this page is its JSON schema (`bowline config schema`).\n\n\
         The file is YAML, one document. It is strict: a key that is not below, a value of another kind and a key\n\
         given twice are errors, and all of them are reported at once, each with line, column and path. The\n\
         variables of the environment that configure originals are not looked at.\n\n",
    );
    let _ = writeln!(page, "```yaml\n{EXAMPLE}```\n");
    table(&mut page, "", &fields());
    page.push_str(
        "\n## Secrets\n\n\
         A secret never stands in the file. In its place stands where it is, with exactly one of these keys:\n\n",
    );
    table(&mut page, "", &reference::fields());
    page.push_str(
        "\nFiles that a cloud reads again every few seconds are marked below; other secrets are read at the start. \
         Secrets\nof the cluster need the permission to read them.\n",
    );
    for provider in PROVIDERS {
        let _ = writeln!(page, "\n## Settings of {}\n", provider.name);
        if let Kind::Object(fields) = (provider.settings)() {
            table(&mut page, "", &fields);
        }
    }
    page
}

/// On the page, and read by a test.
pub(super) const EXAMPLE: &str = include_str!("example.yaml");

fn table(page: &mut String, path: &str, fields: &[Field]) {
    if path.is_empty() {
        page.push_str("| Key | Default | Allowed | Meaning |\n|---|---|---|---|\n");
    }
    rows(page, path, fields);
}

fn rows(page: &mut String, path: &str, fields: &[Field]) {
    for field in fields {
        let name = match path {
            "" => field.name.clone(),
            path => format!("{path}.{}", field.name),
        };
        let allowed = match field.allowed.as_str() {
            "" => field.kind.allowed(),
            allowed => allowed.to_owned(),
        };
        let default = match (field.required, field.default.as_str()) {
            (true, _) => "required",
            (false, "") => "none",
            (false, default) => default,
        };
        let cell = |text: &str| text.replace('|', "\\|");
        let followed = match field.file_as {
            Some(_) => " A file is read again every few seconds.",
            None => "",
        };
        let _ = writeln!(
            page,
            "| `{name}` | {} | {} | {}{followed} |",
            cell(default),
            cell(&allowed),
            cell(&field.meaning)
        );
        match &field.kind {
            Kind::Object(fields) => rows(page, &name, fields),
            Kind::List(inner) => {
                if let Kind::Object(fields) = inner.as_ref() {
                    rows(page, &format!("{name}[]"), fields);
                }
            }
            _ => {}
        }
    }
}
