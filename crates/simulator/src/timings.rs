//! How long things take in a simulated cloud, and the part of a fixture that says so.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::faults::Span;

/// A duration, or several, that a fixture gives in lengths of the type `S`.
pub trait Timed<S> {
    /// As the fixture gives it; what is left out stays as it was.
    type Spec;

    #[must_use]
    fn or_as(self, spec: &Self::Spec) -> Self;
}

impl<S: Copy + Into<Self>> Timed<S> for Duration {
    type Spec = Option<S>;

    fn or_as(self, spec: &Option<S>) -> Self {
        spec.map_or(self, Into::into)
    }
}

impl<S: Copy + Into<Duration>> Timed<S> for BTreeMap<String, Duration> {
    type Spec = BTreeMap<String, S>;

    fn or_as(mut self, spec: &BTreeMap<String, S>) -> Self {
        let given = spec.iter();
        self.extend(given.map(|(name, length)| (name.clone(), (*length).into())));
        self
    }
}

impl From<Span> for Duration {
    fn from(span: Span) -> Self {
        span.least
    }
}

/// Durations with their defaults, and as a fixture gives some of them, such as `2s` or `500ms`.
#[macro_export]
macro_rules! timings {
    (
        $(#[$about:meta])*
        pub struct $timings:ident, $spec:ident: $length:ty {
            $($(#[$doc:meta])* $field:ident: $kind:ty = $default:expr,)*
        }
    ) => {
        $(#[$about])*
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub struct $timings { $($(#[$doc])* pub $field: $kind,)* }

        impl Default for $timings {
            fn default() -> Self {
                Self { $($field: $default,)* }
            }
        }

        /// Durations of the fixture.
        #[derive(Clone, Debug, Default, serde::Deserialize)]
        #[serde(deny_unknown_fields, default)]
        pub struct $spec {
            $(pub $field: <$kind as $crate::timings::Timed<$length>>::Spec,)*
        }

        impl $crate::timings::Timed<$length> for $timings {
            type Spec = $spec;

            fn or_as(self, spec: &$spec) -> Self {
                Self {
                    $($field: <$kind as $crate::timings::Timed<$length>>::or_as(
                        self.$field,
                        &spec.$field,
                    ),)*
                }
            }
        }
    };
}
