//! Lists: which objects, which of their members, how many, and how they are written.

use bowline_simulator::serve::{self, Body};
use http::{Response, StatusCode};
use serde_json::{Map, Value, json};

use super::filter;
use super::refusals::{OrRefusal, Refusal, answer};
use super::routes::Asked;

/// Checks the parameters of a list, and picks from it.
pub(super) fn chosen(asked: &Asked<'_>, all: Vec<Value>) -> OrRefusal<Vec<Value>> {
    let limit = limit(asked)?;
    let term = match asked.parameter("filter") {
        Some(text) => Some(filter::parse(text).map_err(|message| Refusal::filter(&message, text))?),
        None => None,
    };
    let meant = all.into_iter();
    let meant = meant.filter(|it| term.as_ref().is_none_or(|term| term.fits(Some(it))));
    Ok(meant.take(limit).collect())
}

/// The parameter `limit`; anything but a whole number from 0 on is none, as on the real server.
fn limit(asked: &Asked<'_>) -> OrRefusal<usize> {
    let Some(text) = asked.parameter("limit") else {
        return Ok(usize::MAX);
    };
    if text.parse::<f64>().is_err() {
        let value = json!(text);
        return Err(Refusal::parameter(
            "limit",
            "invalid float number",
            Some(&value),
        ));
    }
    Ok(text.parse().unwrap_or(usize::MAX))
}

/// A list as it was asked for: paths, objects or some of their members, in one of three forms.
pub(super) fn written(asked: &Asked<'_>, all: Vec<Value>) -> OrRefusal<Response<Body>> {
    let mapped: Vec<Value> = chosen(asked, all)?
        .into_iter()
        .map(|object| mapped(asked, object))
        .collect();
    match (asked.flag("ndjson")?, asked.flag("markdown")?) {
        (true, true) => Err(Refusal::parameters(
            "Cannot use both ndjson and markdown output formats simultaneously",
        )),
        (true, false) => {
            let lines: Vec<String> = mapped.iter().map(Value::to_string).collect();
            let end = if lines.is_empty() { "" } else { "\n" };
            let lines = lines.join("\n") + end;
            Ok(serve::of_type(
                StatusCode::OK,
                "application/x-ndjson",
                lines,
            ))
        }
        (false, true) => {
            let kind = "text/markdown; charset=utf-8";
            Ok(serve::of_type(StatusCode::OK, kind, table(&mapped)))
        }
        (false, false) => Ok(answer(StatusCode::OK, &Value::Array(mapped))),
    }
}

fn mapped(asked: &Asked<'_>, object: Value) -> Value {
    let id = object["id"].as_str().unwrap_or_default();
    let href = json!(format!("{}/{id}", asked.path.trim_end_matches('/')));
    let (Some(fields), Value::Object(all)) = (asked.parameter("fields"), object) else {
        return href;
    };
    let mut shown: Map<String, Value> = if fields == "*" {
        all
    } else {
        let wanted: Vec<&str> = fields.split(',').collect();
        let kept = all
            .into_iter()
            .filter(|(name, _)| wanted.contains(&name.as_str()));
        kept.collect()
    };
    shown.insert("href".to_owned(), href);
    Value::Object(shown)
}

/// A table for people, with the columns of the first row.
fn table(rows: &[Value]) -> String {
    let Some(first) = rows.first() else {
        return "No results.".to_owned();
    };
    let Some(first) = first.as_object() else {
        let paths: Vec<&str> = rows.iter().filter_map(Value::as_str).collect();
        return paths.join("\n");
    };
    let columns: Vec<&String> = first.keys().filter(|name| *name != "href").collect();
    let names: Vec<&str> = columns.iter().map(|name| name.as_str()).collect();
    let line = |cells: &[String]| format!("| {} |", cells.join(" | "));
    let mut lines = vec![
        format!("| {} |", names.join(" | ")),
        format!("| {} |", vec!["---"; names.len()].join(" | ")),
    ];
    for row in rows {
        let cells: Vec<String> = columns
            .iter()
            .map(|name| cell(&row[name.as_str()]))
            .collect();
        lines.push(line(&cells));
    }
    lines.join("\n")
}

fn cell(value: &Value) -> String {
    let text = match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    text.replace('|', "\\|").replace('\n', " ")
}
