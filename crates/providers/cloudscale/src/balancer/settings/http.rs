//! The http options of health monitors.

use serde_json::Value;

use super::read::object;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct HttpOptions {
    pub(crate) expected_codes: Vec<String>,
    pub(crate) method: String,
    pub(crate) url_path: String,
    pub(crate) version: String,
    pub(crate) host: Option<String>,
}

impl Default for HttpOptions {
    /// The API's own defaults.
    fn default() -> Self {
        Self {
            expected_codes: vec!["200".to_owned()],
            method: "GET".to_owned(),
            url_path: "/".to_owned(),
            version: "1.1".to_owned(),
            host: None,
        }
    }
}

impl HttpOptions {
    /// What is asked of a node that serves only what runs on it.
    pub(crate) fn local() -> Self {
        Self {
            url_path: "/livez".to_owned(),
            version: "1.0".to_owned(),
            ..Self::default()
        }
    }
}

const METHODS: [&str; 9] = [
    "CONNECT", "DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT", "TRACE",
];

/// Reads the annotation; none means that it cannot be used.
pub(super) fn options(text: &str) -> Option<HttpOptions> {
    let fields = object(serde_json::from_str(text).ok()?)?;
    let word = |key: &str| match fields.get(key) {
        None | Some(Value::Null) => Some(String::new()),
        Some(Value::String(text)) => Some(text.clone()),
        Some(_) => None,
    };
    let or = |text: String, default: String| if text.is_empty() { default } else { text };
    let default = HttpOptions::default();
    let codes = match fields.get("expected_codes") {
        None | Some(Value::Null) => Vec::new(),
        Some(Value::Array(codes)) => codes
            .iter()
            .map(|code| {
                code.as_str()
                    .filter(|code| is_code(code))
                    .map(str::to_owned)
            })
            .collect::<Option<Vec<_>>>()?,
        Some(_) => return None,
    };
    let options = HttpOptions {
        expected_codes: if codes.is_empty() {
            default.expected_codes
        } else {
            codes
        },
        method: or(word("method")?, default.method),
        url_path: or(word("url_path")?, default.url_path),
        version: or(word("version")?, default.version),
        host: Some(word("host")?).filter(|host| !host.is_empty()),
    };
    let usable = METHODS.contains(&options.method.as_str())
        && options.url_path.starts_with('/')
        && matches!(options.version.as_str(), "1.0" | "1.1")
        && (options.host.is_none() || options.version == "1.1");
    usable.then_some(options)
}

/// `200` or `200-204`.
fn is_code(text: &str) -> bool {
    let code = |text: &str| text.len() == 3 && text.bytes().all(|b| b.is_ascii_digit());
    match text.split_once('-') {
        None => code(text),
        Some((first, last)) => code(first) && code(last),
    }
}
