//! Clouds for tests, of which each test says only what it is about.

use std::sync::LazyLock;

use bowline_core::CloudName;

/// The name of all of them.
pub(crate) static DEMO: LazyLock<CloudName> = LazyLock::new(|| CloudName::parse("demo").unwrap());

/// Makes a type a cloud to which all nodes belong, with these methods besides.
macro_rules! test_cloud {
    ($cloud:ty { $($method:tt)* }) => {
        impl bowline_core::Cloud for $cloud {
            fn name(&self) -> &bowline_core::CloudName {
                &crate::clouds::test_cloud::DEMO
            }

            fn provider(&self) -> &'static str {
                "demo"
            }

            fn match_node(&self, _: &bowline_core::Node) -> bowline_core::NodeMatch {
                bowline_core::Claim::Mine.into()
            }

            $($method)*
        }
    };
}
pub(crate) use test_cloud;
