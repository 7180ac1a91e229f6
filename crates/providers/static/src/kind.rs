//! What the program knows about machines from a file.

use std::path::PathBuf;
use std::sync::Arc;

use bowline_core::{Cloud, NodeMatch};
use bowline_http::{Reloaded, SmallFile, Source as _};
use bowline_provider::{BuildError, Capabilities, ConfigFile, Field, Finding, Kind};
use bowline_provider::{ProviderContext, ProviderInput, ProviderKind, text};
use serde_json::Map;

use crate::file::{LARGEST, MachinesFile};
use crate::{PROVIDER, Static};

pub const KIND: ProviderKind = ProviderKind {
    name: PROVIDER,
    title: "static",
    replaces: None,
    capabilities: Capabilities {
        load_balancers: false,
        networks: false,
    },
    settings: || {
        let meaning = "The file of machines. It is read again when it changes.";
        Kind::object([Field::new("file", Kind::Text, meaning)
            .required()
            .allows("a path")])
    },
    flags: Vec::new,
    input: |settings| ProviderInput {
        file: text(settings.get("file")).map(|path| ConfigFile::Path(PathBuf::from(path))),
        ..ProviderInput::default()
    },
    check: |input| match file(input) {
        Err(missing) => vec![missing],
        // It may be right where the manager runs.
        Ok(file) => match file.load() {
            Err(error) => vec![Finding::odd(format!("not checked: {error}"))],
            Ok(_) => Vec::new(),
        },
    },
    migrate: |_, _| Ok(Map::new()),
    match_node: |node| NodeMatch::by_scheme(PROVIDER, node),
    build: |context| Box::pin(async move { build(context) }),
};

fn file(input: &ProviderInput) -> Result<MachinesFile, Finding> {
    match &input.file {
        Some(ConfigFile::Path(path)) => Ok(MachinesFile(SmallFile::new(path, LARGEST))),
        _ => Err(Finding::wrong(
            "--cloud-config (settings.file): the file of machines is missing",
        )),
    }
}

fn build(context: &ProviderContext) -> Result<Arc<dyn Cloud>, BuildError> {
    let file = file(&context.input).map_err(|missing| BuildError::Settings(vec![missing]))?;
    let path = file.0.path().display().to_string();
    let file = Reloaded::begin(file).map_err(|error| BuildError::NotYet(error.into()))?;
    Ok(Arc::new(Static {
        name: context.name.clone(),
        path,
        _following: file.follow(),
        file,
        clock: context.clock.clone(),
    }))
}
