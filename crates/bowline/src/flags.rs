//! The flags of the program: the framework's, and those that single clouds have of their own.

use std::sync::LazyLock;

use bowline_controllers::options::{Flag, Table};

use crate::providers::PROVIDERS;

/// Flags of single clouds.
static OWN: LazyLock<Vec<Flag>> = LazyLock::new(|| {
    let own = |kind: &&'static bowline_provider::ProviderKind| {
        let flags = (kind.flags)().into_iter();
        flags.map(|it| Flag::own(kind.title, it.name, it.is_switch, it.meaning))
    };
    PROVIDERS.iter().flat_map(own).collect()
});

/// All flags.
pub(crate) fn table() -> Table {
    Table::with(&OWN)
}

/// Takes flags of single clouds out of a command line: they, and the rest.
pub(crate) fn split(arguments: &[String]) -> (Vec<String>, Vec<String>) {
    let (mut own, mut rest) = (Vec::new(), Vec::new());
    let mut arguments = arguments.iter();
    while let Some(argument) = arguments.next() {
        let name = argument.strip_prefix("--").unwrap_or_default();
        let (name, has_value) = match name.split_once('=') {
            Some((name, _)) => (name, true),
            None => (name, false),
        };
        let name = name.replace('_', "-");
        let Some(flag) = OWN.iter().find(|flag| flag.name == name) else {
            rest.push(argument.clone());
            continue;
        };
        own.push(argument.clone());
        if !has_value && !flag.kind.stands_alone() {
            own.extend(arguments.next().cloned());
        }
    }
    (own, rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_of_single_clouds_are_taken_out_with_their_values() {
        let line = "plan --all --triton-account acme -f x --triton_endpoint=http://x \
                    --triton-tls-insecure web/shop";
        let line: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        let (own, rest) = split(&line);
        assert_eq!(
            own.join(" "),
            "--triton-account acme --triton_endpoint=http://x --triton-tls-insecure"
        );
        assert_eq!(rest.join(" "), "plan --all -f x web/shop");
    }
}
