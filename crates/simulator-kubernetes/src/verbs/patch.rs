//! Patch: four media types, one way to store the result.

use serde_json::{Value, json};

use super::body::{check_type, yaml};
use super::{Call, create, update};
use crate::managed;
use crate::object::text;
use crate::patch::{go_text, json_patch, merge_patch, strategic_patch};
use crate::respond::{Reply, media_type};
use crate::schema;
use crate::status::Refusal;
use crate::store::State;
use crate::strategy::drop_field;
use crate::strategy::problem::{self, Problem};
use crate::words;

/// How a patch is to be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Style {
    Json,
    Merge,
    Strategic,
    Apply,
}

const STYLES: [(&str, Style); 4] = [
    ("application/apply-patch+yaml", Style::Apply),
    ("application/json-patch+json", Style::Json),
    ("application/merge-patch+json", Style::Merge),
    ("application/strategic-merge-patch+json", Style::Strategic),
];

fn style(call: &Call) -> Result<Style, Refusal> {
    let media = media_type(&call.headers);
    STYLES
        .iter()
        .find(|(name, _)| *name == media)
        .map(|(_, style)| *style)
        .ok_or_else(|| {
            let mut refusal =
                Refusal::new(415, "UnsupportedMediaType", "415: Unsupported Media Type");
            refusal.details = json!({});
            refusal
        })
}

/// Answers a patch request.
pub fn patch(call: &Call, state: &mut State) -> Result<Reply, Refusal> {
    let style = style(call)?;
    call.check_options("PatchOptions")?;
    check_options(call, style)?;
    let patch = read(call, style)?;
    if style == Style::Apply {
        return apply(call, state, patch);
    }
    let old = state
        .get(call.kind, &call.path())
        .ok_or_else(|| Refusal::not_found(call.kind, &call.name))?;
    let mut patched = match style {
        Style::Json => json_patch(&old, &patch)?,
        Style::Merge => merge_patch(&old, &patch),
        _ => strategic_patch(call.kind, &old, &patch)?,
    };
    let shown = match style {
        Style::Strategic => go_text(&patch),
        _ => patched.to_string(),
    };
    check_type(&patched, &call.kind.api_version(), call.kind.kind).map_err(|refusal| {
        let start = format!("cannot be handled as a {}: ", call.kind.kind);
        match refusal.message.split_once(&start) {
            Some((_, why)) => schema::refuse_patched(&shown, why),
            None => refusal,
        }
    })?;
    patched["apiVersion"] = call.kind.api_version().into();
    patched["kind"] = call.kind.kind.into();
    let validation = call.field_validation();
    let (mut patched, mut warnings) =
        schema::check_patched(call.kind, patched, validation, &shown)?;
    call.check_name(&patched)?;
    call.place(&mut patched)?;
    let (saved, more) = update::replace(call, state, &old, patched, false)?;
    warnings.extend(more);
    Ok(Reply::object(200, saved).warn(warnings))
}

fn check_options(call: &Call, style: Style) -> Result<(), Refusal> {
    let mut problems = Vec::new();
    if style == Style::Apply {
        if call.query.get("fieldManager").is_empty() {
            let detail = "is required for apply patch";
            problems.push(Problem::required("fieldManager", detail));
        }
    } else if call.query.maybe("force").is_some() {
        let detail = "may not be specified for non-apply patch";
        problems.push(Problem::forbidden("force", detail));
    }
    problem::check_options("PatchOptions", &problems)
}

fn read(call: &Call, style: Style) -> Result<Value, Refusal> {
    if style == Style::Apply {
        return yaml(&call.body)
            .map_err(|error| Refusal::bad_request(format!("error decoding YAML: {error}")));
    }
    let start = match style {
        Style::Strategic => "",
        _ => "error decoding patch: ",
    };
    let patch: Value = serde_json::from_slice(&call.body)
        .map_err(|error| words::json_error(&call.body, &error))
        .map_err(|why| Refusal::bad_request(format!("{start}{why}")))?;
    if style != Style::Json && !patch.is_object() {
        return Err(Refusal::bad_request(format!(
            "{start}json: cannot unmarshal {} into Go value of type map[string]interface {{}}",
            words::json_kind(&patch)
        )));
    }
    Ok(patch)
}

/// Server-side apply.
fn apply(call: &Call, state: &mut State, mut config: Value) -> Result<Reply, Refusal> {
    check_applied_type(call, &config)?;
    if !config["metadata"].is_object() {
        config["metadata"] = json!({});
    }
    if text(&config, "/metadata/name").is_empty() {
        config["metadata"]["name"] = call.name.as_str().into();
    }
    call.check_name(&config)?;
    // Refusals show the namespace as it was sent.
    call.place(&mut config.clone())?;
    // Nobody owns what this path does not write.
    if call.kind.subresources.contains(&"status") {
        let foreign = match call.subresource.as_str() {
            "status" => "spec",
            _ => "status",
        };
        drop_field(&mut config, foreign);
    }
    let force = call.query.flag("force") == Some(true);
    let old = state.get(call.kind, &call.path());
    let wanted = text(&config, "/metadata/uid");
    if old.is_none() && !wanted.is_empty() {
        let why = format!(
            "uid mismatch: the provided object specified uid {wanted}, and no existing object was found"
        );
        return Err(Refusal::conflict(call.kind, &call.name, &why));
    }
    let mut merged = managed::apply(call.kind, old.as_deref(), &config, &call.writer(), force)?;
    call.place(&mut merged)?;
    let (code, (saved, warnings)) = match old {
        Some(old) => (200, update::replace(call, state, &old, merged, true)?),
        None if !call.subresource.is_empty() => {
            return Err(Refusal::not_found(call.kind, &call.name));
        }
        None => {
            call.may_create.clone()?;
            (201, create::insert(call, state, merged, true)?)
        }
    };
    Ok(Reply::object(code, saved).warn(warnings))
}

/// Refuses to apply an object of another kind.
fn check_applied_type(call: &Call, config: &Value) -> Result<(), Refusal> {
    let (version, kind) = (text(config, "/apiVersion"), text(config, "/kind"));
    if version == call.kind.api_version() && kind == call.kind.kind {
        return Ok(());
    }
    let (group, version) = version.split_once('/').unwrap_or(("", version));
    Err(Refusal::bad_request(format!(
        "invalid object type: {group}/{version}, Kind={kind}"
    )))
}
