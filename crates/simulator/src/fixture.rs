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
        path: PathBuf,
        source: std::io::Error,
    },
    /// The file is too large.
    #[error("the fixture {path} is larger than {MOST_BYTES} bytes", path = path.display())]
    TooLarge { path: PathBuf },
    /// The text is not what is expected: where, and what is allowed.
    #[error("the fixture {name} is wrong: {message}")]
    Parse {
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

/// Builder methods, one a line; with the function that begins a specification, or without.
#[macro_export]
macro_rules! setters {
    (
        $(#[$about:meta])*
        $spec:ident::$begin:ident($($first:ident: $of:ty),*) |$made:ident| $start:expr;
        $($rest:tt)*
    ) => {
        impl $spec {
            $(#[$about])*
            pub fn $begin($($first: $of),*) -> Self {
                let mut spec = Self::default();
                let $made = &mut spec;
                $start;
                spec
            }
        }
        $crate::setters! { $spec: $($rest)* }
    };
    (
        $spec:ident:
        $($(#[$doc:meta])* $name:ident($($given:ident: $kind:ty),*) |$it:ident| $set:expr;)*
    ) => {
        impl $spec { $(
            $(#[$doc])*
            #[must_use]
            pub fn $name(mut self, $($given: $kind),*) -> Self {
                let $it = &mut self;
                $set;
                self
            }
        )* }
    };
}
