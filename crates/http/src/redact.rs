//! Keeps secrets out of logs, errors and metrics: by name (headers, query parameters, JSON keys),
//! by place (user names and passwords in URLs) and by value (every registered [`Secret`]).

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bowline_core::Secret;
use http::HeaderMap;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::Value;

use crate::route::SEGMENT;

/// What replaces a secret.
pub const HIDDEN: &str = "[secret]";
/// How much of a body that is not understood goes into an error.
pub const BODY_EXCERPT: usize = 300;
/// How much of a page's title goes there.
const TITLE_EXCERPT: usize = 80;
/// How much of a body is looked at to make the excerpt: far more than it can show.
const BODY_EXAMINED: usize = 256 * 1024;
/// Forms of secrets remembered. A token renewed every hour leaves about six forms each time, so
/// this is a month of old tokens; the oldest are forgotten first.
const REMEMBERED: usize = 4096;
/// A name that contains one of these (ignoring case, `-` and `_`) names a secret.
const SECRET_NAMES: [&str; 14] = [
    "token",
    "secret",
    "password",
    "passwd",
    "passphrase",
    "apikey",
    "accesskey",
    "authorization",
    "cookie",
    "credential",
    "privatekey",
    "signature",
    "sessionid",
    "xauth",
];
/// Headers that are shown. The list is of what may be seen, since nobody knows all that may not.
const OPEN_HEADERS: [&str; 12] = [
    "accept",
    "api-version",
    "content-length",
    "content-type",
    "date",
    "host",
    "location",
    "request-id",
    "retry-after",
    "server",
    "user-agent",
    "x-request-id",
];

/// Whether something of that name is to be hidden.
fn names_a_secret(name: &str) -> bool {
    let plain: String = name
        .chars()
        .filter(|c| !matches!(c, '-' | '_'))
        .map(|c| c.to_ascii_lowercase())
        .collect();
    plain == "otp" || plain == "auth" || SECRET_NAMES.iter().any(|part| plain.contains(part))
}

/// Replaces secrets in texts. Clones share what they know.
#[derive(Clone, Default)]
pub struct Redactor(Arc<RwLock<VecDeque<String>>>);

impl fmt::Debug for Redactor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Redactor")
    }
}

impl Redactor {
    /// From now on this value is hidden wherever it appears, plain or in a usual encoding.
    pub fn register(&self, secret: &Secret) {
        let mut known = self.0.write().unwrap_or_else(PoisonError::into_inner);
        for form in forms(secret.reveal()) {
            if !known.contains(&form) {
                known.push_back(form);
            }
        }
        while known.len() > REMEMBERED {
            known.pop_front();
        }
    }

    /// The text without registered values, credentials in URLs, and secret query parameters.
    pub fn text(&self, text: &str) -> String {
        let text = self.values(text);
        hide_query(&hide_userinfo(&text))
    }

    /// A body for people: at most [`BODY_EXCERPT`] bytes, nothing secret in it. Of a page, as a proxy in between sends
    /// it, only the title and the length: its tags help nobody.
    pub fn body(&self, body: &[u8]) -> String {
        match page_title(body) {
            Some(title) => {
                let title = hide_pairs(&self.values(&title));
                let title = excerpt(&self.text(&title), TITLE_EXCERPT);
                let titled = match title.as_str() {
                    "" => String::new(),
                    title => format!(" titled {title:?}"),
                };
                format!("a page of {} bytes{titled}", body.len())
            }
            None => self.body_up_to(body, BODY_EXCERPT),
        }
    }

    /// The same with another length.
    pub(crate) fn body_up_to(&self, body: &[u8], length: usize) -> String {
        let body = &body[..body.len().min(BODY_EXAMINED)];
        let clean = match serde_json::from_slice::<Value>(body) {
            Ok(mut value) => {
                hide_keys(&mut value);
                value.to_string()
            }
            Err(_) => hide_pairs(&self.values(&String::from_utf8_lossy(body))),
        };
        excerpt(&self.text(&clean), length)
    }

    /// Headers for people.
    pub fn headers<'a>(&'a self, headers: &'a HeaderMap) -> impl fmt::Debug + 'a {
        ShownHeaders(self, headers)
    }

    fn values(&self, text: &str) -> String {
        let known = self.0.read().unwrap_or_else(PoisonError::into_inner);
        let mut present: Vec<&String> = known.iter().filter(|form| text.contains(*form)).collect();
        // The longest first: one secret may be a part of another.
        present.sort_by_key(|form| std::cmp::Reverse(form.len()));
        let mut text = text.to_owned();
        for form in present {
            text = text.replace(form.as_str(), HIDDEN);
        }
        text
    }
}

struct ShownHeaders<'a>(&'a Redactor, &'a HeaderMap);

impl fmt::Debug for ShownHeaders<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = self.1.iter().map(|(name, value)| {
            let open = OPEN_HEADERS.contains(&name.as_str()) && !value.is_sensitive();
            let value = match value.to_str() {
                Ok(text) if open => self.0.text(text),
                _ => HIDDEN.to_owned(),
            };
            (name.as_str(), value)
        });
        f.debug_map().entries(shown).finish()
    }
}

/// The ways in which a value is usually written.
fn forms(value: &str) -> Vec<String> {
    let value = value.trim();
    if value.is_empty() {
        return Vec::new();
    }
    let unquoted = |quoted: String| quoted[1..quoted.len() - 1].to_owned();
    let escaped = utf8_percent_encode(value, NON_ALPHANUMERIC).to_string();
    let segment = utf8_percent_encode(value, SEGMENT).to_string();
    let form: String = url::form_urlencoded::byte_serialize(value.as_bytes()).collect();
    let mut forms = vec![
        value.to_owned(),
        unquoted(Value::from(value).to_string()),
        unquoted(format!("{value:?}")),
        lower_escapes(&escaped),
        lower_escapes(&segment),
        lower_escapes(&form),
        escaped,
        segment,
        form,
        STANDARD.encode(value),
    ];
    forms.sort();
    forms.dedup();
    forms
}

