//! What the program knows about machines from a file.

use std::path::PathBuf;
use std::sync::Arc;

use bowline_core::Cloud;
use bowline_provider::{
    BuildError, Capabilities, ConfigFile, Field, Finding, Kind, NodeMatch, ProviderContext,
    ProviderInput, ProviderKind, text,
};
use serde_json::Map;

use crate::file::{Followed, Machines};
use crate::{PROVIDER, Static};

/// Machines from a file.
pub const KIND: ProviderKind = ProviderKind {
    name: PROVIDER,
    title: "static",
    replaces: None,
    capabilities: Capabilities {
        load_balancers: false,
        networks: false,
    },
    settings: || {
        let meaning = "The file with the machines, read again when it changes.";
        Kind::object([Field::new("file", Kind::Text, meaning)
            .required()
            .allows("a path")])
    },
    flags: Vec::new,
    input: |settings| ProviderInput {
        file: text(settings.get("file")).map(|path| ConfigFile::Path(PathBuf::from(path))),
        ..ProviderInput::default()
    },
    check: |input| match &input.file {
        Some(ConfigFile::Path(path)) => match Machines::read(path) {
            Ok(_) => Vec::new(),
            // It may be where the manager runs.
            Err(error) => vec![Finding::odd(format!("not checked: {error}"))],
        },
        _ => vec![Finding::wrong(
            "--cloud-config: the file with the machines is missing",
        )],
    },
    migrate: |_, _| Ok(Map::new()),
    match_node: |node| NodeMatch::by_scheme(PROVIDER, node),
    build: |context| Box::pin(async move { make(context) }),
};

fn make(context: &ProviderContext) -> Result<Arc<dyn Cloud>, BuildError> {
    let Some(ConfigFile::Path(path)) = context.input.file.clone() else {
        let missing = Finding::wrong("--cloud-config: the file with the machines is missing");
        return Err(BuildError::Settings(vec![missing]));
    };
    let machines = Followed::begin(path).map_err(|error| BuildError::NotYet(error.into()))?;
    Ok(Arc::new(Static {
        name: context.name.clone(),
        machines,
        clock: context.clock.clone(),
    }))
}
