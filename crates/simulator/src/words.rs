//! Facts as rows: enumerations with the words that an API has for them, and tables.

/// An enumeration, each value with its word: `as_str` and `parse` follow.
#[macro_export]
macro_rules! words {
    (
        $(#[$about:meta])*
        pub enum $name:ident { $($(#[$doc:meta])* $value:ident = $word:literal,)* }
    ) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum $name { $($(#[$doc])* $value,)* }

        impl $name {
            /// As the API writes it.
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$value => $word,)* }
            }

            /// What the API writes so.
            pub fn parse(word: &str) -> Option<Self> {
                match word {
                    $($word => Some(Self::$value),)*
                    _ => None,
                }
            }
        }
    };
}

/// An array of tuples, one a line: `"a", 1; "b", 2;`.
#[macro_export]
macro_rules! table {
    ($($($cell:expr),+;)*) => {
        [$(($($cell),+)),*]
    };
}