/// `%2F` → `%2f`: both are correct, and servers write either.
fn lower_escapes(text: &str) -> String {
    let mut in_escape = 0;
    let lower = |c: char| {
        in_escape = if c == '%' { 3_u8 } else { in_escape };
        let escaped = in_escape > 0;
        in_escape = in_escape.saturating_sub(1);
        if escaped { c.to_ascii_lowercase() } else { c }
    };
    text.chars().map(lower).collect()
}

fn hide_keys(value: &mut Value) {
    match value {
        Value::Object(map) => {
            for (key, value) in map.iter_mut() {
                // An object under a secret name (`"error": {"token": {"message": …}}`) is hidden
                // too: what lies in it is not known.
                if names_a_secret(key) && !matches!(value, Value::Null | Value::Bool(_)) {
                    *value = Value::from(HIDDEN);
                } else {
                    hide_keys(value);
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(hide_keys),
        _ => {}
    }
}

/// `scheme://user:password@host` → `scheme://[secret]@host`.
fn hide_userinfo(text: &str) -> String {
    let mut clean = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find("://") {
        let (before, after) = rest.split_at(at + 3);
        clean.push_str(before);
        let end = after
            .find(|c: char| {
                matches!(c, '/' | '?' | '#' | '"' | '\'' | '<' | '>') || c.is_whitespace()
            })
            .unwrap_or(after.len());
        let (authority, remains) = after.split_at(end);
        match authority.rsplit_once('@') {
            Some((_, host)) => {
                clean.push_str(HIDDEN);
                clean.push('@');
                clean.push_str(host);
            }
            None => clean.push_str(authority),
        }
        rest = remains;
    }
    clean.push_str(rest);
    clean
}

/// `?token=x&a=b` → `?token=[secret]&a=b`.
fn hide_query(text: &str) -> String {
    let mut clean = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(['?', '&']) {
        let (before, after) = rest.split_at(at + 1);
        clean.push_str(before);
        let end = after
            .find(|c: char| {
                matches!(c, '&' | '?' | '#' | '"' | '\'' | '<' | '>') || c.is_whitespace()
            })
            .unwrap_or(after.len());
        let (pair, remains) = after.split_at(end);
        match pair.split_once('=') {
            Some((name, _)) if names_a_secret(name) => {
                clean.push_str(name);
                clean.push('=');
                clean.push_str(HIDDEN);
            }
            _ => clean.push_str(pair),
        }
        rest = remains;
    }
    clean.push_str(rest);
    clean
}

/// In text that is not JSON (cut off JSON, HTML, header dumps): what follows `name:` or `name=`,
/// up to the closing quote or the end of the line.
fn hide_pairs(text: &str) -> String {
    let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
    let mut clean = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(start) = rest.find(is_name) {
        clean.push_str(&rest[..start]);
        let word = &rest[start..];
        let end = word.find(|c| !is_name(c)).unwrap_or(word.len());
        let (name, after) = word.split_at(end);
        clean.push_str(name);
        rest = after;
        let Some(value) = names_a_secret(name).then(|| value_start(after)).flatten() else {
            continue;
        };
        let (separator, value) = after.split_at(value);
        clean.push_str(separator);
        clean.push_str(HIDDEN);
        rest = &value[value_length(separator, value)..];
    }
    clean.push_str(rest);
    clean
}

/// Where the value begins in `": "…`, `=…` and the like; none if no value follows.
fn value_start(after: &str) -> Option<usize> {
    let quoted = after.strip_prefix(['"', '\'']).unwrap_or(after);
    let spaced = quoted.trim_start();
    let value = spaced
        .strip_prefix([':', '='])?
        .trim_start_matches([' ', '\t']);
    let value = value.strip_prefix(['"', '\'']).unwrap_or(value);
    Some(after.len() - value.len())
}

fn value_length(separator: &str, value: &str) -> usize {
    // Where a list or an object ends is not known in text that does not parse: all of it goes.
    if value.starts_with(['{', '[']) {
        return value.len();
    }
    let quote = separator
        .chars()
        .next_back()
        .filter(|c| matches!(c, '"' | '\''));
    let mut escaped = false;
    let end = value.find(|c: char| {
        let ends = match quote {
            Some(quote) => c == quote && !escaped,
            None => matches!(c, '\n' | '\r' | '"' | '<' | '&'),
        };
        escaped = c == '\\' && !escaped;
        ends
    });
    end.unwrap_or(value.len())
}

/// The beginning of a text, cut between characters.
/// The title of a page in HTML or XML, empty if it has none; none if the body is no page.
fn page_title(body: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(&body[..body.len().min(BODY_EXAMINED)]);
    let text = text.trim_start_matches(|c: char| c.is_whitespace() || c == '\u{feff}');
    if !text.starts_with('<') {
        return None;
    }
    // Of the same length, so that places in one are places in the other.
    let lower = text.to_ascii_lowercase();
    let title = lower.find("<title").and_then(|tag| {
        let start = tag + lower[tag..].find('>')? + 1;
        let end = start + lower[start..].find("</")?;
        Some(&text[start..end])
    });
    let words: Vec<&str> = title.unwrap_or_default().split_whitespace().collect();
    Some(words.join(" "))
}

pub(crate) fn excerpt(text: &str, limit: usize) -> String {
    if text.len() <= limit {
        return text.to_owned();
    }
    let mut end = limit;
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    format!("{}…", &text[..end])
}

#[cfg(test)]
mod tests;
