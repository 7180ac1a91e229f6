//! What scenarios run in: a type of their own around a [`CloudHarness`](crate::cloud_harness::CloudHarness) or around another harness.

/// Gives a type all that the harness in one of its fields has, and the same end.
#[macro_export]
macro_rules! harness {
    ($name:ty, $field:tt: $inner:ty) => {
        $crate::wrapper!($name, $field: $inner);

        impl $name {
            /// Stops the manager, which must have been refused nothing.
            pub(crate) async fn end(self) {
                self.$field.end().await;
            }
        }
    };
}

/// Gives a type all that one of its fields has.
#[macro_export]
macro_rules! wrapper {
    ($name:ty, $field:tt: $inner:ty $(, $parameter:ident)?) => {
        impl$(<$parameter>)? ::std::ops::Deref for $name {
            type Target = $inner;

            fn deref(&self) -> &$inner {
                &self.$field
            }
        }

        impl$(<$parameter>)? ::std::ops::DerefMut for $name {
            fn deref_mut(&mut self) -> &mut $inner {
                &mut self.$field
            }
        }
    };
}
