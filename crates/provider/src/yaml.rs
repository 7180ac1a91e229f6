//! Cloud configs in YAML.

use serde::de::DeserializeOwned;

/// The first document of a text; none: there is none, or it is empty. Errors come without an excerpt,
/// which might hold a secret.
pub fn first_document<T: DeserializeOwned>(text: &str) -> Result<Option<T>, serde_saphyr::Error> {
    let mut bytes = text.as_bytes();
    let options = serde_saphyr::options! { with_snippet: false };
    let mut documents = serde_saphyr::read_with_options::<_, Option<T>>(&mut bytes, options);
    Ok(documents.next().transpose()?.flatten())
}

/// The error in one line.
pub fn first_line(error: &serde_saphyr::Error) -> String {
    let text = error.to_string();
    text.lines().next().unwrap_or_default().trim().to_owned()
}
