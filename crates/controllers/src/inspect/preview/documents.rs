//! Services in files: a stream of YAML documents, or a `List`, the way people keep them.

use bowline_core::ServiceKey;
use serde_json::Value;

/// A Service of a file.
#[derive(Clone, Debug, PartialEq)]
pub struct Document {
    /// The file, for messages.
    pub file: String,
    /// Its namespace and name.
    pub key: ServiceKey,
    pub object: Value,
}

/// Why a file cannot be used.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum DocumentError {
    /// It is not YAML.
    #[error("{file} is not YAML: {message}")]
    Yaml {
        file: String,
        /// Where and why.
        message: String,
    },
    /// There is no Service in it.
    #[error("{file}: there is no Service in it")]
    Empty { file: String },
    /// A Service has no name.
    #[error("{file}: a Service has no metadata.name")]
    Nameless { file: String },
}

/// The Services in the text of a file; what else is in it is left out. Those without a namespace
/// belong to `namespace`.
pub fn documents(file: &str, text: &str, namespace: &str) -> Result<Vec<Document>, DocumentError> {
    let options = serde_saphyr::options! { strict_booleans: true };
    let all: Vec<Value> =
        serde_saphyr::from_multiple_with_options(text, options).map_err(|error| {
            DocumentError::Yaml {
                file: file.to_owned(),
                message: error.without_snippet().to_string().trim_end().to_owned(),
            }
        })?;
    let objects = all.into_iter().flat_map(unfold);
    let services = objects.filter(|it| it["kind"] == "Service" && it["apiVersion"] == "v1");
    let mut found = Vec::new();
    for mut object in services {
        let metadata = &mut object["metadata"];
        let Some(name) = metadata["name"].as_str().map(str::to_owned) else {
            let file = file.to_owned();
            return Err(DocumentError::Nameless { file });
        };
        let namespace = metadata["namespace"]
            .as_str()
            .unwrap_or(namespace)
            .to_owned();
        metadata["namespace"] = namespace.clone().into();
        found.push(Document {
            file: file.to_owned(),
            key: ServiceKey { namespace, name },
            object,
        });
    }
    if found.is_empty() {
        let file = file.to_owned();
        return Err(DocumentError::Empty { file });
    }
    Ok(found)
}

/// The objects of a `List`, or the one.
fn unfold(document: Value) -> Vec<Value> {
    match document {
        Value::Object(mut map) if map.get("kind").is_some_and(|kind| kind == "List") => {
            match map.remove("items") {
                Some(Value::Array(items)) => items,
                _ => Vec::new(),
            }
        }
        other => vec![other],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(text: &str) -> Result<Vec<String>, DocumentError> {
        let found = documents("web.yaml", text, "here")?;
        Ok(found.iter().map(|it| it.key.to_string()).collect())
    }

    #[test]
    fn services_are_found_among_other_objects_and_in_lists() {
        let text = "---\napiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web}\n---\n---\n\
                    apiVersion: v1\nkind: Service\nmetadata: {name: web}\nspec: {}\n---\n\
                    apiVersion: v1\nkind: List\nitems:\n- apiVersion: v1\n  kind: Service\n  \
                    metadata: {name: dns, namespace: there}\n- apiVersion: serving.knative.dev/v1\n  \
                    kind: Service\n  metadata: {name: other}\n";
        assert_eq!(keys(text).unwrap(), ["here/web", "there/dns"]);
    }

    #[test]
    fn a_file_that_is_of_no_use_is_named() {
        for (text, message) in [
            ("", "web.yaml: there is no Service in it"),
            ("kind: Pod", "web.yaml: there is no Service in it"),
            (
                "apiVersion: v1\nkind: Service\n",
                "web.yaml: a Service has no metadata.name",
            ),
            ("a: [", "web.yaml is not YAML: "),
        ] {
            let error = keys(text).unwrap_err().to_string();
            assert!(error.starts_with(message), "{error}");
        }
    }
}
