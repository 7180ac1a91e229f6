//! Fixture files: YAML, read strictly, with errors that say where and what is allowed.

use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;

/// Bytes of a fixture file: 2,000 machines written out in full are below 1 MiB.
const MOST_BYTES: u64 = 16 * 1024 * 1024;

/// Why a fixture could not be used.
#[derive(Debug, thiserror::Error)]
pub enum FixtureError {
    /// The file cannot be read.
    #[error("cannot read the fixture {path}", path = path.display())]
    Read {
        /// Which.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// The file is too large.
    #[error("the fixture {path} is larger than {MOST_BYTES} bytes", path = path.display())]
    TooLarge {
        /// Which.
        path: PathBuf,
    },
    /// The text is not what is expected: where, and what is allowed.
    #[error("the fixture {name} is wrong: {message}")]
    Parse {
        /// Which.
        name: String,
        /// Line, column, key and what is allowed.
        message: String,
    },
    /// The text is well formed, but its content cannot be.
    #[error("the fixture cannot be set up: {0}")]
    Content(String),
}

/// Reads a fixture file.
pub fn read<T: DeserializeOwned + Default>(path: &Path) -> Result<T, FixtureError> {
    parse(&path.display().to_string(), &text(path)?)
}

/// The text of a fixture file.
pub fn text(path: &Path) -> Result<String, FixtureError> {
    let failed = |source| FixtureError::Read {
        path: path.to_owned(),
        source,
    };
    if std::fs::metadata(path).map_err(failed)?.len() > MOST_BYTES {
        let path = path.to_owned();
        return Err(FixtureError::TooLarge { path });
    }
    std::fs::read_to_string(path).map_err(failed)
}

/// Parses the text of a fixture; `name` is for messages. An empty text is an empty fixture.
pub fn parse<T: DeserializeOwned + Default>(name: &str, text: &str) -> Result<T, FixtureError> {
    let blank = |line: &str| line.trim().is_empty() || line.trim_start().starts_with('#');
    if text.lines().all(blank) {
        return Ok(T::default());
    }
    serde_saphyr::from_str(text).map_err(|error| FixtureError::Parse {
        name: name.to_owned(),
        message: error.without_snippet().to_string().trim_end().to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::World;
    use crate::cloudscale::{Cloudscale, Fixture, Status};

    /// The example of the documentation.
    fn documented() -> &'static str {
        let page = include_str!("../../../docs/simulators.md");
        let start = page.find("```yaml\n").unwrap() + "```yaml\n".len();
        let length = page[start..].find("```").unwrap();
        &page[start..start + length]
    }

    #[tokio::test]
    async fn the_documented_fixture_is_what_it_says() {
        let scene: Fixture = parse("docs", documented()).unwrap();
        let world = World::simulated(1);
        let cloud = Cloudscale::from_fixture(&world, scene).unwrap();
        let servers = cloud.servers();
        assert_eq!(servers.len(), 2 + 20);
        assert_eq!(servers[0].name, "worker-a");
        assert!(
            servers[0]
                .addresses
                .contains(&"10.20.0.11".parse().unwrap())
        );
        assert_eq!(servers[1].status, Status::Stopped);
        assert_eq!(world.faults.rules().len(), 2);
        let balancers = cloud.balancers();
        assert_eq!(balancers[0].pools[0].members[0].name, "10.20.0.11:31080");
        assert_eq!(balancers[0].loose_listeners.len(), 1);
    }

    #[test]
    fn an_empty_fixture_is_an_empty_cloud() {
        for text in ["", "\n", "# nothing\n"] {
            let scene: Fixture = parse("empty", text).unwrap();
            assert!(scene.machines.is_empty());
        }
    }

    #[test]
    fn a_mistake_is_named_with_its_place_and_what_is_allowed() {
        for (text, fragments) in [
            (
                "machnies: []",
                vec!["line 1", "column 1", "machnies", "machines", "networks"],
            ),
            (
                "machines:\n  - name: a\n    flavour: b\n",
                vec!["line 3", "column 5", "flavour", "flavor"],
            ),
            (
                "timings:\n  create: soon\n",
                vec!["line 2", "soon", "length of time"],
            ),
            (
                "timings:\n  create: 1s..2s\n",
                vec!["line 2", "not a range"],
            ),
            ("tokens:\n  - project: x\n", vec!["value"]),
            (
                "networks:\n  - name: n\n    subnets: [{cidr: nonsense}]\n",
                vec!["line 3"],
            ),
            ("machines: 7", vec!["line 1"]),
            (
                "faults:\n  - action: reset\n    tmies: 1\n",
                vec!["line 3", "tmies", "times"],
            ),
        ] {
            let message = parse::<Fixture>("cloud.yaml", text)
                .unwrap_err()
                .to_string();
            for fragment in fragments {
                assert!(
                    message.contains(fragment),
                    "{message}\nshould contain {fragment}"
                );
            }
            assert!(
                message.starts_with("the fixture cloud.yaml is wrong: "),
                "{message}"
            );
        }
    }

    #[test]
    fn the_message_of_a_mistake_reads_well() {
        let message = parse::<Fixture>("cloud.yaml", "machnies: []")
            .unwrap_err()
            .to_string();
        assert_eq!(
            message,
            "the fixture cloud.yaml is wrong: unknown field `machnies`, expected one of tokens, \
             timings, quirks, public_url, networks, machines, load_balancers, floating_ips, faults \
             at line 1, column 1"
        );
    }
}
