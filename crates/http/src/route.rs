//! A path as a template and its parameters: the template labels metrics and errors, the parameters
//! name the object.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use thiserror::Error;

/// Everything but RFC 3986's unreserved characters is escaped in a path segment, and the colon: it
/// means nothing there, and addresses of IPv6 stay what they are.
pub(crate) const SEGMENT: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b':')
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~');

/// Why a path cannot be built. A request with such a path would go to another object.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum RouteError {
    /// A parameter of the template has no value.
    #[error("parameter {0} of the path has no value")]
    Missing(String),
    /// An empty value, `.` or `..` would change which object is meant.
    #[error("parameter {0} of the path is empty or dots")]
    Unusable(String),
}

/// A path template such as `v1/servers/:id`, and the values of its parameters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Route {
    template: &'static str,
    values: Vec<(&'static str, String)>,
}

impl Route {
    /// A template whose segments may be `:name`.
    pub fn new(template: &'static str) -> Self {
        Self {
            template: template.trim_start_matches('/'),
            values: Vec::new(),
        }
    }

    /// The value of one parameter; it becomes exactly one escaped segment.
    #[must_use]
    pub fn with(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.values.push((name, value.into()));
        self
    }

    /// The template, for labels.
    pub fn template(&self) -> &'static str {
        self.template
    }

    /// Template and values for people: `v1/servers/:id (id=7)`.
    pub(crate) fn describe(&self) -> String {
        if self.values.is_empty() {
            return self.template.to_owned();
        }
        let values: Vec<_> = self
            .values
            .iter()
            .map(|(name, value)| format!("{name}={value}"))
            .collect();
        format!("{} ({})", self.template, values.join(", "))
    }

    /// The path with all values in place, escaped.
    pub(crate) fn path(&self) -> Result<String, RouteError> {
        let segments: Result<Vec<String>, _> = self
            .template
            .split('/')
            .map(|segment| match segment.strip_prefix(':') {
                None => Ok(segment.to_owned()),
                Some(name) => self.segment(name),
            })
            .collect();
        Ok(segments?.join("/"))
    }

    fn segment(&self, name: &str) -> Result<String, RouteError> {
        let value = self.values.iter().find(|(given, _)| *given == name);
        let (_, value) = value.ok_or_else(|| RouteError::Missing(name.to_owned()))?;
        if matches!(value.as_str(), "" | "." | "..") {
            return Err(RouteError::Unusable(name.to_owned()));
        }
        Ok(utf8_percent_encode(value, SEGMENT).to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_one_segment_whatever_it_holds() {
        let route = Route::new("v1/pools/:pool/members/:id")
            .with("pool", "a b")
            .with("id", "../x?y#z%2F");
        assert_eq!(
            route.path().unwrap(),
            "v1/pools/a%20b/members/..%2Fx%3Fy%23z%252F"
        );
        assert_eq!(
            route.describe(),
            "v1/pools/:pool/members/:id (pool=a b, id=../x?y#z%2F)"
        );
    }

    #[test]
    fn an_address_stays_what_it_is() {
        let route = Route::new("v1/floating-ips/:ip").with("ip", "2001:db8::7");
        assert_eq!(route.path().unwrap(), "v1/floating-ips/2001:db8::7");
    }

    #[test]
    fn a_value_that_would_mean_another_object_is_refused() {
        for bad in ["", ".", ".."] {
            let route = Route::new("/v1/servers/:id").with("id", bad);
            assert_eq!(route.path(), Err(RouteError::Unusable("id".into())));
        }
        assert_eq!(
            Route::new("v1/servers/:id").path(),
            Err(RouteError::Missing("id".into()))
        );
    }
}
