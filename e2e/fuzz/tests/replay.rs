//! Every input that is kept is read again: those that found something once, and those that a person wrote.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may")]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use bowline_fuzz::{TARGETS, target};

/// Inputs are small, so that people can read them and `git` need not forget them.
const MOST_INPUTS: usize = 80;
const LARGEST_INPUT: usize = 16 * 1024;
const LARGEST_CORPUS: usize = 200 * 1024;

fn corpus() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus")
}

/// The names in a folder, in their order.
fn names(folder: &Path) -> BTreeSet<String> {
    let entries = std::fs::read_dir(folder).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names.collect()
}

fn replay(name: &str) {
    let folder = corpus().join(name);
    let inputs = names(&folder);
    assert!(!inputs.is_empty(), "there is no input in corpus/{name}");
    assert!(
        inputs.len() <= MOST_INPUTS,
        "{} inputs: minimise them",
        inputs.len()
    );
    let mut size = 0;
    for input in inputs {
        let bytes = std::fs::read(folder.join(&input)).unwrap();
        assert!(bytes.len() <= LARGEST_INPUT, "{input} is too large");
        size += bytes.len();
        let run = std::panic::AssertUnwindSafe(|| (target(name).run)(&bytes));
        let ended = std::panic::catch_unwind(run);
        assert!(ended.is_ok(), "corpus/{name}/{input}: see above");
    }
    assert!(size <= LARGEST_CORPUS, "corpus/{name} has {size} bytes");
}

/// One test for each target.
macro_rules! targets {
    ($($name:ident)*) => {
        $(
            #[test]
            fn $name() {
                replay(stringify!($name));
            }
        )*

        const REPLAYED: &[&str] = &[$(stringify!($name)),*];
    };
}

targets! {
    annotations
    cloudscale
    configuration
    csr
    exoscale
    grpc
    kubeconfig
    node
    patterns
    provider_ids
    service
    sse
    ssh_keys
    talos
    talosconfig
    templates
    triton
    watch
    xenorchestra
}

#[test]
fn every_target_has_a_program_a_corpus_and_a_test() {
    let targets: BTreeSet<String> = TARGETS.iter().map(|it| it.name.to_owned()).collect();
    let replayed: BTreeSet<String> = REPLAYED.iter().map(ToString::to_string).collect();
    assert_eq!(targets, replayed);
    assert_eq!(targets, names(&corpus()));
    let programs = names(&corpus().join("../fuzz/fuzz_targets"));
    let programs: BTreeSet<String> = programs.iter().map(|it| it.replace(".rs", "")).collect();
    assert_eq!(targets, programs);
}
